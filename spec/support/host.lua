-- What the specs of the interpreter share: running command lines, and talking to the REPL through
-- a pseudo-terminal.

local host = {}

host.sftlua = os.getenv("SFTLUA") or "build/sftlua"
host.build = os.getenv("SFT_BUILD_DIR") or "build"
host.lua = "lua5.4"
-- A build with sanitizers starts slower and can't be loaded into another process.
host.sanitized = host.build:find("asan") ~= nil or host.build:find("tsan") ~= nil

local function read_all(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read("a")
  f:close()
  return s
end

function host.write_file(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

-- The arguments as one string that sh takes apart again as they are.
function host.quote(...)
  local parts = {}
  for i, a in ipairs {...} do
    parts[i] = "'" .. tostring(a):gsub("'", "'\\''") .. "'"
  end
  return table.concat(parts, " ")
end

-- Runs a shell command; returns {out =, err =, code =}. A death by signal N is the code 128 + N.
function host.sh(command, stdin)
  local out, err, input = os.tmpname(), os.tmpname(), os.tmpname()
  host.write_file(input, stdin or "")
  local _, how, code = os.execute(("{ %s\n} >%s 2>%s <%s"):format(command, out, err, input))
  local result = {out = read_all(out), err = read_all(err), code = code}
  if how == "signal" then result.code = 128 + code end
  os.remove(out)
  os.remove(err)
  os.remove(input)
  return result
end

-- An empty folder for a test's files.
function host.folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  return path
end

local has_system, system = pcall(require, "system")

function host.sleep(seconds)
  if has_system then
    system.sleep(seconds)
  else
    os.execute("sleep " .. seconds)
  end
end

local function now()
  return has_system and system.gettime() or os.time()
end

-- ---- a program at a pseudo-terminal (util-linux's script) ----

local Terminal = {}
Terminal.__index = Terminal

-- Starts a command at a terminal. `env` is put before it, in sh's words.
function host.terminal(command, env)
  local self = setmetatable({folder = host.folder(), at = 1}, Terminal)
  self.log = self.folder .. "/log"
  host.write_file(self.log, "")
  -- the shell outlives a Ctrl-C, to tell the exit status
  local inner = ("trap : INT; echo $$ > %s/pid; %s %s; echo $? > %s/code")
    :format(self.folder, env or "", command, self.folder)
  self.pipe = assert(io.popen(("exec script -qfc %s %s/log >/dev/null 2>&1")
    :format(host.quote(inner), self.folder), "w"))
  self.pipe:setvbuf("no")
  return self
end

-- A line editor prints its prompt before it takes the terminal's keys over: a control key that came in
-- between would be the terminal's.
function Terminal:send(text)
  if text:find("^%c") then host.sleep(0.3) end
  self.pipe:write(text)
  return self
end

function Terminal:output()
  return (read_all(self.log):gsub("\r", ""))
end

-- Waits for a plain text after what was waited for before; returns what came up to its end.
function Terminal:expect(text, seconds)
  local deadline = now() + (seconds or 20)
  repeat
    local all = self:output()
    local _, stop = all:find(text, self.at, true)
    if stop then
      local seen = all:sub(self.at, stop)
      self.at = stop + 1
      return seen
    end
    host.sleep(0.02)
  until now() > deadline
  error(("no %q in %q"):format(text, self:output():sub(self.at)), 2)
end

-- Sends a line and waits for the next prompt; returns what was printed between.
function Terminal:line(text, prompt)
  self:send(text .. "\n")
  return self:expect(prompt or "\n> ")
end

-- Waits for the end; returns the exit status.
function Terminal:finish(seconds)
  local deadline = now() + (seconds or 20)
  local code
  repeat
    local f = io.open(self.folder .. "/code")
    code = f and f:read("n")
    if f then f:close() end
    if not code then host.sleep(0.02) end
  until code or now() > deadline
  self:close()
  return code
end

-- Ends whatever still runs there.
function Terminal:close()
  if not self.pipe then return end
  local f = io.open(self.folder .. "/pid")
  local pid = f and f:read("n")
  if f then f:close() end
  if pid then os.execute(("kill -KILL -%d 2>/dev/null"):format(pid)) end
  self.pipe:close()
  self.pipe = nil
  os.execute("rm -rf " .. self.folder)
end

return host
