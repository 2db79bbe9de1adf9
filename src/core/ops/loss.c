/* loss.c: cross_entropy and nll_loss over class labels, and what all losses share. One fused op
 * gives a loss with its reduction, another its gradient; gradients of gradients are plain ops. */
#include "loss.h"
#include "widen.h"

/* ---- reductions ------------------------------------------------------------------------------ */

int sft_read_reduction(const char *op, const char *text, bool batch) {
    if (!strcmp(text, "mean")) return SFT_REDUCE_MEAN;
    if (!strcmp(text, "sum")) return SFT_REDUCE_SUM;
    if (!strcmp(text, "none")) return SFT_REDUCE_NONE;
    if (batch && !strcmp(text, "batchmean")) return SFT_REDUCE_BATCHMEAN;
    sft_fail(SFT_ERR_ARGUMENT,
             "%s: reduction must be \"mean\", \"sum\"%s or \"none\", got \"%.40s\"", op,
             batch ? ", \"batchmean\"" : "", text);
    return -1;
}

sft_tensor *sft_reduce_loss(sft_tensor *loss, int reduction) {
    if (!loss) return NULL;
    switch (reduction) {
    case SFT_REDUCE_MEAN:
        return DO(mean, loss);
    case SFT_REDUCE_SUM:
        return DO(sum, loss);
    case SFT_REDUCE_BATCHMEAN:
        return DO(div, DO(sum, loss), loss->ndim ? (double)loss->shape[0] : 1.0);
    default:
        return loss;
    }
}

/* ---- the fused op over labels ---------------------------------------------------------------- */

/* Parameters of softmax_cross_entropy and nll_loss_rows as they stand in ops.def. */
enum { A_INPUT, A_TARGET, A_WEIGHT, A_IGNORE, A_REDUCTION, A_SMOOTHING };

/* (input [.., classes], target, weight, ignore_index, reduction, smoothing) -> loss, stats, total
 */
IMPL(class_loss) {
    sft_tensor *x = ARG_T(A_INPUT), *y = ARG_T(A_TARGET);
    const int64_t two[2] = {y->numel, 2};
    sft_class_loss_params p = {y->numel,
                               x->shape[x->ndim - 1],
                               ARG_I(A_IGNORE),
                               (int)ARG_I(A_REDUCTION),
                               ARG_F(A_SMOOTHING),
                               c->op == SFT_OP_softmax_cross_entropy,
                               false};
    sft_dtype dtype = (sft_dtype)x->dtype;
    SFT_TRY(sft_give(
        c, sft_empty(y->shape, p.reduction == SFT_REDUCE_NONE ? y->ndim : 0, dtype, x->device)));
    SFT_TRY(sft_give(c, sft_empty(two, p.logits ? 2 : 0, dtype, x->device)));
    SFT_TRY(sft_give(c, sft_empty(NULL, 0, dtype, x->device)));
    sft_tensor *t[6] = {c->out[0], c->out[1], c->out[2], x, y, ARG_T(A_WEIGHT)};
    return sft_run(c->op, t, 6, &p);
}

/* (grad, input, target, weight, stats, total, ignore_index, reduction, smoothing, logits, constant)
 */
IMPL(class_loss_backward) {
    sft_tensor *g = DO(contiguous, c->a[0]), *x = ARG_T(1);
    sft_class_loss_params p = {
        ARG_T(2)->numel, x->shape[x->ndim - 1], ARG_I(6), (int)ARG_I(7), ARG_F(8), ARG_B(9),
        ARG_B(10)};
    if (!g) return sft_last_status();
    SFT_TRY(sft_give(c, sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device)));
    sft_tensor *t[7] = {c->out[0], g, x, ARG_T(2), ARG_T(3), ARG_T(4), ARG_T(5)};
    return sft_run(c->op, t, 7, &p);
}

static sft_tensor *class_gradient(sft_bw *b, bool constant) {
    bool logits = b->node->op == SFT_OP_softmax_cross_entropy;
    return DO(class_loss_backward, DO(detach, G), DO(detach, IN(A_INPUT)), IN(A_TARGET),
              VAL(A_WEIGHT), DO(detach, OUT(1)), DO(detach, OUT(2)), INT(A_IGNORE),
              INT(A_REDUCTION), NUM(A_SMOOTHING), logits, constant);
}

/* dx = g (sum(K) softmax(x) - K), where K, the weighted targets, does not depend on x. */
static void class_graph(sft_bw *b) {
    sft_tensor *x = IN(A_INPUT), *k = class_gradient(b, true), *g = G;
    if (!x || !k) return;
    const int64_t last = x->ndim - 1;
    const sft_value dim = sft_v_ints(&last, 1);
    sft_tensor *d = DO(neg, k);
    if (b->node->op == SFT_OP_softmax_cross_entropy) {
        sft_tensor *e = DO(exp, DO(sub, x, DO(amax, DO(detach, x), dim, true)));
        sft_tensor *soft = DO(div, e, DO(sum, e, dim, true));
        d = DO(sub, DO(mul, soft, DO(sum, k, dim, true)), k);
        /* Rows without a target have no gradient, whatever they hold. */
        d = DO(where, DO(eq, DO(sum, k, dim, true), 0), DO(zeros_like, d), d);
    }
    if (INT(A_REDUCTION) == SFT_REDUCE_MEAN) g = DO(div, g, DO(detach, OUT(2)));
    if (INT(A_REDUCTION) == SFT_REDUCE_NONE) {
        int64_t shape[SFT_MAX_DIMS];
        for (int i = 0; i < x->ndim; i++) shape[i] = i < last ? x->shape[i] : 1;
        g = DO(reshape, g, sft_v_ints(shape, x->ndim));
    }
    SET(A_INPUT, DO(mul, g, d));
}

