/* index.h: what the checks and the kernels of indexing, gathering and scattering share. */
#ifndef SFT_OPS_INDEX_H
#define SFT_OPS_INDEX_H

#include "elementwise.h"

enum sft_combine {
    SFT_COMBINE_SET,
    SFT_COMBINE_ADD,
    SFT_COMBINE_MUL,
    SFT_COMBINE_MAX,
    SFT_COMBINE_MIN
};

/* index, index_put. Tensors: y, x, then `nidx` index tensors of one shape (that of B).
 * x is the indexed tensor, its dims ordered [before, indexed, after]; y has the dims
 * [before, B, after]. index reads x and writes y; index_put reads y and writes x. The B dims of y
 * must be mergeable into one. */
typedef struct sft_index_params {
    const char *name;       /* of the op, for messages */
    int nbefore, nidx, nb;  /* dims: before, indexed, B */
    int dims[SFT_MAX_DIMS]; /* the indexed dims as the caller counts them (0-based), for messages */
    bool wrap;              /* negative indices count from the end */
    uint8_t combine;        /* index_put: sft_combine */
} sft_index_params;

/* gather: out, self, index. scatter: out (holds self already), index, src (a 0-dim one stands for
 * all elements). Dims other than `dim` of index are at most as large as those of self and src. */
typedef struct sft_gather_params {
    const char *name;
    int dim;
    uint8_t combine;
} sft_gather_params;

/* The dtype of an index tensor: int64 or int32. */
sft_status sft_check_index_dtype(const char *op, const char *arg, const sft_tensor *index);
/* A result that starts as a copy of self: c->dst (self itself, or out =), or a fresh tensor. The
 * caller owns the reference. NULL: an error is set. */
sft_tensor *sft_start_from(sft_opctx *c, sft_tensor *self);
/* Zeros like a tensor input of the rule, for gradients. Temp. */
sft_tensor *sft_bw_zeros(sft_bw *b, int param, const sft_tensor *like);

#endif
