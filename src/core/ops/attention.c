/* attention.c: scaled_dot_product_attention. A fused op does the plain cases; plain ops do the rest
 * (dropout, a mask that wants a gradient) and the gradient of the gradient. In all of them a query
 * that sees nothing gives zeros, forward and backward. */
#include "attention.h"
#include "dropout.h"
#include "widen.h"
#include <math.h>

/* ---- by plain ops ---------------------------------------------------------------------------- */

static sft_tensor *swap_last(sft_tensor *t) { return DO(transpose, t, -2, -1); }

/* True where j <= i. */
static sft_tensor *causal_mask(int64_t l, int64_t s, sft_device device) {
    const int64_t shape[2] = {l, s};
    sft_tensor *m = sft_temp(sft_empty(shape, 2, SFT_bool, (sft_device){SFT_CPU, 0}));
    if (!m) return NULL;
    for (int64_t i = 0; i < l; i++)
        for (int64_t j = 0; j < s; j++) m->data[i * s + j] = j <= i;
    return device.type == SFT_CPU ? m : DO(to, m, sft_v_device(device));
}

/* softmax(scale q k^T + mask), with rows of zeros where nothing takes part. */
static sft_tensor *weights(sft_tensor *q, sft_tensor *k, sft_tensor *mask, bool causal,
                           double scale) {
    sft_tensor *x = DO(mul, DO(matmul, q, swap_last(k)), scale);
    if (!x) return NULL;
    const int64_t last = -1;
    const sft_value dim = sft_v_ints(&last, 1);
    if (causal) mask = causal_mask(x->shape[x->ndim - 2], x->shape[x->ndim - 1], x->device);
    if (mask && mask->dtype == SFT_bool)
        x = DO(where, mask, x, -INFINITY);
    else if (mask)
        x = DO(add, x, mask);
    if (!x || x->shape[x->ndim - 1] == 0) return x;
    sft_tensor *dead = DO(eq, DO(amax, DO(detach, x), dim, true), -INFINITY);
    sft_tensor *p = DO(softmax, DO(where, dead, 0.0, x), -1);
    return DO(where, dead, 0.0, p);
}

/* ---- the fused op ---------------------------------------------------------------------------- */

static int64_t batch_of(const sft_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->ndim - 2; d++) n *= t->shape[d];
    return n;
}

static sft_attention_params attention_params(const sft_tensor *q, const sft_tensor *k,
                                             const sft_tensor *v, double scale, bool causal) {
    return (sft_attention_params){q->shape[q->ndim - 2],
                                  k->shape[k->ndim - 2],
                                  q->shape[q->ndim - 1],
                                  v->shape[v->ndim - 1],
                                  batch_of(q),
                                  scale,
                                  causal};
}

/* A tensor of like's shape, but `width` in the last dim. Where like comes from [batch, length,
 * heads, width] with the middle dims swapped, so does the result: swapping back then costs nothing.
 */
static sft_tensor *empty_like_heads(const sft_tensor *like, int64_t width) {
    const int n = like->ndim;
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    memcpy(shape, like->shape, sizeof shape);
    shape[n - 1] = width;
    if (n < 3 || like->strides[n - 2] <= like->strides[n - 3] || like->strides[n - 3] == 0)
        return sft_empty(shape, n, (sft_dtype)like->dtype, like->device);
    const int64_t heads = shape[n - 3];
    shape[n - 3] = shape[n - 2];
    shape[n - 2] = heads;
    sft_tensor *t = sft_empty(shape, n, (sft_dtype)like->dtype, like->device);
    if (!t) return NULL;
    memcpy(strides, t->strides, sizeof strides);
    shape[n - 2] = shape[n - 3];
    shape[n - 3] = heads;
    strides[n - 2] = t->strides[n - 3];
    strides[n - 3] = t->strides[n - 2];
    sft_tensor *r = sft_tensor_new(t->storage, (sft_dtype)like->dtype, shape, strides, n, t->data);
    sft_release(t);
    return r;
}

/* (query, key, value, mask, scale, causal) -> y, log of the sums */
IMPL(attention) {
    sft_tensor *q = ARG_T(0), *k = ARG_T(1), *v = ARG_T(2);
    sft_attention_params p = attention_params(q, k, v, ARG_F(4), ARG_B(5));
    SFT_TRY(sft_give(c, empty_like_heads(q, p.ev)));
    SFT_TRY(sft_give(c, sft_empty(q->shape, q->ndim - 1, (sft_dtype)q->dtype, q->device)));
    sft_tensor *t[6] = {c->out[0], c->out[1], q, k, v, ARG_T(3)};
    return c->out[1]->numel ? sft_run(c->op, t, 6, &p) : SFT_OK;
}

