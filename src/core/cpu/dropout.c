/* dropout.c: zeroes elements by a mask that is a function of (key, offset, position), so that the
 * backward pass makes it again instead of keeping it. */
#include "kernels.h"
#include "../ops/dropout.h"
#include "../philox.h"

enum { RUN = 4 * SFT_PHILOX_LANES };

/* keep[i] of elements first .. first + RUN - 1 */
static void mask_run(const sft_dropout_params *p, int64_t first, uint32_t limit, uint8_t keep[RUN]) {
    uint32_t words[4][SFT_PHILOX_LANES];
    sft_philox_blocks(p->key, p->offset + (uint64_t)first / 4, words);
    for (int l = 0; l < SFT_PHILOX_LANES; l++)
        for (int w = 0; w < 4; w++) keep[4 * l + w] = words[w][l] >= limit;
}

#define RANGE(name, T)                                                                             \
    static void name(void *ctx, int64_t begin, int64_t end) {                                      \
        const sft_kcall *k = ctx;                                                                  \
        const sft_dropout_params *p = k->params;                                                   \
        const int64_t n = k->t[0]->numel;                                                          \
        const uint32_t limit = (uint32_t)(p->p * 0x1p32);                                          \
        const T scale = (T)(1 / (1 - p->p)), *x = (const T *)k->t[1]->data;                        \
        T *y = (T *)k->t[0]->data;                                                                 \
        uint8_t keep[RUN];                                                                         \
        for (int64_t run = begin; run < end; run++) {                                              \
            const int64_t at = run * RUN, m = n - at < RUN ? n - at : RUN;                         \
            mask_run(p, at, limit, keep);                                                          \
            IVDEP for (int64_t i = 0; i < m; i++) y[at + i] = keep[i] ? x[at + i] * scale : 0;     \
        }                                                                                          \
    }
RANGE(drop_f32, float)
RANGE(drop_f64, double)

KERNEL(dropout_mask)(const sft_kcall *k) {
    sft_parallel_for((k->t[0]->numel + RUN - 1) / RUN, SFT_GRAIN / 2 / RUN,
                     k->t[0]->dtype == SFT_float64 ? drop_f64 : drop_f32, (void *)k);
    return SFT_OK;
}
