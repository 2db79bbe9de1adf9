-- A table that remembers the order in which its keys came: what state_dict, named_parameters and
-- the like return.
--
--   for name, value in pairs(d) do ... end      -- in order; `for name, value in d do` as well
--   d["fc1.weight"], #d, ordered.keys(d)
--
-- All names are keys: the functions live in this module, none in the object.

local M = {}

local KEYS, VALUES = {}, {}
local positions = setmetatable({}, {__mode = "k"})   -- where a loop `for ... in d do` is

local mt = {__name = "OrderedDict"}

function mt.__index(d, key)
  return rawget(d, VALUES)[key]
end

function mt.__newindex(d, key, value)
  local values = rawget(d, VALUES)
  if values[key] == nil then
    if value == nil then return end
    local keys = rawget(d, KEYS)
    keys[#keys + 1] = key
  elseif value == nil then
    local keys = rawget(d, KEYS)
    for i = 1, #keys do
      if keys[i] == key then
        table.remove(keys, i)
        break
      end
    end
  end
  values[key] = value
end

function mt.__len(d)
  return #rawget(d, KEYS)
end

-- The key that was given out may be removed (or replaced) during the loop.
function mt.__pairs(d)
  local keys, values, i, last = rawget(d, KEYS), rawget(d, VALUES), 0, nil
  return function()
    if i == 0 or keys[i] == last then i = i + 1 end
    last = keys[i]
    if last ~= nil then return last, values[last] end
  end, d, nil
end

-- Makes `for k, v in d do` work. The position is only a hint: the control value says where we are.
function mt.__call(d, _, key)
  local keys = rawget(d, KEYS)
  local i = 0
  if key ~= nil then
    i = positions[d] or 0
    if keys[i] ~= key then
      i = 0
      repeat i = i + 1 until i > #keys or keys[i] == key
    end
  end
  i = i + 1
  positions[d] = i
  local next_key = keys[i]
  if next_key ~= nil then return next_key, rawget(d, VALUES)[next_key] end
end

function mt.__tostring(d)
  local lines = {}
  for key, value in pairs(d) do
    local text = type(value) == "userdata" and value.shape and
      ("%s %s"):format(tostring(value.shape), tostring(value.dtype)) or tostring(value)
    lines[#lines + 1] = ("  %s: %s"):format(tostring(key), text)
  end
  return "OrderedDict{\n" .. table.concat(lines, "\n") .. (#lines > 0 and "\n}" or "}")
end

-- An empty dict, or one of the pairs in `list`: {{"a", 1}, {"b", 2}}.
function M.new(list)
  local d = setmetatable({[KEYS] = {}, [VALUES] = {}}, mt)
  for _, pair in ipairs(list or {}) do d[pair[1]] = pair[2] end
  return d
end

function M.is(v)
  return type(v) == "table" and getmetatable(v) == mt
end

-- A fresh list of the keys, in order.
function M.keys(d)
  return table.move(rawget(d, KEYS), 1, #d, 1, {})
end

-- A list that can also be looped over with `for v in list do`: what parameters() and the like give.
local list_mt = {__name = "List"}

function list_mt.__call(list, _, value)
  local i = 0
  if value ~= nil then
    i = positions[list] or 0
    if not rawequal(list[i], value) then
      i = 0
      repeat i = i + 1 until i > #list or rawequal(list[i], value)
    end
  end
  positions[list] = i + 1
  return list[i + 1]
end

function M.list(t)
  return setmetatable(t, list_mt)
end

function M.is_list(v)
  return type(v) == "table" and getmetatable(v) == list_mt
end

return M
