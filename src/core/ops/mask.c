/* mask.c: ops that masks steer: masked_fill, masked_select, masked_scatter, nonzero; and tril,
 * triu, one_hot. */
#include "indexing.h"
#include "list.h"
#include "mask.h"

/* ---- masked_fill ----------------------------------------------------------------------------- */

static sft_status check_mask(const char *op, const sft_tensor *mask) {
    if (mask->dtype == SFT_bool) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: 'mask' must be a bool tensor, got %s; use mask:ne(0)",
                    op, sft_dtype_name((sft_dtype)mask->dtype));
}

IMPL(masked_fill) {
    sft_tensor *self = c->a[0].u.t, *mask = c->a[1].u.t;
    const sft_value *v = &c->a[2];
    SFT_TRY(check_mask("masked_fill", mask));
    if (v->kind == SFT_V_TENSOR && v->u.t->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "masked_fill: 'value' must be a number or a tensor without dims, got shape %s; "
            "for elementwise values use sft.where(mask, values, x)",
            SFT_SHAPE(v->u.t));
    if ((!sft_is_float(self->dtype) && v->kind == SFT_V_FLOAT &&
         !(v->u.f >= -9.2e18 && v->u.f <= 9.2e18 && v->u.f == (double)(int64_t)v->u.f)) ||
        (v->kind == SFT_V_TENSOR && !sft_can_cast(v->u.t->dtype, self->dtype)))
        return sft_fail(SFT_ERR_ARGUMENT, "masked_fill: 'value' does not fit a tensor of type %s",
                        sft_dtype_name((sft_dtype)self->dtype));
    sft_value ins[3] = {sft_v_tensor(mask), *v, sft_v_tensor(self)};
    sft_kcall k = {0};
    return sft_elementwise(c, ins, 3, (sft_dtype)self->dtype, (sft_dtype)self->dtype, &k);
}
GRAD(masked_fill) {
    if (NEED(0)) SET(0, DO(masked_fill, G, IN(1), 0));
    if (NEED(2)) SET(2, DO(masked_fill, G, DO(eq, IN(1), false), 0));
}

/* ---- counting and moving --------------------------------------------------------------------- */

static sft_status mask_step(int step, sft_tensor *counts, sft_tensor *mask, sft_tensor *out,
                            sft_tensor *x) {
    sft_mask_params p = {step};
    return sft_run(SFT_OP_masked_select, (sft_tensor *[]){counts, mask, out, x}, out ? 4 : 2, &p);
}

/* Numbers of true elements before each block of a contiguous mask; *total of all. Temp. */
static sft_tensor *count_mask(sft_tensor *mask, int64_t *total) {
    int64_t blocks = (mask->numel + SFT_MASK_BLOCK - 1) / SFT_MASK_BLOCK;
    *total = 0;
    sft_tensor *counts = sft_temp(sft_empty(&blocks, 1, SFT_int64, mask->device));
    if (!counts || mask_step(SFT_MASK_COUNT, counts, mask, NULL, NULL) != SFT_OK) return NULL;
    int64_t *n = (int64_t *)counts->data;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t here = n[i];
        n[i] = *total;
        *total += here;
    }
    return counts;
}

/* t (broadcast to `shape`) as a contiguous tensor, borrowed or temp. */
static sft_tensor *dense(sft_tensor *t, const int64_t *shape, int ndim) {
    bool same = t->ndim == ndim && !memcmp(t->shape, shape, 8 * (size_t)ndim);
    if (same && t->contiguous) return t;
    sft_tensor *d = sft_temp(sft_empty(shape, ndim, (sft_dtype)t->dtype, t->device));
    return d && sft_copy_raw(d, t) == SFT_OK ? d : NULL;
}

