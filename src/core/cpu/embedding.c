/* embedding.c: rows of a table by index, and the sum of gradients per row. The positions of each
 * row are chained first, so that every row is summed by one thread in the order of positions: the
 * result does not depend on the number of threads. */
#include "kernels.h"
#include "../ops/embedding.h"

static sft_status check_range(const sft_kcall *k, const sft_tensor *index) {
    const sft_embedding_params *p = k->params;
    const int64_t *at = (const int64_t *)index->data, base = k->index_base;
    const uint64_t first = (uint64_t)base, rows = (uint64_t)p->rows;
    int64_t bad = 0;
    for (int64_t i = 0; i < p->count; i++) bad += (uint64_t)at[i] - first >= rows;
    if (!bad) return SFT_OK;
    int64_t i = 0, left, where[SFT_MAX_DIMS];
    while ((uint64_t)at[i] - first < rows) i++;
    left = i;
    for (int d = index->ndim - 1; d >= 0; d--) {
        where[d] = left % index->shape[d] + base;
        left /= index->shape[d];
    }
    char text[160];
    return sft_fail(
        SFT_ERR_INDEX,
        "embedding: index %lld at position %s is out of range for a table of %lld rows "
        "(expected %lld to %lld)%s",
        (long long)at[i], sft_shape_text(where, index->ndim, text, sizeof text), (long long)p->rows,
        (long long)base, (long long)(p->rows - 1 + base),
        base == 1 && at[i] == 0 ? ": indices start at 1; if these are 0-based, use x + 1" : "");
}

typedef struct gather_job {
    const sft_kcall *k;
    size_t bytes; /* of a row */
} gather_job;

static void gather_rows(void *ctx, int64_t begin, int64_t end) {
    const gather_job *j = ctx;
    const int64_t *at = (const int64_t *)j->k->t[1]->data;
    for (int64_t i = begin; i < end; i++)
        memcpy(j->k->t[0]->data + (size_t)i * j->bytes,
               j->k->t[2]->data + (size_t)(at[i] - j->k->index_base) * j->bytes, j->bytes);
}

KERNEL(embedding_rows)(const sft_kcall *k) {
    const sft_embedding_params *p = k->params;
    gather_job j = {k, (size_t)p->width * sft_esize(k->t[2])};
    SFT_TRY(check_range(k, k->t[1]));
    sft_parallel_for(p->count, 1 + SFT_GRAIN / (p->width + 8), gather_rows, &j);
    return SFT_OK;
}

typedef struct chain_job {
    const sft_kcall *k;
    int64_t *first, *next; /* first position of a row, next position of the same row; -1: none */
} chain_job;

static void add_float(float *restrict d, const float *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) d[i] += s[i];
}
static void add_double(double *restrict d, const double *s, int64_t n) {
    for (int64_t i = 0; i < n; i++) d[i] += s[i];
}

static void sum_rows(void *ctx, int64_t begin, int64_t end) {
    const chain_job *j = ctx;
    const sft_embedding_params *p = j->k->params;
    const size_t bytes = (size_t)p->width * sft_esize(j->k->t[0]);
    const bool f64 = j->k->t[0]->dtype == SFT_float64;
    const char *g = j->k->t[1]->data;
    for (int64_t r = begin; r < end; r++) {
        char *d = j->k->t[0]->data + (size_t)r * bytes;
        int64_t at = r == p->padding ? -1 : j->first[r];
        if (at < 0) {
            memset(d, 0, bytes);
            continue;
        }
        memcpy(d, g + (size_t)at * bytes, bytes);
        for (at = j->next[at]; at >= 0; at = j->next[at]) {
            if (f64)
                add_double((double *)d, (const double *)(g + (size_t)at * bytes), p->width);
            else
                add_float((float *)d, (const float *)(g + (size_t)at * bytes), p->width);
        }
    }
}

KERNEL(embedding_backward)(const sft_kcall *k) {
    const sft_embedding_params *p = k->params;
    const int64_t *at = (const int64_t *)k->t[2]->data;
    SFT_TRY(check_range(k, k->t[2]));
    const size_t bytes = (size_t)(p->rows + p->count) * sizeof(int64_t);
    chain_job j = {.k = k, .first = sft_alloc(bytes)};
    if (!j.first) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    j.next = j.first + p->rows;
    for (int64_t r = 0; r < p->rows; r++) j.first[r] = -1;
    for (int64_t i = p->count - 1; i >= 0; i--) {
        const int64_t r = at[i] - k->index_base;
        j.next[i] = j.first[r];
        j.first[r] = i;
    }
    /* A popular row is long work: tasks are small. */
    sft_parallel_for(p->rows, 1 + SFT_GRAIN / 4 / (p->width + 8), sum_rows, &j);
    sft_free(j.first, bytes);
    return SFT_OK;
}
