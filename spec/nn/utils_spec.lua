local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local nn = sft.nn

local function with_grad(data, grad)
  local p = nn.Parameter(sft.tensor(data))
  p.grad = sft.tensor(grad)
  return p
end

describe("clip_grad_norm_", function()
  it("scales all gradients by one factor", function()
    local a, b = with_grad({0.0, 0.0}, {3.0, 0.0}), with_grad({0.0}, {4.0})
    near(5, nn.utils.clip_grad_norm_({a, b}, 1))
    near({0.6, 0}, a.grad, 1e-5)
    near({0.8}, b.grad, 1e-5)
    near(1, nn.utils.clip_grad_norm_({a, b}, 10), 1e-5)
    near({0.6, 0}, a.grad, 1e-5)
  end)

  it("knows other norms", function()
    near(4, nn.utils.clip_grad_norm_({with_grad({0.0, 0.0}, {3.0, -4.0})}, 1, math.huge))
    near(7, nn.utils.clip_grad_norm_({with_grad({0.0, 0.0}, {3.0, -4.0})}, 1, 1))
  end)

  it("refuses what would pass silently elsewhere", function()
    local p = with_grad({1.0}, {math.huge})
    raises("no parameters", nn.utils.clip_grad_norm_, {}, 1)
    raises("must not be negative", nn.utils.clip_grad_norm_, {p}, -1)
    raises("that of fc", nn.utils.clip_grad_norm_, require("sft.ordered").new {{"fc", p}}, 1,
      {error_if_nonfinite = true})
    near(math.huge, nn.utils.clip_grad_norm_({p}, 1))
  end)

  it("takes a module, and parameters without gradient", function()
    local fc = nn.Linear(2, 2)
    near(0, nn.utils.clip_grad_norm_(fc, 1))
    fc.weight.grad = sft.full({2, 2}, 2.0)
    near(4, nn.utils.clip_grad_norm_(fc, 1))
  end)
end)

describe("other helpers", function()
  it("clip_grad_value_", function()
    local p = with_grad({0.0, 0.0}, {3.0, -0.5})
    nn.utils.clip_grad_value_({p}, 1)
    near({1, -0.5}, p.grad)
  end)

  it("parameters as a vector and back", function()
    local fc = nn.Linear(2, 1)
    local v = nn.utils.parameters_to_vector(fc:parameters())
    assert.equal(3, v:numel())
    nn.utils.vector_to_parameters(sft.tensor {1.0, 2.0, 3.0}, fc:parameters())
    near({{1, 2}}, fc.weight)
    near({3}, fc.bias)
    raises("the vector has 2 elements", nn.utils.vector_to_parameters, sft.zeros(2), fc:parameters())
  end)
end)
