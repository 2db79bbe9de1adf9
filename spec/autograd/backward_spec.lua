-- backward and grad: what accumulates where, graphs that are used once or twice, second derivatives.

local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

local function leaf(list)
  return sft.tensor(list, {dtype = sft.float64, requires_grad = true})
end

describe("backward", function()
  it("accumulates into the leaves", function()
    local x = leaf {1, 2, 3}
    x:mul(x):sum():backward()
    near({2, 4, 6}, x.grad)
    x:sum():backward()
    near({3, 5, 7}, x.grad)
    x.grad = nil
    x:sum():backward()
    near({1, 1, 1}, x.grad)
  end)

  it("sums over broadcast dims", function()
    local a, b = leaf {{1, 2, 3}, {4, 5, 6}}, leaf {1, 1, 1}
    local c = leaf(2)
    ;((a * b + c) * a):sum():backward()
    near({17, 29, 45}, b.grad)
    near(21, c.grad)
    assert.same({}, values.shape(c.grad))
  end)

  it("takes a gradient, and needs one for several elements", function()
    local x = leaf {1, 2, 3}
    raises({"one element only", "[3]", "x:sum()"}, function() (x * 2):backward() end)
    ;(x * 2):backward(sft.tensor({1, 10, 100}, {dtype = sft.float64}))
    near({2, 20, 200}, x.grad)
    raises({"shape [2]", "[3]"}, function() (x * 2):backward(sft.ones(2)) end)
    ;(x * 2):backward {gradient = sft.ones(3, {dtype = sft.float64})}
    near({4, 22, 202}, x.grad)
  end)

  it("frees the graph unless it is retained", function()
    local x = leaf {1, 2, 3}
    local y = x:exp():sum()
    y:backward {retain_graph = true}
    y:backward()
    near(2 * sft.exp(x:detach()), x.grad)
    raises({"already used", "retain_graph"}, function() y:backward() end)
  end)

  it("explains what has no history", function()
    raises({"does not require grad", "no_grad"}, function() sft.ones(1):backward() end)
    raises("only floating", function() sft.tensor({1, 2}):requires_grad_(true) end)
    local x = leaf {1, 2}
    raises("requires_grad can only be turned off for leaves", function() (x * 2):requires_grad_(false) end)
    local y = sft.no_grad(function() return (x * 2):sum() end)
    assert.is_false(y.requires_grad)
    raises("no_grad", function() y:backward() end)
  end)

  it("goes through shared parts once for all their users", function()
    local x = leaf {0.5}
    local calls = 0
    local h = x:tanh()
    h:register_hook(function() calls = calls + 1 end)
    ;(h * h + h * 3 + h:exp()):sum():backward()
    assert.equal(1, calls)
    local t = math.tan and (math.exp(1) - 1) / (math.exp(1) + 1)
    near({(2 * t + 3 + math.exp(t)) * (1 - t * t)}, x.grad)
  end)

  it("of several outputs, of which some are not used", function()
    local x = leaf {{3, 1, 2}, {6, 5, 4}}
    local v = x:sort(2)
    v:select(2, 3):sum():backward()
    near({{1, 0, 0}, {1, 0, 0}}, x.grad)
    x.grad = nil
    local parts = x:split(2, 2)
    parts[2]:sum():backward()
    near({{0, 0, 1}, {0, 0, 1}}, x.grad)
  end)

  it("of several tensors at once", function()
    local x = leaf {1, 2}
    sft.autograd.backward({x:sum(), (x * x):sum()})
    near({3, 5}, x.grad)
  end)

  it("keeps the gradient's dtype, and casts on the way", function()
    local x = sft.tensor({1.0, 2}, {dtype = sft.float32, requires_grad = true})
    ;(x:to(sft.float64) * 2):sum():backward()
    assert.equal(sft.float32, x.grad.dtype)
    local h = sft.tensor({1.0, 2}, {dtype = sft.bfloat16, requires_grad = true})
    ;(h * sft.tensor({1.0, 3})):sum():backward()
    assert.equal(sft.bfloat16, h.grad.dtype)
    near({1, 3}, h.grad)
  end)

  it("checks what is assigned to .grad", function()
    local x = leaf {1, 2}
    raises({"grad", "[2]", "[3]"}, function() x.grad = sft.ones(3, {dtype = sft.float64}) end)
    raises("float64", function() x.grad = sft.ones(2) end)
    raises("own gradient", function() x.grad = x end)
    x.grad = sft.ones(2, {dtype = sft.float64})
    near({1, 1}, x.grad)
  end)
end)

