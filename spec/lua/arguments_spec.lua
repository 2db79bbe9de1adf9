-- How ops take their arguments, and what they say when those are wrong.

local sft = require "sft"

local function message(fn, ...)
  local ok, e = pcall(fn, ...)
  assert.is_false(ok)
  return tostring(e), e
end

local function says(part, fn, ...)
  local text = message(fn, ...)
  assert.truthy(text:find(part, 1, true), ("%q does not say %q"):format(text, part))
end

describe("arguments", function()
  local x

  before_each(function() x = sft.arange(6):reshape(2, 3):float() end)

  it("are positional, or keywords in a trailing table", function()
    local want = {{3}, {12}}
    assert.same(want, x:sum(2, true):tolist())
    assert.same(want, x:sum(2, {keepdim = true}):tolist())
    assert.same(want, x:sum{dim = 2, keepdim = true}:tolist())
    assert.same(want, sft.sum(x, {2}, {keepdim = true}):tolist())
    assert.same(want, sft.sum(x, -1, true):tolist())
    assert.same(want, sft.sum{input = x, dim = 2, keepdim = true}:tolist())
    assert.same({3, 5, 7}, x:sum{axis = 1}:tolist())
    assert.equal(15, x:sum(nil):item())
  end)

  it("take sizes as numbers or as one list", function()
    for _, t in ipairs {sft.zeros(2, 3), sft.zeros({2, 3}), sft.zeros(x.shape), sft.zeros{size = {2, 3}}} do
      assert.equal("[2, 3]", tostring(t.shape))
    end
    assert.equal("[]", tostring(sft.zeros().shape))
    assert.equal("[]", tostring(sft.zeros({}).shape))
    assert.equal("[]", tostring(sft.zeros({dtype = "int64"}).shape))
    assert.equal("[3, 2]", tostring(x:permute(2, 1).shape))
    assert.equal("[3, 2]", tostring(x:permute({2, 1}).shape))
  end)

  it("take whole floats as whole numbers, and nothing else", function()
    assert.equal("[2]", tostring(sft.zeros(2.0).shape))
    says("size 2 must be a whole number, got 2.5", sft.zeros, 1, 2.5)
    says("got 1e+308", sft.zeros, 1e308)
    says("must be a whole number", sft.zeros, {2, 0 / 0})
    says("must be", sft.zeros, "2")
    says("must be", x.sum, x, true)
    says("'keepdim' must be true or false, got 1", x.sum, x, 1, 1)
    says("'dim' must be", x.softmax, x, "1")
  end)

  it("count dims and indices from 1", function()
    local text, e = message(x.sum, x, 0)
    assert.truthy(text:find("dims and indices start at 1", 1, true))
    assert.equal("index", e.code)
    says("start at 1", x.transpose, x, 0, 1)
    says("dim 3 is out of range", x.sum, x, 3)
    says("-3", x.sum, x, -3)
  end)

  it("name the nearest keyword", function()
    says("unknown keyword 'keepdmi' (did you mean 'keepdim'?)", x.sum, x, {keepdmi = true})
    says("unknown keyword 'dmi' (did you mean 'dim'?)", x.sum, x, {dmi = 1})
    says("known: ", x.sum, x, {nonsense = 1})
    says("unknown keyword 'alhpa' (did you mean 'alpha'?)", x.add, x, 1, {alhpa = 2})
    says("given twice", x.sum, x, 1, {dim = 2})
    says("unknown keyword 'requires_gard' (did you mean 'requires_grad'?)", sft.tensor, 1, {requires_gard = true})
  end)

  it("show the right form of a table that is list and keywords at once", function()
    says("mixes a list and keywords", sft.zeros, {2, 3, dtype = "int64"})
  end)

  it("say what was expected and found", function()
    says("argument 'other' must be a Tensor or a number, got the string \"a\"", x.add, x, "a")
    says("argument 'other' is missing", x.add, x)
    says("too many arguments", x.exp, x, 1)
    says("entry 2 must be a Tensor, got 2", sft.cat, {x, 2})
    says("must be a list of Tensors", sft.cat, "x")
    says("\"float33\"", sft.zeros, 2, {dtype = "float33"})
    says("\"gpu\"", sft.zeros, 2, {device = "gpu"})
    says("cuda:7 is not available", sft.zeros, 2, {device = "cuda:7"})
    says("call it as x:sum(), not x.sum()", x.sum)
    says("call it as x:item(), not x.item()", x.item)
    says("is it", function() error("is it") end)
  end)

  it("list the forms of an op with several", function()
    says(" or max(", x.max, x, "a")
  end)

  it("carry the position of the script's line", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local text, e = message(function() return x + {} end)
    assert.truthy(text:find("arguments_spec.lua:" .. line .. ": add: ", 1, true))
    assert.equal("argument", e.code)
    assert.truthy(sft.is_error(e))
    assert.truthy((e .. ""):find("add", 1, true))
    assert.truthy(e:find("add", 1, true))
    assert.equal(text, e.where .. e.message)
  end)

  it("have out = where PyTorch has it", function()
    local out = sft.empty(2, 3)
    assert.is_true(rawequal(out, sft.add(x, 1, {out = out})))
    assert.same({{1, 2, 3}, {4, 5, 6}}, out:tolist())
    says("out must be a Tensor", sft.add, x, 1, {out = 3})
    says("unknown keyword 'out'", sft.zeros_like, x, {out = out})
  end)

  it("refuse released tensors everywhere", function()
    local t = sft.ones(2)
    t:release()
    t:release()
    for name, f in next, {
      add = function() return t + 1 end, sum = function() return t:sum() end, shape = function() return t.shape end,
      index = function() return t[1] end, write = function() t[1] = 1 end, cat = function() return sft.cat {x, t} end,
      out = function() return sft.add(x, 1, {out = t}) end, len = function() return #t end,
      item = function() return t:item() end, tensor = function() return sft.tensor {t} end,
      copy = function() return sft.tensor(t) end, grad = function() x.grad = t end,
      data = function() x.data = t end, to = function() return t:to("cpu") end,
      backward = function() t:backward() end, value = function() x[1] = t end, key = function() return x[t] end,
    } do
      local text = message(f)
      assert.truthy(text:find("released"), name .. ": " .. text)
    end
    assert.is_false(t == sft.ones(2))
    assert.equal("tensor(<released>)", tostring(t))
  end)

  it("give the same handle for an in-place method and where nothing changes", function()
    assert.is_true(rawequal(x, x:add_(1)))
    assert.is_true(rawequal(x, x:to("float32")))
    assert.is_true(rawequal(x, x:float()))
    assert.is_true(rawequal(x, x:contiguous()))
    assert.is_true(rawequal(x, x:cpu()))
    assert.is_false(rawequal(x, x:double()))
  end)

  it("may be long lists", function()
    local list = {}
    for i = 1, 500 do list[i] = sft.ones(1) * i end
    assert.equal(125250, sft.cat(list):sum():item())
    local halves = sft.split(sft.arange(1000), 1)
    assert.equal(1000, #halves)
    assert.equal(999, halves[1000]:item())
  end)
end)

describe("attributes", function()
  it("tell what a tensor is", function()
    local x = sft.zeros(2, 3, {dtype = "float64"})
    assert.equal(2, x.ndim)
    assert.equal(2, #x)
    assert.equal(sft.float64, x.dtype)
    assert.equal(sft.device("cpu"), x.device)
    assert.is_false(x.requires_grad)
    assert.is_true(x.is_leaf)
    assert.is_nil(x.grad)
    assert.is_nil(x.grad_fn)
    assert.is_false(x.is_cuda)
    assert.equal(8, x.itemsize)
    assert.equal(48, x.nbytes)
    assert.equal("[3, 2]", tostring(x.T.shape))
    assert.equal("[3, 2]", tostring(x.mT.shape))
    assert.equal(x.shape, sft.ones(2, 3).shape)
    assert.equal(3, x.shape[-1])
    assert.equal(6, x:numel())
    assert.equal(3, x:size(-1))
    assert.equal("[2, 3]", tostring(x:size()))
    assert.equal(1, x:stride(2))
    assert.equal(0, x:storage_offset())
    assert.equal(3, x[2]:storage_offset())
    assert.is_true(x:is_contiguous())
    assert.is_false(x.T:is_contiguous())
  end)

  it("of unknown names are errors that suggest one", function()
    says("a Tensor has no attribute or method 'summ' (did you mean 'sum'?)", function()
      return sft.ones(1).summ
    end)
    says("can't be assigned", function() sft.ones(1).shape = {1} end)
    says("no attribute 'foo'", function() sft.ones(1).foo = 1 end)
  end)

  it("can be assigned where that makes sense", function()
    local x = sft.ones(2)
    x.requires_grad = true
    x.grad = sft.ones(2)
    assert.is_true(rawequal(x.grad, x.grad))
    assert.equal(x.grad, x.grad)
    x.grad = nil
    assert.is_nil(x.grad)
    x.data = sft.zeros(3)
    assert.same({0, 0, 0}, x:tolist())
    says("true or false", function() x.requires_grad = 1 end)
    says("expected a float32 tensor of shape [3]", function() x.grad = sft.ones(2) end)
  end)

  it("compare by identity, refuse order, and take numbers on either side of operators", function()
    local x = sft.tensor {1, 2, 3}
    assert.is_true(x == x)
    assert.is_false(x == sft.tensor {1, 2, 3})
    says("x:lt(y)", function() return x < x end)
    says("x:le(y)", function() return x <= 1 end)
    says("sft.cat", function() return x .. "a" end)
    assert.same({3, 4, 5}, (2 + x):tolist())
    assert.same({1, 0, -1}, (2 - x):tolist())
    assert.same({1, 4, 9}, (x ^ 2):tolist())
    assert.same({2, 4, 8}, (2 ^ x):tolist())
    assert.same({0, 1, 1}, (x // 2):tolist())
    assert.same({1, 0, 1}, (x % 2):tolist())
    assert.same({-1, -2, -3}, (-x):tolist())
    assert.same({1, 2, 3}, (x | x):tolist())
    assert.same({-2, -3, -4}, (~x):tolist())
    assert.same({2, 4, 6}, (x << 1):tolist())
    assert.same({0, 0, 0}, (x ~ x):tolist())
    assert.equal(sft.float32, (x / 2).dtype)
    says("operands must be Tensors or numbers", function() return x + "1" end)
    says("operands must be Tensors or numbers", function() return {} * x end)
  end)
end)
