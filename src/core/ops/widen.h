/* widen.h: small helps for ops whose kernels know float32 and float64 only. Half types are widened
 * to float32 on the way in and narrowed on the way out, by ops that autograd knows. */
#ifndef SFT_OPS_WIDEN_H
#define SFT_OPS_WIDEN_H

#include "elementwise.h"

static inline sft_tensor *sft_as(sft_tensor *t, sft_dtype dtype) {
    if (!t || t->dtype == dtype) return t;
    return DO(to, t, sft_v_none(), sft_v_dtype(dtype));
}

/* The dtype that a floating tensor is computed in. */
static inline sft_dtype sft_wide_dtype(const sft_tensor *t) {
    return t->dtype == SFT_float64 ? SFT_float64 : SFT_float32;
}

/* t in dtype `dtype` and row-major; NULL stays NULL. */
static inline sft_tensor *sft_dense_as(sft_tensor *t, sft_dtype dtype) {
    t = sft_as(t, dtype);
    if (!t || t->contiguous) return t;
    return DO(contiguous, t);
}

/* An optional tensor as an argument of DO(). */
static inline sft_value sft_v_maybe(sft_tensor *t) { return t ? sft_v_tensor(t) : sft_v_none(); }

/* Errors that many ops share. */
static inline sft_status sft_need_floating(const char *op, const char *arg, const sft_tensor *t) {
    if (sft_is_float(t->dtype)) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT,
                    "%s: argument '%s' must be floating, got %s; convert it with x:to(sft.float32)",
                    op, arg, sft_dtype_name((sft_dtype)t->dtype));
}

static inline bool sft_same_shape(const sft_tensor *a, const sft_tensor *b) {
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->ndim);
}

#endif
