-- nn.functional: the ops of the engine that PyTorch keeps in torch.nn.functional, and what is
-- composed of them here. A composition steps back as soon as the engine has an op of that name.

local sft = require "sft"
local args = require "sft.args"

local fail = args.fail
local engine = sft._functional or {}

-- Names that are found in torch and torch.nn.functional alike (relu, softmax) come from sft.
local F = setmetatable({}, {__index = function(F, name)
  local op = engine[name]
  if op == nil then op = rawget(sft, name) end
  if op ~= nil then rawset(F, name, op) end
  return op
end})

local function define(name, text, body)
  if engine[name] ~= nil or rawget(sft, name) ~= nil then return end
  local signature = args.signature(name, text)
  F[name] = function(...)
    return body(signature(...))
  end
end

-- Activations ------------------------------------------------------------------------------------

define("relu", "input:tensor, inplace:bool=false", function(a)
  if a.inplace then return a.input:relu_() end
  return a.input:relu()
end)

define("relu6", "input:tensor, inplace:bool=false", function(a) return F.hardtanh(a.input, 0, 6) end)

define("hardtanh", "input:tensor, min_val:num=-1, max_val:num=1, inplace:bool=false", function(a)
  if a.inplace then return a.input:clamp_(a.min_val, a.max_val) end
  return a.input:clamp(a.min_val, a.max_val)
end)

define("leaky_relu", "input:tensor, negative_slope:num=0.01, inplace:bool=false", function(a)
  return sft.where(a.input:gt(0), a.input, a.input * a.negative_slope)
end)

define("elu", "input:tensor, alpha:num=1, inplace:bool=false", function(a)
  return sft.where(a.input:gt(0), a.input, (a.input:clamp {max = 0}:exp() - 1) * a.alpha)
end)

define("selu", "input:tensor, inplace:bool=false", function(a)
  return F.elu(a.input, 1.6732632423543772) * 1.0507009873554805
end)

define("silu", "input:tensor, inplace:bool=false", function(a) return a.input * a.input:sigmoid() end)

define("mish", "input:tensor, inplace:bool=false", function(a) return a.input * F.softplus(a.input):tanh() end)

define("softplus", "input:tensor, beta:num=1, threshold:num=20", function(a)
  local x = a.input * a.beta
  -- log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which can't overflow.
  local y = (x:clamp {min = 0} + (-x:abs()):exp():log1p()) / a.beta
  return sft.where(x:gt(a.threshold), a.input, y)
end)

define("logsigmoid", "input:tensor", function(a) return -F.softplus(-a.input) end)
define("softsign", "input:tensor", function(a) return a.input / (a.input:abs() + 1) end)
define("tanhshrink", "input:tensor", function(a) return a.input - a.input:tanh() end)
define("hardsigmoid", "input:tensor, inplace:bool=false", function(a) return (a.input / 6 + 0.5):clamp(0, 1) end)

define("hardswish", "input:tensor, inplace:bool=false", function(a)
  return a.input * (a.input + 3):clamp(0, 6) / 6
end)

define("softmin", "input:tensor, dim:int", function(a) return (-a.input):softmax(a.dim) end)

define("glu", "input:tensor, dim:int=-1", function(a)
  local size = a.input:size(a.dim)
  if size % 2 ~= 0 then fail("glu: the size of dim %d must be even, got %d", a.dim, size) end
  local half = size // 2
  return a.input:narrow(a.dim, 1, half) * a.input:narrow(a.dim, half + 1, half):sigmoid()
end)

define("prelu", "input:tensor, weight:tensor", function(a)
  local w = a.weight
  if w:numel() > 1 and a.input.ndim > 2 then
    local shape = {w:numel()}
    for i = 2, a.input.ndim - 1 do shape[i] = 1 end
    w = w:reshape(shape)
  end
  return a.input:clamp {min = 0} + w * a.input:clamp {max = 0}
end)

-- Losses -----------------------------------------------------------------------------------------

local function reduce(fname, loss, reduction)
  if reduction == "mean" then return loss:mean() end
  if reduction == "sum" then return loss:sum() end
  if reduction == "none" then return loss end
  fail('%s: reduction must be "mean", "sum" or "none", got %s', fname, args.kind(reduction))
end

