-- Losses and distances: against their definitions, gradients of first and second order, labels that
-- are out of range, shapes that would broadcast.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

describe("cross_entropy", function()
  it("is the mean of minus the log-probabilities of the labels", function()
    for _, n in ipairs {1, 2, 33, 1000, 1500} do
      local x = sft.randn({7, n}, f64) * 4
      local y = sft.randint(1, n + 1, {7})
      local lp = x:log_softmax(2)
      local each = -lp:gather(2, y:unsqueeze(2)):squeeze(2)
      close(F.cross_entropy(x, y, {reduction = "none"}), each, 1e-10)
      close(F.cross_entropy(x, y), each:mean(), 1e-10)
      close(F.cross_entropy(x, y, {reduction = "sum"}), each:sum(), 1e-9)
      close(F.nll_loss(lp, y), each:mean(), 1e-10)
      close(F.cross_entropy(x:float(), y):double(), each:mean(), 1e-5)
      close(F.cross_entropy(x:bfloat16(), y):double(), each:mean(), 0.2)
    end
  end)

  it("takes weights, an ignored label, smoothing and more dims", function()
    local x = sft.randn({2, 4, 3}, f64)
    local y = sft.tensor {{1, 4, 2}, {3, 3, 1}}
    local w = sft.tensor({1, 2, 0.5, 3}, f64)
    local lp = x:transpose(2, 3):log_softmax(3)
    local wy = w:gather(1, y:flatten()):reshape(2, 3)
    local each = -lp:gather(3, y:unsqueeze(3)):squeeze(3) * wy
    close(F.cross_entropy(x, y, w, {reduction = "none"}), each)
    close(F.cross_entropy(x, y, w), each:sum() / wy:sum())
    local smooth = -(lp * w):sum(3)
    close(F.cross_entropy(x, y, w, {label_smoothing = 0.2}), (each * 0.8 + smooth * 0.05):sum() / wy:sum())
    local keep = y:ne(3):double()
    close(F.cross_entropy(x, y, {ignore_index = 3}), (each / wy * keep):sum() / keep:sum())
    local marked = y:clone()
    marked[2][2] = -100
    assert.equal(0, F.cross_entropy(x, marked, {reduction = "none"})[2][2]:item())
    assert.is_true(F.cross_entropy(x, sft.full({2, 3}, -100, {dtype = sft.int64})):isnan():item())
    assert.equal(sft.int32, y:int().dtype)
    close(F.cross_entropy(x, y:int()), F.cross_entropy(x, y), 0)
  end)

  it("takes probabilities", function()
    local x, p = sft.randn({5, 4}, f64), sft.randn({5, 4}, f64):softmax(2)
    close(F.cross_entropy(x, p), -(p * x:log_softmax(2)):sum(2):mean())
    close(F.cross_entropy(x, p, {label_smoothing = 0.1, reduction = "sum"}),
      -((p * 0.9 + 0.025) * x:log_softmax(2)):sum())
  end)

  it("survives great logits", function()
    local x = sft.tensor {{1e4, 0, -1e4}, {1e30, 1e30, 0}}
    local e = F.cross_entropy(x, sft.tensor {2, 1}, {reduction = "none"})
    assert.equal(1e4, e[1]:item())
    close(e[2], sft.tensor(math.log(2)), 1e-6)
  end)

  it("has gradients of first and second order", function()
    local y, w = sft.tensor {1, 4, 2}, sft.tensor({1, 2, 0.5, 3}, f64)
    for _, o in ipairs {{reduction = "mean"}, {reduction = "none"}, {reduction = "sum", weight = w},
      {weight = w, label_smoothing = 0.3}, {ignore_index = 4, label_smoothing = 0.1}} do
      check(function(x) return F.cross_entropy(x, y, o) end, {leaf {3, 4}})
      local n = {weight = o.weight, reduction = o.reduction, ignore_index = o.ignore_index}
      check(function(x) return F.nll_loss(x, y, n) end, {leaf {3, 4}})
    end
    check(function(x) return F.cross_entropy(x, sft.tensor {{1, 2}, {3, 1}}) end, {leaf {2, 3, 2}})
    local p = sft.rand({3, 4}, f64)
    check(function(x) return F.cross_entropy(x, p) end, {leaf {3, 4}})
  end)

  it("tells what is wrong with labels", function()
    local x = sft.zeros(3, 4)
    fails("target must hold 1 to 4 (there are 4 classes), but target[1] is 0. The smallest value is 0: these look "
      .. "like 0-based labels; use y + 1", F.cross_entropy, x, sft.tensor {0, 1, 3})
    fails("but target[3] is 5", F.cross_entropy, x, sft.tensor {1, 2, 5})
    fails("but target[2, 1] is 9", F.cross_entropy, sft.zeros(2, 4, 2), sft.tensor {{1, 2}, {9, 1}})
    fails("must hold class labels (int64), got float32", F.cross_entropy, x, sft.zeros(3))
    fails("without its class dim, [3], got [4]", F.cross_entropy, x, sft.ones(4):long())
    fails('reduction must be "mean", "sum" or "none", got "avg"', F.cross_entropy, x, sft.tensor {1, 2, 3},
      {reduction = "avg"})
    fails("weight must have one element for each of the 4 classes", F.cross_entropy, x, sft.tensor {1, 2, 3},
      sft.zeros(3))
    fails("label_smoothing must lie between 0 and 1", F.cross_entropy, x, sft.tensor {1, 2, 3},
      {label_smoothing = 2})
  end)

  it("gives the same result for every number of threads", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local function run(n)
      sft.set_num_threads(n)
      sft.manual_seed(1)
      local x, y = sft.randn(3000, 50):requires_grad_(), sft.randint(1, 51, {3000})
      local l = F.cross_entropy(x, y)
      l:backward()
      return l, x.grad
    end
    local a, b = run(1)
    local c, d = run(3)
    close(a, c, 0)
    close(b, d, 0)
  end)
end)

