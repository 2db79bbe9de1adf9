-- Plain formulas for the ops on contiguous float64 tensors, so that the reference of the generic specs
-- is itself checked. Each takes the arguments of a call and returns the expected results as a list, or
-- nil where it has no say.

local sft = require "sft"

local M = {}

local function numel(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end

-- Index of a flat position of `shape` in a tensor of shape `own` that is broadcast to it.
local function at(position, shape, own)
  local index, stride = 0, 1
  position = position - 1
  for d = #shape, 1, -1 do
    local i = position % shape[d]
    position = position // shape[d]
    local k = d - (#shape - #own)
    if k >= 1 then
      if own[k] > 1 then index = index + i * stride end
      stride = stride * own[k]
    end
  end
  return index + 1
end

local function sizes(x)
  local out = {}
  if type(x) == "userdata" then
    for i, n in ipairs(x.shape) do out[i] = n end
  end
  return out
end

local function broadcast(list)
  local out = {}
  for _, s in ipairs(list) do
    if #s > #out then
      local more = {}
      for i = 1, #s - #out do more[i] = s[i] end
      table.move(out, 1, #out, #more + 1, more)
      out = more
    end
    for i = 1, #s do
      local k = #out - #s + i
      if out[k] == 1 then out[k] = s[i] end
    end
  end
  return out
end

-- The elementwise op fn over the first n arguments.
local function elementwise(n, fn)
  return function(args, walk)
    local shapes, flats = {}, {}
    for i = 1, n do
      local v = args[i]
      if v == nil then return nil end
      shapes[i] = sizes(v)
      flats[i] = type(v) == "userdata" and walk.flat(v) or {v}
    end
    if args.kw and (args.kw.alpha or args.kw.rounding_mode or args.kw.value or args.kw.approximate or args.kw.decimals
      or args.kw.nan) or args[n + 1] ~= nil then
      return nil
    end
    local shape = broadcast(shapes)
    local out = {}
    for p = 1, numel(shape) do
      local v = {}
      for i = 1, n do v[i] = flats[i][at(p, shape, shapes[i])] end
      out[p] = fn(table.unpack(v))
    end
    return {sft.tensor(out, {dtype = type(out[1]) == "boolean" and sft.bool or sft.float64}):reshape(shape)}
  end
end

local function sign(x) return x > 0 and 1 or x < 0 and -1 or 0 end
local function trunc(x) return x < 0 and math.ceil(x) + 0.0 or math.floor(x) + 0.0 end
local function tanh(x) local e = math.exp(2 * x) return (e - 1) / (e + 1) end
local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
-- by its series; enough for |x| < 4
local function erf(x)
  local sum, term = x, x
  for n = 1, 200 do
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end

local unary = {
  neg = function(x) return -x end,
  abs = math.abs,
  sign = sign,
  sgn = sign,
  positive = function(x) return x end,
  square = function(x) return x * x end,
  floor = function(x) return math.floor(x) + 0.0 end,
  ceil = function(x) return math.ceil(x) + 0.0 end,
  trunc = trunc,
  frac = function(x) return x - trunc(x) end,
  exp = math.exp,
  exp2 = function(x) return 2 ^ x end,
  expm1 = function(x) return math.exp(x) - 1 end,
  log = math.log,
  log2 = function(x) return math.log(x, 2) end,
  log10 = function(x) return math.log(x, 10) end,
  log1p = function(x) return math.log(1 + x) end,
  sqrt = math.sqrt,
  rsqrt = function(x) return 1 / math.sqrt(x) end,
  reciprocal = function(x) return 1 / x end,
  sin = math.sin, cos = math.cos, tan = math.tan,
  asin = math.asin, acos = math.acos, atan = math.atan,
  sinh = function(x) return (math.exp(x) - math.exp(-x)) / 2 end,
  cosh = function(x) return (math.exp(x) + math.exp(-x)) / 2 end,
  tanh = tanh,
  asinh = function(x) return math.log(x + math.sqrt(x * x + 1)) end,
  acosh = function(x) return math.log(x + math.sqrt(x * x - 1)) end,
  atanh = function(x) return math.log((1 + x) / (1 - x)) / 2 end,
  erf = erf,
  erfc = function(x) return 1 - erf(x) end,
  sigmoid = sigmoid,
  logit = function(x) return math.log(x / (1 - x)) end,
  deg2rad = math.rad, rad2deg = math.deg,
  isnan = function(x) return x ~= x end,
  isinf = function(x) return math.abs(x) == math.huge end,
  isfinite = function(x) return x - x == 0 end,
  isposinf = function(x) return x == math.huge end,
  isneginf = function(x) return x == -math.huge end,
  signbit = function(x) return x < 0 or 1 / x < 0 end,
  logical_not = function(x) return x == 0 end,
  relu = function(x) return math.max(x, 0) end,
  relu6 = function(x) return math.min(math.max(x, 0), 6) end,
  gelu = function(x) return x * 0.5 * (1 + erf(x / math.sqrt(2))) end,
  silu = function(x) return x * sigmoid(x) end,
  mish = function(x) return x * tanh(math.log(1 + math.exp(x))) end,
  selu = function(x)
    local alpha, scale = 1.6732632423543772848, 1.0507009873554804934
    return scale * (x > 0 and x or alpha * (math.exp(x) - 1))
  end,
  elu = function(x) return x > 0 and x or math.exp(x) - 1 end,
  celu = function(x) return x > 0 and x or math.exp(x) - 1 end,
  leaky_relu = function(x) return x > 0 and x or 0.01 * x end,
  hardtanh = function(x) return math.min(math.max(x, -1), 1) end,
  hardsigmoid = function(x) return math.min(math.max(x + 3, 0), 6) / 6 end,
  hardswish = function(x) return x * math.min(math.max(x + 3, 0), 6) / 6 end,
  softplus = function(x) return math.log(1 + math.exp(x)) end,
  logsigmoid = function(x) return math.log(sigmoid(x)) end,
  softsign = function(x) return x / (1 + math.abs(x)) end,
  tanhshrink = function(x) return x - tanh(x) end,
  hardshrink = function(x) return math.abs(x) > 0.5 and x or 0 end,
  softshrink = function(x) return x > 0.5 and x - 0.5 or x < -0.5 and x + 0.5 or 0 end,
}
for name, fn in pairs(unary) do M[name] = elementwise(1, fn) end

local binary = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  rsub = function(a, b) return b - a end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  floor_divide = function(a, b) return math.floor(a / b) + 0.0 end,
  remainder = function(a, b) return a - b * math.floor(a / b) end,
  fmod = function(a, b) return math.fmod(a, b) end,
  pow = function(a, b) return a ^ b end,
  float_power = function(a, b) return a ^ b end,
  maximum = math.max, minimum = math.min, fmax = math.max, fmin = math.min,
  max_other = math.max, min_other = math.min,
  atan2 = function(a, b) return math.atan(a, b) end,
  hypot = function(a, b) return math.sqrt(a * a + b * b) end,
  copysign = function(a, b) return b < 0 and -math.abs(a) or math.abs(a) end,
  logaddexp = function(a, b) return math.log(math.exp(a) + math.exp(b)) end,
  logaddexp2 = function(a, b) return math.log(2 ^ a + 2 ^ b, 2) end,
  xlogy = function(a, b) return a * math.log(b) end,
  heaviside = function(a, b) return a < 0 and 0 or a > 0 and 1 or b end,
  eq = function(a, b) return a == b end,
  ne = function(a, b) return a ~= b end,
  lt = function(a, b) return a < b end,
  le = function(a, b) return a <= b end,
  gt = function(a, b) return a > b end,
  ge = function(a, b) return a >= b end,
  logical_and = function(a, b) return a ~= 0 and b ~= 0 end,
  logical_or = function(a, b) return a ~= 0 or b ~= 0 end,
  logical_xor = function(a, b) return (a ~= 0) ~= (b ~= 0) end,
}
for name, fn in pairs(binary) do M[name] = elementwise(2, fn) end

local ternary = {
  where = function(c, a, b) if c then return a else return b end end,
  lerp = function(a, b, w) return a + w * (b - a) end,
  addcmul = function(a, b, c) return a + b * c end,
  addcdiv = function(a, b, c) return a + b / c end,
}
for name, fn in pairs(ternary) do M[name] = elementwise(3, fn) end

-- ---- reductions: over all, one dim or a list of dims ----

local function reduction(fn, dim_at, keep_at)
  return function(args, walk)
    local x = args[1]
    local kw = args.kw or {}
    if kw.dtype or kw.correction then return nil end
    local dim = args[dim_at or 2]
    if dim == nil then dim = kw.dim end
    local keep = args[keep_at or 3] or kw.keepdim
    local shape, over = sizes(x), {}
    local function add(d) over[d < 0 and #shape + 1 + d or d] = true end
    if type(dim) == "table" then
      for _, d in ipairs(dim) do add(d) end
    elseif dim then
      add(dim)
    else
      for d = 1, #shape do over[d] = true end
    end
    local left, kept = {}, {}
    for d, n in ipairs(shape) do
      kept[d] = over[d] and 1 or n
      if not over[d] then left[#left + 1] = n end
    end
    local groups, flat = {}, walk.flat(x)
    for p = 1, #flat do
      local g = at(p, shape, kept)
      groups[g] = groups[g] or {}
      table.insert(groups[g], flat[p])
    end
    local out = {}
    for g = 1, numel(kept) do out[g] = fn(groups[g]) end
    return {sft.tensor(out, {dtype = type(out[1]) == "boolean" and sft.bool or sft.float64}):reshape(keep and kept
      or left)}
  end
end

local function sum(list)
  local s = 0.0
  for _, v in ipairs(list) do s = s + v end
  return s
end
local function mean(list) return sum(list) / #list end
local function variance(list)
  local m, s = mean(list), 0.0
  for _, v in ipairs(list) do s = s + (v - m) ^ 2 end
  return s / (#list - 1)
end
local function count(list)
  local n = 0
  for _, v in ipairs(list) do if v ~= 0 then n = n + 1 end end
  return n
end
local function greatest(list) return math.max(table.unpack(list)) end
local function least(list) return math.min(table.unpack(list)) end
-- by halves: the largest first, so that nothing overflows
local function logsumexp(list)
  local m, s = greatest(list), 0
  for _, v in ipairs(list) do s = s + math.exp(v - m) end
  return m + math.log(s)
end

M.sum, M.nansum = reduction(sum), reduction(sum)
M.mean, M.nanmean = reduction(mean), reduction(mean)
M.amax, M.amin = reduction(greatest), reduction(least)
M.max, M.min = reduction(greatest), reduction(least)
M.logsumexp = reduction(logsumexp)
M.any = reduction(function(list) return count(list) > 0 end)
M.all = reduction(function(list) return count(list) == #list end)
M.count_nonzero = reduction(count)
M.prod = reduction(function(list)
  local p = 1.0
  for _, v in ipairs(list) do p = p * v end
  return p
end)
local function unbiased(fn)
  return function(args, walk)
    if args[3] == false or args[2] == false then return nil end
    return fn(args, walk)
  end
end
M.var = unbiased(reduction(variance, 2, 4))
M.std = unbiased(reduction(function(list) return math.sqrt(variance(list)) end, 2, 4))

-- ---- matrix products ----

local function product(a, b, walk)
  local n, k, m = a.shape[1], a.shape[2], b.shape[2]
  local x, y, out = walk.flat(a), walk.flat(b), {}
  for i = 0, n - 1 do
    for j = 0, m - 1 do
      local s = 0.0
      for p = 0, k - 1 do s = s + x[i * k + p + 1] * y[p * m + j + 1] end
      out[i * m + j + 1] = s
    end
  end
  return sft.tensor(out, {dtype = sft.float64}):reshape(n, m)
end

function M.mm(args, walk) return {product(args[1], args[2], walk)} end
function M.bmm(args, walk)
  local list = {}
  for i = 1, args[1].shape[1] do list[i] = product(args[1][i], args[2][i], walk) end
  return {sft.stack(list)}
end

-- ---- rows: softmax over the dim, which is the last here ----

local function softmax(log)
  return function(args, walk)
    local x, dim = args[1], args[2]
    if x.ndim == 0 or (args.kw and args.kw.dtype) then return nil end
    if dim ~= x.ndim and dim ~= -1 then return nil end
    local flat, n, out = walk.flat(x), x.shape[x.ndim], {}
    for row = 0, #flat // n - 1 do
      local list = {table.unpack(flat, row * n + 1, row * n + n)}
      local lse = logsumexp(list)
      for i, v in ipairs(list) do
        out[row * n + i] = log and v - lse or math.exp(v - lse)
      end
    end
    return {sft.tensor(out, {dtype = sft.float64}):reshape(sizes(x))}
  end
end
M.softmax, M.log_softmax = softmax(false), softmax(true)

return M
