-- The ways to call an op agree: function, method, nn.functional, keyword arguments, in place, out =.
-- Nothing outside an output is written, and nothing stays alive afterwards.

local sft = require "sft"
local S = require "spec.support.samples"
local walk = require "spec.generic.walk"

local function dtype_for(row, sample)
  return walk.dtypes_of(row, sample)[1]
end

-- A tensor of a shape and dtype within a larger one whose other elements hold a mark.
local MARK = 77
local function guarded(shape, dtype, step)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  local room = sft.zeros(2 * 8 + n * step, {dtype = dtype})
  room:fill_(MARK)
  local inner = room[{{9, 8 + n * step, step}}]
  if step == 1 then
    return room, inner:view(shape)
  end
  -- strides of a row-major tensor, times the step
  local strides, stride = {}, step
  for d = #shape, 1, -1 do
    strides[d] = stride
    stride = stride * shape[d]
  end
  return room, room:as_strided(shape, strides, 8)
end

local function check_guards(room, n, step, what)
  local mark = room:select(1, 1):item()
  local list = room:tolist()
  for i, v in ipairs(list) do
    local inside = i > 8 and i <= 8 + n * step and (i - 9) % step == 0
    if not inside and v ~= mark then
      error(("%s: element %d next to the output was changed to %s"):format(what, i, tostring(v)), 0)
    end
  end
end

