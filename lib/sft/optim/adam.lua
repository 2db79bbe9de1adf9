-- Adam (https://arxiv.org/abs/1412.6980) and AdamW, which decays the weights apart from the
-- gradient (https://arxiv.org/abs/1711.05101), as in torch.optim.

local sft = require "sft"
local args = require "sft.args"
local optimizer = require "sft.optim.optimizer"

local function check(self, group)
  optimizer.not_negative(self, group, "lr", "eps", "weight_decay")
  local betas = group.betas
  if type(betas) ~= "table" or #betas ~= 2 then
    args.fail("%s: betas must be a list of two numbers, got %s", self._name, args.kind(betas))
  end
  for i = 1, 2 do
    if type(betas[i]) ~= "number" or not (betas[i] >= 0 and betas[i] < 1) then
      args.fail("%s: betas[%d] must be within 0 to 1, got %s", self._name, i, args.kind(betas[i]))
    end
  end
end

local names, amsgrad_names = {"exp_avg", "exp_avg_sq"}, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
local none = {}

local function make(name, default_decay, decoupled)
  local function update(self, group)
    local buckets = optimizer.buckets(self, group, function(st) return st.step end,
      group.amsgrad and amsgrad_names or names, function(p, st)
        if not st.step then
          st.step, st.exp_avg, st.exp_avg_sq = 0, sft.zeros_like(p), sft.zeros_like(p)
        end
        if group.amsgrad and not st.max_exp_avg_sq then st.max_exp_avg_sq = sft.zeros_like(p) end
      end)
    for _, b in ipairs(buckets) do
      local step = b.key + 1
      for _, st in ipairs(b.states) do st.step = step end
      sft._fused_adam_(b.params, b.grads, b.exp_avg, b.exp_avg_sq, b.max_exp_avg_sq or none, step, group.lr,
        group.betas[1], group.betas[2], group.eps, group.weight_decay, decoupled, group.amsgrad, group.maximize)
    end
  end
  return optimizer.define(name, ("lr:num=1e-3, betas?, eps:num=1e-8, weight_decay:num=%s, "
    .. "amsgrad:bool=false, *, maximize:bool=false"):format(default_decay), check, update,
    function(a) a.betas = a.betas or {0.9, 0.999} end)
end

return {Adam = make("Adam", "0.0", false), AdamW = make("AdamW", "0.01", true)}
