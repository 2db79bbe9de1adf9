/* shape.c: views that pick or regroup dims: select, narrow, slices, squeeze, flatten, diagonal,
 * unfold and their relatives; what their gradients are made of. */
#include "indexing.h"

/* ---- slices ---------------------------------------------------------------------------------- */

static sft_status no_dims(const char *op) {
    return sft_fail(SFT_ERR_INDEX, "%s: a tensor without dims has nothing to index; use x:item()",
                    op);
}

/* A view of `length` elements along dim, from `start`, `step` apart. */
static sft_tensor *slice(sft_tensor *x, int dim, int64_t start, int64_t length, int64_t step) {
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    memcpy(strides, x->strides, sizeof(int64_t) * x->ndim);
    int64_t offset = length ? start * strides[dim] : 0;
    shape[dim] = length;
    if (step != 1) strides[dim] = length > 1 ? strides[dim] * step : strides[dim];
    return sft_view_of(x, shape, strides, x->ndim, offset);
}

IMPL(select) {
    sft_tensor *x = c->a[0].u.t;
    if (!x->ndim) return no_dims("select");
    int dim = sft_index_dim("select", ARG_I(1), x->ndim);
    if (dim < 0) return sft_last_status();
    int64_t i = ARG_I(2), size = x->shape[dim];
    int base = sft_thread()->index_base;
    if (i < -size || i >= size)
        return sft_fail(SFT_ERR_INDEX,
                        "select: index %lld is out of range for dim %d of size %lld%s",
                        (long long)(i < 0 ? i : i + base), dim + base, (long long)size,
                        size == 0 ? " (it has no elements)" : "");
    if (i < 0) i += size;
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d == dim) continue;
        shape[n] = x->shape[d];
        strides[n++] = x->strides[d];
    }
    c->a[1] = sft_v_int(dim);
    c->a[2] = sft_v_int(i);
    return sft_give(c, sft_view_of(x, shape, strides, n, i * x->strides[dim]));
}
/* Gradient of a slice: zeros of the input's shape around g. */
static sft_tensor *around(sft_bw *b, sft_tensor *g, int64_t dim, int64_t start, int64_t step) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    return DO(_slice_backward, g, sft_v_ints(shape, ndim), dim, start, step);
}
GRAD(select) { SET(0, around(b, DO(unsqueeze, G, VAL(1)), INT(1), INT(2), 1)); }

/* (dim, start, end, step), 0-based, end excluded: the ranges of scripts */
IMPL(slice) {
    sft_tensor *x = c->a[0].u.t;
    if (!x->ndim) return no_dims("slice");
    int dim = sft_index_dim("slice", ARG_I(1), x->ndim);
    if (dim < 0) return sft_last_status();
    int64_t start = ARG_I(2), end = ARG_I(3), step = ARG_I(4), size = x->shape[dim];
    if (step < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "slice: the step must be positive, got %lld",
                        (long long)step);
    if (start < 0 || end > size || start > size)
        return sft_fail(SFT_ERR_INDEX,
                        "slice: elements %lld to %lld don't fit into dim %d of size %lld",
                        (long long)start + sft_thread()->index_base, (long long)end,
                        dim + sft_thread()->index_base, (long long)size);
    c->a[1] = sft_v_int(dim);
    return sft_give(c, slice(x, dim, start, end > start ? (end - start - 1) / step + 1 : 0, step));
}
GRAD(slice) { SET(0, around(b, G, INT(1), INT(2), INT(4))); }

IMPL(_slice_backward) {
    sft_tensor *g = c->a[0].u.t;
    int dim = (int)ARG_I(2);
    sft_tensor *out =
        sft_temp(sft_empty(c->a[1].u.ints, c->a[1].n, (sft_dtype)g->dtype, g->device));
    if (!out) return sft_last_status();
    sft_tensor *view = sft_temp(slice(out, dim, ARG_I(3), g->shape[dim], ARG_I(4)));
    if (!view) return sft_last_status();
    if (g->numel != out->numel) SFT_TRY(sft_fill_raw(out, sft_v_int(0)));
    SFT_TRY(sft_copy_raw(view, g));
    return sft_ret(c, out);
}
GRAD(_slice_backward) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    SET(0, DO(slice, G, VAL(2), VAL(3),
              shape[INT(2)] ? INT(3) + (shape[INT(2)] - 1) * INT(4) + 1 : INT(3), VAL(4)));
}

