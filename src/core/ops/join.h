/* join.h: what cat's checks and its kernel share. */
#ifndef SFT_OPS_JOIN_H
#define SFT_OPS_JOIN_H

#include "elementwise.h"

/* Tensors: out, contiguous, then the inputs, of one dtype, for which sft_cat_rows() holds. */
typedef struct sft_cat_params {
    int dim;
} sft_cat_params;

/* Is t made of rows (dim and those after it, contiguous) at even distances, of *pitch elements? */
static inline bool sft_cat_rows(const sft_tensor *t, int dim, int64_t *pitch) {
    int64_t want = 1, step = 0, size = 0;
    for (int d = t->ndim - 1; d >= dim; d--) {
        if (t->shape[d] != 1 && t->strides[d] != want) return t->numel == 0;
        want *= t->shape[d];
    }
    for (int d = dim - 1; d >= 0; d--) {
        if (t->shape[d] == 1) continue;
        if (!size)
            step = t->strides[d];
        else if (t->strides[d] != step * size)
            return t->numel == 0;
        size = (size ? size : 1) * t->shape[d];
    }
    *pitch = size ? step : want;
    return true;
}

#endif
