/*
 * gemm_kernels.h - the innermost loops of our own matrix product: what each instruction set offers.
 *
 * Private to gemm*.c.  A "panel" is a strip of packed operand: A in panels of mr rows, stored
 * column by column; B in panels of nr columns, stored row by row, missing columns zero.
 */
#ifndef SFT_CPU_GEMM_KERNELS_H
#define SFT_CPU_GEMM_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* What happens to a finished tile: C = epilogue(alpha * tile + beta * C + bias). */
typedef struct sft_gemm_store {
    double alpha, beta;
    const void *bias; /* NULL, or the bias of the tile's first column */
    bool relu;
} sft_gemm_store;

typedef struct sft_gemm_kernels {
    const char *name;
    int mr, nr; /* tile: rows x columns */
    /* C tile of `rows` x `cols` from k products; a is strided, or packed (a_rs 1, a_cs mr);
     * b is `nr` columns wide (readable to the full width) with a step of b_rs. */
    void (*tile)(int64_t k, const void *a, int64_t a_rs, int64_t a_cs, const void *b, int64_t b_rs,
                 void *c, int64_t c_rs, int rows, int cols, const sft_gemm_store *st);
    /* Packs rows x k of A into panels; writes up to 16 elements past the last one. */
    void (*pack_a)(int64_t rows, int64_t k, const void *a, int64_t rs, int64_t cs, void *out);
    /* Packs k x cols of B into panels. */
    void (*pack_b)(int64_t k, int64_t cols, const void *b, int64_t rs, int64_t cs, void *out);
    /* out[j] = sum_p x[p] * w[j * ldw + p], j < n: a row times rows. */
    void (*dots)(int64_t n, int64_t k, const void *x, const void *w, int64_t ldw, void *out);
    /* out[j] = sum_p x[p * xs] * w[p * ldw + j], j < n: a row times columns. */
    void (*axpys)(int64_t n, int64_t k, const void *x, int64_t xs, const void *w, int64_t ldw,
                  void *out);
} sft_gemm_kernels;

/* The best kernels that this processor can run. */
const sft_gemm_kernels *sft_gemm_kernels_f32(void);
const sft_gemm_kernels *sft_gemm_kernels_f64(void);

#endif
