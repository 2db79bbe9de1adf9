/* reduce_sum.c: reductions that add up: sum, mean, nansum, norms, products, counts.
 *
 * float32 (and the half types, which are loaded as float32) is added in float32 only a few terms at
 * a time, and those sums are added in float64. */
#include "reduce.h"

typedef float vf32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t vi32 __attribute__((vector_size(32), aligned(4), may_alias));

static void init_zero(void *acc, int64_t c) { memset(acc, 0, (size_t)(8 * c)); }

#define MERGE(name, T, op)                                                                         \
    static void name(void *acc, const void *other, int64_t c) {                                    \
        T *a = acc;                                                                                \
        const T *b = other;                                                                        \
        IVDEP for (int64_t i = 0; i < c; i++) a[i] = a[i] op b[i];                                 \
    }
MERGE(merge_add_f, double, +)
MERGE(merge_add_i, uint64_t, +)

/* expr of s (the accumulated value) and r */
#define FINISH(name, S, D, setup, expr)                                                            \
    static void name(const void *acc, int64_t c, const red_call *r, void *out0, void *out1) {      \
        (void)r, (void)out1;                                                                       \
        const S *a = acc;                                                                          \
        D *o = out0;                                                                               \
        setup;                                                                                     \
        IVDEP for (int64_t i = 0; i < c; i++) {                                                    \
            const S s = a[i];                                                                      \
            o[i] = (D)(expr);                                                                      \
        }                                                                                          \
    }
FINISH(finish_f, double, double, , s)
FINISH(finish_i, int64_t, int64_t, , s)

/* ---- adding columns and rows
 * --------------------------------------------------------------------- */

/* Defines <name>_outer and <name>_inner for float32 -> float64 accumulators; term(x): what of an
 * element is added. */
#define ADD_F32(name, term)                                                                        \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        double *a = acc;                                                                           \
        int64_t r = 0;                                                                             \
        for (; r + 8 <= rows; r += 8) {                                                            \
            const char *p = x + r * stride;                                                        \
            const float *p0 = (const float *)p, *p1 = (const float *)(p + stride);                 \
            const float *p2 = (const float *)(p + 2 * stride);                                     \
            const float *p3 = (const float *)(p + 3 * stride);                                     \
            const float *p4 = (const float *)(p + 4 * stride);                                     \
            const float *p5 = (const float *)(p + 5 * stride);                                     \
            const float *p6 = (const float *)(p + 6 * stride);                                     \
            const float *p7 = (const float *)(p + 7 * stride);                                     \
            IVDEP for (int64_t i = 0; i < c; i++) {                                                \
                float s = ((term(p0[i]) + term(p1[i])) + (term(p2[i]) + term(p3[i]))) +            \
                          ((term(p4[i]) + term(p5[i])) + (term(p6[i]) + term(p7[i])));             \
                a[i] += (double)s;                                                                 \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            const float *p = (const float *)(x + r * stride);                                      \
            IVDEP for (int64_t i = 0; i < c; i++) a[i] += (double)term(p[i]);                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)c, (void)call;                                                             \
        const float *p = x;                                                                        \
        double total = 0;                                                                          \
        int64_t i = 0;                                                                             \
        while (n - i >= 32) {                                                                      \
            vf32 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};                                           \
            const int64_t end = n - i < 1024 ? n - 31 : i + 1024 - 31;                             \
            for (; i < end; i += 32) {                                                             \
                vf32 v0, v1, v2, v3;                                                               \
                v0 = *(const vf32 *)(p + i), v1 = *(const vf32 *)(p + i + 8);                      \
                v2 = *(const vf32 *)(p + i + 16), v3 = *(const vf32 *)(p + i + 24);                \
                s0 += term##_v(v0), s1 += term##_v(v1);                                            \
                s2 += term##_v(v2), s3 += term##_v(v3);                                            \
            }                                                                                      \
            const vf32 s = (s0 + s1) + (s2 + s3);                                                  \
            total += (double)(((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])));  \
        }                                                                                          \
        double t0 = 0, t1 = 0;                                                                     \
        for (; i + 1 < n; i += 2) {                                                                \
            t0 += (double)term(p[i]);                                                              \
            t1 += (double)term(p[i + 1]);                                                          \
        }                                                                                          \
        if (i < n) t0 += (double)term(p[i]);                                                       \
        ((double *)acc)[j] += total + (t0 + t1);                                                   \
    }

