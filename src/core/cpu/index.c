/* index.c: kernels that read at positions held in tensors: index (and index_select, take) and
 * gather; and the checks of index tensors. */
#include "../interrupt.h"
#include "bytes.h"
#include "index.h"
#include <stdio.h>

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_range(void *ctx, int64_t begin, int64_t end) {
    struct {
        const index_reader *r;
        _Atomic int64_t bad;
    } *c = ctx;
    int64_t v[INDEX_BLOCK];
    const nd *n = &c->r->space;
    for (int64_t at = begin; at < end; at += INDEX_BLOCK) {
        int64_t m = end - at < INDEX_BLOCK ? end - at : INDEX_BLOCK, step = n->stride[0][0];
        bool ok =
            n->ndim == 1
                ? index_in_range(
                      c->r, index_raw(c->r->t->dtype, c->r->t->data + at * step, step, m, v), m)
                : index_read(c->r, at, m, v);
        if (!ok) {
            index_note(&c->bad, at);
            return;
        }
    }
}

sft_status index_check(const char *op, const index_reader *r) {
    struct {
        const index_reader *r;
        _Atomic int64_t bad;
    } c = {r, INT64_MAX};
    const unsigned before = sft_interrupt_count();
    sft_parallel_for(r->t->numel, 4 * SFT_GRAIN, check_range, &c);
    if (c.bad != INT64_MAX) return index_fail(op, r, c.bad);
    /* Nobody may go by indices that were not all looked at. */
    if (sft_interrupted() || sft_interrupt_count() != before)
        return sft_fail(SFT_ERR_INTERRUPTED, "interrupted!");
    return SFT_OK;
}

sft_status index_fail(const char *op, const index_reader *r, int64_t from) {
    const sft_tensor *t = r->t;
    int64_t v[INDEX_BLOCK], pos = t->numel;
    for (int64_t at = from; at < t->numel && pos == t->numel; at += INDEX_BLOCK) {
        int64_t m = t->numel - at < INDEX_BLOCK ? t->numel - at : INDEX_BLOCK;
        if (index_read(r, at, m, v)) continue;
        for (int64_t i = 0; i < m && pos == t->numel; i++)
            if ((uint64_t)v[i] >= (uint64_t)r->size) pos = at + i;
    }
    int64_t index[SFT_MAX_DIMS], rest = pos;
    for (int d = t->ndim - 1; d >= 0; d--) {
        index[d] = t->shape[d] ? rest % t->shape[d] : 0;
        rest = t->shape[d] ? rest / t->shape[d] : 0;
    }
    sft_value value = sft_v_int(0);
    sft_get(t, index, &value);
    const int64_t raw = value.u.i;
    char where[200] = "";
    if (t->ndim) {
        size_t n = (size_t)snprintf(where, sizeof where, " at position [");
        for (int d = 0; d < t->ndim && n < sizeof where; d++)
            n += (size_t)snprintf(where + n, sizeof where - n, d ? ", %lld" : "%lld",
                                  (long long)(index[d] + r->base));
        if (n < sizeof where) snprintf(where + n, sizeof where - n, "]");
    }
    char expected[100];
    if (r->size == 0)
        snprintf(expected, sizeof expected, "it has no elements");
    else
        snprintf(expected, sizeof expected, "expected %lld to %lld%s", (long long)r->base,
                 (long long)(r->size - 1 + r->base), r->wrap ? ", or negative from the end" : "");
    return sft_fail(
        SFT_ERR_INDEX, "%s: index %lld%s is out of range for dim %lld of size %lld (%s)%s", op,
        (long long)raw, where, (long long)(r->dim + r->base), (long long)r->size, expected,
        r->base && raw == 0 ? "; indices start at 1: these look 0-based, add 1" : "");
}

/* ---- index ----------------------------------------------------------------------------------- */

typedef struct lookup {
    const sft_index_params *p;
    index_reader reader[SFT_MAX_DIMS];
    int64_t step[SFT_MAX_DIMS]; /* bytes in x per unit of an index */
    const char *x;
    char *y;
    nd before, after;  /* operands: x, y */
    int64_t nb, ystep; /* positions of B, bytes between them in y */
    int64_t es;
    int64_t block_b, block_f; /* a task: so many of B, so many of before */
    int64_t tasks_b;
    _Atomic int64_t bad[SFT_MAX_DIMS];
} lookup;

