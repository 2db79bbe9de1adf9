local sft = require "sft"
local values = require "spec.support.values"
local near, raises, shape = values.near, values.raises, values.shape
local data = sft.data

local function with_file(text, fn)
  local path = values.temporary(".dat")
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local ok, e = pcall(fn, path)
  os.remove(path)
  if not ok then error(e, 0) end
end

local function idx(kind, sizes, bytes)
  local parts = {string.pack(">BBBB", 0, 0, kind, #sizes)}
  for _, n in ipairs(sizes) do parts[#parts + 1] = string.pack(">I4", n) end
  return table.concat(parts) .. bytes
end

describe("read_idx", function()
  it("reads bytes and numbers", function()
    with_file(idx(8, {2, 2}, "\1\2\3\255"), function(path)
      local t = data.read_idx(path)
      assert.equal(sft.uint8, t.dtype)
      near({{1, 2}, {3, 255}}, t)
    end)
    with_file(idx(0x0D, {2}, string.pack(">ff", 1.5, -2)), function(path) near({1.5, -2}, data.read_idx(path)) end)
  end)

  it("names the file and what is wrong with it", function()
    with_file(idx(8, {2, 3}, "\1\2\3"), function(path) raises(path, data.read_idx, path) end)
    with_file("hello world", function(path) raises(path, data.read_idx, path) end)
    with_file("", function(path) raises(path, data.read_idx, path) end)
    raises("/nowhere/x", data.read_idx, "/nowhere/x")
  end)
end)

describe("npy", function()
  it("goes out and comes back", function()
    local path = values.temporary(".npy")
    for _, t in ipairs {sft.tensor {{1.5, 2}, {3, 4}}, sft.arange(1, 6), sft.tensor(true)} do
      data.write_npy(path, t)
      local back = data.read_npy(path)
      assert.equal(t.dtype, back.dtype)
      assert.same(shape(t), shape(back))
      near(t, back)
    end
    os.remove(path)
  end)
end)

describe("read_csv", function()
  it("finds the header, or the lack of one", function()
    with_file("a,b\n1,2.5\n3,-4e1\n", function(path)
      local t, names = data.read_csv(path)
      assert.same({"a", "b"}, names)
      near({{1, 2.5}, {3, -40}}, t)
      assert.equal(sft.float32, t.dtype)
    end)
    with_file("1;2\r\n3;4", function(path)
      local t, names = data.read_csv(path, {separator = ";", dtype = sft.int64})
      assert.is_nil(names)
      near({{1, 2}, {3, 4}}, t)
    end)
  end)

  it("knows quotes, empty fields and columns", function()
    with_file('name,"x ""y""",z\n"a,b",1,\n"c\nd",2,inf\n', function(path)
      local t, names = data.read_csv(path, {columns = {'x "y"', 3}})
      assert.same({'x "y"', "z"}, names)
      near({{1, 0 / 0}, {2, math.huge}}, t)
      local rows = data.read_csv(path, {as = "rows"})
      assert.same({"a,b", "1", ""}, rows[1])
      assert.same({"c\nd", "2", "inf"}, rows[2])
    end)
  end)

  it("names the line that is wrong", function()
    with_file("1,2\n3\n", function(path) raises({path .. ":2", "1 fields, expected 2"}, data.read_csv, path) end)
    with_file("1,2\n3,x\n", function(path) raises({path .. ":2", '"x" is not a number'}, data.read_csv, path) end)
    with_file('"1,2\n', function(path) raises("no end", data.read_csv, path) end)
    with_file("a,b\n", function(path) raises("has no rows", data.read_csv, path) end)
    raises("can't open", data.read_csv, "/nowhere/x.csv")
  end)
end)

describe("read_text", function()
  it("reads all bytes", function()
    with_file("a\0b\r\n", function(path) assert.equal("a\0b\r\n", data.read_text(path)) end)
    raises("can't open /nowhere", data.read_text, "/nowhere")
    raises("must be a string", data.read_text, 3)
  end)
end)

describe("mnist", function()
  it("says which files are missing, and where they are to be had", function()
    raises({"/nowhere", "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "https://"}, data.mnist, "/nowhere")
  end)

  it("gives images within 0 to 1 and labels from 1", function()
    local dir = values.temporary("")
    assert(os.execute("mkdir " .. dir))
    local function write(name, text)
      local file = assert(io.open(dir .. "/" .. name, "wb"))
      file:write(text)
      file:close()
    end
    write("train-images-idx3-ubyte", idx(8, {2, 2, 2}, "\0\51\102\255\0\0\0\0"))
    write("train-labels-idx1-ubyte", idx(8, {2}, "\0\9"))
    write("t10k-images-idx3-ubyte", idx(8, {1, 2, 2}, "\0\0\0\0"))
    write("t10k-labels-idx1-ubyte", idx(8, {2}, "\5\5"))
    raises("don't belong together", data.mnist, dir)
    write("t10k-labels-idx1-ubyte", idx(8, {1}, "\5"))
    local train, test = data.mnist(dir)
    os.execute("rm -r " .. dir)
    assert.equal(2, #train)
    assert.equal(1, #test)
    near({{{0, 0.2}, {0.4, 1}}}, (train:get(1)))
    near({1, 10}, train.tensors[2])
  end)
end)
