/* pool.c: max_pool, avg_pool and adaptive_avg_pool in one and two dims. The internal ops come in
 * pairs that are each other's gradient, so they can be differentiated any number of times. */
#include "pool.h"
#include "widen.h"

/* ---- geometry -------------------------------------------------------------------------------- */

/* An axis as an argument: {in, out, k, s, p, d} */
static sft_pool_axis axis_of(const sft_value *v) {
    const int64_t *a = v->u.ints;
    return (sft_pool_axis){a[0], a[1], a[2], a[3], a[4], a[5]};
}
static sft_value axis_value(const sft_pool_axis *a, int64_t v[6]) {
    const int64_t all[6] = {a->in, a->out, a->k, a->s, a->p, a->d};
    memcpy(v, all, sizeof all);
    return sft_v_ints(v, 6);
}

static int64_t planes_of(const sft_tensor *x) {
    int64_t n = 1;
    for (int d = 0; d < x->ndim - 2; d++) n *= x->shape[d];
    return n;
}

static sft_tensor *like_planes(const sft_tensor *x, int64_t h, int64_t w, sft_dtype dtype) {
    int64_t shape[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 2] = h;
    shape[x->ndim - 1] = w;
    return sft_empty(shape, x->ndim, dtype, x->device);
}

/* ---- max ------------------------------------------------------------------------------------- */

/* (input, h, w) -> y, index */
IMPL(max_pool_planes) {
    sft_tensor *x = ARG_T(0);
    sft_pool_params p = {planes_of(x), axis_of(&c->a[1]), axis_of(&c->a[2]), false, 0};
    SFT_TRY(sft_give(c, like_planes(x, p.h.out, p.w.out, (sft_dtype)x->dtype)));
    SFT_TRY(sft_give(c, like_planes(x, p.h.out, p.w.out, SFT_int32)));
    sft_tensor *t[3] = {c->out[0], c->out[1], x};
    return c->out[0]->numel ? sft_run(c->op, t, 3, &p) : SFT_OK;
}
GRAD(max_pool_planes) {
    if (G) SET(0, DO(max_pool_scatter, G, OUT(1), VAL(1), VAL(2)));
}

/* (grad, index, h, w) -> gradient of the input */
IMPL(max_pool_scatter) {
    sft_tensor *g = DO(contiguous, c->a[0]);
    if (!g) return sft_last_status();
    sft_pool_params p = {planes_of(g), axis_of(&c->a[2]), axis_of(&c->a[3]), false, 0};
    SFT_TRY(sft_give(c, like_planes(g, p.h.in, p.w.in, (sft_dtype)g->dtype)));
    sft_tensor *t[3] = {c->out[0], g, ARG_T(1)};
    return c->out[0]->numel ? sft_run(c->op, t, 3, &p) : SFT_OK;
}
GRAD(max_pool_scatter) {
    if (G) SET(0, DO(max_pool_pick, G, IN(1), VAL(2), VAL(3)));
}

/* (input, index, h, w) -> the elements at index */
IMPL(max_pool_pick) {
    sft_tensor *x = DO(contiguous, c->a[0]);
    if (!x) return sft_last_status();
    sft_pool_params p = {planes_of(x), axis_of(&c->a[2]), axis_of(&c->a[3]), false, 0};
    SFT_TRY(sft_give(c, like_planes(x, p.h.out, p.w.out, (sft_dtype)x->dtype)));
    sft_tensor *t[3] = {c->out[0], x, ARG_T(1)};
    return c->out[0]->numel ? sft_run(c->op, t, 3, &p) : SFT_OK;
}
GRAD(max_pool_pick) {
    if (G) SET(0, DO(max_pool_scatter, G, IN(1), VAL(2), VAL(3)));
}

/* ---- averages -------------------------------------------------------------------------------- */

/* (input, h, w, include_pad, divisor) */
IMPL(avg_pool_planes) {
    sft_tensor *x = DO(contiguous, c->a[0]);
    if (!x) return sft_last_status();
    sft_pool_params p = {planes_of(x), axis_of(&c->a[1]), axis_of(&c->a[2]), ARG_B(3), ARG_I(4)};
    SFT_TRY(sft_give(c, like_planes(x, p.h.out, p.w.out, (sft_dtype)x->dtype)));
    sft_tensor *t[2] = {c->out[0], x};
    return c->out[0]->numel ? sft_run(c->op, t, 2, &p) : SFT_OK;
}
GRAD(avg_pool_planes) {
    if (G) SET(0, DO(avg_pool_scatter, G, VAL(1), VAL(2), VAL(3), VAL(4)));
}

