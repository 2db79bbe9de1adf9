-- Memory: limits, what an out-of-memory error says, going on after it, and the collector.

local sft = require "sft"
local host = require "spec.support.host"
local values = require "spec.support.values"
local raises = values.raises

local MB = 1024 * 1024

local function settle()
  collectgarbage()
  collectgarbage()
  sft.empty_cache()
end

describe("a memory limit", function()
  before_each(settle)
  after_each(function() sft.set_memory_limit("cpu", 0) end)

  it("makes an error that says what holds the memory", function()
    local kept = sft.zeros(4 * MB // 4)
    sft.set_memory_limit("cpu", sft.memory_allocated() + 8 * MB)
    local ok, e = pcall(sft.zeros, 16 * MB // 4)
    assert.is_false(ok)
    assert.equal("oom", e.code)
    assert.matches("out of memory on cpu: asked for 16.0 MB", e.message, 1, true)
    assert.matches("Live tensors hold %d+%.%d MB in %d+", e.message)
    assert.matches("limit", e.message, 1, true)
    assert.matches("smaller batch", e.message, 1, true)
    assert.equal(4 * MB // 4, kept:numel())
  end)

  it("lets a retry with half the batch go through, and statistics come back", function()
    local w = sft.randn(256, 256, {requires_grad = true})
    local function step(batch)
      local x = sft.zeros(batch, 256)
      local h = x
      for _ = 1, 6 do h = h:matmul(w):relu() end
      h:sum():backward()
      w.grad = nil
    end
    step(64)
    settle()
    local before = sft.memory_stats()
    sft.set_memory_limit("cpu", before.allocated + 6 * MB)
    local batch, tries = 4096, 0
    repeat
      local ok, e = pcall(step, batch)
      if not ok then
        assert.equal("oom", e.code)
        batch = batch // 2
        tries = tries + 1
      end
    until ok
    assert.is_true(tries > 0 and batch >= 64)
    sft.set_memory_limit("cpu", 0)
    settle()
    local after = sft.memory_stats()
    assert.equal(before.allocated, after.allocated)
    assert.equal(before.live_bytes, after.live_bytes)
    assert.equal(before.live_tensors, after.live_tensors)
  end)

  it("collects garbage and empties the cache before it gives up", function()
    sft.set_memory_limit("cpu", sft.memory_allocated() + 40 * MB)
    collectgarbage("stop")
    for _ = 1, 50 do
      local _ = sft.zeros(8 * MB // 4)
    end
    collectgarbage("restart")
    -- the cache is of another size than what is asked for
    for _ = 1, 2 do
      local _ = {sft.zeros(10 * MB // 4), sft.zeros(10 * MB // 4)}
    end
    assert.equal(30 * MB // 4, sft.zeros(30 * MB // 4):numel())
  end)

  it("at every allocation of a step in turn leaves nothing behind", function()
    local F = sft.nn.functional
    local w = sft.randn(64, 64, {requires_grad = true})
    local x, y = sft.randn(512, 64), sft.ones(512):long()
    local function step()
      local loss = F.cross_entropy(x:matmul(w):relu():matmul(w), y)
      loss:backward()
      w.grad = nil
      return loss:item()
    end
    local expected = step()
    settle()
    local before = sft.memory_stats()
    local failed = 0
    for extra = 0, 2048, 64 do
      sft.set_memory_limit("cpu", before.allocated + extra * 1024 + 1)
      local ok, e = pcall(step)
      if ok then
        assert.equal(expected, e)
      else
        assert.equal("oom", e.code)
        failed = failed + 1
        w.grad = nil
      end
      sft.set_memory_limit("cpu", 0)
      settle()
      assert.equal(before.allocated, sft.memory_stats().allocated)
      assert.equal(before.live_tensors, sft.memory_stats().live_tensors)
    end
    assert.is_true(failed > 0)
    assert.equal(expected, step())
  end)

  it("is checked", function()
    raises("set_memory_limit", sft.set_memory_limit, "cpu", -1)
    raises("set_memory_limit", sft.set_memory_limit, "cpu", "many")
    raises("cuda", sft.set_memory_limit, "cuda", 5)
  end)
end)

describe("allocations that fail", function()
  it("in turn, from a script", function()
    local function step()
      local x = sft.ones(3, 4, {requires_grad = true})
      local y = sft.cat({x * 2, x:t():contiguous():view(3, 4)}, 1):softmax(2)
      y:narrow(1, 2, 3):sum():backward()
      return x.grad:sum():item()
    end
    local expected = step()
    settle()
    local tensors = sft.live_tensors()
    local n, fine = 0, 0
    while fine < 5 do
      n = n + 1
      sft._fail_alloc_after(n)
      local ok, e = pcall(step)
      sft._fail_alloc_after(-1)
      if ok then
        fine = fine + 1
        assert.equal(expected, e)
      else
        fine = 0
        assert(sft.is_error(e) and e.code == "oom", tostring(e))
      end
    end
    settle()
    assert.equal(tensors, sft.live_tensors())
    assert.is_true(n > 20)
  end)
end)

describe("statistics", function()
  it("count allocated, reserved and peaks", function()
    settle()
    sft.reset_peak_memory_stats()
    local before = sft.memory_stats()
    local x = sft.zeros(8 * MB // 4)
    local now = sft.memory_stats()
    assert.is_true(now.allocated - before.allocated >= 8 * MB)
    assert.is_true(now.allocated - before.allocated <= 9 * MB)
    assert.is_true(now.reserved >= now.allocated)
    x:release()
    assert.equal(before.allocated, sft.memory_stats().allocated)
    assert.is_true(sft.max_memory_allocated() >= before.allocated + 8 * MB)
    sft.empty_cache()
    assert.is_true(sft.memory_stats().reserved <= before.reserved)
  end)

  it("of scope and <close>: what is made inside is gone at the end", function()
    settle()
    local live = sft.live_tensors()
    local kept = sft.scope(function()
      local a = sft.ones(10)
      local b = a + 1
      return b * 2
    end)
    assert.equal(live + 1, sft.live_tensors())
    assert.equal(40, kept:sum():item())
    kept:release()
    do
      local t <close> = sft.ones(10)
      local _ = t
    end
    settle()
    assert.equal(live, sft.live_tensors())
  end)
end)

-- Peak memory of a process that runs a script, in MB.
local function peak(script)
  local path = os.tmpname()
  host.write_file(path, script .. [[

    local f = io.open("/proc/self/status")
    local text = f:read("a")
    f:close()
    print(tonumber(text:match("VmHWM:%s+(%d+)")) // 1024)
  ]])
  local r = host.sh(host.sftlua .. " " .. path)
  os.remove(path)
  assert(r.code == 0, r.err)
  return tonumber(r.out)
end

if not host.sanitized then
  describe("a loop that never collects", function()
    local loop = [[
      local sft = require "sft"
      local a, b = sft.ones(1000000), sft.ones(1000000)
      %s
      for i = 1, 2000 do
        local c = a + b
        %s
      end
      %s
    ]]

    it("stays small", function()
      assert.is_true(peak(loop:format("", "", "")) < 64)
    end)
    it("stays small beside many Lua tables", function()
      local bare = peak("local t = {} for i = 1, 200000 do t[i] = {i} end KEEP = t")
      local with = peak(loop:format("local t = {} for i = 1, 200000 do t[i] = {i} end KEEP = t", "", ""))
      assert(with - bare < 64, with - bare)
    end)
    it("stays small in a coroutine, in generational mode, and with the collector stopped", function()
      assert.is_true(peak(loop:format("coroutine.wrap(function()", "", "end)()")) < 64)
      assert.is_true(peak(loop:format("collectgarbage('generational')", "", "")) < 64)
      assert.is_true(peak(loop:format("collectgarbage('stop')", "", "")) < 64)
    end)
    it("stays small where tensors hang in graphs", function()
      assert.is_true(peak(loop:format("a:requires_grad_(true)", "c:sum():backward() a.grad = nil", "")) < 80)
    end)
  end)
end
