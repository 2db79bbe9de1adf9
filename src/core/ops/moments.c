/* moments.c: variance and standard deviation, norms, logsumexp. */
#include "reduce.h"
#include <math.h>

static sft_tensor *kept(sft_bw *b, int dim, sft_tensor *g) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    uint32_t mask;
    if (!sft_reduce_mask("", &b->a[dim], ndim, &mask)) return NULL;
    return sft_reduce_keep(g, shape, ndim, mask);
}

/* ---- var, std ----------------------------------------------------------------------------------
 */

/* _var(self, dim, keepdim, correction) and _std: the primitives. */
IMPL(moment) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.correction = c->a[3].u.f};
    p.ct = x->dtype == SFT_float64 ? SFT_float64 : SFT_float32;
    int64_t shape[SFT_MAX_DIMS];
    if (!sft_reduce_mask(c->info->name, &c->a[1], x->ndim, &p.mask)) return sft_last_status();
    int n = sft_reduce_shape(x, p.mask, ARG_B(2), shape);
    sft_tensor *out = sft_empty(shape, n, (sft_dtype)x->dtype, x->device);
    if (!out) return sft_last_status();
    sft_status st = out->numel ? sft_run(c->op, (sft_tensor *[]){out, x}, 2, &p) : SFT_OK;
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
/* Twice the deviation from the mean over the divisor. */
static sft_tensor *slope(sft_bw *b) {
    sft_tensor *x = IN(0), *mean = DO(mean, x, b->a[1], true);
    if (!mean) return NULL;
    double n = mean->numel ? (double)(x->numel / mean->numel) : 0, d = n - b->a[3].u.f;
    return DO(mul, DO(sub, x, mean), 2 / (d > 0 ? d : 0));
}
GRAD(var) { SET(0, DO(mul, kept(b, 1, G), slope(b))); }
GRAD(std) {
    sft_tensor *s = kept(b, 1, OUT(0));
    /* Where all elements are equal the deviation is 0, and so is the gradient. */
    sft_tensor *twice = DO(mul, DO(add, s, DO(eq, s, 0)), 2);
    SET(0, DO(mul, DO(div, kept(b, 1, G), twice), slope(b)));
}

/* Reads (dim, unbiased, keepdim, *, correction) or (unbiased): the rows var, var_flag, ... */
static sft_status moment_arguments(const sft_opctx *c, sft_value *dim, sft_value *keepdim,
                                   double *correction) {
    sft_tensor *x = c->a[0].u.t;
    bool flag = c->info->nparams == 2;
    const sft_value *unbiased = &c->a[flag ? 1 : 2];
    *dim = flag ? sft_v_none() : c->a[1];
    *keepdim = flag ? sft_v_bool(false) : c->a[3];
    *correction = unbiased->kind == SFT_V_BOOL ? unbiased->u.b : 1;
    if (!flag && !ARG_NONE(4)) {
        if (unbiased->kind == SFT_V_BOOL)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: 'unbiased' and 'correction' were both given; unbiased = true is "
                            "correction = 1, false is 0",
                            c->info->name);
        *correction = c->a[4].kind == SFT_V_FLOAT ? c->a[4].u.f : (double)c->a[4].u.i;
    }
    if (!sft_is_float(x->dtype))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: 'self' must be floating, got %s; convert it with x:float()",
                        c->info->name, sft_dtype_name((sft_dtype)x->dtype));
    uint32_t mask;
    return sft_reduce_mask(c->info->name, dim, x->ndim, &mask) ? SFT_OK : sft_last_status();
}
#define MOMENT(name, op, with_mean)                                                                \
    IMPL(name) {                                                                                   \
        sft_value dim, keepdim;                                                                    \
        double correction;                                                                         \
        SFT_TRY(moment_arguments(c, &dim, &keepdim, &correction));                                 \
        SFT_TRY(sft_ret(c, DO(op, c->a[0], dim, keepdim, correction)));                            \
        if (!with_mean) return SFT_OK;                                                             \
        return sft_ret(c, DO(mean, c->a[0], dim, keepdim));                                        \
    }
MOMENT(var, _var, false)
MOMENT(std, _std, false)
MOMENT(var_mean, _var, true)
MOMENT(std_mean, _std, true)

/* ---- norm --------------------------------------------------------------------------------------
 */

