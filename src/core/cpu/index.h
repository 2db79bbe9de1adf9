/* index.h: strided index spaces and checked index tensors, for gather, scatter and their kin. */
#ifndef SFT_CPU_INDEX_H
#define SFT_CPU_INDEX_H

#include "../ops/index.h"
#include "kernels.h"

/* ---- strided spaces -------------------------------------------------------------------------- */

enum { ND_OPS = 3 };

/* An index space and the addresses of up to three operands in it. Strides in bytes. */
typedef struct nd {
    int ndim; /* at least 1 */
    int nop;
    int64_t numel;
    int64_t size[SFT_MAX_DIMS];
    int64_t stride[ND_OPS][SFT_MAX_DIMS];
} nd;

static inline void nd_init(nd *n, int nop) {
    n->ndim = 0;
    n->nop = nop;
    n->numel = 1;
}

/* Adds an inner dim; one of size 1 is dropped, and one that continues the dim before is merged. */
static inline void nd_add(nd *n, int64_t size, int64_t s0, int64_t s1, int64_t s2) {
    const int64_t s[ND_OPS] = {s0, s1, s2};
    n->numel *= size;
    if (size == 1) return;
    int d = n->ndim;
    bool merge = d > 0;
    for (int j = 0; j < n->nop && merge; j++) merge = n->stride[j][d - 1] == s[j] * size;
    if (merge) {
        n->size[d - 1] *= size;
        d--;
    } else {
        n->size[d] = size;
        n->ndim++;
    }
    for (int j = 0; j < n->nop; j++) n->stride[j][d] = s[j];
}

/* A space always has an innermost dim. */
static inline void nd_finish(nd *n) {
    if (n->ndim) return;
    n->ndim = 1;
    n->size[0] = n->numel; /* 1, or 0 */
    for (int j = 0; j < n->nop; j++) n->stride[j][0] = 0;
}

typedef struct nd_pos {
    int64_t index[SFT_MAX_DIMS];
    int64_t off[ND_OPS]; /* bytes from each operand's start */
} nd_pos;

static inline void nd_seek(const nd *n, int64_t at, nd_pos *p) {
    for (int j = 0; j < n->nop; j++) p->off[j] = 0;
    for (int d = n->ndim - 1; d >= 0; d--) {
        int64_t i = n->ndim == 1 ? at : at % n->size[d];
        at /= n->size[d];
        p->index[d] = i;
        for (int j = 0; j < n->nop; j++) p->off[j] += i * n->stride[j][d];
    }
}

/* Elements left in the innermost row. */
static inline int64_t nd_left(const nd *n, const nd_pos *p) {
    return n->size[n->ndim - 1] - p->index[n->ndim - 1];
}

/* Moves on by m <= nd_left() elements. */
static inline void nd_advance(const nd *n, nd_pos *p, int64_t m) {
    int d = n->ndim - 1;
    p->index[d] += m;
    for (int j = 0; j < n->nop; j++) p->off[j] += m * n->stride[j][d];
    while (p->index[d] == n->size[d] && d > 0) {
        for (int j = 0; j < n->nop; j++)
            p->off[j] += n->stride[j][d - 1] - n->size[d] * n->stride[j][d];
        p->index[d] = 0;
        p->index[--d]++;
    }
}

/* ---- index tensors --------------------------------------------------------------------------- */

enum { INDEX_BLOCK = 1024 };

typedef struct index_reader {
    const sft_tensor *t;
    nd space; /* operand 0: the index tensor */
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

/* v[m]: raw indices -> 0-based; false when one is out of range. */
static inline bool index_normalise(const index_reader *r, int64_t *v, int64_t m) {
    const int64_t base = r->base, wrap = r->wrap;
    const uint64_t size = (uint64_t)r->size;
    uint64_t bad = 0;
    for (int64_t i = 0; i < m; i++) {
        const int64_t x = v[i] - base + (v[i] < 0 ? wrap : 0);
        bad |= (uint64_t)((uint64_t)x >= size);
        v[i] = x;
    }
    return !bad;
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
