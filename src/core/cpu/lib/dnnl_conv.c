/*
 * dnnl_conv.c - convolution by oneDNN's direct kernels.
 *
 * oneDNN computes in blocked layouts of its own choice; our tensors are plain.  We give it a few
 * images at a time, so that their reordered copies stay in the cache, one thread a chunk.  The size
 * of a chunk depends on the shape only, so that results do not depend on the number of threads.
 * Primitives cost milliseconds to make (they are compiled at run time) and are kept.
 */
#include "dnnl.h"
#include "dnnl_api.h"

#ifdef SFT_HAVE_DNNL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../../alloc.h"
#include "../../threads.h"
#include "scratch.h"

enum {
    MIN_WORK = 4000000,   /* multiplications of a call below which the library is not loaded */
    CHUNK_WORK = 6000000, /* multiplications of a chunk of images: some 100 us */
    CACHE_SIZE = 509,     /* plans kept */
    ENOUGH_TASKS = 8,     /* below, channels are split too */
    MOST_PARTS = 16       /* parts of a weight gradient */
};

typedef enum pass { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS } pass;

/* One side of a plan: the tensor as the user has it and as the primitive wants it. */
typedef struct side {
    dnnl_memory_desc_t plain, inner;
    dnnl_primitive_t reorder; /* NULL where both are the same */
    size_t bytes;             /* of inner, 0 without reorder */
} side;

/* A compiled convolution of a chunk of images, or of a block of its channels. */
typedef struct plan {
    sft_conv c;     /* n: images of the chunk; ic or oc: channels of the block */
    int64_t ic, oc; /* channels of the whole */
    pass pass;
    bool bias, usable;
    bool bound; /* made for a given layout of the weights */
    dnnl_primitive_t conv;
    side src, wei, dst;
    dnnl_memory_desc_t bias_md, pad_md; /* pad: the scratchpad */
    size_t pad_bytes, inner_wei_bytes;
    _Atomic int users;
    uint64_t last_used;
} plan;

static plan *plans[CACHE_SIZE];
static uint64_t plan_clock;
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t div_up(int64_t x, int64_t by) { return (x + by - 1) / by; }
static size_t align_up(size_t x) { return (x + 63) & ~(size_t)63; }

/* ---- making a plan ---- */

static void destroy_plan(plan *p) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    if (p->conv) d->primitive_destroy(p->conv);
    if (p->src.reorder) d->primitive_destroy(p->src.reorder);
    if (p->wei.reorder) d->primitive_destroy(p->wei.reorder);
    if (p->dst.reorder) d->primitive_destroy(p->dst.reorder);
    sft_free(p, sizeof *p);
}

/* The tensors as the user has them: contiguous, or a block of channels of a contiguous one. */
static void plain_descs(plan *p) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    const sft_conv *c = &p->c;
    int64_t in = c->ih * c->iw, out = c->oh * c->ow, taps = c->kh * c->kw;
    dnnl_dims_t src = {c->n, c->ic, c->ih, c->iw}, src_step = {p->ic * in, in, c->iw, 1};
    dnnl_dims_t dst = {c->n, c->oc, c->oh, c->ow}, dst_step = {p->oc * out, out, c->ow, 1};
    dnnl_dims_t bias = {c->oc};
    d->memory_desc_init_by_strides(&p->src.plain, 4, src, dnnl_f32, src_step);
    d->memory_desc_init_by_strides(&p->dst.plain, 4, dst, dnnl_f32, dst_step);
    d->memory_desc_init_by_tag(&p->bias_md, 1, bias, dnnl_f32, dnnl_a);
    if (c->groups > 1) {
        dnnl_dims_t wei = {c->groups, c->oc / c->groups, c->ic / c->groups, c->kh, c->kw};
        d->memory_desc_init_by_tag(&p->wei.plain, 5, wei, dnnl_f32, dnnl_abcde);
    } else {
        dnnl_dims_t wei = {c->oc, c->ic, c->kh, c->kw}, step = {p->ic * taps, taps, c->kw, 1};
        d->memory_desc_init_by_strides(&p->wei.plain, 4, wei, dnnl_f32, step);
    }
}

/* The same tensor in whatever layout the primitive likes best. */
static dnnl_memory_desc_t any_layout(const dnnl_memory_desc_t *plain) {
    dnnl_memory_desc_t md;
    sft_dnnl_lib.memory_desc_init_by_tag(&md, plain->ndims, plain->dims, dnnl_f32,
                                         dnnl_format_tag_any);
    return md;
}

