-- garbage.lua MODE WAY: 10,000 sums of 4 MB. MODE is alone, tables (beside 200,000 live tables),
-- coroutine, or stopped (the collector is); WAY is memory (each result is garbage) or out (one
-- result is written again and again). Prints the peak of the process's memory and the seconds.

local sft = require "sft"
local mode, way = arg[1], arg[2]

local function peak()
  local file <close> = assert(io.open("/proc/self/status"))
  return tonumber(file:read("a"):match("VmHWM:%s*(%d+)")) * 1024
end

local keep = {}   -- luacheck: ignore
if mode == "tables" then
  for i = 1, 200000 do keep[i] = {i} end   -- luacheck: ignore
end
if mode == "stopped" then collectgarbage("stop") end

local a, b = sft.rand(1 << 20), sft.rand(1 << 20)

local function loop()
  if way == "out" then
    local c = sft.empty(1 << 20)
    for _ = 1, 10000 do sft.add(a, b, {out = c}) end
  else
    for _ = 1, 10000 do local c = a + b end   -- luacheck: ignore
  end
end

local start = sft._clock()
if mode == "coroutine" then coroutine.wrap(loop)() else loop() end
print(("%d %.6f"):format(peak(), sft._clock() - start))
