/* embedding.c: rows of a table by index. */
#include "embedding.h"
#include "widen.h"

/* (input, weight, padding_idx): input int64, contiguous; weight contiguous; padding 0-based or -1
 */
IMPL(embedding_rows) {
    sft_tensor *index = ARG_T(0), *w = ARG_T(1);
    int64_t shape[SFT_MAX_DIMS];
    sft_embedding_params p = {index->numel, w->shape[0], w->shape[1], ARG_I(2)};
    memcpy(shape, index->shape, sizeof(int64_t) * (size_t)index->ndim);
    shape[index->ndim] = p.width;
    SFT_TRY(sft_give(c, sft_empty(shape, index->ndim + 1, (sft_dtype)w->dtype, w->device)));
    sft_tensor *t[3] = {c->out[0], index, w};
    return sft_run(c->op, t, 3, &p);
}
GRAD(embedding_rows) {
    if (!G || !NEED(1)) return;
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 1, &ndim);
    SET(1, DO(embedding_backward, G, IN(0), shape[0], INT(2)));
}

/* (grad, input, rows, padding_idx) -> gradient of the table */
IMPL(embedding_backward) {
    sft_tensor *g = ARG_T(0), *index = ARG_T(1);
    sft_dtype dtype = (sft_dtype)g->dtype;
    g = sft_dense_as(g, sft_wide_dtype(g));
    if (!g) return sft_last_status();
    const int64_t width = g->shape[g->ndim - 1], shape[2] = {ARG_I(2), width};
    sft_embedding_params p = {index->numel, shape[0], width, ARG_I(3)};
    sft_tensor *d = sft_temp(sft_empty(shape, 2, (sft_dtype)g->dtype, g->device));
    if (!d) return sft_last_status();
    sft_tensor *t[3] = {d, g, index};
    SFT_TRY(sft_run(c->op, t, 3, &p));
    return sft_ret(c, sft_as(d, dtype));
}
/* The gradient is linear: what comes back is looked up again, without the padding row. */
GRAD(embedding_backward) {
    if (!G || !NEED(0)) return;
    sft_tensor *index = IN(1), *y = DO(embedding_rows, index, DO(contiguous, G), -1);
    if (y && INT(3) >= 0) {
        int64_t shape[SFT_MAX_DIMS];
        memcpy(shape, index->shape, sizeof(int64_t) * (size_t)index->ndim);
        shape[index->ndim] = 1;
        sft_tensor *keep = DO(ne, index, INT(3) + sft_thread()->index_base);
        y = DO(mul, y, DO(reshape, keep, sft_v_ints(shape, index->ndim + 1)));
    }
    SET(0, y);
}

/* embedding(input, weight, padding_idx) */
IMPL(embedding) {
    sft_tensor *index = ARG_T(0), *w = ARG_T(1);
    const char *op = c->info->name;
    int64_t padding = -1;
    if (index->dtype != SFT_int64 && index->dtype != SFT_int32)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: input must hold indices (int64), got %s; use "
                        "x:to(sft.int64)",
                        op, sft_dtype_name((sft_dtype)index->dtype));
    if (w->ndim != 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: weight must be [rows, width], got %s", op,
                        SFT_SHAPE(w));
    if (index->ndim + 1 > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: input has too many dims", op);
    if (!ARG_NONE(2)) {
        const int64_t base = sft_thread()->index_base;
        padding = ARG_I(2) < 0 ? ARG_I(2) + w->shape[0] : ARG_I(2);
        if (padding < 0 || padding >= w->shape[0])
            return sft_fail(
                SFT_ERR_INDEX,
                "%s: padding_idx must name one of the %lld rows (%lld to %lld), got %lld", op,
                (long long)w->shape[0], (long long)base, (long long)(w->shape[0] - 1 + base),
                (long long)(ARG_I(2) < 0 ? ARG_I(2) : ARG_I(2) + base));
    }
    if (!w->contiguous) w = DO(contiguous, w);
    index = sft_dense_as(index, SFT_int64);
    if (!w || !index) return sft_last_status();
    return sft_ret(c, DO(embedding_rows, index, w, padding));
}
