local sft = require "sft"
local values = require "spec.support.values"
local near, raises, shape = values.near, values.raises, values.shape
local ordered = require "sft.ordered"

local path

local function round_trip(tree, options)
  sft.save(path, tree)
  return sft.load(path, options)
end

local function read_all()
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

describe("save and load", function()
  before_each(function() path = values.temporary(".safetensors") end)
  after_each(function() os.remove(path) end)

  it("keep a tree of Lua values as it is", function()
    local tree = {
      n = 3, f = 3.0, big = math.mininteger, third = 1 / 3, inf = math.huge, minus = -math.huge,
      yes = true, no = false, text = "a\n\"é\"", bytes = "\xff\0\x80", list = {1, {2, {}}, "x"},
      [5] = "five", [true] = "bool", [2.5] = "float", ["$t"] = "not a tensor", deep = {a = {b = {c = 1}}},
    }
    local back = round_trip(tree)
    assert.same(tree, back)
    assert.equal("integer", math.type(back.n))
    assert.equal("float", math.type(back.f))
    local nan = round_trip {v = 0 / 0}.v
    assert.is_true(nan ~= nan)
  end)

  it("keep tensors of every dtype", function()
    for _, name in ipairs {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
      "bool"} do
      local t = sft.tensor({{0, 1, 1}, {1, 0, 1}}, {dtype = sft[name]})
      local back = round_trip {t = t, scalar = t[{1, 2}], empty = t:narrow(1, 1, 0), odd = t:t()}
      assert.equal(sft[name], back.t.dtype)
      near(t, back.t)
      assert.same({}, shape(back.scalar))
      assert.same({0, 3}, shape(back.empty))
      assert.same({3, 2}, shape(back.odd))
      near(t:t(), back.odd)
    end
  end)

  it("keep the order of a state_dict", function()
    local d = ordered.new {{"z", sft.zeros(1)}, {"a", 1}, {"m", "x"}}
    local back = round_trip {model = d}.model
    assert.same({"z", "a", "m"}, ordered.keys(back))
  end)

  it("name tensors by their path, so that other tools can read them", function()
    local fc = sft.nn.Linear(2, 2)
    sft.save(path, fc:state_dict())
    assert.matches('"weight":{', read_all(), 1, true)
    sft.save(path, {model = fc:state_dict(), list = {sft.zeros(1)}})
    local text = read_all()
    assert.matches('"model.weight":{', text, 1, true)
    assert.matches('"list.1":{', text, 1, true)
  end)

  it("read the files of other tools as an ordered dict", function()
    local header = '{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}'
    local file = assert(io.open(path, "wb"))
    file:write(string.pack("<I8", #header), header, string.pack("<ff", 1, 2))
    file:close()
    local d, metadata = sft.load(path)
    near({1, 2}, d.b)
    assert.equal("v", metadata.k)
  end)

  it("tie what is one tensor, and write a slice alone", function()
    local t = sft.zeros(1000, 100)
    local back = round_trip {a = t, b = t, c = {t:detach()}}
    assert.is_true(rawequal(back.a, back.b))
    assert.is_true(rawequal(back.a, back.c[1]))
    sft.save(path, {t[1]})
    assert.is_true(#read_all() < 2000)
  end)

  it("keep names apart that would be equal", function()
    local back = round_trip {["a.b"] = sft.tensor {1}, a = {b = sft.tensor {2}}}
    near({1}, back["a.b"])
    near({2}, back.a.b)
  end)

  it("save a tensor alone, and dtypes", function()
    near({1, 2}, round_trip(sft.tensor {1, 2}))
    assert.equal(sft.float16, round_trip {d = sft.float16}.d)
  end)

  it("name what can't be saved, before anything is written", function()
    sft.save(path, {old = 1})
    raises({"opt.hook is a function", "skip_functions"}, sft.save, path, {opt = {hook = print}})
    raises("list[2] is ", sft.save, path, {list = {1, io.stdout}})
    raises("state_dict()", sft.save, path, {m = sft.nn.Linear(1, 1)})
    raises("part of itself", function()
      local t = {}
      t.t = t
      sft.save(path, t)
    end)
    raises("a table or a tensor", sft.save, path, 3)
    assert.equal(1, sft.load(path).old)
    sft.save(path, {a = 1, hook = print}, {skip_functions = true})
    assert.same({a = 1}, sft.load(path))
  end)

  it("go where map_location says", function()
    local back = round_trip({t = sft.ones(2)}, {map_location = "cpu"})
    assert.equal("cpu", tostring(back.t.device))
    local seen = {}
    back = round_trip({t = sft.ones(2)}, {map_location = function(t, device)
      seen[#seen + 1] = device
      return t * 2
    end})
    near({2, 2}, back.t)
    assert.same({"cpu"}, seen)
    round_trip({t = sft.ones(2)}, {map_location = {["cuda:3"] = "cpu"}})
  end)

  it("refuse damaged files", function()
    raises("/nowhere/x", sft.load, "/nowhere/x")
    sft.save(path, {t = sft.zeros(100)})
    local text = read_all()
    local function try(damaged)
      local file = assert(io.open(path, "wb"))
      file:write(damaged)
      file:close()
      return raises(path, sft.load, path)
    end
    try(text:sub(1, -2))
    try(text .. "x")
    try(text:sub(1, 5))
    try("")
    try(string.pack("<I8", 1 << 60) .. text:sub(9))
    try((text:gsub("%[100%]", "[999]", 1)))
    local changed = text:gsub('{\\"%$t\\":\\"t\\"}', '{\\"$t\\":\\"q\\"}')
    assert.not_equal(text, changed)
    assert.matches('"q"', tostring(try(changed)))
  end)

  it("raise when the folder is not there, and keep the old file when it can't be written", function()
    raises("/nowhere/", sft.save, "/nowhere/x.safetensors", {})
  end)
end)
