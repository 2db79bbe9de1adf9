-- NaN of either sign at each position of lengths 1 to 70 (vector bodies and their tails): max, min,
-- argmax and maximum propagate it, sort and topk take it for the greatest, the first of equals wins.

local sft = require "sft"

local nan = 0 / 0
local lengths = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70}

local function isnan(x) return x ~= x end

for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
  describe("NaN in " .. dtype, function()
    it("at each position", function()
      for _, n in ipairs(lengths) do
        local values = {}
        for i = 1, n do values[i] = (i * 37 % 71) / 8 end
        for at = 1, n, n > 20 and 3 or 1 do
          for _, sign in ipairs {1, -1} do
            local old = values[at]
            values[at] = sign > 0 and nan or -nan
            local x = sft.tensor(values, {dtype = dtype})
            values[at] = old
            local what = ("length %d, position %d"):format(n, at)
            for _, name in ipairs {"max", "min", "amax", "amin", "sum", "mean", "prod", "logsumexp"} do
              local r = name == "logsumexp" and x:logsumexp(1) or x[name](x)
              assert(isnan(r:item()), name .. ", " .. what)
            end
            assert(x:argmax():item() == at and x:argmin():item() == at, "argmax, " .. what)
            local v, i = x:max(1)
            assert(isnan(v:item()) and i:item() == at, "max of a dim, " .. what)
            v, i = x:min(1)
            assert(isnan(v:item()) and i:item() == at, "min of a dim, " .. what)
            v, i = x:sort()
            assert(isnan(v[n]:item()) and i[n]:item() == at, "sort, " .. what)
            assert(n == 1 or not isnan(v[n - 1]:item()), "sort, " .. what)
            v, i = x:sort(1, true)
            assert(isnan(v[1]:item()) and i[1]:item() == at, "sort descending, " .. what)
            v, i = x:topk(1)
            assert(isnan(v[1]:item()) and i[1]:item() == at, "topk, " .. what)
            -- two operands, in either order, and both reductions along another dim
            local plain = sft.ones(n, {dtype = dtype})
            for _, name in ipairs {"maximum", "minimum"} do
              local a, b = sft[name](x, plain), sft[name](plain, x)
              assert(isnan(a[at]:item()) and isnan(b[at]:item()), name .. ", " .. what)
              assert(a:isnan():sum():item() == 1, name .. ", " .. what)
            end
            local f = sft.fmax(x, plain)
            assert(f:isnan():sum():item() == 0, "fmax, " .. what)
            assert(x:relu():isnan():sum():item() == 1, "relu, " .. what)
            assert(x:clamp(0, 1):isnan():sum():item() == 1, "clamp, " .. what)
            local m = sft.stack({plain, x, plain}, 1)
            assert(isnan(m:amax(1)[at]:item()) and m:amax(1):isnan():sum():item() == 1, "amax of rows, " .. what)
            assert(m:argmax(1)[at]:item() == 2, "argmax of rows, " .. what)
          end
        end
      end
    end)

    it("of equals the first wins", function()
      for _, n in ipairs(lengths) do
        local x = sft.ones(n, {dtype = dtype})
        assert.equal(1, x:argmax():item())
        assert.equal(1, x:argmin():item())
        local _, i = x:max(1)
        assert.equal(1, i:item())
        x:fill_(nan)
        assert.equal(1, x:argmax():item())
        _, i = x:min(1)
        assert.equal(1, i:item())
      end
    end)
  end)
end
