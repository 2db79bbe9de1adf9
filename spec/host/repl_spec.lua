-- The REPL: locals that last, pastes, editing, completion, history, Ctrl-C at the prompt.

local host = require "spec.support.host"
local quoted = host.quote(host.sftlua)

-- What `sftlua -i` prints for these lines, without banner, prompts and echo, and on stderr.
local function session(lines)
  local r = host.sh(quoted .. [[ -i -e '_PROMPT = "" _PROMPT2 = ""']], table.concat(lines, "\n") .. "\n")
  local out = {}
  local echoed = {}
  for _, l in ipairs(lines) do echoed[l] = true end
  for l in r.out:gsub("^.-PUC%-Rio\n", ""):gmatch("([^\n]*)\n") do
    if not echoed[l] and l ~= "" then out[#out + 1] = l end
  end
  assert.equal(0, r.code)
  return out, r.err
end

describe("top-level locals", function()
  local function gives(expected, lines)
    local out, err = session(lines)
    assert.equal("", err)
    assert.same(expected, out)
  end

  it("last for the session", function()
    gives({"1\t2", "3"}, {"local a, b = 1, 2", "a, b", "a + b"})
  end)

  it("can be assigned to, without a global", function()
    gives({"6\tnil"}, {"local v = 5", "v = v + 1", "v, rawget(_G, 'v')"})
  end)

  it("can be declared anew, from the old value", function()
    gives({"20"}, {"local v = 10", "local v = v * 2", "v"})
  end)

  it("may be nil, hide a global and be nil again", function()
    gives({"nil\tnil", "nil", "4", "nil"},
      {"local n, m", "n, m", "local print2, type = print", "print2(type)", "type = 4", "print2(type)",
       "type = nil", "print2(type)"})
  end)

  it("may be functions, recursive ones too", function()
    gives({"120"}, {"local function f(n) if n == 0 then return 1 end return n * f(n - 1) end", "f(5)"})
  end)

  it("may be const", function()
    local out, err = session {"local c <const>, d = 1, 2", "c = 5", "d = 6", "c, d", "local c = 3", "c"}
    assert.same({"1\t6", "3"}, out)
    assert.truthy(err:find("stdin:1: attempt to assign to const variable 'c'", 1, true))
  end)

  it("are closed at the end of their chunk when they are to be closed", function()
    gives({"closed", "nil"},
      {"local t <close> = setmetatable({}, {__close = function() print 'closed' end})", "t"})
  end)

  it("of inner blocks and functions stay inside", function()
    gives({"in\tnil\t7", "nil\tnil\tnil\tnil\tnil"}, {
      "do local p = 1 end for q = 1, 1 do local r = q end local s = 'in'",
      "local g = function(t) local u = t return u end local w = g(7) repeat local x = 1 until x == 1",
      "s, p, w",
      "q, r, t, u, x",
    })
  end)

  it("in strings and comments are none", function()
    gives({"local a = 1\tlocal b\t nil"},
      {"local s, t = 'local a = 1', [==[local b]==] -- local c = 3", "--[[ local d = 4 ]] u = ' nil'",
       "s, t, u"})
  end)

  it("in a chunk of several lines keep its line numbers", function()
    local _, err = session {"do end local a,", "  b --[[ x", "]] = 1,", "  2 error('here')"}
    assert.truthy(err:find("stdin:4: here", 1, true))
  end)

  it("of the same name in one list: the last counts", function()
    gives({"3\t2"}, {"local _, x, _ = 1, 2, 3", "_, x"})
  end)

  it("leave globals alone", function()
    gives({"1\t2\t3\t3"}, {
      "function early() return later end", "local y = 1", "later = 2", "function made() return y + later end",
      "y, early(), made(), _G.made()",
    })
  end)

  it("leave syntax errors as they were typed", function()
    local _, err = session {"local x = = 1", "local 1 = 2", "local a <nosuch> = 1"}
    assert.truthy(err:find("stdin:1: unexpected symbol near '='", 1, true))
    assert.truthy(err:find("stdin:1: <name> expected near '1'", 1, true))
    assert.truthy(err:find("stdin:1: unknown attribute 'nosuch'", 1, true))
  end)

  it("survive an error after them", function()
    local out = session {"local kept = 1 error 'x'", "kept"}
    assert.same({"1"}, out)
  end)

  it("number more than a function may have", function()
    local lines = {}
    for i = 1, 300 do lines[i] = ("local v%d = %d"):format(i, i) end
    lines[301] = "v1 + v150 + v300"
    gives({"451"}, lines)
  end)
end)

describe("at a terminal", function()
  local home, t

  before_each(function()
    home = host.folder()
    t = host.terminal(quoted, ("TERM=xterm HOME=%s"):format(home))
    t:expect("PUC-Rio")
    t:expect("> ")
  end)

  after_each(function()
    t:close()
    os.execute("rm -rf " .. home)
  end)

  local function ends_with(code)
    assert.equal(code, t:finish())
  end

  it("Ctrl-D ends it", function()
    t:send("\4")
    ends_with(0)
  end)

  it("Ctrl-C stops what runs and keeps the variables", function()
    t:line("local kept = 41")
    for _ = 1, 3 do
      t:send("print 'go' while true do end\n")
      t:expect("\ngo")
      t:send("\3")
      t:expect("interrupted!")
      t:expect("> ")
    end
    assert.truthy(t:line("kept + 1"):find("42"))
    t:send("\4")
    ends_with(0)
  end)

  it("Ctrl-C at the prompt drops the line, and an unfinished chunk", function()
    t:send("half a li")
    t:expect("half a li")
    t:send("\3")
    t:expect("\n> ")
    t:line("for i = 1, 2 do", "\n>> ")
    t:send("\3")
    t:expect("\n> ")
    assert.truthy(t:line("6 * 7"):find("42"))
    t:send("\3\3")
    t:expect("\n> ")
    t:send("\4")
    ends_with(0)
  end)

  it("two Ctrl-C within a second end a stuck call", function()
    t:send("print 'go' while true do pcall(function() while true do end end) end\n")
    t:expect("\ngo")
    t:send("\3")
    host.sleep(0.1)
    t:send("\3")
    ends_with(130)
  end)

  it("lines pasted together are one chunk", function()
    t:send("local a = 1\nlocal function f(x)\n\treturn x + a\nend\n\nprint('sum', f(2))\n")
    t:expect("\nsum\t3")
    t:expect("> ")
    assert.truthy(t:line("f(9)"):find("10"))
    t:send("\4")
    ends_with(0)
  end)

  it("lines pasted together that are no chunk are taken one by one", function()
    t:send("1 + 1\nlocal z = 5\nz * z\nfor i = 1, 2 do\nprint('i', i)\nend\n")
    t:expect("\n2\n25\n")
    t:expect("i\t1\ni\t2\n")
    t:send("\4")
    ends_with(0)
  end)

  it("an expression may go on in the next line", function()
    t:line("1 +", "\n>> ")
    assert.truthy(t:line("2"):find("3"))
    t:line("math.max(4,", "\n>> ")
    assert.truthy(t:line("9)"):find("9"))
    t:send("\4")
    ends_with(0)
  end)

  it("Tab completes names, fields and methods", function()
    t:line("local words = {alpha = {beta = 'found'}}")
    t:send("wor\t")
    t:expect("ds")
    t:send(".al\t")
    t:expect("pha")
    t:send(".b\t")
    t:expect("eta")
    t:send("\n")
    t:expect("\nfound\n")
    t:send("io.stdout:wri\t")
    t:expect("te")
    t:send("('out')\n")
    t:expect("out")
    t:expect("> ")
    t:send("coroutine.\t")
    t:expect("isyieldable")
    t:expect("yield")
    t:send("\21\n")
    t:expect("> ")
    t:line("bad = setmetatable({}, {__index = function() error 'no' end})")
    t:send("bad.x.\t")
    host.sleep(0.1)
    t:send("\21'alive'\n")
    t:expect("\nalive\n")
    t:send("\4")
    ends_with(0)
  end)

  it("keeps a history, across sessions", function()
    t:line("remember = 'me'")
    t:send("\4")
    ends_with(0)
    local r = host.sh(("cat %s/.sft_history; stat -c %%a %s/.sft_history"):format(home, home))
    assert.equal("remember = 'me'\n600\n", r.out)
    t = host.terminal(quoted, ("TERM=xterm HOME=%s"):format(home))
    t:expect("> ")
    t:send("\27[A")
    t:expect("remember = 'me'")
    t:send("\n")
    t:expect("> ")
    assert.truthy(t:line("remember"):find("\nme"))
    t:send("os.exit(3)\n")
    ends_with(3)
  end)

  it("takes UTF-8", function()
    assert.truthy(t:line("'\u{e4}\u{20ac}' == '\\u{e4}\\u{20ac}'"):find("true"))
    t:send("\4")
    ends_with(0)
  end)
end)

describe("at a terminal that can do nothing", function()
  it("reads plain lines", function()
    for _, env in ipairs {"TERM=dumb HOME=/nonexistent", "env -i"} do
      local t = host.terminal(quoted, env)
      t:expect("> ")
      t:send("6 * 7\n")
      t:expect("42")
      t:expect("> ")
      t:send("while true do end\n")
      host.sleep(0.3)
      t:send("\3")
      t:expect("interrupted!")
      t:expect("> ")
      t:send("\4")
      assert.equal(0, t:finish())
    end
  end)
end)
