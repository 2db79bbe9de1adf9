/* stream.h: results that are far larger than the caches are written past them, since a plain store
 * first reads the line that it overwrites; and what is read next is fetched meanwhile. */
#ifndef SFT_CPU_STREAM_H
#define SFT_CPU_STREAM_H

#include "kernels.h"

enum { SFT_STREAM_BYTES = 16 << 20 }; /* results from here on */

#if defined(__AVX__)
#include <immintrin.h>

/* Copies `bytes` from a buffer in the cache; pays where dst lies at a multiple of 32 bytes. */
static inline void sft_stream_out(void *dst, const void *src, size_t bytes) {
    char *d = dst;
    const char *s = src;
    if (((uintptr_t)d | bytes) & 31) {
        memcpy(d, s, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(d + i),
                            _mm256_loadu_si256((const __m256i *)(const void *)(s + i)));
}

/* Each thread calls it when it has written its part. */
static inline void sft_stream_end(void) { _mm_sfence(); }
#else
static inline void sft_stream_out(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}
static inline void sft_stream_end(void) {}
#endif

#endif
