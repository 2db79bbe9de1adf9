/* unary.c: elementwise functions of one input, and their gradients. */
#include "elementwise.h"

IMPL(unary) {
    sft_kcall k = {0};
    sft_dtype in = (sft_dtype)c->a[0].u.t->dtype, common = in, result = in;
    switch (c->info->dtypes[0]) {
    case 'f': common = result = sft_to_float(in); break; /* float */
    case 'c': result = SFT_bool; break;                  /* cmp */
    case 'r':
        if (!sft_is_float(in)) return sft_need_float(c, in);
        break;
    default:
        if (in == SFT_bool && c->op == SFT_OP_neg)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "neg: not defined for bool tensors; use x:logical_not() or ~x");
        break;
    }
    return sft_elementwise(c, c->a, 1, common, result, &k);
}

sft_status sft_need_float(sft_opctx *c, sft_dtype found) {
    return sft_fail(SFT_ERR_ARGUMENT, "%s: needs a floating tensor, got %s; convert with x:float()",
                    c->info->name, sft_dtype_name(found));
}

/* ---- made of others -------------------------------------------------------------------------- */

IMPL(square) { return sft_ret(c, DO(pow, c->a[0], 2)); }
IMPL(sgn) { return sft_ret(c, DO(sign, c->a[0])); }
IMPL(positive) {
    if (c->a[0].u.t->dtype == SFT_bool)
        return sft_fail(SFT_ERR_ARGUMENT, "positive: not defined for bool tensors");
    return sft_ret(c, c->a[0].u.t);
}

IMPL(round) {
    int64_t decimals = ARG_I(1);
    if (decimals == 0) return sft_ret(c, DO(_round, c->a[0]));
    sft_dtype d = (sft_dtype)c->a[0].u.t->dtype;
    if (!sft_is_float(d)) return sft_need_float(c, d);
    double ten = 1;
    for (int64_t i = 0; i != decimals && ten < 1e300; i += decimals < 0 ? -1 : 1) ten *= 10;
    if (decimals < 0) return sft_ret(c, DO(mul, DO(_round, DO(div, c->a[0], ten)), ten));
    return sft_ret(c, DO(div, DO(_round, DO(mul, c->a[0], ten)), ten));
}

IMPL(bitwise_not) {
    sft_tensor *x = c->a[0].u.t;
    if (x->dtype == SFT_bool) return sft_ret(c, DO(logical_not, x));
    if (sft_is_float(x->dtype))
        return sft_fail(SFT_ERR_ARGUMENT, "bitwise_not: needs integers or bool, got %s",
                        sft_dtype_name((sft_dtype)x->dtype));
    sft_kcall k = {0};
    return sft_elementwise(c, c->a, 1, (sft_dtype)x->dtype, (sft_dtype)x->dtype, &k);
}

IMPL(logit) {
    sft_kcall k = {.f = {ARG_NONE(1) ? -1.0 : ARG_F(1)}};
    sft_dtype d = sft_to_float((sft_dtype)c->a[0].u.t->dtype);
    return sft_elementwise(c, c->a, 1, d, d, &k);
}

IMPL(nan_to_num) {
    sft_tensor *x = c->a[0].u.t;
    double top = x->dtype == SFT_float64   ? 1.7976931348623157e308
                 : x->dtype == SFT_float16 ? 65504
                 : x->dtype == SFT_bfloat16 ? 3.3895313892515355e38
                                            : 3.4028234663852886e38;
    sft_kcall k = {.f = {ARG_NONE(1) ? 0 : ARG_F(1), ARG_NONE(2) ? top : ARG_F(2),
                         ARG_NONE(3) ? -top : ARG_F(3)}};
    return sft_elementwise(c, c->a, 1, (sft_dtype)x->dtype, (sft_dtype)x->dtype, &k);
}

/* ---- gradients ------------------------------------------------------------------------------- */

