-- A training step with the Lua part: for host_alloc_failure --script spec/fuzz/step_nn.lua.
local sft = require "sft"
local nn = sft.nn
sft.manual_seed(3)
local model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
local opt = sft.optim.Adam(model:parameters(), {lr = 0.1})
local set = sft.data.TensorDataset(sft.arange(1, 13):float():reshape(4, 3) / 12, sft.tensor {1, 2, 2, 1})
local total = 0
for _ = 1, 2 do
  for x, y in sft.data.DataLoader(set, {batch_size = 2}):iter() do
    opt:zero_grad()
    local loss = nn.functional.cross_entropy(model(x), y)
    loss:backward()
    nn.utils.clip_grad_norm_(model:parameters(), 1)
    opt:step()
    total = total * 2 + loss:item()
  end
end
assert(#tostring(model) > 10)
return total
