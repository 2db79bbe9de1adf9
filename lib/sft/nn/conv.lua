-- Convolutions: Conv1d, Conv2d. weight [out, in / groups, kernel...], inputs [batch, channels, ...].

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local F = require "sft.nn.functional"

local class, fail = module.class, args.fail
local M = {}

local text = "in_channels:int, out_channels:int, kernel_size:size, stride:size=1, padding:any=0, "
  .. "dilation:size=1, groups:int=1, bias:bool=true, padding_mode:str=zeros, device?, dtype?"

local function tuple(name, what, v, n)
  if type(v) == "number" then
    local list = {}
    for i = 1, n do list[i] = v end
    return list
  end
  if #v ~= n then fail("%s: %s must be a number or a list of %d, got a list of %d", name, what, n, #v) end
  return v
end

local function read_padding(name, a, n)
  local padding = a.padding
  if padding == "same" or padding == "valid" then
    if padding == "same" then
      for i = 1, n do
        if a.stride[i] ~= 1 then fail('%s: padding = "same" needs a stride of 1', name) end
      end
    end
    return padding
  end
  if type(padding) ~= "number" and type(padding) ~= "table" then
    fail('%s: padding must be a number, a list of %d, "same" or "valid", got %s', name, n, args.kind(padding))
  end
  padding = tuple(name, "padding", padding, n)
  for i = 1, n do
    if type(padding[i]) ~= "number" or not args.whole(padding[i]) then
      fail("%s: padding must be whole numbers, got %s", name, args.kind(padding[i]))
    end
  end
  return padding
end

local function check(name, a)
  if a.groups < 1 then fail("%s: groups must be positive, got %d", name, a.groups) end
  for _, key in ipairs {"in_channels", "out_channels"} do
    if a[key] < 0 or a[key] % a.groups ~= 0 then
      fail("%s: %s must be a multiple of groups, got %d and %d", name, key, a[key], a.groups)
    end
  end
  if a.padding_mode ~= "zeros" then
    fail('%s: padding_mode "%s" is not supported, only "zeros"', name, a.padding_mode)
  end
end

local function define(name, n, op)
  local Conv = class(name)
  local signature = args.signature(name, text)

  function Conv:init(...)
    local a = signature(...)
    check(name, a)
    for _, key in ipairs {"kernel_size", "stride", "dilation"} do
      a[key] = tuple(name, key, a[key], n)
      for _, v in ipairs(a[key]) do
        if v < 1 then fail("%s: %s must be positive, got %d", name, key, v) end
      end
    end
    self.in_channels, self.out_channels, self.groups = a.in_channels, a.out_channels, a.groups
    self.kernel_size, self.stride, self.dilation = a.kernel_size, a.stride, a.dilation
    self.padding, self.padding_mode = read_padding(name, a, n), a.padding_mode
    local where = {device = a.device, dtype = a.dtype}
    self.weight = parameter.new(sft.empty({a.out_channels, a.in_channels // a.groups, table.unpack(a.kernel_size)},
      where))
    if a.bias then self.bias = parameter.new(sft.empty(a.out_channels, where)) end
    self:reset_parameters()
  end

  function Conv:reset_parameters()
    local fan_in = self.in_channels // self.groups
    for _, k in ipairs(self.kernel_size) do fan_in = fan_in * k end
    local bound = fan_in > 0 and 1 / math.sqrt(fan_in) or 0
    sft.no_grad(function()
      self.weight:uniform_(-bound, bound)
      if self.bias then self.bias:uniform_(-bound, bound) end
    end)
  end

  function Conv:forward(x)
    return F[op](x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
  end

  local function show(v)
    return type(v) == "table" and "{" .. table.concat(v, ", ") .. "}" or ('"%s"'):format(v)
  end

  function Conv:extra_repr()
    local parts = {tostring(self.in_channels), tostring(self.out_channels),
      "kernel_size=" .. show(self.kernel_size), "stride=" .. show(self.stride)}
    local function unless(key, value)
      for _, v in ipairs(type(self[key]) == "table" and self[key] or {self[key]}) do
        if v ~= value then
          parts[#parts + 1] = ("%s=%s"):format(key, show(self[key]))
          return
        end
      end
    end
    unless("padding", 0)
    unless("dilation", 1)
    if self.groups ~= 1 then parts[#parts + 1] = "groups=" .. self.groups end
    if not self.bias then parts[#parts + 1] = "bias=false" end
    return table.concat(parts, ", ")
  end

  function Conv:_describe()
    return ("%s(%d -> %d, kernel %s)"):format(name, self.in_channels, self.out_channels,
      table.concat(self.kernel_size, "x"))
  end

  M[name] = Conv
end

define("Conv1d", 1, "conv1d")
define("Conv2d", 2, "conv2d")

return M
