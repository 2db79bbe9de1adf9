-- The steps of optimizers over lists of tensors: against plain arithmetic, mixed dtypes and layouts.

local sft = require "sft"
local numeric = require "spec.support.numeric"
local f64, close, fails = numeric.f64, numeric.close, numeric.fails

local function lists(dtype)
  local p, g, m, v = {}, {}, {}, {}
  for i, shape in ipairs {{3}, {}, {50, 70}, {2, 3, 4}, {0}} do
    p[i], g[i] = sft.randn(shape, f64):to(dtype), sft.randn(shape, f64):to(dtype)
    m[i], v[i] = sft.zeros_like(p[i]), sft.zeros_like(p[i])
  end
  -- strided parameters
  p[6], g[6] = sft.randn({5, 4}, f64):to(dtype):t(), sft.randn({4, 5}, f64):to(dtype)
  p[7], g[7] = sft.randn({6, 8}, f64):to(dtype):select(2, 3), sft.randn({6}, f64):to(dtype)
  for i = 6, 7 do m[i], v[i] = sft.zeros_like(g[i]), sft.zeros_like(g[i]) end
  return p, g, m, v
end

local function copies(list)
  local r = {}
  for i, t in ipairs(list) do r[i] = t:double():clone() end
  return r
end

local tolerance = {[sft.float64] = 1e-12, [sft.float32] = 1e-5, [sft.bfloat16] = 0.05, [sft.float16] = 0.01}

describe("_fused_adam_", function()
  it("is Adam, for every dtype and layout", function()
    for dtype, tol in next, tolerance do
      for _, o in ipairs {{0, false, false}, {0.1, false, false}, {0.1, true, true}} do
        local decay, decoupled, maximize = table.unpack(o)
        local p, g, m, v = lists(dtype)
        local P, M, V = copies(p), copies(m), copies(v)
        for step = 1, 3 do
          sft._fused_adam_(p, g, m, v, {}, step, 0.01, 0.9, 0.99, 1e-8, decay, decoupled, false, maximize)
          for i = 1, #p do
            local d = g[i]:double() * (maximize and -1 or 1)
            if decoupled then P[i] = P[i] * (1 - 0.01 * decay) else d = d + P[i] * decay end
            M[i] = M[i] * 0.9 + d * 0.1
            V[i] = V[i] * 0.99 + d * d * 0.01
            P[i] = P[i] - M[i] / (1 - 0.9 ^ step) * 0.01 / ((V[i] / (1 - 0.99 ^ step)):sqrt() + 1e-8)
          end
        end
        -- float16 has no room for the squares of small gradients
        for i = 1, #p do if dtype ~= sft.float16 then close(p[i]:double(), P[i], tol * 3) end end
      end
    end
  end)

  it("keeps the greatest second moment with amsgrad", function()
    local p, m, v, most = {sft.zeros(1)}, {sft.zeros(1)}, {sft.zeros(1)}, {sft.zeros(1)}
    sft._fused_adam_(p, {sft.full({1}, 10.0)}, m, v, most, 1, 0.1, 0.9, 0.5, 0, 0, false, true, false)
    local top = most[1]:item()
    sft._fused_adam_(p, {sft.zeros(1)}, m, v, most, 2, 0.1, 0.9, 0.5, 0, 0, false, true, false)
    assert.equal(top, most[1]:item())
    assert.is_true(v[1]:item() < top)
  end)

  it("refuses lists that do not match, before anything is written", function()
    local a = sft.ones(3)
    local function call(p, g, m, v, step)
      return sft._fused_adam_(p, g, m, v, {}, step or 1, 0.1, 0.9, 0.99, 1e-8, 0, false, false, false)
    end
    fails("grads[2] must have the shape of its parameter, [3], got [4]", call, {a, sft.zeros(3)},
      {sft.zeros(3), sft.zeros(4)}, {sft.zeros(3), sft.zeros(3)}, {sft.zeros(3), sft.zeros(3)})
    fails("grads has 0 entries, params has 1", call, {a}, {}, {}, {})
    fails("must be floating", call, {sft.zeros(3):long()}, {a}, {a}, {a})
    fails("share one memory location", call, {sft.zeros(1):expand(3)}, {a}, {a}, {a})
    fails("step counts from 1", call, {a}, {a}, {a}, {a}, 0)
    assert.same({1, 1, 1}, a:tolist())
  end)

  it("is noticed by autograd", function()
    local w = sft.ones({2}, {requires_grad = true})
    local y = (w * w):sum()
    sft._fused_sgd_({w}, {sft.ones(2)}, {}, 0.1, 0, 0, 0, false, false, true)
    fails("modified by an in-place operation", y.backward, y)
  end)
end)

describe("_fused_sgd_", function()
  it("is SGD with momentum, for every dtype and layout", function()
    for dtype, tol in next, tolerance do
      for _, o in ipairs {{0, 0, 0, false}, {0.9, 0, 0.1, false}, {0.9, 0, 0, true}, {0.5, 0.3, 0, false}} do
        local momentum, dampening, decay, nesterov = table.unpack(o)
        local p, g, m = lists(dtype)
        local P, M = copies(p), {}
        for step = 1, 3 do
          sft._fused_sgd_(p, g, m, 0.01, momentum, dampening, decay, nesterov, false, step == 1)
          for i = 1, #p do
            local d = g[i]:double() + P[i] * decay
            M[i] = step == 1 and d or M[i] * momentum + d * (1 - dampening)
            if momentum ~= 0 then d = nesterov and d + M[i] * momentum or M[i] end
            P[i] = P[i] - d * 0.01
          end
        end
        for i = 1, #p do close(p[i]:double(), P[i], tol * 3) end
      end
    end
  end)
end)

describe("_global_norm and _scale_", function()
  it("treat all tensors as one", function()
    local p = lists(sft.float64)
    local flat = {}
    for i, t in ipairs(p) do flat[i] = t:reshape(-1) end
    local all = sft.cat(flat)
    for _, kind in ipairs {1, 2, 3, math.huge} do
      close(sft._global_norm(p, kind), all:norm(kind), 1e-9)
    end
    assert.equal(0, sft._global_norm({}):item())
    assert.equal(math.huge, sft._global_norm({sft.tensor {math.huge}, sft.ones(2)}):item())
    assert.is_true(sft._global_norm({sft.ones(2), sft.tensor {0 / 0}}, math.huge):isnan():item())
    sft._scale_(p, sft.tensor(0.5))
    for i, t in ipairs(p) do flat[i] = t:reshape(-1) end
    close(sft.cat(flat), all * 0.5)
  end)

  it("gives the same norm for every number of threads", function()
    local threads = sft.get_num_threads()
    finally(function() sft.set_num_threads(threads) end)
    local list = {sft.randn(100001), sft.randn(333, 77)}
    sft.set_num_threads(1)
    local a = sft._global_norm(list):item()
    sft.set_num_threads(3)
    assert.equal(a, sft._global_norm(list):item())
  end)
end)
