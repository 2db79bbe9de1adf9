/* view.c: the views that everything else is built on, and their gradients. */
#include "elementwise.h"

/* ---- as_strided -------------------------------------------------------------------------------- */

/* Elements from the start of the storage that a geometry reaches; -1 when it overflows. */
static int64_t reach(const int64_t *size, const int64_t *stride, int n, int64_t offset) {
    int64_t last = offset;
    for (int d = 0; d < n; d++) {
        int64_t step;
        if (size[d] == 0) return 0;
        if (__builtin_mul_overflow(stride[d], size[d] - 1, &step) ||
            __builtin_add_overflow(last, step, &last))
            return -1;
    }
    return last == INT64_MAX ? -1 : last + 1;
}

static sft_status check_strided(sft_opctx *c, const sft_tensor *self, const sft_value *size,
                                const sft_value *stride, int64_t offset) {
    if (size->n != stride->n || size->n > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'size' has %d entries, 'stride' %d (at most %d)",
                        c->info->name, size->n, stride->n, SFT_MAX_DIMS);
    for (int d = 0; d < stride->n; d++)
        if (stride->u.ints[d] < 0)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: negative strides are not supported, got %lld",
                            c->info->name, (long long)stride->u.ints[d]);
    if (sft_checked_numel(size->u.ints, size->n, sft_esize(self)) < 0) return sft_last_status();
    int64_t have = (int64_t)(self->storage->kind == SFT_STORAGE_FOREIGN
                                 ? (size_t)((self->data - self->storage->data) /
                                            (int64_t)sft_esize(self)) +
                                       (size_t)self->numel
                                 : self->storage->bytes / sft_esize(self));
    int64_t need = reach(size->u.ints, stride->u.ints, size->n, offset);
    if (offset < 0 || need < 0 || need > have)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: size %s with these strides and offset %lld reaches outside the storage of "
                        "%lld elements",
                        c->info->name,
                        sft_shape_text(size->u.ints, size->n, (char[160]){0}, 160),
                        (long long)offset, (long long)have);
    return SFT_OK;
}

IMPL(as_strided) {
    sft_tensor *x = c->a[0].u.t;
    int64_t own = sft_storage_offset(x), offset = ARG_NONE(3) ? own : ARG_I(3);
    SFT_TRY(check_strided(c, x, &c->a[1], &c->a[2], offset));
    c->a[3] = sft_v_int(offset);
    c->a[4] = sft_v_ints(x->strides, x->ndim); /* for the gradient */
    c->a[5] = sft_v_int(own);
    return sft_give(c, sft_view_of(x, c->a[1].u.ints, c->a[2].u.ints, c->a[1].n, offset - own));
}

/* A flat buffer that holds g where `geometry` says. */
static sft_tensor *spread(sft_tensor *g, sft_value size, sft_value stride, int64_t offset, int64_t n) {
    bool plain = offset == 0 && n == g->numel;
    int64_t want[SFT_MAX_DIMS];
    sft_contiguous_strides(size.u.ints, size.n, want);
    for (int d = 0; d < size.n && plain; d++)
        plain = size.u.ints[d] == 1 || stride.u.ints[d] == want[d];
    int64_t minus1 = -1;
    if (plain) { /* as_strided counts from the start of the storage */
        sft_tensor *line = DO(contiguous, DO(reshape, g, sft_v_ints(&minus1, 1)));
        return line && sft_storage_offset(line) ? DO(clone, line) : line;
    }
    sft_tensor *zeros = DO(zeros, sft_v_ints(&n, 1), sft_v_dtype((sft_dtype)g->dtype),
                           sft_v_device(g->device));
    return DO(as_strided_scatter, zeros, g, size, stride, offset);
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

GRAD(as_strided) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    sft_value size = VAL(1), stride = VAL(2), self_stride = VAL(4), self_size = sft_v_ints(shape, ndim);
    int64_t n = max64(reach(size.u.ints, stride.u.ints, size.n, INT(3)),
                      reach(shape, self_stride.u.ints, ndim, INT(5)));
    sft_tensor *flat = spread(G, size, stride, INT(3), n);
    SET(0, DO(as_strided, flat, self_size, self_stride, INT(5)));
}

