/* loss.c: cross entropy and nll_loss over class labels, fused with the log-softmax and the
 * reduction, and the losses of one input and one target element each. */
#include "lanes.h"
#include "../ops/loss.h"

#include <stdio.h>

#define DATA(T, i) (k->t[i] ? (T *)k->t[i]->data : NULL)

typedef struct class_job {
    const sft_kcall *k;
    const sft_class_loss_params *p;
    const int64_t *target;
    double *values; /* losses of the rows, where they are reduced */
} class_job;

typedef struct point_job {
    const sft_kcall *k;
    double *values; /* sums of blocks */
    atomic_bool bad;
} point_job;

/* The row's class, 0-based; -1: ignored. */
static inline int64_t label_of(const class_job *j, int64_t r) {
    const int64_t raw = j->target[r], at = (int64_t)((uint64_t)raw - j->k->index_base);
    return (j->p->ignore_index < 0 ? raw : at) == j->p->ignore_index ? -1 : at;
}

#define T        float
#define N(name)  name##_f32
#define EXP_DOWN sft_exp_down_f32
#define LOG      sft_log_f32
#define LOG1P    sft_log1p_f32
#define SIGMOID  sft_sigmoid_f32
#include "loss.inc"
#undef T
#undef N
#undef EXP_DOWN
#undef LOG
#undef LOG1P
#undef SIGMOID

#define T        double
#define N(name)  name##_f64
#define EXP_DOWN sft_exp_down_f64
#define LOG      sft_log_f64
#define LOG1P    sft_log1p_f64
#define SIGMOID  sft_sigmoid_f64
#include "loss.inc"
#undef T
#undef N
#undef EXP_DOWN
#undef LOG
#undef LOG1P
#undef SIGMOID

/* "[2, 3]": position r of a tensor, as the caller counts. */
static void position_text(const sft_tensor *t, int64_t r, int base, char *buf, size_t size) {
    int64_t index[SFT_MAX_DIMS];
    for (int d = t->ndim - 1; d >= 0; d--) {
        index[d] = r % t->shape[d] + base;
        r /= t->shape[d];
    }
    sft_shape_text(index, t->ndim, buf, size);
}

static sft_status check_labels(const class_job *j, const sft_tensor *target) {
    const int64_t n = j->p->classes, base = j->k->index_base;
    int64_t least = INT64_MAX, most = INT64_MIN, bad = -1;
    for (int64_t r = 0; r < j->p->rows; r++) {
        const int64_t raw = j->target[r], at = (int64_t)((uint64_t)raw - (uint64_t)base);
        if ((j->p->ignore_index < 0 ? raw : at) == j->p->ignore_index) continue;
        if (raw < least) least = raw;
        if (raw > most) most = raw;
        if (bad < 0 && (uint64_t)at >= (uint64_t)n) bad = r;
    }
    if (bad < 0) return SFT_OK;
    char at[160];
    position_text(target, bad, (int)base, at, sizeof at);
    const char *hint = "";
    if (base == 1 && least == 0 && most < n)
        hint = ". The smallest value is 0: these look like 0-based labels; use y + 1";
    else if (base == 0 && least > 0 && most == n)
        hint = ". The greatest value is the number of classes: these look like 1-based labels";
    return sft_fail(SFT_ERR_INDEX,
                    "%s: target must hold %lld to %lld (there are %lld classes), but target%s is "
                    "%lld%s",
                    j->p->logits ? "cross_entropy" : "nll_loss", (long long)base,
                    (long long)(n - 1 + base), (long long)n, at, (long long)j->target[bad], hint);
}

static int64_t rows_per_task(int64_t n) { return n >= SFT_GRAIN ? 1 : SFT_GRAIN / (n > 0 ? n : 1); }

static sft_status class_loss(const sft_kcall *k) {
    class_job j = {.k = k, .p = k->params, .target = (const int64_t *)k->t[4]->data};
    const bool f64 = k->t[3]->dtype == SFT_float64;
    SFT_TRY(check_labels(&j, k->t[4]));
    const size_t bytes = (size_t)j.p->rows * sizeof(double);
    if (j.p->reduction != SFT_REDUCE_NONE) {
        j.values = sft_alloc(bytes);
        if (!j.values) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    }
    sft_parallel_for(j.p->rows, rows_per_task(j.p->logits ? j.p->classes : 8),
                     f64 ? class_rows_f64 : class_rows_f32, &j);
    (f64 ? class_finish_f64 : class_finish_f32)(&j);
    sft_free(j.values, bytes);
    return SFT_OK;
}

KERNEL(softmax_cross_entropy)(const sft_kcall *k) { return class_loss(k); }
KERNEL(nll_loss_rows)(const sft_kcall *k) { return class_loss(k); }

static sft_status class_grad(const sft_kcall *k) {
    class_job j = {.k = k, .p = k->params, .target = (const int64_t *)k->t[3]->data};
    sft_parallel_for(j.p->rows, rows_per_task(j.p->classes),
                     k->t[0]->dtype == SFT_float64 ? class_grad_rows_f64 : class_grad_rows_f32, &j);
    return SFT_OK;
}

KERNEL(class_loss_backward)(const sft_kcall *k) { return class_grad(k); }

KERNEL(point_loss)(const sft_kcall *k) {
    const sft_point_loss_params *p = k->params;
    const bool f64 = k->t[1]->dtype == SFT_float64;
    const int64_t blocks = (k->t[1]->numel + SFT_BLOCK - 1) / SFT_BLOCK;
    const size_t bytes = (size_t)blocks * sizeof(double);
    point_job j = {.k = k};
    if (p->reduction != SFT_REDUCE_NONE) {
        j.values = sft_alloc(bytes);
        if (!j.values) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    }
    sft_parallel_for(blocks, 16, f64 ? point_blocks_f64 : point_blocks_f32, &j);
    if (j.values) (f64 ? point_finish_f64 : point_finish_f32)(&j, blocks);
    sft_free(j.values, bytes);
    if (atomic_load(&j.bad))
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "binary_cross_entropy: input must hold probabilities, 0 to 1, but an element "
            "lies outside; use x:sigmoid(), or binary_cross_entropy_with_logits");
    return SFT_OK;
}

KERNEL(point_loss_backward)(const sft_kcall *k) {
    point_job j = {.k = k};
    sft_parallel_for(k->t[2]->numel, SFT_GRAIN,
                     k->t[2]->dtype == SFT_float64 ? point_grad_f64 : point_grad_f32, &j);
    return SFT_OK;
}
