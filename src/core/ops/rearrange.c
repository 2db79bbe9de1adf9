/* rearrange.c: copies in another order or with repeats: flip, roll, rot90, rep, tile,
 * repeat_interleave, pad. */
#include "indexing.h"

/* ---- flip, roll ------------------------------------------------------------------------------ */

/* dims as a mask; false: an error is set. */
static bool dim_mask(const char *op, const sft_value *dims, int ndim, uint32_t *mask) {
    *mask = 0;
    for (int i = 0; i < dims->n; i++) {
        int d = sft_index_dim(op, dims->u.ints[i], ndim);
        if (d < 0) return false;
        if (*mask >> d & 1) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: dim %d is named twice", op,
                     d + sft_thread()->index_base);
            return false;
        }
        *mask |= 1u << d;
    }
    return true;
}

/* A copy whose source runs backwards along the flipped dims. */
IMPL(flip) {
    sft_tensor *x = c->a[0].u.t;
    uint32_t mask;
    if (!dim_mask("flip", &c->a[1], x->ndim, &mask)) return sft_last_status();
    sft_tensor *out = sft_temp(sft_empty(x->shape, x->ndim, (sft_dtype)x->dtype, x->device));
    if (!out) return sft_last_status();
    if (!x->numel) return sft_ret(c, out);
    const int64_t es = (int64_t)sft_esize(x);
    sft_iter it = {.nop = 2, .nout = 1, .numel = x->numel};
    it.op[0] = (sft_operand){.data = out->data, .dtype = x->dtype};
    it.op[1] = (sft_operand){.data = x->data, .dtype = x->dtype};
    for (int d = 0; d < x->ndim; d++) {
        bool back = mask >> d & 1;
        if (x->shape[d] == 1) continue;
        int64_t so = out->strides[d] * es, sx = x->strides[d] * es;
        if (back) {
            it.op[1].data += sx * (x->shape[d] - 1);
            sx = -sx;
        }
        int n = it.ndim;
        if (n && it.op[0].stride[n - 1] == so * x->shape[d] &&
            it.op[1].stride[n - 1] == sx * x->shape[d]) {
            it.size[n - 1] *= x->shape[d];
            n--;
        } else {
            it.size[n] = x->shape[d];
            it.ndim++;
        }
        it.op[0].stride[n] = so;
        it.op[1].stride[n] = sx;
    }
    if (!it.ndim) {
        it.ndim = 1;
        it.size[0] = 1;
    }
    sft_kcall k = {
        .op = SFT_OP_copy, .nt = 2, .t = (sft_tensor *[]){out, x}, .iter = &it, .ctype = x->dtype};
    SFT_TRY(sft_run_kernel(&k, x->device));
    return sft_ret(c, out);
}
GRAD(flip) { SET(0, DO(flip, G, VAL(1))); }

IMPL(fliplr) {
    bool lr = c->op == SFT_OP_fliplr;
    if (c->a[0].u.t->ndim < (lr ? 2 : 1))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: 'self' must have at least %d dims, got shape %s",
                        c->info->name, lr ? 2 : 1, SFT_SHAPE(c->a[0].u.t));
    return sft_ret(c, DO(flip, c->a[0], lr ? 1 : 0));
}

static sft_tensor *roll_dim(sft_tensor *x, int64_t shift, int dim) {
    int64_t size = x && x->ndim ? x->shape[dim] : 0;
    if (!size) return x;
    shift %= size;
    if (shift < 0) shift += size;
    if (!shift) return x;
    sft_tensor *t[2] = {DO(slice, x, dim, size - shift, size, 1),
                        DO(slice, x, dim, 0, size - shift, 1)};
    return t[0] && t[1] ? DO(cat, sft_v_tensors(t, 2), dim) : NULL;
}

