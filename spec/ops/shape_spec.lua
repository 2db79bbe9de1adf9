-- Views, lists of views, joins and reorderings: that views share memory, ranges and errors, copies of
-- every layout and element size, gradients of what the generic specs don't reach.

local sft = require "sft"
local F = sft.nn.functional

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end
local function shape(x) return {table.unpack(x.shape)} end

describe("views", function()
  it("share the memory of what they show", function()
    local x = sft.zeros(3, 4)
    for _, v in ipairs {x:select(1, 2), x:narrow(2, 2, 2), x:t(), x:unsqueeze(1), x:diagonal(), x:view(12),
      x:unfold(2, 2, 2), x:expand(2, 3, 4)[1], x:unbind(2)[3], x:split(2)[1], x:movedim(1, 2)} do
      x:zero_()
      v:fill_(1)
      assert.equal(v:numel(), x:sum():item())
    end
  end)

  it("have PyTorch's shapes", function()
    local x = sft.zeros(2, 1, 3, 1)
    assert.same({2, 3}, shape(x:squeeze()))
    assert.same({2, 1, 3}, shape(x:squeeze(-1)))
    assert.same({2, 1, 3, 1}, shape(x:squeeze(1)))
    assert.same({2, 3}, shape(x:squeeze({2, 4})))
    assert.same({2, 1, 1, 3, 1}, shape(x:unsqueeze(2)))
    assert.same({2, 1, 3, 1, 1}, shape(x:unsqueeze(-1)))
    assert.same({1}, shape(sft.tensor(1):flatten()))
    assert.same({6}, shape(x:flatten()))
    assert.same({2, 3, 1}, shape(x:flatten(2, 3)))
    assert.same({2, 2, 3}, shape(sft.zeros(2, 6):unflatten(2, {2, -1})))
    assert.same({0}, shape(sft.zeros(0, 3):flatten()))
    assert.same({2, 5, 2}, shape(sft.zeros(2, 11):unfold(2, 2, 2)))
  end)

  it("name what is wrong", function()
    local x = sft.zeros(2, 3)
    fails("select: index 4 is out of range for dim 2 of size 3", x.select, x, 2, 4)
    fails("dim 3 is out of range: expected 1 to 2", x.select, x, 3, 1)
    fails("don't fit into dim 2 of size 3", x.narrow, x, 2, 3, 2)
    fails("without dims", sft.tensor(1).unbind, sft.tensor(1))
    fails("don't multiply to 3", x.unflatten, x, 2, {2, 2})
    fails("named twice", x.permute, x, {1, 1})
    fails("the two dims must differ", x.diagonal, x, 0, 1, 1)
    fails("don't fit dim 2", x.unfold, x, 2, 4, 1)
    fails("at most 2 dims", sft.zeros(1, 1, 1).t, sft.zeros(1, 1, 1))
    fails("add up to 3", x.split, x, {1, 1}, 2)
  end)

  it("keep one graph through in-place writes", function()
    local x = sft.ones(2, 3, {requires_grad = true})
    local y = x * 2
    local row = y[1]
    row:mul_(3)
    y:sum():backward()
    assert.same({{6, 6, 6}, {2, 2, 2}}, x.grad:tolist())
  end)
end)

