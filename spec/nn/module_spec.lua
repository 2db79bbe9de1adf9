local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local nn = sft.nn

local function names(dict)
  local out = {}
  for name in pairs(dict) do out[#out + 1] = name end
  return out
end

describe("nn.class", function()
  it("makes a module whose call is forward", function()
    local Double = nn.class("Double")
    function Double:init(k) self.k = k end
    function Double:forward(x) return x * self.k end
    near({2, 4}, Double(2)(sft.tensor {1, 2}))
  end)

  it("passes several arguments and results on", function()
    local Swap = nn.class("Swap")
    function Swap:forward(a, b) return b, a, nil end
    local n = select("#", Swap()(1, 2))
    assert.equal(3, n)
    assert.same({2, 1}, {Swap()(1, 2)})
  end)

  it("inherits", function()
    local Base = nn.class("Base")
    function Base:init(k) self.k = k end
    function Base:forward(x) return x + self.k end
    local Derived = nn.class("Derived", Base)
    function Derived:init() Base.init(self, 3) end
    local d = Derived()
    assert.is_true(d:is(Base) and d:is(Derived) and d:is(nn.Module))
    assert.is_false(Base(1):is(Derived))
    near(5, d(sft.tensor(2)))
  end)

  it("refuses bad bases and names", function()
    raises("the name must be a string", nn.class)
    raises("must be a class", nn.class, "A", {})
  end)

  it("says when there is no forward", function()
    raises("Empty has no forward", nn.class("Empty")(), 1)
  end)
end)

describe("registration", function()
  local Net = nn.class("Net")
  function Net:init()
    self.z = nn.Parameter(sft.zeros(2))
    self.number = 7
    self.fc = nn.Linear(2, 3)
    self:register_buffer("b", sft.ones(1))
    self.a = nn.Parameter(sft.zeros(1))
    self:register_buffer("scratch", sft.ones(1), {persistent = false})
  end

  it("keeps the order of assignment", function()
    local net = Net()
    assert.same({"z", "a", "fc.weight", "fc.bias"}, names(net:named_parameters()))
    assert.same({"b", "scratch"}, names(net:named_buffers()))
    assert.same({"z", "a", "b", "fc.weight", "fc.bias"}, names(net:state_dict()))
    assert.same({"fc"}, names(net:named_children()))
    assert.same({"", "fc"}, names(net:named_modules()))
    assert.equal(4, #net:parameters())
    assert.equal(7, net.number)
  end)

  it("loops in three ways", function()
    local net = Net()
    local a, b, c = {}, {}, {}
    for p in net:parameters() do a[#a + 1] = p end
    for _, p in ipairs(net:parameters()) do b[#b + 1] = p end
    for _, p in net:named_parameters() do c[#c + 1] = p end
    assert.equal(4, #a)
    for i = 1, 4 do assert.is_true(rawequal(a[i], b[i]) and rawequal(b[i], c[i])) end
  end)

  it("unregisters with nil and registers anew at the end", function()
    local net = Net()
    net.z = nil
    assert.is_nil(net.z)
    assert.same({"a", "fc.weight", "fc.bias"}, names(net:named_parameters()))
    net.z = nn.Parameter(sft.zeros(2))
    assert.same({"a", "z", "fc.weight", "fc.bias"}, names(net:named_parameters()))
  end)

  it("updates a registered name that a tensor is assigned to", function()
    local net = Net()
    net.b = sft.full({1}, 5.0)
    near({5}, net:state_dict().b)
    net.a = sft.full({1}, 6.0)
    assert.is_true(nn.is_parameter(net.a))
    assert.is_true(net.a.requires_grad)
    near({6}, net:state_dict().a)
    assert.same({"z", "a", "fc.weight", "fc.bias"}, names(net:named_parameters()))
  end)

  it("takes a field that changes its kind", function()
    local net = Net()
    net.number = nn.Linear(1, 1)
    assert.same({"fc", "number"}, names(net:named_children()))
    net.fc = nn.Parameter(sft.zeros(1))
    assert.same({"z", "a", "fc", "number.weight", "number.bias"}, names(net:named_parameters()))
  end)

  it("refuses what does not fit", function()
    local net = Net()
    raises({"buffer", '"b"', "3"}, function() net.b = 3 end)
    raises({"module", '"fc"'}, function() net.fc = "x" end)
    raises({"parameter", '"a"'}, function() net.a = {} end)
    raises("detach", function() net.a = net.z * 2 end)
    raises("is a method", function() net.train = nn.Linear(1, 1) end)
    raises("dot", function() net["a.b"] = nn.Linear(1, 1) end)
    raises("has no length", function() return #net end)
  end)

  it("counts a shared parameter once, and names it twice in the state", function()
    local Tied = nn.class("Tied")
    function Tied:init()
      self.first = nn.Linear(2, 2, {bias = false})
      self.second = nn.Linear(2, 2, {bias = false})
      self.second.weight = self.first.weight
    end
    local net = Tied()
    assert.equal(1, #net:parameters())
    local sd = net:state_dict()
    assert.same({"first.weight", "second.weight"}, names(sd))
    assert.is_true(rawequal(sd["first.weight"], sd["second.weight"]))
  end)
end)

describe("a module", function()
  it("switches training for all below it", function()
    local net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert.is_true(net.training)
    assert.equal(net, net:eval())
    assert.is_false(net[2][1].training)
    net:train()
    assert.is_true(net[2][1].training)
    raises("true or false", function() net:train(1) end)
  end)

  it("applies a function to the children first", function()
    local net = nn.Sequential(nn.Identity(), nn.Tanh())
    local seen = {}
    assert.equal(net, net:apply(function(m) seen[#seen + 1] = m end))
    assert.equal(3, #seen)
    assert.equal(net, seen[3])
  end)

  it("clears and freezes gradients", function()
    local fc = nn.Linear(2, 1)
    fc(sft.ones(1, 2)):sum():backward()
    assert.is_not_nil(fc.weight.grad)
    fc:zero_grad {set_to_none = false}
    near({0, 0}, fc.weight.grad)
    fc:zero_grad()
    assert.is_nil(fc.weight.grad)
    fc:requires_grad_(false)
    assert.is_false(fc.weight.requires_grad)
    assert.is_false(fc(sft.ones(1, 2)).requires_grad)
  end)

  it("finds what has a path", function()
    local net = nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(2, 1)))
    assert.equal(net[2][1], net:get_submodule("1.0"))
    assert.is_true(rawequal(net[2][1].weight, net:get_parameter("1.0.weight")))
    raises('no submodule "1.3"', function() net:get_submodule("1.3") end)
  end)

  it("is copied whole", function()
    local net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    local copy = net:clone()
    assert.same(names(net:state_dict()), names(copy:state_dict()))
    near(net[1].weight, copy[1].weight)
    sft.no_grad(function() net[1].weight:fill_(9) end)
    assert.is_false(copy[1].weight:eq(9):all():item())
    assert.is_true(copy[1].weight.requires_grad)
  end)

  it("prints as a tree", function()
    local Net = nn.class("Net")
    function Net:init()
      self.features = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU())
      self.heads = nn.ModuleList {nn.Linear(2, 2), nn.Linear(2, 2)}
    end
    assert.equal([[
Net(
  (features): Sequential(
    (0): Conv2d(1, 32, kernel_size={3, 3}, stride={1, 1})
    (1): ReLU()
  )
  (heads): ModuleList(
    (0-1): 2 x Linear(in_features=2, out_features=2, bias=true)
  )
)]], tostring(Net()))
  end)
end)

describe("hooks", function()
  it("see and change arguments and results, and can be removed", function()
    local m = nn.Identity()
    local pre = m:register_forward_pre_hook(function(_, input) return {input[1] + 1} end)
    local post = m:register_forward_hook(function(_, input, output) return output * 10 + input[1] end)
    near(33, m(sft.tensor(2)))
    pre.remove()
    near(22, m(sft.tensor(2)))
    post.remove()
    near(2, m(sft.tensor(2)))
    raises("must be a function", function() m:register_forward_hook(3) end)
  end)
end)

describe("coroutines", function()
  it("may yield in forward", function()
    local Slow = nn.class("Slow")
    function Slow:forward(x) return coroutine.yield(x + 1) end
    local net = nn.Sequential(Slow(), Slow())
    local co = coroutine.wrap(function() return net(1) end)
    assert.equal(2, co())
    assert.equal(11, co(10))
    assert.equal(5, co(5))
  end)
end)
