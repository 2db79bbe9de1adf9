/* scatter.c: writing at positions that tensors hold: index_put, index_add, index_copy, index_fill,
 * scatter and its reductions. */
#include "indexing.h"

/* ---- index_put and the ops along one dim ----------------------------------------------------- */

/* Do these dims of t step evenly, so that they count as one? */
static bool mergeable(const sft_tensor *t, int from, int n) {
    int64_t size = 0, stride = 0;
    for (int d = from; d < from + n; d++) {
        if (t->shape[d] == 1) continue;
        if (size && stride != t->strides[d] * t->shape[d]) return false;
        size = t->shape[d];
        stride = t->strides[d];
    }
    return true;
}

/* values as a view of the plan's shape, of x's dtype; a temp or borrowed. */
static sft_tensor *fit_values(const char *op, const sft_index_plan *p, sft_tensor *v) {
    if (v->dtype != p->x->dtype) {
        if (!sft_can_cast(v->dtype, p->x->dtype)) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: values of type %s can't be put into a %s tensor", op,
                     sft_dtype_name((sft_dtype)v->dtype), sft_dtype_name((sft_dtype)p->x->dtype));
            return NULL;
        }
        v = DO(to, v, sft_v_none(), sft_v_dtype((sft_dtype)p->x->dtype));
        if (!v) return NULL;
    }
    if (v->storage == p->x->storage && p->x->numel) v = DO(clone, v);
    if (!v) return NULL;
    int64_t strides[SFT_MAX_DIMS];
    int skip = 0;
    while (v->ndim - skip > p->ndim && v->shape[skip] == 1) skip++;
    bool fits = v->ndim - skip <= p->ndim;
    int shift = p->ndim - (v->ndim - skip);
    for (int d = 0; d < p->ndim && fits; d++) {
        int e = d - shift + skip;
        strides[d] = 0;
        if (d < shift || (v->shape[e] == 1 && p->shape[d] != 1)) continue;
        strides[d] = v->strides[e];
        fits = v->shape[e] == p->shape[d];
    }
    if (!fits) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: values of shape %s don't fit the indexed shape %s", op,
                 SFT_SHAPE(v), sft_shape_text(p->shape, p->ndim, (char[160]){0}, 160));
        return NULL;
    }
    sft_tensor *view = sft_temp(sft_view_of(v, p->shape, strides, p->ndim, 0));
    if (!view || mergeable(view, p->params.nbefore, p->params.nb)) return view;
    return DO(contiguous, view);
}

/* The half types add up in float32. */
static bool widens(const sft_tensor *t, int combine) {
    return combine != SFT_COMBINE_SET && (t->dtype == SFT_float16 || t->dtype == SFT_bfloat16);
}

static sft_tensor *widened(sft_tensor *t) {
    sft_tensor *w = sft_temp(sft_empty(t->shape, t->ndim, SFT_float32, t->device));
    if (w && sft_copy_raw(w, t) != SFT_OK) return NULL;
    return w;
}

/* Writes values where the plan, made by `make` for a given self, says. */
typedef sft_status (*plan_fn)(sft_index_plan *p, const char *op, sft_tensor *self,
                              const void *args);

static sft_status put(sft_opctx *c, const char *op, plan_fn make, const void *args,
                      sft_tensor *values, int combine) {
    sft_tensor *self = c->a[0].u.t;
    sft_tensor *out = sft_start_from(c, self);
    if (!out) return sft_last_status();
    sft_tensor *work = widens(self, combine) ? widened(out) : out;
    sft_index_plan p;
    sft_status st = work ? make(&p, op, work, args) : sft_last_status();
    /* Indices are checked once, and must not change under the writes. */
    for (int i = 0; st == SFT_OK && i < p.n; i++)
        if (p.index[i]->storage == work->storage && !(p.index[i] = DO(clone, p.index[i])))
            st = sft_last_status();
    if (st == SFT_OK) {
        sft_tensor *y = fit_values(op, &p, values);
        p.params.combine = (uint8_t)combine;
        st = y ? sft_run_plan(&p, SFT_OP_index_put, y) : sft_last_status();
    }
    if (st == SFT_OK && work != out) st = sft_copy_raw(out, work);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

static sft_status plan_list(sft_index_plan *p, const char *op, sft_tensor *self, const void *args) {
    SFT_TRY(sft_plan_index(p, op, self, args));
    if (p->n) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT, "%s: no index tensor given", op);
}

