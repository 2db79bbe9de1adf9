-- Activations as modules. Each is one line: name, what its constructor takes, what it computes.

local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local F = require "sft.nn.functional"
local sft = require "sft"

local M = {}

-- `show`: the options that the printed form names.
local function activation(name, text, show, forward)
  local class = module.class(name)
  local signature = args.signature(name, text)
  function class:init(...)
    for k, v in next, signature(...) do self[k] = v end
  end
  class.forward = forward
  function class:extra_repr()
    local parts = {}
    for _, k in ipairs(show) do
      local v = self[k]
      parts[#parts + 1] = ("%s=%s"):format(k, type(v) == "string" and ('"%s"'):format(v) or tostring(v))
    end
    if self.inplace then parts[#parts + 1] = "inplace=true" end
    return table.concat(parts, ", ")
  end
  M[name] = class
end

-- The in-place form where it was asked for and the engine has one, else the ordinary one.
local function plain(op)
  local fresh, in_place = F[op], sft._methods[op .. "_"]
  return function(self, x)
    if self.inplace and in_place then return in_place(x) end
    return fresh(x)
  end
end

activation("ReLU", "inplace:bool=false", {}, plain "relu")
activation("ReLU6", "inplace:bool=false", {}, plain "relu6")
activation("SiLU", "inplace:bool=false", {}, plain "silu")
activation("Mish", "inplace:bool=false", {}, plain "mish")
activation("SELU", "inplace:bool=false", {}, plain "selu")
activation("Hardsigmoid", "inplace:bool=false", {}, plain "hardsigmoid")
activation("Hardswish", "inplace:bool=false", {}, plain "hardswish")
activation("Tanh", "", {}, function(_, x) return F.tanh(x) end)
activation("Sigmoid", "", {}, function(_, x) return F.sigmoid(x) end)
activation("LogSigmoid", "", {}, function(_, x) return F.logsigmoid(x) end)
activation("Softsign", "", {}, function(_, x) return F.softsign(x) end)
activation("Tanhshrink", "", {}, function(_, x) return F.tanhshrink(x) end)

activation("GELU", "approximate:str=none", {"approximate"}, function(self, x)
  return F.gelu(x, {approximate = self.approximate})
end)

activation("LeakyReLU", "negative_slope:num=0.01, inplace:bool=false", {"negative_slope"}, function(self, x)
  return F.leaky_relu(x, self.negative_slope)
end)

activation("ELU", "alpha:num=1.0, inplace:bool=false", {"alpha"}, function(self, x)
  return F.elu(x, self.alpha)
end)

activation("Softplus", "beta:num=1.0, threshold:num=20.0", {"beta", "threshold"}, function(self, x)
  return F.softplus(x, self.beta, self.threshold)
end)

activation("Hardtanh", "min_val:num=-1.0, max_val:num=1.0, inplace:bool=false", {"min_val", "max_val"},
  function(self, x) return F.hardtanh(x, self.min_val, self.max_val) end)

activation("GLU", "dim:int=-1", {"dim"}, function(self, x) return F.glu(x, self.dim) end)

-- PyTorch guesses the dim when none is given; here it has to be said.
activation("Softmax", "dim:int", {"dim"}, function(self, x) return F.softmax(x, self.dim) end)
activation("LogSoftmax", "dim:int", {"dim"}, function(self, x) return F.log_softmax(x, self.dim) end)
activation("Softmin", "dim:int", {"dim"}, function(self, x) return F.softmin(x, self.dim) end)

-- A learnt slope for negative inputs, one for all or one for each channel.
local PReLU = module.class("PReLU")
M.PReLU = PReLU
local prelu_signature = args.signature("PReLU", "num_parameters:int=1, init:num=0.25, device?, dtype?")

function PReLU:init(...)
  local a = prelu_signature(...)
  self.num_parameters = a.num_parameters
  self.weight = parameter.new(sft.full({a.num_parameters}, a.init,
    {device = a.device, dtype = a.dtype or sft.get_default_dtype()}))
end

function PReLU:forward(x) return F.prelu(x, self.weight) end
function PReLU:extra_repr() return ("num_parameters=%d"):format(self.num_parameters) end

return M
