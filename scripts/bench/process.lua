-- Child processes of the benchmark that answer line by line.

local M = {}

local Process = {}
Process.__index = Process

local function output_of(command)
  local pipe = io.popen(command)
  local text = pipe:read("a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end

M.output_of = output_of

-- A worker that has said "ready"; nil where it does not start.
function M.start(command)
  local path = output_of("mktemp -u")
  assert(os.execute("mkfifo " .. path))
  local self = setmetatable({}, Process)
  self.input = io.popen(("%s > %s"):format(command, path), "w")
  self.output = io.open(path)
  os.remove(path)
  if self.output:read("l") ~= "ready" then
    self:stop()
    return nil, "the process does not start: " .. command
  end
  return self
end

-- Raises what the worker reports as an error.
function Process:ask(line)
  self.input:write(line, "\n")
  self.input:flush()
  local answer = self.output:read("l")
  if not answer then
    self.dead = true
    self:stop()
    error("the process died", 0)
  end
  if answer:sub(1, 6) == "error " then error(answer:sub(7), 0) end
  return answer
end

function Process:stop()
  self.dead = true
  self.input:close()
  self.output:close()
end

function M.median(list)
  table.sort(list)
  local n = #list
  return (list[(n + 1) // 2] + list[n // 2 + 1]) / 2
end

return M
