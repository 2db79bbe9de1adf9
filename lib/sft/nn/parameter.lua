-- nn.Parameter: a tensor that a module registers when it is assigned to a field.

local sft = require "sft"
local args = require "sft.args"

local M = {}

local known = setmetatable({}, {__mode = "k"})

local signature = args.signature("Parameter", "data:tensor, requires_grad:bool=true")

-- nn.Parameter(data[, requires_grad = true]): a new leaf on the memory of `data`.
function M.new(...)
  local a = signature(...)
  local p = a.data:detach()
  if a.requires_grad then p:requires_grad_(true) end
  known[p] = true
  return p
end

function M.is(v)
  return known[v] == true
end

-- A parameter like `p` on memory of its own.
function M.clone(p)
  return M.new(sft.no_grad(function() return p:detach():clone() end), p.requires_grad)
end

return M