static sft_status narrow(sft_opctx *c, int64_t start) {
    sft_tensor *x = c->a[0].u.t;
    if (!x->ndim) return no_dims("narrow");
    int dim = sft_index_dim("narrow", ARG_I(1), x->ndim);
    if (dim < 0) return sft_last_status();
    int64_t length = ARG_I(3), size = x->shape[dim];
    int base = sft_thread()->index_base;
    if (start < -size || start > size)
        return sft_fail(SFT_ERR_INDEX, "narrow: start %lld is out of range for dim %d of size %lld",
                        (long long)(start < 0 ? start : start + base), dim + base, (long long)size);
    if (start < 0) start += size;
    if (length < 0 || length > size - start)
        return sft_fail(SFT_ERR_INDEX,
                        "narrow: %lld elements from %lld on don't fit into dim %d of size %lld",
                        (long long)length, (long long)start + base, dim + base, (long long)size);
    c->a[1] = sft_v_int(dim);
    c->a[2] = sft_v_int(start);
    return sft_give(c, slice(x, dim, start, length, 1));
}
IMPL(narrow) { return narrow(c, ARG_I(2)); }
/* start is a 0-dim tensor */
IMPL(narrow_tensor) {
    sft_value start;
    sft_tensor *t = c->a[2].u.t;
    SFT_TRY(sft_check_index_dtype("narrow", "start", t));
    if (t->ndim)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "narrow: 'start' must be a number or a tensor without dims");
    SFT_TRY(sft_item(t, &start));
    int base = sft_thread()->index_base;
    if (base && start.u.i == 0)
        return sft_fail(SFT_ERR_INDEX, "narrow: 'start' is 0, but indices start at 1");
    return narrow(c, start.u.i < 0 ? start.u.i : start.u.i - base);
}
GRAD(narrow) { SET(0, around(b, G, INT(1), INT(2), 1)); }

/* ---- dims of size 1 -------------------------------------------------------------------------- */

IMPL(unsqueeze) {
    sft_tensor *x = c->a[0].u.t;
    int dim = sft_index_dim("unsqueeze", ARG_I(1), x->ndim + 1);
    if (dim < 0) return sft_last_status();
    if (x->ndim == SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "unsqueeze: a tensor has at most %d dims", SFT_MAX_DIMS);
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    for (int d = 0, e = 0; d <= x->ndim; d++) {
        if (d == dim) {
            shape[d] = 1;
            strides[d] = d < x->ndim ? x->shape[d] * x->strides[d] : 1;
        } else {
            shape[d] = x->shape[e];
            strides[d] = x->strides[e++];
        }
    }
    return sft_give(c, sft_view_of(x, shape, strides, x->ndim + 1, 0));
}

IMPL(squeeze) {
    sft_tensor *x = c->a[0].u.t;
    bool all = ARG_NONE(1), drop[SFT_MAX_DIMS] = {false};
    for (int i = 0; !all && i < c->a[1].n; i++) {
        int dim = sft_index_dim("squeeze", c->a[1].u.ints[i], x->ndim);
        if (dim < 0) return sft_last_status();
        drop[dim] = true;
    }
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if ((all || drop[d]) && x->shape[d] == 1) continue;
        shape[n] = x->shape[d];
        strides[n++] = x->strides[d];
    }
    return sft_give(c, sft_view_of(x, shape, strides, n, 0));
}

/* ---- regrouping ------------------------------------------------------------------------------ */

