-- Normalisation and dropout.

return function(T)
  local f = "float"
  local c4 = T({2, 4, 3})
  local w, b = T({4}, {lo = 0.5, hi = 1.5}), T({4})
  return {
    layer_norm = {
      {T({2, 3, 4}), {4}, dtypes = f}, {T({2, 3, 4}), {4}, w, b, dtypes = f}, {T({2, 3, 4}), {3, 4}, dtypes = f},
      {T({5, 4}), 4, w, dtypes = f},
    },
    rms_norm = {{T({2, 3, 4}), {4}, dtypes = f}, {T({2, 3, 4}), {4}, w, dtypes = f}},
    batch_norm = {
      {c4, T({4}, {grad = false}), T({4}, {lo = 0.5, hi = 1.5, grad = false}), w, b, dtypes = f},
      {T({5, 4}), kw = {training = true}, dtypes = f, tol = 10},
      {c4, kw = {weight = w, bias = b, training = true}, dtypes = f, tol = 10},
    },
    group_norm = {{c4, 2, dtypes = f}, {c4, 2, w, b, dtypes = f}},
    instance_norm = {{c4, dtypes = f, tol = 10}, {c4, kw = {weight = w, bias = b}, dtypes = f, tol = 10}},
    normalize = {{T({3, 4}), dtypes = f}, {T({3, 4}), 1, 1, dtypes = f}},
    dropout = {
      {T({4, 5}), 0.5, random = true, dtypes = f}, {T({4, 5}), 0.5, false, dtypes = f}, {T({4, 5}), 0, dtypes = f},
      {T({4, 5}), 1, dtypes = f},
    },
    dropout1d = {{T({4, 5, 3}), 0.5, random = true, dtypes = f}},
    dropout2d = {{T({4, 5, 3, 2}), 0.5, random = true, dtypes = f}},
  }
end
