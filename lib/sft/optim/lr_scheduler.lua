-- optim.lr_scheduler: learning rates over time. After torch.optim.lr_scheduler, in closed form: the
-- rate depends on the number of steps only, not on how it was reached.
--
-- scheduler:step() after opt:step(); get_last_lr(); state_dict() and load_state_dict() for resuming.

local sft = require "sft"
local args = require "sft.args"

local fail = args.fail
local M = {}

local Scheduler = {}
Scheduler.__index = Scheduler

local function apply(self)
  self._last_lr = {}
  for i, group in ipairs(self.optimizer.param_groups) do
    local lr = self:_rate(self.base_lrs[i], self.last_epoch, i, group)
    if lr ~= nil then group.lr = lr end
    self._last_lr[i] = group.lr
  end
end

-- Goes on by one step; step(n) goes to the n-th (counted from 0).
function Scheduler:step(epoch)
  if not self._warned and self.last_epoch == 0 and self.optimizer._steps == 0 then
    self._warned = true
    sft.warn(self._name .. ": scheduler:step() before the first optimizer:step() skips the first learning rate")
  end
  self.last_epoch = epoch == nil and self.last_epoch + 1 or epoch
  apply(self)
end

function Scheduler:get_last_lr()
  return table.move(self._last_lr, 1, #self._last_lr, 1, {})
end

function Scheduler:state_dict()
  return {last_epoch = self.last_epoch, base_lrs = table.move(self.base_lrs, 1, #self.base_lrs, 1, {}),
    last_lr = self:get_last_lr()}
end

function Scheduler:load_state_dict(sd)
  if type(sd) ~= "table" or math.type(sd.last_epoch) ~= "integer" or type(sd.base_lrs) ~= "table" then
    fail("%s: load_state_dict: not the state of a scheduler", self._name)
  end
  if #sd.base_lrs ~= #self.base_lrs then
    fail("%s: load_state_dict: the state is of %d groups, the optimizer has %d", self._name, #sd.base_lrs,
      #self.base_lrs)
  end
  self.last_epoch = sd.last_epoch
  self.base_lrs = table.move(sd.base_lrs, 1, #sd.base_lrs, 1, {})
  apply(self)
end

local function is_optimizer(v)
  return type(v) == "table" and type(v.param_groups) == "table"
end

local function start(self, optimizer, last_epoch)
  self.optimizer, self.base_lrs = optimizer, {}
  for i, group in ipairs(optimizer.param_groups) do
    if group.initial_lr == nil then group.initial_lr = group.lr end
    self.base_lrs[i] = group.initial_lr
  end
  self.last_epoch = last_epoch + 1
  apply(self)
end

-- `rate(self, base_lr, epoch, index of the group)` gives the learning rate.
local function define(name, text, rate, check)
  local class = setmetatable({_name = name, _rate = rate}, {__index = Scheduler})
  class.__index, class.__name = class, name
  local signature = args.signature(name, "optimizer, " .. text .. (text ~= "" and ", " or "") .. "last_epoch:int=-1")
  M[name] = function(...)
    local a = signature(...)
    if not is_optimizer(a.optimizer) then fail("%s: an optimizer is expected, got %s", name, args.kind(a.optimizer)) end
    local self = setmetatable({}, class)
    for k, v in next, a do
      if k ~= "optimizer" and k ~= "last_epoch" then self[k] = v end
    end
    if check then check(self, a.optimizer) end
    start(self, a.optimizer, a.last_epoch)
    return self
  end
  return class
end

define("StepLR", "step_size:int, gamma:num=0.1", function(self, base, epoch)
  return base * self.gamma ^ (epoch // self.step_size)
end, function(self)
  if self.step_size < 1 then fail("StepLR: step_size must be positive, got %d", self.step_size) end
end)

define("MultiStepLR", "milestones, gamma:num=0.1", function(self, base, epoch)
  local passed = 0
  for _, m in ipairs(self.milestones) do
    if epoch >= m then passed = passed + 1 end
  end
  return base * self.gamma ^ passed
end, function(self)
  if type(self.milestones) ~= "table" then fail("MultiStepLR: milestones must be a list") end
end)

define("ExponentialLR", "gamma:num", function(self, base, epoch) return base * self.gamma ^ epoch end)

define("CosineAnnealingLR", "T_max:int, eta_min:num=0", function(self, base, epoch)
  return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2
end, function(self)
  if self.T_max < 1 then fail("CosineAnnealingLR: T_max must be positive, got %d", self.T_max) end
end)

define("LambdaLR", "lr_lambda", function(self, base, epoch, i)
  local factor = self._lambdas[i](epoch)
  if type(factor) ~= "number" then
    fail("LambdaLR: lr_lambda(%d) must return a number, got %s", epoch, args.kind(factor))
  end
  return base * factor
end, function(self, optimizer)
  local list = type(self.lr_lambda) == "table" and not args.callable(self.lr_lambda) and self.lr_lambda or nil
  self._lambdas = {}
  for i = 1, #optimizer.param_groups do
    self._lambdas[i] = list and list[i] or not list and self.lr_lambda
    if not args.callable(self._lambdas[i]) then
      fail("LambdaLR: lr_lambda must be a function, or a list of one for each of the %d groups",
        #optimizer.param_groups)
    end
  end
end)

-- From start_factor to end_factor over total_iters steps: a warm-up.
define("LinearLR", "start_factor:num=0.3333333333333333, end_factor:num=1.0, total_iters:int=5",
  function(self, base, epoch)
    local part = self.total_iters > 0 and math.min(epoch, self.total_iters) / self.total_iters or 1
    return base * (self.start_factor + (self.end_factor - self.start_factor) * part)
  end)

define("ConstantLR", "factor:num=0.3333333333333333, total_iters:int=5", function(self, base, epoch)
  return epoch < self.total_iters and base * self.factor or base
end)

define("PolynomialLR", "total_iters:int=5, power:num=1.0", function(self, base, epoch)
  local part = self.total_iters > 0 and math.min(epoch, self.total_iters) / self.total_iters or 1
  return base * (1 - part) ^ self.power
end)

-- Up to max_lr and down again, once (https://arxiv.org/abs/1708.07120); momentum the other way.
local function one_cycle(self, epoch, low, high, final)
  if epoch > self.total_steps then
    fail("OneCycleLR: step %d is after the last of the %d steps", epoch, self.total_steps)
  end
  local up = self.pct_start * self.total_steps - 1
  local from, to, part
  if epoch <= up then
    from, to, part = low, high, up > 0 and epoch / up or 1
  else
    from, to, part = high, final, (epoch - up) / (self.total_steps - 1 - up)
  end
  part = math.min(part, 1)
  if self.anneal_strategy == "linear" then return from + (to - from) * part end
  return to + (from - to) / 2 * (1 + math.cos(math.pi * part))
end

define("OneCycleLR", "max_lr:num, total_steps:int?, epochs:int?, steps_per_epoch:int?, pct_start:num=0.3, "
  .. "anneal_strategy:str=cos, cycle_momentum:bool=true, base_momentum:num=0.85, max_momentum:num=0.95, "
  .. "div_factor:num=25.0, final_div_factor:num=1e4", function(self, _, epoch, _, group)
    local low = self.max_lr / self.div_factor
    if self.cycle_momentum then
      local m = one_cycle(self, epoch, self.max_momentum, self.base_momentum, self.max_momentum)
      if group.betas then group.betas = {m, group.betas[2]} elseif group.momentum then group.momentum = m end
    end
    return one_cycle(self, epoch, low, self.max_lr, low / self.final_div_factor)
  end, function(self)
    self.total_steps = self.total_steps or (self.epochs or 0) * (self.steps_per_epoch or 0)
    if self.total_steps < 1 then fail("OneCycleLR: give total_steps, or epochs and steps_per_epoch") end
    if self.anneal_strategy ~= "cos" and self.anneal_strategy ~= "linear" then
      fail('OneCycleLR: anneal_strategy must be "cos" or "linear", got "%s"', self.anneal_strategy)
    end
  end)

-- One scheduler after the other: schedulers[i + 1] takes over at milestones[i], from its own step 0.
local Sequential = setmetatable({_name = "SequentialLR"}, {__index = Scheduler})
Sequential.__index = Sequential
local sequential_signature = args.signature("SequentialLR", "optimizer, schedulers, milestones")

local function sequential_apply(self)
  local at, offset = 1, 0
  for i, m in ipairs(self.milestones) do
    if self.last_epoch >= m then at, offset = i + 1, m end
  end
  local s = self.schedulers[at]
  s.last_epoch = self.last_epoch - offset
  apply(s)
  self._last_lr = s._last_lr
end

function M.SequentialLR(...)
  local a = sequential_signature(...)
  if type(a.schedulers) ~= "table" or type(a.milestones) ~= "table" or #a.schedulers ~= #a.milestones + 1 then
    fail("SequentialLR: there must be one milestone between every two schedulers")
  end
  for i, s in ipairs(a.schedulers) do
    if type(s) ~= "table" or s.optimizer ~= a.optimizer then
      fail("SequentialLR: scheduler %d belongs to another optimizer", i)
    end
  end
  local self = setmetatable(a, Sequential)
  self.last_epoch, self.base_lrs = 0, a.schedulers[1].base_lrs
  sequential_apply(self)
  return self
end

function Sequential:step(epoch)
  self.last_epoch = epoch == nil and self.last_epoch + 1 or epoch
  sequential_apply(self)
end

function Sequential:load_state_dict(sd)
  if type(sd) ~= "table" or math.type(sd.last_epoch) ~= "integer" then
    fail("SequentialLR: load_state_dict: not the state of a scheduler")
  end
  self.last_epoch = sd.last_epoch
  sequential_apply(self)
end

-- Lowers the rate when a measure has stopped getting better: scheduler:step(validation_loss).
local Plateau = {_name = "ReduceLROnPlateau"}
Plateau.__index = Plateau
local plateau_signature = args.signature("ReduceLROnPlateau", "optimizer, mode:str=min, factor:num=0.1, "
  .. "patience:int=10, threshold:num=1e-4, cooldown:int=0, min_lr:num=0, eps:num=1e-8")

function M.ReduceLROnPlateau(...)
  local a = plateau_signature(...)
  if a.mode ~= "min" and a.mode ~= "max" then
    fail('ReduceLROnPlateau: mode must be "min" or "max", got "%s"', a.mode)
  end
  if a.factor >= 1 then fail("ReduceLROnPlateau: factor must be below 1, got %g", a.factor) end
  a.bad, a.waiting, a.last_epoch = 0, 0, 0
  return setmetatable(a, Plateau)
end

function Plateau:step(measure)
  if sft.is_tensor(measure) then measure = measure:item() end
  if type(measure) ~= "number" then
    fail("ReduceLROnPlateau: step needs the measure, a number, got %s", args.kind(measure))
  end
  self.last_epoch = self.last_epoch + 1
  local better
  if self.mode == "min" then
    better = self.best == nil or measure < self.best * (1 - self.threshold)
  else
    better = self.best == nil or measure > self.best * (1 + self.threshold)
  end
  if better then self.best, self.bad = measure, 0 else self.bad = self.bad + 1 end
  if self.waiting > 0 then
    self.waiting, self.bad = self.waiting - 1, 0
  end
  if self.bad > self.patience then
    for _, group in ipairs(self.optimizer.param_groups) do
      local lr = math.max(group.lr * self.factor, self.min_lr)
      if group.lr - lr > self.eps then group.lr = lr end
    end
    self.bad, self.waiting = 0, self.cooldown
  end
end

function Plateau:get_last_lr()
  local out = {}
  for i, group in ipairs(self.optimizer.param_groups) do out[i] = group.lr end
  return out
end

function Plateau:state_dict()
  return {best = self.best, bad = self.bad, waiting = self.waiting, last_epoch = self.last_epoch}
end

function Plateau:load_state_dict(sd)
  for _, k in ipairs {"best", "bad", "waiting", "last_epoch"} do self[k] = sd[k] end
end

return M
