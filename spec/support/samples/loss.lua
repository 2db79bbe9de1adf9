-- Losses and distances.

return function(T)
  local s = {}
  local f = "float"
  local function ids(shape, hi) return T(shape, {dtype = "int64", lo = 1, hi = hi}) end
  local x, y = T({3, 4}), T({3, 4}, {even = true})
  local p = T({3, 4}, {lo = 0.1, hi = 0.9})
  local sign = T({3}, {dtype = "int64", values = {1, -1, 1}})
  for name in ("mse_loss l1_loss smooth_l1_loss huber_loss"):gmatch("%S+") do
    s[name] = {{x, y, dtypes = f}, {x, y, "sum", dtypes = f}, {x, y, kw = {reduction = "none"}, dtypes = f}}
  end
  s.mse_loss[4] = {x, T({4}), kw = {broadcast = true}, dtypes = f}
  s.smooth_l1_loss[4] = {x, y, kw = {beta = 0.5}, dtypes = f}
  s.huber_loss[4] = {x, y, kw = {delta = 0.5}, dtypes = f}
  s.binary_cross_entropy = {
    {p, T({3, 4}, {lo = 0.1, hi = 0.9}), dtypes = f},
    {p, T({3, 4}, {lo = 0.1, hi = 0.9}), T({4}, {lo = 0.5, hi = 2, grad = false}), "sum", dtypes = f},
  }
  s.binary_cross_entropy_with_logits = {
    {x, T({3, 4}, {lo = 0.1, hi = 0.9}), dtypes = f},
    {x, T({3, 4}, {lo = 0.1, hi = 0.9}), kw = {pos_weight = T({4}, {lo = 0.5, hi = 2, grad = false}),
      reduction = "none"},
      dtypes = f},
  }
  s.cross_entropy = {
    {x, ids({3}, 4), dtypes = f}, {x, ids({3}, 4), kw = {reduction = "sum", label_smoothing = 0.1}, dtypes = f},
    {x, ids({3}, 4), T({4}, {lo = 0.5, hi = 2, grad = false}), dtypes = f},
    {x, T({3, 4}, {lo = 0.1, hi = 0.4}), dtypes = f}, {T({2, 4, 3}), ids({2, 3}, 4), dtypes = f},
    {T({4}), ids({}, 4), dtypes = f}, {x, ids({3}, 4), kw = {ignore_index = 2, reduction = "none"}, dtypes = f},
  }
  s.nll_loss = {
    {x, ids({3}, 4), dtypes = f}, {x, ids({3}, 4), T({4}, {lo = 0.5, hi = 2, grad = false}), -100, "sum", dtypes = f},
    {T({2, 4, 3}), ids({2, 3}, 4), kw = {reduction = "none"}, dtypes = f},
  }
  s.kl_div = {
    {x, p, dtypes = f}, {x, y, "batchmean", true, dtypes = f}, {x, p, kw = {reduction = "sum"}, dtypes = f},
  }
  s.hinge_embedding_loss = {{T({3}), sign, dtypes = f}}
  s.margin_ranking_loss = {{T({3}), T({3}), sign, 0.5, dtypes = f}}
  s.cosine_embedding_loss = {{x, y, sign, 0.1, dtypes = f}}
  s.triplet_margin_loss = {{x, y, T({3, 4}), dtypes = f}, {x, y, T({3, 4}), kw = {swap = true, reduction = "none"},
    dtypes = f}}
  s.pairwise_distance = {{x, y, dtypes = f}, {x, y, 1, kw = {keepdim = true}, dtypes = f}}
  s.cosine_similarity = {{x, y, dtypes = f}, {x, y, 1, dtypes = f}}
  return s
end
