-- sort, topk, kthvalue, median, mode, unique, searchsorted: order, ties, NaN, indices from 1.

local sft = require "sft"

local nan, inf = 0 / 0, math.huge
local function t(v, dtype) return sft.tensor(v, dtype and {dtype = dtype} or nil) end
local function list(x) return x:tolist() end
local function is_nan(x) return x ~= x end
local function equal(a, b)
  assert.same(a.shape, b.shape)
  return a.dtype == b.dtype and a:eq(b):all():item()
end
local function fails(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, tostring(err))
end

local all_dtypes = {
  sft.float32, sft.float64, sft.float16, sft.bfloat16, sft.int64, sft.int32, sft.int16, sft.int8, sft.uint8,
}

-- What table.sort makes of x (a flat list): values and stable indices.
local function reference(x, descending)
  local at = {}
  for i = 1, #x do at[i] = i end
  table.sort(at, function(a, b)
    if x[a] == x[b] then return a < b end
    if descending then return x[a] > x[b] end
    return x[a] < x[b]
  end)
  local v = {}
  for i = 1, #x do v[i] = x[at[i]] end
  return v, at
end

describe("sort", function()
  it("is stable for every dtype, length and direction", function()
    sft.manual_seed(1)
    for _, n in ipairs {0, 1, 2, 31, 32, 33, 100, 1000, 20000} do
      local base = n > 0 and sft.randint(0, n < 100 and 10 or 100, {n}) or sft.zeros(0, {dtype = sft.int64})
      for k, dtype in ipairs(all_dtypes) do
        if n < 20000 or k <= 6 then
          local x = base:to(dtype)
          for _, descending in ipairs {false, true} do
            local v, i = x:sort(1, descending)
            local ev, ei = reference(list(x), descending)
            assert.same(ev, list(v))
            assert.same(ei, list(i))
          end
        end
      end
    end
  end)

  it("orders negative numbers, zeros, infinities and NaN", function()
    for _, dtype in ipairs {sft.float32, sft.float64, sft.float16, sft.bfloat16} do
      local x = t({2, -nan, -inf, -0.0, nan, 0.0, inf, -3.5}, dtype)
      local v, i = x:sort()
      assert.same({3, 8, 4, 6, 1, 7, 2, 5}, list(i))
      assert.equal(-inf, v[1]:item())
      assert.is_true(is_nan(v[7]:item()) and is_nan(v[8]:item()))
      assert.equal(-inf, 1 / v[3]:item()) -- -0 stays -0
      assert.same({2, 5, 7, 1, 4, 6, 8, 3}, list(x:argsort(1, true)))
    end
    local big = t({math.maxinteger, math.mininteger, -1, 0}, sft.int64)
    assert.same({math.mininteger, -1, 0, math.maxinteger}, list((big:sort())))
    assert.same({false, false, true}, list((t({true, false, false}):sort())))
  end)

  it("works along any dim of any layout", function()
    local x = sft.randn(4, 5, 6)
    for d = 1, 3 do
      local v, i = x:sort(d)
      assert.is_true(equal(v, x:gather(d, i)))
      local w = x:transpose(1, 3):sort(4 - d)
      assert.is_true(equal(w:transpose(1, 3), v))
      local n = x.shape[d]
      assert.is_true((v:narrow(d, 2, n - 1) - v:narrow(d, 1, n - 1)):ge(0):all():item())
    end
    assert.is_true(equal(x:msort(), (x:sort(1))))
  end)

  it("sends gradients back to where the values came from", function()
    local x = t({3, 1, 2}, sft.float32):requires_grad_()
    local v = x:sort()
    v:backward(t {10, 20, 30})
    assert.same({30, 10, 20}, list(x.grad))
  end)
end)

describe("topk and kthvalue", function()
  it("agree with sort", function()
    sft.manual_seed(2)
    for _, dtype in ipairs {sft.float32, sft.float64, sft.int64, sft.int16, sft.float16} do
      for _, n in ipairs {1, 5, 100, 3000} do
        local x = (sft.randn(3, n) * 20):to(dtype)
        for _, k in ipairs {1, 3, 17, n} do
          if k <= n then
            for _, largest in ipairs {true, false} do
              local sv, si = x:sort(2, largest)
              local v, i = x:topk(k, 2, largest)
              assert.is_true(equal(v, sv:narrow(2, 1, k)))
              assert.is_true(equal(i, si:narrow(2, 1, k))) -- first of equals
            end
            local kv, ki = x:kthvalue(k, 2, true)
            assert.is_true(equal(kv, (x:sort(2)):narrow(2, k, 1)))
            assert.is_true(equal(kv, x:gather(2, ki)))
          end
        end
      end
    end
  end)
  it("put NaN on top", function()
    local v, i = t({1, nan, 3}):topk(2)
    assert.is_true(is_nan(v[1]:item()))
    assert.same({2, 3}, list(i))
  end)
  it("explain a bad k", function()
    fails("topk: 'k' is 4, expected 0 to 3", function() return sft.zeros(3):topk(4) end)
    fails("kthvalue: 'k' is 0, expected 1 to 3", function() return sft.zeros(3):kthvalue(0) end)
    assert.same({0}, sft.zeros(3):topk(0).shape)
  end)
end)

