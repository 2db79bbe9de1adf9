-- sft.save and sft.load: a tree of Lua tables with tensors in it as one safetensors file. The
-- tensors are named by their path ("model.fc1.weight"); the tree around them is JSON in the file's
-- metadata. Nothing that is loaded is ever run: a file holds data only.

local sft = require "sft"
local args = require "sft.args"
local json = require "sft.json"
local ordered = require "sft.ordered"

local fail = args.fail
local M = {}

-- In the JSON a leaf that JSON has no word for is an object with one key that begins with "$":
-- {"$t": name} a tensor, {"$f": "inf"} a float, {"$b": hex} bytes, {"$o": pairs} an ordered dict,
-- {"$m": pairs} a table with other keys, {"$dtype": ..}, {"$device": ..}.

local dtypes = {float32 = true, float64 = true, float16 = true, bfloat16 = true, int64 = true, int32 = true,
  int16 = true, int8 = true, uint8 = true, bool = true}

local function hex(s)
  return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function unhex(s)
  if #s % 2 ~= 0 or s:find("%X") then error("bad bytes", 0) end
  return (s:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end

local function child_path(path, key)
  if type(key) == "string" and key:find("^[%a_][%w_.]*$") then
    return path == "" and key or path .. "." .. key
  end
  return ("%s[%s]"):format(path, type(key) == "string" and ('"%s"'):format(key) or tostring(key))
end

-- The name of a tensor in the file: keys joined by dots; a taken name gets a number.
local function file_name(state, name)
  if name == "" then name = "tensor" end
  if name == "__metadata__" or state.taken[name] then
    local n = 2
    while state.taken[name .. "#" .. n] do n = n + 1 end
    name = name .. "#" .. n
  end
  state.taken[name] = true
  return name
end

-- Two handles of one view are one tensor in the file.
local function view_key(t)
  if t:numel() == 0 then return nil end
  return table.concat({tostring(t.device), tostring(t.dtype), tostring(t:data_ptr()),
    table.concat(t.shape, ","), table.concat(t:stride(), ",")}, "|")
end

local function encode_tensor(state, t, name)
  local known = state.tensors[t]
  if known then return {["$t"] = known} end
  local key = view_key(t)
  if key and state.views[key] then return {["$t"] = state.views[key]} end
  if not utf8.len(name) then fail("save: the name of a tensor must be valid UTF-8, got %q", name) end
  name = file_name(state, name)
  state.tensors[t] = name
  if key then state.views[key] = name end
  state.names[#state.names + 1], state.list[#state.list + 1] = name, t:detach()
  local device = tostring(t.device)
  return {["$t"] = name, ["$d"] = device ~= "cpu" and device or nil}
end

local encode

local function is_sequence(t)
  local n = #t
  local count = 0
  for _ in next, t do count = count + 1 end
  return n > 0 and count == n
end

local function plain_keys(t)
  for k in next, t do
    if type(k) ~= "string" or k:sub(1, 1) == "$" or not utf8.len(k) then return false end
  end
  return true
end

local function encode_pairs(state, each, path, name)
  local list = setmetatable({}, json.array)
  for k, v in each do
    local at = child_path(path, k)
    local kind = type(k)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      fail("save: %s has a key that is %s; only strings, numbers and booleans can be keys", path == ""
        and "the table" or path, args.kind(k))
    end
    local value = encode(state, v, at, name == "" and tostring(k) or name .. "." .. tostring(k))
    if value ~= nil then list[#list + 1] = {encode(state, k, at, ""), value} end
  end
  return list
end

local function sorted_pairs(t)
  local keys = {}
  for k in next, t do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and type(a) ~= "boolean" and type(a) ~= "table" and type(a) ~= "userdata" then
      return a < b
    end
    return type(a) == type(b) and tostring(a) < tostring(b) or type(a) < type(b)
  end)
  local i = 0
  return function()
    i = i + 1
    if keys[i] ~= nil then return keys[i], t[keys[i]] end
  end
end

local function encode_table(state, t, path, name)
  if state.open[t] then fail("save: %s is part of itself", path) end
  state.open[t] = true
  local out
  if ordered.is(t) then
    out = {["$o"] = encode_pairs(state, pairs(t), path, name)}
  elseif is_sequence(t) then
    out = setmetatable({}, json.array)
    for i = 1, #t do
      local v = encode(state, t[i], child_path(path, i), name == "" and tostring(i) or name .. "." .. i)
      -- A value that was skipped leaves null, so that the others keep their places.
      out[i] = v == nil and json.null or v
    end
  elseif plain_keys(t) then
    out = {}
    for k, v in sorted_pairs(t) do
      out[k] = encode(state, v, child_path(path, k), name == "" and k or name .. "." .. k)
    end
  else
    out = {["$m"] = encode_pairs(state, sorted_pairs(t), path, name)}
  end
  state.open[t] = nil
  return out
end

local function cannot(state, v, path)
  if state.skip_functions and type(v) == "function" then return nil end
  local advice = "remove it"
  if type(v) == "function" then
    advice = "remove it or pass {skip_functions = true}"
  elseif type(v) == "table" and v.state_dict then
    advice = "save its state_dict() instead"
  end
  fail("save: %s is %s; %s", path == "" and "the value" or path, args.kind(v), advice)
end

encode = function(state, v, path, name)
  local kind = type(v)
  if kind == "boolean" then return v end
  if kind == "string" then return utf8.len(v) and v or {["$b"] = hex(v)} end
  if kind == "number" then
    if v ~= v then return {["$f"] = "nan"} end
    if v == math.huge then return {["$f"] = "inf"} end
    if v == -math.huge then return {["$f"] = "-inf"} end
    return v
  end
  if sft.is_tensor(v) then return encode_tensor(state, v, name) end
  if kind == "table" and (getmetatable(v) == nil or ordered.is(v) or ordered.is_list(v)
    or getmetatable(v) == json.array) then
    return encode_table(state, v, path, name)
  end
  local text = kind == "userdata" and tostring(v) or ""
  local dtype = text:match("%w+$")
  if dtype and dtypes[dtype] and sft[dtype] == v then return {["$dtype"] = dtype} end
  if kind == "userdata" and args.kind(v):lower():find("device") then return {["$device"] = text} end
  if kind == "table" and args.kind(v):lower():find("size") then
    return encode_table(state, table.move(v, 1, #v, 1, {}), path, name)   -- x.shape
  end
  return cannot(state, v, path)
end

local save_signature = args.signature("save", "path:str, tree, *, skip_functions:bool=false, metadata?")

-- sft.save(path, tree): tables, numbers, strings, booleans and tensors, nested as you like. What
-- can't be saved is named by its path before a byte is written; the file then appears at once and
-- whole, or the old one stays. Tensors are saved by their own elements; the same view met twice is
-- one tensor afterwards too. {metadata = {key = "string"}} adds to the file's metadata.
function M.save(path, tree, options)
  local a = save_signature(path, tree, options or {})
  local state = {names = {}, list = {}, tensors = {}, views = {}, taken = {}, open = {},
    skip_functions = a.skip_functions}
  if type(tree) ~= "table" and not sft.is_tensor(tree) then
    fail("save: a table or a tensor is expected, got %s", args.kind(tree))
  end
  local encoded = encode(state, tree, "", "")
  local metadata = {format = "pt", ["sft.tree"] = json.encode(encoded)}
  for k, v in next, a.metadata or {} do
    if type(k) ~= "string" or type(v) ~= "string" then fail("save: metadata must be strings by name") end
    metadata[k] = v
  end
  sft._safetensors_write(a.path, state.names, state.list, metadata)
end

local function locate(map, t, device)
  if map == nil then return t end
  if type(map) == "function" then
    local r = map(t, device)
    if r == nil then return t end
    return sft.is_tensor(r) and r or t:to(r)
  end
  if type(map) == "table" then
    local target = map[device]
    return target and t:to(target) or t
  end
  return t:to(map)
end

local decode

local function decode_pairs(list, tensors, out, depth)
  for _, pair in ipairs(list) do
    if type(pair) ~= "table" or pair[1] == nil or pair[2] == nil then error("a pair expected", 0) end
    out[decode(pair[1], tensors, depth)] = decode(pair[2], tensors, depth)
  end
  return out
end

local floats = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local special = {
  ["$t"] = function(v, tensors, _, node) return tensors(v, node["$d"] or "cpu") end,
  ["$f"] = function(v) return floats[v] or error("a bad float", 0) end,
  ["$b"] = function(v) return unhex(v) end,
  ["$o"] = function(v, tensors, depth) return decode_pairs(v, tensors, ordered.new(), depth) end,
  ["$m"] = function(v, tensors, depth) return decode_pairs(v, tensors, {}, depth) end,
  ["$dtype"] = function(v) return dtypes[v] and sft[v] or error("an unknown dtype", 0) end,
  ["$device"] = function(v) return sft.device(v) end,
}

decode = function(v, tensors, depth)
  if type(v) ~= "table" then return v end
  if v == json.null then return nil end
  if v[1] == nil then
    for key, read in next, special do
      if v[key] ~= nil then return read(v[key], tensors, depth, v) end
    end
  end
  local out = {}
  for k, x in next, v do out[k] = decode(x, tensors, depth) end
  return out
end

local load_signature = args.signature("load", "path:str, *, map_location:any?")

-- sft.load(path): the tree that was saved. The tensors are on the CPU unless map_location says
-- otherwise: a device, a table {["cuda:3"] = "cpu"}, or a function (tensor, device it was saved
-- from) that returns a tensor or a device. A safetensors file of another program comes as an
-- ordered dict of its tensors, a second value is the file's metadata.
function M.load(path, options)
  local a = load_signature(path, options or {})
  local by_name, names, metadata = sft._safetensors_read(a.path)
  local moved = {}
  local function tensor(name, device)
    if moved[name] == nil then
      local t = by_name[name]
      if t == nil then error(('it names a tensor "%s" that is not in the file'):format(tostring(name)), 0) end
      moved[name] = locate(a.map_location, t, device)
    end
    return moved[name]
  end
  local text = metadata["sft.tree"]
  if not text then
    local out = ordered.new()
    for _, name in ipairs(names) do out[name] = tensor(name, "cpu") end
    return out, metadata
  end
  local good, tree = pcall(function() return decode(json.decode(text), tensor, 1) end)
  if not good then
    if sft.is_error(tree) then error(tree, 0) end
    fail("load: %s: the tree in the file's metadata is damaged: %s", a.path, tostring(tree))
  end
  return tree, metadata
end

return M
