/* norm.c: layer_norm, rms_norm, batch_norm, group_norm, instance_norm. The first three stand on two
 * fused ops (native_layer_norm, native_batch_norm) that also give what their gradients need; the
 * gradient of the gradient is made of plain ops. */
#include "norm.h"
#include "widen.h"

/* ---- gradients by plain ops, for create_graph ------------------------------------------------ */

typedef struct norm_graph {
    sft_tensor *xhat, *rstd; /* normalised input; 1 / deviation, broadcastable */
} norm_graph;

static sft_tensor *mean_over(sft_tensor *x, sft_value dims, double count) {
    return DO(mul, DO(sum, x, dims, true), 1.0 / count);
}

/* Normalises x over dims of `count` elements again, as part of the graph. */
static norm_graph normalise(sft_tensor *x, sft_value dims, double count, double eps, bool rms) {
    sft_tensor *centred = rms ? x : DO(sub, x, mean_over(x, dims, count));
    sft_tensor *var = mean_over(DO(mul, centred, centred), dims, count);
    norm_graph r;
    r.rstd = DO(div, 1.0, DO(sqrt, DO(add, var, eps)));
    r.xhat = DO(mul, centred, r.rstd);
    return r;
}

/* Gradient of the input; gw is the gradient times the weight. */
static sft_tensor *normalise_grad(norm_graph r, sft_tensor *gw, sft_value dims, double count,
                                  bool rms) {
    sft_tensor *d = DO(sub, gw, DO(mul, r.xhat, mean_over(DO(mul, gw, r.xhat), dims, count)));
    if (!rms) d = DO(sub, d, mean_over(gw, dims, count));
    return DO(mul, d, r.rstd);
}

/* ---- layer norm ------------------------------------------------------------------------------ */

static sft_tensor *empty_vector(int64_t n, const sft_tensor *like) {
    return sft_empty(&n, 1, (sft_dtype)like->dtype, like->device);
}

/* (input, n, weight, bias, eps, rms), contiguous and of one dtype -> y, mean, rstd */
IMPL(native_layer_norm) {
    sft_tensor *x = ARG_T(0);
    int64_t n = ARG_I(1);
    sft_layer_norm_params p = {n ? x->numel / n : 0, n, ARG_F(4), ARG_B(5)};
    SFT_TRY(sft_give(c, sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)));
    SFT_TRY(sft_give(c, empty_vector(p.rows, x)));
    SFT_TRY(sft_give(c, empty_vector(p.rows, x)));
    sft_tensor *t[6] = {c->out[0], c->out[1], c->out[2], x, ARG_T(2), ARG_T(3)};
    return sft_run(c->op, t, 6, &p);
}

/* (grad, input, mean, rstd, weight, rms, want, n) -> dx, dweight, dbias; bits of want: which */
IMPL(layer_norm_backward) {
    sft_tensor *g = DO(contiguous, c->a[0]), *x = ARG_T(1), *w = ARG_T(4);
    if (!g) return sft_last_status();
    int64_t want = ARG_I(6), rows = ARG_T(2)->numel, n = ARG_I(7);
    sft_layer_norm_params p = {rows, n, 0, ARG_B(5)};
    sft_tensor *t[8] = {NULL, NULL, NULL, g, x, ARG_T(2), ARG_T(3), w};
    for (int i = 0; i < 3; i++) {
        sft_tensor *r = !(want >> i & 1) ? sft_retain(g)
                        : i == 0 ? sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)
                                 : empty_vector(n, x);
        SFT_TRY(sft_give(c, r));
        if (want >> i & 1) t[i] = r;
    }
    return sft_run(c->op, t, 8, &p);
}

