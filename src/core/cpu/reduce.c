/* reduce.c: the loops that all reductions share. Dims are ordered by memory and merged first; then
 * elements are taken in either along the reduced dims (inner: one result at a time) or row by row
 * with an accumulator per column (outer). Work is cut into units that depend on the sizes only,
 * never on the number of threads, and merged in order: so results don't depend on threads. */
#include "reduce.h"

typedef struct geometry {
    int nk, nr; /* kept and reduced dims after merging; slowest first */
    int64_t ksize[SFT_MAX_DIMS], kin[SFT_MAX_DIMS], kout[SFT_MAX_DIMS]; /* strides in bytes */
    int64_t rsize[SFT_MAX_DIMS], rin[SFT_MAX_DIMS];
    int64_t K, R;
} geometry;

typedef struct job {
    const red_kind *kind;
    red_call call;
    geometry g;
    const char *x;
    int xtype;
    char *out[2];
    int out_type[2];
    bool columns, direct;  /* outer; elements need no conversion */
    int64_t tile, tiles;   /* columns per unit; units along the last kept dim */
    int64_t block, blocks; /* reduced elements per unit; units along them */
    char *partial;         /* accumulators of all units, when blocks > 1 */
    size_t acc_bytes;
} job;

static void push_dim(int *n, int64_t *size, int64_t *a, int64_t *b, int64_t s, int64_t sa,
                     int64_t sb) {
    int i = *n;
    while (i > 0 && a[i - 1] < sa) {
        size[i] = size[i - 1];
        a[i] = a[i - 1];
        if (b) b[i] = b[i - 1];
        i--;
    }
    size[i] = s;
    a[i] = sa;
    if (b) b[i] = sb;
    ++*n;
}

static void merge_dims(int *n, int64_t *size, int64_t *a, int64_t *b) {
    int m = 0;
    for (int i = 0; i < *n; i++) {
        /* of a tensor without elements, products may wrap */
        if (m && (uint64_t)a[m - 1] == (uint64_t)a[i] * (uint64_t)size[i] &&
            (!b || (uint64_t)b[m - 1] == (uint64_t)b[i] * (uint64_t)size[i])) {
            size[m - 1] = (int64_t)((uint64_t)size[m - 1] * (uint64_t)size[i]);
            a[m - 1] = a[i];
            if (b) b[m - 1] = b[i];
        } else {
            size[m] = size[i];
            a[m] = a[i];
            if (b) b[m] = b[i];
            m++;
        }
    }
    *n = m;
}

static void measure(geometry *g, const sft_tensor *x, uint32_t mask, int64_t out_es) {
    int64_t es = (int64_t)sft_esize(x), step = out_es;
    *g = (geometry){.K = 1, .R = 1};
    int64_t out_stride[SFT_MAX_DIMS];
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (mask >> d & 1) continue;
        out_stride[d] = step;
        step *= x->shape[d];
    }
    for (int d = 0; d < x->ndim; d++) {
        if (mask >> d & 1) {
            g->R *= x->shape[d];
            if (x->shape[d] != 1)
                push_dim(&g->nr, g->rsize, g->rin, NULL, x->shape[d], x->strides[d] * es, 0);
        } else {
            g->K *= x->shape[d];
            if (x->shape[d] != 1)
                push_dim(&g->nk, g->ksize, g->kin, g->kout, x->shape[d], x->strides[d] * es,
                         out_stride[d]);
        }
    }
    merge_dims(&g->nk, g->ksize, g->kin, g->kout);
    merge_dims(&g->nr, g->rsize, g->rin, NULL);
    if (g->nk == 0) g->nk = 1, g->ksize[0] = 1, g->kin[0] = 0, g->kout[0] = out_es;
    if (g->nr == 0) g->nr = 1, g->rsize[0] = g->R, g->rin[0] = 0;
}

