/* creation.c: tensors from sizes and numbers. */
#include "creation.h"
#include "random.h"

/* ---- of one value ---------------------------------------------------------------------------- */

IMPL(empty) {
    return sft_created(
        c,
        sft_temp(sft_empty(c->a[0].u.ints, c->a[0].n, sft_dtype_or(&c->a[1], sft_default_dtype()),
                           sft_device_or(&c->a[2], SFT_CPU0))),
        &c->a[3]);
}

static sft_status filled(sft_opctx *c, sft_tensor *t, sft_value v, const sft_value *requires_grad) {
    if (!sft_temp(t)) return sft_last_status();
    SFT_TRY(sft_fill_raw(t, v));
    return sft_created(c, t, requires_grad);
}

/* zeros, ones */
IMPL(full) {
    sft_tensor *t =
        sft_empty(c->a[0].u.ints, c->a[0].n, sft_dtype_or(&c->a[1], sft_default_dtype()),
                  sft_device_or(&c->a[2], SFT_CPU0));
    return filled(c, t, sft_v_int(c->op == SFT_OP_ones), &c->a[3]);
}

/* The dtype of a number. */
static sft_dtype natural(const sft_value *v) {
    return v->kind == SFT_V_BOOL  ? SFT_bool
           : v->kind == SFT_V_INT ? SFT_int64
                                  : sft_default_dtype();
}

/* full(size, value) */
IMPL(full_value) {
    sft_tensor *t = sft_empty(c->a[0].u.ints, c->a[0].n, sft_dtype_or(&c->a[2], natural(&c->a[1])),
                              sft_device_or(&c->a[3], SFT_CPU0));
    return filled(c, t, c->a[1], &c->a[4]);
}

static sft_tensor *like(const sft_tensor *x, const sft_value *dtype_v, const sft_value *device_v) {
    sft_dtype dtype = sft_dtype_or(dtype_v, (sft_dtype)x->dtype);
    sft_device dev = sft_device_or(device_v, x->device);
    bool same = dev.type == x->device.type && dev.index == x->device.index;
    return same ? sft_empty_like_(x, dtype) : sft_empty(x->shape, x->ndim, dtype, dev);
}

/* zeros_like, ones_like */
IMPL(full_like) {
    return filled(c, like(c->a[0].u.t, &c->a[1], &c->a[2]), sft_v_int(c->op == SFT_OP_ones_like),
                  &c->a[3]);
}
IMPL(full_like_value) {
    return filled(c, like(c->a[0].u.t, &c->a[2], &c->a[3]), c->a[1], &c->a[4]);
}
IMPL(empty_like) {
    return sft_created(c, sft_temp(like(c->a[0].u.t, &c->a[1], &c->a[2])), &c->a[3]);
}

/* new_empty, new_zeros, new_ones: dtype and device of self */
IMPL(new_filled) {
    sft_tensor *x = c->a[0].u.t;
    sft_tensor *t =
        sft_empty(c->a[1].u.ints, c->a[1].n, sft_dtype_or(&c->a[2], (sft_dtype)x->dtype),
                  sft_device_or(&c->a[3], x->device));
    if (c->op == SFT_OP_new_empty) return sft_created(c, sft_temp(t), &c->a[4]);
    return filled(c, t, sft_v_int(c->op == SFT_OP_new_ones), &c->a[4]);
}
IMPL(new_full) {
    sft_tensor *x = c->a[0].u.t;
    sft_tensor *t =
        sft_empty(c->a[1].u.ints, c->a[1].n, sft_dtype_or(&c->a[3], (sft_dtype)x->dtype),
                  sft_device_or(&c->a[4], x->device));
    return filled(c, t, c->a[2], &c->a[5]);
}

/* ---- sequences ------------------------------------------------------------------------------- */

static sft_status sequence(sft_opctx *c, int64_t n, sft_dtype dtype, sft_device device,
                           const sft_sequence_params *p, const sft_value *requires_grad) {
    sft_tensor *t = sft_temp(sft_empty(&n, 1, dtype, device));
    if (!t) return sft_last_status();
    if (n) SFT_TRY(sft_run(SFT_OP__sequence, &t, 1, p));
    return sft_created(c, t, requires_grad);
}

static double number(const sft_value *v) {
    return v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_BOOL ? v->u.b : (double)v->u.i;
}
static int64_t whole(const sft_value *v) { return v->kind == SFT_V_BOOL ? v->u.b : v->u.i; }

