/* tensor.c: storages, tensor structs, their geometry, and access to single elements. */
#include "backend.h"
#include <stdio.h>
#include <stdlib.h>

static _Atomic size_t live_bytes;
static _Atomic int64_t live_tensors;

size_t sft_live_bytes(void) { return atomic_load_explicit(&live_bytes, memory_order_relaxed); }
int64_t sft_live_tensors(void) { return atomic_load_explicit(&live_tensors, memory_order_relaxed); }

/* ---- storages -------------------------------------------------------------------------------- */

static size_t storage_size(const sft_storage *s) {
    return sizeof *s + (s->kind == SFT_STORAGE_INLINE ? SFT_INLINE_BYTES : 0);
}

/* What holds the memory, for the out-of-memory error. */
static void fail_oom(const sft_backend *be, sft_device d, size_t bytes) {
    sft_memory_stats st = {0};
    char name[16];
    be->stats(d.index, &st);
    const double MB = 1.0 / (1 << 20);
    char limit[64] = "";
    if (st.limit) snprintf(limit, sizeof limit, ", limit %.1f MB", (double)st.limit * MB);
    sft_fail(SFT_ERR_MEMORY,
             "out of memory on %s: asked for %.1f MB. Live tensors hold %.1f MB in %lld blocks, the "
             "cache %.1f MB (largest free block %.1f MB)%s. Try a smaller batch, or sft.no_grad() "
             "for evaluation",
             sft_device_name(d, name), (double)bytes * MB, (double)st.allocated * MB,
             (long long)st.live_blocks, (double)(st.reserved - st.allocated) * MB,
             (double)st.largest_free * MB, limit);
}

/* Collects and flushes before giving up. */
static char *alloc_or_reclaim(const sft_backend *be, sft_device d, size_t bytes, void **block) {
    char *p = be->alloc(d.index, bytes, block);
    if (SFT_LIKELY(p != NULL)) return p;
    sft_tls *t = sft_thread();
    if (t->reclaim) {
        t->reclaim(t->reclaim_user);
        if ((p = be->alloc(d.index, bytes, block))) return p;
    }
    be->empty_cache(d.index);
    if ((p = be->alloc(d.index, bytes, block))) return p;
    fail_oom(be, d, bytes);
    return NULL;
}

sft_storage *sft_storage_new(size_t bytes, sft_device device) {
    bool small = bytes <= SFT_INLINE_BYTES && device.type == SFT_CPU;
    sft_storage *s = sft_alloc(sizeof *s + (small ? SFT_INLINE_BYTES : 0));
    if (!s) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    s->refs = 1;
    s->version = 0;
    s->device = device;
    s->bytes = bytes;
    s->kind = small ? SFT_STORAGE_INLINE : SFT_STORAGE_POOL;
    s->block = NULL;
    s->free_fn = NULL;
    s->user = NULL;
    if (small) {
        s->data = s->inline_data;
    } else {
        const sft_backend *be = sft_backend_of(device);
        s->data = be ? alloc_or_reclaim(be, device, bytes, &s->block) : NULL;
        if (!s->data) {
            sft_free(s, sizeof *s);
            return NULL;
        }
    }
    atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
    return s;
}

void sft_storage_release(sft_storage *s) {
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    atomic_fetch_sub_explicit(&live_bytes, s->bytes, memory_order_relaxed);
    size_t size = storage_size(s);
    if (s->kind == SFT_STORAGE_POOL) {
        const sft_backend *be = sft_backend_of(s->device);
        be->free(s->device.index, s->data, s->block, s->bytes);
    } else if (s->free_fn) {
        s->free_fn(s->user);
    }
    sft_free(s, size);
}

/* ---- geometry -------------------------------------------------------------------------------- */

