-- Every sample call with one argument at a time replaced by something hostile: the ends of the
-- integers, infinities, NaN, nil, other types, tensors of another dtype, size or base. The outcome may
-- only be a value or an error of sft; the other arguments stay as they were.

local sft = require "sft"
local S = require "spec.support.samples"
local walk = require "spec.generic.walk"

local released = sft.zeros(1)
released:release()

local hostile = {
  math.mininteger, math.maxinteger, math.mininteger + 1, -1, 0, 1, 1 << 31, -(1 << 31), 1 << 32, 2.5,
  2.0 ^ 63, -2.0 ^ 63, 0 / 0, math.huge, -math.huge, 1e308, -0.0, "", "mean", "x", true, false, {},
  {math.mininteger}, {math.maxinteger, 2},
  {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {0.5}, {"x"}, {{}}, print, released, sft.float64,
  sft.zeros(0), sft.zeros(3, 0, 2), sft.zeros({}), sft.zeros(2, 2, 2, 2, 2), sft.tensor {0},
  sft.tensor {math.mininteger}, sft.tensor {math.maxinteger, 1}, sft.tensor({true, false}), sft.full({7}, 0 / 0),
  sft.zeros(1):expand(5),
  sft.tensor({-128}, {dtype = "int8"}), sft.full({2, 3}, math.mininteger), sft.full({3, 4}, math.huge),
}

describe("hostile arguments", function()
  setup(function() sft.set_memory_limit("cpu", sft.memory_allocated() + (256 << 20)) end)
  teardown(function() sft.set_memory_limit("cpu", 0) end)

  local function try(fn, args, what)
    local ok, e = pcall(fn, S.unpack(args))
    if not ok and not sft.is_error(e) then error(what .. ": not an error of sft: " .. tostring(e), 0) end
  end

  walk.each(it, "a value or an error", nil, function(row, sample, number, what)
    if number > 2 then return end
    local fns = {S.caller(row)}
    if row.inplace then fns[2] = sft._methods[row.name .. "_"] end
    for _, fn in ipairs(fns) do
      local args = S.build(sample, walk.dtypes_of(row, sample)[1])
      for i = 1, math.max(args.n, math.min(#row.params, args.n + 3)) do
        local own, n = args[i], args.n
        args.n = math.max(n, i)
        for k, v in ipairs(hostile) do
          args[i] = v
          try(fn, args, ("%s, argument %d, value %d"):format(what, i, k))
        end
        args[i] = nil
        try(fn, args, what)
        args[i], args.n = own, n
        if row.mutates or fn ~= fns[1] then args = S.build(sample, walk.dtypes_of(row, sample)[1]) end
      end
      for _, p in ipairs(row.params) do
        if p.keyword_only then
          local kw = args.kw
          for k, v in ipairs(hostile) do
            args.kw = {}
            for name, x in pairs(kw or {}) do args.kw[name] = x end
            args.kw[p.name] = v
            try(fn, args, ("%s, %s, value %d"):format(what, p.name, k))
          end
          args.kw = kw
        end
      end
    end
  end)
end)
