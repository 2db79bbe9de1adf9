local _ = require "sft"   -- finds the modules below
local json = require "sft.json"
local ordered = require "sft.ordered"

describe("json", function()
  it("writes sorted, valid text", function()
    assert.equal('{"a":[1,2.5,"x\\n\\"é\\u0001"],"b":[],"c":{"d":true},"f":3.0}',
      json.encode {a = {1, 2.5, 'x\n"é\1'}, b = setmetatable({}, json.array), c = {d = true}, f = 3.0})
    assert.equal("{}", json.encode {})
    assert.equal("[null,1]", json.encode {json.null, 1})
  end)

  it("keeps every number", function()
    for _, v in ipairs {0, -1, math.maxinteger, math.mininteger, 0.1, 1 / 3, 1e300, 5e-324, -0.0, 2.0 ^ 53} do
      local back = json.decode(json.encode {v})[1]
      assert.equal(v, back)
      assert.equal(math.type(v), math.type(back))
    end
  end)

  it("refuses what JSON has no word for", function()
    for _, v in ipairs {{0 / 0}, {math.huge}, {print}, {[1] = 1, [3] = 3}, {1, x = 2}, {[2.5] = 1}, {"\xff"}} do
      assert.is_false((pcall(json.encode, v)))
    end
    local deep = {}
    for _ = 1, 300 do deep = {deep} end
    assert.is_false((pcall(json.encode, deep)))
  end)

  it("reads escapes and space", function()
    assert.same({a = {1, true, false, "é\u{1F600}/\\\t"}}, json.decode(
      ' { "a" : [ 1 , true,false , "\\u00e9\\ud83d\\ude00\\/\\\\\\t" ] } '))
    assert.equal(json.null, json.decode "null")
  end)

  it("refuses what is not JSON", function()
    for _, text in ipairs {"", "[1,]", '{"a":1,"a":2}', "[1] x", "01", "nul", '"\\ud800"', '"a', "{a:1}", "[1 2]", "-",
      "1.", '"\1"', "[", "{", '{"a"', '{"a":', "+1", ".5", "0x10", "Infinity", "'a'", '"\\x"', "\xff", '"\\u12"',
      ("["):rep(300) .. ("]"):rep(300)} do
      assert.is_false((pcall(json.decode, text)), text)
    end
  end)
end)

describe("an ordered table", function()
  it("remembers the order of its keys", function()
    local d = ordered.new {{"z", 1}, {"a", 2}}
    d.m = 3
    d.z = 4
    assert.same({"z", "a", "m"}, ordered.keys(d))
    assert.equal(4, d.z)
    assert.equal(3, #d)
    d.a = nil
    assert.same({"z", "m"}, ordered.keys(d))
    d.a = 5
    assert.same({"z", "m", "a"}, ordered.keys(d))
    d.nothing = nil
    assert.equal(3, #d)
    assert.is_true(ordered.is(d))
    assert.is_false(ordered.is {})
  end)

  it("can be looped over while entries are removed", function()
    local d = ordered.new {{"a", 1}, {"b", 2}, {"c", 3}}
    local seen = {}
    for k in pairs(d) do
      seen[#seen + 1] = k
      d[k] = nil
    end
    assert.same({"a", "b", "c"}, seen)
    assert.equal(0, #d)
  end)

  it("can be looped over without pairs, also nested", function()
    local d = ordered.new {{"a", 1}, {"b", 2}}
    local seen = {}
    for k, v in d do
      for k2 in d do seen[#seen + 1] = k .. v .. k2 end
    end
    assert.same({"a1a", "a1b", "b2a", "b2b"}, seen)
    local list = ordered.list {"x", "y"}
    seen = {}
    for v in list do seen[#seen + 1] = v end
    assert.same({"x", "y"}, seen)
  end)

  it("has no names of its own", function()
    local d = ordered.new()
    for _, name in ipairs {"keys", "new", "is", "__index", "n"} do assert.is_nil(d[name]) end
  end)
end)
