-- softmax, log_softmax, softmin: values, edges, layouts, half types, gradients.

local sft = require "sft"
local F = sft.nn.functional

local inf = math.huge
local function close(a, b, tol) assert.is_true((a - b):abs():max():item() <= (tol or 1e-6)) end

describe("softmax", function()
  it("has the values of its definition", function()
    local x = sft.tensor {{1.0, 2.0, 3.0}, {0.0, 0.0, 0.0}}
    local e = {math.exp(-2), math.exp(-1), 1}
    local s = e[1] + e[2] + e[3]
    close(x:softmax(2), sft.tensor {{e[1] / s, e[2] / s, e[3] / s}, {1 / 3, 1 / 3, 1 / 3}})
    close(x:log_softmax(2)[2], sft.full({3}, -math.log(3)))
    close(F.softmin(x, 2), (-x):softmax(2), 0)
  end)

  it("agrees with the composition over every dim, size and layout", function()
    for _, shape in ipairs {{1}, {7}, {33, 5}, {5, 33}, {3, 40, 130}, {2, 3, 4, 5}, {2, 600}, {600, 2}} do
      local x = sft.randn(shape, {dtype = sft.float64}) * 3
      for d = 1, #shape do
        local e = (x - x:amax(d, true)):exp()
        local p = e / e:sum(d, true)
        close(x:softmax(d), p, 1e-12)
        close(x:float():softmax(d):double(), p, 1e-6)
        close(x:log_softmax(d), p:log(), 1e-11)
        close(x:half():softmax(d):double(), p, 2e-3)
        close(x:bfloat16():log_softmax(d):double(), p:log(), 0.2)
        if #shape > 1 then
          local tr = x:transpose(1, #shape)
          local to = d == 1 and #shape or d == #shape and 1 or d
          close(tr:softmax(to):transpose(1, #shape), p, 1e-12)
        end
      end
    end
  end)

  it("survives great numbers and infinities", function()
    local x = sft.tensor {{1e30, 0, -1e30}, {-inf, 0, 0}}
    assert.same({{1, 0, 0}, {0, 0.5, 0.5}}, x:softmax(2):tolist())
    assert.equal(-inf, x:log_softmax(2)[2][1]:item())
    local masked = sft.full({2, 40}, -inf)
    assert.is_true(masked:softmax(2):isnan():all():item())
    assert.is_true(masked:softmax(1):isnan():all():item())
    assert.is_true(sft.tensor({0, 0 / 0, 1}):softmax(1):isnan():all():item())
  end)

  it("takes 0-dim and empty tensors, and a dtype", function()
    assert.equal(1, sft.tensor(3.0):softmax(1):item())
    assert.same({0, 3}, sft.zeros(0, 3):softmax(1).shape)
    assert.same({3, 0}, sft.zeros(3, 0):softmax(2).shape)
    local y = sft.tensor({1, 2}, {dtype = sft.int64}):softmax(1, {dtype = sft.float64})
    assert.equal(sft.float64, y.dtype)
    local ok, err = pcall(sft.softmax, sft.tensor({1, 2}, {dtype = sft.int64}), 1)
    assert.is_false(ok)
    assert.matches("softmax: 'self' must be floating, got int64", tostring(err))
    ok, err = pcall(sft.softmax, sft.zeros(2), 2)
    assert.is_false(ok)
    assert.matches("softmax", tostring(err))
  end)

  it("has the gradients of its composition, twice", function()
    for _, shape in ipairs {{3, 5}, {5, 3, 40}, {2, 300}} do
      for d = 1, #shape do
        for _, name in ipairs {"softmax", "log_softmax"} do
          local w = sft.randn(shape, {dtype = sft.float64})
          local function both(f)
            sft.manual_seed(3)
            local x = sft.randn(shape, {dtype = sft.float64, requires_grad = true})
            local g = sft.autograd.grad({(f(x) * w):sum()}, {x}, {create_graph = true})[1]
            local h = sft.autograd.grad({(g * w):sum()}, {x})[1]
            return g, h
          end
          local g, h = both(function(x) return x[name](x, d) end)
          local g2, h2 = both(function(x)
            local e = (x - x:amax(d, true):detach()):exp()
            local p = e / e:sum(d, true)
            return name == "softmax" and p or p:log()
          end)
          close(g, g2, 1e-10)
          close(h, h2, 1e-9)
          -- the half types, and float32, by the kernel
          sft.manual_seed(3)
          local x = sft.randn(shape, {dtype = sft.float64}):float():requires_grad_()
          sft.autograd.backward({(x[name](x, d) * w:float()):sum()})
          close(x.grad:double(), g, 1e-4)
        end
      end
    end
  end)
end)
