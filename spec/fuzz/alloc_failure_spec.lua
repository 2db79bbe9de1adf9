-- A training step with the Lua part in which an allocation fails, or an instruction raises: every so
-- many, so that it stays short (SFT_FUZZ_STEP=1: each). The program behind it tries each of a smaller
-- step when the C tests run.

local host = require "spec.support.host"

describe("a training step in which something fails", function()
  local program = host.build .. "/spec/host_alloc_failure"
  local step = tonumber(os.getenv("SFT_FUZZ_STEP"))

  local function try(what, every)
    if host.sh("test -x " .. program).code ~= 0 then return pending("no C tests in this build") end
    local r = host.sh(("%s %s --step %d --script spec/fuzz/step_nn.lua"):format(program, what, step or every))
    assert(r.code == 0, r.out .. r.err:sub(1, 6000))
    assert.matches("in turn", r.out)
  end

  local slow = host.sanitized and 6 or 1
  it("an allocation of the engine", function() try("--engine", 5 * slow) end)
  it("an allocation of Lua", function() try("--lua", 101 * slow) end)
  it("an instruction", function() try("--instructions", 211 * slow) end)
end)
