-- Sorting and searching.

return function(T)
  local c = T({2, 3, 4})
  local f = "float"
  return {
    sort = {{c, dtypes = f}, {c, 2, dtypes = f}, {c, 1, true, dtypes = f}, {T({23}, {lo = -3.9, hi = 3.9}),
      dtypes = f}},
    argsort = {{c, dtypes = f}, {c, 2, true, dtypes = f}},
    topk = {{c, 2, dtypes = f}, {c, 2, 2, false, dtypes = f}, {T({23}, {lo = -3.9, hi = 3.9}), 5, dtypes = f}},
    kthvalue = {{c, 2, dtypes = f}, {c, 2, 2, true, dtypes = f}},
    msort = {{c, dtypes = f}},
    median = {{c, dtypes = f}},
    nanmedian = {{c, dtypes = f}},
    nanmedian_dim = {{c, 2, dtypes = f}},
    median_dim = {{c, 2, dtypes = f}, {c, 2, true, dtypes = f}},
    mode = {{T({2, 5}, {dtype = "int64", lo = 0, hi = 3})}},
    searchsorted = {{T({5}, {values = {-2, -1, 0, 1, 2}}), T({2, 3}), dtypes = f}},
    bucketize = {{T({2, 3}), T({5}, {values = {-2, -1, 0, 1, 2}}), dtypes = f}},
    unique = {{T({6}, {dtype = "int64", lo = 1, hi = 3})}},
  }
end
