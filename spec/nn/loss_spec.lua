local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local nn, F = sft.nn, sft.nn.functional

describe("losses of numbers", function()
  local x, y = sft.tensor {1.0, 2.0, 5.0}, sft.tensor {1.5, 2.0, 1.0}

  it("are reduced in three ways", function()
    near((0.25 + 16) / 3, nn.MSELoss()(x, y))
    near(16.25, nn.MSELoss {reduction = "sum"}(x, y))
    near({0.25, 0, 16}, nn.MSELoss {reduction = "none"}(x, y))
    near(1.5, nn.L1Loss()(x, y))
    raises("reduction must be", nn.MSELoss, {reduction = "avg"})
  end)

  it("smooth and Huber", function()
    near((0.125 + 3.5) / 3, nn.SmoothL1Loss()(x, y))
    near((0.125 + 2 * (4 - 1)) / 3, nn.HuberLoss {delta = 2}(x, y))
    near((0.25 * 0.25 * 0 + 0.5 - 0.125 + 4 - 0.125) / 3, nn.SmoothL1Loss {beta = 0.25}(x, y))
  end)

  it("refuse shapes that would be broadcast", function()
    for _, name in ipairs {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy"} do
      raises(name, F[name], sft.zeros(4, 1), sft.zeros(4))
    end
  end)
end)

describe("losses of classes", function()
  local logits = sft.tensor {{0.0, math.log(3)}, {math.log(4), 0.0}}

  it("count labels from 1", function()
    local expected = -(math.log(0.75) + math.log(0.8)) / 2
    near(expected, nn.CrossEntropyLoss()(logits, sft.tensor {2, 1}))
    near(expected, nn.NLLLoss()(logits:log_softmax(2), sft.tensor {2, 1}))
    raises("0", nn.CrossEntropyLoss(), logits, sft.tensor {0, 1})
    raises("3", nn.CrossEntropyLoss(), logits, sft.tensor {3, 1})
  end)

  it("take weights, ignored labels and smoothing", function()
    local w = sft.tensor {1.0, 3.0}
    near(-(3 * math.log(0.75) + math.log(0.8)) / 4, nn.CrossEntropyLoss {weight = w}(logits, sft.tensor {2, 1}))
    near(-math.log(0.75), nn.CrossEntropyLoss()(logits, sft.tensor {2, -100}))
    near(-math.log(0.8), nn.CrossEntropyLoss {ignore_index = 2}(logits, sft.tensor {2, 1}))
    near(-0.9 * math.log(0.75) - 0.1 * (math.log(0.75) + math.log(0.25)) / 2,
      nn.CrossEntropyLoss {label_smoothing = 0.1}(logits:narrow(1, 1, 1), sft.tensor {2}))
    assert.is_not_nil(nn.CrossEntropyLoss {weight = w}:state_dict().weight)
  end)

  it("of two classes", function()
    local p, t = sft.tensor {0.8, 0.25}, sft.tensor {1.0, 0.0}
    local expected = -(math.log(0.8) + math.log(0.75)) / 2
    near(expected, nn.BCELoss()(p, t))
    near(expected, nn.BCEWithLogitsLoss()((p / (1 - p)):log(), t))
    near(-(2 * math.log(0.8) + math.log(0.75)) / 2,
      nn.BCEWithLogitsLoss {pos_weight = sft.tensor {2.0}}((p / (1 - p)):log(), t))
    near({0, 100}, nn.BCELoss {reduction = "none"}(sft.tensor {0.0, 0.0}, t:flip(1)), 1e-3)
  end)

  it("KLDivLoss", function()
    local q, p = sft.tensor {{0.5, 0.5}}, sft.tensor {{0.25, 0.75}}
    local expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    near(expected / 2, nn.KLDivLoss()(q:log(), p))
    near(expected, nn.KLDivLoss {reduction = "batchmean"}(q:log(), p))
    near(expected, nn.KLDivLoss {reduction = "sum", log_target = true}(q:log(), p:log()))
    near(math.log(2), nn.KLDivLoss {reduction = "sum"}(q:log(), sft.tensor {{0.0, 1.0}}))
  end)
end)
