/* sort.c: ordering ops: sort, topk, kthvalue, median, mode, unique, searchsorted. */
#include "sort.h"

void sft_grad_to_chosen(sft_bw *b, int dim);

/* ---- geometry -------------------------------------------------------------------------------- */

/* The sizes around c->a[dim_at]; returns the dim, or -1. */
static int measure(const sft_opctx *c, const sft_tensor *x, int64_t dim, sft_sort_params *p) {
    int d = sft_wrap_dim(dim, x->ndim);
    if (d < 0) {
        sft_error_prefix(c->info->name);
        return -1;
    }
    p->outer = p->inner = 1;
    p->n = x->ndim ? x->shape[d] : 1;
    for (int i = 0; i < d; i++) p->outer *= x->shape[i];
    for (int i = d + 1; i < x->ndim; i++) p->inner *= x->shape[i];
    return d;
}

/* Runs `op`: values (left out: NULL) and indices of x's shape with size k (-1: dropped) at dim d.
 */
static sft_status run(sft_opctx *c, sft_op_id op, sft_tensor *x, int d, int64_t k, bool values,
                      bool indices, const sft_sort_params *p) {
    int64_t shape[SFT_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != d)
            shape[n++] = x->shape[i];
        else if (k >= 0)
            shape[n++] = k;
    x = x->contiguous ? x : DO(contiguous, x);
    if (!x) return sft_last_status();
    sft_tensor *v = values ? sft_empty(shape, n, (sft_dtype)x->dtype, x->device) : NULL;
    sft_tensor *at = indices ? sft_empty(shape, n, SFT_int64, x->device) : NULL;
    sft_status st = (values && !v) || (indices && !at) ? sft_last_status() : SFT_OK;
    if (st == SFT_OK && (v ? v : at)->numel) {
        if (op == SFT_OP_argsort)
            st = sft_run(op, (sft_tensor *[]){at, x}, 2, p);
        else
            st = sft_run(op, (sft_tensor *[]){v, at, x}, 3, p);
    }
    if (st == SFT_OK) {
        if (v) sft_give(c, v);
        if (at) sft_give(c, at);
        return SFT_OK;
    }
    sft_release(v);
    sft_release(at);
    return st;
}

/* ---- sort, argsort, topk -----------------------------------------------------------------------
 */

/* (self, dim, descending, stable): always stable. */
IMPL(sort) {
    sft_tensor *x = c->a[0].u.t;
    sft_sort_params p = {.descending = ARG_B(2)};
    int d = measure(c, x, ARG_I(1), &p);
    if (d < 0) return sft_last_status();
    return run(c, c->op, x, d, p.n, c->op == SFT_OP_sort, true, &p);
}
GRAD(sort) { sft_grad_to_chosen(b, 1); }

IMPL(msort) {
    sft_tensor *out[2], *x = c->a[0].u.t;
    if (!DO_N(out, 2, sort, x, 0)) return sft_last_status();
    return sft_ret(c, out[0]);
}

/* (self, k, dim, largest, sorted) */
IMPL(topk) {
    sft_tensor *x = c->a[0].u.t;
    sft_sort_params p = {.k = ARG_I(1), .descending = ARG_B(3)};
    int d = measure(c, x, ARG_I(2), &p);
    if (d < 0) return sft_last_status();
    if (p.k < 0 || p.k > p.n)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "topk: 'k' is %lld, expected 0 to %lld, the size of the dim (shape %s)",
                        (long long)p.k, (long long)p.n, SFT_SHAPE(x));
    return run(c, c->op, x, d, p.k, true, true, &p);
}
GRAD(select_dim2) { sft_grad_to_chosen(b, 2); }

/* (self, k, dim, keepdim): k counts from 1 */
IMPL(kthvalue) {
    sft_tensor *x = c->a[0].u.t;
    sft_sort_params p = {.k = ARG_I(1) > 0 ? ARG_I(1) - 1 : -1};
    int d = measure(c, x, ARG_I(2), &p);
    if (d < 0) return sft_last_status();
    if (p.k < 0 || p.k >= p.n)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "kthvalue: 'k' is %lld, expected 1 to %lld, the size of the dim (shape %s)",
                        (long long)ARG_I(1), (long long)p.n, SFT_SHAPE(x));
    return run(c, c->op, x, d, ARG_B(3) ? 1 : -1, true, true, &p);
}