/* The same for float64 and int64: eight running sums. */
#define ADD_64(name, T, term)                                                                      \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        T *a = acc;                                                                                \
        int64_t r = 0;                                                                             \
        for (; r + 4 <= rows; r += 4) {                                                            \
            const char *p = x + r * stride;                                                        \
            const T *p0 = (const T *)p, *p1 = (const T *)(p + stride);                             \
            const T *p2 = (const T *)(p + 2 * stride), *p3 = (const T *)(p + 3 * stride);          \
            IVDEP for (int64_t i = 0; i < c; i++) a[i] +=                                          \
                (term(p0[i]) + term(p1[i])) + (term(p2[i]) + term(p3[i]));                         \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            const T *p = (const T *)(x + r * stride);                                              \
            IVDEP for (int64_t i = 0; i < c; i++) a[i] += term(p[i]);                              \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)c, (void)call;                                                             \
        const T *p = x;                                                                            \
        T total = 0;                                                                               \
        int64_t i = 0;                                                                             \
        while (n - i >= 16) {                                                                      \
            T s[16] = {0};                                                                         \
            const int64_t end = n - i < 1024 ? n - 15 : i + 1024 - 15;                             \
            for (; i < end; i += 16)                                                               \
                for (int l = 0; l < 16; l++) s[l] += term(p[i + l]);                               \
            for (int w = 8; w > 0; w /= 2)                                                         \
                for (int l = 0; l < w; l++) s[l] += s[l + w];                                      \
            total += s[0];                                                                         \
        }                                                                                          \
        T tail = 0;                                                                                \
        for (; i < n; i++) tail += term(p[i]);                                                     \
        ((T *)acc)[j] += total + tail;                                                             \
    }

#define ITSELF(x)   (x)
#define ITSELF_v(x) (x)
ADD_F32(sum_f32, ITSELF)
ADD_64(sum_f64, double, ITSELF)
ADD_64(sum_i64, uint64_t, ITSELF)

static const red_kind sum_kinds[3] = {
    {SFT_float32,
     1,
     1,
     {SFT_float64},
     init_zero,
     sum_f32_outer,
     sum_f32_inner,
     merge_add_f,
     finish_f},
    {SFT_float64,
     1,
     1,
     {SFT_float64},
     init_zero,
     sum_f64_outer,
     sum_f64_inner,
     merge_add_f,
     finish_f},
    {SFT_int64, 1, 1, {SFT_int64}, init_zero, sum_i64_outer, sum_i64_inner, merge_add_i, finish_i},
};
static inline int which(const sft_kcall *k) {
    const sft_reduce_params *p = k->params;
    return p->ct == SFT_float32 ? 0 : p->ct == SFT_float64 ? 1 : 2;
}
KERNEL(sum)(const sft_kcall *k) { return red_run(k, &sum_kinds[which(k)]); }

FINISH(finish_mean, double, double, const double n = (double)r->count, s / n)

static const red_kind mean_kinds[3] = {
    {SFT_float32,
     1,
     1,
     {SFT_float64},
     init_zero,
     sum_f32_outer,
     sum_f32_inner,
     merge_add_f,
     finish_mean},
    {SFT_float64,
     1,
     1,
     {SFT_float64},
     init_zero,
     sum_f64_outer,
     sum_f64_inner,
     merge_add_f,
     finish_mean},
};
KERNEL(mean)(const sft_kcall *k) { return red_run(k, &mean_kinds[which(k)]); }

/* ---- NaN counts as nothing
 * ------------------------------------------------------------------------ */

#define NUMBER(x)   ((x) == (x) ? (x) : 0)
#define NUMBER_v(x) ((vf32)((vi32)(x) & ((x) == (x))))
ADD_F32(nansum_f32, NUMBER)
ADD_64(nansum_f64, double, NUMBER)
static const red_kind nansum_kinds[3] = {
    {SFT_float32,
     1,
     1,
     {SFT_float64},
     init_zero,
     nansum_f32_outer,
     nansum_f32_inner,
     merge_add_f,
     finish_f},
    {SFT_float64,
     1,
     1,
     {SFT_float64},
     init_zero,
     nansum_f64_outer,
     nansum_f64_inner,
     merge_add_f,
     finish_f},
    {SFT_int64, 1, 1, {SFT_int64}, init_zero, sum_i64_outer, sum_i64_inner, merge_add_i, finish_i},
};
KERNEL(nansum)(const sft_kcall *k) { return red_run(k, &nansum_kinds[which(k)]); }

/* ---- norms
 * ------------------------------------------------------------------------------------------ */

#define SQUARE(x)   ((x) * (x))
#define SQUARE_v(x) ((x) * (x))
#define SIZE(x)     (__builtin_fabs((double)(x)))
#define SIZE_F(x)   (__builtin_fabsf(x))
#define SIZE_F_v(x) ((vf32)((vi32)(x)&0x7fffffff))
ADD_F32(square_f32, SQUARE)
ADD_64(square_f64, double, SQUARE)
ADD_F32(size_f32, SIZE_F)
ADD_64(size_f64, double, SIZE)
FINISH(finish_sqrt, double, double, , __builtin_sqrt(s))
FINISH(finish_root, double, double, const double e = 1 / r->p->p, pow(s, e))

/* The rest: no vector form, one running sum. */
#define ADD_SLOW(name, T, term)                                                                    \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        double *a = acc;                                                                           \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            const T *p = (const T *)(x + r * stride);                                              \
            for (int64_t i = 0; i < c; i++) a[i] += term(p[i]);                                    \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)c, (void)call;                                                             \
        const T *p = x;                                                                            \
        double s = 0;                                                                              \
        for (int64_t i = 0; i < n; i++) s += term(p[i]);                                           \
        ((double *)acc)[j] += s;                                                                   \
    }
