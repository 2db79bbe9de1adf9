-- backward, hooks and functions with a backward of their own.

local sft = require "sft"
local Function, gradcheck, gradgradcheck = sft.autograd.Function, sft.autograd.gradcheck, sft.autograd.gradgradcheck

local function says(part, fn, ...)
  local ok, e = pcall(fn, ...)
  assert.is_false(ok)
  assert.truthy(tostring(e):find(part, 1, true), ("%q does not say %q"):format(tostring(e), part))
end

describe("backward", function()
  it("takes a gradient, and keeps the graph when told to", function()
    local x = sft.ones(2, {requires_grad = true})
    local y = x * x
    y:backward(sft.tensor {1.0, 2.0}, {retain_graph = true})
    assert.same({2, 4}, x.grad:tolist())
    y:backward {gradient = sft.ones(2)}
    assert.same({4, 6}, x.grad:tolist())
    says("already used", y.backward, y, sft.ones(2))
    says("one element only", function() (x * 2):backward() end)
    says("does not require grad", function() sft.ones(1):backward() end)
    says("unknown keyword 'retain'", function() (x * 2):backward(nil, {retain = true}) end)
    says("backward", function() y:backward(3) end)
  end)

  it("has functional forms", function()
    local x = sft.tensor({2.0, 3.0}, {requires_grad = true})
    local g = sft.autograd.grad((x ^ 3):sum(), x, {create_graph = true})[1]
    assert.same({12, 27}, g:tolist())
    assert.same({12, 18}, sft.autograd.grad(g:sum(), {x})[1]:tolist())
    assert.is_nil(x.grad)
    local unused = sft.ones(1, {requires_grad = true})
    says("not used", sft.autograd.grad, (x * 1):sum(), {unused})
    assert.is_false(sft.autograd.grad((x * 1):sum(), {unused}, {allow_unused = true})[1])
    sft.autograd.backward({(x * 2):sum(), x * 3}, {false, sft.ones(2)})
    assert.same({5, 5}, x.grad:tolist())
    says("one gradient per tensor", sft.autograd.backward, {x}, {x, x})
  end)
end)

describe("hooks", function()
  it("see and replace gradients until removed", function()
    local x = sft.ones(2, {requires_grad = true})
    local seen
    local h = x:register_hook(function(g)
      seen = g:tolist()
      return g * 10
    end)
    local function run()
      x.grad = nil
      local y = x * 3
      y:sum():backward()
      return x.grad:tolist()
    end
    assert.same({30, 30}, run())
    assert.same({3, 3}, seen)
    h:remove()
    h:remove()
    assert.same({3, 3}, run())
    local y = x * 2
    y:register_hook(function(g) return g + 1 end)
    y:retain_grad()
    x.grad = nil
    y:sum():backward()
    assert.same({4, 4}, x.grad:tolist())
  end)

  it("pass errors on as they are", function()
    local x = sft.ones(1, {requires_grad = true})
    local value = {}
    x:register_hook(function() error(value) end)
    local ok, e = pcall(function() (x * 2):backward() end)
    assert.is_false(ok)
    assert.is_true(rawequal(value, e))
    assert.is_true(sft.is_grad_enabled())
    says("must return a Tensor or nil", function()
      local y = sft.ones(1, {requires_grad = true})
      y:register_hook(function() return 3 end)
      y:backward()
    end)
    says("expected a function", x.register_hook, x, 3)
    says("does not require grad", function() sft.ones(1):register_hook(print) end)
  end)

  it("may fail and catch inside", function()
    local x = sft.ones(1, {requires_grad = true})
    x:register_hook(function(g)
      assert.is_false((pcall(function() return g + sft.ones(2, 3):matmul(g) end)))
      return g * 2
    end)
    x:backward()
    assert.same({2}, x.grad:tolist())
  end)

  it("can run a backward of their own", function()
    local x = sft.ones(1, {requires_grad = true})
    local inner
    x:register_hook(function()
      sft.enable_grad(function()
        local z = sft.tensor({3.0}, {requires_grad = true});
        (z * z):backward()
        inner = z.grad:item()
      end)
    end);
    (x * 2):backward()
    assert.equal(6, inner)
    assert.same({2}, x.grad:tolist())
  end)

  it("can't yield", function()
    local x = sft.ones(1, {requires_grad = true})
    x:register_hook(coroutine.yield)
    local co = coroutine.create(function() (x * 2):backward() end)
    local ok, e = coroutine.resume(co)
    assert.is_false(ok)
    assert.truthy(tostring(e):find("a backward hook can't yield", 1, true))
  end)
end)

