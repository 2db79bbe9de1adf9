/* join.c: cat, stack and their relatives; unbind, split and their relatives. */
#include "indexing.h"
#include "join.h"
#include "list.h"

/* ---- cat ------------------------------------------------------------------------------------- */

/* Runs the kernel where all parts are made of whole rows and of one dtype, else copies part by
 * part. */
static sft_status cat_into(sft_tensor *out, sft_tensor **in, int n, int dim) {
    bool plain = out->contiguous;
    int64_t pitch;
    for (int i = 0; i < n && plain; i++)
        plain = in[i]->dtype == out->dtype && sft_cat_rows(in[i], dim, &pitch);
    if (plain) {
        sft_tensor *few[17], **t = n <= 16 ? few : sft_alloc(sizeof *t * ((size_t)n + 1));
        if (!t) return sft_fail(SFT_ERR_MEMORY, "out of memory");
        t[0] = out;
        memcpy(t + 1, in, sizeof *t * (size_t)n);
        sft_cat_params p = {dim};
        sft_status st = sft_run(SFT_OP_cat, t, n + 1, &p);
        if (t != few) sft_free(t, sizeof *t * ((size_t)n + 1));
        return st;
    }
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        sft_tensor *to =
            sft_view_of(out, in[i]->shape, out->strides, out->ndim, at * out->strides[dim]);
        if (!to) return sft_last_status();
        sft_status st = sft_copy_raw(to, in[i]);
        sft_release(to);
        if (st != SFT_OK) return st;
        at += in[i]->shape[dim];
    }
    return SFT_OK;
}

static sft_dtype common_type(const sft_value *list) {
    sft_dtype dtype = (sft_dtype)list->u.tensors[0]->dtype;
    for (int i = 1; i < list->n; i++) {
        sft_tensor *t = list->u.tensors[i];
        if (t->dtype != dtype) dtype = sft_promote_types(dtype, (sft_dtype)t->dtype);
    }
    return dtype;
}

static sft_status check_list(const char *op, const sft_value *list) {
    if (list->n == 0) return sft_fail(SFT_ERR_ARGUMENT, "%s: the list of tensors is empty", op);
    for (int i = 0; i < list->n; i++)
        if (!list->u.tensors[i])
            return sft_fail(SFT_ERR_ARGUMENT, "%s: tensors[%d] is nil", op,
                            i + sft_thread()->index_base);
    return SFT_OK;
}

/* An empty vector goes with any shape, as it ever did in PyTorch. */
static bool is_nothing(const sft_tensor *t) { return t->ndim == 1 && t->shape[0] == 0; }

static sft_status cat_shape(const sft_value *list, int64_t d, int *dim, int64_t *shape, int *ndim) {
    const sft_tensor *first = NULL;
    int base = sft_thread()->index_base, at = 0;
    for (int i = 0; i < list->n; i++) {
        const sft_tensor *t = list->u.tensors[i];
        if (t->ndim == 0)
            return sft_fail(SFT_ERR_ARGUMENT, "cat: tensors[%d] has no dims; use sft.stack",
                            i + base);
        if (!first && !is_nothing(t)) first = t, at = i;
    }
    if (!first) first = list->u.tensors[0];
    *ndim = first->ndim;
    if ((*dim = sft_index_dim("cat", d, first->ndim)) < 0) return sft_last_status();
    memcpy(shape, first->shape, sizeof(int64_t) * first->ndim);
    shape[*dim] = 0;
    for (int i = 0; i < list->n; i++) {
        const sft_tensor *t = list->u.tensors[i];
        if (is_nothing(t)) continue;
        bool ok = t->ndim == first->ndim;
        for (int k = 0; k < first->ndim && ok; k++)
            ok = k == *dim || t->shape[k] == first->shape[k];
        if (!ok)
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "cat: sizes must agree but in dim %d: tensors[%d] has shape %s, tensors[%d] %s",
                *dim + base, at + base, SFT_SHAPE(first), i + base, SFT_SHAPE(t));
        if (__builtin_add_overflow(shape[*dim], t->shape[*dim], &shape[*dim]))
            return sft_fail(SFT_ERR_ARGUMENT, "cat: the result is too large");
    }
    return SFT_OK;
}