-- A loss of [N, 1] against [N] would be a mean over N * N pairs, which nobody wants.
local function same_shapes(fname, a)
  local s, t = a.input.shape, a.target.shape
  local same = #s == #t
  for i = 1, #s do same = same and s[i] == t[i] end
  if not same then
    fail("%s: input and target must have the same shape, got %s and %s (they are not broadcast)", fname,
      tostring(s), tostring(t))
  end
end

local function elementwise_loss(name, extra, body)
  define(name, "input:tensor, target:tensor, " .. extra .. "reduction:str=mean", function(a)
    same_shapes(name, a)
    return reduce(name, body(a), a.reduction)
  end)
end

elementwise_loss("mse_loss", "", function(a) return (a.input - a.target) ^ 2 end)
elementwise_loss("l1_loss", "", function(a) return (a.input - a.target):abs() end)

define("smooth_l1_loss", "input:tensor, target:tensor, reduction:str=mean, beta:num=1", function(a)
  same_shapes("smooth_l1_loss", a)
  if a.beta < 0 then fail("smooth_l1_loss: beta must not be negative, got %g", a.beta) end
  local d = (a.input - a.target):abs()
  if a.beta == 0 then return reduce("smooth_l1_loss", d, a.reduction) end
  return reduce("smooth_l1_loss", sft.where(d:lt(a.beta), d * d * (0.5 / a.beta), d - 0.5 * a.beta), a.reduction)
end)

define("huber_loss", "input:tensor, target:tensor, reduction:str=mean, delta:num=1", function(a)
  same_shapes("huber_loss", a)
  if a.delta <= 0 then fail("huber_loss: delta must be positive, got %g", a.delta) end
  local d = (a.input - a.target):abs()
  return reduce("huber_loss", sft.where(d:le(a.delta), d * d * 0.5, (d - 0.5 * a.delta) * a.delta), a.reduction)
end)

define("binary_cross_entropy", "input:tensor, target:tensor, weight:tensor?, reduction:str=mean", function(a)
  same_shapes("binary_cross_entropy", a)
  local x, y = a.input, a.target
  local loss = -(y * x:log():clamp {min = -100} + (1 - y) * (1 - x):log():clamp {min = -100})
  if a.weight then loss = loss * a.weight end
  return reduce("binary_cross_entropy", loss, a.reduction)
end)

define("binary_cross_entropy_with_logits",
  "input:tensor, target:tensor, weight:tensor?, reduction:str=mean, pos_weight:tensor?", function(a)
    same_shapes("binary_cross_entropy_with_logits", a)
    local x, y = a.input, a.target
    local log1p = (-x:abs()):exp():log1p() + (-x):clamp {min = 0}   -- log(1 + e^-x)
    local factor = a.pos_weight and (a.pos_weight - 1) * y + 1
    local loss = (1 - y) * x + (factor and factor * log1p or log1p)
    if a.weight then loss = loss * a.weight end
    return reduce("binary_cross_entropy_with_logits", loss, a.reduction)
  end)

define("kl_div", "input:tensor, target:tensor, reduction:str=mean, log_target:bool=false", function(a)
  same_shapes("kl_div", a)
  local loss
  if a.log_target then
    loss = a.target:exp() * (a.target - a.input)
  else
    -- 0 * log(0) is 0.
    local safe = sft.where(a.target:gt(0), a.target, sft.ones_like(a.target))
    loss = a.target * (safe:log() - a.input)
  end
  if a.reduction == "batchmean" then return loss:sum() / a.input:size(1) end
  return reduce("kl_div", loss, a.reduction)
end)

-- Layers -----------------------------------------------------------------------------------------

define("linear", "input:tensor, weight:tensor, bias:tensor?", function(a)
  local y = a.input:matmul(a.weight:t())
  return a.bias and y + a.bias or y
end)

