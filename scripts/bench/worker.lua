-- One long-lived process of sft. Commands, one a line on stdin, each answered by a line on stdout:
--
--   version | threads N | open WORK | run N (answers seconds) | close

local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

local sft = require "sft"
local by_name = {}
for _, w in ipairs(require "works") do by_name[w.name] = w end

local run

local commands = {
  version = function() return sft.version end,
  threads = function(n) sft.set_num_threads(tonumber(n)) end,
  open = function(name) run = by_name[name].setup() end,
  run = function(n)
    local start = sft._clock()
    run(tonumber(n))
    return ("%.9f"):format(sft._clock() - start)
  end,
  close = function()
    run = nil
    collectgarbage()
    collectgarbage()
  end,
}

io.stdout:setvbuf("line")
print "ready"
for line in io.lines() do
  local word, rest = line:match("^(%S+) ?(.*)$")
  local ok, result = pcall(commands[word], rest)
  if ok then
    print(result or "ok")
  else
    print("error " .. tostring(result):gsub("\n.*", ""))
  end
end
