-- One long-lived process of sft. Commands, one a line on stdin, each answered by a line on stdout:
--
--   version | threads N | clock wall or cpu | open WORK | run N (answers seconds) | close

local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

local sft = require "sft"
local by_name = {}
for _, w in ipairs(require "works") do by_name[w.name] = w end

local run
local clock = sft._clock

local commands = {
  version = function() return sft.version end,
  threads = function(n) sft.set_num_threads(tonumber(n)) end,
  clock = function(name) clock = name == "cpu" and os.clock or sft._clock end,
  open = function(name) run = by_name[name].setup() end,
  run = function(n)
    local start = clock()
    run(tonumber(n))
    return ("%.9f"):format(clock() - start)
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