-- x1^T W x2 for every output.
define("bilinear", "input1:tensor, input2:tensor, weight:tensor, bias:tensor?", function(a)
  local s1, s2, w = a.input1.shape, a.input2.shape, a.weight.shape
  if s1[#s1] ~= w[2] or s2[#s2] ~= w[3] then
    fail("bilinear: the last dims of the inputs are %s and %s, the weight %s expects %d and %d", tostring(s1[#s1]),
      tostring(s2[#s2]), tostring(w), w[2], w[3])
  end
  local x1, x2 = a.input1:reshape(-1, w[2]), a.input2:reshape(-1, w[3])
  local y = x1:matmul(a.weight:permute(2, 1, 3):reshape(w[2], w[1] * w[3])):reshape(-1, w[1], w[3])
  y = (y * x2:unsqueeze(2)):sum(-1)
  local shape = {}
  for i = 1, #s1 - 1 do shape[i] = s1[i] end
  shape[#s1] = w[1]
  y = y:reshape(shape)
  return a.bias and y + a.bias or y
end)

local function one(v) return type(v) == "table" and v[1] or v end

-- A convolution over one dim is one over two with a height of 1.
define("conv1d", "input:tensor, weight:tensor, bias:tensor?, stride:size=1, padding:any=0, "
  .. "dilation:size=1, groups:int=1", function(a)
    local padding = a.padding
    if type(padding) ~= "string" then padding = {0, one(padding)} end
    local n = a.input.ndim
    if n ~= 2 and n ~= 3 then
      fail("conv1d: input must be [batch, channels, length] or [channels, length], got %s", tostring(a.input.shape))
    end
    local y = F.conv2d(a.input:unsqueeze(-2), a.weight:unsqueeze(-2), {bias = a.bias, stride = {1, one(a.stride)},
      padding = padding, dilation = {1, one(a.dilation)}, groups = a.groups})
    return y:squeeze(-2)
  end)

-- Pools a map of any size to the given one. Windows of equal size are an ordinary pool.
define("adaptive_avg_pool2d", "input:tensor, output_size:any", function(a)
  local x, size = a.input, a.output_size
  if type(size) == "number" then size = {size, size} end
  local h, w = x:size(-2), x:size(-1)
  local oh, ow = args.whole(size[1] or h) or h, args.whole(size[2] or w) or w
  if oh < 1 or ow < 1 then fail("adaptive_avg_pool2d: output_size must be positive, got [%d, %d]", oh, ow) end
  if oh == 1 and ow == 1 then return x:mean({-2, -1}, true) end
  if h % oh == 0 and w % ow == 0 then return F.avg_pool2d(x, {h // oh, w // ow}) end
  local rows = {}
  for i = 0, oh - 1 do
    local top = i * h // oh
    local band = x:narrow(-2, top + 1, -((-(i + 1) * h) // oh) - top)
    local cells = {}
    for j = 0, ow - 1 do
      local left = j * w // ow
      cells[j + 1] = band:narrow(-1, left + 1, -((-(j + 1) * w) // ow) - left):mean({-2, -1}, true)
    end
    rows[i + 1] = sft.cat(cells, -1)
  end
  return sft.cat(rows, -2)
end)

define("group_norm", "input:tensor, num_groups:int, weight:tensor?, bias:tensor?, eps:num=1e-5", function(a)
  local x, shape = a.input, a.input.shape
  if a.num_groups < 1 or shape[2] == nil or shape[2] % a.num_groups ~= 0 then
    fail("group_norm: the channels of the input %s can't be split into %d groups", tostring(shape), a.num_groups)
  end
  local groups = x:reshape(shape[1], a.num_groups, -1)
  local y = F.layer_norm(groups, {groups:size(3)}, {eps = a.eps}):reshape(shape)
  local affine = {1, shape[2]}
  for i = 3, #shape do affine[i] = 1 end
  if a.weight then y = y * a.weight:reshape(affine) end
  if a.bias then y = y + a.bias:reshape(affine) end
  return y
end)

define("normalize", "input:tensor, p:num=2, dim:int=2, eps:num=1e-12", function(a)
  return a.input / a.input:norm(a.p, a.dim, true):clamp {min = a.eps}
end)

define("cosine_similarity", "x1:tensor, x2:tensor, dim:int=2, eps:num=1e-8", function(a)
  local n1 = a.x1:norm(2, a.dim, true):clamp {min = a.eps}
  local n2 = a.x2:norm(2, a.dim, true):clamp {min = a.eps}
  return (a.x1 / n1 * (a.x2 / n2)):sum(a.dim)
end)

-- Labels 1 to num_classes as rows with a 1 in that place.
define("one_hot", "tensor:tensor, num_classes:int=-1", function(a)
  local n = a.num_classes
  if n == -1 then n = a.tensor:numel() > 0 and a.tensor:max():item() or 0 end
  local out = sft.zeros(a.tensor:numel(), n, {dtype = sft.int64, device = a.tensor.device})
  local flat = a.tensor:reshape(-1, 1)
  return out:scatter(2, flat, 1):reshape(sft.cat {sft.tensor(a.tensor.shape), sft.tensor {n}}:tolist())
end)

return F