IMPL(flatten) {
    sft_tensor *x = c->a[0].u.t;
    int from = sft_index_dim("flatten", ARG_I(1), x->ndim), to;
    if (from < 0 || (to = sft_index_dim("flatten", ARG_I(2), x->ndim)) < 0)
        return sft_last_status();
    if (from > to) return sft_fail(SFT_ERR_ARGUMENT, "flatten: 'start_dim' comes after 'end_dim'");
    int64_t shape[SFT_MAX_DIMS], size = 1;
    int n = 0;
    for (int d = 0; d < from; d++) shape[n++] = x->shape[d];
    for (int d = from; d <= to && d < x->ndim; d++) size *= x->shape[d];
    shape[n++] = size;
    for (int d = to + 1; d < x->ndim; d++) shape[n++] = x->shape[d];
    if (n == x->ndim) return sft_ret(c, x);
    return sft_ret(c, DO(reshape, x, sft_v_ints(shape, n)));
}

IMPL(unflatten) {
    sft_tensor *x = c->a[0].u.t;
    if (!x->ndim) return no_dims("unflatten");
    int dim = sft_index_dim("unflatten", ARG_I(1), x->ndim), n = 0, hole = -1;
    if (dim < 0) return sft_last_status();
    int64_t shape[2 * SFT_MAX_DIMS], size = 1;
    if (c->a[2].n < 1 || c->a[2].n + x->ndim - 1 > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "unflatten: %d sizes for a dim of shape %s", c->a[2].n,
                        SFT_SHAPE(x));
    for (int d = 0; d < dim; d++) shape[n++] = x->shape[d];
    bool ok = true;
    for (int i = 0; i < c->a[2].n && ok; i++) {
        int64_t s = c->a[2].u.ints[i];
        if (s == -1 && hole < 0)
            hole = n;
        else
            ok = s >= 0 && !__builtin_mul_overflow(size, s, &size);
        shape[n++] = s;
    }
    if (ok && hole >= 0 && (ok = size > 0 && x->shape[dim] % size == 0))
        shape[hole] = x->shape[dim] / size, size = x->shape[dim];
    if (!ok || size != x->shape[dim])
        return sft_fail(SFT_ERR_ARGUMENT,
                        "unflatten: sizes %s don't multiply to %lld, the size of dim %d",
                        sft_shape_text(c->a[2].u.ints, c->a[2].n, (char[160]){0}, 160),
                        (long long)x->shape[dim], dim + sft_thread()->index_base);
    for (int d = dim + 1; d < x->ndim; d++) shape[n++] = x->shape[d];
    return sft_ret(c, DO(reshape, x, sft_v_ints(shape, n)));
}

IMPL(ravel) {
    const int64_t all = -1;
    if (c->a[0].u.t->ndim == 1) return sft_ret(c, DO(contiguous, c->a[0]));
    if (c->a[0].u.t->numel == 0) {
        const int64_t none = 0;
        return sft_ret(c, DO(reshape, c->a[0], sft_v_ints(&none, 1)));
    }
    return sft_ret(c, DO(reshape, c->a[0], sft_v_ints(&all, 1)));
}

static sft_value shape_of(const sft_tensor *t) { return sft_v_ints(t->shape, t->ndim); }
IMPL(view_as) { return sft_ret(c, DO(view, c->a[0], shape_of(c->a[1].u.t))); }
IMPL(reshape_as) { return sft_ret(c, DO(reshape, c->a[0], shape_of(c->a[1].u.t))); }
IMPL(expand_as) { return sft_ret(c, DO(expand, c->a[0], shape_of(c->a[1].u.t))); }
IMPL(broadcast_to) { return sft_ret(c, DO(expand, c->a[0], c->a[1])); }

/* ---- order of dims --------------------------------------------------------------------------- */

IMPL(movedim) {
    sft_tensor *x = c->a[0].u.t;
    const char *op = c->info->name;
    if (c->a[1].n != c->a[2].n)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: %d source dims, but %d destinations", op, c->a[1].n,
                        c->a[2].n);
    int64_t order[SFT_MAX_DIMS];
    bool moved[SFT_MAX_DIMS] = {false};
    for (int d = 0; d < x->ndim; d++) order[d] = -1;
    for (int i = 0; i < c->a[1].n; i++) {
        int from = sft_index_dim(op, c->a[1].u.ints[i], x->ndim), to;
        if (from < 0 || (to = sft_index_dim(op, c->a[2].u.ints[i], x->ndim)) < 0)
            return sft_last_status();
        if (!x->ndim) break;
        if (moved[from] || order[to] >= 0)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: a dim is named twice", op);
        moved[from] = true;
        order[to] = from;
    }
    for (int d = 0, e = 0; d < x->ndim; d++) {
        if (order[d] >= 0) continue;
        while (moved[e]) e++;
        order[d] = e++;
    }
    return sft_ret(c, DO(permute, x, sft_v_ints(order, x->ndim)));
}

