-- Convolutions, patches and resampling: against sums over taps, gradients of first and second order.

local sft = require "sft"
local F = sft.nn.functional
local numeric = require "spec.support.numeric"
local f64, close, fails, leaf, check = numeric.f64, numeric.close, numeric.fails, numeric.leaf, numeric.check

-- y = conv2d(x, w) as a sum of shifted products, one for each tap.
local function plain(x, w, o)
  local s, d, p, g = o.stride or 1, o.dilation or 1, o.padding or 0, o.groups or 1
  local xp = F.pad(x, {p, p, p, p})
  local oh = (xp:size(3) - d * (w:size(3) - 1) - 1) // s + 1
  local ow = (xp:size(4) - d * (w:size(4) - 1) - 1) // s + 1
  local per, out = x:size(2) // g, w:size(1) // g
  local parts = {}
  for group = 1, g do
    local y = sft.zeros({x:size(1), out, oh, ow}, f64)
    for i = 1, w:size(3) do
      for j = 1, w:size(4) do
        local v = xp[{{}, {(group - 1) * per + 1, group * per}, {(i - 1) * d + 1, (i - 1) * d + (oh - 1) * s + 1, s},
          {(j - 1) * d + 1, (j - 1) * d + (ow - 1) * s + 1, s}}]
        y = y + sft.einsum("nchw,oc->nohw", {v, w[{{(group - 1) * out + 1, group * out}, {}, i, j}]})
      end
    end
    parts[group] = y
  end
  return sft.cat(parts, 2)
end

