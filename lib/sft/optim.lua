-- sft.optim: optimizers and learning rate schedules.

local optim = {}

for _, part in ipairs {"sgd", "adam", "rmsprop"} do
  for name, class in next, (require("sft.optim." .. part)) do optim[name] = class end
end

optim.lr_scheduler = require "sft.optim.lr_scheduler"

return optim
