-- What is measured, in sft; works.py has the same in PyTorch under the same names.
--
-- Each work is {name, floor = the highest ratio sft / PyTorch that is good enough, setup = function}.
-- setup() prepares the data and returns a function that does the work n times.

local sft = require "sft"
local nn, F = sft.nn, sft.nn.functional

local works = {}

local function work(floor, name, setup)
  works[#works + 1] = {name = name, floor = floor, setup = setup}
end

-- body() as a work.
local function times(body)
  return function(n)
    for _ = 1, n do body() end
  end
end

-- Calls -------------------------------------------------------------------------------------------

work(0.4, "a + b, 1 element", function()
  local a, b = sft.rand(1), sft.rand(1)
  return function(n)
    for _ = 1, n do local _ = a + b end
  end
end)

work(0.4, "a.add_(b), 1 element", function()
  local a, b = sft.zeros(1), sft.zeros(1)
  return function(n)
    for _ = 1, n do a:add_(b) end
  end
end)

work(0.4, "x[i]", function()
  local x = sft.rand(100, 4)
  return function(n)
    for _ = 1, n do local _ = x[5] end
  end
end)

work(0.45, "matmul 2x2", function()
  local a, b = sft.rand(2, 2), sft.rand(2, 2)
  return function(n)
    for _ = 1, n do local _ = a:matmul(b) end
  end
end)

work(0.35, "ten small ops, forward and backward", function()
  local x = sft.rand(2, 2, {requires_grad = true})
  local w = sft.rand(2, 2, {requires_grad = true})
  local b = sft.rand(2, 2)
  return times(function()
    local h = ((x * w + b):tanh() * w + b):sigmoid();
    ((h * w + b):relu()):sum():backward()
    x.grad, w.grad = nil, nil
  end)
end)

-- Elementwise -------------------------------------------------------------------------------------

for _, size in ipairs {{"1e5", 100000}, {"1e7", 10000000}} do
  local function elementwise(floor, name, op)
    work(floor, ("%s, %s elements"):format(name, size[1]), function()
      local x, y = sft.randn(size[2]), sft.randn(size[2])
      return function(n)
        for _ = 1, n do local _ = op(x, y) end
      end
    end)
  end
  elementwise(1.0, "add", function(x, y) return x + y end)
  elementwise(1.0, "mul", function(x, y) return x * y end)
  elementwise(1.0, "relu", function(x) return x:relu() end)
  elementwise(1.0, "exp", function(x) return x:exp() end)
  elementwise(1.0, "gelu", function(x) return F.gelu(x) end)
  elementwise(0.3, "tanh", function(x) return x:tanh() end)
end

-- Reductions --------------------------------------------------------------------------------------

for _, name in ipairs {"sum", "mean", "max"} do
  for _, over in ipairs {{"all"}, {"the first dim", 1}, {"the last dim", 2}} do
    work(1.0, ("%s over %s, 4096x1024"):format(name, over[1]), function()
      local x = sft.randn(4096, 1024)
      local op, dim = x[name], over[2]
      return function(n)
        for _ = 1, n do local _ = op(x, dim) end
      end
    end)
  end
end

-- Rows --------------------------------------------------------------------------------------------

local function with_backward(name, setup)
  work(0.8, name .. ", forward", function()
    local f, x = setup(false)
    return function(n)
      for _ = 1, n do local _ = f(x) end
    end
  end)
  work(0.8, name .. ", forward and backward", function()
    local f, x, clear = setup(true)
    local y = f(x)
    local g = y.ndim > 0 and sft.randn(y.shape) or nil
    y = nil   -- luacheck: ignore
    return times(function()
      f(x):backward(g)
      clear()
    end)
  end)
end

for _, name in ipairs {"softmax", "log_softmax"} do
  with_backward(name .. " 4096x1024", function(grad)
    local x = sft.randn(4096, 1024, {requires_grad = grad})
    return function(v) return v[name](v, -1) end, x, function() x.grad = nil end
  end)
end

with_backward("layer_norm 4096x1024", function(grad)
  local x = sft.randn(4096, 1024, {requires_grad = grad})
  local w, b = sft.ones(1024, {requires_grad = grad}), sft.zeros(1024, {requires_grad = grad})
  return function(v) return F.layer_norm(v, {1024}, w, b) end, x, function() x.grad, w.grad, b.grad = nil, nil, nil end
end)

with_backward("cross_entropy 4096x1000", function(grad)
  local x = sft.randn(4096, 1000, {requires_grad = grad})
  local target = sft.randint(1, 1001, {4096})
  return function(v) return F.cross_entropy(v, target) end, x, function() x.grad = nil end
end)

-- Matrix products ---------------------------------------------------------------------------------

local function product(name, make)
  work(1.0, name, function()
    local a, b = make()
    return function(n)
      for _ = 1, n do local _ = a:matmul(b) end
    end
  end)
end

for _, s in ipairs {128, 256, 512, 1024} do
  product(("matmul %d^3"):format(s), function() return sft.randn(s, s), sft.randn(s, s) end)
end
-- m x n x k: a plain product, one with the second matrix transposed (a layer forward), one with the
-- first (the gradient of its weight).
for _, s in ipairs {{128, 512, 784}, {128, 512, 512}, {128, 10, 512}, {768, 384, 128}, {768, 512, 128},
  {768, 128, 512}, {2048, 1152, 384}, {2048, 1536, 384}, {2048, 384, 1536}} do
  local m, n, k = s[1], s[2], s[3]
  local text = ("%dx%dx%d"):format(m, n, k)
  product("matmul NT " .. text, function() return sft.randn(m, k), sft.randn(n, k):t() end)
  product("matmul NN " .. text, function() return sft.randn(m, k), sft.randn(k, n) end)
  product("matmul TN " .. text, function() return sft.randn(k, m):t(), sft.randn(k, n) end)
end
for _, s in ipairs {{48, 64, 32}, {48, 256, 64}} do
  product(("bmm %dx%dx%dx%d"):format(s[1], s[2], s[2], s[3]), function()
    return sft.randn(s[1], s[2], s[3]), sft.randn(s[1], s[2], s[3]):transpose(2, 3)
  end)
end

-- Convolution -------------------------------------------------------------------------------------

for _, s in ipairs {{1, 28, 32}, {32, 28, 64}, {64, 32, 64}, {128, 16, 128}} do
  local function make(grad)
    local x = sft.randn(64, s[1], s[2], s[2], {requires_grad = grad and s[1] > 1})
    local conv = nn.Conv2d(s[1], s[3], 3, {padding = 1})
    return conv, x
  end
  local name = ("conv2d 64x%dx%dx%d to %d, 3x3"):format(s[1], s[2], s[2], s[3])
  work(1.0, name .. ", forward", function()
    local conv, x = make(false)
    return function(n)
      local guard <close> = sft.no_grad()   -- luacheck: ignore guard
      for _ = 1, n do local _ = conv(x) end
    end
  end)
  work(1.0, name .. ", forward and backward", function()
    local conv, x = make(true)
    local g = sft.randn(64, s[3], s[2], s[2])
    return times(function()
      conv(x):backward(g)
      x.grad, conv.weight.grad, conv.bias.grad = nil, nil, nil
    end)
  end)
end

-- Training steps ----------------------------------------------------------------------------------

local function train(model, optimizer, loss)
  return times(function()
    optimizer:zero_grad()
    loss(model):backward()
    optimizer:step()
  end)
end

work(0.9, "step of MLP 784-512-512-10, batch 128, Adam", function()
  local model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
  local x, y = sft.randn(128, 784), sft.randint(1, 11, {128})
  return train(model, sft.optim.Adam(model:parameters(), {lr = 1e-3}), function(m) return F.cross_entropy(m(x), y) end)
end)

work(0.9, "step of CNN 32-64-pool-128-10, batch 64, SGD momentum", function()
  local model = nn.Sequential(nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 64, 3, {padding = 1}),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Linear(128, 10))
  local x, y = sft.randn(64, 1, 28, 28), sft.randint(1, 11, {64})
  return train(model, sft.optim.SGD(model:parameters(), {lr = 0.01, momentum = 0.9}),
    function(m) return F.cross_entropy(m(x), y) end)
end)

