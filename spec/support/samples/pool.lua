-- Pooling.

return function(T)
  local f = "float"
  local x, x1 = T({2, 3, 5, 6}, {lo = -8, hi = 8}), T({2, 3, 7})
  return {
    max_pool2d = {
      {x, 2, dtypes = f}, {x, {3, 2}, 2, {1, 1}, dtypes = f}, {x, 2, kw = {dilation = 2, ceil_mode = true}, dtypes = f},
      {x, 2, kw = {return_indices = true}, dtypes = f}, {T({3, 5, 6}), 2, dtypes = f},
    },
    max_pool1d = {{x1, 2, dtypes = f}, {x1, 3, 2, 1, dtypes = f}},
    avg_pool2d = {
      {x, 2, dtypes = f}, {x, {3, 2}, 2, {1, 1}, dtypes = f}, {x, 3, 2, 1, true, false, dtypes = f},
      {x, 2, kw = {divisor_override = 3}, dtypes = f},
    },
    avg_pool1d = {{x1, 2, dtypes = f}, {x1, 3, 2, 1, dtypes = f}},
    adaptive_avg_pool2d = {{x, 2, dtypes = f}, {x, {3, 4}, dtypes = f}},
    adaptive_avg_pool1d = {{x1, 3, dtypes = f}},
  }
end
