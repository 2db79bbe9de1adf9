/* scan.c: cumulative sums, products, logarithms of sums, and extremes along a dim.
 *
 * A long row is cut into blocks of a fixed length, each scanned from its own start; what came
 * before is added to it. So the numbers don't depend on whether blocks ran side by side. */
#include "../ops/scan.h"
#include "kernels.h"

enum { BLOCK = 32768, TILE = 256 };

typedef struct job job;
struct job {
    char *out, *where;
    const char *x, *y;
    sft_scan_params p;
    int64_t esize;
    int index_base;
    /* One row: n elements from x to out, `step` elements apart (negative: backwards), after
     * `start`. Returns what the row comes to. out NULL: only that. */
    double (*row_f)(const char *x, char *out, int64_t n, int64_t step, double start);
    int64_t (*row_i)(const char *x, char *out, int64_t n, int64_t step, int64_t start);
    void (*columns)(const job *j, int64_t at, int64_t c);
    double *totals; /* of blocks; int64 likewise */
};

/* Four elements at a time, so that only one addition in four waits for the one before. */
#define ROW(name, T, A, op, identity)                                                              \
    static A name(const char *x, char *out, int64_t n, int64_t step, A start) {                    \
        const T *p = (const T *)x;                                                                 \
        T *o = (T *)out;                                                                           \
        A acc = identity;                                                                          \
        int64_t i = 0;                                                                             \
        for (; i + 4 <= n; i += 4) {                                                               \
            const A a = (A)p[i * step], b = a op(A) p[(i + 1) * step];                             \
            const A c = (A)p[(i + 2) * step], d = c op(A) p[(i + 3) * step];                       \
            if (o) {                                                                               \
                o[i * step] = (T)(start op(acc op a));                                             \
                o[(i + 1) * step] = (T)(start op(acc op b));                                       \
                o[(i + 2) * step] = (T)(start op(acc op(b op c)));                                 \
                o[(i + 3) * step] = (T)(start op(acc op(b op d)));                                 \
            }                                                                                      \
            acc = acc op(b op d);                                                                  \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            acc = acc op(A) p[i * step];                                                           \
            if (o) o[i * step] = (T)(start op acc);                                                \
        }                                                                                          \
        return acc;                                                                                \
    }
ROW(sum_f32, float, double, +, 0)
ROW(sum_f64, double, double, +, 0)
ROW(prod_f32, float, double, *, 1)
ROW(prod_f64, double, double, *, 1)
#define ROW_INT(name, op, identity)                                                                \
    static int64_t name(const char *x, char *out, int64_t n, int64_t step, int64_t start) {        \
        const uint64_t *p = (const uint64_t *)x;                                                   \
        uint64_t *o = (uint64_t *)out, acc = identity;                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            acc = acc op p[i * step];                                                              \
            if (o) o[i * step] = (uint64_t)start op acc;                                           \
        }                                                                                          \
        return (int64_t)acc;                                                                       \
    }
ROW_INT(sum_i64, +, 0)
ROW_INT(prod_i64, *, 1)

