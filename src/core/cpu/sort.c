/* sort.c: sorting along a dim: radix sort of packed keys, from the lowest digit up. */
#include "order.h"

/* Digits that all words share are skipped. */
#define RADIX(name, W, KEYBITS, D)                                                                 \
    static W *name(W *a, W *b, int64_t n, uint32_t(*count)[1 << (D)]) {                            \
        enum { DIGITS = ((KEYBITS) + (D)-1) / (D), MASK = (1 << (D)) - 1 };                        \
        memset(count, 0, sizeof(uint32_t) * DIGITS << (D));                                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            uint64_t key = KEY_##W(a[i]);                                                          \
            for (int d = 0; d < DIGITS; d++) {                                                     \
                count[d][key & MASK]++;                                                            \
                key >>= D;                                                                         \
            }                                                                                      \
        }                                                                                          \
        for (int d = 0; d < DIGITS; d++) {                                                         \
            uint32_t *at = count[d], sum = 0;                                                      \
            const int shift = d * (D);                                                             \
            if (at[(uint64_t)KEY_##W(a[0]) >> shift & MASK] == (uint64_t)n) continue;              \
            for (int i = 0; i <= MASK; i++) {                                                      \
                const uint32_t c = at[i];                                                          \
                at[i] = sum;                                                                       \
                sum += c;                                                                          \
            }                                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const W w = a[i];                                                                  \
                b[at[(uint64_t)KEY_##W(w) >> shift & MASK]++] = w;                                 \
            }                                                                                      \
            W *t = a;                                                                              \
            a = b;                                                                                 \
            b = t;                                                                                 \
        }                                                                                          \
        return a;                                                                                  \
    }
RADIX(radix8_narrow, narrow, 32, 8)
RADIX(radix11_narrow, narrow, 32, 11)
RADIX(radix8_wide, wide, 64, 8)
RADIX(radix11_wide, wide, 64, 11)

#define SORT(W)                                                                                    \
    W *KN_NAME(W)(W * a, W * b, int64_t n) {                                                       \
        if (n <= 32) {                                                                             \
            for (int64_t i = 1; i < n; i++) {                                                      \
                const W t = a[i];                                                                  \
                int64_t j = i;                                                                     \
                for (; j > 0 && a[j - 1] > t; j--) a[j] = a[j - 1];                                \
                a[j] = t;                                                                          \
            }                                                                                      \
            return a;                                                                              \
        }                                                                                          \
        uint32_t count[6 << 11];                                                                   \
        if (n < 16384) return radix8_##W(a, b, n, (uint32_t(*)[256])count);                        \
        return radix11_##W(a, b, n, (uint32_t(*)[2048])count);                                     \
    }
#define KN_NAME(W) KN(order_sort_##W)
#undef order_sort_narrow
#undef order_sort_wide
SORT(narrow)
SORT(wide)

typedef struct job {
    char *values, *where;
    const char *x;
    sft_sort_params p;
    int dtype, index_base;
    int64_t esize;
    _Atomic bool starved; /* a task had no memory for its buffers */
} job;

#define SORT_ROWS(W)                                                                               \
    static void rows_##W(void *ctx, int64_t begin, int64_t end) {                                  \
        job *j = ctx;                                                                              \
        const int64_t n = j->p.n, step = j->p.inner * j->esize;                                    \
        const size_t bytes = sizeof(W) * (size_t)(2 * n);                                          \
        W *a = sft_alloc(bytes);                                                                   \
        if (!a) {                                                                                  \
            j->starved = true;                                                                     \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = begin; r < end; r++) {                                                    \
            const int64_t at = r / j->p.inner * n * j->p.inner + r % j->p.inner;                   \
            const char *x = j->x + at * j->esize;                                                  \
            order_load_##W(j->dtype, x, step, 0, n, j->p.descending, a);                           \
            const W *w = KN(order_sort_##W)(a, a + n, n);                                          \
            if (j->values)                                                                         \
                order_store_##W(j->dtype, w, n, j->p.descending, x, step,                          \
                                j->values + at * j->esize, step);                                  \
            int64_t *where = (int64_t *)j->where + at;                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                where[i * j->p.inner] = POSITION_##W(w[i]) + j->index_base;                        \
        }                                                                                          \
        sft_free(a, bytes);                                                                        \
    }
SORT_ROWS(narrow)
SORT_ROWS(wide)

/* Rows of int64: narrow where they can be. */
static void rows_int64(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    const int64_t n = j->p.n, step = j->p.inner * j->esize;
    const size_t bytes = sizeof(narrow) * (size_t)(2 * n);
    narrow *a = sft_alloc(bytes);
    if (!a) {
        j->starved = true;
        return;
    }
    for (int64_t r = begin; r < end; r++) {
        const int64_t at = r / j->p.inner * n * j->p.inner + r % j->p.inner;
        const char *x = j->x + at * j->esize;
        int64_t low;
        if (!order_near(j->dtype, x, step, n, &low)) {
            rows_wide(ctx, r, r + 1);
            continue;
        }
        order_load_near(x, step, n, j->p.descending, low, a);
        const narrow *w = KN(order_sort_narrow)(a, a + n, n);
        if (j->values)
            order_store_near(w, n, j->p.descending, low, j->values + at * j->esize, step);
        int64_t *where = (int64_t *)j->where + at;
        for (int64_t i = 0; i < n; i++)
            where[i * j->p.inner] = POSITION_narrow(w[i]) + j->index_base;
    }
    sft_free(a, bytes);
}

static sft_status start(const sft_kcall *k, bool values) {
    const sft_tensor *x = k->t[values ? 2 : 1];
    job j = {.values = values ? k->t[0]->data : NULL,
             .where = k->t[values ? 1 : 0]->data,
             .x = x->data,
             .p = *(const sft_sort_params *)k->params,
             .dtype = x->dtype,
             .index_base = k->index_base,
             .esize = (int64_t)sft_esize(x)};
    if (j.p.n > UINT32_MAX)
        return sft_fail(SFT_ERR_UNSUPPORTED,
                        "%s: the dim has %lld elements, at most 2^32 - 1 can be "
                        "sorted on cpu",
                        sft_op_get_info(k->op)->name, (long long)j.p.n);
    const int64_t grain = j.p.n < 4096 ? 4096 / j.p.n : 1;
    sft_parallel_for(j.p.outer * j.p.inner, grain,
                     j.dtype == SFT_int64     ? rows_int64
                     : order_is_wide(j.dtype) ? rows_wide
                                              : rows_narrow,
                     &j);
    return j.starved ? sft_fail(SFT_ERR_MEMORY, "out of memory") : SFT_OK;
}
KERNEL(sort)(const sft_kcall *k) { return start(k, true); }
KERNEL(argsort)(const sft_kcall *k) { return start(k, false); }
