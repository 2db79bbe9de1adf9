-- Matrix products.

return function(T)
  local r = {lo = -2, hi = 2}
  local v3, v4, m, n = T({3}, r), T({4}, r), T({2, 3}, r), T({3, 4}, r)
  local bm, bn = T({5, 2, 3}, r), T({5, 3, 4}, r)
  local s = {
    mm = {{m, n}},
    bmm = {{bm, bn}},
    addmm = {
      {T({2, 4}, r), m, n}, {T({4}, r), m, n, kw = {beta = 2, alpha = 3}}, {T({2, 1}, r), m, n, kw = {beta = 0}},
    },
    baddbmm = {{T({5, 2, 4}, r), bm, bn}, {T({4}, r), bm, bn, kw = {beta = 2, alpha = 3}}},
    addmv = {{T({2}, r), m, v3}, {T({}, r), m, v3, kw = {beta = 2, alpha = 3}}},
    addbmm = {{T({2, 4}, r), bm, bn}, {T({4}, r), bm, bn, kw = {beta = 2, alpha = 3}}},
    addr = {{n, v3, v4}, {T({4}, r), v3, v4, kw = {beta = 2, alpha = 3}}},
    matmul = {
      {v3, T({3}, r)}, {m, v3}, {v3, n}, {m, n}, {bm, n}, {bm, v3}, {m, bn}, {bm, bn},
      {T({2, 1, 2, 3}, r), T({5, 3, 4}, r)},
    },
    mv = {{m, v3}},
    dot = {{v3, T({3}, r)}},
    inner_vdot = {{v3, T({3}, r)}},
    outer = {{v3, v4}},
    ger = {{v3, v4}},
    linear = {
      {m, T({4, 3}, r)}, {T({2, 5, 3}, r), T({4, 3}, r), T({4}, r)}, {v3, T({4, 3}, r), T({4}, r)},
    },
    einsum = {
      {"ij,jk->ik", {m, n}}, {"bij,bjk->bik", {bm, bn}}, {"...ij,jk", {bm, n}}, {"ii->i", {T({3, 3}, r)}},
      {"i,j,k->kij", {v3, v4, T({2}, r)}}, {"ij->", {m}},
    },
    bilinear = {{T({5, 2}, r), T({5, 3}, r), T({4, 2, 3}, r), T({4}, r)}},
  }
  -- of the smallest integers sums of products may wrap
  for _, list in pairs(s) do
    for _, sample in ipairs(list) do sample.dtypes = {"float32", "float64", "float16", "bfloat16", "int64", "int32"} end
  end
  return s
end