/* ---- median, mode ------------------------------------------------------------------------------
 */

/* (self): NaN for no elements. */
IMPL(median) {
    sft_tensor *x = c->a[0].u.t;
    sft_sort_params p = {1, x->numel, 1, 0, false, c->op == SFT_OP_nanmedian};
    if (x->numel == 0) {
        sft_tensor *out = sft_empty(NULL, 0, (sft_dtype)x->dtype, x->device);
        if (!out) return sft_last_status();
        sft_fill_raw(out, sft_is_float(x->dtype) ? sft_v_float((double)__builtin_nanf(""))
                                                 : sft_v_int(0));
        return sft_give(c, out);
    }
    x = DO(reshape, x, -1);
    if (!x) return sft_last_status();
    return run(c, SFT_OP_median_dim, x, 0, -1, true, false, &p);
}

/* (self, dim, keepdim) -> values, indices */
IMPL(median_dim) {
    sft_tensor *x = c->a[0].u.t;
    sft_sort_params p = {.ignore_nan = c->op == SFT_OP_nanmedian_dim};
    int d = measure(c, x, ARG_I(1), &p);
    if (d < 0) return sft_last_status();
    if (p.n == 0 && p.outer * p.inner > 0)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: dim %d of 'self' has size 0 (shape %s)",
                        c->info->name, d + sft_thread()->index_base, SFT_SHAPE(x));
    return run(c, c->op == SFT_OP_mode ? SFT_OP_mode : SFT_OP_median_dim, x, d, ARG_B(2) ? 1 : -1,
               true, true, &p);
}

/* ---- unique ------------------------------------------------------------------------------------
 */

/* The first n elements, in memory of their own. */
static sft_tensor *head(sft_tensor *t, int64_t n) {
    return t->shape[0] == n ? t : DO(clone, DO(narrow, t, 0, 0, n));
}

/* (self, sorted, return_inverse, return_counts, dim) */
IMPL(unique) {
    sft_tensor *x = c->a[0].u.t, *t[4];
    bool rows = !ARG_NONE(4);
    int64_t found = 0, dim = 0;
    sft_unique_params p = {.n = x->numel, .found = &found};
    if (rows) {
        dim = sft_wrap_dim(ARG_I(4), x->ndim);
        if (dim < 0) {
            sft_error_prefix("unique");
            return sft_last_status();
        }
        p.n = x->ndim ? x->shape[dim] : 1;
        p.width = 1;
        for (int d = 0; d < x->ndim; d++)
            if (d != dim) p.width *= x->shape[d];
        if (p.width == 0 && p.n)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "unique: 'self' has no elements (shape %s), so its slices along dim %d "
                            "can't be told apart",
                            SFT_SHAPE(x), (int)dim + sft_thread()->index_base);
    }
    if (p.n > UINT32_MAX)
        return sft_fail(SFT_ERR_UNSUPPORTED, "unique: at most 2^32 - 1 elements, got %lld",
                        (long long)p.n);
    sft_tensor *flat =
        rows && x->ndim ? DO(contiguous, DO(transpose, x, 0, dim)) : DO(contiguous, x);
    if (!flat) return sft_last_status();
    t[0] = sft_temp(sft_empty(&p.n, 1, rows ? SFT_int64 : (sft_dtype)x->dtype, x->device));
    t[1] = sft_temp(sft_empty(&p.n, 1, SFT_int64, x->device));
    t[2] = sft_temp(sft_empty(&p.n, 1, SFT_int64, x->device));
    t[3] = flat;
    if (!t[0] || !t[1] || !t[2]) return sft_last_status();
    if (p.n) SFT_TRY(sft_run(rows ? SFT_OP__unique_rows : SFT_OP_unique, t, 4, &p));
    sft_tensor *values = head(t[0], found);
    if (rows && x->ndim) {
        values = DO(index_select, x, dim, values);
    } else if (rows) {
        values = DO(reshape, x, 1);
    }
    SFT_TRY(sft_ret(c, values));
    if (ARG_B(2)) {
        sft_value shape = rows && x->ndim ? sft_v_ints(&p.n, 1) : sft_v_ints(x->shape, x->ndim);
        SFT_TRY(sft_ret(c, DO(reshape, t[1], shape)));
    }
    return ARG_B(3) ? sft_ret(c, head(t[2], found)) : SFT_OK;
}