/* Address of position `at` of the reduced elements; *left: how many follow on the last dim. */
static int64_t seek(const geometry *g, int64_t at, int64_t *left) {
    int last = g->nr - 1;
    int64_t i = at % g->rsize[last], offset = i * g->rin[last];
    *left = g->rsize[last] - i;
    at /= g->rsize[last];
    for (int d = last - 1; d >= 0; d--) {
        offset += at % g->rsize[d] * g->rin[d];
        at /= g->rsize[d];
    }
    return offset;
}

static void take_inner(const job *j, const char *x, int64_t begin, int64_t end, char *acc,
                       int64_t c) {
    const geometry *g = &j->g;
    const int64_t step = g->kin[g->nk - 1], stride = g->rin[g->nr - 1];
    _Alignas(64) char buf[SFT_BLOCK * 8];
    while (begin < end) {
        int64_t left;
        const char *p = x + seek(g, begin, &left);
        if (left > end - begin) left = end - begin;
        for (int64_t col = 0; col < c; col++) {
            const char *q = p + col * step;
            if (j->direct) {
                j->kind->inner(q, left, begin, acc, c, col, &j->call);
                continue;
            }
            for (int64_t i = 0; i < left; i += SFT_BLOCK) {
                int64_t n = left - i < SFT_BLOCK ? left - i : SFT_BLOCK;
                sft_load(j->kind->ct, j->xtype, n, q + i * stride, stride, buf);
                j->kind->inner(buf, n, begin + i, acc, c, col, &j->call);
            }
        }
        begin += left;
    }
}

static void take_outer(const job *j, const char *x, int64_t begin, int64_t end, char *acc,
                       int64_t c) {
    const geometry *g = &j->g;
    const int64_t step = g->kin[g->nk - 1], stride = g->rin[g->nr - 1];
    _Alignas(64) char buf[RED_ROWS * RED_TILE * 8];
    const int64_t width = c * (j->kind->ct == SFT_float32 ? 4 : j->kind->ct == SFT_bool ? 1 : 8);
    while (begin < end) {
        int64_t left;
        const char *p = x + seek(g, begin, &left);
        if (left > end - begin) left = end - begin;
        if (j->direct) {
            j->kind->outer(p, left, stride, c, begin, acc, &j->call);
        } else {
            for (int64_t i = 0; i < left; i += RED_ROWS) {
                int64_t n = left - i < RED_ROWS ? left - i : RED_ROWS;
                for (int64_t r = 0; r < n; r++)
                    sft_load(j->kind->ct, j->xtype, c, p + (i + r) * stride, step, buf + r * width);
                j->kind->outer(buf, n, width, c, begin + i, acc, &j->call);
            }
        }
        begin += left;
    }
}

/* Where the columns of unit (outer, tile) lie; returns how many there are. */
static int64_t place(const job *j, int64_t at, int64_t *in, int64_t *out) {
    const geometry *g = &j->g;
    int last = g->nk - 1;
    int64_t first = at % j->tiles * j->tile, c = g->ksize[last] - first;
    at /= j->tiles;
    *in = first * g->kin[last];
    *out = first * g->kout[last];
    for (int d = last - 1; d >= 0; d--) {
        *in += at % g->ksize[d] * g->kin[d];
        *out += at % g->ksize[d] * g->kout[d];
        at /= g->ksize[d];
    }
    return c < j->tile ? c : j->tile;
}

static void finish(const job *j, const void *acc, int64_t c, int64_t out) {
    _Alignas(64) char buf[2][RED_TILE * 8];
    const red_kind *k = j->kind;
    k->finish(acc, c, &j->call, buf[0], buf[1]);
    int64_t step = j->g.kout[j->g.nk - 1], es = (int64_t)sft_dtype_size((sft_dtype)j->out_type[0]);
    for (int i = 0; i < k->nout; i++) {
        int64_t e = (int64_t)sft_dtype_size((sft_dtype)j->out_type[i]);
        sft_store(k->out_ct[i], j->out_type[i], c, buf[i], j->out[i] + out / es * e, step / es * e);
    }
}

