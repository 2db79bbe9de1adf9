-- sft.nn: modules, layers, losses and what belongs to them, named as in torch.nn.

local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
require "sft.nn.state"

local nn = {
  Module = module.Module,
  class = module.class,
  is_module = module.is_module,
  Parameter = parameter.new,
  is_parameter = parameter.is,
  functional = require "sft.nn.functional",
  init = require "sft.nn.initializers",
}

for _, part in ipairs {"linear", "conv", "norm", "sparse", "dropout", "activation", "pooling", "loss",
  "container", "attention"} do
  for name, class in next, (require("sft.nn." .. part)) do nn[name] = class end
end

nn.utils = require "sft.nn.utils"

return nn
