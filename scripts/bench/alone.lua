-- What sft is measured at without PyTorch: beside a busy process, at its start, and in loops that
-- leave their garbage to the collector. Each work fills in a row: first, second, ratio.

local sft = require "sft"
local process = require "process"

local M = {}

local MB = 1 << 20

-- 2 threads beside one busy process, against 1 thread on a free machine. (Where two "cores" are
-- halves of one, a thread beside a busy process is slower than a lone one by that alone.)
local function beside_busy(name)
  return {name = name .. ", 2 threads beside a busy process", floor = 1.2, needs_two = true,
    measure = function(r, tools)
      local pipe = io.popen("exec sh -c 'echo $$; while :; do :; done'")
      local pid = pipe:read("l")
      local function signal(s) os.execute(("kill -%s %s"):format(s, pid)) end
      local function mode(threads, s)
        return function()
          signal(s)
          tools.worker:ask("threads " .. threads)
        end
      end
      local ok, err = pcall(function()
        tools.worker:ask("open " .. name)
        r.first, r.second = tools.by_turns {{tools.worker, before = mode(2, "CONT")},
          {tools.worker, before = mode(1, "STOP")}}
        tools.worker:ask("close")
      end)
      signal("KILL")
      pipe:close()
      assert(ok, err)
      r.ratio = r.first / r.second
    end}
end

local function seconds_of(command, times)
  local start = sft._clock()
  os.execute(("i=0; while [ $i -lt %d ]; do %s; i=$((i + 1)); done"):format(times, command))
  return (sft._clock() - start) / times
end

-- Our interpreter's start against lua5.4's.
local start = {name = 'start of sftlua -e ""', floor = 3, measure = function(r)
  local command = {("'%s' -e ''"):format(os.getenv("SFTLUA")), "lua5.4 -e ''"}
  local times = {{}, {}}
  for _ = 1, 15 do
    for side = 1, 2 do table.insert(times[side], seconds_of(command[side], 10)) end
  end
  r.first, r.second = process.median(times[1]), process.median(times[2])
  r.ratio = r.first / r.second
end}

local resident = {name = 'resident memory of sftlua -e "", in 10 MB', floor = 1, measure = function(r)
  local text = process.output_of(([['%s' -e 'io.write(io.open("/proc/self/status"):read("a"))']])
    :format(os.getenv("SFTLUA")))
  local kb = tonumber(text:match("VmRSS:%s*(%d+)"))
  r.ratio = kb / 1024 / 10
  r.first_text, r.second_text = ("%.1f MB"):format(kb / 1024), "10 MB"
end}

-- garbage.lua in a process of its own.
local function garbage(mode)
  local function run(folder, option)
    local text = process.output_of(("'%s' '%s/garbage.lua' %s %s"):format(os.getenv("SFTLUA"), folder, mode, option))
    return text:match("^(%d+) ([%d.]+)$")
  end
  local label = "10,000 x local c = a + b of 4 MB, " .. mode
  return {name = label .. ": memory", floor = 1, measure = function(r, tools)
    local bytes = assert(run(tools.folder, "memory"))
    r.ratio = bytes / (64 * MB)
    r.first_text, r.second_text = ("%.1f MB"):format(bytes / MB), "64 MB"
  end}, {name = label .. ": time against out =", floor = 1.3, measure = function(r, tools)
    local times = {{}, {}}
    for _ = 1, 3 do
      table.insert(times[1], tonumber((select(2, assert(run(tools.folder, "memory"))))))
      table.insert(times[2], tonumber((select(2, assert(run(tools.folder, "out"))))))
    end
    r.first, r.second = process.median(times[1]), process.median(times[2])
    r.ratio = r.first / r.second
  end}
end

-- `works` are those of works.lua.
function M.works(works)
  local list = {}
  for _, w in ipairs(works) do
    if w.name:find("^step of ") then list[#list + 1] = beside_busy(w.name) end
  end
  list[#list + 1], list[#list + 2] = start, resident
  for _, mode in ipairs {"alone", "tables", "coroutine", "stopped"} do
    local n = #list
    list[n + 1], list[n + 2] = garbage(mode)
  end
  return list
end

return M
