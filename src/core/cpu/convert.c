/* convert.c: runs of elements of any dtype to and from the dtypes that are computed in. This is
 * where half types, small integers, promotion and strides are dealt with, once for all kernels. */
#include "kernels.h"
#if defined(__F16C__)
#include <immintrin.h>
#endif

#define SAME(x) (x)
#define LOAD(name, S, D, expr)                                                                     \
    static void name(int64_t n, const char *src, int64_t stride, void *dst) {                      \
        D *d = dst;                                                                                \
        if (stride == (int64_t)sizeof(S)) {                                                        \
            const S *s = (const S *)src;                                                           \
            IVDEP for (int64_t i = 0; i < n; i++) {                                                \
                const S x = s[i];                                                                  \
                d[i] = (D)(expr);                                                                  \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const S x = *(const S *)(src + i * stride);                                        \
                d[i] = (D)(expr);                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* X(dtype, C type, to float32, to float64, to int64, to bool) */
#define LOADS(X)                                                                                   \
    X(bool, uint8_t, x, x, x, x)                                                                   \
    X(uint8, uint8_t, x, x, x, x != 0)                                                             \
    X(int8, int8_t, x, x, x, x != 0)                                                               \
    X(int16, int16_t, x, x, x, x != 0)                                                             \
    X(int32, int32_t, x, x, x, x != 0)                                                             \
    X(int64, int64_t, x, x, x, x != 0)                                                             \
    X(float16, uint16_t, sft_f32_from_f16(x), sft_f32_from_f16(x),                                 \
      sft_i64_from_f32(sft_f32_from_f16(x)), (x & 0x7fff) != 0)                                    \
    X(bfloat16, uint16_t, sft_f32_from_bf16(x), sft_f32_from_bf16(x),                              \
      sft_i64_from_f32(sft_f32_from_bf16(x)), (x & 0x7fff) != 0)                                   \
    X(float32, float, x, x, sft_i64_from_f32(x), sft_bool_from_f32(x))                             \
    X(float64, double, x, x, sft_i64_from_f64(x), sft_bool_from_f64(x))

#define X(dt, S, f32, f64, i64, b)                                                                 \
    LOAD(load_f32_##dt, S, float, f32)                                                             \
    LOAD(load_f64_##dt, S, double, f64)                                                            \
    LOAD(load_i64_##dt, S, int64_t, i64)                                                           \
    LOAD(load_b_##dt, S, uint8_t, b)
LOADS(X)
#undef X

typedef void (*load_fn)(int64_t, const char *, int64_t, void *);
static const load_fn loads[SFT_DTYPE_COUNT][4] = {
#define X(dt, S, f32, f64, i64, b)                                                                 \
    [SFT_##dt] = {load_f32_##dt, load_f64_##dt, load_i64_##dt, load_b_##dt},
    LOADS(X)
#undef X
};

#define STORE(name, S, D, expr)                                                                    \
    static void name(int64_t n, const void *src, char *dst, int64_t stride) {                      \
        const S *s = src;                                                                          \
        if (stride == (int64_t)sizeof(D)) {                                                        \
            D *d = (D *)dst;                                                                       \
            IVDEP for (int64_t i = 0; i < n; i++) {                                                \
                const S x = s[i];                                                                  \
                d[i] = (D)(expr);                                                                  \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const S x = s[i];                                                                  \
                *(D *)(dst + i * stride) = (D)(expr);                                              \
            }                                                                                      \
        }                                                                                          \
    }

/* X(dtype, C type, from float32, from float64, from int64) */
#define STORES(X)                                                                                  \
    X(bool, uint8_t, sft_bool_from_f32(x), sft_bool_from_f64(x), x != 0)                           \
    X(uint8, uint8_t, sft_u8_from_f32(x), sft_u8_from_f64(x), x)                                   \
    X(int8, int8_t, sft_i8_from_f32(x), sft_i8_from_f64(x), x)                                     \
    X(int16, int16_t, sft_i16_from_f32(x), sft_i16_from_f64(x), x)                                 \
    X(int32, int32_t, sft_i32_from_f32(x), sft_i32_from_f64(x), x)                                 \
    X(int64, int64_t, sft_i64_from_f32(x), sft_i64_from_f64(x), x)                                 \
    X(float16, uint16_t, sft_f16_from_f32(x), sft_f16_from_f64(x), sft_f16_from_f32((float)x))     \
    X(bfloat16, uint16_t, sft_bf16_from_f32(x), sft_bf16_from_f64(x), sft_bf16_from_f32((float)x)) \
    X(float32, float, x, x, x)                                                                     \
    X(float64, double, x, x, x)

#define X(dt, D, f32, f64, i64)                                                                    \
    STORE(store_f32_##dt, float, D, f32)                                                           \
    STORE(store_f64_##dt, double, D, f64)                                                          \
    STORE(store_i64_##dt, int64_t, D, i64)
STORES(X)
#undef X

typedef void (*store_fn)(int64_t, const void *, char *, int64_t);
static const store_fn stores[SFT_DTYPE_COUNT][3] = {
#define X(dt, D, f32, f64, i64) [SFT_##dt] = {store_f32_##dt, store_f64_##dt, store_i64_##dt},
    STORES(X)
#undef X
};

static inline int slot(int ctype) {
    return ctype == SFT_float32 ? 0 : ctype == SFT_float64 ? 1 : ctype == SFT_int64 ? 2 : 3;
}

/* Contiguous float16, by instruction where there is one; both round as the portable functions do. */
#if defined(__F16C__)
static void load_f16c(int64_t n, const uint16_t *s, float *d) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
    for (; i < n; i++) d[i] = sft_f32_from_f16(s[i]);
}
static void store_f16c(int64_t n, const float *s, uint16_t *d) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(d + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) d[i] = sft_f16_from_f32(s[i]);
}
#endif

void sft_load(int to, int dtype, int64_t n, const char *src, int64_t stride, void *dst) {
#if defined(__F16C__)
    if (dtype == SFT_float16 && to == SFT_float32 && stride == 2) {
        load_f16c(n, (const uint16_t *)src, dst);
        return;
    }
#endif
    loads[dtype][slot(to)](n, src, stride, dst);
}

void sft_store(int from, int dtype, int64_t n, const void *src, char *dst, int64_t stride) {
    if (from == SFT_bool) {
        /* 0 and 1 convert like uint8. */
        int64_t wide[SFT_BLOCK];
        const uint8_t *s = src;
        for (int64_t i = 0; i < n; i += SFT_BLOCK) {
            int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;
            for (int64_t j = 0; j < m; j++) wide[j] = s[i + j];
            stores[dtype][2](m, wide, dst + i * stride, stride);
        }
        return;
    }
#if defined(__F16C__)
    if (dtype == SFT_float16 && from == SFT_float32 && stride == 2) {
        store_f16c(n, src, (uint16_t *)dst);
        return;
    }
#endif
    stores[dtype][slot(from)](n, src, dst, stride);
}