static bool conv_desc(const plan *p, pass kind, const dnnl_memory_desc_t *wei_md,
                      dnnl_convolution_desc_t *out) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    const sft_conv *c = &p->c;
    dnnl_dims_t strides = {c->sh, c->sw}, dilates = {c->dh - 1, c->dw - 1};
    dnnl_dims_t before = {c->ph0, c->pw0}, after = {c->ph1, c->pw1};
    dnnl_memory_desc_t src = any_layout(&p->src.plain), dst = any_layout(&p->dst.plain);
    dnnl_memory_desc_t wei = wei_md ? *wei_md : any_layout(&p->wei.plain);
    dnnl_status_t s;
    if (kind == FORWARD)
        s = d->dilated_convolution_forward_desc_init(
            out, dnnl_forward_training, dnnl_convolution_direct, &src, &wei,
            p->bias ? &p->bias_md : NULL, &dst, strides, dilates, before, after);
    else if (kind == BACKWARD_DATA)
        s = d->dilated_convolution_backward_data_desc_init(out, dnnl_convolution_direct, &src, &wei,
                                                           &dst, strides, dilates, before, after);
    else
        s = d->dilated_convolution_backward_weights_desc_init(
            out, dnnl_convolution_direct, &src, &wei, NULL, &dst, strides, dilates, before, after);
    return s == dnnl_success;
}

/* Copies what the primitive wants for a side and makes the reorder from or to the plain layout. */
static bool make_side(plan *p, side *s, dnnl_primitive_desc_t pd, dnnl_query_t query, bool input) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    const dnnl_memory_desc_t *md = d->primitive_desc_query_md(pd, query, 0);
    if (!md) return false;
    s->inner = *md;
    if (d->memory_desc_equal(&s->plain, &s->inner)) return true;
    s->bytes = d->memory_desc_get_size(&s->inner);
    dnnl_primitive_desc_t rpd = NULL;
    if (d->reorder_primitive_desc_create(&rpd, input ? &s->plain : &s->inner, d->engine,
                                         input ? &s->inner : &s->plain, d->engine,
                                         d->attr) != dnnl_success)
        return false;
    const dnnl_memory_desc_t *pad = d->primitive_desc_query_md(rpd, dnnl_query_scratchpad_md, 0);
    size_t need = pad ? d->memory_desc_get_size(pad) : 0;
    bool ok = need == 0 && d->primitive_create(&s->reorder, rpd) == dnnl_success;
    d->primitive_desc_destroy(rpd);
    (void)p;
    return ok;
}

/* Fills in p from its key; false: oneDNN has no fast kernel for it. */
static bool build(plan *p, const dnnl_memory_desc_t *wei_md) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    plain_descs(p);
    dnnl_convolution_desc_t desc, hint_desc;
    dnnl_primitive_desc_t pd = NULL, hint = NULL;
    bool ok = false;
    if (!conv_desc(p, p->pass, wei_md, &desc)) return false;
    if (p->pass != FORWARD) {
        bool bias = p->bias;
        p->bias = false;
        ok = conv_desc(p, FORWARD, NULL, &hint_desc) &&
             d->primitive_desc_create(&hint, &hint_desc, d->attr, d->engine, NULL) == dnnl_success;
        p->bias = bias;
        if (!ok) return false;
    }
    ok = d->primitive_desc_create(&pd, &desc, d->attr, d->engine, hint) == dnnl_success;
    if (hint) d->primitive_desc_destroy(hint);
    if (!ok) return false;
    const char *name = NULL;
    d->primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name);
    /* its reference code is far slower than ours, and it does products over patches no better */
    ok = name && strstr(name, "jit") != NULL && strstr(name, "gemm:jit") == NULL;
    static const dnnl_query_t query[3][3] = {
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    const dnnl_query_t *q = query[p->pass];
    ok = ok && make_side(p, &p->src, pd, q[0], p->pass != BACKWARD_DATA) &&
         make_side(p, &p->wei, pd, q[1], p->pass != BACKWARD_WEIGHTS) &&
         make_side(p, &p->dst, pd, q[2], p->pass != FORWARD);
    if (ok) {
        p->inner_wei_bytes = d->memory_desc_get_size(&p->wei.inner);
        const dnnl_memory_desc_t *pad = d->primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        if (pad) p->pad_md = *pad;
        p->pad_bytes = pad ? d->memory_desc_get_size(pad) : 0;
        ok = d->primitive_create(&p->conv, pd) == dnnl_success;
    }
    d->primitive_desc_destroy(pd);
    return ok;
}