/* dst[view] += src, also where elements of the view coincide. */
static sft_status scatter_into(sft_tensor *flat, sft_tensor *src, const sft_value *size,
                               const sft_value *stride, int64_t offset) {
    sft_tensor *v = sft_temp(sft_view_of(flat, size->u.ints, stride->u.ints, size->n,
                                         offset - sft_storage_offset(flat)));
    if (!v) return sft_last_status();
    if (!sft_has_overlap(v)) return sft_copy_raw(v, src);
    /* Overlapping elements: their sum, in order, via the positions. */
    int64_t n = max64(reach(size->u.ints, stride->u.ints, size->n, offset), 1), minus1 = -1;
    sft_tensor *pos = DO(arange, 0, n, 1, sft_v_dtype(SFT_int64), sft_v_device(src->device));
    sft_tensor *at = DO(reshape, DO(as_strided, pos, *size, *stride, offset), sft_v_ints(&minus1, 1));
    sft_tensor *line = sft_temp(sft_view_of(flat, &n, (int64_t[]){1}, 1, -sft_storage_offset(flat)));
    if (sft_thread()->index_base) at = DO(add, at, 1);
    return DO_(index_add, line, 0, at, DO(reshape, src, sft_v_ints(&minus1, 1))) ? SFT_OK
                                                                                 : sft_last_status();
}

IMPL(as_strided_scatter) {
    sft_tensor *x = c->a[0].u.t, *src = c->a[1].u.t;
    int64_t own = sft_storage_offset(x), offset = ARG_NONE(4) ? own : ARG_I(4);
    SFT_TRY(check_strided(c, x, &c->a[2], &c->a[3], offset));
    if (src->ndim != c->a[2].n || memcmp(src->shape, c->a[2].u.ints, 8 * (size_t)src->ndim) != 0)
        return sft_fail(SFT_ERR_ARGUMENT, "as_strided_scatter: 'src' has shape %s, 'size' is %s",
                        SFT_SHAPE(src),
                        sft_shape_text(c->a[2].u.ints, c->a[2].n, (char[160]){0}, 160));
    /* A copy of the same geometry, so that offsets keep their meaning. */
    int64_t n = max64(reach(x->shape, x->strides, x->ndim, own),
                      reach(c->a[2].u.ints, c->a[3].u.ints, c->a[2].n, offset));
    sft_tensor *flat = sft_temp(sft_empty(&n, 1, (sft_dtype)x->dtype, x->device));
    if (!flat) return sft_last_status();
    SFT_TRY(sft_fill_raw(flat, sft_v_int(0)));
    sft_tensor *out = sft_temp(sft_tensor_new(flat->storage, (sft_dtype)x->dtype, x->shape, x->strides,
                                              x->ndim, flat->data + own * (int64_t)sft_esize(x)));
    if (!out) return sft_last_status();
    SFT_TRY(sft_copy_raw(out, x));
    SFT_TRY(scatter_into(flat, src, &c->a[2], &c->a[3], offset));
    c->a[4] = sft_v_int(offset);
    c->a[5] = sft_v_ints(x->strides, x->ndim);
    c->a[6] = sft_v_int(own);
    return sft_ret(c, out);
}
GRAD(as_strided_scatter) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    sft_value size = VAL(2), stride = VAL(3), self_stride = VAL(5), self_size = sft_v_ints(shape, ndim);
    int64_t offset = INT(4), own = INT(6);
    int64_t n = max64(reach(shape, self_stride.u.ints, ndim, own),
                      reach(size.u.ints, stride.u.ints, size.n, offset));
    sft_tensor *flat = spread(G, self_size, self_stride, own, n);
    flat = flat ? DO(contiguous, flat) : NULL;
    if (NEED(1)) SET(1, DO(as_strided, flat, size, stride, offset));
    if (NEED(0)) {
        sft_tensor *hole = DO(zeros, size, sft_v_dtype((sft_dtype)G->dtype), sft_v_device(G->device));
        sft_tensor *cut = DO(as_strided_scatter, flat, hole, size, stride, offset);
        SET(0, DO(as_strided, cut, self_size, self_stride, own));
    }
}

