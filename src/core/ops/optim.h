/* optim.h: what the checks and the kernels of the optimizer steps share. A step treats all tensors
 * of all parameters as one long run of elements, so that many small ones cost no more than a few
 * large ones. */
#ifndef SFT_OPS_OPTIM_H
#define SFT_OPS_OPTIM_H

#include "elementwise.h"

enum { SFT_OPTIM_TENSORS = 5 };

/* One parameter: itself, its gradient, and the state, all of `n` elements in one dense order. */
typedef struct sft_optim_item {
    int64_t start, n; /* start: elements of the items before */
    char *data[SFT_OPTIM_TENSORS];
    uint8_t dtype[SFT_OPTIM_TENSORS];
    uint8_t ct; /* computed in: float32 or float64 */
} sft_optim_item;

enum { SFT_OPT_PARAM, SFT_OPT_GRAD, SFT_OPT_FIRST, SFT_OPT_SECOND, SFT_OPT_MAX };

typedef struct sft_optim_params {
    const sft_optim_item *items;
    int count;
    int64_t total;
    double lr, weight_decay;
    bool maximize;
    /* SGD */
    double momentum, dampening;
    bool nesterov, first_step;
    /* Adam */
    double beta1, beta2, eps, step_size, correction2; /* lr / (1 - beta1^t), sqrt(1 - beta2^t) */
    bool decoupled, amsgrad;
    /* norm, scale */
    double p, factor;
    double *result;
} sft_optim_params;

#endif
