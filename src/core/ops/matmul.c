/* matmul.c: matrix products, einsum, linear. One kernel (that of mm) serves them all. */
#include "elementwise.h"
#include "matmul.h"

static sft_status same_dtype(sft_opctx *c, const sft_tensor *a, const sft_tensor *b) {
    if (a->dtype == b->dtype) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT,
                    "%s: both tensors must have one dtype, got %s and %s; convert with x:to(...)",
                    c->info->name, sft_dtype_name((sft_dtype)a->dtype),
                    sft_dtype_name((sft_dtype)b->dtype));
}

static sft_status need_dims(sft_opctx *c, int i, int ndim) {
    const sft_param *p = &c->info->params[i];
    if (c->a[i].u.t->ndim == ndim) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: argument '%.*s' must have %d dim%s, got shape %s",
                    c->info->name, p->len, p->name, ndim, ndim == 1 ? "" : "s",
                    SFT_SHAPE(c->a[i].u.t));
}

static sft_status bad_shapes(sft_opctx *c, const sft_tensor *a, const sft_tensor *b) {
    return sft_fail(SFT_ERR_ARGUMENT, "%s: shapes %s and %s can't be multiplied: %lld columns, %lld rows",
                    c->info->name, SFT_SHAPE(a), SFT_SHAPE(b), (long long)a->shape[a->ndim - 1],
                    (long long)b->shape[b->ndim >= 2 ? b->ndim - 2 : 0]);
}

static sft_status run_gemm(sft_tensor *out, sft_tensor *a, sft_tensor *b, sft_tensor *bias,
                           double alpha, double beta, bool b_transposed) {
    sft_matmul_params p = {alpha, beta, b_transposed};
    sft_tensor *ts[4] = {out, a, b, bias};
    return sft_run(SFT_OP_mm, ts, 4, &p);
}

/* ---- mm, bmm ---------------------------------------------------------------------------------- */

