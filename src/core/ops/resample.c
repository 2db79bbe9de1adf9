/* resample.c: interpolate, pixel_shuffle and pixel_unshuffle, glu: compositions of gathers. */
#include "widen.h"
#include <math.h>

/* ---- interpolate ----------------------------------------------------------------------------- */

enum resample_mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, MODES };
enum { MOST_TAPS = 4 };

typedef struct axis {
    int64_t in, out;
    double scale; /* input elements per output element */
    bool align;   /* the corner elements' centres coincide */
} axis;

/* Where output i lies in the input. */
static double source(const axis *a, int64_t i) {
    return a->align ? a->scale * (double)i : a->scale * ((double)i + 0.5) - 0.5;
}

static int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Cubic convolution with a = -0.75 (Keys, 1981), as image libraries do. */
static double cubic_near(double x) { return ((1.25 * x - 2.25) * x) * x + 1; }
static double cubic_far(double x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; }

/* The elements that output i is made of, and their weights; returns their number. */
static int taps(int mode, const axis *a, int64_t i, int64_t at[MOST_TAPS], double w[MOST_TAPS]) {
    if (mode == NEAREST || mode == NEAREST_EXACT) {
        /* In float32, as PyTorch: the rounding decides which neighbour it is. */
        const float x =
            mode == NEAREST ? (float)i * (float)a->scale : ((float)i + 0.5f) * (float)a->scale;
        at[0] = clamp_index((int64_t)floorf(x), a->in);
        return 1;
    }
    double x = source(a, i);
    if (mode == LINEAR) {
        if (x < 0) x = 0;
        const int64_t left = clamp_index((int64_t)floor(x), a->in);
        at[0] = left;
        at[1] = clamp_index(left + 1, a->in);
        w[1] = x - (double)left;
        if (w[1] > 1) w[1] = 1;
        w[0] = 1 - w[1];
        return 2;
    }
    const double left = floor(x), t = x - left;
    const double weights[4] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t),
                               cubic_far(2 - t)};
    for (int j = 0; j < 4; j++) {
        at[j] = clamp_index((int64_t)left - 1 + j, a->in);
        w[j] = weights[j];
    }
    return 4;
}

/* x resampled along one dim. */
static sft_tensor *resample(sft_tensor *x, int dim, int mode, const axis *a) {
    int64_t at[MOST_TAPS], shape[SFT_MAX_DIMS];
    double w[MOST_TAPS];
    const int n = taps(mode, a, 0, at, w), base = sft_thread()->index_base;
    sft_tensor *index[MOST_TAPS], *weight[MOST_TAPS], *sum = NULL;
    for (int d = 0; d < x->ndim; d++) shape[d] = d == dim ? a->out : 1;
    for (int j = 0; j < n; j++) {
        const sft_device cpu = {SFT_CPU, 0};
        index[j] = sft_temp(sft_empty(&a->out, 1, SFT_int64, cpu));
        weight[j] = sft_temp(sft_empty(shape, x->ndim, SFT_float64, cpu));
        if (!index[j] || !weight[j]) return NULL;
    }
    for (int64_t i = 0; i < a->out; i++) {
        taps(mode, a, i, at, w);
        for (int j = 0; j < n; j++) {
            ((int64_t *)(void *)index[j]->data)[i] = at[j] + base;
            if (n > 1) ((double *)(void *)weight[j]->data)[i] = w[j];
        }
    }
    for (int j = 0; j < n; j++) {
        sft_tensor *part = DO(index_select, x, dim, DO(to, index[j], sft_v_device(x->device)));
        if (n > 1)
            part = DO(mul, part, DO(to, weight[j], sft_v_device(x->device), sft_v_dtype(x->dtype)));
        sum = j ? DO(add, sum, part) : part;
    }
    return sum;
}

static int read_mode(const char *op, const char *mode, int spatial) {
    static const char *const linear[] = {"linear", "bilinear", "trilinear"};
    if (!strcmp(mode, "nearest")) return NEAREST;
    if (!strcmp(mode, "nearest-exact")) return NEAREST_EXACT;
    if (!strcmp(mode, "bicubic") && spatial == 2) return CUBIC;
    if (!strcmp(mode, "area") && spatial <= 2) return MODES;
    if (!strcmp(mode, linear[spatial - 1])) return LINEAR;
    sft_fail(
        SFT_ERR_ARGUMENT,
        "%s: mode must be \"nearest\", \"nearest-exact\", \"%s\"%s for an input of %d dims, got "
        "\"%.40s\"",
        op, linear[spatial - 1],
        spatial == 2   ? ", \"bicubic\", \"area\""
        : spatial == 1 ? ", \"area\""
                       : "",
        spatial + 2, mode);
    return -1;
}

/* Entry i of a list of numbers with one entry for all, or one for each dim. */
static double entry(const sft_value *v, int i) {
    if (v->kind == SFT_V_FLOATS) return v->u.floats[v->n > 1 ? i : 0];
    return (double)v->u.ints[v->n > 1 ? i : 0];
}

