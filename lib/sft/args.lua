-- Arguments of the Lua part: positional ones first, then a trailing table of keywords, as the ops
-- of the engine take them; and error messages that carry the position of the user's line, not of
-- a line in here.
--
--   local sig = args.signature("Linear", "in_features:int, out_features:int, bias:bool=true, device?")
--   local a = sig(784, 10, {bias = false})      -- a.in_features, a.out_features, a.bias, a.device
--
-- A parameter is `name[:type][?][=default]`. `?` may be left out (nil), `*` makes the rest keyword
-- only. Types: int, num, bool, str, fn, size (an int or a list of ints), tensor, any.

local M = {}

local library = debug.getinfo(1, "S").source:gsub("args%.lua$", "")

-- Is this chunk (debug.getinfo's `source`) a file of the library?
function M.is_library(source)
  return source:sub(1, #library) == library
end

-- Raises an error object of sft at the user's line. With one argument the text is taken as it is.
function M.fail(text, ...)
  if select("#", ...) > 0 then text = text:format(...) end
  require("sft")._error("argument", text)
end
local fail = M.fail

local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local above = row[j]
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(above + 1, row[j - 1] + 1, diagonal + cost)
      diagonal = above
    end
  end
  return row[#b]
end

-- The name in `candidates` that is spelt most like `name`, or nil when none is near.
function M.nearest(name, candidates)
  local best, best_distance
  for _, candidate in ipairs(candidates) do
    local d = distance(name, candidate)
    if not best or d < best_distance then best, best_distance = candidate, d end
  end
  if best and best_distance <= math.max(1, math.min(3, #name // 2)) then return best end
end

-- ` (did you mean "lr"?)`, or the list of what there is.
function M.suggest(name, candidates)
  local near = type(name) == "string" and M.nearest(name, candidates)
  if near then return (' (did you mean "%s"?)'):format(near) end
  if #candidates == 0 then return " (it takes no keywords)" end
  return " (known: " .. table.concat(candidates, ", ") .. ")"
end

-- A word or two on what a value is, for messages.
function M.kind(v)
  if v == nil then return "nil" end
  if type(v) == "string" then return ('the string "%s"'):format(#v > 40 and v:sub(1, 37) .. "..." or v) end
  if type(v) == "number" or type(v) == "boolean" then return tostring(v) end
  local mt = debug.getmetatable(v)
  local name = type(mt) == "table" and rawget(mt, "__name")
  return type(name) == "string" and name or "a " .. type(v)
end

-- Is `v` a plain table of keywords (and not a list, or an object)?
function M.is_keywords(v)
  return type(v) == "table" and getmetatable(v) == nil and v[1] == nil
end

local function whole(v)
  return math.type(v) == "integer" and v or (math.type(v) == "float" and math.tointeger(v)) or nil
end
M.whole = whole

local function callable(v)
  if type(v) == "function" then return true end
  local mt = debug.getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end
M.callable = callable

local readers = {}

function readers.int(v)
  if type(v) ~= "number" then return nil, "a whole number" end
  local i = whole(v)
  if not i then return nil, "a whole number" end
  return i
end

function readers.num(v)
  if type(v) ~= "number" then return nil, "a number" end
  return v
end

function readers.bool(v)
  if type(v) ~= "boolean" then return nil, "true or false" end
  return v
end

function readers.str(v)
  if type(v) ~= "string" then return nil, "a string" end
  return v
end

function readers.fn(v)
  if not callable(v) then return nil, "a function" end
  return v
end

function readers.tensor(v)
  if not require("sft").is_tensor(v) then return nil, "a Tensor" end
  return v
end

function readers.size(v)
  if type(v) == "number" then
    local i = whole(v)
    if not i then return nil, "a whole number or a list of them" end
    return i
  end
  if type(v) ~= "table" then return nil, "a whole number or a list of them" end
  local list = {}
  for i = 1, #v do
    list[i] = type(v[i]) == "number" and whole(v[i])
    if not list[i] then return nil, "a whole number or a list of them" end
  end
  return list
end

function readers.any(v) return v end

local function parse_default(text)
  if text == "true" then return true end
  if text == "false" then return false end
  return math.tointeger(text) or tonumber(text) or text
end

local function parse(text)
  local params, keyword_only = {}, false
  for item in text:gmatch("[^,]+") do
    item = item:match("^%s*(.-)%s*$")
    if item == "*" then
      keyword_only = true
    else
      local name, rest = item:match("^([%a_][%w_]*)(.*)$")
      local kind = rest:match("^:(%a+)") or "any"
      local default = rest:match("=(.*)$")
      params[#params + 1] = {
        name = name, read = assert(readers[kind], kind), keyword_only = keyword_only,
        optional = rest:find("?", 1, true) ~= nil or default ~= nil,
        default = default and parse_default(default),
      }
    end
  end
  return params
end

local function store(fname, param, v, out)
  local value, expected = param.read(v)
  if expected then
    fail("%s: argument '%s' must be %s, got %s", fname, param.name, expected, M.kind(v))
  end
  out[param.name] = value
end

-- Makes a reader for calls of `fname`; it returns a table of the arguments by name.
function M.signature(fname, text)
  local params = parse(text)
  local names, by_name, positional = {}, {}, 0
  for i, p in ipairs(params) do
    names[i], by_name[p.name] = p.name, p
    if not p.keyword_only then positional = positional + 1 end
  end
  return function(...)
    local n, out = select("#", ...), {}
    local last = n > 0 and (select(n, ...)) or nil
    local keywords = M.is_keywords(last) and last or nil
    -- {} where a value is still to come is that value, an empty list.
    if keywords and next(keywords) == nil and n <= positional and not params[n].optional then keywords = nil end
    if keywords then n = n - 1 end
    if n > positional then
      while n > positional and (select(n, ...)) == nil do n = n - 1 end
      if n > positional then
        fail("%s: takes at most %d arguments (%s), got %d", fname, positional,
          table.concat(names, ", ", 1, positional), n)
      end
    end
    for i = 1, n do
      local v = (select(i, ...))
      if v ~= nil then store(fname, params[i], v, out) end
    end
    if keywords then
      for k, v in next, keywords do
        local p = by_name[k]
        if not p then fail("%s: unknown keyword '%s'%s", fname, tostring(k), M.suggest(k, names)) end
        if out[k] ~= nil then fail("%s: argument '%s' is given twice", fname, k) end
        store(fname, p, v, out)
      end
    end
    for _, p in ipairs(params) do
      if out[p.name] == nil then
        if not p.optional then fail("%s: argument '%s' is missing", fname, p.name) end
        out[p.name] = p.default
      end
    end
    return out
  end
end

-- Reads a table of keywords alone: `defaults` is the text of a signature.
function M.options(fname, text)
  return M.signature(fname, "*, " .. text)
end

return M