describe("grad", function()
  it("runs only what lies between, and leaves the rest as it was", function()
    local x = leaf {1, 2}
    local mid = x:exp()
    local seen = 0
    mid:register_hook(function() seen = seen + 1 end)
    local g = sft.autograd.grad((mid * mid):sum(), {mid, mid})
    near(mid * 2, g[1])
    near(mid * 2, g[2])
    mid:backward(g[1])
    near((x:detach() * 2):exp() * 2, x.grad)
    assert.equal(2, seen)
    -- an input below another one
    local y = x * 3
    local z = y * y
    g = sft.autograd.grad(z:sum(), {x, y, z})
    near({18, 36}, g[1])
    near({6, 12}, g[2])
    near({1, 1}, g[3])
  end)

  it("gives gradients without touching .grad", function()
    local x, w = leaf {1, 2}, leaf {3, 4}
    local g = sft.autograd.grad((x * w):sum(), {x, w})
    near({3, 4}, g[1])
    near({1, 2}, g[2])
    assert.is_nil(x.grad)
  end)

  it("of what is not used: an error, or none", function()
    local x, w = leaf {1, 2}, leaf {3, 4}
    raises({"input 2 of 2", "allow_unused"}, function() sft.autograd.grad(x:sum(), {x, w}) end)
    local g = sft.autograd.grad(x:sum(), {x, w}, {allow_unused = true})
    near({1, 1}, g[1])
    assert.is_true(not g[2])
    raises("does not require grad", function() sft.autograd.grad(x:sum(), {sft.ones(2)}) end)
  end)

  it("of an inner tensor", function()
    local x = leaf {1, 2}
    local h = x * 3
    local g = sft.autograd.grad((h * h):sum(), {h})
    near({6, 12}, g[1])
  end)

  it("is differentiable with create_graph", function()
    local x = leaf {1, 2, 3}
    local g = sft.autograd.grad((x ^ 4):sum(), {x}, {create_graph = true})[1]
    near({4, 32, 108}, g)
    local gg = sft.autograd.grad(g:sum(), {x}, {create_graph = true})[1]
    near({12, 48, 108}, gg)
    gg:sum():backward()
    near({24, 48, 72}, x.grad)
  end)

  it("of a norm of gradients, as in a gradient penalty", function()
    local x, w = leaf {{1, 2}, {3, 4}}, leaf {{0.5, -1}, {2, 1}}
    local y = x:matmul(w):tanh():sum()
    local g = sft.autograd.grad(y, {x}, {create_graph = true})[1]
    local penalty = (g * g):sum()
    local by_hand = sft.autograd.grad(penalty, {w})[1]
    local function value(m)
      local out = x:matmul(m):tanh():sum()
      local d = sft.autograd.grad(out, {x})[1]
      return (d * d):sum():item()
    end
    for i = 1, 2 do
      for j = 1, 2 do
        local up, down = w:detach():clone(), w:detach():clone()
        up[{i, j}] = up[{i, j}] + 1e-5
        down[{i, j}] = down[{i, j}] - 1e-5
        near((value(up) - value(down)) / 2e-5, by_hand[{i, j}], 1e-5)
      end
    end
  end)
end)

