-- Normalisation: BatchNorm1d, BatchNorm2d, LayerNorm, GroupNorm, RMSNorm.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local F = require "sft.nn.functional"

local class, fail = module.class, args.fail
local M = {}

-- Buffers running_mean, running_var (of the unbiased variance) and num_batches_tracked, as PyTorch.
local function batch_norm(name, allowed)
  local BatchNorm = class(name)
  local signature = args.signature(name, "num_features:int, eps:num=1e-5, momentum:any=0.1, affine:bool=true, "
    .. "track_running_stats:bool=true, device?, dtype?")

  function BatchNorm:init(...)
    local a = signature(...)
    self.num_features, self.eps, self.affine = a.num_features, a.eps, a.affine
    self.momentum = a.momentum   -- false: a plain average over all batches
    self.track_running_stats = a.track_running_stats
    local where = {device = a.device, dtype = a.dtype}
    if a.affine then
      self.weight = parameter.new(sft.ones(a.num_features, where))
      self.bias = parameter.new(sft.zeros(a.num_features, where))
    end
    if a.track_running_stats then
      self:register_buffer("running_mean", sft.zeros(a.num_features, where))
      self:register_buffer("running_var", sft.ones(a.num_features, where))
      self:register_buffer("num_batches_tracked", sft.zeros({}, {dtype = sft.int64, device = a.device}))
    end
  end

  function BatchNorm:forward(x)
    if not sft.is_tensor(x) or not allowed[x.ndim] then
      fail("%s: input must be %s, got %s", name, allowed.text,
        sft.is_tensor(x) and tostring(x.shape) or args.kind(x))
    end
    local momentum = self.momentum
    if self.training and self.track_running_stats then
      self.num_batches_tracked:add_(1)
      if not momentum then momentum = 1 / self.num_batches_tracked:item() end
    end
    local use_batch = self.training or self.running_mean == nil
    return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, use_batch,
      momentum or 0, self.eps)
  end

  function BatchNorm:reset_running_stats()
    if not self.track_running_stats then return end
    self.running_mean:fill_(0)
    self.running_var:fill_(1)
    self.num_batches_tracked:fill_(0)
  end

  function BatchNorm:extra_repr()
    return ("%d, eps=%g, momentum=%s, affine=%s, track_running_stats=%s"):format(self.num_features, self.eps,
      tostring(self.momentum), self.affine, self.track_running_stats)
  end

  function BatchNorm:_describe()
    return ("%s(%d)"):format(name, self.num_features)
  end

  M[name] = BatchNorm
end

batch_norm("BatchNorm1d", {[2] = true, [3] = true, text = "[batch, features] or [batch, features, length]"})
batch_norm("BatchNorm2d", {[4] = true, text = "[batch, channels, height, width]"})

local function shape_text(list)
  return "{" .. table.concat(list, ", ") .. "}"
end

local function as_list(size)
  return type(size) == "number" and {size} or size
end

-- Over the last dims, those of normalized_shape.
local LayerNorm = class("LayerNorm")
M.LayerNorm = LayerNorm
local layer_signature = args.signature("LayerNorm",
  "normalized_shape:size, eps:num=1e-5, elementwise_affine:bool=true, bias:bool=true, device?, dtype?")

function LayerNorm:init(...)
  local a = layer_signature(...)
  self.normalized_shape, self.eps = as_list(a.normalized_shape), a.eps
  self.elementwise_affine = a.elementwise_affine
  local where = {device = a.device, dtype = a.dtype}
  if a.elementwise_affine then
    self.weight = parameter.new(sft.ones(self.normalized_shape, where))
    if a.bias then self.bias = parameter.new(sft.zeros(self.normalized_shape, where)) end
  end
end

function LayerNorm:forward(x)
  return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
end

function LayerNorm:extra_repr()
  return ("%s, eps=%g, elementwise_affine=%s"):format(shape_text(self.normalized_shape), self.eps,
    self.elementwise_affine)
end

-- x / sqrt(mean(x^2) + eps) over the last dims; eps is the dtype's own when it is not given.
local RMSNorm = class("RMSNorm")
M.RMSNorm = RMSNorm
local rms_signature = args.signature("RMSNorm",
  "normalized_shape:size, eps:num?, elementwise_affine:bool=true, device?, dtype?")

function RMSNorm:init(...)
  local a = rms_signature(...)
  self.normalized_shape, self.eps = as_list(a.normalized_shape), a.eps
  if a.elementwise_affine then
    self.weight = parameter.new(sft.ones(self.normalized_shape, {device = a.device, dtype = a.dtype}))
  end
end

function RMSNorm:forward(x)
  return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
end

function RMSNorm:extra_repr()
  return ("%s, eps=%s"):format(shape_text(self.normalized_shape), tostring(self.eps))
end

local GroupNorm = class("GroupNorm")
M.GroupNorm = GroupNorm
local group_signature = args.signature("GroupNorm",
  "num_groups:int, num_channels:int, eps:num=1e-5, affine:bool=true, device?, dtype?")

function GroupNorm:init(...)
  local a = group_signature(...)
  if a.num_groups < 1 or a.num_channels % a.num_groups ~= 0 then
    fail("GroupNorm: num_channels must be a multiple of num_groups, got %d and %d", a.num_channels, a.num_groups)
  end
  self.num_groups, self.num_channels, self.eps, self.affine = a.num_groups, a.num_channels, a.eps, a.affine
  local where = {device = a.device, dtype = a.dtype}
  if a.affine then
    self.weight = parameter.new(sft.ones(a.num_channels, where))
    self.bias = parameter.new(sft.zeros(a.num_channels, where))
  end
end

function GroupNorm:forward(x)
  return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)
end

function GroupNorm:extra_repr()
  return ("%d, %d, eps=%g, affine=%s"):format(self.num_groups, self.num_channels, self.eps, self.affine)
end

return M
