-- Indexing, gathering, scattering and masks: values against plain loops, order of duplicates, errors
-- before any write, layouts, types, gradients.

local sft = require "sft"

local function ids(list) return sft.tensor(list, {dtype = sft.int64}) end
local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end

describe("advanced indexing", function()
  local x = sft.arange(24):reshape(2, 3, 4)

  it("puts results where PyTorch puts them", function()
    local i = ids {1, 2, 1, 2, 2}
    assert.same({5, 3, 4}, {table.unpack(x[i].shape)})
    assert.same({2, 5, 4}, {table.unpack(x[{{}, i}].shape)})
    assert.same({5, 4}, {table.unpack(x[{i, i}].shape)})
    assert.same({2, 5}, {table.unpack(x[{{}, i, i}].shape)})
    assert.same({5, 3}, {table.unpack(x[{i, {}, i}].shape)}) -- apart: in front
    assert.same({2, 5, 4}, {table.unpack(x[{ids {{1}, {2}}, ids {1, 2, 3, 1, 2}}].shape)})
  end)

  it("reads what a loop reads, on any layout", function()
    for _, y in ipairs {x, x:transpose(1, 3):contiguous():transpose(1, 3), x:flip(2)} do
      local i, j = ids {2, 1, -1}, ids {3, 1, -2}
      local r = y[{i, {}, j}]
      for k, ij in ipairs {{2, 3}, {1, 1}, {2, 3}} do
        for m = 1, 3 do assert.equal(y[{ij[1], m, ij[2]}]:item(), r[{k, m}]:item()) end
      end
    end
  end)

  it("takes masks", function()
    local m = sft.tensor {{true, false, true}, {false, false, true}}
    assert.same({{0, 1, 2, 3}, {8, 9, 10, 11}, {20, 21, 22, 23}}, x[m]:tolist())
    assert.same({2, 6, 10}, x[{1, {}, sft.tensor {false, false, true, false}}]:flatten():tolist())
    assert.same({0, 3, 4}, {table.unpack(x[sft.zeros(2, {dtype = sft.bool})].shape)})
    local y = x:clone()
    y[y:gt(5)] = 0
    assert.equal(15, y:sum():item())
    fails("does not fit", function() return x[sft.ones(3, {dtype = sft.bool})] end)
  end)

  it("names a bad index, its place and the range, and writes nothing", function()
    local y = sft.zeros(3, 5)
    fails("index: index 7 at position [2] is out of range for dim 2 of size 5 (expected 1 to 5", function()
      return y[{{}, ids {1, 7}}]
    end)
    fails("indices start at 1", function() return y[ids {0}] end)
    fails("index -4 at position [1]", function() return y[ids {-4}] end)
    fails("out of range", function() y[{ids {1, 2, 4}}] = 1 end)
    fails("out of range", y.index_add_, y, 1, ids {1, 4}, sft.ones(2, 5))
    fails("out of range", y.scatter_, y, 1, ids {{1, 2}, {3, 9}}, 1)
    fails("out of range", y.index_fill_, y, 2, ids {1, 6}, 1)
    assert.equal(0, y:sum():item())
    fails("int64", y.gather, y, 1, sft.ones(1, 1))
    fails("too many indices", y.index, y, {ids {1}, ids {1}, ids {1}})
    fails("can't be broadcast", y.index, y, {ids {1, 2}, ids {1, 2, 3}})
    fails("no elements", sft.zeros(0, 2).index_select, sft.zeros(0, 2), 1, ids {1})
  end)

  it("adds up duplicates in their order, whatever the number of threads", function()
    local n = 200000
    sft.manual_seed(3)
    local i, v = sft.randint(1, 101, {n}), sft.randn(n)
    local want
    for _, threads in ipairs {1, 2, 3} do
      sft.set_num_threads(threads)
      local a = sft.zeros(100):index_add(1, i, v)
      local b = sft.zeros(100):scatter_add(1, i, v)
      local c = sft.zeros(100):index_put({i}, v, true)
      local last = sft.zeros(100):index_put({i}, v)
      want = want or {a, last}
      for _, t in ipairs {a, b, c} do assert.is_true(t:eq(want[1]):all():item()) end
      assert.is_true(last:eq(want[2]):all():item())
    end
    sft.set_num_threads(2)
    local exact = sft.zeros(100, {dtype = sft.float64}):index_add(1, i, v:double())
    assert.is_true((want[1]:double() - exact):abs():max():item() < 1e-2)
    local list, ids_, vs = want[2]:tolist(), i:tolist(), v:tolist()
    local last = {}
    for k = 1, n do last[ids_[k]] = vs[k] end
    assert.same(last, list)
  end)

  it("sums half types in float32", function()
    local i = sft.ones(4096, {dtype = sft.int64})
    for _, dtype in ipairs {sft.float16, sft.bfloat16} do
      local ones = sft.ones(4096, {dtype = dtype})
      assert.equal(4096, sft.zeros(1, {dtype = dtype}):index_add(1, i, ones):item())
      assert.equal(4096, sft.zeros(1, {dtype = dtype}):scatter_add(1, i, ones):item())
    end
  end)

  it("may read what it writes", function()
    local y = sft.arange(1, 7)
    y[ids {1, 2, 3}] = y[{{4, 6}}]
    assert.same({4, 5, 6, 4, 5, 6}, y:tolist())
    local z = sft.tensor({2, 3, 1}, {dtype = sft.int64})
    z:scatter_(1, z, z)
    assert.same({1, 2, 3}, z:tolist())
  end)
end)

