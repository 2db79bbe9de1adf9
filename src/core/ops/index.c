/* index.c: reading at positions that tensors hold: index (advanced indexing), index_select, gather,
 * take; and what they share with the writing ones in scatter.c. */
#include "indexing.h"

sft_status sft_check_index_dtype(const char *op, const char *arg, const sft_tensor *index) {
    if (index->dtype == SFT_int64 || index->dtype == SFT_int32) return SFT_OK;
    return sft_fail(SFT_ERR_ARGUMENT,
                    "%s: argument '%s' must be an int64 tensor, got %s; convert it with "
                    "x:to(sft.int64)",
                    op, arg, sft_dtype_name((sft_dtype)index->dtype));
}

/* May the result be built up in dst while the arguments are still read? */
static bool stands_alone(const sft_opctx *c, const sft_tensor *dst) {
    for (int i = 0; i < c->info->nparams; i++)
        if (ARG_T(i) && ARG_T(i)->storage == dst->storage) return false;
    return true;
}

sft_tensor *sft_start_from(sft_opctx *c, sft_tensor *self) {
    sft_tensor *dst = c->dst;
    if (dst == self) return sft_retain(dst);
    if (dst && dst->dtype == self->dtype && dst->ndim == self->ndim &&
        !memcmp(dst->shape, self->shape, 8 * (size_t)self->ndim) && stands_alone(c, dst)) {
        if (sft_copy_raw(dst, self) != SFT_OK) return NULL;
        return sft_retain(dst);
    }
    sft_tensor *out = sft_empty_like_(self, (sft_dtype)self->dtype);
    if (out && sft_copy_raw(out, self) != SFT_OK) {
        sft_release(out);
        return NULL;
    }
    return out;
}

sft_tensor *sft_bw_zeros(sft_bw *b, int param, const sft_tensor *like) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, param, &ndim);
    if (!like) return NULL;
    return DO(zeros, sft_v_ints(shape, ndim), sft_v_dtype((sft_dtype)like->dtype),
              sft_v_device(like->device));
}

int sft_index_dim(const char *op, int64_t d, int ndim) {
    int dim = sft_wrap_dim(d, ndim);
    if (dim < 0) sft_error_prefix(op);
    return dim;
}

/* ---- advanced indexing: from a list to a plan ------------------------------------------------ */

/* A list of tensors (NULL: all) -> index tensors of one shape, and self with its indexed dims
 * together. Bool tensors become the positions of their true elements. */
static sft_status gather_entries(sft_index_plan *p, const char *op, sft_tensor *self,
                                 const sft_value *list) {
    int dim = 0;
    p->n = 0;
    for (int i = 0; i < list->n; i++) {
        sft_tensor *t = list->u.tensors[i];
        bool mask = t && (t->dtype == SFT_bool || t->dtype == SFT_uint8);
        int takes = mask ? t->ndim : 1;
        if (dim + takes > self->ndim || p->n + takes > SFT_MAX_DIMS)
            return sft_fail(SFT_ERR_INDEX, "%s: too many indices for a tensor of shape %s", op,
                            SFT_SHAPE(self));
        if (!t) {
            dim++;
        } else if (mask) {
            for (int d = 0; d < t->ndim; d++)
                if (t->shape[d] != self->shape[dim + d])
                    return sft_fail(
                        SFT_ERR_INDEX,
                        "%s: the mask of shape %s does not fit the tensor of shape %s at "
                        "dim %d",
                        op, SFT_SHAPE(t), SFT_SHAPE(self), dim + d + sft_thread()->index_base);
            if (t->ndim == 0) return sft_fail(SFT_ERR_UNSUPPORTED, "%s: a mask without dims", op);
            sft_tensor *where = DO(nonzero, t);
            for (int d = 0; d < t->ndim && where; d++) {
                const int64_t shape = where->shape[0], stride = where->strides[0];
                sft_tensor *col =
                    sft_temp(sft_view_of(where, &shape, &stride, 1, d * where->strides[1]));
                if (!col) return sft_last_status();
                p->dim[p->n] = dim++;
                p->index[p->n++] = col;
            }
            if (!where) return sft_last_status();
        } else {
            SFT_TRY(sft_check_index_dtype(op, "indices", t));
            p->dim[p->n] = dim++;
            p->index[p->n++] = t;
        }
    }
    return SFT_OK;
}

