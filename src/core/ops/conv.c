/* conv.c: convolutions in one and two dims. Three internal ops (forward, gradient of the input,
 * gradient of the weights) are each other's gradients, so any order of differentiation works; a
 * transposed convolution is the gradient of the input. */
#include "conv.h"
#include "widen.h"

/* ---- the three ops --------------------------------------------------------------------------- */

/* Geometry as an argument: stride, padding (four sides), dilation, groups. */
enum { GEOMETRY = 9 };
static sft_conv_params params_of(const sft_value *v) {
    sft_conv_params p;
    memcpy(&p, v->u.ints, sizeof(int64_t) * GEOMETRY);
    return p;
}
static sft_value params_value(const sft_conv_params *p) {
    return sft_v_ints((const int64_t *)(const void *)p, GEOMETRY);
}

static int64_t out_size(int64_t in, int64_t k, int64_t s, int64_t before, int64_t after,
                        int64_t d) {
    return (in + before + after - d * (k - 1) - 1) / s + 1;
}

/* (input, weight, bias, geometry) */
IMPL(conv_planes) {
    sft_tensor *x = DO(contiguous, c->a[0]), *w = DO(contiguous, c->a[1]), *bias = ARG_T(2);
    if (bias) bias = DO(contiguous, bias);
    if (sft_failed()) return sft_last_status();
    const sft_conv_params p = params_of(&c->a[3]);
    const int64_t shape[4] = {
        x->shape[0], w->shape[0],
        out_size(x->shape[2], w->shape[2], p.stride[0], p.pad[0], p.pad[1], p.dilation[0]),
        out_size(x->shape[3], w->shape[3], p.stride[1], p.pad[2], p.pad[3], p.dilation[1])};
    sft_tensor *y = sft_empty(shape, 4, (sft_dtype)x->dtype, x->device);
    SFT_TRY(sft_give(c, y));
    sft_tensor *t[4] = {y, x, w, bias};
    return y->numel ? sft_run(c->op, t, 4, &p) : SFT_OK;
}
GRAD(conv_planes) {
    if (!G) return;
    int n;
    const int64_t over[3] = {0, 2, 3};
    if (NEED(0))
        SET(0, DO(conv_backward_data, G, IN(1), VAL(3), sft_v_ints(sft_bw_shape(b, 0, &n), 4)));
    if (NEED(1))
        SET(1, DO(conv_backward_weights, IN(0), G, VAL(3), sft_v_ints(sft_bw_shape(b, 1, &n), 4)));
    if (NEED(2)) SET(2, DO(sum, G, sft_v_ints(over, 3)));
}

/* (grad, weight, geometry, input_shape) */
IMPL(conv_backward_data) {
    sft_tensor *g = DO(contiguous, c->a[0]), *w = DO(contiguous, c->a[1]);
    if (!g || !w) return sft_last_status();
    const sft_conv_params p = params_of(&c->a[2]);
    sft_tensor *dx = sft_empty(c->a[3].u.ints, 4, (sft_dtype)g->dtype, g->device);
    SFT_TRY(sft_give(c, dx));
    if (!g->numel || !w->numel) return sft_fill_raw(dx, sft_v_int(0));
    sft_tensor *t[3] = {dx, g, w};
    return dx->numel ? sft_run(c->op, t, 3, &p) : SFT_OK;
}
GRAD(conv_backward_data) {
    if (!G) return;
    int n;
    if (NEED(0)) SET(0, DO(conv_planes, G, IN(1), sft_v_none(), VAL(2)));
    if (NEED(1))
        SET(1, DO(conv_backward_weights, G, IN(0), VAL(2), sft_v_ints(sft_bw_shape(b, 1, &n), 4)));
}

