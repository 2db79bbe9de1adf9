/* activation.c: activation functions. Each has a fused kernel for its gradient; when the gradient is
 * to be differentiated again, the slope is written out with other ops instead. */
#include "elementwise.h"

/* The op's numbers, in the order of the signature. */
IMPL(activation) {
    sft_tensor *x = c->a[0].u.t;
    if (!sft_is_float(x->dtype)) return sft_need_float(c, (sft_dtype)x->dtype);
    sft_kcall k = {0};
    for (int i = 1; i < c->info->nparams && i <= 4; i++) k.f[i - 1] = sft_number(&c->a[i]);
    return sft_elementwise(c, c->a, 1, (sft_dtype)x->dtype, (sft_dtype)x->dtype, &k);
}

/* (grad, self or result, numbers) */
IMPL(backward2) {
    sft_dtype d = (sft_dtype)c->a[0].u.t->dtype;
    sft_kcall k = {0};
    for (int i = 2; i < c->info->nparams && i <= 5; i++) {
        k.f[i - 2] = sft_number(&c->a[i]);
        k.i[i - 2] = sft_integer(&c->a[i]);
    }
    return sft_elementwise(c, c->a, 2, d, d, &k);
}

IMPL(gelu) {
    sft_tensor *x = c->a[0].u.t;
    const char *form = c->a[1].u.s;
    if (!sft_is_float(x->dtype)) return sft_need_float(c, (sft_dtype)x->dtype);
    if (strcmp(form, "none") && strcmp(form, "tanh"))
        return sft_fail(SFT_ERR_ARGUMENT, "gelu: 'approximate' must be 'none' or 'tanh', got '%.20s'", form);
    sft_kcall k = {.i = {form[0] == 't'}};
    return sft_elementwise(c, c->a, 1, (sft_dtype)x->dtype, (sft_dtype)x->dtype, &k);
}

IMPL(hardtanh) {
    sft_tensor *x = c->a[0].u.t;
    if (x->dtype == SFT_bool)
        return sft_fail(SFT_ERR_ARGUMENT, "hardtanh: not defined for bool tensors");
    sft_kcall k = {.f = {ARG_F(1), ARG_F(2)}, .i = {sft_integer(&c->a[1]), sft_integer(&c->a[2])}};
    if (!(ARG_F(1) <= ARG_F(2)))
        return sft_fail(SFT_ERR_ARGUMENT, "hardtanh: 'min_val' (%g) is greater than 'max_val' (%g)",
                        ARG_F(1), ARG_F(2));
    return sft_elementwise(c, c->a, 1, (sft_dtype)x->dtype, (sft_dtype)x->dtype, &k);
}

/* ---- gradients --------------------------------------------------------------------------------- */

GRAD(relu) { SET(0, DO(_relu_backward, G, OUT(0))); }
GRAD(relu_backward) { SET(0, DO(_relu_backward, G, IN(1))); }
GRAD(tanh_backward) {
    sft_tensor *g = IN(0), *y = IN(1);
    if (NEED(0)) SET(0, DO(_tanh_backward, G, y));
    if (NEED(1)) SET(1, DO(mul, DO(mul, DO(mul, G, g), y), -2));
}
GRAD(sigmoid_backward) {
    sft_tensor *g = IN(0), *y = IN(1);
    if (NEED(0)) SET(0, DO(_sigmoid_backward, G, y));
    if (NEED(1)) SET(1, DO(mul, DO(mul, G, g), DO(sub, 1, DO(mul, y, 2))));
}