typedef struct along {
    int64_t dim;
    sft_tensor *index;
    bool wrap;
} along;

static sft_status plan_along(sft_index_plan *p, const char *op, sft_tensor *self,
                             const void *args) {
    const along *a = args;
    int dim = sft_index_dim(op, a->dim, self->ndim);
    if (dim < 0) return sft_last_status();
    return sft_plan_select(p, op, self, dim, a->index, a->wrap);
}

/* One bool mask over all dims, and one value: no positions are needed. */
static bool is_masked_fill(const sft_tensor *self, const sft_value *list, const sft_tensor *v) {
    if (v->numel != 1 || v->ndim || list->n == 0 || !list->u.tensors[0]) return false;
    for (int i = 1; i < list->n; i++)
        if (list->u.tensors[i]) return false;
    const sft_tensor *t = list->u.tensors[0];
    return t->dtype == SFT_bool && t->ndim == self->ndim && t->ndim > 0 &&
           !memcmp(t->shape, self->shape, 8 * (size_t)t->ndim) &&
           sft_can_cast(v->dtype, self->dtype);
}

IMPL(index_put) {
    sft_tensor *self = c->a[0].u.t, *values = c->a[2].u.t;
    bool accumulate = ARG_B(3);
    if (!accumulate && is_masked_fill(self, &c->a[1], values)) {
        sft_tensor *mask = c->a[1].u.tensors[0];
        if (c->dst == self) return sft_ret(c, DO_(masked_fill, self, mask, values));
        return sft_ret(c, DO(masked_fill, self, mask, values));
    }
    bool none = true;
    for (int i = 0; i < c->a[1].n; i++) none &= !c->a[1].u.tensors[i];
    if (none) {
        sft_tensor *out = sft_temp(sft_start_from(c, self));
        if (!out) return sft_last_status();
        return sft_ret(c, accumulate ? DO_(add, out, values) : DO_(copy, out, values));
    }
    return put(c, "index_put", plan_list, &c->a[1], values,
               accumulate ? SFT_COMBINE_ADD : SFT_COMBINE_SET);
}
GRAD(index_put) {
    bool accumulate = b->a[3].u.b;
    if (NEED(0)) {
        sft_tensor *zero = accumulate || !G
                               ? NULL
                               : sft_temp(sft_scalar(sft_v_int(0), (sft_dtype)G->dtype, G->device));
        SET(0, accumulate ? G : DO(index_put, G, VAL(1), zero));
    }
    if (NEED(2)) SET(2, DO(index, G, VAL(1)));
}

/* source must have self's shape, but for dim, where it is as long as index. */
static sft_status check_source(const char *op, const sft_tensor *self, int64_t d,
                               const sft_tensor *index, const sft_tensor *source) {
    int dim = sft_index_dim(op, d, self->ndim);
    if (dim < 0) return sft_last_status();
    if (source->dtype != self->dtype)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'source' must be of self's type %s, got %s", op,
                        sft_dtype_name((sft_dtype)self->dtype),
                        sft_dtype_name((sft_dtype)source->dtype));
    bool ok = self->ndim == source->ndim || (self->ndim == 0 && source->numel == 1) ||
              (source->ndim == 0 && self->ndim == 1);
    for (int k = 0; k < self->ndim && source->ndim && ok; k++)
        ok = source->shape[k] == (k == dim ? index->numel : self->shape[k]);
    if (source->ndim == 0) ok = ok && index->numel == 1;
    if (self->ndim == 0) ok = ok && index->numel == 1;
    if (ok) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT,
                    "%s: 'source' of shape %s must have the shape of 'self' %s, but in dim %d the "
                    "length of 'index' %lld",
                    op, SFT_SHAPE(source), SFT_SHAPE(self), dim + sft_thread()->index_base,
                    (long long)index->numel);
}