IMPL(mm) {
    sft_tensor *a = c->a[0].u.t, *b = c->a[1].u.t;
    SFT_TRY(need_dims(c, 0, 2));
    SFT_TRY(need_dims(c, 1, 2));
    SFT_TRY(same_dtype(c, a, b));
    if (a->shape[1] != b->shape[0]) return bad_shapes(c, a, b);
    const int64_t shape[2] = {a->shape[0], b->shape[1]};
    sft_tensor *out = sft_empty(shape, 2, (sft_dtype)a->dtype, a->device);
    if (!out) return sft_last_status();
    sft_status st = run_gemm(out, a, b, NULL, 1, 0, false);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
GRAD(mm) {
    if (NEED(0)) SET(0, DO(mm, G, DO(transpose, IN(1), 0, 1)));
    if (NEED(1)) SET(1, DO(mm, DO(transpose, IN(0), 0, 1), G));
}

IMPL(bmm) {
    sft_tensor *a = c->a[0].u.t, *b = c->a[1].u.t;
    SFT_TRY(need_dims(c, 0, 3));
    SFT_TRY(need_dims(c, 1, 3));
    SFT_TRY(same_dtype(c, a, b));
    if (a->shape[0] != b->shape[0])
        return sft_fail(SFT_ERR_ARGUMENT, "bmm: batch sizes differ: shapes %s and %s", SFT_SHAPE(a),
                        SFT_SHAPE(b));
    if (a->shape[2] != b->shape[1]) return bad_shapes(c, a, b);
    const int64_t shape[3] = {a->shape[0], a->shape[1], b->shape[2]};
    sft_tensor *out = sft_empty(shape, 3, (sft_dtype)a->dtype, a->device);
    if (!out) return sft_last_status();
    sft_status st = run_gemm(out, a, b, NULL, 1, 0, false);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}
GRAD(bmm) {
    if (NEED(0)) SET(0, DO(bmm, G, DO(transpose, IN(1), 1, 2)));
    if (NEED(1)) SET(1, DO(bmm, DO(transpose, IN(0), 1, 2), G));
}

/* ---- beta * input + alpha * (a @ b) --------------------------------------------------------------- */

/* addmm, baddbmm: (input, a, b, beta, alpha) */
IMPL(addmm) {
    sft_tensor *input = c->a[0].u.t, *a = c->a[1].u.t, *b = c->a[2].u.t;
    int nd = c->op == SFT_OP_addmm ? 2 : 3;
    SFT_TRY(need_dims(c, 1, nd));
    SFT_TRY(need_dims(c, 2, nd));
    SFT_TRY(same_dtype(c, a, b));
    SFT_TRY(same_dtype(c, input, a));
    if (a->shape[nd - 1] != b->shape[nd - 2] || (nd == 3 && a->shape[0] != b->shape[0]))
        return bad_shapes(c, a, b);
    int64_t shape[3] = {a->shape[0], a->shape[1], b->shape[nd - 1]};
    if (nd == 2) shape[1] = b->shape[1];
    int64_t full[SFT_MAX_DIMS];
    sft_tensor *out = sft_temp(sft_empty(shape, nd, (sft_dtype)a->dtype, a->device));
    if (!out) return sft_last_status();
    sft_value both[2] = {sft_v_tensor(out), c->a[0]};
    int n = sft_broadcast_shape(both, 2, full);
    if (n != nd || memcmp(full, shape, 8 * (size_t)nd) != 0) {
        if (n >= 0)
            sft_fail(SFT_ERR_ARGUMENT, "%s: 'input' of shape %s can't be broadcast to %s",
                     c->info->name, SFT_SHAPE(input), SFT_SHAPE(out));
        return sft_last_status();
    }
    /* Integer tensors take the integer part. */
    bool real = sft_is_float(a->dtype);
    double beta = real ? sft_number(&c->a[3]) : (double)sft_integer(&c->a[3]);
    double alpha = real ? sft_number(&c->a[4]) : (double)sft_integer(&c->a[4]);
    int64_t last = shape[nd - 1];
    if (beta == 1 && input->ndim >= 1 && input->numel == last && input->shape[input->ndim - 1] == last &&
        input->contiguous) {
        SFT_TRY(run_gemm(out, a, b, input, alpha, 0, false));
    } else {
        if (beta != 0) SFT_TRY(sft_copy_raw(out, input));
        SFT_TRY(run_gemm(out, a, b, NULL, alpha, beta, false));
    }
    return sft_ret(c, out);
}
static sft_tensor *times(sft_tensor *t, sft_value v) { return sft_number(&v) == 1 ? t : DO(mul, t, v); }
GRAD(addmm) {
    if (NEED(0)) SET(0, times(G, VAL(3)));
    if (NEED(1)) SET(1, times(DO(mm, G, DO(transpose, IN(2), 0, 1)), VAL(4)));
    if (NEED(2)) SET(2, times(DO(mm, DO(transpose, IN(1), 0, 1), G), VAL(4)));
}
GRAD(baddbmm) {
    if (NEED(0)) SET(0, times(G, VAL(3)));
    if (NEED(1)) SET(1, times(DO(bmm, G, DO(transpose, IN(2), 1, 2)), VAL(4)));
    if (NEED(2)) SET(2, times(DO(bmm, DO(transpose, IN(1), 1, 2), G), VAL(4)));
}

IMPL(addmv) {
    SFT_TRY(need_dims(c, 1, 2));
    SFT_TRY(need_dims(c, 2, 1));
    sft_tensor *col = DO(mv, c->a[1], c->a[2]);
    if (!col) return sft_last_status();
    return sft_ret(c, DO(add, DO(mul, c->a[0], c->a[3]), DO(mul, col, c->a[4])));
}
IMPL(addbmm) {
    sft_tensor *p = DO(sum, DO(bmm, c->a[1], c->a[2]), 0);
    if (!p) return sft_last_status();
    return sft_ret(c, DO(add, DO(mul, c->a[0], c->a[3]), DO(mul, p, c->a[4])));
}
IMPL(addr) {
    sft_tensor *p = DO(outer, c->a[1], c->a[2]);
    if (!p) return sft_last_status();
    return sft_ret(c, DO(add, DO(mul, c->a[0], c->a[3]), DO(mul, p, c->a[4])));
}

/* ---- vectors -------------------------------------------------------------------------------------- */

static sft_tensor *shaped(sft_tensor *t, int64_t r, int64_t k) {
    return DO(reshape, t, sft_v_ints((int64_t[]){r, k}, 2));
}

IMPL(dot) {
    sft_tensor *a = c->a[0].u.t, *b = c->a[1].u.t;
    SFT_TRY(need_dims(c, 0, 1));
    SFT_TRY(need_dims(c, 1, 1));
    SFT_TRY(same_dtype(c, a, b));
    if (a->numel != b->numel)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: sizes differ: %lld and %lld", c->info->name,
                        (long long)a->numel, (long long)b->numel);
    sft_tensor *p = DO(mm, shaped(a, 1, a->numel), shaped(b, b->numel, 1));
    return sft_ret(c, DO(reshape, p, sft_v_ints(NULL, 0)));
}

