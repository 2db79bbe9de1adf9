/* philox.h: Philox4x32-10, the counter-based random generator (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). Block number n of key k is four 32-bit words, whoever asks
 * for it: CPU and CUDA, one thread or many give the same numbers. */
#ifndef SFT_PHILOX_H
#define SFT_PHILOX_H

#include "scalar.h"

enum { SFT_PHILOX_LANES = 16 };

/* Blocks first .. first + SFT_PHILOX_LANES - 1: word w of block l is out[w][l]. */
#if defined(__AVX2__) && !defined(__CUDACC__)
/* Three times as fast as what the compiler makes of the plain loop below, with the same numbers. */
#include <immintrin.h>

/* Products of eight lanes with m: the low and the high words. */
SFT_FN __m256i sft_mul_wide(__m256i c, __m256i m, __m256i *high) {
    const __m256i even = _mm256_mul_epu32(c, m);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(c, 32), m);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

SFT_FN void sft_philox_blocks(uint64_t key, uint64_t first, uint32_t out[4][SFT_PHILOX_LANES]) {
    __m256i c[2][4];
    const __m256i m0 = _mm256_set1_epi32((int)0xD2511F53u),
                  m1 = _mm256_set1_epi32((int)0xCD9E8D57u);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int l = 0; l < SFT_PHILOX_LANES; l++) {
        const uint64_t n = first + (uint64_t)l;
        out[0][l] = (uint32_t)n;
        out[1][l] = (uint32_t)(n >> 32);
    }
    for (int h = 0; h < 2; h++) {
        for (int w = 0; w < 2; w++) c[h][w] = _mm256_loadu_si256((const __m256i *)&out[w][8 * h]);
        c[h][2] = c[h][3] = _mm256_setzero_si256();
    }
    for (int round = 0; round < 10; round++) {
        const __m256i v0 = _mm256_set1_epi32((int)k0), v1 = _mm256_set1_epi32((int)k1);
        for (int h = 0; h < 2; h++) {
            __m256i high0, high1;
            const __m256i low0 = sft_mul_wide(c[h][0], m0, &high0);
            const __m256i low1 = sft_mul_wide(c[h][2], m1, &high1);
            c[h][0] = _mm256_xor_si256(_mm256_xor_si256(high1, c[h][1]), v0);
            c[h][2] = _mm256_xor_si256(_mm256_xor_si256(high0, c[h][3]), v1);
            c[h][1] = low1;
            c[h][3] = low0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int h = 0; h < 2; h++)
        for (int w = 0; w < 4; w++) _mm256_storeu_si256((__m256i *)&out[w][8 * h], c[h][w]);
}
#else
/* The lanes lie in four arrays of their own, of which the compiler makes vectors. */
SFT_FN void sft_philox_blocks(uint64_t key, uint64_t first, uint32_t out[4][SFT_PHILOX_LANES]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0[SFT_PHILOX_LANES], c1[SFT_PHILOX_LANES], c2[SFT_PHILOX_LANES], c3[SFT_PHILOX_LANES];
    for (int l = 0; l < SFT_PHILOX_LANES; l++) {
        const uint64_t n = first + (uint64_t)l;
        c0[l] = (uint32_t)n;
        c1[l] = (uint32_t)(n >> 32);
        c2[l] = c3[l] = 0;
    }
    for (int round = 0; round < 10; round++) {
#pragma GCC unroll 1 /* else it is unrolled before it could become vectors */
        for (int l = 0; l < SFT_PHILOX_LANES; l++) {
            const uint64_t a = (uint64_t)c0[l] * 0xD2511F53u;
            const uint64_t b = (uint64_t)c2[l] * 0xCD9E8D57u;
            const uint32_t n0 = (uint32_t)(b >> 32) ^ c1[l] ^ k0;
            const uint32_t n2 = (uint32_t)(a >> 32) ^ c3[l] ^ k1;
            c1[l] = (uint32_t)b;
            c3[l] = (uint32_t)a;
            c0[l] = n0;
            c2[l] = n2;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out[0], c0, sizeof c0);
    memcpy(out[1], c1, sizeof c1);
    memcpy(out[2], c2, sizeof c2);
    memcpy(out[3], c3, sizeof c3);
}
#endif

/* One block. */
SFT_FN void sft_philox(uint64_t key, uint64_t block, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* 32 random bits -> [0, 1) with 24 bits. */
SFT_FN float sft_unit_f32(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }
/* 64 random bits -> [0, 1) with 53 bits. */
SFT_FN double sft_unit_f64(uint32_t hi, uint32_t lo) {
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

#endif
