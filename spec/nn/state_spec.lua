local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local nn = sft.nn

local function model()
  return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
end

describe("state_dict", function()
  it("has PyTorch's names, in its order", function()
    local keys = {}
    for name in pairs(model():state_dict()) do keys[#keys + 1] = name end
    assert.same({"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
      "1.num_batches_tracked"}, keys)
  end)

  it("shares memory and carries no history", function()
    local m = model()
    local w = m:state_dict()["0.weight"]
    assert.is_false(w.requires_grad)
    w:fill_(4)
    near({{4, 4, 4}, {4, 4, 4}}, m[1].weight)
  end)

  it("takes a prefix", function()
    assert.is_not_nil(nn.Linear(1, 1):state_dict {prefix = "fc."}["fc.weight"])
  end)
end)

describe("load_state_dict", function()
  it("copies into the model's own tensors", function()
    local a, b = model(), model()
    local kept = b[1].weight
    b:load_state_dict(a:state_dict())
    near(a[1].weight, b[1].weight)
    assert.is_true(rawequal(kept, b[1].weight))
    assert.is_true(kept.requires_grad)
  end)

  it("takes plain tables and other dtypes", function()
    local fc = nn.Linear(1, 1)
    fc:load_state_dict {weight = sft.tensor({{2}}, {dtype = sft.float64}), bias = sft.tensor {3}}
    near(5, fc(sft.ones(1)))
    assert.equal(sft.float32, fc.weight.dtype)
  end)

  it("lists what is wrong, and changes nothing", function()
    local m = model()
    local sd = model():state_dict()
    sd["0.weight"] = sft.zeros(2, 4)
    sd["0.bias"] = nil
    sd["extra"] = sft.zeros(1)
    local before = m[2].weight:detach():clone()
    sd["1.weight"] = sft.full({2}, 8)
    raises({"missing: 0.bias", "unexpected: extra", "0.weight: the file has [2, 4], the model [2, 3]"},
      m.load_state_dict, m, sd)
    near(before, m[2].weight)
    raises("the file has [2, 4]", m.load_state_dict, m, sd, {strict = false})
    sd["0.weight"] = nil
    local r = m:load_state_dict(sd, {strict = false})
    assert.same({"0.weight", "0.bias"}, r.missing_keys)
    assert.same({"extra"}, r.unexpected_keys)
    near({8, 8}, m[2].weight)
  end)

  it("finds a common prefix, and strips it when told", function()
    local m, sd = model(), {}
    for name, t in pairs(model():state_dict()) do sd["module." .. name] = t end
    raises('7 of 7 keys match after removing "module."; pass {strip_prefix = "module."}', m.load_state_dict, m, sd)
    m:load_state_dict(sd, {strip_prefix = "module."})
    near(sd["module.0.weight"], m[1].weight)
  end)

  it("shows five of many", function()
    local list = nn.ModuleList()
    for _ = 1, 10 do list:append(nn.Linear(1, 1)) end
    local e = raises("(20 in all)", list.load_state_dict, list, {})
    assert.is_nil(e:find("5.weight", 1, true))
  end)

  it("refuses what is no table", function()
    local m = model()
    raises("a table of tensors", m.load_state_dict, m, 3)
    raises("a tensor is expected", m.load_state_dict, m, {["0.weight"] = 3}, {strict = false})
  end)
end)