static void run_units(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    _Alignas(64) char own[RED_SLOTS * RED_TILE * 8];
    for (int64_t u = begin; u < end; u++) {
        int64_t in, out, b = u % j->blocks, c = place(j, u / j->blocks, &in, &out);
        char *acc = j->partial ? j->partial + (size_t)u * j->acc_bytes : own;
        j->kind->init(acc, c);
        int64_t from = b * j->block, to = from + j->block < j->g.R ? from + j->block : j->g.R;
        if (j->columns)
            take_outer(j, j->x + in, from, to, acc, c);
        else
            take_inner(j, j->x + in, from, to, acc, c);
        if (!j->partial) finish(j, acc, c, out);
    }
}

static void merge_units(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t u = begin; u < end; u++) {
        int64_t in, out, c = place(j, u, &in, &out);
        char *acc = j->partial + (size_t)(u * j->blocks) * j->acc_bytes;
        for (int64_t b = 1; b < j->blocks; b++)
            j->kind->merge(acc, acc + (size_t)b * j->acc_bytes, c);
        finish(j, acc, c, out);
    }
}

/* Decides how the work is cut: by the sizes only. */
static void cut(job *j) {
    const geometry *g = &j->g;
    int64_t inner_k = g->ksize[g->nk - 1], R = g->R > 0 ? g->R : 1;
    int64_t ks = g->kin[g->nk - 1], rs = g->rin[g->nr - 1];
    j->columns = inner_k >= 16 && ((ks > 0 && ks < rs) || g->R <= 16);
    int64_t want = j->columns ? RED_TILE : SFT_GRAIN / R < 1 ? 1 : SFT_GRAIN / R;
    if (want > 64 && !j->columns) want = 64;
    j->tile = inner_k < want ? inner_k : want;
    j->tiles = (inner_k + j->tile - 1) / j->tile;
    int64_t units = g->K / inner_k * j->tiles;
    j->block = R;
    if (units < 32 && j->tile * R > 2 * SFT_GRAIN) {
        int64_t most = j->tile * R / SFT_GRAIN, n = (32 + units - 1) / units;
        if (n > most) n = most;
        j->block = (R + n - 1) / n;
        j->block = (j->block + 1023) / 1024 * 1024 < R && !j->columns
                       ? (j->block + 1023) / 1024 * 1024
                       : j->block;
    }
    j->blocks = (R + j->block - 1) / j->block;
}

sft_status red_run(const sft_kcall *k, const red_kind *kind) {
    const sft_reduce_params *p = k->params;
    const sft_tensor *x = k->t[kind->nout];
    job j = {.kind = kind, .x = x->data, .xtype = x->dtype};
    for (int i = 0; i < kind->nout; i++) {
        j.out[i] = k->t[i]->data;
        j.out_type[i] = k->t[i]->dtype;
    }
    measure(&j.g, x, p->mask, (int64_t)sft_esize(k->t[0]));
    if (j.g.K == 0) return SFT_OK;
    j.call = (red_call){j.g.R, p, k->index_base};
    cut(&j);
    int64_t es = (int64_t)sft_esize(x);
    int64_t step = j.columns ? j.g.kin[j.g.nk - 1] : j.g.rin[j.g.nr - 1];
    j.direct = kind->ct == x->dtype && (step == es || (!j.columns && j.g.R == 1));
    int64_t units = j.g.K / j.g.ksize[j.g.nk - 1] * j.tiles;
    int64_t work = j.tile * j.block, grain = work >= SFT_GRAIN ? 1 : SFT_GRAIN / (work ? work : 1);
    size_t bytes = 0;
    if (j.blocks > 1) {
        j.acc_bytes = (size_t)(kind->nslots * 8 * j.tile + 63) / 64 * 64;
        bytes = j.acc_bytes * (size_t)(units * j.blocks);
        j.partial = sft_alloc_zero(bytes);
        if (!j.partial) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    }
    sft_parallel_for(units * j.blocks, grain, run_units, &j);
    if (j.partial) {
        sft_parallel_for(units, SFT_GRAIN / (j.tile * j.blocks) + 1, merge_units, &j);
        sft_free(j.partial, bytes);
    }
    return SFT_OK;
}
