-- Calls every op in the table with random arguments: tensors of all dtypes, layouts and sizes (0 too),
-- wrong types, nil, huge and negative numbers, NaN, strings, lists, released tensors, keyword tables.
-- The outcome of a call may only be a value or one of sft's own errors; the process must stay whole.
--
--   sftlua spec/fuzz/api_fuzz.lua [--calls N] [--seed N] [--op NAME] [--verbose]
--
-- Prints its seed first; the same seed makes the same calls. Best run under a build with sanitizers.

local sft = require "sft"

local options = {calls = 20000, seed = os.time()}
do
  local i = 1
  while arg[i] do
    if arg[i] == "--verbose" then
      options.verbose = true
    elseif arg[i]:sub(1, 2) == "--" and arg[i + 1] then
      options[arg[i]:sub(3)] = tonumber(arg[i + 1]) or arg[i + 1]
      i = i + 1
    else
      io.stderr:write("api_fuzz: unknown option ", arg[i], "\n")
      os.exit(2)
    end
    i = i + 1
  end
end

print("api_fuzz: seed " .. options.seed)
io.stdout:flush()
math.randomseed(options.seed)
sft.warnings("off")
-- nothing here needs more; what asks for more gets an error
sft.set_memory_limit("cpu", 256 * 1024 * 1024)
sft.set_num_threads(2)

local random = math.random

