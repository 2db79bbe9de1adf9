-- Indexing, gathering and scattering.

return function(T)
  local function ids(shape, hi, values) return T(shape, {dtype = "int64", lo = 1, hi = hi, values = values}) end
  local m, c = T({3, 4}), T({2, 3, 4})
  local mask = T({3, 4}, {dtype = "bool"})
  local small = {lo = -2, hi = 2}
  return {
    index = {
      {m, {ids({2}, 3)}}, {m, {ids({2}, 3), ids({2}, 4)}}, {m, {mask}}, {c, {ids({2, 1}, 2), ids({5}, 3)}},
    },
    index_put = {
      {m, {ids({2}, 3)}, T({2, 4})}, {m, {ids({2}, 3), ids({2}, 4)}, T({})},
      {m, {ids({4}, 3, {1, 2, 1, 1})}, T({4, 4}, small), true}, {m, {mask}, T({1})},
    },
    index_select = {{m, 1, ids({5}, 3)}, {c, -1, ids({2}, 4)}},
    index_add = {{m, 1, ids({5}, 3), T({5, 4}, small)}, {m, 2, ids({2}, 4), T({3, 2}), kw = {alpha = 2}}},
    index_copy = {{m, 1, ids({2}, 3), T({2, 4})}},
    index_fill = {{m, 1, ids({2}, 3), 2}, {m, 2, ids({2}, 4), T({})}},
    take = {{m, ids({2, 2}, 12)}},
    take_along_dim = {{m, ids({2, 4}, 3), 1}, {m, ids({5}, 12)}},
    gather = {{m, 1, ids({2, 4}, 3)}, {m, -1, ids({3, 5}, 4)}, {c, 2, ids({2, 2, 4}, 3)}},
    scatter = {
      {m, 1, ids({1, 4}, 3), T({1, 4})}, {m, 2, ids({3, 1}, 4), T({3, 2})},
      {m, 1, ids({1, 4}, 3), T({1, 4}), kw = {reduce = "add"}, grad = false},
      {m, 1, ids({1, 4}, 3), T({1, 4}, small), kw = {reduce = "multiply"}, grad = false},
    },
    scatter_value = {{m, 1, ids({2, 4}, 3), 2}},
    scatter_add = {{m, 1, ids({2, 4}, 3), T({2, 4})}, {m, -1, ids({3, 6}, 4), T({3, 6}, small)}},
    scatter_reduce = {
      {m, 1, ids({2, 4}, 3), T({2, 4}), "sum"}, {m, 1, ids({2, 4}, 3), T({2, 4}), "mean", dtypes = "float"},
      {m, 1, ids({2, 4}, 3), T({2, 4}, small), "prod"}, {m, 1, ids({2, 4}, 3), T({2, 4}), "amax"},
      {m, 1, ids({2, 4}, 3), T({2, 4}), "amin", kw = {include_self = false}},
    },
    masked_fill = {{m, mask, 2}, {m, T({4}, {dtype = "bool"}), T({})}},
    masked_select = {{m, mask}, {m, T({4}, {dtype = "bool"})}},
    masked_scatter = {{m, mask, T({12})}},
    nonzero = {{m}, {mask}, {T({})}},
    nonzero_tuple = {{m, kw = {as_tuple = true}}},
    where_list = {{mask}},
    argwhere = {{m}},
    one_hot = {{ids({2, 3}, 4)}, {ids({5}, 4), 6}},
    embedding = {{ids({2, 3}, 5), T({5, 4}), dtypes = "float"},
      {ids({4}, 5), T({5, 4}), 2, dtypes = "float", grad = false}},
  }
end
