/* norm.c: layer norm (and RMS norm) and batch norm, forward and backward. A row is read from memory
 * once and worked on in cache; sums over rows go through parts of a fixed size, so that results do
 * not depend on the number of threads. */
#include "lanes.h"
#include "stream.h"
#include "../interrupt.h"
#include "../ops/norm.h"

enum { COLUMNS = 64, SHORT_RUN = 16 };

#define DATA(T, i) (k->t[i] ? (T *)k->t[i]->data : NULL)

typedef struct grad_job {
    const sft_kcall *k;
    int64_t block, blocks; /* rows per part, parts */
    void *parts;
} grad_job;

typedef struct batch_job {
    const sft_kcall *k;
    const sft_batch_norm_params *p;
    bool columns;     /* parts are columns, not runs */
    double *a, *b;    /* two numbers per part */
    double *sg, *sgx; /* backward: sums per channel */
} batch_job;

#define T       float
#define N(name) name##_f32
#define MADD    sft_madd_f32
#define SQRT    sqrtf
#include "norm.inc"
#undef T
#undef N
#undef MADD
#undef SQRT

#define T       double
#define N(name) name##_f64
#define MADD    sft_madd_f64
#define SQRT    sqrt
#include "norm.inc"
#undef T
#undef N
#undef MADD
#undef SQRT

#define PICK(name) (k->t[3]->dtype == SFT_float64 ? name##_f64 : name##_f32)

static int64_t rows_per_task(int64_t n) { return n >= SFT_GRAIN ? 1 : SFT_GRAIN / (n > 0 ? n : 1); }

KERNEL(native_layer_norm)(const sft_kcall *k) {
    const sft_layer_norm_params *p = k->params;
    sft_parallel_for(p->rows, rows_per_task(2 * p->n), PICK(layer_norm_rows), (void *)k);
    return SFT_OK;
}

KERNEL(layer_norm_backward)(const sft_kcall *k) {
    const sft_layer_norm_params *p = k->params;
    grad_job j = {.k = k};
    /* Parts of at least 16 rows, and at most 64 parts. */
    j.block = rows_per_task(p->n) > 16 ? rows_per_task(p->n) : 16;
    if ((p->rows + j.block - 1) / j.block > 64) j.block = (p->rows + 63) / 64;
    j.blocks = (p->rows + j.block - 1) / j.block;
    const size_t bytes = (size_t)(j.blocks * 2 * p->n) * 8;
    bool sums = k->t[1] || k->t[2];
    j.parts = sums ? sft_alloc(bytes) : NULL;
    if (sums && !j.parts) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_parallel_for(j.blocks, 1, PICK(layer_norm_grad_blocks), &j);
    if (sums) sft_parallel_for(p->n, rows_per_task(j.blocks), PICK(layer_norm_grad_sum), &j);
    if (sums) sft_free(j.parts, bytes);
    return SFT_OK;
}

/* ---- batch norm ------------------------------------------------------------------------------ */

static size_t batch_bytes(const sft_batch_norm_params *p, bool columns, int64_t *parts) {
    *parts = columns ? p->channels * p->inner : p->outer * p->channels;
    return (size_t)(2 * *parts + 2 * p->channels + 1) * sizeof(double);
}

static bool batch_begin(batch_job *j, const sft_kcall *k, int64_t *parts, size_t *bytes) {
    j->k = k;
    j->p = k->params;
    j->columns = j->p->inner < SHORT_RUN;
    *bytes = batch_bytes(j->p, j->columns, parts);
    j->a = sft_alloc(*bytes);
    if (!j->a) return false;
    j->b = j->a + *parts;
    j->sg = j->b + *parts;
    j->sgx = j->sg + j->p->channels;
    return true;
}

static void batch_run(const batch_job *j, sft_range_fn *runs, sft_range_fn *columns) {
    const sft_batch_norm_params *p = j->p;
    if (j->columns)
        sft_parallel_for(p->outer, rows_per_task(p->channels * p->inner), columns, (void *)j);
    else
        sft_parallel_for(p->outer * p->channels, rows_per_task(p->inner), runs, (void *)j);
}

