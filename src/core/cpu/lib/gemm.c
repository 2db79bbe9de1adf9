/*
 * gemm.c - matrix products: choice of a path by shape, blocking for the caches, the thread pool.
 *
 * The blocked path follows Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication" (2008).  Every element of C is summed over k in the same order whatever the
 * split into tiles, so that results do not depend on the number of threads.
 */
#include "gemm.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../../threads.h"
#include "gemm_kernels.h"
#include "gemm_libs.h"
#include "scratch.h"

enum {
    BLOCK_K = 384,             /* a panel of B: 384 x 16 floats fit the first-level cache */
    BLOCK_N = 2048,            /* a block of B stays in the last-level cache */
    BLOCK_A_BYTES = 192 << 10, /* a block of A stays in the second-level cache */
    IN_PLACE_BYTES = 48 << 10, /* an operand up to this size is not packed */
    TINY_WORK = 128,           /* products m*n*k up to which plain loops win */
    SERIAL_WORK = 400000,      /* m*n*k per task that is worth waking a thread */
    DOTS_ROWS = 8              /* rows of A up to which A @ B^T is done as dot products */
};

typedef struct problem {
    sft_gemm_args g;
    const sft_gemm_kernels *kern;
    int64_t esize;
    int64_t tile_m, tile_n;   /* rows and columns of a task */
    int64_t tasks_m, tasks_n; /* tasks of one batch item */
    _Atomic bool failed;
} problem;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
static int64_t div_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

/* ---- plain loops, for products of a few elements ---- */

#define TINY(NAME, T)                                                                              \
    static void NAME(const sft_gemm_args *g, int64_t item) {                                       \
        const T *a = (const T *)g->a + item * g->a_bs, *b = (const T *)g->b + item * g->b_bs;      \
        T *c = (T *)g->c + item * g->c_bs, alpha = (T)g->alpha, beta = (T)g->beta;                 \
        const T *bias = g->bias;                                                                   \
        for (int64_t i = 0; i < g->m; i++) {                                                       \
            for (int64_t j = 0; j < g->n; j++) {                                                   \
                T sum = 0;                                                                         \
                for (int64_t p = 0; p < g->k; p++)                                                 \
                    sum += a[i * g->a_rs + p * g->a_cs] * b[p * g->b_rs + j * g->b_cs];            \
                T v = alpha * sum;                                                                 \
                if (beta != 0) v += beta * c[i * g->c_rs + j];                                     \
                if (bias) v += bias[j];                                                            \
                if (g->epilogue == SFT_GEMM_RELU && v < 0) v = 0;                                  \
                c[i * g->c_rs + j] = v;                                                            \
            }                                                                                      \
        }                                                                                          \
    }
TINY(tiny_f32, float)
TINY(tiny_f64, double)

/* C = epilogue(alpha * raw + beta * C + bias) for a row of raw sums; bias_step 0 repeats one. */
#define FINISH(NAME, T)                                                                            \
    static void NAME(const sft_gemm_args *g, int64_t n, const void *raw_row, void *c_row,          \
                     int64_t c_step, const void *bias_row, int64_t bias_step) {                    \
        const T *raw = raw_row, *bias = bias_row;                                                  \
        T *c = c_row, alpha = (T)g->alpha, beta = (T)g->beta;                                      \
        for (int64_t j = 0; j < n; j++) {                                                          \
            T v = alpha * raw[j];                                                                  \
            if (beta != 0) v += beta * c[j * c_step];                                              \
            if (bias) v += bias[j * bias_step];                                                    \
            if (g->epilogue == SFT_GEMM_RELU && v < 0) v = 0;                                      \
            c[j * c_step] = v;                                                                     \
        }                                                                                          \
    }
FINISH(finish_f32, float)
FINISH(finish_f64, double)

static void finish(const sft_gemm_args *g, int64_t n, const void *raw, void *c, int64_t c_step,
                   const void *bias, int64_t bias_step) {
    if (g->f64)
        finish_f64(g, n, raw, c, c_step, bias, bias_step);
    else
        finish_f32(g, n, raw, c, c_step, bias, bias_step);
}

/* ---- the blocked product of one task ---- */

static void copy_strided(int64_t n, int64_t esize, const char *from, int64_t step, char *to) {
    if (esize == 4) {
        const float *f = (const void *)from;
        float *t = (void *)to;
        for (int64_t i = 0; i < n; i++) t[i] = f[i * step];
    } else {
        const double *f = (const void *)from;
        double *t = (void *)to;
        for (int64_t i = 0; i < n; i++) t[i] = f[i * step];
    }
}

