-- The softmax family.

return function(T)
  local s = {}
  for _, name in ipairs {"softmax", "log_softmax", "softmin"} do
    s[name] = {
      {T({2, 3}), 2, dtypes = "float"}, {T({2, 3, 4}), 1, dtypes = "float"}, {T({2, 3, 4}), 2, dtypes = "float"},
      {T({17}), 1, dtypes = "float"}, {T({2, 3}), 1, kw = {dtype = "float64"}, dtypes = "float"},
      {T({}), 1, dtypes = "float"},
    }
  end
  return s
end