IMPL(index_add) {
    sft_tensor *source = c->a[3].u.t;
    SFT_TRY(check_source("index_add", c->a[0].u.t, ARG_I(1), c->a[2].u.t, source));
    const sft_value alpha = c->a[4];
    if (alpha.kind != SFT_V_INT || alpha.u.i != 1) {
        if (alpha.kind == SFT_V_FLOAT && !sft_is_float(source->dtype))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "index_add: 'alpha' must be an integer for integer tensors, got %g",
                            alpha.u.f);
        source =
            DO(to, DO(mul, source, alpha), sft_v_none(), sft_v_dtype((sft_dtype)source->dtype));
        if (!source) return sft_last_status();
    }
    along a = {ARG_I(1), c->a[2].u.t, false};
    return put(c, "index_add", plan_along, &a, source, SFT_COMBINE_ADD);
}
GRAD(index_add) {
    if (NEED(0)) SET(0, G);
    if (NEED(3)) {
        int ndim;
        const int64_t *shape = sft_bw_shape(b, 3, &ndim);
        sft_tensor *g = DO(reshape, DO(index_select, G, VAL(1), VAL(2)), sft_v_ints(shape, ndim));
        SET(3, NUM(4) == 1 ? g : DO(mul, g, VAL(4)));
    }
}

IMPL(index_copy) {
    SFT_TRY(check_source("index_copy", c->a[0].u.t, ARG_I(1), c->a[2].u.t, c->a[3].u.t));
    along a = {ARG_I(1), c->a[2].u.t, true};
    return put(c, "index_copy", plan_along, &a, c->a[3].u.t, SFT_COMBINE_SET);
}
GRAD(index_copy) {
    if (NEED(0)) SET(0, DO(index_fill, G, VAL(1), VAL(2), 0));
    if (NEED(3)) {
        int ndim;
        const int64_t *shape = sft_bw_shape(b, 3, &ndim);
        SET(3, DO(reshape, DO(index_select, G, VAL(1), VAL(2)), sft_v_ints(shape, ndim)));
    }
}

/* A number or 0-dim tensor as a 0-dim tensor of self's dtype. Temp or borrowed. */
static sft_tensor *as_value(const char *op, const sft_tensor *self, const sft_value *v) {
    if (v->kind != SFT_V_TENSOR)
        return sft_temp(sft_scalar(*v, (sft_dtype)self->dtype, self->device));
    if (v->u.t->ndim == 0) {
        if (v->u.t->dtype == self->dtype) return v->u.t;
        return DO(to, v->u.t, sft_v_none(), sft_v_dtype((sft_dtype)self->dtype));
    }
    sft_fail(SFT_ERR_ARGUMENT,
             "%s: 'value' must be a number or a tensor without dims, got shape %s", op,
             SFT_SHAPE(v->u.t));
    return NULL;
}

IMPL(index_fill) {
    sft_tensor *v = as_value("index_fill", c->a[0].u.t, &c->a[3]);
    if (!v) return sft_last_status();
    along a = {ARG_I(1), c->a[2].u.t, true};
    return put(c, "index_fill", plan_along, &a, v, SFT_COMBINE_SET);
}
GRAD(index_fill) {
    if (NEED(0)) SET(0, DO(index_fill, G, VAL(1), VAL(2), 0));
    if (NEED(3)) SET(3, DO(sum, DO(index_select, G, VAL(1), VAL(2))));
}

/* ---- scatter --------------------------------------------------------------------------------- */

static sft_status scatter(sft_opctx *c, const char *op, sft_tensor *start, sft_tensor *src,
                          int combine) {
    sft_tensor *self = c->a[0].u.t, *index = c->a[2].u.t;
    int dim = sft_index_dim(op, ARG_I(1), self->ndim);
    if (dim < 0) return sft_last_status();
    bool one = c->a[3].kind != SFT_V_TENSOR;
    if (!one && src->dtype != self->dtype)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'src' must be of self's type %s, got %s", op,
                        sft_dtype_name((sft_dtype)self->dtype),
                        sft_dtype_name((sft_dtype)src->dtype));
    SFT_TRY(sft_check_gather(op, self, index, one ? NULL : src, dim));
    sft_tensor *out = start ? sft_retain(start) : sft_start_from(c, self);
    if (!out) return sft_last_status();
    /* What is read must not change under the writes. */
    if (src->storage == out->storage && out->numel) src = DO(clone, src);
    if (index->storage == out->storage && out->numel) index = DO(clone, index);
    bool wide = widens(self, combine);
    sft_tensor *work = wide ? widened(out) : out;
    sft_tensor *from = wide && src ? widened(src) : src;
    sft_status st = sft_last_status();
    if (work && from && index) {
        sft_gather_params p = {.name = op, .dim = dim, .combine = (uint8_t)combine};
        st = sft_run(SFT_OP_scatter, (sft_tensor *[]){work, index, from}, 3, &p);
    }
    if (st == SFT_OK && wide) st = sft_copy_raw(out, work);
    if (st == SFT_OK) return sft_give(c, out);
    sft_release(out);
    return st;
}