describe("lists of views", function()
  it("cut as PyTorch cuts", function()
    local function sizes(list)
      local r = {}
      for i, t in ipairs(list) do r[i] = t.shape[1] end
      return r
    end
    local x = sft.arange(7)
    assert.same({3, 3, 1}, sizes(x:split(3)))
    assert.same({2, 2, 2, 1}, sizes(x:chunk(4)))
    assert.same({2, 2, 2, 1}, sizes(x:tensor_split(4)))
    assert.same({3, 2, 2}, sizes(x:tensor_split(3)))
    assert.same({1, 0, 6}, sizes(x:tensor_split({1, 1})))
    assert.same({0}, sizes(sft.zeros(0, 2):split(2)))
    assert.equal(7, #x:unbind())
  end)

  it("have gradients where only some pieces are used", function()
    local x = sft.arange(1, 8, {dtype = sft.float32, requires_grad = true})
    local p = x:split(3);
    (p[1] * 2 + p[2] * 3):sum():backward()
    assert.same({2, 2, 2, 3, 3, 3, 0}, x.grad:tolist())
    x.grad = nil
    local u = x:unbind();
    (u[1] * u[6]):backward()
    assert.same({6, 0, 0, 0, 0, 1, 0}, x.grad:tolist())
    x.grad = nil
    local t = x:tensor_split({5, 2}) -- out of order: pieces overlap
    assert.same({5, 0, 5}, {t[1]:numel(), t[2]:numel(), t[3]:numel()});
    (t[1]:sum() + t[3]:sum()):backward()
    assert.same({1, 1, 2, 2, 2, 1, 1}, x.grad:tolist())
  end)
end)

describe("copies", function()
  it("of any layout and element size have the elements of a loop", function()
    for _, dtype in ipairs {sft.uint8, sft.int16, sft.float32, sft.float64, sft.bool, sft.float16} do
      for _, s in ipairs {{1, 1}, {3, 5}, {8, 8}, {33, 47}, {64, 64}, {130, 67}, {200, 257}} do
        local x = sft.arange(s[1] * s[2]):remainder(251):reshape(s):to(dtype)
        local y = x:t():contiguous()
        local flat, back = x:flatten():tolist(), y:flatten():tolist()
        for i = 0, s[1] - 1, 7 do
          for j = 0, s[2] - 1, 5 do assert.equal(flat[i * s[2] + j + 1], back[j * s[1] + i + 1]) end
        end
        assert.is_true(y:t():eq(x):all():item())
        assert.is_true(y:t():contiguous():eq(x):all():item())
      end
    end
  end)

  it("of permuted tensors", function()
    local x = sft.randn(3, 10, 9, 34)
    for _, p in ipairs {{1, 3, 4, 2}, {4, 3, 2, 1}, {2, 1, 4, 3}, {4, 1, 2, 3}, {3, 4, 1, 2}} do
      local y = x:permute(p):contiguous()
      local back = {}
      for i, d in ipairs(p) do back[d] = i end
      assert.is_true(y:permute(back):eq(x):all():item())
      assert.equal(x[{2, 7, 4, 31}]:item(),
        y:permute(back)[{2, 7, 4, 31}]:item())
    end
    local w = sft.randn(20, 31)
    assert.is_true(w:unfold(2, 5, 3):contiguous():eq(w:unfold(2, 5, 3)):all():item())
    assert.is_true(w:flip(2):flip(2):eq(w):all():item())
    assert.is_true(w:expand(7, 20, 31):contiguous()[4]:eq(w):all():item())
  end)
end)

describe("joins and repeats", function()
  it("cat parts of any layout and type", function()
    local a, b = sft.randn(40, 30), sft.randn(40, 50)
    local c = sft.cat({a, b, a:flip(2)}, 2)
    assert.is_true(c:narrow(2, 1, 30):eq(a):all():item())
    assert.is_true(c:narrow(2, 31, 50):eq(b):all():item())
    assert.is_true(c:narrow(2, 81, 30):flip(2):eq(a):all():item())
    assert.is_true(sft.cat({a:t(), b:t()}, 1):t():eq(sft.cat({a, b}, 2)):all():item())
    local joined = sft.cat({b:narrow(2, 5, 3), b:narrow(2, 20, 9)}, 2)
    assert.is_true(joined:narrow(2, 4, 9):eq(b:narrow(2, 20, 9)):all():item())
    assert.equal(sft.float64, sft.cat({a, sft.ones(1, 30, {dtype = sft.float64})}).dtype)
    assert.same({40, 30}, shape(sft.cat({sft.zeros(0), a})))
    fails("sizes must agree but in dim 1", sft.cat, {a, b})
    fails("has no dims", sft.cat, {sft.tensor(1)})
    fails("empty", sft.cat, {})
    fails("must have one shape", sft.stack, {a, b})
  end)

  it("roll, repeat and pad", function()
    local x = sft.arange(1, 7):reshape(2, 3)
    assert.same({{3, 1, 2}, {6, 4, 5}}, x:roll(1, 2):tolist())
    assert.same({{6, 1, 2}, {3, 4, 5}}, x:roll(1):tolist())
    assert.same({{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}, x:rep(1, 2):tolist())
    assert.same({1, 1, 2, 2, 3, 3}, x[1]:repeat_interleave(2):tolist())
    assert.same({1, 3, 3}, x[1]:repeat_interleave(sft.tensor {1, 0, 2}):tolist())
    assert.same({{0, 1, 2, 3, 0}, {0, 4, 5, 6, 0}}, F.pad(x, {1, 1}):tolist())
    assert.same({{9, 9}, {2, 3}, {5, 6}}, F.pad(x, {-1, 0, 1, 0}, "constant", 9):tolist())
    assert.same({{3, 2, 1, 2, 3, 2}}, F.pad(x[{{1, 1}}], {2, 1}, "reflect"):tolist())
    assert.same({{1, 1, 1, 2, 3, 3}}, F.pad(x[{{1, 1}}], {2, 1}, "replicate"):tolist())
    assert.same({{2, 3, 1, 2, 3, 1}}, F.pad(x[{{1, 1}}], {2, 1}, "circular"):tolist())
    fails("can't pad dim 2 of size 3 by 3", F.pad, x, {3, 0}, "reflect")
    fails("'mode' must be", F.pad, x, {1, 0}, "mirror")
    fails("must not be negative", x.repeat_interleave, x, -1)
  end)

  it("refuse sizes that overflow", function()
    local x = sft.ones(2, 2)
    local huge = 1 << 40
    assert.is_false(pcall(x.rep, x, huge, huge))
    assert.is_false(pcall(x.expand, x[{{1, 1}, {1, 1}}], huge, huge))
    assert.is_false(pcall(F.pad, x, {huge, huge, huge, huge}))
    assert.is_false(pcall(x.repeat_interleave, x, math.maxinteger))
    assert.is_false(pcall(x.diag_embed, x, math.maxinteger))
  end)
end)
