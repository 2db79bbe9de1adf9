-- Embedding: a table of vectors that is read by ids, which count from 1.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local F = require "sft.nn.functional"

local class, fail = module.class, args.fail

-- weight [num_embeddings, embedding_dim], normal with deviation 1. The row padding_idx starts at
-- zero and gets no gradient.
local Embedding = class("Embedding")
local signature = args.signature("Embedding",
  "num_embeddings:int, embedding_dim:int, padding_idx:int?, device?, dtype?")

function Embedding:init(...)
  local a = signature(...)
  local n = a.num_embeddings
  if a.padding_idx then
    if a.padding_idx < 0 then a.padding_idx = a.padding_idx + n + 1 end
    if a.padding_idx < 1 or a.padding_idx > n then
      fail("Embedding: padding_idx must be within 1 to %d, as ids count from 1", n)
    end
  end
  self.num_embeddings, self.embedding_dim, self.padding_idx = n, a.embedding_dim, a.padding_idx
  self.weight = parameter.new(sft.empty(n, a.embedding_dim, {device = a.device, dtype = a.dtype}))
  self:reset_parameters()
end

function Embedding:reset_parameters()
  sft.no_grad(function()
    self.weight:normal_(0, 1)
    if self.padding_idx then self.weight[self.padding_idx]:fill_(0) end
  end)
end

function Embedding:forward(ids)
  if self.padding_idx then return F.embedding(ids, self.weight, {padding_idx = self.padding_idx}) end
  return F.embedding(ids, self.weight)
end

-- An Embedding with these vectors; they stay as they are unless {freeze = false}.
local from_signature = args.signature("Embedding.from_pretrained",
  "embeddings:tensor, freeze:bool=true, padding_idx:int?")
function Embedding.from_pretrained(...)
  local a = from_signature(...)
  if a.embeddings.ndim ~= 2 then
    fail("Embedding.from_pretrained: a tensor [ids, dim] is expected, got %s", tostring(a.embeddings.shape))
  end
  local shape = a.embeddings.shape
  local m = Embedding(shape[1], shape[2], {padding_idx = a.padding_idx})
  m.weight = parameter.new(a.embeddings, not a.freeze)
  return m
end

function Embedding:extra_repr()
  local text = ("%d, %d"):format(self.num_embeddings, self.embedding_dim)
  return self.padding_idx and ("%s, padding_idx=%d"):format(text, self.padding_idx) or text
end

return {Embedding = Embedding}
