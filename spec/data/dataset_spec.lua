local sft = require "sft"
local values = require "spec.support.values"
local near, raises, shape = values.near, values.raises, values.shape
local data = sft.data

local function numbers(n)
  return data.TensorDataset(sft.arange(1, n + 1), sft.arange(1, n + 1) * 10)
end

describe("datasets", function()
  it("TensorDataset gives rows", function()
    local d = numbers(3)
    assert.equal(3, #d)
    local x, y = d:get(2)
    near({2, 20}, {x:item(), y:item()})
    near(3, (d[-1]))
    raises("start at 1", d.get, d, 0)
    raises("out of range", d.get, d, 4)
    raises("tensor 1 has 3, tensor 2 has 2", data.TensorDataset, sft.zeros(3), sft.zeros(2))
    raises("must be a Tensor", data.TensorDataset, sft.zeros(3), 4)
    raises("at least one", data.TensorDataset)
  end)

  it("Subset and ConcatDataset", function()
    local s = data.Subset(numbers(5), {5, 1})
    assert.equal(2, #s)
    near(5, (s:get(1)))
    near(1, (data.Subset(s, {2}):get(1)))
    raises("out of range", data.Subset, numbers(5), {6})
    local c = data.ConcatDataset {numbers(2), numbers(3), {{"x"}, {"y"}}}
    assert.equal(7, #c)
    near(2, (c:get(2)))
    near(1, (c:get(3)))
    assert.same({"y"}, c:get(7))
  end)

  it("are made of functions, and as classes", function()
    local d = data.Dataset {len = 3, get = function(i) return i * i end}
    assert.equal(3, #d)
    assert.equal(9, d:get(3))
    local Squares = data.class("Squares")
    function Squares:init(n) self.n = n end
    function Squares:len() return self.n end
    function Squares:get(i) return i * i end
    assert.equal(4, #Squares(4))
    assert.equal(16, Squares(4)[4])
  end)

  it("random_split takes all, once", function()
    local a, b = table.unpack(data.random_split(numbers(10), {7, 3}))
    assert.equal(7, #a)
    assert.equal(3, #b)
    local sum = 0
    for _, part in ipairs {a, b} do
      for i = 1, #part do sum = sum + part:get(i):item() end
    end
    assert.equal(55, sum)
    local parts = data.random_split(numbers(10), {0.5, 0.25, 0.25})
    assert.same({6, 2, 2}, {#parts[1], #parts[2], #parts[3]})
    raises("add up to 9", data.random_split, numbers(10), {7, 2})
  end)
end)

local function collect(loader)
  local out = {}
  for x in loader:iter() do out[#out + 1] = x:tolist() end
  return out
end

describe("DataLoader", function()
  it("makes batches, the last one partial or dropped", function()
    local loader = data.DataLoader(numbers(5), {batch_size = 2})
    assert.equal(3, #loader)
    assert.same({{1, 2}, {3, 4}, {5}}, collect(loader))
    loader = data.DataLoader(numbers(5), {batch_size = 2, drop_last = true})
    assert.equal(2, #loader)
    assert.same({{1, 2}, {3, 4}}, collect(loader))
    assert.same({}, collect(data.DataLoader(data.TensorDataset(sft.zeros(0)))))
  end)

  it("gives batches that are copies", function()
    local t = sft.arange(1, 5)
    for x in data.DataLoader(data.TensorDataset(t), {batch_size = 2}):iter() do x:fill_(0) end
    near({1, 2, 3, 4}, t)
  end)

  it("shuffles by the seed, anew in each epoch", function()
    local loader = data.DataLoader(numbers(20), {batch_size = 20, shuffle = true})
    sft.manual_seed(4)
    local a, b = collect(loader), collect(loader)
    assert.not_same(a, b)
    sft.manual_seed(4)
    assert.same(a, collect(loader))
    table.sort(a[1])
    for i = 1, 20 do assert.equal(i, a[1][i]) end
  end)

  it("reads any object with a length, sample by sample", function()
    local list = {{x = 1, y = "a"}, {x = 2, y = "b"}, {x = 3, y = "c"}}
    local seen = {}
    for batch in data.DataLoader(list, {batch_size = 2}):iter() do seen[#seen + 1] = batch end
    near({1, 2}, seen[1].x)
    assert.equal(sft.int64, seen[1].x.dtype)
    assert.same({"a", "b"}, seen[1].y)
    assert.same({"c"}, seen[2].y)
  end)

  it("stacks what several values a sample are", function()
    local d = data.Dataset {len = 4, get = function(i) return sft.full({2}, i), i, i + 0.5, i > 2 end}
    for x, y, z, flag in data.DataLoader(d, {batch_size = 4}):iter() do
      assert.same({4, 2}, shape(x))
      near({1, 2, 3, 4}, y)
      near({1.5, 2.5, 3.5, 4.5}, z)
      assert.equal(sft.float32, z.dtype)
      assert.same({false, false, true, true}, flag:tolist())
    end
  end)

  it("takes a collate function, samplers and lists of batches", function()
    local loader = data.DataLoader(numbers(4), {batch_size = 2, collate_fn = function(samples)
      local s = 0
      for _, sample in ipairs(samples) do s = s + sample[1]:item() * sample[2]:item() end
      return s
    end})
    local sums = {}
    for s in loader:iter() do sums[#sums + 1] = s end
    assert.same({10 * 1 + 20 * 2, 30 * 3 + 40 * 4}, sums)
    assert.same({{4, 1}}, collect(data.DataLoader(numbers(4), {sampler = {4, 1}, batch_size = 2})))
    assert.same({{1}, {2, 3}}, collect(data.DataLoader(numbers(4), {batch_sampler = {{1}, {2, 3}}})))
    local weighted = data.WeightedRandomSampler({0, 1, 0, 0}, 3)
    assert.same({{2, 2, 2}}, collect(data.DataLoader(numbers(4), {sampler = weighted, batch_size = 3})))
    local many = data.RandomSampler(numbers(4), {num_samples = 6})
    assert.equal(6, #collect(data.DataLoader(numbers(4), {sampler = many, batch_size = 6}))[1])
  end)

  it("works over Subsets in one piece", function()
    local part = data.Subset(numbers(9), {9, 7, 5})
    assert.same({{9, 7}, {5}}, collect(data.DataLoader(part, {batch_size = 2})))
  end)

  it("names the sample that failed", function()
    local d = data.Dataset {len = 5, get = function(i)
      if i == 4 then error("broken file") end
      return i
    end}
    local n = 0
    local e = raises({"DataLoader: sample 4 of the dataset: ", "dataset_spec.lua", "broken file"}, function()
      for _ in data.DataLoader(d, {batch_size = 2}):iter() do n = n + 1 end
    end)
    assert.equal(1, n)
    assert.is_string(tostring(e))
    raises("returned nothing for sample 1", function()
      for _ in data.DataLoader(data.Dataset {len = 1, get = function() end}):iter() do n = n + 1 end
    end)
    raises({"same shape", "[1]", "[2]"}, function()
      local ragged = data.Dataset {len = 2, get = function(i) return sft.zeros(i) end}
      for _ in data.DataLoader(ragged, {batch_size = 2}):iter() do n = n + 1 end
    end)
  end)

  it("has randomness that depends on the sample and the epoch only", function()
    local d = data.Dataset {len = 6, get = function() return math.random(1 << 40), sft.rand({1}):item() end}
    local function draw(options)
      sft.manual_seed(9)
      local loader = data.DataLoader(d, options)
      local out = {}
      for epoch = 1, 2 do
        out[epoch] = {}
        for a, b in loader:iter() do
          for i = 1, a:numel() do table.insert(out[epoch], a[i]:item() .. "/" .. b[i]:item()) end
        end
      end
      return out
    end
    local one = draw {batch_size = 1}
    assert.same(one, draw {batch_size = 4})
    assert.same(one, draw {batch_size = 2, num_workers = 2})
    assert.not_same(one[1], one[2])
    assert.not_equal(one[1][1], one[1][2])
  end)

  it("leaves the generator of the script alone", function()
    local d = data.Dataset {len = 4, get = function() return sft.rand({1}):item() end}
    sft.manual_seed(1)
    local iterator = data.DataLoader(d):iter()
    local state = sft.get_rng_state()
    iterator()
    iterator()
    near(state, sft.get_rng_state())
  end)

  it("may be left early, and yields inside", function()
    local d = data.Dataset {len = 4, get = function(i)
      coroutine.yield("waiting")
      return i
    end}
    local co = coroutine.wrap(function()
      for x in data.DataLoader(d, {batch_size = 2}):iter() do return x:tolist() end   -- luacheck: ignore 512
    end)
    assert.equal("waiting", co())
    assert.equal("waiting", co())
    assert.same({1, 2}, co())
  end)

  it("refuses options that exclude each other", function()
    raises("not both", data.DataLoader, numbers(2), {shuffle = true, sampler = {1}})
    raises("batch_size must be positive", data.DataLoader, numbers(2), {batch_size = 0})
    raises("batch_sampler excludes", data.DataLoader, numbers(2), {batch_sampler = {{1}}, batch_size = 3})
    raises('did you mean "shuffle"', data.DataLoader, numbers(2), {shufle = true})
  end)

  it("pins where that means something, and is silent elsewhere", function()
    assert.same({{1, 2}}, collect(data.DataLoader(numbers(2), {batch_size = 2, pin_memory = true})))
  end)
end)
