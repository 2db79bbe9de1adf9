/* attention.c: scaled dot product attention by blocks of queries: the scores of a block stay in the
 * cache, and of all scores only one number a row (the log of the sum of exponentials) is kept for
 * the backward pass, which computes them again. A row that sees nothing gives zeros. */
#include "lanes.h"
#include "../ops/attention.h"
#include "lib/gemm.h"
#include "lib/scratch.h"

enum {
    QUERIES = 64,
    SCORES = 65536
}; /* rows of a block at most; scores of a block, if rows allow */

typedef struct matrix {
    char *at;
    int64_t rs, cs; /* in elements */
} matrix;

typedef struct attention_task {
    const sft_attention_params *p;
    matrix q, k, v, y, g, dq, dk, dv;
    char *lse;
    const sft_tensor *mask;
    const char *mask_at;
    int64_t mask_rs;  /* bytes */
    int64_t i0, m, n; /* first query, number of queries, keys that any of them sees */
} attention_task;

#define T        float
#define N(name)  name##_f32
#define IS_F64   false
#define EXP_DOWN sft_exp_down_f32
#define LOG      sft_log_f32
#include "attention.inc"
#undef T
#undef N
#undef IS_F64
#undef EXP_DOWN
#undef LOG
#define T        double
#define N(name)  name##_f64
#define IS_F64   true
#define EXP_DOWN sft_exp_down_f64
#define LOG      sft_log_f64
#include "attention.inc"
#undef T
#undef N
#undef IS_F64
#undef EXP_DOWN
#undef LOG

typedef struct attention_job {
    const sft_kcall *k;
    const sft_attention_params *p;
    bool f64;
    int64_t rows, blocks; /* queries of a block, blocks of a batch item */
    size_t bytes;         /* of scores */
    atomic_bool failed;
} attention_job;

/* Bytes from t's first element to batch item b, and to row `row` of it. */
static char *item_at(const sft_tensor *t, int64_t b, int64_t row) {
    int64_t offset = row * t->strides[t->ndim - 2];
    for (int d = t->ndim - 3; d >= 0; d--) {
        offset += b % t->shape[d] * t->strides[d];
        b /= t->shape[d];
    }
    return t->data + offset * (int64_t)sft_esize(t);
}

static matrix matrix_at(const sft_tensor *t, int64_t b, int64_t row) {
    if (!t) return (matrix){NULL, 0, 0};
    return (matrix){item_at(t, b, row), t->strides[t->ndim - 2], t->strides[t->ndim - 1]};
}

static attention_task task_of(const attention_job *j, int64_t b, int64_t block,
                              const sft_tensor *mask) {
    const sft_attention_params *p = j->p;
    attention_task t = {.p = p, .mask = mask, .i0 = block * j->rows};
    t.m = p->l - t.i0 < j->rows ? p->l - t.i0 : j->rows;
    t.n = p->causal && t.i0 + t.m < p->s ? t.i0 + t.m : p->s;
    if (mask) {
        t.mask_at = item_at(mask, b, t.i0);
        t.mask_rs = mask->strides[mask->ndim - 2] * (int64_t)sft_esize(mask);
    }
    return t;
}

static void forward_tasks(void *ctx, int64_t begin, int64_t end) {
    attention_job *j = ctx;
    sft_tensor *const *t = j->k->t;
    void *work = sft_scratch(SFT_SCRATCH_ATTENTION, j->bytes);
    if (!work) atomic_store(&j->failed, true);
    for (int64_t at = begin; at < end && !atomic_load(&j->failed) && !sft_interrupted(); at++) {
        const int64_t b = at / j->blocks;
        attention_task s = task_of(j, b, at % j->blocks, t[5]);
        s.q = matrix_at(t[2], b, s.i0);
        s.k = matrix_at(t[3], b, 0);
        s.v = matrix_at(t[4], b, 0);
        s.y = matrix_at(t[0], b, s.i0);
        s.lse = t[1]->data + (b * j->p->l + s.i0) * (int64_t)sft_esize(t[1]);
        if (!(j->f64 ? forward_f64(&s, work) : forward_f32(&s, work)))
            atomic_store(&j->failed, true);
    }
}

/* All blocks of a batch item in order: they add to the same dk and dv. */
static void backward_items(void *ctx, int64_t begin, int64_t end) {
    attention_job *j = ctx;
    sft_tensor *const *t = j->k->t;
    void *work = sft_scratch(SFT_SCRATCH_ATTENTION, 2 * j->bytes);
    if (!work) atomic_store(&j->failed, true);
    for (int64_t at = begin * j->blocks; at < end * j->blocks; at++) {
        if (atomic_load(&j->failed) || sft_interrupted()) return;
        /* The last block sees all keys: it comes first and sets what the others add to. */
        const int64_t b = at / j->blocks, block = j->blocks - 1 - at % j->blocks;
        attention_task s = task_of(j, b, block, t[7]);
        if (at % j->blocks == 0) s.n = j->p->s;
        s.dq = matrix_at(t[0], b, s.i0);
        s.dk = matrix_at(t[1], b, 0);
        s.dv = matrix_at(t[2], b, 0);
        s.g = matrix_at(t[3], b, s.i0);
        s.q = matrix_at(t[4], b, s.i0);
        s.k = matrix_at(t[5], b, 0);
        s.v = matrix_at(t[6], b, 0);
        s.y = matrix_at(t[8], b, s.i0);
        s.lse = t[9]->data + (b * j->p->l + s.i0) * (int64_t)sft_esize(t[9]);
        const double beta = at % j->blocks ? 1 : 0;
        if (!(j->f64 ? backward_f64(&s, work, beta) : backward_f32(&s, work, beta)))
            atomic_store(&j->failed, true);
    }
}

static attention_job job_of(const sft_kcall *k, bool f64) {
    attention_job j = {.k = k, .p = k->params, .f64 = f64};
    j.rows = SCORES / (j.p->s ? j.p->s : 1);
    if (j.rows > QUERIES) j.rows = QUERIES;
    if (j.rows < 16) j.rows = 16;
    if (j.rows > j.p->l) j.rows = j.p->l;
    j.blocks = (j.p->l + j.rows - 1) / j.rows;
    j.bytes = (size_t)(j.rows * j.p->s) * (f64 ? 8 : 4);
    return j;
}

static int64_t per_task(const attention_job *j, int64_t rows) {
    const int64_t work = rows * j->p->s * (j->p->e + j->p->ev) / 8 + 1;
    return work >= SFT_GRAIN ? 1 : SFT_GRAIN / work;
}

KERNEL(attention)(const sft_kcall *k) {
    attention_job j = job_of(k, k->t[2]->dtype == SFT_float64);
    sft_parallel_for(j.p->batch * j.blocks, per_task(&j, j.rows), forward_tasks, &j);
    return atomic_load(&j.failed) ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}

KERNEL(attention_backward)(const sft_kcall *k) {
    attention_job j = job_of(k, k->t[4]->dtype == SFT_float64);
    sft_parallel_for(j.p->batch, per_task(&j, j.p->l), backward_items, &j);
    return atomic_load(&j.failed) ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}