IMPL(roll) {
    sft_tensor *x = c->a[0].u.t, *y = x;
    const sft_value *shifts = &c->a[1], *dims = &c->a[2];
    if (dims->kind == SFT_V_NONE || dims->n == 0) {
        const int64_t all = x->numel;
        if (shifts->n != 1)
            return sft_fail(SFT_ERR_ARGUMENT,
                            "roll: without 'dims' there must be one shift, got %d", shifts->n);
        y = roll_dim(DO(reshape, x, sft_v_ints(&all, 1)), shifts->u.ints[0], 0);
        return sft_ret(c, DO(clone, DO(reshape, y, sft_v_ints(x->shape, x->ndim))));
    }
    if (shifts->n != dims->n)
        return sft_fail(SFT_ERR_ARGUMENT, "roll: %d shifts, but %d dims", shifts->n, dims->n);
    for (int i = 0; i < dims->n; i++) {
        int d = sft_index_dim("roll", dims->u.ints[i], x->ndim);
        if (d < 0) return sft_last_status();
        y = roll_dim(y, shifts->u.ints[i], d);
    }
    return sft_ret(c, y == x ? DO(clone, x) : y);
}

IMPL(rot90) {
    sft_tensor *x = c->a[0].u.t;
    int64_t k = ((ARG_I(1) % 4) + 4) % 4, dims[2] = {0, 1};
    if (!ARG_NONE(2)) {
        if (c->a[2].n != 2)
            return sft_fail(SFT_ERR_ARGUMENT, "rot90: 'dims' must name 2 dims, got %d", c->a[2].n);
        memcpy(dims, c->a[2].u.ints, sizeof dims);
    }
    if (x->ndim < 2)
        return sft_fail(SFT_ERR_ARGUMENT, "rot90: 'self' must have at least 2 dims, got shape %s",
                        SFT_SHAPE(x));
    int a = sft_index_dim("rot90", dims[0], x->ndim), b;
    if (a < 0 || (b = sft_index_dim("rot90", dims[1], x->ndim)) < 0) return sft_last_status();
    if (a == b) return sft_fail(SFT_ERR_ARGUMENT, "rot90: the two dims must differ");
    if (k == 1) return sft_ret(c, DO(transpose, DO(flip, x, b), a, b));
    if (k == 2) return sft_ret(c, DO(flip, x, sft_v_ints((const int64_t[]){a, b}, 2)));
    if (k == 3) return sft_ret(c, DO(transpose, DO(flip, x, a), a, b));
    return sft_ret(c, DO(clone, x));
}

/* ---- repeats --------------------------------------------------------------------------------- */

/* x with `times` copies along each of n >= x->ndim dims. */
static sft_tensor *repeat(const char *op, sft_tensor *x, const int64_t *times, int n) {
    int64_t inner[2 * SFT_MAX_DIMS], full[2 * SFT_MAX_DIMS], shape[SFT_MAX_DIMS] = {0};
    int m = 0, shift = n - x->ndim;
    if (n > SFT_MAX_DIMS || shift < 0) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: %d repeats for a tensor of shape %s", op, n, SFT_SHAPE(x));
        return NULL;
    }
    bool any = false;
    for (int d = 0; d < n; d++) {
        int64_t size = d < shift ? 1 : x->shape[d - shift];
        if (times[d] < 0 || __builtin_mul_overflow(size, times[d], &shape[d])) {
            sft_fail(SFT_ERR_ARGUMENT, "%s: can't repeat %lld times", op, (long long)times[d]);
            return NULL;
        }
        if (times[d] != 1) inner[m] = 1, full[m++] = times[d], any = true;
        inner[m] = size;
        full[m++] = size;
    }
    if (sft_checked_numel(shape, n, sft_esize(x)) < 0) {
        sft_error_prefix(op);
        return NULL;
    }
    if (m > SFT_MAX_DIMS) {
        sft_fail(SFT_ERR_ARGUMENT, "%s: too many dims to repeat", op);
        return NULL;
    }
    if (!any) return DO(clone, DO(reshape, x, sft_v_ints(shape, n)));
    return DO(reshape, DO(expand, DO(reshape, x, sft_v_ints(inner, m)), sft_v_ints(full, m)),
              sft_v_ints(shape, n));
}

