/* softmax.c: softmax and log_softmax along a dim, forward and backward. Rows (the dim is the last
 * one) are taken one at a time, else tiles of neighbouring columns; both stay in the cache between
 * their passes. Half types are brought to float32 and back a row or tile at a time. */
#include "../ops/softmax.h"
#include "lanes.h"

enum { PART = 512, TILE = 128, SHORT = 64 };

typedef struct job {
    char *out;
    const char *in[2];
    sft_softmax_params p;
    int dtype;
    bool log, backward;
    _Atomic bool starved; /* a unit had no memory for its buffers */
} job;

/* Fetches the lines of out[n] for writing, while the processor is busy with what goes there. */
static inline void expect_write(const void *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)out + i, 1);
}

/* ---- rows --------------------------------------------------------------------------------------
 */

#define ROWS(T, SFX, LOWEST)                                                                       \
    static T greatest_##SFX(const T *x, int64_t n) {                                               \
        T a[LANES], best = LOWEST;                                                                 \
        int64_t i = 0;                                                                             \
        if (n >= LANES) {                                                                          \
            memcpy(a, x, sizeof a);                                                                \
            for (i = LANES; i + LANES <= n; i += LANES)                                            \
                for (int l = 0; l < LANES; l++) a[l] = x[i + l] > a[l] ? x[i + l] : a[l];          \
            for (int w = LANES / 2; w; w /= 2)                                                     \
                for (int l = 0; l < w; l++) a[l] = a[l + w] > a[l] ? a[l + w] : a[l];              \
            best = a[0];                                                                           \
        }                                                                                          \
        for (; i < n; i++) best = x[i] > best ? x[i] : best;                                       \
        return best;                                                                               \
    }                                                                                              \
    static void row_##SFX(const job *j, const T *x, const T *y, T *out, int64_t n) {               \
        T part[PART];                                                                              \
        double sum = 0;                                                                            \
        T s;                                                                                       \
        if (j->backward && !j->log) { /* y (g - sum(y g)) */                                       \
            for (int64_t b = 0; b < n; b += PART) {                                                \
                const T *p = x + b, *q = y + b;                                                    \
                LANE_SUM(T, s, (n - b < PART ? n - b : PART), p[i] * q[i]);                        \
                sum += (double)s;                                                                  \
            }                                                                                      \
            s = (T)sum;                                                                            \
            IVDEP for (int64_t i = 0; i < n; i++) out[i] = (x[i] - s) * y[i];                      \
            return;                                                                                \
        }                                                                                          \
        if (j->backward) { /* g - exp(y) sum(g) */                                                 \
            for (int64_t b = 0; b < n; b += PART) {                                                \
                const T *p = x + b;                                                                \
                LANE_SUM(T, s, (n - b < PART ? n - b : PART), p[i]);                               \
                sum += (double)s;                                                                  \
            }                                                                                      \
            s = (T)sum;                                                                            \
            IVDEP for (int64_t i = 0; i < n; i++) out[i] = x[i] - sft_exp_down_##SFX(y[i]) * s;    \
            return;                                                                                \
        }                                                                                          \
        const T most = greatest_##SFX(x, n);                                                       \
        for (int64_t b = 0; b < n; b += PART) {                                                    \
            const int64_t m = n - b < PART ? n - b : PART;                                         \
            const T *p = x + b;                                                                    \
            T *e = j->log ? part : out + b;                                                        \
            if (j->log) expect_write(out + b, sizeof(T) * (size_t)m);                              \
            IVDEP for (int64_t i = 0; i < m; i++) e[i] = sft_exp_down_##SFX(p[i] - most);          \
            LANE_SUM(T, s, m, e[i]);                                                               \
            sum += (double)s;                                                                      \
        }                                                                                          \
        if (j->log) {                                                                              \
            s = (T)log(sum);                                                                       \
            IVDEP for (int64_t i = 0; i < n; i++) out[i] = (x[i] - most) - s;                      \
        } else {                                                                                   \
            s = (T)(1 / sum);                                                                      \
            IVDEP for (int64_t i = 0; i < n; i++) out[i] *= s;                                     \
        }                                                                                          \
    }                                                                                              \
    /* Forward, `rows` rows of n < SHORT elements: exponentials of several rows at a time. */      \
    static void short_rows_##SFX(const job *j, const T *x, T *out, int64_t n, int64_t rows) {      \
        T e[PART], most[PART];                                                                     \
        const int64_t per = PART / n;                                                              \
        for (int64_t first = 0; first < rows; first += per) {                                      \
            const int64_t m = rows - first < per ? rows - first : per;                             \
            const T *p = x + first * n;                                                            \
            T *o = out + first * n;                                                                \
            for (int64_t r = 0; r < m; r++) {                                                      \
                T best = LOWEST;                                                                   \
                for (int64_t i = 0; i < n; i++) best = p[r * n + i] > best ? p[r * n + i] : best;  \
                for (int64_t i = 0; i < n; i++) e[r * n + i] = p[r * n + i] - best;                \
                most[r] = best;                                                                    \
            }                                                                                      \
            IVDEP for (int64_t i = 0; i < m * n; i++) e[i] = sft_exp_down_##SFX(e[i]);             \
            for (int64_t r = 0; r < m; r++) {                                                      \
                T s = 0;                                                                           \
                for (int64_t i = 0; i < n; i++) s += e[r * n + i];                                 \
                s = j->log ? sft_log_##SFX(s) : 1 / s;                                             \
                if (j->log)                                                                        \
                    for (int64_t i = 0; i < n; i++) o[r * n + i] = (p[r * n + i] - most[r]) - s;   \
                else                                                                               \
                    for (int64_t i = 0; i < n; i++) o[r * n + i] = e[r * n + i] * s;               \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The same for c columns side by side; rows are xs, ys and os elements apart. */              \
    static void columns_##SFX(const job *j, const T *x, int64_t xs, const T *y, int64_t ys,        \
                              T *out, int64_t os, int64_t n, int64_t c) {                          \
        T most[TILE], sum[TILE];                                                                   \
        for (int64_t i = 0; i < c; i++) most[i] = LOWEST, sum[i] = 0;                              \
        if (j->backward) {                                                                         \
            for (int64_t r = 0; r < n; r++) {                                                      \
                const T *p = x + r * xs, *q = y + r * ys;                                          \
                if (j->log)                                                                        \
                    IVDEP for (int64_t i = 0; i < c; i++) sum[i] += p[i];                          \
                else                                                                               \
                    IVDEP for (int64_t i = 0; i < c; i++) sum[i] += p[i] * q[i];                   \
            }                                                                                      \
            for (int64_t r = 0; r < n; r++) {                                                      \
                const T *p = x + r * xs, *q = y + r * ys;                                          \
                T *o = out + r * os;                                                               \
                if (j->log)                                                                        \
                    IVDEP for (int64_t i = 0; i < c; i++) o[i] =                                   \
                        p[i] - sft_exp_down_##SFX(q[i]) * sum[i];                                  \
                else                                                                               \
                    IVDEP for (int64_t i = 0; i < c; i++) o[i] = (p[i] - sum[i]) * q[i];           \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = 0; r < n; r++) {                                                          \
            const T *p = x + r * xs;                                                               \
            IVDEP for (int64_t i = 0; i < c; i++) most[i] = p[i] > most[i] ? p[i] : most[i];       \
        }                                                                                          \
        for (int64_t r = 0; r < n; r++) {                                                          \
            const T *p = x + r * xs;                                                               \
            T *o = out + r * os;                                                                   \
            if (j->log) {                                                                          \
                IVDEP for (int64_t i = 0; i < c; i++) sum[i] +=                                    \
                    sft_exp_down_##SFX(p[i] - most[i]);                                            \
            } else {                                                                               \
                IVDEP for (int64_t i = 0; i < c; i++) {                                            \
                    const T e = sft_exp_down_##SFX(p[i] - most[i]);                                \
                    sum[i] += e;                                                                   \
                    o[i] = e;                                                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = 0; i < c; i++) sum[i] = j->log ? sft_log_##SFX(sum[i]) : 1 / sum[i];      \
        for (int64_t r = 0; r < n; r++) {                                                          \
            const T *p = x + r * xs;                                                               \
            T *o = out + r * os;                                                                   \
            if (j->log)                                                                            \
                IVDEP for (int64_t i = 0; i < c; i++) o[i] = (p[i] - most[i]) - sum[i];            \
            else                                                                                   \
                IVDEP for (int64_t i = 0; i < c; i++) o[i] *= sum[i];                              \
        }                                                                                          \
    }

ROWS(float, f32, -SFT_INF_F32)
ROWS(double, f64, -SFT_INF_F64)

/* ---- units -------------------------------------------------------------------------------------
 */

/* Unit of n rows of c columns at element `at`, through float32 buffers. */
static void half_unit(const job *j, int64_t at, int64_t c, float *buf) {
    const int64_t n = j->p.n, stride = j->p.inner;
    float *a = buf, *b = buf + n * c;
    if (stride == 1) {
        sft_load(SFT_float32, j->dtype, n, j->in[0] + 2 * at, 2, a);
        if (j->backward) sft_load(SFT_float32, j->dtype, n, j->in[1] + 2 * at, 2, b);
        row_f32(j, a, b, a, n);
        sft_store(SFT_float32, j->dtype, n, a, j->out + 2 * at, 2);
        return;
    }
    for (int64_t r = 0; r < n; r++) {
        const int64_t e = 2 * (at + r * stride);
        sft_load(SFT_float32, j->dtype, c, j->in[0] + e, 2, a + r * c);
        if (j->backward) sft_load(SFT_float32, j->dtype, c, j->in[1] + e, 2, b + r * c);
    }
    columns_f32(j, a, c, b, c, a, c, n, c);
    for (int64_t r = 0; r < n; r++)
        sft_store(SFT_float32, j->dtype, c, a + r * c, j->out + 2 * (at + r * stride), 2);
}

static void units(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    const int64_t n = j->p.n, inner = j->p.inner, tiles = (inner + TILE - 1) / TILE;
    float *buf = NULL;
    size_t bytes = 0;
    if (j->dtype != SFT_float32 && j->dtype != SFT_float64) {
        bytes = (size_t)(2 * n * (inner < TILE ? inner : TILE)) * sizeof(float);
        buf = sft_alloc(bytes);
        if (!buf) {
            j->starved = true;
            return;
        }
    }
    if (inner == 1 && n < SHORT && !j->backward && !buf) {
        const int64_t at = begin * n;
        if (j->dtype == SFT_float32)
            short_rows_f32(j, (const float *)j->in[0] + at, (float *)j->out + at, n, end - begin);
        else
            short_rows_f64(j, (const double *)j->in[0] + at, (double *)j->out + at, n, end - begin);
        return;
    }
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u % tiles * TILE, c = inner - first < TILE ? inner - first : TILE;
        const int64_t at = u / tiles * n * inner + first;
        if (buf) {
            half_unit(j, at, c, buf);
        } else if (j->dtype == SFT_float32) {
            const float *x = (const float *)j->in[0] + at;
            const float *y = j->backward ? (const float *)j->in[1] + at : NULL;
            float *o = (float *)j->out + at;
            if (inner == 1)
                row_f32(j, x, y, o, n);
            else
                columns_f32(j, x, inner, y, inner, o, inner, n, c);
        } else {
            const double *x = (const double *)j->in[0] + at;
            const double *y = j->backward ? (const double *)j->in[1] + at : NULL;
            double *o = (double *)j->out + at;
            if (inner == 1)
                row_f64(j, x, y, o, n);
            else
                columns_f64(j, x, inner, y, inner, o, inner, n, c);
        }
    }
    sft_free(buf, bytes);
}

static sft_status start(const sft_kcall *k, bool is_log, bool backward) {
    job j = {k->t[0]->data,
             {k->t[1]->data, backward ? k->t[2]->data : NULL},
             *(const sft_softmax_params *)k->params,
             k->t[1]->dtype,
             is_log,
             backward,
             false};
    const int64_t tiles = (j.p.inner + TILE - 1) / TILE;
    const int64_t work = j.p.n * (j.p.inner < TILE ? j.p.inner : TILE);
    sft_parallel_for(j.p.outer * tiles, work < 8192 ? 8192 / work + 1 : 1, units, &j);
    return j.starved ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}

KERNEL(_softmax)(const sft_kcall *k) { return start(k, false, false); }
KERNEL(_log_softmax)(const sft_kcall *k) { return start(k, true, false); }
KERNEL(_softmax_backward)(const sft_kcall *k) { return start(k, false, true); }
KERNEL(_log_softmax_backward)(const sft_kcall *k) { return start(k, true, true); }