/* ---- reshape ------------------------------------------------------------------------------------- */

/* Replaces a -1 and checks the number of elements. */
static sft_status infer_shape(sft_opctx *c, const sft_tensor *x, const sft_value *want, int64_t *shape) {
    if (want->n > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: a tensor has at most %d dims, got %d", c->info->name,
                        SFT_MAX_DIMS, want->n);
    int hole = -1;
    int64_t n = 1;
    for (int d = 0; d < want->n; d++) {
        shape[d] = want->u.ints[d];
        if (shape[d] == -1) {
            if (hole >= 0)
                return sft_fail(SFT_ERR_ARGUMENT, "%s: only one size may be -1", c->info->name);
            hole = d;
        } else if (shape[d] < 0) {
            return sft_fail(SFT_ERR_ARGUMENT, "%s: size %lld of dim %d is negative", c->info->name,
                            (long long)shape[d], d + sft_thread()->index_base);
        } else if (__builtin_mul_overflow(n, shape[d], &n)) {
            n = -1;
            break;
        }
    }
    if (hole >= 0 && n > 0 && x->numel % n == 0) {
        shape[hole] = x->numel / n;
        n = x->numel;
    } else if (hole >= 0 && n == 0) {
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: -1 can't be inferred for %s, since the other sizes multiply to 0",
                        c->info->name, sft_shape_text(want->u.ints, want->n, (char[160]){0}, 160));
    } else if (hole >= 0) {
        n = -1;
    }
    if (n != x->numel)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: shape %s does not fit the %lld elements of shape %s",
                        c->info->name, sft_shape_text(want->u.ints, want->n, (char[160]){0}, 160),
                        (long long)x->numel, SFT_SHAPE(x));
    return SFT_OK;
}

/* Strides under which x's memory has `shape`; false when there are none. */
static bool view_strides(const sft_tensor *x, const int64_t *shape, int ndim, int64_t *strides) {
    if (x->contiguous || x->numel == 0) {
        sft_contiguous_strides(shape, ndim, strides);
        return true;
    }
    /* Walk both shapes from the back; a run of x's dims that is contiguous in itself can be cut
     * anew. */
    int v = ndim - 1;
    int64_t run = 1, want = 1, base = x->strides[x->ndim - 1];
    for (int d = x->ndim - 1; d >= 0; d--) {
        run *= x->shape[d];
        bool ends = d == 0 || (x->shape[d - 1] != 1 && x->strides[d - 1] != run * base);
        if (!ends) continue;
        while (v >= 0 && (want < run || shape[v] == 1)) {
            strides[v] = want * base;
            want *= shape[v];
            v--;
        }
        if (want != run) return false;
        if (d > 0) {
            base = x->strides[d - 1];
            run = want = 1;
        }
    }
    return v == -1;
}

IMPL(view) {
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    sft_tensor *x = c->a[0].u.t;
    SFT_TRY(infer_shape(c, x, &c->a[1], shape));
    if (!view_strides(x, shape, c->a[1].n, strides))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "view: shape %s can't be a view of shape %s with these strides; use "
                        "x:reshape(...), which copies where it must",
                        sft_shape_text(shape, c->a[1].n, (char[160]){0}, 160), SFT_SHAPE(x));
    return sft_give(c, sft_view_of(x, shape, strides, c->a[1].n, 0));
}

