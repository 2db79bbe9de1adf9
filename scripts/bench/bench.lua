-- The driver of the benchmark: one long-lived process of sft and one of PyTorch (worker.lua,
-- worker.py) do the same work in short rounds by turns, so that a busy machine hits both alike and
-- start-up is not counted. The medians of the rounds are compared. Only the ratios mean something.
--
-- PyTorch runs with its allocator tuned to keep and reuse memory on huge pages, as sft's pool does.

local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

require "sft"
local json = require "sft.json"
local options = require "sft.options"
local process = require "process"
local alone = require "alone"
local works = require "works"

local opt = options.parse(arg, {
  usage = "scripts/bench/run [options]",
  about = "Measures sft and PyTorch on the same work in turns.",
  {"filter", "str", nil, "only works whose name contains this (several: separated by |)", value = "TEXT"},
  {"threads", "str", "1,2", "numbers of threads", value = "LIST"},
  {"rounds", "int", 11, "rounds of each side", min = 1},
  {"time", "num", 0.04, "seconds that a round should take", value = "SECONDS"},
  {"limit", "num", 12, "seconds that a work may take in all; at least 3 rounds are run", value = "SECONDS"},
  {"clock", {"wall", "cpu"}, "wall", "cpu counts the time of all threads together: for a machine that is busy"},
  {"json", "str", nil, "also write the results to this file", value = "FILE"},
  {"python", "str", os.getenv("PYTHON") or "python3", "the Python that has torch; 'none': sft alone", value = "NAME"},
  {"list", "flag", nil, "print the names of the works"},
})

local function wanted(name)
  if not opt.filter then return true end
  for part in opt.filter:gmatch("[^|]+") do
    if name:find(part, 1, true) then return true end
  end
  return false
end

if opt.list then
  for _, w in ipairs(works) do print(w.name) end
  for _, w in ipairs(alone.works(works)) do print(w.name) end
  return
end

-- Tables ------------------------------------------------------------------------------------------

local results = {}

-- 0.00000123 -> "1.23 us"
local function duration(s)
  if not s then return "-" end
  for _, unit in ipairs {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}} do
    if s >= unit[1] then return ("%.3g %s"):format(s / unit[1], unit[2]) end
  end
  return ("%.0f ns"):format(s * 1e9)
end

local layout = "%-54s %10s %10s %6s %6s %s"

local function heading(first, second)
  print()
  print(layout:format("work", first, second, "ratio", "floor", ""))
end

local function row(r)
  local verdict = r.error or "-"
  if r.ratio then verdict = r.ratio <= r.floor and "ok" or "MISS" end
  r.verdict = verdict
  results[#results + 1] = r
  print(layout:format(r.name, r.first_text or duration(r.first), r.second_text or duration(r.second),
    r.ratio and ("%.2f"):format(r.ratio) or "-", ("%.2f"):format(r.floor), verdict))
  io.stdout:flush()
end

-- Rounds ------------------------------------------------------------------------------------------

-- Runs until it is known how many repetitions fill a round.
local function calibrate(p)
  p:ask("run 1")
  local n, took = 1, tonumber(p:ask("run 1"))
  while took < opt.time / 4 do
    n = math.max(n * 2, math.min(n * 10, math.floor(n * opt.time / (took + 1e-9))))
    took = tonumber(p:ask("run " .. n))
  end
  return math.max(1, math.floor(n * opt.time / took + 0.5)), took / n
end

-- The medians of rounds by turns; sides are {process, before = function or nil}.
local function by_turns(sides)
  local total = 0
  for _, s in ipairs(sides) do
    if s.before then s.before() end
    local each
    s.n, each = calibrate(s[1])
    s.times = {}
    total = total + s.n * each
  end
  local rounds = math.max(3, math.min(opt.rounds, math.floor(opt.limit / total)))
  for _ = 1, rounds do
    for _, s in ipairs(sides) do
      if s.before then s.before() end
      s.times[#s.times + 1] = tonumber(s[1]:ask("run " .. s.n)) / s.n
    end
  end
  local medians = {}
  for i, s in ipairs(sides) do medians[i] = process.median(s.times) end
  return table.unpack(medians)
end

local sft_worker = ("'%s' '%s/worker.lua'"):format(os.getenv("SFTLUA"), folder)
local torch_worker = ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184:"
  .. "glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864 '%s' '%s/worker.py' 2>/dev/null")
  :format(opt.python, folder)

local ours, theirs

local function start_workers()
  ours = ours or assert(process.start(sft_worker))
  if theirs == nil then theirs = opt.python ~= "none" and process.start(torch_worker) or false end
end

local function drop_dead()
  if ours and ours.dead then ours = nil end
  if theirs and theirs.dead then theirs = nil end
end

local function compare(w, threads)
  start_workers()
  local r = {name = w.name, threads = threads, floor = w.floor}
  local ok, err = pcall(function()
    local sides = {{ours}, theirs and {theirs} or nil}
    for _, s in ipairs(sides) do
      s[1]:ask("threads " .. threads)
      s[1]:ask("clock " .. opt.clock)
      s[1]:ask("open " .. w.name)
    end
    r.first, r.second = by_turns(sides)
    r.ratio = r.second and r.first / r.second
  end)
  if not ok then r.error = tostring(err) end
  for _, p in ipairs {ours, theirs or nil} do
    if not p.dead then pcall(p.ask, p, "close") end
  end
  drop_dead()
  row(r)
end

-- All ---------------------------------------------------------------------------------------------

start_workers()
print(("sft %s, %s"):format(ours:ask("version"),
  theirs and "PyTorch " .. theirs:ask("version") or "no python3 with torch"))

local two = false
for threads in opt.threads:gmatch("%d+") do
  two = two or threads == "2"
  local first = true
  for _, w in ipairs(works) do
    if wanted(w.name) then
      if first then heading("sft", "PyTorch") print(("-- %s thread(s)"):format(threads)) end
      first = false
      compare(w, tonumber(threads))
    end
  end
end
if theirs then theirs:stop() end

local first = true
for _, w in ipairs(alone.works(works)) do
  if wanted(w.name) and (two or not w.needs_two) then
    if first then heading("measured", "against") end
    first = false
    if not ours then start_workers() end
    local r = {name = w.name, floor = w.floor}
    ours:ask("clock wall")
    local ok, err = pcall(w.measure, r, {worker = ours, by_turns = by_turns, folder = folder})
    if not ok then r.error = tostring(err) end
    drop_dead()
    row(r)
  end
end
if ours then ours:stop() end

local missed = 0
for _, r in ipairs(results) do
  if r.verdict ~= "ok" and r.verdict ~= "-" then missed = missed + 1 end
end
print(("\n%d of %d rows within their floor"):format(#results - missed, #results))
if opt.json then
  local file = assert(io.open(opt.json, "w"))
  assert(file:write(json.encode(results), "\n"))
  file:close()
end