describe("elementwise losses", function()
  local x, y = sft.randn({3, 50}, f64), sft.randn({3, 50}, f64)
  local d = x - y
  local p, q = sft.rand({3, 50}, f64), sft.rand({3, 50}, f64)
  local small = d:abs():lt(0.7)
  local each = {
    {"mse_loss", x, y, {}, d * d},
    {"l1_loss", x, y, {}, d:abs()},
    {"smooth_l1_loss", x, y, {beta = 0.7}, sft.where(small, d * d / 1.4, d:abs() - 0.35)},
    {"huber_loss", x, y, {delta = 0.7}, sft.where(small, d * d / 2, (d:abs() - 0.35) * 0.7)},
    {"binary_cross_entropy", p, q, {}, -(q * p:log() + (1 - q) * (1 - p):log())},
    {"binary_cross_entropy_with_logits", x, q, {}, -(q * x:sigmoid():log() + (1 - q) * (1 - x:sigmoid()):log())},
    {"kl_div", x, q, {}, q * (q:log() - x)},
    {"kl_div", x, y, {log_target = true}, y:exp() * (y - x)},
  }

  for _, case in ipairs(each) do
    local name, a, b, options, expected = table.unpack(case)
    it(name .. " has the values of its definition, reduced in every way", function()
      for reduction, want in next, {none = expected, mean = expected:mean(), sum = expected:sum()} do
        options.reduction = reduction
        close(F[name](a, b, options), want, 1e-10)
        close(F[name](a:float(), b:float(), options):double(), want, reduction == "sum" and 1e-3 or 1e-4)
      end
      assert.equal(sft.bfloat16, F[name](a:bfloat16(), b:bfloat16(), options).dtype)
    end)
    it(name .. " has gradients of first and second order", function()
      local u, v = a[1]:narrow(1, 1, 4):clone():requires_grad_(), b[1]:narrow(1, 1, 4):clone():requires_grad_()
      for _, reduction in ipairs {"mean", "none"} do
        check(function(s, t) return F[name](s, t, {reduction = reduction, beta = options.beta, delta = options.delta,
          log_target = options.log_target}) end, {u, v})
      end
    end)
  end

  it("take weights", function()
    local w, pos = sft.rand({50}, f64), sft.rand({50}, f64)
    close(F.binary_cross_entropy(p, q, w), (each[5][5] * w):mean())
    local s = x:sigmoid()
    close(F.binary_cross_entropy_with_logits(x, q, w, {pos_weight = pos}),
      -((q * pos * s:log() + (1 - q) * (1 - s):log()) * w):mean(), 1e-10)
    check(function(a) return F.binary_cross_entropy_with_logits(a, q[1], {pos_weight = pos, reduction = "sum"}) end,
      {leaf {50}})
  end)

  it("survive great logits", function()
    local e = F.binary_cross_entropy_with_logits(sft.tensor {1000.0, -1000.0}, sft.tensor {0.0, 1.0},
      {reduction = "none"})
    assert.same({1000, 1000}, e:tolist())
    assert.same({100, 0}, F.binary_cross_entropy(sft.tensor {0.0, 1.0}, sft.tensor {1.0, 1.0},
      {reduction = "none"}):tolist())
  end)

  it("refuse shapes that would broadcast by mistake", function()
    fails("mse_loss: input [4, 1] and target [4] would broadcast to [4, 4]; use target:unsqueeze(2)", F.mse_loss,
      sft.zeros(4, 1), sft.zeros(4))
    fails("would broadcast", F.l1_loss, sft.zeros(4), sft.zeros(4, 1))
    assert.equal(0, F.mse_loss(sft.zeros(4, 1), sft.zeros(4), {broadcast = true}):item())
    assert.equal(1, F.mse_loss(sft.ones(4, 3), sft.zeros(3)):item())
    fails("input must hold probabilities", F.binary_cross_entropy, sft.tensor {1.5}, sft.tensor {1.0})
    fails("delta must be positive", F.huber_loss, x, y, {delta = 0})
    fails("beta must not be negative", F.smooth_l1_loss, x, y, {beta = -1})
  end)
end)

