-- sft.autograd: gradients as functions, functions with a backward of their own, and checks of
-- gradients against finite differences. After torch.autograd.

local sft = require "sft"
local args = require "sft.args"

local engine = sft._autograd
local fail = args.fail

local M = {}

-- Several tensors at once: backward(tensors[, gradients[, {retain_graph, create_graph}]]).
M.backward = engine.backward

-- grad(outputs, inputs[, grad_outputs][, {grad_outputs, retain_graph, create_graph, allow_unused}]):
-- a list with the gradient of each input. One that is not used gives an error, or false with
-- allow_unused.
function M.grad(outputs, inputs, grad_outputs, options)
  if options == nil and args.is_keywords(grad_outputs) and next(grad_outputs) ~= nil then
    options, grad_outputs = grad_outputs, nil
  end
  if options and options.grad_outputs ~= nil then
    local rest = {}
    for k, v in next, options do rest[k] = v end
    grad_outputs, rest.grad_outputs = rest.grad_outputs, nil
    options = rest
  end
  return engine.grad(outputs, inputs, grad_outputs, options)
end

-- Functions --------------------------------------------------------------------------------------

-- What forward hands to backward. Fields that a script sets stay as they are.
local Context = {}
Context.__name = "FunctionContext"

function Context.__index(ctx, name)
  if name == "saved_tensors" then
    local saved = rawget(ctx, "_saved") or {n = 0}   -- forward itself asks; backward gets its own
    return {table.unpack(saved, 1, saved.n)}
  end
  return Context[name]
end

-- Tensors that backward needs: there they are the list ctx.saved_tensors. They belong to the graph
-- and go with it, so outputs may be among them. Whatever is kept in fields of ctx instead waits for
-- Lua's collector.
function Context.save_for_backward(ctx, ...)
  local list = table.pack(...)
  for i = 1, list.n do
    if list[i] ~= nil and not sft.is_tensor(list[i]) then
      fail("save_for_backward: argument %d must be a Tensor or nil, got %s", i, args.kind(list[i]))
    end
  end
  rawset(ctx, "_saved", list)
end

function Context.mark_non_differentiable(ctx, ...)
  local skip = rawget(ctx, "_skip") or {}
  for _, t in ipairs {...} do skip[t] = true end
  rawset(ctx, "_skip", skip)
end

function Context.mark_dirty() end
function Context.set_materialize_grads() end

local function apply(F, ...)
  local inputs = table.pack(...)
  local enabled = sft.is_grad_enabled()
  local ctx = setmetatable({needs_input_grad = {}}, Context)
  local any = false
  for i = 1, inputs.n do
    local needs = sft.is_tensor(inputs[i]) and inputs[i].requires_grad
    ctx.needs_input_grad[i] = needs
    any = any or (needs and enabled)
  end
  local outputs = table.pack(sft.no_grad(F.forward, ctx, ...))
  if outputs.n == 0 then fail("%s: forward returned nothing", F._name) end
  if not any then return table.unpack(outputs, 1, outputs.n) end
  if type(F.backward) ~= "function" then
    fail("%s: has no backward: define function %s.backward(ctx, grad)", F._name, F._name)
  end
  engine.attach(inputs, outputs, {F.backward, ctx}, F._name, rawget(ctx, "_skip") or {})
  rawset(ctx, "_saved", nil)
  return table.unpack(outputs, 1, outputs.n)
end

-- local Exp = sft.autograd.Function("Exp")
-- function Exp.forward(ctx, x) local y = x:exp(); ctx:save_for_backward(y); return y end
-- function Exp.backward(ctx, g) return g * ctx.saved_tensors[1] end
-- local y = Exp.apply(x)
--
-- forward runs without recording; backward gets one gradient per output (zeros where none came) and
-- returns one per argument of forward, nil for those that have none.
function M.Function(name)
  if type(name) ~= "string" then
    fail("Function: a name is expected, got %s; it is sft.autograd.Function(\"Name\")", args.kind(name))
  end
  local F = {_name = name}
  function F.forward() fail("%s: has no forward: define function %s.forward(ctx, ...)", name, name) end
  function F.apply(...)
    if (...) == F then fail("%s: call it as %s.apply(...), with a dot", name, name) end
    return apply(F, ...)
  end
  return setmetatable(F, {
    __name = name,
    __call = function(_, ...) return apply(F, ...) end,
    __tostring = function() return "autograd.Function(" .. name .. ")" end,
  })
end

-- Checks -----------------------------------------------------------------------------------------