/* (input, grad, geometry, weight_shape) */
IMPL(conv_backward_weights) {
    sft_tensor *x = DO(contiguous, c->a[0]), *g = DO(contiguous, c->a[1]);
    if (!x || !g) return sft_last_status();
    const sft_conv_params p = params_of(&c->a[2]);
    sft_tensor *dw = sft_empty(c->a[3].u.ints, 4, (sft_dtype)x->dtype, x->device);
    SFT_TRY(sft_give(c, dw));
    if (!g->numel || !x->numel) return sft_fill_raw(dw, sft_v_int(0));
    sft_tensor *t[3] = {dw, x, g};
    return dw->numel ? sft_run(c->op, t, 3, &p) : SFT_OK;
}
GRAD(conv_backward_weights) {
    if (!G) return;
    int n;
    if (NEED(0))
        SET(0, DO(conv_backward_data, IN(1), G, VAL(2), sft_v_ints(sft_bw_shape(b, 0, &n), 4)));
    if (NEED(1)) SET(1, DO(conv_planes, IN(0), G, sft_v_none(), VAL(2)));
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* A list of one or `dims` numbers -> two; where dims is 1, `other` stands for the height. */
static sft_status read_sizes(const char *op, const char *name, const sft_value *v, int dims,
                             int64_t other, int64_t least, int64_t out[2]) {
    const int n = v->kind == SFT_V_INTS ? v->n : 0;
    if (n < 1 || n > dims)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: %s must be one number%s, got %d", op, name,
                        dims == 2 ? " or two" : "", n);
    out[0] = dims == 2 ? v->u.ints[0] : other;
    out[1] = v->u.ints[n - 1];
    for (int i = 0; i < 2; i++)
        if (out[i] < least || out[i] > INT32_MAX)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: %s must be at least %lld, got %lld", op, name,
                            (long long)least, (long long)out[i]);
    return SFT_OK;
}

typedef struct conv_call {
    const char *op;
    int dims; /* spatial dims */
    sft_tensor *x, *w, *bias;
    bool batched;
    sft_dtype dtype; /* of the result */
    sft_conv_params p;
} conv_call;

static sft_tensor *with_height(sft_tensor *t) {
    int64_t shape[SFT_MAX_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    shape[t->ndim] = shape[t->ndim - 1];
    shape[t->ndim - 1] = 1;
    return DO(reshape, t, sft_v_ints(shape, t->ndim + 1));
}

/* Shapes and dtypes; x and w become [n, c, h, w] in a dtype that kernels know. */
static sft_status prepare(conv_call *k) {
    const char *layout = k->dims == 2
                             ? "[batch, channels, height, width] or [channels, height, width]"
                             : "[batch, channels, length] or [channels, length]";
    sft_tensor *x = k->x, *w = k->w, *b = k->bias;
    if (x->ndim != k->dims + 1 && x->ndim != k->dims + 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: input must be %s, got %s", k->op, layout,
                        SFT_SHAPE(x));
    if (w->ndim != k->dims + 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: weight must have %d dims, got %s", k->op,
                        k->dims + 2, SFT_SHAPE(w));
    if (w->dtype != x->dtype || (b && b->dtype != x->dtype))
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: input, weight and bias must have one dtype, got %s, %s%s%s; convert them "
            "with x:to(...)",
            k->op, sft_dtype_name((sft_dtype)x->dtype), sft_dtype_name((sft_dtype)w->dtype),
            b ? ", " : "", b ? sft_dtype_name((sft_dtype)b->dtype) : "");
    if (x->dtype == SFT_bool)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: not defined for bool tensors", k->op);
    k->batched = x->ndim == k->dims + 2;
    k->dtype = (sft_dtype)x->dtype;
    const sft_dtype ct = sft_is_float(x->dtype) ? sft_wide_dtype(x) : SFT_float64;
    x = sft_as(x, ct);
    w = sft_as(w, ct);
    if (b) b = sft_as(b, ct);
    if (x && k->dims == 1) x = with_height(x);
    if (w && k->dims == 1) w = with_height(w);
    if (x && !k->batched) {
        const int64_t shape[4] = {1, x->shape[0], x->shape[1], x->shape[2]};
        x = DO(reshape, x, sft_v_ints(shape, 4));
    }
    k->x = x;
    k->w = w;
    k->bias = b;
    return sft_failed() ? sft_last_status() : SFT_OK;
}

static sft_status check_bias(const conv_call *k, int64_t channels) {
    if (!k->bias || (k->bias->ndim == 1 && k->bias->shape[0] == channels)) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT,
                    "%s: bias must have one element for each of the %lld output channels, got %s",
                    k->op, (long long)channels, SFT_SHAPE(k->bias));
}