/* (grad, query, key, value, mask, y, lse, scale, causal, want) -> dq, dk, dv */
IMPL(attention_backward) {
    sft_tensor *g = ARG_T(0), *in[3] = {ARG_T(1), ARG_T(2), ARG_T(3)};
    sft_attention_params p = attention_params(in[0], in[1], in[2], ARG_F(7), ARG_B(8));
    int64_t want = ARG_I(9);
    sft_tensor *t[10] = {NULL, NULL, NULL, g, in[0], in[1], in[2], ARG_T(4), ARG_T(5), ARG_T(6)};
    for (int i = 0; i < 3; i++) {
        bool wanted = want >> i & 1;
        SFT_TRY(sft_give(c, wanted ? empty_like_heads(in[i], in[i]->shape[in[i]->ndim - 1])
                                   : sft_retain(g)));
        if (wanted) t[i] = c->out[i];
    }
    if (p.batch && p.l && p.s) return sft_run(c->op, t, 10, &p);
    for (int i = 0; i < 3; i++)
        if (t[i]) SFT_TRY(sft_fill_raw(t[i], sft_v_int(0)));
    return SFT_OK;
}

static void attention_graph(sft_bw *b) {
    sft_tensor *q = IN(0), *k = IN(1), *v = IN(2), *g = G;
    const double scale = NUM(4);
    const int64_t last = -1;
    sft_tensor *p = weights(q, k, IN(3), b->a[5].u.b, scale);
    sft_tensor *dp = DO(matmul, g, swap_last(v));
    sft_tensor *d = DO(mul, p, DO(sub, dp, DO(sum, DO(mul, dp, p), sft_v_ints(&last, 1), true)));
    if (NEED(0)) SET(0, DO(mul, DO(matmul, d, k), scale));
    if (NEED(1)) SET(1, DO(mul, DO(matmul, swap_last(d), q), scale));
    if (NEED(2)) SET(2, DO(matmul, swap_last(p), g));
}

GRAD(attention) {
    if (!G) return;
    if (b->create_graph) {
        attention_graph(b);
        return;
    }
    sft_tensor *d[3];
    int64_t want = NEED(0) | NEED(1) << 1 | NEED(2) << 2;
    if (!DO_N(d, 3, attention_backward, G, IN(0), IN(1), IN(2), VAL(3), OUT(0), OUT(1), NUM(4),
              (bool)b->a[5].u.b, want))
        return;
    for (int i = 0; i < 3; i++)
        if (NEED(i)) SET(i, d[i]);
}

/* ---- the public op --------------------------------------------------------------------------- */

/* Heads of k or v repeated so that they match q's. */
static sft_tensor *repeat_heads(sft_tensor *t, int64_t heads) {
    const int64_t own = t->shape[t->ndim - 3];
    return own == heads ? t : DO(repeat_interleave, t, heads / own, t->ndim - 3);
}

static sft_status check_attention(const char *op, const sft_tensor *q, const sft_tensor *k,
                                  const sft_tensor *v) {
    const sft_tensor *all[3] = {q, k, v};
    static const char *const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        SFT_TRY(sft_need_floating(op, names[i], all[i]));
        if (all[i]->ndim < 2)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: %s must be [..., length, width], got %s", op,
                            names[i], SFT_SHAPE(all[i]));
        if (all[i]->dtype != q->dtype)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: query, key and value must have one dtype, got %s and %s (%s)", op,
                            sft_dtype_name((sft_dtype)q->dtype),
                            sft_dtype_name((sft_dtype)all[i]->dtype), names[i]);
    }
    if (q->shape[q->ndim - 1] != k->shape[k->ndim - 1])
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: query and key must have the same width, got %s and %s", op,
                        SFT_SHAPE(q), SFT_SHAPE(k));
    if (k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: key and value must have the same length, got %s and %s", op,
                        SFT_SHAPE(k), SFT_SHAPE(v));
    return SFT_OK;
}