static void layer_norm_graph(sft_bw *b) {
    sft_tensor *x = IN(0), *w = IN(2);
    bool rms = b->a[5].u.b;
    const int64_t n = INT(1), flat[2] = {n ? x->numel / n : 0, n}, last = 1, first = 0;
    const sft_value shape = sft_v_ints(flat, 2), dims = sft_v_ints(&last, 1);
    sft_tensor *g = DO(reshape, G, shape);
    norm_graph r = normalise(DO(reshape, x, shape), dims, (double)n, NUM(4), rms);
    sft_tensor *wv = w ? DO(reshape, w, sft_v_ints(&flat[1], 1)) : NULL;
    sft_tensor *dx = normalise_grad(r, w ? DO(mul, g, wv) : g, dims, (double)n, rms);
    if (NEED(0)) SET(0, DO(reshape, dx, sft_v_ints(x->shape, x->ndim)));
    for (int i = 2; i < 4; i++) {
        if (!NEED(i)) continue;
        int ndim;
        const int64_t *ws = sft_bw_shape(b, i, &ndim);
        sft_tensor *s = DO(sum, i == 2 ? DO(mul, g, r.xhat) : g, sft_v_ints(&first, 1));
        SET(i, DO(reshape, s, sft_v_ints(ws, ndim)));
    }
}

GRAD(native_layer_norm) {
    if (!G) return;
    if (b->create_graph) {
        layer_norm_graph(b);
        return;
    }
    int64_t want = NEED(0) | NEED(2) << 1 | NEED(3) << 2;
    sft_tensor *d[3];
    if (!DO_N(d, 3, layer_norm_backward, G, IN(0), OUT(1), OUT(2), VAL(2), (bool)b->a[5].u.b, want,
              INT(1)))
        return;
    if (NEED(0)) SET(0, d[0]);
    for (int i = 2; i < 4; i++) {
        if (!NEED(i)) continue;
        int ndim;
        const int64_t *ws = sft_bw_shape(b, i, &ndim);
        SET(i, DO(reshape, d[i - 1], sft_v_ints(ws, ndim)));
    }
}

/* The last dims of x must be normalized_shape, and so must be those of a weight or bias. */
static sft_status check_normalized(const sft_opctx *c, const sft_tensor *x, const sft_value *shape,
                                   const sft_tensor *const *w, int nw, int64_t *n) {
    const char *op = c->info->name;
    char text[160];
    sft_shape_text(shape->u.ints, shape->n, text, sizeof text);
    if (shape->n < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: normalized_shape must name at least one dim", op);
    bool fits = shape->n <= x->ndim;
    *n = 1;
    for (int i = 0; i < shape->n && fits; i++) {
        fits = shape->u.ints[i] == x->shape[x->ndim - shape->n + i];
        *n = (int64_t)((uint64_t)*n * (uint64_t)shape->u.ints[i]); /* overflows beside a size 0 */
    }
    if (!fits)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: normalized_shape is %s, but the last dims of the input %s differ; give "
            "the sizes of the dims to normalise over",
            op, text, SFT_SHAPE(x));
    static const char *const names[] = {"weight", "bias"};
    for (int i = 0; i < nw; i++) {
        if (!w[i]) continue;
        if (w[i]->ndim != shape->n || memcmp(w[i]->shape, shape->u.ints, 8 * (size_t)shape->n) != 0)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: %s must have the shape normalized_shape, %s, got %s", op, names[i],
                            text, SFT_SHAPE(w[i]));
        SFT_TRY(sft_need_floating(op, names[i], w[i]));
    }
    return sft_need_floating(op, "input", x);
}

static sft_status layer_norm(sft_opctx *c, sft_tensor *w, sft_tensor *b, double eps, bool rms) {
    sft_tensor *x = ARG_T(0);
    int64_t n = 1;
    const sft_tensor *wb[2] = {w, b};
    SFT_TRY(check_normalized(c, x, &c->a[1], wb, 2, &n));
    sft_dtype ct = sft_wide_dtype(x);
    sft_tensor *y = DO(native_layer_norm, sft_dense_as(x, ct), n, sft_v_maybe(sft_dense_as(w, ct)),
                       sft_v_maybe(sft_dense_as(b, ct)), eps, (bool)rms);
    return sft_ret(c, sft_as(y, (sft_dtype)x->dtype));
}

IMPL(layer_norm) { return layer_norm(c, ARG_T(2), ARG_T(3), ARG_F(4), false); }

IMPL(rms_norm) {
    static const double epsilon[] = {[SFT_float16] = 0x1p-10,
                                     [SFT_bfloat16] = 0x1p-7,
                                     [SFT_float32] = 0x1p-23,
                                     [SFT_float64] = 0x1p-52};
    return layer_norm(c, ARG_T(2), NULL, ARG_NONE(3) ? epsilon[ARG_T(0)->dtype] : ARG_F(3), true);
}