/* Without the dims that the caller's input lacked, in the caller's dtype. */
static sft_tensor *finish(const conv_call *k, sft_tensor *y) {
    int64_t shape[4];
    int n = 0;
    if (!y) return NULL;
    if (k->dims == 2 && k->batched) return sft_as(y, k->dtype);
    for (int d = !k->batched; d < 4; d++)
        if (!(d == 2 && k->dims == 1)) shape[n++] = y->shape[d];
    return sft_as(DO(reshape, y, sft_v_ints(shape, n)), k->dtype);
}

static sft_status conv(conv_call *k, sft_opctx *c) {
    SFT_TRY(prepare(k));
    const int64_t groups = k->p.groups, ic = k->x->shape[1], oc = k->w->shape[0];
    if (groups < 1 || ic % groups || oc % groups)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: groups must divide the input's %lld channels and the weight's %lld "
                        "outputs, got %lld",
                        k->op, (long long)ic, (long long)oc, (long long)groups);
    if (k->w->shape[1] != ic / groups)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: the input has %lld channels, but the weight %s expects %lld (%lld for each "
            "of %lld groups)",
            k->op, (long long)ic, SFT_SHAPE(ARG_T(1)), (long long)(k->w->shape[1] * groups),
            (long long)k->w->shape[1], (long long)groups);
    SFT_TRY(check_bias(k, oc));
    for (int i = 0; i < 2; i++) {
        const int64_t in = k->x->shape[2 + i] + k->p.pad[2 * i] + k->p.pad[2 * i + 1];
        const int64_t span = k->p.dilation[i] * (k->w->shape[2 + i] - 1) + 1;
        if (k->w->shape[2 + i] < 1 || span > in)
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "%s: the kernel (with dilation %lld elements) is larger than the padded "
                "input (%lld); add padding or use a smaller kernel",
                k->op, (long long)span, (long long)in);
    }
    sft_tensor *y = DO(conv_planes, k->x, k->w, sft_v_maybe(k->bias), params_value(&k->p));
    return sft_ret(c, finish(k, y));
}

/* (input, weight, bias, stride, padding, dilation, groups) */
static sft_status conv_numbers(sft_opctx *c, int dims) {
    conv_call k = {
        .op = c->info->name, .dims = dims, .x = ARG_T(0), .w = ARG_T(1), .bias = ARG_T(2)};
    int64_t pad[2];
    SFT_TRY(read_sizes(k.op, "stride", &c->a[3], dims, 1, 1, k.p.stride));
    SFT_TRY(read_sizes(k.op, "padding", &c->a[4], dims, 0, 0, pad));
    SFT_TRY(read_sizes(k.op, "dilation", &c->a[5], dims, 1, 1, k.p.dilation));
    k.p.pad[0] = k.p.pad[1] = pad[0];
    k.p.pad[2] = k.p.pad[3] = pad[1];
    k.p.groups = ARG_I(6);
    return conv(&k, c);
}

/* The same with padding "same" or "valid". */
static sft_status conv_named(sft_opctx *c, int dims) {
    conv_call k = {
        .op = c->info->name, .dims = dims, .x = ARG_T(0), .w = ARG_T(1), .bias = ARG_T(2)};
    const char *padding = c->a[4].u.s;
    const bool same = !strcmp(padding, "same");
    SFT_TRY(read_sizes(k.op, "stride", &c->a[3], dims, 1, 1, k.p.stride));
    SFT_TRY(read_sizes(k.op, "dilation", &c->a[5], dims, 1, 1, k.p.dilation));
    if (!same && strcmp(padding, "valid") != 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: padding must be a size, \"same\" or \"valid\", got \"%.40s\"", k.op,
                        padding);
    if (same && (k.p.stride[0] != 1 || k.p.stride[1] != 1))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: padding = \"same\" needs a stride of 1", k.op);
    if (same && k.w->ndim == dims + 2)
        for (int i = 0; i < dims; i++) {
            const int at = 2 - dims + i;
            const int64_t total = k.p.dilation[at] * (k.w->shape[2 + i] - 1);
            k.p.pad[2 * at] = total / 2;
            k.p.pad[2 * at + 1] = total - total / 2;
        }
    k.p.groups = ARG_I(6);
    return conv(&k, c);
}

