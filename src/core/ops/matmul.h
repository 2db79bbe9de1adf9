/* matmul.h: what the matrix product kernels are told.
 * Tensors: out, a, b, bias. out [batch.., m, n] contiguous; a [.., m, k], b [.., k, n] of any
 * strides; batch 1 repeats. bias (optional, NULL): n values added to every row.
 * out = alpha * a @ b + beta * out + bias. */
#ifndef SFT_OPS_MATMUL_H
#define SFT_OPS_MATMUL_H

typedef struct sft_matmul_params {
    double alpha, beta;
    bool b_transposed; /* b is [.., n, k] */
} sft_matmul_params;

#endif
