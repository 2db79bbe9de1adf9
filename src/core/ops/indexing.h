/* indexing.h: plans of indexed reads and writes, between ops/index.c and ops/scatter.c. */
#ifndef SFT_OPS_INDEXING_H
#define SFT_OPS_INDEXING_H

#include "index.h"

typedef struct sft_index_plan {
    int n;                           /* index tensors */
    int dim[SFT_MAX_DIMS];           /* the dim of self that each addresses */
    sft_tensor *index[SFT_MAX_DIMS]; /* expanded to one shape; temps or borrowed */
    sft_tensor *x;                   /* self, dims in the order [before, indexed, after] */
    int ndim;                        /* of the values at these positions */
    int64_t shape[2 * SFT_MAX_DIMS]; /* their shape (the second half is scratch) */
    sft_index_params params;
} sft_index_plan;

/* A list of index tensors as advanced indexing takes it. */
sft_status sft_plan_index(sft_index_plan *p, const char *op, sft_tensor *self,
                          const sft_value *list);
/* One index tensor for one dim. */
sft_status sft_plan_select(sft_index_plan *p, const char *op, sft_tensor *self, int dim,
                           sft_tensor *index, bool wrap);
/* Runs kernel `op` (index, index_put) with y as the values. */
sft_status sft_run_plan(const sft_index_plan *p, sft_op_id op, sft_tensor *y);
/* Wraps a dim; -1 with an error that names the op. */
int sft_index_dim(const char *op, int64_t d, int ndim);
/* Shapes of gather, scatter: index fits into self but along dim, and into src (may be NULL). */
sft_status sft_check_gather(const char *op, const sft_tensor *self, const sft_tensor *index,
                            const sft_tensor *src, int dim);

#endif