sft_status sft_plan_index(sft_index_plan *p, const char *op, sft_tensor *self,
                          const sft_value *list) {
    SFT_TRY(gather_entries(p, op, self, list));
    sft_value all[SFT_MAX_DIMS];
    for (int i = 0; i < p->n; i++) all[i] = sft_v_tensor(p->index[i]);
    int nb = sft_broadcast_shape(all, p->n, p->shape + SFT_MAX_DIMS);
    if (nb < 0) {
        sft_error_prefix(op);
        return sft_last_status();
    }
    const int64_t *bshape = p->shape + SFT_MAX_DIMS;
    /* Adjacent index tensors: their result stands where they stood, else in front. */
    bool adjacent = true;
    for (int i = 1; i < p->n; i++) adjacent &= p->dim[i] == p->dim[i - 1] + 1;
    int before = p->n && adjacent ? p->dim[0] : 0;
    if (self->ndim - p->n + nb > SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: the result would have %d dims; %d are possible", op,
                        self->ndim - p->n + nb, SFT_MAX_DIMS);
    /* self's dims in the order [before, indexed, after] */
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    int order[SFT_MAX_DIMS], n = 0;
    for (int d = 0; d < before; d++) order[n++] = d;
    for (int i = 0; i < p->n; i++) order[n++] = p->dim[i];
    for (int d = before; d < self->ndim; d++) {
        bool indexed = false;
        for (int i = 0; i < p->n; i++) indexed |= p->dim[i] == d;
        if (!indexed) order[n++] = d;
    }
    for (int d = 0; d < n; d++) {
        shape[d] = self->shape[order[d]];
        strides[d] = self->strides[order[d]];
    }
    p->x = sft_temp(sft_view_of(self, shape, strides, n, 0));
    if (!p->x) return sft_last_status();
    for (int i = 0; i < p->n; i++) {
        sft_tensor *t = p->index[i];
        int64_t st[SFT_MAX_DIMS];
        int shift = nb - t->ndim;
        for (int d = 0; d < nb; d++)
            st[d] = d < shift || (t->shape[d - shift] == 1 && bshape[d] != 1)
                        ? 0
                        : t->strides[d - shift];
        p->index[i] = sft_temp(sft_view_of(t, bshape, st, nb, 0));
        if (!p->index[i]) return sft_last_status();
    }
    /* the shape of the result */
    p->ndim = 0;
    for (int d = 0; d < before; d++) p->shape[p->ndim++] = shape[d];
    for (int d = 0; d < nb; d++) p->shape[p->ndim++] = bshape[d];
    for (int d = before + p->n; d < n; d++) p->shape[p->ndim++] = shape[d];
    p->params =
        (sft_index_params){.name = op, .nbefore = before, .nidx = p->n, .nb = nb, .wrap = true};
    for (int i = 0; i < p->n; i++) p->params.dims[i] = p->dim[i];
    return SFT_OK;
}

sft_status sft_plan_select(sft_index_plan *p, const char *op, sft_tensor *self, int dim,
                           sft_tensor *index, bool wrap) {
    SFT_TRY(sft_check_index_dtype(op, "index", index));
    if (index->ndim > 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: argument 'index' must have one dim (or none), got shape %s", op,
                        SFT_SHAPE(index));
    int64_t shape[SFT_MAX_DIMS], strides[SFT_MAX_DIMS];
    int n = self->ndim ? self->ndim : 1;
    for (int d = 0; d < n; d++) {
        shape[d] = self->ndim ? self->shape[d] : 1;
        strides[d] = self->ndim ? self->strides[d] : 1;
    }
    p->n = 1;
    p->dim[0] = dim;
    p->x = self->ndim ? self : sft_temp(sft_view_of(self, shape, strides, 1, 0));
    const int64_t len = index->numel, step = index->ndim ? index->strides[0] : 1;
    p->index[0] = index->ndim ? index : sft_temp(sft_view_of(index, &len, &step, 1, 0));
    if (!p->x || !p->index[0]) return sft_last_status();
    p->ndim = n;
    memcpy(p->shape, shape, sizeof(int64_t) * (size_t)n);
    p->shape[dim] = len;
    p->params = (sft_index_params){
        .name = op, .nbefore = dim, .nidx = 1, .nb = 1, .dims = {dim}, .wrap = wrap};
    return SFT_OK;
}

