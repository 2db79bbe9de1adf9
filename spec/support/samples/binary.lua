-- Elementwise functions of two and three operands, with broadcasting.

return function(T)
  local s = {}
  local function each(names, a, b, extra)
    for name in names:gmatch("%S+") do
      s[name] = {
        {T({2, 3}, a), T({2, 3}, b)},
        {T({2, 1, 3}, a), T({4, 1}, b)},
        {T({}, a), T({3}, b)},
      }
      for k, v in pairs(extra or {}) do
        for _, sample in ipairs(s[name]) do sample[k] = v end
      end
    end
  end
  local positive = {lo = 0.25, hi = 3, nonzero = true, even = true}
  each("maximum minimum fmax fmin", nil, {even = true})
  each("add sub atan2 copysign logaddexp logaddexp2 eq ne lt le gt ge logical_and"
    .. " logical_or logical_xor")
  each("mul", {lo = -2, hi = 2}, {lo = -2, hi = 2})
  each("hypot nextafter", {float = true}, {float = true}, {dtypes = "float"})
  each("div", nil, positive)
  each("floor_divide remainder fmod", nil, positive)
  each("pow", {lo = 0.25, hi = 2}, {lo = 0.25, hi = 1.75})
  each("float_power", {lo = 0.25, hi = 2}, {lo = 0.25, hi = 1.75})
  each("xlogy", {lo = 0.25, hi = 2}, positive)
  each("heaviside", {lo = -3, hi = 3}, {lo = 0.25, hi = 2})
  each("gcd lcm bitwise_and bitwise_or bitwise_xor", {}, {}, {dtypes = "int"})
  each("bitwise_left_shift bitwise_right_shift", {lo = 0, hi = 3}, {lo = 0, hi = 1}, {dtypes = "int"})
  for _, sample in ipairs(s.nextafter) do sample.reference = false end

  for name in ("add sub mul div eq ne lt le gt ge maximum_"):gmatch("%S+") do
    if s[name] then
      s[name][#s[name] + 1] = {T({2, 3}), 2}
      s[name][#s[name] + 1] = {T({2, 3}), 1.5}
    end
  end
  for name in ("floor_divide remainder fmod pow xlogy atan2 copysign float_power"):gmatch("%S+") do
    s[name][#s[name] + 1] = {T({2, 3}, {lo = 0.25, hi = 2}), 2}
  end
  s.hypot[#s.hypot + 1] = {T({2, 3}), 2, dtypes = "float"}
  s.pow[#s.pow + 1] = {2.0, T({3}, {lo = 0.25, hi = 2})}
  s.add[#s.add + 1] = {T({2, 3}), T({3}), kw = {alpha = 2}}
  s.sub[#s.sub + 1] = {T({2, 3}), T({3}), kw = {alpha = 2}}
  s.add[#s.add + 1] = {3, T({2, 3})}
  s.div[#s.div + 1] = {T({2, 3}), T({3}, positive), kw = {rounding_mode = "floor"}}
  s.div[#s.div + 1] = {T({2, 3}), T({3}, positive), kw = {rounding_mode = "trunc"}}
  s.rsub = {{T({2, 3}), T({2, 3})}, {T({2, 3}), 2, kw = {alpha = 2}}}
  for _, name in ipairs {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"} do
    s[name][#s[name] + 1] = {T({2, 3}, {lo = 0, hi = 3}), 1, dtypes = "int"}
  end

  local condition = {dtype = "bool"}
  s.where = {
    {T({2, 3}, condition), T({2, 3}), T({2, 3})},
    {T({2, 1}, condition), T({3}), T({})},
    {T({2, 3}, condition), T({2, 3}), 2},
    {T({2, 3}, condition), 2, T({3})},
  }
  s.where_method = {{T({2, 3}), T({2, 3}, condition), T({3})}, {T({2, 3}), T({3}, condition), 2}}
  s.clamp = {
    {T({2, 3}), -1, 2}, {T({2, 3}), kw = {max = 1}}, {T({2, 3}), kw = {min = 1}}, {T({2, 3}), 0.25, 1.5,
      dtypes = "float"},
  }
  s.clamp_tensor = {
    {T({2, 3}), T({2, 3}, {lo = -1, hi = 0}), T({3}, {lo = 0.5, hi = 2})},
    {T({2, 3}), kw = {max = T({2, 1}, {lo = 0.5, hi = 2})}},
  }
  s.clamp_min = {{T({2, 3}), 1}, {T({2, 3}), T({3})}}
  s.clamp_max = {{T({2, 3}), 1}, {T({2, 3}), T({3})}}
  s.lerp = {
    {T({2, 3}), T({2, 3}), 0.25}, {T({2, 3}), T({3}), T({2, 1}, {lo = 0, hi = 1})}, {T({2, 3}), T({3}), 0.75},
  }
  s.addcmul = {
    {T({2, 3}), T({2, 3}, {lo = -2, hi = 2}), T({3}, {lo = -2, hi = 2})},
    {T({2, 3}), T({2, 1}, {lo = -2, hi = 2}), T({3}, {lo = -2, hi = 2}), kw = {value = 2}},
  }
  s.addcdiv = {
    {T({2, 3}), T({2, 3}), T({3}, positive), dtypes = "float"},
    {T({2, 3}), T({2, 1}), T({3}, positive), kw = {value = 0.5}, dtypes = "float"},
  }
  return s
end