IMPL(conv2d) { return conv_numbers(c, 2); }
IMPL(conv1d) { return conv_numbers(c, 1); }
IMPL(conv2d_named) { return conv_named(c, 2); }
IMPL(conv1d_named) { return conv_named(c, 1); }

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
static sft_status conv_transpose(sft_opctx *c, int dims) {
    conv_call k = {
        .op = c->info->name, .dims = dims, .x = ARG_T(0), .w = ARG_T(1), .bias = ARG_T(2)};
    int64_t pad[2], extra[2], shape[4];
    SFT_TRY(read_sizes(k.op, "stride", &c->a[3], dims, 1, 1, k.p.stride));
    SFT_TRY(read_sizes(k.op, "padding", &c->a[4], dims, 0, 0, pad));
    SFT_TRY(read_sizes(k.op, "output_padding", &c->a[5], dims, 0, 0, extra));
    SFT_TRY(read_sizes(k.op, "dilation", &c->a[7], dims, 1, 1, k.p.dilation));
    const int64_t groups = k.p.groups = ARG_I(6);
    SFT_TRY(prepare(&k));
    const int64_t ic = k.x->shape[1];
    if (groups < 1 || ic % groups)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: groups must divide the input's %lld channels, got %lld", k.op,
                        (long long)ic, (long long)groups);
    if (k.w->shape[0] != ic)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: the input has %lld channels, but the weight %s expects %lld", k.op,
                        (long long)ic, SFT_SHAPE(ARG_T(1)), (long long)k.w->shape[0]);
    shape[0] = k.x->shape[0];
    shape[1] = k.w->shape[1] * groups;
    SFT_TRY(check_bias(&k, shape[1]));
    for (int i = 0; i < 2; i++) {
        if (extra[i] && extra[i] >= k.p.stride[i] && extra[i] >= k.p.dilation[i])
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: output_padding must be smaller than stride or dilation, got %lld",
                            k.op, (long long)extra[i]);
        shape[2 + i] = (k.x->shape[2 + i] - 1) * k.p.stride[i] - 2 * pad[i] +
                       k.p.dilation[i] * (k.w->shape[2 + i] - 1) + extra[i] + 1;
        if (k.w->shape[2 + i] < 1 || shape[2 + i] < 1)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: the result would be empty", k.op);
        k.p.pad[2 * i] = k.p.pad[2 * i + 1] = pad[i];
    }
    sft_tensor *y = DO(conv_backward_data, k.x, k.w, params_value(&k.p), sft_v_ints(shape, 4));
    if (k.bias) {
        const int64_t like[4] = {1, shape[1], 1, 1};
        y = DO(add, y, DO(reshape, k.bias, sft_v_ints(like, 4)));
    }
    return sft_ret(c, finish(&k, y));
}
IMPL(conv_transpose2d) { return conv_transpose(c, 2); }
IMPL(conv_transpose1d) { return conv_transpose(c, 1); }

/* ---- patches --------------------------------------------------------------------------------- */

enum { PATCH = 14 };
static sft_patch_params patch_of(const sft_value *v) {
    sft_patch_params p;
    memcpy(&p, v->u.ints, sizeof(int64_t) * PATCH);
    return p;
}
static sft_value patch_value(const sft_patch_params *p) {
    return sft_v_ints((const int64_t *)(const void *)p, PATCH);
}

/* (input [n, c, h, w], geometry) -> [n, c * kh * kw, windows] */
IMPL(unfold_patches) {
    sft_tensor *x = DO(contiguous, c->a[0]);
    if (!x) return sft_last_status();
    const sft_patch_params p = patch_of(&c->a[1]);
    const int64_t shape[3] = {p.n, p.c * p.k[0] * p.k[1], p.oh * p.ow};
    SFT_TRY(sft_give(c, sft_empty(shape, 3, (sft_dtype)x->dtype, x->device)));
    sft_tensor *t[2] = {c->out[0], x};
    return c->out[0]->numel ? sft_run(c->op, t, 2, &p) : SFT_OK;
}
GRAD(unfold_patches) {
    if (G) SET(0, DO(fold_patches, G, VAL(1)));
}

/* (columns, geometry) -> [n, c, h, w], overlapping windows added */
IMPL(fold_patches) {
    sft_tensor *columns = DO(contiguous, c->a[0]);
    if (!columns) return sft_last_status();
    const sft_patch_params p = patch_of(&c->a[1]);
    const int64_t shape[4] = {p.n, p.c, p.h, p.w};
    SFT_TRY(sft_give(c, sft_empty(shape, 4, (sft_dtype)columns->dtype, columns->device)));
    sft_tensor *t[2] = {columns, c->out[0]};
    return c->out[0]->numel ? sft_run(c->op, t, 2, &p) : SFT_OK;
}
GRAD(fold_patches) {
    if (G) SET(0, DO(unfold_patches, G, VAL(1)));
}