/* Reading an operand where it lies saves packing, where few rows or columns of C use it or where
 * it is small.  Not if its rows all fall on the same sets of the first-level cache. */
static bool small_spread(const problem *p, int64_t lines, int64_t step) {
    int64_t bytes = step * p->esize;
    return lines * bytes <= IN_PLACE_BYTES && bytes % 1024 != 0;
}

static bool b_in_place(const problem *p, int64_t m) {
    const sft_gemm_args *g = &p->g;
    if (g->b_cs != 1 || g->n < p->kern->nr) return false;
    return m <= 4 * p->kern->mr || small_spread(p, g->k, g->b_rs);
}

static bool a_in_place(const problem *p, int64_t n) {
    const sft_gemm_args *g = &p->g;
    if (g->a_cs == 1) return n <= 8 * p->kern->nr || small_spread(p, g->m, g->a_rs);
    /* columns: each step of k is another line, if not another page */
    if (g->a_rs == 1) return n <= p->kern->nr || small_spread(p, g->k, g->a_cs);
    return false;
}

typedef struct operand {
    const char *ptr;
    int64_t rs, cs; /* of A: steps inside a tile; of B: rs inside a panel, cs unused */
    int64_t panel;  /* elements from one panel to the next */
} operand;

/* All tiles of one block: m x n of C from k products. */
static void run_tiles(const problem *p, int64_t m, int64_t n, int64_t k, operand a, operand b,
                      operand b_tail, char *c, const sft_gemm_store *store, const char *bias) {
    const sft_gemm_kernels *kern = p->kern;
    int64_t es = p->esize, mr = kern->mr, nr = kern->nr;
    sft_gemm_store st = *store;
    for (int64_t j = 0; j < n; j += nr) {
        int cols = (int)min64(nr, n - j);
        operand panel = cols < nr ? b_tail : b;
        const char *bp = cols < nr ? panel.ptr : panel.ptr + j / nr * panel.panel * es;
        st.bias = bias ? bias + j * es : NULL;
        for (int64_t i = 0; i < m; i += mr) {
            kern->tile(k, a.ptr + i / mr * a.panel * es, a.rs, a.cs, bp, panel.rs,
                       c + (i * p->g.c_rs + j) * es, p->g.c_rs, (int)min64(mr, m - i), cols, &st);
        }
    }
}

/* C[m x n] = ... on this thread; a, b, c and bias point at the task's first elements. */
static bool run_block(const problem *p, const char *a, const char *b, char *c, const char *bias,
                      int64_t m, int64_t n) {
    const sft_gemm_args *g = &p->g;
    const sft_gemm_kernels *kern = p->kern;
    int64_t es = p->esize, mr = kern->mr, nr = kern->nr, k = g->k;
    bool direct_a = a_in_place(p, n), direct_b = b_in_place(p, m);
    /* equal parts of k, so that no block is a remnant */
    int64_t kc = k > BLOCK_K ? round_up(div_up(k, div_up(k, BLOCK_K)), 8) : max64(k, 1);
    int64_t mc = max64(round_up(BLOCK_A_BYTES / (kc * es) - mr + 1, mr), mr);
    if (m > mc) mc = round_up(div_up(m, div_up(m, mc)), mr);
    int64_t nc = min64(n, BLOCK_N);
    char *pack_b = NULL, *pack_a = NULL;
    if (!direct_b || n % nr) {
        int64_t width = direct_b ? nr : round_up(nc, nr);
        pack_b = sft_scratch(SFT_SCRATCH_GEMM_B, (size_t)(width * kc * es));
        if (!pack_b) return false;
    }
    if (!direct_a) {
        pack_a = sft_scratch(SFT_SCRATCH_GEMM_A, (size_t)((round_up(mc, mr) * kc + 16) * es));
        if (!pack_a) return false;
    }
    for (int64_t jc = 0; jc < n; jc += nc) {
        int64_t nb = min64(nc, n - jc);
        for (int64_t pc = 0; pc == 0 || pc < k; pc += kc) {
            int64_t kb = min64(kc, k - pc);
            bool last = pc + kb >= k;
            sft_gemm_store st = {g->alpha, pc ? 1 : g->beta, NULL,
                                 last && g->epilogue == SFT_GEMM_RELU};
            const char *b_at = b + (pc * g->b_rs + jc * g->b_cs) * es;
            operand ob, tail;
            if (direct_b) {
                ob = (operand){b_at, g->b_rs, 1, nr};
                tail = (operand){pack_b, nr, 1, 0};
                if (nb % nr)
                    kern->pack_b(kb, nb % nr, b_at + (nb - nb % nr) * es, g->b_rs, 1, pack_b);
            } else {
                kern->pack_b(kb, nb, b_at, g->b_rs, g->b_cs, pack_b);
                ob = (operand){pack_b, nr, 1, nr * kb};
                tail = (operand){pack_b + nb / nr * nr * kb * es, nr, 1, 0};
            }
            for (int64_t ic = 0; ic < m; ic += mc) {
                int64_t mb = min64(mc, m - ic);
                const char *a_at = a + (ic * g->a_rs + pc * g->a_cs) * es;
                operand oa = {a_at, g->a_rs, g->a_cs, mr * g->a_rs};
                if (!direct_a) {
                    kern->pack_a(mb, kb, a_at, g->a_rs, g->a_cs, pack_a);
                    oa = (operand){pack_a, 1, mr, mr * kb};
                }
                run_tiles(p, mb, nb, kb, oa, ob, tail, c + (ic * g->c_rs + jc) * es, &st,
                          bias && last ? bias + jc * es : NULL);
            }
        }
    }
    return true;
}