IMPL(rep) {
    sft_tensor *x = c->a[0].u.t;
    if (c->a[1].n < x->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "rep: %d repeats for a tensor of shape %s; give one for each dim (or x:tile)",
            c->a[1].n, SFT_SHAPE(x));
    return sft_ret(c, repeat("rep", x, c->a[1].u.ints, c->a[1].n));
}

IMPL(tile) {
    sft_tensor *x = c->a[0].u.t;
    int64_t times[SFT_MAX_DIMS];
    int n = c->a[1].n, m = n > x->ndim ? n : x->ndim;
    if (n > SFT_MAX_DIMS) return sft_fail(SFT_ERR_ARGUMENT, "tile: too many dims");
    for (int d = 0; d < m; d++) times[d] = d < m - n ? 1 : c->a[1].u.ints[d - (m - n)];
    return sft_ret(c, repeat("tile", x, times, m));
}

IMPL(repeat_interleave) {
    sft_tensor *x = c->a[0].u.t;
    int64_t times = ARG_I(1), full[SFT_MAX_DIMS];
    const int64_t all = x->numel;
    if (ARG_NONE(2) && !(x = DO(reshape, x, sft_v_ints(&all, 1)))) return sft_last_status();
    int dim = ARG_NONE(2) ? 0 : sft_index_dim("repeat_interleave", ARG_I(2), x->ndim);
    if (dim < 0) return sft_last_status();
    if (times < 0)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "repeat_interleave: 'repeats' must not be negative, got %lld",
                        (long long)times);
    if (!x->ndim) return sft_ret(c, DO(rep, DO(unsqueeze, x, 0), times));
    if (x->ndim == SFT_MAX_DIMS)
        return sft_fail(SFT_ERR_ARGUMENT, "repeat_interleave: too many dims");
    for (int d = 0; d <= x->ndim; d++) full[d] = d == dim + 1 ? times : x->shape[d - (d > dim)];
    int64_t shape[SFT_MAX_DIMS];
    memcpy(shape, x->shape, sizeof(int64_t) * x->ndim);
    if (__builtin_mul_overflow(shape[dim], times, &shape[dim]))
        return sft_fail(SFT_ERR_ARGUMENT, "repeat_interleave: the result is too large");
    return sft_ret(c,
                   DO(reshape, DO(expand, DO(unsqueeze, x, dim + 1), sft_v_ints(full, x->ndim + 1)),
                      sft_v_ints(shape, x->ndim)));
}

/* repeats is a tensor: one number for each element of the dim, or one for all */
IMPL(repeat_interleave_tensor) {
    sft_tensor *x = c->a[0].u.t, *times = c->a[1].u.t;
    const int64_t all = x->numel;
    SFT_TRY(sft_check_index_dtype("repeat_interleave", "repeats", times));
    if (ARG_NONE(2) && !(x = DO(reshape, x, sft_v_ints(&all, 1)))) return sft_last_status();
    int dim = ARG_NONE(2) ? 0 : sft_index_dim("repeat_interleave", ARG_I(2), x->ndim);
    if (dim < 0) return sft_last_status();
    int64_t size = x->ndim ? x->shape[dim] : 1;
    if (times->ndim > 1 || (times->numel != 1 && times->numel != size))
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "repeat_interleave: 'repeats' must be one number, or one for each of the %lld "
            "elements, got shape %s",
            (long long)size, SFT_SHAPE(times));
    int64_t *n = sft_alloc(8 * (size_t)(size ? size : 1)), total = 0;
    if (!n) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    int64_t one = 0;
    sft_status st = sft_copy_out(times, SFT_int64, times->numel == 1 ? &one : n);
    for (int64_t i = 0; i < size && st == SFT_OK; i++) {
        if (times->numel == 1) n[i] = one;
        if (n[i] < 0 || __builtin_add_overflow(total, n[i], &total))
            st = sft_fail(SFT_ERR_ARGUMENT,
                          "repeat_interleave: 'repeats' must hold numbers from 0 on, got %lld",
                          (long long)n[i]);
    }
    if (st == SFT_OK && !ARG_NONE(3) && ARG_I(3) != total)
        st = sft_fail(SFT_ERR_ARGUMENT,
                      "repeat_interleave: 'output_size' is %lld, the repeats add up to %lld",
                      (long long)ARG_I(3), (long long)total);
    sft_tensor *index =
        st == SFT_OK ? sft_temp(sft_empty(&total, 1, SFT_int64, (sft_device){SFT_CPU, 0})) : NULL;
    if (index) {
        int64_t *p = (int64_t *)index->data, base = sft_thread()->index_base;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < n[i]; j++) *p++ = i + base;
    }
    sft_free(n, 8 * (size_t)(size ? size : 1));
    if (!index) return sft_last_status();
    if (!x->ndim) x = DO(unsqueeze, x, 0);
    return sft_ret(c, DO(index_select, x, dim, index));
}

