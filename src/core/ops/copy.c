/* copy.c: copies, fills, conversions. */
#include "elementwise.h"

/* dst (or a fresh tensor like self) = src, broadcast to self's shape. */
IMPL(copy) {
    sft_tensor *self = c->a[0].u.t, *src = c->a[1].u.t;
    sft_tensor *out = c->dst ? sft_retain(c->dst) : sft_empty_like_(self, (sft_dtype)self->dtype);
    if (!out) return sft_last_status();
    int64_t shape[SFT_MAX_DIMS];
    sft_value both[2] = {sft_v_tensor(out), sft_v_tensor(src)};
    int n = sft_broadcast_shape(both, 2, shape);
    if (n != out->ndim || memcmp(shape, out->shape, 8 * (size_t)n) != 0) {
        if (n >= 0)
            sft_fail(SFT_ERR_ARGUMENT, "copy_: a tensor of shape %s can't be broadcast to shape %s",
                     SFT_SHAPE(src), SFT_SHAPE(out));
        else
            sft_error_prefix("copy_");
        sft_release(out);
        return sft_last_status();
    }
    sft_tensor *tmp = NULL;
    if (sft_partial_overlap(out, src)) {
        tmp = DO(clone, src);
        if (!tmp) {
            sft_release(out);
            return sft_last_status();
        }
        src = tmp;
    }
    sft_status st = sft_copy_raw(out, src);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
GRAD(copy) {
    if (NEED(0)) SET(0, DO(zeros_like, G));
    if (NEED(1)) SET(1, G);
}

IMPL(fill) {
    sft_tensor *self = c->a[0].u.t;
    if (c->a[1].kind == SFT_V_TENSOR && c->a[1].u.t->ndim != 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "fill_: 'value' must be a number or a 0-dim tensor, got shape %s",
                        SFT_SHAPE(c->a[1].u.t));
    sft_tensor *out = c->dst ? sft_retain(c->dst) : sft_empty_like_(self, (sft_dtype)self->dtype);
    if (!out) return sft_last_status();
    sft_status st = c->a[1].kind == SFT_V_TENSOR ? sft_copy_raw(out, c->a[1].u.t)
                                                 : sft_fill_raw(out, c->a[1]);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
GRAD(fill) {
    if (NEED(0)) SET(0, DO(zeros_like, G));
    if (NEED(1)) SET(1, DO(sum, G));
}

IMPL(zero) {
    sft_tensor *self = c->a[0].u.t;
    sft_tensor *out = c->dst ? sft_retain(c->dst) : sft_empty_like_(self, (sft_dtype)self->dtype);
    if (!out) return sft_last_status();
    sft_status st = sft_fill_raw(out, sft_v_int(0));
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

IMPL(clone) {
    sft_tensor *out = sft_empty_like_(c->a[0].u.t, (sft_dtype)c->a[0].u.t->dtype);
    if (!out) return sft_last_status();
    sft_status st = sft_copy_raw(out, c->a[0].u.t);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

/* Recorded as a copy into a tensor of the wanted kind, whose rule is the identity. */
IMPL(to) {
    sft_tensor *x = c->a[0].u.t;
    sft_dtype dtype = ARG_NONE(2) ? (sft_dtype)x->dtype : c->a[2].u.dtype;
    sft_device dev = ARG_NONE(1) ? x->device : c->a[1].u.device;
    if (dev.type == SFT_CPU) dev.index = 0;
    bool same = dtype == x->dtype && dev.type == x->device.type &&
                (dev.index < 0 || dev.index == x->device.index);
    if (same && !ARG_B(4)) return sft_ret(c, x);
    if (same) return sft_ret(c, DO(clone, x));
    bool dense = sft_is_dense(x) && !x->contiguous;
    sft_tensor *out = dense && dev.type == x->device.type ? sft_empty_like_(x, dtype)
                                                          : sft_empty(x->shape, x->ndim, dtype, dev);
    if (!out) return sft_last_status();
    return sft_ret(c, DO_(copy, sft_temp(out), x));
}

IMPL(contiguous) {
    sft_tensor *x = c->a[0].u.t;
    if (x->contiguous) return sft_ret(c, x);
    sft_tensor *out = sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device);
    if (!out) return sft_last_status();
    return sft_ret(c, DO_(copy, sft_temp(out), x));
}
