-- Module:to keeps the identity of every tensor that it moves.
local sft = require "sft"
local values = require "spec.support.values"
local near, raises = values.near, values.raises
local nn = sft.nn

-- Runs fn with warnings caught; returns them.
local function warnings_of(fn)
  local original, list = sft.warn, {}
  sft.warn = function(text) list[#list + 1] = text end   -- luacheck: ignore 122
  local ok, e = pcall(fn)
  sft.warn = original   -- luacheck: ignore 122
  assert(ok, e)
  return list
end

describe("Module:to", function()
  it("keeps parameters, buffers and aliases", function()
    local bn = nn.BatchNorm1d(2)
    local w, mean, count = bn.weight, bn.running_mean, bn.num_batches_tracked
    assert.equal(bn, bn:to(sft.float64))
    assert.is_true(rawequal(w, bn.weight) and rawequal(mean, bn.running_mean))
    assert.equal(sft.float64, w.dtype)
    assert.equal(sft.float64, mean.dtype)
    assert.equal(sft.int64, count.dtype)
    assert.is_true(w.requires_grad and w.is_leaf)
    near({1, 1}, w)
  end)

  it("moves gradients along, and the optimizer made before goes on", function()
    local fc = nn.Linear(2, 1)
    local opt = sft.optim.Adam(fc:parameters(), {lr = 0.1})
    fc(sft.ones(1, 2)):sum():backward()
    opt:step()
    fc:double()
    assert.equal(sft.float64, fc.weight.grad.dtype)
    local before = fc.weight:detach():clone()
    fc(sft.ones(1, 2, {dtype = sft.float64})):sum():backward()
    opt:step()
    assert.is_true((fc.weight - before):abs():gt(0):all():item())
    assert.equal(sft.float64, fc.weight.dtype)
  end)

  it("takes a dtype, a device, a tensor or keywords", function()
    local fc = nn.Linear(1, 1)
    assert.equal(sft.float64, fc:to(sft.zeros(1, {dtype = sft.float64})).weight.dtype)
    assert.equal(sft.float32, fc:to {dtype = sft.float32}.weight.dtype)
    assert.equal(sft.float64, fc:to("cpu", sft.float64).weight.dtype)
    assert.equal(sft.float16, fc:half().weight.dtype)
    assert.equal(sft.bfloat16, fc:bfloat16().weight.dtype)
    assert.equal(sft.float32, fc:float():cpu().weight.dtype)
    raises("floating point", function() fc:to(sft.int64) end)
    raises("unknown keyword", function() fc:to {dtyp = sft.float32} end)
  end)

  it("moves a shared parameter once", function()
    local a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    b.weight = a.weight
    nn.Sequential(a, b):to(sft.float64)
    assert.is_true(rawequal(a.weight, b.weight))
    assert.equal(sft.float64, a.weight.dtype)
  end)

  it("warns of tensors and modules in plain fields, once each", function()
    local Net = nn.class("Net")
    function Net:init()
      self.mask = sft.ones(2)
      self.ids = sft.zeros(2, {dtype = sft.int64})
      self.layers = {nn.Linear(1, 1)}
      self.encoder = nn.Sequential(nn.Identity())
      self.encoder[1].pe = sft.ones(1)
      self:register_buffer("fine", sft.ones(1))
      self.options = {1, 2, "x"}
    end
    local net = Net()
    local list = warnings_of(function() net:to(sft.float64) end)
    table.sort(list)
    assert.equal(3, #list)
    assert.matches('Net%.encoder%.0%.pe is a plain tensor .*self:register_buffer%("pe", t%)', list[1])
    assert.matches("Net%.layers is a plain table of modules; use nn%.ModuleList", list[2])
    assert.matches('Net%.mask is a plain tensor .*self:register_buffer%("mask", t%)', list[3])
    assert.equal(0, #warnings_of(function() net:to(sft.float32) end))
  end)

  it("raises the warning when warnings are errors", function()
    local Net = nn.class("Net")
    function Net:init() self.mask = sft.ones(2) end
    sft.warnings("error")
    local ok, e = pcall(function() Net():to(sft.float64) end)
    sft.warnings("on")
    assert.is_false(ok)
    assert.matches("Net%.mask", tostring(e))
  end)
end)