/* ---- batch norm ------------------------------------------------------------------------------ */

static sft_batch_norm_params batch_params(const sft_tensor *x, double eps, double momentum,
                                          bool training) {
    sft_batch_norm_params p = {1, 1, 1, eps, momentum, training};
    if (x->ndim > 1) p.outer = x->shape[0];
    p.channels = x->shape[x->ndim > 1 ? 1 : 0];
    for (int d = 2; d < x->ndim; d++) p.inner *= x->shape[d];
    return p;
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps), the first three
 * contiguous and of one dtype -> y, mean, rstd */
IMPL(native_batch_norm) {
    sft_tensor *x = ARG_T(0);
    sft_batch_norm_params p = batch_params(x, ARG_F(7), ARG_F(6), ARG_B(5));
    SFT_TRY(sft_give(c, sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)));
    SFT_TRY(sft_give(c, empty_vector(p.channels, x)));
    SFT_TRY(sft_give(c, empty_vector(p.channels, x)));
    if (!x->numel) {
        SFT_TRY(sft_fill_raw(c->out[1], sft_v_int(0)));
        return sft_fill_raw(c->out[2], sft_v_int(0));
    }
    sft_tensor *t[8] = {c->out[0], c->out[1], c->out[2], x, ARG_T(1), ARG_T(2), ARG_T(3), ARG_T(4)};
    SFT_TRY(sft_run(c->op, t, 8, &p));
    for (int i = 3; i < 5 && p.training; i++)
        if (ARG_T(i)) sft_bump_version(ARG_T(i));
    return SFT_OK;
}

/* (grad, input, weight, mean, rstd, training, want) -> dx, dweight, dbias */
IMPL(batch_norm_backward) {
    sft_tensor *g = DO(contiguous, c->a[0]), *x = ARG_T(1);
    if (!g) return sft_last_status();
    int64_t want = ARG_I(6);
    sft_batch_norm_params p = batch_params(x, 0, 0, ARG_B(5));
    sft_tensor *t[8] = {NULL, NULL, NULL, g, x, ARG_T(2), ARG_T(3), ARG_T(4)};
    for (int i = 0; i < 3; i++) {
        sft_tensor *r = !(want >> i & 1) ? sft_retain(g)
                        : i == 0 ? sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)
                                 : empty_vector(p.channels, x);
        SFT_TRY(sft_give(c, r));
        if (want >> i & 1) t[i] = r;
    }
    if (x->numel) return sft_run(c->op, t, 8, &p);
    for (int i = 1; i < 3; i++)
        if (t[i]) SFT_TRY(sft_fill_raw(t[i], sft_v_int(0)));
    return SFT_OK;
}

static void batch_norm_graph(sft_bw *b) {
    sft_tensor *x = IN(0), *w = IN(1);
    bool training = b->a[5].u.b;
    int64_t dims[SFT_MAX_DIMS], shape[SFT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool channel = d == (x->ndim > 1);
        shape[d] = channel ? x->shape[d] : 1;
        if (!channel) dims[n++] = d;
    }
    const sft_value over = sft_v_ints(dims, n), like = sft_v_ints(shape, x->ndim);
    const double count = (double)(x->numel / (x->shape[x->ndim > 1] ? x->shape[x->ndim > 1] : 1));
    norm_graph r;
    if (training) {
        r = normalise(x, over, count, NUM(7), false);
    } else {
        r.rstd = DO(reshape, DO(detach, OUT(2)), like);
        r.xhat = DO(mul, DO(sub, x, DO(reshape, DO(detach, OUT(1)), like)), r.rstd);
    }
    if (NEED(0)) {
        sft_tensor *gw = w ? DO(mul, G, DO(reshape, w, like)) : G;
        SET(0, training ? normalise_grad(r, gw, over, count, false) : DO(mul, gw, r.rstd));
    }
    if (NEED(1)) SET(1, n ? DO(sum, DO(mul, G, r.xhat), over) : DO(mul, G, r.xhat));
    if (NEED(2)) SET(2, n ? DO(sum, G, over) : G);
}

