-- embedding and dropout.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

describe("embedding", function()
  it("gives rows, in every dtype and shape of indices", function()
    local w = sft.randn({6, 3}, f64)
    local i = sft.tensor {{1, 6}, {2, 2}}
    for _, dtype in ipairs {sft.float64, sft.float32, sft.bfloat16, sft.int64} do
      local y = F.embedding(i, w:to(dtype))
      assert.same({2, 2, 3}, y.shape)
      assert.equal(dtype, y.dtype)
      close(y, w:to(dtype):index_select(1, i:flatten()):reshape(2, 2, 3), 0)
    end
    assert.same(w[4]:tolist(), F.embedding(sft.tensor(4), w):tolist())
    close(F.embedding(i:int(), w), F.embedding(i, w), 0)
    close(F.embedding(i, w:t():contiguous():t()), F.embedding(i, w), 0)
    assert.same({0, 3}, F.embedding(sft.zeros(0):long(), w).shape)
  end)

  it("adds the gradients of equal indices, none for padding_idx", function()
    local w = leaf {5, 2}
    local i = sft.tensor {1, 3, 1, 5, 1}
    local g = sft.randn({5, 2}, f64)
    F.embedding(i, w, 5):backward(g)
    close(w.grad[1], g[1] + g[3] + g[5])
    close(w.grad[3], g[2], 0)
    assert.same({{0, 0}, {0, 0}}, w.grad:index_select(1, sft.tensor {2, 5}):tolist())
    check(function(v) return F.embedding(i, v) end, {w})
    assert.is_true(sft.autograd.gradgradcheck(function(v) return F.embedding(i, v, -1) ^ 2 end, {w}))
  end)

  it("sums half gradients in float32", function()
    local w = sft.zeros({2, 1}, {dtype = sft.bfloat16, requires_grad = true})
    F.embedding(sft.ones(1000):long(), w):sum():backward()
    assert.equal(1000, w.grad[1][1]:item())
  end)

  it("gives the same gradient for every number of threads", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local function run(n)
      sft.set_num_threads(n)
      sft.manual_seed(1)
      local w = sft.randn(500, 33):requires_grad_()
      F.embedding(sft.randint(1, 501, {5000}), w):backward(sft.randn(5000, 33))
      return w.grad
    end
    close(run(1), run(3), 0)
  end)

  it("names a bad index", function()
    local w = sft.zeros(4, 2)
    fails("embedding: index 0 at position [2, 2] is out of range for a table of 4 rows (expected 1 to 4): indices "
      .. "start at 1", F.embedding, sft.tensor {{1, 2}, {3, 0}}, w)
    fails("index 5 at position [1]", F.embedding, sft.tensor {5}, w)
    fails("input must hold indices (int64), got float32", F.embedding, sft.zeros(2), w)
    fails("weight must be [rows, width]", F.embedding, sft.ones(2):long(), sft.zeros(2))
    fails("padding_idx must name one of the 4 rows", F.embedding, sft.ones(2):long(), w, 7)
  end)
end)

describe("dropout", function()
  it("keeps about 1 - p and scales it; the backward pass has the same mask", function()
    for _, p in ipairs {0.1, 0.5, 0.9} do
      local x = sft.ones({100, 101}, {requires_grad = true})
      local y = F.dropout(x, p)
      local kept = y:ne(0)
      assert.is_true(math.abs(kept:double():mean():item() - (1 - p)) < 0.02)
      close(y, kept:float() / (1 - p), 1e-5)
      y:backward(sft.ones(100, 101))
      close(x.grad, y:detach(), 0)
    end
  end)

  it("depends on the seed alone", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local function run(n)
      sft.set_num_threads(n)
      sft.manual_seed(7)
      return F.dropout(sft.ones(70001), 0.3)
    end
    local a = run(1)
    close(a, run(3), 0)
    assert.is_false(pcall(close, a, F.dropout(sft.ones(70001), 0.3), 0))
  end)

  it("does nothing where it should not", function()
    local x = sft.randn(5)
    close(F.dropout(x, 0.5, false), x, 0)
    close(F.dropout(x, 0), x, 0)
    close(F.dropout(x, 1), x * 0, 0)
    fails("p must lie between 0 and 1, got 1.5", F.dropout, x, 1.5)
    fails("must be floating", F.dropout, x:long())
  end)

  it("drops whole channels", function()
    local y = F.dropout2d(sft.ones(4, 8, 3, 3), 0.5)
    local s = y:sum {3, 4}
    assert.is_true((s:eq(0) | s:eq(18)):all():item())
  end)
end)