describe("median and mode", function()
  it("takes the lower of two middles, and NaN if there is one", function()
    assert.equal(2, t({4, 1, 3, 2}):float():median():item())
    local v, i = t({{5, 1, 3}, {2, 2, 0}}):float():median(2)
    assert.same({3, 2}, list(v))
    assert.equal(3, i[1]:item())
    local y = t {{1, nan, 3}, {4, 5, 6}}
    v, i = y:median(2)
    assert.is_true(is_nan(v[1]:item()))
    assert.equal(2, i[1]:item())
    assert.is_true(is_nan(y:median():item()))
    assert.equal(4, y:nanmedian():item())
    assert.equal(1, y:nanmedian(2)[1]:item())
    assert.is_true(is_nan(sft.zeros(0):median():item()))
  end)
  it("finds the most frequent value, of several the smallest", function()
    local v, i = t({{1, 2, 2, 1}, {3, 3, 1, 3}}):mode(2)
    assert.same({1, 3}, list(v))
    assert.same({4, 4}, list(i))
  end)
end)

describe("unique", function()
  it("gives values, inverse and counts", function()
    local x = t({3, 1, 2, 3, 1}, sft.int64)
    local v, inverse, counts = x:unique {return_inverse = true, return_counts = true}
    assert.same({1, 2, 3}, list(v))
    assert.same({3, 1, 2, 3, 1}, list(inverse))
    assert.same({2, 1, 2}, list(counts))
    assert.is_true(equal(v:index_select(1, inverse), x))
    local _, only_counts, nothing = x:unique {return_counts = true}
    assert.same({2, 1, 2}, list(only_counts))
    assert.is_nil(nothing)
    assert.same({0}, sft.zeros(0):unique().shape)
    assert.equal(3, t({nan, 1, nan}):unique().shape[1]) -- no NaN equals another
  end)
  it("compares slices along a dim", function()
    local x = t {{1, 2, 1}, {0, 5, 0}, {1, 2, 1}}
    local v, inverse, counts = x:unique {dim = 1, return_inverse = true, return_counts = true}
    assert.same({{0, 5, 0}, {1, 2, 1}}, list(v))
    assert.same({2, 1, 2}, list(inverse))
    assert.same({1, 2}, list(counts))
    assert.same({{1, 2}, {0, 5}, {1, 2}}, list((x:unique {dim = -1})))
    fails("unique", function() return x:unique {dim = 3} end)
  end)
end)

describe("searchsorted and bucketize", function()
  local edges = t {1, 3, 5, 7}
  it("answer the place from 1, left or right of equals", function()
    assert.same({2, 4, 5, 1}, list(sft.searchsorted(edges, t {3, 6, 9, 0})))
    assert.same({3, 4, 5, 1}, list(sft.searchsorted(edges, t {3, 6, 9, 0}, {right = true})))
    assert.same({3, 4, 5, 1}, list(sft.searchsorted(edges, t {3, 6, 9, 0}, {side = "right"})))
    assert.equal(2, sft.searchsorted(edges, 3):item())
    assert.equal(sft.int32, sft.bucketize(t {4}, edges, {out_int32 = true}).dtype)
    assert.equal(5, sft.searchsorted(edges:float(), t {nan}):item())
  end)
  it("take a row of values per row of sequences, and a sorter", function()
    local rows = sft.searchsorted(t {{1, 3, 5}, {2, 4, 6}}, t {{3, 6}, {3, 6}})
    assert.same({{2, 4}, {2, 3}}, list(rows))
    local shuffled = t {5, 1, 3}
    assert.same({2, 4}, list(sft.searchsorted(shuffled, t {3, 6}, {sorter = shuffled:argsort()})))
  end)
  it("check the sorter and the shapes", function()
    fails("sorter' holds 0.*start at 1", function()
      return sft.searchsorted(t {1, 2}, t {1}, {sorter = t({0, 1}, sft.int64)})
    end)
    fails("same shape but for the last dim", function()
      return sft.searchsorted(sft.zeros(2, 3), sft.zeros(3, 3))
    end)
    fails("side", function() return sft.searchsorted(edges, t {1}, {side = "up"}) end)
  end)
end)
