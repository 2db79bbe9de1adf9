-- RMSprop and Adagrad, composed of the engine's ops; after torch.optim.

local sft = require "sft"
local optimizer = require "sft.optim.optimizer"

-- The gradient with the weight decay in it.
local function decayed(group, p, g)
  if group.maximize then g = -g end
  if group.weight_decay ~= 0 then g = g + p * group.weight_decay end
  return g
end

local function buckets(self, group, keys, init)
  return optimizer.buckets(self, group, function() return 0 end, keys, init)
end

local function rmsprop(self, group)
  local keys = {"square_avg"}
  if group.centered then keys[#keys + 1] = "grad_avg" end
  if group.momentum ~= 0 then keys[#keys + 1] = "momentum_buffer" end
  local function init(p, st)
    st.step = st.step or 0
    for _, k in ipairs(keys) do st[k] = st[k] or sft.zeros_like(p) end
  end
  for _, b in ipairs(buckets(self, group, keys, init)) do
    for i, p in ipairs(b.params) do
      local st, g = b.states[i], decayed(group, p, b.grads[i])
      st.step = st.step + 1
      st.square_avg:mul_(group.alpha):add_(g * g * (1 - group.alpha))
      local avg = st.square_avg
      if group.centered then
        st.grad_avg:mul_(group.alpha):add_(g * (1 - group.alpha))
        avg = avg - st.grad_avg * st.grad_avg
      end
      local update = g / (avg:sqrt() + group.eps)
      if group.momentum ~= 0 then
        st.momentum_buffer:mul_(group.momentum):add_(update)
        update = st.momentum_buffer
      end
      p:sub_(update * group.lr)
    end
  end
end

local function adagrad(self, group)
  local function init(p, st)
    st.step = st.step or 0
    st.sum = st.sum or sft.full_like(p, group.initial_accumulator_value)
  end
  for _, b in ipairs(buckets(self, group, {"sum"}, init)) do
    for i, p in ipairs(b.params) do
      local st, g = b.states[i], decayed(group, p, b.grads[i])
      st.step = st.step + 1
      st.sum:add_(g * g)
      local lr = group.lr / (1 + (st.step - 1) * group.lr_decay)
      p:sub_(g / (st.sum:sqrt() + group.eps) * lr)
    end
  end
end

return {
  RMSprop = optimizer.define("RMSprop", "lr:num=0.01, alpha:num=0.99, eps:num=1e-8, weight_decay:num=0, "
    .. "momentum:num=0, centered:bool=false, *, maximize:bool=false", function(self, group)
      optimizer.not_negative(self, group, "lr", "alpha", "eps", "weight_decay", "momentum")
    end, rmsprop),
  Adagrad = optimizer.define("Adagrad", "lr:num=0.01, lr_decay:num=0, weight_decay:num=0, "
    .. "initial_accumulator_value:num=0, eps:num=1e-10, *, maximize:bool=false", function(self, group)
      optimizer.not_negative(self, group, "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    end, adagrad),
}
