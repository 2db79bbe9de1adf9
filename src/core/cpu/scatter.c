/* scatter.c: kernels that write at positions held in tensors: index_put (and index_add, index_copy,
 * index_fill) and scatter.
 *
 * Where several values go to one place, they go there in the order of the index tensor, whatever
 * the number of threads: threads share out the destination, never the indices of one place. */
#include "../interrupt.h"
#include "index.h"

/* ---- combining ------------------------------------------------------------------------------- */

/* Where x[j * xs + v[j] * dx] with v[j] - lo < span: combines y[j * ys] into it. */
typedef void (*put_fn)(int64_t n, char *x, int64_t xs, int64_t dx, const int64_t *v, int64_t lo,
                       uint64_t span, const char *y, int64_t ys);
/* d[i * ds] combined with s[i * ss] */
typedef void (*row_fn)(int64_t n, char *d, int64_t ds, const char *s, int64_t ss);

#define PUT(name, T, expr)                                                                         \
    static void put_##name(int64_t n, char *x, int64_t xs, int64_t dx, const int64_t *v,           \
                           int64_t lo, uint64_t span, const char *y, int64_t ys) {                 \
        if (span == UINT64_MAX && xs == 0 && dx == (int64_t)sizeof(T)) {                           \
            T *o = (T *)x;                                                                         \
            for (int64_t j = 0; j < n; j++) {                                                      \
                const T a = o[v[j]], b = *(const T *)(y + j * ys);                                 \
                (void)a;                                                                           \
                o[v[j]] = (T)(expr);                                                               \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t j = 0; j < n; j++) {                                                          \
            if ((uint64_t)(v[j] - lo) >= span) continue;                                           \
            T *d = (T *)(x + j * xs + v[j] * dx);                                                  \
            const T a = *d, b = *(const T *)(y + j * ys);                                          \
            (void)a;                                                                               \
            *d = (T)(expr);                                                                        \
        }                                                                                          \
    }                                                                                              \
    static void row_##name(int64_t n, char *d, int64_t ds, const char *s, int64_t ss) {            \
        if (ds == (int64_t)sizeof(T) && ss == (int64_t)sizeof(T)) {                                \
            T *restrict p = (T *)d;                                                                \
            const T *restrict q = (const T *)s;                                                    \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = p[i], b = q[i];                                                        \
                (void)a;                                                                           \
                p[i] = (T)(expr);                                                                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T a = *(T *)(d + i * ds), b = *(const T *)(s + i * ss);                          \
            (void)a;                                                                               \
            *(T *)(d + i * ds) = (T)(expr);                                                        \
        }                                                                                          \
    }