#define COLUMNS(name, T, A, op, identity)                                                          \
    static void name(const job *j, int64_t at, int64_t c) {                                        \
        A acc[TILE];                                                                               \
        for (int64_t i = 0; i < c; i++) acc[i] = identity;                                         \
        for (int64_t r = 0; r < j->p.n; r++) {                                                     \
            const int64_t e = at + (j->p.reverse ? j->p.n - 1 - r : r) * j->p.inner;               \
            const T *p = (const T *)j->x + e;                                                      \
            T *o = (T *)j->out + e;                                                                \
            IVDEP for (int64_t i = 0; i < c; i++) {                                                \
                acc[i] = acc[i] op(A) p[i];                                                        \
                o[i] = (T)acc[i];                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
COLUMNS(sum_columns_f32, float, double, +, 0)
COLUMNS(sum_columns_f64, double, double, +, 0)
COLUMNS(sum_columns_i64, uint64_t, uint64_t, +, 0)
COLUMNS(prod_columns_f32, float, double, *, 1)
COLUMNS(prod_columns_f64, double, double, *, 1)
COLUMNS(prod_columns_i64, uint64_t, uint64_t, *, 1)

/* ---- rows ---------------------------------------------------------------------------------------
 */

/* First element of block b of a row that starts at `row`, and its length. */
static int64_t block_at(const job *j, int64_t row, int64_t b, int64_t *n) {
    const int64_t first = b * BLOCK;
    *n = j->p.n - first < BLOCK ? j->p.n - first : BLOCK;
    return row + (j->p.reverse ? j->p.n - 1 - first : first);
}

static void rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t step = j->p.reverse ? -1 : 1;
    for (int64_t r = begin; r < end; r++) {
        double before = j->row_f == prod_f32 || j->row_f == prod_f64;
        int64_t before_i = j->row_i == prod_i64;
        for (int64_t b = 0; b * BLOCK < j->p.n; b++) {
            int64_t n, at = block_at(j, r * j->p.n, b, &n) * j->esize;
            if (j->row_i) {
                int64_t t = j->row_i(j->x + at, j->out + at, n, step, before_i);
                before_i = j->row_i == prod_i64 ? (int64_t)((uint64_t)before_i * (uint64_t)t)
                                                : (int64_t)((uint64_t)before_i + (uint64_t)t);
            } else {
                double t = j->row_f(j->x + at, j->out + at, n, step, before);
                before = j->row_f == prod_f32 || j->row_f == prod_f64 ? before * t : before + t;
            }
        }
    }
}

static void block_totals(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++) {
        int64_t n, at = block_at(j, 0, b, &n) * j->esize;
        j->totals[b + 1] = j->row_f(j->x + at, NULL, n, j->p.reverse ? -1 : 1, 0);
    }
}
static void block_scans(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++) {
        int64_t n, at = block_at(j, 0, b, &n) * j->esize;
        j->row_f(j->x + at, j->out + at, n, j->p.reverse ? -1 : 1, j->totals[b]);
    }
}

/* One long row of float on several threads. False: no memory, or not worth it. */
static bool long_row(job *j) {
    const int64_t blocks = (j->p.n + BLOCK - 1) / BLOCK;
    if (j->p.outer != 1 || !j->row_f || blocks < 4 || sft_get_num_threads() < 2) return false;
    const size_t bytes = sizeof(double) * (size_t)(blocks + 1);
    j->totals = sft_alloc(bytes);
    if (!j->totals) return false;
    const bool product = j->row_f == prod_f32 || j->row_f == prod_f64;
    j->totals[0] = product;
    sft_parallel_for(blocks, 1, block_totals, j);
    for (int64_t b = 1; b < blocks; b++)
        j->totals[b] = product ? j->totals[b - 1] * j->totals[b] : j->totals[b - 1] + j->totals[b];
    sft_parallel_for(blocks, 1, block_scans, j);
    sft_free(j->totals, bytes);
    return true;
}

static void tiles(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t per = (j->p.inner + TILE - 1) / TILE;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u % per * TILE, left = j->p.inner - first;
        j->columns(j, u / per * j->p.n * j->p.inner + first, left < TILE ? left : TILE);
    }
}

static job make(const sft_kcall *k, int nout) {
    return (job){.out = k->t[0]->data,
                 .where = nout > 1 ? k->t[1]->data : NULL,
                 .x = k->t[nout]->data,
                 .y = k->nt > nout + 1 ? k->t[nout + 1]->data : NULL,
                 .p = *(const sft_scan_params *)k->params,
                 .esize = (int64_t)sft_esize(k->t[0]),
                 .index_base = k->index_base};
}
static sft_status by_columns(job *j) {
    const int64_t per = (j->p.inner + TILE - 1) / TILE;
    const int64_t work = j->p.n * (j->p.inner < TILE ? j->p.inner : TILE);
    sft_parallel_for(j->p.outer * per, work < SFT_GRAIN ? SFT_GRAIN / work : 1, tiles, j);
    return SFT_OK;
}
static sft_status run(job *j) {
    if (j->p.inner > 1) return by_columns(j);
    if (long_row(j)) return SFT_OK;
    sft_parallel_for(j->p.outer, j->p.n < SFT_GRAIN ? SFT_GRAIN / j->p.n : 1, rows, j);
    return SFT_OK;
}

#define SCAN(op, name)                                                                             \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        job j = make(k, 1);                                                                        \
        const int dt = k->t[0]->dtype;                                                             \
        j.row_f = dt == SFT_float32 ? name##_f32 : dt == SFT_float64 ? name##_f64 : NULL;          \
        j.row_i = j.row_f ? NULL : name##_i64;                                                     \
        j.columns = dt == SFT_float32   ? name##_columns_f32                                       \
                    : dt == SFT_float64 ? name##_columns_f64                                       \
                                        : name##_columns_i64;                                      \
        return run(&j);                                                                            \
    }