int64_t sft_checked_numel(const int64_t *shape, int ndim, size_t esize) {
    int64_t n = 1;
    bool zero = false, over = false;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            sft_fail(SFT_ERR_ARGUMENT, "size %lld of dim %d is negative", (long long)shape[d],
                     d + sft_thread()->index_base);
            return -1;
        }
        if (shape[d] == 0) zero = true;
        over |= __builtin_mul_overflow(n, shape[d], &n);
    }
    if (zero) return 0;
    int64_t bytes;
    if (over || __builtin_mul_overflow(n, (int64_t)esize, &bytes)) {
        char buf[160];
        sft_fail(SFT_ERR_ARGUMENT, "sizes %s overflow: no memory is that large",
                 sft_shape_text(shape, ndim, buf, sizeof buf));
        return -1;
    }
    return n;
}

void sft_contiguous_strides(const int64_t *shape, int ndim, int64_t *strides) {
    int64_t s = 1;
    bool over = false;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = s;
        if (shape[d] > 1) over |= __builtin_mul_overflow(s, shape[d], &s);
    }
    /* Only where another size is 0; then no element is ever looked for. */
    for (int d = 0; d < ndim && over; d++) strides[d] = 1;
}

static bool compute_contiguous(const sft_tensor *t) {
    int64_t want = 1;
    if (t->numel == 0) return true;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] != 1) {
            if (t->strides[d] != want) return false;
            want *= t->shape[d];
        }
    }
    return true;
}

/* Dims of size > 1 by ascending stride; returns their number. */
static int sort_dims(const sft_tensor *t, int *dims) {
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] <= 1) continue;
        int i = n++;
        while (i > 0 && t->strides[dims[i - 1]] > t->strides[d]) dims[i] = dims[i - 1], i--;
        dims[i] = d;
    }
    return n;
}

bool sft_is_dense(const sft_tensor *t) {
    if (t->contiguous) return true;
    int dims[SFT_MAX_DIMS], n = sort_dims(t, dims);
    int64_t want = 1;
    for (int i = 0; i < n; i++) {
        if (t->strides[dims[i]] != want) return false;
        want *= t->shape[dims[i]];
    }
    return true;
}

bool sft_has_overlap(const sft_tensor *t) {
    if (t->contiguous || t->numel < 2) return false;
    int dims[SFT_MAX_DIMS], n = sort_dims(t, dims);
    int64_t reach = 0; /* last element of the faster dims */
    for (int i = 0; i < n; i++) {
        int64_t s = t->strides[dims[i]];
        if (s <= reach) return true; /* exact for all views but exotic as_strided ones */
        reach += s * (t->shape[dims[i]] - 1);
    }
    return false;
}

static void extent(const sft_tensor *t, const char **lo, const char **hi) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) last += t->strides[d] * (t->shape[d] - 1);
    *lo = t->data;
    *hi = t->data + (last + 1) * (int64_t)sft_esize(t);
}

bool sft_partial_overlap(const sft_tensor *a, const sft_tensor *b) {
    if (a == b || a->storage != b->storage || !a->numel || !b->numel) return false;
    const char *alo, *ahi, *blo, *bhi;
    extent(a, &alo, &ahi);
    extent(b, &blo, &bhi);
    if (ahi <= blo || bhi <= alo) return false;
    if (a->data == b->data && a->dtype == b->dtype && a->ndim == b->ndim) {
        bool same = true;
        for (int d = 0; d < a->ndim; d++)
            same &= a->shape[d] == b->shape[d] && (a->strides[d] == b->strides[d] || a->shape[d] == 1);
        if (same) return false;
    }
    /* Interleaved views (columns of one matrix) don't touch: same strides, offsets apart. */
    if (a->ndim == b->ndim && a->ndim > 0 && a->dtype == b->dtype) {
        bool same = true;
        for (int d = 0; d < a->ndim; d++) same &= a->strides[d] == b->strides[d];
        int64_t es = (int64_t)sft_esize(a), off = (b->data - a->data) / es;
        int64_t inner = a->strides[a->ndim - 1];
        if (same && inner > 1 && off % inner != 0) {
            bool multiple = true;
            for (int d = 0; d < a->ndim; d++) multiple &= a->strides[d] % inner == 0;
            if (multiple) return false;
        }
        if (same && a->ndim == 2 && inner == 1 && a->strides[0] > 0) {
            int64_t row = a->strides[0], ca = 0, cb = ((off % row) + row) % row;
            if (cb >= ca + a->shape[1] && cb + b->shape[1] <= row) return false;
        }
    }
    return true;
}