/* kernel_size, dilation, padding, stride from a[at..], and the numbers of windows. */
static sft_status read_patch(sft_opctx *c, int at, sft_patch_params *p) {
    const char *op = c->info->name;
    SFT_TRY(read_sizes(op, "kernel_size", &c->a[at], 2, 1, 1, p->k));
    SFT_TRY(read_sizes(op, "dilation", &c->a[at + 1], 2, 1, 1, p->d));
    SFT_TRY(read_sizes(op, "padding", &c->a[at + 2], 2, 0, 0, p->p));
    SFT_TRY(read_sizes(op, "stride", &c->a[at + 3], 2, 1, 1, p->s));
    const int64_t size[2] = {p->h, p->w};
    int64_t *out[2] = {&p->oh, &p->ow};
    for (int i = 0; i < 2; i++) {
        const int64_t span = size[i] + 2 * p->p[i] - p->d[i] * (p->k[i] - 1) - 1;
        if (span < 0)
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "%s: a window of %lld x %lld elements does not fit into the plane %lld x "
                "%lld with its padding",
                op, (long long)p->k[0], (long long)p->k[1], (long long)p->h, (long long)p->w);
        *out[i] = span / p->s[i] + 1;
    }
    return SFT_OK;
}

/* (input, kernel_size, dilation, padding, stride) */
IMPL(nn_unfold) {
    sft_tensor *x = ARG_T(0);
    const char *op = c->info->name;
    sft_dtype dtype = (sft_dtype)x->dtype;
    const bool batched = x->ndim == 4;
    if (x->ndim != 3 && x->ndim != 4)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: input must be [batch, channels, height, width] or [channels, height, "
                        "width], got %s",
                        op, SFT_SHAPE(x));
    SFT_TRY(sft_need_floating(op, "input", x));
    const int64_t *s = x->shape + batched;
    sft_patch_params p = {.n = batched ? x->shape[0] : 1, .c = s[0], .h = s[1], .w = s[2]};
    SFT_TRY(read_patch(c, 1, &p));
    sft_tensor *y = DO(unfold_patches, sft_as(x, sft_wide_dtype(x)), patch_value(&p));
    if (y && !batched) y = DO(reshape, y, sft_v_ints(y->shape + 1, 2));
    return sft_ret(c, sft_as(y, dtype));
}

/* (input, output_size, kernel_size, dilation, padding, stride) */
IMPL(fold) {
    sft_tensor *x = ARG_T(0);
    const char *op = c->info->name;
    sft_dtype dtype = (sft_dtype)x->dtype;
    const bool batched = x->ndim == 3;
    int64_t size[2] = {0, 0};
    if (x->ndim != 2 && x->ndim != 3)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: input must be [batch, channels * kernel, windows] or without the batch, "
            "got %s",
            op, SFT_SHAPE(x));
    SFT_TRY(sft_need_floating(op, "input", x));
    SFT_TRY(read_sizes(op, "output_size", &c->a[1], 2, 1, 1, size));
    const int64_t *s = x->shape + batched;
    sft_patch_params p = {.n = batched ? x->shape[0] : 1, .h = size[0], .w = size[1]};
    SFT_TRY(read_patch(c, 2, &p));
    const int64_t taps = p.k[0] * p.k[1];
    if (s[0] % taps || s[0] < 1)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: dim %d of the input %s must be a multiple of the kernel's %lld elements", op,
            batched + 1, SFT_SHAPE(x), (long long)taps);
    p.c = s[0] / taps;
    if (s[1] != p.oh * p.ow)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: these sizes make %lld x %lld windows, but the input %s has %lld", op,
                        (long long)p.oh, (long long)p.ow, SFT_SHAPE(x), (long long)s[1]);
    sft_tensor *y = DO(fold_patches, sft_as(x, sft_wide_dtype(x)), patch_value(&p));
    if (y && !batched) y = DO(reshape, y, sft_v_ints(y->shape + 1, 3));
    return sft_ret(c, sft_as(y, dtype));
}
