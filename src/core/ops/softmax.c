/* softmax.c: softmax, log_softmax and softmin over a dim, and their gradients. */
#include "softmax.h"

static sft_status run(sft_opctx *c, int64_t dim_arg, sft_tensor *const *in, int nin) {
    sft_tensor *x = in[0];
    int dim = sft_wrap_dim(dim_arg, x->ndim);
    if (dim < 0) {
        sft_error_prefix(c->info->name);
        return sft_last_status();
    }
    sft_softmax_params p = {1, x->ndim ? x->shape[dim] : 1, 1};
    for (int d = 0; d < dim; d++) p.outer *= x->shape[d];
    for (int d = dim + 1; d < x->ndim; d++) p.inner *= x->shape[d];
    sft_tensor *t[3] = {sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)};
    if (!t[0]) return sft_last_status();
    sft_status st = SFT_OK;
    for (int i = 0; i < nin && st == SFT_OK; i++) {
        t[i + 1] = in[i]->contiguous ? in[i] : DO(contiguous, in[i]);
        if (!t[i + 1]) st = sft_last_status();
    }
    if (st == SFT_OK && x->numel) st = sft_run(c->op, t, nin + 1, &p);
    if (st == SFT_OK) return sft_give(c, t[0]);
    sft_release(t[0]);
    return st;
}

static sft_tensor *floating(const sft_opctx *c, sft_tensor *x, const sft_value *dtype) {
    sft_dtype want = dtype->kind == SFT_V_DTYPE ? dtype->u.dtype : (sft_dtype)x->dtype;
    if (!sft_is_float(want)) {
        sft_fail(SFT_ERR_ARGUMENT,
                 "%s: 'self' must be floating, got %s; pass {dtype = sft.float32}, or convert it "
                 "with x:float()",
                 c->info->name, sft_dtype_name(want));
        return NULL;
    }
    return x->dtype == want ? x : DO(to, x, sft_v_none(), sft_v_dtype(want));
}

/* _softmax(self, dim), _log_softmax(self, dim) */
IMPL(softmax_raw) { return run(c, ARG_I(1), &c->a[0].u.t, 1); }
/* (grad, output, dim) */
IMPL(softmax_backward) {
    sft_tensor *in[2] = {c->a[0].u.t, c->a[1].u.t};
    if (in[0] && in[0]->dtype != in[1]->dtype)
        in[0] = DO(to, in[0], sft_v_none(), sft_v_dtype((sft_dtype)in[1]->dtype));
    if (!in[0]) return sft_last_status();
    return run(c, ARG_I(2), in, 2);
}
IMPL(softmax) {
    sft_tensor *x = floating(c, c->a[0].u.t, &c->a[2]);
    return sft_ret(c, x ? DO(_softmax, x, c->a[1]) : NULL);
}
IMPL(log_softmax) {
    sft_tensor *x = floating(c, c->a[0].u.t, &c->a[2]);
    return sft_ret(c, x ? DO(_log_softmax, x, c->a[1]) : NULL);
}
IMPL(softmin) {
    sft_tensor *x = floating(c, c->a[0].u.t, &c->a[2]);
    return sft_ret(c, x ? DO(_softmax, DO(neg, x), c->a[1]) : NULL);
}

GRAD(softmax) { SET(0, DO(_softmax_backward, G, OUT(0), VAL(1))); }
GRAD(log_softmax) { SET(0, DO(_log_softmax_backward, G, OUT(0), VAL(1))); }
/* of y (g - sum(y g)), with regard to g and y */
GRAD(softmax_backward) {
    sft_tensor *g = IN(0), *y = IN(1);
    if (NEED(0)) SET(0, DO(_softmax_backward, G, y, VAL(2)));
    if (NEED(1)) {
        sft_tensor *inner = DO(sum, DO(mul, y, g), VAL(2), true);
        sft_tensor *h = DO(sum, DO(mul, y, G), VAL(2), true);
        SET(1, DO(sub, DO(mul, G, DO(sub, g, inner)), DO(mul, g, h)));
    }
}
/* of g - exp(y) sum(g) */
GRAD(log_softmax_backward) {
    sft_tensor *p = DO(exp, IN(1));
    sft_tensor *h = DO(sum, DO(mul, p, G), VAL(2), true);
    if (NEED(0)) SET(0, DO(sub, G, h));
    if (NEED(1)) SET(1, DO(neg, DO(mul, DO(mul, G, p), DO(sum, IN(0), VAL(2), true))));
}
