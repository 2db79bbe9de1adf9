/* elementwise.c: runs a loop over contiguous arrays on operands of any dtype and layout. Operands
 * that are not what the loop takes go through small buffers that stay in the first-level cache. */
#include "kernels.h"
#if defined(__AVX__)
#include <immintrin.h>
#endif

typedef struct run {
    const sft_kcall *k;
    const sft_iter *it;
    ew_loop loop; /* NULL: a copy */
    int ct;       /* compute dtype */
    int out_ct;   /* dtype that the loop writes */
    int in_ct[SFT_MAX_OPERANDS];
    bool direct[SFT_MAX_OPERANDS];
    bool flat;   /* one dim */
    bool gather; /* rows too short: buffers are filled across rows */
    bool stream; /* a result that no cache holds: it is stored past them */
} run;

typedef union block {
    _Alignas(64) double d[SFT_BLOCK];
    int64_t i[SFT_BLOCK];
    float f[SFT_BLOCK];
    uint8_t b[SFT_BLOCK];
} block;

static void fill_number(const sft_operand *o, int ct, int64_t n, block *buf) {
    const sft_value *v = &o->num;
    double f = v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_BOOL ? v->u.b : (double)v->u.i;
    int64_t i = v->kind == SFT_V_FLOAT  ? sft_i64_from_f64(v->u.f)
                : v->kind == SFT_V_BOOL ? v->u.b
                                        : v->u.i;
    if (ct == SFT_float32)
        for (int64_t j = 0; j < n; j++) buf->f[j] = (float)f;
    else if (ct == SFT_float64)
        for (int64_t j = 0; j < n; j++) buf->d[j] = f;
    else if (ct == SFT_int64)
        for (int64_t j = 0; j < n; j++) buf->i[j] = i;
    else
        for (int64_t j = 0; j < n; j++) buf->b[j] = f != 0;
}

static inline size_t ct_size(int ct) { return ct == SFT_float32 ? 4 : ct == SFT_bool ? 1 : 8; }

/* ---- results larger than the caches ------------------------------------------------------------
 */

#if defined(__AVX__)

/* An ordinary store reads the line first, a third of the traffic of `a + b`. */
enum { STREAM_BYTES = 32 << 20 };

static void stream_out(char *dst, const char *src, size_t bytes) {
    size_t head = -(uintptr_t)dst & 31;
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
        _mm256_stream_si256((__m256i *)(dst + i), _mm256_loadu_si256((const __m256i *)(src + i)));
        _mm256_stream_si256((__m256i *)(dst + i + 32),
                            _mm256_loadu_si256((const __m256i *)(src + i + 32)));
    }
    memcpy(dst + i, src + i, bytes - i);
}

/* The loop by blocks into a buffer, and from there to memory. */
static void run_streaming(const run *r, char *const *ptr, int64_t n, block *buf) {
    int nop = r->it->nop;
    int64_t size[SFT_MAX_OPERANDS];
    for (int j = 0; j < nop; j++) size[j] = (int64_t)ct_size(j ? r->in_ct[j] : r->out_ct);
    for (int64_t i = 0; i < n; i += SFT_BLOCK) {
        int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;
        r->loop(m, buf, ptr[1] + i * size[1], nop > 2 ? ptr[2] + i * size[2] : NULL,
                nop > 3 ? ptr[3] + i * size[3] : NULL, r->k);
        stream_out(ptr[0] + i * size[0], (const char *)buf, (size_t)(m * size[0]));
    }
    _mm_sfence();
}

static bool worth_streaming(const sft_iter *it, int out_ct) {
    if (it->numel < (int64_t)(STREAM_BYTES / ct_size(out_ct))) return false;
    for (int j = 1; j < it->nop; j++) /* in place the line is there already */
        if (!it->op[j].is_scalar && it->op[j].data == it->op[0].data) return false;
    return true;
}

#else

static void run_streaming(const run *r, char *const *ptr, int64_t n, block *buf) {
    (void)buf;
    int nop = r->it->nop;
    r->loop(n, ptr[0], ptr[1], nop > 2 ? ptr[2] : NULL, nop > 3 ? ptr[3] : NULL, r->k);
}
static bool worth_streaming(const sft_iter *it, int out_ct) {
    (void)it, (void)out_ct;
    return false;
}

#endif

