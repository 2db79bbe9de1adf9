/* creation.c: tensors from sizes and numbers. */
#include "elementwise.h"

static sft_dtype dtype_or(const sft_value *v, sft_dtype other) {
    return v->kind == SFT_V_NONE ? other : v->u.dtype;
}
static sft_device device_or(const sft_value *v, sft_device other) {
    sft_device d = v->kind == SFT_V_NONE ? other : v->u.device;
    if (d.index < 0) d.index = 0;
    return d;
}

/* The end of every creation: requires_grad where it was asked for. */
static sft_status finish(sft_opctx *c, sft_tensor *t, const sft_value *requires_grad) {
    if (t && requires_grad->u.b && sft_set_requires_grad(t, true) != SFT_OK) {
        sft_release(t);
        return sft_last_status();
    }
    return sft_give(c, t);
}

static const sft_device CPU0 = {SFT_CPU, 0};

IMPL(empty) {
    sft_tensor *t = sft_empty(c->a[0].u.ints, c->a[0].n, dtype_or(&c->a[1], sft_default_dtype()),
                              device_or(&c->a[2], CPU0));
    return finish(c, t, &c->a[3]);
}

/* zeros, ones */
IMPL(full) {
    sft_tensor *t = sft_empty(c->a[0].u.ints, c->a[0].n, dtype_or(&c->a[1], sft_default_dtype()),
                              device_or(&c->a[2], CPU0));
    if (t && sft_fill_raw(t, sft_v_int(c->op == SFT_OP_ones)) != SFT_OK) {
        sft_release(t);
        return sft_last_status();
    }
    return finish(c, t, &c->a[3]);
}

/* zeros_like, ones_like */
IMPL(full_like) {
    sft_tensor *x = c->a[0].u.t;
    sft_dtype dtype = dtype_or(&c->a[1], (sft_dtype)x->dtype);
    sft_device dev = device_or(&c->a[2], x->device);
    bool same = dev.type == x->device.type && dev.index == x->device.index;
    sft_tensor *t = same ? sft_empty_like_(x, dtype) : sft_empty(x->shape, x->ndim, dtype, dev);
    if (t && sft_fill_raw(t, sft_v_int(c->op == SFT_OP_ones_like)) != SFT_OK) {
        sft_release(t);
        return sft_last_status();
    }
    return finish(c, t, &c->a[3]);
}
