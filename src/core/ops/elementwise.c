/* elementwise.c: unary and binary elementwise ops, and their gradient rules. */
#include "elementwise.h"

/* Where the result goes: dst, checked, or a new tensor laid out like the inputs. */
static sft_tensor *result_for(sft_opctx *c, const sft_value *ins, int nin, sft_dtype result) {
    int64_t shape[SFT_MAX_DIMS];
    sft_tensor *same = NULL; /* an input that has the whole shape */
    int ndim;
    if (nin == 1 || ins[1].kind != SFT_V_TENSOR) {
        if (ins[0].kind == SFT_V_TENSOR && nin <= 2) same = ins[0].u.t;
    } else if (nin == 2 && ins[0].kind == SFT_V_TENSOR && ins[0].u.t->ndim == ins[1].u.t->ndim &&
               !memcmp(ins[0].u.t->shape, ins[1].u.t->shape, 8 * (size_t)ins[0].u.t->ndim)) {
        same = ins[0].u.t;
    }
    if (same) {
        ndim = same->ndim;
    } else {
        ndim = sft_broadcast_shape(ins, nin, shape);
        if (ndim < 0) {
            sft_error_prefix(c->info->name);
            return NULL;
        }
    }
    const int64_t *sizes = same ? same->shape : shape;
    sft_tensor *dst = c->dst;
    if (dst) {
        if (dst->ndim != ndim || memcmp(dst->shape, sizes, 8 * (size_t)ndim) != 0) {
            sft_fail(SFT_ERR_ARGUMENT,
                     "%s: the result has shape %s, which does not fit into the output of shape %s",
                     c->info->name, sft_shape_text(sizes, ndim, (char[160]){0}, 160), SFT_SHAPE(dst));
            return NULL;
        }
        if (!sft_can_cast(result, dst->dtype)) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: result type %s can't be cast to the output type %s",
                     c->info->name, sft_dtype_name(result), sft_dtype_name((sft_dtype)dst->dtype));
            return NULL;
        }
        for (int i = 0; i < nin; i++)
            if (ins[i].kind == SFT_V_TENSOR && sft_partial_overlap(dst, ins[i].u.t)) {
                sft_fail(SFT_ERR_ARGUMENT,
                         "%s: the output and an input share part of their memory; call x:clone() on "
                         "one of them first",
                         c->info->name);
                return NULL;
            }
        return sft_retain(dst);
    }
    sft_device dev = {SFT_CPU, 0};
    for (int i = 0; i < nin; i++)
        if (ins[i].kind == SFT_V_TENSOR && (dev.type == SFT_CPU || ins[i].u.t->ndim))
            dev = ins[i].u.t->device;
    for (int i = 0; i < nin && !same; i++)
        if (ins[i].kind == SFT_V_TENSOR && ins[i].u.t->ndim == ndim &&
            !memcmp(ins[i].u.t->shape, shape, 8 * (size_t)ndim))
            same = ins[i].u.t;
    if (same && !same->contiguous && same->device.type == dev.type) return sft_empty_like_(same, result);
    return sft_empty(sizes, ndim, result, dev);
}

sft_status sft_elementwise(sft_opctx *c, const sft_value *ins, int nin, sft_dtype common,
                           sft_dtype result, sft_kcall *k) {
    sft_tensor *out = result_for(c, ins, nin, result);
    if (!out) return sft_last_status();
    sft_status st = SFT_OK;
    if (out->numel) {
        sft_iter it;
        sft_tensor *ts[SFT_MAX_OPERANDS] = {out};
        sft_iter_build(&it, &out, 1, ins, nin);
        k->op = c->op;
        k->nt = 1;
        k->t = ts;
        for (int i = 0; i < nin; i++)
            if (ins[i].kind == SFT_V_TENSOR) ts[k->nt++] = ins[i].u.t;
        k->iter = &it;
        k->ctype = common == SFT_float64 ? SFT_float64
                   : sft_is_float(common) ? SFT_float32
                                          : SFT_int64;
        st = sft_run_kernel(k, out->device);
    }
    if (st != SFT_OK) {
        sft_release(out);
        return st;
    }
    return sft_give(c, out);
}

/* ---- one input ------------------------------------------------------------------------------- */

IMPL(unary) {
    sft_kcall k = {0};
    sft_dtype in = (sft_dtype)c->a[0].u.t->dtype, common = in, result = in;
    switch (c->info->dtypes[0]) {
    case 'f': common = result = sft_to_float(in); break; /* float */
    case 'c': result = SFT_bool; break;                  /* cmp */
    default: break;
    }
    return sft_elementwise(c, c->a, 1, common, result, &k);
}

IMPL(square) { return sft_ret(c, DO(mul, c->a[0], c->a[0])); }

GRAD(zero) { SET(0, DO(zeros_like, G)); }
GRAD(identity) { SET(0, G); }
GRAD(neg) { SET(0, DO(neg, G)); }
GRAD(abs) { SET(0, DO(mul, G, DO(sign, IN(0)))); }
GRAD(exp) { SET(0, DO(mul, G, OUT(0))); }
GRAD(log) { SET(0, DO(div, G, IN(0))); }
GRAD(sqrt) { SET(0, DO(div, G, DO(mul, OUT(0), 2))); }
GRAD(tanh) { SET(0, DO(mul, G, DO(sub, 1, DO(mul, OUT(0), OUT(0))))); }
GRAD(sigmoid) {
    sft_tensor *y = OUT(0);
    SET(0, DO(mul, G, DO(mul, y, DO(sub, 1, y))));
}
GRAD(relu) { SET(0, DO(mul, G, DO(gt, OUT(0), 0))); }

/* ---- two inputs ------------------------------------------------------------------------------ */

IMPL(binary) {
    sft_kcall k = {0};
    sft_dtype common = sft_result_type(c->a, 2), result = common;
    switch (c->info->dtypes[0]) {
    case 'f': common = result = sft_to_float(common); break;
    case 'c': result = SFT_bool; break;
    default: break;
    }
    return sft_elementwise(c, c->a, 2, common, result, &k);
}

static double number(const sft_value *v) {
    return v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_BOOL ? v->u.b : (double)v->u.i;
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
    sft_kcall k = {.f = {number(alpha)}, .i = {alpha->kind == SFT_V_INT ? alpha->u.i : (int64_t)number(alpha)}};
    return sft_elementwise(c, c->a, 2, common, common, &k);
}

static sft_tensor *scaled(sft_tensor *g, sft_value alpha) {
    return number(&alpha) == 1 ? g : DO(mul, g, alpha);
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

IMPL(div) {
    if (!ARG_NONE(2)) return sft_fail(SFT_ERR_UNSUPPORTED, "div: rounding_mode");
    return sft_impl_binary(c);
}
GRAD(div) {
    if (NEED(0)) SET(0, DO(div, G, VAL(1)));
    if (NEED(1)) SET(1, DO(neg, DO(div, DO(mul, G, VAL(0)), DO(mul, VAL(1), VAL(1)))));
}
