-- MultiheadAttention and the encoder of a transformer, with PyTorch's parameter names.

local sft = require "sft"
local args = require "sft.args"
local module = require "sft.nn.module"
local parameter = require "sft.nn.parameter"
local initializers = require "sft.nn.initializers"
local F = require "sft.nn.functional"
local Linear = require("sft.nn.linear").Linear
local LayerNorm = require("sft.nn.norm").LayerNorm
local Dropout = require("sft.nn.dropout").Dropout
local ModuleList = require("sft.nn.container").ModuleList

local class, fail = module.class, args.fail
local M = {}

-- Inputs [length, batch, embed], or [batch, length, embed] with batch_first = true, or without a
-- batch. In a boolean mask `true` means that the position may not be attended to.
local MultiheadAttention = class("MultiheadAttention")
M.MultiheadAttention = MultiheadAttention
local signature = args.signature("MultiheadAttention", "embed_dim:int, num_heads:int, dropout:num=0.0, "
  .. "bias:bool=true, kdim:int?, vdim:int?, batch_first:bool=false, device?, dtype?")

function MultiheadAttention:init(...)
  local a = signature(...)
  local embed = a.embed_dim
  if embed < 1 or a.num_heads < 1 or embed % a.num_heads ~= 0 then
    fail("MultiheadAttention: embed_dim must be a multiple of num_heads, got %d and %d", embed, a.num_heads)
  end
  self.embed_dim, self.num_heads, self.head_dim = embed, a.num_heads, embed // a.num_heads
  self.kdim, self.vdim = a.kdim or embed, a.vdim or embed
  self.dropout, self.batch_first = a.dropout, a.batch_first
  local where = {device = a.device, dtype = a.dtype}
  if self.kdim == embed and self.vdim == embed then
    self.in_proj_weight = parameter.new(sft.empty(3 * embed, embed, where))
  else
    self.q_proj_weight = parameter.new(sft.empty(embed, embed, where))
    self.k_proj_weight = parameter.new(sft.empty(embed, self.kdim, where))
    self.v_proj_weight = parameter.new(sft.empty(embed, self.vdim, where))
  end
  if a.bias then self.in_proj_bias = parameter.new(sft.empty(3 * embed, where)) end
  self.out_proj = Linear(embed, embed, {bias = a.bias, device = a.device, dtype = a.dtype})
  self:reset_parameters()
end

