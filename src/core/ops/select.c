/* select.c: where, clamp, lerp and the fused multiply-adds: elementwise ops of up to three inputs. */
#include "elementwise.h"

IMPL(where) {
    sft_tensor *cond = c->a[0].u.t;
    if (cond->dtype != SFT_bool && cond->dtype != SFT_uint8)
        return sft_fail(SFT_ERR_ARGUMENT, "where: 'condition' must be a bool tensor, got %s; use x:ne(0)",
                        sft_dtype_name((sft_dtype)cond->dtype));
    sft_dtype common = sft_result_type(c->a + 1, 2);
    sft_kcall k = {0};
    return sft_elementwise(c, c->a, 3, common, common, &k);
}
GRAD(where) {
    if (NEED(1)) SET(1, DO(where, IN(0), G, 0));
    if (NEED(2)) SET(2, DO(where, IN(0), 0, G));
}
IMPL(where_method) { return sft_ret(c, DO(where, c->a[1], c->a[0], c->a[2])); }

/* ---- clamp ------------------------------------------------------------------------------------- */

static const double INF = __builtin_inf();

static sft_status no_bounds(sft_opctx *c) {
    return sft_fail(SFT_ERR_ARGUMENT, "%s: at least one of 'min' and 'max' must be given", c->info->name);
}

IMPL(clamp) {
    if (ARG_NONE(1) && ARG_NONE(2)) return no_bounds(c);
    const sft_value *lo = &c->a[1], *hi = &c->a[2];
    sft_value v[3] = {c->a[0], *lo, *hi};
    sft_dtype common = sft_result_type(v, 3);
    sft_kcall k = {.f = {ARG_NONE(1) ? -INF : sft_number(lo), ARG_NONE(2) ? INF : sft_number(hi)},
                   .i = {ARG_NONE(1) ? INT64_MIN : sft_integer(lo),
                         ARG_NONE(2) ? INT64_MAX : sft_integer(hi)}};
    return sft_elementwise(c, c->a, 1, common, common, &k);
}
GRAD(clamp) {
    sft_tensor *x = IN(0), *inside = NULL;
    if (b->a[1].kind != SFT_V_NONE) inside = DO(ge, x, VAL(1));
    if (b->a[2].kind != SFT_V_NONE) {
        sft_tensor *below = DO(le, x, VAL(2));
        inside = inside ? DO(logical_and, inside, below) : below;
    }
    SET(0, DO(where, inside, G, 0));
}
/* With tensors as bounds: their gradients are those of maximum and minimum, but a tie is x's. */
IMPL(clamp_tensor) {
    if (ARG_NONE(1) && ARG_NONE(2)) return no_bounds(c);
    sft_value v[3] = {c->a[0], c->a[1], c->a[2]};
    sft_dtype common = sft_result_type(v, 3);
    sft_tensor *x = DO(to, c->a[0], sft_v_none(), sft_v_dtype(common));
    /* NaN in x or a bound is NaN in the result. */
    if (!ARG_NONE(1)) {
        sft_tensor *keep = DO(logical_not, DO(lt, x, c->a[1]));
        if (c->a[1].kind == SFT_V_TENSOR && sft_is_float(c->a[1].u.t->dtype))
            keep = DO(logical_and, keep, DO(logical_not, DO(isnan, c->a[1])));
        x = DO(where, keep, x, c->a[1]);
    }
    if (!ARG_NONE(2)) {
        sft_tensor *keep = DO(logical_not, DO(gt, x, c->a[2]));
        if (c->a[2].kind == SFT_V_TENSOR && sft_is_float(c->a[2].u.t->dtype))
            keep = DO(logical_and, keep, DO(logical_not, DO(isnan, c->a[2])));
        x = DO(where, keep, x, c->a[2]);
    }
    return sft_ret(c, DO(to, x, sft_v_none(), sft_v_dtype(common)));
}
IMPL(clamp_min) {
    if (c->a[1].kind == SFT_V_TENSOR) return sft_ret(c, DO(maximum, c->a[0], c->a[1]));
    return sft_ret(c, DO(clamp, c->a[0], c->a[1]));
}
IMPL(clamp_max) {
    if (c->a[1].kind == SFT_V_TENSOR) return sft_ret(c, DO(minimum, c->a[0], c->a[1]));
    return sft_ret(c, DO(clamp, c->a[0], sft_v_none(), c->a[1]));
}

/* ---- lerp, addcmul, addcdiv ---------------------------------------------------------------------- */

IMPL(lerp) {
    sft_tensor *a = c->a[0].u.t, *e = c->a[1].u.t;
    if (!sft_is_float(a->dtype)) return sft_need_float(c, (sft_dtype)a->dtype);
    if (a->dtype != e->dtype ||
        (c->a[2].kind == SFT_V_TENSOR && c->a[2].u.t->dtype != a->dtype))
        return sft_fail(SFT_ERR_ARGUMENT, "lerp: all tensors must have one dtype, got %s and %s",
                        sft_dtype_name((sft_dtype)a->dtype),
                        sft_dtype_name((sft_dtype)(a->dtype != e->dtype ? e->dtype : c->a[2].u.t->dtype)));
    sft_kcall k = {0};
    return sft_elementwise(c, c->a, 3, (sft_dtype)a->dtype, (sft_dtype)a->dtype, &k);
}
GRAD(lerp) {
    sft_value w = VAL(2);
    if (NEED(0)) SET(0, DO(sub, G, DO(mul, G, w)));
    if (NEED(1)) SET(1, DO(mul, G, w));
    if (NEED(2)) SET(2, DO(mul, G, DO(sub, IN(1), IN(0))));
}

IMPL(addc) {
    sft_dtype common = sft_result_type(c->a, 3);
    const sft_value *v = &c->a[3];
    if (c->op == SFT_OP_addcdiv && !sft_is_float(common))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "addcdiv: integer division is not supported; convert to float first");
    sft_kcall k = {.f = {sft_number(v)}, .i = {sft_integer(v)}};
    return sft_elementwise(c, c->a, 3, common, common, &k);
}
static sft_tensor *times(sft_tensor *g, sft_value v) { return sft_number(&v) == 1 ? g : DO(mul, g, v); }
GRAD(addcmul) {
    sft_tensor *g = times(G, VAL(3));
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, DO(mul, g, IN(2)));
    if (NEED(2)) SET(2, DO(mul, g, IN(1)));
}
GRAD(addcdiv) {
    sft_tensor *g = times(G, VAL(3));
    if (NEED(0)) SET(0, G);
    if (NEED(1)) SET(1, DO(div, g, IN(2)));
    if (NEED(2)) SET(2, DO(neg, DO(div, DO(mul, g, IN(1)), DO(mul, IN(2), IN(2)))));
}