describe("gather and scatter", function()
  it("are the loops of their definition", function()
    local x = sft.arange(60):reshape(3, 4, 5)
    for dim = 1, 3 do
      local shape = {2, 3, 4}
      shape[dim] = 6
      local i = sft.randint(1, x.shape[dim] + 1, shape)
      local g = x:gather(dim, i)
      local s = sft.zeros(3, 4, 5, {dtype = sft.int64}):scatter_add(dim, i, g)
      local want = {}
      for a = 1, shape[1] do
        for b = 1, shape[2] do
          for c = 1, shape[3] do
            local at = {a, b, c}
            at[dim] = i[{a, b, c}]:item()
            assert.equal(x[at]:item(), g[{a, b, c}]:item())
            local key = table.concat(at, ",")
            want[key] = (want[key] or 0) + g[{a, b, c}]:item()
          end
        end
      end
      local total = 0
      for key, v in pairs(want) do
        local a, b, c = key:match("(%d+),(%d+),(%d+)")
        assert.equal(v, s[{tonumber(a), tonumber(b), tonumber(c)}]:item())
        total = total + v
      end
      assert.equal(total, s:sum():item())
    end
  end)

  it("work on long runs along and across the dim, and on views", function()
    local x = sft.randn(300, 400)
    for _, y in ipairs {x, x:t():contiguous():t()} do
      for dim = 1, 2 do
        local order = x:argsort(dim)
        assert.is_true(y:gather(dim, order):eq((x:sort(dim))):all():item())
        local back = sft.zeros(300, 400):scatter(dim, order, y:gather(dim, order))
        assert.is_true(back:eq(x):all():item())
      end
    end
    local column = sft.randint(1, 401, {300, 1})
    local picked = x:gather(2, column)
    for r = 1, 300, 37 do assert.equal(x[{r, column[{r, 1}]:item()}]:item(), picked[{r, 1}]:item()) end
  end)

  it("reduce", function()
    local x, i = sft.tensor {1, 2, 3}, ids {1, 1, 3}
    local v = sft.tensor {4, 6, 5}
    assert.same({11, 2, 8}, x:scatter_reduce(1, i, v, "sum"):tolist())
    assert.same({24, 2, 15}, x:scatter_reduce(1, i, v, "prod"):tolist())
    assert.same({6, 2, 5}, x:scatter_reduce(1, i, v, "amax"):tolist())
    assert.same({4, 2, 5}, x:scatter_reduce(1, i, v, "amin", {include_self = false}):tolist())
    assert.same({5, 2, 5}, x:double():scatter_reduce(1, i, v:double(), "mean", {include_self = false}):tolist())
    fails("'reduce' must be", x.scatter_reduce, x, 1, i, v, "median")
    local nan = sft.tensor({0 / 0, 1})
    assert.is_true(sft.zeros(1):scatter_reduce(1, ids {1, 1}, nan, "amax"):isnan():item())
  end)
end)

