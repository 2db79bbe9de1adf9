-- nn.utils: gradient clipping, and a model's parameters as one vector. After torch.nn.utils.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"

local fail = args.fail
local M = {}

-- A list of tensors (or one), as a plain list of those tensors, with names where they are known.
local function as_list(fname, parameters)
  if sft.is_tensor(parameters) then return {parameters}, {} end
  if module.is_module(parameters) then
    local list, names = {}, {}
    for name, p in pairs(parameters:named_parameters()) do
      list[#list + 1] = p
      names[#list] = name
    end
    return list, names
  end
  if type(parameters) ~= "table" then
    fail("%s: a list of parameters or a module is expected, got %s", fname, args.kind(parameters))
  end
  local list, names = {}, {}
  for k, v in pairs(parameters) do
    if not sft.is_tensor(v) then
      fail("%s: parameters[%s] must be a Tensor, got %s", fname, tostring(k), args.kind(v))
    end
    list[#list + 1] = v
    if type(k) == "string" then names[#list] = k end
  end
  return list, names
end

local clip_signature = args.signature("clip_grad_norm_", "parameters, max_norm:num, norm_type:num=2.0, "
  .. "error_if_nonfinite:bool=false")

local function clip(a, list, names)
  local grads, owner = {}, {}
  for i, p in ipairs(list) do
    local g = p.grad
    if g and g:numel() > 0 then
      grads[#grads + 1] = g
      owner[#grads] = names[i] or ("parameters[%d]"):format(i)
    end
  end
  if #grads == 0 then return sft.zeros({}) end
  local norm = sft._global_norm(grads, a.norm_type)
  if a.error_if_nonfinite then
    local v = norm:item()
    if v ~= v or v == math.huge then
      for i, g in ipairs(grads) do
        if not g:isfinite():all():item() then
          fail("clip_grad_norm_: the norm of the gradients is %s; the first with a bad value is that of %s", v,
            owner[i])
        end
      end
      fail("clip_grad_norm_: the norm of the gradients is %s", v)
    end
  end
  local factor = (a.max_norm / (norm + 1e-6)):clamp {max = 1}
  sft._scale_(grads, factor)
  return norm
end

-- Scales the gradients so that their norm, taken over all of them as one vector, is at most
-- max_norm. Returns the norm before, as a tensor: nothing waits for the device.
function M.clip_grad_norm_(...)
  local a = clip_signature(...)
  local list, names = as_list("clip_grad_norm_", a.parameters)
  if #list == 0 then fail("clip_grad_norm_: there are no parameters") end
  if a.max_norm < 0 or a.max_norm ~= a.max_norm then
    fail("clip_grad_norm_: max_norm must not be negative, got %g", a.max_norm)
  end
  if a.norm_type <= 0 or a.norm_type ~= a.norm_type then
    fail("clip_grad_norm_: norm_type must be positive, got %g", a.norm_type)
  end
  return sft.no_grad(clip, a, list, names)
end

local value_signature = args.signature("clip_grad_value_", "parameters, clip_value:num")

-- Clamps every element of the gradients to +-clip_value.
function M.clip_grad_value_(...)
  local a = value_signature(...)
  if a.clip_value < 0 or a.clip_value ~= a.clip_value then
    fail("clip_grad_value_: clip_value must not be negative, got %g", a.clip_value)
  end
  sft.no_grad(function()
    for _, p in ipairs((as_list("clip_grad_value_", a.parameters))) do
      if p.grad then p.grad:clamp_(-a.clip_value, a.clip_value) end
    end
  end)
end

-- All parameters as one vector, in order.
function M.parameters_to_vector(parameters)
  local list = as_list("parameters_to_vector", parameters)
  if #list == 0 then fail("parameters_to_vector: there are no parameters") end
  local flat = {}
  for i, p in ipairs(list) do flat[i] = p:reshape(-1) end
  return sft.cat(flat)
end

-- Copies the vector's elements into the parameters, in order.
function M.vector_to_parameters(vector, parameters)
  if not sft.is_tensor(vector) then fail("vector_to_parameters: a Tensor is expected, got %s", args.kind(vector)) end
  local list, total = as_list("vector_to_parameters", parameters), 0
  for _, p in ipairs(list) do total = total + p:numel() end
  if total ~= vector:numel() then
    fail("vector_to_parameters: the vector has %d elements, the parameters %d", vector:numel(), total)
  end
  sft.no_grad(function()
    local start = 1
    for _, p in ipairs(list) do
      local n = p:numel()
      if n > 0 then p:copy_(vector:narrow(1, start, n):reshape(p.shape)) end
      start = start + n
    end
  end)
end

return M
