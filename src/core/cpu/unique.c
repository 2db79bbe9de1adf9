/* unique.c: distinct elements, distinct rows, and binary search. */
#include "order.h"

#define UNIQUE(W)                                                                                  \
    static sft_status unique_##W(const sft_kcall *k) {                                             \
        const sft_unique_params *p = k->params;                                                    \
        const sft_tensor *x = k->t[3];                                                             \
        const int64_t n = p->n, es = (int64_t)sft_esize(x);                                        \
        int64_t *inverse = (int64_t *)k->t[1]->data, *count = (int64_t *)k->t[2]->data, m = 0;     \
        W *a = sft_alloc(sizeof(W) * (size_t)(2 * n));                                             \
        if (!a) return sft_fail(SFT_ERR_MEMORY, "out of memory");                                  \
        int64_t low;                                                                               \
        const bool near =                                                                          \
            sizeof(W) == sizeof(narrow) && order_near(x->dtype, x->data, es, n, &low);             \
        if (near)                                                                                  \
            order_load_near(x->data, es, n, false, low, (narrow *)a);                              \
        else                                                                                       \
            order_load_##W(x->dtype, x->data, es, 0, n, false, a);                                 \
        W *w = order_sort_##W(a, a + n, n), last = 0;                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const W v = w[i];                                                                      \
            if (i == 0 || KEY_##W(v) != KEY_##W(last) || order_nan_##W(x->dtype, v, false)) {      \
                count[m] = 0;                                                                      \
                w[m++] = v;                                                                        \
            }                                                                                      \
            count[m - 1]++;                                                                        \
            inverse[POSITION_##W(v)] = m - 1 + k->index_base;                                      \
            last = v;                                                                              \
        }                                                                                          \
        if (near)                                                                                  \
            order_store_near((narrow *)w, m, false, low, k->t[0]->data, es);                       \
        else                                                                                       \
            order_store_##W(x->dtype, w, m, false, x->data, es, k->t[0]->data, es);                \
        *p->found = m;                                                                             \
        sft_free(a, sizeof(W) * (size_t)(2 * n));                                                  \
        return SFT_OK;                                                                             \
    }
UNIQUE(narrow)
UNIQUE(wide)
KERNEL(unique)(const sft_kcall *k) {
    const sft_tensor *x = k->t[3];
    int64_t low;
    if (order_near(x->dtype, x->data, (int64_t)sft_esize(x), x->numel, &low))
        return unique_narrow(k);
    return order_is_wide(x->dtype) ? unique_wide(k) : unique_narrow(k);
}

/* ---- rows
 * ------------------------------------------------------------------------------------------ */

static int compare(const uint64_t *a, const uint64_t *b, int64_t width) {
    for (int64_t i = 0; i < width; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Merge sort of row numbers, from the bottom up; returns where the result lies. */
static int64_t *sort_rows(const uint64_t *keys, int64_t width, int64_t *a, int64_t *b, int64_t n) {
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * run) {
            const int64_t mid = lo + run < n ? lo + run : n, hi = mid + run < n ? mid + run : n;
            int64_t i = lo, j = mid;
            for (int64_t o = lo; o < hi; o++) {
                const bool left = i < mid && (j >= hi || compare(keys + a[i] * width,
                                                                 keys + a[j] * width, width) <= 0);
                b[o] = left ? a[i++] : a[j++];
            }
        }
        int64_t *t = a;
        a = b;
        b = t;
    }
    return a;
}