describe("masks", function()
  it("select, scatter and list what a loop does", function()
    for _, n in ipairs {1, 7, 64, 1000, 16384, 40001} do
      local x = sft.randn(n)
      local m = x:gt(0.3)
      local want, where, xs = {}, {}, x:tolist()
      for k, v in ipairs(m:tolist()) do
        if v then want[#want + 1], where[#where + 1] = xs[k], k end
      end
      assert.same(want, x:masked_select(m):tolist())
      assert.same(where, m:nonzero():flatten():tolist())
      local back = sft.zeros(n):masked_scatter(m, x:masked_select(m))
      assert.is_true(back:eq(x:masked_fill(m:logical_not(), 0)):all():item())
    end
  end)

  it("list coordinates", function()
    local x = sft.zeros(3, 200, 7)
    x[{2, 3, 4}], x[{2, 3, 7}], x[{3, 200, 7}] = 1, 1, 1
    assert.same({{2, 3, 4}, {2, 3, 7}, {3, 200, 7}}, x:nonzero():tolist())
    local t = sft.where(x:ne(0))
    assert.equal(3, #t)
    assert.same({3, 3, 200}, t[2]:tolist())
    assert.same({0, 3}, {table.unpack(sft.zeros(2, 2, 2):nonzero().shape)})
    assert.same({1, 0}, {table.unpack(sft.tensor(5):nonzero().shape)})
    assert.is_true(sft.tensor({0 / 0}):nonzero():numel() == 1)
  end)

  it("check their types", function()
    local x = sft.zeros(3)
    fails("must be a bool tensor", x.masked_fill, x, x, 1)
    fails("does not fit", function() sft.zeros(3, {dtype = sft.int64}):masked_fill(x:eq(0), 1.5) end)
    fails("has 2 elements, but 3 are masked", x.masked_scatter, x, x:eq(0), sft.ones(2))
  end)

  it("one_hot explains 0-based labels", function()
    local F = sft.nn.functional
    assert.same({{1, 0}, {0, 1}}, F.one_hot(ids {1, 2}):tolist())
    fails("add 1", F.one_hot, ids {0, 1})
    fails("one_hot: index 3", F.one_hot, ids {3}, 2)
  end)
end)

describe("an index tensor that is written to itself", function()
  it("is read before it changes", function()
    local far = 1 << 40
    local writes = {
      function(x) x:index_fill_(1, x, far) end,
      function(x) x:index_copy_(1, x, sft.full({1000}, far)) end,
      function(x) x:view(1000):index_fill_(1, x, far) end,
      function(x) x:scatter_(1, x, far) end,
      function(x) x[x] = far end,
      function(x) x[{x}] = sft.full({1000}, far) end,
    }
    for _, write in ipairs(writes) do
      local x = sft.randperm(1000)
      write(x)
      assert.is_true(x:eq(far):all():item())
    end
    local x = sft.randperm(1000)
    local want = x + far
    x:index_add_(1, x:clone(), sft.full({1000}, far))
    assert.is_true(x:eq(want):all():item())
    x:sub_(far)
    x:index_add_(1, x, sft.full({1000}, far))
    assert.is_true(x:eq(want):all():item())
  end)
end)

describe("out =", function()
  it("may be the tensor that the values are read from", function()
    local i, all = ids {2, 1, 3}, ids {{2, 1, 3}, {1, 1, 2}, {3, 2, 1}}
    for name, index in pairs {index_add = i, index_copy = i, scatter = all, scatter_add = all} do
      local x, source = sft.randn(3, 3), sft.randn(3, 3)
      local want = sft[name](x, 1, index, source)
      sft[name](x, 1, index, source, {out = source})
      assert.is_true(source:eq(want):all():item())
    end
  end)
end)
