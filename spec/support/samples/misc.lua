-- What fits no other family.

return function(T)
  local f = {"float32", "float64"}
  local x, c = T({1, 2, 3, 4}), T({2, 8, 3, 2})
  return {
    interpolate = {
      {x, {6, 8}, dtypes = f}, {x, kw = {scale_factor = 2, mode = "bilinear"}, dtypes = f},
      {x, {5, 6}, nil, "bilinear", true, n = 5, dtypes = f}, {x, {2, 2}, kw = {mode = "area"}, dtypes = f},
      {x, {5, 5}, kw = {mode = "bicubic"}, dtypes = f}, {T({1, 2, 5}), {3}, kw = {mode = "linear"}, dtypes = f},
    },
    interpolate_list = {{x, kw = {scale_factor = {2.0, 1.5}, mode = "nearest"}, dtypes = f}},
    pixel_shuffle = {{c, 2}},
    pixel_unshuffle = {{T({2, 4, 6}), 2}},
    glu = {{T({2, 4}), dtypes = "float"}, {T({4, 3}), 1, dtypes = "float"}},
  }
end
