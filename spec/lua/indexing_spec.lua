-- x[...] and x[...] = v in all forms.

local sft = require "sft"
local newaxis = sft.newaxis

local function says(part, fn)
  local ok, e = pcall(fn)
  assert.is_false(ok)
  assert.truthy(tostring(e):find(part, 1, true), ("%q does not say %q"):format(tostring(e), part))
end

describe("indexing", function()
  local x

  before_each(function() x = sft.arange(24):reshape(2, 3, 4) end)

  local function shape(key) return tostring(x[key].shape) end

  it("takes integers", function()
    assert.equal("[3, 4]", shape(1))
    assert.equal("[3, 4]", shape(1.0))
    assert.same(x[2]:tolist(), x[-1]:tolist())
    assert.equal(6, x[{1, 2, 3}]:item())
    assert.equal(23, x[{-1, -1, -1}]:item())
    assert.equal(6, x[1][2][3]:item())
  end)

  it("takes ranges with both ends", function()
    assert.equal("[2, 2, 4]", shape {{}, {2, 3}})
    assert.same({4, 5, 6, 7}, x[{1, {2, 2}}][1]:tolist())
    assert.equal("[2, 3, 2]", shape {"...", {1, 4, 2}})
    assert.same({1, 3}, x[{1, 1, {2, -1, 2}}]:tolist())
    assert.equal("[2, 3, 4]", shape {{1, 100}})
    assert.equal("[0, 3, 4]", shape {{2, 1}})
    assert.equal("[1, 3, 4]", shape {{-1, -1}})
  end)

  it("takes all, new axes and dots", function()
    assert.equal("[2, 3, 4]", shape {})
    assert.equal("[2, 3, 4]", shape "...")
    assert.equal("[2, 3]", shape {"...", 1})
    assert.equal("[2, 1, 3, 4]", shape {{}, newaxis})
    assert.equal("[1, 2, 3, 4]", shape(newaxis))
    assert.equal("[4, 1]", shape {1, 1, {}, newaxis})
    assert.equal("[2, 3, 4, 1]", shape {"...", newaxis})
  end)

  it("takes tensors and lists", function()
    assert.equal("[3, 3, 4]", shape(sft.tensor {1, 2, 1}))
    assert.equal("[2, 2, 4]", shape {{}, {{1, 3}}})
    assert.equal("[2]", shape {{{1, 2}}, {{1, 3}}, 2})
    assert.same({1, 21}, x[{{{1, 2}}, {{1, 3}}, 2}]:tolist())
    assert.equal("[2, 2, 3, 4]", shape(sft.tensor {{1, 2}, {2, 1}}))
    assert.equal("[2, 2, 4]", shape {{}, {true, false, true}})
    assert.equal("[13]", shape(x:gt(10)))
    assert.same({11, 12, 13}, {table.unpack(x[x:gt(10)]:tolist(), 1, 3)})
    assert.equal("[0]", shape(x:gt(100)))
    assert.equal("[3, 4]", shape {sft.tensor(1)})
  end)

  it("is a view where it can be", function()
    x[1]:fill_(0)
    x[{2, {}, 1}]:fill_(-1)
    assert.equal(0, x[{1, 3, 4}]:item())
    assert.same({-1, -1, -1}, x[{2, {}, 1}]:tolist())
  end)

  it("writes numbers, tensors and lists", function()
    x[1] = 0
    assert.equal(0, x[1]:sum():item())
    x[{2, {2, 3}, {1, -1, 2}}] = {{1, 2}, {3, 4}}
    assert.same({1, 17, 2, 19}, x[{2, 2}]:tolist())
    x[{{}, 1}] = sft.tensor {1, 2, 3, 4}
    assert.same({1, 2, 3, 4}, x[{2, 1}]:tolist())
    x[1] = sft.ones(1, 3, 4, {dtype = "int64"})
    assert.equal(12, x[1]:sum():item())
    x[x:gt(2)] = -5
    assert.equal(2, x:max():item())
    x[sft.tensor {2, 2}] = 7
    assert.equal(7, x[2]:min():item())
    x[{{{1, 2}}, {{1, 2}}}] = sft.tensor {9, 9, 9, 9}
    assert.same({9, 9, 9, 9}, x[{2, 2}]:tolist())
    x["..."] = 3
    assert.equal(72, x:sum():item())
    x[{1, 1, 1}] = 2.9
    assert.equal(2, x[{1, 1, 1}]:item())
  end)

  it("is differentiable", function()
    local p = sft.ones(3, 2, {requires_grad = true});
    (p[1] * 2 + p[{{}, 2}]:sum()):sum():backward()
    assert.same({{2, 4}, {0, 2}, {0, 2}}, p.grad:tolist())
    p.grad = nil
    p[sft.tensor {1, 1, 3}]:sum():backward()
    assert.same({{2, 2}, {0, 0}, {1, 1}}, p.grad:tolist())
    p.grad = nil
    local y = p * 1
    y[2] = 5
    y[{1, 1}] = p[{3, 1}] * 3
    y:sum():backward()
    assert.same({{0, 1}, {0, 0}, {4, 1}}, p.grad:tolist())
  end)

  it("says what is wrong", function()
    says("indices start at 1", function() return x[0] end)
    says("3 is out of range for dim 1 of size 2 (1 to 2, or -1 to -2)", function() return x[3] end)
    says("x:iter()", function() return x[3] end)
    says("out of range for dim 3 of size 4", function() return x[{1, 1, 5}] end)
    says("4 indices for a tensor of 3 dims", function() return x[{1, 1, 1, 1}] end)
    says("both ends", function() return x[{{2}}] end)
    says("two pairs of braces", function() return x[{{1, 2, 3, 4}}] end)
    says("got 0 in a range", function() return x[{{0, 2}}] end)
    says("must be positive", function() return x[{{1, 2, 0}}] end)
    says("whole number, got 1.5", function() return x[1.5] end)
    says("got true", function() return x[true] end)
    says("got nil", function() return x[nil] end)
    says("may occur once", function() return x[{"...", "..."}] end)
    says("0-dim", function() return sft.tensor(1)[1] end)
    says("0", function() return x[sft.tensor {0}] end)
    says("out of range", function() return x[sft.tensor {3}] end)
    says("a number, a Tensor or a list", function() x[1] = "a" end)
    says("", function() x[1] = sft.ones(5) end)
    says("", function() x[sft.ones(5):gt(0)] = 1 end)
    says("leaf", function() sft.ones(2, {requires_grad = true})[1] = 2 end)
  end)

  it("iterates over rows", function()
    local n = 0
    for i, row in x:iter() do
      n = n + i
      assert.same(x[i]:tolist(), row:tolist())
    end
    assert.equal(3, n)
    assert.equal(2, #x:unbind())
  end)
end)