/* One row: n elements along the innermost dim. Numbers may have been put into their buffers. */
static void run_row(const run *r, char *const *ptr, int64_t n, block *buf, bool numbers_filled) {
    const sft_iter *it = r->it;
    int in = it->ndim - 1, nop = it->nop;
    int64_t stride[SFT_MAX_OPERANDS];
    bool all_direct = true;
    for (int j = 0; j < nop; j++) {
        stride[j] = it->op[j].stride[in];
        all_direct &= r->direct[j] && stride[j] == (int64_t)ct_size(j ? r->in_ct[j] : r->out_ct);
    }
    if (all_direct && r->stream && n >= 2 * SFT_BLOCK) {
        run_streaming(r, ptr, n, buf);
        return;
    }
    if (all_direct) {
        r->loop(n, ptr[0], ptr[1], nop > 2 ? ptr[2] : NULL, nop > 3 ? ptr[3] : NULL, r->k);
        return;
    }
    int64_t len = n < SFT_BLOCK ? n : SFT_BLOCK;
    for (int j = 1; j < nop; j++) {
        const sft_operand *o = &it->op[j];
        if (o->is_scalar) {
            if (!numbers_filled) fill_number(o, r->in_ct[j], len, &buf[j]);
        } else if (stride[j] == 0) {
            sft_load(r->in_ct[j], o->dtype, len, ptr[j], 0, &buf[j]);
        }
    }
    for (int64_t i = 0; i < n; i += SFT_BLOCK) {
        int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;
        const void *in_p[SFT_MAX_OPERANDS];
        for (int j = 1; j < nop; j++) {
            const sft_operand *o = &it->op[j];
            if (o->is_scalar || stride[j] == 0) {
                in_p[j] = &buf[j];
            } else if (r->direct[j] && stride[j] == (int64_t)ct_size(r->in_ct[j])) {
                in_p[j] = ptr[j] + i * stride[j];
            } else {
                sft_load(r->in_ct[j], o->dtype, m, ptr[j] + i * stride[j], stride[j], &buf[j]);
                in_p[j] = &buf[j];
            }
        }
        char *o = ptr[0] + i * stride[0];
        bool write_direct = r->direct[0] && stride[0] == (int64_t)ct_size(r->out_ct);
        void *dst = write_direct ? (void *)o : &buf[0];
        if (r->loop)
            r->loop(m, dst, in_p[1], nop > 2 ? in_p[2] : NULL, nop > 3 ? in_p[3] : NULL, r->k);
        else
            sft_store(r->in_ct[1], it->op[0].dtype, m, in_p[1], o, stride[0]);
        if (r->loop && !write_direct)
            sft_store(r->out_ct, it->op[0].dtype, m, &buf[0], o, stride[0]);
    }
}

/* Position `at` of the index space -> index per dim and address per operand. */
static void seek(const sft_iter *it, int64_t at, int64_t *index, char **ptr) {
    for (int j = 0; j < it->nop; j++) ptr[j] = it->op[j].data;
    for (int d = it->ndim - 1; d >= 0; d--) {
        index[d] = at % it->size[d];
        at /= it->size[d];
        for (int j = 0; j < it->nop; j++)
            if (!it->op[j].is_scalar) ptr[j] += index[d] * it->op[j].stride[d];
    }
}

/* To the next row (dims above `last`). */
static void advance(const sft_iter *it, int last, int64_t *index, char **ptr) {
    for (int d = last; d >= 0; d--) {
        index[d]++;
        for (int j = 0; j < it->nop; j++) ptr[j] += it->op[j].stride[d];
        if (index[d] < it->size[d]) return;
        for (int j = 0; j < it->nop; j++) ptr[j] -= it->op[j].stride[d] * it->size[d];
        index[d] = 0;
    }
}

/* Rows are short: blocks are gathered over several rows, computed, and scattered. */
static void run_gather(const run *r, int64_t begin, int64_t end) {
    const sft_iter *it = r->it;
    block buf[SFT_MAX_OPERANDS];
    int in = it->ndim - 1, nop = it->nop;
    for (int j = 1; j < nop; j++)
        if (it->op[j].is_scalar) fill_number(&it->op[j], r->in_ct[j], SFT_BLOCK, &buf[j]);
    int64_t index[SFT_MAX_DIMS];
    char *ptr[SFT_MAX_OPERANDS];
    seek(it, begin, index, ptr);
    while (begin < end) {
        int64_t m = end - begin < SFT_BLOCK ? end - begin : SFT_BLOCK, at = 0;
        int64_t first_index[SFT_MAX_DIMS];
        char *first[SFT_MAX_OPERANDS];
        memcpy(first_index, index, sizeof(int64_t) * (size_t)it->ndim);
        memcpy(first, ptr, sizeof(char *) * (size_t)nop);
        for (int pass = 0; pass < 2; pass++) {
            /* pass 0 reads the inputs, pass 1 writes the output */
            at = 0;
            memcpy(index, first_index, sizeof(int64_t) * (size_t)it->ndim);
            memcpy(ptr, first, sizeof(char *) * (size_t)nop);
            while (at < m) {
                int64_t n = it->size[in] - index[in];
                if (n > m - at) n = m - at;
                if (pass == 0) {
                    for (int j = 1; j < nop; j++) {
                        if (it->op[j].is_scalar) continue;
                        sft_load(r->in_ct[j], it->op[j].dtype, n, ptr[j], it->op[j].stride[in],
                                 buf[j].b + at * (int64_t)ct_size(r->in_ct[j]));
                    }
                } else {
                    const block *src = r->loop ? &buf[0] : &buf[1];
                    sft_store(r->out_ct, it->op[0].dtype, n,
                              src->b + at * (int64_t)ct_size(r->out_ct), ptr[0],
                              it->op[0].stride[in]);
                }
                at += n;
                index[in] += n;
                for (int j = 0; j < nop; j++) ptr[j] += n * it->op[j].stride[in];
                if (index[in] == it->size[in]) {
                    for (int j = 0; j < nop; j++) ptr[j] -= it->op[j].stride[in] * it->size[in];
                    index[in] = 0;
                    if (in > 0) advance(it, in - 1, index, ptr);
                }
            }
            if (pass == 0 && r->loop)
                r->loop(m, &buf[0], &buf[1], nop > 2 ? &buf[2] : NULL, nop > 3 ? &buf[3] : NULL,
                        r->k);
        }
        begin += m;
    }
}

