/* elementwise.c: from checked arguments to an elementwise kernel: the result's shape and place. */
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
