-- Rules that the C sources keep: the engine never prints, ends the process or jumps; the layers know
-- only what lies below them; the public headers are C11 and C++.

local host = require "spec.support.host"

local function files(pattern)
  local p = io.popen("find " .. pattern .. " | sort")
  local list = {}
  for name in p:lines() do list[#list + 1] = name end
  p:close()
  return list
end

-- Comments and strings replaced by spaces, lines kept.
local function code_of(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read("a")
  f:close()
  local out, i = {}, 1
  while i <= #s do
    local two = s:sub(i, i + 1)
    local c = s:sub(i, i)
    local stop
    if two == "/*" then
      stop = select(2, s:find("*/", i + 2, true)) or #s
    elseif two == "//" then
      stop = (s:find("\n", i, true) or #s + 1) - 1
    elseif c == '"' or c == "'" then
      stop = i + 1
      while stop <= #s and s:sub(stop, stop) ~= c do
        if s:sub(stop, stop) == "\\" then stop = stop + 1 end
        stop = stop + 1
      end
    end
    if stop then
      out[#out + 1] = s:sub(i, stop):gsub("[^\n]", " ")
      i = stop + 1
    else
      out[#out + 1] = c
      i = i + 1
    end
  end
  return table.concat(out)
end

local function each_line(paths, fn)
  for _, path in ipairs(paths) do
    local n = 0
    for line in (code_of(path) .. "\n"):gmatch("([^\n]*)\n") do
      n = n + 1
      fn(path, n, line)
    end
  end
end

describe("the engine's sources", function()
  it("call nothing that prints, ends the process or jumps", function()
    local banned = {}
    for name in ("abort exit _exit _Exit quick_exit assert printf fprintf vprintf vfprintf puts fputs putchar perror"
      .. " longjmp siglongjmp setjmp sigsetjmp system popen raise"):gmatch("%S+") do
      banned[name] = true
    end
    local found = {}
    each_line(files("src/core -name '*.[ch]' -o -path 'src/core/*' -name '*.inc'"), function(path, n, line)
      for before, name in line:gmatch("([%w_%.>]?)%f[%w_]([%a_][%w_]*)%s*%(") do
        if banned[name] and before == "" then found[#found + 1] = ("%s:%d: %s"):format(path, n, name) end
      end
    end)
    assert(#found == 0, table.concat(found, "\n"))
  end)

  it("know nothing of Lua or CUDA", function()
    local found = {}
    for _, path in ipairs(files("src/core -name '*.[ch]'")) do
      local f = io.open(path, "rb")
      for line in f:lines() do
        local name = line:match('^%s*#%s*include%s*["<]([^">]+)')
        if name and (name:find("^lua") or name:find("^lauxlib") or name:find("cuda") or name:find("sft_lua")) then
          found[#found + 1] = path .. ": " .. name
        end
      end
      f:close()
    end
    assert(#found == 0, table.concat(found, "\n"))
  end)

  it("keep no Lua state in a static", function()
    local found = {}
    each_line(files("src/lua -name '*.[ch]'"), function(path, n, line)
      if line:find("^static%s+lua_State%s*%*%s*[%w_]+%s*[=;]") then
        found[#found + 1] = ("%s:%d"):format(path, n)
      end
    end)
    -- the interpreter itself has one, for its signal handler
    for i = #found, 1, -1 do
      if found[i]:find("sftlua.c", 1, true) or found[i]:find("repl", 1, true) then table.remove(found, i) end
    end
    assert(#found == 0, table.concat(found, "\n"))
  end)

  it("are files of one subject: none beyond 800 lines", function()
    local found = {}
    for _, path in ipairs(files("src -name '*.[ch]'")) do
      local n = 0
      for _ in io.lines(path) do n = n + 1 end
      if n > 800 then found[#found + 1] = ("%s: %d lines"):format(path, n) end
    end
    assert(#found == 0, table.concat(found, "\n"))
  end)

  it("begin with what they are for", function()
    local found = {}
    for _, path in ipairs(files("src -name '*.[ch]'")) do
      local f = io.open(path, "rb")
      if f:read(2) ~= "/*" then found[#found + 1] = path end
      f:close()
    end
    assert(#found == 0, table.concat(found, "\n"))
  end)
end)

describe("the public headers", function()
  local function compile(compiler, flags, text)
    local path = os.tmpname()
    host.write_file(path, text)
    local p = io.popen("ls -d /usr/include/lua5.4 /usr/local/include 2>/dev/null")
    local include = ""
    for dir in p:lines() do include = include .. " -I" .. dir end
    p:close()
    local r = host.sh(("%s %s -fsyntax-only -Wall -Wextra -Werror -Isrc/core -Isrc/lua%s -x %s %s")
      :format(compiler, flags, include, compiler == "c++" and "c++" or "c", path))
    os.remove(path)
    assert(r.code == 0, r.err)
  end

  it("are C11", function()
    compile("cc", "-std=c11 -pedantic", [[
      #include <sft.h>
      #include <sft_lua.h>
      int main(void) {
        sft_tensor *x = sft_op(zeros, sft_v_ints((int64_t[]){2, 3}, 2));
        sft_tensor *y = sft_op(sum, x, 0);
        sft_release(x); sft_release(y);
        return 0;
      }
    ]])
  end)

  it("are C++", function()
    if host.sh("c++ --version").code ~= 0 then return pending("no C++ compiler") end
    compile("c++", "-std=c++17", [[
      #include <sft.h>
      #include <sft_lua.h>
      int main() {
        int64_t sizes[] = {2, 3};
        sft_value args[] = {sft_v_ints(sizes, 2)};
        sft_tensor *x = sft_call1(SFT_OP_zeros, args, 1);
        sft_release(x);
        return sft_last_status() == SFT_OK ? 0 : luaopen_sft(nullptr);
      }
    ]])
  end)
end)