static void run_range(void *ctx, int64_t begin, int64_t end) {
    const run *r = ctx;
    const sft_iter *it = r->it;
    if (r->gather) {
        run_gather(r, begin, end);
        return;
    }
    block buf[SFT_MAX_OPERANDS];
    int in = it->ndim - 1;
    int64_t index[SFT_MAX_DIMS];
    char *ptr[SFT_MAX_OPERANDS];
    seek(it, begin, index, ptr);
    bool filled = false;
    if (!r->flat) {
        int64_t longest = it->size[in] < SFT_BLOCK ? it->size[in] : SFT_BLOCK;
        for (int j = 1; j < it->nop; j++)
            if (it->op[j].is_scalar) fill_number(&it->op[j], r->in_ct[j], longest, &buf[j]);
        filled = true;
    }
    while (begin < end) {
        int64_t n = it->size[in] - index[in];
        if (n > end - begin) n = end - begin;
        run_row(r, ptr, n, buf, filled);
        begin += n;
        if (begin >= end) break;
        for (int j = 0; j < it->nop; j++) ptr[j] -= it->op[j].stride[in] * index[in];
        index[in] = 0;
        if (in > 0) advance(it, in - 1, index, ptr);
    }
}

static sft_status start(run *r) {
    const sft_iter *it = r->it;
    int in = it->ndim - 1;
    r->flat = it->ndim == 1;
    r->gather = it->ndim > 1 && it->size[in] < 64 && it->numel > it->size[in];
    for (int j = 0; j < it->nop; j++) {
        int want = j ? r->in_ct[j] : r->out_ct;
        r->direct[j] = !it->op[j].is_scalar && it->op[j].dtype == want;
    }
    if (!r->loop) r->direct[0] = false;
    r->stream = r->loop && worth_streaming(it, r->out_ct);
    sft_parallel_for(it->numel, SFT_GRAIN, run_range, r);
    return SFT_OK;
}

sft_status ew_run(const sft_kcall *k, const ew_loops *loops) {
    run r = {.k = k, .it = k->iter, .ct = k->ctype};
    r.loop = k->ctype == SFT_float32   ? loops->f32
             : k->ctype == SFT_float64 ? loops->f64
                                       : loops->i64;
    if (!r.loop)
        return sft_fail(SFT_ERR_UNSUPPORTED, "%s: not supported for %s on cpu",
                        sft_op_get_info(k->op)->name,
                        sft_dtype_name((sft_dtype)k->iter->op[k->iter->nop - 1].dtype));
    r.out_ct = loops->to_bool ? SFT_bool : k->ctype;
    for (int j = 1; j < k->iter->nop; j++)
        r.in_ct[j] = j == 1 && loops->bool_first ? SFT_bool : k->ctype;
    return start(&r);
}

/* ---- copy -------------------------------------------------------------------------------------
 */

KERNEL(copy)(const sft_kcall *k) {
    const sft_iter *it = k->iter;
    const sft_operand *s = &it->op[1];
    if (!s->is_scalar && s->dtype == it->op[0].dtype) {
        copy_same(it);
        return SFT_OK;
    }
    run r = {.k = k, .it = it};
    /* A number is brought into the dtype that loses nothing on the way. */
    r.ct =
        sft_compute_dtype(s->is_scalar && sft_is_float(it->op[0].dtype) ? SFT_float64 : s->dtype);
    r.out_ct = r.in_ct[1] = r.ct;
    return start(&r);
}