GRAD(class_loss) {
    if (!G || !NEED(A_INPUT)) return;
    if (b->create_graph)
        class_graph(b);
    else
        SET(A_INPUT, class_gradient(b, false));
}

/* ---- cross_entropy, nll_loss ----------------------------------------------------------------- */

static sft_status check_weight(const char *op, const sft_tensor *w, int64_t classes) {
    if (!w) return SFT_OK;
    if (w->ndim != 1 || w->shape[0] != classes)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: weight must have one element for each of the %lld classes, got %s", op,
                        (long long)classes, SFT_SHAPE(w));
    return sft_need_floating(op, "weight", w);
}

static sft_status check_class_shapes(const char *op, const sft_tensor *x, const sft_tensor *y) {
    int64_t want[SFT_MAX_DIMS];
    int n = 0;
    SFT_TRY(sft_need_floating(op, "input", x));
    if (x->ndim < 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: input must be [classes] or [batch, classes, ...], got a 0-dim tensor",
                        op);
    for (int d = 0; d < x->ndim; d++)
        if (d != (x->ndim > 1)) want[n++] = x->shape[d];
    if (y->ndim != n || memcmp(y->shape, want, sizeof(int64_t) * (size_t)n) != 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: target must have the shape of the input %s without its class dim, %s, "
                        "got %s",
                        op, SFT_SHAPE(x), sft_shape_text(want, n, (char[160]){0}, 160),
                        SFT_SHAPE(y));
    if (y->dtype == SFT_bool || sft_is_float(y->dtype))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: target must hold class labels (int64), got %s; use y:to(sft.int64)",
                        op, sft_dtype_name((sft_dtype)y->dtype));
    return SFT_OK;
}

/* The class dim to the end. */
static sft_tensor *classes_last(sft_tensor *x) {
    if (!x || x->ndim <= 2) return x;
    int64_t order[SFT_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != 1) order[n++] = d;
    order[n] = 1;
    return DO(permute, x, sft_v_ints(order, x->ndim));
}

static sft_status class_loss(sft_opctx *c, sft_op_id op, double smoothing) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1), *w = ARG_T(2);
    const char *name = c->info->name;
    int reduction = sft_read_reduction(name, c->a[4].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(check_class_shapes(name, x, y));
    SFT_TRY(check_weight(name, w, x->shape[x->ndim > 1]));
    sft_dtype ct = sft_wide_dtype(x);
    sft_value a[6] = {sft_v_maybe(sft_dense_as(classes_last(x), ct)),
                      sft_v_maybe(sft_dense_as(y, SFT_int64)),
                      sft_v_maybe(sft_dense_as(w, ct)),
                      c->a[3],
                      sft_v_int(reduction),
                      sft_v_float(smoothing)};
    if (sft_failed()) return sft_last_status();
    return sft_ret(c, sft_as(sft_do(op, 0, a, 6), (sft_dtype)x->dtype));
}

/* Targets are probabilities of the classes. */
static sft_status cross_entropy_of_probabilities(sft_opctx *c, double smoothing) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1), *w = ARG_T(2);
    const char *op = c->info->name;
    int reduction = sft_read_reduction(op, c->a[4].u.s, false);
    if (reduction < 0) return sft_last_status();
    SFT_TRY(sft_need_floating(op, "input", x));
    const int64_t dim = x->ndim > 1, classes = x->shape[dim];
    SFT_TRY(check_weight(op, w, classes));
    sft_dtype ct = sft_wide_dtype(x);
    const sft_value dims = sft_v_ints(&dim, 1);
    sft_tensor *wide = sft_as(x, ct);
    if (smoothing != 0)
        y = DO(add, DO(mul, y, 1 - smoothing), smoothing / (double)(classes ? classes : 1));
    sft_tensor *shifted = DO(sub, wide, DO(amax, DO(detach, wide), dims, true));
    sft_tensor *logp = DO(sub, shifted, DO(log, DO(sum, DO(exp, shifted), dims, true)));
    sft_tensor *t = DO(mul, logp, sft_as(y, ct));
    if (w) {
        int64_t shape[SFT_MAX_DIMS];
        for (int d = 0; d < x->ndim; d++) shape[d] = d == dim ? classes : 1;
        t = DO(mul, t, DO(reshape, sft_as(w, ct), sft_v_ints(shape, x->ndim)));
    }
    sft_tensor *loss = DO(neg, DO(sum, t, dims));
    if (loss && reduction == SFT_REDUCE_MEAN)
        loss = DO(div, DO(sum, loss), (double)loss->numel);
    else
        loss = sft_reduce_loss(loss, reduction);
    return sft_ret(c, sft_as(loss, (sft_dtype)x->dtype));
}

/* cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing) */
IMPL(cross_entropy) {
    sft_tensor *x = ARG_T(0), *y = ARG_T(1);
    double smoothing = ARG_F(5);
    if (!(smoothing >= 0 && smoothing <= 1))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: label_smoothing must lie between 0 and 1, got %g",
                        c->info->name, smoothing);
    if (sft_is_float(y->dtype) && x->ndim > 0 && sft_same_shape(x, y))
        return cross_entropy_of_probabilities(c, smoothing);
    return class_loss(c, SFT_OP_softmax_cross_entropy, smoothing);
}

/* nll_loss(input, target, weight, ignore_index, reduction) */
IMPL(nll_loss) { return class_loss(c, SFT_OP_nll_loss_rows, 0); }
