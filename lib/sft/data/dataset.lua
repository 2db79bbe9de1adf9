-- Datasets. A dataset is any object with a length (#dataset, or a method `len`) and a way to get a
-- sample: dataset[i] or a method `get(i)`, i from 1. A plain list of samples is one as it is.

local sft = require "sft"
local args = require "sft.args"

local fail = args.fail
local M = {}

local Dataset = {}

local instances = {__name = "Dataset"}

function instances.__index(d, k)
  local v = rawget(d, "_class")[k]
  if v == nil and type(k) == "number" then return d:get(k) end
  return v
end

function instances.__len(d) return d:len() end

-- data.class(name): a class of datasets: define :init(...), :get(i) and :len().
function M.class(name)
  local class = setmetatable({_name = name}, {
    __index = Dataset,
    __call = function(class, ...)
      local d = setmetatable({_class = class}, instances)
      d:init(...)
      return d
    end,
    __tostring = function() return "class " .. name end,
  })
  return class
end

function Dataset:init() end
function Dataset:get() fail("%s has no method get", self._name) end
function Dataset:len() fail("%s has no method len", self._name) end
M.Dataset = setmetatable(Dataset, {__call = function(_, t)
  -- Dataset{len = n, get = function(i) ... end}: from two functions.
  if type(t) ~= "table" or t.get == nil or t.len == nil then
    fail("Dataset: a table with get and len is expected")
  end
  local d = setmetatable({_class = Dataset}, instances)
  local len = t.len
  d.get = function(_, i) return t.get(i) end
  d.len = type(len) == "number" and function() return len end or function() return len() end
  return d
end})

-- The number of samples.
function M.length(dataset)
  local n
  if type(dataset) == "table" and getmetatable(dataset) == nil and rawget(dataset, "len") ~= nil then
    n = type(dataset.len) == "number" and dataset.len or dataset:len()
  elseif type(dataset) == "table" or type(dataset) == "userdata" then
    local ok, len = pcall(function() return #dataset end)
    if not ok then fail("a dataset must have a length, %s has none", args.kind(dataset)) end
    n = len
  else
    fail("a dataset must be a table or an object, got %s", args.kind(dataset))
  end
  if math.type(n) ~= "integer" or n < 0 then
    fail("a dataset's length must be a whole number, got %s", args.kind(n))
  end
  return n
end

-- A function(i) that gets sample i.
function M.getter(dataset)
  if type(dataset) == "table" or type(dataset) == "userdata" then
    local get
    if not sft.is_tensor(dataset) then get = dataset.get end
    if get ~= nil then return function(i) return get(dataset, i) end end
    return function(i) return dataset[i] end
  end
  fail("a dataset must be a table or an object, got %s", args.kind(dataset))
end

local function in_range(name, i, n)
  local k = args.whole(i)
  if not k then fail("%s: an index must be a whole number, got %s", name, args.kind(i)) end
  if k < 0 then k = k + n + 1 end
  if k < 1 or k > n then
    fail("%s: index %d is out of range, there are %d samples%s", name, i, n, i == 0 and " (indices start at 1)" or "")
  end
  return k
end

-- Sample i is the i-th row of each tensor.
local TensorDataset = M.class("TensorDataset")
M.TensorDataset = TensorDataset

function TensorDataset:init(...)
  local tensors = {...}
  if #tensors == 1 and type(tensors[1]) == "table" then tensors = table.move(tensors[1], 1, #tensors[1], 1, {}) end
  if #tensors == 0 then fail("TensorDataset: at least one tensor is expected") end
  for i, t in ipairs(tensors) do
    if not sft.is_tensor(t) then fail("TensorDataset: argument %d must be a Tensor, got %s", i, args.kind(t)) end
    if t.ndim == 0 then fail("TensorDataset: tensor %d has no dims, so it has no samples", i) end
    if t:size(1) ~= tensors[1]:size(1) then
      fail("TensorDataset: the tensors must have the same size of dim 1, tensor 1 has %d, tensor %d has %d",
        tensors[1]:size(1), i, t:size(1))
    end
  end
  self.tensors = tensors
end

function TensorDataset:len() return self.tensors[1]:size(1) end

function TensorDataset:get(i)
  i = in_range("TensorDataset", i, self:len())
  local out = {}
  for k, t in ipairs(self.tensors) do out[k] = t[i] end
  return table.unpack(out)
end

-- Many rows at once, for the loader.
function TensorDataset:get_batch(indices)
  local out = {}
  for k, t in ipairs(self.tensors) do out[k] = t:index_select(1, indices) end
  return table.unpack(out)
end

-- n rows in a row, from the one at `first`; copies, so that the batch may be written to.
function TensorDataset:get_range(first, n)
  local out = {}
  for k, t in ipairs(self.tensors) do out[k] = t:narrow(1, first, n):clone() end
  return table.unpack(out)
end

-- Part of a dataset: the samples with these indices (a list, or a tensor of int64).
local Subset = M.class("Subset")
M.Subset = Subset

function Subset:init(dataset, indices)
  if sft.is_tensor(indices) then indices = indices:tolist() end
  if type(indices) ~= "table" then fail("Subset: indices must be a list, got %s", args.kind(indices)) end
  local n = M.length(dataset)
  local list = {}
  for k, i in ipairs(indices) do list[k] = in_range("Subset", i, n) end
  self.dataset, self.indices = dataset, list
  self._get = M.getter(dataset)
end

function Subset:len() return #self.indices end
function Subset:get(i) return self._get(self.indices[in_range("Subset", i, #self.indices)]) end

-- Batches go to the dataset below in one piece where that one can.
function Subset:get_batch(indices)
  return self.dataset:get_batch(self:_tensor():index_select(1, indices))
end

function Subset:get_range(first, n)
  return self.dataset:get_batch(self:_tensor():narrow(1, first, n))
end

function Subset:_tensor()
  self._rows = self._rows or sft.tensor(self.indices, {dtype = sft.int64})
  return self._rows
end

-- Several datasets one after the other.
local ConcatDataset = M.class("ConcatDataset")
M.ConcatDataset = ConcatDataset

function ConcatDataset:init(datasets)
  if type(datasets) ~= "table" or #datasets == 0 then fail("ConcatDataset: a list of datasets is expected") end
  self.datasets, self.ends, self._getters = datasets, {}, {}
  local total = 0
  for i, d in ipairs(datasets) do
    total = total + M.length(d)
    self.ends[i], self._getters[i] = total, M.getter(d)
  end
end

function ConcatDataset:len() return self.ends[#self.ends] end

function ConcatDataset:get(i)
  i = in_range("ConcatDataset", i, self:len())
  local low, high = 1, #self.ends
  while low < high do
    local middle = (low + high) // 2
    if self.ends[middle] >= i then high = middle else low = middle + 1 end
  end
  return self._getters[low](i - (self.ends[low - 1] or 0))
end

-- Can this dataset hand out a batch for a tensor of indices?
function M.has_batches(dataset)
  if type(dataset) ~= "table" or getmetatable(dataset) ~= instances then return false end
  local class = rawget(dataset, "_class")
  if class == TensorDataset then return rawget(dataset, "get") == nil end
  return class == Subset and M.has_batches(dataset.dataset)
end

-- n numbers 1..n in random order, as a tensor.
function M.permutation(n, generator)
  return sft.randperm(n, {generator = generator})
end

-- Parts of the given sizes (or fractions that add up to 1), picked at random: a list of Subsets.
local split_signature = args.signature("random_split", "dataset, lengths, generator?")
function M.random_split(...)
  local a = split_signature(...)
  local n = M.length(a.dataset)
  if type(a.lengths) ~= "table" then fail("random_split: lengths must be a list, got %s", args.kind(a.lengths)) end
  local lengths, sum, fractions = {}, 0, 0
  for i, v in ipairs(a.lengths) do
    if type(v) ~= "number" or v < 0 then fail("random_split: lengths[%d] must be a number, not negative", i) end
    lengths[i], sum = v, sum + v
    if v ~= math.floor(v) then fractions = fractions + 1 end
  end
  if math.abs(sum - 1) < 1e-9 and (fractions > 0 or n ~= 1) then
    sum = 0
    for i, v in ipairs(lengths) do
      lengths[i] = math.floor(n * v)
      sum = sum + lengths[i]
    end
    for i = 0, n - sum - 1 do
      local k = i % #lengths + 1
      lengths[k] = lengths[k] + 1
    end
    sum = n
  end
  if sum ~= n then fail("random_split: the lengths add up to %s, the dataset has %d samples", sum, n) end
  local order, at, parts = M.permutation(n, a.generator):tolist(), 0, {}
  for i, len in ipairs(lengths) do
    len = math.tointeger(len) or fail("random_split: lengths[%d] must be a whole number", i)
    parts[i] = Subset(a.dataset, table.move(order, at + 1, at + len, 1, {}))
    at = at + len
  end
  return parts
end

return M