/* Copies n elements at x + off[i] to y + i * ystep. */
static void pick(int64_t n, char *y, int64_t ystep, const char *x, const int64_t *off, int64_t es) {
#define PICK(T)                                                                                    \
    if (ystep == (int64_t)sizeof(T)) {                                                             \
        T *restrict o = (T *)y;                                                                    \
        for (int64_t i = 0; i < n; i++) o[i] = *(const T *)(x + off[i]);                           \
    } else {                                                                                       \
        for (int64_t i = 0; i < n; i++) *(T *)(y + i * ystep) = *(const T *)(x + off[i]);          \
    }                                                                                              \
    break
    switch (es) {
    case 1:
        PICK(uint8_t);
    case 2:
        PICK(uint16_t);
    case 4:
        PICK(uint32_t);
    default:
        PICK(uint64_t);
    }
#undef PICK
}

static void copy_strided(int64_t n, char *d, int64_t ds, const char *s, int64_t ss, int64_t es) {
    if (ds == es && ss == es) {
        sft_copy_bytes(d, s, (size_t)(n * es));
        return;
    }
#define MOVE(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) *(T *)(d + i * ds) = *(const T *)(s + i * ss);                 \
    break
    switch (es) {
    case 1:
        MOVE(uint8_t);
    case 2:
        MOVE(uint16_t);
    case 4:
        MOVE(uint32_t);
    default:
        MOVE(uint64_t);
    }
#undef MOVE
}

