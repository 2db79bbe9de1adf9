/* nd.h: walks through strided index spaces, row by row of their innermost dim. */
#ifndef SFT_CPU_ND_H
#define SFT_CPU_ND_H

#include "kernels.h"

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

#endif