IMPL(cat) {
    const sft_value *list = &c->a[0];
    int64_t shape[SFT_MAX_DIMS];
    int dim = 0, ndim = 0, n = 0;
    SFT_TRY(check_list("cat", list));
    SFT_TRY(cat_shape(list, ARG_I(1), &dim, shape, &ndim));
    sft_tensor *out =
        sft_temp(sft_empty(shape, ndim, common_type(list), list->u.tensors[0]->device));
    if (!out) return sft_last_status();
    sft_tensor *few[16], **in = list->n <= 16 ? few : sft_alloc(sizeof *in * (size_t)list->n);
    if (!in) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    for (int i = 0; i < list->n; i++)
        if (!is_nothing(list->u.tensors[i]) || ndim == 1) in[n++] = list->u.tensors[i];
    c->a[1] = sft_v_int(dim);
    sft_status st = cat_into(out, in, n, dim);
    if (in != few) sft_free(in, sizeof *in * (size_t)list->n);
    return st == SFT_OK ? sft_ret(c, out) : st;
}
GRAD(cat) {
    int64_t at = 0;
    for (int i = 0; i < b->a[0].n; i++) {
        int ndim;
        const int64_t *shape = sft_bw_shape_at(b, 0, i, &ndim);
        bool nothing = ndim == 1 && shape[0] == 0;
        int64_t len = nothing ? 0 : shape[INT(1)];
        if (sft_bw_needs_at(b, 0, i)) {
            sft_tensor *g = DO(slice, G, VAL(1), at, at + len, 1);
            sft_bw_set_at(b, 0, i, nothing ? DO(reshape, g, 0) : g);
        }
        at += len;
    }
}

IMPL(stack) {
    const sft_value *list = &c->a[0];
    SFT_TRY(check_list("stack", list));
    sft_tensor *first = list->u.tensors[0];
    int base = sft_thread()->index_base, ndim = first->ndim + 1;
    int dim = sft_index_dim("stack", ARG_I(1), ndim);
    if (dim < 0) return sft_last_status();
    if (ndim > SFT_MAX_DIMS) return sft_fail(SFT_ERR_ARGUMENT, "stack: too many dims");
    for (int i = 1; i < list->n; i++) {
        const sft_tensor *t = list->u.tensors[i];
        if (t->ndim != first->ndim || memcmp(t->shape, first->shape, 8 * (size_t)t->ndim))
            return sft_fail(
                SFT_ERR_ARGUMENT,
                "stack: all tensors must have one shape: tensors[%d] has %s, tensors[%d] %s", base,
                SFT_SHAPE(first), i + base, SFT_SHAPE(t));
    }
    int64_t shape[SFT_MAX_DIMS];
    for (int d = 0, e = 0; d < ndim; d++) shape[d] = d == dim ? list->n : first->shape[e++];
    sft_tensor *out = sft_temp(sft_empty(shape, ndim, common_type(list), first->device));
    sft_tensor **in = sft_alloc(sizeof *in * (size_t)list->n);
    if (!out || !in) {
        if (in) sft_free(in, sizeof *in * (size_t)list->n);
        return out ? sft_fail(SFT_ERR_MEMORY, "out of memory") : sft_last_status();
    }
    c->a[1] = sft_v_int(dim);
    int n = 0;
    shape[dim] = 1;
    for (; n < list->n; n++) {
        /* t with the new dim */
        sft_tensor *t = list->u.tensors[n];
        int64_t strides[SFT_MAX_DIMS];
        for (int d = 0, e = 0; d < ndim; d++) strides[d] = d == dim ? 1 : t->strides[e++];
        if (!(in[n] = sft_view_of(t, shape, strides, ndim, 0))) break;
    }
    sft_status st = n == list->n ? cat_into(out, in, n, dim) : sft_last_status();
    while (n > 0) sft_release(in[--n]);
    sft_free(in, sizeof *in * (size_t)list->n);
    return st == SFT_OK ? sft_ret(c, out) : st;
}
GRAD(stack) {
    for (int i = 0; i < b->a[0].n; i++)
        if (sft_bw_needs_at(b, 0, i)) sft_bw_set_at(b, 0, i, DO(select, G, VAL(1), i));
}

/* ---- hstack, vstack, dstack ------------------------------------------------------------------ */

