-- nn.Module: what a layer or a model is. A module is a table whose fields are looked up here:
-- parameters, buffers and modules that are assigned to a field are registered in the order of
-- their assignment, and that order is the order everywhere. Names follow torch.nn.Module.

local sft = require "sft"
local args = require "sft.args"
local ordered = require "sft.ordered"
local parameter = require "sft.nn.parameter"

local fail = args.fail
local is_tensor = sft.is_tensor
local is_parameter = parameter.is

local S = {}   -- the key of a module's own state, which no script can name

local Module = {}
local M = {Module = Module}

function M.is_module(v)
  return type(v) == "table" and rawget(v, S) ~= nil
end
local is_module = M.is_module

-- Fields -----------------------------------------------------------------------------------------

local lists = {parameter = "parameters", buffer = "buffers", module = "modules"}

local function class_name(m)
  return m[S].class._name
end
M.class_name = class_name

local function check_name(m, name)
  if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
    fail("%s: a registered name must be a string that is not empty and has no dot, got %s",
      class_name(m), args.kind(name))
  end
  if Module[name] ~= nil and name ~= "training" then
    fail('%s: "%s" is a method of every module, choose another name', class_name(m), name)
  end
end

local function unregister(st, name)
  local list = st[lists[st.kinds[name]]]
  for i = 1, #list do
    if list[i] == name then
      table.remove(list, i)
      break
    end
  end
  st.kinds[name], st.values[name], st.transient[name] = nil, nil, nil
end

