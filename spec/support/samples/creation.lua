-- Creation.

return function(T)
  local s = {
    empty = {{2, 3, shape_only = true}, {{2, 3}, kw = {dtype = "int64"}, shape_only = true}},
    zeros = {{2, 3}, {{2, 3}, kw = {dtype = "int64"}}, {}},
    ones = {{2, 3}, {{2, 3}, kw = {dtype = "bool"}}},
    full_value = {{{2, 3}, 2}, {{2}, 1.5, kw = {dtype = "float64"}}, {{}, true}},
    zeros_like = {{T({2, 3})}, {T({2, 3}), kw = {dtype = "int8"}}},
    ones_like = {{T({2, 3})}},
    empty_like = {{T({2, 3}), shape_only = true}},
    full_like_value = {{T({2, 3}), 2}},
    new_zeros = {{T({2, 3}), 2}},
    new_ones = {{T({2, 3}), {2, 2}}},
    new_empty = {{T({2, 3}), 2, shape_only = true}},
    new_full = {{T({2, 3}), {2}, 3}},
    arange_end = {{5}, {2.5}, {5, kw = {dtype = "float32"}}},
    arange = {{1, 4}, {0, 1, 0.25}, {5, 1, -2}},
    linspace = {{0, 1, 5}, {3, -3, 4, kw = {dtype = "float64"}}, {1, 1, 1}},
    logspace = {{0, 2, 3}, {0, 3, 4, 2}},
    eye = {{3}, {2, 4}, {3, kw = {dtype = "int64"}}},
    tril_indices = {{3, 4}, {3, 3, 1}},
    triu_indices = {{3, 4}, {3, 3, 1}},
  }
  return s
end
