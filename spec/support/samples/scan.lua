-- Cumulative ops.

return function(T)
  local shape = {2, 3, 4}
  return {
    cumsum = {{T(shape), 2}, {T(shape), -1}, {T({7}), 1, kw = {dtype = "float64"}}, {T({}), 1}},
    cumprod = {
      {T({2, 3}, {lo = 0.5, hi = 1.5}), 2}, {T({2, 3}), 1, dtypes = "float"},
      -- its second gradient is only there where no element is 0
      {T({4}, {values = {2, 0, 3, 0}}), 1, dtypes = "float", double = false},
    },
    logcumsumexp = {{T(shape), 2, dtypes = "float"}},
    cummax = {{T(shape), 2, dtypes = "float"}},
    cummin = {{T(shape), -1, dtypes = "float"}},
  }
end