static void batch_run_parts(const batch_job *j, sft_range_fn *runs, sft_range_fn *columns,
                            int64_t parts) {
    if (j->columns) {
        int64_t grain = rows_per_task(j->p->outer);
        grain = (grain + COLUMNS - 1) / COLUMNS * COLUMNS;
        sft_parallel_for(parts, grain, columns, (void *)j);
    } else {
        sft_parallel_for(parts, rows_per_task(j->p->inner), runs, (void *)j);
    }
}

/* Index of the channel's part i. */
static inline int64_t part_of(const batch_job *j, int64_t c, int64_t i) {
    return j->columns ? c * j->p->inner + i : i * j->p->channels + c;
}

static double read_number(const sft_tensor *t, int64_t c) {
    double v;
    sft_load(SFT_float64, t->dtype, 1, t->data + c * t->strides[0] * (int64_t)sft_esize(t), 8, &v);
    return v;
}

static void write_number(const sft_tensor *t, int64_t c, double v) {
    sft_store(SFT_float64, t->dtype, 1, &v, t->data + c * t->strides[0] * (int64_t)sft_esize(t), 8);
}

/* Mean and 1 / deviation of every channel, from its parts or from the running statistics. */
static void batch_finish(const batch_job *j) {
    const sft_kcall *k = j->k;
    const sft_batch_norm_params *p = j->p;
    const int64_t n = j->columns ? p->inner : p->outer;
    const double size = (double)(j->columns ? p->outer : p->inner), total = size * (double)n;
    for (int64_t c = 0; c < p->channels; c++) {
        double mean = 0, m2 = 0, var;
        if (p->training) {
            for (int64_t i = 0; i < n; i++) mean += j->a[part_of(j, c, i)];
            mean /= (double)n;
            for (int64_t i = 0; i < n; i++) {
                const double d = j->a[part_of(j, c, i)] - mean;
                m2 += j->b[part_of(j, c, i)] + d * d * size;
            }
            var = m2 / total;
            if (k->t[6])
                write_number(k->t[6], c,
                             (1 - p->momentum) * read_number(k->t[6], c) + p->momentum * mean);
            if (k->t[7])
                write_number(k->t[7], c,
                             (1 - p->momentum) * read_number(k->t[7], c) +
                                 p->momentum * m2 / (total - 1));
        } else {
            mean = read_number(k->t[6], c);
            var = read_number(k->t[7], c);
        }
        write_number(k->t[1], c, mean);
        write_number(k->t[2], c, 1 / sqrt(var + p->eps));
    }
}

KERNEL(native_batch_norm)(const sft_kcall *k) {
    batch_job j;
    int64_t parts;
    size_t bytes;
    if (!batch_begin(&j, k, &parts, &bytes)) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    const unsigned before = sft_interrupt_count();
    if (j.p->training)
        batch_run_parts(&j, PICK(batch_stats_runs), PICK(batch_stats_columns), parts);
    /* An interrupt leaves parts unwritten: the running statistics must not see them. */
    if (!sft_interrupted() && sft_interrupt_count() == before) {
        batch_finish(&j);
        batch_run(&j, PICK(batch_apply_runs), PICK(batch_apply_columns));
    }
    sft_free(j.a, bytes);
    return SFT_OK;
}

KERNEL(batch_norm_backward)(const sft_kcall *k) {
    batch_job j;
    int64_t parts;
    size_t bytes;
    if (!batch_begin(&j, k, &parts, &bytes)) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    const int64_t n = j.columns ? j.p->inner : j.p->outer;
    if (j.p->training || k->t[1] || k->t[2]) {
        batch_run_parts(&j, PICK(batch_sums_runs), PICK(batch_sums_columns), parts);
        for (int64_t c = 0; c < j.p->channels; c++) {
            j.sg[c] = j.sgx[c] = 0;
            for (int64_t i = 0; i < n; i++) {
                j.sg[c] += j.a[part_of(&j, c, i)];
                j.sgx[c] += j.b[part_of(&j, c, i)];
            }
            if (k->t[1]) write_number(k->t[1], c, j.sgx[c] * read_number(k->t[7], c));
            if (k->t[2]) write_number(k->t[2], c, j.sg[c]);
        }
    }
    if (k->t[0]) batch_run(&j, PICK(batch_grad_runs), PICK(batch_grad_columns));
    sft_free(j.a, bytes);
    return SFT_OK;
}
