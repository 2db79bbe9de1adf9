/* index.h: checked index tensors, for gather, scatter and their kin. */
#ifndef SFT_CPU_INDEX_H
#define SFT_CPU_INDEX_H

#include "../ops/index.h"
#include "nd.h"

/* ---- index tensors --------------------------------------------------------------------------- */

enum { INDEX_BLOCK = 1024 };

typedef struct index_reader {
    const sft_tensor *t;
    nd space;           /* operand 0: the index tensor */
    int64_t size;       /* indices lie in 0 .. size-1 */
    int64_t base, wrap; /* wrap: added to a negative one */
    int dim;            /* for messages */
} index_reader;

static inline void index_reader_init(index_reader *r, const sft_tensor *t, int64_t size, int dim,
                                     int base, bool wrap) {
    const int64_t es = (int64_t)sft_esize(t);
    r->t = t;
    nd_init(&r->space, 1);
    for (int d = 0; d < t->ndim; d++) nd_add(&r->space, t->shape[d], t->strides[d] * es, 0, 0);
    nd_finish(&r->space);
    r->size = size;
    r->base = base;
    r->wrap = wrap ? size + base : 0;
    r->dim = dim;
}

/* An index as it is stored -> 0-based. Any number may be stored: it wraps rather than overflow. */
static inline int64_t index_from(int64_t v, int64_t base, int64_t wrap) {
    return (int64_t)((uint64_t)v - (uint64_t)base + (uint64_t)(v < 0 ? wrap : 0));
}

/* v[m]: raw indices -> 0-based; false when one is out of range. */
static inline bool index_normalise(const index_reader *r, int64_t *v, int64_t m) {
    const int64_t base = r->base, wrap = r->wrap;
    const uint64_t size = (uint64_t)r->size;
    uint64_t bad = 0;
    for (int64_t i = 0; i < m; i++) {
        const int64_t x = index_from(v[i], base, wrap);
        bad |= (uint64_t)((uint64_t)x >= size);
        v[i] = x;
    }
    return !bad;
}

/* Are v[m], as the caller counts, all in range? x and size - 1 - x are both free of a sign then. */
static inline bool index_in_range(const index_reader *r, const int64_t *v, int64_t m) {
    const uint64_t base = (uint64_t)r->base, last = (uint64_t)r->size - 1;
    uint64_t bad = 0;
    if (r->wrap) {
        const uint64_t wrap = (uint64_t)r->wrap;
        for (int64_t i = 0; i < m; i++) {
            const uint64_t x = (uint64_t)v[i] - base + (v[i] < 0 ? wrap : 0);
            bad |= x | (last - x);
        }
    } else {
        for (int64_t i = 0; i < m; i++) {
            const uint64_t x = (uint64_t)v[i] - base;
            bad |= x | (last - x);
        }
    }
    return (int64_t)bad >= 0;
}

/* m indices, `stride` bytes apart, as the caller counts: where they lie, or converted in buf. */
static inline const int64_t *index_raw(int dtype, const char *idx, int64_t stride, int64_t m,
                                       int64_t *buf) {
    if (dtype == SFT_int64 && stride == 8) return (const int64_t *)idx;
    sft_load(SFT_int64, dtype, m, idx, stride, buf);
    return buf;
}

/* m indices from position `at` (row-major) on, 0-based, into v. False: one is out of range; then
 * v is not to be used. */
static inline bool index_read(const index_reader *r, int64_t at, int64_t m, int64_t *v) {
    const nd *n = &r->space;
    if (n->ndim == 1) {
        sft_load(SFT_int64, r->t->dtype, m, r->t->data + at * n->stride[0][0], n->stride[0][0], v);
    } else {
        nd_pos p;
        nd_seek(n, at, &p);
        for (int64_t i = 0; i < m;) {
            int64_t k = nd_left(n, &p);
            if (k > m - i) k = m - i;
            sft_load(SFT_int64, r->t->dtype, k, r->t->data + p.off[0], n->stride[0][n->ndim - 1],
                     v + i);
            nd_advance(n, &p, k);
            i += k;
        }
    }
    return index_normalise(r, v, m);
}

/* The smallest position at which a bad index was seen, whichever thread saw it. */
static inline void index_note(_Atomic int64_t *bad, int64_t at) {
    int64_t old = atomic_load_explicit(bad, memory_order_relaxed);
    while (at < old && !atomic_compare_exchange_weak_explicit(bad, &old, at, memory_order_relaxed,
                                                              memory_order_relaxed)) {
    }
}

/* Defined in index.c. Checks all of an index tensor; names the first one that is out of range. */
sft_status KN(index_check)(const char *op, const index_reader *r);
#define index_check KN(index_check)
/* Names the first bad index at or after position `from`. */
sft_status KN(index_fail)(const char *op, const index_reader *r, int64_t from);
#define index_fail KN(index_fail)

#endif
