-- Linear layers: Identity, Linear, Bilinear, and Flatten and Unflatten that stand next to them.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local F = require "sft.nn.functional"

local class, fail = module.class, args.fail
local M = {}

M.Identity = class("Identity")
function M.Identity:forward(x) return x end

-- y = x W^T + b. weight [out, in], bias [out]; both start uniform in +-1 / sqrt(in).
local Linear = class("Linear")
M.Linear = Linear
local linear_signature = args.signature("Linear",
  "in_features:int, out_features:int, bias:bool=true, device?, dtype?")

function Linear:init(...)
  local a = linear_signature(...)
  if a.in_features < 0 or a.out_features < 0 then
    fail("Linear: in_features and out_features must not be negative, got %d and %d", a.in_features, a.out_features)
  end
  self.in_features, self.out_features = a.in_features, a.out_features
  local where = {device = a.device, dtype = a.dtype}
  self.weight = parameter.new(sft.empty(a.out_features, a.in_features, where))
  if a.bias then self.bias = parameter.new(sft.empty(a.out_features, where)) end
  self:reset_parameters()
end

function Linear:reset_parameters()
  local bound = self.in_features > 0 and 1 / math.sqrt(self.in_features) or 0
  sft.no_grad(function()
    self.weight:uniform_(-bound, bound)
    if self.bias then self.bias:uniform_(-bound, bound) end
  end)
end

local linear = F.linear
function Linear:forward(x)
  return linear(x, self.weight, self.bias)
end

function Linear:extra_repr()
  return ("in_features=%d, out_features=%d, bias=%s"):format(self.in_features, self.out_features, self.bias ~= nil)
end

function Linear:_describe()
  return ("Linear(%d -> %d)"):format(self.in_features, self.out_features)
end

-- y[o] = x1^T W[o] x2 + b[o]
local Bilinear = class("Bilinear")
M.Bilinear = Bilinear
local bilinear_signature = args.signature("Bilinear",
  "in1_features:int, in2_features:int, out_features:int, bias:bool=true, device?, dtype?")

function Bilinear:init(...)
  local a = bilinear_signature(...)
  self.in1_features, self.in2_features, self.out_features = a.in1_features, a.in2_features, a.out_features
  local where = {device = a.device, dtype = a.dtype}
  self.weight = parameter.new(sft.empty(a.out_features, a.in1_features, a.in2_features, where))
  if a.bias then self.bias = parameter.new(sft.empty(a.out_features, where)) end
  local bound = 1 / math.sqrt(math.max(1, a.in1_features))
  sft.no_grad(function()
    self.weight:uniform_(-bound, bound)
    if self.bias then self.bias:uniform_(-bound, bound) end
  end)
end

function Bilinear:forward(x1, x2)
  return F.bilinear(x1, x2, self.weight, self.bias)
end

function Bilinear:extra_repr()
  return ("in1_features=%d, in2_features=%d, out_features=%d, bias=%s"):format(self.in1_features,
    self.in2_features, self.out_features, self.bias ~= nil)
end

-- Joins the dims start_dim to end_dim; the default keeps dim 1, the batch.
local Flatten = class("Flatten")
M.Flatten = Flatten
local flatten_signature = args.signature("Flatten", "start_dim:int=2, end_dim:int=-1")

function Flatten:init(...)
  local a = flatten_signature(...)
  self.start_dim, self.end_dim = a.start_dim, a.end_dim
end

function Flatten:forward(x)
  return sft.flatten(x, self.start_dim, self.end_dim)
end

function Flatten:extra_repr()
  return ("start_dim=%d, end_dim=%d"):format(self.start_dim, self.end_dim)
end

-- Splits one dim into the given sizes; one of them may be -1.
local Unflatten = class("Unflatten")
M.Unflatten = Unflatten
local unflatten_signature = args.signature("Unflatten", "dim:int, unflattened_size:size")

function Unflatten:init(...)
  local a = unflatten_signature(...)
  self.dim, self.unflattened_size = a.dim, a.unflattened_size
end

function Unflatten:forward(x)
  if not sft.is_tensor(x) then fail("Unflatten: input must be a Tensor, got %s", args.kind(x)) end
  local n = x.ndim
  local dim = self.dim < 0 and self.dim + n + 1 or self.dim
  if dim < 1 or dim > n then fail("Unflatten: dim %d is out of range for an input of %d dims", self.dim, n) end
  local shape, sizes = {}, self.unflattened_size
  if type(sizes) == "number" then sizes = {sizes} end
  for i = 1, n do
    if i == dim then
      for _, s in ipairs(sizes) do shape[#shape + 1] = s end
    else
      shape[#shape + 1] = x.shape[i]
    end
  end
  return x:reshape(shape)
end

function Unflatten:extra_repr()
  local sizes = self.unflattened_size
  return ("dim=%d, unflattened_size=%s"):format(self.dim,
    type(sizes) == "table" and "{" .. table.concat(sizes, ", ") .. "}" or tostring(sizes))
end

return M
