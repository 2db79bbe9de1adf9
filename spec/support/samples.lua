-- Sample calls of every op, from which the generic specs and the fuzzer make their inputs.
--
-- samples/<family>.lua returns a function of T that returns {row id = {sample, ...}}. The id of a row
-- of ops.def is its first column: overloads share a name and have an id each. A sample is a list of
-- positional arguments; T(shape, options) stands for a tensor. Further fields of a sample:
--   kw       keyword arguments
--   dtypes   the dtypes to walk: "all" (the default of most classes), "float", "int", or a list of names
--   grad     false: no gradient to check here (say why)
--   random   values depend on the generator, which is seeded before each call
--   shape_only  values are unspecified (empty)
--   double   false: no second gradient to check
--   tol, grad_tol  factors on the tolerances
--   layouts  false: only contiguous inputs (the result depends on the strides)
--   zero     false: no zero-size variant
--   keywords false: not the same call when the arguments are named
--
-- Options of T:
--   lo, hi   range of the values (-3 to 3). They are distinct odd multiples of 1/32 (as long as there
--            are enough of them), so that no value is at a kink and each is exact in every dtype
--   dtype    a fixed dtype ("int64": whole numbers lo to hi); otherwise the walked one
--   grad     false: no gradient wanted
--   even     even multiples of 1/32: never equal to one of another tensor, and no ratio of them is whole
--   nonzero  no zero among the integers
--   values   the values themselves, flat
--   float    stays a floating tensor where the walked dtype is an integer one

local sft = require "sft"

local M = {}

local Tensor = {}
Tensor.__index = Tensor

local function T(shape, options)
  local t = setmetatable({shape = shape}, Tensor)
  for k, v in pairs(options or {}) do t[k] = v end
  t.lo = t.lo or -3
  t.hi = t.hi or 3
  return t
end
M.T = T

function M.is_tensor_spec(v)
  return getmetatable(v) == Tensor
end

-- ---- values ----

