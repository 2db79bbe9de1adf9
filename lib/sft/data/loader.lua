-- DataLoader: batches of a dataset.
--
--   local loader = data.DataLoader(dataset, {batch_size = 128, shuffle = true})
--   for x, y in loader:iter() do ... end        -- #loader batches
--
-- A TensorDataset is read with one index_select for each tensor of a batch; other datasets sample
-- by sample. Randomness in a dataset (sft's and math.random's) depends on the loader's seed, the
-- epoch and the sample's index only.

local sft = require "sft"
local args = require "sft.args"
local datasets = require "sft.data.dataset"
local samplers = require "sft.data.sampler"

local fail = args.fail
local M = {}

-- Collating --------------------------------------------------------------------------------------

local collate_value

local function collate_tables(list)
  local first, out = list[1], {}
  for k in next, first do
    local column = {}
    for i, t in ipairs(list) do
      if t[k] == nil then fail("DataLoader: sample %d of the batch has no field %s", i, tostring(k)) end
      column[i] = t[k]
    end
    out[k] = collate_value(column)
  end
  return out
end

local function collate_tensors(list)
  local shape = list[1].shape
  for i, t in ipairs(list) do
    local same = #t.shape == #shape
    for d = 1, #shape do same = same and t.shape[d] == shape[d] end
    if not same then
      fail("DataLoader: the samples of a batch must have the same shape, sample 1 has %s, sample %d has %s; "
        .. "pass a collate_fn to pad them", tostring(shape), i, tostring(t.shape))
    end
  end
  return sft.stack(list)
end

-- Values of one kind, one of each sample, as one value for the batch.
collate_value = function(list)
  local first = list[1]
  for i, v in ipairs(list) do
    if type(v) ~= type(first) then
      fail("DataLoader: the samples of a batch must be alike, sample 1 has %s, sample %d has %s", args.kind(first), i,
        args.kind(v))
    end
  end
  if sft.is_tensor(first) then return collate_tensors(list) end
  if type(first) == "number" then
    local integers = true
    for _, v in ipairs(list) do integers = integers and math.type(v) == "integer" end
    return sft.tensor(list, {dtype = integers and sft.int64 or nil})
  end
  if type(first) == "boolean" then return sft.tensor(list, {dtype = sft.bool}) end
  if type(first) == "table" and getmetatable(first) == nil then return collate_tables(list) end
  return list
end

-- The default: samples (each a list of what the dataset returned) become one value for each place.
local function default_collate(samples)
  local width = samples[1].n
  local out = {}
  for k = 1, width do
    local column = {}
    for i, s in ipairs(samples) do
      if s.n ~= width then
        fail("DataLoader: the dataset returned %d values for sample 1 of the batch and %d for sample %d", width, s.n, i)
      end
      if s[k] == nil then fail("DataLoader: the dataset returned nil for sample %d of the batch", i) end
      column[i] = s[k]
    end
    out[k] = collate_value(column)
  end
  return table.unpack(out, 1, width)
end

-- data.default_collate(list of samples): a sample of several values is a list.
function M.default_collate(samples)
  if type(samples) ~= "table" or #samples == 0 then
    fail("default_collate: a list of samples is expected, got %s", args.kind(samples))
  end
  return collate_value(samples)
end

-- Randomness -------------------------------------------------------------------------------------

-- splitmix64's finaliser: neighbours in (seed, epoch, index) give unrelated numbers.
local function mix(a, b)
  local z = a ~ (b * 0x9E3779B97F4A7C15)
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

-- Runs fn with both generators put back afterwards as they were (math.random's can't be read: it
-- goes on from a number that it gave out).
local function with_own_randomness(fn, ...)
  local state, r = sft.get_rng_state(), math.random(0)
  local function restore(...)
    sft.set_rng_state(state)
    math.randomseed(r)
    return ...
  end
  local function finish(ok, ...)
    restore()
    if not ok then error((...), 0) end
    return ...
  end
  return finish(pcall(fn, ...))
end

local function seed_for(base, index)
  local s = mix(base, index)
  sft.manual_seed(s & 0x7FFFFFFFFFFFFFFF)
  math.randomseed(s)
end

-- Fetching ---------------------------------------------------------------------------------------

-- An error of the dataset says which sample it was.
local function get_sample(get, base, i)
  seed_for(base, i)
  local sample = table.pack(pcall(get, i))
  if not sample[1] then
    local e = sample[2]
    local prefix = ("DataLoader: sample %s of the dataset: "):format(tostring(i))
    if sft.is_error(e) then
      e.message = prefix .. e.message
    elseif type(e) == "string" then
      e = prefix .. e
    end
    error(e, 0)
  end
  sample = table.pack(table.unpack(sample, 2, sample.n))
  if sample.n == 0 or sample[1] == nil then
    fail("DataLoader: the dataset returned nothing for sample %s", tostring(i))
  end
  return sample