local function register(st, name, kind)
  if st.kinds[name] == kind then return end
  if st.kinds[name] then unregister(st, name) end
  st.kinds[name] = kind
  local list = st[lists[kind]]
  list[#list + 1] = name
end

-- A tensor that is assigned to the name of a parameter becomes the parameter.
local function as_parameter(m, name, value)
  if not is_tensor(value) then
    fail('%s: can\'t assign %s to the parameter "%s" (a Parameter, a Tensor or nil is expected)',
      class_name(m), args.kind(value), name)
  end
  if not value.is_leaf then
    fail('%s: can\'t assign the result of a differentiable op to the parameter "%s"; assign '
      .. "value:detach(), or set the field to nil first to keep the tensor as it is",
      class_name(m), name)
  end
  local old = m[S].values[name]
  return parameter.new(value, old == nil or old.requires_grad)
end

local function assign(m, name, value)
  local st = m[S]
  local kind = st.kinds[name]
  if type(name) == "number" and st.class._set_item then return st.class._set_item(m, name, value) end
  if value == nil then
    if kind then unregister(st, name) else st.values[name] = nil end
  elseif is_parameter(value) or is_module(value) then
    check_name(m, name)
    register(st, name, is_parameter(value) and "parameter" or "module")
    st.values[name] = value
  elseif kind == "parameter" then
    st.values[name] = as_parameter(m, name, value)
  elseif kind == "buffer" then
    if not is_tensor(value) then
      fail('%s: can\'t assign %s to the buffer "%s" (a Tensor or nil is expected)', class_name(m),
        args.kind(value), name)
    end
    st.values[name] = value
  elseif kind == "module" then
    fail('%s: can\'t assign %s to the module "%s" (a module or nil is expected)', class_name(m),
      args.kind(value), name)
  else
    st.values[name] = value
  end
end

-- Registered fields in order, then the others.
local function fields(m)
  local st = m[S]
  local names = {}
  for _, kind in ipairs {"parameters", "buffers", "modules"} do
    table.move(st[kind], 1, #st[kind], #names + 1, names)
  end
  for name in next, st.values do
    if not st.kinds[name] then names[#names + 1] = name end
  end
  local i = 0
  return function()
    i = i + 1
    return names[i], st.values[names[i]]
  end
end

local function signature_of_module(v)
  if not is_module(v) then fail("expected a module, got %s", args.kind(v)) end
end

function Module:register_parameter(name, value)
  check_name(self, name)
  if value == nil then return end
  if not is_parameter(value) then value = as_parameter(self, name, value) end
  register(self[S], name, "parameter")
  self[S].values[name] = value
end

-- A tensor that is part of the module's state and no parameter. {persistent = false} leaves it out
-- of state_dict.
local buffer_signature = args.signature("register_buffer", "name:str, tensor:tensor?, *, persistent:bool=true")
function Module:register_buffer(...)
  local a = buffer_signature(...)
  check_name(self, a.name)
  if a.tensor == nil then return end
  local st = self[S]
  register(st, a.name, "buffer")
  st.values[a.name] = a.tensor
  st.transient[a.name] = not a.persistent or nil
end

function Module:register_module(name, module)
  signature_of_module(module)
  check_name(self, name)
  register(self[S], name, "module")
  self[S].values[name] = module
end
Module.add_module = Module.register_module

-- Classes ----------------------------------------------------------------------------------------

local call   -- below, with the error messages

local function new_state(class)
  return {
    class = class, values = {training = true}, kinds = {}, transient = {}, warned = {},
    parameters = {}, buffers = {}, modules = {},
  }
end

local function instance_metatable(class)
  local mt = {__name = class._name}
  function mt.__index(m, name)
    local v = m[S].values[name]
    if v ~= nil then return v end
    v = class[name]
    if v == nil and type(name) == "number" and class._get_item then return class._get_item(m, name) end
    return v
  end
  mt.__newindex = assign
  mt.__call = function(...) return call(...) end
  function mt.__tostring(m) return M.repr(m) end
  function mt.__pairs(m)
    local each = class._pairs
    if each then return each(m) end
    return fields(m)
  end
  function mt.__len(m)
    local len = class._len
    if not len then fail("%s has no length", class._name) end
    return len(m)
  end
  return mt
end

local class_mt = {__name = "nn.class"}

function class_mt.__call(class, ...)
  local m = setmetatable({[S] = new_state(class)}, class._instances)
  m:init(...)
  return m
end

function class_mt.__index(class, name)
  local base = rawget(class, "_base")
  if base then return base[name] end
end

function class_mt.__tostring(class)
  return "class " .. class._name
end

local function make_class(class, name, base)
  class._name, class._base = name, base
  class._instances = instance_metatable(class)
  return setmetatable(class, class_mt)
end

-- nn.class(name[, base]): a new kind of module. `Net(...)` makes one and calls Net.init(self, ...);
-- calling the module calls Net.forward(self, ...). Base.init(self, ...) is the constructor of base.
function M.class(name, base)
  if type(name) ~= "string" then fail("nn.class: the name must be a string, got %s", args.kind(name)) end
  base = base or Module
  if type(base) ~= "table" or getmetatable(base) ~= class_mt then
    fail("nn.class: the base of %s must be a class made by nn.class, got %s", name, args.kind(base))
  end
  return make_class({}, name, base)
end

make_class(Module, "Module", nil)

function Module:init() end

function Module:forward()
  fail("%s has no forward method: define function %s:forward(x)", class_name(self), class_name(self))
end

-- Is the module of this class, or of one derived from it?
function Module:is(class)
  local c = self[S].class
  while c do
    if c == class then return true end
    c = rawget(c, "_base")
  end
  return false
end

-- Walking ----------------------------------------------------------------------------------------

-- Calls visit(module, prefix) for the module and all below it, each once, parents first. No
-- recursion: models may nest as deep as they like.
local function walk(root, visit, prefix)
  local seen, stack = {}, {{root, prefix or ""}}
  while #stack > 0 do
    local m, name = table.unpack(table.remove(stack))
    if not seen[m] then
      seen[m] = true
      visit(m, name)
      local st = m[S]
      for i = #st.modules, 1, -1 do
        local child = st.modules[i]
        stack[#stack + 1] = {st.values[child], name == "" and child or name .. "." .. child}
      end
    end
  end
end
M.walk = walk

local function check_path(fname, path)
  if type(path) ~= "string" then fail("%s: a name is expected, got %s", fname, args.kind(path)) end
end

local function join(prefix, name)
  return prefix == "" and name or prefix .. "." .. name
end

local function collect(root, list, prefix, recurse)
  local out, seen = ordered.new(), {}
  local function visit(m, name)
    local st = m[S]
    for _, field in ipairs(st[list]) do
      local v = st.values[field]
      if not seen[v] then
        seen[v] = true
        out[join(name, field)] = v
      end
    end
  end
  if recurse == false then visit(root, prefix or "") else walk(root, visit, prefix) end
  return out
end

-- Calls visit(full name, tensor, module, field) for what state_dict holds, shared tensors under
-- each of their names: own parameters, own buffers, then the children.
function M.each_state(root, prefix, visit)
  local function go(m, path, above)
    if above[m] then return end
    above[m] = true
    local st = m[S]
    for _, name in ipairs(st.parameters) do visit(path .. name, st.values[name], m, name) end
    for _, name in ipairs(st.buffers) do
      if not st.transient[name] then visit(path .. name, st.values[name], m, name) end
    end
    for _, name in ipairs(st.modules) do go(st.values[name], path .. name .. ".", above) end
    above[m] = nil
  end
  go(root, prefix, {})
end

local function values(dict)
  local out = {}
  for _, v in pairs(dict) do out[#out + 1] = v end
  return ordered.list(out)
end

local walk_signature = args.signature("named_parameters", "prefix:str=, recurse:bool=true")

-- Parameters by name, in order of registration; one that is shared comes once.
-- for name, p in model:named_parameters() do ... end
function Module:named_parameters(...)
  local a = walk_signature(...)
  return collect(self, "parameters", a.prefix, a.recurse)
end

function Module:named_buffers(...)
  local a = walk_signature(...)
  return collect(self, "buffers", a.prefix, a.recurse)
end

-- A list of the parameters: for p in model:parameters() do, ipairs and # work.
function Module:parameters(recurse)
  return values(collect(self, "parameters", "", recurse))
end

function Module:buffers(recurse)
  return values(collect(self, "buffers", "", recurse))
end

function Module:named_children()
  return collect(self, "modules", "", false)
end

function Module:children()
  return values(self:named_children())
end

-- All modules by name, the module itself first (its name is "").
function Module:named_modules(prefix)
  if prefix ~= nil then check_path("named_modules", prefix) end
  local out = ordered.new()
  walk(self, function(m, name) out[name] = m end, prefix)
  return out
end

function Module:modules()
  return values(self:named_modules())
end

-- The module of that name ("encoder.layers.0"); "" is the module itself.
function Module:get_submodule(path)
  check_path("get_submodule", path)
  local m = self
  for name in path:gmatch("[^.]+") do
    local child = is_module(m) and m[S].kinds[name] == "module" and m[S].values[name]
    if not child then fail('%s has no submodule "%s"', class_name(self), path) end
    m = child
  end
  return m
end

local function get_tensor(self, path, kind)
  check_path("get_" .. kind, path)
  local prefix, name = path:match("^(.*)%.([^.]+)$")
  local m = prefix and self:get_submodule(prefix) or self
  name = name or path
  if m[S].kinds[name] ~= kind then fail('%s has no %s "%s"', class_name(self), kind, path) end
  return m[S].values[name]
end

function Module:get_parameter(path) return get_tensor(self, path, "parameter") end
function Module:get_buffer(path) return get_tensor(self, path, "buffer") end

-- Calls fn(module) for the children first, then for the module itself.
function Module:apply(fn)
  if not args.callable(fn) then fail("apply: a function is expected, got %s", args.kind(fn)) end
  local all = self:modules()
  for i = #all, 1, -1 do fn(all[i]) end
  return self
end

function Module:train(mode)
  if mode == nil then mode = true end
  if type(mode) ~= "boolean" then fail("train: mode must be true or false, got %s", args.kind(mode)) end
  walk(self, function(m) m[S].values.training = mode end)
  return self
end

function Module:eval()
  return self:train(false)
end

function Module:requires_grad_(flag)
  if flag == nil then flag = true end
  for _, p in ipairs(self:parameters()) do p:requires_grad_(flag) end
  return self
end

local zero_grad_signature = args.signature("zero_grad", "set_to_none:bool=true")
function Module:zero_grad(...)
  M.zero_grad(self:parameters(), zero_grad_signature(...).set_to_none)
end

function M.zero_grad(list, set_to_none)
  for i = 1, #list do
    local p = list[i]
    if set_to_none then
      p.grad = nil
    elseif p.grad then
      local g = p.grad:detach()
      g:fill_(0)
      p.grad = g
    end
  end
end

-- Moving -----------------------------------------------------------------------------------------

local dtypes = {}
for _, name in ipairs {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8",
  "uint8", "bool"} do
  if sft[name] ~= nil then dtypes[sft[name]], dtypes[name] = sft[name], sft[name] end
end

local function read_target(fname, ...)
  local target = {}
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    if is_tensor(v) then
      target.device, target.dtype = v.device, v.dtype
    elseif args.is_keywords(v) then
      for key, value in next, v do
        if key ~= "device" and key ~= "dtype" and key ~= "non_blocking" then
          fail("%s: unknown keyword '%s'%s", fname, tostring(key),
            args.suggest(key, {"device", "dtype", "non_blocking"}))
        end
        target[key] = value
      end
    elseif dtypes[v] then
      target.dtype = v
    elseif type(v) == "boolean" then
      target.non_blocking = v
    elseif v ~= nil then
      target.device = v
    end
  end
  target.dtype = dtypes[target.dtype] or target.dtype
  if type(target.device) == "string" then target.device = sft.device(target.device) end
  if target.dtype and not target.dtype.is_floating_point then
    fail("%s: a module can only be given a floating point dtype, got %s", fname, tostring(target.dtype))
  end
  return target
end

local function same_device(a, b)
  return a == b or tostring(a) == tostring(b)
end

local function changes(t, target)
  return (target.device ~= nil and not same_device(target.device, t.device))
    or (target.dtype ~= nil and target.dtype ~= t.dtype and t:is_floating_point())
end

-- The tensor keeps its identity: whoever holds it sees the move.
local function move_tensor(t, target)
  if not changes(t, target) then return end
  local dtype = t:is_floating_point() and target.dtype or nil
  local moved = t:detach():to {device = target.device or t.device, dtype = dtype or t.dtype,
    non_blocking = target.non_blocking}
  local grad = t.grad
  if grad then
    t.grad = nil
    grad = grad:detach():to {device = target.device or t.device, dtype = dtype or t.dtype}
  end
  t:set_data(moved)
  if grad then t.grad = grad end
end

-- What a plain table holds: "modules", "tensors", or nil. Looks at a bounded number of entries.
local function contents(t)
  local n = 0
  for _, v in next, t do
    if is_module(v) then return "modules" end
    if is_tensor(v) then return "tensors", v end
    n = n + 1
    if n == 1000 then return end
  end
end

-- Tensors and modules in plain fields do not move: say so once for each field.
local function warn_unregistered(m, path, target)
  local st = m[S]
  for name, v in next, st.values do
    if not st.kinds[name] and type(name) == "string" and not st.warned[name] then
      local text
      if is_tensor(v) then
        if changes(v, target) then
          text = ('%s.%s is a plain tensor and stays %s; register it with '
            .. 'self:register_buffer("%s", t)'):format(path, name,
            target.device and not same_device(target.device, v.device) and "on " .. tostring(v.device)
              or tostring(v.dtype), name)
        end
      elseif type(v) == "table" and not is_module(v) and name:sub(1, 1) ~= "_" then
        local kind, tensor = contents(v)
        if kind == "modules" then
          text = ("%s.%s is a plain table of modules; use nn.ModuleList"):format(path, name)
        elseif kind == "tensors" and (is_parameter(tensor) or changes(tensor, target)) then
          text = ("%s.%s is a plain table of tensors and stays as it is; use nn.ParameterList, or "
            .. "self:register_buffer for each"):format(path, name)
        end
      end
      if text then
        st.warned[name] = true
        sft.warn(text)
      end
    end
  end
end

local function move(root, target)
  sft.no_grad(function()
    walk(root, function(m, name)
      local st = m[S]
      warn_unregistered(m, name == "" and class_name(root) or join(class_name(root), name), target)
      for _, field in ipairs(st.parameters) do move_tensor(st.values[field], target) end
      for _, field in ipairs(st.buffers) do move_tensor(st.values[field], target) end
    end)
  end)
  return root
end

-- model:to(device), :to(dtype), :to(device, dtype), :to(tensor), :to{device =, dtype =}. Parameters
-- and buffers are moved where they are; integer buffers keep their dtype. Returns the module.
function Module:to(...)
  return move(self, read_target("to", ...))
end

for method, name in pairs {float = "float32", double = "float64", half = "float16", bfloat16 = "bfloat16"} do
  Module[method] = function(self) return move(self, {dtype = sft[name]}) end
end

function Module:cpu() return self:to("cpu") end
function Module:cuda(index)
  if index ~= nil and not args.whole(index) then
    fail("cuda: the number of a device is expected, got %s", args.kind(index))
  end
  return self:to(index and "cuda:" .. args.whole(index) or "cuda")
end

local copy_module

local function copy_value(v, memo)
  if memo[v] ~= nil then return memo[v] end
  local out = v
  if is_module(v) then
    out = copy_module(v, memo)
  elseif is_parameter(v) then
    out = parameter.clone(v)
  elseif is_tensor(v) then
    out = v:detach():clone()
  elseif type(v) == "table" and getmetatable(v) == nil then
    out = {}
    memo[v] = out
    for k, x in next, v do out[k] = copy_value(x, memo) end
  end
  if out ~= nil then memo[v] = out end
  return out
end

copy_module = function(m, memo)
  local st = m[S]
  local copy = setmetatable({[S] = new_state(st.class)}, st.class._instances)
  memo[m] = copy
  local new = copy[S]
  for _, list in pairs(lists) do table.move(st[list], 1, #st[list], 1, new[list]) end
  for name, kind in next, st.kinds do new.kinds[name] = kind end
  for name in next, st.transient do new.transient[name] = true end
  for name, v in next, st.values do new.values[name] = copy_value(v, memo) end
  return copy
end

-- A copy that shares nothing with the module (python's copy.deepcopy): for layers made N times.
function Module:clone()
  return copy_module(self, {})
end

-- Hooks ------------------------------------------------------------------------------------------

local function add_hook(m, list, hook)
  if not args.callable(hook) then fail("a hook must be a function, got %s", args.kind(hook)) end
  local st = m[S]
  local entry = {hook}
  st[list] = st[list] or {}
  table.insert(st[list], entry)
  st.hooked = true
  return {remove = function()
    for i, e in ipairs(st[list]) do
      if e == entry then
        table.remove(st[list], i)
        break
      end
    end
    st.hooked = (#(st.pre_hooks or {}) + #(st.post_hooks or {})) > 0
  end}
end

-- hook(module, arguments): may return new arguments (one value, or a list). Returns a handle with
-- a method `remove`.
function Module:register_forward_pre_hook(hook)
  return add_hook(self, "pre_hooks", hook)
end

-- hook(module, arguments, output): may return another output. Several outputs come as a list.
function Module:register_forward_hook(hook)
  return add_hook(self, "post_hooks", hook)
end

local function is_plain_list(v)
  return type(v) == "table" and getmetatable(v) == nil
end

local function forward_with_hooks(m, ...)
  local st, input = m[S], table.pack(...)
  for _, entry in ipairs {table.unpack(st.pre_hooks or {})} do
    local r = entry[1](m, input)
    if is_plain_list(r) then
      input = r
      input.n = r.n or #r
    elseif r ~= nil then
      input = {r, n = 1}
    end
  end
  local output = table.pack(m:forward(table.unpack(input, 1, input.n)))
  for _, entry in ipairs {table.unpack(st.post_hooks or {})} do
    local r = entry[1](m, input, output.n == 1 and output[1] or output)
    if output.n ~= 1 and is_plain_list(r) then
      output = r
      output.n = r.n or #r
    elseif r ~= nil then
      output = {r, n = 1}
    end
  end
  return table.unpack(output, 1, output.n)
end

-- Calls and their errors -------------------------------------------------------------------------

-- An error on its way out of nested calls gains the path of the module it came from, once. The
-- innermost call notes it, each outer one that knows that module makes the path longer. Texts and
-- sft's own error objects do; other values pass as they are. Weak, so that an old error keeps no
-- model alive.
local last = setmetatable({}, {__mode = "v"})

-- The last error that left a module, and the stack as it was where that was raised: sftlua prints
-- it, as the stack is gone when the error arrives there.
local trace = {}
sft._trace = trace

-- Runs where the error was raised: takes the position off a text, to put it in front again later.
local function on_error(e)
  if rawequal(e, last.full) then return e end
  if type(e) == "string" or sft.is_error(e) then
    trace.error, trace.traceback = nil, debug.traceback("", 2):gsub("^\n", "")
  end
  if type(e) ~= "string" then return e end
  local where, text = "", e
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.currentline > 0 then
      local position = ("%s:%d: "):format(info.short_src, info.currentline)
      if e:sub(1, #position) == position then
        where, text = position, e:sub(#position + 1)
        break
      end
    end
    level = level + 1
  end
  last.raw, last.where, last.text = e, where, text
  return e
end

local function index_style(m)
  return m[S].class._get_item ~= nil
end

-- ".features[3]" from `root` down to `target`, or nil.
local function find_path(root, target)
  local seen = {}
  local function go(m)
    if m == target then return "" end
    if seen[m] then return end
    seen[m] = true
    local st = m[S]
    for _, name in ipairs(st.modules) do
      local rest = go(st.values[name])
      if rest then
        local number = index_style(m) and math.tointeger(tonumber(name))
        return (number and ("[%d]"):format(number + 1) or "." .. name) .. rest
      end
    end
  end
  return go(root)
end

-- "Linear(784 -> 10)": a leaf with what tells it from others, else the name alone.
local function describe(m)
  local ok, text = pcall(function()
    if m._describe then return m:_describe() end
    local extra = #m[S].modules == 0 and m:extra_repr() or ""
    return extra ~= "" and not extra:find("\n") and ("%s(%s)"):format(class_name(m), extra) or class_name(m)
  end)
  return ok and text or class_name(m)
end

-- Puts the path from `root` in front of the text of the error.
local function set_path(e, root, path)
  local module = last.module
  local name = path == "" and describe(module) or ("%s%s: %s"):format(class_name(root), path, describe(module))
  local text = ("in %s: %s"):format(name, last.text)
  if type(e) == "string" then
    e = last.where .. text
  else
    e.message = text
  end
  last.full, trace.error = e, e
  return e
end

local function annotate(m, e)
  local is_text = type(e) == "string"
  if not is_text and not sft.is_error(e) then return e end
  if rawequal(e, last.full) and last.module then
    local path = last.module ~= m and find_path(m, last.module)
    return path and set_path(e, m, path) or e
  end
  if not is_text then
    last.text = e.message
  elseif e ~= last.raw then
    last.where, last.text = "", e
  end
  last.module = m
  return set_path(e, m, "")
end

local function finish(m, ok, ...)
  if ok then return ... end
  error(annotate(m, (...)), 0)
end

-- Calling a module. xpcall lets a coroutine yield in forward.
call = function(m, ...)
  local st = m[S]
  if st.hooked then return finish(m, xpcall(forward_with_hooks, on_error, m, ...)) end
  return finish(m, xpcall(m.forward, on_error, m, ...))
end

-- Printing ---------------------------------------------------------------------------------------

function Module:extra_repr() return "" end

local function indent(text)
  return (text:gsub("\n", "\n  "))
end

-- A tree like that of PyTorch. Equal neighbours of a ModuleList come as one line: (0-5): 6 x Block.
function M.repr(m)
  local st = m[S]
  local lines, extra = {}, m:extra_repr()
  if extra ~= "" then
    if #st.modules == 0 and not extra:find("\n") then return ("%s(%s)"):format(class_name(m), extra) end
    for line in extra:gmatch("[^\n]+") do lines[#lines + 1] = line end
  end
  local i, n = 1, #st.modules
  while i <= n do
    local text = M.repr(st.values[st.modules[i]])
    local j = i
    while st.class._collapse and j < n and M.repr(st.values[st.modules[j + 1]]) == text do j = j + 1 end
    local name = st.modules[i]
    if j > i then
      lines[#lines + 1] = ("(%s-%s): %d x %s"):format(name, st.modules[j], j - i + 1, indent(text))
    else
      lines[#lines + 1] = ("(%s): %s"):format(name, indent(text))
    end
    i = j + 1
  end
  if #lines == 0 then return class_name(m) .. "()" end
  return ("%s(\n  %s\n)"):format(class_name(m), table.concat(lines, "\n  "))
end

-- For containers: the names and the values of the registered modules, and of other fields.
function M.module_names(m) return m[S].modules end
function M.parameter_names(m) return m[S].parameters end
function M.raw_get(m, name) return m[S].values[name] end
function M.unregister(m, name) unregister(m[S], name) end

return M