IMPL(masked_select) {
    sft_tensor *self = c->a[0].u.t, *mask = c->a[1].u.t;
    SFT_TRY(check_mask("masked_select", mask));
    int64_t shape[SFT_MAX_DIMS], total;
    int ndim = sft_broadcast_shape(c->a, 2, shape);
    if (ndim < 0) {
        sft_error_prefix("masked_select");
        return sft_last_status();
    }
    sft_tensor *m = dense(mask, shape, ndim), *x = m ? dense(self, shape, ndim) : NULL;
    sft_tensor *counts = x ? count_mask(m, &total) : NULL;
    sft_tensor *out =
        counts ? sft_temp(sft_empty(&total, 1, (sft_dtype)self->dtype, self->device)) : NULL;
    if (!out) return sft_last_status();
    SFT_TRY(mask_step(SFT_MASK_SELECT, counts, m, out, x));
    return sft_ret(c, out);
}
GRAD(masked_select) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    sft_tensor *mask = IN(1);
    int64_t full[SFT_MAX_DIMS];
    int n = ndim > mask->ndim ? ndim : mask->ndim;
    for (int d = 1; d <= n; d++) {
        int64_t s = d <= ndim ? shape[ndim - d] : 1,
                m = d <= mask->ndim ? mask->shape[mask->ndim - d] : 1;
        full[n - d] = s == 1 ? m : s;
    }
    if (!G) return;
    sft_tensor *zeros =
        DO(zeros, sft_v_ints(full, n), sft_v_dtype((sft_dtype)G->dtype), sft_v_device(G->device));
    SET(0, DO(masked_scatter, zeros, mask, G));
}

IMPL(masked_scatter) {
    sft_tensor *self = c->a[0].u.t, *mask = c->a[1].u.t, *src = c->a[2].u.t;
    SFT_TRY(check_mask("masked_scatter", mask));
    if (src->dtype != self->dtype)
        return sft_fail(
            SFT_ERR_ARGUMENT, "masked_scatter: 'source' must be of self's type %s, got %s",
            sft_dtype_name((sft_dtype)self->dtype), sft_dtype_name((sft_dtype)src->dtype));
    int64_t shape[SFT_MAX_DIMS], total;
    int ndim = sft_broadcast_shape(c->a, 2, shape);
    if (ndim < 0) {
        sft_error_prefix("masked_scatter");
        return sft_last_status();
    }
    sft_tensor *m = dense(mask, shape, ndim), *counts = m ? count_mask(m, &total) : NULL;
    sft_tensor *from = counts ? dense(src, src->shape, src->ndim) : NULL;
    if (!from) return sft_last_status();
    if (total > src->numel)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "masked_scatter: 'source' has %lld elements, but %lld are masked",
                        (long long)src->numel, (long long)total);
    sft_tensor *out = sft_temp(sft_empty(shape, ndim, (sft_dtype)self->dtype, self->device));
    if (!out) return sft_last_status();
    SFT_TRY(sft_copy_raw(out, self));
    SFT_TRY(mask_step(SFT_MASK_PLACE, counts, m, out, from));
    return sft_ret(c, out);
}
GRAD(masked_scatter) {
    if (NEED(0)) SET(0, DO(masked_fill, G, IN(1), 0));
    if (!NEED(2) || !G) return;
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 2, &ndim);
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    sft_tensor *g = DO(masked_select, G, DO(expand, IN(1), sft_v_ints(G->shape, G->ndim)));
    const int64_t pad[2] = {0, g ? n - g->numel : 0};
    if (pad[1]) g = DO(constant_pad, g, sft_v_ints(pad, 2), 0);
    SET(2, DO(reshape, g, sft_v_ints(shape, ndim)));
}

/* ---- nonzero --------------------------------------------------------------------------------- */

/* [n, ndim], int64. */
IMPL(nonzero) {
    sft_tensor *x = c->a[0].u.t, *m = x;
    if (x->dtype != SFT_bool) {
        m = sft_temp(sft_empty(x->shape, x->ndim, SFT_bool, x->device));
        if (!m) return sft_last_status();
        SFT_TRY(sft_copy_raw(m, x));
    }
    int64_t total;
    m = dense(m, x->shape, x->ndim);
    sft_tensor *counts = m ? count_mask(m, &total) : NULL;
    if (!counts) return sft_last_status();
    const int64_t shape[2] = {total, x->ndim};
    sft_tensor *out = sft_temp(sft_empty(shape, 2, SFT_int64, x->device));
    if (!out) return sft_last_status();
    if (out->numel) SFT_TRY(mask_step(SFT_MASK_LIST, counts, m, out, m));
    return sft_ret(c, out);
}

