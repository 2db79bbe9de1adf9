-- Copies and fills.

return function(T)
  local m = T({2, 3})
  return {
    copy = {{m, T({3})}, {m, T({2, 3})}},
    fill = {{m, 2}, {m, T({})}},
    zero = {{m}},
    clone = {{m}, {T({})}},
    to = {{m, "float64", keywords = false}, {m, "cpu"}, {m, kw = {dtype = "float32"}, grad = false}},
    contiguous = {{m}},
  }
end
