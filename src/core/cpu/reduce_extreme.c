/* reduce_extreme.c: max, min and where they are. NaN is taken over everything; of equal elements
 * the first wins. */
#include "reduce.h"

/* Is x to replace a? In max and min alike a NaN replaces all, and nothing replaces it but in the
 * values-only loops another NaN. */
#define ABOVE(x, a)       (((x) > (a)) | ((x) != (x)))
#define BELOW(x, a)       (((x) < (a)) | ((x) != (x)))
#define FIRST_ABOVE(x, a) (((x) > (a)) | (((x) != (x)) & ((a) == (a))))
#define FIRST_BELOW(x, a) (((x) < (a)) | (((x) != (x)) & ((a) == (a))))

enum { LANES = 32 };

/* Is one of two elements a NaN? Never among integers. */
#define UNORDERED(x, y) __builtin_isunordered(x, y)
#define ORDERED(x, y)   0

/* The best of n contiguous elements; n > 0. A comparison with NaN is false, so NaNs are looked for
 * on the side, two elements at a time. */
#define BEST_OF(name, T, NAN_T, WORST, TAKES, OP, ODD)                                             \
    static inline T name##_best(const T *p, int64_t n) {                                           \
        T best = WORST;                                                                            \
        int64_t i = 0;                                                                             \
        if (n >= LANES) {                                                                          \
            T a[LANES];                                                                            \
            NAN_T odd[LANES] = {0};                                                                \
            memcpy(a, p, sizeof a);                                                                \
            for (; i + 2 * LANES <= n; i += 2 * LANES)                                             \
                for (int l = 0; l < LANES; l++) {                                                  \
                    const T q = p[i + l], r = p[i + l + LANES], v = q OP r ? q : r;                \
                    odd[l] |= ODD(q, r);                                                           \
                    a[l] = v OP a[l] ? v : a[l];                                                   \
                }                                                                                  \
            NAN_T any = 0;                                                                         \
            for (int l = 0; l < LANES; l++) any |= odd[l];                                         \
            if (any) return (T)SFT_NAN_F32;                                                        \
            for (i = i ? i : LANES; i + LANES <= n; i += LANES)                                    \
                IVDEP for (int l = 0; l < LANES; l++) a[l] =                                       \
                    TAKES(p[i + l], a[l]) ? p[i + l] : a[l];                                       \
            for (int w = LANES / 2; w > 0; w /= 2)                                                 \
                for (int l = 0; l < w; l++) a[l] = TAKES(a[l + w], a[l]) ? a[l + w] : a[l];        \
            best = a[0];                                                                           \
        }                                                                                          \
        for (; i < n; i++) best = TAKES(p[i], best) ? p[i] : best;                                 \
        return best;                                                                               \
    }

#define EXTREME(name, T, NAN_T, WORST, TAKES, OP, ODD)                                             \
    BEST_OF(name, T, NAN_T, WORST, TAKES, OP, ODD)                                                 \
    static void name##_init(void *acc, int64_t c) {                                                \
        for (int64_t i = 0; i < c; i++) ((T *)acc)[i] = WORST;                                     \
    }                                                                                              \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        T *a = acc;                                                                                \
        int64_t r = 0;                                                                             \
        for (; r + 4 <= rows; r += 4) {                                                            \
            const char *p = x + r * stride;                                                        \
            const T *p0 = (const T *)p, *p1 = (const T *)(p + stride);                             \
            const T *p2 = (const T *)(p + 2 * stride), *p3 = (const T *)(p + 3 * stride);          \
            IVDEP for (int64_t i = 0; i < c; i++) {                                                \
                T v = a[i];                                                                        \
                v = TAKES(p0[i], v) ? p0[i] : v;                                                   \
                v = TAKES(p1[i], v) ? p1[i] : v;                                                   \
                v = TAKES(p2[i], v) ? p2[i] : v;                                                   \
                v = TAKES(p3[i], v) ? p3[i] : v;                                                   \
                a[i] = v;                                                                          \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            const T *p = (const T *)(x + r * stride);                                              \
            IVDEP for (int64_t i = 0; i < c; i++) a[i] = TAKES(p[i], a[i]) ? p[i] : a[i];          \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)c, (void)call;                                                             \
        if (n <= 0) return;                                                                        \
        T *a = (T *)acc + j, v = name##_best(x, n);                                                \
        *a = TAKES(v, *a) ? v : *a;                                                                \
    }                                                                                              \
    static void name##_merge(void *acc, const void *other, int64_t c) {                            \
        T *a = acc;                                                                                \
        const T *p = other;                                                                        \
        IVDEP for (int64_t i = 0; i < c; i++) a[i] = TAKES(p[i], a[i]) ? p[i] : a[i];              \
    }                                                                                              \
    static void name##_finish(const void *acc, int64_t c, const red_call *r, void *o0, void *o1) { \
        (void)r, (void)o1;                                                                         \
        memcpy(o0, acc, sizeof(T) * (size_t)c);                                                    \
    }