/* t with at least `n` dims, as numpy's atleast_nd has it. */
static sft_tensor *at_least(sft_tensor *t, int n) {
    if (t->ndim == 0) t = DO(unsqueeze, t, 0);
    if (t && n >= 2 && t->ndim == 1) t = DO(unsqueeze, t, 0);
    if (t && n == 3 && t->ndim == 2) t = DO(unsqueeze, t, 2);
    return t;
}

IMPL(nstack) {
    const sft_value *list = &c->a[0];
    SFT_TRY(check_list(c->info->name, list));
    int want = c->op == SFT_OP_hstack ? 1 : c->op == SFT_OP_dstack ? 3 : 2;
    sft_tensor **t = sft_alloc(sizeof *t * (size_t)list->n);
    if (!t) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    for (int i = 0; i < list->n; i++) {
        t[i] = list->u.tensors[i];
        if (c->op == SFT_OP_column_stack && t[i]->ndim <= 1)
            t[i] = DO(reshape, t[i], sft_v_ints((const int64_t[]){-1, 1}, 2));
        else
            t[i] = at_least(t[i], want);
    }
    int dim = c->op == SFT_OP_vstack ? 0 : c->op == SFT_OP_dstack ? 2 : 1;
    if (c->op == SFT_OP_hstack && t[0] && t[0]->ndim == 1) dim = 0;
    sft_status st =
        sft_failed() ? sft_last_status() : sft_ret(c, DO(cat, sft_v_tensors(t, list->n), dim));
    sft_free(t, sizeof *t * (size_t)list->n);
    return st;
}

/* ---- unbind, split --------------------------------------------------------------------------- */

/* Cuts x along dim into n views; begin_of(ctx, i) is where the i-th begins. */
typedef int64_t (*cut_fn)(const void *ctx, int i);

static sft_status cut(sft_opctx *c, int dim, int n, cut_fn begin_of, const void *ctx) {
    sft_tensor *x = c->a[0].u.t;
    c->list = sft_alloc(sizeof *c->list * (size_t)(n ? n : 1));
    if (!c->list) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    int64_t shape[SFT_MAX_DIMS], size = x->shape[dim];
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    for (int i = 0; i < n; i++) {
        int64_t from = begin_of(ctx, i), to = i + 1 < n ? begin_of(ctx, i + 1) : size;
        from = from > size ? size : from;
        to = to > size ? size : to;
        shape[dim] = to > from ? to - from : 0;
        c->list[i] =
            sft_view_of(x, shape, x->strides, x->ndim, shape[dim] ? from * x->strides[dim] : 0);
        if (c->list[i]) continue;
        while (i > 0) sft_release(c->list[--i]);
        sft_free(c->list, sizeof *c->list * (size_t)n);
        c->list = NULL;
        return sft_last_status();
    }
    c->nout = n;
    return SFT_OK;
}

static int64_t every(const void *ctx, int i) {
    int64_t at;
    return __builtin_mul_overflow(*(const int64_t *)ctx, (int64_t)i, &at) ? INT64_MAX : at;
}

/* The dim of a split, or -1. */
static int split_dim(sft_opctx *c) {
    sft_tensor *x = c->a[0].u.t;
    const char *op = c->info->name;
    if (!x->ndim) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: a tensor without dims can't be split", op);
        return -1;
    }
    return sft_index_dim(op, c->a[2].u.i, x->ndim);
}

static sft_status too_many(const char *op, int64_t n) {
    return sft_fail(SFT_ERR_ARGUMENT, "%s: %lld parts are too many", op, (long long)n);
}
enum { MOST_PARTS = 1 << 24 };

IMPL(split) {
    sft_tensor *x = c->a[0].u.t;
    int dim = split_dim(c);
    if (dim < 0) return sft_last_status();
    int64_t each = ARG_I(1), size = x->shape[dim];
    if (each < 0 || (each == 0 && size != 0))
        return sft_fail(SFT_ERR_ARGUMENT, "split: 'split_size' must be positive, got %lld",
                        (long long)each);
    int64_t n = each == 0 || size == 0 ? 1 : (size - 1) / each + 1;
    c->a[2] = sft_v_int(dim);
    if (n > MOST_PARTS) return too_many("split", n);
    return cut(c, dim, (int)n, every, &each);
}

