/* embedding.h: what the checks and the kernels of embedding share. */
#ifndef SFT_OPS_EMBEDDING_H
#define SFT_OPS_EMBEDDING_H

#include "elementwise.h"

/* Forward: y [count, width], index, weight [rows, width] (contiguous, any dtype); backward:
 * dweight, g [count, width], index. index: int64 of any shape, contiguous. */
typedef struct sft_embedding_params {
    int64_t count, rows, width;
    int64_t padding; /* row without a gradient, 0-based; -1: none */
} sft_embedding_params;

#endif
