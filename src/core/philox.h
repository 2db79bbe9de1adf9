/* philox.h: Philox4x32-10, the counter-based random generator (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). Block number n of key k is four 32-bit words, whoever asks
 * for it: CPU and CUDA, one thread or many give the same numbers. */
#ifndef SFT_PHILOX_H
#define SFT_PHILOX_H

#include "scalar.h"

enum { SFT_PHILOX_LANES = 16 };

/* Blocks first .. first + SFT_PHILOX_LANES - 1: word w of block l is out[w][l]. The lanes lie in
 * four arrays of their own, of which the compiler makes vectors. */
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
