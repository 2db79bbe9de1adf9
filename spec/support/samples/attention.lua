-- Attention.

return function(T)
  local f = {"float32", "float64"}
  local q, k, v = T({2, 3, 4}), T({2, 5, 4}), T({2, 5, 3})
  return {
    scaled_dot_product_attention = {
      {q, k, v, dtypes = f}, {q, k, v, T({3, 5}, {dtype = "bool"}), dtypes = f},
      {q, k, v, T({3, 5}), dtypes = f}, {T({1, 2, 3, 4}), T({1, 2, 3, 4}), T({1, 2, 3, 4}), kw = {is_causal = true,
        scale = 0.5}, dtypes = f},
    },
  }
end
