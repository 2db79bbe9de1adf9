-- What specs of numerical ops share: comparing tensors, errors, and gradients against differences.

local assert = require "luassert"
local sft = require "sft"

local M = {}

M.f64 = {dtype = sft.float64}

-- Raises unless both have one shape and no element differs by more than tol (1e-12).
function M.close(a, b, tol)
  assert.same(a:size(), b:size())
  if a:numel() == 0 then return end
  assert.is_true((a - b):abs():max():item() <= (tol or 1e-12))
end

-- Raises unless fn(...) raises a text that contains `text`.
function M.fails(text, ...)
  local ok, err = pcall(...)
  assert.is_false(ok)
  assert.truthy(tostring(err):find(text, 1, true), tostring(err))
end

-- Random numbers whose gradient is wanted.
function M.leaf(...) return sft.randn(..., {dtype = sft.float64, requires_grad = true}) end

-- fn's gradients and their gradients agree with differences.
function M.check(fn, inputs)
  assert.is_true(sft.autograd.gradcheck(fn, inputs))
  assert.is_true(sft.autograd.gradgradcheck(fn, inputs))
end

return M