IMPL(chunk) {
    sft_tensor *x = c->a[0].u.t;
    int dim = split_dim(c);
    if (dim < 0) return sft_last_status();
    int64_t n = ARG_I(1), size = x->shape[dim];
    if (n < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "chunk: 'chunks' must be positive, got %lld",
                        (long long)n);
    int64_t each = size == 0 ? 0 : (size - 1) / n + 1;
    if (each) n = (size - 1) / each + 1;
    c->a[2] = sft_v_int(dim);
    if (n > MOST_PARTS) return too_many("chunk", n);
    return cut(c, dim, (int)n, every, &each);
}

typedef struct sections {
    const int64_t *begin;
} sections;
static int64_t listed(const void *ctx, int i) { return ((const sections *)ctx)->begin[i]; }

IMPL(split_sizes) {
    sft_tensor *x = c->a[0].u.t;
    int dim = split_dim(c);
    if (dim < 0) return sft_last_status();
    const sft_value *s = &c->a[1];
    int64_t sum = 0, *begin = sft_alloc(8 * (size_t)(s->n + 1));
    if (!begin) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    bool ok = true;
    for (int i = 0; i < s->n && ok; i++) {
        begin[i] = sum;
        ok = s->u.ints[i] >= 0 && !__builtin_add_overflow(sum, s->u.ints[i], &sum);
    }
    c->a[2] = sft_v_int(dim);
    sections ctx = {begin};
    sft_status st;
    if (!ok || sum != x->shape[dim])
        st = sft_fail(
            SFT_ERR_ARGUMENT,
            "split: the sizes %s must not be negative and add up to %lld, the size of dim %d",
            sft_shape_text(s->u.ints, s->n, (char[160]){0}, 160), (long long)x->shape[dim],
            dim + sft_thread()->index_base);
    else
        st = cut(c, dim, s->n, listed, &ctx);
    sft_free(begin, 8 * (size_t)(s->n + 1));
    return st;
}

typedef struct even {
    int64_t size, n;
} even;
/* The first size % n parts are one longer. */
static int64_t evenly(const void *ctx, int i) {
    const even *e = ctx;
    int64_t more = e->size % e->n;
    return e->size / e->n * i + (i < more ? i : more);
}

static sft_status even_parts(sft_opctx *c, int dim, int64_t n) {
    if (n < 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "tensor_split: the number of parts must be positive, got %lld",
                        (long long)n);
    if (n > MOST_PARTS) return too_many("tensor_split", n);
    even e = {c->a[0].u.t->shape[dim], n};
    c->a[2] = sft_v_int(dim);
    return cut(c, dim, (int)n, evenly, &e);
}

static sft_status at_points(sft_opctx *c, int dim, const int64_t *points, int n) {
    int64_t size = c->a[0].u.t->shape[dim], *begin = sft_alloc(8 * ((size_t)n + 1));
    if (!begin) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    begin[0] = 0;
    for (int i = 0; i < n; i++) {
        int64_t p = points[i] < 0 ? points[i] + size : points[i];
        begin[i + 1] = p < 0 ? 0 : p > size ? size : p;
    }
    sections ctx = {begin};
    c->a[2] = sft_v_int(dim);
    sft_status st = cut(c, dim, n + 1, listed, &ctx);
    sft_free(begin, 8 * ((size_t)n + 1));
    return st;
}

IMPL(tensor_split) {
    int dim = split_dim(c);
    return dim < 0 ? sft_last_status() : even_parts(c, dim, ARG_I(1));
}
/* Split points: numbers of leading elements, in any index base. */
IMPL(tensor_split_at) {
    int dim = split_dim(c);
    return dim < 0 ? sft_last_status() : at_points(c, dim, c->a[1].u.ints, c->a[1].n);
}
IMPL(tensor_split_tensor) {
    int dim = split_dim(c);
    sft_tensor *t = c->a[1].u.t;
    int64_t v[256];
    if (dim < 0) return sft_last_status();
    SFT_TRY(sft_check_index_dtype("tensor_split", "indices", t));
    if (t->ndim > 1 || t->numel > 256)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "tensor_split: a tensor of split points has at most one dim and 256 elements");
    SFT_TRY(sft_copy_out(t, SFT_int64, v));
    return t->ndim ? at_points(c, dim, v, (int)t->numel) : even_parts(c, dim, v[0]);
}