PUT(set1, uint8_t, b)
PUT(set2, uint16_t, b)
PUT(set4, uint32_t, b)
PUT(set8, uint64_t, b)
/* NaN wins over any number. */
#define FLOATS(T, t)                                                                               \
    PUT(add_##t, T, a + b)                                                                         \
    PUT(mul_##t, T, a *b)                                                                          \
    PUT(max_##t, T, (a != a || a > b) ? a : b)                                                     \
    PUT(min_##t, T, (a != a || a < b) ? a : b)
#define INTS(T, U, t)                                                                              \
    PUT(add_##t, T, (U)a + (U)b)                                                                   \
    PUT(mul_##t, T, (U)a *(U)b)                                                                    \
    PUT(max_##t, T, a > b ? a : b)                                                                 \
    PUT(min_##t, T, a < b ? a : b)
FLOATS(float, f32)
FLOATS(double, f64)
INTS(int64_t, uint64_t, i64)
INTS(int32_t, uint32_t, i32)
INTS(int16_t, uint32_t, i16)
INTS(int8_t, uint32_t, i8)
INTS(uint8_t, uint32_t, u8)
PUT(add_b, uint8_t, a | b)
PUT(mul_b, uint8_t, a &b)

typedef struct combiner {
    put_fn put;
    row_fn row;
} combiner;

/* NULL for the half types, which the ops convert first. */
static combiner pick_combiner(int dtype, int combine) {
#define C(name)                                                                                    \
    { put_##name, row_##name }
#define ALL(t)                                                                                     \
    { C(add_##t), C(mul_##t), C(max_##t), C(min_##t) }
    static const combiner table[SFT_DTYPE_COUNT][4] = {
        [SFT_bool] = {C(add_b), C(mul_b), C(add_b), C(mul_b)},
        [SFT_uint8] = ALL(u8),
        [SFT_int8] = ALL(i8),
        [SFT_int16] = ALL(i16),
        [SFT_int32] = ALL(i32),
        [SFT_int64] = ALL(i64),
        [SFT_float32] = ALL(f32),
        [SFT_float64] = ALL(f64),
    };
    static const combiner sets[4] = {C(set1), C(set2), C(set4), C(set8)};
#undef ALL
#undef C
    if (combine != SFT_COMBINE_SET) return table[dtype][combine - 1];
    size_t es = sft_dtype_size((sft_dtype)dtype);
    return sets[es == 1 ? 0 : es == 2 ? 1 : es == 4 ? 2 : 3];
}

/* Into how many parts should the destination be cut for `work` elements? */
static int64_t parts_for(int64_t work) {
    int64_t n = work / SFT_GRAIN, threads = sft_get_num_threads();
    return n < 1 ? 1 : n < threads ? n : threads;
}

/* ---- index_put ------------------------------------------------------------------------------- */

typedef struct putting {
    combiner fn;
    char *x;
    const char *y;
    nd before, after; /* operands: x, y */
    int64_t nb, ystep;
    const int64_t *v; /* [nb]: the places are x + v[i] * scale */
    int64_t scale;
    int64_t parts, first,
        reach; /* the destination is cut by v: parts of first .. first + reach - 1 */
    bool by_before;
} putting;

static void put_rows(const putting *u, int64_t lo, int64_t hi, char *x, const char *y) {
    const nd *a = &u->after;
    const int64_t sx = a->stride[0][a->ndim - 1], sy = a->stride[1][a->ndim - 1];
    for (int64_t i = 0; i < u->nb; i++) {
        if (u->v[i] < lo || u->v[i] >= hi) continue;
        char *to = x + u->v[i] * u->scale;
        const char *soon = x + u->v[i + 3 < u->nb ? i + 3 : i] * u->scale;
        __builtin_prefetch(soon, 1);
        __builtin_prefetch(soon + 64, 1);
        __builtin_prefetch(soon + 128, 1);
        if (a->ndim == 1) {
            u->fn.row(a->size[0], to, sx, y + i * u->ystep, sy);
            continue;
        }
        nd_pos p;
        nd_seek(a, 0, &p);
        for (int64_t done = 0; done < a->numel;) {
            int64_t len = nd_left(a, &p);
            u->fn.row(len, to + p.off[0], sx, y + i * u->ystep + p.off[1], sy);
            nd_advance(a, &p, len);
            done += len;
        }
    }
}

static void put_range(void *ctx, int64_t begin, int64_t end) {
    const putting *u = ctx;
    const bool all = u->by_before || u->parts == 1;
    int64_t f = u->by_before ? begin : 0, f_end = u->by_before ? end : u->before.numel;
    int64_t lo = u->first, hi = u->first + u->reach;
    if (!all) {
        if (end < u->parts) hi = lo + (int64_t)((double)u->reach / (double)u->parts * (double)end);
        lo += (int64_t)((double)u->reach / (double)u->parts * (double)begin);
    }
    nd_pos p;
    nd_seek(&u->before, f, &p);
    for (; f < f_end; f++) {
        if (u->after.numel == 1)
            u->fn.put(u->nb, u->x + p.off[0], 0, u->scale, u->v, lo,
                      all ? UINT64_MAX : (uint64_t)(hi - lo), u->y + p.off[1], u->ystep);
        else
            put_rows(u, lo, hi, u->x + p.off[0], u->y + p.off[1]);
        nd_advance(&u->before, &p, 1);
    }
}

/* Can a checked index tensor be used as it lies there? */
static bool usable(const index_reader *r) {
    const sft_tensor *t = r->t;
    if (t->dtype != SFT_int64 || r->space.ndim != 1 || (r->space.stride[0][0] != 8 && t->numel > 1))
        return false;
    if (!r->wrap) return true;
    const int64_t *v = (const int64_t *)t->data, n = t->numel;
    int64_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= v[i];
    return any >= 0;
}

typedef struct fill_offsets {
    const index_reader *r;
    int64_t *off, step;
    bool first;
} fill_offsets;

static void offsets_range(void *ctx, int64_t begin, int64_t end) {
    const fill_offsets *f = ctx;
    int64_t v[INDEX_BLOCK];
    for (int64_t at = begin; at < end; at += INDEX_BLOCK) {
        int64_t m = end - at < INDEX_BLOCK ? end - at : INDEX_BLOCK;
        index_read(f->r, at, m, v);
        for (int64_t i = 0; i < m; i++)
            f->off[at + i] = (f->first ? 0 : f->off[at + i]) + v[i] * f->step;
    }
}

KERNEL(index_put)(const sft_kcall *k) {
    const sft_index_params *p = k->params;
    const sft_tensor *y = k->t[0], *x = k->t[1];
    const int64_t es = (int64_t)sft_esize(x);
    putting u = {.fn = pick_combiner(x->dtype, p->combine),
                 .x = x->data,
                 .y = y->data,
                 .nb = 1,
                 .reach = es};
    if (!u.fn.put)
        return sft_fail(SFT_ERR_UNSUPPORTED, "%s: not supported for %s on cpu", p->name,
                        sft_dtype_name((sft_dtype)x->dtype));
    nd_init(&u.before, 2);
    nd_init(&u.after, 2);
    for (int d = 0; d < p->nbefore; d++)
        nd_add(&u.before, x->shape[d], x->strides[d] * es, y->strides[d] * es, 0);
    nd b;
    nd_init(&b, 1);
    for (int d = p->nbefore; d < p->nbefore + p->nb; d++)
        nd_add(&b, y->shape[d], y->strides[d] * es, 0, 0);
    nd_finish(&b);
    u.nb = b.numel;
    u.ystep = b.stride[0][0];
    for (int d = p->nbefore + p->nidx; d < x->ndim; d++)
        nd_add(&u.after, x->shape[d], x->strides[d] * es, y->strides[d - p->nidx + p->nb] * es, 0);
    nd_finish(&u.before);
    nd_finish(&u.after);
    /* All indices are checked before anything is written. */
    index_reader reader[SFT_MAX_DIMS];
    for (int j = 0; j < p->nidx; j++) {
        int d = p->nbefore + j;
        index_reader_init(&reader[j], k->t[2 + j], x->shape[d], p->dims[j], k->index_base, p->wrap);
        SFT_TRY(index_check(p->name, &reader[j]));
        u.reach += x->shape[d] ? (x->shape[d] - 1) * x->strides[d] * es : 0;
    }
    int64_t work = u.before.numel * u.nb * u.after.numel;
    if (!work) return SFT_OK;
    sft_tensor *off = NULL;
    if (p->nidx == 1 && usable(&reader[0])) {
        u.v = (const int64_t *)k->t[2]->data;
        u.scale = x->strides[p->nbefore] * es;
        u.x -= reader[0].base * u.scale;
        u.first = reader[0].base;
        u.reach = reader[0].size;
    } else {
        off = sft_empty(&u.nb, 1, SFT_int64, (sft_device){SFT_CPU, 0});
        if (!off) return sft_last_status();
        const unsigned before = sft_interrupt_count();
        for (int j = 0; j < p->nidx; j++) {
            fill_offsets f = {&reader[j], (int64_t *)off->data, x->strides[p->nbefore + j] * es,
                              j == 0};
            sft_parallel_for(u.nb, 4 * SFT_GRAIN, offsets_range, &f);
        }
        if (sft_interrupted() || sft_interrupt_count() != before) { /* not all are filled in */
            sft_release(off);
            return sft_fail(SFT_ERR_INTERRUPTED, "interrupted!");
        }
        u.v = (const int64_t *)off->data;
        u.scale = 1;
    }
    u.parts = parts_for(work);
    u.by_before = u.before.numel >= 2 * u.parts;
    if (u.by_before) {
        int64_t grain = SFT_GRAIN / (u.nb * u.after.numel);
        sft_parallel_for(u.before.numel, grain < 1 ? 1 : grain, put_range, &u);
    } else {
        sft_parallel_for(u.parts, 1, put_range, &u);
    }
    sft_release(off);
    return SFT_OK;
}

/* ---- scatter --------------------------------------------------------------------------------- */

typedef struct scattering {
    combiner fn;
    index_reader reader;
    char *x;
    const char *y, *idx;
    nd others; /* dims other than dim; operands: x, y, index */
    int64_t len, dy, di, dx;
    int64_t parts;
    int idx_dtype;
} scattering;

/* Indices as the caller counts: x is moved so that they need no correction. */
static const int64_t *load_run(const scattering *s, int64_t n, const char *idx, int64_t stride,
                               int64_t *buf) {
    return index_raw(s->idx_dtype, idx, stride, n, buf);
}

static void along(const scattering *s, const nd_pos *p, int64_t lo, uint64_t span) {
    int64_t buf[INDEX_BLOCK];
    for (int64_t i = 0; i < s->len; i += INDEX_BLOCK) {
        int64_t m = s->len - i < INDEX_BLOCK ? s->len - i : INDEX_BLOCK;
        const int64_t *v = load_run(s, m, s->idx + p->off[2] + i * s->di, s->di, buf);
        s->fn.put(m, s->x + p->off[0], 0, s->dx, v, lo, span, s->y + p->off[1] + i * s->dy, s->dy);
    }
}

/* A range of the other dims, whole runs along dim. */
static void scatter_along(void *ctx, int64_t begin, int64_t end) {
    const scattering *s = ctx;
    nd_pos p;
    nd_seek(&s->others, begin, &p);
    for (; begin < end; begin++) {
        along(s, &p, 0, UINT64_MAX);
        nd_advance(&s->others, &p, 1);
    }
}

/* Parts of the destination along dim, all of the other dims. */
static void scatter_parts(void *ctx, int64_t begin, int64_t end) {
    const scattering *s = ctx;
    int64_t size = s->reader.size;
    if (s->parts == 1) {
        scatter_along(ctx, 0, s->others.numel);
        return;
    }
    int64_t lo = (int64_t)((double)size / (double)s->parts * (double)begin), hi = size;
    if (end < s->parts) hi = (int64_t)((double)size / (double)s->parts * (double)end);
    nd_pos p;
    nd_seek(&s->others, 0, &p);
    for (int64_t o = 0; o < s->others.numel; o++) {
        along(s, &p, lo + s->reader.base, (uint64_t)(hi - lo));
        nd_advance(&s->others, &p, 1);
    }
}

/* A range of the other dims, row by row of their innermost one. */
static void scatter_across(void *ctx, int64_t begin, int64_t end) {
    const scattering *s = ctx;
    int64_t buf[INDEX_BLOCK];
    const nd *o = &s->others;
    const int64_t xs = o->stride[0][o->ndim - 1], ys = o->stride[1][o->ndim - 1],
                  is = o->stride[2][o->ndim - 1];
    nd_pos p;
    nd_seek(o, begin, &p);
    while (begin < end) {
        int64_t m = nd_left(o, &p);
        if (m > end - begin) m = end - begin;
        if (m > INDEX_BLOCK) m = INDEX_BLOCK;
        for (int64_t i = 0; i < s->len; i++) {
            const int64_t *v = load_run(s, m, s->idx + p.off[2] + i * s->di, is, buf);
            s->fn.put(m, s->x + p.off[0], xs, s->dx, v, 0, UINT64_MAX, s->y + p.off[1] + i * s->dy,
                      ys);
        }
        nd_advance(o, &p, m);
        begin += m;
    }
}

KERNEL(scatter)(const sft_kcall *k) {
    const sft_gather_params *p = k->params;
    const sft_tensor *x = k->t[0], *idx = k->t[1], *y = k->t[2];
    const int64_t es = (int64_t)sft_esize(x), ies = (int64_t)sft_esize(idx);
    const bool one = y->ndim == 0; /* a number for all */
    scattering s = {.fn = pick_combiner(x->dtype, p->combine),
                    .x = x->data,
                    .y = y->data,
                    .idx = idx->data,
                    .len = 1,
                    .dx = es,
                    .idx_dtype = idx->dtype};
    if (!s.fn.put)
        return sft_fail(SFT_ERR_UNSUPPORTED, "%s: not supported for %s on cpu", p->name,
                        sft_dtype_name((sft_dtype)x->dtype));
    index_reader_init(&s.reader, idx, x->ndim ? x->shape[p->dim] : 1, p->dim, k->index_base, false);
    SFT_TRY(index_check(p->name, &s.reader));
    if (!idx->numel) return SFT_OK;
    nd_init(&s.others, 3);
    for (int d = 0; d < idx->ndim; d++) {
        int64_t xs = x->ndim ? x->strides[d] * es : es, ys = one ? 0 : y->strides[d] * es;
        if (d == p->dim) {
            s.len = idx->shape[d];
            s.dx = xs;
            s.dy = ys;
            s.di = idx->strides[d] * ies;
        } else {
            nd_add(&s.others, idx->shape[d], xs, ys, idx->strides[d] * ies);
        }
    }
    s.x -= s.reader.base * s.dx;
    nd_finish(&s.others);
    const nd *o = &s.others;
    int64_t row = o->size[o->ndim - 1], grain = SFT_GRAIN / s.len;
    if (row >= 16 && (s.len < 16 || s.di > o->stride[2][o->ndim - 1])) {
        sft_parallel_for(o->numel, grain < 64 ? 64 : grain, scatter_across, &s);
        return SFT_OK;
    }
    s.parts = parts_for(o->numel * s.len);
    if (o->numel >= 2 * s.parts)
        sft_parallel_for(o->numel, grain < 1 ? 1 : grain, scatter_along, &s);
    else
        sft_parallel_for(s.parts, 1, scatter_parts, &s);
    return SFT_OK;
}
