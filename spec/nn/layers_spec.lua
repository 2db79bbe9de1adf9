local sft = require "sft"
local values = require "spec.support.values"
local near, raises, shape = values.near, values.raises, values.shape
local nn, F = sft.nn, sft.nn.functional

local function set(p, data)
  sft.no_grad(function() p:copy_(sft.tensor(data)) end)
end

describe("Linear", function()
  it("is x W^T + b", function()
    local fc = nn.Linear(2, 3)
    set(fc.weight, {{1, 2}, {3, 4}, {5, 6}})
    set(fc.bias, {10, 20, 30})
    near({{13, 27, 41}}, fc(sft.tensor {{1.0, 1.0}}))
    near({13, 27, 41}, fc(sft.tensor {1.0, 1.0}))
  end)

  it("starts within +-1 / sqrt(in)", function()
    sft.manual_seed(1)
    local fc = nn.Linear(100, 200)
    assert.is_true(fc.weight:abs():max():item() <= 0.1 and fc.bias:abs():max():item() <= 0.1)
    assert.is_true(fc.weight:abs():max():item() > 0.099)
    near(0, fc.weight:mean(), 2e-3)
    near(0.1 / math.sqrt(3), fc.weight:std(), 1e-3)
  end)

  it("may be without bias, and of another dtype", function()
    local fc = nn.Linear(2, 3, {bias = false, dtype = sft.float64})
    assert.is_nil(fc.bias)
    assert.equal(sft.float64, fc.weight.dtype)
    assert.equal(1, #fc:parameters())
  end)

  it("Bilinear is x1 W x2", function()
    local m = nn.Bilinear(2, 2, 1)
    set(m.weight, {{{1, 2}, {3, 4}}})
    set(m.bias, {0.5})
    near({{1 * 1 * 5 + 1 * 2 * 6 + 2 * 3 * 5 + 2 * 4 * 6 + 0.5}}, m(sft.tensor {{1.0, 2.0}}, sft.tensor {{5.0, 6.0}}))
  end)
end)

describe("shapes", function()
  it("Flatten keeps the batch, Unflatten undoes it", function()
    local x = sft.arange(0, 24):reshape(2, 3, 4)
    assert.same({2, 12}, shape(nn.Flatten()(x)))
    assert.same({24}, shape(nn.Flatten(1)(x)))
    local y = nn.Unflatten(2, {3, 4})(nn.Flatten()(x))
    assert.same({2, 3, 4}, shape(y))
    near(x, y)
    raises("out of range", nn.Unflatten(5, {3, 4}), x)
  end)
end)

describe("convolutions", function()
  it("Conv2d multiplies and adds windows", function()
    local conv = nn.Conv2d(1, 1, 2)
    set(conv.weight, {{{{1, 2}, {3, 4}}}})
    set(conv.bias, {0.5})
    local x = sft.tensor {{{{1.0, 2, 3}, {4, 5, 6}, {7, 8, 9}}}}
    near({{{{37.5, 47.5}, {67.5, 77.5}}}}, conv(x))
  end)

  it("knows stride, padding, dilation and groups", function()
    local x = sft.randn(2, 4, 9, 7)
    assert.same({2, 6, 5, 4}, shape(nn.Conv2d(4, 6, 3, {stride = 2, padding = 1})(x)))
    assert.same({2, 6, 9, 7}, shape(nn.Conv2d(4, 6, {3, 5}, {padding = "same"})(x)))
    assert.same({2, 6, 5, 3}, shape(nn.Conv2d(4, 6, 3, 1, 0, 2)(x)))
    assert.same({6, 2, 3, 3}, shape(nn.Conv2d(4, 6, 3, {groups = 2}).weight))
    assert.same({2, 6, 7, 5}, shape(nn.Conv2d(4, 6, 3, {groups = 2})(x)))
  end)

  it("Conv1d is Conv2d of height 1", function()
    local conv = nn.Conv1d(1, 1, 3, {padding = 1})
    set(conv.weight, {{{1, 2, 3}}})
    set(conv.bias, {0})
    near({{{8, 14, 8}}}, conv(sft.tensor {{{1.0, 2, 3}}}))
    assert.same({1, 4, 5}, shape(nn.Conv1d(2, 4, 3, {stride = 2, padding = 1})(sft.zeros(1, 2, 10))))
  end)
end)

describe("normalisation", function()
  it("BatchNorm normalises by the batch and follows it", function()
    local bn = nn.BatchNorm1d(1)
    local y = bn(sft.tensor {{1.0}, {2.0}, {3.0}})
    near({{-1.2247357}, {0}, {1.2247357}}, y)
    near({0.2}, bn.running_mean)          -- 0.9 * 0 + 0.1 * 2
    near({1.0}, bn.running_var)           -- 0.9 * 1 + 0.1 * 1 (unbiased)
    near(1, bn.num_batches_tracked)
    bn:eval()
    near({{0.8}}, bn(sft.tensor {{1.0}}), 1e-4)
    near(1, bn.num_batches_tracked)
  end)

  it("BatchNorm can average all batches, or none", function()
    local bn = nn.BatchNorm1d(1, {momentum = false})
    bn(sft.tensor {{1.0}, {3.0}})
    bn(sft.tensor {{5.0}, {7.0}})
    near({4}, bn.running_mean)
    local plain = nn.BatchNorm1d(1, {track_running_stats = false, affine = false})
    assert.equal(0, #plain:state_dict())
    plain:eval()
    near({{-1}, {1}}, plain(sft.tensor {{1.0}, {3.0}}), 1e-4)
    raises("input must be", nn.BatchNorm2d(1), sft.zeros(1, 1))
  end)

  it("LayerNorm, RMSNorm and GroupNorm", function()
    near({{-1.2247357, 0, 1.2247357}}, nn.LayerNorm(3)(sft.tensor {{1.0, 2.0, 3.0}}))
    assert.is_nil(nn.LayerNorm(3, {bias = false}).bias)
    near({{0.8485281, 1.1313708}}, nn.RMSNorm(2)(sft.tensor {{3.0, 4.0}}))
    local x = sft.randn(2, 4, 3, 3)
    local y = nn.GroupNorm(2, 4)(x):reshape(2, 2, -1)
    near({{0, 0}, {0, 0}}, y:mean(3), 1e-5)
    near({{1, 1}, {1, 1}}, y:var(3, {correction = 0}), 1e-4)
  end)
end)

describe("Embedding", function()
  it("reads rows by ids from 1", function()
    local m = nn.Embedding(3, 2)
    set(m.weight, {{1, 2}, {3, 4}, {5, 6}})
    near({{5, 6}, {1, 2}}, m(sft.tensor {3, 1}))
    raises("1", m, sft.tensor {0})
  end)

  it("gives the padding row no gradient", function()
    local m = nn.Embedding(3, 2, {padding_idx = 2})
    near({0, 0}, m.weight[2])
    m(sft.tensor {1, 2, 2}):sum():backward()
    near({{1, 1}, {0, 0}, {0, 0}}, m.weight.grad)
    assert.equal(3, nn.Embedding(3, 2, {padding_idx = -1}).padding_idx)
  end)

  it("is made of given vectors", function()
    local m = nn.Embedding.from_pretrained(sft.tensor {{1.0, 2.0}})
    assert.is_false(m.weight.requires_grad)
    near({{1, 2}}, m(sft.tensor {1}))
  end)
end)

describe("Dropout", function()
  it("drops and scales in training only", function()
    sft.manual_seed(3)
    local m = nn.Dropout(0.25)
    local x = sft.ones(10000)
    local y = m(x)
    near(0.75, y:ne(0):to {dtype = sft.float32}:mean(), 0.02)
    near(1 / 0.75, y:max())
    m:eval()
    near(1, m(x):min())
  end)
end)

describe("pooling", function()
  local x = sft.arange(1, 17):to {dtype = sft.float32}:reshape(1, 1, 4, 4)

  it("takes the greatest or the mean", function()
    near({{{{6, 8}, {14, 16}}}}, nn.MaxPool2d(2)(x))
    near({{{{3.5, 5.5}, {11.5, 13.5}}}}, nn.AvgPool2d(2)(x))
    near({{{{11, 12}, {15, 16}}}}, nn.MaxPool2d(3, {stride = 1})(x))
  end)

  it("AdaptiveAvgPool2d makes any size", function()
    near({{{{8.5}}}}, nn.AdaptiveAvgPool2d(1)(x))
    near({{{{3.5, 5.5}, {11.5, 13.5}}}}, nn.AdaptiveAvgPool2d {output_size = 2}(x))
    near({{{{3.5, 4.5, 5.5}, {7.5, 8.5, 9.5}, {11.5, 12.5, 13.5}}}}, nn.AdaptiveAvgPool2d(3)(x))
  end)
end)

describe("activations", function()
  local x = sft.tensor {-2.0, -0.5, 0.0, 1.0, 3.0}
  local exp, tanh = math.exp, function(v) return (math.exp(2 * v) - 1) / (math.exp(2 * v) + 1) end
  local function softplus(v) return math.log(1 + exp(v)) end
  local function sigmoid(v) return 1 / (1 + exp(-v)) end
  local cases = {
    ReLU = {nn.ReLU(), function(v) return math.max(v, 0) end},
    ReLU6 = {nn.ReLU6(), function(v) return math.min(math.max(v, 0), 6) end},
    LeakyReLU = {nn.LeakyReLU(0.1), function(v) return v > 0 and v or 0.1 * v end},
    ELU = {nn.ELU(), function(v) return v > 0 and v or exp(v) - 1 end},
    SELU = {nn.SELU(), function(v) return 1.05070098 * (v > 0 and v or 1.67326324 * (exp(v) - 1)) end},
    SiLU = {nn.SiLU(), function(v) return v * sigmoid(v) end},
    Mish = {nn.Mish(), function(v) return v * tanh(softplus(v)) end},
    Tanh = {nn.Tanh(), tanh},
    Sigmoid = {nn.Sigmoid(), sigmoid},
    LogSigmoid = {nn.LogSigmoid(), function(v) return -softplus(-v) end},
    Softplus = {nn.Softplus(), softplus},
    Softsign = {nn.Softsign(), function(v) return v / (1 + math.abs(v)) end},
    Tanhshrink = {nn.Tanhshrink(), function(v) return v - tanh(v) end},
    Hardtanh = {nn.Hardtanh(-1, 2), function(v) return math.min(math.max(v, -1), 2) end},
    Hardsigmoid = {nn.Hardsigmoid(), function(v) return math.min(math.max(v / 6 + 0.5, 0), 1) end},
    Hardswish = {nn.Hardswish(), function(v) return v * math.min(math.max(v + 3, 0), 6) / 6 end},
    PReLU = {nn.PReLU(), function(v) return v > 0 and v or 0.25 * v end},
    ["GELU, tanh"] = {nn.GELU {approximate = "tanh"}, function(v)
      return 0.5 * v * (1 + tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ^ 3)))
    end},
  }
  for name, case in pairs(cases) do
    it(name, function()
      local expected = {}
      for i, v in ipairs(x:tolist()) do expected[i] = case[2](v) end
      near(expected, case[1](x))
    end)
  end

  it("GELU", function()
    near({-0.0455003, -0.1542688, 0, 0.8413447, 2.9959502}, nn.GELU()(x))
  end)

  it("over a dim", function()
    local y = sft.tensor {{0.0, math.log(3)}}
    near({{0.25, 0.75}}, nn.Softmax(2)(y))
    near({{0.25, 0.75}}, nn.LogSoftmax {dim = -1}(y):exp())
    near({{0.75, 0.25}}, nn.Softmin(2)(y))
    near({{1 * 0.5}}, nn.GLU()(sft.tensor {{1.0, 0.0}}))
    raises("'dim' is missing", nn.Softmax)
  end)

  it("in place", function()
    local y = sft.tensor {-1.0, 2.0}
    assert.is_true(rawequal(y, nn.ReLU {inplace = true}(y)))
    near({0, 2}, y)
    assert.equal("ReLU(inplace=true)", tostring(nn.ReLU(true)))
  end)
end)

describe("functional", function()
  it("normalize, cosine_similarity and one_hot", function()
    near({{0.6, 0.8}}, F.normalize(sft.tensor {{3.0, 4.0}}))
    near({0.96}, F.cosine_similarity(sft.tensor {{3.0, 4.0}}, sft.tensor {{4.0, 3.0}}))
    near({{0, 0, 1}, {1, 0, 0}}, F.one_hot(sft.tensor {3, 1}))
    near({{0, 1, 0}}, F.one_hot(sft.tensor {2}, 3))
  end)
end)
