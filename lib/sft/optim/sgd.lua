-- Stochastic gradient descent with momentum (plain or Nesterov's) and weight decay, as torch.optim.SGD.

local sft = require "sft"
local args = require "sft.args"
local optimizer = require "sft.optim.optimizer"

local function check(self, group)
  optimizer.not_negative(self, group, "lr", "momentum", "weight_decay")
  if group.nesterov and (group.momentum <= 0 or group.dampening ~= 0) then
    args.fail("SGD: nesterov needs a momentum above 0 and no dampening")
  end
end

local none = {}

local function update(self, group)
  local with_momentum = group.momentum ~= 0
  local buckets = optimizer.buckets(self, group, function(st) return st.momentum_buffer == nil or st.fresh == true end,
    with_momentum and {"momentum_buffer"} or none, function(p, st)
      if with_momentum and not st.momentum_buffer then
        st.momentum_buffer, st.fresh = sft.zeros_like(p), true
      end
    end)
  for _, b in ipairs(buckets) do
    sft._fused_sgd_(b.params, b.grads, b.momentum_buffer or none, group.lr, group.momentum, group.dampening,
      group.weight_decay, group.nesterov, group.maximize, b.key)
    for _, st in ipairs(b.states) do st.fresh = nil end
  end
end

return {
  SGD = optimizer.define("SGD", "lr:num=1e-3, momentum:num=0, dampening:num=0, weight_decay:num=0, "
    .. "nesterov:bool=false, *, maximize:bool=false", check, update),
}
