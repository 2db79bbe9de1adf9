-- Elementwise functions of one tensor.

return function(T)
  local s = {}
  local m = {2, 3}
  local function each(names, options, extra)
    for name in names:gmatch("%S+") do
      s[name] = {{T(m, options)}, {T({}, options)}}
      for k, v in pairs(extra or {}) do
        for _, sample in ipairs(s[name]) do sample[k] = v end
      end
    end
  end
  each("neg abs sign sgn positive square floor ceil trunc round frac exp exp2 expm1 sin cos tan atan"
    .. " sinh cosh tanh asinh erf erfc sigmoid deg2rad rad2deg isnan isinf isfinite isposinf"
    .. " isneginf signbit logical_not")
  each("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma", {lo = 0.25, hi = 4, nonzero = true})
  each("asin acos atanh erfinv", {lo = -0.9, hi = 0.9})
  each("acosh", {lo = 1.25, hi = 4})
  each("logit", {lo = 0.1, hi = 0.9})
  each("bitwise_not", {}, {dtypes = "int"})
  -- below the dtype's resolution at 1: values from 1 to 3 and beyond the vector's body
  s.exp[3] = {T({37})}
  s.neg[3] = {T({3, 1, 2})}
  s.logit[3] = {T(m, {lo = 0.1, hi = 0.9}), 0.25}
  s.round[3] = {T(m), kw = {decimals = 1}, dtypes = "float", tol = 10}
  s.square.dtypes = "all"
  s.nan_to_num = {
    {T(m)},
    {T({5}, {values = {1, 0 / 0, math.huge, -math.huge, -2}, float = true}), kw = {nan = 3, posinf = 5, neginf = -7},
      dtypes = "float", grad = false},
  }
  return s
end