int sft_wrap_dim(int64_t d, int ndim) {
    int range = ndim ? ndim : 1;
    if (SFT_LIKELY(d >= -range && d < range)) return (int)(d < 0 ? d + range : d);
    if (sft_thread()->index_base)
        sft_fail(SFT_ERR_INDEX, "dim %lld is out of range: expected 1 to %d, or -1 to -%d",
                 (long long)(d >= 0 ? d + 1 : d), range, range);
    else
        sft_fail(SFT_ERR_INDEX, "dim %lld is out of range: expected %d to %d", (long long)d, -range,
                 range - 1);
    return -1;
}

const char *sft_shape_text(const int64_t *shape, int ndim, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "[");
    for (int d = 0; d < ndim && n < size; d++)
        n += (size_t)snprintf(buf + n, size - n, d ? ", %lld" : "%lld", (long long)shape[d]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static sft_tensor *tensor_struct(void) {
    sft_tensor *t = sft_alloc(sizeof *t);
    if (SFT_UNLIKELY(!t)) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    t->refs = 1;
    t->wrapped = false;
    t->gen = t->view_gen = 0;
    t->meta = NULL;
    t->base = NULL;
    atomic_fetch_add_explicit(&live_tensors, 1, memory_order_relaxed);
    return t;
}

static void set_geometry(sft_tensor *t, const int64_t *shape, const int64_t *strides, int ndim) {
    t->ndim = (uint8_t)ndim;
    t->numel = 1;
    for (int d = 0; d < ndim; d++) {
        t->shape[d] = shape[d];
        t->strides[d] = strides[d];
        t->numel = (int64_t)((uint64_t)t->numel * (uint64_t)shape[d]);
    }
    /* A stride that is never walked may be anything: made small, so that no product overflows. */
    for (int d = 0; d < ndim; d++)
        if (strides[d] > INT64_C(1) << 48 && (shape[d] < 2 || t->numel == 0)) t->strides[d] = 1;
    t->contiguous = compute_contiguous(t);
}

sft_tensor *sft_tensor_new(sft_storage *storage, sft_dtype dtype, const int64_t *shape,
                           const int64_t *strides, int ndim, char *data) {
    sft_tensor *t = tensor_struct();
    if (!t) return NULL;
    atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
    t->storage = storage;
    t->dtype = (uint8_t)dtype;
    t->device = storage->device;
    t->data = data;
    set_geometry(t, shape, strides, ndim);
    return t;
}

sft_tensor *sft_view_of(sft_tensor *t, const int64_t *shape, const int64_t *strides, int ndim,
                        int64_t offset) {
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) offset = 0; /* nothing is there; it may be beyond all memory */
    sft_tensor *v = sft_tensor_new(t->storage, (sft_dtype)t->dtype, shape, strides, ndim,
                                   t->data + offset * (int64_t)sft_esize(t));
    if (!v) return NULL;
    v->base = sft_retain(t->base ? t->base : t);
    v->view_gen = v->base->gen;
    return v;
}

sft_tensor *sft_alias(sft_tensor *t) {
    sft_tensor *v = sft_tensor_new(t->storage, (sft_dtype)t->dtype, t->shape, t->strides, t->ndim,
                                   t->data);
    if (v) v->wrapped = t->wrapped;
    return v;
}

