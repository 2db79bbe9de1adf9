-- Reductions and cumulative ops: values, NaN, empty tensors, ties, errors, accuracy, threads.

local sft = require "sft"

local nan, inf = 0 / 0, math.huge
local function t(v, dtype) return sft.tensor(v, dtype and {dtype = dtype} or nil) end
local function list(x) return x:tolist() end
local function is_nan(x) return x ~= x end

local function close(expected, got, tol)
  assert.is_true(math.abs(expected - got) <= (tol or 1e-5) * math.max(1, math.abs(expected)),
    ("expected %.9g, got %.9g"):format(expected, got))
end

local function fails(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, tostring(err))
end

describe("sum and mean", function()
  local x = t {{1.0, 2, 3}, {4, 5, 6}}

  it("reduces all dims, one, or several", function()
    assert.equal(21, x:sum():item())
    assert.same({5, 7, 9}, list(x:sum(1)))
    assert.same({6, 15}, list(x:sum(-1)))
    assert.same({{6}, {15}}, list(x:sum(2, true)))
    assert.same({{21}}, list(x:sum({1, 2}, {keepdim = true})))
    assert.same({2.5, 3.5, 4.5}, list(x:mean(1)))
    assert.equal(3.5, x:mean():item())
  end)

  it("adds integers and booleans as int64", function()
    local y = t({200, 100}, sft.uint8):sum()
    assert.equal(sft.int64, y.dtype)
    assert.equal(300, y:item())
    assert.equal(2, t({true, false, true}):sum():item())
    assert.equal(sft.float32, t({1, 2}, sft.int64):sum({dtype = sft.float32}).dtype)
  end)

  it("knows what nothing adds up to", function()
    assert.equal(0, sft.zeros(0, 3):sum():item())
    assert.same({0, 0, 0}, list(sft.zeros(0, 3):sum(1)))
    assert.is_true(is_nan(sft.zeros(0):mean():item()))
    assert.same({}, list(sft.zeros(3, 0):sum(1)))
  end)

  it("takes any layout", function()
    local a = sft.arange(0, 120):reshape(2, 3, 4, 5)
    local p = a:permute(3, 1, 4, 2)
    assert.same(list(a:sum({2, 4}):t()), list(p:sum({3, 4})))
    assert.same(list(a:sum(1)), list(p:sum(2):permute(3, 1, 2)))
    assert.equal(7 * 3, t({1, 2, 4}):reshape(3, 1):expand(3, 3):sum():item())
  end)

  it("does not lose small terms, in float32 or in half precision", function()
    local n = 1000000
    close(n * 0.1, sft.full({n}, 0.1):sum():item(), 1e-6)
    close(0.1, sft.full({n}, 0.1):mean():item(), 1e-6)
    close(4096, sft.ones(4096, {dtype = sft.float16}):sum():item(), 0)
    close(1, sft.full({100000}, 1.0, {dtype = sft.bfloat16}):mean():item(), 0)
    close(60000, sft.full({2, 3}, 60000, {dtype = sft.float16}):mean():item(), 0)
  end)

  it("gives the same bits for every number of threads", function()
    local before = sft.get_num_threads()
    for _, shape in ipairs {{1000003}, {701, 1031}, {3, 100003}, {100003, 3}, {37, 41, 67}} do
      local a = sft.randn(shape)
      local function all()
        local r = {a:sum():item(), a:sum(1):sum():item(), a:sum(-1):sum():item(), a:var():item(),
          a:norm():item(), a:cumsum(1):sum():item(), a:logsumexp(1):sum():item()}
        return r
      end
      sft.set_num_threads(1)
      local one = all()
      sft.set_num_threads(3)
      assert.same(one, all())
    end
    sft.set_num_threads(before)
  end)

  it("sees through NaN on request", function()
    local y = t {{1, nan, 3}, {nan, nan, 6}}
    assert.is_true(is_nan(y:sum():item()))
    assert.equal(10, y:nansum():item())
    assert.same({2, 6}, list(y:nanmean(2)))
    assert.is_true(is_nan(t({nan}):nanmean():item()))
  end)

  it("explains itself", function()
    fails("sum: .*dim", x.sum, x, 3)
    fails("dim 1 appears twice", x.sum, x, {1, -2})
    fails("mean: 'self' must be floating, got int64", t({1}, sft.int64).mean, t({1}, sft.int64))
  end)
end)

