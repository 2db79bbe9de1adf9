/* attention.h: what the checks and the kernels of scaled_dot_product_attention share. */
#ifndef SFT_OPS_ATTENTION_H
#define SFT_OPS_ATTENTION_H

#include "elementwise.h"

/* q [.., l, e], k [.., s, e], v [.., s, ev], y [.., l, ev], mask [.., l, s] (bool: true takes part,
 * or of q's dtype: added; NULL: none), lse [.., l] contiguous: log of the sum of exponentials of a
 * row. Batch dims are equal (stride 0 where broadcast); float32 or float64; y and the gradients
 * have unit stride in their last dim. attention: y, lse, q, k, v, mask attention_backward: dq, dk,
 * dv, g, q, k, v, mask, y, lse */
typedef struct sft_attention_params {
    int64_t l, s, e, ev, batch;
    double scale;
    bool causal;
} sft_attention_params;

#endif