/* (grad, h, w, include_pad, divisor) -> gradient of the input */
IMPL(avg_pool_scatter) {
    sft_tensor *g = DO(contiguous, c->a[0]);
    if (!g) return sft_last_status();
    sft_pool_params p = {planes_of(g), axis_of(&c->a[1]), axis_of(&c->a[2]), ARG_B(3), ARG_I(4)};
    SFT_TRY(sft_give(c, like_planes(g, p.h.in, p.w.in, (sft_dtype)g->dtype)));
    sft_tensor *t[2] = {c->out[0], g};
    return c->out[0]->numel ? sft_run(c->op, t, 2, &p) : SFT_OK;
}
GRAD(avg_pool_scatter) {
    if (G) SET(0, DO(avg_pool_planes, G, VAL(1), VAL(2), VAL(3), VAL(4)));
}

/* ---- arguments of the public ops ------------------------------------------------------------- */

/* One or two numbers (none: `absent`) -> two; in one dim, one number, the other is `other`. */
static sft_status read_pair(const char *op, const char *name, const sft_value *v, int dims,
                            int64_t other, const int64_t *absent, int64_t out[2]) {
    const int n = v->kind == SFT_V_INTS ? v->n : 0;
    if (n == 0 && absent) {
        memcpy(out, absent, 2 * sizeof *out);
        return SFT_OK;
    }
    if (n < 1 || n > dims)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: %s must be one number%s, got %d", op, name,
                        dims == 2 ? " or two" : "", n);
    out[0] = dims == 2 ? v->u.ints[0] : other;
    out[1] = v->u.ints[n - 1];
    return SFT_OK;
}

/* The input as [planes..., h, w] in a dtype that kernels know; *lost: dims that [.., length] lacks.
 */
static sft_tensor *planes_input(const char *op, sft_tensor *x, int dims, bool integers) {
    if (x->ndim != dims + 1 && x->ndim != dims + 2) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: input must be %s, got %s", op,
                 dims == 2 ? "[batch, channels, height, width] or [channels, height, width]"
                           : "[batch, channels, length] or [channels, length]",
                 SFT_SHAPE(x));
        return NULL;
    }
    for (int d = x->ndim - dims - (x->ndim == dims + 1); d < x->ndim; d++)
        if (x->shape[d] == 0) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: only the batch may be empty, got input %s", op,
                     SFT_SHAPE(x));
            return NULL;
        }
    if (!(integers && sft_is_integral(x->dtype)) && sft_need_floating(op, "input", x) != SFT_OK)
        return NULL;
    sft_tensor *wide = sft_as(x, sft_is_float(x->dtype) ? sft_wide_dtype(x) : SFT_int64);
    if (dims == 2 || !wide) return wide;
    int64_t shape[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim] = shape[x->ndim - 1];
    shape[x->ndim - 1] = 1;
    return DO(reshape, wide, sft_v_ints(shape, x->ndim + 1));
}

/* Back from [.., 1, length] where dims is 1. */
static sft_tensor *planes_output(sft_tensor *y, int dims, sft_dtype dtype) {
    if (!y) return NULL;
    if (dims == 1) {
        int64_t shape[SFT_MAX_DIMS];
        memcpy(shape, y->shape, sizeof shape);
        shape[y->ndim - 2] = shape[y->ndim - 1];
        y = DO(reshape, y, sft_v_ints(shape, y->ndim - 1));
    }
    return sft_as(y, dtype);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Number of windows; the last may stick out where `ceil`. */
static sft_status measure(const char *op, sft_pool_axis *a, bool ceil) {
    const int64_t most = (int64_t)1 << 40;
    if (a->k < 1 || a->s < 1 || a->d < 1 || a->k > most || a->s > most || a->d > most)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: kernel_size, stride and dilation must be positive, got %lld, %lld and "
                        "%lld",
                        op, (long long)a->k, (long long)a->s, (long long)a->d);
    if (a->p < 0 || a->p > a->k / 2)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: padding must lie between 0 and half of kernel_size, %lld, got %lld",
                        op, (long long)(a->k / 2), (long long)a->p);
    if (a->d > 1 && a->k > most / a->d)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: kernel_size times dilation is too large", op);
    const int64_t span = a->in + 2 * a->p - a->d * (a->k - 1) - 1;
    a->out = floor_div(span + (ceil ? a->s - 1 : 0), a->s) + 1;
    if (ceil && (a->out - 1) * a->s >= a->in + a->p) a->out--;
    if (a->out < 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: the window (kernel_size %lld, dilation %lld) does not fit into %lld "
                        "elements with padding %lld",
                        op, (long long)a->k, (long long)a->d, (long long)a->in, (long long)a->p);
    return SFT_OK;
}

static const int64_t ones[2] = {1, 1}, zeros[2] = {0, 0};

