local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local schedulers = sft.optim.lr_scheduler

local function new_optimizer(options)
  return sft.optim.SGD({sft.nn.Parameter(sft.zeros(1))}, options or {lr = 1})
end

-- The first n learning rates.
local function rates(scheduler, opt, n)
  local out = {}
  for i = 1, n do
    out[i] = opt.param_groups[1].lr
    opt:step()
    scheduler:step()
  end
  return out
end

describe("learning rates", function()
  local function check(expected, make, ...)
    local opt = new_optimizer()
    near(expected, rates(make(opt, ...), opt, #expected), 1e-12)
  end

  it("StepLR", function() check({1, 1, 0.5, 0.5, 0.25}, schedulers.StepLR, 2, {gamma = 0.5}) end)
  it("MultiStepLR", function() check({1, 0.1, 0.1, 0.01}, schedulers.MultiStepLR, {1, 3}) end)
  it("ExponentialLR", function() check({1, 0.5, 0.25}, schedulers.ExponentialLR, 0.5) end)
  it("CosineAnnealingLR", function()
    check({1, 0.5 + 0.25 * math.sqrt(2) * 1, 0.5, 0.5 - 0.25 * math.sqrt(2), 0}, schedulers.CosineAnnealingLR, 4)
    check({1, 0.55, 0.1}, schedulers.CosineAnnealingLR, {T_max = 2, eta_min = 0.1})
  end)
  it("LambdaLR", function() check({1, 2, 3}, schedulers.LambdaLR, function(n) return n + 1 end) end)
  it("LinearLR, a warm-up", function()
    check({0.25, 0.5, 0.75, 1, 1}, schedulers.LinearLR, {start_factor = 0.25, total_iters = 3})
  end)
  it("ConstantLR", function() check({0.5, 0.5, 1}, schedulers.ConstantLR, {factor = 0.5, total_iters = 2}) end)
  it("PolynomialLR", function() check({1, 0.5, 0, 0}, schedulers.PolynomialLR, {total_iters = 2}) end)

  it("SequentialLR goes from one to the next", function()
    local opt = new_optimizer()
    local s = schedulers.SequentialLR(opt, {
      schedulers.LinearLR(opt, {start_factor = 0.5, total_iters = 2}), schedulers.ExponentialLR(opt, 0.5)}, {2})
    near({0.5, 0.75, 1, 0.5, 0.25}, rates(s, opt, 5))
  end)

  it("OneCycleLR", function()
    local opt = new_optimizer {lr = 1, momentum = 0.9}
    local s = schedulers.OneCycleLR(opt, 1, {total_steps = 10, pct_start = 0.4, div_factor = 10, final_div_factor = 10})
    local r = rates(s, opt, 10)
    near(0.1, r[1])
    near(1, r[4])
    near(0.01, r[10])
    near(0.95, opt.param_groups[1].momentum, 1e-2)
    raises("after the last", function() s:step() s:step() end)
  end)

  it("ReduceLROnPlateau", function()
    local opt = new_optimizer()
    local s = schedulers.ReduceLROnPlateau(opt, {patience = 1, factor = 0.5})
    for _, v in ipairs {3.0, 2.0, 2.0, 2.0} do s:step(v) end
    near(0.5, opt.param_groups[1].lr)
    s:step(sft.tensor(1.0))
    near(0.5, opt.param_groups[1].lr)
  end)

  it("of several groups", function()
    local a, b = sft.nn.Parameter(sft.zeros(1)), sft.nn.Parameter(sft.zeros(1))
    local opt = sft.optim.SGD({{params = {a}, lr = 1}, {params = {b}, lr = 10}})
    local s = schedulers.LambdaLR(opt, {function(n) return 1 / (n + 1) end, function() return 2 end})
    opt:step()
    s:step()
    near({0.5, 20}, s:get_last_lr())
  end)
end)

describe("a scheduler", function()
  it("goes on from its state", function()
    local opt = new_optimizer()
    local s = schedulers.StepLR(opt, 2, {gamma = 0.5})
    rates(s, opt, 3)
    local other = new_optimizer()
    local t = schedulers.StepLR(other, 2, {gamma = 0.5})
    t:load_state_dict(s:state_dict())
    near(rates(s, opt, 4), rates(t, other, 4))
    raises("not the state", t.load_state_dict, t, {})
  end)

  it("refuses bad options", function()
    raises("an optimizer is expected", schedulers.StepLR, 3, 1)
    raises("must be positive", schedulers.StepLR, new_optimizer(), 0)
    raises("must be a function", schedulers.LambdaLR, new_optimizer(), 3)
  end)
end)
