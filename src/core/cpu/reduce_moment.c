/* reduce_moment.c: variance. Elements are taken in by groups: the mean of a group and the squares
 * about it, then groups are merged (Chan, Golub, LeVeque: Updating Formulae, 1979). */
#include "reduce.h"

/* Slots: mean, sum of squares about it, count. */
static void init(void *acc, int64_t c) { memset(acc, 0, (size_t)(24 * c)); }

static inline void join(double *mean, double *m2, double *count, double mean_b, double m2_b,
                        double n_b) {
    const double n = *count + n_b, d = mean_b - *mean;
    if (n == 0) return;
    *m2 += m2_b + d * d * (*count * n_b / n);
    *mean += d * (n_b / n);
    *count = n;
}

enum { GROUP = 16, CHUNK = 1024 };

#define MOMENTS(name, T)                                                                           \
    static void name##_outer(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at,   \
                             void *acc, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        double *mean = acc, *m2 = SLOT(acc, double, 1, c), *count = SLOT(acc, double, 2, c);       \
        for (int64_t r = 0; r < rows; r += GROUP) {                                                \
            const int64_t n = rows - r < GROUP ? rows - r : GROUP;                                 \
            const char *p = x + r * stride;                                                        \
            T sum[RED_TILE], sq[RED_TILE];                                                         \
            for (int64_t i = 0; i < c; i++) sum[i] = ((const T *)p)[i], sq[i] = 0;                 \
            for (int64_t l = 1; l < n; l++) {                                                      \
                const T *q = (const T *)(p + l * stride);                                          \
                IVDEP for (int64_t i = 0; i < c; i++) sum[i] += q[i];                              \
            }                                                                                      \
            const T inverse = (T)1 / (T)n;                                                         \
            IVDEP for (int64_t i = 0; i < c; i++) sum[i] *= inverse;                               \
            for (int64_t l = 0; l < n; l++) {                                                      \
                const T *q = (const T *)(p + l * stride);                                          \
                IVDEP for (int64_t i = 0; i < c; i++) {                                            \
                    const T d = q[i] - sum[i];                                                     \
                    sq[i] += d * d;                                                                \
                }                                                                                  \
            }                                                                                      \
            for (int64_t i = 0; i < c; i++)                                                        \
                join(&mean[i], &m2[i], &count[i], (double)sum[i], (double)sq[i], (double)n);       \
        }                                                                                          \
    }                                                                                              \
    static inline T name##_fold(T *s) {                                                            \
        for (int w = 16; w > 0; w /= 2)                                                            \
            for (int l = 0; l < w; l++) s[l] += s[l + w];                                          \
        return s[0];                                                                               \
    }                                                                                              \
    static void name##_inner(const void *x, int64_t n, int64_t at, void *acc, int64_t c,           \
                             int64_t j, const red_call *call) {                                    \
        (void)at, (void)call;                                                                      \
        double *mean = SLOT(acc, double, 0, c) + j, *m2 = SLOT(acc, double, 1, c) + j;             \
        double *count = SLOT(acc, double, 2, c) + j;                                               \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            const int64_t m = n - i < CHUNK ? n - i : CHUNK;                                       \
            const T *p = (const T *)x + i;                                                         \
            T s[32] = {0}, q[32] = {0};                                                            \
            int64_t k = 0;                                                                         \
            for (; k + 32 <= m; k += 32)                                                           \
                for (int l = 0; l < 32; l++) s[l] += p[k + l];                                     \
            for (; k < m; k++) s[k & 31] += p[k];                                                  \
            const T mu = (T)((double)name##_fold(s) / (double)m);                                  \
            for (k = 0; k + 32 <= m; k += 32)                                                      \
                for (int l = 0; l < 32; l++) q[l] += (p[k + l] - mu) * (p[k + l] - mu);            \
            for (; k < m; k++) q[k & 31] += (p[k] - mu) * (p[k] - mu);                             \
            /* mu is rounded: the sum about it tells by how much it is off. */                     \
            double off = 0;                                                                        \
            for (int l = 0; l < 32; l++) s[l] = 0;                                                 \
            for (k = 0; k + 32 <= m; k += 32)                                                      \
                for (int l = 0; l < 32; l++) s[l] += p[k + l] - mu;                                \
            for (; k < m; k++) s[k & 31] += p[k] - mu;                                             \
            off = (double)name##_fold(s) / (double)m;                                              \
            const double sq = (double)name##_fold(q) - off * off * (double)m;                      \
            join(mean, m2, count, (double)mu + off, sq, (double)m);                                \
        }                                                                                          \
    }
MOMENTS(var_f32, float)
MOMENTS(var_f64, double)

static void merge(void *acc, const void *other, int64_t c) {
    double *a = acc;
    const double *b = other;
    for (int64_t i = 0; i < c; i++)
        join(&a[i], &a[c + i], &a[2 * c + i], b[i], b[c + i], b[2 * c + i]);
}
static double divisor(const red_call *r) {
    const double d = (double)r->count - r->p->correction;
    return d > 0 ? d : 0;
}
static void finish_var(const void *acc, int64_t c, const red_call *r, void *o0, void *o1) {
    (void)o1;
    const double *m2 = SLOT(acc, const double, 1, c), d = divisor(r);
    for (int64_t i = 0; i < c; i++)
        ((double *)o0)[i] = (m2[i] > 0 || m2[i] != m2[i] ? m2[i] : 0) / d;
}
static void finish_std(const void *acc, int64_t c, const red_call *r, void *o0, void *o1) {
    finish_var(acc, c, r, o0, o1);
    for (int64_t i = 0; i < c; i++) ((double *)o0)[i] = __builtin_sqrt(((double *)o0)[i]);
}
#define VAR_KINDS(fin)                                                                             \
    {                                                                                              \
        {SFT_float32, 3, 1, {SFT_float64}, init, var_f32_outer, var_f32_inner, merge, fin}, {      \
            SFT_float64, 3, 1, {SFT_float64}, init, var_f64_outer, var_f64_inner, merge, fin       \
        }                                                                                          \
    }
static const red_kind var_kinds[2] = VAR_KINDS(finish_var), std_kinds[2] = VAR_KINDS(finish_std);

static inline int which(const sft_kcall *k) {
    return ((const sft_reduce_params *)k->params)->ct == SFT_float64;
}
KERNEL(_var)(const sft_kcall *k) { return red_run(k, &var_kinds[which(k)]); }
KERNEL(_std)(const sft_kcall *k) { return red_run(k, &std_kinds[which(k)]); }