function MultiheadAttention:reset_parameters()
  for _, name in ipairs {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"} do
    if self[name] then initializers.xavier_uniform_(self[name]) end
  end
  if self.in_proj_bias then
    initializers.zeros_(self.in_proj_bias)
    initializers.zeros_(self.out_proj.bias)
  end
end

-- q, k and v of [batch, length, embed]; one product when all three come from one input.
local function project(self, query, key, value)
  local embed, bias = self.embed_dim, self.in_proj_bias
  if self.in_proj_weight and rawequal(query, key) and rawequal(key, value) then
    local qkv = F.linear(query, self.in_proj_weight, bias)
    return qkv:narrow(-1, 1, embed), qkv:narrow(-1, embed + 1, embed), qkv:narrow(-1, 2 * embed + 1, embed)
  end
  local out = {}
  for i, input in ipairs {query, key, value} do
    local w = self.in_proj_weight and self.in_proj_weight:narrow(1, (i - 1) * embed + 1, embed)
      or self[({"q", "k", "v"})[i] .. "_proj_weight"]
    out[i] = F.linear(input, w, bias and bias:narrow(1, (i - 1) * embed + 1, embed))
  end
  return table.unpack(out)
end

local function additive(mask, like)
  if mask.dtype ~= sft.bool then return mask:to(like.dtype) end
  return sft.zeros(mask.shape, {dtype = like.dtype, device = like.device}):masked_fill(mask, -math.huge)
end

-- One mask of [batch or 1, heads or 1, queries, keys] out of those given.
local function join_masks(self, a, like, batch, queries, keys)
  local mask
  if a.attn_mask then
    mask = additive(a.attn_mask, like)
    if mask.ndim == 2 then
      mask = mask:reshape(1, 1, queries, keys)
    elseif mask.ndim == 3 then
      mask = mask:reshape(batch, self.num_heads, queries, keys)
    else
      fail("MultiheadAttention: attn_mask must be [%d, %d] or [%d, %d, %d], got %s", queries, keys,
        batch * self.num_heads, queries, keys, tostring(mask.shape))
    end
  end
  if a.key_padding_mask then
    local padding = additive(a.key_padding_mask, like):reshape(batch, 1, 1, keys)
    mask = mask and mask + padding or padding
  end
  return mask
end

local function attend_with_weights(self, q, k, v, mask, dropout)
  local scores = (q * (1 / math.sqrt(self.head_dim))):matmul(k:transpose(-2, -1))
  if mask then scores = scores + mask end
  local weights = scores:softmax(-1)
  if dropout > 0 then weights = F.dropout(weights, dropout, true) end
  return weights:matmul(v), weights
end

local forward_signature = args.signature("MultiheadAttention", "query:tensor, key:tensor, value:tensor, "
  .. "key_padding_mask:tensor?, need_weights:bool=true, attn_mask:tensor?, average_attn_weights:bool=true, "
  .. "is_causal:bool=false")

-- Returns the result and, unless {need_weights = false}, the attention weights (averaged over the
-- heads unless {average_attn_weights = false}).
function MultiheadAttention:forward(...)
  local a = forward_signature(...)
  local query, key, value = a.query, a.key, a.value
  local single = query.ndim == 2
  if query.ndim ~= 2 and query.ndim ~= 3 then
    fail("MultiheadAttention: query must have 2 or 3 dims, got %s", tostring(query.shape))
  end
  if query:size(-1) ~= self.embed_dim then
    fail("MultiheadAttention: query's last dim is %d, embed_dim is %d", query:size(-1), self.embed_dim)
  end
  local q, k, v = project(self, query, key, value)
  if single then
    q, k, v = q:unsqueeze(1), k:unsqueeze(1), v:unsqueeze(1)
  elseif not self.batch_first then
    q, k, v = q:transpose(1, 2), k:transpose(1, 2), v:transpose(1, 2)
  end
  local batch, queries, keys = q:size(1), q:size(2), k:size(2)
  local function heads(t) return t:reshape(batch, -1, self.num_heads, self.head_dim):transpose(2, 3) end
  q, k, v = heads(q), heads(k), heads(v)
  local mask = join_masks(self, a, q, batch, queries, keys)
  local dropout = self.training and self.dropout or 0
  local y, weights
  if a.need_weights then
    if a.is_causal and not a.attn_mask then
      fail("MultiheadAttention: is_causal needs attn_mask, or {need_weights = false}")
    end
    y, weights = attend_with_weights(self, q, k, v, mask, dropout)
    if a.average_attn_weights then weights = weights:mean(2) end
    if single then weights = weights:squeeze(1) end
  else
    local causal = a.is_causal and a.key_padding_mask == nil
    if a.is_causal and not causal and not a.attn_mask then
      local triangle = sft.ones(queries, keys, {dtype = sft.bool, device = q.device}):triu(1)
      mask = mask + additive(triangle, q)
    end
    y = F.scaled_dot_product_attention(q, k, v, {attn_mask = not causal and mask or nil, dropout_p = dropout,
      is_causal = causal})
  end
  y = y:transpose(2, 3):reshape(batch, queries, self.embed_dim)
  y = self.out_proj(y)
  if single then
    y = y:squeeze(1)
  elseif not self.batch_first then
    y = y:transpose(1, 2)
  end
  return y, weights
end

function MultiheadAttention:extra_repr()
  return ("embed_dim=%d, num_heads=%d"):format(self.embed_dim, self.num_heads)
end

-- Attention and a feed-forward part, each with its residual; normalised after (PyTorch's default)
-- or before (norm_first).
local Layer = class("TransformerEncoderLayer")
M.TransformerEncoderLayer = Layer
local layer_signature = args.signature("TransformerEncoderLayer", "d_model:int, nhead:int, "
  .. "dim_feedforward:int=2048, dropout:num=0.1, activation:any=relu, layer_norm_eps:num=1e-5, "
  .. "batch_first:bool=false, norm_first:bool=false, bias:bool=true, device?, dtype?")

function Layer:init(...)
  local a = layer_signature(...)
  local where = {bias = a.bias, device = a.device, dtype = a.dtype}
  self.self_attn = MultiheadAttention(a.d_model, a.nhead, {dropout = a.dropout, bias = a.bias,
    batch_first = a.batch_first, device = a.device, dtype = a.dtype})
  self.linear1 = Linear(a.d_model, a.dim_feedforward, where)
  self.dropout = Dropout(a.dropout)
  self.linear2 = Linear(a.dim_feedforward, a.d_model, where)
  self.norm_first = a.norm_first
  local norm = {eps = a.layer_norm_eps, bias = a.bias, device = a.device, dtype = a.dtype}
  self.norm1 = LayerNorm(a.d_model, norm)
  self.norm2 = LayerNorm(a.d_model, norm)
  self.dropout1 = Dropout(a.dropout)
  self.dropout2 = Dropout(a.dropout)
  self.activation = a.activation
  if type(a.activation) == "string" then
    if a.activation ~= "relu" and a.activation ~= "gelu" then
      fail('TransformerEncoderLayer: activation must be "relu", "gelu" or a function, got "%s"', a.activation)
    end
  elseif not args.callable(a.activation) then
    fail("TransformerEncoderLayer: activation must be a function, got %s", args.kind(a.activation))
  end
end

local layer_forward = args.signature("TransformerEncoderLayer",
  "src:tensor, src_mask:tensor?, src_key_padding_mask:tensor?, is_causal:bool=false")

function Layer:forward(...)
  local a = layer_forward(...)
  local options = {attn_mask = a.src_mask, key_padding_mask = a.src_key_padding_mask, is_causal = a.is_causal,
    need_weights = false}
  local function attention(x)
    return self.dropout1((self.self_attn(x, x, x, options)))
  end
  local function feed_forward(x)
    local h = self.linear1(x)
    local act = self.activation
    h = type(act) == "string" and F[act](h) or act(h)
    return self.dropout2(self.linear2(self.dropout(h)))
  end
  local x = a.src
  if self.norm_first then
    x = x + attention(self.norm1(x))
    return x + feed_forward(self.norm2(x))
  end
  x = self.norm1(x + attention(x))
  return self.norm2(x + feed_forward(x))
end

-- num_layers copies of a layer, one after the other, and a norm at the end where one is given.
local Encoder = class("TransformerEncoder")
M.TransformerEncoder = Encoder
local encoder_signature = args.signature("TransformerEncoder", "encoder_layer, num_layers:int, norm?")

function Encoder:init(...)
  local a = encoder_signature(...)
  if not module.is_module(a.encoder_layer) then
    fail("TransformerEncoder: encoder_layer must be a module, got %s", args.kind(a.encoder_layer))
  end
  self.layers = ModuleList()
  for _ = 1, a.num_layers do self.layers:append(a.encoder_layer:clone()) end
  self.num_layers = a.num_layers
  self.norm = a.norm
end

local encoder_forward = args.signature("TransformerEncoder",
  "src:tensor, mask:tensor?, src_key_padding_mask:tensor?, is_causal:bool=false")

function Encoder:forward(...)
  local a = encoder_forward(...)
  local x = a.src
  for _, layer in ipairs(self.layers) do
    x = layer(x, {src_mask = a.mask, src_key_padding_mask = a.src_key_padding_mask, is_causal = a.is_causal})
  end
  return self.norm and self.norm(x) or x
end

return M
