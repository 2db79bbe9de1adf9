/* softmax.h: what the checks and the kernels of softmax share. */
#ifndef SFT_OPS_SOFTMAX_H
#define SFT_OPS_SOFTMAX_H

#include "elementwise.h"

/* Kernel arguments: the result, then the input; backward: the gradient of the input, that of the
 * output, the output. All contiguous and of one floating dtype. */
typedef struct sft_softmax_params {
    int64_t outer, n, inner; /* sizes before, of and after the dim */
} sft_softmax_params;

#endif
