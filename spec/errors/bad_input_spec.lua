-- What bad input gets: an error that says what is wrong, with everything else as it was.

local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

describe("an error", function()
  it("is an object with code, message and the script's line", function()
    local ok, e = pcall(function() return sft.zeros(2, 3):sum(5) end)
    assert.is_false(ok)
    assert.is_true(sft.is_error(e))
    assert.equal("index", e.code)
    assert.matches("sum: ", e.message, 1, true)
    assert.matches("bad_input_spec.lua:%d+: ", e.where)
    assert.equal(e.where .. e.message, tostring(e))
    assert.is_truthy(e:find("sum", 1, true))
    assert.is_true(("x: " .. e):sub(1, 3) == "x: ")
  end)

  it("holds no tensor", function()
    collectgarbage()
    local before = sft.live_bytes()
    local kept = {}
    for i = 1, 20 do
      local ok
      ok, kept[i] = pcall(function() return sft.zeros(1000, 3):matmul(sft.zeros(1000, 3)) end)
      assert.is_false(ok)
    end
    collectgarbage()
    assert.is_true(sft.live_bytes() - before < 1000, #kept)
  end)
end)

describe("sizes without memory behind them", function()
  local x = sft.zeros(1, {dtype = sft.int8}):expand((1 << 61) + 1)
  it("don't overflow where they become memory", function()
    raises("out of memory", function() x:tolist() end)
    raises("overflow", function() return x:double() end)
    raises("overflow", function() return x + 0.5 end)
    raises("overflow", function() return x:float():as_strided({1 << 62}, {0}) end)
    raises("overflow", function() return sft.zeros(1):as_strided({1 << 62}, {0}) end)
  end)
end)

describe("dims and indices", function()
  local x = sft.zeros(2, 3)
  it("out of range name the range", function()
    raises({"sum", "3", "1 to 2"}, function() x:sum(3) end)
    raises({"sum", "-3", "-1 to -2"}, function() x:sum(-3) end)
    raises({"transpose", "dim 4"}, function() x:transpose(1, 4) end)
    raises({"3"}, function() return x[3] end)
    raises({"-3"}, function() return x[-3] end)
    raises({"4"}, function() return x[{1, 4}] end)
    raises({"select"}, function() x:select(1, 3) end)
    raises({"narrow"}, function() x:narrow(2, 2, 3) end)
    raises({"3 indices", "2 dims"}, function() return x[{1, 1, 1}] end)
    raises({"index_select", "4", "1 to 3"}, function() x:index_select(2, sft.tensor {1, 4}) end)
    raises({"gather", "1 to 3"}, function() x:gather(2, sft.tensor {{4}, {1}}) end)
    raises({"1 to 2"}, function() return x[sft.tensor {1, 3}] end)
    raises({"take"}, function() x:take(sft.tensor {7}) end)
  end)

  it("0 says where counting starts", function()
    raises({"start at 1"}, function() return x[0] end)
    raises({"start at 1"}, function() return x[{1, 0}] end)
    raises({"start at 1"}, function() x:sum(0) end)
    raises({"start at 1"}, function() x:select(1, 0) end)
    raises({"start at 1"}, function() x[0] = 1 end)
    raises({"index_select", "start at 1"}, function() x:index_select(1, sft.tensor {0}) end)
    raises({"start at 1"}, function() return x[sft.tensor {0}] end)
    raises({"scatter", "start at 1"}, function() x:scatter(1, sft.tensor {{0}}, 1.0) end)
  end)

  it("of class labels guess at labels that count from 0", function()
    local F = sft.nn.functional
    local logits = sft.zeros(3, 4)
    raises({"cross_entropy", "1 to 4", "y + 1"}, function() F.cross_entropy(logits, sft.tensor {0, 1, 3}) end)
    raises({"cross_entropy", "1 to 4", "5"}, function() F.cross_entropy(logits, sft.tensor {1, 2, 5}) end)
    raises({"embedding"}, function() F.embedding(sft.tensor {0, 1}, sft.zeros(3, 2)) end)
    raises({"embedding", "4"}, function() F.embedding(sft.tensor {4, 1}, sft.zeros(3, 2)) end)
  end)

  it("write nothing when one of many is wrong", function()
    local y = sft.zeros(3, 2)
    raises("1 to 3", function() y:index_add_(1, sft.tensor {1, 2, 9}, sft.ones(3, 2)) end)
    raises("1 to 3", function() y:index_copy_(1, sft.tensor {1, 2, 9}, sft.ones(3, 2)) end)
    raises("1 to 3", function() y:scatter_(1, sft.tensor {{1, 1}, {9, 1}}, sft.ones(2, 2)) end)
    raises("1 to 3", function() y:index_fill_(1, sft.tensor {1, 9}, 1) end)
    raises("1 to 3", function() y[sft.tensor {1, 9}] = 1 end)
    near(sft.zeros(3, 2), y)
  end)
end)

describe("sizes", function()
  it("that overflow, or are no sizes", function()
    raises({"zeros", "4294967296"}, sft.zeros, 4294967296, 4294967296)
    raises({"zeros"}, sft.zeros, math.maxinteger)
    raises({"zeros"}, sft.zeros, math.maxinteger // 4, 2)
    raises({"zeros"}, sft.zeros, -1)
    raises({"zeros", "2.5"}, sft.zeros, 2, 2.5)
    raises({"zeros"}, sft.zeros, 0 / 0)
    raises({"zeros"}, sft.zeros, math.huge)
    raises({"zeros"}, sft.zeros, 2.0 ^ 63)
    raises({"zeros"}, sft.zeros, "3")
    raises({"zeros"}, sft.zeros, {2, {3}})
    raises({"16"}, sft.zeros, table.unpack({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}))
    assert.same({5}, values.shape(sft.zeros(5.0)))
    assert.same({0}, values.shape(sft.zeros(-0.0)))
    raises({"rep"}, function() sft.zeros(3):rep(math.maxinteger) end)
    raises({"expand"}, function() sft.zeros(3):expand(4) end)
    raises({"arange"}, sft.arange, 1, 0)
    raises({"arange"}, sft.arange, 0, 1, 0)
    raises({"arange"}, sft.arange, 0, 1e30)
    raises({"arange"}, sft.arange, 0, 0 / 0)
    raises({"linspace"}, sft.linspace, 0, 1, -1)
    raises({"eye"}, sft.eye, -1)
    raises({"randperm"}, sft.randperm, -1)
    raises({"one_hot"}, function() sft.nn.functional.one_hot(sft.tensor {3}, 2) end)
    raises({"split"}, function() sft.zeros(4):split(0) end)
    raises({"chunk"}, function() sft.zeros(4):chunk(0) end)
  end)

  it("of views that can't be", function()
    raises({"view", "reshape"}, function() sft.zeros(2, 3):t():view(6) end)
    raises({"reshape", "[2, 3]"}, function() sft.zeros(2, 3):reshape(4) end)
    raises({"reshape"}, function() sft.zeros(2, 3):reshape(-1, -1) end)
    raises({"reshape"}, function() sft.zeros(2, 3):reshape(-1, 4) end)
    raises({"as_strided"}, function() sft.zeros(4):as_strided({3}, {2}) end)
    raises({"as_strided"}, function() sft.zeros(4):as_strided({2}, {-1}) end)
    raises({"as_strided"}, function() sft.zeros(4):as_strided({2}, {1}, math.maxinteger) end)
    raises({"unfold"}, function() sft.zeros(4):unfold(1, 5, 1) end)
    raises({"permute"}, function() sft.zeros(2, 3):permute {1, 1} end)
    raises({"permute"}, function() sft.zeros(2, 3):permute {1} end)
  end)

  it("that don't fit each other name both", function()
    raises({"add", "[2, 3]", "[2, 4]"}, function() return sft.zeros(2, 3) + sft.zeros(2, 4) end)
    raises({"matmul"}, function() sft.zeros(2, 3):matmul(sft.zeros(2, 3)) end)
    raises({"cat"}, function() sft.cat({sft.zeros(2, 3), sft.zeros(2, 4)}, 1) end)
    raises({"cat"}, function() sft.cat {} end)
    raises({"stack"}, function() sft.stack {sft.zeros(2), sft.zeros(3)} end)
    raises({"mse_loss", "[4, 1]", "[4]"}, function()
      sft.nn.functional.mse_loss(sft.zeros(4, 1), sft.zeros(4))
    end)
    raises({"linear"}, function() sft.nn.functional.linear(sft.zeros(2, 3), sft.zeros(4, 5)) end)
    raises({"conv2d"}, function() sft.nn.functional.conv2d(sft.zeros(1, 3, 5, 5), sft.zeros(2, 4, 3, 3)) end)
    raises({"conv2d"}, function() sft.nn.functional.conv2d(sft.zeros(1, 3, 2, 2), sft.zeros(2, 3, 3, 3)) end)
    raises({"max_pool2d"}, function() sft.nn.functional.max_pool2d(sft.zeros(1, 1, 2, 2), 3) end)
    raises({"max_pool2d"}, function() sft.nn.functional.max_pool2d(sft.zeros(1, 1, 4, 4), 0) end)
    raises({"layer_norm"}, function() sft.nn.functional.layer_norm(sft.zeros(2, 3), {4}) end)
    raises({"one length"}, function() sft.tensor {{1, 2}, {3}} end)
    raises({"number"}, function() sft.tensor {1, "x"} end)
  end)
end)

describe("dtypes and devices", function()
  it("of the wrong kind", function()
    raises({"float"}, function() sft.tensor({1, 2}):mean() end)
    raises({"bool"}, function() sft.zeros(2):masked_fill(sft.zeros(2), 1) end)
    raises({"float32"}, function() return sft.zeros(2) & sft.zeros(2) end)
    raises({"dtype"}, function() sft.zeros(2, {dtype = "float33"}) end)
    raises({"matmul"}, function() sft.zeros(2, 2):matmul(sft.zeros(2, 2, {dtype = sft.float64})) end)
    raises({"index"}, function() sft.zeros(2):index_select(1, sft.zeros(1)) end)
    raises({"default"}, function() sft.set_default_dtype(sft.int32) end)
    raises({"zero"}, function() return sft.tensor({1}) // sft.tensor({0}) end)
  end)

  it("that this build or machine lacks", function()
    raises({"cuda"}, function() sft.zeros(2, {device = "cuda"}) end)
    raises({"cuda:7"}, function() sft.zeros(2):to("cuda:7") end)
    raises({"mps"}, function() sft.zeros(2):to("mps") end)
    raises({"gpu"}, function() sft.zeros(2):to("gpu") end)
    raises({"device"}, function() sft.device(3) end)
  end)
end)

describe("arguments", function()
  it("of another type name the argument", function()
    raises({"sum", "dim"}, function() sft.zeros(2):sum("x") end)
    raises({"sum", "keepdm", "keepdim"}, function() sft.zeros(2):sum {keepdm = true} end)
    raises({"matmul", "other"}, function() sft.zeros(2):matmul(nil) end)
    raises({"add"}, function() return sft.zeros(2) + nil end)
    raises({"add"}, function() return sft.zeros(2) + {} end)
    raises({"cat"}, function() sft.cat {sft.zeros(2), 3} end)
    raises({"whole number"}, function() sft.zeros(2):sum(1.5) end)
    raises({"lt"}, function() return sft.zeros(2) < sft.zeros(2) end)
    raises({"item", "[2]"}, function() sft.zeros(2):item() end)
    raises({"relu"}, function() sft._methods.relu("x") end)
    raises({"nosuch"}, function() sft.zeros(2):nosuch() end)
    raises({"shape"}, function() sft.zeros(2).shape = 3 end)
  end)

  it("that were released", function()
    local x = sft.zeros(3)
    x:release()
    raises({"released"}, function() return x + 1 end)
    raises({"released"}, function() x:sum() end)
    raises({"released"}, function() return x.shape end)
    raises({"released"}, function() x[1] = 2 end)
    raises({"released"}, function() sft.cat {sft.zeros(1), x} end)
    assert.is_string(tostring(x))
    x:release() -- twice is fine
  end)

  it("that are hostile", function()
    local bomb = setmetatable({}, {
      __index = function() error("index") end, __len = function() error("len") end,
        __pairs = function() error("pairs") end,
      __tostring = function() error("tostring") end, __name = 3,
    })
    for _, fn in ipairs {sft.zeros, sft.cat, sft.tensor, sft.stack, sft.einsum, sft._methods.sum, sft.zeros(2).sum} do
      local ok, e = pcall(fn, bomb, bomb)
      assert(not ok or e ~= nil)
    end
    local x = sft.zeros(2)
    pcall(function() return x[bomb] end)
    pcall(function() x[bomb] = bomb end)
    pcall(function() return x + bomb end)
    local list = {}
    list[1] = list
    raises("", sft.tensor, list)
    local deep = {1}
    for _ = 1, 300 do deep = {deep} end
    raises("", sft.tensor, deep)
    near({0, 0}, x)
  end)

  it("as finalizers that release what is in use", function()
    local x = sft.ones(1000)
    for _ = 1, 50 do
      local y = sft.ones(1000)
      setmetatable({}, {__gc = function() y:release() x:sum() end})
    end
    collectgarbage("step")
    for _ = 1, 200 do
      local _ = x * 2 + x
    end
    collectgarbage()
    near(1000, x:sum())
  end)
end)

describe("data", function()
  it("a set that raises in mid-epoch passes its error on, and the next epoch works", function()
    local broken = true
    local set = {}
    function set:len() return 10 end
    function set:get(i)
      if i == 7 and broken then error("bad sample 7") end
      return sft.full({2}, i), i
    end
    local mt = {__len = set.len, __index = function(_, k)
      if k == "len" or k == "get" then return set[k] end
      if type(k) == "number" then return {set:get(k)} end
    end}
    local dataset = setmetatable({}, mt)
    local loader = sft.data.DataLoader(dataset, {batch_size = 2})
    raises("bad sample 7", function() for _ in loader:iter() do end end) -- luacheck: ignore 542
    broken = false
    local n = 0
    for _ in loader:iter() do n = n + 1 end
    assert.equal(5, n)
  end)
end)
