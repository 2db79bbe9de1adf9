/* reduce.c: reductions over dims: sum, mean, prod, extremes, norms, moments, and their gradients.
 */
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

/* ---- for rules ---------------------------------------------------------------------------------
 */

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

/* ---- sum ---------------------------------------------------------------------------------------
 */

IMPL(sum) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {0};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    sft_dtype dtype = !ARG_NONE(3)             ? c->a[3].u.dtype
                      : sft_is_float(x->dtype) ? (sft_dtype)x->dtype
                                               : SFT_int64;
    p.ct = compute_dtype(dtype);
    return reduce(c, x, ARG_B(2), dtype, &p);
}
GRAD(sum) {
    dims_of r = reduced(b, 1);
    SET(0, spread(&r, G));
}

/* Elements that are not NaN. */
IMPL(nansum) { return sft_impl_sum(c); }
GRAD(nansum) {
    dims_of r = reduced(b, 1);
    SET(0, DO(mul, spread(&r, G), DO(eq, IN(0), IN(0))));
}

static sft_status needs_float(const sft_opctx *c, const sft_tensor *x, const sft_value *dtype,
                              sft_dtype *out) {
    *out = dtype->kind == SFT_V_DTYPE ? dtype->u.dtype : (sft_dtype)x->dtype;
    if (sft_is_float(*out)) return SFT_OK;
    return sft_fail(
        SFT_ERR_ARGUMENT,
        "%s: 'self' must be floating, got %s; pass {dtype = sft.float32}, or convert it "
        "with x:float()",
        c->info->name, sft_dtype_name(*out));
}

IMPL(mean) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {0};
    sft_dtype dtype;
    SFT_TRY(needs_float(c, x, &c->a[3], &dtype));
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    p.ct = compute_dtype(dtype);
    return reduce(c, x, ARG_B(2), dtype, &p);
}
GRAD(mean) {
    dims_of r = reduced(b, 1);
    SET(0, DO(div, spread(&r, G), (double)r.count));
}

IMPL(nanmean) {
    sft_tensor *x = c->a[0].u.t;
    sft_dtype dtype;
    SFT_TRY(needs_float(c, x, &c->a[3], &dtype));
    sft_tensor *n = DO(sum, DO(eq, x, x), c->a[1], c->a[2]);
    return sft_ret(c, DO(div, DO(nansum, x, c->a[1], c->a[2], sft_v_dtype(dtype)), n));
}

/* ---- product -----------------------------------------------------------------------------------
 */

IMPL(prod) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {0};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    sft_dtype dtype = !ARG_NONE(3)             ? c->a[3].u.dtype
                      : sft_is_float(x->dtype) ? (sft_dtype)x->dtype
                                               : SFT_int64;
    p.ct = compute_dtype(dtype);
    return reduce(c, x, ARG_B(2), dtype, &p);
}

/* The product of all other elements: over the last dim of x[..., n]. Made of the products up to and
 * from each element, so that zeros do no harm. */
static sft_tensor *product_of_others(sft_tensor *x) {
    int last = x ? x->ndim - 1 : 0;
    if (!x || x->shape[last] == 0) return x;
    int64_t n = x->shape[last];
    sft_tensor *one = DO(ones_like, DO(narrow, x, last, 0, 1));
    sft_tensor *heads[2] = {one, DO(narrow, x, last, 0, n - 1)};
    sft_tensor *tail = DO(flip, DO(narrow, x, last, 1, n - 1), last), *tails[2] = {one, tail};
    if (sft_failed()) return NULL;
    sft_tensor *before = DO(cumprod, DO(cat, sft_v_tensors(heads, 2), last), last);
    sft_tensor *after = DO(cumprod, DO(cat, sft_v_tensors(tails, 2), last), last);
    return DO(mul, before, DO(flip, after, last));
}
GRAD(prod) {
    dims_of r = reduced(b, 1);
    sft_tensor *x = IN(0), *g = spread(&r, G);
    sft_tensor *others;
    if (b->a[1].kind == SFT_V_NONE || r.ndim == 0) {
        others = DO(reshape, product_of_others(DO(reshape, x, -1)), sft_v_ints(r.shape, r.ndim));
    } else {
        sft_tensor *y = product_of_others(DO(transpose, x, b->a[1], -1));
        others = DO(transpose, y, b->a[1], -1);
    }
    SET(0, DO(mul, g, others));
}

/* ---- max, min ----------------------------------------------------------------------------------
 */

static sft_status not_empty(const sft_opctx *c, const sft_tensor *x, uint32_t mask) {
    int b = sft_thread()->index_base;
    if (mask + 1 == 1u << x->ndim || x->ndim == 0) {
        if (x->numel) return SFT_OK;
        if (c->info->params[1].type == SFT_P_DIM || c->info->params[1].type == SFT_P_DIMS) {
            if (x->ndim == 1)
                return sft_fail(SFT_ERR_ARGUMENT,
                                "%s: dim %d has size 0, and nothing has no extreme", c->info->name,
                                b);
        }
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: 'self' has no elements (shape %s); expected at least one, or a 'dim' "
                        "whose size is not 0",
                        c->info->name, SFT_SHAPE(x));
    }
    for (int d = 0; d < x->ndim; d++)
        if (mask >> d & 1 && x->shape[d] == 0)
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "%s: dim %d of 'self' has size 0 (shape %s); expected a dim whose size is "
                "not 0",
                c->info->name, d + b, SFT_SHAPE(x));
    return SFT_OK;
}

