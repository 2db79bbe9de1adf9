-- What all optimizers share: parameter groups, state, state_dict. After torch.optim.Optimizer.
--
-- Parameters come as a list, as model:named_parameters() (then the state is saved by name), as a
-- module, or as a list of groups {params = ..., lr = ...}.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local ordered = require "sft.ordered"

local fail = args.fail
local M = {}

local Optimizer = {}
Optimizer.__index = Optimizer

-- A list of parameters, and their names where they are known.
local function read_params(name, params)
  if sft.is_tensor(params) then params = {params} end
  if module.is_module(params) then params = params:named_parameters() end
  if type(params) ~= "table" then
    fail("%s: params must be a list of parameters, got %s", name, args.kind(params))
  end
  local list, names = {}, nil
  if ordered.is(params) then
    names = {}
    for key, p in pairs(params) do
      list[#list + 1] = p
      names[#list] = key
    end
  else
    for i, p in ipairs(params) do list[i] = p end
  end
  for i, p in ipairs(list) do
    if not sft.is_tensor(p) then
      fail("%s: params[%d] must be a Tensor, got %s", name, i, args.kind(p))
    end
    if not p.is_leaf then
      fail("%s: params[%s] is the result of an op, only leaf tensors can be optimized", name, names and names[i] or i)
    end
  end
  return list, names
end

local function check_new(self, list, names)
  for i, p in ipairs(list) do
    for _, group in ipairs(self.param_groups) do
      for _, other in ipairs(group.params) do
        if rawequal(p, other) then
          fail("%s: %s is in more than one group", self._name, names and names[i] or ("params[%d]"):format(i))
        end
      end
    end
    for j = 1, i - 1 do
      if rawequal(p, list[j]) then
        fail("%s: params[%d] and params[%d] are the same tensor", self._name, j, i)
      end
    end
  end
end

-- Adds {params = ..., lr = ..., ...}; what the group does not say is as given to the optimizer.
function Optimizer:add_param_group(group)
  if type(group) ~= "table" or group.params == nil then
    fail("%s: a group must be a table with params", self._name)
  end
  local out = {}
  local known = {"params", "name", "initial_lr"}
  for key in next, self.defaults do known[#known + 1] = key end
  for key, v in next, group do
    if self.defaults[key] == nil and key ~= "params" and key ~= "name" and key ~= "initial_lr" then
      fail("%s: a group has an unknown option '%s'%s", self._name, tostring(key), args.suggest(key, known))
    end
    if key ~= "params" then out[key] = v end
  end
  for key, v in next, self.defaults do
    if out[key] == nil then out[key] = v end
  end
  self:_check(out)
  out.params, out.param_names = read_params(self._name, group.params)
  check_new(self, out.params, out.param_names)
  self.param_groups[#self.param_groups + 1] = out
end

local function setup(self, params, defaults)
  self.defaults, self.param_groups, self.state, self._steps = defaults, {}, {}, 0
  local grouped = type(params) == "table" and not ordered.is(params) and not module.is_module(params)
    and type(params[1]) == "table" and not sft.is_tensor(params[1])
  if grouped then
    for _, group in ipairs(params) do self:add_param_group(group) end
  else
    self:add_param_group {params = params}
  end
  local count = 0
  for _, group in ipairs(self.param_groups) do count = count + #group.params end
  if count == 0 then fail("%s: there are no parameters", self._name) end
end

local zero_signature = args.signature("zero_grad", "set_to_none:bool=true")

function Optimizer:zero_grad(...)
  local to_none = zero_signature(...).set_to_none
  for _, group in ipairs(self.param_groups) do module.zero_grad(group.params, to_none) end
end

local function update_groups(self)
  for _, group in ipairs(self.param_groups) do self:_update(group) end
end

-- One update of all parameters that have a gradient. With a closure, that is called first (with
-- gradients on) and what it returns is returned.
function Optimizer:step(closure)
  local loss
  if closure ~= nil then
    if not args.callable(closure) then fail("step: the closure must be a function, got %s", args.kind(closure)) end
    loss = sft.enable_grad(closure)
  end
  sft.no_grad(update_groups, self)
  self._steps = self._steps + 1
  return loss
end

-- The parameters of a group that have a gradient, in buckets of equal `key(state)`: each bucket is
-- one call of the engine. `keys` are the state's tensors; init(p, state) makes them.
function M.buckets(self, group, key, keys, init)
  local buckets, by_key = {}, {}
  for _, p in ipairs(group.params) do
    local g = p.grad
    if g then
      local st = self.state[p]
      if not st then
        st = {}
        self.state[p] = st
      end
      init(p, st)
      local k = key(st)
      local b = by_key[k]
      if not b then
        b = {key = k, params = {}, grads = {}, states = {}}
        for _, name in ipairs(keys) do b[name] = {} end
        by_key[k], buckets[#buckets + 1] = b, b
      end
      local n = #b.params + 1
      b.params[n], b.grads[n], b.states[n] = p, g, st
      local dtype, device = p.dtype, p.device
      for _, name in ipairs(keys) do
        local t = st[name]
        if t.dtype ~= dtype or t.device ~= device then   -- the model was moved after the last step
          t = t:to {dtype = dtype, device = device}
          st[name] = t
        end
        b[name][n] = t
      end
    end
  end
  return buckets
end

-- State ------------------------------------------------------------------------------------------

-- A parameter's key in state_dict: its name, or its number over all groups.
local function keys_of(self)
  local keys, n = {}, 0
  for _, group in ipairs(self.param_groups) do
    for i, p in ipairs(group.params) do
      n = n + 1
      keys[p] = group.param_names and group.param_names[i] or n
    end
  end
  return keys
end

-- {state = {[key] = {...}}, param_groups = {{lr = ..., params = {keys}}}}. Keys are the parameters'
-- names where the optimizer knows them, else their numbers from 1.
function Optimizer:state_dict()
  local keys, out = keys_of(self), {state = ordered.new(), param_groups = {}}
  for g, group in ipairs(self.param_groups) do
    local copy = {}
    for k, v in next, group do
      if k ~= "params" and k ~= "param_names" then copy[k] = v end
    end
    copy.params = {}
    for i, p in ipairs(group.params) do
      copy.params[i] = keys[p]
      local st = self.state[p]
      if st then
        local values = {}
        for k, v in next, st do values[k] = v end
        out.state[keys[p]] = values
      end
    end
    out.param_groups[g] = copy
  end
  return out
end

-- The place of each of the group's keys in ours: by name where both have names, else by order.
local function match(self, group, saved, g)
  local by_name = group.param_names ~= nil and type(saved.params[1]) == "string"
  if #saved.params ~= #group.params then
    fail("%s: load_state_dict: group %d has %d parameters, the saved one %d", self._name, g, #group.params,
      #saved.params)
  end
  local keys = {}
  if not by_name then
    for i = 1, #group.params do keys[i] = saved.params[i] end
    return keys
  end
  local there = {}
  for _, name in ipairs(saved.params) do there[name] = true end
  for i, name in ipairs(group.param_names) do
    if not there[name] then
      fail('%s: load_state_dict: the saved state has no parameter "%s"', self._name, name)
    end
    keys[i] = name
  end
  return keys
end

local function convert(self, p, key, st)
  local out = {}
  for k, v in next, st do
    if sft.is_tensor(v) then
      if v.ndim > 0 and v:numel() ~= p:numel() then
        fail("%s: load_state_dict: %s of parameter %s: the file has %s, the parameter is %s", self._name, k,
          tostring(key), tostring(v.shape), tostring(p.shape))
      end
      if v:is_floating_point() and v.ndim == p.ndim then
        v = v:to {dtype = p.dtype, device = p.device}
        v = v:clone()
      end
      if k == "step" then v = math.tointeger(v:item()) end
    end
    out[k] = v
  end
  return out
end

-- Takes what state_dict gave; tensors go to the device and dtype of their parameter. Nothing is
-- changed when it raises.
function Optimizer:load_state_dict(sd)
  if type(sd) ~= "table" or type(sd.param_groups) ~= "table" or type(sd.state) ~= "table" then
    fail("%s: load_state_dict: a table with state and param_groups is expected", self._name)
  end
  if #sd.param_groups ~= #self.param_groups then
    fail("%s: load_state_dict: there are %d groups, the saved state has %d", self._name, #self.param_groups,
      #sd.param_groups)
  end
  local state, options = {}, {}
  for g, group in ipairs(self.param_groups) do
    local saved = sd.param_groups[g]
    local keys = match(self, group, saved, g)
    for i, p in ipairs(group.params) do
      local st = sd.state[keys[i]]
      if st then state[p] = convert(self, p, keys[i], st) end
    end
    options[g] = {}
    for k, v in next, saved do
      if k ~= "params" and k ~= "param_names" then options[g][k] = v end
    end
  end
  for g, group in ipairs(self.param_groups) do
    for k, v in next, options[g] do group[k] = v end
  end
  self.state = state
end

function Optimizer:__tostring()
  local lines = {self._name .. " ("}
  for g, group in ipairs(self.param_groups) do
    local names = {}
    for k in next, group do
      if k ~= "params" and k ~= "param_names" then names[#names + 1] = k end
    end
    table.sort(names)
    lines[#lines + 1] = ("Parameter Group %d (%d parameters)"):format(g, #group.params)
    for _, k in ipairs(names) do
      local v = group[k]
      if type(v) == "table" then v = "{" .. table.concat(v, ", ") .. "}" end
      lines[#lines + 1] = ("    %s: %s"):format(k, tostring(v))
    end
  end
  lines[#lines + 1] = ")"
  return table.concat(lines, "\n")
end

-- Classes ----------------------------------------------------------------------------------------

-- Makes an optimizer's constructor: `text` is the signature after params, `check(group)` raises on
-- bad options, `update(self, group)` does a step for one group.
function M.define(name, text, check, update, prepare)
  local class = setmetatable({_name = name, _check = check, _update = update}, {__index = Optimizer})
  class.__index, class.__tostring, class.__name = class, Optimizer.__tostring, name
  local signature = args.signature(name, "params, " .. text)
  return function(...)
    local a = signature(...)
    local params = a.params
    a.params = nil
    if prepare then prepare(a) end
    local self = setmetatable({}, class)
    setup(self, params, a)
    return self
  end
end

-- Raises unless the option is a number that is not negative.
function M.not_negative(self, group, ...)
  for _, key in ipairs {...} do
    local v = group[key]
    if type(v) ~= "number" or v < 0 or v ~= v then
      fail("%s: %s must be a number and not negative, got %s", self._name, key, args.kind(v))
    end
  end
end

return M
