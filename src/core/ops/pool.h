/* pool.h: what the checks and the kernels of pooling share. */
#ifndef SFT_OPS_POOL_H
#define SFT_OPS_POOL_H

#include "elementwise.h"

/* One spatial dim of a pool: `out` windows of k elements, d apart within, over `in` elements with p
 * of padding on both sides. k == 0: adaptive windows, which split `in` into `out` parts. */
typedef struct sft_pool_axis {
    int64_t in, out, k, s, p, d;
} sft_pool_axis;

/* All tensors are [planes, h, w], contiguous.
 * max_pool_planes: y, index (int32, h * w position within the plane), x
 * max_pool_scatter: dx, g, index; max_pool_pick: y, x, index
 * avg_pool_planes: y, x; avg_pool_scatter: dx, g */
typedef struct sft_pool_params {
    int64_t planes;
    sft_pool_axis h, w;
    bool include_pad;
    int64_t divisor; /* 0: the size of the window */
} sft_pool_params;

/* The window of output i: elements begin .. end - 1 within the input, `size` with padding. */
static inline void sft_pool_window(const sft_pool_axis *a, int64_t i, int64_t *begin, int64_t *end,
                                   int64_t *size) {
    if (a->k) {
        *begin = i * a->s - a->p;
        *end = *begin + a->k < a->in + a->p ? *begin + a->k : a->in + a->p;
        *size = *end - *begin;
        if (*begin < 0) *begin = 0;
        if (*end > a->in) *end = a->in;
    } else {
        *begin = i * a->in / a->out;
        *end = ((i + 1) * a->in + a->out - 1) / a->out;
        *size = *end - *begin;
    }
}

#endif
