-- `require "sft"` in sftlua, in a stock lua5.4, and from an installation.

local host = require "spec.support.host"
local build = io.popen("readlink -f " .. host.quote(host.build)):read("l")
local sftlua = host.quote(build .. "/sftlua")
local probe = [[-e 'local sft = require "sft" print(sft.ones(2, 3):sum():item(), type(sft.nn.Linear))']]
local answer = {out = "6.0\tfunction\n", err = "", code = 0}

-- Classes are tables that can be called, or functions: either is fine here.
local function run(command)
  local r = host.sh(command)
  r.out = r.out:gsub("\ttable\n", "\tfunction\n")
  return r
end

describe("the module in sftlua", function()
  it("is there, from any folder", function()
    assert.same(answer, run(("cd / && %s %s"):format(sftlua, probe)))
  end)

  it("is there with an empty environment, and with -E", function()
    assert.same(answer, run(("cd / && env -i %s %s"):format(sftlua, probe)))
    assert.same(answer, run(("cd / && LUA_PATH=x LUA_CPATH=y %s -E %s"):format(sftlua, probe)))
  end)

  it("makes no global", function()
    local r = host.sh(sftlua .. [[ -e 'local old = {} for k in pairs(_G) do old[k] = true end
      print(sft, require "sft" == package.loaded.sft)
      for k in pairs(_G) do if not old[k] then print("new", k) end end']])
    assert.same({out = "nil\ttrue\n", err = "", code = 0}, r)
  end)

  it("changes neither package.path nor what require says of a module that is not there", function()
    local r = host.sh(sftlua .. [[ -e 'local p, c, _, e = package.path, package.cpath, pcall(require, "nowhere")
      require "sft" local _, f = pcall(require, "nowhere")
      print(p == package.path, c == package.cpath, e == f)']])
    assert.same({out = "true\ttrue\ttrue\n", err = "", code = 0}, r)
  end)

  it("is the global sft of the REPL", function()
    local r = host.sh(sftlua .. " -i", "sft == require 'sft'\nsft.ones(2):sum():item()\n")
    assert.equal("", r.err)
    assert.truthy(r.out:find("\ntrue\n", 1, true))
    assert.truthy(r.out:find("\n2.0\n", 1, true))
  end)

  it("says nothing of itself when it is loaded", function()
    assert.same({out = "", err = "", code = 0}, host.sh(sftlua .. [[ -e 'require "sft"']]))
  end)

  it("diagnoses", function()
    local r = host.sh(sftlua .. " --diagnose")
    assert.equal("", r.err)
    assert.equal(0, r.code)
    assert.truthy(#r.out > 20)
  end)

  it("is there in a busy REPL, whose Ctrl-C stops kernels and keeps variables", function()
    local t = host.terminal(sftlua, "TERM=xterm HOME=/nonexistent")
    t:expect("> ")
    t:line("local x = sft.ones(600, 600)")
    for _ = 1, 2 do
      t:send("print 'go' while true do x:matmul(x) end\n")
      t:expect("\ngo")
      host.sleep(0.3)
      t:send("\3")
      t:expect("interrupted!")
      t:expect("> ")
    end
    t:line("x:sum():item()", "360000.0")
    t:expect("> ")
    t:send("x:reshap\t")
    t:expect("e")
    t:send("\21\4")
    assert.equal(0, t:finish())
  end)
end)

describe("a kernel and Ctrl-C in a script", function()
  it("raises one error, that pcall catches", function()
    local r = host.sh(([[
      %s -e 'local sft = require "sft"
        local x = sft.ones(1500, 1500)
        print(pcall(function() for _ = 1, 1000 do x:matmul(x) end end))
        local y = 0
        for i = 1, 1e6 do y = y + i end
        print(x:sum():item())' >$OUT & pid=$!
      sleep 1.5; kill -INT $pid; wait $pid; code=$?; cat $OUT; rm -f $OUT; exit $code]])
      :gsub("$OUT", os.tmpname()):format(sftlua))
    assert.equal("", r.err)
    assert.truthy(r.out:find("^false\t[^\n]*interrupted!\n2250000.0\n$"))
    assert.equal(0, r.code)
  end)
end)

if host.sanitized then return end -- what follows would take the sanitizer's library preloaded

describe("the module in a stock lua5.4", function()
  it("works", function()
    assert.same(answer, run(("cd / && LUA_CPATH='%s/?.so' lua5.4 %s"):format(build, probe)))
  end)

  it("ends well in any way", function()
    for _, ending in ipairs {"", "os.exit(0)", "os.exit(0, true)", "collectgarbage() os.exit(0, true)"} do
      local r = host.sh(([[LUA_CPATH='%s/?.so' lua5.4 -e 'local sft = require "sft"
        local x = sft.ones(3, 3, {requires_grad = true}) g = (x * x):sum() %s']]):format(build, ending))
      assert.same({out = "", err = "", code = 0}, r)
    end
  end)
end)

describe("an installation", function()
  local prefix

  setup(function()
    prefix = host.folder()
    local r = host.sh(("cmake --install %s --prefix %s"):format(host.quote(build), prefix))
    assert.equal(0, r.code)
  end)

  teardown(function() os.execute("rm -rf " .. prefix) end)

  it("has a sftlua that finds its Lua files from any folder, and moved", function()
    local moved = prefix .. "/else where"
    host.sh(("mkdir '%s' && cd %s && cp -r bin lib share '%s'"):format(moved, prefix, moved))
    local from = [[ -e 'print(debug.getinfo(require("sft").nn.Linear.init).source)']]
    for _, p in ipairs {prefix, moved} do
      assert.same(answer, run(("cd / && %s %s"):format(host.quote(p .. "/bin/sftlua"), probe)))
      local r = host.sh(("cd / && %s %s"):format(host.quote(p .. "/bin/sftlua"), from))
      assert.truthy(r.out:find("@" .. p .. "/share/sft/lib/sft/", 1, true), r.out .. r.err)
    end
  end)

  it("has a module for lua5.4", function()
    assert.same(answer, run(("cd / && LUA_CPATH='%s/lib/lua/5.4/?.so' lua5.4 %s"):format(prefix, probe)))
  end)

  it("has what pkg-config and a C compiler need", function()
    host.write_file(prefix .. "/p.c", [[
      #include <sft.h>
      #include <stdio.h>
      int main(void) { printf("%s\n", sft_cpu_level()); return 0; }
    ]])
    local r = host.sh(([[
      cd %s && export PKG_CONFIG_PATH=$(dirname $(find ./lib* -name sft.pc | head -n 1)) &&
      cc -std=c11 -Wall -Werror p.c $(pkg-config --cflags --libs sft) -o p &&
      LD_LIBRARY_PATH=$(pkg-config --variable=libdir sft) ./p]]):format(prefix))
    assert.equal("", r.err)
    assert.truthy(r.out:find("^v?%w+\n$"))
  end)

  it("has a package for CMake", function()
    host.sh("mkdir " .. prefix .. "/user")
    host.write_file(prefix .. "/user/CMakeLists.txt", [[
      cmake_minimum_required(VERSION 3.25)
      project(user C)
      find_package(sft 0.1 REQUIRED)
      add_executable(p ../p.c)
      target_link_libraries(p sft::sft)
      add_executable(q ../p.c)
      target_link_libraries(q sft::sft_static)
    ]])
    local r = host.sh(("cd %s/user && cmake -DCMAKE_PREFIX_PATH=%s -B b . && cmake --build b && b/p && b/q")
      :format(prefix, prefix))
    assert.equal(0, r.code, r.out .. r.err)
  end)
end)