/* hsplit, vsplit, dsplit */
IMPL(nsplit) {
    sft_tensor *x = c->a[0].u.t;
    bool points =
        c->op == SFT_OP_hsplit_at || c->op == SFT_OP_vsplit_at || c->op == SFT_OP_dsplit_at;
    bool h = c->op == SFT_OP_hsplit || c->op == SFT_OP_hsplit_at;
    bool d = c->op == SFT_OP_dsplit || c->op == SFT_OP_dsplit_at;
    int need = h ? 1 : d ? 3 : 2, dim = h ? (x->ndim == 1 ? 0 : 1) : d ? 2 : 0;
    if (x->ndim < need)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'self' must have at least %d dims, got shape %s",
                        c->info->name, need, SFT_SHAPE(x));
    c->a[2] = sft_v_int(dim);
    return points ? at_points(c, dim, c->a[1].u.ints, c->a[1].n) : even_parts(c, dim, ARG_I(1));
}

/* Zeros for a piece that got no gradient. */
static sft_tensor *zeros_for(const int64_t *shape, int ndim, int dim, int64_t len,
                             sft_tensor *like) {
    int64_t s[SFT_MAX_DIMS];
    memcpy(s, shape, sizeof(int64_t) * (size_t)ndim);
    s[dim] = len;
    return DO(zeros, sft_v_ints(s, ndim), sft_v_dtype((sft_dtype)like->dtype),
              sft_v_device(like->device));
}

/* Where piece i of a recorded split begins. */
static int64_t begin_of(sft_bw *b, int64_t size, int i) {
    const sft_value *s = &b->a[1];
    int n = b->node->nout;
    switch (b->node->op) {
    case SFT_OP_split:
        return every(&s->u.i, i);
    case SFT_OP_chunk: {
        int64_t each = size == 0 ? 0 : (size - 1) / s->u.i + 1;
        return every(&each, i);
    }
    case SFT_OP_split_sizes: {
        int64_t at = 0;
        for (int k = 0; k < i; k++) at += s->u.ints[k];
        return at;
    }
    default:
        break;
    }
    if (s->kind == SFT_V_INT || (s->kind == SFT_V_TENSOR && s->u.t->ndim == 0))
        return evenly(&(even){size, n}, i);
    int64_t p = 0, v[256];
    if (i == 0) return 0;
    if (s->kind == SFT_V_TENSOR)
        p = sft_copy_out(s->u.t, SFT_int64, v) == SFT_OK ? v[i - 1] : 0;
    else
        p = s->u.ints[i - 1];
    if (p < 0) p += size;
    return p < 0 ? 0 : p;
}

GRAD(split) {
    int ndim, n = b->node->nout, dim = (int)INT(2);
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    int64_t size = shape[dim], at = 0;
    sft_tensor *like = NULL, **t = sft_alloc(sizeof *t * (size_t)(n ? n : 1));
    bool ordered = true;
    for (int i = 0; i < n; i++) like = b->gl[i] ? b->gl[i] : like;
    for (int i = 0; i < n && t && like; i++) {
        int64_t from = begin_of(b, size, i), to = i + 1 < n ? begin_of(b, size, i + 1) : size;
        from = from > size ? size : from;
        to = to > size ? size : to;
        ordered &= from == at && to >= from;
        at = to;
        t[i] = b->gl[i] ? b->gl[i] : zeros_for(shape, ndim, dim, to > from ? to - from : 0, like);
    }
    if (!t || !like) {
        if (!t) sft_fail(SFT_ERR_MEMORY, "out of memory");
    } else if (ordered && at == size) {
        SET(0, DO(cat, sft_v_tensors(t, n), dim));
    } else {
        /* Pieces that overlap or leave gaps (split points out of order). */
        sft_tensor *sum = zeros_for(shape, ndim, dim, size, like);
        for (int i = 0; i < n; i++) {
            if (!b->gl[i] || !b->gl[i]->numel) continue;
            sum = DO(add, sum,
                     DO(_slice_backward, b->gl[i], sft_v_ints(shape, ndim), dim,
                        begin_of(b, size, i), 1));
        }
        SET(0, sum);
    }
    if (t) sft_free(t, sizeof *t * (size_t)(n ? n : 1));
}