describe("conv2d", function()
  it("is a sum over taps, with any stride, padding, dilation and groups", function()
    for _, o in ipairs {{stride = 1}, {stride = 2, padding = 1}, {dilation = 2, padding = 2}, {groups = 2, padding = 1},
      {groups = 4}, {stride = 3}} do
      for _, k in ipairs {{3, 3}, {1, 1}, {2, 3}} do
        local x = sft.randn({3, 4, 9, 8}, f64)
        local w = sft.randn({8, 4 // (o.groups or 1), k[1], k[2]}, f64)
        local b = sft.randn({8}, f64)
        o.bias = b
        local want = plain(x, w, o) + b:reshape(8, 1, 1)
        close(F.conv2d(x, w, o), want, 1e-11)
        o.bias = b:float()
        close(F.conv2d(x:float(), w:float(), o):double(), want, 1e-4)
        o.bias = b:bfloat16()
        assert.equal(sft.bfloat16, F.conv2d(x:bfloat16(), w:bfloat16(), o).dtype)
      end
    end
  end)

  it("has gradients of first and second order", function()
    for _, o in ipairs {{stride = 1}, {stride = 2, padding = 1}, {groups = 2}, {dilation = 2, padding = 1}} do
      local x, w, b = leaf {2, 2, 5, 4}, leaf {2, 2 // (o.groups or 1), 3, 2}, leaf {2}
      check(function(u, v, c)
        return F.conv2d(u, v, c, o.stride or 1, o.padding or 0, o.dilation or 1, o.groups or 1)
      end, {x, w, b})
    end
    check(function(u, v) return F.conv1d(u, v, {padding = "same", dilation = 2}) end, {leaf {2, 2, 6}, leaf {3, 2, 3}})
    check(function(u, v, c) return F.conv_transpose2d(u, v, c, {stride = 2, padding = 1, output_padding = 1}) end,
      {leaf {1, 2, 3, 3}, leaf {2, 2, 3, 3}, leaf {2}})
    check(function(u, v) return F.conv_transpose1d(u, v, {groups = 2}) end, {leaf {1, 2, 4}, leaf {2, 1, 3}})
  end)

  it("knows padding by name", function()
    local x, w = sft.randn(1, 2, 6, 7), sft.randn(3, 2, 3, 4)
    assert.same({1, 3, 6, 7}, F.conv2d(x, w, {padding = "same"}).shape)
    close(F.conv2d(x, w, {padding = "valid"}), F.conv2d(x, w), 0)
    fails('needs a stride of 1', F.conv2d, x, w, {padding = "same", stride = 2})
    fails('padding must be a size, "same" or "valid"', F.conv2d, x, w, {padding = "half"})
  end)

  it("computes whole numbers exactly", function()
    local x = sft.arange(16):reshape(1, 4, 4)
    assert.same({{{10}}}, F.conv2d(x, sft.ones(1, 1, 2, 2):long(), {stride = 3}):sum({2, 3}, true):tolist())
  end)

  it("transposed is the gradient of the input", function()
    local x, w = leaf {2, 3, 7, 7}, sft.randn({4, 3, 3, 3}, f64)
    local g = sft.randn({2, 4, 4, 4}, f64)
    F.conv2d(x, w, {stride = 2, padding = 1}):backward(g)
    close(F.conv_transpose2d(g, w, {stride = 2, padding = 1}), x.grad, 1e-11)
  end)

  it("says what does not fit", function()
    fails("conv2d: the input has 3 channels, but the weight [2, 4, 3, 3] expects 4", F.conv2d, sft.zeros(1, 3, 4, 4),
      sft.zeros(2, 4, 3, 3))
    fails("groups must divide", F.conv2d, sft.zeros(1, 3, 4, 4), sft.zeros(2, 1, 3, 3), {groups = 2})
    fails("larger than the padded input", F.conv2d, sft.zeros(1, 1, 2, 2), sft.zeros(1, 1, 3, 3))
    fails("must have one dtype", F.conv2d, sft.zeros(1, 1, 3, 3), sft.zeros(1, 1, 3, 3):double())
    fails("bias must have one element", F.conv2d, sft.zeros(1, 1, 3, 3), sft.zeros(2, 1, 3, 3), sft.zeros(3))
    fails("stride must be at least 1", F.conv2d, sft.zeros(1, 1, 3, 3), sft.zeros(2, 1, 3, 3), {stride = 0})
    assert.same({0, 2, 1, 1}, F.conv2d(sft.zeros(0, 1, 3, 3), sft.zeros(2, 1, 3, 3)).shape)
  end)
end)

describe("unfold and fold", function()
  it("make a convolution of a matrix product, and undo each other up to overlap", function()
    local x, w = sft.randn({2, 3, 6, 5}, f64), sft.randn({4, 3, 3, 2}, f64)
    local columns = F.unfold(x, {3, 2}, {padding = 1, stride = {1, 2}})
    local y = F.conv2d(x, w, {padding = 1, stride = {1, 2}})
    close(w:reshape(4, 18):matmul(columns):reshape(y.shape), y, 1e-11)
    local ones = F.fold(F.unfold(sft.ones_like(x), 2), {6, 5}, 2)
    close(F.fold(F.unfold(x, 2), {6, 5}, 2), x * ones)
    check(function(u) return F.unfold(u, {3, 2}, {dilation = {1, 2}, padding = 1}) end, {leaf {1, 2, 5, 4}})
    check(function(u) return F.fold(u, {4, 5}, 2, {stride = {2, 1}}) end, {leaf {1, 4, 8}})
    fails("but the input [1, 4, 5] has 5", F.fold, sft.zeros(1, 4, 5), {4, 4}, 2)
  end)
end)

describe("interpolate, pixel_shuffle and glu", function()
  it("have gradients of first and second order", function()
    for _, mode in ipairs {"nearest", "bilinear", "bicubic", "area", "nearest-exact"} do
      check(function(x) return F.interpolate(x, {5, 3}, {mode = mode}) end, {leaf {1, 2, 4, 4}})
    end
    check(function(x) return F.pixel_shuffle(x, 2) ^ 2 end, {leaf {1, 4, 2, 3}})
    check(function(x) return F.glu(x, 1) end, {leaf {4, 3}})
  end)

  it("keep what they do not change", function()
    local x = sft.randn({1, 8, 4, 6}, f64)
    for _, mode in ipairs {"nearest", "bilinear", "bicubic", "area"} do
      close(F.interpolate(x, {4, 6}, {mode = mode}), x)
    end
    close(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x, 0)
    close(F.interpolate(x, {scale_factor = 2}):narrow(3, 1, 1), x:narrow(3, 1, 1):repeat_interleave(2, 4), 0)
    fails("give either size or scale_factor", F.interpolate, x)
    fails("align_corners goes with linear", F.interpolate, x, {2, 2}, {align_corners = true})
    fails("must be a multiple of 3^2", F.pixel_shuffle, x, 3)
  end)
end)
