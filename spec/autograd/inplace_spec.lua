-- In-place operations: version counters, views, views of views, what is not allowed.

local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

local function leaf(list)
  return sft.tensor(list, {dtype = sft.float64, requires_grad = true})
end

-- The gradient of fn(copy of x) with regard to x, compared with central differences.
local function check(fn, list)
  assert.is_true(sft.autograd.gradcheck(function(x) return fn(x:clone()) end, {leaf(list)}))
end

describe("version counters", function()
  it("count writes, of views too", function()
    local x = sft.zeros(3)
    local v = x:view(3)
    local before = x._version
    v:add_(1)
    assert.is_true(x._version > before)
    assert.equal(x._version, v._version)
    before = x._version
    x[1] = 5
    assert.is_true(x._version > before)
    before = x._version
    local _ = {x + 1, x:sum(), x:clone()}
    assert.equal(before, x._version)
  end)

  it("catch an argument that is the tensor written to, or shows its memory", function()
    local writes = {
      function(y) y:mul_(y) end, function(y) y:div_(y) end, function(y) y:pow_(y) end,
      function(y) y:addcmul_(y, y) end, function(y) y:mul_(y:view(3)) end,
    }
    for _, write in ipairs(writes) do
      local y = leaf {1, 2, 3} * 1
      write(y)
      raises({"modified by an in-place operation"}, function() y:sum():backward() end)
    end
    check(function(y) return y:add_(y):sum() end, {1, 2, 3}) -- nothing is saved
  end)

  it("stay when a call fails before it writes", function()
    local x, w = leaf {1, 2}, leaf {3, 4}
    local h = x * 2
    local y = (h * w):sum()
    assert.is_false(pcall(function() h:add_(sft.ones(3)) end))
    y:backward()
    near({6, 8}, x.grad)
  end)

  it("catch what backward would see changed", function()
    local x, w = leaf {1, 2}, leaf {3, 4}
    local h = x * 2
    local y = (h * w):sum()
    h:add_(1)
    raises({"modified by an in-place operation", "mul"}, function() y:backward() end)
    -- what no rule saved may change
    h = x * 2
    y = (h + w):sum()
    h:mul_(3)
    y:backward()
    near({2, 2}, x.grad)
  end)

  it("catch a saved output", function()
    local x = leaf {1, 2}
    local y = x:exp()
    local z = y:sum()
    y:mul_(2)
    raises({"exp", "in-place"}, function() z:backward() end)
    -- the rule of relu sees its result, which relu_ of the next layer leaves as it is
    local r = (x * 1):relu_()
    r:sum():backward()
    near({1, 1}, x.grad)
  end)

  it("catch a write through detach and a view", function()
    local x, w = leaf {1, 2}, leaf {3, 4}
    local h = x * 2
    local y = (h * w):sum()
    h:detach():zero_()
    raises("in-place", function() y:backward() end)
    h = x * 2
    y = (h * w):sum()
    sft.no_grad(function() h[1] = 7 end)
    raises("in-place", function() y:backward() end)
  end)
end)

