-- Every op x sample x dtype x layout: shape, dtype and value against the op on contiguous float64.

local sft = require "sft"
local S = require "spec.support.samples"
local walk = require "spec.generic.walk"
local naive = require "spec.generic.naive"

local floating = S.floating

-- The dtype that a row's result has to have, where its class says so.
local function expected_dtype(row, args)
  if row.dtypes == "cmp" then return "bool" end
  if (row.dtypes == "num" or row.dtypes == "int" or row.dtypes == "float") and row.dst and row.nout == 1 then
    local d
    for i = 1, args.n do
      local v = args[i]
      if type(v) == "number" or type(v) == "boolean" or type(v) == "userdata" then
        if d == nil then
          d = v
        else
          local r = sft.result_type(d, v)
          -- two dimensioned operands stand for all; 0-dim ones don't reach this far
          d = sft.zeros(1, {dtype = r})
        end
      end
    end
    if type(d) ~= "userdata" then return nil end
    local name = walk.dtype(d)
    if row.dtypes == "float" and not floating[name] then name = "float32" end
    return name
  end
end

local simple = {}
for name in ("add sub mul div maximum minimum fmax fmin atan2 copysign xlogy floor_divide remainder fmod"
  .. " bitwise_and bitwise_or bitwise_xor neg abs exp log sin sqrt sigmoid tanh"):gmatch("%S+") do
  simple[name] = true
end

local function reference(row, dtype, fn, args)
  local double = {n = args.n, tensors = {}}
  -- the very values of the walked dtype, in float64
  local seen = {}
  for i, t in ipairs(args.tensors) do
    local spec = args.specs[i]
    seen[t] = spec.dtype and t:contiguous():clone() or t:to(row.dtypes == "int" and sft.int64
      or sft.float64):contiguous()
    if spec.dtype and floating[spec.dtype] then seen[t] = t:to(sft.float64):contiguous() end
    if dtype == "bool" and not spec.dtype and row.dtypes == "int" then seen[t] = t:clone():contiguous() end
  end
  local function replace(v)
    if seen[v] then return seen[v] end
    if type(v) == "table" and getmetatable(v) == nil then
      local out = {}
      for k, x in pairs(v) do out[k] = replace(x) end
      return out
    end
    return v
  end
  for i = 1, args.n do double[i] = replace(args[i]) end
  if args.kw then double.kw = replace(args.kw) end
  return walk.call(fn, double), double
end

local function no_bool(row, dtype)
  return dtype == "bool" and row.dtypes ~= "cmp" and row.dtypes ~= "int"
end

describe("generic values", function()
  walk.each(it, "dtypes and layouts", function(row) return row.name ~= "copy" and row.name ~= "fill" end,
    function(row, sample, _, what)
      local fn = S.caller(row)
      local inplace_only = not (row.func or row.nn or row.method)
      if inplace_only or row.mutates then return end
      local layouts = sample.layouts == false and {"contiguous"} or {"contiguous", table.unpack(S.layouts)}
      for _, dtype in ipairs(walk.dtypes_of(row, sample)) do
        local has_tensors = true
        for _, layout in ipairs(layouts) do
          local here = ("%s (%s), %s, %s"):format(what, row.name, dtype, layout)
          local args = S.build(sample, dtype, layout)
          has_tensors = #args.tensors > 0
          local before = {}
          for i, t in ipairs(args.tensors) do before[i] = t:clone() end
          local ok, found = pcall(walk.call, fn, args)
          if not ok then
            local text = walk.clean(found, here)
            -- an op may refuse what its class doesn't promise, in plain words
            local promised = floating[dtype] or row.dtypes == "cmp" or (row.dtypes == "int")
              or (row.dtypes == "num" and dtype ~= "bool") or sample.dtypes ~= nil
            if promised then error(here .. ": " .. text, 0) end
            break
          end
          for i, t in ipairs(args.tensors) do
            if not row.mutates then walk.same({before[i]}, {t}, 0, here .. ": argument " .. i .. " was changed") end
          end
          if sample.random or sample.shape_only or sample.reference == false then
            local again = walk.call(fn, args)
            if not sample.shape_only then walk.same(found, again, 0, here .. ": the same seed") end
          elseif not no_bool(row, dtype) then
            local good, expected, double = pcall(reference, row, dtype, fn, args)
            if not good then error(here .. ": the reference: " .. tostring(expected), 0) end
            walk.same(expected, found, sample.tol, here)
            if layout == "contiguous" and naive[row.id] and dtype == "float64" then
              local by_hand = naive[row.id](double, walk)
              if by_hand then walk.same(by_hand, expected, 100, here .. ": by hand") end
            end
          end
          local dt = expected_dtype(row, args)
          if dt and simple[row.name] and #args.tensors > 0 and not (args.kw and args.kw.rounding_mode) then
            assert(walk.dtype(found[1]) == dt, here .. ": dtype " .. walk.dtype(found[1]) .. ", expected " .. dt)
          elseif row.dtypes == "cmp" and not inplace_only then
            assert(walk.dtype(found[1]) == "bool", here .. ": dtype is not bool")
          elseif floating[dtype] and has_tensors and not sample.dtype_free and row.dtypes == "real" then
            assert(walk.dtype(found[1]) == dtype, here .. ": dtype " .. walk.dtype(found[1]))
          end
        end
        if not has_tensors then break end
      end
    end)
end)

describe("zero-size inputs", function()
  walk.each(it, "a value or an error", function(row) return row.func or row.nn or row.method end,
    function(row, sample, _, what)
      if sample.zero == false or row.mutates then return end
      local fn = S.caller(row)
      local dtype = walk.dtypes_of(row, sample)[1]
      local sizes, elementwise = {}, row.dst and row.nout == 1 and row.name ~= "index_put"
      S.map_args(sample, function(t)
        for _, n in ipairs(t.shape) do if n > 1 then sizes[n] = true end end
      end)
      for n in pairs(sizes) do
        local here = ("%s, %d -> 0"):format(what, n)
        local args = S.build(sample, dtype, "contiguous", {sizes = {[n] = 0}})
        local ok, found = pcall(walk.call, fn, args)
        if not ok then
          local text = walk.clean(found, here)
          if elementwise and (row.dtypes == "num" or row.dtypes == "float" or row.dtypes == "cmp") then
            error(here .. ": " .. text, 0)
          end
        else
          for _, x in ipairs(found) do
            if type(x) == "userdata" then
              local list = walk.flat(x)
              assert(#list == x:numel(), here)
            end
          end
        end
      end
    end)
end)
