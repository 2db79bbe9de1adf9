/* join.h: what cat's checks and its kernel share. */
#ifndef SFT_OPS_JOIN_H
#define SFT_OPS_JOIN_H

#include "elementwise.h"

/* Tensors: out, then the inputs; all contiguous and of one dtype. */
typedef struct sft_cat_params {
    int dim;
} sft_cat_params;

#endif
