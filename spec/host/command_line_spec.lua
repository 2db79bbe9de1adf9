-- sftlua takes the command lines that lua takes: the same output, messages and exit codes.

local host = require "spec.support.host"

-- What both programs print, without their names.
local function outcome(program, line, stdin)
  local folder = host.folder()
  host.write_file(folder .. "/args.lua", [[
    print(...)
    for i = -5, 5 do if arg[i] then print(i, arg[i]) end end
  ]])
  host.write_file(folder .. "/fails.lua", "local function f() error('wrong') end\nf()\n")
  host.write_file(folder .. "/syntax.lua", "x = = 1\n")
  host.write_file(folder .. "/shebang.lua", "#!/usr/bin/lua\nprint('ran', ...)\n")
  host.write_file(folder .. "/mod.lua", "print('loading', ...) return {name = 'mod'}\n")
  host.write_file(folder .. "/init.lua", "print('init') function greet() print 'hello' end\n")
  local path = program:find("/") and program or io.popen("command -v " .. program):read("l")
  if path:sub(1, 1) ~= "/" then
    path = io.popen("pwd"):read("l") .. "/" .. path
  end
  local r = host.sh(("cd %s; P=%s; %s"):format(folder, path, line), stdin)
  os.execute("rm -rf " .. folder)
  local function anonymous(s)
    return (s:gsub(path:gsub("%p", "%%%0"), "PROGRAM"):gsub(folder:gsub("%p", "%%%0"), "FOLDER")
      :gsub("0x%x+", "ADDRESS"))
  end
  return {out = anonymous(r.out), err = anonymous(r.err), code = r.code}
end

local lines = {
  -- options
  "$P -v", "$P -v -", "$P -e 'print(1)'", "$P -e'print(1)' -e 'print(2)'", "$P -e", "$P -e -v",
  "$P -l", "$P -x", "$P --x", "$P -vv", "$P -Ex", "$P -ii", "$P -W", "$P -W -e 'warn(\"w\")'",
  "$P -Wx", "$P -e 'warn(\"w\")'", "$P -e 'x=1' -v", "$P -- args.lua a b", "$P args.lua",
  "$P args.lua -e x --", "$P -e 'y=1' args.lua 1 2", "$P - a b", "$P -- -", "$P -e 'print(...)' a",
  "$P -l mod -e 'print(mod.name)'", "$P -lmod -e 'print(mod.name)'", "$P -l m=mod -e 'print(m.name, mod)'",
  "$P -l nosuch", "$P -l mod args.lua x", "$P shebang.lua 1", "$P nosuch.lua", "$P .", "$P syntax.lua",
  "$P fails.lua", "$P -e 'x = = 1'", "$P -e 'error(\"a\\nb\")'", "$P ''", "$P -e ''",
  "$P -i </dev/null", "$P -v -i </dev/null", "$P -e 'print(#arg, arg[0], arg[-1])'",
  "$P -i args.lua q </dev/null", "$P -i -e 'print(3)' </dev/null", "$P -l mod=", "$P -l =mod",
  -- arg
  "$P -e 'arg = nil' args.lua", "$P -e 'arg = {n = 1, \"z\"}' args.lua 1",
  "$P -e 'arg = setmetatable({}, {__len = function() return 1.5 end})' args.lua",
  -- LUA_INIT
  "LUA_INIT='print(\"i\")' $P -e 'print(1)'", "LUA_INIT=@init.lua $P -e 'greet()'",
  "LUA_INIT='print(1)' LUA_INIT_5_4='print(54)' $P -e ''", "LUA_INIT=@nosuch.lua $P -e ''",
  "LUA_INIT='error(\"x\")' $P -e 'print(1)'", "LUA_INIT='print(1)' $P -E -e 'print(2)'",
  "LUA_INIT='x = = 1' $P -v", "LUA_INIT='print(1)' $P -v", "LUA_INIT= $P -e 'print(1)'",
  -- paths
  "$P -e 'print(package.path, package.cpath)'", "LUA_PATH='a;;b' $P -e 'print(package.path)'",
  "LUA_PATH_5_4='x' LUA_PATH='y' $P -e 'print(package.path)'", "LUA_CPATH=';;' $P -e 'print(package.cpath)'",
  "LUA_PATH=x LUA_CPATH=y $P -E -e 'print(package.path, package.cpath)'",
  "env -i $P -e 'print(package.path, package.cpath)'", "env -i $P -v", "env -i $P args.lua a",
  "$P -e 'print(#package.searchers, package.config)'", "$P -e 'require \"no.such\"'",
  -- errors
  "$P -e 'error()'", "$P -e 'error(nil)'", "$P -e 'error({})'", "$P -e 'error(12)'", "$P -e 'error(true)'",
  "$P -e 'error(setmetatable({}, {__tostring = function() return \"T\" end}))'",
  "$P -e 'error(setmetatable({}, {__tostring = function() return 1 end}))'",
  "$P -e 'error(setmetatable({}, {__tostring = function() error(\"deep\") end}))'",
  "$P -e 'error(setmetatable({}, {__name = \"Kind\"}))'",
  "$P -e 'error(io.stdout)'", "$P -e 'local function f() return f() + 1 end f()' 2>&1 | head -n 3",
  "$P -e 'error(\"m\", 0)'", "$P -e 'error(\"m\", 2)'", "$P -e 'string.rep()'",
  "$P -e 'coroutine.wrap(function() error(\"in co\") end)()'", "$P -e 'print(debug.traceback(\"t\"))'",
  "$P -e 'setmetatable(_G, {__index = function(_, k) error(\"no \" .. k) end}) print(zz)'",
  -- ways to end
  "$P -e 'os.exit()'", "$P -e 'os.exit(true)'", "$P -e 'os.exit(false)'", "$P -e 'os.exit(7)'",
  "$P -e 'os.exit(7, true)'", "$P -e 'os.exit(256 + 3)'", "$P -e 'io.write(\"no newline\") os.exit(2)'",
  "$P -e 'setmetatable({}, {__gc = function() print \"gc\" end})'",
  "$P -e 'x = setmetatable({}, {__gc = function() print \"a\" end}) "
    .. "y = setmetatable({}, {__gc = function() print \"b\" end})'",
  "$P -e 'x = setmetatable({}, {__gc = function() print \"gc\" end}) os.exit(0)'",
  "$P -e 'x = setmetatable({}, {__gc = function() print \"gc\" end}) os.exit(0, true)'",
  "$P -e 'local t <close> = setmetatable({}, {__close = function() print \"closed\" end}) os.exit(4, true)'",
  "$P -e 'local t <close> = setmetatable({}, {__close = function() print \"closed\" end}) error(\"e\")'",
  "$P -W -e 'x = setmetatable({}, {__gc = function() error \"in gc\" end})'",
  "$P -e 'coroutine.wrap(function() os.exit(5, true) end)()'",
  -- the state of things
  "$P -e 'local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) print(table.concat(t, \" \"))'",
  "$P -e 'print(collectgarbage(\"incremental\"))'", "$P -e 'print(_VERSION, math.maxinteger, os.setlocale())'",
  "$P -e 'for _, l in ipairs{\"string\", \"table\", \"math\", \"os\", \"io\", \"debug\", \"utf8\", \"coroutine\"} do "
    .. "local t = {} for k in pairs(_G[l]) do t[#t + 1] = k end table.sort(t) print(l, table.concat(t, \" \")) end'",
  "echo 42 | $P -e 'print(io.read(\"n\"))'", "$P -e 'for l in io.lines() do print(l) end'",
  "$P -e 'print(math.type(3), 7 // 2, 1e308 * 10, \"10\" + 1, string.format(\"%q\", 1/3))'",
}

