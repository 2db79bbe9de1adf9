-- Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict. Lists count from 1
-- in Lua; in a state_dict their children are named from "0", as in PyTorch.

local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local ordered = require "sft.ordered"

local class, fail, is_module = module.class, args.fail, module.is_module
local names_of, raw_get = module.module_names, module.raw_get
local M = {}

local function need_module(name, v)
  if not is_module(v) then fail("%s: a module is expected, got %s", name, args.kind(v)) end
  return v
end

-- The place in the list of a 1-based index that may count from the end; nil when out of range.
local function position(m, i)
  local n = #names_of(m)
  i = args.whole(i)
  if i and i < 0 then i = i + n + 1 end
  return i and i >= 1 and i <= n and i or nil
end

local function get_item(m, i)
  local p = position(m, i)
  if p then return raw_get(m, names_of(m)[p]) end
  if i == 0 then fail("%s: indices start at 1, got 0", m._name) end
end

local function set_item(m, i, v)
  local p = position(m, i)
  if not p and i == #names_of(m) + 1 then return m:append(v) end
  if not p then fail("%s: index %s is out of range, there are %d", m._name, tostring(i), #names_of(m)) end
  if v == nil then
    local rest = {}
    for k = 1, #names_of(m) do if k ~= p then rest[#rest + 1] = m[k] end end
    m:_refill(rest)
  else
    m[names_of(m)[p]] = need_module(m._name, v)
  end
end

local function refill(m, list)
  local names = table.move(names_of(m), 1, #names_of(m), 1, {})
  for _, name in ipairs(names) do module.unregister(m, name) end
  for i, v in ipairs(list) do m:add_module(tostring(i - 1), v) end
end

local function list_like(c)
  c._get_item, c._set_item, c._refill = get_item, set_item, refill
  function c._len(m) return #names_of(m) end
  function c._pairs(m) return ipairs(m) end

  function c:append(v)
    self:add_module(tostring(#names_of(self)), need_module(self._name, v))
    return self
  end

  function c:extend(list)
    for _, v in ipairs(list) do self:append(v) end
    return self
  end

  function c:insert(i, v)
    local n = #names_of(self)
    if not args.whole(i) or i < 1 or i > n + 1 then
      fail("%s: insert at %s is out of range, there are %d", self._name, tostring(i), n)
    end
    need_module(self._name, v)
    local list = {}
    for k = 1, n do list[k] = self[k] end
    table.insert(list, i, v)
    self:_refill(list)
    return self
  end
end

-- Calls its modules one after the other. Sequential(a, b, c), Sequential{a, b, c}, or with names:
-- Sequential{{"conv", a}, {"act", b}} or Sequential(an ordered dict).
local Sequential = class("Sequential")
M.Sequential = Sequential
list_like(Sequential)

function Sequential:init(...)
  local first = ...
  if select("#", ...) == 1 and type(first) == "table" and not is_module(first) then
    if ordered.is(first) then
      for name, v in pairs(first) do self:add_module(name, need_module("Sequential", v)) end
      return
    end
    for i, v in ipairs(first) do
      if type(v) == "table" and not is_module(v) then
        self:add_module(v[1], need_module("Sequential", v[2]))
      else
        self:add_module(tostring(i - 1), need_module("Sequential", v))
      end
    end
    if #first == 0 and next(first) ~= nil then
      fail("Sequential: modules by name must come as a list of pairs, {{\"name\", module}, ...}, to have an order")
    end
    return
  end
  for i = 1, select("#", ...) do
    self:add_module(tostring(i - 1), need_module("Sequential", (select(i, ...))))
  end
end

function Sequential:forward(...)
  local names = names_of(self)
  local n = #names
  if n == 0 then return ... end
  if n == 1 then return raw_get(self, names[1])(...) end
  local x = raw_get(self, names[1])(...)
  for i = 2, n do x = raw_get(self, names[i])(x) end
  return x
end

-- A list of modules: list[1], #list, ipairs, append, extend, insert.
local ModuleList = class("ModuleList")
M.ModuleList = ModuleList
list_like(ModuleList)
ModuleList._collapse = true

function ModuleList:init(list)
  if list == nil then return end
  if type(list) ~= "table" or is_module(list) and not list._get_item then
    fail("ModuleList: a list of modules is expected, got %s", args.kind(list))
  end
  for _, v in ipairs(list) do self:append(v) end
end

-- Modules by name: dict.name or dict["name"], in the order of their assignment. A plain table has
-- no order of its own: its keys are sorted.
local ModuleDict = class("ModuleDict")
M.ModuleDict = ModuleDict

function ModuleDict._len(m) return #names_of(m) end

function ModuleDict._pairs(m)
  local names, i = names_of(m), 0
  return function()
    i = i + 1
    if names[i] then return names[i], raw_get(m, names[i]) end
  end
end

function ModuleDict:init(t)
  if t ~= nil then self:update(t) end
end

-- Takes an ordered dict, a list of pairs, or a table by name.
function ModuleDict:update(t)
  if type(t) ~= "table" then fail("ModuleDict: a table is expected, got %s", args.kind(t)) end
  if ordered.is(t) or is_module(t) then
    for name, v in pairs(t) do self:add_module(name, need_module("ModuleDict", v)) end
  elseif t[1] ~= nil then
    for i, pair in ipairs(t) do
      if type(pair) ~= "table" then fail("ModuleDict: entry %d must be a pair, got %s", i, args.kind(pair)) end
      self:add_module(pair[1], need_module("ModuleDict", pair[2]))
    end
  else
    local names = {}
    for name in next, t do names[#names + 1] = name end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do self:add_module(name, need_module("ModuleDict", t[name])) end
  end
  return self
end

function ModuleDict:keys()
  return table.move(names_of(self), 1, #names_of(self), 1, {})
end

local function as_parameter(name, v)
  if parameter.is(v) then return v end
  if not require("sft").is_tensor(v) then fail("%s: a tensor is expected, got %s", name, args.kind(v)) end
  return parameter.new(v)
end

-- A list of parameters.
local ParameterList = class("ParameterList")
M.ParameterList = ParameterList
local parameter_names = module.parameter_names

function ParameterList:init(list)
  if list ~= nil and type(list) ~= "table" then fail("ParameterList: a list is expected, got %s", args.kind(list)) end
  for _, v in ipairs(list or {}) do self:append(v) end
end

function ParameterList:append(v)
  self:register_parameter(tostring(#parameter_names(self)), as_parameter("ParameterList", v))
  return self
end

function ParameterList._get_item(m, i)
  local names = parameter_names(m)
  i = args.whole(i)
  if i and i < 0 then i = i + #names + 1 end
  if i and names[i] then return raw_get(m, names[i]) end
  if i == 0 then fail("ParameterList: indices start at 1, got 0") end
end

function ParameterList._set_item(m, i, v)
  local name = parameter_names(m)[i]
  if not name and i == #parameter_names(m) + 1 then return m:append(v) end
  if not name then fail("ParameterList: index %s is out of range", tostring(i)) end
  m[name] = as_parameter("ParameterList", v)
end

function ParameterList._len(m) return #parameter_names(m) end
function ParameterList._pairs(m) return ipairs(m) end
function ParameterList:extra_repr() return ("%d parameters"):format(#parameter_names(self)) end

-- Parameters by name; a plain table's keys are sorted.
local ParameterDict = class("ParameterDict")
M.ParameterDict = ParameterDict

function ParameterDict:init(t)
  if t == nil then return end
  if type(t) ~= "table" then fail("ParameterDict: a table is expected, got %s", args.kind(t)) end
  if ordered.is(t) then
    for name, v in pairs(t) do self:register_parameter(name, as_parameter("ParameterDict", v)) end
    return
  end
  local names = {}
  for name in next, t do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do self:register_parameter(name, as_parameter("ParameterDict", t[name])) end
end

function ParameterDict._len(m) return #parameter_names(m) end
function ParameterDict._pairs(m)
  local names, i = parameter_names(m), 0
  return function()
    i = i + 1
    if names[i] then return names[i], raw_get(m, names[i]) end
  end
end
function ParameterDict:extra_repr() return ("%d parameters"):format(#parameter_names(self)) end

return M
