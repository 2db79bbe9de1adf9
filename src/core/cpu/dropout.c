/* dropout.c: zeroes elements by a mask that is a function of (key, offset, position), so that the
 * backward pass makes it again instead of keeping it. */
#include "kernels.h"
#include "../ops/dropout.h"
#include "../philox.h"

enum { RUN = SFT_DROPOUT_RUN };
_Static_assert((int)SFT_DROPOUT_BLOCKS == (int)SFT_PHILOX_LANES, "one group of blocks a run");

#define RANGE(name, T)                                                                             \
    static void name(void *ctx, int64_t begin, int64_t end) {                                      \
        const sft_kcall *k = ctx;                                                                  \
        const sft_dropout_params *p = k->params;                                                   \
        const int64_t n = k->t[0]->numel;                                                          \
        const uint32_t limit = (uint32_t)(p->p * 0x1p32);                                          \
        const T scale = (T)(1 / (1 - p->p)), *x = (const T *)k->t[1]->data;                        \
        T *y = (T *)k->t[0]->data;                                                                 \
        uint32_t words[4][SFT_PHILOX_LANES];                                                       \
        for (int64_t run = begin; run < end; run++) {                                              \
            const int64_t at = run * RUN, m = n - at < RUN ? n - at : RUN;                         \
            const uint32_t *w = &words[0][0];                                                      \
            sft_philox_blocks(p->key, p->offset + (uint64_t)run * SFT_PHILOX_LANES, words);        \
            IVDEP for (int64_t i = 0; i < m; i++) y[at + i] =                                      \
                w[i] >= limit ? x[at + i] * scale : 0;                                             \
        }                                                                                          \
    }
RANGE(drop_f32, float)
RANGE(drop_f64, double)

KERNEL(dropout_mask)(const sft_kcall *k) {
    sft_parallel_for((k->t[0]->numel + RUN - 1) / RUN, SFT_GRAIN / 2 / RUN,
                     k->t[0]->dtype == SFT_float64 ? drop_f64 : drop_f32, (void *)k);
    return SFT_OK;
}
