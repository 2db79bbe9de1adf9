/*
 * gemm_libs.h - matrix products by oneDNN or OpenBLAS, on request (SFT_BLAS=dnnl|openblas).
 */
#ifndef SFT_CPU_GEMM_LIBS_H
#define SFT_CPU_GEMM_LIBS_H

#include "gemm.h"

/* Does the product with the library that SFT_BLAS names; false: not asked for, not found, or not
 * for these strides, and nothing has been written. */
bool sft_gemm_lib(const sft_gemm_args *g, int threads);

#endif