describe("modes", function()
  it("no_grad and enable_grad nest and restore, after an error too", function()
    assert.is_true(sft.is_grad_enabled())
    local x = leaf {1}
    sft.no_grad(function()
      assert.is_false((x * 2).requires_grad)
      sft.enable_grad(function() assert.is_true((x * 2).requires_grad) end)
      assert.is_false(sft.is_grad_enabled())
    end)
    pcall(sft.no_grad, function() error("x") end)
    assert.is_true(sft.is_grad_enabled())
    do
      local guard <close> = sft.no_grad() -- luacheck: ignore guard
      assert.is_false(sft.is_grad_enabled())
    end
    assert.is_true(sft.is_grad_enabled())
    assert.equal(7, sft.no_grad(function(a, b) return a + b end, 3, 4))
  end)

  it("belong to the coroutine that set them", function()
    local inside
    local co = coroutine.wrap(function()
      sft.no_grad(function()
        coroutine.yield()
        inside = sft.is_grad_enabled()
      end)
      coroutine.yield(sft.is_grad_enabled())
    end)
    co()
    assert.is_true(sft.is_grad_enabled())
    assert.is_true(co())
    assert.is_false(inside)
    -- a coroutine that is left lying inside no_grad does no harm
    local other = coroutine.create(function() sft.no_grad(coroutine.yield) end)
    coroutine.resume(other)
    assert.is_true(sft.is_grad_enabled())
    other = nil -- luacheck: ignore other
    collectgarbage()
    assert.is_true(sft.is_grad_enabled())
  end)

  it("detach cuts the history, clone keeps it", function()
    local x = leaf {1, 2}
    local d = (x * 2):detach()
    assert.is_false(d.requires_grad)
    assert.is_true(d.is_leaf)
    ;(x:clone() * d):sum():backward()
    near({2, 4}, x.grad)
  end)
end)