GRAD(native_batch_norm) {
    if (!G) return;
    if (b->create_graph) {
        batch_norm_graph(b);
        return;
    }
    int64_t want = NEED(0) | NEED(1) << 1 | NEED(2) << 2;
    sft_tensor *d[3];
    if (!DO_N(d, 3, batch_norm_backward, G, IN(0), VAL(1), OUT(1), OUT(2), (bool)b->a[5].u.b, want))
        return;
    for (int i = 0; i < 3; i++)
        if (NEED(i)) SET(i, d[i]);
}

static sft_status check_channels(const char *op, const char *name, const sft_tensor *t, int64_t n,
                                 const sft_tensor *x) {
    if (!t) return SFT_OK;
    if (t->ndim != 1 || t->shape[0] != n)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: %s must have one element for each of the %lld channels (dim 2 of the "
                        "input %s), got %s",
                        op, name, (long long)n, SFT_SHAPE(x), SFT_SHAPE(t));
    return sft_need_floating(op, name, t);
}

/* batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) */
static sft_tensor *batch_norm(const char *op, sft_tensor *x, sft_tensor *rm, sft_tensor *rv,
                              sft_tensor *w, sft_tensor *bias, bool training, double momentum,
                              double eps) {
    if (sft_need_floating(op, "input", x) != SFT_OK) return NULL;
    if (x->ndim < 2 && (x->ndim == 0 || x->numel)) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: input must be [batch, channels, ...], got %s", op,
                 SFT_SHAPE(x));
        return NULL;
    }
    const int64_t channels = x->shape[x->ndim > 1], count = channels ? x->numel / channels : 0;
    if (check_channels(op, "running_mean", rm, channels, x) != SFT_OK ||
        check_channels(op, "running_var", rv, channels, x) != SFT_OK ||
        check_channels(op, "weight", w, channels, x) != SFT_OK ||
        check_channels(op, "bias", bias, channels, x) != SFT_OK)
        return NULL;
    if (!training && (!rm || !rv)) {
        sft_fail(SFT_ERR_ARGUMENT,
                 "%s: running_mean and running_var are needed unless training is true", op);
        return NULL;
    }
    if (training && count == 1) {
        sft_fail(SFT_ERR_ARGUMENT,
                 "%s: more than one value per channel is needed when training, got input %s", op,
                 SFT_SHAPE(x));
        return NULL;
    }
    if (training && ((rm && sft_has_overlap(rm)) || (rv && sft_has_overlap(rv)))) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: elements of the running statistics share memory", op);
        return NULL;
    }
    sft_dtype ct = sft_wide_dtype(x);
    sft_tensor *y = DO(native_batch_norm, sft_dense_as(x, ct), sft_v_maybe(sft_dense_as(w, ct)),
                       sft_v_maybe(sft_dense_as(bias, ct)), sft_v_maybe(rm), sft_v_maybe(rv),
                       (bool)training, momentum, eps);
    return sft_as(y, (sft_dtype)x->dtype);
}

IMPL(batch_norm) {
    return sft_ret(c, batch_norm(c->info->name, ARG_T(0), ARG_T(1), ARG_T(2), ARG_T(3), ARG_T(4),
                                 ARG_B(5), ARG_F(6), ARG_F(7)));
}

/* ---- group norm, instance norm --------------------------------------------------------------- */

/* y * weight + bias over the channels (dim 1). */
static sft_tensor *affine(sft_tensor *y, sft_tensor *w, sft_tensor *bias) {
    if (!y) return NULL;
    int64_t shape[SFT_MAX_DIMS];
    for (int d = 0; d < y->ndim; d++) shape[d] = d == 1 ? y->shape[d] : 1;
    const sft_value like = sft_v_ints(shape, y->ndim);
    if (w) y = DO(mul, y, sft_as(DO(reshape, w, like), (sft_dtype)y->dtype));
    if (bias) y = DO(add, y, sft_as(DO(reshape, bias, like), (sft_dtype)y->dtype));
    return y;
}

