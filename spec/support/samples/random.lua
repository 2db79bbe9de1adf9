-- Random numbers.

return function(T)
  local r = {random = true}
  local function R(sample)
    for k, v in pairs(r) do sample[k] = v end
    return sample
  end
  local p = T({2, 3}, {lo = 0.1, hi = 0.9})
  return {
    rand = {R {2, 3}, R {{2, 3}, kw = {dtype = "float64"}}},
    randn = {R {2, 3}, R {{2, 3}, kw = {dtype = "float64"}}},
    randint = {R {5, {2, 3}}},
    randint_low = {R {1, 5, {2, 3}}},
    randperm = {R {6}},
    rand_like = {R {T({2, 3}), dtypes = "float"}},
    randn_like = {R {T({2, 3}), dtypes = "float"}},
    randint_like = {R {T({2, 3}), 5, dtypes = "float"}},
    bernoulli = {R {p, dtypes = "float"}},
    bernoulli_p = {R {T({2, 3}), 0.5, dtypes = "float"}},
    multinomial = {R {T({4}, {lo = 0.1, hi = 2}), 2, dtypes = "float"}, R {T({2, 4}, {lo = 0.1, hi = 2}), 6, true,
      dtypes = "float"}},
    randint_like_low = {R {T({2, 3}), 2, 5, dtypes = "float"}},
    normal = {R {T({2, 3}), 2.0, dtypes = "float"}, R {T({2, 3}), T({3}, {lo = 0.5, hi = 2}), dtypes = "float"}},
    normal_size = {R {0, 1, {2, 3}}},
    normal_ = {R {T({2, 3}), dtypes = "float"}},
    uniform_ = {R {T({2, 3}), -1, 2, dtypes = "float"}},
    log_normal_ = {R {T({2, 3}), dtypes = "float"}},
    cauchy_ = {R {T({2, 3}), dtypes = "float"}},
    exponential_ = {R {T({2, 3}), 2, dtypes = "float"}},
    geometric_ = {R {T({2, 3}), 0.5, dtypes = "float"}},
    bernoulli_ = {R {T({2, 3}), 0.5}},
    random_ = {R {T({2, 3})}},
    random_to = {R {T({2, 3}), 1}},
    random_from = {R {T({2, 3}), 0, 1}},
  }
end