/* start, end, step; then dtype, device, requires_grad */
static sft_status arange(sft_opctx *c, const sft_value *range, const sft_value *rest) {
    bool ints = true;
    for (int i = 0; i < 3; i++) ints &= range[i].kind != SFT_V_FLOAT;
    sft_dtype dtype = sft_dtype_or(&rest[0], ints ? SFT_int64 : sft_default_dtype());
    double start = number(&range[0]), end = number(&range[1]), step = number(&range[2]);
    if (step == 0 || step != step)
        return sft_fail(SFT_ERR_ARGUMENT, "arange: 'step' must not be 0");
    if (!(start - start == 0) || !(end - end == 0))
        return sft_fail(SFT_ERR_ARGUMENT, "arange: 'start' and 'end' must be finite, got %g and %g",
                        start, end);
    if ((step > 0 && start > end) || (step < 0 && start < end))
        return sft_fail(SFT_ERR_ARGUMENT, "arange: steps of %g don't lead from %g to %g", step,
                        start, end);
    sft_sequence_params p = {.kind = SFT_SEQUENCE_STEP, .start = start, .step = step};
    int64_t n;
    if (ints) {
        int64_t a = whole(&range[0]), b = whole(&range[1]), s = whole(&range[2]);
        uint64_t span = s > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        uint64_t by = s > 0 ? (uint64_t)s : 0 - (uint64_t)s, count = span ? (span - 1) / by + 1 : 0;
        if (count > INT64_MAX / 8) return sft_fail(SFT_ERR_ARGUMENT, "arange: too many elements");
        n = (int64_t)count;
        p.kind = SFT_SEQUENCE_INT;
        p.istart = a;
        p.istep = s;
    } else {
        double count = __builtin_ceil((end - start) / step);
        if (!(count <= 1e15)) return sft_fail(SFT_ERR_ARGUMENT, "arange: too many elements");
        n = (int64_t)count;
        /* PyTorch computes an integer range in integers, whatever the ends were. */
        if (!sft_is_float(dtype) && start >= -9e18 && start <= 9e18 && step >= -9e18 &&
            step <= 9e18) {
            p.kind = SFT_SEQUENCE_INT;
            p.istart = (int64_t)start;
            p.istep = (int64_t)step;
        }
    }
    return sequence(c, n, dtype, sft_device_or(&rest[1], SFT_CPU0), &p, &rest[2]);
}
IMPL(arange) { return arange(c, c->a, &c->a[3]); }
IMPL(arange_end) {
    const sft_value range[3] = {sft_v_int(0), c->a[0], sft_v_int(1)};
    return arange(c, range, &c->a[1]);
}

/* linspace, logspace: `steps` numbers, both ends included */
static sft_status spaced(sft_opctx *c, int kind, double base, const sft_value *rest) {
    int64_t n = ARG_I(2);
    if (n < 0)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'steps' must not be negative, got %lld",
                        c->info->name, (long long)n);
    sft_sequence_params p = {.kind = kind, .start = ARG_F(0), .end = ARG_F(1), .base = base};
    p.step = n > 1 ? (p.end - p.start) / (double)(n - 1) : 0;
    return sequence(c, n, sft_dtype_or(&rest[0], sft_default_dtype()),
                    sft_device_or(&rest[1], SFT_CPU0), &p, &rest[2]);
}
IMPL(linspace) { return spaced(c, SFT_SEQUENCE_LIN, 0, &c->a[3]); }
IMPL(logspace) { return spaced(c, SFT_SEQUENCE_LOG, ARG_F(3), &c->a[4]); }

/* ---- matrices -------------------------------------------------------------------------------- */

IMPL(eye) {
    int64_t n = ARG_I(0), m = ARG_NONE(1) ? n : ARG_I(1), shape[2] = {n, m};
    if (n < 0 || m < 0)
        return sft_fail(SFT_ERR_ARGUMENT, "eye: sizes must not be negative, got %lld and %lld",
                        (long long)n, (long long)m);
    sft_tensor *t = sft_temp(sft_empty(shape, 2, sft_dtype_or(&c->a[2], sft_default_dtype()),
                                       sft_device_or(&c->a[3], SFT_CPU0)));
    if (!t) return sft_last_status();
    SFT_TRY(sft_fill_raw(t, sft_v_int(0)));
    int64_t len = n < m ? n : m, stride = len ? m + 1 : 1;
    if (len) {
        sft_tensor *diagonal = sft_temp(sft_view_of(t, &len, &stride, 1, 0));
        if (!diagonal) return sft_last_status();
        SFT_TRY(sft_fill_raw(diagonal, sft_v_int(1)));
    }
    return sft_created(c, t, &c->a[4]);
}

/* tril_indices, triu_indices: [2, n], row and column of each element of the triangle */
IMPL(tri_indices) {
    int64_t rows = ARG_I(0), cols = ARG_I(1), offset = ARG_I(2), base = sft_thread()->index_base,
            n = 0;
    bool upper = c->op == SFT_OP_triu_indices;
    if (rows < 0 || cols < 0 || rows > INT32_MAX || cols > INT32_MAX || offset > INT32_MAX ||
        offset < -(int64_t)INT32_MAX)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: sizes from 0 to 2^31 are possible", c->info->name);
    int64_t *p = NULL;
    sft_tensor *t = NULL;
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (int64_t i = 0; i < rows; i++) {
            int64_t cut = upper ? i + offset : i + offset + 1;
            cut = cut < 0 ? 0 : cut > cols ? cols : cut;
            int64_t from = upper ? cut : 0, to = upper ? cols : cut;
            for (int64_t j = from; p && j < to; j++) {
                p[at + j - from] = i + base;
                p[n + at + j - from] = j + base;
            }
            at += to - from;
        }
        if (pass) break;
        n = at;
        int64_t shape[2] = {2, n};
        if (!(t = sft_temp(sft_empty(shape, 2, SFT_int64, SFT_CPU0)))) return sft_last_status();
        p = (int64_t *)t->data;
    }
    return sft_ret(c, t);
}
