-- Random numbers: seeds, threads, moments, ranges, errors.

local sft = require "sft"

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end
local function near(want, got, tol) assert.is_true(math.abs(want - got) < tol, want .. " is not near " .. got) end

local draws = {
  rand = function(n, o) return sft.rand(n, o) end,
  randn = function(n, o) return sft.randn(n, o) end,
  exponential = function(n, o) return sft.empty(n, o):exponential_() end,
  log_normal = function(n, o) return sft.empty(n, o):log_normal_() end,
  cauchy = function(n, o) return sft.empty(n, o):cauchy_() end,
  bernoulli = function(n, o) return sft.empty(n, o):bernoulli_(0.3) end,
  random = function(n, o) return sft.empty(n, o):random_(1, 100) end,
}

describe("random numbers", function()
  it("are the same for a seed, whatever the number of threads", function()
    for name, draw in pairs(draws) do
      for _, dtype in ipairs {sft.float32, sft.float64, sft.bfloat16} do
        local first
        for _, threads in ipairs {1, 2, 3} do
          sft.set_num_threads(threads)
          sft.manual_seed(42)
          local x = draw(50001, {dtype = dtype})
          first = first or x
          assert.is_true(x:eq(first):all():item(), name)
        end
        sft.set_num_threads(2)
        local again = draw(50001, {dtype = dtype})
        assert.is_false(again:eq(first):all():item(), name)
      end
    end
    sft.manual_seed(7)
    local p = sft.randperm(1000):tolist()
    sft.manual_seed(7)
    assert.same(p, sft.randperm(1000):tolist())
  end)

  it("start the same whatever the length and layout", function()
    for _, n in ipairs {1, 3, 30, 31, 1023, 1025, 5000} do
      sft.manual_seed(1)
      local long = sft.randn(5000)
      sft.manual_seed(1)
      local x = sft.randn(n)
      assert.is_true(x:eq(long:narrow(1, 1, n)):all():item())
    end
    sft.manual_seed(3)
    local a = sft.empty(30, 20):normal_()
    sft.manual_seed(3)
    local b = sft.empty(20, 30):t():normal_()
    assert.is_true(a:eq(b):all():item())
  end)

  it("have a generator of their own where given one", function()
    local g = sft.Generator(5)
    local a = sft.rand(4, {generator = g})
    sft.rand(10)
    local b = sft.rand(4, {generator = sft.Generator(5)})
    assert.same(a:tolist(), b:tolist())
  end)

  it("have the moments of their distributions", function()
    sft.manual_seed(11)
    local n = 400000
    for _, dtype in ipairs {sft.float32, sft.float64} do
      local o = {dtype = dtype}
      local x = sft.randn(n, o)
      near(0, x:mean():item(), 0.01)
      near(1, x:std():item(), 0.01)
      near(0, (x ^ 3):mean():item(), 0.03)
      near(3, (x ^ 4):mean():item(), 0.08)
      near(0, (x:narrow(1, 1, n - 1) * x:narrow(1, 2, n - 1)):mean():item(), 0.01)
      near(0.6827, x:abs():lt(1):to(sft.float64):mean():item(), 0.005)
      assert.is_true(x:abs():max():item() > 4)
      x = sft.rand(n, o)
      near(0.5, x:mean():item(), 0.003)
      near(1 / 12, x:var():item(), 0.002)
      assert.is_true(x:min():item() >= 0 and x:max():item() < 1)
      near(0.5, sft.empty(n, o):exponential_(2):mean():item(), 0.01)
      near(4, sft.empty(n, o):geometric_(0.25):mean():item(), 0.05)
      near(math.exp(0.5), sft.empty(n, o):log_normal_(0, 1):mean():item(), 0.05)
      near(0.5, sft.empty(n, o):cauchy_(0, 1):abs():lt(1):to(sft.float64):mean():item(), 0.01)
      near(0.3, sft.empty(n, o):bernoulli_(0.3):mean():item(), 0.005)
      x = sft.empty(n, o):uniform_(-2, 6)
      near(2, x:mean():item(), 0.03)
      assert.is_true(x:min():item() >= -2 and x:max():item() < 6)
    end
    near(5, sft.normal(5, 2, {n}):mean():item(), 0.02)
    local z = sft.normal(sft.tensor {0, 100}, sft.tensor {0, 1})
    assert.equal(0, z[1]:item())
    near(100, z[2]:item(), 8)
  end)

  it("never reach 1 in the half types", function()
    for _, dtype in ipairs {sft.float16, sft.bfloat16} do
      assert.is_true(sft.rand(200000, {dtype = dtype}):max():item() < 1)
    end
  end)

  it("integers cover their range evenly", function()
    sft.manual_seed(2)
    local x = sft.randint(3, 13, {100000})
    local count = sft.zeros(10):index_add(1, x - 2, sft.ones(100000))
    near(10000, count:min():item(), 400)
    near(10000, count:max():item(), 400)
    assert.equal(sft.int64, x.dtype)
    local wide = sft.empty(1000, {dtype = sft.int64}):random_(-(1 << 62), 1 << 62)
    assert.is_true(wide:min():item() < -(1 << 60) and wide:max():item() > 1 << 60)
    assert.is_true(sft.empty(1000, {dtype = sft.uint8}):random_():max():item() > 200)
    fails("more than uint8 holds", function() sft.empty(1, {dtype = sft.uint8}):random_(0, 300) end)
    fails("'low' must be below 'high'", sft.randint, 3, 3, {1})
  end)

  it("permutations are permutations, from 1 on", function()
    local p = sft.randperm(1000)
    assert.is_true((p:sort()):eq(sft.arange(1, 1001)):all():item())
    assert.equal(0, sft.randperm(0):numel())
    fails("must not be negative", sft.randperm, -1)
  end)

  it("multinomial draws by weight", function()
    sft.manual_seed(4)
    local w = sft.tensor {1.0, 0, 3, 6}
    local x = w:multinomial(100000, true)
    local count = sft.zeros(4):index_add(1, x, sft.ones(100000))
    near(10000, count[1]:item(), 500)
    assert.equal(0, count[2]:item())
    near(60000, count[4]:item(), 900)
    for _ = 1, 20 do assert.same({1, 3, 4}, (w:multinomial(3):sort()):tolist()) end
    local rows = sft.tensor({{1.0, 0}, {0, 1}}):multinomial(2, true)
    assert.same({{1, 1}, {2, 2}}, rows:tolist())
    fails("without replacement", w.multinomial, w, 4)
    fails("without replacement", w.multinomial, w, 5)
    fails("not negative", function() sft.tensor({-1.0, 2}):multinomial(1) end)
    fails("not all be 0", function() sft.zeros(3):multinomial(1) end)
  end)

  it("refuse what has no meaning", function()
    local x = sft.zeros(2)
    fails("must be floating", sft.rand, 2, {dtype = sft.int64})
    fails("between 0 and 1", x.bernoulli_, x, 2)
    fails("between 0 and 1", function() return (x + 2):bernoulli() end)
    fails("must not be negative", x.normal_, x, 0, -1)
    fails("must be positive", x.exponential_, x, 0)
    fails("leaf", function() sft.zeros(2, {requires_grad = true}):normal_() end)
    fails("share", function() sft.zeros(1):expand(3):uniform_() end)
  end)
end)