IMPL(mv) {
    sft_tensor *a = c->a[0].u.t, *x = c->a[1].u.t;
    SFT_TRY(need_dims(c, 0, 2));
    SFT_TRY(need_dims(c, 1, 1));
    SFT_TRY(same_dtype(c, a, x));
    if (a->shape[1] != x->shape[0]) return bad_shapes(c, a, x);
    sft_tensor *p = DO(mm, a, shaped(x, x->numel, 1));
    return sft_ret(c, DO(reshape, p, sft_v_ints(a->shape, 1)));
}

IMPL(outer) {
    sft_tensor *a = c->a[0].u.t, *b = c->a[1].u.t;
    SFT_TRY(need_dims(c, 0, 1));
    SFT_TRY(need_dims(c, 1, 1));
    return sft_ret(c, DO(mul, shaped(a, a->numel, 1), shaped(b, 1, b->numel)));
}

/* ---- matmul: any number of dims ---------------------------------------------------------------------- */

/* x expanded to `batch` dims and flattened to [B, r, c]. */
static sft_tensor *as_batch(sft_tensor *x, const int64_t *batch, int nb) {
    int64_t shape[SFT_MAX_DIMS], total = 1;
    if (nb + 2 > SFT_MAX_DIMS) {
        sft_fail(SFT_ERR_ARGUMENT, "matmul: a tensor has at most %d dims", SFT_MAX_DIMS);
        return NULL;
    }
    for (int d = 0; d < nb; d++) total *= shape[d] = batch[d];
    shape[nb] = x->shape[x->ndim - 2];
    shape[nb + 1] = x->shape[x->ndim - 1];
    const int64_t flat[3] = {total, shape[nb], shape[nb + 1]};
    return DO(reshape, DO(expand, x, sft_v_ints(shape, nb + 2)), sft_v_ints(flat, 3));
}

IMPL(matmul) {
    sft_tensor *a = c->a[0].u.t, *b = c->a[1].u.t;
    if (a->ndim == 2 && b->ndim == 2) return sft_ret(c, DO(mm, a, b));
    if (a->ndim == 0 || b->ndim == 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "matmul: both tensors need at least 1 dim, got shapes %s and %s; use mul",
                        SFT_SHAPE(a), SFT_SHAPE(b));
    SFT_TRY(same_dtype(c, a, b));
    if (a->ndim == 1 && b->ndim == 1) return sft_ret(c, DO(dot, a, b));
    if (a->ndim == 2 && b->ndim == 1) return sft_ret(c, DO(mv, a, b));
    bool row = a->ndim == 1, col = b->ndim == 1;
    int64_t k = a->shape[a->ndim - 1], kb = b->shape[col ? 0 : b->ndim - 2];
    if (k != kb) return bad_shapes(c, a, b);
    int64_t shape[SFT_MAX_DIMS];
    sft_tensor *out;
    if (col) b = shaped(b, kb, 1);
    if (row) a = shaped(a, 1, k);
    if (!a || !b) return sft_last_status();
    int nb;
    if (b->ndim == 2) {
        /* All rows of a at once. */
        nb = a->ndim - 2;
        memcpy(shape, a->shape, 8 * (size_t)nb);
        int64_t rows = 1;
        for (int d = 0; d < a->ndim - 1; d++) rows *= a->shape[d];
        out = DO(mm, shaped(a, rows, k), b);
    } else {
        sft_tensor *ab[2] = {a, b};
        sft_value v[2];
        for (int i = 0; i < 2; i++) {
            /* Only the batch dims take part in broadcasting. */
            int64_t sh[SFT_MAX_DIMS], st[SFT_MAX_DIMS];
            int n = ab[i]->ndim - 2;
            for (int d = 0; d < n; d++) sh[d] = ab[i]->shape[d], st[d] = 0;
            v[i] = sft_v_tensor(sft_temp(sft_tensor_new(ab[i]->storage, (sft_dtype)ab[i]->dtype, sh, st, n,
                                                        ab[i]->data)));
            if (!v[i].u.t) return sft_last_status();
        }
        nb = sft_broadcast_shape(v, 2, shape);
        if (nb < 0) {
            sft_error_prefix("matmul: batch dims");
            return sft_last_status();
        }
        out = DO(bmm, as_batch(a, shape, nb), as_batch(b, shape, nb));
    }
    int n = nb;
    if (!row) shape[n++] = a->shape[a->ndim - 2];
    if (!col) shape[n++] = b->shape[b->ndim - 1];
    return sft_ret(c, DO(reshape, out, sft_v_ints(shape, n)));
}