/* _norm(self, p, dim, keepdim), p finite. */
IMPL(norm_p) {
    sft_tensor *x = c->a[0].u.t;
    sft_reduce_params p = {.p = c->a[1].u.f};
    p.ct = x->dtype == SFT_float64 ? SFT_float64 : SFT_float32;
    int64_t shape[SFT_MAX_DIMS];
    if (!sft_reduce_mask("norm", &c->a[2], x->ndim, &p.mask)) return sft_last_status();
    int n = sft_reduce_shape(x, p.mask, ARG_B(3), shape);
    sft_tensor *out = sft_empty(shape, n, (sft_dtype)x->dtype, x->device);
    if (!out) return sft_last_status();
    sft_status st = out->numel ? sft_run(c->op, (sft_tensor *[]){out, x}, 2, &p) : SFT_OK;
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
GRAD(norm) {
    sft_tensor *x = IN(0), *y = kept(b, 2, OUT(0)), *g = kept(b, 2, G);
    double p = b->a[1].u.f;
    if (p == 0) {
        SET(0, DO(zeros_like, x));
    } else if (p == 1) {
        SET(0, DO(mul, DO(sign, x), g));
    } else if (p == 2) {
        /* 0 where the norm is 0 */
        SET(0, DO(mul, x, DO(div, g, DO(add, y, DO(eq, y, 0)))));
    } else {
        /* sign(x) |x|^(p-1) g / y^(p-1); below 1 elements that are 0 get 0 */
        sft_tensor *a = DO(abs, x);
        sft_tensor *up = DO(pow, p < 1 ? DO(add, a, DO(eq, a, 0)) : a, p - 1);
        sft_tensor *down = DO(pow, DO(add, y, DO(eq, y, 0)), p - 1);
        SET(0, DO(mul, DO(mul, DO(sign, x), up), DO(div, g, down)));
    }
}

static sft_status norm(sft_opctx *c, double p) {
    sft_tensor *x = c->a[0].u.t;
    sft_dtype dtype = ARG_NONE(4) ? (sft_dtype)x->dtype : c->a[4].u.dtype;
    uint32_t mask;
    if (!sft_is_float(dtype))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "norm: 'self' must be floating, got %s; convert it with x:float()",
                        sft_dtype_name(dtype));
    if (!sft_reduce_mask("norm", &c->a[2], x->ndim, &mask)) return sft_last_status();
    if (x->dtype != dtype) x = DO(to, x, sft_v_none(), sft_v_dtype(dtype));
    if (!x) return sft_last_status();
    if (isfinite(p)) return sft_ret(c, DO(_norm, x, p, c->a[2], c->a[3]));
    if (p != p) return sft_fail(SFT_ERR_ARGUMENT, "norm: 'p' must be a number, got nan");
    int64_t reduced = 1;
    for (int d = 0; d < x->ndim; d++)
        if (mask >> d & 1) reduced *= x->shape[d];
    if (reduced == 0 && p > 0) return sft_ret(c, DO(_norm, x, 1.0, c->a[2], c->a[3]));
    if (reduced == 0)
        return sft_fail(SFT_ERR_ARGUMENT, "norm: p = -inf needs elements, but 'self' has shape %s",
                        SFT_SHAPE(x));
    sft_tensor *a = DO(abs, x);
    return sft_ret(c, p > 0 ? DO(amax, a, c->a[2], c->a[3]) : DO(amin, a, c->a[2], c->a[3]));
}
IMPL(norm) {
    const sft_value *p = &c->a[1];
    return norm(c, p->kind == SFT_V_NONE    ? 2
                   : p->kind == SFT_V_FLOAT ? p->u.f
                   : p->kind == SFT_V_BOOL  ? p->u.b
                                            : (double)p->u.i);
}
IMPL(norm_str) {
    const char *p = c->a[1].u.s;
    if (!strcmp(p, "fro")) return norm(c, 2);
    if (!strcmp(p, "inf")) return norm(c, INFINITY);
    if (!strcmp(p, "-inf")) return norm(c, -INFINITY);
    return sft_fail(SFT_ERR_ARGUMENT, "norm: 'p' must be a number, \"fro\" or \"inf\", got \"%s\"",
                    p);
}

/* ---- logsumexp ---------------------------------------------------------------------------------
 */

IMPL(logsumexp) {
    sft_tensor *x = c->a[0].u.t;
    uint32_t mask;
    if (!sft_reduce_mask("logsumexp", &c->a[1], x->ndim, &mask)) return sft_last_status();
    if (!sft_is_float(x->dtype)) x = DO(to, x, sft_v_none(), sft_v_dtype(sft_default_dtype()));
    if (!x) return sft_last_status();
    if (x->numel == 0) return sft_ret(c, DO(log, DO(sum, DO(exp, x), c->a[1], c->a[2])));
    sft_tensor *m = DO(amax, x, c->a[1], true);
    m = DO(where, DO(isinf, m), 0.0, m);
    sft_tensor *s = DO(sum, DO(exp, DO(sub, x, m)), c->a[1], true);
    sft_tensor *y = DO(add, DO(log, s), m);
    if (!y || ARG_B(2)) return sft_ret(c, y);
    int64_t shape[SFT_MAX_DIMS];
    int n = sft_reduce_shape(x, mask, false, shape);
    return sft_ret(c, DO(reshape, y, sft_v_ints(shape, n)));
}
GRAD(logsumexp) { SET(0, DO(mul, kept(b, 1, G), DO(exp, DO(sub, IN(0), kept(b, 1, OUT(0)))))); }
