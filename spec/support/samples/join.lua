-- Joining tensors.

return function(T)
  local a, b = T({2, 3}), T({2, 3})
  return {
    cat = {{{a, b}}, {{a, T({2, 2}), T({2, 1})}, 2}, {{T({2, 3, 4}), T({2, 1, 4})}, -2}, {{a}}},
    stack = {{{a, b}}, {{a, b}, 2}, {{T({}), T({})}}, {{a, b}, -1}},
    hstack = {{{a, T({2, 1})}}, {{T({2}), T({3})}}},
    vstack = {{{a, T({1, 3})}}, {{T({3}), T({3})}}},
    dstack = {{{a, b}}},
    column_stack = {{{T({2}), T({2, 3})}}},
  }
end
