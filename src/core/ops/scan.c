/* scan.c: cumulative ops along a dim: cumsum, cumprod, logcumsumexp, cummax, cummin. */
#include "scan.h"

/* Runs c->op on contiguous inputs of one shape; c->a[dim] is the dim. The first result has x's
 * dtype, a second one is int64. */
static sft_status run(sft_opctx *c, sft_tensor *const *in, int nin, int dim_at, bool reverse,
                      int nout) {
    sft_tensor *x = in[0];
    int dim = sft_wrap_dim(ARG_I(dim_at), x->ndim);
    if (dim < 0) {
        sft_error_prefix(c->info->name);
        return sft_last_status();
    }
    sft_scan_params p = {1, x->ndim ? x->shape[dim] : 1, 1, reverse};
    for (int d = 0; d < dim; d++) p.outer *= x->shape[d];
    for (int d = dim + 1; d < x->ndim; d++) p.inner *= x->shape[d];
    sft_tensor *t[4] = {0};
    sft_status st = SFT_OK;
    for (int i = 0; i < nout && st == SFT_OK; i++) {
        t[i] = sft_empty(x->shape, x->ndim, i ? SFT_int64 : (sft_dtype)x->dtype, x->device);
        if (!t[i]) st = sft_last_status();
    }
    for (int i = 0; i < nin && st == SFT_OK; i++) {
        t[nout + i] = in[i]->contiguous ? in[i] : DO(contiguous, in[i]);
        if (!t[nout + i]) st = sft_last_status();
    }
    if (st == SFT_OK && x->numel) st = sft_run(c->op, t, nout + nin, &p);
    for (int i = 0; i < nout; i++) {
        if (st == SFT_OK)
            sft_give(c, t[i]);
        else
            sft_release(t[i]);
    }
    return st;
}

/* The dtype that sums of `dtype` have, unless one is asked for. */
static sft_dtype sum_dtype(const sft_tensor *x, const sft_value *dtype) {
    if (dtype->kind == SFT_V_DTYPE) return dtype->u.dtype;
    return sft_is_float(x->dtype) ? (sft_dtype)x->dtype : SFT_int64;
}
static sft_dtype computed(sft_dtype d) {
    return d == SFT_float64 ? SFT_float64 : sft_is_float(d) ? SFT_float32 : SFT_int64;
}
static sft_tensor *cast(sft_tensor *x, sft_dtype d) {
    return !x || x->dtype == d ? x : DO(to, x, sft_v_none(), sft_v_dtype(d));
}

/* ---- cumsum, cumprod ---------------------------------------------------------------------------
 */

IMPL(scan) { return run(c, &c->a[0].u.t, 1, 1, ARG_B(2), 1); }

IMPL(cumsum) {
    sft_tensor *x = c->a[0].u.t;
    sft_dtype dtype = sum_dtype(x, &c->a[2]);
    sft_tensor *y = cast(cast(x, dtype), computed(dtype));
    y = c->op == SFT_OP_cumsum ? DO(_cumsum, y, c->a[1], false) : DO(_cumprod, y, c->a[1], false);
    return sft_ret(c, cast(y, dtype));
}
GRAD(cumsum) { SET(0, DO(_cumsum, G, VAL(1), !b->a[2].u.b)); }

/* (grad, self, dim): sums of the gradients times the products without the element. */
IMPL(cumprod_backward) {
    sft_tensor *in[2] = {cast(c->a[0].u.t, (sft_dtype)c->a[1].u.t->dtype), c->a[1].u.t};
    if (!in[0]) return sft_last_status();
    return run(c, in, 2, 2, false, 1);
}
GRAD(cumprod) {
    if (b->create_graph) {
        /* Differentiable again, but only where no element is 0. */
        sft_tensor *s = DO(_cumsum, DO(mul, G, DO(_cumprod, IN(0), VAL(1), false)), VAL(1), true);
        SET(0, DO(div, s, IN(0)));
    } else {
        SET(0, DO(_cumprod_backward, G, IN(0), VAL(1)));
    }
}

/* ---- logcumsumexp ------------------------------------------------------------------------------
 */

IMPL(logcumsumexp) {
    sft_tensor *x = c->a[0].u.t;
    if (!sft_is_float(x->dtype))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "logcumsumexp: 'self' must be floating, got %s; convert it with x:float()",
                        sft_dtype_name((sft_dtype)x->dtype));
    sft_dtype dtype = (sft_dtype)x->dtype;
    return sft_ret(c, cast(DO(_logcumsumexp, cast(x, computed(dtype)), c->a[1], false), dtype));
}
/* x's gradient is the sum over later i of g_i exp(x - y_i), positive and negative g apart, so that
 * all is done with logarithms. */
GRAD(logcumsumexp) {
    sft_tensor *x = IN(0), *y = OUT(0), *sum = NULL;
    sft_value back = sft_v_bool(!b->a[2].u.b);
    if (b->create_graph) { /* log 0 has no slope: plainly, at the price of range */
        sum = DO(_cumsum, DO(mul, G, DO(exp, DO(neg, y))), VAL(1), back);
        SET(0, DO(mul, DO(exp, x), sum));
        return;
    }
    for (int sign = 1; sign >= -1; sign -= 2) {
        sft_tensor *g = DO(relu, sign > 0 ? G : DO(neg, G));
        sft_tensor *t = DO(_logcumsumexp, DO(sub, DO(log, g), y), VAL(1), back);
        t = DO(exp, DO(add, t, x));
        sum = sign > 0 ? t : DO(sub, sum, t);
    }
    SET(0, sum);
}

/* ---- cummax, cummin ----------------------------------------------------------------------------
 */

IMPL(cumextreme_raw) { return run(c, &c->a[0].u.t, 1, 1, false, 2); }
IMPL(cumextreme) {
    sft_tensor *x = c->a[0].u.t, *out[2];
    sft_dtype dtype = (sft_dtype)x->dtype;
    x = cast(x, computed(dtype));
    bool ok = c->op == SFT_OP_cummax ? DO_N(out, 2, _cummax, x, c->a[1])
                                     : DO_N(out, 2, _cummin, x, c->a[1]);
    if (!ok) return sft_last_status();
    SFT_TRY(sft_ret(c, cast(out[0], dtype)));
    return sft_ret(c, out[1]);
}
GRAD(cumextreme) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    sft_tensor *zero = G ? DO(zeros, sft_v_ints(shape, ndim), sft_v_dtype((sft_dtype)G->dtype),
                              sft_v_device(G->device))
                         : NULL;
    SET(0, ndim ? DO(scatter_add, zero, VAL(1), OUT(1), G) : G);
}