/* n rows of the shape of `after`, from x + off[i]. */
static void pick_rows(const lookup *l, int64_t n, char *y, const char *x, const int64_t *off) {
    const nd *a = &l->after;
    const int64_t es = l->es, sx = a->stride[0][a->ndim - 1], sy = a->stride[1][a->ndim - 1];
    if (a->ndim == 1) {
        const int64_t len = a->size[0];
        for (int64_t i = 0; i < n; i++) {
            /* rows lie anywhere: the first lines of a later one are fetched in time */
            const char *soon = x + off[i + 3 < n ? i + 3 : n - 1];
            __builtin_prefetch(soon);
            __builtin_prefetch(soon + 64);
            __builtin_prefetch(soon + 128);
            copy_strided(len, y + i * l->ystep, sy, x + off[i], sx, es);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        nd_pos p;
        nd_seek(a, 0, &p);
        for (int64_t done = 0; done < a->numel;) {
            int64_t len = nd_left(a, &p);
            copy_strided(len, y + i * l->ystep + p.off[1], sy, x + off[i] + p.off[0], sx, es);
            nd_advance(a, &p, len);
            done += len;
        }
    }
}

/* Byte offsets in x of positions b .. b+m of B; false: a bad index was noted. */
static bool offsets(lookup *l, int64_t b, int64_t m, int64_t *off) {
    int64_t v[INDEX_BLOCK];
    for (int j = 0; j < l->p->nidx; j++) {
        int64_t *to = j ? v : off;
        if (!index_read(&l->reader[j], b, m, to)) {
            index_note(&l->bad[j], b);
            return false;
        }
        const int64_t step = l->step[j];
        if (j)
            for (int64_t i = 0; i < m; i++) off[i] += v[i] * step;
        else
            for (int64_t i = 0; i < m; i++) off[i] *= step;
    }
    return true;
}

static void lookup_range(void *ctx, int64_t begin, int64_t end) {
    lookup *l = ctx;
    int64_t off[INDEX_BLOCK];
    for (int64_t task = begin; task < end; task++) {
        int64_t b0 = task % l->tasks_b * l->block_b, f = task / l->tasks_b * l->block_f;
        int64_t m = l->nb - b0 < l->block_b ? l->nb - b0 : l->block_b;
        int64_t f_end = f + l->block_f < l->before.numel ? f + l->block_f : l->before.numel;
        if (!offsets(l, b0, m, off)) return;
        nd_pos p;
        nd_seek(&l->before, f, &p);
        for (; f < f_end; f++) {
            char *y = l->y + p.off[1] + b0 * l->ystep;
            const char *x = l->x + p.off[0];
            if (l->after.numel == 1)
                pick(m, y, l->ystep, x, off, l->es);
            else
                pick_rows(l, m, y, x, off);
            nd_advance(&l->before, &p, 1);
        }
    }
}

/* Splits the tensors' dims into before, B and after. */
static void lookup_init(lookup *l, const sft_kcall *k) {
    const sft_index_params *p = k->params;
    const sft_tensor *y = k->t[0], *x = k->t[1];
    l->p = p;
    l->es = (int64_t)sft_esize(x);
    l->x = x->data;
    l->y = y->data;
    nd_init(&l->before, 2);
    nd_init(&l->after, 2);
    for (int d = 0; d < p->nbefore; d++)
        nd_add(&l->before, x->shape[d], x->strides[d] * l->es, y->strides[d] * l->es, 0);
    nd b;
    nd_init(&b, 1);
    for (int d = 0; d < p->nb; d++)
        nd_add(&b, y->shape[p->nbefore + d], y->strides[p->nbefore + d] * l->es, 0, 0);
    nd_finish(&b);
    for (int d = p->nbefore + p->nidx; d < x->ndim; d++)
        nd_add(&l->after, x->shape[d], x->strides[d] * l->es,
               y->strides[d - p->nidx + p->nb] * l->es, 0);
    nd_finish(&l->before);
    nd_finish(&l->after);
    l->nb = b.numel;
    l->ystep = b.stride[0][0];
    for (int j = 0; j < p->nidx; j++) {
        int d = p->nbefore + j;
        index_reader_init(&l->reader[j], k->t[2 + j], x->shape[d], p->dims[j], k->index_base,
                          p->wrap);
        l->step[j] = x->strides[d] * l->es;
        l->bad[j] = INT64_MAX;
    }
}

KERNEL(index)(const sft_kcall *k) {
    lookup l;
    lookup_init(&l, k);
    int64_t inner = l.after.numel > 0 ? l.after.numel : 1;
    if (l.before.numel == 0 || l.after.numel == 0) {
        for (int j = 0; j < l.p->nidx; j++) SFT_TRY(index_check(l.p->name, &l.reader[j]));
        return SFT_OK;
    }
    /* A task moves about 32 K elements, or 64 KB in whole rows. */
    l.block_b = SFT_GRAIN / inner;
    l.block_b = l.block_b < 1 ? 1 : l.block_b > INDEX_BLOCK ? INDEX_BLOCK : l.block_b;
    if (l.block_b > l.nb && l.nb > 0) l.block_b = l.nb;
    l.block_f = SFT_GRAIN / (l.block_b * inner);
    if (l.block_f < 1) l.block_f = 1;
    l.tasks_b = (l.nb + l.block_b - 1) / l.block_b;
    int64_t tasks = l.tasks_b * ((l.before.numel + l.block_f - 1) / l.block_f);
    int64_t cost = l.block_b * l.block_f * inner;
    sft_parallel_for(tasks, cost >= SFT_GRAIN / 2 ? 1 : SFT_GRAIN / cost, lookup_range, &l);
    for (int j = 0; j < l.p->nidx; j++)
        if (l.bad[j] != INT64_MAX) return index_fail(l.p->name, &l.reader[j], l.bad[j]);
    return SFT_OK;
}

/* ---- gather ---------------------------------------------------------------------------------- */

typedef struct gathering {
    index_reader reader;
    char *y;
    const char *x, *idx;
    nd others; /* dims other than dim; operands: y, x, index */
    int64_t len, dy, di,
        dx; /* along dim: length, steps of y and index, bytes per index unit of x */
    int64_t es, chunk, nchunks;
    int idx_dtype;
    _Atomic int64_t bad;
} gathering;

/* y[j * ys] = x[j * xs + v[j] * dx] */
static void gather_run(int64_t n, char *y, int64_t ys, const char *x, int64_t xs, const int64_t *v,
                       int64_t dx, int64_t es) {
#define RUN(T)                                                                                     \
    if (ys == (int64_t)sizeof(T) && xs == 0 && dx == (int64_t)sizeof(T)) {                         \
        T *restrict o = (T *)y;                                                                    \
        const T *restrict s = (const T *)x;                                                        \
        for (int64_t j = 0; j < n; j++) o[j] = s[v[j]];                                            \
    } else if (ys == (int64_t)sizeof(T) && xs == (int64_t)sizeof(T)) {                             \
        T *restrict o = (T *)y;                                                                    \
        for (int64_t j = 0; j < n; j++) o[j] = *((const T *)(x + v[j] * dx) + j);                  \
    } else {                                                                                       \
        for (int64_t j = 0; j < n; j++) *(T *)(y + j * ys) = *(const T *)(x + j * xs + v[j] * dx); \
    }                                                                                              \
    break
    switch (es) {
    case 1:
        RUN(uint8_t);
    case 2:
        RUN(uint16_t);
    case 4:
        RUN(uint32_t);
    default:
        RUN(uint64_t);
    }
#undef RUN
}

/* Raw indices, checked; NULL: one is out of range. x is moved so that they need no correction. */
static const int64_t *load_run(const gathering *g, int64_t n, const char *idx, int64_t stride,
                               int64_t *buf) {
    const int64_t *v = index_raw(g->idx_dtype, idx, stride, n, buf);
    return index_in_range(&g->reader, v, n) ? v : NULL;
}

/* Runs along dim: a task is a chunk of the dim at one position of the others. */
static void gather_along(void *ctx, int64_t begin, int64_t end) {
    gathering *g = ctx;
    int64_t buf[INDEX_BLOCK], other = begin / g->nchunks, chunk = begin % g->nchunks;
    nd_pos p;
    nd_seek(&g->others, other, &p);
    for (int64_t task = begin; task < end; task++) {
        int64_t i = chunk * g->chunk, stop = i + g->chunk < g->len ? i + g->chunk : g->len;
        for (; i < stop; i += INDEX_BLOCK) {
            int64_t m = stop - i < INDEX_BLOCK ? stop - i : INDEX_BLOCK;
            const int64_t *v = load_run(g, m, g->idx + p.off[2] + i * g->di, g->di, buf);
            if (!v) {
                index_note(&g->bad, 0);
                return;
            }
            gather_run(m, g->y + p.off[0] + i * g->dy, g->dy, g->x + p.off[1], 0, v, g->dx, g->es);
        }
        if (++chunk == g->nchunks) {
            chunk = 0;
            nd_advance(&g->others, &p, 1);
        }
    }
}

/* Runs across dim: along the innermost of the other dims. */
static void gather_across(void *ctx, int64_t begin, int64_t end) {
    gathering *g = ctx;
    int64_t buf[INDEX_BLOCK];
    const nd *o = &g->others;
    const int64_t ys = o->stride[0][o->ndim - 1], xs = o->stride[1][o->ndim - 1],
                  is = o->stride[2][o->ndim - 1];
    nd_pos p;
    nd_seek(o, begin, &p);
    while (begin < end) {
        int64_t m = nd_left(o, &p);
        if (m > end - begin) m = end - begin;
        if (m > INDEX_BLOCK) m = INDEX_BLOCK;
        for (int64_t i = 0; i < g->len; i++) {
            const int64_t *v = load_run(g, m, g->idx + p.off[2] + i * g->di, is, buf);
            if (!v) {
                index_note(&g->bad, 0);
                return;
            }
            gather_run(m, g->y + p.off[0] + i * g->dy, ys, g->x + p.off[1], xs, v, g->dx, g->es);
        }
        nd_advance(o, &p, m);
        begin += m;
    }
}

KERNEL(gather)(const sft_kcall *k) {
    const sft_gather_params *p = k->params;
    const sft_tensor *y = k->t[0], *x = k->t[1], *idx = k->t[2];
    if (!idx->numel) return SFT_OK;
    const int64_t es = (int64_t)sft_esize(x), ies = (int64_t)sft_esize(idx);
    gathering g = {.y = y->data,
                   .x = x->data,
                   .idx = idx->data,
                   .len = 1,
                   .es = es,
                   .idx_dtype = idx->dtype,
                   .bad = INT64_MAX};
    index_reader_init(&g.reader, idx, x->ndim ? x->shape[p->dim] : 1, p->dim, k->index_base, false);
    nd_init(&g.others, 3);
    for (int d = 0; d < idx->ndim; d++) {
        if (d == p->dim) {
            g.len = idx->shape[d];
            g.dy = y->strides[d] * es;
            g.dx = x->ndim ? x->strides[d] * es : es;
            g.di = idx->strides[d] * ies;
        } else {
            nd_add(&g.others, idx->shape[d], y->strides[d] * es, x->ndim ? x->strides[d] * es : 0,
                   idx->strides[d] * ies);
        }
    }
    if (!idx->ndim) g.dx = es;
    g.x -= g.reader.base * g.dx;
    nd_finish(&g.others);
    const nd *o = &g.others;
    int64_t row = o->size[o->ndim - 1];
    bool across = row >= 16 && (g.len < 16 || g.dy > o->stride[0][o->ndim - 1]);
    if (across) {
        int64_t grain = SFT_GRAIN / g.len;
        sft_parallel_for(o->numel, grain < 64 ? 64 : grain, gather_across, &g);
    } else {
        g.chunk = 8 * INDEX_BLOCK;
        g.nchunks = (g.len + g.chunk - 1) / g.chunk;
        int64_t cost = g.len < g.chunk ? g.len : g.chunk, grain = SFT_GRAIN / cost;
        sft_parallel_for(o->numel * g.nchunks, grain < 1 ? 1 : grain, gather_along, &g);
    }
    return g.bad == INT64_MAX ? SFT_OK : index_fail(p->name, &g.reader, 0);
}