IMPL(t) {
    sft_tensor *x = c->a[0].u.t;
    if (x->ndim > 2)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "t: 'self' must have at most 2 dims, got shape %s; use x:transpose(a, b)",
                        SFT_SHAPE(x));
    if (x->ndim < 2) return sft_ret(c, DO(view, x, shape_of(x)));
    return sft_ret(c, DO(transpose, x, 0, 1));
}
/* The attributes x.T and x.mT. */
IMPL(_T) {
    int64_t order[SFT_MAX_DIMS];
    int n = c->a[0].u.t->ndim;
    for (int d = 0; d < n; d++) order[d] = n - 1 - d;
    return sft_ret(c, DO(permute, c->a[0], sft_v_ints(order, n)));
}
IMPL(_mT) {
    if (c->a[0].u.t->ndim < 2)
        return sft_fail(SFT_ERR_ARGUMENT, "mT: the tensor must have at least 2 dims, got shape %s",
                        SFT_SHAPE(c->a[0].u.t));
    return sft_ret(c, DO(transpose, c->a[0], -2, -1));
}

/* ---- diagonals ------------------------------------------------------------------------------- */

/* Two different dims of an ndim tensor, wrapped. */
static bool two_dims(const char *op, sft_value *a, int ndim, int *d1, int *d2) {
    if ((*d1 = sft_index_dim(op, a[0].u.i, ndim)) < 0 ||
        (*d2 = sft_index_dim(op, a[1].u.i, ndim)) < 0)
        return false;
    if (*d1 == *d2 || ndim < 2) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: the two dims must differ", op);
        return false;
    }
    a[0] = sft_v_int(*d1);
    a[1] = sft_v_int(*d2);
    return true;
}

static sft_tensor *diagonal_of(sft_tensor *x, int64_t offset, int d1, int d2) {
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d == d1 || d == d2) continue;
        shape[n] = x->shape[d];
        strides[n++] = x->strides[d];
    }
    int64_t rows = x->shape[d1], cols = x->shape[d2], start = 0, len;
    if (offset >= 0) {
        cols = offset < cols ? cols - offset : 0;
        start = offset;
    } else {
        rows = offset > -rows ? rows + offset : 0;
    }
    len = rows < cols ? rows : cols;
    if (len) start = offset >= 0 ? start * x->strides[d2] : -offset * x->strides[d1];
    shape[n] = len;
    strides[n++] = x->strides[d1] + x->strides[d2];
    return sft_view_of(x, shape, strides, n, len ? start : 0);
}

IMPL(diagonal) {
    sft_tensor *x = c->a[0].u.t;
    int d1, d2;
    if (!two_dims("diagonal", &c->a[2], x->ndim, &d1, &d2)) return sft_last_status();
    return sft_give(c, diagonal_of(x, ARG_I(1), d1, d2));
}
GRAD(diagonal) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    SET(0, DO(_diagonal_backward, G, sft_v_ints(shape, ndim), VAL(1), VAL(2), VAL(3)));
}
/* Zeros with g on a diagonal. */
IMPL(_diagonal_backward) {
    sft_tensor *g = c->a[0].u.t;
    sft_tensor *out =
        sft_temp(sft_empty(c->a[1].u.ints, c->a[1].n, (sft_dtype)g->dtype, g->device));
    if (!out) return sft_last_status();
    SFT_TRY(sft_fill_raw(out, sft_v_int(0)));
    sft_tensor *view = sft_temp(diagonal_of(out, ARG_I(2), (int)ARG_I(3), (int)ARG_I(4)));
    if (!view) return sft_last_status();
    SFT_TRY(sft_copy_raw(view, g));
    return sft_ret(c, out);
}
GRAD(_diagonal_backward) { SET(0, DO(diagonal, G, VAL(2), VAL(3), VAL(4))); }