static sft_tensor *empty_strided(const int64_t *shape, const int64_t *strides, int ndim,
                                 int64_t numel, sft_dtype dtype, sft_device device) {
    sft_storage *s = sft_storage_new((size_t)numel * sft_dtype_size(dtype), device);
    if (!s) return NULL;
    sft_tensor *t = tensor_struct();
    if (!t) {
        sft_storage_release(s);
        return NULL;
    }
    t->storage = s;
    t->dtype = (uint8_t)dtype;
    t->device = device;
    t->data = s->data;
    set_geometry(t, shape, strides, ndim);
    return t;
}

sft_tensor *sft_empty(const int64_t *sizes, int ndim, sft_dtype dtype, sft_device device) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (ndim > SFT_MAX_DIMS || ndim < 0) {
        sft_fail(SFT_ERR_ARGUMENT, "a tensor has at most %d dims, got %d", SFT_MAX_DIMS, ndim);
        return NULL;
    }
    if ((unsigned)dtype >= SFT_DTYPE_COUNT) {
        sft_fail(SFT_ERR_ARGUMENT, "unknown dtype %d", (int)dtype);
        return NULL;
    }
    int64_t numel = sft_checked_numel(sizes, ndim, sft_dtype_size(dtype));
    if (numel < 0 || !sft_backend_of(device)) return NULL;
    if (device.index < 0) device.index = 0;
    int64_t strides[SFT_MAX_DIMS];
    sft_contiguous_strides(sizes, ndim, strides);
    return empty_strided(sizes, strides, ndim, numel, dtype, device);
}

sft_tensor *sft_empty_like_(const sft_tensor *t, sft_dtype dtype) {
    if (!t->contiguous && sft_is_dense(t))
        return empty_strided(t->shape, t->strides, t->ndim, t->numel, dtype, t->device);
    return sft_empty(t->shape, t->ndim, dtype, t->device);
}

sft_tensor *sft_from_buffer(void *data, const int64_t *sizes, int ndim, sft_dtype dtype,
                            void (*free_fn)(void *user), void *user) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (ndim > SFT_MAX_DIMS || ndim < 0 || (unsigned)dtype >= SFT_DTYPE_COUNT) {
        sft_fail(SFT_ERR_ARGUMENT, "from_buffer: wrong number of dims or dtype");
        return NULL;
    }
    int64_t numel = sft_checked_numel(sizes, ndim, sft_dtype_size(dtype));
    if (numel < 0) return NULL;
    if ((!data && numel) || (uintptr_t)data % sft_dtype_size(dtype)) {
        sft_fail(SFT_ERR_ARGUMENT, "from_buffer: the address is NULL or not aligned for %s",
                 sft_dtype_name(dtype));
        return NULL;
    }
    sft_storage *s = sft_alloc(sizeof *s);
    if (!s) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    *s = (sft_storage){.refs = 1, .data = data, .kind = SFT_STORAGE_FOREIGN};
    s->device = (sft_device){SFT_CPU, 0};
    int64_t strides[SFT_MAX_DIMS];
    sft_contiguous_strides(sizes, ndim, strides);
    sft_tensor *t = sft_tensor_new(s, dtype, sizes, strides, ndim, s->data);
    if (t) {
        /* Only now: a failure leaves the memory with the caller. */
        s->free_fn = free_fn;
        s->user = user;
    }
    sft_storage_release(s);
    return t;
}

sft_tensor *sft_from_data(const void *data, const int64_t *sizes, int ndim, sft_dtype dtype) {
    sft_tensor *t = sft_empty(sizes, ndim, dtype, (sft_device){SFT_CPU, 0});
    if (t && t->numel) memcpy(t->data, data, (size_t)t->numel * sft_esize(t));
    return t;
}