GRAD(zero) { SET(0, DO(zeros_like, G)); }
GRAD(identity) { SET(0, G); }
GRAD(neg) { SET(0, DO(neg, G)); }
GRAD(abs) { SET(0, DO(mul, G, DO(sign, IN(0)))); }
GRAD(exp) { SET(0, DO(mul, G, OUT(0))); }
GRAD(exp2) { SET(0, DO(mul, DO(mul, G, OUT(0)), 0.69314718055994530942)); }
GRAD(expm1) { SET(0, DO(mul, G, DO(add, OUT(0), 1))); }
GRAD(log) { SET(0, DO(div, G, IN(0))); }
GRAD(log2) { SET(0, DO(div, G, DO(mul, IN(0), 0.69314718055994530942))); }
GRAD(log10) { SET(0, DO(div, G, DO(mul, IN(0), 2.30258509299404568402))); }
GRAD(log1p) { SET(0, DO(div, G, DO(add, IN(0), 1))); }
GRAD(sqrt) { SET(0, DO(div, G, DO(mul, OUT(0), 2))); }
GRAD(rsqrt) { SET(0, DO(mul, DO(mul, G, DO(pow, OUT(0), 3)), -0.5)); }
GRAD(reciprocal) { SET(0, DO(neg, DO(mul, G, DO(mul, OUT(0), OUT(0))))); }
GRAD(sin) { SET(0, DO(mul, G, DO(cos, IN(0)))); }
GRAD(cos) { SET(0, DO(neg, DO(mul, G, DO(sin, IN(0))))); }
GRAD(tan) { SET(0, DO(mul, G, DO(add, DO(mul, OUT(0), OUT(0)), 1))); }
/* 1 - x^2 and the like */
static sft_tensor *one_minus_square(sft_tensor *x) { return DO(sub, 1, DO(mul, x, x)); }
static sft_tensor *one_plus_square(sft_tensor *x) { return DO(add, DO(mul, x, x), 1); }
GRAD(asin) { SET(0, DO(mul, G, DO(rsqrt, one_minus_square(IN(0))))); }
GRAD(acos) { SET(0, DO(neg, DO(mul, G, DO(rsqrt, one_minus_square(IN(0)))))); }
GRAD(atan) { SET(0, DO(div, G, one_plus_square(IN(0)))); }
GRAD(sinh) { SET(0, DO(mul, G, DO(cosh, IN(0)))); }
GRAD(cosh) { SET(0, DO(mul, G, DO(sinh, IN(0)))); }
GRAD(tanh) { SET(0, DO(_tanh_backward, G, OUT(0))); }
GRAD(asinh) { SET(0, DO(mul, G, DO(rsqrt, one_plus_square(IN(0))))); }
GRAD(acosh) { SET(0, DO(mul, G, DO(rsqrt, DO(sub, DO(mul, IN(0), IN(0)), 1)))); }
GRAD(atanh) { SET(0, DO(div, G, one_minus_square(IN(0)))); }
/* exp(-x^2) * 2 / sqrt(pi) */
static sft_tensor *erf_slope(sft_tensor *x) {
    return DO(mul, DO(exp, DO(neg, DO(mul, x, x))), 1.12837916709551257390);
}
GRAD(erf) { SET(0, DO(mul, G, erf_slope(IN(0)))); }
GRAD(erfc) { SET(0, DO(neg, DO(mul, G, erf_slope(IN(0))))); }
GRAD(erfinv) {
    sft_tensor *y = OUT(0);
    SET(0, DO(mul, DO(mul, G, DO(exp, DO(mul, y, y))), 0.88622692545275801365));
}
GRAD(lgamma) { SET(0, DO(mul, G, DO(digamma, IN(0)))); }
GRAD(sigmoid) { SET(0, DO(_sigmoid_backward, G, OUT(0))); }
GRAD(deg2rad) { SET(0, DO(deg2rad, G)); }
GRAD(rad2deg) { SET(0, DO(rad2deg, G)); }
GRAD(nan_to_num) { SET(0, DO(where, DO(isfinite, IN(0)), G, 0)); }
GRAD(logit) {
    sft_tensor *x = IN(0), *d = DO(div, G, DO(mul, x, DO(sub, 1, x)));
    if (b->a[1].kind == SFT_V_NONE) {
        SET(0, DO(where, DO(logical_or, DO(lt, x, 0), DO(gt, x, 1)), __builtin_nan(""), d));
    } else {
        double eps = NUM(1);
        SET(0, DO(where, DO(logical_or, DO(lt, x, eps), DO(gt, x, 1 - eps)), 0, d));
    }
}