EXTREME(max_f32, float, int32_t, -SFT_INF_F32, ABOVE, >, UNORDERED)
EXTREME(max_f64, double, int64_t, -SFT_INF_F64, ABOVE, >, UNORDERED)
EXTREME(max_i64, int64_t, int64_t, INT64_MIN, ABOVE, >, ORDERED)
EXTREME(min_f32, float, int32_t, SFT_INF_F32, BELOW, <, UNORDERED)
EXTREME(min_f64, double, int64_t, SFT_INF_F64, BELOW, <, UNORDERED)
EXTREME(min_i64, int64_t, int64_t, INT64_MAX, BELOW, <, ORDERED)

#define EXTREME_KINDS(name)                                                                        \
    static const red_kind name##_kinds[3] = {                                                      \
        {SFT_float32,                                                                              \
         1,                                                                                        \
         1,                                                                                        \
         {SFT_float32},                                                                            \
         name##_f32_init,                                                                          \
         name##_f32_outer,                                                                         \
         name##_f32_inner,                                                                         \
         name##_f32_merge,                                                                         \
         name##_f32_finish},                                                                       \
        {SFT_float64,                                                                              \
         1,                                                                                        \
         1,                                                                                        \
         {SFT_float64},                                                                            \
         name##_f64_init,                                                                          \
         name##_f64_outer,                                                                         \
         name##_f64_inner,                                                                         \
         name##_f64_merge,                                                                         \
         name##_f64_finish},                                                                       \
        {SFT_int64,                                                                                \
         1,                                                                                        \
         1,                                                                                        \
         {SFT_int64},                                                                              \
         name##_i64_init,                                                                          \
         name##_i64_outer,                                                                         \
         name##_i64_inner,                                                                         \
         name##_i64_merge,                                                                         \
         name##_i64_finish},                                                                       \
    }
EXTREME_KINDS(max);
EXTREME_KINDS(min);

static inline int which(const sft_kcall *k) {
    const sft_reduce_params *p = k->params;
    return p->ct == SFT_float32 ? 0 : p->ct == SFT_float64 ? 1 : 2;
}
KERNEL(max)(const sft_kcall *k) { return red_run(k, &max_kinds[which(k)]); }
KERNEL(min)(const sft_kcall *k) { return red_run(k, &min_kinds[which(k)]); }
KERNEL(amax)(const sft_kcall *k) { return red_run(k, &max_kinds[which(k)]); }
KERNEL(amin)(const sft_kcall *k) { return red_run(k, &min_kinds[which(k)]); }

/* ---- with positions
 * ------------------------------------------------------------------------------- */

/* Slot 0: the best value, slot 1: its position, of type I, as wide as T so that loops vectorise (so
 * a float32 reduction ends at 2^32 elements, 16 GiB). */
#define POSITION(name, T, I, WORST, TAKES, EXT)                                                    \
    static void name##_init(void *acc, int64_t c) {                                                \
        for (int64_t i = 0; i < c; i++) ((T *)acc)[i] = WORST;                                     \
        memset(SLOT(acc, I, 1, c), 0, (size_t)(8 * c));                                            \
    }                                                                                              \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)call;                                                                                \
        T *a = acc;                                                                                \
        I *where = SLOT(acc, I, 1, c);                                                             \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            const T *p = (const T *)(x + r * stride);                                              \
            const I now = (I)(at + r);                                                             \
            IVDEP for (int64_t i = 0; i < c; i++) {                                                \
                const T v = p[i], b = a[i];                                                        \
                const I w = where[i];                                                              \
                where[i] = TAKES(v, b) ? now : w;                                                  \
                a[i] = TAKES(v, b) ? v : b;                                                        \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)call;                                                                                \
        T *a = (T *)acc + j;                                                                       \
        for (int64_t i = 0; i < n; i += 4 * SFT_BLOCK) {                                           \
            const int64_t m = n - i < 4 * SFT_BLOCK ? n - i : 4 * SFT_BLOCK;                       \
            const T *p = (const T *)x + i, best = EXT##_best(p, m);                                \
            if (!(TAKES(best, *a))) continue;                                                      \
            int64_t k = 0;                                                                         \
            for (; k + 32 <= m; k += 32) {                                                         \
                int hit = 0;                                                                       \
                for (int l = 0; l < 32; l++) hit |= (p[k + l] == best) | (p[k + l] != p[k + l]);   \
                if (hit) break;                                                                    \
            }                                                                                      \
            while (k < m - 1 && !((p[k] == best) | (p[k] != p[k]))) k++;                           \
            *a = p[k];                                                                             \
            SLOT(acc, I, 1, c)[j] = (I)(at + i + k);                                               \
        }                                                                                          \
    }                                                                                              \
    static void name##_merge(void *acc, const void *other, int64_t c) {                            \
        T *a = acc;                                                                                \
        const T *p = other;                                                                        \
        I *where = SLOT(acc, I, 1, c);                                                             \
        const I *there = SLOT(other, const I, 1, c);                                               \
        for (int64_t i = 0; i < c; i++)                                                            \
            if (TAKES(p[i], a[i])) a[i] = p[i], where[i] = there[i];                               \
    }                                                                                              \
    static void name##_finish(const void *acc, int64_t c, const red_call *r, void *o0, void *o1) { \
        memcpy(o0, acc, sizeof(T) * (size_t)c);                                                    \
        const I *where = SLOT(acc, const I, 1, c);                                                 \
        for (int64_t i = 0; i < c; i++) ((int64_t *)o1)[i] = (int64_t)where[i] + r->index_base;    \
    }                                                                                              \
    static void name##_place(const void *acc, int64_t c, const red_call *r, void *o0, void *o1) {  \
        (void)o1;                                                                                  \
        const I *where = SLOT(acc, const I, 1, c);                                                 \
        for (int64_t i = 0; i < c; i++) ((int64_t *)o0)[i] = (int64_t)where[i] + r->index_base;    \
    }

