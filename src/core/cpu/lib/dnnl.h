/*
 * dnnl.h - oneDNN, opened at run time on first use.
 *
 * Private to cpu/lib.  oneDNN runs on the calling thread alone here: whoever calls splits the work
 * over our own pool.
 */
#ifndef SFT_CPU_DNNL_H
#define SFT_CPU_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "conv.h"

/* True if the library is there; loads it (some 90 ms) on the first call.  SFT_DNNL=0 forbids it. */
bool sft_dnnl(void);

/* SFT_DNNL=1: also for work too small to pay (for tests). */
bool sft_dnnl_always(void);

/* Between these two calls oneDNN uses one thread on the calling thread; enter's result goes to
 * leave. */
int sft_dnnl_enter(void);
void sft_dnnl_leave(int state);

/* C = alpha * op(A) @ op(B) + beta * C, row-major; only after sft_dnnl() was true. */
void sft_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef enum sft_dnnl_result {
    SFT_DNNL_NO,    /* not there, or not for this convolution: nothing was done */
    SFT_DNNL_OK,    /* done */
    SFT_DNNL_FAILED /* out of memory */
} sft_dnnl_result;

sft_dnnl_result sft_dnnl_conv_forward(const sft_conv *c, const void *x, const void *w,
                                      const void *bias, void *y);
sft_dnnl_result sft_dnnl_conv_backward_data(const sft_conv *c, const void *dy, const void *w,
                                            void *dx);
sft_dnnl_result sft_dnnl_conv_backward_weights(const sft_conv *c, const void *x, const void *dy,
                                               void *dw);

#endif
