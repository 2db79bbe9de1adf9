local sft = require "sft"
local values = require "spec.support.values"
local near, raises, shape = values.near, values.raises, values.shape
local nn = sft.nn

-- The same by its formula, one head after the other; x [batch, length, embed].
local function reference(m, x, mask)
  local e, h = m.embed_dim, m.num_heads
  local qkv = x:matmul(m.in_proj_weight:t()) + m.in_proj_bias
  local out = {}
  for i = 1, h do
    local from, size = (i - 1) * (e // h), e // h
    local q = qkv:narrow(3, from + 1, size)
    local k = qkv:narrow(3, e + from + 1, size)
    local v = qkv:narrow(3, 2 * e + from + 1, size)
    local scores = q:matmul(k:transpose(2, 3)) / math.sqrt(size)
    if mask then scores = scores + mask end
    out[i] = scores:softmax(-1):matmul(v)
  end
  return sft.cat(out, 3):matmul(m.out_proj.weight:t()) + m.out_proj.bias
end

describe("MultiheadAttention", function()
  local m = nn.MultiheadAttention(8, 2, {batch_first = true})
  sft.no_grad(function() m.in_proj_bias:uniform_(-1, 1) end)
  local x = sft.randn(3, 5, 8)

  it("has PyTorch's names", function()
    local keys = {}
    for k in pairs(m:state_dict()) do keys[#keys + 1] = k end
    assert.same({"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}, keys)
    assert.is_not_nil(nn.MultiheadAttention(8, 2, {kdim = 3}).k_proj_weight)
  end)

  it("is softmax(q k / sqrt(d)) v of each head", function()
    local expected = reference(m, x)
    local y, w = m(x, x, x)
    near(expected, y)
    assert.same({3, 5, 5}, shape(w))
    near(sft.ones(3, 5), w:sum(3))
    local fast, none = m(x, x, x, {need_weights = false})
    near(expected, fast)
    assert.is_nil(none)
    assert.same({3, 2, 5, 5}, shape(select(2, m(x, x, x, {average_attn_weights = false}))))
  end)

  it("takes the batch second, and none at all", function()
    local second = nn.MultiheadAttention(8, 2)
    second:load_state_dict(m:state_dict())
    local xt = x:transpose(1, 2)
    near(m(x, x, x), second(xt, xt, xt):transpose(1, 2))
    near(m(x, x, x)[1], m(x[1], x[1], x[1]))
  end)

  it("masks what is true", function()
    local causal = sft.ones(5, 5, {dtype = sft.bool}):triu(1)
    local expected = reference(m, x, sft.zeros(5, 5):masked_fill(causal, -math.huge))
    near(expected, m(x, x, x, {attn_mask = causal}))
    near(expected, m(x, x, x, {attn_mask = causal, need_weights = false}))
    near(expected, m(x, x, x, {is_causal = true, need_weights = false}))
    local padding = sft.zeros(3, 5, {dtype = sft.bool})
    padding[{2, 5}] = true
    local y, w = m(x, x, x, {key_padding_mask = padding})
    near({0, 0, 0, 0, 0}, w[2]:select(2, 5))
    near(y, m(x, x, x, {key_padding_mask = padding, need_weights = false}))
    raises("is_causal needs attn_mask", m, x, x, x, {is_causal = true})
  end)

  it("attends to another input", function()
    local other = nn.MultiheadAttention(8, 2, {kdim = 3, vdim = 4, batch_first = true})
    local y = other(x, sft.randn(3, 6, 3), sft.randn(3, 6, 4))
    assert.same({3, 5, 8}, shape(y))
  end)

  it("gives gradients to all", function()
    m:zero_grad()
    m(x, x, x):sum():backward()
    for name, p in pairs(m:named_parameters()) do assert.is_not_nil(p.grad, name) end
  end)
end)

describe("TransformerEncoder", function()
  it("stacks copies of a layer", function()
    local layer = nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, dropout = 0, batch_first = true})
    local encoder = nn.TransformerEncoder(layer, 2)
    local x = sft.randn(2, 4, 8)
    assert.same({2, 4, 8}, shape(encoder(x)))
    near(layer(layer(x)), encoder(x))
    assert.is_not_nil(encoder:state_dict()["layers.1.self_attn.in_proj_weight"])
    assert.is_false(rawequal(encoder.layers[1].linear1.weight, encoder.layers[2].linear1.weight))
    local first = nn.TransformerEncoderLayer(8, 2, {norm_first = true, activation = "gelu", dropout = 0})
    assert.same({2, 4, 8}, shape(first(x, {is_causal = true})))
  end)
end)
