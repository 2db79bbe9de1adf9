/* loss.h: what the checks and the kernels of the losses share. */
#ifndef SFT_OPS_LOSS_H
#define SFT_OPS_LOSS_H

#include "elementwise.h"

enum sft_reduction { SFT_REDUCE_NONE, SFT_REDUCE_MEAN, SFT_REDUCE_SUM, SFT_REDUCE_BATCHMEAN };

/* Losses of class labels over [rows, classes]. Forward: loss (one per row, or one), stats [rows, 2]
 * (greatest element, 1 / sum of exp), total [1] (sum of the targets' weights), x, target (int64,
 * any shape), weight. Backward: dx, g, x, target, weight, stats, total. Contiguous, of one dtype,
 * float32 or float64. */
typedef struct sft_class_loss_params {
    int64_t rows, classes;
    int64_t ignore_index; /* 0-based; negative: as the target holds it */
    int reduction;        /* sft_reduction, without BATCHMEAN */
    double smoothing;
    bool logits;   /* cross entropy of logits; else of log-probabilities (nll_loss) */
    bool constant; /* backward: only what does not depend on x, negated */
} sft_class_loss_params;

/* Losses of one input and one target element each: f(input - target) mostly. Forward: loss (like
 * the input, or one), x, y; backward: dx, g, x, y. */
enum sft_point_loss {
    SFT_LOSS_MSE,
    SFT_LOSS_L1,
    SFT_LOSS_SMOOTH_L1,
    SFT_LOSS_HUBER,
    SFT_LOSS_BCE,
    SFT_LOSS_BCE_LOGITS
};
typedef struct sft_point_loss_params {
    int kind, reduction;
    double beta;
} sft_point_loss_params;

/* "none", "mean", "sum", and "batchmean" where `batch`; -1 with an error otherwise. */
int sft_read_reduction(const char *op, const char *text, bool batch);
/* loss reduced (mean, sum) or as it is. */
sft_tensor *sft_reduce_loss(sft_tensor *loss, int reduction);

#endif
