-- nn.functional: the ops that PyTorch keeps in torch.nn.functional. They are the engine's; names
-- that are found in torch and torch.nn.functional alike (softmax), and the in-place forms (relu_),
-- come from sft.

local sft = require "sft"

local engine, methods = sft._functional, sft._methods

return setmetatable({}, {
  __name = "sft.nn.functional",
  __index = function(F, name)
    local op = engine[name]
    if op == nil then op = rawget(sft, name) end
    if op == nil then op = methods[name] end
    if type(op) ~= "function" then return nil end
    rawset(F, name, op)
    return op
  end,
})
