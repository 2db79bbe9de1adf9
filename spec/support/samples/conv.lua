-- Convolution and patches.

return function(T)
  local f = {"float32", "float64"}
  local r = {lo = -2, hi = 2}
  local x, w = T({2, 3, 5, 6}, r), T({4, 3, 3, 2}, r)
  local x1, w1 = T({2, 3, 7}, r), T({4, 3, 3}, r)
  return {
    conv2d = {
      {x, w, dtypes = f}, {x, w, T({4}, r), {2, 1}, 1, dtypes = f},
      {T({2, 4, 5, 5}, r), T({6, 2, 3, 3}, r), T({6}, r), kw = {groups = 2, dilation = 2, padding = 2}, dtypes = f},
      {T({3, 5, 5}, r), T({4, 3, 1, 1}, r), dtypes = f},
    },
    conv2d_named = {
      {x, T({4, 3, 3, 3}, r), kw = {padding = "same"}, dtypes = f}, {x, w, nil, 1, "valid", n = 5, dtypes = f},
    },
    conv1d = {{x1, w1, dtypes = f}, {x1, w1, T({4}, r), 2, 1, dtypes = f}},
    conv1d_named = {{x1, w1, kw = {padding = "same"}, dtypes = f}},
    conv_transpose2d = {
      {T({2, 3, 3, 2}, r), T({3, 4, 3, 2}, r), T({4}, r), dtypes = f},
      {T({2, 3, 3, 2}, r), T({3, 4, 3, 2}, r), nil, 2, 1, 1, n = 6, dtypes = f},
    },
    conv_transpose1d = {{T({2, 3, 4}, r), T({3, 4, 3}, r), dtypes = f}},
    nn_unfold = {{T({2, 3, 4, 5}), 2, dtypes = f}, {T({2, 3, 4, 5}), {2, 3}, 1, 1, 2, dtypes = f}},
    fold = {{T({2, 12, 6}), {3, 4}, 2, dtypes = f}},
  }
end
