-- Samplers: the order in which a loader visits its dataset. A sampler is an object with iter(),
-- which returns a function that gives one index (from 1) after the other, and a length.

local sft = require "sft"
local args = require "sft.args"
local dataset = require "sft.data.dataset"

local fail = args.fail
local M = {}

local function class(name)
  local c = {_name = name}
  c.__index, c.__name = c, name
  c.__len = function(s) return s:len() end
  return setmetatable(c, {__call = function(_, ...)
    local s = setmetatable({}, c)
    s:init(...)
    return s
  end})
end

local function each(list)
  local i = 0
  return function()
    i = i + 1
    return list[i]
  end
end

-- `indices` is there in samplers that know a whole epoch at once: a tensor, or nil for 1..n.
local Sequential = class("SequentialSampler")
M.SequentialSampler = Sequential

function Sequential:init(source) self.source = source end
function Sequential:len() return dataset.length(self.source) end

function Sequential:iter()
  local i, n = 0, self:len()
  return function()
    i = i + 1
    if i <= n then return i end
  end
end

local Random = class("RandomSampler")
M.RandomSampler = Random
local random_signature = args.signature("RandomSampler",
  "data_source, replacement:bool=false, num_samples:int?, generator?")

function Random:init(...)
  local a = random_signature(...)
  self.source, self.replacement, self.generator = a.data_source, a.replacement, a.generator
  self.num_samples = a.num_samples
  if a.num_samples and a.num_samples < 0 then fail("RandomSampler: num_samples must not be negative") end
end

function Random:len() return self.num_samples or dataset.length(self.source) end

function Random:indices()
  local n, want = dataset.length(self.source), self:len()
  if n == 0 then
    if want > 0 then fail("RandomSampler: the dataset is empty") end
    return sft.empty(0, {dtype = sft.int64})
  end
  if self.replacement then
    return sft.randint(1, n + 1, {want}, {generator = self.generator, dtype = sft.int64})
  end
  local parts, have = {}, 0
  repeat
    local p = dataset.permutation(n, self.generator)
    if want - have < n then p = p:narrow(1, 1, want - have) end
    parts[#parts + 1] = p
    have = have + n
  until have >= want
  return #parts == 1 and parts[1] or sft.cat(parts)
end

function Random:iter() return each(self:indices():tolist()) end

-- Draws index i with a probability in proportion to weights[i].
local Weighted = class("WeightedRandomSampler")
M.WeightedRandomSampler = Weighted
local weighted_signature = args.signature("WeightedRandomSampler",
  "weights, num_samples:int, replacement:bool=true, generator?")

function Weighted:init(...)
  local a = weighted_signature(...)
  self.weights = sft.is_tensor(a.weights) and a.weights or sft.tensor(a.weights, {dtype = sft.float64})
  self.num_samples, self.replacement, self.generator = a.num_samples, a.replacement, a.generator
end

function Weighted:len() return self.num_samples end

function Weighted:indices()
  return sft.multinomial(self.weights, self.num_samples, self.replacement, {generator = self.generator})
end

function Weighted:iter() return each(self:indices():tolist()) end

-- Indices out of a given list, in random order.
local SubsetRandom = class("SubsetRandomSampler")
M.SubsetRandomSampler = SubsetRandom
local subset_signature = args.signature("SubsetRandomSampler", "indices, generator?")

function SubsetRandom:init(...)
  local a = subset_signature(...)
  if type(a.indices) ~= "table" then fail("SubsetRandomSampler: a list is expected, got %s", args.kind(a.indices)) end
  self.list, self.generator = a.indices, a.generator
end

function SubsetRandom:len() return #self.list end

function SubsetRandom:indices()
  if #self.list == 0 then return sft.empty(0, {dtype = sft.int64}) end
  local all = sft.tensor(self.list, {dtype = sft.int64})
  return all:index_select(1, dataset.permutation(#self.list, self.generator))
end

function SubsetRandom:iter() return each(self:indices():tolist()) end

-- Lists of batch_size indices of another sampler.
local Batch = class("BatchSampler")
M.BatchSampler = Batch
local batch_signature = args.signature("BatchSampler", "sampler, batch_size:int, drop_last:bool=false")

function Batch:init(...)
  local a = batch_signature(...)
  if a.batch_size < 1 then fail("BatchSampler: batch_size must be positive, got %d", a.batch_size) end
  self.sampler, self.batch_size, self.drop_last = a.sampler, a.batch_size, a.drop_last
end

function Batch:len()
  local n = #self.sampler
  return self.drop_last and n // self.batch_size or (n + self.batch_size - 1) // self.batch_size
end

function Batch:iter()
  local next_index = M.iterator(self.sampler)
  return function()
    local list = {}
    while #list < self.batch_size do
      local i = next_index()
      if i == nil then break end
      list[#list + 1] = i
    end
    if #list == self.batch_size or (#list > 0 and not self.drop_last) then return list end
  end
end

-- What a user may give as a sampler: an object with iter(), or a list.
function M.iterator(sampler)
  if type(sampler) ~= "table" then
    fail("a sampler must be an object with a method iter, or a list, got %s", args.kind(sampler))
  end
  if sampler.iter then return sampler:iter() end
  return each(sampler)
end

return M
