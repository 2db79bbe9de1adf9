/* loss_pointwise.c: losses between an input and a target of its shape: mse, l1, smooth_l1, huber,
 * binary cross entropy (both forms), kl_div, hinge_embedding. */
#include "loss.h"
#include "widen.h"
#include <stdio.h>

/* ---- the fused op ---------------------------------------------------------------------------- */

/* (input, target, kind, reduction, beta), contiguous and of one dtype */
IMPL(point_loss) {
    sft_tensor *x = ARG_T(0);
    sft_point_loss_params p = {(int)ARG_I(2), (int)ARG_I(3), ARG_F(4)};
    SFT_TRY(sft_give(c, sft_empty(x->shape, p.reduction == SFT_REDUCE_NONE ? x->ndim : 0,
                                  (sft_dtype)x->dtype, x->device)));
    sft_tensor *t[3] = {c->out[0], x, ARG_T(1)};
    return sft_run(c->op, t, 3, &p);
}

/* (grad, input, target, kind, reduction, beta) -> gradient of the input */
IMPL(point_loss_backward) {
    sft_tensor *g = DO(contiguous, c->a[0]), *x = ARG_T(1);
    sft_point_loss_params p = {(int)ARG_I(3), (int)ARG_I(4), ARG_F(5)};
    if (!g) return sft_last_status();
    SFT_TRY(sft_give(c, sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)));
    sft_tensor *t[4] = {c->out[0], g, x, ARG_T(2)};
    return sft_run(c->op, t, 4, &p);
}

/* Derivative of the loss by the input, as plain ops. */
static sft_tensor *slope(int kind, sft_tensor *x, sft_tensor *y, double beta) {
    sft_tensor *d = DO(sub, x, y);
    switch (kind) {
    case SFT_LOSS_MSE:
        return DO(mul, d, 2);
    case SFT_LOSS_L1:
        return DO(sign, d);
    case SFT_LOSS_SMOOTH_L1:
        return DO(clamp, DO(div, d, beta), -1.0, 1.0);
    case SFT_LOSS_HUBER:
        return DO(clamp, d, -beta, beta);
    case SFT_LOSS_BCE:
        return DO(div, d, DO(clamp, DO(mul, DO(sub, 1, x), x), 1e-12));
    default:
        return DO(sub, DO(sigmoid, x), y);
    }
}

/* The same by the target, for the kinds where it is not the negative. */
static sft_tensor *target_slope(int kind, sft_tensor *x) {
    if (kind == SFT_LOSS_BCE_LOGITS) return DO(neg, x);
    return DO(sub, DO(clamp, DO(log, DO(sub, 1, x)), -100.0), DO(clamp, DO(log, x), -100.0));
}

GRAD(point_loss) {
    const int kind = (int)INT(2), reduction = (int)INT(3);
    sft_tensor *x = IN(0), *y = IN(1), *g = G, *dx = NULL;
    if (!g || !x) return;
    bool mirrored = kind <= SFT_LOSS_HUBER;
    sft_tensor *each = reduction == SFT_REDUCE_MEAN ? DO(div, g, (double)x->numel) : g;
    if (NEED(0) || mirrored)
        dx = b->create_graph ? DO(mul, each, slope(kind, x, y, NUM(4)))
                             : DO(point_loss_backward, g, x, y, kind, reduction, NUM(4));
    if (NEED(0)) SET(0, dx);
    if (NEED(1)) SET(1, mirrored ? DO(neg, dx) : DO(mul, each, target_slope(kind, x)));
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Input and target must have one shape; a target may be broadcast to the input's. Anything else is
 * taken for a mistake ([n, 1] against [n] would be a mean over n * n pairs) unless `broadcast`. */
static sft_status same_shapes(const char *op, sft_tensor **x, sft_tensor **y, bool broadcast) {
    if (sft_same_shape(*x, *y)) return SFT_OK;
    int64_t shape[SFT_MAX_DIMS];
    sft_value both[2] = {sft_v_tensor(*x), sft_v_tensor(*y)};
    int n = sft_broadcast_shape(both, 2, shape);
    if (n < 0) {
        sft_error_prefix(op);
        return sft_last_status();
    }
    bool grows = n != (*x)->ndim || memcmp(shape, (*x)->shape, sizeof(int64_t) * (size_t)n) != 0;
    if (grows && !broadcast) {
        const char *mend = "give both the same shape";
        char text[64];
        if ((*x)->ndim == (*y)->ndim + 1) {
            snprintf(text, sizeof text, "use target:unsqueeze(%d)", (*x)->ndim);
            mend = text;
        } else if ((*y)->ndim == (*x)->ndim + 1) {
            snprintf(text, sizeof text, "use input:unsqueeze(%d)", (*y)->ndim);
            mend = text;
        }
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: input %s and target %s would broadcast to %s; %s, or pass {broadcast = "
            "true} if that is meant",
            op, SFT_SHAPE(*x), SFT_SHAPE(*y), sft_shape_text(shape, n, (char[160]){0}, 160), mend);
    }
    const sft_value to = sft_v_ints(shape, n);
    *x = DO(expand, *x, to);
    *y = DO(expand, *y, to);
    return *x && *y ? SFT_OK : sft_last_status();
}

static sft_status exact_shapes(const char *op, const char *name, const sft_tensor *x,
                               const sft_tensor *y) {
    if (sft_same_shape(x, y)) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: %s must have the shape of the input, %s, got %s", op,
                    name, SFT_SHAPE(x), SFT_SHAPE(y));
}

