/*
 * gemm_kernels.c - instances of the kernels in gemm_tile.inc, and the choice among them.
 *
 * This file is compiled for the baseline; each instance names its instruction set itself.
 */
#include "gemm_kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* 8 columns of up to 8 rows, transposed: out[c * ldo + r] = from[r * ld + c].  Writes 8 lanes a
 * column, so with fewer rows the lanes past them are overwritten by the next column's. */
static inline __attribute__((always_inline, target("avx2,fma"))) void
transpose_f32(const float *from, int64_t ld, const int rows, float *out, int64_t ldo) {
    __m256 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = i < rows ? _mm256_loadu_ps(from + i * ld) : _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(out + i * ldo, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(out + (i + 4) * ldo, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
}

/* The same for 4 columns of doubles, up to 4 rows. */
static inline __attribute__((always_inline, target("avx2,fma"))) void
transpose_f64(const double *from, int64_t ld, const int rows, double *out, int64_t ldo) {
    __m256d r[4], t[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        r[i] = i < rows ? _mm256_loadu_pd(from + i * ld) : _mm256_setzero_pd();
    t[0] = _mm256_unpacklo_pd(r[0], r[1]);
    t[1] = _mm256_unpackhi_pd(r[0], r[1]);
    t[2] = _mm256_unpacklo_pd(r[2], r[3]);
    t[3] = _mm256_unpackhi_pd(r[2], r[3]);
    _mm256_storeu_pd(out, _mm256_permute2f128_pd(t[0], t[2], 0x20));
    _mm256_storeu_pd(out + ldo, _mm256_permute2f128_pd(t[1], t[3], 0x20));
    _mm256_storeu_pd(out + 2 * ldo, _mm256_permute2f128_pd(t[0], t[2], 0x31));
    _mm256_storeu_pd(out + 3 * ldo, _mm256_permute2f128_pd(t[1], t[3], 0x31));
}

/* AVX-512 tiles are packed by the same 8 x 8 blocks: a 12-row panel as 8 + 4 rows. */
static inline __attribute__((always_inline, target("avx2,fma"))) void
transpose_f32_split(const float *from, int64_t ld, const int rows, float *out, int64_t ldo) {
    transpose_f32(from, ld, rows < 8 ? rows : 8, out, ldo);
    if (rows > 8) {
        float block[8 * 8];
        transpose_f32(from + 8 * ld, ld, rows - 8, block, 8);
        for (int c = 0; c < 8; c++) memcpy(out + c * ldo + 8, block + c * 8, 4 * sizeof(float));
    }
}

static inline __attribute__((always_inline, target("avx2,fma"))) void
transpose_f64_split(const double *from, int64_t ld, const int rows, double *out, int64_t ldo) {
#pragma GCC unroll 3
    for (int r = 0; r < rows; r += 4) {
        if (rows - r >= 4) {
            transpose_f64(from + r * ld, ld, 4, out + r, ldo);
        } else {
            double block[16];
            transpose_f64(from + r * ld, ld, rows - r, block, 4);
            for (int c = 0; c < 4; c++)
                memcpy(out + c * ldo + r, block + c * 4, (size_t)(rows - r) * sizeof(double));
        }
    }
}

/* ---- AVX2 and FMA ---- */
#define KTARGET       __attribute__((target("avx2,fma")))
#define KMR           6
#define KT            float
#define KL            8
#define KV            __m256
#define KU            __m256_u
#define KNAME(x)      x##_f32_avx2
#define KSTRING       "avx2"
#define KSET1(x)      _mm256_set1_ps(x)
#define KFMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KTRANSPOSE    transpose_f32
#define KTRANSPOSE_K  8
#define KTRANSPOSE_R  8
#include "gemm_tile.inc"
#undef KT
#undef KL
#undef KV
#undef KU
#undef KNAME
#undef KSET1
#undef KFMA
#undef KTRANSPOSE
#undef KTRANSPOSE_K
#undef KTRANSPOSE_R

#define KT            double
#define KL            4
#define KV            __m256d
#define KU            __m256d_u
#define KNAME(x)      x##_f64_avx2
#define KSET1(x)      _mm256_set1_pd(x)
#define KFMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define KTRANSPOSE    transpose_f64_split
#define KTRANSPOSE_K  4
#define KTRANSPOSE_R  4
#include "gemm_tile.inc"
#undef KT
#undef KL
#undef KV
#undef KU
#undef KNAME
#undef KSET1
#undef KFMA
#undef KTARGET
#undef KMR
#undef KSTRING

/* ---- AVX-512 ---- */
#define KTARGET       __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define KMR           12
#define KSTRING       "avx512"
#define KT            double
#define KL            8
#define KV            __m512d
#define KU            __m512d_u
#define KNAME(x)      x##_f64_avx512
#define KSET1(x)      _mm512_set1_pd(x)
#define KFMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#include "gemm_tile.inc"
#undef KT
#undef KL
#undef KV
#undef KU
#undef KNAME
#undef KSET1
#undef KFMA
#undef KTRANSPOSE
#undef KTRANSPOSE_K
#undef KTRANSPOSE_R

#define KT            float
#define KL            16
#define KV            __m512
#define KU            __m512_u
#define KNAME(x)      x##_f32_avx512
#define KSET1(x)      _mm512_set1_ps(x)
#define KFMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KTRANSPOSE    transpose_f32_split
#define KTRANSPOSE_K  8
#define KTRANSPOSE_R  8
#include "gemm_tile.inc"
#undef KT
#undef KL
#undef KV
#undef KU
#undef KNAME
#undef KSET1
#undef KFMA
#undef KTRANSPOSE
#undef KTRANSPOSE_K
#undef KTRANSPOSE_R
#undef KTARGET
#undef KMR
#undef KSTRING
#endif

/* ---- whatever the compiler makes of 16-byte vectors: SSE, NEON ---- */
typedef float v4f __attribute__((vector_size(16)));
typedef float v4fu __attribute__((vector_size(16), aligned(4), may_alias));
typedef double v2d __attribute__((vector_size(16)));
typedef double v2du __attribute__((vector_size(16), aligned(8), may_alias));
#define KTARGET
#define KMR           6
#define KSTRING       "generic"
#define KT            float
#define KL            4
#define KV            v4f
#define KU            v4fu
#define KNAME(x)      x##_f32_generic
#define KSET1(x)      ((v4f){(x), (x), (x), (x)})
#define KFMA(a, b, c) ((a) * (b) + (c))
#include "gemm_tile.inc"
#undef KT
#undef KL
#undef KV
#undef KU
#undef KNAME
#undef KSET1

#define KT       double
#define KL       2
#define KV       v2d
#define KU       v2du
#define KNAME(x) x##_f64_generic
#define KSET1(x) ((v2d){(x), (x)})
#include "gemm_tile.inc"

static const sft_gemm_kernels *best_f32 = &kernels_f32_generic, *best_f64 = &kernels_f64_generic;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* SFT_CPU caps the level here as it does for all other kernels. */
static void choose(void) {
#if defined(__x86_64__)
    const char *cap = getenv("SFT_CPU");
    int most = cap && strcmp(cap, "v2") == 0 ? 2 : cap && strcmp(cap, "v3") == 0 ? 3 : 4;
    __builtin_cpu_init();
    if (most >= 3 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        best_f32 = &kernels_f32_avx2;
        best_f64 = &kernels_f64_avx2;
    }
    if (most >= 4 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
        best_f32 = &kernels_f32_avx512;
        best_f64 = &kernels_f64_avx512;
    }
#endif
}

const sft_gemm_kernels *sft_gemm_kernels_f32(void) {
    pthread_once(&once, choose);
    return best_f32;
}

const sft_gemm_kernels *sft_gemm_kernels_f64(void) {
    pthread_once(&once, choose);
    return best_f64;
}