describe("prod, any, all, count_nonzero", function()
  it("have their neutral elements", function()
    assert.equal(1, sft.zeros(0):prod():item())
    assert.is_false(sft.zeros(0):any():item())
    assert.is_true(sft.zeros(0):all():item())
    assert.equal(0, sft.zeros(0):count_nonzero():item())
  end)
  it("multiply", function()
    assert.same({4, 10, 18}, list(t({{1, 2, 3}, {4, 5, 6}}):prod(1)))
    assert.equal(-6, t({-1, 2, 3}, sft.int32):prod():item())
  end)
  it("give each factor the product of the others, zeros or not", function()
    for _, case in ipairs {{{2, 3, 4}, {12, 8, 6}}, {{2, 0, 4}, {0, 8, 0}}, {{0, 0, 4}, {0, 0, 0}}} do
      local x = t(case[1], sft.float32):requires_grad_()
      x:prod():backward()
      assert.same(case[2], list(x.grad))
    end
  end)
  it("count NaN as something", function()
    local x = t {0, nan, 2}
    assert.equal(2, x:count_nonzero():item())
    assert.is_true(x:any():item())
    assert.is_false(x:all():item())
    assert.same({true, false}, list(t({{true, true}, {true, false}}):all(2)))
    assert.equal(sft.uint8, t({1, 0}, sft.uint8):any().dtype)
  end)
end)

describe("max, min and their kin", function()
  local x = t {{3, 1, 3}, {-2, 7, 7}}

  it("name the first of equals, counting from 1", function()
    local v, i = x:max(2)
    assert.same({3, 7}, list(v))
    assert.same({1, 2}, list(i))
    v, i = x:min(1, true)
    assert.same({{-2, 1, 3}}, list(v))
    assert.same({{2, 1, 1}}, list(i))
    assert.equal(5, x:argmax():item())
    assert.same({1, 2, 2}, list(x:argmax(1)))
    assert.equal(4, x:argmin():item())
    assert.equal(1, sft.full({100000}, -inf):argmax():item())
  end)

  it("propagate NaN from any place", function()
    for n = 1, 70 do
      for _, bad in ipairs {nan, -nan} do
        local y = sft.arange(1, n + 1):to(sft.float32)
        local at = (n * 7) % n + 1
        y[at] = bad
        local v, i = y:max(1)
        assert.is_true(is_nan(v:item()) and i:item() == at)
        v, i = y:min(1)
        assert.is_true(is_nan(v:item()) and i:item() == at)
        assert.is_true(is_nan(y:amax():item()) and is_nan(y:min():item()))
        assert.equal(at, y:argmin():item())
      end
    end
    assert.is_true(is_nan(sft.maximum(t {1, nan}, t {nan, 2})[1]:item()))
  end)

  it("work on integers to the last bit", function()
    local big = t({math.maxinteger, math.maxinteger - 1, math.mininteger}, sft.int64)
    assert.equal(math.maxinteger, big:max():item())
    assert.equal(math.mininteger, big:amin():item())
    assert.equal(3, big:argmin():item())
    assert.is_true(t({false, true}):max():item())
  end)

  it("compare two tensors", function()
    assert.same({2, 5}, list(sft.max(t {1, 5}, t {2, 4})))
    assert.same({1, 4}, list(t({1, 5}):min(t {2, 4})))
  end)

  it("share the gradient among equals, or give it to the chosen one", function()
    local a = t({1, 5, 5}, sft.float32):requires_grad_()
    a:max():backward()
    assert.same({0, 0.5, 0.5}, list(a.grad))
    a.grad = nil
    a:max(1):backward()
    assert.same({0, 1, 0}, list(a.grad))
    a.grad = nil
    a:amin():backward()
    assert.same({1, 0, 0}, list(a.grad))
  end)

  it("refuse to choose from nothing", function()
    fails("max: .*no elements", function() return sft.zeros(0, 3):max() end)
    fails("argmax: .*size 0", function() return sft.zeros(0, 3):argmax(1) end)
    fails("amax", function() return sft.zeros(5, 0, 5):amax(2) end)
    assert.same({0}, sft.zeros(3, 0):max(1).shape)
  end)

  it("gives both ends at once", function()
    local lo, hi = x:aminmax {dim = 2}
    assert.same({1, -2}, list(lo))
    assert.same({3, 7}, list(hi))
  end)
end)

