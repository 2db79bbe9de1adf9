-- Pools: against plain loops, every combination of their options, gradients of first and second order.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

-- The windows of output i of one dim: its elements within the input, and its size with padding.
local function window(i, n, k, s, p, d)
  local list = {}
  local first = (i - 1) * s - p + 1
  for j = 0, k - 1 do
    local at = first + j * d
    if at >= 1 and at <= n then list[#list + 1] = at end
  end
  return list, math.min(first + k - 1, n + p) - first + 1
end

local function out_size(n, k, s, p, d, ceil)
  local span = n + 2 * p - d * (k - 1) - 1
  local out = (span + (ceil and s - 1 or 0)) // s + 1
  if ceil and (out - 1) * s >= n + p then out = out - 1 end
  return out
end

-- fn(values, sizes with padding) over the windows of a plane.
local function plain(x, k, s, p, d, ceil, fn)
  local rows = {}
  local h, w = x:size(1), x:size(2)
  for i = 1, out_size(h, k[1], s[1], p[1], d[1], ceil) do
    rows[i] = {}
    for j = 1, out_size(w, k[2], s[2], p[2], d[2], ceil) do
      local hs, hp = window(i, h, k[1], s[1], p[1], d[1])
      local ws, wp = window(j, w, k[2], s[2], p[2], d[2])
      local values, at = {}, {}
      for _, a in ipairs(hs) do
        for _, b in ipairs(ws) do
          values[#values + 1] = x[a][b]:item()
          at[#at + 1] = (a - 1) * w + b
        end
      end
      rows[i][j] = fn(values, hp * wp, at)
    end
  end
  return rows
end

local cases = {
  {{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}, {{3, 2}, {1, 2}, {1, 0}, {1, 1}},
  {{2, 3}, {2, 1}, {0, 1}, {2, 1}}, {{1, 1}, {1, 1}, {0, 0}, {1, 1}}, {{3, 3}, {3, 2}, {1, 1}, {1, 2}},
}

describe("max_pool2d", function()
  it("has the greatest elements and their places", function()
    for _, size in ipairs {{7, 6}, {5, 9}, {8, 40}} do
      local x = sft.randn({2, 3, size[1], size[2]}, f64)
      for _, c in ipairs(cases) do
        for _, ceil in ipairs {false, true} do
          local y, at = F.max_pool2d(x, c[1], c[2], c[3], c[4], ceil, true)
          local want = plain(x[2][3], c[1], c[2], c[3], c[4], ceil, function(values)
            return math.max(table.unpack(values))
          end)
          local where = plain(x[2][3], c[1], c[2], c[3], c[4], ceil, function(values, _, places)
            local best = 1
            for i = 2, #values do if values[i] > values[best] then best = i end end
            return places[best]
          end)
          assert.same(want, y[2][3]:tolist())
          assert.same(where, at[2][3]:tolist())
          close(F.max_pool2d(x:float(), c[1], c[2], c[3], c[4], ceil), y:float(), 0)
        end
      end
    end
  end)

  it("takes the first of equal elements, and NaN before all", function()
    local _, at = F.max_pool2d(sft.ones(1, 4, 4), 2, {return_indices = true})
    assert.same({{{1, 3}, {9, 11}}}, at:tolist())
    _, at = F.max_pool2d(sft.ones(1, 3, 3), 3, {return_indices = true, padding = 1, stride = 1})
    assert.same({{{1, 1, 2}, {1, 1, 2}, {4, 4, 5}}}, at:tolist())
    for i = 1, 4 do
      local x = sft.zeros(1, 2, 2)
      x:view(4)[i] = 0 / 0
      assert.is_true(F.max_pool2d(x, 2):isnan():item())
      assert.is_true(F.max_pool2d(x, {2, 2}, {padding = 1}):isnan():any():item())
    end
  end)

  it("has gradients of first and second order", function()
    for _, c in ipairs(cases) do
      check(function(x) return F.max_pool2d(x, c[1], c[2], c[3], c[4]) end, {leaf {1, 2, 5, 5}})
    end
    check(function(x) return F.max_pool1d(x, 3, 2) ^ 2 end, {leaf {2, 3, 7}})
  end)

  it("says what does not fit", function()
    fails("padding must lie between 0 and half of kernel_size", F.max_pool2d, sft.zeros(1, 4, 4), 2, {padding = 2})
    fails("does not fit", F.max_pool2d, sft.zeros(1, 4, 4), 5)
    fails("must be positive", F.max_pool2d, sft.zeros(1, 4, 4), 2, {stride = 0})
    fails("input must be", F.max_pool2d, sft.zeros(4, 4), 2)
    fails("only the batch may be empty", F.max_pool2d, sft.zeros(1, 2, 0, 4), 1)
    assert.same({0, 2, 2, 2}, F.max_pool2d(sft.zeros(0, 2, 4, 4), 2).shape)
  end)
end)

describe("avg_pool2d", function()
  it("has the means of windows", function()
    local x = sft.randn({1, 2, 7, 9}, f64)
    for _, c in ipairs(cases) do
      if c[4][1] == 1 and c[4][2] == 1 then
        for _, ceil in ipairs {false, true} do
          for _, include in ipairs {false, true} do
            for _, divisor in ipairs {false, 3} do
              local y = F.avg_pool2d(x, c[1], c[2], c[3], ceil, include, divisor or nil)
              local want = plain(x[1][2], c[1], c[2], c[3], c[4], ceil, function(values, size)
                local sum = 0
                for _, v in ipairs(values) do sum = sum + v end
                return sum / (divisor or include and size or #values)
              end)
              close(y[1][2], sft.tensor(want, f64))
            end
          end
        end
      end
    end
    assert.same({{{2}}}, F.avg_pool2d(sft.tensor({{{1, 2}, {3, 4}}}), 2):tolist())
  end)

  it("has gradients of first and second order", function()
    for _, c in ipairs(cases) do
      check(function(x) return F.avg_pool2d(x, c[1], c[2], c[3]) end, {leaf {1, 2, 5, 5}})
      check(function(x) return F.avg_pool2d(x, c[1], c[2], c[3], true, false) ^ 2 end, {leaf {2, 5, 4}})
    end
    check(function(x) return F.avg_pool1d(x, 2) end, {leaf {2, 6}})
  end)

  it("refuses a divisor of 0", function()
    fails("divisor_override must not be 0", F.avg_pool2d, sft.zeros(1, 4, 4), 2, {divisor_override = 0})
  end)
end)

describe("adaptive_avg_pool2d", function()
  it("splits the plane evenly", function()
    local x = sft.randn({2, 5, 7}, f64)
    local y = F.adaptive_avg_pool2d(x, {2, 3})
    close(y[1][1][1], x:narrow(2, 1, 3):narrow(3, 1, 3)[1]:mean())
    close(y[2][2][3], x:narrow(2, 3, 3):narrow(3, 5, 3)[2]:mean())
    close(F.adaptive_avg_pool2d(x, 1), x:mean({2, 3}, true))
    close(F.adaptive_avg_pool2d(x, {5, 7}), x)
    close(F.adaptive_avg_pool1d(x, 7), x)
    check(function(z) return F.adaptive_avg_pool2d(z, {2, 3}) end, {leaf {2, 5, 7}})
    fails("output_size must be positive", F.adaptive_avg_pool2d, x, 0)
  end)
end)
