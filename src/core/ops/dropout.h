/* dropout.h: what the checks and the kernel of dropout share. */
#ifndef SFT_OPS_DROPOUT_H
#define SFT_OPS_DROPOUT_H

#include "elementwise.h"

/* y, x: contiguous, of one dtype, float32 or float64. Element i is kept if word i % 4 of Philox
 * block offset + i / 4 is not below p * 2^32, and then scaled by 1 / (1 - p). */
typedef struct sft_dropout_params {
    double p;
    uint64_t key, offset;
} sft_dropout_params;

/* x with elements dropped; a new mask from the default generator. p is checked. */
sft_tensor *sft_dropout(sft_tensor *x, double p);

#endif
