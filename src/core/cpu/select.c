/* select.c: the k greatest or smallest, the k-th, the median and the mode along a dim. */
#include "order.h"

ORDER_SELECT(narrow)
ORDER_SELECT(wide)

typedef struct job {
    char *values, *where;
    const char *x;
    sft_sort_params p;
    int dtype, index_base;
    int64_t esize;
    size_t room; /* words that a task needs */
    _Atomic bool starved;
} job;

/* Where row r begins, in elements: of the input, and of outputs with k elements per row. */
static inline int64_t row_at(const job *j, int64_t r, int64_t n) {
    return r / j->p.inner * n * j->p.inner + r % j->p.inner;
}

enum { CHUNK = 64 };

/* The k smallest words of a row, sorted, at the start of a. While k is small, only words below the
 * greatest of those kept are looked at: most chunks are passed over. */
#define TOPK(W)                                                                                    \
    static W *topk_##W(const job *j, const char *x, W *a) {                                        \
        const int64_t n = j->p.n, k = j->p.k, step = j->p.inner * j->esize;                        \
        int64_t have = n;                                                                          \
        if (n <= 4 * k + 2 * CHUNK) {                                                              \
            order_load_##W(j->dtype, x, step, 0, n, j->p.descending, a);                           \
            if (k < n) order_select_##W(a, n, k - 1);                                              \
            return order_sort_##W(a, a + j->room / 2, k);                                          \
        }                                                                                          \
        have = 0;                                                                                  \
        W limit = ~(W)0;                                                                           \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                   \
            W w[CHUNK];                                                                            \
            const int64_t m = n - i < CHUNK ? n - i : CHUNK;                                       \
            order_load_##W(j->dtype, x + i * step, step, i, m, j->p.descending, w);                \
            int any = 0;                                                                           \
            for (int64_t l = 0; l < m; l++) any |= w[l] < limit;                                   \
            if (!any) continue;                                                                    \
            for (int64_t l = 0; l < m; l++) {                                                      \
                a[have] = w[l];                                                                    \
                have += w[l] < limit;                                                              \
            }                                                                                      \
            if (have >= 2 * k + CHUNK) {                                                           \
                order_select_##W(a, have, k - 1);                                                  \
                limit = a[k - 1];                                                                  \
                have = k;                                                                          \
            }                                                                                      \
        }                                                                                          \
        if (have > k) order_select_##W(a, have, k - 1);                                            \
        return order_sort_##W(a, a + j->room / 2, k);                                              \
    }                                                                                              \
    static void topk_rows_##W(void *ctx, int64_t begin, int64_t end) {                             \
        job *j = ctx;                                                                              \
        const int64_t step = j->p.inner * j->esize;                                                \
        W *a = sft_alloc(sizeof(W) * j->room);                                                     \
        if (!a) {                                                                                  \
            j->starved = true;                                                                     \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = begin; r < end; r++) {                                                    \
            const char *x = j->x + row_at(j, r, j->p.n) * j->esize;                                \
            const W *w = topk_##W(j, x, a);                                                        \
            const int64_t at = row_at(j, r, j->p.k);                                               \
            order_store_##W(j->dtype, w, j->p.k, j->p.descending, x, step,                         \
                            j->values + at * j->esize, step);                                      \
            for (int64_t i = 0; i < j->p.k; i++)                                                   \
                ((int64_t *)j->where)[at + i * j->p.inner] = POSITION_##W(w[i]) + j->index_base;   \
        }                                                                                          \
        sft_free(a, sizeof(W) * j->room);                                                          \
    }
TOPK(narrow)
TOPK(wide)

/* One word per row is the answer: PICK picks it from a[n]. */
#define PICK_ROWS(name, W, PICK)                                                                   \
    static void name##_##W(void *ctx, int64_t begin, int64_t end) {                                \
        job *j = ctx;                                                                              \
        const int64_t n = j->p.n, step = j->p.inner * j->esize;                                    \
        W *a = sft_alloc(sizeof(W) * j->room);                                                     \
        if (!a) {                                                                                  \
            j->starved = true;                                                                     \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = begin; r < end; r++) {                                                    \
            const char *x = j->x + row_at(j, r, n) * j->esize;                                     \
            order_load_##W(j->dtype, x, step, 0, n, false, a);                                     \
            const W w = PICK##_##W(j, a, n);                                                       \
            order_store_##W(j->dtype, &w, 1, false, x, step, j->values + r * j->esize, 0);         \
            if (j->where) ((int64_t *)j->where)[r] = POSITION_##W(w) + j->index_base;              \
        }                                                                                          \
        sft_free(a, sizeof(W) * j->room);                                                          \
    }

