/* mask.h: what the checks and the kernels of masks share. */
#ifndef SFT_OPS_MASK_H
#define SFT_OPS_MASK_H

#include "elementwise.h"

enum { SFT_MASK_BLOCK = 16384 }; /* elements per count */

enum sft_mask_step {
    SFT_MASK_COUNT,  /* counts, mask:            true elements of each block */
    SFT_MASK_SELECT, /* counts, mask, out, x:    out = x where mask */
    SFT_MASK_PLACE,  /* counts, mask, out, src:  out = the next of src where mask */
    SFT_MASK_LIST,   /* counts, mask, out, x:    positions; x gives the shape */
};

/* Kernel masked_select. All tensors are contiguous; counts[i] (int64) is, in all but the first
 * step, the number of true elements before block i. */
typedef struct sft_mask_params {
    int step;
} sft_mask_params;

typedef struct sft_tri_params {
    int64_t diagonal;
    bool upper;
} sft_tri_params;

#endif