/* ---- products with a vector, and few rows times a transposed matrix ---- */

/* Columns j0 .. j0 + n of C = A @ B^T through dot products; A and B have contiguous rows. */
static bool run_dots(const problem *p, const char *a, const char *b, char *c, const char *bias,
                     int64_t n) {
    const sft_gemm_args *g = &p->g;
    int64_t es = p->esize;
    char *raw = sft_scratch(SFT_SCRATCH_GEMM_B, (size_t)(g->m * n * es));
    if (!raw) return false;
    for (int64_t j = 0; j < n; j += 4) {
        for (int64_t i = 0; i < g->m; i++) {
            p->kern->dots(min64(4, n - j), g->k, a + i * g->a_rs * es, b + j * g->b_cs * es,
                          g->b_cs, raw + (i * n + j) * es);
        }
    }
    for (int64_t i = 0; i < g->m; i++)
        finish(g, n, raw + i * n * es, c + i * g->c_rs * es, 1, bias, 1);
    return true;
}

/* y[n] = W x: x a strided vector of length k, W by its step to the next output and to the next
 * product, y of step y_step. */
static bool run_vector(const problem *p, const char *x, int64_t xs, const char *w, int64_t w_out,
                       int64_t w_in, char *y, int64_t y_step, const char *bias, int64_t bias_step,
                       int64_t n) {
    const sft_gemm_args *g = &p->g;
    int64_t es = p->esize;
    char *raw = sft_scratch(SFT_SCRATCH_GEMM_B, (size_t)((n + g->k) * es));
    if (!raw) return false;
    if (w_in == 1) {
        if (xs != 1) {
            copy_strided(g->k, es, x, xs, raw + n * es);
            x = raw + n * es;
        }
        p->kern->dots(n, g->k, x, w, w_out, raw);
    } else {
        p->kern->axpys(n, g->k, x, xs, w, w_in, raw);
    }
    finish(g, n, raw, y, y_step, bias, bias_step);
    return true;
}

/* ---- tasks ---- */

static bool is_tiny(const sft_gemm_args *g) {
    return g->m * g->n <= TINY_WORK && g->m * g->n * g->k <= TINY_WORK;
}
static bool is_dots(const sft_gemm_args *g) {
    return g->m <= DOTS_ROWS && g->m > 1 && g->b_rs == 1 && g->a_cs == 1 && g->k >= 16;
}
static bool is_row(const sft_gemm_args *g) { return g->m == 1 && (g->b_cs == 1 || g->b_rs == 1); }
static bool is_column(const sft_gemm_args *g) {
    return g->n == 1 && (g->a_cs == 1 || g->a_rs == 1);
}

