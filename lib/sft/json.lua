-- JSON, strict in both directions: what is written is valid, and what is not valid is refused.
-- Integers stay integers and floats floats. Objects come back as plain tables; `null` as json.null.

local M = {}

M.null = setmetatable({}, {__name = "json.null", __tostring = function() return "null" end})

local max_depth = 200

-- Writing ----------------------------------------------------------------------------------------

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
  ["\r"] = "\\r", ["\t"] = "\\t"}

local function quote(s)
  if not utf8.len(s) then error("json: a string is not valid UTF-8", 0) end
  return '"' .. s:gsub('[%c"\\]', function(c)
    return escapes[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number(v)
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v ~= v or v == math.huge or v == -math.huge then error("json: " .. tostring(v) .. " can't be written", 0) end
  local text = ("%.17g"):format(v):gsub(",", ".")
  return text:find("[.eE]") and text or text .. ".0"
end

local write

local function write_table(t, out, depth)
  if depth > max_depth then error("json: nested too deep", 0) end
  if t[1] ~= nil or next(t) == nil and getmetatable(t) == M.array then
    out[#out + 1] = "["
    local count = 0
    for _ in next, t do count = count + 1 end
    if count ~= #t then error("json: a list with holes or other keys can't be written", 0) end
    for i = 1, #t do
      if i > 1 then out[#out + 1] = "," end
      write(t[i], out, depth + 1)
    end
    out[#out + 1] = "]"
    return
  end
  local keys = {}
  for k in next, t do
    if type(k) ~= "string" then error("json: a key must be a string, got " .. tostring(k), 0) end
    keys[#keys + 1] = k
  end
  table.sort(keys)
  out[#out + 1] = "{"
  for i, k in ipairs(keys) do
    if i > 1 then out[#out + 1] = "," end
    out[#out + 1] = quote(k)
    out[#out + 1] = ":"
    write(t[k], out, depth + 1)
  end
  out[#out + 1] = "}"
end

write = function(v, out, depth)
  local kind = type(v)
  if v == M.null then out[#out + 1] = "null"
  elseif kind == "string" then out[#out + 1] = quote(v)
  elseif kind == "number" then out[#out + 1] = number(v)
  elseif kind == "boolean" then out[#out + 1] = tostring(v)
  elseif kind == "table" then write_table(v, out, depth)
  else error("json: a " .. kind .. " can't be written", 0)
  end
end

-- The metatable that makes an empty table a list: setmetatable({}, json.array) is [].
M.array = {__name = "json.array"}

function M.encode(v)
  local out = {}
  write(v, out, 1)
  return table.concat(out)
end

-- Reading ----------------------------------------------------------------------------------------

local function bad(at, what)
  error(("json: %s at byte %d"):format(what, at), 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

local unescapes = {['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t"}

local function read_unicode(text, at)
  local hex = text:match("^%x%x%x%x", at)
  if not hex then bad(at, "four hexadecimal digits expected") end
  local code = tonumber(hex, 16)
  if code >= 0xDC00 and code <= 0xDFFF then bad(at, "a lone surrogate") end
  if code < 0xD800 or code > 0xDBFF then return utf8.char(code), at + 4 end
  local low = text:match("^\\u(%x%x%x%x)", at + 4)
  low = low and tonumber(low, 16)
  if not low or low < 0xDC00 or low > 0xDFFF then bad(at, "a lone surrogate") end
  return utf8.char(0x10000 + (code - 0xD800) * 1024 + low - 0xDC00), at + 10
end

-- `at` is the byte after the opening quote.
local function read_string(text, at)
  local parts = {}
  while true do
    local stop = text:find('["\\%c]', at)
    if not stop then bad(at, "a string without end") end
    parts[#parts + 1] = text:sub(at, stop - 1)
    local c = text:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c == "\127" then
      parts[#parts + 1] = c
      at = stop + 1
    elseif c ~= "\\" then
      bad(stop, "a control character in a string")
    else
      local e = text:sub(stop + 1, stop + 1)
      if e == "u" then
        parts[#parts + 1], at = read_unicode(text, stop + 2)
      else
        parts[#parts + 1] = unescapes[e] or bad(stop, "an unknown escape")
        at = stop + 2
      end
    end
  end
end

local function read_number(text, at)
  local digits = text:match("^-?%d+", at)
  if not digits or digits:find("^-?0%d") then bad(at, "a value expected") end
  local stop = at + #digits
  local fraction = text:match("^%.%d+", stop) or ""
  stop = stop + #fraction
  local exponent = text:match("^[eE][+-]?%d+", stop) or ""
  stop = stop + #exponent
  local whole = digits .. fraction .. exponent
  local v = tonumber(whole)
  if v == nil then bad(at, "a bad number") end
  return v, stop
end

local read

local function read_object(text, at, depth)
  local out = {}
  at = skip(text, at)
  if text:sub(at, at) == "}" then return out, at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then bad(at, "a key in quotes expected") end
    local key, value
    key, at = read_string(text, at + 1)
    if out[key] ~= nil then bad(at, ('the key "%s" comes twice'):format(key)) end
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then bad(at, "':' expected") end
    value, at = read(text, at + 1, depth)
    out[key] = value
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "}" then return out, at + 1 end
    if c ~= "," then bad(at, "',' or '}' expected") end
    at = skip(text, at + 1)
  end
end

local function read_array(text, at, depth)
  local out = {}
  at = skip(text, at)
  if text:sub(at, at) == "]" then return setmetatable(out, M.array), at + 1 end
  while true do
    out[#out + 1], at = read(text, at, depth)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "]" then return out, at + 1 end
    if c ~= "," then bad(at, "',' or ']' expected") end
    at = at + 1
  end
end

local literals = {t = {"true", true}, f = {"false", false}, n = {"null", M.null}}

read = function(text, at, depth)
  if depth > max_depth then bad(at, "nested too deep") end
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == "{" then return read_object(text, at + 1, depth + 1) end
  if c == "[" then return read_array(text, at + 1, depth + 1) end
  if c == '"' then return read_string(text, at + 1) end
  local literal = literals[c]
  if literal then
    if text:sub(at, at + #literal[1] - 1) ~= literal[1] then bad(at, "a value expected") end
    return literal[2], at + #literal[1]
  end
  return read_number(text, at)
end

-- The value of a JSON text; raises on anything that is not one.
function M.decode(text)
  if type(text) ~= "string" then error("json: a string is expected, got a " .. type(text), 0) end
  if not utf8.len(text) then error("json: the text is not valid UTF-8", 0) end
  local v, at = read(text, 1, 1)
  at = skip(text, at)
  if at <= #text then bad(at, "text after the end") end
  return v
end

return M