/* What a plan is found by. */
typedef struct plan_key {
    sft_conv c;
    int64_t ic, oc;
    pass pass;
    bool bias, bound;
} plan_key;

static uint64_t hash_key(const plan_key *k) {
    const sft_conv *c = &k->c;
    const int64_t v[] = {c->n,  c->ic,     c->ih,  c->iw,  c->oc,   c->kh,   c->kw,
                         c->sh, c->sw,     c->ph0, c->ph1, c->pw0,  c->pw1,  c->dh,
                         c->dw, c->groups, k->ic,  k->oc,  k->pass, k->bias, k->bound};
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) h = (h ^ (uint64_t)v[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static bool same_key(const plan *p, const plan_key *k) {
    const sft_conv *c = &k->c;
    const sft_conv *a = &p->c;
    return p->pass == k->pass && p->bias == k->bias && p->bound == k->bound && p->ic == k->ic &&
           p->oc == k->oc && a->n == c->n && a->ic == c->ic && a->ih == c->ih && a->iw == c->iw &&
           a->oc == c->oc && a->kh == c->kh && a->kw == c->kw && a->oh == c->oh && a->ow == c->ow &&
           a->sh == c->sh && a->sw == c->sw && a->ph0 == c->ph0 && a->ph1 == c->ph1 &&
           a->pw0 == c->pw0 && a->pw1 == c->pw1 && a->dh == c->dh && a->dw == c->dw &&
           a->groups == c->groups;
}

/* The plan for `images` images and one of `blocks` blocks of channels of c, made now if it is new;
 * to be given back with release.  wei_md: the layout that the weights must have (that of another
 * plan), or NULL.  NULL: no memory. */
static plan *acquire(const sft_conv *c, int64_t images, int64_t blocks, pass kind, bool bias,
                     const dnnl_memory_desc_t *wei_md) {
    plan_key key = {*c, c->ic, c->oc, kind, bias, wei_md != NULL};
    key.c.n = images;
    *(kind == BACKWARD_DATA ? &key.c.ic : &key.c.oc) /= blocks;
    uint64_t h = hash_key(&key);
    enum { PROBES = 4 };
    plan *found = NULL;
    int slot = -1;
    pthread_mutex_lock(&plans_lock);
    for (int i = 0; i < PROBES && !found; i++) {
        int at = (int)((h + (uint64_t)i) % CACHE_SIZE);
        plan *p = plans[at];
        if (p && same_key(p, &key)) {
            bool fits =
                !wei_md || !p->usable || sft_dnnl_lib.memory_desc_equal(wei_md, &p->wei.inner);
            if (fits)
                found = p;
            else if (atomic_load(&p->users) == 0)
                slot = at, i = PROBES;
        } else if (slot < 0 || (plans[slot] && (!p || p->last_used < plans[slot]->last_used))) {
            if (!p || atomic_load(&p->users) == 0) slot = at;
        }
    }
    if (!found) {
        found = sft_alloc_zero(sizeof *found);
        if (found) {
            found->c = key.c;
            found->ic = c->ic;
            found->oc = c->oc;
            found->pass = kind;
            found->bias = bias;
            found->bound = key.bound;
            int state = sft_dnnl_enter();
            found->usable = build(found, wei_md);
            sft_dnnl_leave(state);
            if (slot >= 0) {
                if (plans[slot]) destroy_plan(plans[slot]);
                plans[slot] = found;
            } else {
                atomic_store(&found->users, 1 << 20); /* in no slot: the last user frees it */
            }
        }
    }
    if (found) {
        atomic_fetch_add(&found->users, 1);
        found->last_used = ++plan_clock;
    }
    pthread_mutex_unlock(&plans_lock);
    return found;
}

static void release(plan *p) {
    if (p && atomic_fetch_sub(&p->users, 1) == (1 << 20) + 1) destroy_plan(p);
}

/* ---- running one ---- */

typedef struct arg {
    int id;
    const dnnl_memory_desc_t *md;
    void *ptr;
} arg;

static bool execute(dnnl_primitive_t prim, dnnl_stream_t stream, const arg *args, int n) {
    sft_dnnl_api *d = &sft_dnnl_lib;
    dnnl_exec_arg_t list[5];
    int made = 0;
    bool ok = true;
    for (; made < n && ok; made++) {
        list[made].arg = args[made].id;
        list[made].memory = NULL;
        ok = d->memory_create(&list[made].memory, args[made].md, d->engine, args[made].ptr) ==
             dnnl_success;
    }
    ok = ok && d->primitive_execute(prim, stream, n, list) == dnnl_success;
    for (int i = 0; i < made; i++)
        if (list[i].memory) d->memory_destroy(list[i].memory);
    return ok;
}

static bool reorder(const side *s, dnnl_stream_t stream, bool input, void *plain, void *inner) {
    const arg args[] = {{DNNL_ARG_FROM, input ? &s->plain : &s->inner, input ? plain : inner},
                        {DNNL_ARG_TO, input ? &s->inner : &s->plain, input ? inner : plain}};
    return execute(s->reorder, stream, args, 2);
}

typedef struct job {
    const sft_conv *c;
    plan *main, *rest;      /* rest: for the remainder of the images, or NULL */
    int64_t chunks, blocks; /* of images, and of the output's channels */
    pass pass;
    char *src, *bias, *dst;
    char *wei; /* inner layout, one a block; of a weight gradient one a chunk and block */
    _Atomic bool failed;
} job;

/* All weights, from or to the plain layout. */
static bool reorder_weights(const job *j, bool input, char *plain, char *inner) {
    const plan *p = j->main;
    int64_t taps = p->c.kh * p->c.kw;
    int64_t step = (j->pass == BACKWARD_DATA ? p->c.ic : p->c.oc * p->ic) * taps * 4;
    int state = sft_dnnl_enter();
    dnnl_stream_t stream = NULL;
    bool ok = sft_dnnl_lib.stream_create(&stream, sft_dnnl_lib.engine, dnnl_stream_default_flags) ==
              dnnl_success;
    for (int64_t b = 0; b < j->blocks && ok; b++)
        ok = reorder(&p->wei, stream, input, plain + b * step,
                     inner + b * (int64_t)p->inner_wei_bytes);
    if (stream) sft_dnnl_lib.stream_destroy(stream);
    sft_dnnl_leave(state);
    return ok;
}

/* One block of channels of one chunk of images. */
static bool run_chunk(const job *j, int64_t task, dnnl_stream_t stream) {
    const sft_conv *c = j->c;
    int64_t chunk = task / j->blocks, block = task % j->blocks;
    const plan *p = j->rest && chunk == j->chunks - 1 ? j->rest : j->main;
    int64_t first = chunk * j->main->c.n;
    int64_t ic = first * c->ic + (j->pass == BACKWARD_DATA ? block * p->c.ic : 0);
    int64_t oc = first * c->oc + (j->pass == BACKWARD_DATA ? 0 : block * p->c.oc);
    char *src = j->src + ic * c->ih * c->iw * 4;
    char *dst = j->dst + oc * c->oh * c->ow * 4;
    char *wei = j->wei + (j->pass == BACKWARD_WEIGHTS ? task : block) * (int64_t)p->inner_wei_bytes;
    size_t src_bytes = align_up(p->src.bytes), dst_bytes = align_up(p->dst.bytes);
    char *work = sft_scratch(SFT_SCRATCH_DNNL, src_bytes + dst_bytes + p->pad_bytes + 64);
    if (!work) return false;
    char *inner_src = p->src.reorder ? work : src,
         *inner_dst = p->dst.reorder ? work + src_bytes : dst;
    char *pad = work + src_bytes + dst_bytes;
    if (p->src.reorder && j->pass != BACKWARD_DATA &&
        !reorder(&p->src, stream, true, src, inner_src))
        return false;
    if (p->dst.reorder && j->pass != FORWARD && !reorder(&p->dst, stream, true, dst, inner_dst))
        return false;
    static const int ids[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                  {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                  {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    arg args[5] = {{ids[j->pass][0], &p->src.inner, inner_src},
                   {ids[j->pass][1], &p->wei.inner, wei},
                   {ids[j->pass][2], &p->dst.inner, inner_dst}};
    int n = 3;
    if (p->bias) args[n++] = (arg){DNNL_ARG_BIAS, &p->bias_md, j->bias + block * p->c.oc * 4};
    if (p->pad_bytes) args[n++] = (arg){DNNL_ARG_SCRATCHPAD, &p->pad_md, pad};
    if (!execute(p->conv, stream, args, n)) return false;
    if (p->dst.reorder && j->pass == FORWARD)
        return reorder(&p->dst, stream, false, dst, inner_dst);
    if (p->src.reorder && j->pass == BACKWARD_DATA)
        return reorder(&p->src, stream, false, src, inner_src);
    return true;
}

static void run_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    int state = sft_dnnl_enter();
    dnnl_stream_t stream = NULL;
    bool ok = sft_dnnl_lib.stream_create(&stream, sft_dnnl_lib.engine, dnnl_stream_default_flags) ==
              dnnl_success;
    for (int64_t i = begin; i < end && ok; i++) ok = run_chunk(j, i, stream);
    if (!ok) atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    if (stream) sft_dnnl_lib.stream_destroy(stream);
    sft_dnnl_leave(state);
}

/* Multiplications for one image. */
static double image_work(const sft_conv *c) {
    return (double)c->oc * (double)(c->ic / c->groups) * (double)(c->kh * c->kw) *
           (double)(c->oh * c->ow);
}

static bool worth_it(const sft_conv *c) {
    const int64_t limit = INT32_MAX / 8;
    if (c->f64 || (!sft_dnnl_always() && image_work(c) * (double)c->n < MIN_WORK)) return false;
    if (c->ic < 1 || c->ic * c->ih * c->iw > limit || c->oc * c->oh * c->ow > limit) return false;
    return sft_dnnl();
}

/* Blocks of channels where the images alone give threads too little to share. */
static int64_t channel_blocks(const sft_conv *c, pass kind, int64_t chunks) {
    int64_t channels = kind == BACKWARD_DATA ? c->ic : c->oc, blocks = 1;
    if (c->groups > 1 || image_work(c) * (double)c->n < 2.0 * CHUNK_WORK) return 1;
    while (chunks * blocks < ENOUGH_TASKS && channels % (blocks * 2 * 32) == 0) blocks *= 2;
    return blocks;
}

/* Plans for chunks of `images`, and for what is left over. */
static sft_dnnl_result get_plans(job *j, int64_t images, bool bias) {
    j->blocks = channel_blocks(j->c, j->pass, div_up(j->c->n, images));
    j->main = acquire(j->c, images, j->blocks, j->pass, bias, NULL);
    if (!j->main) return SFT_DNNL_FAILED;
    if (!j->main->usable) return SFT_DNNL_NO;
    /* blocks of plain weights are not one after the other; no kernel we know wants them so */
    if (j->pass == BACKWARD_DATA && j->blocks > 1 && !j->main->wei.reorder) return SFT_DNNL_NO;
    j->chunks = div_up(j->c->n, images);
    if (j->c->n % images == 0) return SFT_DNNL_OK;
    j->rest = acquire(j->c, j->c->n % images, j->blocks, j->pass, bias, &j->main->wei.inner);
    if (!j->rest) return SFT_DNNL_FAILED;
    return j->rest->usable ? SFT_DNNL_OK : SFT_DNNL_NO;
}

/* Forward and the gradient of the input: weights in, images independent. */
static sft_dnnl_result run_images(job *j, void *plain_wei, bool bias) {
    atomic_init(&j->failed, false);
    int64_t images = (int64_t)((double)CHUNK_WORK / max64((int64_t)image_work(j->c), 1));
    images = min64(max64(images, 1), j->c->n);
    sft_dnnl_result r = get_plans(j, images, bias);
    if (r == SFT_DNNL_OK) {
        j->wei = plain_wei;
        if (j->main->wei.reorder) {
            j->wei =
                sft_scratch(SFT_SCRATCH_CONV_SHARED, j->main->inner_wei_bytes * (size_t)j->blocks);
            if (!j->wei || !reorder_weights(j, true, plain_wei, j->wei)) r = SFT_DNNL_FAILED;
        }
    }
    if (r == SFT_DNNL_OK) {
        sft_parallel_for(j->chunks * j->blocks, 1, run_range, j);
        if (atomic_load(&j->failed)) r = SFT_DNNL_FAILED;
    }
    release(j->main);
    release(j->rest);
    return r;
}

sft_dnnl_result sft_dnnl_conv_forward(const sft_conv *c, const void *x, const void *w,
                                      const void *bias, void *y) {
    if (!worth_it(c)) return SFT_DNNL_NO;
    job j = {.c = c, .pass = FORWARD, .src = (char *)(uintptr_t)x, .dst = y};
    j.bias = (char *)(uintptr_t)bias;
    return run_images(&j, (void *)(uintptr_t)w, bias != NULL);
}

sft_dnnl_result sft_dnnl_conv_backward_data(const sft_conv *c, const void *dy, const void *w,
                                            void *dx) {
    /* few input channels: products over patches are two to four times as fast */
    if (c->ic / c->groups <= 3 && c->groups == 1) return SFT_DNNL_NO;
    if (!worth_it(c)) return SFT_DNNL_NO;
    job j = {.c = c, .pass = BACKWARD_DATA, .src = dx, .dst = (char *)(uintptr_t)dy};
    return run_images(&j, (void *)(uintptr_t)w, false);
}

typedef struct sum_job {
    float *to;
    const float *from;
    int64_t size, parts;
} sum_job;

static void sum_range(void *ctx, int64_t begin, int64_t end) {
    sum_job *s = ctx;
    for (int64_t p = 0; p < s->parts; p++) {
        const float *from = s->from + p * s->size;
        for (int64_t i = begin; i < end; i++) s->to[i] += from[i];
    }
}

/* Images of a part of the weight gradient: parts enough for the threads, but not so many that
 * adding them up costs more than a few percent. */
static int64_t part_images(const sft_conv *c) {
    int64_t parts = min64(max64(c->oh * c->ow * c->n / 900, 2), MOST_PARTS);
    parts = min64(parts, (int64_t)(image_work(c) * (double)c->n / CHUNK_WORK) + 1);
    return div_up(c->n, min64(parts, c->n));
}

sft_dnnl_result sft_dnnl_conv_backward_weights(const sft_conv *c, const void *x, const void *dy,
                                               void *dw) {
    if (c->ic <= 3 || !worth_it(c)) return SFT_DNNL_NO; /* products over patches are faster */
    job j = {.c = c, .pass = BACKWARD_WEIGHTS, .src = (char *)(uintptr_t)x};
    j.dst = (char *)(uintptr_t)dy;
    atomic_init(&j.failed, false);
    sft_dnnl_result r = get_plans(&j, part_images(c), false);
    if (r == SFT_DNNL_OK) {
        size_t bytes = j.main->inner_wei_bytes * (size_t)j.blocks; /* of a chunk */
        bool direct = j.chunks == 1 && !j.main->wei.reorder;
        j.wei = direct ? dw : sft_scratch(SFT_SCRATCH_CONV_SHARED, bytes * (size_t)j.chunks);
        if (!j.wei) {
            r = SFT_DNNL_FAILED;
        } else {
            sft_parallel_for(j.chunks * j.blocks, 1, run_range, &j);
            sum_job s = {(float *)(void *)j.wei, (float *)(void *)(j.wei + bytes),
                         (int64_t)(bytes / 4), j.chunks - 1};
            if (s.parts > 0) sft_parallel_for(s.size, 16384, sum_range, &s);
            if (j.main->wei.reorder) {
                if (!reorder_weights(&j, false, dw, j.wei)) r = SFT_DNNL_FAILED;
            } else if (!direct) {
                memcpy(dw, j.wei, bytes);
            }
            if (atomic_load(&j.failed)) r = SFT_DNNL_FAILED;
        }
    }
    release(j.main);
    release(j.rest);
    return r;
}

#else

sft_dnnl_result sft_dnnl_conv_forward(const sft_conv *c, const void *x, const void *w,
                                      const void *bias, void *y) {
    (void)c, (void)x, (void)w, (void)bias, (void)y;
    return SFT_DNNL_NO;
}

sft_dnnl_result sft_dnnl_conv_backward_data(const sft_conv *c, const void *dy, const void *w,
                                            void *dx) {
    (void)c, (void)dy, (void)w, (void)dx;
    return SFT_DNNL_NO;
}

sft_dnnl_result sft_dnnl_conv_backward_weights(const sft_conv *c, const void *x, const void *dy,
                                               void *dw) {
    (void)c, (void)x, (void)dy, (void)dw;
    return SFT_DNNL_NO;
}

#endif