/* The loss of c's input and target, reduced; result in their common dtype. */
static sft_tensor *point_loss(int kind, sft_tensor *x, sft_tensor *y, double beta, int reduction) {
    if (!x || !y) return NULL;
    sft_value both[2] = {sft_v_tensor(x), sft_v_tensor(y)};
    sft_dtype dtype = sft_to_float(sft_result_type(both, 2));
    sft_dtype ct = dtype == SFT_float64 ? SFT_float64 : SFT_float32;
    return sft_as(DO(point_loss, sft_dense_as(x, ct), sft_dense_as(y, ct), kind, reduction, beta),
                  dtype);
}

static sft_status elementwise_loss(sft_opctx *c, int kind, double beta, bool broadcast) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1);
    int reduction = sft_read_reduction(c->info->name, c->a[2].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(same_shapes(c->info->name, &x, &y, broadcast));
    return sft_ret(c, point_loss(kind, x, y, beta, reduction));
}

/* ---- ops ------------------------------------------------------------------------------------- */

IMPL(mse_loss) { return elementwise_loss(c, SFT_LOSS_MSE, 0, ARG_B(3)); }
IMPL(l1_loss) { return elementwise_loss(c, SFT_LOSS_L1, 0, ARG_B(3)); }

IMPL(smooth_l1_loss) {
    double beta = ARG_F(3);
    if (!(beta >= 0))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: beta must not be negative, got %g", c->info->name,
                        beta);
    return elementwise_loss(c, beta == 0 ? SFT_LOSS_L1 : SFT_LOSS_SMOOTH_L1, beta, ARG_B(4));
}

IMPL(huber_loss) {
    double delta = ARG_F(3);
    if (!(delta > 0))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: delta must be positive, got %g", c->info->name,
                        delta);
    return elementwise_loss(c, SFT_LOSS_HUBER, delta, ARG_B(4));
}

/* (input, target, weight, reduction) */
IMPL(binary_cross_entropy) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1), *w = ARG_T(2);
    const char *op = c->info->name;
    int reduction = sft_read_reduction(op, c->a[3].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(sft_need_floating(op, "input", x));
    SFT_TRY(exact_shapes(op, "target", x, y));
    sft_tensor *loss = point_loss(SFT_LOSS_BCE, x, y, 0, w ? SFT_REDUCE_NONE : reduction);
    if (w) loss = sft_reduce_loss(DO(mul, loss, w), reduction);
    return sft_ret(c, loss);
}

/* (input, target, weight, reduction, pos_weight) */
IMPL(binary_cross_entropy_with_logits) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1), *w = ARG_T(2), *pos = ARG_T(4), *loss;
    const char *op = c->info->name;
    int reduction = sft_read_reduction(op, c->a[3].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(sft_need_floating(op, "input", x));
    SFT_TRY(exact_shapes(op, "target", x, y));
    if (pos) {
        /* (1 - y) x + (1 + (pos - 1) y) log(1 + exp(-x)); the log is the loss at y = 1. */
        sft_tensor *log1p =
            point_loss(SFT_LOSS_BCE_LOGITS, x, DO(ones_like, x), 0, SFT_REDUCE_NONE);
        sft_tensor *factor = DO(add, DO(mul, DO(sub, pos, 1), y), 1);
        loss = DO(add, DO(mul, DO(sub, 1, y), x), DO(mul, factor, log1p));
    } else {
        loss = point_loss(SFT_LOSS_BCE_LOGITS, x, y, 0, w ? SFT_REDUCE_NONE : reduction);
    }
    if (w) loss = DO(mul, loss, w);
    return sft_ret(c, w || pos ? sft_reduce_loss(loss, reduction) : loss);
}

/* (input, target, reduction, log_target) */
IMPL(kl_div) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1), *loss;
    int reduction = sft_read_reduction(c->info->name, c->a[2].u.s, true);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(same_shapes(c->info->name, &x, &y, false));
    if (ARG_B(3)) {
        loss = DO(mul, DO(exp, y), DO(sub, y, x));
    } else {
        /* 0 * log(0) is 0. */
        sft_tensor *safe = DO(where, DO(eq, y, 0), DO(ones_like, y), y);
        loss = DO(mul, y, DO(sub, DO(log, safe), x));
    }
    return sft_ret(c, sft_reduce_loss(loss, reduction));
}

/* (input, target, margin, reduction): input where target is 1, max(0, margin - input) where -1 */
IMPL(hinge_embedding_loss) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1);
    int reduction = sft_read_reduction(c->info->name, c->a[3].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(same_shapes(c->info->name, &x, &y, false));
    sft_tensor *far = DO(clamp, DO(sub, ARG_F(2), x), 0), *zero = DO(zeros_like, far);
    sft_tensor *loss =
        DO(add, DO(where, DO(ne, y, 1), far, zero), DO(where, DO(ne, y, -1), x, zero));
    return sft_ret(c, sft_reduce_loss(loss, reduction));
}