sft_tensor *sft_scalar(sft_value v, sft_dtype dtype, sft_device device) {
    sft_tensor *t = sft_empty(NULL, 0, dtype, device);
    if (t && sft_fill_raw(t, v) != SFT_OK) {
        sft_release(t);
        return NULL;
    }
    return t;
}

sft_tensor *sft_retain(sft_tensor *t) {
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

/* A chain base -> history can't recurse deeply: nodes are released by a loop (tape.c), and a base is
 * never a view. */
void sft_release(sft_tensor *t) {
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    if (t->meta) sft_meta_free(t->meta);
    if (t->base) sft_release(t->base);
    sft_storage_release(t->storage);
    sft_free(t, sizeof *t);
    atomic_fetch_sub_explicit(&live_tensors, 1, memory_order_relaxed);
}

int sft_ndim(const sft_tensor *t) { return t->ndim; }
const int64_t *sft_sizes(const sft_tensor *t) { return t->shape; }
const int64_t *sft_strides(const sft_tensor *t) { return t->strides; }
int64_t sft_numel(const sft_tensor *t) { return t->numel; }
sft_dtype sft_dtype_of(const sft_tensor *t) { return (sft_dtype)t->dtype; }
sft_device sft_device_of(const sft_tensor *t) { return t->device; }
bool sft_is_contiguous(const sft_tensor *t) { return t->contiguous; }
int64_t sft_storage_offset(const sft_tensor *t) {
    return (t->data - t->storage->data) / (int64_t)sft_esize(t);
}
void *sft_data(sft_tensor *t) { return t->data; }
void sft_bump_version(sft_tensor *t) {
    atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
}
uint32_t sft_version_of(const sft_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}
bool sft_same_storage(const sft_tensor *a, const sft_tensor *b) { return a->storage == b->storage; }
uintptr_t sft_storage_id(const sft_tensor *t) { return (uintptr_t)t->storage; }

sft_status sft_set_data(sft_tensor *t, const sft_tensor *src) {
    if (t == src) return SFT_OK;
    if (t->base)
        return sft_fail(SFT_ERR_ARGUMENT, "set_data: the tensor is a view; set its base instead");
    atomic_fetch_add_explicit(&src->storage->refs, 1, memory_order_relaxed);
    sft_storage_release(t->storage);
    t->storage = src->storage;
    t->dtype = src->dtype;
    t->device = src->device;
    t->data = src->data;
    set_geometry(t, src->shape, src->strides, src->ndim);
    return SFT_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

sft_status sft_fill_raw(sft_tensor *dst, sft_value v) {
    if (dst->numel == 0) return SFT_OK;
    sft_iter it;
    sft_iter_build(&it, &dst, 1, &v, 1);
    sft_kcall k = {.op = SFT_OP_copy, .nt = 1, .t = &dst, .iter = &it, .ctype = dst->dtype};
    return sft_run_kernel(&k, dst->device);
}

sft_status sft_copy_raw(sft_tensor *dst, const sft_tensor *src) {
    if (dst->numel == 0) return SFT_OK;
    sft_value v = sft_v_tensor((sft_tensor *)src);
    sft_tensor *ts[2] = {dst, (sft_tensor *)src};
    sft_iter it;
    sft_iter_build(&it, &dst, 1, &v, 1);
    sft_kcall k = {.op = SFT_OP_copy, .nt = 2, .t = ts, .iter = &it, .ctype = dst->dtype};
    return sft_run_kernel(&k, dst->device);
}

/* One element, converted on the host. */
static void read_element(const sft_tensor *t, const char *p, sft_value *out) {
    switch (t->dtype) {
    case SFT_bool: *out = sft_v_bool(*(const uint8_t *)p != 0); break;
    case SFT_uint8: *out = sft_v_int(*(const uint8_t *)p); break;
    case SFT_int8: *out = sft_v_int(*(const int8_t *)p); break;
    case SFT_int16: *out = sft_v_int(*(const int16_t *)p); break;
    case SFT_int32: *out = sft_v_int(*(const int32_t *)p); break;
    case SFT_int64: *out = sft_v_int(*(const int64_t *)p); break;
    case SFT_float32: *out = sft_v_float(*(const float *)p); break;
    case SFT_float64: *out = sft_v_float(*(const double *)p); break;
    default: {
        /* Half types: let the copy kernel convert. */
        sft_tensor one = *t;
        one.ndim = 0;
        one.numel = 1;
        one.contiguous = true;
        one.data = (char *)p;
        one.meta = NULL;
        one.base = NULL;
        float f = 0;
        if (sft_copy_out(&one, SFT_float32, &f) != SFT_OK) f = 0;
        *out = sft_v_float(f);
    }
    }
}

sft_status sft_item(const sft_tensor *t, sft_value *out) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (t->numel != 1)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "item: a tensor with one element is needed, this one has shape %s; use "
                        "x:tolist(), or an index first",
                        SFT_SHAPE(t));
    read_element(t, t->data, out);
    return SFT_OK;
}

