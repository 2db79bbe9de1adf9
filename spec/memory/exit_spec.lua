-- The end of a process: with live tensors, graphs and hooks, by every way out. The exit status is right
-- and nothing is printed.

local host = require "spec.support.host"

local setup = [[
  local sft = require "sft"
  x = sft.ones(1000, {requires_grad = true})
  h = x * 2
  h:register_hook(function(g) return g end)
  y = (h * h):sum()
  loader = sft.data.DataLoader(sft.data.TensorDataset(sft.ones(10, 2), sft.ones(10)), {batch_size = 2}):iter()
  big = sft.zeros(1000000)
  setmetatable({}, {__gc = function() local _ = big:sum() + y:detach() end})
  co = coroutine.create(function() sft.no_grad(function() local t = big * 2 coroutine.yield() return t end) end)
  coroutine.resume(co)
]]

describe("a process that ends with live tensors", function()
  local function run(code, expected)
    local path = os.tmpname()
    host.write_file(path, setup .. code)
    -- an exit from within the engine leaves what the engine holds to the system
    local env = code:find("hook", 1, true) and "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 " or ""
    local r = host.sh(env .. host.sftlua .. " " .. path)
    os.remove(path)
    assert.equal(expected, r.code, r.err)
    return r
  end

  for code, expected in pairs {
    [""] = 0, ["os.exit(0)"] = 0, ["os.exit(3)"] = 3, ["os.exit(0, true)"] = 0, ["os.exit(false, true)"] = 1,
    ["collectgarbage('stop')"] = 0, ["y:backward() os.exit(0, true)"] = 0,
    ["x:register_hook(function() os.exit(4) end) y:backward()"] = 4,
  } do
    it("by " .. (code == "" and "its end" or code), function()
      local r = run(code, expected)
      assert.equal("", r.out)
      assert.equal("", r.err)
    end)
  end

  it("by an error", function()
    local r = run("error('the end')", 1)
    assert.equal("", r.out)
    assert.matches("the end", r.err, 1, true)
    r = run("y:sum(7)", 1)
    assert.matches("out of range", r.err, 1, true)
    run("error(nil)", 1)
    run("error(setmetatable({}, {__tostring = error}))", 1)
  end)
end)