sft_status sft_run_plan(const sft_index_plan *p, sft_op_id op, sft_tensor *y) {
    sft_tensor *t[2 + SFT_MAX_DIMS] = {y, p->x};
    for (int i = 0; i < p->n; i++) t[2 + i] = p->index[i];
    return sft_run(op, t, 2 + p->n, &p->params);
}

/* The tensor that a plan reads. */
static sft_status read_plan(sft_opctx *c, const sft_index_plan *p, int ndim) {
    sft_tensor *y = sft_empty(p->shape, p->ndim, (sft_dtype)p->x->dtype, p->x->device);
    if (!y) return sft_last_status();
    sft_status st = sft_run_plan(p, SFT_OP_index, y);
    if (st == SFT_OK && ndim < p->ndim) {
        sft_tensor *flat = sft_alias(y); /* of a 0-dim input: without the dim that was put in */
        if (flat) flat->ndim = 0;
        sft_release(y);
        return sft_give(c, flat);
    }
    if (st == SFT_OK) return sft_give(c, y);
    sft_release(y);
    return st;
}

/* ---- index ----------------------------------------------------------------------------------- */

/* One mask over all dims? */
static sft_tensor *full_mask(const sft_tensor *self, const sft_value *list) {
    sft_tensor *t = list->n ? list->u.tensors[0] : NULL;
    for (int i = 1; i < list->n; i++)
        if (list->u.tensors[i]) return NULL;
    if (!t || t->dtype != SFT_bool || t->ndim != self->ndim || t->ndim == 0) return NULL;
    return memcmp(t->shape, self->shape, 8 * (size_t)t->ndim) == 0 ? t : NULL;
}

IMPL(index) {
    sft_tensor *self = c->a[0].u.t, *mask = full_mask(self, &c->a[1]);
    if (mask) return sft_ret(c, DO(masked_select, self, mask));
    sft_index_plan p;
    SFT_TRY(sft_plan_index(&p, "index", self, &c->a[1]));
    if (p.n == 0) return sft_ret(c, DO(clone, self));
    return read_plan(c, &p, p.ndim);
}
GRAD(index) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    SET(0, DO(_index_backward, G, sft_v_ints(shape, ndim), VAL(1)));
}

IMPL(_index_backward) {
    sft_tensor *g = c->a[0].u.t;
    sft_tensor *zeros =
        DO(zeros, c->a[1], sft_v_dtype((sft_dtype)g->dtype), sft_v_device(g->device));
    return sft_ret(c, DO_(index_put, zeros, c->a[2], g, true));
}
GRAD(_index_backward) { SET(0, DO(index, G, VAL(2))); }

IMPL(index_select) {
    sft_tensor *self = c->a[0].u.t;
    int dim = sft_index_dim("index_select", ARG_I(1), self->ndim);
    if (dim < 0) return sft_last_status();
    sft_index_plan p;
    SFT_TRY(sft_plan_select(&p, "index_select", self, dim, c->a[2].u.t, false));
    if (!self->ndim && p.shape[0] != 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "index_select: a tensor without dims takes one index, got %lld",
                        (long long)p.shape[0]);
    return read_plan(c, &p, self->ndim);
}
GRAD(index_select) { SET(0, DO(index_add, sft_bw_zeros(b, 0, G), VAL(1), VAL(2), G)); }

IMPL(take) {
    sft_tensor *self = c->a[0].u.t, *index = c->a[1].u.t;
    SFT_TRY(sft_check_index_dtype("take", "index", index));
    const int64_t all = -1;
    sft_tensor *flat = DO(reshape, self, sft_v_ints(&all, 1));
    sft_index_plan p;
    if (!flat) return sft_last_status();
    SFT_TRY(sft_plan_index(&p, "take", flat, &(sft_value){SFT_V_TENSORS, 1, {.tensors = &index}}));
    return read_plan(c, &p, p.ndim);
}
GRAD(take) {
    int ndim;
    const int64_t *shape = sft_bw_shape(b, 0, &ndim);
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= shape[d];
    sft_tensor *index = IN(1);
    sft_tensor *flat = DO(_index_backward, G, sft_v_ints(&n, 1), sft_v_tensors(&index, 1));
    SET(0, DO(reshape, flat, sft_v_ints(shape, ndim)));
}

