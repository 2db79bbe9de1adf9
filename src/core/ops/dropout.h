/* dropout.h: what the checks and the kernel of dropout share. */
#ifndef SFT_OPS_DROPOUT_H
#define SFT_OPS_DROPOUT_H

#include "elementwise.h"

/* y, x: contiguous, of one dtype, float32 or float64. Of each 64 elements, number e takes word e /
 * 16 of Philox block e % 16 of the 16 blocks that belong to them, from `offset` on. It is kept if
 * that is not below p * 2^32, and then scaled by 1 / (1 - p). */
enum { SFT_DROPOUT_RUN = 64, SFT_DROPOUT_BLOCKS = 16 };
typedef struct sft_dropout_params {
    double p;
    uint64_t key, offset;
} sft_dropout_params;

/* x with elements dropped; a new mask from the default generator. p is checked. */
sft_tensor *sft_dropout(sft_tensor *x, double p);

#endif