/* ---- linear: x @ weight^T + bias ------------------------------------------------------------------------ */

IMPL(linear) {
    sft_tensor *x = c->a[0].u.t, *w = c->a[1].u.t, *bias = ARG_T(2);
    bool vector = w->ndim == 1;
    if (x->ndim < 1 || w->ndim < 1 || w->ndim > 2)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "linear: input needs at least 1 dim and weight 2 (or 1), got shapes %s and %s",
                        SFT_SHAPE(x), SFT_SHAPE(w));
    SFT_TRY(same_dtype(c, x, w));
    if (bias) SFT_TRY(same_dtype(c, bias, w));
    int64_t in = w->shape[w->ndim - 1], out = vector ? 1 : w->shape[0];
    if (x->shape[x->ndim - 1] != in)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "linear: input's last dim is %lld, weight expects %lld (input %s, weight %s)",
                        (long long)x->shape[x->ndim - 1], (long long)in, SFT_SHAPE(x), SFT_SHAPE(w));
    if (bias && !(bias->numel == out && bias->ndim <= 1))
        return sft_fail(SFT_ERR_ARGUMENT, "linear: bias must have shape [%lld], got %s", (long long)out,
                        SFT_SHAPE(bias));
    int64_t shape[SFT_MAX_DIMS], rows = 1;
    for (int d = 0; d < x->ndim - 1; d++) rows *= shape[d] = x->shape[d];
    int nd = x->ndim - vector;
    if (!vector) shape[nd - 1] = out;
    sft_tensor *y = sft_temp(sft_empty(shape, nd, (sft_dtype)x->dtype, x->device));
    sft_tensor *x2 = x->ndim == 2 ? x : shaped(x, rows, in), *w2 = vector ? shaped(w, 1, in) : w;
    if (bias && !bias->contiguous) bias = DO(contiguous, bias);
    if (!y || !x2 || !w2) return sft_last_status();
    /* The kernel sees y as [rows, out]. */
    sft_tensor *y2 = nd == 2 && !vector
                         ? y
                         : sft_temp(sft_tensor_new(y->storage, (sft_dtype)y->dtype, (int64_t[]){rows, out},
                                                   (int64_t[]){out, 1}, 2, y->data));
    if (!y2) return sft_last_status();
    SFT_TRY(run_gemm(y2, x2, w2, bias, 1, 0, true));
    return sft_ret(c, y);
}
GRAD(linear) {
    int xn, wn;
    const int64_t *xs = sft_bw_shape(b, 0, &xn), *ws = sft_bw_shape(b, 1, &wn);
    int64_t rows = 1, in = xs[xn - 1], out = wn == 1 ? 1 : ws[0];
    for (int d = 0; d < xn - 1; d++) rows *= xs[d];
    sft_tensor *g = shaped(G, rows, out);
    if (NEED(0)) {
        sft_tensor *w = wn == 1 ? shaped(IN(1), 1, in) : IN(1);
        SET(0, DO(reshape, DO(mm, g, w), sft_v_ints(xs, xn)));
    }
    if (NEED(1)) {
        sft_tensor *gw = DO(mm, DO(transpose, g, 0, 1), shaped(IN(0), rows, in));
        SET(1, DO(reshape, gw, sft_v_ints(ws, wn)));
    }
    if (NEED(2)) {
        int bn;
        const int64_t *bs = sft_bw_shape(b, 2, &bn);
        SET(2, DO(reshape, DO(sum, g, 0), sft_v_ints(bs, bn)));
    }
}

IMPL(bilinear) {
    /* y[n, o] = sum_ij x1[n, i] w[o, i, j] x2[n, j] + bias[o] */
    sft_tensor *ts[3] = {c->a[0].u.t, c->a[2].u.t, c->a[1].u.t};
    sft_tensor *y = DO(einsum, "...i,oij,...j->...o", sft_v_tensors(ts, 3));
    if (y && ARG_T(3)) y = DO(add, y, ARG_T(3));
    return sft_ret(c, y);
}
