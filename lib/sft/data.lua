-- sft.data: datasets, samplers, the loader and readers of files.

local data = {}

for _, part in ipairs {"dataset", "sampler", "loader", "readers"} do
  for name, value in next, (require("sft.data." .. part)) do data[name] = value end
end

return data