POSITION(amax_f32, float, uint32_t, -SFT_INF_F32, FIRST_ABOVE, max_f32)
POSITION(amax_f64, double, int64_t, -SFT_INF_F64, FIRST_ABOVE, max_f64)
POSITION(amax_i64, int64_t, int64_t, INT64_MIN, FIRST_ABOVE, max_i64)
POSITION(amin_f32, float, uint32_t, SFT_INF_F32, FIRST_BELOW, min_f32)
POSITION(amin_f64, double, int64_t, SFT_INF_F64, FIRST_BELOW, min_f64)
POSITION(amin_i64, int64_t, int64_t, INT64_MAX, FIRST_BELOW, min_i64)

#define POSITION_KIND(name, ct, nout, fin, t0, t1)                                                 \
    { ct, 2, nout, {t0, t1}, name##_init, name##_outer, name##_inner, name##_merge, name##_##fin }
#define POSITION_KINDS(name)                                                                       \
    static const red_kind name##_pair[3] = {                                                       \
        POSITION_KIND(name##_f32, SFT_float32, 2, finish, SFT_float32, SFT_int64),                 \
        POSITION_KIND(name##_f64, SFT_float64, 2, finish, SFT_float64, SFT_int64),                 \
        POSITION_KIND(name##_i64, SFT_int64, 2, finish, SFT_int64, SFT_int64)};                    \
    static const red_kind name##_index[3] = {                                                      \
        POSITION_KIND(name##_f32, SFT_float32, 1, place, SFT_int64, 0),                            \
        POSITION_KIND(name##_f64, SFT_float64, 1, place, SFT_int64, 0),                            \
        POSITION_KIND(name##_i64, SFT_int64, 1, place, SFT_int64, 0)}
POSITION_KINDS(amax);
POSITION_KINDS(amin);

KERNEL(max_dim)(const sft_kcall *k) { return red_run(k, &amax_pair[which(k)]); }
KERNEL(min_dim)(const sft_kcall *k) { return red_run(k, &amin_pair[which(k)]); }
KERNEL(argmax)(const sft_kcall *k) { return red_run(k, &amax_index[which(k)]); }
KERNEL(argmin)(const sft_kcall *k) { return red_run(k, &amin_index[which(k)]); }
