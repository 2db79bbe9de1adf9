/* norm.h: what the checks and the kernels of the normalisations share. */
#ifndef SFT_OPS_NORM_H
#define SFT_OPS_NORM_H

#include "elementwise.h"

/* Layer norm. Forward: y, mean, rstd, x, weight, bias; backward: dx, dweight, dbias, g, x, mean,
 * rstd, weight. All contiguous and of one dtype, float32 or float64; optional ones may be NULL. */
typedef struct sft_layer_norm_params {
    int64_t rows, n; /* n elements are normalised together */
    double eps;
    bool rms; /* no mean is taken off */
} sft_layer_norm_params;

/* Batch norm of [outer, channels, inner]. Forward: y, mean, rstd, x, weight, bias, running_mean,
 * running_var (these two of any dtype and stride, updated when training); backward: dx, dweight,
 * dbias, g, x, weight, mean, rstd. */
typedef struct sft_batch_norm_params {
    int64_t outer, channels, inner;
    double eps, momentum;
    bool training;
} sft_batch_norm_params;

#endif
