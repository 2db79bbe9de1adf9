local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local optim, nn = sft.optim, sft.nn

-- Steps an optimizer over given gradients of one parameter of two elements; returns where it got to.
local function run(make, grads, options)
  local p = nn.Parameter(sft.tensor {1.0, -2.0})
  local opt = make({p}, options)
  for _, g in ipairs(grads) do
    p.grad = sft.tensor(g)
    opt:step()
  end
  return p:tolist()
end

-- The same by `update(p, g, state, t)`, for each element alone.
local function by_hand(grads, update)
  local out = {}
  for i, p in ipairs {1.0, -2.0} do
    local st = {}
    for t, g in ipairs(grads) do p = update(p, g[i], st, t) end
    out[i] = p
  end
  return out
end

local grads = {{0.5, -1.0}, {0.25, 2.0}, {-1.5, 0.0}, {0.75, 1.0}}

describe("SGD", function()
  local function reference(o)
    return function(p, g, st)
      if o.maximize then g = -g end
      g = g + (o.weight_decay or 0) * p
      if o.momentum then
        st.b = st.b and o.momentum * st.b + (1 - (o.dampening or 0)) * g or g
        g = o.nesterov and g + o.momentum * st.b or st.b
      end
      return p - o.lr * g
    end
  end
  for _, o in ipairs {
    {lr = 0.1}, {lr = 0.1, momentum = 0.9}, {lr = 0.1, momentum = 0.9, dampening = 0.5},
    {lr = 0.1, momentum = 0.9, nesterov = true}, {lr = 0.1, weight_decay = 0.1},
    {lr = 0.1, momentum = 0.5, weight_decay = 0.01, maximize = true},
  } do
    local keys = {}
    for k, v in pairs(o) do keys[#keys + 1] = k .. "=" .. tostring(v) end
    table.sort(keys)
    it(table.concat(keys, " "), function()
      near(by_hand(grads, reference(o)), run(optim.SGD, grads, o))
    end)
  end

  it("refuses bad options", function()
    local p = nn.Parameter(sft.zeros(1))
    raises("lr must be a number and not negative", optim.SGD, {p}, {lr = -1})
    raises("nesterov needs", optim.SGD, {p}, {nesterov = true})
    raises('did you mean "momentum"', optim.SGD, {p}, {momentun = 0.9})
    raises("unknown option 'lrr'", optim.SGD, {{params = {p}, lrr = 1}})
  end)
end)

describe("Adam and AdamW", function()
  local function reference(o, decoupled)
    return function(p, g, st, t)
      local b1, b2 = table.unpack(o.betas or {0.9, 0.999})
      local lr, decay, eps = o.lr or 1e-3, o.weight_decay or (decoupled and 0.01 or 0), o.eps or 1e-8
      if o.maximize then g = -g end
      if decoupled then p = p * (1 - lr * decay) else g = g + decay * p end
      st.m = b1 * (st.m or 0) + (1 - b1) * g
      st.v = b2 * (st.v or 0) + (1 - b2) * g * g
      st.x = math.max(st.x or 0, st.v)
      local v = o.amsgrad and st.x or st.v
      return p - lr / (1 - b1 ^ t) * st.m / (math.sqrt(v) / math.sqrt(1 - b2 ^ t) + eps)
    end
  end
  for _, o in ipairs {{lr = 0.1}, {lr = 0.1, weight_decay = 0.1}, {lr = 0.05, betas = {0.5, 0.9}, eps = 1e-3},
    {lr = 0.1, amsgrad = true, betas = {0.5, 0.5}}, {lr = 0.1, maximize = true}} do
    it("agree with the formula", function()
      near(by_hand(grads, reference(o, false)), run(optim.Adam, grads, o))
      near(by_hand(grads, reference(o, true)), run(optim.AdamW, grads, o))
    end)
  end

  it("refuse bad options", function()
    local p = nn.Parameter(sft.zeros(1))
    raises("betas[2] must be within 0 to 1", optim.Adam, {p}, {betas = {0.9, 1.0}})
    raises("betas must be a list", optim.Adam, {p}, {betas = 0.9})
  end)
end)

describe("RMSprop and Adagrad", function()
  it("RMSprop", function()
    local o = {lr = 0.1, alpha = 0.9, momentum = 0.5, centered = true, weight_decay = 0.1}
    near(by_hand(grads, function(p, g, st)
      g = g + 0.1 * p
      st.v = 0.9 * (st.v or 0) + 0.1 * g * g
      st.a = 0.9 * (st.a or 0) + 0.1 * g
      st.b = 0.5 * (st.b or 0) + g / (math.sqrt(st.v - st.a ^ 2) + 1e-8)
      return p - 0.1 * st.b
    end), run(optim.RMSprop, grads, o))
  end)

  it("Adagrad", function()
    near(by_hand(grads, function(p, g, st, t)
      st.s = (st.s or 0.5) + g * g
      return p - 0.1 / (1 + (t - 1) * 0.1) * g / (math.sqrt(st.s) + 1e-10)
    end), run(optim.Adagrad, grads, {lr = 0.1, lr_decay = 0.1, initial_accumulator_value = 0.5}))
  end)
end)

describe("parameters", function()
  it("come as a list, by name, as a module or in groups", function()
    local fc = nn.Linear(1, 1)
    for _, params in ipairs {fc:parameters(), fc:named_parameters(), fc} do
      assert.equal(2, #optim.SGD(params).param_groups[1].params)
    end
    assert.equal(1, #optim.SGD(fc.weight).param_groups[1].params)
    local opt = optim.SGD({{params = {fc.weight}, lr = 1}, {params = {fc.bias}}}, {lr = 0.5})
    assert.equal(1, opt.param_groups[1].lr)
    assert.equal(0.5, opt.param_groups[2].lr)
    fc.weight.grad, fc.bias.grad = sft.ones(1, 1), sft.ones(1)
    local w, b = fc.weight:item(), fc.bias:item()
    opt:step()
    near({w - 1, b - 0.5}, {fc.weight:item(), fc.bias:item()})
  end)

  it("must be leaves, be there, and come once", function()
    local p = nn.Parameter(sft.zeros(1))
    raises("no parameters", optim.SGD, {})
    raises("the same tensor", optim.SGD, {p, p})
    raises("more than one group", optim.SGD, {{params = {p}}, {params = {p}}})
    raises("only leaf tensors", optim.SGD, {p * 2})
    raises("must be a Tensor", optim.SGD, {3})
    raises("must be a list", optim.SGD, 3)
  end)

  it("without a gradient stay as they are", function()
    local a, b = nn.Parameter(sft.ones(1)), nn.Parameter(sft.ones(1))
    local opt = optim.Adam({a, b}, {lr = 0.1, weight_decay = 0.1})
    a.grad = sft.ones(1)
    opt:step()
    near({0.9}, a)
    near({1}, b)
    b.grad = sft.ones(1)
    opt:step()   -- b's first step is corrected as a first one
    near({0.9}, b)
    opt:zero_grad()
    assert.is_nil(a.grad)
  end)
end)

describe("step", function()
  it("calls a closure with gradients on, and returns its value", function()
    local p = nn.Parameter(sft.tensor {3.0})
    local opt = optim.SGD({p}, {lr = 0.5})
    local loss = sft.no_grad(function()
      return opt:step(function()
        opt:zero_grad()
        local l = (p * p):sum()
        l:backward()
        return l
      end)
    end)
    near(9, loss)
    near({0}, p)
    raises("the closure must be a function", opt.step, opt, 3)
  end)

  it("trains", function()
    sft.manual_seed(2)
    local net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    local x = sft.tensor {{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}
    local y = sft.tensor {{0.0}, {1.0}, {1.0}, {0.0}}
    local opt = optim.Adam(net:parameters(), {lr = 0.05})
    local loss
    for _ = 1, 200 do
      opt:zero_grad()
      loss = nn.functional.mse_loss(net(x), y)
      loss:backward()
      opt:step()
    end
    assert.is_true(loss:item() < 0.01)
  end)
end)

describe("state", function()
  local makers = {
    SGD = function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9}) end,
    Adam = function(p) return optim.Adam(p, {lr = 0.1, amsgrad = true}) end,
    AdamW = function(p) return optim.AdamW(p, {lr = 0.1}) end,
    RMSprop = function(p) return optim.RMSprop(p, {momentum = 0.9}) end,
    Adagrad = function(p) return optim.Adagrad(p) end,
  }

  local function some_steps(net, opt, n)
    for _ = 1, n do
      opt:zero_grad()
      local loss = net(sft.ones(4, 3)):pow(2):sum()
      loss:backward()
      opt:step()
    end
  end

  for name, make in pairs(makers) do
    it("of " .. name .. " goes through a file: 10 steps are 5 and 5, bit for bit", function()
      sft.manual_seed(1)
      local net = nn.Linear(3, 2)
      local twin = net:clone()
      local opt = make(net:named_parameters())
      some_steps(net, opt, 5)
      local path = values.temporary(".safetensors")
      sft.save(path, {net = net:state_dict(), opt = opt:state_dict()})
      some_steps(net, opt, 5)
      local saved = sft.load(path)
      os.remove(path)
      twin:load_state_dict(saved.net)
      local again = make(twin:named_parameters())
      again:load_state_dict(saved.opt)
      some_steps(twin, again, 5)
      assert.same(net.weight:tolist(), twin.weight:tolist())
    end)
  end

  it("is kept by number, or by name where names are known", function()
    local net = nn.Linear(3, 2)
    local opt = makers.Adam(net:parameters())
    some_steps(net, opt, 2)
    local sd = opt:state_dict()
    assert.same({1, 2}, sd.param_groups[1].params)
    assert.equal(2, sd.state[1].step)
    assert.same({2, 3}, values.shape(sd.state[1].exp_avg))
    local named = makers.Adam(net:named_parameters())
    some_steps(net, named, 1)
    assert.same({"weight", "bias"}, named:state_dict().param_groups[1].params)
    assert.equal(1, named:state_dict().state.bias.step)
  end)

  it("by name finds its parameters in another order", function()
    local net = nn.Linear(3, 3)
    local opt = makers.Adam(net:named_parameters())
    some_steps(net, opt, 1)
    local other = makers.Adam(require("sft.ordered").new {{"bias", net.bias}, {"weight", net.weight}})
    other:load_state_dict(opt:state_dict())
    assert.same({3, 3}, values.shape(other.state[net.weight].exp_avg))
    local wrong = makers.Adam(require("sft.ordered").new {{"b", net.bias}, {"weight", net.weight}})
    raises('no parameter "b"', wrong.load_state_dict, wrong, opt:state_dict())
  end)

  it("that does not fit is refused, and nothing is changed", function()
    local net = nn.Linear(3, 2)
    local opt = makers.Adam(net:parameters())
    some_steps(net, opt, 1)
    local sd = opt:state_dict()
    local other = makers.Adam(nn.Linear(3, 5):parameters())
    raises({"the file has [2, 3], the parameter is [5, 3]"}, other.load_state_dict, other, sd)
    assert.is_nil(next(other.state))
    raises("a table with state", other.load_state_dict, other, {})
    local few = makers.Adam {net.weight}
    raises("1 parameters, the saved one 2", few.load_state_dict, few, sd)
  end)

  it("goes to the dtype of the parameter", function()
    local net = nn.Linear(3, 2)
    local opt = makers.Adam(net:parameters())
    some_steps(net, opt, 1)
    local double = nn.Linear(3, 2):double()
    local other = makers.Adam(double:parameters())
    other:load_state_dict(opt:state_dict())
    assert.equal(sft.float64, other.state[double.weight].exp_avg.dtype)
    assert.equal(1, other.state[double.weight].step)
  end)
end)
