/* reduce.c: reductions over dims: sum, mean, prod, extremes, norms, moments, and their gradients. */
#include "reduce.h"

/* ---- geometry -------------------------------------------------------------------------------- */

bool sft_reduce_mask(const char *op, const sft_value *dims, int ndim, uint32_t *mask) {
    *mask = 0;
    if (dims->kind == SFT_V_INT) {
        int d = sft_wrap_dim(dims->u.i, ndim);
        if (d < 0) {
            sft_error_prefix(op);
            return false;
        }
        *mask = ndim ? 1u << d : 0;
        return true;
    }
    if (dims->kind != SFT_V_INTS || dims->n == 0) {
        *mask = (1u << ndim) - 1;
        return true;
    }
    uint32_t seen = 0;
    for (int i = 0; i < dims->n; i++) {
        int d = sft_wrap_dim(dims->u.ints[i], ndim);
        if (d < 0) {
            sft_error_prefix(op);
            return false;
        }
        if (seen & (1u << d)) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: dim %d appears twice in 'dim'; name each dim once", op,
                     d + sft_thread()->index_base);
            return false;
        }
        seen |= 1u << d;
    }
    *mask = ndim ? seen : 0;
    return true;
}

int sft_reduce_shape(const sft_tensor *x, uint32_t mask, bool keepdim, int64_t *shape) {
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool reduced = mask >> d & 1;
        if (!reduced)
            shape[n++] = x->shape[d];
        else if (keepdim)
            shape[n++] = 1;
    }
    return n;
}

sft_tensor *sft_reduce_keep(sft_tensor *g, const int64_t *shape, int ndim, uint32_t mask) {
    int64_t keep[SFT_MAX_DIMS];
    if (!g || g->ndim == ndim) return g;
    for (int d = 0; d < ndim; d++) keep[d] = mask >> d & 1 ? 1 : shape[d];
    return DO(reshape, g, sft_v_ints(keep, ndim));
}

/* A fresh result of a reduction of x. */
static sft_tensor *result(const sft_tensor *x, uint32_t mask, bool keepdim, sft_dtype dtype) {
    int64_t shape[SFT_MAX_DIMS];
    int n = sft_reduce_shape(x, mask, keepdim, shape);
    return sft_empty(shape, n, dtype, x->device);
}

static uint8_t compute_dtype(int dtype) {
    return dtype == SFT_float64 ? SFT_float64 : sft_is_float(dtype) ? SFT_float32 : SFT_int64;
}

/* Runs c->op with one result of `dtype`; p->mask and keepdim say over what. */
static sft_status reduce(sft_opctx *c, sft_tensor *x, bool keepdim, sft_dtype dtype,
                         sft_reduce_params *p) {
    sft_tensor *out = result(x, p->mask, keepdim, dtype);
    if (!out) return sft_last_status();
    sft_status st = SFT_OK;
    if (out->numel) st = sft_run(c->op, (sft_tensor *[]){out, x}, 2, p);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

/* ---- for rules --------------------------------------------------------------------------------- */

typedef struct dims_of {
    const int64_t *shape; /* of the input */
    int ndim;
    uint32_t mask;
    int64_t count; /* elements per result */
} dims_of;

/* What parameter `dim` of a recorded call reduced. */
static dims_of reduced(sft_bw *b, int dim) {
    dims_of r = {0};
    r.shape = sft_bw_shape(b, 0, &r.ndim);
    if (dim >= 0)
        sft_reduce_mask("", &b->a[dim], r.ndim, &r.mask);
    else
        r.mask = (1u << r.ndim) - 1;
    r.count = 1;
    for (int d = 0; d < r.ndim; d++)
        if (r.mask >> d & 1) r.count *= r.shape[d];
    return r;
}
static sft_tensor *keep(const dims_of *r, sft_tensor *g) {
    return sft_reduce_keep(g, r->shape, r->ndim, r->mask);
}
static sft_tensor *spread(const dims_of *r, sft_tensor *g) {
    return DO(expand, keep(r, g), sft_v_ints(r->shape, r->ndim));
}

/* ---- sum --------------------------------------------------------------------------------------- */

IMPL(sum) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {0};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    sft_dtype dtype = !ARG_NONE(3)              ? c->a[3].u.dtype
                      : sft_is_float(x->dtype) ? (sft_dtype)x->dtype
                                               : SFT_int64;
    p.ct = compute_dtype(dtype);
    return reduce(c, x, ARG_B(2), dtype, &p);
}
GRAD(sum) {
    dims_of r = reduced(b, 1);
    SET(0, spread(&r, G));
}