-- input, and the options that go with it
local inputs = {
  {"$P", "print('from stdin', ...)\nprint(arg[0])\n"},
  {"$P -", "print('from stdin', ...)\n"},
  {"$P - x y", "print('from stdin', ...)\n"},
  {"$P", "#!shebang\nprint(1)\n"},
  {"$P", "x = = 1"},
  {"$P", "error 'on stdin'"},
  {"$P", ""},
  {"$P -i", "x = 1\nx\n=x + 1\nx, nil, 2\nfor i = 1, 2 do\nprint(i)\nend\n"},
  {"$P -i", "error('a')\nerror({})\nerror()\nx x\n1 +\n"},
  {"$P -i", "return 1, 2\nreturn\n\n;\nnil\n'a\\nb'\n\"\\65\"\n"},
  {"$P -i", "no newline at the end"},
  {"$P -i", "a = [[b\nc\nd]]\n=a\n=string.rep('x', 1000)\n"},
  {"$P -i", "function f(\na, b)\nreturn a +\nb\nend\nf(1, 2)\n"},
  {"$P -i", "_PROMPT = 'P1 '\n_PROMPT2 = 'P2 '\nf(\n1)\n_PROMPT = 12\n_PROMPT = nil\n1\n"},
  {"$P -i", "n = 0 _PROMPT = setmetatable({}, {__tostring = function() n = n + 1 return n .. '> ' end})\n1\n2\n"},
  {"$P -i -e '_PROMPT = \"\" _PROMPT2 = \"\"'", "1\nprint(\n2)\n"},
  {"$P -i", "print = nil\n1\nprint = error\n2\nprint = function(...) io.write('mine ', ..., '\\n') end\n3\n"},
  {"$P -i", "goto done\n::done:: x = 4\nx\nbreak\n"},
  {"$P -i", "local t <close> = setmetatable({}, {__close = function() print 'closed' end})\n1\n"},
  {"$P -i", "os.exit(9)\n"},
  {"$P -i", "-- only a comment\n--[[ a long\none ]] 5\n= 5 -- five\n"},
}

describe("the command line", function()
  it("has a lua5.4 to compare with", function()
    assert.equal(0, host.sh(host.lua .. " -v").code)
  end)

  for _, line in ipairs(lines) do
    it(line, function()
      assert.same(outcome(host.lua, line), outcome(host.sftlua, line))
    end)
  end

  for i, case in ipairs(inputs) do
    it(("%s, input %d"):format(case[1], i), function()
      assert.same(outcome(host.lua, case[1], case[2]), outcome(host.sftlua, case[1], case[2]))
    end)
  end
end)