/* ---- gather ---------------------------------------------------------------------------------- */

sft_status sft_check_gather(const char *op, const sft_tensor *self, const sft_tensor *index,
                            const sft_tensor *src, int dim) {
    if (index->dtype != SFT_int64) /* PyTorch takes no int32 here */
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: argument 'index' must be an int64 tensor, got %s; convert it with "
                        "x:to(sft.int64)",
                        op, sft_dtype_name((sft_dtype)index->dtype));
    if (!index->numel) return SFT_OK;
    int n = self->ndim ? self->ndim : 1, m = index->ndim ? index->ndim : 1;
    if (n != m)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: 'index' must have as many dims as 'self': got shapes %s and %s", op,
                        SFT_SHAPE(index), SFT_SHAPE(self));
    for (int d = 0; d < index->ndim && self->ndim; d++)
        if (d != dim && index->shape[d] > self->shape[d])
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: 'index' of shape %s is larger than 'self' of shape %s in dim %d",
                            op, SFT_SHAPE(index), SFT_SHAPE(self), d + sft_thread()->index_base);
    if (!src) return SFT_OK;
    if ((src->ndim ? src->ndim : 1) != m)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s: 'src' must have as many dims as 'index': got shapes %s and %s", op,
                        SFT_SHAPE(src), SFT_SHAPE(index));
    for (int d = 0; d < index->ndim; d++)
        if (index->shape[d] > (src->ndim ? src->shape[d] : 1))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: 'index' of shape %s is larger than 'src' of shape %s in dim %d",
                            op, SFT_SHAPE(index), SFT_SHAPE(src), d + sft_thread()->index_base);
    return SFT_OK;
}

IMPL(gather) {
    sft_tensor *self = c->a[0].u.t, *index = c->a[2].u.t;
    int dim = sft_index_dim("gather", ARG_I(1), self->ndim);
    if (dim < 0) return sft_last_status();
    SFT_TRY(sft_check_gather("gather", self, index, NULL, dim));
    sft_tensor *y = sft_empty(index->shape, index->ndim, (sft_dtype)self->dtype, self->device);
    if (!y) return sft_last_status();
    sft_gather_params p = {.name = "gather", .dim = dim};
    sft_status st = sft_run(SFT_OP_gather, (sft_tensor *[]){y, self, index}, 3, &p);
    if (st == SFT_OK) return sft_give(c, y);
    sft_release(y);
    return st;
}
GRAD(gather) { SET(0, DO(scatter_add, sft_bw_zeros(b, 0, G), VAL(1), VAL(2), G)); }

IMPL(take_along_dim) {
    sft_tensor *self = c->a[0].u.t, *index = c->a[1].u.t;
    const int64_t all = -1;
    if (ARG_NONE(2))
        return sft_ret(c, DO(gather, DO(reshape, self, sft_v_ints(&all, 1)), 0,
                             DO(reshape, index, sft_v_ints(&all, 1))));
    int dim = sft_index_dim("take_along_dim", ARG_I(2), self->ndim);
    if (dim < 0) return sft_last_status();
    if (self->ndim != index->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "take_along_dim: 'self' and 'indices' must have as many dims: got shapes %s "
            "and %s",
            SFT_SHAPE(self), SFT_SHAPE(index));
    SFT_TRY(sft_check_index_dtype("take_along_dim", "indices", index));
    int64_t a[SFT_MAX_DIMS], b[SFT_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) {
        int64_t s = self->shape[d], i = index->shape[d];
        if (d != dim && s != i && s != 1 && i != 1)
            return sft_fail(SFT_ERR_ARGUMENT, "take_along_dim: shapes %s and %s don't broadcast",
                            SFT_SHAPE(self), SFT_SHAPE(index));
        a[d] = b[d] = s == 1 ? i : s;
        if (d == dim) a[d] = s, b[d] = i;
    }
    return sft_ret(c, DO(gather, DO(expand, self, sft_v_ints(a, self->ndim)), dim,
                         DO(expand, index, sft_v_ints(b, self->ndim))));
}
