-- The state of a module: its parameters and buffers by name, taken out and put in again. Adds
-- state_dict and load_state_dict to nn.Module.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local ordered = require "sft.ordered"

local fail = args.fail
local is_tensor = sft.is_tensor
local Module, each_state, class_name = module.Module, module.each_state, module.class_name

local state_dict_signature = args.signature("state_dict", "*, prefix:str=, keep_vars:bool=false")

-- The tensors of the model by name, as PyTorch names them. They share the model's memory.
function Module:state_dict(...)
  local a = state_dict_signature(...)
  local out, detached = ordered.new(), {}
  each_state(self, a.prefix, function(name, t)
    if not a.keep_vars then
      detached[t] = detached[t] or t:detach()
      t = detached[t]
    end
    out[name] = t
  end)
  return out
end

local function some_of(title, names, lines)
  if #names == 0 then return end
  local shown = table.concat(names, ", ", 1, math.min(5, #names))
  if #names > 5 then shown = shown .. (", ... (%d in all)"):format(#names) end
  lines[#lines + 1] = ("  %s: %s"):format(title, shown)
end

-- When the keys would match after removing a prefix: how many, and which prefix.
local function common_prefix(unexpected, wanted)
  local first = unexpected[1]
  if not first then return end
  for dot in first:gmatch("()%.") do
    local prefix, count, same = first:sub(1, dot), 0, true
    for _, name in ipairs(unexpected) do
      if name:sub(1, #prefix) ~= prefix then same = false end
      if wanted[name:sub(#prefix + 1)] ~= nil then count = count + 1 end
    end
    if same and count > 0 then return prefix, count end
  end
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local load_signature = args.options("load_state_dict", "strict:bool=true, strip_prefix:str?")

local function strip(sd, prefix)
  local out = ordered.new()
  for name, t in pairs(sd) do
    if name:sub(1, #prefix) == prefix then name = name:sub(#prefix + 1) end
    out[name] = t
  end
  return out
end

-- Compares what is there with what is wanted; nothing is changed yet.
local function compare(self, sd)
  local r = {missing = {}, unexpected = {}, shapes = {}, wanted = ordered.new()}
  each_state(self, "", function(name, t)
    r.wanted[name] = t
    local v = sd[name]
    if v == nil then
      r.missing[#r.missing + 1] = name
    elseif not is_tensor(v) then
      r.shapes[#r.shapes + 1] = ("%s: a tensor is expected, the file has %s"):format(name, args.kind(v))
    elseif not same_shape(v.shape, t.shape) then
      r.shapes[#r.shapes + 1] = ("%s: the file has %s, the model %s"):format(name, tostring(v.shape),
        tostring(t.shape))
    end
  end)
  for name in pairs(sd) do
    if r.wanted[name] == nil then r.unexpected[#r.unexpected + 1] = tostring(name) end
  end
  if not ordered.is(sd) then table.sort(r.unexpected) end
  return r
end

local function load_error(self, r, total)
  local lines = {("load_state_dict: the state does not fit %s: %d missing, %d unexpected, %d of another shape")
    :format(class_name(self), #r.missing, #r.unexpected, #r.shapes)}
  some_of("missing", r.missing, lines)
  some_of("unexpected", r.unexpected, lines)
  for i = 1, math.min(5, #r.shapes) do lines[#lines + 1] = "  " .. r.shapes[i] end
  if #r.shapes > 5 then lines[#lines + 1] = ("  ... (%d in all)"):format(#r.shapes) end
  local prefix, count = common_prefix(r.unexpected, r.wanted)
  if prefix then
    lines[#lines + 1] = ('  %d of %d keys match after removing "%s"; pass {strip_prefix = "%s"}')
      :format(count, total, prefix, prefix)
  end
  fail(table.concat(lines, "\n"))
end

-- Copies the tensors of `sd` (a state_dict, or any table of tensors by name) into the model's own,
-- wherever those are. {strict = false} ignores missing and unexpected keys, {strip_prefix = "module."}
-- takes that off the keys. Raises before anything is changed. Returns the two lists of keys.
function Module:load_state_dict(sd, options)
  local a = load_signature(options)
  if type(sd) ~= "table" or module.is_module(sd) then
    fail("load_state_dict: a table of tensors by name is expected, got %s", args.kind(sd))
  end
  if a.strip_prefix then sd = strip(sd, a.strip_prefix) end
  local r = compare(self, sd)
  if #r.shapes > 0 or (a.strict and #r.missing + #r.unexpected > 0) then
    local total = 0
    for _ in pairs(sd) do total = total + 1 end
    load_error(self, r, total)
  end
  sft.no_grad(function()
    for name, t in pairs(r.wanted) do
      if sd[name] ~= nil then t:copy_(sd[name]:detach()) end
    end
  end)
  return {missing_keys = r.missing, unexpected_keys = r.unexpected}
end

return Module
