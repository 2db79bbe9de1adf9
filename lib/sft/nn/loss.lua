-- Losses as modules: loss(input, target), reduced by "mean", "sum" or "none". Class labels count
-- from 1.

local args = require "sft.args"
local module = require "sft.nn.module"
local F = require "sft.nn.functional"

local M = {}

-- `text`: what the constructor takes beside reduction; its tensors become buffers.
local function loss(name, op, text, forward)
  local class = module.class(name)
  local signature = args.signature(name, (text ~= "" and text .. ", " or "") .. "reduction:str=mean")
  local sft = require "sft"
  function class:init(...)
    local a = signature(...)
    if a.reduction ~= "mean" and a.reduction ~= "sum" and a.reduction ~= "none"
      and not (a.reduction == "batchmean" and name == "KLDivLoss") then
      args.fail('%s: reduction must be "mean", "sum" or "none", got "%s"', name, a.reduction)
    end
    for k, v in next, a do
      if sft.is_tensor(v) then self:register_buffer(k, v) else self[k] = v end
    end
  end
  class.forward = forward or function(self, input, target)
    return F[op](input, target, {reduction = self.reduction})
  end
  M[name] = class
end

loss("MSELoss", "mse_loss", "")
loss("L1Loss", "l1_loss", "")

loss("SmoothL1Loss", nil, "beta:num=1.0", function(self, input, target)
  return F.smooth_l1_loss(input, target, {reduction = self.reduction, beta = self.beta})
end)

loss("HuberLoss", nil, "delta:num=1.0", function(self, input, target)
  return F.huber_loss(input, target, {reduction = self.reduction, delta = self.delta})
end)

loss("CrossEntropyLoss", nil, "weight:tensor?, ignore_index:int=-100, label_smoothing:num=0.0",
  function(self, input, target)
    return F.cross_entropy(input, target, {weight = self.weight, ignore_index = self.ignore_index,
      reduction = self.reduction, label_smoothing = self.label_smoothing})
  end)

loss("NLLLoss", nil, "weight:tensor?, ignore_index:int=-100", function(self, input, target)
  return F.nll_loss(input, target, {weight = self.weight, ignore_index = self.ignore_index,
    reduction = self.reduction})
end)

loss("BCELoss", nil, "weight:tensor?", function(self, input, target)
  return F.binary_cross_entropy(input, target, {weight = self.weight, reduction = self.reduction})
end)

loss("BCEWithLogitsLoss", nil, "weight:tensor?, pos_weight:tensor?", function(self, input, target)
  return F.binary_cross_entropy_with_logits(input, target, {weight = self.weight,
    pos_weight = self.pos_weight, reduction = self.reduction})
end)

loss("KLDivLoss", nil, "log_target:bool=false", function(self, input, target)
  return F.kl_div(input, target, {reduction = self.reduction, log_target = self.log_target})
end)

return M
