-- Reading safetensors files that are wrong: one test per rule of the format, then headers that a
-- generator mangles (SFT_FUZZ_FILES: how many, SFT_FUZZ_SEED). Nothing but an error may come of them.

local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

local path

local function write(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

-- A file with a header and so many bytes of data.
local function file(header, data)
  write(string.pack("<I8", #header) .. header .. (type(data) == "number" and ("\1"):rep(data) or data or ""))
end

local function bad(texts, header, data)
  file(header, data)
  return raises(texts, sft.load, path)
end

local function entry(name, dtype, shape, from, to)
  return ('"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s,%s]}'):format(name, dtype, shape, from, to)
end

describe("a safetensors file", function()
  before_each(function() path = values.temporary(".safetensors") end)
  after_each(function() os.remove(path) end)

  it("that is right is read", function()
    file("{" .. entry("a", "F32", "2,1", 0, 8) .. "," .. entry("b", "U8", "", 8, 9) .. "}   ",
      string.pack("<ffB", 1.5, -2, 7))
    local d = sft.load(path)
    near({1.5, -2}, d.a)
    near(7, d.b)
    file("{}", 0)
    assert.equal(0, #sft.load(path))
    -- order in the file and order of the data are two things
    file("{" .. entry("b", "U8", "1", 4, 5) .. "," .. entry("a", "F32", "1", 0, 4) .. "}", string.pack("<fB", 1.5, 7))
    near({1.5}, sft.load(path).a)
    -- tensors without elements, at the start, between and at the end
    file("{" .. entry("z", "F32", "0", 0, 0) .. "," .. entry("a", "U8", "1", 0, 1) .. "," .. entry("y", "I64", "3,0",
      1, 1)
      .. "}", 1)
    assert.same({3, 0}, values.shape(sft.load(path).y))
    file('{"__metadata__":{"k":"v","l":"\\u00e9\\n"},' .. entry("a", "BF16", "1", 0, 2) .. "}", 2)
    local _, meta = sft.load(path)
    assert.equal("é\n", meta.l)
  end)

  it("names itself in every error", function()
    write("")
    raises(path, sft.load, path)
    write("1234567")
    raises({path, "short"}, sft.load, path)
    bad(path, "{", 0)
    raises({"/nowhere/x.safetensors"}, sft.load, "/nowhere/x.safetensors")
    raises("/", sft.load, "/")
  end)

  it("has a header that fits into it", function()
    for _, n in ipairs {3, 100, 1 << 20, 1 << 40, 1 << 62, -1, math.mininteger} do
      write(string.pack("<i8", n) .. "{}")
      raises({path, "header"}, sft.load, path)
    end
    write(string.pack("<I8", 0))
    raises(path, sft.load, path)
  end)

  it("has a JSON object as header", function()
    for _, h in ipairs {
      "", " ", "{", "}", "[]", "null", "1", '"a"', "{}}", "{} x", '{"a"}', '{"a":}', '{"a":1}', '{"a":[]}', '{,}',
      '{"a":{},}', '{"a":{}}', "{'a':1}", '{"a\n":1}', '{"a', '{"\\x":1}', '{"\\ud800":1}', '{"\\u12"', "\xff{}",
      '{"a\xff":{}}', "{/*x*/}", "{} //", "NaN", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
      ("["):rep(100000), ('{"a":'):rep(100000),
    } do
      bad(path, h, 4)
    end
  end)

  it("has the fields of each tensor, once and of the right kind", function()
    bad({"a"}, '{"a":{"dtype":"F32","shape":[1]}}', 4)
    bad({"a"}, '{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4)
    bad({"a"}, '{"a":{"shape":[1],"data_offsets":[0,4]}}', 4)
    bad({"a", "more"}, '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}}', 4)
    bad(path, '{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', 4)
    bad(path, '{"a":{"dtype":"F32","shape":[1],"data_offsets":{}}}', 4)
    bad(path, '{"__metadata__":{"k":1}}', 0)
    bad(path, '{"__metadata__":[]}', 0)
    bad(path, '{"__metadata__":{},"__metadata__":{}}', 0)
  end)

  it("has dtypes that are known", function()
    bad({"a", "F99"}, "{" .. entry("a", "F99", "1", 0, 4) .. "}", 4)
    bad({"a"}, "{" .. entry("a", "f32", "1", 0, 4) .. "}", 4)
    bad({"a"}, "{" .. entry("a", "", "1", 0, 4) .. "}", 4)
  end)

  it("has sizes that are there and don't overflow", function()
    bad(path, "{" .. entry("a", "F32", "-1", 0, 4) .. "}", 4)
    bad(path, "{" .. entry("a", "F32", "4294967296,4294967296", 0, 0) .. "}", 0)
    bad(path, "{" .. entry("a", "F32", "4294967296,4294967296", 0, 4) .. "}", 4)
    bad(path, "{" .. entry("a", "F64", "2305843009213693952", 0, 0) .. "}", 0)
    bad(path, "{" .. entry("a", "F32", "99999999999999999999999", 0, 4) .. "}", 4)
    bad(path, "{" .. entry("a", "F32", ("1,"):rep(40) .. "1", 0, 4) .. "}", 4)
    bad(path, "{" .. entry("a", "F32", "00001", 0, 4) .. "}", 4)
    -- 0 times what overflows
    file("{" .. entry("a", "F32", "0,9223372036854775807,9223372036854775807", 0, 0) .. "}", 0)
    local ok, e = pcall(sft.load, path)
    assert(ok or sft.is_error(e))
  end)

  it("has offsets that fit shape, dtype and file", function()
    bad({"a", "[0, 16]", "[1000, 1000]", "4000000"}, "{" .. entry("a", "F32", "1000,1000", 0, 16) .. "}", 16)
    bad({"a"}, "{" .. entry("a", "F32", "1", 4, 0) .. "}", 4)
    bad({"a"}, "{" .. entry("a", "F32", "1", -4, 0) .. "}", 4)
    bad({"a"}, "{" .. entry("a", "F32", "1", 0, "18446744073709551615") .. "}", 4)
    bad({"a"}, "{" .. entry("a", "F32", "1", "18446744073709551612", 0) .. "}", 4)
    bad({"a"}, "{" .. entry("a", "F32", "1", "9223372036854775804", "9223372036854775808") .. "}", 4)
    bad({"a", "cut off"}, "{" .. entry("a", "F32", "2", 0, 8) .. "}", 4)
  end)

  it("has data without holes, overlaps and ends that belong to none", function()
    bad(path, "{" .. entry("a", "F32", "1", 4, 8) .. "}", 8)
    bad(path, "{" .. entry("a", "F32", "1", 0, 4) .. "}", 5)
    bad(path, "{" .. entry("a", "F32", "1", 0, 4) .. "," .. entry("b", "F32", "1", 2, 6) .. "}", 6)
    bad(path, "{" .. entry("a", "F32", "1", 0, 4) .. "," .. entry("b", "F32", "1", 0, 4) .. "}", 4)
    bad(path, "{" .. entry("a", "F32", "1", 0, 4) .. "," .. entry("b", "F32", "1", 8, 12) .. "}", 12)
    bad(path, "{}", 4)
  end)

  it("names each tensor once", function()
    bad({'"a"', "twice"}, "{" .. entry("a", "U8", "1", 0, 1) .. "," .. entry("a", "U8", "1", 1, 2) .. "}", 2)
    bad("twice", "{" .. entry("a", "U8", "1", 0, 1) .. "," .. entry("\\u0061", "U8", "1", 1, 2) .. "}", 2)
  end)

  it("leaves nothing behind when it is refused", function()
    collectgarbage()
    local tensors = sft.live_tensors()
    for _ = 1, 20 do
      bad(path, "{" .. entry("a", "F32", "1", 0, 4) .. "," .. entry("b", "F32", "1", 2, 6) .. "}", 6)
    end
    collectgarbage()
    assert.equal(tensors, sft.live_tensors())
  end)

  it("may be mangled in any way", function()
    local seed = tonumber(os.getenv("SFT_FUZZ_SEED") or os.time())
    local count = tonumber(os.getenv("SFT_FUZZ_FILES") or 1500)
    math.randomseed(seed)
    local header = '{"__metadata__":{"format":"pt"},' .. entry("w", "F32", "2,3", 0, 24) .. ","
      .. entry("b", "I64", "2", 24, 40) .. "," .. entry("e", "F16", "0,4", 40, 40) .. "}"
    local whole = string.pack("<I8", #header) .. header .. ("\1\2\3\4"):rep(10)
    local digits = {"0", "9", "-", "e", ".", '"', "{", "}", "[", "]", ",", ":", "\\", "u", "\0", "\xff", " ", "n"}
    local fine = 0
    for i = 1, count do
      local text = whole
      for _ = 1, math.random(1, 4) do
        local at = math.random(1, #text)
        local k = math.random(6)
        if k == 1 then
          text = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
        elseif k == 2 then
          text = text:sub(1, at - 1) .. digits[math.random(#digits)] .. text:sub(at + 1)
        elseif k == 3 then
          text = text:sub(1, at - 1) .. digits[math.random(#digits)] .. text:sub(at)
        elseif k == 4 then
          text = text:sub(1, at - 1) .. text:sub(at + math.random(20))
        elseif k == 5 then
          text = text:sub(1, at) .. text:sub(math.max(1, at - math.random(30)))
        else
          text = text:sub(1, -1 - math.random(0, 10))
        end
        if #text == 0 then text = "x" end
      end
      -- the length is right again in most of them, so that the header itself is read
      if math.random(4) > 1 and #text > 60 then
        text = string.pack("<I8", math.max(0, #text - 8 - 40)) .. text:sub(9)
      end
      write(text)
      local ok, e = pcall(sft.load, path)
      if ok then
        fine = fine + 1
      elseif not sft.is_error(e) then
        error(("seed %d, file %d: %s"):format(seed, i, tostring(e)))
      end
    end
    assert(fine < count)
  end)
end)