SCAN(_cumsum, sum)
SCAN(_cumprod, prod)

/* ---- the others: a column at a time
 * ---------------------------------------------------------------- */

/* With P the product of the elements before k and S = g_k + x_(k+1) S of the next: P S. */
#define PROD_BACKWARD(T)                                                                           \
    static void prod_backward_##T(const job *j, int64_t at, int64_t c) {                           \
        const int64_t n = j->p.n, s = j->p.inner;                                                  \
        for (int64_t i = 0; i < c; i++) {                                                          \
            const T *g = (const T *)j->x + at + i, *x = (const T *)j->y + at + i;                  \
            T *o = (T *)j->out + at + i;                                                           \
            double p = 1, sum = 0;                                                                 \
            for (int64_t r = 0; r < n; r++) {                                                      \
                o[r * s] = (T)p;                                                                   \
                p *= (double)x[r * s];                                                             \
            }                                                                                      \
            for (int64_t r = n - 1; r >= 0; r--) {                                                 \
                sum = (double)g[r * s] + (r + 1 < n ? (double)x[(r + 1) * s] * sum : 0);           \
                o[r * s] = (T)((double)o[r * s] * sum);                                            \
            }                                                                                      \
        }                                                                                          \
    }
PROD_BACKWARD(float)
PROD_BACKWARD(double)

#define LOG_SUM(T)                                                                                 \
    static void log_sum_##T(const job *j, int64_t at, int64_t c) {                                 \
        const int64_t n = j->p.n, s = j->p.inner;                                                  \
        for (int64_t i = 0; i < c; i++) {                                                          \
            double most = -SFT_INF_F64, sum = 0;                                                   \
            for (int64_t r = 0; r < n; r++) {                                                      \
                const int64_t e = at + i + (j->p.reverse ? n - 1 - r : r) * s;                     \
                const double x = (double)((const T *)j->x)[e];                                     \
                if (x != x) {                                                                      \
                    most = x;                                                                      \
                } else if (x > most) {                                                             \
                    sum = sum * exp(most - x) + 1;                                                 \
                    most = x;                                                                      \
                } else if (most > -SFT_INF_F64) {                                                  \
                    sum += most == x ? 1 : exp(x - most);                                          \
                }                                                                                  \
                ((T *)j->out)[e] = (T)(sum > 0 || most != most ? most + log(sum) : -SFT_INF_F64);  \
            }                                                                                      \
        }                                                                                          \
    }
LOG_SUM(float)
LOG_SUM(double)

#define EXTREME(name, T, op)                                                                       \
    static void name##_##T(const job *j, int64_t at, int64_t c) {                                  \
        const int64_t n = j->p.n, s = j->p.inner;                                                  \
        for (int64_t i = 0; i < c; i++) {                                                          \
            const T *x = (const T *)j->x + at + i;                                                 \
            T best = x[0];                                                                         \
            int64_t where = 0;                                                                     \
            for (int64_t r = 0; r < n; r++) {                                                      \
                const T v = x[r * s];                                                              \
                if (v != v || (best == best && v op best)) best = v, where = r;                    \
                ((T *)j->out)[at + i + r * s] = best;                                              \
                ((int64_t *)j->where)[at + i + r * s] = where + j->index_base;                     \
            }                                                                                      \
        }                                                                                          \
    }
EXTREME(cummax, float, >=)
EXTREME(cummax, double, >=)
EXTREME(cummax, int64_t, >=)
EXTREME(cummin, float, <=)
EXTREME(cummin, double, <=)
EXTREME(cummin, int64_t, <=)

KERNEL(_cumprod_backward)(const sft_kcall *k) {
    job j = make(k, 1);
    j.columns = k->t[0]->dtype == SFT_float32 ? prod_backward_float : prod_backward_double;
    return by_columns(&j);
}
KERNEL(_logcumsumexp)(const sft_kcall *k) {
    job j = make(k, 1);
    j.columns = k->t[0]->dtype == SFT_float32 ? log_sum_float : log_sum_double;
    return by_columns(&j);
}
#define CUMEXTREME(op, name)                                                                       \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        job j = make(k, 2);                                                                        \
        const int dt = k->t[0]->dtype;                                                             \
        j.columns = dt == SFT_float32   ? name##_float                                             \
                    : dt == SFT_float64 ? name##_double                                            \
                                        : name##_int64_t;                                          \
        return by_columns(&j);                                                                     \
    }
CUMEXTREME(_cummax, cummax)
CUMEXTREME(_cummin, cummin)