IMPL(reshape) {
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    sft_tensor *x = c->a[0].u.t;
    SFT_TRY(infer_shape(c, x, &c->a[1], shape));
    int n = c->a[1].n;
    if (view_strides(x, shape, n, strides)) return sft_ret(c, DO(view, x, sft_v_ints(shape, n)));
    return sft_ret(c, DO(view, DO(contiguous, x), sft_v_ints(shape, n)));
}
GRAD(reshape) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    SET(0, DO(reshape, G, sft_v_ints(shape, ndim)));
}

/* ---- expand, transpose, permute, detach ---------------------------------------------------------- */

IMPL(expand) {
    sft_tensor *x = c->a[0].u.t;
    int n = c->a[1].n, shift = n - x->ndim;
    if (shift < 0 || n > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "expand: %d sizes for a tensor of shape %s", n, SFT_SHAPE(x));
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    for (int d = 0; d < n; d++) {
        int64_t size = c->a[1].u.ints[d];
        int64_t have = d < shift ? 1 : x->shape[d - shift];
        if (size == -1 && d >= shift) size = have;
        if (size < 0 || (have != 1 && size != have))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "expand: size %lld of dim %d can't come from shape %s (only sizes of 1 "
                            "expand; -1 keeps an existing one)",
                            (long long)size, d + sft_thread()->index_base, SFT_SHAPE(x));
        shape[d] = size;
        strides[d] = d < shift || (have == 1 && size != 1) ? 0 : x->strides[d - shift];
    }
    if (sft_checked_numel(shape, n, sft_esize(x)) < 0) return sft_last_status();
    return sft_give(c, sft_view_of(x, shape, strides, n, 0));
}
GRAD(expand) { SET(0, G); /* summed by the tape */ }

IMPL(transpose) {
    sft_tensor *x = c->a[0].u.t;
    int p = sft_wrap_dim(ARG_I(1), x->ndim), q = p < 0 ? -1 : sft_wrap_dim(ARG_I(2), x->ndim);
    if (q < 0) {
        sft_error_prefix(c->info->name);
        return sft_last_status();
    }
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    memcpy(strides, x->strides, sizeof(int64_t) * x->ndim);
    if (x->ndim) {
        shape[p] = x->shape[q], strides[p] = x->strides[q];
        shape[q] = x->shape[p], strides[q] = x->strides[p];
    }
    return sft_give(c, sft_view_of(x, shape, strides, x->ndim, 0));
}
GRAD(transpose) { SET(0, DO(transpose, G, VAL(1), VAL(2))); }

IMPL(permute) {
    sft_tensor *x = c->a[0].u.t;
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    bool seen[SFT_MAX_DIMS] = {false};
    if (c->a[1].n != x->ndim)
        return sft_fail(SFT_ERR_ARGUMENT, "permute: %d dims for a tensor of shape %s; name each once",
                        c->a[1].n, SFT_SHAPE(x));
    for (int d = 0; d < x->ndim; d++) {
        int p = sft_wrap_dim(c->a[1].u.ints[d], x->ndim);
        if (p < 0) {
            sft_error_prefix(c->info->name);
            return sft_last_status();
        }
        if (seen[p])
            return sft_fail(SFT_ERR_ARGUMENT, "permute: dim %d is named twice",
                            p + sft_thread()->index_base);
        seen[p] = true;
        shape[d] = x->shape[p];
        strides[d] = x->strides[p];
    }
    return sft_give(c, sft_view_of(x, shape, strides, x->ndim, 0));
}
GRAD(permute) {
    int64_t back[SFT_MAX_DIMS];
    int n = b->a[1].n;
    for (int d = 0; d < n; d++) {
        int64_t p = b->a[1].u.ints[d];
        back[p < 0 ? p + n : p] = d;
    }
    SET(0, DO(permute, G, sft_v_ints(back, n)));
}

IMPL(detach) { return sft_give(c, sft_alias(c->a[0].u.t)); }