/* (input, size, scale_factor, mode, align_corners, recompute_scale_factor) */
IMPL(interpolate) {
    sft_tensor *x = ARG_T(0);
    const char *op = c->info->name;
    const int spatial = x->ndim - 2;
    const sft_value *size = ARG_NONE(1) ? NULL : &c->a[1], *factor = ARG_NONE(2) ? NULL : &c->a[2];
    sft_value one = sft_v_none();
    if (factor && factor->kind == SFT_V_FLOAT) {
        one.kind = SFT_V_FLOATS;
        one.n = 1;
        one.u.floats = &c->a[2].u.f;
        factor = &one;
    }
    axis axes[3];
    if (spatial < 1 || spatial > 3)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: input must be [batch, channels, length] with one to three spatial dims, got %s",
            op, SFT_SHAPE(x));
    if (!size == !factor)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: give either size or scale_factor", op);
    const sft_value *given = size ? size : factor;
    if (given->n != 1 && given->n != spatial)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: %s must be one number, or one for each of the %d dims", op,
                        size ? "size" : "scale_factor", spatial);
    SFT_TRY(sft_need_floating(op, "input", x));
    const int mode = read_mode(op, c->a[3].u.s, spatial);
    if (mode < 0) return sft_last_status();
    if (!ARG_NONE(4) && mode != LINEAR && mode != CUBIC)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: align_corners goes with linear and cubic modes only",
                        op);
    const bool align = !ARG_NONE(4) && ARG_B(4);
    for (int i = 0; i < spatial; i++) {
        axis *a = &axes[i];
        a->in = x->shape[2 + i];
        const double f = factor ? entry(factor, i) : 0;
        const double out = factor ? floor((double)a->in * f) : entry(size, i);
        if (!(out >= 1 && out < 1e12) || a->in < 1)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: the result must have positive sizes, got %g for dim %d", op, out,
                            2 + i + (int)sft_thread()->index_base);
        a->out = (int64_t)out;
        a->align = align;
        a->scale = factor && !(!ARG_NONE(5) && ARG_B(5)) ? 1 / f : (double)a->in / out;
        if (align) a->scale = a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
    }
    if (mode == MODES) {
        const int64_t sizes[2] = {axes[0].out, axes[spatial - 1].out};
        const sft_value v = sft_v_ints(sizes, spatial);
        return sft_ret(c, spatial == 2 ? DO(adaptive_avg_pool2d, x, v)
                                       : DO(adaptive_avg_pool1d, x, v));
    }
    const sft_dtype dtype = (sft_dtype)x->dtype;
    x = sft_as(x, sft_wide_dtype(x));
    for (int i = 0; i < spatial && x; i++) x = resample(x, 2 + i, mode, &axes[i]);
    return sft_ret(c, sft_as(x, dtype));
}

/* ---- pixel_shuffle --------------------------------------------------------------------------- */

/* [.., c r^2, h, w] <-> [.., c, h r, w r] */
static sft_status shuffle(sft_opctx *c, bool back) {
    sft_tensor *x = ARG_T(0);
    const char *op = c->info->name;
    const int64_t r = ARG_I(1);
    const int n = x->ndim, lead = n - 3;
    if (n < 3 || n + 2 > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: input must be [..., channels, height, width], got %s", op,
                        SFT_SHAPE(x));
    const int64_t ch = x->shape[n - 3], h = x->shape[n - 2], w = x->shape[n - 1];
    if (r < 1 || r > 65536)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: the factor must be positive, got %lld", op,
                        (long long)r);
    if (!back && ch % (r * r))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: the %lld channels must be a multiple of %lld^2", op,
                        (long long)ch, (long long)r);
    if (back && (h % r || w % r))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: the planes %lld x %lld must be multiples of %lld",
                        op, (long long)h, (long long)w, (long long)r);
    int64_t split[SFT_MAX_DIMS], order[SFT_MAX_DIMS], joined[SFT_MAX_DIMS];
    memcpy(split, x->shape, sizeof split);
    memcpy(joined, x->shape, sizeof joined);
    for (int i = 0; i < lead; i++) order[i] = i;
    const int64_t apart[5] = {ch / (r * r), r, r, h, w}, together[5] = {ch, h / r, r, w / r, r};
    static const int forth[5] = {0, 3, 1, 4, 2}, home[5] = {0, 2, 4, 1, 3};
    for (int i = 0; i < 5; i++) {
        split[lead + i] = back ? together[i] : apart[i];
        order[lead + i] = lead + (back ? home : forth)[i];
    }
    joined[lead] = back ? ch * r * r : ch / (r * r);
    joined[lead + 1] = back ? h / r : h * r;
    joined[lead + 2] = back ? w / r : w * r;
    sft_tensor *y = DO(permute, DO(reshape, x, sft_v_ints(split, n + 2)), sft_v_ints(order, n + 2));
    return sft_ret(c, DO(reshape, y, sft_v_ints(joined, n)));
}
IMPL(pixel_shuffle) { return shuffle(c, false); }
IMPL(pixel_unshuffle) { return shuffle(c, true); }

/* ---- glu ------------------------------------------------------------------------------------- */

/* The first half times the sigmoid of the second. */
IMPL(glu) {
    sft_tensor *x = ARG_T(0);
    const char *op = c->info->name;
    SFT_TRY(sft_need_floating(op, "input", x));
    if (x->ndim == 0) return sft_fail(SFT_ERR_ARGUMENT, "%s: not defined for 0-dim tensors", op);
    const int dim = sft_wrap_dim(ARG_I(1), x->ndim);
    if (dim < 0) {
        sft_error_prefix(op);
        return sft_last_status();
    }
    const int64_t half = x->shape[dim] / 2;
    if (x->shape[dim] % 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: the size of dim %d must be even, got %lld", op,
                        dim + (int)sft_thread()->index_base, (long long)x->shape[dim]);
    return sft_ret(
        c, DO(mul, DO(narrow, x, dim, 0, half), DO(sigmoid, DO(narrow, x, dim, half, half))));
}