/* Outputs: the first of each kind of row, the kind of each row, rows of each kind. */
KERNEL(_unique_rows)(const sft_kcall *k) {
    const sft_unique_params *p = k->params;
    const sft_tensor *x = k->t[3];
    const int64_t n = p->n, width = p->width, all = n * width;
    int64_t *first = (int64_t *)k->t[0]->data, *inverse = (int64_t *)k->t[1]->data;
    int64_t *count = (int64_t *)k->t[2]->data, m = 0;
    const size_t bytes = sizeof(uint64_t) * (size_t)(all + 2 * n);
    uint64_t *keys = sft_alloc(bytes);
    if (!keys) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    int64_t *a = (int64_t *)(keys + all);
    const int64_t es = (int64_t)sft_esize(x);
    for (int64_t i = 0; i < all; i += SFT_BLOCK) {
        const int64_t c = all - i < SFT_BLOCK ? all - i : SFT_BLOCK;
        if (order_is_wide(x->dtype)) {
            wide w[SFT_BLOCK];
            order_load_wide(x->dtype, x->data + i * es, es, 0, c, false, w);
            for (int64_t l = 0; l < c; l++) keys[i + l] = KEY_wide(w[l]);
        } else {
            narrow w[SFT_BLOCK];
            order_load_narrow(x->dtype, x->data + i * es, es, 0, c, false, w);
            for (int64_t l = 0; l < c; l++) keys[i + l] = KEY_narrow(w[l]);
        }
    }
    for (int64_t i = 0; i < n; i++) a[i] = i;
    a = sort_rows(keys, width, a, a + n, n);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || compare(keys + a[i - 1] * width, keys + a[i] * width, width) != 0) {
            first[m] = a[i] + k->index_base;
            count[m++] = 0;
        }
        count[m - 1]++;
        inverse[a[i]] = m - 1 + k->index_base;
    }
    *p->found = m;
    sft_free(keys, bytes);
    return SFT_OK;
}

/* ---- binary search
 * --------------------------------------------------------------------------------- */

typedef struct search {
    const sft_search_params *p;
    const char *sequence, *values;
    const int64_t *sorter;
    sft_tensor *out;
    int index_base;
} search;

/* Where v goes: before all that are not less (right: that are greater). NaN goes to the end. */
#define SEARCH(T)                                                                                  \
    static void search_##T(void *ctx, int64_t begin, int64_t end) {                                \
        const search *s = ctx;                                                                     \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const int64_t row = s->p->one_sequence ? 0 : i / s->p->m;                              \
            const T *a = (const T *)s->sequence + row * s->p->n, v = ((const T *)s->values)[i];    \
            const int64_t *sorter = s->sorter ? s->sorter + row * s->p->n : NULL;                  \
            int64_t lo = 0, hi = s->p->n;                                                          \
            while (lo < hi) {                                                                      \
                const int64_t mid = lo + (hi - lo) / 2;                                            \
                const T x = a[sorter ? sorter[mid] - s->index_base : mid];                         \
                if (s->p->right ? !(x > v) : !(x >= v))                                            \
                    lo = mid + 1;                                                                  \
                else                                                                               \
                    hi = mid;                                                                      \
            }                                                                                      \
            lo += s->index_base;                                                                   \
            if (s->out->dtype == SFT_int32)                                                        \
                ((int32_t *)s->out->data)[i] = (int32_t)lo;                                        \
            else                                                                                   \
                ((int64_t *)s->out->data)[i] = lo;                                                 \
        }                                                                                          \
    }
SEARCH(float)
SEARCH(double)
SEARCH(int64_t)

KERNEL(_searchsorted)(const sft_kcall *k) {
    search s = {k->params,     k->t[1]->data,
                k->t[2]->data, k->t[3] ? (const int64_t *)k->t[3]->data : NULL,
                k->t[0],       k->index_base};
    if (s.sorter)
        for (int64_t i = 0; i < k->t[3]->numel; i++) {
            if ((uint64_t)s.sorter[i] - (uint64_t)s.index_base >= (uint64_t)s.p->n)
                return sft_fail(
                    SFT_ERR_INDEX,
                    "searchsorted: 'sorter' holds %lld, expected %d to %lld (positions in "
                    "the sequence%s)",
                    (long long)s.sorter[i], s.index_base, (long long)(s.p->n - 1 + s.index_base),
                    s.index_base ? "; indices start at 1" : "");
        }
    const int dt = k->t[1]->dtype;
    sft_parallel_for(k->t[0]->numel, 1024,
                     dt == SFT_float32   ? search_float
                     : dt == SFT_float64 ? search_double
                                         : search_int64_t,
                     &s);
    return SFT_OK;
}
