/* order.h: elements as unsigned keys that sort like them.
 *
 * A key is packed with the element's position into one word: 32 + 32 bits for the dtypes of up to 4
 * bytes, 64 + 64 for the others. So all words differ, and any sorting of them is stable. -0 and 0
 * have one key, and so have all NaNs, the greatest. A flipped key sorts the other way, ties still
 * by position. */
#ifndef SFT_CPU_ORDER_H
#define SFT_CPU_ORDER_H

#include "../ops/sort.h"
#include "kernels.h"

typedef unsigned __int128 wide;
typedef uint64_t narrow;

static inline bool order_is_wide(int dtype) { return dtype == SFT_int64 || dtype == SFT_float64; }

static inline uint32_t key_f32(float x) {
    uint32_t u = sft_bits_f32(x == 0 ? 0.0f : x);
    u ^= (uint32_t)((int32_t)u >> 31) | 0x80000000u;
    return x != x ? UINT32_MAX : u;
}
static inline uint64_t key_f64(double x) {
    uint64_t u = sft_bits_f64(x == 0 ? 0.0 : x);
    u ^= (uint64_t)((int64_t)u >> 63) | 0x8000000000000000u;
    return x != x ? UINT64_MAX : u;
}

/* w[i] = word of element i of a row; `stride` bytes apart. `first`: position of the first. */
static inline void order_load_narrow(int dtype, const char *x, int64_t stride, int64_t first,
                                     int64_t n, bool flip, narrow *w) {
    const uint32_t f = flip ? UINT32_MAX : 0;
#define LOAD_KEYS(T, expr)                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const T v = *(const T *)(x + i * stride);                                                  \
        w[i] = (narrow)((uint32_t)(expr) ^ f) << 32 | (uint32_t)(first + i);                       \
    }                                                                                              \
    break
    switch (dtype) {
    case SFT_bool:
    case SFT_uint8:
        LOAD_KEYS(uint8_t, v);
    case SFT_int8:
        LOAD_KEYS(int8_t, (uint32_t)v ^ 0x80000000u);
    case SFT_int16:
        LOAD_KEYS(int16_t, (uint32_t)v ^ 0x80000000u);
    case SFT_int32:
        LOAD_KEYS(int32_t, (uint32_t)v ^ 0x80000000u);
    case SFT_float16:
        LOAD_KEYS(uint16_t, key_f32(sft_f32_from_f16(v)));
    case SFT_bfloat16:
        LOAD_KEYS(uint16_t, key_f32(sft_f32_from_bf16(v)));
    default:
        LOAD_KEYS(float, key_f32(v));
    }
#undef LOAD_KEYS
}
static inline void order_load_wide(int dtype, const char *x, int64_t stride, int64_t first,
                                   int64_t n, bool flip, wide *w) {
    const uint64_t f = flip ? UINT64_MAX : 0;
    if (dtype == SFT_float64)
        for (int64_t i = 0; i < n; i++)
            w[i] = (wide)(key_f64(*(const double *)(x + i * stride)) ^ f) << 64 |
                   (uint64_t)(first + i);
    else
        for (int64_t i = 0; i < n; i++)
            w[i] = (wide)((*(const uint64_t *)(x + i * stride) ^ 0x8000000000000000u) ^ f) << 64 |
                   (uint64_t)(first + i);
}

#define POSITION_narrow(w) ((int64_t)(uint32_t)(w))
#define POSITION_wide(w)   ((int64_t)(uint64_t)(w))
#define KEY_narrow(w)      ((uint32_t)((w) >> 32))
#define KEY_wide(w)        ((uint64_t)((w) >> 64))

/* Is the element of this word a NaN? */
static inline bool order_nan_narrow(int dtype, narrow w, bool flip) {
    return sft_is_float(dtype) && KEY_narrow(w) == (flip ? 0 : UINT32_MAX);
}
static inline bool order_nan_wide(int dtype, wide w, bool flip) {
    return dtype == SFT_float64 && KEY_wide(w) == (flip ? 0 : UINT64_MAX);
}

