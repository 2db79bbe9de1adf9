-- An error that leaves a model says where in it it arose.
local sft = require "sft"
local raises = require("spec.support.values").raises
local nn = sft.nn

local Net = nn.class("Net")
function Net:init(width)
  self.features = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(width or 6, 2))
end
function Net:forward(x)
  local y = self.features(x)
  return y
end

local Outer = nn.class("Outer")
function Outer:init() self.net = Net() end
function Outer:forward(x)
  local y = self.net(x)
  return y
end

local function count(text, what)
  local _, n = text:gsub(what, "")
  return n
end

describe("the path of an error", function()
  it("is there once, four deep, with the user's line", function()
    local e = raises("in Outer.net.features[3]: Linear(6 -> 2): ", Outer(), sft.zeros(3, 4))
    assert.equal(1, count(e, "in Outer"))
    assert.equal(0, count(e, "in Net"))
    assert.matches("errors_spec%.lua:11: ", e)   -- the innermost line of the user's
    assert.is_nil(e:find("lib/sft", 1, true))
  end)

  it("names a layer alone when it was called alone", function()
    local e = raises("in Linear(6 -> 2): ", function() local y = nn.Linear(6, 2)(sft.zeros(1, 5)) return y end)
    assert.matches("errors_spec%.lua:%d+: in Linear", e)
  end)

  it("keeps the user's own position and text", function()
    local Bad = nn.class("Bad")
    function Bad:forward() error("no luck") end
    local net = nn.Sequential(nn.Identity(), Bad())
    local e = raises("in Sequential[2]: Bad: no luck", net, 1)
    assert.matches("^spec/nn/errors_spec%.lua:%d+: in Sequential", e)
  end)

  it("leaves errors that are not strings alone", function()
    local value = {code = "mine"}
    local Bad = nn.class("Bad")
    function Bad:forward() error(value) end
    local ok, e = pcall(nn.Sequential(Bad()), 1)
    assert.is_false(ok)
    assert.is_true(rawequal(value, e))
    function Bad:forward() error() end
    ok, e = pcall(nn.Sequential(Bad()), 1)
    assert.is_false(ok)
    assert.is_nil(e)
  end)

  it("survives a pcall in forward, and a second error", function()
    local Careful = nn.class("Careful")
    function Careful:init() self.inner = nn.Linear(3, 3) end
    function Careful:forward(x)
      local ok, e = pcall(self.inner, x)
      if ok then return "fine" end
      error("gave up: " .. e, 0)
    end
    local e = raises({"in Careful: gave up: ", "in Linear(3 -> 3)"}, Careful(), sft.zeros(1, 2))
    assert.equal(1, count(e, "in Careful"))
    raises("in Careful: gave up", Careful(), sft.zeros(1, 5))
  end)

  it("is there after a yield", function()
    local Slow = nn.class("Slow")
    function Slow:forward(x) coroutine.yield() error("late " .. x) end
    local co = coroutine.create(function() return nn.Sequential(Slow())(7) end)
    coroutine.resume(co)
    local ok, e = coroutine.resume(co)
    assert.is_false(ok)
    assert.matches("in Sequential%[1%]: Slow: late 7", e)
  end)

  it("is there for each kind of layer", function()
    local x = sft.zeros(2, 3, 4, 5, 6)
    for name, layer in pairs {
      Linear = nn.Linear(7, 2), Conv2d = nn.Conv2d(8, 2, 3), Conv1d = nn.Conv1d(8, 2, 3),
      BatchNorm1d = nn.BatchNorm1d(3), BatchNorm2d = nn.BatchNorm2d(3), LayerNorm = nn.LayerNorm(9),
      MaxPool2d = nn.MaxPool2d(2), AvgPool2d = nn.AvgPool2d(2), Flatten = nn.Flatten(9),
      MultiheadAttention = nn.MultiheadAttention(4, 2), Embedding = nn.Embedding(3, 2),
    } do
      raises("in Sequential[1]: " .. name, nn.Sequential(layer), x)
    end
  end)
end)

describe("arguments of constructors", function()
  it("are read by place and by name", function()
    assert.equal("Linear(in_features=2, out_features=3, bias=false)", tostring(nn.Linear(2, 3.0, {bias = false})))
    assert.equal("Linear(in_features=2, out_features=3, bias=true)",
      tostring(nn.Linear {in_features = 2, out_features = 3}))
  end)

  it("are named when they are wrong, at the user's line", function()
    local e = raises("Linear: argument 'out_features' is missing", function() nn.Linear(2) end)
    assert.matches("errors_spec%.lua:%d+: Linear", e)
    raises("'out_features' must be a whole number, got 2.5", nn.Linear, 1, 2.5)
    raises("unknown keyword 'bais' (did you mean \"bias\"?)", nn.Linear, 1, 2, {bais = true})
    raises("'bias' must be true or false, got 1", nn.Linear, 1, 2, {bias = 1})
    raises("given twice", nn.Linear, 1, 2, {in_features = 3})
    raises("at most", nn.Linear, 1, 2, true, "cpu", "float32", 5)
    raises("p must be within 0 to 1", nn.Dropout, 1.5)
    raises("multiple of groups", nn.Conv2d, 3, 4, 3, {groups = 2})
    raises('"same" or "valid"', nn.Conv2d, 3, 4, 3, {padding = "sam"})
    raises("count from 1", nn.Embedding, 3, 2, {padding_idx = 0})
    raises("multiple of num_heads", nn.MultiheadAttention, 5, 2)
  end)
end)

describe("the traceback that sftlua prints", function()
  it("is that of the place of the error, without the library's own lines", function()
    local values = require "spec.support.values"
    local script, out = values.temporary(".lua"), values.temporary(".out")
    local file = assert(io.open(script, "w"))
    file:write([[
local sft = require "sft"
local Net = sft.nn.class("Net")
function Net:forward(x)
  local function inner() return x.missing.field end
  local y = inner()
  return y
end
local function main()
  local y = sft.nn.Sequential(Net())({})
  return y
end
main()
]])
    file:close()
    os.execute(("%s %s >%s 2>&1"):format(os.getenv("SFTLUA") or "build/sftlua", script, out))
    file = assert(io.open(out))
    local text = file:read("a")
    file:close()
    os.remove(script)
    os.remove(out)
    assert.equal(1, count(text, "stack traceback"))
    assert.equal(1, count(text, "in Sequential%[1%]: Net: attempt to index"))
    for line = 4, 12, 1 do
      local expected = line == 4 or line == 5 or line == 9 or line == 12
      assert.equal(expected, text:find(script .. ":" .. line .. ": in ", 1, true) ~= nil, text)
    end
    assert.is_nil(text:find("/lib/sft/", 1, true))
  end)
end)
