/* binary.c: elementwise functions of two inputs, and their gradients. */
#include "elementwise.h"

IMPL(binary) {
    sft_kcall k = {0};
    sft_dtype common = sft_result_type(c->a, 2), result = common;
    switch (c->info->dtypes[0]) {
    case 'f': common = result = sft_to_float(common); break;
    case 'c': result = SFT_bool; break;
    case 'r':
        if (!sft_is_float(common)) return sft_need_float(c, common);
        break;
    default: break;
    }
    return sft_elementwise(c, c->a, 2, common, result, &k);
}

/* self +- alpha * other */
IMPL(add) {
    sft_dtype common = sft_result_type(c->a, 2);
    const sft_value *alpha = &c->a[2];
    if (alpha->kind == SFT_V_FLOAT && !sft_is_float(common))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: 'alpha' must be an integer for integer tensors, got %g", c->info->name,
                        alpha->u.f);
    if (c->op == SFT_OP_sub && common == SFT_bool)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "sub: not defined for bool tensors; use x:logical_xor(y) or x:logical_not()");
    sft_kcall k = {.f = {sft_number(alpha)}, .i = {sft_integer(alpha)}};
    return sft_elementwise(c, c->a, 2, common, common, &k);
}
IMPL(rsub) {
    sft_value alpha = c->a[2];
    bool one = sft_number(&alpha) == 1;
    if (one) return sft_ret(c, DO(sub, c->a[1], c->a[0]));
    return sft_ret(c, DO(sub, c->a[1], DO(mul, c->a[0], alpha)));
}

static sft_tensor *scaled(sft_tensor *g, sft_value alpha) {
    return sft_number(&alpha) == 1 ? g : DO(mul, g, alpha);
}
GRAD(add) {
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, scaled(G, VAL(2)));
}
GRAD(sub) {
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, DO(neg, scaled(G, VAL(2))));
}
GRAD(mul) {
    if (NEED(0)) SET(0, DO(mul, G, VAL(1)));
    if (NEED(1)) SET(1, DO(mul, G, VAL(0)));
}

/* ---- division -------------------------------------------------------------------------------- */

/* Integers have no infinity: a zero divisor is an error, found before anything is written. */
static sft_status check_divisor(sft_opctx *c, sft_dtype common) {
    if (sft_is_float(common)) return SFT_OK;
    bool zero;
    if (c->a[1].kind == SFT_V_TENSOR) {
        sft_value any;
        sft_tensor *hit = DO(sum, DO(eq, c->a[1], 0));
        if (!hit) return sft_last_status();
        SFT_TRY(sft_item(hit, &any));
        zero = any.u.i != 0;
    } else {
        zero = sft_number(&c->a[1]) == 0;
    }
    if (!zero) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: division of integers by zero; convert to float first",
                    c->info->name);
}

IMPL(div) {
    sft_dtype common = sft_result_type(c->a, 2);
    sft_kcall k = {0};
    if (ARG_NONE(2)) {
        common = sft_to_float(common);
        return sft_elementwise(c, c->a, 2, common, common, &k);
    }
    const char *mode = c->a[2].u.s;
    if (strcmp(mode, "trunc") && strcmp(mode, "floor"))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "div: 'rounding_mode' must be nil, 'trunc' or 'floor', got '%.20s'", mode);
    SFT_TRY(check_divisor(c, common));
    k.i[0] = mode[0] == 't' ? 1 : 2;
    return sft_elementwise(c, c->a, 2, common, common, &k);
}
GRAD(div) {
    if (b->a[2].kind != SFT_V_NONE) {
        if (NEED(0)) SET(0, DO(zeros_like, G));
        if (NEED(1)) SET(1, DO(zeros_like, G));
        return;
    }
    if (NEED(0)) SET(0, DO(div, G, VAL(1)));
    if (NEED(1)) SET(1, DO(neg, DO(div, DO(mul, G, VAL(0)), DO(mul, VAL(1), VAL(1)))));
}

/* floor_divide, remainder, fmod */
IMPL(int_div) {
    sft_dtype common = sft_result_type(c->a, 2);
    if (common == SFT_bool && c->op != SFT_OP_floor_divide)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: not defined for bool tensors", c->info->name);
    SFT_TRY(check_divisor(c, common));
    sft_kcall k = {0};
    return sft_elementwise(c, c->a, 2, common, common, &k);
}
GRAD(zero2) {
    if (NEED(0)) SET(0, DO(zeros_like, G));
    if (NEED(1)) SET(1, DO(zeros_like, G));
}
GRAD(remainder) {
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, DO(neg, DO(mul, G, DO(div, VAL(0), VAL(1), "floor"))));
}
GRAD(fmod) {
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, DO(neg, DO(mul, G, DO(div, VAL(0), VAL(1), "trunc"))));
}

/* ---- powers ---------------------------------------------------------------------------------- */

