/* reduce.h: what the checks and the kernels of reductions share. */
#ifndef SFT_OPS_REDUCE_H
#define SFT_OPS_REDUCE_H

#include "elementwise.h"

/* Kernel arguments: outputs (contiguous, in the order of the kept dims), then the input. */
typedef struct sft_reduce_params {
    uint32_t mask;     /* bit d: dim d of the input is reduced */
    uint8_t ct;        /* compute dtype: float32, float64, int64 (or bool for any, all) */
    double p;          /* norm: the order */
    double correction; /* var: subtracted from the count */
} sft_reduce_params;

/* Dims of a reduction (a value of type dim[]; none or an empty list: all) as a mask. False: an
 * error is set. */
bool sft_reduce_mask(const char *op, const sft_value *dims, int ndim, uint32_t *mask);
/* The result's shape; returns its number of dims. */
int sft_reduce_shape(const sft_tensor *x, uint32_t mask, bool keepdim, int64_t *shape);
/* A tensor shaped like the result -> with size 1 in place of the reduced dims (for rules). */
sft_tensor *sft_reduce_keep(sft_tensor *g, const int64_t *shape, int ndim, uint32_t mask);

#endif
