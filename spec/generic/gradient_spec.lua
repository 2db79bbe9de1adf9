-- Gradients of every differentiable op in float64 against central differences, twice: the first
-- gradient, and the gradient of a projection of it. Backward with a transposed gradient and from
-- inputs in other layouts gives the same.

local sft = require "sft"
local S = require "spec.support.samples"
local walk = require "spec.generic.walk"

local floating = S.floating

local function unpack_shape(x)
  return table.unpack(x.shape)
end

-- Fixed weights for the sum over a result's elements.
local function weights(x, salt)
  local n = x:numel()
  local values = {}
  for i = 1, n do values[i] = ((i * 37 + salt * 11) % 23 - 11) / 16 + 0.03125 end
  local w = sft.tensor(values, {dtype = sft.float64})
  if x.ndim == 0 then return w:reshape({}) end
  return w:reshape(unpack_shape(x))
end

-- One number from the differentiable results of a call, and those results' count.
local function project(results)
  local total, n
  n = 0
  for i, x in ipairs(results) do
    if type(x) == "userdata" and floating[walk.dtype(x)] and x.requires_grad then
      n = n + 1
      local part = sft.sum(sft.mul(x:to(sft.float64), weights(x, i)))
      total = total and total + part or part
    end
  end
  return total, n
end

local function leaves(args)
  local list = {}
  for _, t in ipairs(args.tensors) do
    if t.requires_grad then list[#list + 1] = t end
  end
  return list
end

-- Central differences of fn() (a number) by every element of x, which is changed in place.
local function differences(x, fn)
  local out = {}
  local flat = x:detach():view(-1)
  for i = 1, flat:numel() do
    local cell = flat:narrow(1, i, 1)
    local h = 1e-5
    local old = cell:clone()
    cell:add_(h)
    local up = fn()
    cell:copy_(old)
    cell:sub_(h)
    local down = fn()
    cell:copy_(old)
    out[i] = (up - down) / (2 * h)
  end
  return out
end

local function compare(expected, grad, tol, what)
  local found = grad and walk.flat(grad) or {}
  for i, e in ipairs(expected) do
    local f = found[i] or 0
    if e ~= e or f ~= f or math.abs(e - f) > tol * math.max(1, math.abs(e)) then
      error(("%s: gradient element %d is %.10g, differences give %.10g"):format(what, i, f, e), 0)
    end
  end
end

-- Rows that write into their first argument in place get a copy that isn't a leaf.
local function caller(row)
  local fn = S.caller(row)
  if row.func or row.nn or row.method then return fn end
  return function(x, ...) return fn(x:mul(1), ...) end
end

local function wanted(row)
  return row.grad ~= "nondiff" and not row.mutates
end

describe("gradients", function()
  walk.each(it, "against central differences", wanted, function(row, sample, _, what)
    if sample.grad == false or sample.shape_only then return end
    local fn = caller(row)
    local args = S.build(sample, "float64", "contiguous", {grad = true})
    local list = leaves(args)
    if #list == 0 then return end
    if row.grad == "unwritten" then
      local ok, e = pcall(walk.call, fn, args)
      if ok then ok, e = pcall(function() project(walk.call(fn, args)):backward() end) end
      assert(not ok, what .. ": an error was expected, its gradient is not written")
      assert(walk.clean(e, what):find(row.name, 1, true), what .. ": the error names the op")
      return
    end
    local loss = project(walk.call(fn, args))
    if not loss then return end
    loss:backward()
    local tol = 2e-6 * (sample.grad_tol or 1)
    local numeric = {}
    for i, x in ipairs(list) do
      numeric[i] = differences(x, function()
        return sft.no_grad(function()
          local total = 0.0
          for k, r in ipairs(walk.call(fn, args)) do
            if type(r) == "userdata" and floating[walk.dtype(r)] then
              total = total + sft.sum(sft.mul(r:to(sft.float64), weights(r, k))):item()
            end
          end
          return total
        end)
      end)
      compare(numeric[i], x.grad, tol, ("%s, tensor %d"):format(what, i))
    end
    -- the same from other layouts
    if sample.layouts ~= false then
      for _, layout in ipairs {"transposed", "sliced"} do
        local other = S.build(sample, "float64", layout, {grad = true})
        project(walk.call(fn, other)):backward()
        for i, x in ipairs(leaves(other)) do
          compare(numeric[i], x.grad, tol, ("%s, tensor %d, %s"):format(what, i, layout))
        end
      end
    end
  end)
end)

describe("second gradients", function()
  walk.each(it, "against central differences", function(row) return wanted(row) and row.grad ~= "unwritten" end,
    function(row, sample, _, what)
      if sample.grad == false or sample.shape_only or sample.double == false then return end
      local fn = caller(row)
      local args = S.build(sample, "float64", "contiguous", {grad = true})
      local list = leaves(args)
      if #list == 0 then return end
      local function first(create)
        local loss = project(walk.call(fn, args))
        if not loss then return nil end
        return sft.autograd.grad(loss, list, {create_graph = create, allow_unused = true})
      end
      local function projection(grads)
        local total
        for i, g in pairs(grads) do
          if type(g) == "userdata" then
            local part = sft.sum(sft.mul(g, weights(g, i + 5)))
            total = total and total + part or part
          end
        end
        return total
      end
      local ok, grads = pcall(first, true)
      if not ok then
        -- a fused backward may say that it has no second gradient
        assert(walk.clean(grads, what):find("grad", 1, true), what .. ": " .. tostring(grads))
        return
      end
      if type(grads) == "userdata" then grads = {grads} end
      local total = grads and projection(grads)
      if not total or not total.requires_grad then return end
      local done, second = pcall(sft.autograd.grad, total, list, {allow_unused = true})
      if not done then
        walk.clean(second, what)
        assert(tostring(second):find("gradient", 1, true) or tostring(second):find("differentiable", 1, true),
          what .. ": " .. tostring(second))
        return
      end
      if type(second) == "userdata" then second = {second} end
      for i, x in ipairs(list) do
        local numeric = differences(x, function()
          local g = first(false)
          if type(g) == "userdata" then g = {g} end
          return projection(g):item()
        end)
        compare(numeric, second[i] or nil, 1e-5 * (sample.grad_tol or 1), ("%s, tensor %d"):format(what, i))
      end
    end)
end)
