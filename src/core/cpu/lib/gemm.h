/*
 * gemm.h - matrix products of the CPU backend.
 *
 * One entry point for float32 and float64, plain or batched, of any strides.  Behind it stand our
 * own blocked kernels (always present, the default), oneDNN and OpenBLAS (opened at run time only
 * when SFT_BLAS asks for them).
 */
#ifndef SFT_CPU_GEMM_H
#define SFT_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

enum { SFT_GEMM_NONE = 0, SFT_GEMM_RELU = 1 };

/* C[b] = epilogue(alpha * A[b] @ B[b] + beta * C[b] + bias), A m x k, B k x n, C m x n.
 * Strides count elements; rs = step to the next row, cs = to the next column, bs = to the next
 * batch item (0 repeats one matrix; for C only when batch <= 1).  C has unit column stride.
 * beta == 0 never reads C.  alpha == 0 or k == 0 leaves beta * C + bias. */
typedef struct sft_gemm_args {
    bool f64;
    int64_t batch, m, n, k;
    const void *a;
    int64_t a_rs, a_cs, a_bs;
    const void *b;
    int64_t b_rs, b_cs, b_bs;
    void *c;
    int64_t c_rs, c_bs;
    double alpha, beta;
    const void *bias; /* NULL or n values, added to every row */
    int epilogue;     /* SFT_GEMM_NONE or SFT_GEMM_RELU */
} sft_gemm_args;

/* Runs on the thread pool where that pays.  The result does not depend on the number of threads.
 * Returns false only when memory for packing ran out; C is then unspecified. */
bool sft_gemm(const sft_gemm_args *g);

/* The same on the calling thread alone: for callers that split the work themselves. */
bool sft_gemm_serial(const sft_gemm_args *g);

/* Name of the implementation in use: "own", "dnnl" or "openblas". */
const char *sft_gemm_backend(void);

#endif