/* (input, kernel_size, stride, padding, dilation, ceil_mode, return_indices) */
static sft_status max_pool(sft_opctx *c, int dims) {
    const char *op = c->info->name;
    int64_t k[2], s[2], p[2], d[2], va[6], vb[6];
    sft_tensor *in = ARG_T(0), *o[2];
    SFT_TRY(read_pair(op, "kernel_size", &c->a[1], dims, 1, NULL, k));
    SFT_TRY(read_pair(op, "stride", &c->a[2], dims, 1, k, s));
    SFT_TRY(read_pair(op, "padding", &c->a[3], dims, 0, zeros, p));
    SFT_TRY(read_pair(op, "dilation", &c->a[4], dims, 1, ones, d));
    sft_tensor *x = planes_input(op, in, dims, true);
    if (!x) return sft_last_status();
    sft_pool_axis h = {x->shape[x->ndim - 2], 0, k[0], s[0], p[0], d[0]};
    sft_pool_axis w = {x->shape[x->ndim - 1], 0, k[1], s[1], p[1], d[1]};
    SFT_TRY(measure(op, &h, ARG_B(5)));
    SFT_TRY(measure(op, &w, ARG_B(5)));
    if (h.in > INT32_MAX / w.in)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: planes of more than 2^31 - 1 elements", op);
    if (!DO_N(o, 2, max_pool_planes, DO(contiguous, x), axis_value(&h, va), axis_value(&w, vb)))
        return sft_last_status();
    SFT_TRY(sft_ret(c, planes_output(o[0], dims, (sft_dtype)in->dtype)));
    if (!ARG_B(6)) return SFT_OK;
    sft_tensor *index = planes_output(o[1], dims, SFT_int64);
    if (sft_thread()->index_base) index = DO(add, index, 1);
    return sft_ret(c, index);
}
IMPL(max_pool2d) { return max_pool(c, 2); }
IMPL(max_pool1d) { return max_pool(c, 1); }

/* (input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static sft_status avg_pool(sft_opctx *c, int dims) {
    const char *op = c->info->name;
    int64_t k[2], s[2], p[2], va[6], vb[6];
    sft_tensor *in = ARG_T(0);
    SFT_TRY(read_pair(op, "kernel_size", &c->a[1], dims, 1, NULL, k));
    SFT_TRY(read_pair(op, "stride", &c->a[2], dims, 1, k, s));
    SFT_TRY(read_pair(op, "padding", &c->a[3], dims, 0, zeros, p));
    const bool overrides = dims == 2 && !ARG_NONE(6);
    if (overrides && ARG_I(6) == 0)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: divisor_override must not be 0", op);
    sft_tensor *x = planes_input(op, in, dims, true);
    if (!x) return sft_last_status();
    sft_pool_axis h = {x->shape[x->ndim - 2], 0, k[0], s[0], p[0], 1};
    sft_pool_axis w = {x->shape[x->ndim - 1], 0, k[1], s[1], p[1], 1};
    SFT_TRY(measure(op, &h, ARG_B(4)));
    SFT_TRY(measure(op, &w, ARG_B(4)));
    sft_tensor *y = DO(avg_pool_planes, x, axis_value(&h, va), axis_value(&w, vb), (bool)ARG_B(5),
                       overrides ? ARG_I(6) : 0);
    return sft_ret(c, planes_output(y, dims, (sft_dtype)in->dtype));
}
IMPL(avg_pool2d) { return avg_pool(c, 2); }
IMPL(avg_pool1d) { return avg_pool(c, 1); }

/* (input, output_size) */
static sft_status adaptive_avg_pool(sft_opctx *c, int dims) {
    const char *op = c->info->name;
    int64_t size[2] = {0, 0}, va[6], vb[6];
    sft_tensor *in = ARG_T(0);
    SFT_TRY(read_pair(op, "output_size", &c->a[1], dims, 1, NULL, size));
    sft_tensor *x = planes_input(op, in, dims, false);
    if (!x) return sft_last_status();
    if (size[0] < 1 || size[1] < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: output_size must be positive, got %lld", op,
                        (long long)(size[0] < 1 ? size[0] : size[1]));
    const sft_pool_axis h = {x->shape[x->ndim - 2], size[0], 0, 1, 0, 1};
    const sft_pool_axis w = {x->shape[x->ndim - 1], size[1], 0, 1, 0, 1};
    sft_tensor *y;
    const int64_t last[2] = {-2, -1};
    if (size[0] == 1 && size[1] == 1)
        y = DO(mean, x, sft_v_ints(last, 2), true);
    else
        y = DO(avg_pool_planes, x, axis_value(&h, va), axis_value(&w, vb), false, 0);
    return sft_ret(c, planes_output(y, dims, (sft_dtype)in->dtype));
}
IMPL(adaptive_avg_pool2d) { return adaptive_avg_pool(c, 2); }
IMPL(adaptive_avg_pool1d) { return adaptive_avg_pool(c, 1); }