/* ---- pad ------------------------------------------------------------------------------------- */

/* Pads (left and right of the last dim, then of the one before it, ...) as sizes and offsets. */
static sft_status read_pads(const char *op, const sft_tensor *x, const sft_value *pads,
                            int64_t *left, int64_t *right) {
    if (pads->n % 2 || pads->n / 2 > x->ndim)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s: 'pad' must have two numbers for each of at most %d dims (the last first), "
            "got %d",
            op, x->ndim, pads->n);
    for (int d = 0; d < x->ndim; d++) {
        int i = 2 * (x->ndim - 1 - d);
        left[d] = i < pads->n ? pads->u.ints[i] : 0;
        right[d] = i < pads->n ? pads->u.ints[i + 1] : 0;
        int64_t size;
        if (__builtin_add_overflow(x->shape[d], left[d], &size) ||
            __builtin_add_overflow(size, right[d], &size) || size < 0 || left[d] < -x->shape[d] ||
            right[d] < -x->shape[d])
            return sft_fail(SFT_ERR_ARGUMENT, "%s: pads %lld and %lld don't fit dim %d of shape %s",
                            op, (long long)left[d], (long long)right[d],
                            d + sft_thread()->index_base, SFT_SHAPE(x));
    }
    return SFT_OK;
}

static sft_status fill_border(sft_tensor *t, int dim, int64_t start, int64_t length, sft_value v) {
    int64_t shape[SFT_MAX_DIMS];
    memcpy(shape, t->shape, sizeof(int64_t) * t->ndim);
    shape[dim] = length;
    sft_tensor *view =
        sft_temp(sft_view_of(t, shape, t->strides, t->ndim, start * t->strides[dim]));
    return view ? sft_fill_raw(view, v) : sft_last_status();
}

IMPL(constant_pad) {
    sft_tensor *x = c->a[0].u.t;
    int64_t left[SFT_MAX_DIMS], right[SFT_MAX_DIMS], shape[SFT_MAX_DIMS], part[SFT_MAX_DIMS];
    SFT_TRY(read_pads("pad", x, &c->a[1], left, right));
    int64_t from = 0, to = 0;
    bool grows = false;
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = x->shape[d] + left[d] + right[d];
        grows |= left[d] > 0 || right[d] > 0;
        part[d] = x->shape[d] + (left[d] < 0 ? left[d] : 0) + (right[d] < 0 ? right[d] : 0);
        if (part[d] < 0) part[d] = 0;
    }
    sft_tensor *out = sft_temp(sft_empty(shape, x->ndim, (sft_dtype)x->dtype, x->device));
    if (!out) return sft_last_status();
    bool empty = false;
    for (int d = 0; d < x->ndim; d++) empty |= part[d] == 0;
    if (empty && grows) SFT_TRY(sft_fill_raw(out, c->a[2]));
    for (int d = 0; d < x->ndim && !empty; d++) {
        if (left[d] > 0) SFT_TRY(fill_border(out, d, 0, left[d], c->a[2]));
        if (right[d] > 0) SFT_TRY(fill_border(out, d, shape[d] - right[d], right[d], c->a[2]));
    }
    for (int d = 0; d < x->ndim; d++) {
        from += left[d] < 0 ? -left[d] * x->strides[d] : 0;
        to += left[d] > 0 ? left[d] * out->strides[d] : 0;
    }
    if (empty) return sft_ret(c, out);
    sft_tensor *src = sft_temp(sft_view_of(x, part, x->strides, x->ndim, from));
    sft_tensor *dst = sft_temp(sft_view_of(out, part, out->strides, x->ndim, to));
    if (!src || !dst) return sft_last_status();
    SFT_TRY(sft_copy_raw(dst, src));
    return sft_ret(c, out);
}
GRAD(constant_pad) {
    int64_t back[2 * SFT_MAX_DIMS];
    int n = b->a[1].n;
    for (int i = 0; i < n; i++) back[i] = -b->a[1].u.ints[i];
    SET(0, DO(constant_pad, G, sft_v_ints(back, n), 0));
}