end

local function fetch_samples(loader, get, base, list)
  local samples = {}
  for k, i in ipairs(list) do samples[k] = get_sample(get, base, i) end
  if loader.collate_fn then
    local plain = {}
    for k, s in ipairs(samples) do
      if s.n == 1 then
        plain[k] = s[1]
      else
        s.n = nil
        plain[k] = s
      end
    end
    return loader.collate_fn(plain)
  end
  return default_collate(samples)
end

local function pin(loader, ...)
  if not loader.pin_memory then return ... end
  local out = table.pack(...)
  for i = 1, out.n do
    local v = out[i]
    if sft.is_tensor(v) and sft._methods.pin_memory then out[i] = v:pin_memory() end
  end
  return table.unpack(out, 1, out.n)
end

-- The loader -------------------------------------------------------------------------------------

local Loader = {}
Loader.__index, Loader.__name = Loader, "DataLoader"

local signature = args.signature("DataLoader", "dataset, batch_size:int=1, shuffle:bool=false, sampler?, "
  .. "batch_sampler?, num_workers:int=0, collate_fn:fn?, pin_memory:bool=false, drop_last:bool=false, "
  .. "generator?, *, timeout:num=0, worker_init_fn:fn?, prefetch_factor:int?, persistent_workers:bool=false")

local function new_loader(...)
  local a = signature(...)
  if a.batch_size < 1 then fail("DataLoader: batch_size must be positive, got %d", a.batch_size) end
  if a.num_workers < 0 then fail("DataLoader: num_workers must not be negative, got %d", a.num_workers) end
  if a.sampler and a.shuffle then fail("DataLoader: give either a sampler or shuffle = true, not both") end
  if a.batch_sampler and (a.batch_size ~= 1 or a.shuffle or a.sampler or a.drop_last) then
    fail("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
  end
  datasets.length(a.dataset)
  local loader = setmetatable(a, Loader)
  loader.epoch = 0
  if not loader.sampler and not loader.batch_sampler then
    loader.sampler = a.shuffle and samplers.RandomSampler(a.dataset, {generator = a.generator})
      or samplers.SequentialSampler(a.dataset)
  end
  if not loader.batch_sampler then
    loader._batches = samplers.BatchSampler(loader.sampler, a.batch_size, a.drop_last)
  end
  loader._getter = datasets.getter(a.dataset)
  return loader
end

function Loader:__len()
  return #(self.batch_sampler or self._batches)
end

function Loader:__tostring()
  return ("DataLoader(%d samples, %d batches)"):format(datasets.length(self.dataset), #self)
end

-- Batches out of one tensor of indices for the whole epoch (nil: in order).
local function tensor_batches(loader)
  local source, size, at = loader.dataset, loader.batch_size, 0
  local sampler = loader.sampler
  local order = sampler.indices and sampler:indices() or nil
  local n = order and order:size(1) or #sampler
  if loader.drop_last then n = n - n % size end
  return function()
    if at >= n then return nil end
    local len = math.min(size, n - at)
    local first = at + 1
    at = at + len
    if order then return pin(loader, source:get_batch(order:narrow(1, first, len))) end
    return pin(loader, source:get_range(first, len))
  end
end

local function is_known_sampler(sampler)
  return sampler ~= nil and getmetatable(sampler) ~= nil and (sampler.indices ~= nil
    or getmetatable(sampler) == samplers.SequentialSampler)
end

-- One pass over the dataset: for x, y in loader:iter() do.
function Loader:iter()
  self.epoch = self.epoch + 1
  if not self.batch_sampler and not self.collate_fn and datasets.has_batches(self.dataset)
    and is_known_sampler(self.sampler) then
    return tensor_batches(self)
  end
  local base = sft.randint(0, 0x7FFFFFFFFFFFFFFF, {1}, {dtype = sft.int64, generator = self.generator}):item()
  base = mix(base, self.epoch)
  local next_batch = samplers.iterator(self.batch_sampler or self._batches)
  return function()
    local list = next_batch()
    if list == nil then return nil end
    if sft.is_tensor(list) then list = list:tolist() end
    return pin(self, with_own_randomness(fetch_samples, self, self._getter, base, list))
  end
end

M.DataLoader = new_loader

return M