/* The elements of n words, to dst; looked up in the row x where the key doesn't tell all. */
static inline void order_store_narrow(int dtype, const narrow *w, int64_t n, bool flip,
                                      const char *x, int64_t stride, char *dst, int64_t step) {
    const uint32_t f = flip ? UINT32_MAX : 0;
    switch (sft_dtype_size((sft_dtype)dtype)) {
    case 1:
        for (int64_t i = 0; i < n; i++) dst[i * step] = x[POSITION_narrow(w[i]) * stride];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            *(uint16_t *)(dst + i * step) = *(const uint16_t *)(x + POSITION_narrow(w[i]) * stride);
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            const uint32_t k = KEY_narrow(w[i]) ^ f;
            uint32_t v = k ^ 0x80000000u;
            if (dtype == SFT_float32) {
                v = k >> 31 ? v : ~k;
                if (v == 0 || k == UINT32_MAX)
                    v = *(const uint32_t *)(x + POSITION_narrow(w[i]) * stride);
            }
            *(uint32_t *)(dst + i * step) = v;
        }
    }
}
static inline void order_store_wide(int dtype, const wide *w, int64_t n, bool flip, const char *x,
                                    int64_t stride, char *dst, int64_t step) {
    const uint64_t f = flip ? UINT64_MAX : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t k = KEY_wide(w[i]) ^ f;
        uint64_t v = k ^ 0x8000000000000000u;
        if (dtype == SFT_float64) {
            v = k >> 63 ? v : ~k;
            if (v == 0 || k == UINT64_MAX)
                v = *(const uint64_t *)(x + POSITION_wide(w[i]) * stride);
        }
        *(uint64_t *)(dst + i * step) = v;
    }
}

/* Integers of 8 bytes that lie within 2^32 of each other take narrow words too: as distances from
 * the smallest, *low. */
static inline bool order_near(int dtype, const char *x, int64_t stride, int64_t n, int64_t *low) {
    if (dtype != SFT_int64 || n == 0) return false;
    int64_t lo = *(const int64_t *)x, hi = lo;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = *(const int64_t *)(x + i * stride);
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    *low = lo;
    return (uint64_t)hi - (uint64_t)lo <= UINT32_MAX;
}
static inline void order_load_near(const char *x, int64_t stride, int64_t n, bool flip, int64_t low,
                                   narrow *w) {
    const uint32_t f = flip ? UINT32_MAX : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = *(const uint64_t *)(x + i * stride);
        w[i] = (narrow)((uint32_t)(v - (uint64_t)low) ^ f) << 32 | (uint32_t)i;
    }
}
static inline void order_store_near(const narrow *w, int64_t n, bool flip, int64_t low, char *dst,
                                    int64_t step) {
    const uint32_t f = flip ? UINT32_MAX : 0;
    for (int64_t i = 0; i < n; i++)
        *(uint64_t *)(dst + i * step) = (uint64_t)low + (KEY_narrow(w[i]) ^ f);
}

/* Sorts a[n] with b[n] for room (sort.c); returns where the result lies, a or b. */
narrow *KN(order_sort_narrow)(narrow *a, narrow *b, int64_t n);
wide *KN(order_sort_wide)(wide *a, wide *b, int64_t n);
#define order_sort_narrow KN(order_sort_narrow)
#define order_sort_wide   KN(order_sort_wide)

/* Reorders a[n] so that a[k] is what sorting would put there, smaller ones before it. */
#define ORDER_SELECT(W)                                                                            \
    static inline void order_select_##W(W *a, int64_t n, int64_t k) {                              \
        int64_t lo = 0, hi = n - 1;                                                                \
        uint64_t seed = 0x9e3779b97f4a7c15u;                                                       \
        while (hi - lo > 16) {                                                                     \
            W p[3];                                                                                \
            for (int i = 0; i < 3; i++) {                                                          \
                seed = seed * 6364136223846793005u + 1442695040888963407u;                         \
                p[i] = a[lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1))];                  \
            }                                                                                      \
            W least = p[0] < p[1] ? p[0] : p[1], most = p[0] < p[1] ? p[1] : p[0];                 \
            W pivot = p[2] < least ? least : p[2] > most ? most : p[2];                            \
            int64_t i = lo, j = hi;                                                                \
            while (i <= j) {                                                                       \
                while (a[i] < pivot) i++;                                                          \
                while (a[j] > pivot) j--;                                                          \
                if (i <= j) {                                                                      \
                    W t = a[i];                                                                    \
                    a[i++] = a[j];                                                                 \
                    a[j--] = t;                                                                    \
                }                                                                                  \
            }                                                                                      \
            if (k <= j)                                                                            \
                hi = j;                                                                            \
            else if (k >= i)                                                                       \
                lo = i;                                                                            \
            else                                                                                   \
                return;                                                                            \
        }                                                                                          \
        for (int64_t i = lo + 1; i <= hi; i++) {                                                   \
            W t = a[i];                                                                            \
            int64_t j = i;                                                                         \
            for (; j > lo && a[j - 1] > t; j--) a[j] = a[j - 1];                                   \
            a[j] = t;                                                                              \
        }                                                                                          \
    }

#endif