describe("distances and losses of vectors", function()
  it("have gradients of first and second order", function()
    local a, b, c = leaf {3, 4}, leaf {3, 4}, leaf {3, 4}
    local sign = sft.tensor({1, -1, 1}, f64)
    check(function(x, y) return F.pairwise_distance(x, y) end, {a, b})
    check(function(x, y) return F.cosine_similarity(x, y, 2) end, {a, b})
    check(function(x) return F.normalize(x) end, {a})
    check(function(x, y) return F.cosine_embedding_loss(x, y, sign) end, {a, b})
    check(function(x, y, z) return F.triplet_margin_loss(x, y, z, {margin = 10}) end, {a, b, c})
    check(function(x, y) return F.margin_ranking_loss(x, y, sign:reshape(3, 1), {margin = 10}) end, {a, b})
    check(function(x) return F.hinge_embedding_loss(x, sign:reshape(3, 1):expand(3, 4), {margin = 10}) end, {a})
  end)

  it("have the values of their definitions", function()
    local a, b = sft.tensor({{3, 4}}, f64), sft.tensor({{0, 0}}, f64)
    close(F.pairwise_distance(a, b, {eps = 0}), sft.tensor({5}, f64))
    close(F.normalize(a), sft.tensor({{0.6, 0.8}}, f64))
    close(F.cosine_similarity(a, sft.tensor({{4, 3}}, f64), 2), sft.tensor({24 / 25}, f64))
    fails("same number of dims", F.margin_ranking_loss, sft.zeros(5, 4), sft.zeros(5, 4), sft.zeros(5))
  end)
end)
