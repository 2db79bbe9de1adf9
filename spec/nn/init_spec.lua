local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local init = sft.nn.init

describe("nn.init", function()
  before_each(function() sft.manual_seed(5) end)

  it("fills in place, without a trace", function()
    local p = sft.nn.Parameter(sft.zeros(3))
    assert.is_true(rawequal(p, init.constant_(p, 2)))
    near({2, 2, 2}, p)
    assert.is_true(p.is_leaf and p.requires_grad)
    near({1, 1, 1}, init.ones_(p))
    near({0, 0, 0}, init.zeros_(p))
    near({{1, 0, 0}, {0, 1, 0}}, init.eye_(sft.empty(2, 3)))
  end)

  it("draws with the right spread", function()
    local t = sft.empty(200, 100)
    near(2, init.normal_(t, 2, 0.5):mean(), 0.02)
    near(0.5, t:std(), 0.02)
    near(1.5, init.uniform_(t, 1, 2):mean(), 0.02)
    assert.is_true(t:min():item() >= 1 and t:max():item() <= 2)
    near(math.sqrt(2 / 300), init.xavier_normal_(t):std(), 0.01)
    assert.is_true(init.xavier_uniform_(t):abs():max():item() <= math.sqrt(6 / 300))
    near(math.sqrt(2 / 100), init.kaiming_normal_(t, {nonlinearity = "relu"}):std(), 0.01)
    near(math.sqrt(2 / 200), init.kaiming_normal_(t, {nonlinearity = "relu", mode = "fan_out"}):std(), 0.01)
    assert.is_true(init.kaiming_uniform_(t, math.sqrt(5)):abs():max():item() <= 0.1)
  end)

  it("draws within bounds", function()
    local t = init.trunc_normal_(sft.empty(10000), 0, 1, -1, 1)
    assert.is_true(t:abs():max():item() <= 1)
    near(0.5396, t:std(), 0.02)   -- of a normal cut at one deviation
  end)

  it("makes orthonormal rows or columns", function()
    local t = init.orthogonal_(sft.empty(3, 5))
    near(sft.eye(3), t:matmul(t:t()), 1e-5)
    t = init.orthogonal_(sft.empty(5, 3), 2)
    near(sft.eye(3) * 4, t:t():matmul(t), 1e-5)
  end)

  it("knows gains and refuses nonsense", function()
    near(math.sqrt(2), init.calculate_gain("relu"))
    near(5 / 3, init.calculate_gain("tanh"))
    near(math.sqrt(2 / 1.04), init.calculate_gain("leaky_relu", 0.2))
    raises('did you mean "relu"', init.calculate_gain, "relux")
    raises("at least 2 dims", init.xavier_uniform_, sft.empty(3))
    raises("fan_in", init.kaiming_normal_, sft.empty(2, 2), {mode = "fan"})
  end)
end)