/* scatter with a tensor or a number; reduce nil, 'add' or 'multiply' */
IMPL(scatter) {
    int combine = SFT_COMBINE_SET;
    if (!ARG_NONE(4)) {
        const char *r = c->a[4].u.s;
        combine = strcmp(r, "add") == 0 ? SFT_COMBINE_ADD : SFT_COMBINE_MUL;
        if (combine == SFT_COMBINE_MUL && strcmp(r, "multiply") != 0)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "scatter: 'reduce' must be 'add' or 'multiply', got '%s'", r);
    }
    sft_tensor *src = c->a[3].u.t;
    if (c->a[3].kind != SFT_V_TENSOR) src = as_value("scatter", c->a[0].u.t, &c->a[3]);
    return src ? scatter(c, "scatter", NULL, src, combine) : sft_last_status();
}
/* The gradient of src, which may be larger than index. */
static sft_tensor *src_grad(sft_bw *b, sft_tensor *g) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 3, &ndim);
    if (!g || (g->ndim == ndim && !memcmp(shape, g->shape, 8 * (size_t)ndim))) return g;
    int64_t pads[2 * SFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        pads[2 * (ndim - 1 - d)] = 0;
        pads[2 * (ndim - 1 - d) + 1] = shape[d] - g->shape[d];
    }
    return DO(constant_pad, g, sft_v_ints(pads, 2 * ndim), 0);
}
GRAD(scatter) {
    bool add = b->a[4].kind == SFT_V_STR && strcmp(b->a[4].u.s, "add") == 0;
    if (b->a[4].kind == SFT_V_STR && !add) {
        sft_fail(SFT_ERR_AUTOGRAD, "scatter: no gradient for reduce = 'multiply'; use "
                                   "x:scatter_reduce(dim, index, src, 'prod')");
        return;
    }
    if (NEED(0)) SET(0, add ? G : DO(scatter_value, G, VAL(1), VAL(2), 0));
    if (NEED(3)) SET(3, src_grad(b, DO(gather, G, VAL(1), VAL(2))));
}

IMPL(scatter_add) { return scatter(c, "scatter_add", NULL, c->a[3].u.t, SFT_COMBINE_ADD); }
GRAD(scatter_add) {
    if (NEED(0)) SET(0, G);
    if (NEED(3)) SET(3, src_grad(b, DO(gather, G, VAL(1), VAL(2))));
}

/* ---- scatter_reduce -------------------------------------------------------------------------- */

static const char *const reductions[] = {"sum", "prod", "amax", "amin", "mean"};
enum { R_SUM, R_PROD, R_AMAX, R_AMIN, R_MEAN, R_COUNT };

static int reduction(const char *name) {
    for (int i = 0; i < R_COUNT; i++)
        if (strcmp(name, reductions[i]) == 0) return i;
    sft_fail(SFT_ERR_ARGUMENT,
             "scatter_reduce: 'reduce' must be 'sum', 'prod', 'mean', 'amax' or 'amin', got '%s'",
             name);
    return -1;
}

