-- Random operations with everything that can go wrong around them: finalizers that allocate and
-- release, collections and changes of the collector's mode at any time, errors, coroutines inside
-- no_grad, scopes. Every tensor has one value everywhere, so that results are known.
-- SFT_FUZZ_COUNT: number of operations.

local sft = require "sft"

local count = tonumber(os.getenv("SFT_FUZZ_COUNT") or 20000)

local function with_finalizer(fn) setmetatable({}, {__gc = fn}) end

describe("random operations", function()
  it("give right values or errors, and leave nothing behind", function()
    sft.gc()
    sft.gc()
    local before = sft.live_tensors()
    local seed = tonumber(os.getenv("SFT_FUZZ_SEED") or 7)
    math.randomseed(seed)
    local rnd = math.random
    do
      local pool = {}   -- {tensor, value}
      local shapes = {{3}, {2, 3}, {1, 3}, {2, 1}, {4, 2, 3}, {}}
      local function fresh()
        local v = rnd(-3, 3)
        return {sft.ones(shapes[rnd(#shapes)], {requires_grad = rnd() < 0.3}) * v, v}
      end
      local function pick() return pool[rnd(#pool)] end
      local function small(e)   -- values stay exact
        local ok, n = pcall(e[1].numel, e[1])   -- a finalizer may have released it
        if not ok or math.abs(e[2]) > 1000 or n > 200 then return fresh() end
        return e
      end
      for i = 1, 20 do pool[i] = fresh() end

      local waiting = {}
      local actions = {
        function(a, b) return {a[1] + b[1], a[2] + b[2]} end,
        function(a, b) return {a[1] * b[1], a[2] * b[2]} end,
        function(a, b) return {a[1]:sub(b[1], {alpha = 2}), a[2] - 2 * b[2]} end,
        function(a) return {2 - a[1], 2 - a[2]} end,
        function(a) return {a[1][1], a[2]} end,
        function(a) return {a[1][{"...", {1, 1}}], a[2]} end,
        function(a) return {a[1].T, a[2]} end,
        function(a) return {a[1]:reshape(-1), a[2]} end,
        function(a) return {sft.cat({a[1]:reshape(-1), a[1]:reshape(-1)}), a[2]} end,
        function(a) return {sft.tensor(a[1]:tolist()):float(), a[2]} end,
        function(a) return {sft.no_grad(function() return a[1] + 1 end), a[2] + 1} end,
        function(a) return {sft.scope(function() local t = a[1] + 1; return t + 1 end), a[2] + 2} end,
        function(a)
          a[1]:sum():backward()
          return {a[1]:detach(), a[2]}
        end,
        function(a)
          local t = a[1]:detach():clone()
          t["..."] = 4
          return {t, 4}
        end,
        function(a) error(a) end,
        function(a) return {a[1]:matmul(sft.ones(7, 7, 7)), 0} end,
        function() return {sft.zeros(-1), 0} end,
        function(a)
          with_finalizer(function() a[1]:release() end)
          return fresh()
        end,
        function(a)
          with_finalizer(function() pool[rnd(#pool)] = {a[1] + 1, a[2] + 1} end)
          return fresh()
        end,
        function(a)
          local co = coroutine.create(function()
            local g <close> = sft.no_grad()   -- luacheck: ignore g
            coroutine.yield(a[1] + 1)
            return a[1] + 2
          end)
          waiting[#waiting + 1] = co
          local _, t = coroutine.resume(co)
          return {t, a[2] + 1}
        end,
        function(a)
          local co = table.remove(waiting, rnd(math.max(1, #waiting)))
          if co and rnd() < 0.5 then coroutine.resume(co) elseif co then coroutine.close(co) end
          return a
        end,
        function(a)
          local t = a[1] * 1
          if t.requires_grad then
            t:register_hook(function(g) return rnd() < 0.1 and error("hook") or g * 1 end)
            t:sum():backward()
          end
          return {t, a[2]}
        end,
      }

      local good, bad = 0, 0
      for i = 1, count do
        local r = rnd()
        if r < 0.002 then collectgarbage(rnd() < 0.5 and "generational" or "incremental") end
        if r > 0.99 then collectgarbage("step", rnd(0, 20)) elseif r > 0.988 then collectgarbage() end
        local ok, e = pcall(actions[rnd(#actions)], pick(), pick())
        if ok and sft.is_tensor(e[1]) then
          local seen, x = pcall(function() return e[1]:numel() > 0 and e[1]:reshape(-1)[-1]:item() end)
          if seen and x then
            assert.equal(e[2], x, "operation " .. i .. " of seed " .. seed)
            good = good + 1
          end
          pool[rnd(#pool)] = small(seen and e or fresh())
        else
          bad = bad + 1
          pool[rnd(#pool)] = fresh()
        end
        assert(sft.is_grad_enabled())
      end
      assert.is_true(good > count / 3)
      assert.is_true(bad > count / 100)
    end
    collectgarbage("generational")
    for _ = 1, 12 do sft.gc() end
    assert.equal(before, sft.live_tensors())
  end)
end)

describe("an error at any instruction", function()
  it("of a training step leaves nothing behind, and the next step is right", function()
    local w = sft.ones(3, 2, {requires_grad = true})
    local x, y = sft.ones(4, 3), sft.ones(4, 2)
    local F = sft.autograd.Function("Double")
    function F.forward(ctx, a) ctx:save_for_backward(a) return a * 2 end
    function F.backward(ctx, g) return g * 2 + ctx.saved_tensors[1] * 0 end
    local function step()
      w.grad = nil
      local loss = sft.scope(function()
        local h = F.apply(x:matmul(w)):relu()
        h:register_hook(function(g) return g * 1 end)
        return ((h - y) ^ 2):mean()
      end)
      loss:backward()
      local g = w.grad:sum():item()
      sft.no_grad(function() w:add_(w.grad * 0) end)
      local v <close> = w + 1
      return g + v[{1, 1}]:item()
    end
    local want = step()
    w.grad = nil
    for _ = 1, 6 do sft.gc() end
    local before = sft.live_tensors()
    local failed = 0
    for n = 1, 400 do
      local at = 0
      local co = coroutine.create(step)
      debug.sethook(co, function()
        at = at + 1
        if at == n then error("stop here", 0) end
      end, "", 1)
      local ok, e = coroutine.resume(co)
      debug.sethook(co)
      if not ok then
        failed = failed + 1
        assert.truthy(tostring(e):find("stop here", 1, true), tostring(e))
      end
      assert.is_true(sft.is_grad_enabled())
      if n % 40 == 0 then assert.equal(want, step()) end
    end
    assert.is_true(failed > 60)
    w.grad = nil
    for _ = 1, 12 do sft.gc() end
    assert.equal(before, sft.live_tensors())
  end)
end)
