/* iter.c: the index space of an elementwise call. Broadcasts operands against the outputs, orders
 * the dims by memory and merges what can be merged, so that kernels see few, long dims. */
#include "core.h"

int sft_broadcast_shape(const sft_value *values, int n, int64_t *shape) {
    int ndim = 0;
    for (int i = 0; i < n; i++)
        if (values[i].kind == SFT_V_TENSOR && values[i].u.t->ndim > ndim) ndim = values[i].u.t->ndim;
    for (int d = 0; d < ndim; d++) shape[d] = 1;
    const sft_tensor *before = NULL;
    for (int i = 0; i < n; i++) {
        if (values[i].kind != SFT_V_TENSOR) continue;
        const sft_tensor *t = values[i].u.t;
        int shift = ndim - t->ndim;
        for (int d = 0; d < t->ndim; d++) {
            int64_t have = shape[d + shift], size = t->shape[d];
            if (size == have || size == 1) continue;
            if (have != 1) {
                int b = sft_thread()->index_base;
                sft_fail(SFT_ERR_ARGUMENT,
                         "shapes %s and %s can't be broadcast: sizes %lld and %lld differ at dim %d "
                         "(counted from the end: %d)",
                         before ? SFT_SHAPE(before) : "[]", SFT_SHAPE(t), (long long)have,
                         (long long)size, d + shift + b, d + shift - ndim);
                return -1;
            }
            shape[d + shift] = size;
        }
        if (!before || before->ndim <= t->ndim) before = t;
    }
    return ndim;
}

static void set_operand(sft_iter *it, int i, const sft_value *v) {
    sft_operand *o = &it->op[i];
    if (v->kind == SFT_V_TENSOR) {
        const sft_tensor *t = v->u.t;
        o->data = t->data;
        o->dtype = t->dtype;
        o->is_scalar = false;
        int64_t es = (int64_t)sft_esize(t);
        int shift = it->ndim - t->ndim;
        for (int d = 0; d < it->ndim; d++) {
            int e = d - shift;
            o->stride[d] = e < 0 || t->shape[e] == 1 ? 0 : t->strides[e] * es;
        }
    } else {
        o->data = NULL;
        o->dtype = v->kind == SFT_V_FLOAT ? SFT_float64 : v->kind == SFT_V_INT ? SFT_int64 : SFT_bool;
        o->is_scalar = true;
        o->num = *v;
        for (int d = 0; d < it->ndim; d++) o->stride[d] = 0;
    }
}

/* Should dim a lie outside dim b? Decided by the first operand that moves along both. */
static int order(const sft_iter *it, int a, int b) {
    for (int i = 0; i < it->nop; i++) {
        int64_t sa = it->op[i].stride[a], sb = it->op[i].stride[b];
        if (sa == 0 || sb == 0 || sa == sb) continue;
        return sa > sb ? -1 : 1;
    }
    return a < b ? -1 : 1;
}

static void sort_dims(sft_iter *it) {
    int perm[SFT_MAX_DIMS];
    bool changed = false;
    for (int d = 0; d < it->ndim; d++) {
        int i = d;
        while (i > 0 && order(it, perm[i - 1], d) > 0) {
            perm[i] = perm[i - 1];
            i--;
            changed = true;
        }
        perm[i] = d;
    }
    if (!changed) return;
    int64_t tmp[SFT_MAX_DIMS];
    for (int i = -1; i < it->nop; i++) {
        int64_t *x = i < 0 ? it->size : it->op[i].stride;
        for (int d = 0; d < it->ndim; d++) tmp[d] = x[perm[d]];
        for (int d = 0; d < it->ndim; d++) x[d] = tmp[d];
    }
}

static void coalesce(sft_iter *it) {
    int n = 0;
    for (int d = 0; d < it->ndim; d++) {
        if (it->size[d] == 1) continue;
        bool merge = n > 0;
        for (int i = 0; i < it->nop && merge; i++)
            merge = it->op[i].stride[n - 1] == it->op[i].stride[d] * it->size[d];
        if (merge) {
            it->size[n - 1] *= it->size[d];
            for (int i = 0; i < it->nop; i++) it->op[i].stride[n - 1] = it->op[i].stride[d];
        } else {
            it->size[n] = it->size[d];
            for (int i = 0; i < it->nop; i++) it->op[i].stride[n] = it->op[i].stride[d];
            n++;
        }
    }
    it->ndim = n;
}

/* All contiguous and of one shape, or a single element: one dim, no sorting. */
static bool build_flat(sft_iter *it, sft_tensor *const *outs, int nout, const sft_value *ins,
                       int nin) {
    const sft_tensor *o = outs[0];
    for (int i = 0; i < nout; i++)
        if (!outs[i]->contiguous || outs[i]->numel != o->numel) return false;
    for (int i = 0; i < nin; i++) {
        if (ins[i].kind != SFT_V_TENSOR) continue;
        const sft_tensor *t = ins[i].u.t;
        if (t->numel == 1) continue;
        if (!t->contiguous || t->numel != o->numel || t->ndim > o->ndim) return false;
        for (int d = 1; d <= t->ndim; d++)
            if (t->shape[t->ndim - d] != o->shape[o->ndim - d]) return false;
    }
    it->ndim = 1;
    it->size[0] = o->numel;
    for (int i = 0; i < nout + nin; i++) {
        sft_operand *p = &it->op[i];
        const sft_value *v = i < nout ? NULL : &ins[i - nout];
        const sft_tensor *t = v ? (v->kind == SFT_V_TENSOR ? v->u.t : NULL) : outs[i];
        if (!t) {
            set_operand(it, i, v);
            continue;
        }
        p->data = t->data;
        p->dtype = t->dtype;
        p->is_scalar = false;
        p->stride[0] = t->numel == 1 && o->numel != 1 ? 0 : (int64_t)sft_esize(t);
    }
    return true;
}

void sft_iter_build(sft_iter *it, sft_tensor *const *outs, int nout, const sft_value *ins, int nin) {
    it->nout = nout;
    it->nop = nout + nin;
    it->numel = outs[0]->numel;
    if (build_flat(it, outs, nout, ins, nin)) return;
    it->ndim = outs[0]->ndim;
    for (int d = 0; d < it->ndim; d++) it->size[d] = outs[0]->shape[d];
    for (int i = 0; i < nout; i++) {
        sft_value v = sft_v_tensor(outs[i]);
        set_operand(it, i, &v);
    }
    for (int i = 0; i < nin; i++) set_operand(it, nout + i, &ins[i]);
    sort_dims(it);
    coalesce(it);
    if (it->ndim == 0) {
        it->ndim = 1;
        it->size[0] = it->numel;
        for (int i = 0; i < it->nop; i++) it->op[i].stride[0] = 0;
    }
}
