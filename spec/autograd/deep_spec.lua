-- Graphs of a million nodes on a small stack, and chains of finished graphs.

local host = require "spec.support.host"

local function on_small_stack(script)
  local path = os.tmpname()
  host.write_file(path, script)
  local r = host.sh(("ulimit -s 256 && exec %s %s"):format(host.sftlua, path))
  os.remove(path)
  assert(r.code == 0, r.err)
  return r.out
end

-- a sanitizer's own frames need more than that stack, and its million nodes take minutes
local nodes = host.sanitized and 20000 or 1000000
local run = host.sanitized and function(script)
  local path = os.tmpname()
  host.write_file(path, script)
  local r = host.sh(host.sftlua .. " " .. path)
  os.remove(path)
  assert(r.code == 0, r.err)
  return r.out
end or on_small_stack

describe("a million nodes on a stack of 256 KB", function()
  it("go backward and are freed", function()
    assert.equal("ok\n", run(([[
      local sft = require "sft"
      local x = sft.tensor(1.0, {requires_grad = true})
      local y = x
      for _ = 1, %d do y = y + x end
      y:backward()
      assert(x.grad:item() == %d)
      y = nil
      collectgarbage()
      assert(sft.live_tensors() == 2)
      print("ok")
    ]]):format(nodes, nodes + 1)))
  end)

  it("are freed without a backward", function()
    assert.equal("ok\n", run(([[
      local sft = require "sft"
      local x = sft.tensor(1.0, {requires_grad = true})
      local y = x
      for _ = 1, %d do y = y * x end
      y = nil
      collectgarbage()
      assert(sft.live_tensors() == 1, sft.live_tensors())
      print("ok")
    ]]):format(nodes // 4)))
  end)

  it("are made by in-place operations on a view too", function()
    assert.equal("ok\n", run(([[
      local sft = require "sft"
      local x = sft.ones(2, {requires_grad = true})
      local y = x * 1
      local v = y:narrow(1, 1, 1)
      for _ = 1, %d do v:add_(1) end
      y:sum():backward()
      assert(x.grad:sum():item() == 2)
      y, v = nil, nil
      collectgarbage()
      print(sft.live_tensors() == 2 and "ok" or sft.live_tensors())
    ]]):format(nodes // 10)))
  end)

  it("end with the process where they are still alive", function()
    assert.equal("ok\n", run(([[
      local sft = require "sft"
      x = sft.tensor(1.0, {requires_grad = true})
      y = x
      for _ = 1, %d do y = y * x end
      print("ok")
    ]]):format(nodes // 4)))
  end)
end)

describe("losses that are summed as tensors", function()
  it("keep no activations", function()
    local sft = require "sft"
    sft.warnings("off")
    local w = sft.ones(1000, {requires_grad = true})
    local total = sft.zeros(1)
    local function step()
      local loss = (w * w):sum()
      loss:backward()
      w.grad = nil
      total = total + loss
    end
    for _ = 1, 20 do step() end
    collectgarbage()
    local before = sft.live_bytes()
    for _ = 1, 500 do step() end
    collectgarbage()
    -- far less than 500 vectors of 4,000 bytes
    assert.is_true(sft.live_bytes() - before < 100000)
    sft.warnings("on")
  end)
end)
