/* dropout.c: dropout and its kin. */
#include "dropout.h"
#include "widen.h"

/* (input, p, key, offset): the mask is made anew wherever it is needed. */
IMPL(dropout_mask) {
    sft_tensor *x = ARG_T(0);
    sft_dropout_params p = {ARG_F(1), (uint64_t)ARG_I(2), (uint64_t)ARG_I(3)};
    sft_dtype dtype = (sft_dtype)x->dtype;
    x = sft_dense_as(x, sft_wide_dtype(x));
    if (!x) return sft_last_status();
    sft_tensor *y = sft_temp(sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device));
    if (!y) return sft_last_status();
    sft_tensor *t[2] = {y, x};
    SFT_TRY(sft_run(c->op, t, 2, &p));
    return sft_ret(c, sft_as(y, dtype));
}
GRAD(dropout_mask) {
    if (G) SET(0, DO(dropout_mask, G, NUM(1), INT(2), INT(3)));
}

static sft_status check_p(const char *op, double p) {
    if (p >= 0 && p <= 1) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: p must lie between 0 and 1, got %g", op, p);
}

sft_tensor *sft_dropout(sft_tensor *x, double p) {
    if (!x || p == 0) return x;
    if (p == 1) return DO(mul, x, 0);
    uint64_t key, offset;
    const uint64_t runs = ((uint64_t)x->numel + SFT_DROPOUT_RUN - 1) / SFT_DROPOUT_RUN;
    sft_generator_reserve(NULL, runs * SFT_DROPOUT_BLOCKS, &key, &offset);
    return DO(dropout_mask, x, p, (int64_t)key, (int64_t)offset);
}

/* dropout(input, p, training, inplace) */
IMPL(dropout) {
    sft_tensor *x = ARG_T(0);
    SFT_TRY(sft_need_floating(c->info->name, "input", x));
    SFT_TRY(check_p(c->info->name, ARG_F(1)));
    sft_tensor *y = ARG_B(2) ? sft_dropout(x, ARG_F(1)) : x;
    if (ARG_B(3) && y && y != x) y = DO_(copy, x, y);
    return sft_ret(c, y);
}

/* dropout1d, dropout2d: whole channels, [batch, channels, ...] */
IMPL(feature_dropout) {
    sft_tensor *x = ARG_T(0);
    SFT_TRY(sft_need_floating(c->info->name, "input", x));
    SFT_TRY(check_p(c->info->name, ARG_F(1)));
    if (x->ndim < 2)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: input must be [batch, channels, ...], got %s",
                        c->info->name, SFT_SHAPE(x));
    sft_tensor *y = x;
    if (ARG_B(2) && ARG_F(1) > 0) {
        int64_t shape[SFT_MAX_DIMS];
        /* [channels, ...] without a batch is told by the number of dims, as in PyTorch. */
        const int spatial = c->info->name[7] - '0', batched = x->ndim == spatial + 2 || spatial > 3;
        for (int d = 0; d < x->ndim; d++) shape[d] = d <= batched ? x->shape[d] : 1;
        sft_tensor *ones = sft_temp(sft_empty(shape, x->ndim, (sft_dtype)x->dtype, x->device));
        if (!ones) return sft_last_status();
        SFT_TRY(sft_fill_raw(ones, sft_v_int(1)));
        y = DO(mul, x, sft_dropout(ones, ARG_F(1)));
    }
    if (ARG_B(3) && y && y != x) y = DO_(copy, x, y);
    return sft_ret(c, y);
}