local function numel(shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return n
end

local function sizes(x)
  local out = {}
  for i, n in ipairs(x.shape) do out[i] = n end
  return out
end

describe("forms of a call", function()
  walk.each(it, "method and keyword arguments", function(row) return row.func or row.nn or row.method end,
    function(row, sample, _, what)
      if sample.shape_only then return end
      local dtype = dtype_for(row, sample)
      local args = S.build(sample, dtype)
      local fn = S.caller(row)
      if row.mutates then return end
      local expected = walk.call(fn, args)
      if row.method and type(args[1]) == "userdata" then
        walk.same(expected, walk.call(function(x, ...) return x[row.name](x, ...) end, args), 0, what .. ": method")
      end
      if row.nn and (row.func or row.method) and sft._functional[row.name] then
        walk.same(expected, walk.call(sft._functional[row.name], args), 0, what .. ": nn.functional")
      end
      -- the same call with all but the first argument by name
      local kw, by_name = {}, sample.keywords ~= false
      for k, v in pairs(args.kw or {}) do kw[k] = v end
      for i = 2, args.n do
        local p = row.params[i]
        if not p or p.type == "size..." or p.type == "Tensor[]" or args[i] == nil then by_name = false break end
        kw[p.name] = args[i]
      end
      local first = row.params[1]
      if by_name and args.n > 1 and first and first.type ~= "size..." and first.type ~= "Tensor[]" then
        walk.same(expected, walk.call(fn, {n = 1, args[1], kw = kw}), 0, what .. ": keywords")
      end
    end)

  walk.each(it, "in place, with guards", function(row) return row.inplace end, function(row, sample, _, what)
    if sample.shape_only then return end
    for _, dtype in ipairs {dtype_for(row, sample), walk.dtypes_of(row, sample)[2]} do
      local args = S.build(sample, dtype)
      if type(args[1]) == "userdata" then
        local plain = S.caller(row)
        if not (row.func or row.nn or row.method) then plain = nil end
        local ok, expected = true, nil
        if plain then ok, expected = pcall(walk.call, plain, args) end
        local inplace = args[1][row.name .. "_"]
        local here = what .. ", " .. dtype
        assert(inplace, here .. ": no method " .. row.name .. "_")
        for _, step in ipairs {1, 2} do
          local own = walk.dtype(args[1])
          local shape = sizes(args[1])
          local room, x = guarded(shape, own, step)
          x:copy_(args[1])
          local call = {n = args.n, kw = args.kw, table.unpack(args, 2, args.n)}
          table.insert(call, 1, x)
          local ran, result = pcall(walk.call, inplace, call)
          if ran then
            assert(rawequal(result[1], x), here .. ": gives back the tensor itself")
            check_guards(room, numel(shape), step, here .. ", in place")
            if plain then
              assert(ok, here)
              local want = expected[1]
              if walk.dtype(want) ~= own then want = want:to(x.dtype) end
              walk.same({want}, {x}, 0, here .. ": in place")
            end
          else
            local text = walk.clean(result, here)
            -- a result of another shape or dtype doesn't fit
            local fits = ok and expected and walk.shape(expected[1]) == walk.shape(x)
              and sft.can_cast(expected[1].dtype, x.dtype)
            assert(not fits, here .. ": " .. text)
            check_guards(room, numel(shape), step, here .. ", after an error")
            walk.same({args[1]}, {x}, 0, here .. ": changed by a call that failed")
          end
        end
      end
    end
  end)

  walk.each(it, "out =, with guards", function(row) return row.out end, function(row, sample, _, what)
    local dtype = dtype_for(row, sample)
    local args = S.build(sample, dtype)
    local fn = S.caller(row)
    local expected = walk.call(fn, args)[1]
    local shape = sizes(expected)
    for _, step in ipairs {1, 2} do
      local room, out = guarded(shape, walk.dtype(expected), step)
      local found = walk.call(fn, args, {out = out})
      assert(rawequal(found[1], out), what .. ": gives back out")
      walk.same({expected}, {out}, 0, what .. ": out =")
      check_guards(room, numel(shape), step, what .. ", out =")
    end
    -- of the wrong dtype: an error, or converted; never something else
    local other = sft.zeros(shape, {dtype = "uint8"})
    local ok, e = pcall(walk.call, fn, args, {out = other})
    if not ok then walk.clean(e, what) end
    -- an input that needs a gradient and out = exclude each other
    if row.grad ~= "nondiff" and dtype:find("float") then
      local wanted = S.build(sample, dtype, "contiguous", {grad = true})
      local any = false
      for _, t in ipairs(wanted.tensors) do any = any or t.requires_grad end
      if any then
        local _, target = guarded(shape, walk.dtype(expected), 1)
        ok, e = pcall(walk.call, fn, wanted, {out = target})
        assert(not ok, what .. ": out = with a gradient")
        walk.clean(e, what)
      end
    end
  end)

end)

describe("after a call", function()
  local function once(row, sample)
    local dtype = dtype_for(row, sample)
    local grad = S.floating[dtype] and sample.grad ~= false
    local args = S.build(sample, dtype, "contiguous", {grad = grad})
    local ok, found = pcall(walk.call, S.caller(row), args)
    if ok and grad and row.grad ~= "nondiff" then
      for _, x in ipairs(found) do
        if type(x) == "userdata" and x.requires_grad then
          pcall(function() x:sum():backward() end)
          break
        end
      end
    end
  end

  local function live()
    collectgarbage()
    collectgarbage()
    return sft.live_tensors(), sft.live_bytes()
  end

  -- Runs the rows twice; how many tensors and bytes the second time has left behind.
  local function left_by(rows)
    for _, row in ipairs(rows) do
      for _, sample in ipairs(S.all[row.id]) do once(row, sample) end
    end
    local tensors, bytes = live()
    for _, row in ipairs(rows) do
      for _, sample in ipairs(S.all[row.id]) do once(row, sample) end
    end
    local after, after_bytes = live()
    return after - tensors, after_bytes - bytes
  end

  local families = {}
  for _, row in ipairs(S.rows) do
    if row.public and S.all[row.id] then
      local family = S.family_of[row.id]
      families[family] = families[family] or {}
      table.insert(families[family], row)
    end
  end

  for family, rows in pairs(families) do
    it("nothing stays alive: " .. family, function()
      local tensors, bytes = left_by(rows)
      if tensors == 0 and bytes == 0 then return end
      for _, row in ipairs(rows) do
        tensors, bytes = left_by {row}
        assert(tensors == 0 and bytes == 0, ("%s: %d tensors, %d bytes stay alive"):format(row.id, tensors, bytes))
      end
    end)
  end
end)