describe("autograd.Function", function()
  local Exp = Function("Exp")
  function Exp.forward(ctx, x)
    local y = x:exp()
    ctx:save_for_backward(y)
    return y
  end
  function Exp.backward(ctx, g) return g * ctx.saved_tensors[1] end

  local Scale = Function("Scale")
  function Scale.forward(ctx, x, k, y)
    ctx.k = k
    ctx:save_for_backward(x, y)
    return x * k * y, k
  end
  function Scale.backward(ctx, g)
    local x, y = table.unpack(ctx.saved_tensors)
    return ctx.needs_input_grad[1] and g * ctx.k * y, nil, g * ctx.k * x
  end

  local function double(...) return sft.tensor({...}, {dtype = "float64", requires_grad = true}) end

  it("has the gradient that it says", function()
    local x = double(0.5, 1.5)
    local y = Exp.apply(x)
    assert.equal("Exp", y.grad_fn)
    y:sum():backward()
    assert.same(x:exp():tolist(), x.grad:tolist())
    assert.is_true(gradcheck(Exp, x))
    assert.is_true(gradgradcheck(Exp, x))
    assert.is_true(gradcheck(function(a, b) return (Scale.apply(a, 3, b)) end, {x, double(2, -1)}))
    local _, k = Scale.apply(x, 3, x)
    assert.equal(3, k)
    assert.is_false(sft.no_grad(Exp.apply, x).requires_grad)
    assert.is_false(Exp.apply(x:detach()).requires_grad)
  end)

  it("may return its input, or a view of it", function()
    local Id = Function("Id")
    function Id.forward(_, x) return x end
    function Id.backward(_, g) return g * 7 end
    local x = double(1, 2)
    Id.apply(x):sum():backward()
    assert.same({7, 7}, x.grad:tolist())
    assert.is_true(x.is_leaf)
  end)

  it("may have outputs without gradient", function()
    local Max = Function("Max")
    function Max.forward(ctx, x)
      local v, i = x:max(1)
      ctx:mark_non_differentiable(i)
      ctx.i, ctx.n = i, x:size(1)
      return v, i
    end
    function Max.backward(ctx, g)
      local out = sft.zeros(ctx.n, {dtype = g.dtype})
      out[ctx.i] = g
      return out
    end
    local x = double(1, 5, 2)
    local v, i = Max.apply(x)
    assert.equal(2, i:item())
    assert.is_false(i.requires_grad)
    v:backward()
    assert.same({0, 1, 0}, x.grad:tolist())
  end)

  it("says what is wrong", function()
    local x = double(1)
    local Bad = Function("Bad")
    says("has no forward", Bad.apply, x)
    function Bad.forward(_, a) return a * 2 end
    says("has no backward", Bad.apply, x)
    function Bad.backward() return 3 end
    says("Bad.backward: result 1 must be a Tensor or nil, got 3", function() Bad.apply(x):backward() end)
    function Bad.backward() error("oops") end
    says("oops", function() Bad.apply(x):backward() end)
    function Bad.backward() coroutine.yield() end
    says("can't yield", function() Bad.apply(x):backward() end)
    function Bad.backward() return sft.ones(5) end
    says("shape", function() Bad.apply(double(1, 2)):sum():backward() end)
    function Bad.forward() end
    says("returned nothing", Bad.apply, x)
    says("the gradient is", gradcheck, function(a)
      function Bad.forward(_, b) return b * 2 end
      function Bad.backward(_, g) return g * 3 end
      return Bad.apply(a)
    end, x)
    says("must be float64", gradcheck, function(a) return a end, sft.ones(1, {requires_grad = true}))
  end)

  it("is freed with its graph", function()
    local function live()
      sft.gc()
      sft.gc()
      return sft.live_tensors()
    end
    local x = double(1, 2)
    local before = live()
    for _ = 1, 50 do
      local y = Exp.apply(x)
      Scale.apply(y, 2, y)
    end
    assert.equal(before, live())
    for _ = 1, 50 do Exp.apply(x):sum():backward() end
    x.grad = nil
    assert.equal(before, live())
    for _ = 1, 50 do
      local z = x * 2
      z:register_hook(function(g) return g + z:detach() * 0 end)
      z:sum():backward()
      z:release()
    end
    x.grad = nil
    assert.is_true(live() <= before + 150)
  end)
end)

describe("the graph of a Function", function()
  it("is freed by backward, with what was saved", function()
    local Twice = Function("Twice")
    function Twice.forward(ctx, x)
      ctx:save_for_backward(x * 1)
      return x * 2
    end
    function Twice.backward(ctx, g)
      assert.equal(1, #ctx.saved_tensors)
      return g * 2
    end
    local x = sft.ones(1000, {requires_grad = true})
    sft.gc()
    sft.gc()
    local before = sft.live_bytes()
    local y = Twice.apply(x):sum()
    sft.gc()
    assert.is_true(sft.live_bytes() >= before + 4000)
    y:backward(nil, {retain_graph = true})
    y:backward()
    assert.equal(4, x.grad[1]:item())
    x.grad = nil
    sft.gc()
    assert.is_true(sft.live_bytes() < before + 1000)
    says("already used", y.backward, y)
  end)
end)
