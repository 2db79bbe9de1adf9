-- Grad mode: functions, guards, errors, coroutines.

local sft = require "sft"

local function enabled() return sft.is_grad_enabled() end

describe("grad mode", function()
  after_each(function() assert.is_true(enabled()) end)

  it("is off inside no_grad, as a function or a guard", function()
    assert.is_false(sft.no_grad(enabled))
    local a, b, c = sft.no_grad(function(...) return ..., enabled() end, 1)
    assert.same({1, false}, {a, b})
    assert.is_nil(c)
    do
      local g <close> = sft.no_grad()   -- luacheck: ignore g
      assert.is_false(enabled())
      assert.is_true(sft.enable_grad(enabled))
      assert.is_false(enabled())
    end
    assert.is_true(enabled())
    local x = sft.ones(1, {requires_grad = true})
    assert.is_false(sft.no_grad(function() return (x * 2).requires_grad end))
    assert.is_true((x * 2).requires_grad)
    assert.is_false(sft.inference_mode(enabled))
    assert.is_false(sft.set_grad_enabled(false, enabled))
    sft.set_grad_enabled(false)
    assert.is_false(enabled())
    sft.set_grad_enabled(true)
  end)

  it("comes back after an error", function()
    assert.is_false(pcall(sft.no_grad, error, "x"))
    assert.is_true(enabled())
    pcall(function()
      local g <close> = sft.no_grad()   -- luacheck: ignore g
      error("x")
    end)
  end)

  it("says what is wrong", function()
    local ok, e = pcall(sft.no_grad, 3)
    assert.is_false(ok)
    assert.truthy(tostring(e):find("local g <close> = sft.no_grad()", 1, true))
    assert.is_false((pcall(sft.set_grad_enabled, 1)))
  end)

  it("belongs to the coroutine that set it", function()
    local co = coroutine.wrap(function()
      sft.no_grad(function()
        coroutine.yield(enabled())
        coroutine.yield(enabled())
      end)
      return enabled()
    end)
    assert.is_false(co())
    assert.is_true(enabled())
    assert.is_false(co())
    assert.is_true(enabled())
    assert.is_true(co())
  end)

  it("of two coroutines does not mix", function()
    local log = {}
    local function body(fn)
      return coroutine.wrap(function()
        fn(function()
          for _ = 1, 3 do
            log[#log + 1] = enabled()
            coroutine.yield()
          end
        end)
      end)
    end
    local a, b = body(sft.no_grad), body(sft.enable_grad)
    for _ = 1, 3 do a() b() end
    assert.same({false, true, false, true, false, true}, log)
  end)

  it("of a coroutine that set nothing follows its caller", function()
    local co = coroutine.wrap(function() while true do coroutine.yield(enabled()) end end)
    assert.is_true(co())
    assert.is_false(sft.no_grad(co))
    assert.is_true(co())
  end)

  it("does not leak from a coroutine abandoned or failed inside no_grad", function()
    for _ = 1, 200 do
      local co = coroutine.create(function() sft.no_grad(coroutine.yield) end)
      coroutine.resume(co)
      if math.random() < 0.5 then coroutine.close(co) end
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(coroutine.wrap(enabled)())
    local co = coroutine.create(function() sft.no_grad(function() coroutine.yield() error("x") end) end)
    coroutine.resume(co)
    assert.is_false((coroutine.resume(co)))
  end)

  it("is that of the engine inside hooks", function()
    local x = sft.ones(2, {requires_grad = true})
    local seen
    x:register_hook(function(g) seen = {enabled(), (g * x).requires_grad} end)
    local function run() (x * 2):sum():backward() end
    run()
    assert.same({false, false}, seen)
    coroutine.wrap(function() sft.enable_grad(run) end)()
    assert.same({false, false}, seen)
  end)
end)

describe("sft.scope", function()
  it("frees what was made inside but the results", function()
    local inner
    local a, t = sft.scope(function()
      inner = sft.ones(3)
      local b = inner + 1
      return b, {list = {b * 2}}
    end)
    assert.same({2, 2, 2}, a:tolist())
    assert.same({4, 4, 4}, t.list[1]:tolist())
    assert.equal("tensor(<released>)", tostring(inner))
  end)

  it("does so on errors, and yields", function()
    local inner
    pcall(sft.scope, function()
      inner = sft.ones(3)
      error("x")
    end)
    assert.equal("tensor(<released>)", tostring(inner))
    local co = coroutine.wrap(function()
      return sft.scope(function()
        inner = sft.ones(2)
        coroutine.yield()
        return inner + 1
      end)
    end)
    co()
    local outside = sft.ones(4)
    assert.same({2, 2}, co():tolist())
    assert.same({1, 1, 1, 1}, outside:tolist())
    assert.equal("tensor(<released>)", tostring(inner))
  end)
end)