enum { PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR };

/* Where element i of a padded dim comes from. */
static int64_t source_of(int mode, int64_t i, int64_t size) {
    if (mode == PAD_REPLICATE) return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (mode == PAD_CIRCULAR) return ((i % size) + size) % size;
    return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

static sft_tensor *pad_dim(sft_tensor *x, int mode, int dim, int64_t left, int64_t right) {
    if (!x || (left == 0 && right == 0)) return x;
    const int64_t n = x->shape[dim] + left + right;
    sft_tensor *index = sft_temp(sft_empty(&n, 1, SFT_int64, (sft_device){SFT_CPU, 0}));
    if (!index) return NULL;
    int64_t *p = (int64_t *)index->data, base = sft_thread()->index_base;
    for (int64_t i = 0; i < n; i++) p[i] = source_of(mode, i - left, x->shape[dim]) + base;
    return DO(index_select, x, dim, DO(to, index, x->device));
}

IMPL(pad) {
    sft_tensor *x = c->a[0].u.t;
    const char *name = c->a[2].u.s;
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    int mode = -1;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, modes[i]) == 0) mode = i;
    if (strcmp(name, "constant") == 0)
        return sft_ret(c, DO(constant_pad, x, c->a[1], ARG_NONE(3) ? sft_v_int(0) : c->a[3]));
    if (mode < 0)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "pad: 'mode' must be 'constant', 'reflect', 'replicate' or 'circular', got '%s'", name);
    if (!ARG_NONE(3))
        return sft_fail(SFT_ERR_ARGUMENT, "pad: 'value' goes with mode 'constant' only");
    int64_t left[SFT_MAX_DIMS], right[SFT_MAX_DIMS];
    SFT_TRY(read_pads("pad", x, &c->a[1], left, right));
    int dims = c->a[1].n / 2;
    if (x->ndim - dims < 1 || x->ndim - dims > 2 || dims > 3)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "pad: mode '%s' pads the last 1 to 3 dims of a tensor with one or two more, got "
            "%d dims of shape %s",
            name, dims, SFT_SHAPE(x));
    for (int d = x->ndim - dims; d < x->ndim; d++) {
        int64_t size = x->shape[d], most = mode == PAD_REFLECT    ? size - 1
                                           : mode == PAD_CIRCULAR ? size
                                                                  : INT64_MAX;
        if (left[d] > most || right[d] > most || (size == 0 && (left[d] > 0 || right[d] > 0)))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "pad: mode '%s' can't pad dim %d of size %lld by %lld and %lld", name,
                            d + sft_thread()->index_base, (long long)size, (long long)left[d],
                            (long long)right[d]);
    }
    sft_tensor *y = x;
    for (int d = x->ndim - dims; d < x->ndim && y; d++) {
        /* what circular pads repeat is what negative pads leave */
        int64_t cut_left = mode == PAD_CIRCULAR && left[d] < 0 ? -left[d] : 0;
        int64_t cut_right = mode == PAD_CIRCULAR && right[d] < 0 ? -right[d] : 0;
        if (cut_left || cut_right) y = DO(slice, y, d, cut_left, x->shape[d] - cut_right, 1);
        y = pad_dim(y, mode, d, left[d] + cut_left, right[d] + cut_right);
    }
    return sft_ret(c, y == x ? DO(clone, x) : y);
}