/* group_norm(input, num_groups, weight, bias, eps) */
IMPL(group_norm) {
    sft_tensor *x = ARG_T(0), *w = ARG_T(2), *bias = ARG_T(3);
    const char *op = c->info->name;
    int64_t groups = ARG_I(1);
    SFT_TRY(sft_need_floating(op, "input", x));
    if (x->ndim < 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: input must be [batch, channels, ...], got %s", op,
                        SFT_SHAPE(x));
    if (groups < 1 || x->shape[1] % groups)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: the %lld channels of the input %s can't be split into %lld groups", op,
                        (long long)x->shape[1], SFT_SHAPE(x), (long long)groups);
    SFT_TRY(check_channels(op, "weight", w, x->shape[1], x));
    SFT_TRY(check_channels(op, "bias", bias, x->shape[1], x));
    sft_dtype ct = sft_wide_dtype(x);
    const int64_t rows = x->shape[0] * groups, n = rows ? x->numel / rows : 0;
    sft_tensor *y =
        DO(native_layer_norm, sft_dense_as(x, ct), n, sft_v_none(), sft_v_none(), ARG_F(4), false);
    return sft_ret(c, sft_as(affine(y, w, bias), (sft_dtype)x->dtype));
}

/* Running statistics of instance norm: moved towards the mean over the batch. */
static void move_towards(sft_tensor *running, sft_tensor *value, double momentum) {
    if (!running || !value) return;
    sft_context *ctx = sft_thread()->ctx;
    bool was = ctx->no_grad;
    ctx->no_grad = true;
    sft_tensor *moved = DO(add, DO(mul, running, 1 - momentum), DO(mul, value, momentum));
    DO_(copy, running, sft_as(moved, (sft_dtype)running->dtype));
    ctx->no_grad = was;
}

/* instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps) */
IMPL(instance_norm) {
    sft_tensor *x = ARG_T(0), *rm = ARG_T(1), *rv = ARG_T(2), *w = ARG_T(3), *bias = ARG_T(4);
    const char *op = c->info->name;
    const double momentum = ARG_F(6);
    SFT_TRY(sft_need_floating(op, "input", x));
    if (x->ndim < 3)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: input must be [batch, channels, length, ...], got %s", op,
                        SFT_SHAPE(x));
    if (!ARG_B(5)) return sft_ret(c, batch_norm(op, x, rm, rv, w, bias, false, momentum, ARG_F(7)));
    const int64_t batch = x->shape[0], channels = x->shape[1], rows = batch * channels;
    const int64_t n = rows ? x->numel / rows : 0;
    SFT_TRY(check_channels(op, "running_mean", rm, channels, x));
    SFT_TRY(check_channels(op, "running_var", rv, channels, x));
    SFT_TRY(check_channels(op, "weight", w, channels, x));
    SFT_TRY(check_channels(op, "bias", bias, channels, x));
    if (n == 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: more than one spatial element is needed when training, got input %s",
                        op, SFT_SHAPE(x));
    sft_dtype ct = sft_wide_dtype(x);
    sft_tensor *o[3];
    if (!DO_N(o, 3, native_layer_norm, sft_dense_as(x, ct), n, sft_v_none(), sft_v_none(), ARG_F(7),
              false))
        return sft_last_status();
    if (rows && n && (rm || rv)) {
        const int64_t shape[2] = {batch, channels}, first = 0;
        const sft_value like = sft_v_ints(shape, 2), over = sft_v_ints(&first, 1);
        sft_tensor *mean = DO(reshape, DO(detach, o[1]), like);
        sft_tensor *rstd = DO(reshape, DO(detach, o[2]), like);
        move_towards(rm, DO(mul, DO(sum, mean, over), 1.0 / (double)batch), momentum);
        /* var of n - 1: (1 / rstd^2 - eps) * n / (n - 1) */
        sft_tensor *var = DO(sub, DO(div, 1.0, DO(mul, rstd, rstd)), ARG_F(7));
        var = DO(mul, DO(sum, var, over), (double)n / (double)(n - 1) / (double)batch);
        move_towards(rv, var, momentum);
        if (sft_failed()) return sft_last_status();
    }
    return sft_ret(c, sft_as(affine(o[0], w, bias), (sft_dtype)x->dtype));
}
