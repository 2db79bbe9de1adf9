-- A progress bar. On a terminal it is one line that is drawn again and again; elsewhere (a pipe, a
-- file) there is a plain line at fixed steps, so that a log stays readable.
--
--   local bar = progress.new {total = 600, every = 100, unit = "tokens"}
--   bar:update(step, {loss = 2.31}, units_done)   -- cheap, may be called at every step
--   bar:line("a line above the bar")
--   bar:finish()

local sft = require "sft"
local args = require "sft.args"

local M = {}

local Bar = {}
Bar.__index, Bar.__name = Bar, "progress"

-- Is this file descriptor a terminal?
function M.is_terminal(fd)
  local isatty = rawget(sft, "_isatty")
  if isatty then return isatty(fd) == true end
  return os.execute(("test -t %d"):format(fd)) == true
end

-- 75 -> "1:15", 3700 -> "1:01:40"
function M.duration(seconds)
  if seconds ~= seconds or seconds > 360000 then return "?" end
  local s = math.floor(seconds + 0.5)
  if s >= 3600 then return ("%d:%02d:%02d"):format(s // 3600, s // 60 % 60, s % 60) end
  return ("%d:%02d"):format(s // 60, s % 60)
end

-- 1234567 -> "1.23M"
function M.quantity(v)
  if v >= 1e6 then return ("%.2fM"):format(v / 1e6) end
  if v >= 1e4 then return ("%.1fk"):format(v / 1e3) end
  return ("%.0f"):format(v)
end

local clock = rawget(sft, "_clock") or rawget(sft, "time") or os.time

local signature = args.options("progress", "total:int, start:int=0, every:int?, unit:str=steps, label:str=step, "
  .. "terminal:any=auto, stream:any?, interval:num=0.1, clock:fn?")

-- `start` is where a resumed run begins; `every`: a line at each multiple of it.
function M.new(options)
  local a = signature(options)
  local bar = setmetatable(a, Bar)
  bar.every = a.every or math.max(1, a.total // 20)
  if a.terminal == "auto" then bar.terminal = M.is_terminal(1) end
  bar.stream = a.stream or io.stdout
  bar.clock = a.clock or clock
  bar.began, bar.drawn, bar.width = bar.clock(), -math.huge, 0
  bar.done = a.start
  return bar
end

local function describe(values)
  local parts = {}
  for _, pair in ipairs(values) do
    parts[#parts + 1] = ("%s %s"):format(pair[1], type(pair[2]) == "number" and ("%.6f"):format(pair[2]) or pair[2])
  end
  return table.concat(parts, "  ")
end

local function rates(bar, step, units)
  local elapsed = bar.clock() - bar.began
  local made = step - bar.start
  if elapsed <= 0 or made <= 0 then return "", "" end
  local rate = ("%s %s/s"):format(M.quantity((units or made) / elapsed), bar.unit)
  return rate, M.duration(elapsed / made * (bar.total - step)) .. " left"
end

local function clear(bar)
  if bar.width > 0 then
    bar.stream:write("\r", (" "):rep(bar.width), "\r")
    bar.width = 0
  end
end

-- The number of steps done; `values` is a list of {name, value} (or a table by name with one key);
-- `units` the number of things (tokens, images) gone through since the start.
function Bar:update(step, values, units)
  self.done = step
  local at_line = step % self.every == 0 or step == self.total
  local now = self.terminal and self.clock() or 0
  if not at_line and not (self.terminal and now - self.drawn >= self.interval) then return end
  if type(values) == "function" then values = values() end
  if values and values[1] == nil then
    local list = {}
    for k, v in next, values do list[#list + 1] = {k, v} end
    table.sort(list, function(a, b) return a[1] < b[1] end)
    values = list
  end
  local rate, left = rates(self, step, units)
  local text = describe(values or {})
  if at_line then
    clear(self)
    local parts = {("%s %d/%d"):format(self.label, step, self.total)}
    for _, part in ipairs {text, rate, left} do
      if part ~= "" then parts[#parts + 1] = part end
    end
    self.stream:write(table.concat(parts, "  "), "\n")
    self.stream:flush()
  end
  if self.terminal and step < self.total then
    local filled = math.floor(24 * step / math.max(1, self.total))
    local line = ("[%s%s] %3d%%  %s  %s  %s"):format(("#"):rep(filled), ("."):rep(24 - filled),
      100 * step // math.max(1, self.total), text, rate, left)
    self.stream:write("\r", line, (" "):rep(math.max(0, self.width - #line)))
    self.stream:flush()
    self.width, self.drawn = #line, now
  end
end

function Bar:line(text)
  clear(self)
  self.stream:write(text, "\n")
end

function Bar:finish()
  clear(self)
  self.stream:flush()
end

return M