local Block = nn.class("Block")

function Block:init(width, heads)
  self.heads = heads
  self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
  self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
  self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
end

function Block:forward(x)
  local b, t, w = x:size(1), x:size(2), x:size(3)
  local qkv = self.qkv(self.norm1(x)):view(b, t, 3, self.heads, w // self.heads):permute(3, 1, 4, 2, 5)
  local y = F.scaled_dot_product_attention(qkv[1], qkv[2], qkv[3], {is_causal = true})
  x = x + self.out(y:transpose(2, 3):reshape(b, t, w))
  return x + self.down(F.gelu(self.up(self.norm2(x))))
end

local GPT = nn.class("GPT")

function GPT:init(vocabulary, length, layers, width, heads)
  self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
  self.blocks = nn.ModuleList()
  for _ = 1, layers do self.blocks:append(Block(width, heads)) end
  self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, {bias = false})
  self:register_buffer("places", sft.arange(1, length + 1))
end

function GPT:forward(ids)
  local x = self.token(ids) + self.position(self.places)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

local function gpt(floor, layers, width, heads, length, batch)
  work(floor, ("step of GPT %dx%d, T %d, batch %d, AdamW"):format(layers, width, length, batch), function()
    local model = GPT(65, length, layers, width, heads)
    local x, y = sft.randint(1, 66, {batch, length}), sft.randint(1, 66, {batch * length})
    return train(model, sft.optim.AdamW(model:parameters(), {lr = 1e-3}),
      function(m) return F.cross_entropy(m(x):view(-1, 65), y) end)
  end)
end
gpt(0.85, 4, 128, 4, 64, 12)
gpt(1.0, 6, 384, 6, 256, 8)

-- Data --------------------------------------------------------------------------------------------

work(0.3, "epoch of DataLoader, 50000x784 by 128", function()
  local set = sft.data.TensorDataset(sft.rand(50000, 784), sft.randint(1, 11, {50000}))
  local loader = sft.data.DataLoader(set, {batch_size = 128, shuffle = true})
  return times(function()
    for _ in loader:iter() do end   -- luacheck: ignore
  end)
end)

return works