local function tensors_of(v)
  if sft.is_tensor(v) then return {v} end
  local list = {}
  for _, t in ipairs(v) do
    if sft.is_tensor(t) and t.dtype.is_floating_point then list[#list + 1] = t end
  end
  return list
end

local function call(fn, inputs)
  if sft.is_tensor(inputs) then return table.pack(fn(inputs)) end
  return table.pack(fn(table.unpack(inputs, 1, inputs.n or #inputs)))
end

local function outputs_of(fn, inputs)
  local list = {}
  local out = call(fn, inputs)
  for i = 1, out.n do
    local group = type(out[i]) == "table" and out[i] or {out[i]}
    for _, t in ipairs(group) do
      if sft.is_tensor(t) and t.dtype.is_floating_point then list[#list + 1] = t end
    end
  end
  return list
end

-- Columns of the Jacobian by central differences: for element j of x, what each output does.
local function numerical(fn, inputs, x, eps)
  local flat = x.data:reshape(-1)
  if not x:is_contiguous() then fail("gradcheck: inputs must be contiguous") end
  local columns = {}
  sft.no_grad(function()
    for j = 1, x:numel() do
      local v = flat[j]:item()
      local function at(value)
        flat[j] = value
        local values = {}
        for i, y in ipairs(outputs_of(fn, inputs)) do
          values[i] = y:detach():clone():reshape(-1):to(sft.float64):tolist()
        end
        return values
      end
      local high, low = at(v + eps), at(v - eps)
      flat[j] = v
      local column = {}
      for i = 1, #high do
        column[i] = {}
        for k = 1, #high[i] do column[i][k] = (high[i][k] - low[i][k]) / (2 * eps) end
      end
      columns[j] = column
    end
  end)
  return columns
end

local function differs(a, b, rtol, atol)
  if a ~= a or b ~= b then return not (a ~= a and b ~= b) end
  return math.abs(a - b) > atol + rtol * math.abs(b)
end

-- The gradient of element k of y for each input, as flat lists; false where there is none.
local function jacobian_row(y, k, inputs)
  local row = {}
  if not y.requires_grad then return row end
  local seed = sft.zeros(y:numel(), {dtype = y.dtype, device = y.device})
  seed[k] = 1
  local grads = engine.grad(y, inputs, seed:reshape(y.shape), {retain_graph = true, allow_unused = true})
  for n, g in ipairs(grads) do row[n] = g and g:reshape(-1):tolist() end
  return row
end

local check_options = args.options("gradcheck", "eps:num=1e-6, atol:num=1e-5, rtol:num=1e-3, raise_exception:bool=true")

local function gradcheck(name, fn, inputs, a)
  local checked = {}
  for i, x in ipairs(tensors_of(inputs)) do
    if x.requires_grad then
      checked[#checked + 1] = x
      if x.dtype ~= sft.float64 then
        fail("%s: input %d must be float64, got %s; differences of lower precision say nothing", name, i,
          tostring(x.dtype))
      end
    end
  end
  if #checked == 0 then fail("%s: no input requires grad", name) end
  local outputs = outputs_of(fn, inputs)
  if #outputs == 0 then fail("%s: the function returns no floating tensor", name) end
  -- All gradients before the first difference: that changes the inputs in place.
  local rows = {}
  for i, y in ipairs(outputs) do
    rows[i] = {}
    for k = 1, y:numel() do rows[i][k] = jacobian_row(y, k, checked) end
  end
  for n, x in ipairs(checked) do
    local columns = numerical(fn, inputs, x, a.eps)
    for i, y in ipairs(outputs) do
      for k = 1, y:numel() do
        local row = rows[i][k][n]
        for j = 1, x:numel() do
          local got, want = row and row[j] or 0, columns[j][i][k]
          if differs(got, want, a.rtol, a.atol) then
            local text = ("%s: input %d element %d, output %d element %d: the gradient is %g, "
              .. "differences give %g"):format(name, n, j, i, k, got, want)
            if a.raise_exception then fail("%s", text) end
            return false, text
          end
        end
      end
    end
  end
  return true
end

-- gradcheck(fn, inputs[, {eps, atol, rtol, raise_exception}]): compares the gradients of fn with
-- central differences, element by element. inputs: a float64 tensor, or a list of the arguments of fn.
function M.gradcheck(fn, inputs, options)
  return gradcheck("gradcheck", fn, inputs, check_options(options or {}))
end

-- The same for the gradient itself: what create_graph gives is differentiated once more.
function M.gradgradcheck(fn, inputs, options)
  local a = check_options(options or {})
  local xs = {}
  for _, x in ipairs(tensors_of(inputs)) do
    if x.requires_grad then xs[#xs + 1] = x end
  end
  local seeds = {}
  for i, y in ipairs(outputs_of(fn, inputs)) do
    seeds[i] = sft.randn_like(y:detach()):requires_grad_()
  end
  local all = {n = #xs + #seeds}
  for i, x in ipairs(xs) do all[i] = x end
  for i, s in ipairs(seeds) do all[#xs + i] = s end
  local function gradients()
    local outputs, used = {}, {}
    for i, y in ipairs(outputs_of(fn, inputs)) do
      if y.requires_grad then outputs[#outputs + 1], used[#used + 1] = y, seeds[i] end
    end
    local list = {}
    for i, g in ipairs(engine.grad(outputs, xs, used, {create_graph = true, allow_unused = true})) do
      if g and g.requires_grad then list[#list + 1] = g end
      if g and not g.requires_grad then list[#list + 1] = g + xs[i] * 0 end
    end
    return table.unpack(list)
  end
  -- Differences call it inside no_grad: the forward pass must be recorded all the same.
  local function recorded() return sft.enable_grad(gradients) end
  return gradcheck("gradgradcheck", recorded, all, a)
end

-- Modes ------------------------------------------------------------------------------------------

M.no_grad, M.enable_grad = sft.no_grad, sft.enable_grad
M.set_grad_enabled, M.inference_mode = sft.set_grad_enabled, sft.inference_mode

return M
