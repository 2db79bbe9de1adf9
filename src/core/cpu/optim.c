/* optim.c: steps of SGD and Adam, norm and scaling of many tensors, each in one pass over memory.
 */
#include "lanes.h"
#include "../ops/optim.h"

#define T       float
#define N(name) name##_f32
#define SQRT    sqrtf
#include "optim.inc"
#undef T
#undef N
#undef SQRT
#define T       double
#define N(name) name##_f64
#define SQRT    sqrt
#include "optim.inc"
#undef T
#undef N
#undef SQRT

/* The item that holds element `at` of the whole run. */
static int item_of(const sft_optim_params *o, int64_t at) {
    int lo = 0, hi = o->count - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (o->items[mid].start <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

typedef void block_fn(const sft_kcall *k, const sft_optim_item *it, int64_t at, int64_t n,
                      void *const *data);

/* Calls fn on blocks; elements that need no conversion are worked on where they lie. `written`:
 * bits of the tensors that are stored again. */
static void each_block(const sft_kcall *k, int64_t begin, int64_t end, int tensors,
                       unsigned written, block_fn *fn) {
    const sft_optim_params *o = k->params;
    _Alignas(64) double buf[SFT_OPTIM_TENSORS][SFT_BLOCK];
    for (int i = item_of(o, begin); begin < end; i++) {
        const sft_optim_item *it = &o->items[i];
        while (begin < end && begin < it->start + it->n) {
            const int64_t at = begin - it->start;
            int64_t n = it->n - at;
            void *data[SFT_OPTIM_TENSORS];
            bool direct = true;
            for (int j = 0; j < tensors; j++) direct &= !it->data[j] || it->dtype[j] == it->ct;
            if (n > end - begin) n = end - begin;
            if (!direct && n > SFT_BLOCK) n = SFT_BLOCK;
            for (int j = 0; j < tensors; j++) {
                const int64_t es = (int64_t)sft_dtype_size((sft_dtype)it->dtype[j]);
                data[j] = it->data[j] ? it->data[j] + at * es : NULL;
                if (!data[j] || it->dtype[j] == it->ct) continue;
                sft_load(it->ct, it->dtype[j], n, data[j], es, buf[j]);
                data[j] = buf[j];
            }
            fn(k, it, begin, n, data);
            for (int j = 0; j < tensors; j++) {
                if (data[j] != buf[j] || !(written >> j & 1)) continue;
                const int64_t es = (int64_t)sft_dtype_size((sft_dtype)it->dtype[j]);
                sft_store(it->ct, it->dtype[j], n, buf[j], it->data[j] + at * es, es);
            }
            begin += n;
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void sgd_fn(const sft_kcall *k, const sft_optim_item *it, int64_t at, int64_t n,
                   void *const *d) {
    (void)at;
    if (it->ct == SFT_float64)
        sgd_block_f64(k->params, n, d[0], d[1], d[2]);
    else
        sgd_block_f32(k->params, n, d[0], d[1], d[2]);
}
static void sgd_range(void *ctx, int64_t begin, int64_t end) {
    each_block(ctx, begin, end, 3, 1 | 4, sgd_fn);
}
KERNEL(_fused_sgd_)(const sft_kcall *k) {
    const sft_optim_params *o = k->params;
    sft_parallel_for(o->total, SFT_GRAIN, sgd_range, (void *)k);
    return SFT_OK;
}

static void adam_fn(const sft_kcall *k, const sft_optim_item *it, int64_t at, int64_t n,
                    void *const *d) {
    (void)at;
    if (it->ct == SFT_float64)
        adam_block_f64(k->params, n, d[0], d[1], d[2], d[3], d[4]);
    else
        adam_block_f32(k->params, n, d[0], d[1], d[2], d[3], d[4]);
}
static void adam_range(void *ctx, int64_t begin, int64_t end) {
    each_block(ctx, begin, end, 5, 1 | 4 | 8 | 16, adam_fn);
}
KERNEL(_fused_adam_)(const sft_kcall *k) {
    const sft_optim_params *o = k->params;
    sft_parallel_for(o->total, SFT_GRAIN / 2, adam_range, (void *)k);
    return SFT_OK;
}

/* ---- norm and scale -------------------------------------------------------------------------- */

static void scale_fn(const sft_kcall *k, const sft_optim_item *it, int64_t at, int64_t n,
                     void *const *d) {
    (void)at;
    if (it->ct == SFT_float64)
        scale_block_f64(k->params, n, d[0]);
    else
        scale_block_f32(k->params, n, d[0]);
}
static void scale_range(void *ctx, int64_t begin, int64_t end) {
    each_block(ctx, begin, end, 1, 1, scale_fn);
}
KERNEL(_scale_)(const sft_kcall *k) {
    const sft_optim_params *o = k->params;
    sft_parallel_for(o->total, SFT_GRAIN, scale_range, (void *)k);
    return SFT_OK;
}

enum { NORM_UNIT = 8192 }; /* elements with a sum of their own */

static void norm_fn(const sft_kcall *k, const sft_optim_item *it, int64_t at, int64_t n,
                    void *const *d) {
    const sft_optim_params *o = k->params;
    double *r = &o->result[at / NORM_UNIT];
    for (int64_t i = 0; i < n; i += SFT_BLOCK) {
        const int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;
        const double v = it->ct == SFT_float64 ? norm_block_f64(o, m, (const double *)d[0] + i)
                                               : norm_block_f32(o, m, (const float *)d[0] + i);
        if (!isinf(o->p))
            *r += v;
        else if (v != v || (*r == *r && (o->p > 0 ? v > *r : v < *r)))
            *r = v;
    }
}
static void norm_units(void *ctx, int64_t begin, int64_t end) {
    const sft_kcall *k = ctx;
    const sft_optim_params *o = k->params;
    for (int64_t u = begin; u < end; u++) {
        const int64_t last = (u + 1) * NORM_UNIT < o->total ? (u + 1) * NORM_UNIT : o->total;
        o->result[u] = isinf(o->p) && o->p < 0 ? INFINITY : 0;
        each_block(k, u * NORM_UNIT, last, 1, 0, norm_fn);
    }
}

/* t[0]: 0-dim, float32 or float64 */
KERNEL(_global_norm)(const sft_kcall *k) {
    sft_optim_params o = *(const sft_optim_params *)k->params;
    const int64_t units = (o.total + NORM_UNIT - 1) / NORM_UNIT;
    const size_t bytes = (size_t)units * sizeof(double);
    o.result = sft_alloc(bytes);
    if (!o.result) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_kcall own = *k;
    own.params = &o;
    sft_parallel_for(units, 2, norm_units, &own);
    double r = isinf(o.p) && o.p < 0 ? INFINITY : 0;
    for (int64_t u = 0; u < units; u++) {
        const double v = o.result[u];
        if (!isinf(o.p))
            r += v;
        else if (v != v || (r == r && (o.p > 0 ? v > r : v < r)))
            r = v;
    }
    if (o.p == 2)
        r = sqrt(r);
    else if (o.p != 1 && o.p != 0 && !isinf(o.p))
        r = pow(r, 1 / o.p);
    sft_free(o.result, bytes);
    sft_store(SFT_float64, k->t[0]->dtype, 1, &r, k->t[0]->data, 8);
    return SFT_OK;
}