describe("in-place operations", function()
  it("on leaves that require grad are errors, but not inside no_grad", function()
    local x = leaf {1, 2}
    raises({"leaf", "no_grad"}, function() x:add_(1) end)
    raises("leaf", function() x[1] = 3 end)
    raises("view of a leaf", function() x:view(2):add_(1) end)
    sft.no_grad(function() x:add_(1) end)
    near({2, 3}, x)
    assert.is_true(x.is_leaf)
  end)

  it("are differentiated like the others", function()
    check(function(x) return x:mul_(3):add_(x:detach() * 0 + 1):tanh_() end, {0.1, 0.5, -0.3})
    check(function(x) return x:mul_(x:clone()) end, {0.1, 0.5, -0.3})
    check(function(x) x:copy_(x * 2) return x end, {1, 2})
    check(function(x) x:fill_(3) return x + 0 end, {1, 2})
    check(function(x) x:zero_() return x * 2 end, {1, 2})
    check(function(x) return x:clamp_(-1, 1):pow_(3) end, {-2, 0.5, 3})
  end)

  it("of a constant by what needs a gradient make it part of the graph", function()
    local x = leaf {1, 2, 3}
    local buffer = sft.zeros(3, {dtype = sft.float64})
    buffer:add_(x)
    buffer:mul_(x)
    assert.is_true(buffer.requires_grad)
    buffer:sum():backward()
    near({2, 4, 6}, x.grad)
  end)

  it("that have no gradient cut the history off", function()
    for _, write in ipairs {
      function(h) h:gt_(1) end, function(h) h:logical_not_() end, function(h) h:uniform_() end,
      function(h) h:view(3):normal_() end,
    } do
      local x = leaf {1, 2, 3}
      local h = x * 2
      write(h)
      h:sum():backward()
      near({0, 0, 0}, x.grad)
    end
  end)

  it("on views that were made inside no_grad are refused", function()
    local x = leaf {1, 2, 3}
    local h = x * 1
    local v = sft.no_grad(function() return h:view(3) end)
    raises({"view", "no_grad"}, function() v:mul_(2) end)
    raises({"view", "no_grad"}, function() v:normal_() end)
    sft.no_grad(function() v:mul_(2) end)
    near({2, 4, 6}, h)
    local w = sft.no_grad(function() return x:view(3) end)
    raises("view", function() w:add_(h) end)
    assert.is_true(x.is_leaf)
    h:detach():view(3):mul_(2) -- a tensor of its own
  end)

  it("leave retain_grad with the tensor", function()
    local x = leaf {1, 2}
    local h = x * 2
    h:retain_grad()
    h:mul_(3)
    sft.mul(h, 5):sum():backward()
    near({5, 5}, h.grad)
    near({30, 30}, x.grad)
  end)

  it("through a view change the base's history", function()
    local x = leaf {1, 2, 3, 4}
    local h = x * 1
    h:narrow(1, 2, 2):mul_(10)
    near({1, 20, 30, 4}, h)
    h:sum():backward()
    near({1, 10, 10, 1}, x.grad)
  end)

  it("on the base change its views' history", function()
    local x = leaf {1, 2, 3, 4}
    local h = x * 1
    local v = h:view(2, 2)
    h:mul_(3)
    v:select(1, 2):sum():backward()
    near({0, 0, 3, 3}, x.grad)
  end)

  it("on one view show in another", function()
    local x = leaf {1, 2, 3, 4}
    local h = x * 1
    local a, b = h:view(2, 2), h:narrow(1, 2, 3)
    a:select(2, 1):mul_(5) -- elements 1 and 3
    near({2, 15, 4}, b)
    b:sum():backward()
    near({0, 1, 5, 1}, x.grad)
  end)

  it("on views of views", function()
    check(function(x)
      local h = x * 1
      local v = h:view(2, 3):t()[{{2, 3}}]:select(2, 1)
      v:mul_(v:clone()):add_(1)
      return h * 2
    end, {1, 2, 3, 4, 5, 6})
    check(function(x)
      local h = x * 1
      h:view(3, 2):t():narrow(2, 2, 2):unsqueeze(1):mul_(3)
      h:view(6):narrow(1, 1, 3):exp_()
      return h:view(2, 3)
    end, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6})
  end)

  it("by assignment", function()
    check(function(x)
      local h = sft.zeros(2, 3, {dtype = sft.float64})
      h[1] = x[1] * 2
      h[{2, {1, 2}}] = x[{2, {2, 3}}]
      h[{{}, 3}] = x[{1, 1}]
      return h
    end, {{1, 2, 3}, {4, 5, 6}})
    check(function(x)
      local h = x * 1
      h[h:gt(2)] = 0
      h[sft.tensor {1, 2}] = h[2] * 3
      return h
    end, {{1, 2, 3}, {4, 5, 6}})
  end)

  it("by index_put_ and scatter_ and masked_fill_", function()
    check(function(x)
      local h = x * 1
      h:index_add_(1, sft.tensor {1, 1}, x * 2)
      h:scatter_(2, sft.tensor {{1}, {2}}, x:narrow(2, 1, 1) * 5)
      h:masked_fill_(h:detach():gt(20.5), 1)
      return h
    end, {{1, 2, 3}, {4, 5, 6}})
  end)

  it("on expanded tensors are refused and change nothing", function()
    local x = sft.zeros(3, 1):expand(3, 4)
    raises({"memory", "clone"}, function() x:add_(1) end)
    raises({"memory", "clone"}, function() x[1] = 2 end)
    near(sft.zeros(3, 4), x)
    -- a write into a part that has no overlap is fine
    x:select(2, 1):fill_(2)
    near(sft.full({3, 4}, 2), x)
  end)

  it("with overlapping operands give the right result", function()
    local x = sft.arange(1, 11):float()
    local want = x:narrow(1, 2, 9) + x:narrow(1, 1, 9)
    local y = x:clone()
    local ok = pcall(function() y:narrow(1, 2, 9):add_(y:narrow(1, 1, 9)) end)
    if ok then near(want, y:narrow(1, 2, 9)) else near(x, y) end
    y = x:clone()
    ok = pcall(function() y:narrow(1, 1, 9):copy_(y:narrow(1, 2, 9)) end)
    if ok then near(x:narrow(1, 2, 9), y:narrow(1, 1, 9)) end
    local m = sft.arange(1, 10):float():view(3, 3)
    local t = m:t():clone()
    ok = pcall(function() m:copy_(m:t()) end)
    if ok then near(t, m) end
  end)

  it("of a smaller result, or of another kind of number, are refused", function()
    local x = sft.tensor {1, 2, 3}
    raises({"add", "float"}, function() x:add_(0.5) end)
    raises("shape", function() x:add_(sft.ones(2, 3):long()) end)
    raises("float", function() x:div_(2) end)
    near({1, 2, 3}, x)
  end)

  it("that make a cycle of tensors and graph are freed", function()
    local function make()
      local x = leaf {1, 2}
      local h = x * 1
      local v = h:view(2)
      v:mul_(h:detach():clone())
      h:add_(v:clone())
      return h:sum()
    end
    make():backward()
    collectgarbage()
    collectgarbage()
    local before = sft.live_tensors()
    for _ = 1, 50 do make() end
    for _ = 1, 50 do make():backward() end
    collectgarbage()
    collectgarbage()
    assert.equal(before, sft.live_tensors())
  end)
end)

describe("requires_grad of views", function()
  it("follows the base", function()
    local h = leaf {1, 2} * 1
    local v = h:view(2)
    assert.is_true(v.requires_grad)
    local plain = sft.zeros(2, {dtype = sft.float64})
    local pv = plain:view(2)
    assert.is_false(pv.requires_grad)
    plain:add_(h)
    assert.is_true(pv.requires_grad)
    assert.is_true((pv * 1).requires_grad)
  end)
end)
