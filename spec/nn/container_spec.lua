local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local ordered = require "sft.ordered"
local nn = sft.nn

local Add = nn.class("Add")
function Add:init(k) self.k = k end
function Add:forward(x) return x * 10 + self.k end

describe("Sequential", function()
  it("runs one after the other and counts from 1", function()
    local s = nn.Sequential(Add(1), Add(2), Add(3))
    assert.equal(123, s(0))
    assert.equal(3, #s)
    assert.equal(1, s[1].k)
    assert.equal(3, s[-1].k)
    assert.is_nil(s[4])
    raises("start at 1", function() return s[0] end)
    local seen = {}
    for i, m in ipairs(s) do seen[i] = m.k end
    assert.same({1, 2, 3}, seen)
  end)

  it("is made of a list, of pairs, of an ordered dict", function()
    assert.equal(12, nn.Sequential {Add(1), Add(2)}(0))
    local s = nn.Sequential {{"first", Add(1)}, {"second", Add(2)}}
    assert.equal(12, s(0))
    assert.equal(2, s.second.k)
    assert.equal(2, s[2].k)
    assert.equal(12, nn.Sequential(ordered.new {{"a", Add(1)}, {"b", Add(2)}})(0))
    raises("list of pairs", nn.Sequential, {a = Add(1), b = Add(2)})
    raises("a module is expected", nn.Sequential, Add(1), 3)
  end)

  it("grows and shrinks", function()
    local s = nn.Sequential():append(Add(1)):extend {Add(2), Add(3)}
    s:insert(1, Add(9))
    assert.equal(9123, s(0))
    s[2] = Add(5)
    assert.equal(9523, s(0))
    s[1] = nil
    assert.equal(523, s(0))
    assert.equal(7, nn.Sequential()(7))
    raises("out of range", function() s[9] = Add(1) end)
  end)
end)

describe("ModuleList and ModuleDict", function()
  it("register what they hold", function()
    local list = nn.ModuleList {nn.Linear(1, 1), nn.Linear(1, 1)}
    list[3] = nn.Linear(1, 1)
    assert.equal(6, #list:parameters())
    assert.is_not_nil(list:state_dict()["2.weight"])
    raises("a list of modules", nn.ModuleList, 3)
  end)

  it("keep names and order", function()
    local d = nn.ModuleDict {{"b", Add(1)}, {"a", Add(2)}}
    d.c = Add(3)
    assert.same({"b", "a", "c"}, d:keys())
    assert.equal(3, #d)
    local seen = {}
    for name, m in pairs(d) do seen[#seen + 1] = name .. m.k end
    assert.same({"b1", "a2", "c3"}, seen)
    assert.same({"a", "b"}, nn.ModuleDict {b = Add(1), a = Add(2)}:keys())
  end)
end)

describe("ParameterList and ParameterDict", function()
  it("hold parameters", function()
    local list = nn.ParameterList {sft.zeros(2), nn.Parameter(sft.ones(1))}
    assert.equal(2, #list)
    assert.is_true(list[1].requires_grad)
    near({1}, list[-1])
    assert.is_not_nil(list:state_dict()["1"])
    local d = nn.ParameterDict {w = sft.zeros(1)}
    assert.is_true(nn.is_parameter(d.w))
  end)
end)
