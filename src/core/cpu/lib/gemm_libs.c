/*
 * gemm_libs.c - matrix products by oneDNN or OpenBLAS, for comparison and as an escape.
 *
 * Our own kernels are the default: on shapes from 32 up they were measured as at least as fast as
 * either library, and they cost nothing to load.  SFT_BLAS=dnnl or SFT_BLAS=openblas makes large
 * products use that library; what it cannot do, or if it is not there, our kernels do.
 */
#include "gemm_libs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../threads.h"
#include "dnnl.h"

enum { MIN_WORK = 32 * 32 * 32 };

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* CBLAS's values */

typedef void cblas_sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *,
                            int, float, float *, int);
typedef void cblas_dgemm_fn(int, int, int, int, int, int, double, const double *, int,
                            const double *, int, double, double *, int);

static enum { OWN, DNNL, OPENBLAS } wanted, chosen;
static cblas_sgemm_fn *blas_sgemm;
static cblas_dgemm_fn *blas_dgemm;
static pthread_once_t wanted_once = PTHREAD_ONCE_INIT, load_once = PTHREAD_ONCE_INIT;

static void read_wish(void) {
    const char *name = getenv("SFT_BLAS");
    if (name && strcmp(name, "dnnl") == 0) wanted = DNNL;
    if (name && strcmp(name, "openblas") == 0) wanted = OPENBLAS;
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises it works. */
static void symbol(void *lib, const char *name, void *fn) {
    void *s = dlsym(lib, name);
    memcpy(fn, &s, sizeof s);
}

static void load(void) {
    if (wanted == DNNL && sft_dnnl()) chosen = DNNL;
    if (wanted != OPENBLAS) return;
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib) lib = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return;
    void (*set_threads)(int) = NULL;
    symbol(lib, "openblas_set_num_threads", &set_threads);
    symbol(lib, "cblas_sgemm", &blas_sgemm);
    symbol(lib, "cblas_dgemm", &blas_dgemm);
    if (!set_threads || !blas_sgemm || !blas_dgemm) return;
    set_threads(1); /* the work is split by our own pool */
    chosen = OPENBLAS;
}

const char *sft_gemm_backend(void) {
    pthread_once(&wanted_once, read_wish);
    if (wanted != OWN) pthread_once(&load_once, load);
    return chosen == DNNL ? "dnnl" : chosen == OPENBLAS ? "openblas" : "own";
}

/* Leading dimension of an operand that a BLAS can read, or 0. */
static int64_t leading(int64_t rs, int64_t cs, int64_t rows, int64_t cols, bool *trans) {
    *trans = cs != 1;
    int64_t ld = *trans ? cs : rs, least = *trans ? rows : cols;
    if ((*trans ? rs : cs) != 1) return 0;
    return ld >= least && ld <= INT32_MAX ? ld : 0;
}

typedef struct job {
    const sft_gemm_args *g;
    int64_t lda, ldb, rows, parts;
    bool ta, tb;
} job;

static void run(void *ctx, int64_t begin, int64_t end) {
    const job *w = ctx;
    const sft_gemm_args *g = w->g;
    int64_t es = g->f64 ? 8 : 4;
    for (int64_t t = begin; t < end; t++) {
        int64_t item = t / w->parts, i = t % w->parts * w->rows;
        int64_t m = g->m - i < w->rows ? g->m - i : w->rows;
        const void *a = (const char *)g->a + (item * g->a_bs + i * g->a_rs) * es;
        const void *b = (const char *)g->b + item * g->b_bs * es;
        void *c = (char *)g->c + (item * g->c_bs + i * g->c_rs) * es;
        int ta = w->ta ? TRANS : NO_TRANS, tb = w->tb ? TRANS : NO_TRANS;
        if (g->f64)
            blas_dgemm(ROW_MAJOR, ta, tb, (int)m, (int)g->n, (int)g->k, g->alpha, a, (int)w->lda, b,
                       (int)w->ldb, g->beta, c, (int)g->c_rs);
        else if (chosen == OPENBLAS)
            blas_sgemm(ROW_MAJOR, ta, tb, (int)m, (int)g->n, (int)g->k, (float)g->alpha, a,
                       (int)w->lda, b, (int)w->ldb, (float)g->beta, c, (int)g->c_rs);
        else
            sft_dnnl_sgemm(w->ta, w->tb, m, g->n, g->k, (float)g->alpha, a, w->lda, b, w->ldb,
                           (float)g->beta, c, g->c_rs);
        for (int64_t r = 0; (g->bias || g->epilogue == SFT_GEMM_RELU) && r < m; r++) {
            for (int64_t j = 0; j < g->n; j++) {
                if (g->f64) {
                    double *v = (double *)c + r * g->c_rs + j;
                    if (g->bias) *v += ((const double *)g->bias)[j];
                    if (g->epilogue == SFT_GEMM_RELU && *v < 0) *v = 0;
                } else {
                    float *v = (float *)c + r * g->c_rs + j;
                    if (g->bias) *v += ((const float *)g->bias)[j];
                    if (g->epilogue == SFT_GEMM_RELU && *v < 0) *v = 0;
                }
            }
        }
    }
}

bool sft_gemm_lib(const sft_gemm_args *g, int threads) {
    pthread_once(&wanted_once, read_wish);
    if (wanted == OWN) return false;
    double work = (double)g->m * (double)g->n * (double)g->k;
    if (work < MIN_WORK || g->alpha == 0) return false;
    if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX || g->c_rs > INT32_MAX)
        return false;
    pthread_once(&load_once, load);
    if (chosen == OWN || (chosen == DNNL && g->f64)) return false;
    job w = {.g = g, .parts = 1, .rows = g->m};
    w.lda = leading(g->a_rs, g->a_cs, g->m, g->k, &w.ta);
    w.ldb = leading(g->b_rs, g->b_cs, g->k, g->n, &w.tb);
    if (!w.lda || !w.ldb || g->c_rs < g->n) return false;
    if (threads > 1 && g->batch < threads && work > 1e6) {
        w.rows = (g->m + threads - 1) / threads;
        w.parts = (g->m + w.rows - 1) / w.rows;
    }
    int64_t tasks = g->batch * w.parts;
    if (threads > 1 && work * (double)g->batch > 1e6)
        sft_parallel_for(tasks, 1, run, &w);
    else
        run(&w, 0, tasks);
    return true;
}
