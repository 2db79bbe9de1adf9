/*
 * dnnl.c - opening oneDNN.  See dnnl.h.
 */
#include "dnnl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dnnl_api.h"

#ifdef SFT_HAVE_DNNL_H

sft_dnnl_api sft_dnnl_lib;
static bool ready;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*omp_max)(void);
static void (*omp_set)(int);

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises it works. */
static bool symbol(void *lib, const char *name, void *fn) {
    void *s = dlsym(lib, name);
    memcpy(fn, &s, sizeof s);
    return s != NULL;
}

static char wish; /* the first letter of SFT_DNNL */
static pthread_once_t wish_once = PTHREAD_ONCE_INIT;

static void read_wish(void) {
    const char *value = getenv("SFT_DNNL");
    wish = value ? value[0] : 0;
}

bool sft_dnnl_always(void) {
    pthread_once(&wish_once, read_wish);
    return wish == '1';
}

static void load(void) {
    pthread_once(&wish_once, read_wish);
    if (wish == '0') return;
    /* threads of its OpenMP, should any run, must not spin beside ours */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    void *lib = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return;
    bool all = true;
#define X(name) all = symbol(lib, "dnnl_" #name, &sft_dnnl_lib.name) && all;
    SFT_DNNL_FUNCTIONS(X)
#undef X
    /* absent in builds of oneDNN without OpenMP: those that have threads of their own are no use */
    if (!all || !symbol(lib, "omp_get_max_threads", &omp_max) ||
        !symbol(lib, "omp_set_num_threads", &omp_set))
        return;
    int state = sft_dnnl_enter();
    sft_dnnl_api *d = &sft_dnnl_lib;
    ready =
        d->engine_create(&d->engine, dnnl_cpu, 0) == dnnl_success &&
        d->primitive_attr_create(&d->attr) == dnnl_success &&
        d->primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user) == dnnl_success;
    sft_dnnl_leave(state);
}

bool sft_dnnl(void) {
    pthread_once(&once, load);
    return ready;
}

int sft_dnnl_enter(void) {
    int before = omp_max();
    omp_set(1);
    return before;
}

void sft_dnnl_leave(int state) { omp_set(state); }

void sft_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    int state = sft_dnnl_enter();
    sft_dnnl_lib.sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c,
                       ldc);
    sft_dnnl_leave(state);
}

#else

bool sft_dnnl(void) { return false; }
bool sft_dnnl_always(void) { return false; }
int sft_dnnl_enter(void) { return 0; }
void sft_dnnl_leave(int state) { (void)state; }

void sft_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda, (void)b;
    (void)ldb, (void)beta, (void)c, (void)ldc;
}

#endif
