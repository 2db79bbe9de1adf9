-- Dropout: zeroes elements with probability p while training, and scales the others by 1 / (1 - p).

local args = require "sft.args"
local module = require "sft.nn.module"
local F = require "sft.nn.functional"

local Dropout = module.class("Dropout")
local signature = args.signature("Dropout", "p:num=0.5, inplace:bool=false")

function Dropout:init(...)
  local a = signature(...)
  if not (a.p >= 0 and a.p <= 1) then args.fail("Dropout: p must be within 0 to 1, got %g", a.p) end
  self.p, self.inplace = a.p, a.inplace
end

function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return F.dropout(x, self.p, true)
end

function Dropout:extra_repr()
  return ("p=%g"):format(self.p)
end

return {Dropout = Dropout}