GRAD(gelu) {
    bool form = b->a[1].u.s[0] == 't';
    sft_tensor *x = IN(0);
    if (!b->create_graph) {
        SET(0, DO(_gelu_backward, G, x, form));
    } else if (!form) {
        sft_tensor *cdf = DO(mul, DO(erfc, DO(mul, x, -0.70710678118654752440)), 0.5);
        sft_tensor *pdf = DO(mul, DO(exp, DO(mul, DO(mul, x, x), -0.5)), 0.39894228040143267794);
        SET(0, DO(mul, G, DO(add, cdf, DO(mul, x, pdf))));
    } else {
        const double s = 0.79788456080286535588, k = 0.044715;
        sft_tensor *x2 = DO(mul, x, x);
        sft_tensor *t = DO(tanh, DO(mul, DO(mul, x, DO(add, DO(mul, x2, k), 1)), s));
        sft_tensor *inner = DO(mul, DO(add, DO(mul, x2, 3 * k), 1), s);
        sft_tensor *slope = DO(mul, DO(mul, x, DO(sub, 1, DO(mul, t, t))), inner);
        SET(0, DO(mul, G, DO(mul, DO(add, DO(add, t, 1), slope), 0.5)));
    }
}
GRAD(silu) {
    sft_tensor *x = IN(0);
    if (!b->create_graph) {
        SET(0, DO(_silu_backward, G, x));
    } else {
        sft_tensor *s = DO(sigmoid, x);
        SET(0, DO(mul, G, DO(mul, s, DO(add, DO(mul, x, DO(sub, 1, s)), 1))));
    }
}
GRAD(mish) {
    sft_tensor *x = IN(0);
    if (!b->create_graph) {
        SET(0, DO(_mish_backward, G, x));
    } else {
        sft_tensor *t = DO(tanh, DO(softplus, x)), *s = DO(sigmoid, x);
        SET(0, DO(mul, G, DO(add, t, DO(mul, DO(mul, x, s), DO(sub, 1, DO(mul, t, t))))));
    }
}
/* scale above 0, scale * alpha * exp(x / by) below */
static sft_tensor *elu_slope(sft_tensor *x, double scale, double alpha, double by) {
    sft_tensor *low = DO(mul, DO(exp, DO(div, DO(clamp, x, sft_v_none(), 0), by)), scale * alpha);
    return DO(where, DO(gt, x, 0), scale, low);
}
GRAD(selu) {
    const double alpha = 1.6732632423543772848, scale = 1.0507009873554804934;
    SET(0, b->create_graph ? DO(mul, G, elu_slope(IN(0), scale, alpha, 1)) : DO(_selu_backward, G, IN(0)));
}
GRAD(elu) {
    SET(0, b->create_graph ? DO(mul, G, elu_slope(IN(0), 1, NUM(1), 1))
                           : DO(_elu_backward, G, IN(0), NUM(1)));
}
GRAD(celu) {
    SET(0, b->create_graph ? DO(mul, G, elu_slope(IN(0), 1, 1, NUM(1)))
                           : DO(_celu_backward, G, IN(0), NUM(1)));
}
GRAD(leaky_relu) {
    SET(0, b->create_graph ? DO(where, DO(gt, IN(0), 0), G, DO(mul, G, NUM(1)))
                           : DO(_leaky_relu_backward, G, IN(0), NUM(1)));
}
static sft_tensor *between(sft_tensor *x, double lo, double hi) {
    return DO(logical_and, DO(gt, x, lo), DO(lt, x, hi));
}
GRAD(hardtanh) {
    SET(0, b->create_graph ? DO(where, between(IN(0), NUM(1), NUM(2)), G, 0)
                           : DO(_hardtanh_backward, G, IN(0), NUM(1), NUM(2)));
}
GRAD(hardsigmoid) {
    SET(0, b->create_graph ? DO(where, between(IN(0), -3, 3), DO(div, G, 6), 0)
                           : DO(_hardsigmoid_backward, G, IN(0)));
}
GRAD(hardswish) {
    sft_tensor *x = IN(0);
    if (!b->create_graph) {
        SET(0, DO(_hardswish_backward, G, x));
    } else {
        sft_tensor *mid = DO(mul, G, DO(add, DO(div, x, 3), 0.5));
        SET(0, DO(where, DO(le, x, -3), 0, DO(where, DO(lt, x, 3), mid, G)));
    }
}
GRAD(softplus) {
    sft_tensor *x = IN(0);
    double beta = NUM(1), threshold = NUM(2);
    if (!b->create_graph) {
        SET(0, DO(_softplus_backward, G, x, beta, threshold));
    } else {
        sft_tensor *z = DO(mul, x, beta);
        SET(0, DO(where, DO(gt, z, threshold), G, DO(mul, G, DO(sigmoid, z))));
    }
}
GRAD(logsigmoid) {
    SET(0, b->create_graph ? DO(mul, G, DO(sigmoid, DO(neg, IN(0)))) : DO(_logsigmoid_backward, G, IN(0)));
}

/* ---- made of others ---------------------------------------------------------------------------- */

IMPL(relu6) { return sft_ret(c, DO(hardtanh, c->a[0], 0, 6)); }
IMPL(softsign) { return sft_ret(c, DO(div, c->a[0], DO(add, DO(abs, c->a[0]), 1))); }
IMPL(tanhshrink) { return sft_ret(c, DO(sub, c->a[0], DO(tanh, c->a[0]))); }
IMPL(threshold) { return sft_ret(c, DO(where, DO(le, c->a[0], c->a[1]), c->a[2], c->a[0])); }
IMPL(hardshrink) {
    double l = ARG_F(1);
    return sft_ret(c, DO(where, DO(logical_and, DO(ge, c->a[0], -l), DO(le, c->a[0], l)), 0, c->a[0]));
}
IMPL(softshrink) {
    double l = ARG_F(1);
    if (!(l >= 0)) return sft_fail(SFT_ERR_ARGUMENT, "softshrink: 'lambd' must not be negative, got %g", l);
    sft_tensor *low = DO(where, DO(lt, c->a[0], -l), DO(add, c->a[0], l), DO(mul, c->a[0], 0));
    return sft_ret(c, DO(where, DO(gt, c->a[0], l), DO(sub, c->a[0], l), low));
}
IMPL(prelu) {
    sft_tensor *x = c->a[0].u.t, *w = c->a[1].u.t;
    if (w->numel != 1) {
        if (x->ndim < 2 || w->ndim != 1 || w->numel != x->shape[1])
            return sft_fail(SFT_ERR_ARGUMENT,
                            "prelu: 'weight' must have 1 element or one per channel (dim 2 of %s), got %s",
                            SFT_SHAPE(x), SFT_SHAPE(w));
        int64_t shape[SFT_MAX_DIMS];
        for (int d = 0; d < x->ndim; d++) shape[d] = d == 1 ? w->numel : 1;
        w = DO(reshape, w, sft_v_ints(shape, x->ndim));
    } else {
        w = DO(reshape, w, sft_v_ints(NULL, 0));
    }
    return sft_ret(c, DO(where, DO(gt, x, 0), x, DO(mul, w, x)));
}
