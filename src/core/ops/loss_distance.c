/* loss_distance.c: distances and similarities of vectors, and the losses made of them. All are
 * compositions. */
#include "loss.h"
#include "widen.h"

/* ---- distances ------------------------------------------------------------------------------- */

/* x * 1 as a floating tensor: integers and booleans are measured in the default dtype. */
static sft_tensor *floating(sft_tensor *x) {
    return !x || sft_is_float(x->dtype) ? x : sft_as(x, sft_default_dtype());
}

/* pairwise_distance(x1, x2, p, eps, keepdim) */
static sft_tensor *distance(sft_tensor *a, sft_tensor *b, double p, double eps, bool keepdim) {
    const int64_t last = -1;
    sft_tensor *d = DO(add, DO(sub, floating(a), floating(b)), eps);
    if (d && d->ndim == 0) return DO(norm, d, p);
    return DO(norm, d, p, sft_v_ints(&last, 1), keepdim);
}

IMPL(pairwise_distance) {
    return sft_ret(c, distance(ARG_T(0), ARG_T(1), ARG_F(2), ARG_F(3), ARG_B(4)));
}

/* x / its norm, which is at least eps; the bound does not show in the gradient. */
static sft_tensor *unit(sft_tensor *x, int64_t dim, double eps) {
    sft_tensor *n = DO(norm, x, 2, sft_v_ints(&dim, 1), true);
    sft_tensor *free_n = DO(detach, n);
    sft_tensor *lift = DO(sub, DO(clamp, free_n, eps), free_n);
    return DO(div, x, DO(add, n, lift));
}

/* cosine_similarity(x1, x2, dim, eps) */
IMPL(cosine_similarity) {
    sft_tensor *a = floating(ARG_T(0)), *b = floating(ARG_T(1));
    int64_t shape[SFT_MAX_DIMS];
    if (!a || !b) return sft_last_status();
    sft_value both[2] = {sft_v_tensor(a), sft_v_tensor(b)};
    int n = sft_broadcast_shape(both, 2, shape);
    if (n < 0) {
        sft_error_prefix(c->info->name);
        return sft_last_status();
    }
    int64_t dim = sft_wrap_dim(ARG_I(2), n);
    if (dim < 0) {
        sft_error_prefix(c->info->name);
        return sft_last_status();
    }
    const sft_value to = sft_v_ints(shape, n);
    a = DO(expand, a, to);
    b = DO(expand, b, to);
    return sft_ret(
        c, DO(sum, DO(mul, unit(a, dim, ARG_F(3)), unit(b, dim, ARG_F(3))), sft_v_ints(&dim, 1)));
}

/* normalize(input, p, dim, eps) */
IMPL(normalize) {
    int64_t dim = ARG_I(2);
    sft_tensor *x = ARG_T(0);
    SFT_TRY(sft_need_floating(c->info->name, "input", x));
    sft_tensor *n = DO(norm, x, ARG_F(1), sft_v_ints(&dim, 1), true);
    return sft_ret(c, DO(div, x, DO(clamp, n, ARG_F(3))));
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* margin_ranking_loss(input1, input2, target, margin, reduction) */
IMPL(margin_ranking_loss) {
    sft_tensor *a = ARG_T(0), *b = ARG_T(1), *y = ARG_T(2);
    const char *op = c->info->name;
    int reduction = sft_read_reduction(op, c->a[4].u.s, false);
    if (reduction < 0) return sft_last_status();
    if (a->ndim != b->ndim || a->ndim != y->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: input1, input2 and target must have the same number of dims, got %s, %s "
            "and %s",
            op, SFT_SHAPE(a), SFT_SHAPE(b), SFT_SHAPE(y));
    sft_tensor *d = DO(mul, DO(neg, y), DO(sub, a, b));
    return sft_ret(c, sft_reduce_loss(DO(clamp, DO(add, d, ARG_F(3)), 0), reduction));
}

/* cosine_embedding_loss(input1, input2, target, margin, reduction) */
IMPL(cosine_embedding_loss) {
    sft_tensor *a = ARG_T(0), *b = ARG_T(1), *y = ARG_T(2);
    const char *op = c->info->name;
    int reduction = sft_read_reduction(op, c->a[4].u.s, false);
    if (reduction < 0) return sft_last_status();
    if (y->ndim > 1 || a->ndim != y->ndim + 1 || b->ndim != y->ndim + 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: inputs [batch, n] go with a target [batch], inputs [n] with a 0-dim "
                        "target; got %s, %s and %s",
                        op, SFT_SHAPE(a), SFT_SHAPE(b), SFT_SHAPE(y));
    const double eps = 1e-12;
    const int64_t last = -1;
    const sft_value dim = sft_v_ints(&last, 1);
    sft_tensor *ab = DO(sum, DO(mul, a, b), dim);
    sft_tensor *aa = DO(add, DO(sum, DO(mul, a, a), dim), eps);
    sft_tensor *bb = DO(add, DO(sum, DO(mul, b, b), dim), eps);
    sft_tensor *cosine = DO(div, ab, DO(sqrt, DO(mul, aa, bb)));
    sft_tensor *near = DO(sub, 1, cosine), *zero = DO(zeros_like, cosine);
    sft_tensor *far = DO(clamp, DO(sub, cosine, ARG_F(3)), 0);
    sft_tensor *loss =
        DO(add, DO(where, DO(eq, y, 1), near, zero), DO(where, DO(eq, y, -1), far, zero));
    return sft_ret(c, sft_reduce_loss(loss, reduction));
}

/* triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction) */
IMPL(triplet_margin_loss) {
    sft_tensor *a = ARG_T(0), *pos = ARG_T(1), *neg = ARG_T(2);
    const char *op = c->info->name;
    const double p = ARG_F(4), eps = ARG_F(5);
    int reduction = sft_read_reduction(op, c->a[7].u.s, false);
    if (reduction < 0) return sft_last_status();
    if (a->ndim != pos->ndim || a->ndim != neg->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: anchor, positive and negative must have the same number of dims, got %s, "
            "%s and %s",
            op, SFT_SHAPE(a), SFT_SHAPE(pos), SFT_SHAPE(neg));
    sft_tensor *near = distance(a, pos, p, eps, false), *far = distance(a, neg, p, eps, false);
    if (ARG_B(6)) far = DO(minimum, far, distance(pos, neg, p, eps, false));
    sft_tensor *loss = DO(clamp, DO(add, DO(sub, near, far), ARG_F(3)), 0);
    return sft_ret(c, sft_reduce_loss(loss, reduction));
}