/* What a place holds before its first value when self is left out. */
static sft_value identity(int r, int dtype) {
    if (r == R_PROD) return sft_v_int(1);
    if (r != R_AMAX && r != R_AMIN) return sft_v_int(0);
    if (sft_is_float(dtype)) return sft_v_float(r == R_AMAX ? -__builtin_inf() : __builtin_inf());
    if (dtype == SFT_bool) return sft_v_bool(r == R_AMIN);
    int bits = (int)sft_dtype_size((sft_dtype)dtype) * 8;
    int64_t top = dtype == SFT_uint8 ? 255 : (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    return sft_v_int(r == R_AMIN ? top : dtype == SFT_uint8 ? 0 : -top - 1);
}

/* How many values went to each place, at least 1. */
static sft_tensor *counts(sft_tensor *self_like, const sft_value *dim, sft_tensor *index,
                          bool include_self) {
    sft_tensor *start = include_self ? DO(ones_like, self_like) : DO(zeros_like, self_like);
    sft_tensor *ones =
        DO(ones, sft_v_ints(index->shape, index->ndim), sft_v_dtype((sft_dtype)self_like->dtype),
           sft_v_device(self_like->device));
    sft_tensor *n = DO(scatter_add, start, *dim, index, ones);
    return include_self ? n : DO(masked_fill, n, DO(eq, n, 0), 1);
}

IMPL(scatter_reduce) {
    sft_tensor *self = c->a[0].u.t, *src = c->a[3].u.t, *start = NULL;
    int r = reduction(c->a[4].u.s);
    if (r < 0) return sft_last_status();
    if (!ARG_B(5)) {
        start = DO(scatter_value, self, c->a[1], c->a[2], identity(r, self->dtype));
        if (!start) return sft_last_status();
        if (c->dst == self) {
            /* The indices are checked: now self may change. */
            SFT_TRY(sft_copy_raw(self, start));
            start = self;
        }
    }
    static const uint8_t combine[] = {SFT_COMBINE_ADD, SFT_COMBINE_MUL, SFT_COMBINE_MAX,
                                      SFT_COMBINE_MIN, SFT_COMBINE_ADD};
    SFT_TRY(scatter(c, "scatter_reduce", start, src, combine[r]));
    if (r != R_MEAN) return SFT_OK;
    sft_tensor *sum = c->out[--c->nout];
    sft_tensor *n = counts(self, &c->a[1], c->a[2].u.t, ARG_B(5));
    sft_tensor *mean = sft_is_float(self->dtype) ? DO(div, sum, n) : DO(div, sum, n, "floor");
    sft_status st = mean ? sft_copy_raw(sum, mean) : sft_last_status();
    if (st == SFT_OK) return sft_give(c, sum);
    sft_release(sum);
    return st;
}
GRAD(scatter_reduce) {
    sft_tensor *self = IN(0), *src = IN(3), *out = OUT(0);
    sft_value dim = VAL(1), index = VAL(2);
    int r = reduction(b->a[4].u.s);
    bool include = b->a[5].u.b;
    sft_tensor *g = G, *gs = NULL;
    if (r == R_SUM) {
        gs = DO(gather, g, dim, index);
    } else if (r == R_MEAN) {
        g = DO(div, G, counts(self, &dim, index.u.t, include));
        gs = DO(gather, g, dim, index);
    } else if (r == R_PROD) {
        /* product of the others = out / src; exact where src is 0 only by leaving it out */
        sft_tensor *zero = DO(eq, src, 0);
        sft_tensor *rest = DO(masked_fill, src, zero, 1);
        sft_tensor *base = include ? self : DO(scatter_value, self, dim, index, 1);
        sft_tensor *others = DO(scatter_reduce, base, dim, index, rest, "prod", true);
        sft_tensor *nzero = DO(gather,
                               DO(scatter_add, DO(zeros_like, out), dim, index,
                                  DO(to, zero, sft_v_none(), sft_v_dtype((sft_dtype)out->dtype))),
                               dim, index);
        sft_tensor *of_zero = DO(mul, DO(gather, others, dim, index), DO(eq, nzero, 1));
        sft_tensor *of_rest = DO(div, DO(gather, out, dim, index), rest);
        gs = DO(mul, DO(gather, G, dim, index), DO(where, zero, of_zero, of_rest));
        sft_tensor *ones = DO(ones_like, self);
        g = DO(mul, G, DO(scatter_reduce, ones, dim, index, src, "prod", true));
    } else {
        /* shared out evenly among equal extremes */
        sft_tensor *hit_src = DO(eq, src, DO(gather, out, dim, index));
        sft_tensor *hit_self = DO(eq, self, out);
        sft_value dt = sft_v_dtype((sft_dtype)out->dtype);
        sft_tensor *n = DO(to, hit_self, sft_v_none(), dt);
        if (!include) n = DO(scatter_value, n, dim, index, 0);
        n = DO(scatter_add, n, dim, index, DO(to, hit_src, sft_v_none(), dt));
        sft_tensor *share = DO(div, G, n);
        gs = DO(mul, DO(gather, share, dim, index), hit_src);
        g = DO(where, hit_self, share, DO(zeros_like, share));
    }
    if (!include) g = DO(scatter_value, g, dim, index, 0);
    if (NEED(0)) SET(0, g);
    if (NEED(3)) SET(3, src_grad(b, gs));
}