#define PICKS(W)                                                                                   \
    static W pick_kth_##W(const job *j, W *a, int64_t n) {                                         \
        order_select_##W(a, n, j->p.k);                                                            \
        return a[j->p.k];                                                                          \
    }                                                                                              \
    /* The lower one of two; a NaN if there is one, or the median of the others. */                \
    static W pick_median_##W(const job *j, W *a, int64_t n) {                                      \
        int64_t numbers = n;                                                                       \
        if (sft_is_float(j->dtype)) {                                                              \
            numbers = 0;                                                                           \
            for (int64_t i = 0; i < n; i++) numbers += !order_nan_##W(j->dtype, a[i], false);      \
        }                                                                                          \
        int64_t k = (numbers - 1) / 2;                                                             \
        if (numbers < n && (!j->p.ignore_nan || numbers == 0)) k = numbers;                        \
        order_select_##W(a, n, k);                                                                 \
        return a[k];                                                                               \
    }                                                                                              \
    /* The smallest of the most frequent values, at its last position. */                          \
    static W pick_mode_##W(const job *j, W *a, int64_t n) {                                        \
        (void)j;                                                                                   \
        const W *w = order_sort_##W(a, a + n, n);                                                  \
        int64_t best = 0, run = 0, at = 0;                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            run++;                                                                                 \
            if (i + 1 < n && KEY_##W(w[i]) == KEY_##W(w[i + 1])) continue;                         \
            if (run > best) best = run, at = i;                                                    \
            run = 0;                                                                               \
        }                                                                                          \
        return w[at];                                                                              \
    }                                                                                              \
    PICK_ROWS(kth, W, pick_kth)                                                                    \
    PICK_ROWS(median, W, pick_median)                                                              \
    PICK_ROWS(mode, W, pick_mode)
PICKS(narrow)
PICKS(wide)

/* t: values, indices (NULL: not wanted), input. */
static sft_status start(const sft_kcall *k, int64_t room, sft_range_fn *on_narrow,
                        sft_range_fn *on_wide) {
    const sft_tensor *x = k->t[2];
    job j = {.values = k->t[0]->data,
             .where = k->t[1] ? k->t[1]->data : NULL,
             .x = x->data,
             .p = *(const sft_sort_params *)k->params,
             .dtype = x->dtype,
             .index_base = k->index_base,
             .esize = (int64_t)sft_esize(x),
             .room = (size_t)room};
    if (j.p.n > UINT32_MAX)
        return sft_fail(SFT_ERR_UNSUPPORTED,
                        "%s: the dim has %lld elements, at most 2^32 - 1 are "
                        "supported on cpu",
                        sft_op_get_info(k->op)->name, (long long)j.p.n);
    const int64_t grain = j.p.n < 8192 ? 8192 / j.p.n : 1;
    sft_parallel_for(j.p.outer * j.p.inner, grain, order_is_wide(j.dtype) ? on_wide : on_narrow,
                     &j);
    return j.starved ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}
KERNEL(topk)(const sft_kcall *k) {
    const sft_sort_params *p = k->params;
    return start(k, 2 * (4 * p->k + 4 * CHUNK), topk_rows_narrow, topk_rows_wide);
}
KERNEL(kthvalue)(const sft_kcall *k) {
    return start(k, ((const sft_sort_params *)k->params)->n, kth_narrow, kth_wide);
}
KERNEL(median_dim)(const sft_kcall *k) {
    return start(k, ((const sft_sort_params *)k->params)->n, median_narrow, median_wide);
}
KERNEL(mode)(const sft_kcall *k) {
    return start(k, 2 * ((const sft_sort_params *)k->params)->n, mode_narrow, mode_wide);
}