/* max(), amax(): values only. */
IMPL(extreme) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.ct = compute_dtype(x->dtype)};
    sft_value all = sft_v_none();
    bool has_dim = c->info->nparams > 1;
    if (!sft_reduce_mask(c->info->name, has_dim ? &c->a[1] : &all, x->ndim, &p.mask))
        return sft_last_status();
    SFT_TRY(not_empty(c, x, p.mask));
    return reduce(c, x, has_dim && ARG_B(2), (sft_dtype)x->dtype, &p);
}
/* All elements that equal the result share its gradient. */
static void share(sft_bw *b, int dim) {
    dims_of r = reduced(b, dim);
    sft_tensor *is = DO(eq, IN(0), keep(&r, OUT(0)));
    sft_value v;
    if (dim < 0 && OUT(0) && sft_item(OUT(0), &v) == SFT_OK && v.kind == SFT_V_FLOAT &&
        v.u.f != v.u.f)
        is = DO(isnan, IN(0)); /* the NaNs share it */
    sft_tensor *n = DO(sum, is, dim < 0 ? sft_v_none() : b->a[dim], true);
    SET(0, DO(mul, is, DO(div, keep(&r, G), dim < 0 ? DO(sum, is) : n)));
}
GRAD(extreme) { share(b, -1); }
GRAD(amax) { share(b, 1); }

IMPL(aminmax) {
    sft_tensor *x = c->a[0].u.t;
    if (x->ndim == 0 && ARG_B(2)) x = DO(reshape, x, 1);
    if (sft_ret(c, DO(amin, x, c->a[1], c->a[2])) != SFT_OK) {
        if (x && x->numel == 0) {
            sft_thread()->code = SFT_OK;
            return sft_fail(SFT_ERR_ARGUMENT,
                            "aminmax: 'self' has no elements along the dim (shape %s)",
                            SFT_SHAPE(x));
        }
        return sft_last_status();
    }
    return sft_ret(c, DO(amax, x, c->a[1], c->a[2]));
}

/* max(dim): values and where they are. */
IMPL(extreme_dim) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.ct = compute_dtype(x->dtype)};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    SFT_TRY(not_empty(c, x, p.mask));
    sft_tensor *v = result(x, p.mask, ARG_B(2), (sft_dtype)x->dtype);
    sft_tensor *i = v ? result(x, p.mask, ARG_B(2), SFT_int64) : NULL;
    sft_status st = i ? SFT_OK : sft_last_status();
    if (i && i->numel) st = sft_run(c->op, (sft_tensor *[]){v, i, x}, 3, &p);
    if (st == SFT_OK) {
        sft_give(c, v);
        return sft_give(c, i);
    }
    sft_release(v);
    sft_release(i);
    return st;
}
/* The gradient goes to the chosen element. Parameters: self, ..., dim at `dim`; indices: output 1.
 */
void sft_grad_to_chosen(sft_bw *b, int dim) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    sft_tensor *g = G, *at = OUT(1);
    if (!g || !at) return;
    sft_tensor *zero = DO(zeros, sft_v_ints(shape, ndim), sft_v_dtype((sft_dtype)g->dtype),
                          sft_v_device(g->device));
    if (g->ndim < ndim) {
        g = DO(unsqueeze, g, b->a[dim]);
        at = DO(unsqueeze, at, b->a[dim]);
    }
    SET(0, ndim ? DO(scatter, zero, b->a[dim], at, g) : g);
}
GRAD(select_dim1) { sft_grad_to_chosen(b, 1); }

IMPL(argextreme) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.ct = compute_dtype(x->dtype)};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    SFT_TRY(not_empty(c, x, p.mask));
    /* Positions count in row-major order. */
    if (ARG_NONE(1)) x = DO(contiguous, x);
    if (!x) return sft_last_status();
    return reduce(c, x, ARG_B(2), SFT_int64, &p);
}

IMPL(max_other) { return sft_ret(c, DO(maximum, c->a[0], c->a[1])); }
IMPL(min_other) { return sft_ret(c, DO(minimum, c->a[0], c->a[1])); }

/* ---- any, all, count_nonzero -------------------------------------------------------------------
 */

IMPL(any) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.ct = SFT_bool};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    return reduce(c, x, ARG_B(2), x->dtype == SFT_uint8 ? SFT_uint8 : SFT_bool, &p);
}
IMPL(count_nonzero) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.ct = SFT_bool};
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    return reduce(c, x, false, SFT_int64, &p);
}
