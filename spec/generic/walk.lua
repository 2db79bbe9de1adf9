-- What the generic specs share: walking the op table, comparing results.

local sft = require "sft"
local S = require "spec.support.samples"

local M = {}

M.dtypes = {
  all = {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"},
  float = {"float32", "float64", "float16", "bfloat16"},
  int = {"int64", "int32", "int16", "int8", "uint8", "bool"},
}

local tolerance = {float64 = 1e-10, float32 = 2e-5, float16 = 6e-3, bfloat16 = 5e-2}
local wrap = {int8 = 8, int16 = 16, int32 = 32, uint8 = 8}

function M.dtype(x)
  return (tostring(x.dtype):match("%w+$"))
end

-- The dtypes to walk for a sample of a row.
function M.dtypes_of(row, sample)
  local d = sample.dtypes
  if type(d) == "table" then return d end
  if d then return M.dtypes[d] end
  if row.dtypes == "real" then return M.dtypes.float end
  if row.dtypes == "int" then return M.dtypes.int end
  return M.dtypes.all
end

-- All elements in row-major order, without dims.
function M.flat(x)
  x = x:detach()
  if x.ndim == 0 then return {x:item()} end
  return x:reshape(-1):tolist()
end

function M.shape(x)
  return "[" .. table.concat(x.shape, ", ") .. "]"
end

-- A call's results as a list of tensors. Random ops start from the same seed.
function M.call(fn, args, extra)
  sft.manual_seed(20)
  return S.results(fn(S.unpack(args, extra)))
end

local function near(a, b, tol)
  if a == b then return true end
  if type(a) ~= "number" or type(b) ~= "number" then return false end
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  return math.abs(a - b) <= tol * math.max(1, math.abs(a), math.abs(b))
end

-- A reference value as the dtype holds it: integers wrap, booleans are what isn't 0.
local function as_dtype(v, dtype)
  if type(v) == "boolean" then
    if dtype == "bool" then return v end
    return v and 1 or 0
  end
  if dtype == "bool" then return v ~= 0 end
  local bits = wrap[dtype]
  if bits and v == v and math.abs(v) < 2 ^ 53 then
    local n = math.tointeger(v < 0 and math.ceil(v) or math.floor(v))
    n = n & ((1 << bits) - 1)
    if dtype ~= "uint8" and n >= 1 << (bits - 1) then n = n - (1 << bits) end
    return n
  end
  if dtype == "int64" and math.abs(v) < 2 ^ 53 then
    return math.tointeger(v < 0 and math.ceil(v) or math.floor(v))
  end
  if dtype == "bfloat16" or dtype == "float16" then return v end
  return v
end

-- Raises unless the lists of tensors agree. `exact`: dtypes too and every bit (up to NaN).
function M.same(expected, found, factor, what)
  if #expected ~= #found then error(("%s: %d results, expected %d"):format(what, #found, #expected), 2) end
  for i, e in ipairs(expected) do
    local f = found[i]
    if type(e) ~= "userdata" or type(f) ~= "userdata" then
      if e ~= f then error(("%s: result %d is %s, expected %s"):format(what, i, tostring(f), tostring(e)), 2) end
    else
      if M.shape(e) ~= M.shape(f) then
        error(("%s: result %d has shape %s, expected %s"):format(what, i, M.shape(f), M.shape(e)), 2)
      end
      local dtype = M.dtype(f)
      local tol = (tolerance[dtype] or 0) * (factor or 1)
      local a, b = M.flat(e), M.flat(f)
      for k = 1, #a do
        local want = as_dtype(a[k], dtype)
        if not near(want, b[k], tol) then
          error(("%s: result %d, element %d is %s, expected %s"):format(what, i, k, tostring(b[k]), tostring(want)), 2)
        end
      end
    end
  end
end

-- Calls fn(row, sample, number) for every sample of every public row of a family, one `it` per row.
function M.each(it, what, wanted, fn)
  for _, row in ipairs(S.rows) do
    if row.public and S.all[row.id] and (not wanted or wanted(row)) then
      it(row.id .. ": " .. what, function()
        for number, sample in ipairs(S.all[row.id]) do
          fn(row, sample, number, ("%s, sample %d"):format(row.id, number))
        end
      end)
    end
  end
end

-- The error of a call that may fail, which has to be one of sft's own.
function M.clean(e, what)
  if not sft.is_error(e) then error(what .. ": not an error of sft: " .. tostring(e), 2) end
  return tostring(e)
end

return M