/* nonzero(x, {as_tuple = ...}), where(x): a list with one tensor for each dim. */
IMPL(nonzero_list) {
    sft_tensor *x = c->a[0].u.t;
    if (c->op == SFT_OP_nonzero_tuple && !ARG_B(1)) {
        sft_tensor *t = DO(nonzero, x);
        return t ? sft_ret_list(c, &t, 1) : sft_last_status();
    }
    if (x->ndim == 0) {
        const int64_t one = 1;
        x = DO(reshape, x, sft_v_ints(&one, 1));
    }
    sft_tensor *at = x ? DO(nonzero, x) : NULL, *cols[SFT_MAX_DIMS];
    if (!at) return sft_last_status();
    for (int d = 0; d < x->ndim; d++) {
        /* columns, each with memory of its own */
        sft_tensor *from = sft_temp(sft_view_of(at, at->shape, at->strides, 1, d));
        cols[d] = from ? dense(from, from->shape, 1) : NULL;
        if (cols[d] == from) cols[d] = DO(clone, from);
        if (!cols[d]) return sft_last_status();
    }
    return sft_ret_list(c, cols, x->ndim);
}

/* ---- triangles, one_hot ---------------------------------------------------------------------- */

IMPL(tri) {
    sft_tensor *x = c->a[0].u.t;
    if (x->ndim < 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'self' must have at least 2 dims, got shape %s",
                        c->info->name, SFT_SHAPE(x));
    sft_tri_params p = {ARG_I(1), c->op == SFT_OP_triu};
    sft_tensor *from = dense(x, x->shape, x->ndim);
    sft_tensor *out =
        from ? sft_temp(sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)) : NULL;
    if (!out) return sft_last_status();
    SFT_TRY(sft_run(c->op, (sft_tensor *[]){out, from}, 2, &p));
    return sft_ret(c, out);
}
GRAD(tril) { SET(0, DO(tril, G, VAL(1))); }
GRAD(triu) { SET(0, DO(triu, G, VAL(1))); }

/* The largest element of an int64 tensor; INT64_MIN when it has none. */
static sft_status largest(sft_tensor *t, int64_t *max) {
    int64_t buf[256], n = t->numel;
    int64_t *v = n <= 256 ? buf : sft_alloc((size_t)n * 8);
    if (!v) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_status st = sft_copy_out(t, SFT_int64, v);
    *max = INT64_MIN;
    for (int64_t i = 0; i < n && st == SFT_OK; i++)
        if (v[i] > *max) *max = v[i];
    if (v != buf) sft_free(v, (size_t)n * 8);
    return st;
}

IMPL(one_hot) {
    sft_tensor *x = c->a[0].u.t;
    int64_t classes = ARG_I(1), shape[SFT_MAX_DIMS];
    SFT_TRY(sft_check_index_dtype("one_hot", "self", x));
    if (classes == 0 || classes < -1)
        return sft_fail(SFT_ERR_ARGUMENT, "one_hot: 'num_classes' must be positive, got %lld",
                        (long long)classes);
    if (classes < 0) {
        int64_t max = 0;
        if (!x->numel)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "one_hot: 'num_classes' is needed for a tensor without elements");
        SFT_TRY(largest(x, &max));
        classes = max < INT64_MAX ? max + 1 - sft_thread()->index_base : max;
        if (classes < 1) classes = 1; /* the check below will complain */
    }
    if (x->ndim == SFT_MAX_DIMS) return sft_fail(SFT_ERR_ARGUMENT, "one_hot: too many dims");
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    shape[x->ndim] = classes;
    sft_tensor *out = sft_temp(sft_empty(shape, x->ndim + 1, SFT_int64, x->device));
    sft_tensor *one = out ? sft_temp(sft_scalar(sft_v_int(1), SFT_int64, x->device)) : NULL;
    shape[x->ndim] = 1;
    sft_tensor *index = one ? DO(reshape, x, sft_v_ints(shape, x->ndim + 1)) : NULL;
    if (!index) return sft_last_status();
    SFT_TRY(sft_fill_raw(out, sft_v_int(0)));
    sft_gather_params p = {.name = "one_hot", .dim = x->ndim};
    SFT_TRY(sft_run(SFT_OP_scatter, (sft_tensor *[]){out, index, one}, 3, &p));
    return sft_ret(c, out);
}