/* ---- searchsorted, bucketize -------------------------------------------------------------------
 */

static sft_tensor *computed(sft_tensor *x, sft_dtype d) {
    if (x && x->dtype != d) x = DO(to, x, sft_v_none(), sft_v_dtype(d));
    return x ? DO(contiguous, x) : NULL;
}

static sft_status search(sft_opctx *c, sft_tensor *sequence, const sft_value *v, bool int32,
                         bool right, sft_tensor *sorter) {
    const char *name = c->info->name;
    const char *what = c->op == SFT_OP_bucketize ? "boundaries" : "sorted_sequence";
    sft_value both[2] = {sft_v_tensor(sequence), *v};
    sft_dtype d = sft_result_type(both, 2);
    d = d == SFT_float64 ? SFT_float64 : sft_is_float(d) ? SFT_float32 : SFT_int64;
    sft_tensor *values =
        v->kind == SFT_V_TENSOR ? v->u.t : sft_temp(sft_scalar(*v, d, sequence->device));
    if (!values) return sft_last_status();
    int64_t n = sequence->ndim ? sequence->shape[sequence->ndim - 1] : 0;
    if (sequence->ndim == 0 || (c->op == SFT_OP_bucketize && sequence->ndim != 1))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: '%s' must have %s, got shape %s", name, what,
                        c->op == SFT_OP_bucketize ? "one dim" : "at least one dim",
                        SFT_SHAPE(sequence));
    if (sequence->ndim > 1 &&
        (values->ndim != sequence->ndim ||
         memcmp(values->shape, sequence->shape, sizeof(int64_t) * (size_t)(values->ndim - 1)) != 0))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: '%s' has shape %s, so the values must have the same shape but for the "
                        "last dim, got %s",
                        name, what, SFT_SHAPE(sequence), SFT_SHAPE(values));
    if (sorter && (sorter->ndim != sequence->ndim ||
                   memcmp(sorter->shape, sequence->shape, sizeof(int64_t) * sorter->ndim) != 0))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'sorter' must have the shape of '%s', %s, got %s",
                        name, what, SFT_SHAPE(sequence), SFT_SHAPE(sorter));
    if (sorter && sorter->dtype != SFT_int64)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'sorter' must be int64, got %s", name,
                        sft_dtype_name((sft_dtype)sorter->dtype));
    sft_search_params p = {.n = n, .right = right, .one_sequence = sequence->ndim == 1};
    p.m = values->ndim ? values->shape[values->ndim - 1] : 1;
    p.rows = p.m ? values->numel / p.m : 0;
    sft_tensor *out =
        sft_empty(values->shape, values->ndim, int32 ? SFT_int32 : SFT_int64, sequence->device);
    if (!out) return sft_last_status();
    sft_tensor *t[4] = {out, computed(sequence, d), computed(values, d),
                        sorter ? DO(contiguous, sorter) : NULL};
    sft_status st = sft_failed() ? sft_last_status() : SFT_OK;
    if (st == SFT_OK && out->numel) st = sft_run(SFT_OP__searchsorted, t, 4, &p);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

/* (sorted_sequence, self, *, out_int32, right, side, sorter) */
IMPL(searchsorted) {
    bool right = ARG_B(3);
    if (!ARG_NONE(4)) {
        const char *side = c->a[4].u.s;
        if (strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "searchsorted: 'side' must be \"left\" or \"right\", got \"%s\"", side);
        if (right && side[0] == 'l')
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "searchsorted: 'side' is \"left\" but 'right' is true; give one of them");
        right = side[0] == 'r';
    }
    return search(c, c->a[0].u.t, &c->a[1], ARG_B(2), right, ARG_T(5));
}
/* (self, boundaries, *, out_int32, right) */
IMPL(bucketize) { return search(c, c->a[1].u.t, &c->a[0], ARG_B(2), ARG_B(3), NULL); }
/* Only their kernels are used. */
IMPL(order_kernel_only) {
    return sft_fail(SFT_ERR_UNSUPPORTED, "%s: not to be called", c->info->name);
}