IMPL(diag_embed) {
    sft_tensor *x = c->a[0].u.t;
    int d1, d2, n = x->ndim + 1;
    if (x->ndim < 1 || n > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: can't make a diagonal of shape %s", c->info->name,
                        SFT_SHAPE(x));
    if (!two_dims("diag_embed", &c->a[2], n, &d1, &d2)) return sft_last_status();
    int64_t shape[SFT_MAX_DIMS], offset = ARG_I(1), len = x->shape[x->ndim - 1], side;
    if (offset < -INT64_MAX || __builtin_add_overflow(len, offset < 0 ? -offset : offset, &side))
        return sft_fail(SFT_ERR_ARGUMENT, "diag_embed: 'offset' %lld is too large",
                        (long long)offset);
    for (int d = 0, e = 0; d < n; d++) shape[d] = d == d1 || d == d2 ? side : x->shape[e++];
    return sft_ret(c, DO(_diagonal_backward, x, sft_v_ints(shape, n), offset, d1, d2));
}

/* A vector -> matrix with that diagonal; a matrix -> its diagonal. */
IMPL(diag) {
    sft_tensor *x = c->a[0].u.t;
    if (x->ndim == 1) return sft_ret(c, DO(diag_embed, x, c->a[1], -2, -1));
    if (x->ndim == 2) return sft_ret(c, DO(clone, DO(diagonal, x, c->a[1], 0, 1)));
    return sft_fail(SFT_ERR_ARGUMENT, "diag: 'self' must have 1 or 2 dims, got shape %s",
                    SFT_SHAPE(x));
}

/* ---- unfold ---------------------------------------------------------------------------------- */

IMPL(unfold) {
    sft_tensor *x = c->a[0].u.t;
    int dim = sft_index_dim("unfold", ARG_I(1), x->ndim);
    if (dim < 0) return sft_last_status();
    int64_t size = ARG_I(2), step = ARG_I(3), have = x->ndim ? x->shape[dim] : 1;
    if (step < 1 || size < 0 || size > have || x->ndim == SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "unfold: windows of size %lld, step %lld don't fit dim %d of shape %s",
                        (long long)size, (long long)step, dim + sft_thread()->index_base,
                        SFT_SHAPE(x));
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    memcpy(strides, x->strides, sizeof(int64_t) * x->ndim);
    shape[x->ndim] = size;
    strides[x->ndim] = x->ndim ? x->strides[dim] : 1;
    if (x->ndim) {
        shape[dim] = (have - size) / step + 1;
        if (shape[dim] > 1) strides[dim] *= step;
    }
    c->a[1] = sft_v_int(dim);
    return sft_give(c, sft_view_of(x, shape, strides, x->ndim + 1, 0));
}
GRAD(unfold) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    SET(0, DO(_unfold_backward, G, sft_v_ints(shape, ndim), VAL(1), VAL(2), VAL(3)));
}
/* Windows added up where they overlap: one strided addition for each position in the window. */
IMPL(_unfold_backward) {
    sft_tensor *g = c->a[0].u.t;
    int64_t size = ARG_I(3), step = ARG_I(4);
    int dim = (int)ARG_I(2), n = c->a[1].n;
    sft_tensor *out = DO(zeros, c->a[1], sft_v_dtype((sft_dtype)g->dtype), sft_v_device(g->device));
    if (!out || !size || !g->numel) return sft_ret(c, out);
    if (!n) return sft_ret(c, DO(reshape, g, c->a[1]));
    for (int64_t w = 0; w < size; w++) {
        sft_tensor *to = sft_temp(slice(out, dim, w, g->shape[dim], step));
        if (!DO_(add, to, DO(select, g, -1, w))) return sft_last_status();
    }
    return sft_ret(c, out);
}
GRAD(_unfold_backward) { SET(0, DO(unfold, G, VAL(2), VAL(3), VAL(4))); }

/* A view of all of x. */
IMPL(alias) {
    sft_tensor *x = c->a[0].u.t;
    return sft_give(c, sft_view_of(x, x->shape, x->strides, x->ndim, 0));
}