/* Broadcasts the batch dims of q, k, v (and the mask, to [.., l, s]) to a common shape. */
static sft_status expand_all(const char *op, sft_tensor **q, sft_tensor **k, sft_tensor **v,
                             sft_tensor **mask) {
    sft_tensor **all[4] = {q, k, v, mask};
    sft_value lead[4];
    int64_t shape[SFT_MAX_DIMS], rows[4], columns[4];
    int n = 0;
    for (int i = 0; i < 4; i++) {
        sft_tensor *t = *all[i];
        if (!t) continue;
        int64_t one[SFT_MAX_DIMS];
        /* Only the leading dims count: a view with the last two of size 1. */
        memcpy(one, t->shape, sizeof one);
        for (int d = t->ndim - 2; d < t->ndim; d++)
            if (d >= 0) one[d] = 1;
        sft_tensor *z = sft_temp(
            sft_tensor_new(t->storage, (sft_dtype)t->dtype, one, t->strides, t->ndim, t->data));
        if (!z) return sft_last_status();
        lead[n++] = sft_v_tensor(z);
        rows[i] = t->ndim >= 2 ? t->shape[t->ndim - 2] : 1;
        columns[i] = t->ndim >= 1 ? t->shape[t->ndim - 1] : 1;
    }
    int ndim = sft_broadcast_shape(lead, n, shape);
    if (ndim < 0) {
        sft_error_prefix(op);
        return sft_last_status();
    }
    if (*mask) {
        const int64_t l = rows[0], s = rows[1];
        if ((rows[3] != l && rows[3] != 1) || (columns[3] != s && columns[3] != 1))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: attn_mask must be [..., %lld, %lld] (queries, keys), got %s", op,
                            (long long)l, (long long)s, SFT_SHAPE(*mask));
        rows[3] = l;
        columns[3] = s;
    }
    for (int i = 0; i < 4; i++) {
        sft_tensor *t = *all[i];
        if (!t) continue;
        shape[ndim - 2] = rows[i];
        shape[ndim - 1] = columns[i];
        if (t->ndim == ndim && !memcmp(t->shape, shape, sizeof(int64_t) * (size_t)ndim)) continue;
        if (!(*all[i] = DO(expand, t, sft_v_ints(shape, ndim)))) return sft_last_status();
    }
    return SFT_OK;
}

/* (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
IMPL(scaled_dot_product_attention) {
    sft_tensor *q = ARG_T(0), *k = ARG_T(1), *v = ARG_T(2), *mask = ARG_T(3), *y;
    const char *op = c->info->name;
    const double drop = ARG_F(4);
    const bool causal = ARG_B(5);
    SFT_TRY(check_attention(op, q, k, v));
    if (!(drop >= 0 && drop <= 1))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: dropout_p must lie between 0 and 1, got %g", op,
                        drop);
    if (mask && causal)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: give attn_mask or is_causal, not both", op);
    if (mask && mask->dtype != SFT_bool && !sft_is_float(mask->dtype))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: attn_mask must be bool or floating, got %s", op,
                        sft_dtype_name((sft_dtype)mask->dtype));
    if (ARG_B(7) && q->ndim >= 3 && k->ndim >= 3 && v->ndim >= 3) {
        const int64_t heads = q->shape[q->ndim - 3], a = k->shape[k->ndim - 3],
                      b = v->shape[v->ndim - 3];
        if (!a || !b || heads % a || heads % b)
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "%s: the %lld heads of query must be a multiple of those of key and value, "
                "%lld and %lld",
                op, (long long)heads, (long long)a, (long long)b);
        k = repeat_heads(k, heads);
        v = repeat_heads(v, heads);
        if (!k || !v) return sft_last_status();
    }
    const int64_t width = q->shape[q->ndim - 1];
    const double scale = ARG_NONE(6) ? 1 / sqrt((double)(width ? width : 1)) : ARG_F(6);
    const sft_dtype dtype = (sft_dtype)q->dtype, ct = sft_wide_dtype(q);
    q = sft_as(q, ct);
    k = sft_as(k, ct);
    v = sft_as(v, ct);
    if (mask && mask->dtype != SFT_bool) mask = sft_as(mask, ct);
    if (sft_failed()) return sft_last_status();
    SFT_TRY(expand_all(op, &q, &k, &v, &mask));
    if (drop > 0 || (mask && sft_tensor_needs_grad(mask) && sft_grad_enabled())) {
        y = DO(matmul, sft_dropout(weights(q, k, mask, causal, scale), drop), v);
    } else {
        y = DO(attention, q, k, v, sft_v_maybe(mask), scale, (bool)causal);
    }
    return sft_ret(c, sft_as(y, dtype));
}
