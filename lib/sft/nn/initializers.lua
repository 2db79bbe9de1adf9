-- nn.init: fills a tensor in place and returns it, without a trace in autograd. After torch.nn.init.

local sft = require "sft"
local args = require "sft.args"

local fail = args.fail
local M = {}

local function initializer(name, text, fill)
  local signature = args.signature(name, text)
  M[name] = function(...)
    local a = signature(...)
    sft.no_grad(fill, a.tensor, a)
    return a.tensor
  end
end

-- Inputs and outputs of one unit of the weight [out, in, kernel...].
local function fans(t, fname)
  local shape = t.shape
  if #shape < 2 then
    fail("%s: a tensor of at least 2 dims is needed to tell its fan in and fan out, got %s", fname,
      tostring(shape))
  end
  local field = 1
  for i = 3, #shape do field = field * shape[i] end
  return shape[2] * field, shape[1] * field
end

local gains = {
  linear = 1, sigmoid = 1, identity = 1, conv1d = 1, conv2d = 1, conv3d = 1, tanh = 5 / 3,
  relu = math.sqrt(2), selu = 3 / 4,
}

-- The factor that keeps the variance through a nonlinearity; `param` is leaky_relu's slope.
function M.calculate_gain(nonlinearity, param)
  if nonlinearity == "leaky_relu" then
    local slope = param == nil and 0.01 or param
    if type(slope) ~= "number" then fail("calculate_gain: the slope must be a number, got %s", args.kind(slope)) end
    return math.sqrt(2 / (1 + slope ^ 2))
  end
  local gain = gains[nonlinearity]
  if not gain then
    local names = {"leaky_relu"}
    for name in next, gains do names[#names + 1] = name end
    table.sort(names)
    fail("calculate_gain: unknown nonlinearity %s%s", args.kind(nonlinearity), args.suggest(nonlinearity, names))
  end
  return gain
end

initializer("uniform_", "tensor:tensor, a:num=0, b:num=1", function(t, a) t:uniform_(a.a, a.b) end)
initializer("normal_", "tensor:tensor, mean:num=0, std:num=1", function(t, a) t:normal_(a.mean, a.std) end)
initializer("constant_", "tensor:tensor, val:num", function(t, a) t:fill_(a.val) end)
initializer("ones_", "tensor:tensor", function(t) t:fill_(1) end)
initializer("zeros_", "tensor:tensor", function(t) t:fill_(0) end)

initializer("eye_", "tensor:tensor", function(t)
  local shape = t.shape
  if #shape ~= 2 then fail("eye_: a tensor of 2 dims is expected, got %s", tostring(shape)) end
  t:copy_(sft.eye(shape[1], shape[2], {dtype = t.dtype, device = t.device}))
end)

initializer("trunc_normal_", "tensor:tensor, mean:num=0, std:num=1, a:num=-2, b:num=2", function(t, a)
  -- The inverse of the normal distribution's function, applied to a uniform sample of its range.
  local function cdf(x)
    return (1 + sft.erf(sft.tensor((x - a.mean) / a.std / math.sqrt(2), {dtype = sft.float64})):item()) / 2
  end
  if a.a >= a.b then fail("trunc_normal_: a must be less than b, got %g and %g", a.a, a.b) end
  local low, high = cdf(a.a), cdf(a.b)
  t:uniform_(2 * low - 1, 2 * high - 1)
  t:copy_(sft.erfinv(t):mul(a.std * math.sqrt(2)):add(a.mean):clamp(a.a, a.b))
end)

initializer("xavier_uniform_", "tensor:tensor, gain:num=1", function(t, a)
  local fan_in, fan_out = fans(t, "xavier_uniform_")
  local bound = a.gain * math.sqrt(6 / (fan_in + fan_out))
  t:uniform_(-bound, bound)
end)

initializer("xavier_normal_", "tensor:tensor, gain:num=1", function(t, a)
  local fan_in, fan_out = fans(t, "xavier_normal_")
  t:normal_(0, a.gain * math.sqrt(2 / (fan_in + fan_out)))
end)

local function kaiming_std(t, a, fname)
  local fan_in, fan_out = fans(t, fname)
  if a.mode ~= "fan_in" and a.mode ~= "fan_out" then
    fail('%s: mode must be "fan_in" or "fan_out", got %s', fname, args.kind(a.mode))
  end
  local fan = a.mode == "fan_in" and fan_in or fan_out
  return M.calculate_gain(a.nonlinearity, a.a) / math.sqrt(math.max(1, fan))
end

local kaiming = "tensor:tensor, a:num=0, mode:str=fan_in, nonlinearity:str=leaky_relu"

initializer("kaiming_uniform_", kaiming, function(t, a)
  local bound = math.sqrt(3) * kaiming_std(t, a, "kaiming_uniform_")
  t:uniform_(-bound, bound)
end)

initializer("kaiming_normal_", kaiming, function(t, a)
  t:normal_(0, kaiming_std(t, a, "kaiming_normal_"))
end)

-- Rows (or columns, whichever are fewer) are orthonormal: Gram-Schmidt, twice for accuracy.
initializer("orthogonal_", "tensor:tensor, gain:num=1", function(t, a)
  local shape = t.shape
  if #shape < 2 then fail("orthogonal_: a tensor of at least 2 dims is expected, got %s", tostring(shape)) end
  local rows, cols = shape[1], t:numel() // math.max(1, shape[1])
  local flip = rows > cols
  local m = sft.randn(flip and cols or rows, flip and rows or cols, {dtype = sft.float64})
  for i = 1, m.shape[1] do
    local row = m[i]
    for _ = 1, 2 do
      if i > 1 then
        local above = m:narrow(1, 1, i - 1)
        row = row - above:t():mv(above:mv(row))
      end
      row = row / row:norm()
    end
    m[i] = row
  end
  if flip then m = m:t() end
  t:copy_(m:mul(a.gain):reshape(shape):to(t.dtype):to(t.device))
end)

return M