local function count(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end

-- The numbers of a shuffle of 0 to n - 1, the same in every run.
local function shuffled(n, salt)
  local state = 12345 + 977 * salt
  local p = {}
  for i = 1, n do p[i] = i - 1 end
  for i = n, 2, -1 do
    state = (state * 1103515245 + 12345) & 0x7fffffff
    local j = (state >> 8) % i + 1
    p[i], p[j] = p[j], p[i]
  end
  return p
end

local floating = {float16 = true, bfloat16 = true, float32 = true, float64 = true}
M.floating = floating

-- The values of a tensor in a dtype, flat. `salt` tells apart the tensors of one call.
function M.values(t, dtype, salt)
  local n = count(t.shape)
  local out = {}
  if t.values then
    for i = 1, n do out[i] = t.values[i] end
    return out
  end
  local p = shuffled(n, salt)
  if t.dtype and not floating[t.dtype] then
    if t.dtype == "bool" then
      for i = 1, n do out[i] = p[i] % 2 == 0 end
    else
      local span = t.hi - t.lo + 1
      for i = 1, n do out[i] = math.tointeger(t.lo + p[i] % span) end
    end
    return out
  end
  for i = 1, n do
    local v = t.lo + (t.hi - t.lo) * (p[i] + 0.5) / n
    v = (2 * math.floor(v * 16) + (t.even and 0 or 1)) / 32
    if not floating[dtype] then
      if dtype == "bool" then
        v = v > (t.lo + t.hi) / 2
      else
        v = math.tointeger(v >= 0 and math.floor(v * 2) or math.ceil(v * 2))
        if dtype == "uint8" then v = math.abs(v) end
        if t.nonzero and v == 0 then v = 1 end
      end
    end
    out[i] = v
  end
  return out
end

-- ---- tensors in many layouts ----

local function contiguous(shape, values, dtype)
  local flat = sft.tensor(values, {dtype = dtype})
  return flat:reshape(shape)
end

-- What fills the holes of a layout: a value that shows wherever it is read.
local function poison(dtype)
  if floating[dtype] then return 0 / 0 end
  if dtype == "bool" then return true end
  return 113
end

local layouts = {}
M.layouts = {"transposed", "sliced", "expanded"}

function layouts.contiguous(t)
  return t
end

function layouts.transposed(t, dtype)
  if t.ndim < 2 then return layouts.sliced(t, dtype) end
  local order = {}
  for i = t.ndim, 1, -1 do order[#order + 1] = i end
  return t:permute(order):clone():contiguous():permute(order)
end

-- Every second element of a larger tensor, from the second on, in each dim.
function layouts.sliced(t, dtype)
  local shape, index = {}, {}
  for i, s in ipairs(t.shape) do
    shape[i] = 2 * s + 1
    index[i] = {2, 2 * s, 2}
  end
  if t.ndim == 0 then
    local room = contiguous({3}, {poison(dtype), poison(dtype), poison(dtype)}, dtype)
    local one = room:select(1, 2)
    one:copy_(t)
    return one
  end
  for _, s in ipairs(t.shape) do
    if s == 0 then return t end
  end
  local n = count(shape)
  local values = {}
  for i = 1, n do values[i] = poison(dtype) end
  local room = contiguous(shape, values, dtype)
  local view = room[index]
  view:copy_(t)
  return view
end

-- The first index of the first dim longer than 1, repeated with stride 0.
function layouts.expanded(t)
  for d, s in ipairs(t.shape) do
    if s > 1 then return t:narrow(d, 1, 1):clone():expand(t.shape) end
  end
  return t
end

-- ---- whole calls ----

-- Maps every T among the arguments (lists too) by fn(t, number).
local function map_args(sample, fn)
  local count_t = 0
  local function walk(v)
    if type(v) ~= "table" then return v end
    if getmetatable(v) == Tensor then
      count_t = count_t + 1
      return fn(v, count_t)
    end
    if getmetatable(v) ~= nil then return v end
    local out = {}
    for k, x in pairs(v) do out[k] = walk(x) end
    return out
  end
  local args = {n = sample.n or #sample}
  for i = 1, args.n do args[i] = walk(sample[i]) end
  if sample.kw then
    local names, kw = {}, {}
    for k in pairs(sample.kw) do names[#names + 1] = k end
    table.sort(names)
    for _, k in ipairs(names) do kw[k] = walk(sample.kw[k]) end
    args.kw = kw
  end
  return args
end
M.map_args = map_args

-- Builds the arguments of a sample: {..., n =, kw =, tensors = {...}, specs = {...}}.
--   dtype, layout   of the tensors whose dtype isn't fixed; layout applies to all
--   double          the same values, but in float64 (the reference)
--   grad            floating tensors that want gradients get them
--   sizes           {[3] = 0}: a size to replace in every shape
function M.build(sample, dtype, layout, options)
  options = options or {}
  local tensors, specs = {}, {}
  local args = map_args(sample, function(t, number)
    local own = t.dtype or (t.float and not floating[dtype] and "float32") or dtype
    local spec = t
    if options.sizes then
      local shape = {}
      for i, s in ipairs(t.shape) do shape[i] = options.sizes[s] or s end
      spec = setmetatable({shape = shape}, {__index = t})
      if t.values then spec.values = nil end
    end
    local x = contiguous(spec.shape, M.values(spec, own, number), own)
    x = layouts[layout or "contiguous"](x, own)
    if options.double and not t.dtype then
      x = x:to(sft.float64):contiguous():clone()
    end
    if options.grad and t.grad ~= false and floating[tostring(x.dtype):match("%w+$")] then
      x = x:detach():requires_grad_(true)
    end
    tensors[number], specs[number] = x, t
    return x
  end)
  args.tensors, args.specs = tensors, specs
  return args
end

-- The arguments as they are passed: positional ones, then the keyword table.
function M.unpack(args, extra)
  local list, n = {}, args.n
  for i = 1, n do list[i] = args[i] end
  if args.kw or extra then
    local kw = {}
    for k, v in pairs(args.kw or {}) do kw[k] = v end
    for k, v in pairs(extra or {}) do kw[k] = v end
    n = n + 1
    list[n] = kw
  end
  return table.unpack(list, 1, n)
end

-- All tensors of a call's results: several values, or lists of them.
function M.results(...)
  local out = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if type(v) == "table" and getmetatable(v) == nil then
      for _, x in ipairs(v) do out[#out + 1] = x end
    else
      out[#out + 1] = v
    end
  end
  return out
end

-- ---- the table ----

local families = {
  "unary", "activation", "binary", "reduce", "scan", "softmax", "matmul", "shape", "join", "index",
  "creation", "random", "norm", "loss", "conv", "pool", "sort", "attention", "copy", "misc",
}

local all = {}
M.family_of = {}
for _, family in ipairs(families) do
  for id, list in pairs(require("spec.support.samples." .. family)(T)) do
    assert(not all[id], id .. " has samples in two files")
    all[id] = list
    M.family_of[id] = family
  end
end
M.all = all

-- Rows that scripts can reach, by id.
M.rows = {}
M.aliases = select(2, sft._ops())
for _, row in ipairs((sft._ops())) do
  row.public = (row.method or row.func or row.nn or row.inplace) and row.name:sub(1, 1) ~= "_"
  M.rows[#M.rows + 1] = row
end

-- The plainest way to call a row from a script.
function M.caller(row)
  if row.func and sft[row.name] then return sft[row.name] end
  if row.nn then return sft._functional[row.name] end
  if row.method then return sft._methods[row.name] end
  return sft._methods[row.name .. "_"]
end

return M