describe("hooks", function()
  it("may remove themselves while they run", function()
    local x, seen, h = leaf {1, 2}, {}, nil
    h = x:register_hook(function() seen[#seen + 1] = "a" h:remove() end)
    x:register_hook(function(g) seen[#seen + 1] = "b" return g * 2 end)
    x:sum():backward()
    x:sum():backward()
    assert.equal("abb", table.concat(seen))
    near({4, 4}, x.grad)
  end)

  it("may not return another shape or dtype", function()
    for _, change in ipairs {function(g) return g:float() end, function(g) return g:sum() end} do
      local x = leaf {1, 2}
      x:register_hook(change)
      raises("hook returned", function() x:sum():backward() end)
      assert.is_nil(x.grad)
    end
  end)

  it("see and replace gradients, in order, until they are removed", function()
    local x = leaf {1, 2}
    local seen = {}
    local first = x:register_hook(function(g) seen[#seen + 1] = g:clone() return g * 10 end)
    x:register_hook(function(g) seen[#seen + 1] = g:clone() end)
    ;(x * 3):sum():backward()
    near({3, 3}, seen[1])
    near({30, 30}, seen[2])
    near({30, 30}, x.grad)
    first:remove()
    ;(x * 3):sum():backward()
    near({33, 33}, x.grad)
  end)

  it("that raise end backward with their own error", function()
    local x = leaf {1, 2}
    local h = x:register_hook(function() error({mine = true}) end)
    local ok, e = pcall(function() (x * 3):sum():backward() end)
    assert.is_false(ok)
    assert.is_true(e.mine)
    h:remove()
    ;(x * 3):sum():backward()
    near({3, 3}, x.grad)
  end)

  it("of a wrong shape, or of something else, are named", function()
    local x = leaf {1, 2}
    local h = x:register_hook(function() return sft.ones(3) end)
    raises({"hook", "[3]", "[2]"}, function() x:sum():backward() end)
    h:remove()
    x:register_hook(function() return "text" end)
    raises("hook", function() x:sum():backward() end)
    raises("does not require grad", function() sft.ones(2):register_hook(print) end)
    raises("register_hook", function() leaf {1}:register_hook(3) end)
  end)

  it("can't yield", function()
    local x = leaf {1, 2}
    x:register_hook(function() coroutine.yield() end)
    local co = coroutine.create(function() x:sum():backward() end)
    local ok = coroutine.resume(co)
    assert.is_false(ok)
  end)

  it("on inner tensors, and retain_grad", function()
    local x = leaf {1, 2}
    local h = x * 2
    h:retain_grad()
    h:register_hook(function(g) return g * 5 end)
    h:sum():backward()
    near({5, 5}, h.grad)
    near({10, 10}, x.grad)
    raises("retain_grad", function() sft.ones(1):retain_grad() end)
    x:retain_grad() -- a leaf keeps it anyway
  end)

  it("may themselves run backward", function()
    local x, w = leaf {1, 2}, leaf {3}
    x:register_hook(function() sft.enable_grad(function() (w * w):sum():backward() end) end)
    x:sum():backward()
    near({6}, w.grad)
    near({1, 1}, x.grad)
  end)

  it("that are left behind are freed with their tensor", function()
    local probe = setmetatable({}, {__mode = "k"})
    local function leave()
      local x = leaf {1, 2}
      local object = {}
      probe[object] = true
      x:register_hook(function() return object and nil end)
      x:sum():backward()
    end
    leave()
    for _ = 1, 3 do -- what the engine let go is unreferenced at the next backward
      collectgarbage()
      leaf {1}:sum():backward()
    end
    collectgarbage()
    assert.is_nil(next(probe))
  end)
end)

describe("Function", function()
  local Cube = sft.autograd.Function("Cube")
  function Cube.forward(ctx, x)
    ctx:save_for_backward(x)
    return x * x * x
  end
  function Cube.backward(ctx, g)
    local x = ctx.saved_tensors[1]
    return g * 3 * x * x
  end

  it("has a backward of its own, differentiable again", function()
    local x = leaf {1, 2}
    local y = Cube.apply(x)
    near({1, 8}, y)
    y:sum():backward()
    near({3, 12}, x.grad)
    assert.is_true(sft.autograd.gradcheck(Cube.apply, {leaf {0.5, -1, 2}}))
    assert.is_true(sft.autograd.gradgradcheck(Cube.apply, {leaf {0.5, -1, 2}}))
  end)

  it("with several inputs and outputs, nil for those without gradient", function()
    local F = sft.autograd.Function("Both")
    function F.forward(ctx, a, n, b)
      ctx.n = n
      ctx:save_for_backward(a, b)
      return a * b, a * n
    end
    function F.backward(ctx, g1, g2)
      local a, b = table.unpack(ctx.saved_tensors)
      return g1 * b + g2 * ctx.n, nil, g1 * a
    end
    local a, b = leaf {1, 2}, leaf {5, 7}
    local p, q = F.apply(a, 3, b)
    ;(p:sum() + q:sum() * 2):backward()
    near({11, 13}, a.grad)
    near({1, 2}, b.grad)
    a.grad = nil
    p, q = F.apply(a, 3, b)
    assert.is_true(q.requires_grad)
    p:sum():backward()
    near({5, 7}, a.grad)
  end)

  it("reports what its backward does wrong", function()
    local Bad = sft.autograd.Function("Bad")
    function Bad.forward(_, x) return x * 1 end
    function Bad.backward() error("oh no") end
    raises("oh no", function() Bad.apply(leaf {1}):sum():backward() end)
    function Bad.backward() return sft.ones(3) end
    raises("[3]", function() Bad.apply(leaf {1, 2}):sum():backward() end)
    function Bad.backward() return "x" end
    raises("Bad", function() Bad.apply(leaf {1}):sum():backward() end)
    Bad.backward = nil
    raises({"Bad", "backward"}, function() Bad.apply(leaf {1}) end)
  end)
end)

describe("gradcheck", function()
  it("tells right from wrong", function()
    assert.is_true(sft.autograd.gradcheck(function(x) return x:sin() * x end, {leaf {0.1, 0.2}}))
    local Wrong = sft.autograd.Function("Wrong")
    function Wrong.forward(ctx, x) ctx:save_for_backward(x) return x * x end
    function Wrong.backward(ctx, g) return g * ctx.saved_tensors[1] end
    raises("differences give", function() sft.autograd.gradcheck(Wrong.apply, {leaf {1, 2}}) end)
    assert.is_false((sft.autograd.gradcheck(Wrong.apply, {leaf {1, 2}}, {raise_exception = false})))
    raises("float64", function() sft.autograd.gradcheck(sft.sin, {sft.ones(1, {requires_grad = true})}) end)
  end)
end)
