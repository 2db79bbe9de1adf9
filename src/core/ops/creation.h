/* creation.h: what ops that make new tensors share. */
#ifndef SFT_OPS_CREATION_H
#define SFT_OPS_CREATION_H

#include "elementwise.h"

static const sft_device SFT_CPU0 = {SFT_CPU, 0};

static inline sft_dtype sft_dtype_or(const sft_value *v, sft_dtype other) {
    return v->kind == SFT_V_NONE ? other : v->u.dtype;
}
static inline sft_device sft_device_or(const sft_value *v, sft_device other) {
    sft_device d = v->kind == SFT_V_NONE ? other : v->u.device;
    if (d.index < 0) d.index = 0;
    return d;
}

/* The end of every creation: t (borrowed or temp) becomes the result, with requires_grad where it
 * was asked for. */
static inline sft_status sft_created(sft_opctx *c, sft_tensor *t, const sft_value *requires_grad) {
    if (t && requires_grad->kind == SFT_V_BOOL && requires_grad->u.b)
        SFT_TRY(sft_set_requires_grad(t, true));
    return sft_ret(c, t);
}

#endif