local function pick(list) return list[random(#list)] end
local function chance(percent) return random(100) <= percent end

local dtypes = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
local sizes = {0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 17, 33}

-- ---- tensors ----

local released = sft.zeros(2)
released:release()

local function random_shape(ndim)
  local shape = {}
  for i = 1, ndim or pick {0, 1, 1, 2, 2, 2, 3, 3, 4, 5} do shape[i] = pick(sizes) end
  if #shape > 3 then
    for i = 1, #shape do shape[i] = shape[i] % 5 end
  end
  return shape
end

local recent = {} -- shapes that make a fitting call likely

local function new_tensor(shape, dtype)
  local t = sft.zeros(shape, {dtype = dtype})
  local n = t:numel()
  if dtype == "bool" then
    if n > 0 and chance(60) then t[{}] = chance(50) end
  elseif dtype:find("int") then
    if chance(60) then
      t:fill_(pick {0, 1, 1, 2, 3, -1, 100, 127})
    end
    -- distinct positions, so that they serve as indices
    if n > 1 and chance(50) then
      for _ = 1, 4 do t:view(-1)[random(n)] = random(0, 4) end
    end
  else
    t:fill_(pick {0, 1, -1, 0.5, 2, 1e30, 0 / 0, math.huge, -math.huge, 1e-40})
    if n > 1 and chance(50) then
      for _ = 1, 4 do t:view(-1)[random(n)] = pick {0.25, -3, 7, 0 / 0, 1e9} end
    end
  end
  return t
end

local function relayout(t)
  local how = random(8)
  if how == 1 and t.ndim >= 2 then return t:transpose(random(t.ndim), random(t.ndim)) end
  if how == 2 and t.ndim >= 1 and t.shape[1] > 1 then return t:narrow(1, 2, t.shape[1] - 1) end
  if how == 3 and t.ndim >= 1 and #t > 0 then return t[{{1, -1, 2}}] end
  if how == 4 and t.ndim < 6 then
    local shape = {random(3)}
    for _, n in ipairs(t.shape) do shape[#shape + 1] = n end
    return t:expand(shape)
  end
  if how == 5 and t.ndim >= 1 then return t:unsqueeze(-1):expand(-1, table.unpack(t.shape, 2)) end
  return t
end

local function random_tensor(dtype)
  local shape
  if #recent > 0 and chance(60) then
    shape = pick(recent)
    if chance(20) then shape = {table.unpack(shape, 2)} end
  else
    shape = random_shape()
  end
  recent[#recent + 1] = shape
  local t = new_tensor(shape, dtype or pick(dtypes))
  if chance(25) then
    local ok, other = pcall(relayout, t)
    if ok then t = other end
  end
  if chance(15) then
    local ok, other = pcall(function() return t:detach():requires_grad_(true) end)
    if ok then t = other end
    if ok and chance(30) then
      ok, other = pcall(function() return t * 1 end)
      if ok then t = other end
    end
  end
  return t
end

-- ---- other values ----

local huge_ints = {
  math.maxinteger, math.mininteger, 2 ^ 53 | 0, 1 << 31, -(1 << 31), (1 << 32) + 1, 1 << 40, 1 << 62, -1 << 62,
}

local function integer()
  if chance(70) then return random(-3, 6) end
  if chance(60) then return pick {0, 0, 1, 1, 2, -1, 16, 17, 100, -100} end
  return pick(huge_ints)
end

local function number()
  if chance(50) then return integer() end
  return pick {0.0, -0.0, 0.5, -1.5, 1e-8, 1.0, 2.0, 3.25, 1e308, -1e308, 0 / 0, math.huge, -math.huge, 2.0 ^ 63,
    2.0 ^ 53}
end

local words = {"mean", "sum", "none", "batchmean", "fro", "floor", "trunc", "tanh", "same", "valid", "reflect",
  "constant",
  "circular", "replicate", "add", "prod", "amax", "bilinear", "nearest", "bicubic", "xy", "", "x", ("y"):rep(300),
    "a\0b", "left"}

local function junk()
  local k = random(13)
  if k == 1 then return nil
  elseif k == 2 then return chance(50)
  elseif k == 3 then return pick(words)
  elseif k == 4 then return {}
  elseif k == 5 then return {1, "a", {}}
  elseif k == 6 then return released
  elseif k == 7 then return print
  elseif k == 8 then return sft.float32
  elseif k == 9 then return setmetatable({}, {__index = function() error("index") end,
    __len = function() error("len") end})
  elseif k == 10 then return coroutine.create(print)
  elseif k == 11 then return number()
  elseif k == 12 then return io.stdout
  else return random_tensor() end
end

local function list_of(fn, most)
  local out = {}
  for i = 1, random(0, most or 4) do out[i] = fn() end
  return out
end

local makers = {
  Tensor = random_tensor,
  ["Tensor[]"] = function()
    return list_of(function() return chance(95) and random_tensor() or junk() end, 3)
  end,
  ["Tensor|Scalar"] = function() return chance(60) and random_tensor() or number() end,
  Scalar = number,
  int = integer,
  float = number,
  bool = function() return chance(50) end,
  str = function() return pick(words) end,
  dim = function() return chance(85) and random(-3, 3) or integer() end,
  ["dim[]"] = function()
    return chance(50) and random(-3, 3) or list_of(function() return random(-3, 3) end, 3)
  end,
  index = integer,
  ["int[]"] = function() return chance(40) and integer() or list_of(integer) end,
  ["size..."] = function()
    return list_of(function() return chance(90) and random(0, 9) or integer() end)
  end,
  ["float[]"] = function() return list_of(number) end,
  dtype = function() return pick(dtypes) end,
  device = function() return pick {"cpu", "cpu:0", "cuda:0", "mps", "gpu"} end,
  Generator = function() return sft.Generator and sft.Generator() or nil end,
}

local function value_for(p)
  if chance(8) then return junk() end
  return (makers[p.type] or junk)()
end

-- ---- calls ----

local rows = {}
for _, row in ipairs((sft._ops())) do
  local forms = {}
  if row.func and sft[row.name] then forms[#forms + 1] = sft[row.name] end
  if row.nn and sft._functional[row.name] then forms[#forms + 1] = sft._functional[row.name] end
  if row.method and sft._methods[row.name] then forms[#forms + 1] = sft._methods[row.name] end
  if row.inplace and sft._methods[row.name .. "_"] then forms[#forms + 1] = sft._methods[row.name .. "_"] end
  if #forms > 0 and (not options.op or row.name == options.op) then
    rows[#rows + 1] = {row = row, forms = forms}
  end
end

local function describe(v)
  if type(v) == "userdata" then
    local ok, text = pcall(function()
      return ("%s%s strides %s"):format(tostring(v.dtype), tostring(v.shape), table.concat({v:stride()}, ","))
    end)
    return ok and text or tostring(v)
  elseif type(v) == "table" then
    local parts = {}
    for k, x in next, v do parts[#parts + 1] = tostring(k) .. "=" .. describe(x) end
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  return tostring(v)
end

local counts = {value = 0, error = 0}

local function call_once()
  local entry = pick(rows)
  local row, fn = entry.row, pick(entry.forms)
  recent = {}
  local args, n = {}, 0
  local kw
  for _, p in ipairs(row.params) do
    if p.keyword_only or (p.optional and chance(40)) then
      if chance(30) then
        kw = kw or {}
        kw[p.name] = value_for(p)
      end
    elseif not kw and not chance(2) then
      n = n + 1
      args[n] = value_for(p)
    end
  end
  if row.out and chance(15) then
    kw = kw or {}
    kw.out = chance(80) and random_tensor() or junk()
  end
  if chance(2) then
    kw = kw or {}
    kw[pick {"dim", "nonsense", 1, "keepdim", "out", "dtype"}] = junk()
  end
  if kw then
    n = n + 1
    args[n] = kw
  elseif chance(2) then
    n = n + 1
    args[n] = junk()
  end
  if options.verbose then
    local parts = {}
    for i = 1, n do parts[i] = describe(args[i]) end
    print(row.id .. "(" .. table.concat(parts, "; ") .. ")")
    io.stdout:flush()
  end
  local results = table.pack(pcall(fn, table.unpack(args, 1, n)))
  if results[1] then
    counts.value = counts.value + 1
    -- what came back is looked at: shapes, elements, backward
    for i = 2, results.n do
      local x = results[i]
      if type(x) == "userdata" and sft.is_tensor(x) then
        local _ = {x.shape, x.dtype}
        if x:numel() < 5000 and chance(30) then tostring(x) end
        if x.requires_grad and x:numel() < 5000 and chance(60) then
          local ok, e = pcall(function()
            local loss = x:sum()
            loss:backward()
          end)
          if not ok and not sft.is_error(e) then error(row.id .. ": backward: " .. tostring(e), 0) end
        end
      end
    end
  else
    counts.error = counts.error + 1
    local e = results[2]
    -- __index of a hostile argument may raise its own
    if not sft.is_error(e) then
      local text = tostring(e)
      if not (text:find("index", 1, true) or text:find("len", 1, true)) then
        local parts = {}
        for i = 1, n do parts[i] = describe(args[i]) end
        error(("%s(%s): not an error of sft: %s"):format(row.id, table.concat(parts, "; "), text), 0)
      end
    end
  end
end

-- ---- what no row describes: indexing, hand-written functions and methods ----

local unsafe = {}
for name in ([[
  set_memory_limit set_num_threads set_default_dtype warnings write_npy _safetensors_write _fail_alloc_after
  warn save load set_grad_enabled no_grad enable_grad inference_mode get_device initialize_distributed_training
]]):gmatch("%S+") do unsafe[name] = true end

local others = {}
for _, from in ipairs {"_methods", "_functional"} do
  local names = {}
  for name, fn in pairs(sft[from]) do
    if type(fn) == "function" and not unsafe[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do others[#others + 1] = {name, sft[from][name]} end
end
do
  local names = {}
  for name, fn in next, sft do
    if type(name) == "string" and type(fn) == "function" and not unsafe[name] then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do others[#others + 1] = {name, sft[name]} end
end

local function random_key()
  local k = random(10)
  if k <= 3 then return integer() end
  if k == 4 then return random_tensor(pick {"int64", "bool", "int32", "uint8", "float32"}) end
  if k == 5 then return {{random(-4, 4), random(-4, 4)}} end
  if k == 6 then return junk() end
  local out = {}
  for i = 1, random(0, 4) do
    out[i] = pick {
      function() return integer() end,
      function() return {} end,
      function() return {random(-4, 6), random(-4, 6)} end,
      function() return {integer(), integer(), integer()} end,
      function() return sft.newaxis end,
      function() return "..." end,
      function() return random_tensor(pick {"int64", "bool"}) end,
      junk,
    }()
  end
  return out
end

local equations = {"ij,jk->ik", "i,i->", "ii->i", "ij->ji", "bij,bjk->bik", "...i,i->...", "ij,kl", "a", "", "->",
  "i->ii",
  "ij,jk->xk", "i,j,k->ijk", ("a"):rep(60), "i.j->i", "...", ",", "ij,ij->->"}

local function call_other()
  local k = random(6)
  recent = {}
  local what, ok, e
  if k == 1 then
    what = "index"
    local x, key = random_tensor(), random_key()
    if key == nil then return end
    ok, e = pcall(function() return x[key] end)
  elseif k == 2 then
    what = "newindex"
    local x, key, v = random_tensor(), random_key(), chance(50) and random_tensor() or junk()
    if key == nil then return end
    ok, e = pcall(function() x[key] = v end)
  elseif k == 3 then
    what = "einsum"
    local list = list_of(random_tensor, 3)
    ok, e = pcall(sft.einsum, pick(equations), list)
  elseif k == 4 then
    what = "operator"
    local a, b = random_tensor(), chance(60) and random_tensor() or junk()
    if chance(50) then a, b = b, a end
    ok, e = pcall(pick {
      function() return a + b end, function() return a - b end, function() return a * b end,
        function() return a / b end,
      function() return a // b end, function() return a % b end, function() return a ^ b end,
        function() return a & b end,
      function() return a << b end, function() return a < b end, function() return a .. b end, function() return -a end,
      function() return ~a end, function() return #a end, function() return a == b end,
        function() return tostring(a) end,
    })
    if not ok and not sft.is_error(e) and type(a) ~= "userdata" and type(b) ~= "userdata" then return end
  else
    local entry = pick(others)
    what = entry[1]
    local args, n = {}, random(0, 4)
    for i = 1, n do args[i] = chance(50) and random_tensor() or chance(40) and integer() or junk() end
    if options.verbose then
      local parts = {}
      for i = 1, n do parts[i] = describe(args[i]) end
      print("* " .. what .. "(" .. table.concat(parts, "; ") .. ")")
      io.stdout:flush()
    end
    ok, e = pcall(entry[2], table.unpack(args, 1, n))
  end
  if ok then
    counts.value = counts.value + 1
  else
    counts.error = counts.error + 1
    -- hand-written functions may use Lua's own argument errors
    if not sft.is_error(e) and type(e) ~= "string" and e ~= nil then
      error(what .. ": an error of another kind: " .. tostring(e), 0)
    end
  end
end

local start = os.clock()
for i = 1, options.calls do
  if options.op or chance(75) then call_once() else call_other() end
  if i % 500 == 0 then collectgarbage() end
end
-- the engine still works
assert(sft.is_grad_enabled(), "api_fuzz: grad mode was changed")
local x = sft.tensor({1.0, 2, 3}, {requires_grad = true})
x:mul(x):sum():backward()
assert(x.grad:tolist()[3] == 6, "api_fuzz: a gradient is wrong afterwards")
print(("api_fuzz: %d calls of %d rows, %d values, %d errors, %.1f s"):format(options.calls, #rows, counts.value,
  counts.error, os.clock() - start))
