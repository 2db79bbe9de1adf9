-- sftlua as a process: odd surroundings, output that can't be written, C modules, Ctrl-C.

local host = require "spec.support.host"
local quoted = host.quote(host.sftlua)

local function sftlua(args, stdin) return host.sh(quoted .. " " .. args, stdin) end

describe("surroundings", function()
  it("may have no environment", function()
    local r = host.sh("env -i " .. quoted .. [[ -e "print('ok', os.getenv 'HOME')"]])
    assert.same({out = "ok\tnil\n", err = "", code = 0}, r)
  end)

  it("may be a folder that is gone", function()
    local folder = host.folder()
    local path = host.sh("readlink -f " .. quoted).out:gsub("\n", "")
    local r = host.sh(("cd %s && rmdir %s && %s -e 'print(1)'"):format(folder, folder, host.quote(path)))
    assert.same({out = "1\n", err = "", code = 0}, r)
  end)

  it("may belong to somebody without a home", function()
    if host.sh("[ $(id -u) = 0 ] && command -v setpriv").code ~= 0 then return pending("takes root") end
    local folder = host.folder()
    host.sh(("cp %s %s/sftlua && chmod -R a+rX %s"):format(quoted, folder, folder))
    local r = host.sh(("setpriv --reuid=65534 --regid=65534 --clear-groups env -i %s/sftlua -e 'print(1)'")
      :format(folder))
    os.execute("rm -rf " .. folder)
    assert.same({out = "1\n", err = "", code = 0}, r)
  end)
end)

describe("output that can't be written", function()
  it("fails the process when the device is full", function()
    local r = sftlua("-e 'print(1)' >/dev/full")
    assert.equal(1, r.code)
    assert.truthy(r.err:find("cannot write to stdout", 1, true))
  end)

  it("fails the process when stdout is closed", function()
    local r = sftlua("-e 'print(1)' >&-")
    assert.equal(1, r.code)
    assert.truthy(r.err:find("cannot write to stdout", 1, true))
  end)

  it("is no failure when nothing was to be written", function()
    assert.same({out = "", err = "", code = 0}, sftlua("-e '' >&-"))
    assert.same({out = "", err = "", code = 0}, sftlua("-e '' <&- >&- 2>&-"))
  end)

  it("never ends up in a file that took the number of a closed stream", function()
    local name = os.tmpname()
    local r = sftlua(([[-e 'local f = io.open("%s", "w") print("stray") f:write("mine") f:close()' >&-]]):format(name))
    local f = assert(io.open(name))
    assert.equal("mine", f:read("a"))
    f:close()
    os.remove(name)
    assert.equal(1, r.code)
  end)

  it("keeps the exit code of a script that fails anyway non-zero", function()
    assert.not_equal(0, sftlua("-e 'print(1) os.exit(0)' >/dev/full").code)
    assert.not_equal(0, sftlua("-e 'print(1) os.exit(3)' >/dev/full").code)
  end)

  it("ends quietly with a reader that went away", function()
    local r = host.sh(quoted .. " -e 'for i = 1, 1e5 do print(i) end' | head -n 1")
    assert.equal("1\n", r.out)
  end)
end)

describe("C modules built for a stock Lua", function()
  it("load: lua-cjson", function()
    local r = sftlua([[-e 'local j = require "cjson" print(j.encode{1, 2, {a = true}}, j.decode("[\"x\"]")[1])']])
    assert.same({out = '[1,2,{"a":true}]\tx\n', err = "", code = 0}, r)
  end)

  it("load: lfs", function()
    local r = sftlua([[-e 'print(require("lfs").attributes(".", "mode"))']])
    assert.same({out = "directory\n", err = "", code = 0}, r)
  end)
end)

-- Starts a script that says when it is ready, sends it signals, returns the outcome.
local function interrupted(script, signals)
  local folder = host.folder()
  host.write_file(folder .. "/s.lua", script)
  local r = host.sh(([[
    %s %s/s.lua >%s/out & pid=$!
    n=0; while ! grep -qs ready %s/out && [ $n -lt 500 ]; do sleep 0.02; n=$((n + 1)); done
    %s
    wait $pid; code=$?
    cat %s/out; exit $code]]):format(quoted, folder, folder, folder, signals, folder))
  os.execute("rm -rf " .. folder)
  return r
end

local ready = "print('ready') io.stdout:flush() "

describe("Ctrl-C", function()
  it("is an error with a traceback", function()
    local r = interrupted(ready .. "\nwhile true do end", "kill -INT $pid")
    assert.equal(1, r.code)
    assert.truthy(r.err:find("interrupted!\nstack traceback:", 1, true))
  end)

  it("can be caught, and raises it once", function()
    local r = interrupted(ready .. [[
      print(pcall(function() while true do end end))
      for _ = 1, 1e6 do end
      print "goes on"]], "kill -INT $pid")
    assert.same({out = "ready\nfalse\tinterrupted!\ngoes on\n", err = "", code = 0}, r)
  end)

  it("works any number of times", function()
    local r = interrupted([[
      for i = 1, 3 do
        print(pcall(function()
          if i == 1 then print("ready") io.stdout:flush() end
          while true do end
        end))
      end]], "kill -INT $pid; sleep 1.2; kill -INT $pid; sleep 1.2; kill -INT $pid")
    assert.equal(0, r.code)
    assert.equal(3, select(2, r.out:gsub("false\t[^\n]*interrupted!", "")))
  end)

  it("reaches a coroutine", function()
    local r = interrupted([[
      local co = coroutine.create(function()
        print("ready") io.stdout:flush()
        while true do end
      end)
      print(coroutine.resume(co))
      print(coroutine.status(co))]], "kill -INT $pid")
    assert.equal(0, r.code)
    assert.truthy(r.out:find("ready\nfalse\t.*interrupted!\ndead\n"))
  end)

  it("reaches a coroutine in a coroutine, and the outer one after it", function()
    local r = interrupted([[
      local f = coroutine.wrap(function()
        local g = coroutine.wrap(function()
          coroutine.yield()
          print(pcall(function() print("ready") io.stdout:flush() while true do end end))
        end)
        g()
        g()
        coroutine.yield("still here")
      end)
      print(f())]], "kill -INT $pid")
    assert.equal(0, r.code)
    assert.truthy(r.out:find("interrupted!\nstill here\n"))
  end)

  it("ends the process when it comes twice within a second", function()
    local r = interrupted(ready .. "while true do pcall(function() while true do end end) end",
      "kill -INT $pid; sleep 0.2; kill -INT $pid")
    assert.equal(130, r.code)
  end)
end)