IMPL(pow) {
    sft_dtype common = sft_result_type(c->a, 2);
    const sft_value *e = &c->a[1];
    if (e->kind != SFT_V_TENSOR && !sft_is_float(common) && sft_number(e) < 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "pow: integers to negative integer powers are not allowed; convert to float");
    sft_kcall k = {.f = {e->kind == SFT_V_TENSOR ? -1 : sft_number(e)}};
    return sft_elementwise(c, c->a, 2, common, common, &k);
}
IMPL(float_power) {
    sft_value v[2] = {c->a[0], c->a[1]};
    for (int i = 0; i < 2; i++)
        if (v[i].kind == SFT_V_TENSOR)
            v[i] = sft_v_tensor(DO(to, v[i], sft_v_none(), sft_v_dtype(SFT_float64)));
    return sft_ret(c, DO(to, DO(pow, v[0], v[1]), sft_v_none(), sft_v_dtype(SFT_float64)));
}
GRAD(pow) {
    sft_value x = VAL(0), e = VAL(1);
    if (NEED(0)) {
        if (e.kind != SFT_V_TENSOR) {
            double n = sft_number(&e);
            if (n == 0)
                SET(0, DO(zeros_like, G));
            else if (n == 1)
                SET(0, G);
            else if (n == 2)
                SET(0, DO(mul, G, DO(mul, x, 2)));
            else
                SET(0, DO(mul, G, DO(mul, DO(pow, x, n - 1), n)));
        } else {
            sft_tensor *d = DO(mul, G, DO(mul, e, DO(pow, x, DO(sub, e, 1))));
            SET(0, DO(where, DO(eq, e, 0), 0, d));
        }
    }
    if (NEED(1)) {
        /* 0^e has slope 0 in e for e >= 0, though log(0) is -inf. */
        sft_tensor *d = DO(mul, G, DO(mul, OUT(0), DO(log, x.kind == SFT_V_TENSOR
                                                             ? x
                                                             : sft_v_tensor(DO(mul, DO(ones_like, e), x)))));
        if (x.kind == SFT_V_TENSOR)
            SET(1, DO(where, DO(logical_and, DO(eq, x, 0), DO(ge, e, 0)), 0, d));
        else
            SET(1, sft_number(&x) == 0 ? DO(where, DO(ge, e, 0), 0, d) : d);
    }
}

/* ---- extrema --------------------------------------------------------------------------------- */

/* Where both are equal, each gets half. */
static void extremum(sft_bw *b, sft_tensor *first, sft_tensor *second) {
    sft_tensor *tie = DO(eq, IN(0), IN(1)), *half = DO(div, G, 2);
    if (NEED(0)) SET(0, DO(where, tie, half, DO(where, first, G, 0)));
    if (NEED(1)) SET(1, DO(where, tie, half, DO(where, second, G, 0)));
}
/* NaN goes to whom it came from: a comparison with NaN is false. */
GRAD(maximum) { extremum(b, DO(ge, IN(0), IN(1)), DO(lt, IN(0), IN(1))); }
GRAD(minimum) { extremum(b, DO(le, IN(0), IN(1)), DO(gt, IN(0), IN(1))); }
static void numeric_extremum(sft_bw *b, sft_tensor *self_wins) {
    sft_tensor *first = DO(logical_or, self_wins, DO(isnan, IN(1)));
    if (NEED(0)) SET(0, DO(where, first, G, 0));
    if (NEED(1)) SET(1, DO(where, first, 0, G));
}
GRAD(fmax) { numeric_extremum(b, DO(ge, IN(0), IN(1))); }
GRAD(fmin) { numeric_extremum(b, DO(le, IN(0), IN(1))); }

/* ---- geometry and logarithms ------------------------------------------------------------------- */

GRAD(atan2) {
    sft_value y = VAL(0), x = VAL(1);
    sft_tensor *r = DO(div, G, DO(add, DO(mul, y, y), DO(mul, x, x)));
    if (NEED(0)) SET(0, DO(mul, r, x));
    if (NEED(1)) SET(1, DO(neg, DO(mul, r, y)));
}
GRAD(hypot) {
    if (NEED(0)) SET(0, DO(mul, G, DO(div, VAL(0), OUT(0))));
    if (NEED(1)) SET(1, DO(mul, G, DO(div, VAL(1), OUT(0))));
}
GRAD(copysign) {
    if (NEED(0)) {
        sft_tensor *x = IN(0), *one = DO(copysign, DO(ones_like, x), VAL(1));
        SET(0, DO(mul, G, DO(mul, one, DO(sign, x))));
    }
    if (NEED(1)) SET(1, DO(zeros_like, G));
}
GRAD(xlogy) {
    sft_value x = VAL(0), y = VAL(1);
    if (NEED(0)) {
        sft_tensor *log = DO(log, y.kind == SFT_V_TENSOR ? y
                                                         : sft_v_tensor(DO(mul, DO(ones_like, x), y)));
        SET(0, DO(where, DO(logical_and, DO(eq, x, 0), DO(le, sft_v_tensor(DO(mul, DO(ones_like, x), y)), 0)),
                  0, DO(mul, G, log)));
    }
    if (NEED(1)) SET(1, DO(mul, G, DO(div, x, y)));
}
IMPL(logaddexp) {
    sft_tensor *a = c->a[0].u.t, *z = c->a[1].u.t, *top = DO(detach, DO(maximum, a, z));
    /* Infinite maxima must not give inf - inf. */
    top = DO(where, DO(isinf, top), 0, top);
    return sft_ret(c, DO(add, DO(log, DO(add, DO(exp, DO(sub, a, top)), DO(exp, DO(sub, z, top)))), top));
}
IMPL(logaddexp2) {
    sft_tensor *a = c->a[0].u.t, *z = c->a[1].u.t, *top = DO(detach, DO(maximum, a, z));
    top = DO(where, DO(isinf, top), 0, top);
    return sft_ret(c,
                   DO(add, DO(log2, DO(add, DO(exp2, DO(sub, a, top)), DO(exp2, DO(sub, z, top)))), top));
}

/* ---- integers -------------------------------------------------------------------------------- */

IMPL(bits) {
    sft_dtype common = sft_result_type(c->a, 2);
    if (sft_is_float(common))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: needs integers or bool, got %s", c->info->name,
                        sft_dtype_name(common));
    sft_kcall k = {0};
    return sft_elementwise(c, c->a, 2, common, common, &k);
}
