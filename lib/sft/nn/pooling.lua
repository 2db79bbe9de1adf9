-- Pooling over [batch, channels, height, width] or [channels, height, width].

local args = require "sft.args"
local module = require "sft.nn.module"
local F = require "sft.nn.functional"

local class = module.class
local M = {}

local function show(v)
  return type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or tostring(v)
end

local MaxPool2d = class("MaxPool2d")
M.MaxPool2d = MaxPool2d
local max_signature = args.signature("MaxPool2d", "kernel_size:size, stride:size?, padding:size=0, "
  .. "dilation:size=1, return_indices:bool=false, ceil_mode:bool=false")

function MaxPool2d:init(...)
  for k, v in next, max_signature(...) do self[k] = v end
  self.stride = self.stride or self.kernel_size
end

function MaxPool2d:forward(x)
  if self.return_indices then
    return F.max_pool2d(x, self.kernel_size, {stride = self.stride, padding = self.padding,
      dilation = self.dilation, ceil_mode = self.ceil_mode, return_indices = true})
  end
  return F.max_pool2d(x, self.kernel_size, {stride = self.stride, padding = self.padding,
    dilation = self.dilation, ceil_mode = self.ceil_mode})
end

function MaxPool2d:extra_repr()
  return ("kernel_size=%s, stride=%s, padding=%s, dilation=%s, ceil_mode=%s"):format(show(self.kernel_size),
    show(self.stride), show(self.padding), show(self.dilation), self.ceil_mode)
end

local AvgPool2d = class("AvgPool2d")
M.AvgPool2d = AvgPool2d
local avg_signature = args.signature("AvgPool2d", "kernel_size:size, stride:size?, padding:size=0, "
  .. "ceil_mode:bool=false, count_include_pad:bool=true, divisor_override:int?")

function AvgPool2d:init(...)
  for k, v in next, avg_signature(...) do self[k] = v end
  self.stride = self.stride or self.kernel_size
end

function AvgPool2d:forward(x)
  return F.avg_pool2d(x, self.kernel_size, {stride = self.stride, padding = self.padding,
    ceil_mode = self.ceil_mode, count_include_pad = self.count_include_pad,
    divisor_override = self.divisor_override})
end

function AvgPool2d:extra_repr()
  return ("kernel_size=%s, stride=%s, padding=%s"):format(show(self.kernel_size), show(self.stride),
    show(self.padding))
end

local AdaptiveAvgPool2d = class("AdaptiveAvgPool2d")
M.AdaptiveAvgPool2d = AdaptiveAvgPool2d
local adaptive_signature = args.signature("AdaptiveAvgPool2d", "output_size:size")

function AdaptiveAvgPool2d:init(...)
  self.output_size = adaptive_signature(...).output_size
end

function AdaptiveAvgPool2d:forward(x) return F.adaptive_avg_pool2d(x, self.output_size) end
function AdaptiveAvgPool2d:extra_repr() return "output_size=" .. show(self.output_size) end

return M
