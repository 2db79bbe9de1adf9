-- layer_norm, rms_norm, batch_norm, group_norm, instance_norm: against their definitions, gradients
-- of first and second order, half types, numbers of threads, errors.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

describe("layer_norm", function()
  it("has the values of its definition, in every size", function()
    for _, n in ipairs {1, 2, 31, 32, 33, 100, 1000} do
      local x, w, b = sft.randn({5, n}, f64), sft.randn({n}, f64), sft.randn({n}, f64)
      local mean, var = x:mean(2, true), x:var {dim = 2, correction = 0, keepdim = true}
      local y = (x - mean) / (var + 1e-5):sqrt()
      close(F.layer_norm(x, {n}), y)
      close(F.layer_norm(x, {n}, w, b), y * w + b)
      close(F.layer_norm(x, {n}, w), y * w)
      close(F.layer_norm(x, {n}, nil, b), y + b)
      close(F.layer_norm(x:float(), {n}, w:float(), b:float()):double(), y * w + b, 2e-4)
      close(F.rms_norm(x, {n}, w, 1e-5), x / ((x * x):mean(2, true) + 1e-5):sqrt() * w)
    end
  end)

  it("takes several dims, strided inputs and half types", function()
    local x = sft.randn({4, 3, 5}, f64)
    local t = x:transpose(1, 3)
    close(F.layer_norm(t, {3, 4}), F.layer_norm(t:contiguous(), {3, 4}), 0)
    close(F.layer_norm(x, {3, 5}):reshape(4, 15), F.layer_norm(x:reshape(4, 15), {15}), 0)
    for _, dtype in ipairs {sft.float16, sft.bfloat16} do
      local y = F.layer_norm(x:to(dtype), {5})
      assert.equal(dtype, y.dtype)
      close(y:double(), F.layer_norm(x:to(dtype):double(), {5}), 0.02)
    end
  end)

  it("keeps its precision far from zero", function()
    local x = sft.randn(8, 256) + 1000
    close(F.layer_norm(x, {256}):double(), F.layer_norm(x:double(), {256}), 1e-3)
  end)

  it("has gradients of first and second order", function()
    check(function(x, w, b) return F.layer_norm(x, {5}, w, b) end, {leaf {3, 5}, leaf {5}, leaf {5}})
    check(function(x) return F.layer_norm(x, {2, 3}) end, {leaf {2, 2, 3}})
    check(function(x, w) return F.rms_norm(x, {4}, w, 0.1) end, {leaf {3, 4}, leaf {4}})
    -- enough rows for several blocks
    local x, w, b = leaf {300, 40}, leaf {40}, leaf {40}
    local g = sft.randn({300, 40}, f64)
    F.layer_norm(x, {40}, w, b):backward(g)
    local xhat = F.layer_norm(x:detach(), {40})
    close(w.grad, (g * xhat):sum(1), 1e-10)
    close(b.grad, g:sum(1), 1e-10)
  end)

  it("gives the same result for every number of threads", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local function run(n)
      sft.set_num_threads(n)
      sft.manual_seed(1)
      local x, w = sft.randn(3000, 70):requires_grad_(), sft.randn(70):requires_grad_()
      F.layer_norm(x, {70}, w):backward(sft.randn(3000, 70))
      return x.grad, w.grad
    end
    local a, b = run(1)
    local c, d = run(3)
    close(a, c, 0)
    close(b, d, 0)
  end)

  it("says what does not fit", function()
    fails("layer_norm: normalized_shape is [4], but the last dims of the input [2, 3] differ", F.layer_norm,
      sft.zeros(2, 3), {4})
    fails("layer_norm: weight must have the shape normalized_shape, [3], got [4]", F.layer_norm, sft.zeros(2, 3),
      {3}, sft.zeros(4))
    fails("must be floating", F.layer_norm, sft.zeros(2, 3):long(), {3})
    assert.same({0, 3}, F.layer_norm(sft.zeros(0, 3), {3}).shape)
  end)
end)

describe("batch_norm", function()
  it("normalises channels and updates the running statistics", function()
    for _, shape in ipairs {{9, 4}, {5, 3, 7}, {4, 5, 6, 6}, {2, 70}, {3, 2, 40}} do
      local x, c = sft.randn(shape, f64) * 3 + 1, shape[2]
      local w, b = sft.randn({c}, f64), sft.randn({c}, f64)
      local rm, rv = sft.zeros({c}, f64), sft.ones({c}, f64)
      local dims, like = {1}, {1, c}
      for d = 3, #shape do dims[#dims + 1], like[d] = d, 1 end
      local mean, var = x:mean(dims, true), x:var {dim = dims, correction = 0, keepdim = true}
      local y = (x - mean) / (var + 1e-5):sqrt() * w:reshape(like) + b:reshape(like)
      close(F.batch_norm(x, rm, rv, w, b, true, 0.1, 1e-5), y)
      local n = x:numel() / c
      close(rm, mean:flatten() * 0.1)
      close(rv, var:flatten() * (n / (n - 1)) * 0.1 + 0.9)
      local eval = (x - rm:reshape(like)) / (rv:reshape(like) + 1e-5):sqrt()
      close(F.batch_norm(x, rm, rv), eval)
      close(F.batch_norm(x:float(), rm:float(), rv:float()):double(), eval, 1e-4)
    end
  end)

  it("has gradients of first and second order", function()
    for _, shape in ipairs {{4, 3}, {2, 3, 2}, {2, 2, 5, 4}} do
      local c = shape[2]
      local rm, rv = sft.randn({c}, f64), sft.rand({c}, f64) + 0.5
      check(function(x, w, b) return F.batch_norm(x, nil, nil, w, b, true) end, {leaf(shape), leaf {c}, leaf {c}})
      check(function(x, w, b) return F.batch_norm(x, rm, rv, w, b) end, {leaf(shape), leaf {c}, leaf {c}})
    end
  end)

  it("says what does not fit", function()
    fails("more than one value per channel", F.batch_norm, sft.zeros(1, 3), nil, nil, nil, nil, true)
    fails("running_mean and running_var are needed", F.batch_norm, sft.zeros(2, 3))
    fails("running_mean must have one element for each of the 3 channels", F.batch_norm, sft.zeros(2, 3),
      sft.zeros(2), sft.ones(3))
  end)
end)

describe("group_norm and instance_norm", function()
  it("are layer norms of groups and of channels", function()
    local x = sft.randn({2, 6, 5}, f64)
    local w, b = sft.randn({6}, f64), sft.randn({6}, f64)
    local y = F.layer_norm(x:reshape(2, 3, 10), {10}):reshape(2, 6, 5)
    close(F.group_norm(x, 3, w, b), y * w:reshape(6, 1) + b:reshape(6, 1))
    close(F.instance_norm(x), F.layer_norm(x, {5}))
    check(function(a, c) return F.group_norm(a, 2, c) end, {leaf {2, 4, 3}, leaf {4}})
    check(function(a, c) return F.instance_norm(a, {weight = c}) end, {leaf {2, 3, 4}, leaf {3}})
    fails("can't be split into 4 groups", F.group_norm, x, 4)
  end)

  it("moves running statistics by the momentum", function()
    local x, rm, rv = sft.randn({3, 2, 8}, f64), sft.zeros({2}, f64), sft.ones({2}, f64)
    F.instance_norm(x, rm, rv, {momentum = 0.5})
    close(rm, x:mean {1, 3} * 0.5)
    close(rv, x:var {dim = 3}:mean(1) * 0.5 + 0.5, 1e-9)
  end)
end)