#define POWER(x)   pow(SIZE(x), call->p->p)
#define PRESENT(x) ((x) != 0)
ADD_SLOW(power_f32, float, POWER)
ADD_SLOW(power_f64, double, POWER)
ADD_SLOW(present_f32, float, PRESENT)
ADD_SLOW(present_f64, double, PRESENT)

#define NORM_KINDS(what, fin)                                                                      \
    {                                                                                              \
        {SFT_float32,      1,           1,  {SFT_float64}, init_zero, what##_f32_outer,            \
         what##_f32_inner, merge_add_f, fin},                                                      \
        {                                                                                          \
            SFT_float64, 1, 1, {SFT_float64}, init_zero, what##_f64_outer, what##_f64_inner,       \
                merge_add_f, fin                                                                   \
        }                                                                                          \
    }
static const red_kind norm_kinds[4][2] = {NORM_KINDS(present, finish_f), NORM_KINDS(size, finish_f),
                                          NORM_KINDS(square, finish_sqrt),
                                          NORM_KINDS(power, finish_root)};
KERNEL(_norm)(const sft_kcall *k) {
    const sft_reduce_params *p = k->params;
    int i = p->p == 0 ? 0 : p->p == 1 ? 1 : p->p == 2 ? 2 : 3;
    return red_run(k, &norm_kinds[i][which(k)]);
}

/* ---- products
 * -------------------------------------------------------------------------------------- */

static void init_one_f(void *acc, int64_t c) {
    for (int64_t i = 0; i < c; i++) ((double *)acc)[i] = 1;
}
static void init_one_i(void *acc, int64_t c) {
    for (int64_t i = 0; i < c; i++) ((int64_t *)acc)[i] = 1;
}
MERGE(merge_mul_f, double, *)
MERGE(merge_mul_i, uint64_t, *)

#define MULTIPLY(name, T, A)                                                                       \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        A *a = acc;                                                                                \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            const T *p = (const T *)(x + r * stride);                                              \
            IVDEP for (int64_t i = 0; i < c; i++) a[i] *= (A)p[i];                                 \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)c, (void)call;                                                             \
        const T *p = x;                                                                            \
        A s0 = 1, s1 = 1, s2 = 1, s3 = 1;                                                          \
        int64_t i = 0;                                                                             \
        for (; i + 4 <= n; i += 4) {                                                               \
            s0 *= (A)p[i], s1 *= (A)p[i + 1];                                                      \
            s2 *= (A)p[i + 2], s3 *= (A)p[i + 3];                                                  \
        }                                                                                          \
        for (; i < n; i++) s0 *= (A)p[i];                                                          \
        ((A *)acc)[j] *= (s0 * s1) * (s2 * s3);                                                    \
    }
MULTIPLY(prod_f32, float, double)
MULTIPLY(prod_f64, double, double)
MULTIPLY(prod_i64, uint64_t, uint64_t)
static const red_kind prod_kinds[3] = {
    {SFT_float32,
     1,
     1,
     {SFT_float64},
     init_one_f,
     prod_f32_outer,
     prod_f32_inner,
     merge_mul_f,
     finish_f},
    {SFT_float64,
     1,
     1,
     {SFT_float64},
     init_one_f,
     prod_f64_outer,
     prod_f64_inner,
     merge_mul_f,
     finish_f},
    {SFT_int64,
     1,
     1,
     {SFT_int64},
     init_one_i,
     prod_i64_outer,
     prod_i64_inner,
     merge_mul_i,
     finish_i},
};
KERNEL(prod)(const sft_kcall *k) { return red_run(k, &prod_kinds[which(k)]); }

/* ---- counts
 * ---------------------------------------------------------------------------------------- */

static void count_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,
                        void *acc, const red_call *call) {
    (void)at, (void)call;
    int64_t *a = acc;
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *p = (const uint8_t *)(x + r * stride);
        IVDEP for (int64_t i = 0; i < c; i++) a[i] += p[i] != 0;
    }
}
static void count_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c, int64_t j,
                        const red_call *call) {
    (void)at, (void)c, (void)call;
    const uint8_t *p = x;
    int64_t total = 0;
    for (int64_t i = 0; i < n; i += SFT_BLOCK) {
        int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;
        uint32_t s = 0;
        for (int64_t l = 0; l < m; l++) s += p[i + l] != 0;
        total += s;
    }
    ((int64_t *)acc)[j] += total;
}
FINISH(finish_any, int64_t, int64_t, , s != 0)
FINISH(finish_all, int64_t, int64_t, , s == r->count)
#define COUNT_KIND(fin)                                                                            \
    { SFT_bool, 1, 1, {SFT_int64}, init_zero, count_outer, count_inner, merge_add_i, fin }
static const red_kind count_kind = COUNT_KIND(finish_i), any_kind = COUNT_KIND(finish_any),
                      all_kind = COUNT_KIND(finish_all);
KERNEL(count_nonzero)(const sft_kcall *k) { return red_run(k, &count_kind); }
KERNEL(any)(const sft_kcall *k) { return red_run(k, &any_kind); }
KERNEL(all)(const sft_kcall *k) { return red_run(k, &all_kind); }
