/* pool.c: max and average pools over [planes, h, w]. */
#include "kernels.h"
#include "../ops/pool.h"
#include "lib/scratch.h"

typedef struct pool_job {
    const sft_kcall *k;
    bool even;          /* windows are 2 wide, 2 apart, without padding */
    atomic_bool failed; /* out of memory */
} pool_job;

#define ISNAN(x)     ((x) != (x))
#define ADD(a, b)    ((a) + (b))
#define DIVIDE(a, b) ((a) / (b))
#define T            float
#define N(name)      name##_f32
#define LEAST        (-INFINITY)
#include "pool.inc"
#undef T
#undef N
#undef LEAST
#define T       double
#define N(name) name##_f64
#define LEAST   (-(double)INFINITY)
#include "pool.inc"
#undef T
#undef N
#undef LEAST
/* Integers wrap, and least / -1 must not trap. */
#undef ISNAN
#undef ADD
#undef DIVIDE
#define ISNAN(x)     false
#define ADD(a, b)    ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define DIVIDE(a, b) ((b) == -1 ? (int64_t)(0 - (uint64_t)(a)) : (a) / (b))
#define T            int64_t
#define N(name)      name##_i64
#define LEAST        INT64_MIN
#include "pool.inc"
#undef T
#undef N
#undef LEAST

#define PICK(t, name)                                                                              \
    ((t)->dtype == SFT_float64 ? name##_f64 : (t)->dtype == SFT_float32 ? name##_f32 : name##_i64)

static int64_t per_task(int64_t work) {
    return work >= SFT_GRAIN / 2 ? 1 : SFT_GRAIN / 2 / (work + 1) + 1;
}

/* Elements that one row of the output looks at. */
static int64_t row_work(const sft_pool_params *p) {
    const int64_t kh = p->h.k ? p->h.k : p->h.in / p->h.out + 1;
    const int64_t kw = p->w.k ? p->w.k : p->w.in / p->w.out + 1;
    return p->w.out * kh * kw;
}

static sft_status run(const sft_kcall *k, int64_t n, int64_t work, sft_range_fn *fn) {
    const sft_pool_axis *w = &((const sft_pool_params *)k->params)->w;
    pool_job j = {.k = k, .even = w->k == 2 && w->s == 2 && !w->p && 2 * w->out <= w->in};
    sft_parallel_for(n, per_task(work), fn, &j);
    return atomic_load(&j.failed) ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}

KERNEL(max_pool_planes)(const sft_kcall *k) {
    const sft_pool_params *p = k->params;
    return run(k, p->planes * p->h.out, row_work(p), PICK(k->t[2], max_rows));
}

KERNEL(avg_pool_planes)(const sft_kcall *k) {
    const sft_pool_params *p = k->params;
    return run(k, p->planes * p->h.out, row_work(p), PICK(k->t[1], avg_rows));
}

KERNEL(avg_pool_scatter)(const sft_kcall *k) {
    const sft_pool_params *p = k->params;
    return run(k, p->planes, p->h.out * row_work(p), PICK(k->t[1], avg_scatter));
}

KERNEL(max_pool_scatter)(const sft_kcall *k) {
    const sft_pool_params *p = k->params;
    sft_parallel_for(p->planes, per_task(p->h.in * p->w.in), PICK(k->t[1], max_scatter), (void *)k);
    return SFT_OK;
}

KERNEL(max_pool_pick)(const sft_kcall *k) {
    const sft_pool_params *p = k->params;
    sft_parallel_for(p->planes, per_task(p->h.out * p->w.out), PICK(k->t[1], max_pick), (void *)k);
    return SFT_OK;
}
