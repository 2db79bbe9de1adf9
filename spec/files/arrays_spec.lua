-- npy and idx files: versions, orders, byte orders, and what is wrong with them.

local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

local path

local function write(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

local function npy(descr, order, shape, data, version)
  local header = ("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }"):format(descr, order and "True" or "False",
    shape)
  header = header .. (" "):rep(20) .. "\n"
  version = version or 1
  local len = version == 1 and string.pack("<I2", #header) or string.pack("<I4", #header)
  write("\x93NUMPY" .. string.char(version, 0) .. len .. header .. data)
  return path
end

describe("npy", function()
  before_each(function() path = values.temporary(".npy") end)
  after_each(function() os.remove(path) end)

  it("of versions 1 to 3", function()
    for v = 1, 3 do
      near({1, 2}, sft.read_npy(npy("<f4", false, "2,", string.pack("<ff", 1, 2), v)))
    end
    npy("<f4", false, "2,", string.pack("<ff", 1, 2), 4)
    raises(path, sft.read_npy, path)
  end)

  it("in both orders and byte orders", function()
    near({{1, 2, 3}, {4, 5, 6}}, sft.read_npy(npy("<i2", false, "2, 3", string.pack("<i2i2i2i2i2i2", 1, 2, 3, 4, 5,
      6))))
    near({{1, 3, 5}, {2, 4, 6}}, sft.read_npy(npy("<i2", true, "2, 3", string.pack("<i2i2i2i2i2i2", 1, 2, 3, 4, 5, 6))))
    near({{1, 2}, {3, -4}}, sft.read_npy(npy(">i4", false, "2, 2", string.pack(">i4i4i4i4", 1, 2, 3, -4))))
    near({{1, 3}, {2, -4.5}}, sft.read_npy(npy(">f8", true, "2, 2", string.pack(">dddd", 1, 2, 3, -4.5))))
    near({true, false}, sft.read_npy(npy("|b1", false, "2,", "\1\0")))
    near({200}, sft.read_npy(npy("|u1", false, "1,", "\200")))
  end)

  it("without dims, and without elements", function()
    local t = sft.read_npy(npy("<f8", false, "", string.pack("<d", 2.5)))
    assert.same({}, values.shape(t))
    near(2.5, t)
    t = sft.read_npy(npy("<f8", false, "3, 0, 2", ""))
    assert.same({3, 0, 2}, values.shape(t))
    t = sft.read_npy(npy("<f8", true, "0,", ""))
    assert.same({0}, values.shape(t))
  end)

  it("that is wrong", function()
    for _, text in ipairs {
      "", "\x93", "\x93NUMPY", "\x93NUMPY\1\0", "\x93NUMPY\1\0\255\255", "NUMPY\1\0\1\0{", "\x93NUMPY\1\0\5\0hello",
      "\x93NUMPY\2\0\255\255\255\255{}", "\x93NUMPY\1\0\2\0{}",
    } do
      write(text)
      raises(path, sft.read_npy, path)
    end
    local four = ("\0"):rep(4)
    raises(path, sft.read_npy, npy("<f4", false, "2,", four))
    raises(path, sft.read_npy, npy("<c8", false, "1,", four .. four))
    raises(path, sft.read_npy, npy("|O", false, "1,", four))
    raises(path, sft.read_npy, npy("<f4", false, "-1,", four))
    raises(path, sft.read_npy, npy("<f4", false, "4294967296, 4294967296", four))
    raises(path, sft.read_npy, npy("<f4", false, "99999999999999999999,", four))
    raises(path, sft.read_npy, npy("<f4", false, ("1, "):rep(40), four))
    raises(path, sft.read_npy, npy("<f4", false, "x", four))
    raises("/nowhere.npy", sft.read_npy, "/nowhere.npy")
  end)

  it("may be mangled in any way", function()
    math.randomseed(tonumber(os.getenv("SFT_FUZZ_SEED") or os.time()))
    npy("<f4", true, "2, 3", ("\0"):rep(24))
    local f = assert(io.open(path, "rb"))
    local whole = f:read("a")
    f:close()
    for _ = 1, tonumber(os.getenv("SFT_FUZZ_FILES") or 800) do
      local text = whole
      for _ = 1, math.random(3) do
        local at = math.random(#text)
        text = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + math.random(0, 2))
      end
      write(text)
      local ok, e = pcall(sft.read_npy, path)
      if not ok then assert(sft.is_error(e), tostring(e)) end
    end
  end)
end)

describe("idx", function()
  before_each(function() path = values.temporary(".idx") end)
  after_each(function() os.remove(path) end)

  local head = "\0\0\8\2" .. string.pack(">I4I4", 2, 3)

  it("is read, gzipped too", function()
    write(head .. "\1\2\3\4\5\6")
    near({{1, 2, 3}, {4, 5, 6}}, sft.read_idx(path))
    os.execute("gzip -c " .. path .. " > " .. path .. ".gz")
    near({{1, 2, 3}, {4, 5, 6}}, sft.read_idx(path .. ".gz"))
    local f = assert(io.open(path .. ".gz", "rb"))
    local packed = f:read("a")
    f:close()
    os.remove(path .. ".gz")
    for cut = 1, #packed - 1, 3 do
      write(packed:sub(1, cut))
      raises(path, sft.read_idx, path)
    end
    -- a gzip file with a wrong check sum
    write(packed:sub(1, -9) .. "\0\0\0\0" .. packed:sub(-4))
    raises(path, sft.read_idx, path)
  end)

  it("that is cut off anywhere is refused", function()
    local whole = head .. "\1\2\3\4\5\6"
    for n = 0, #whole - 1 do
      write(whole:sub(1, n))
      raises(path, sft.read_idx, path)
    end
    write(whole .. "\7")
    raises({path, "more data"}, sft.read_idx, path)
  end)

  it("with sizes that can't be is refused", function()
    write("\0\0\8\3" .. string.pack(">I4I4I4", 0xffffffff, 0xffffffff, 0xffffffff) .. "x")
    raises(path, sft.read_idx, path)
    write("\0\0\8\255" .. ("\0\0\0\1"):rep(255) .. "x")
    raises(path, sft.read_idx, path)
    write("\0\0\8\2" .. string.pack(">I4I4", 0x7fffffff, 4) .. "x")
    raises(path, sft.read_idx, path)
    write("\0\0\7\1\0\0\0\1x")
    raises(path, sft.read_idx, path)
    write("\0\0\8\0x")
    local ok, e = pcall(sft.read_idx, path)
    assert(ok or sft.is_error(e))
  end)
end)
