-- scaled_dot_product_attention: the fused kernel against its composition, masks, rows that see nothing,
-- gradients of first and second order, threads.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

local sdpa = F.scaled_dot_product_attention

local function plain(q, k, v, mask, causal, scale)
  local s = q:matmul(k:transpose(-2, -1)) * (scale or 1 / math.sqrt(q:size(-1)))
  if causal then mask = sft.ones({q:size(-2), k:size(-2)}, {dtype = sft.bool}):tril() end
  if mask and mask.dtype == sft.bool then
    s = s:masked_fill(mask:logical_not(), -math.huge)
  elseif mask then
    s = s + mask
  end
  return s:softmax(-1):matmul(v)
end

describe("scaled_dot_product_attention", function()
  it("agrees with its composition, in every size", function()
    for _, c in ipairs {{1, 1, 1, 1}, {5, 3, 4, 4}, {64, 64, 8, 8}, {65, 130, 16, 5}, {130, 65, 8, 3},
      {20, 5000, 4, 2}} do
      local l, s, e, ev = table.unpack(c)
      local q, k, v = sft.randn({2, 3, l, e}, f64), sft.randn({2, 3, s, e}, f64), sft.randn({2, 3, s, ev}, f64)
      local allow = sft.rand({l, s}, f64):gt(0.3)
      allow[{{}, 1}] = true
      local bias = sft.randn({3, 1, s}, f64)
      for _, o in ipairs {{}, {causal = true}, {mask = allow}, {mask = bias}, {scale = 0.3}} do
        local want = plain(q, k, v, o.mask, o.causal, o.scale)
        local function run(a, b, d, m)
          return sdpa(a, b, d, m, 0, o.causal or false, o.scale)
        end
        close(run(q, k, v, o.mask), want, 1e-11)
        local m = o.mask
        if m and m.dtype ~= sft.bool then m = m:float() end
        close(run(q:float(), k:float(), v:float(), m):double(), want, 1e-4)
        close(run(q:bfloat16(), k:bfloat16(), v:bfloat16(), m):double(), want, 0.1)
        -- heads and length swapped in memory
        local function swapped(t) return t:transpose(2, 3):contiguous():transpose(2, 3) end
        local y = run(swapped(q), swapped(k), swapped(v), o.mask)
        close(y, want, 1e-11)
        assert.is_true(l == 1 or y:transpose(2, 3):is_contiguous())
      end
    end
  end)

  it("has the gradients of its composition", function()
    for _, c in ipairs {{70, 70, 8, 8}, {130, 90, 4, 6}, {3, 200, 4, 4}} do
      local l, s, e, ev = table.unpack(c)
      local g = sft.randn({2, l, ev}, f64)
      local allow = sft.rand({2, l, s}, f64):gt(0.3)
      allow[{{}, {}, 1}] = true
      for _, o in ipairs {{}, {causal = true}, {mask = allow}} do
        local function grads(f)
          sft.manual_seed(4)
          local q, k, v = leaf {2, l, e}, leaf {2, s, e}, leaf {2, s, ev}
          f(q, k, v):backward(g)
          return q.grad, k.grad, v.grad
        end
        local a = {grads(function(q, k, v) return sdpa(q, k, v, o.mask, 0, o.causal or false) end)}
        local b = {grads(function(q, k, v) return plain(q, k, v, o.mask, o.causal) end)}
        for i = 1, 3 do close(a[i], b[i], 1e-10) end
      end
    end
  end)

  it("has gradients of first and second order", function()
    local q, k, v = leaf {2, 3, 4}, leaf {2, 3, 4}, leaf {2, 3, 2}
    check(function(...) return sdpa(...) end, {q, k, v})
    check(function(a, b, c) return sdpa(a, b, c, {is_causal = true}) end, {q, k, v})
    check(function(a, b, c, m) return sdpa(a, b, c, m) end, {q, k, v, leaf {3, 3}})
    check(function(a) return sdpa(a, a, a) end, {q})
    local dead = sft.tensor {{true, false, true}, {false, false, false}, {true, true, true}}
    check(function(a, b, c) return sdpa(a, b, c, dead) end, {q, k, v})
  end)

  it("gives zeros for a query that sees nothing, forward and backward", function()
    local q, k, v = leaf {1, 3, 4}, leaf {1, 3, 4}, leaf {1, 3, 4}
    local mask = sft.tensor {{true, true, true}, {false, false, false}, {true, false, true}}
    local added = sft.zeros({3, 3}, f64):masked_fill(mask:logical_not(), -math.huge)
    for _, m in ipairs {mask, added, added:clone():requires_grad_()} do
      q.grad, k.grad, v.grad = nil, nil, nil
      local y = sdpa(q, k, v, m)
      assert.same({0, 0, 0, 0}, y[1][2]:tolist())
      y:sum():backward()
      assert.same({0, 0, 0, 0}, q.grad[1][2]:tolist())
      assert.is_false((k.grad:isnan():any() | v.grad:isnan():any()):item())
    end
  end)

  it("repeats heads, and drops weights", function()
    local q, k, v = sft.randn({1, 4, 3, 2}, f64), sft.randn({1, 2, 3, 2}, f64), sft.randn({1, 2, 3, 2}, f64)
    close(sdpa(q, k, v, {enable_gqa = true}), sdpa(q, k:repeat_interleave(2, 2), v:repeat_interleave(2, 2)))
    local y = sdpa(sft.zeros(1, 200, 2), sft.zeros(1, 200, 2), sft.ones(1, 200, 2), {dropout_p = 0.5})
    assert.is_true(math.abs(y:mean():item() - 1) < 0.05)
  end)

  it("gives the same result for every number of threads", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local function run(n)
      sft.set_num_threads(n)
      sft.manual_seed(1)
      local q = sft.randn(4, 200, 16):requires_grad_()
      local y = sdpa(q, q, q, {is_causal = true})
      y:backward(sft.randn(4, 200, 16))
      return y, q.grad
    end
    local a, b = run(1)
    local c, d = run(3)
    close(a, c, 0)
    close(b, d, 0)
  end)

  it("says what does not fit", function()
    local x = sft.zeros(2, 3, 4)
    fails("query and key must have the same width", sdpa, x, sft.zeros(2, 3, 5), x)
    fails("key and value must have the same length", sdpa, x, x, sft.zeros(2, 4, 4))
    fails("attn_mask must be [..., 3, 3]", sdpa, x, x, x, sft.zeros(2, 2))
    fails("not both", sdpa, x, x, x, sft.zeros(3, 3), 0, true)
    fails("one dtype", sdpa, x, x:double(), x)
    assert.same({0, 3, 4}, sdpa(sft.zeros(0, 3, 4), sft.zeros(0, 3, 4), sft.zeros(0, 3, 4)).shape)
    assert.equal(0, sdpa(x, sft.zeros(2, 0, 4), sft.zeros(2, 0, 4)):abs():sum():item())
  end)
end)
