-- equal, allclose, isclose: against what PyTorch says.

local sft = require "sft"
local inf, nan = sft.inf, sft.nan

describe("comparing whole tensors", function()
  it("equal wants the same shape and elements", function()
    local x = sft.tensor {1, 2, 3}
    assert.is_true(x:equal(sft.tensor {1, 2, 3}))
    assert.is_true(sft.equal(x, x:float()))
    assert.is_false(x:equal(sft.tensor {1, 2, 4}))
    assert.is_false(x:equal(x:reshape(3, 1)))
    assert.is_true(sft.zeros(0, 2):equal(sft.zeros(0, 2)))
    assert.is_false(sft.tensor {nan}:equal(sft.tensor {nan}))
    assert.is_true(sft.tensor {true}:equal(sft.tensor {true}))
    assert.is_false((pcall(x.equal, x, 3)))
  end)

  it("isclose and allclose take tolerances", function()
    local a, b = sft.tensor {1.0, inf, nan, -inf, 1.0}, sft.tensor {1.000001, inf, nan, inf, inf}
    assert.same({true, true, false, false, false}, a:isclose(b):tolist())
    assert.same({true, true, true, false, false}, a:isclose(b, {equal_nan = true}):tolist())
    assert.same({true, true, true, false, false}, sft.isclose(a, b, 1e-5, 1e-8, true):tolist())
    assert.is_false(sft.allclose(a, b))
    assert.is_true(sft.tensor {1.0, 2.0}:allclose(sft.tensor {1.1, 2.1}, {rtol = 0, atol = 0.2}))
    assert.is_true(sft.tensor {1.0, 2.0}:allclose(sft.tensor {1.1, 2.1}, 0.2))
    assert.is_false(sft.tensor {1.0, 2.0}:allclose(sft.tensor {1.1, 2.1}))
    assert.is_true(sft.tensor {1, 2}:allclose(sft.tensor {1, 2}))
    assert.is_true(sft.tensor {true}:allclose(sft.tensor {true}))
    assert.is_true(sft.zeros(0):allclose(sft.zeros(0)))
    local x = sft.ones(2, {requires_grad = true})
    assert.is_false(x:isclose(x).requires_grad)
    for _, bad in ipairs {{a, 3}, {a, b, "x"}, {a, b, {rtoll = 1}}, {a, b, 1, 1, 1}, {a, sft.ones(7)}} do
      assert.is_false((pcall(sft.allclose, table.unpack(bad))))
    end
  end)

  it("answers small questions", function()
    assert.is_true(sft.tensor(2.0):is_nonzero())
    assert.is_false(sft.tensor(0):is_nonzero())
    assert.is_false((pcall(sft.is_nonzero, sft.ones(2))))
    assert.is_true(sft.ones(1):is_signed())
  end)
end)
