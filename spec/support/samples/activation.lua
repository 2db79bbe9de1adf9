-- Activations.

return function(T)
  local s = {}
  local m = {2, 3}
  for name in ("relu relu6 gelu silu mish selu elu celu leaky_relu hardtanh hardsigmoid hardswish softplus"
    .. " logsigmoid softsign tanhshrink hardshrink softshrink"):gmatch("%S+") do
    s[name] = {{T(m)}, {T({19})}}
  end
  s.gelu[3] = {T(m), kw = {approximate = "tanh"}}
  s.elu[3] = {T(m), 0.5}
  s.celu[3] = {T(m), 0.5}
  s.leaky_relu[3] = {T(m), 0.25}
  s.hardtanh[3] = {T(m), -0.5, 1.25}
  s.softplus[3] = {T(m), 2.0, 1.0}
  s.hardshrink[3] = {T(m), 1.25}
  s.softshrink[3] = {T(m), 1.25}
  s.threshold = {{T(m), 0.25, 5}}
  s.prelu = {{T({2, 3, 2}), T({3}, {lo = 0.1, hi = 0.9})}, {T(m), T({1}, {lo = 0.1, hi = 0.9})}}
  return s
end
