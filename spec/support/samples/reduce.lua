-- Reductions.

return function(T)
  local s = {}
  local shape = {2, 3, 4}
  for name in ("sum nansum mean nanmean"):gmatch("%S+") do
    s[name] = {
      {T(shape)}, {T(shape), 2}, {T(shape), {1, 3}, true}, {T(shape), -1, kw = {keepdim = true}}, {T({})},
      {T({37})},
    }
  end
  s.mean.dtypes, s.nanmean.dtypes = "float", "float"
  for _, name in ipairs {"mean", "nanmean"} do
    for _, sample in ipairs(s[name]) do sample.dtypes = "float" end
  end
  s.sum[#s.sum + 1] = {T(shape), 1, kw = {dtype = "float64"}}
  s.prod = {{T({2, 3}, {lo = 0.5, hi = 1.5})}, {T({2, 3}, {lo = 0.5, hi = 2}), 2}, {T({2, 3}), 1, true,
    dtypes = "float"}}
  s.max = {{T(shape)}, {T({})}}
  s.min = {{T(shape)}, {T({})}}
  s.max_dim = {{T(shape), 2}, {T(shape), -1, true}}
  s.min_dim = {{T(shape), 2}, {T(shape), -1, true}}
  s.max_other = {{T({2, 3}), T({3})}}
  s.min_other = {{T({2, 3}), T({3})}}
  s.amax = {{T(shape)}, {T(shape), 2}, {T(shape), {1, 3}, true}}
  s.amin = {{T(shape)}, {T(shape), 2}, {T(shape), {1, 3}, true}}
  s.aminmax = {{T(shape)}, {T(shape), kw = {dim = 2}}, {T(shape), kw = {dim = 1, keepdim = true}}}
  s.argmax = {{T(shape)}, {T(shape), 2}, {T(shape), -1, true}}
  s.argmin = {{T(shape)}, {T(shape), 2}, {T(shape), -1, true}}
  -- ties are the same in every dtype only where values stay distinct
  for _, name in ipairs {"argmax", "argmin", "max_dim", "min_dim", "aminmax"} do
    for _, sample in ipairs(s[name]) do sample.dtypes = "float" end
  end
  s.argmax[4] = {T({2, 3}, {dtype = "int64", lo = -2, hi = 4}), 1}
  s.any = {{T(shape)}, {T(shape), 2}, {T(shape), {1, 3}, true}}
  s.all = {{T(shape)}, {T(shape), 2}, {T(shape), {1, 3}, true}}
  s.count_nonzero = {{T(shape)}, {T(shape), 2}, {T(shape), {1, 3}}}
  for _, name in ipairs {"var", "std", "var_mean", "std_mean"} do
    s[name] = {
      {T(shape), dtypes = "float"}, {T(shape), 2, dtypes = "float"}, {T(shape), {1, 3}, false, true, dtypes = "float"},
      {T(shape), 2, kw = {correction = 0}, dtypes = "float"},
    }
    s[name .. "_flag"] = {{T(shape), false, dtypes = "float"}}
  end
  s.norm = {
    {T(shape), dtypes = "float"}, {T(shape), 1, 2, dtypes = "float"}, {T(shape), 3, {1, 3}, true, dtypes = "float"},
    {T(shape), math.huge, 2, dtypes = "float"}, {T(shape), -math.huge, 2, dtypes = "float"},
    {T(shape), 0, 2, dtypes = "float"},
  }
  s.norm_str = {{T({3, 4}), "fro", dtypes = "float"}, {T({3, 4}), "fro", 1, true, dtypes = "float"}}
  s.logsumexp = {{T(shape), 2, dtypes = "float"}, {T(shape), {1, 3}, true, dtypes = "float"}}
  return s
end