describe("var, std, norm, logsumexp", function()
  local x = t {{1.0, 2, 3, 4}, {2, 4, 6, 9}}

  it("take unbiased, correction, dims", function()
    close(1.25, x:var(2, false)[1]:item())
    close(5 / 3, x:var(2)[1]:item())
    close(5 / 3, x:var(2, {correction = 1})[1]:item())
    close(2.5, x:var(2, {correction = 2})[1]:item())
    close(math.sqrt(x:var(false):item()), x:std(false):item())
    local v, m = sft.var_mean(x, 2)
    close(2.5, m[1]:item())
    close(5 / 3, v[1]:item())
    assert.is_true(is_nan(t({1}):float():var():item()))
    fails("both given", function() return x:var(1, true, false, {correction = 0}) end)
  end)

  it("do not cancel far from zero", function()
    local y = sft.arange(0, 1000):to(sft.float32):remainder(2) + 4096
    close(0.25, y:var(false):item(), 1e-6)
    close(0.25, y:reshape(10, 100):var(2, false)[1]:item(), 1e-6)
    close(0.25, (sft.arange(0, 100000):to(sft.float64):remainder(2) + 1e9):var(false):item(), 1e-9)
  end)

  it("know every p", function()
    local y = t {3.0, -4, 0}
    close(5, y:norm():item())
    close(7, y:norm(1):item())
    close(2, y:norm(0):item())
    close(4, y:norm(inf):item())
    close(0, y:norm(-inf):item())
    close((27 + 64) ^ (1 / 3), y:norm(3):item())
    close(5, y:norm("fro"):item())
    assert.same({0, 0}, list(sft.zeros(2, 0):norm(2, 2)))
    fails("norm: 'p'", function() return y:norm("frobenius") end)
  end)

  it("have no slope where the norm is 0, and no NaN", function()
    local z = sft.zeros(3):requires_grad_()
    z:norm():backward()
    assert.same({0, 0, 0}, list(z.grad))
    z.grad = nil
    z:std():backward()
    assert.same({0, 0, 0}, list(z.grad))
  end)

  it("stay in range", function()
    close(1000 + math.log(2), t({1000.0, 1000.0}):logsumexp(1):item())
    assert.equal(-inf, t({-inf, -inf}):logsumexp(1):item())
    assert.equal(inf, t({inf, 1}):logsumexp(1):item())
  end)
end)

describe("cumulative ops", function()
  it("add and multiply along a dim", function()
    local x = t {{1, 2, 3}, {4, 5, 6}}
    assert.same({{1, 3, 6}, {4, 9, 15}}, list(x:cumsum(2)))
    assert.same({{1, 2, 3}, {4, 10, 18}}, list(x:cumprod(1)))
    assert.equal(sft.int64, t({true, true}):cumsum(1).dtype)
    local y = sft.ones(5)
    y:cumsum_(1)
    assert.same({1, 2, 3, 4, 5}, list(y))
  end)
  it("keep long sums exact", function()
    local n = 300001
    assert.equal(n, sft.ones(n):cumsum(1)[n]:item())
    assert.equal(n * (n + 1) // 2, sft.arange(1, n + 1):cumsum(1)[n]:item())
  end)
  it("differentiate products with zeros", function()
    local x = t({2, 0, 3}, sft.float32):requires_grad_()
    x:cumprod(1):sum():backward()
    assert.same({1, 8, 0}, list(x.grad))
  end)
  it("follow the greatest and the smallest, the last of equals", function()
    local v, i = t({1, 3, 3, 2, nan, 5}):cummax(1)
    assert.same({1, 2, 3, 3, 5, 5}, list(i))
    assert.equal(3, v[4]:item())
    assert.is_true(is_nan(v[6]:item()))
    v, i = t({{2, 1}, {1, 1}}, sft.int32):cummin(1)
    assert.same({{2, 1}, {1, 1}}, list(v))
    assert.same({{1, 1}, {2, 2}}, list(i))
  end)
  it("take logarithms of sums", function()
    local y = t({0.0, 0.0, 1000.0}):logcumsumexp(1)
    close(math.log(2), y[2]:item())
    close(1000, y[3]:item())
    assert.equal(-inf, t({-inf, 0}):logcumsumexp(1)[1]:item())
  end)
end)