static bool run_task(const problem *p, int64_t task) {
    const sft_gemm_args *g = &p->g;
    if (is_tiny(g)) { /* never split: the task is the item */
        (g->f64 ? tiny_f64 : tiny_f32)(g, task);
        return true;
    }
    int64_t es = p->esize, per_item = p->tasks_m * p->tasks_n;
    int64_t item = task / per_item, i = task % per_item / p->tasks_n * p->tile_m,
            j = task % p->tasks_n * p->tile_n;
    int64_t m = min64(p->tile_m, g->m - i), n = min64(p->tile_n, g->n - j);
    const char *a = (const char *)g->a + (item * g->a_bs + i * g->a_rs) * es;
    const char *b = (const char *)g->b + (item * g->b_bs + j * g->b_cs) * es;
    char *c = (char *)g->c + (item * g->c_bs + i * g->c_rs + j) * es;
    const char *bias = g->bias ? (const char *)g->bias + j * es : NULL;
    if (is_row(g)) return run_vector(p, a, g->a_cs, b, g->b_cs, g->b_rs, c, 1, bias, 1, n);
    if (is_column(g)) return run_vector(p, b, g->b_rs, a, g->a_rs, g->a_cs, c, g->c_rs, bias, 0, m);
    if (is_dots(g)) return run_dots(p, a, b, c, bias, n);
    return run_block(p, a, b, c, bias, m, n);
}

static void run_tasks(void *ctx, int64_t begin, int64_t end) {
    problem *p = ctx;
    for (int64_t t = begin; t < end; t++) {
        if (atomic_load_explicit(&p->failed, memory_order_relaxed)) return;
        if (!run_task(p, t)) atomic_store_explicit(&p->failed, true, memory_order_relaxed);
    }
}

/* Cuts one item of C into about `want` tasks, near square so that little is packed twice. */
static void split(problem *p, int64_t want) {
    const sft_gemm_args *g = &p->g;
    int64_t mr = p->kern->mr, nr = p->kern->nr;
    p->tile_m = g->m;
    p->tile_n = g->n;
    if (want > 1) {
        if (is_row(g) || is_dots(g)) {
            p->tile_n = max64(round_up(div_up(g->n, want), 64), 64);
        } else if (is_column(g)) {
            p->tile_m = max64(round_up(div_up(g->m, want), 64), 64);
        } else {
            int64_t rows = 1, cols = 1;
            while (rows * cols < want) {
                bool by_row = g->m / rows >= g->n / cols;
                if (by_row && g->m / rows < 2 * mr) by_row = false;
                if (!by_row && g->n / cols < 2 * nr) {
                    if (g->m / rows < 2 * mr) break;
                    by_row = true;
                }
                *(by_row ? &rows : &cols) += 1;
            }
            p->tile_m = round_up(div_up(g->m, rows), mr);
            p->tile_n = round_up(div_up(g->n, cols), nr);
        }
    }
    p->tasks_m = div_up(g->m, p->tile_m);
    p->tasks_n = div_up(g->n, p->tile_n);
}

static bool run_own(const sft_gemm_args *g, int threads) {
    problem p = {.g = *g, .esize = g->f64 ? 8 : 4};
    p.kern = g->f64 ? sft_gemm_kernels_f64() : sft_gemm_kernels_f32();
    if (g->alpha == 0) p.g.k = 0;
    double item_work = (double)g->m * (double)g->n * (double)max64(p.g.k, 1);
    double work = item_work * (double)g->batch;
    int64_t want = 1, grain = g->batch;
    if (threads > 1 && work > 2.0 * SERIAL_WORK) {
        int64_t all = work / SERIAL_WORK > 4.0 * threads ? 2 * (int64_t)threads : threads;
        all = min64(all, (int64_t)(work / SERIAL_WORK));
        want = div_up(all, g->batch);
        grain = max64(1, (int64_t)(SERIAL_WORK / (item_work / (double)want)));
        grain = min64(grain, max64(1, g->batch * want / threads));
    }
    split(&p, want);
    int64_t tasks = g->batch * p.tasks_m * p.tasks_n;
    if (tasks <= 1 || grain >= tasks)
        run_tasks(&p, 0, tasks);
    else
        sft_parallel_for(tasks, grain, run_tasks, &p);
    return !atomic_load_explicit(&p.failed, memory_order_relaxed);
}

static bool run(const sft_gemm_args *g, bool serial) {
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return true;
    if (g->batch == 1 && is_tiny(g)) {
        (g->f64 ? tiny_f64 : tiny_f32)(g, 0);
        return true;
    }
    int threads = serial ? 1 : sft_get_num_threads();
    if (sft_gemm_lib(g, threads)) return true;
    return run_own(g, threads);
}

bool sft_gemm(const sft_gemm_args *g) { return run(g, false); }
bool sft_gemm_serial(const sft_gemm_args *g) { return run(g, true); }