sft_status sft_get(const sft_tensor *t, const int64_t *index, sft_value *out) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    const char *p = t->data;
    for (int d = 0; d < t->ndim; d++) {
        if (index[d] < 0 || index[d] >= t->shape[d])
            return sft_fail(SFT_ERR_INDEX, "index %lld is out of range for dim %d of size %lld",
                            (long long)index[d], d, (long long)t->shape[d]);
        p += index[d] * t->strides[d] * (int64_t)sft_esize(t);
    }
    read_element(t, p, out);
    return SFT_OK;
}

sft_status sft_copy_out(const sft_tensor *t, sft_dtype dtype, void *dst) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (t->numel == 0) return SFT_OK;
    if (t->contiguous && t->dtype == dtype && t->device.type == SFT_CPU) {
        memcpy(dst, t->data, (size_t)t->numel * sft_esize(t));
        return SFT_OK;
    }
    int64_t strides[SFT_MAX_DIMS];
    sft_contiguous_strides(t->shape, t->ndim, strides);
    sft_storage s = {.refs = 1, .device = {SFT_CPU, 0}, .data = dst};
    sft_tensor view;
    memset(&view, 0, sizeof view);
    view.refs = 1;
    view.dtype = (uint8_t)dtype;
    view.storage = &s;
    view.data = dst;
    set_geometry(&view, t->shape, strides, t->ndim);
    return sft_copy_raw(&view, t);
}

sft_status sft_copy_(sft_tensor *dst, sft_tensor *src) {
    sft_value a[2] = {sft_v_tensor(dst), sft_v_tensor(src)};
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int n = 0;
    sft_status st = sft_call(SFT_OP_copy, SFT_CALL_INPLACE, a, 2, NULL, out, &n);
    for (int i = 0; i < n; i++) sft_release(out[i]);
    return st;
}

/* ---- memory as seen from outside ------------------------------------------------------------------ */

sft_status sft_get_memory_stats(sft_device d, sft_memory_stats *out) {
    sft_thread()->code = SFT_OK;
    const sft_backend *be = sft_backend_of(d);
    return be ? be->stats(d.index, out) : sft_last_status();
}
sft_status sft_reset_peak_memory(sft_device d) {
    sft_thread()->code = SFT_OK;
    const sft_backend *be = sft_backend_of(d);
    if (!be) return sft_last_status();
    be->reset_peak(d.index);
    return SFT_OK;
}
sft_status sft_set_memory_limit(sft_device d, size_t bytes) {
    sft_thread()->code = SFT_OK;
    const sft_backend *be = sft_backend_of(d);
    if (!be) return sft_last_status();
    be->set_limit(d.index, bytes);
    return SFT_OK;
}
void sft_empty_cache(void) { sft_cpu_backend()->empty_cache(0); }
void sft_fail_alloc_after(int64_t n) { sft_alloc_fail_after(n); }