IMPL(unbind) {
    sft_tensor *x = c->a[0].u.t;
    if (!x->ndim)
        return sft_fail(SFT_ERR_ARGUMENT, "unbind: a tensor without dims can't be unbound");
    int dim = sft_index_dim("unbind", ARG_I(1), x->ndim), m = 0;
    if (dim < 0) return sft_last_status();
    if (x->shape[dim] > MOST_PARTS) return too_many("unbind", x->shape[dim]);
    int n = (int)x->shape[dim];
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        if (d == dim) continue;
        shape[m] = x->shape[d];
        strides[m++] = x->strides[d];
    }
    c->a[1] = sft_v_int(dim);
    c->list = sft_alloc(sizeof *c->list * (size_t)(n ? n : 1));
    if (!c->list) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        c->list[i] = sft_view_of(x, shape, strides, m, i * x->strides[dim]);
        if (c->list[i]) continue;
        while (i > 0) sft_release(c->list[--i]);
        sft_free(c->list, sizeof *c->list * (size_t)n);
        c->list = NULL;
        return sft_last_status();
    }
    c->nout = n;
    return SFT_OK;
}
GRAD(unbind) {
    int n = b->node->nout;
    sft_tensor *zero = NULL, *like = NULL, **t = sft_alloc(sizeof *t * (size_t)(n ? n : 1));
    for (int i = 0; i < n; i++) like = b->gl[i] ? b->gl[i] : like;
    if (!t) sft_fail(SFT_ERR_MEMORY, "out of memory");
    if (t && like) {
        for (int i = 0; i < n; i++) {
            t[i] = b->gl[i];
            if (!t[i]) t[i] = zero = zero ? zero : DO(zeros_like, like);
        }
        SET(0, DO(stack, sft_v_tensors(t, n), VAL(1)));
    }
    if (t) sft_free(t, sizeof *t * (size_t)(n ? n : 1));
}

/* ---- lists in, lists out --------------------------------------------------------------------- */

IMPL(broadcast_tensors) {
    const sft_value *list = &c->a[0];
    if (list->n == 0) return sft_ret_list(c, NULL, 0);
    SFT_TRY(check_list("broadcast_tensors", list));
    sft_value *v = sft_alloc(sizeof *v * (size_t)list->n);
    sft_tensor **t = sft_alloc(sizeof *t * (size_t)list->n);
    sft_status st = v && t ? SFT_OK : sft_fail(SFT_ERR_MEMORY, "out of memory");
    int64_t shape[SFT_MAX_DIMS];
    if (st == SFT_OK) {
        for (int i = 0; i < list->n; i++) v[i] = sft_v_tensor(list->u.tensors[i]);
        int n = sft_broadcast_shape(v, list->n, shape);
        if (n < 0) sft_error_prefix("broadcast_tensors");
        for (int i = 0; i < list->n && n >= 0; i++)
            t[i] = DO(expand, list->u.tensors[i], sft_v_ints(shape, n));
        st = sft_failed() ? sft_last_status() : sft_ret_list(c, t, list->n);
    }
    if (v) sft_free(v, sizeof *v * (size_t)list->n);
    if (t) sft_free(t, sizeof *t * (size_t)list->n);
    return st;
}

IMPL(meshgrid) {
    const sft_value *list = &c->a[0];
    SFT_TRY(check_list("meshgrid", list));
    bool xy = strcmp(c->a[1].u.s, "xy") == 0;
    if (!xy && strcmp(c->a[1].u.s, "ij") != 0)
        return sft_fail(SFT_ERR_ARGUMENT, "meshgrid: 'indexing' must be 'ij' or 'xy', got '%s'",
                        c->a[1].u.s);
    int n = list->n;
    if (n > SFT_MAX_DIMS) return sft_fail(SFT_ERR_ARGUMENT, "meshgrid: too many tensors");
    int64_t shape[SFT_MAX_DIMS];
    sft_tensor *t[SFT_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        if (list->u.tensors[i]->ndim > 1)
            return sft_fail(SFT_ERR_ARGUMENT, "meshgrid: the tensors must have at most one dim");
        shape[i] = list->u.tensors[i]->numel;
    }
    for (int i = 0; i < n; i++) {
        int64_t own[SFT_MAX_DIMS];
        for (int d = 0; d < n; d++) own[d] = d == i ? shape[i] : 1;
        t[i] =
            DO(expand, DO(reshape, list->u.tensors[i], sft_v_ints(own, n)), sft_v_ints(shape, n));
        if (xy && n >= 2) t[i] = DO(transpose, t[i], 0, 1);
        if (!t[i]) return sft_last_status();
    }
    return sft_ret_list(c, t, n);
}
