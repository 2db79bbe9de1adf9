/* The caching pool: see pool.h.
 *
 * A chunk from the source is cut into spans, which split and merge with their neighbours. Free
 * spans hang in bins by size, eight to each power of two, and a bit map says which bins hold any:
 * finding, cutting and merging take constant time. Sizes are rounded to the lower ends of the bins,
 * so whatever hangs in the bin of a size is large enough. Blocks of up to 32 KiB come from slabs:
 * spans cut into equal blocks. Descriptions of spans and blocks live in host memory of their own.
 *
 * Each stream has two heaps of chunks, one for spans of 1 MiB and more, so that small and
 * long-lived blocks do not break up what large ones need. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool.h"
#include "alloc.h"
#include "lock.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)

enum {
    PAGE_SHIFT = 12,
    PAGE = 1 << PAGE_SHIFT, /* sizes of spans are multiples of it */
    BIN_WORDS = 4,
    BINS = BIN_WORDS * 64, /* the last one begins at 15 << 30 pages, and holds all above */
    CLASSES = 80           /* of sizes up to SLAB_MOST, at the least granularity */
};

#define SLAB_MOST   (32 * KiB) /* larger blocks are spans */
#define LARGE       (1 * MiB)  /* spans from here on live in the second heap */
#define EXACT       (64 * MiB) /* larger sizes are rounded to pages only */
#define LARGE_CHUNK (32 * MiB) /* what is taken from the source for spans of up to half of it */
#define ABSURD      ((size_t)1 << 47)

typedef struct chunk chunk;
typedef struct heap heap;
typedef struct arena arena;

/* A piece of a chunk: free and in a bin, a slab, or a block (then block.ptr is what the user has).
 */
typedef struct span {
    sft_block block; /* block.slab == NULL tells it from a block in a slab */
    size_t size;
    chunk *in;
    struct span *before, *after;      /* neighbours in memory */
    struct span *bin_prev, *bin_next; /* of a free one */
    bool free;
} span;

struct chunk {
    chunk *prev, *next; /* in the heap */
    heap *home;
    void *base;
    size_t size;
    span *first;
};

struct heap {
    arena *owner;
    chunk *chunks;
    uint64_t map[BIN_WORDS];
    span *bins[BINS];
};

typedef struct {
    size_t size;       /* of the blocks */
    sft_slab *partial; /* slabs with room */
    sft_slab *spare;   /* one slab without live blocks, kept against thrashing, or NULL */
} slab_class;

struct sft_slab {
    arena *owner;
    slab_class *kind;
    span *memory;
    sft_slab *prev, *next; /* among the partial ones */
    sft_block *free;
    uint32_t used, made, room; /* live blocks; blocks[] in use so far; size of blocks[] */
    sft_block blocks[];
};

struct arena {
    sft_pool *pool;
    arena *next;
    uint64_t stream;
    heap small, large;
    slab_class classes[CLASSES];
};

struct sft_pool {
    _Atomic size_t allocated; /* first: sft_pool_allocated reads it */
    sft_lock lock;
    sft_pool_source source;
    unsigned shift; /* granularity == 1 << shift */
    arena *arenas, *last;
    sft_pool_stats stats;  /* but for `allocated` and `largest_free` */
    sft_pool *prev, *next; /* all pools */
};

/* ---- sizes ---- */

/* The class of a size counted in units: 0 to 7 as they are, then eight to each power of two. Rounds
 * down. */
static inline unsigned class_floor(size_t units) {
    if (units < 8) return (unsigned)units;
    unsigned e = 63 - (unsigned)__builtin_clzll(units);
    return (e - 3) * 8 + (unsigned)(units >> (e - 3));
}

/* The units of class c: the least size that class_floor maps to it. */
static inline size_t class_units(unsigned c) {
    return c < 8 ? c : (size_t)(8 + c % 8) << (c / 8 - 1);
}

static inline unsigned class_ceil(size_t units) {
    unsigned c = class_floor(units);
    return c + (class_units(c) < units);
}

static inline size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) & ~(unit - 1);
}

/* The size of the block that serves a request; bytes is at most ABSURD. */
static size_t rounded(const sft_pool *p, size_t bytes) {
    if (bytes > EXACT) return round_up(bytes, PAGE);
    unsigned shift = bytes > SLAB_MOST ? PAGE_SHIFT : p->shift;
    size_t units = (bytes + ((size_t)1 << shift) - 1) >> shift;
    return class_units(class_ceil(units ? units : 1)) << shift;
}

static inline unsigned bin_of(size_t size) {
    unsigned c = class_floor(size >> PAGE_SHIFT);
    return c < BINS ? c : BINS - 1;
}

/* ---- spans ---- */

static void bin_put(heap *h, span *s) {
    unsigned b = bin_of(s->size);
    s->free = true;
    s->bin_prev = NULL;
    s->bin_next = h->bins[b];
    if (s->bin_next) s->bin_next->bin_prev = s;
    h->bins[b] = s;
    h->map[b / 64] |= (uint64_t)1 << b % 64;
}

static void bin_take(heap *h, span *s) {
    unsigned b = bin_of(s->size);
    s->free = false;
    if (s->bin_next) s->bin_next->bin_prev = s->bin_prev;
    if (s->bin_prev)
        s->bin_prev->bin_next = s->bin_next;
    else if (!(h->bins[b] = s->bin_next))
        h->map[b / 64] &= ~((uint64_t)1 << b % 64);
}

/* A free span of at least `size`, from the lowest bin that has one, or NULL. */
static span *bin_find(const heap *h, size_t size) {
    unsigned b = bin_of(size);
    span *best = NULL;
    /* Sizes that are no bin's lower end (above EXACT) need a look at each span of their bin. */
    for (span *s = h->bins[b]; s; s = s->bin_next) {
        if (s->size >= size && (!best || s->size < best->size)) best = s;
        if (best && size <= EXACT) break;
    }
    if (best || ++b == BINS) return best;
    uint64_t word = h->map[b / 64] & ~(uint64_t)0 << b % 64;
    for (unsigned w = b / 64; !word;) {
        if (++w == BIN_WORDS) return NULL;
        word = h->map[w];
        b = w * 64;
    }
    return h->bins[b / 64 * 64 + (unsigned)__builtin_ctzll(word)];
}

static span *span_new(chunk *c, void *ptr, size_t size) {
    span *s = sft_alloc(sizeof *s);
    if (s) *s = (span){.block.ptr = ptr, .size = size, .in = c};
    return s;
}

static void span_delete(span *s) { sft_free(s, sizeof *s); }

/* Takes the free span s out of its bin and cuts it to size. */
static bool span_claim(span *s, size_t size) {
    heap *h = s->in->home;
    span *rest = NULL;
    if (s->size > size) {
        rest = span_new(s->in, (char *)s->block.ptr + size, s->size - size);
        if (!rest) return false;
    }
    bin_take(h, s);
    if (rest) {
        rest->before = s;
        rest->after = s->after;
        if (s->after) s->after->before = rest;
        s->after = rest;
        s->size = size;
        bin_put(h, rest);
    }
    return true;
}

/* Joins the span behind s, which is in no bin, to s. */
static void span_absorb(span *s) {
    span *gone = s->after;
    s->size += gone->size;
    s->after = gone->after;
    if (s->after) s->after->before = s;
    span_delete(gone);
}

static void span_release(span *s) {
    heap *h = s->in->home;
    if (s->after && s->after->free) {
        bin_take(h, s->after);
        span_absorb(s);
    }
    if (s->before && s->before->free) {
        s = s->before;
        bin_take(h, s);
        span_absorb(s);
    }
    bin_put(h, s);
}

/* ---- chunks ---- */

static bool chunk_new(heap *h, size_t size) {
    sft_pool *p = h->owner->pool;
    chunk *c = sft_alloc(sizeof *c);
    span *s = c ? span_new(c, NULL, size) : NULL;
    void *base = s && !sft_alloc_fault() ? p->source.raw_alloc(p->source.ctx, size) : NULL;
    if (!base) {
        if (s) span_delete(s);
        sft_free(c, sizeof *c);
        return false;
    }
    *c = (chunk){.home = h, .base = base, .size = size, .first = s, .next = h->chunks};
    if (c->next) c->next->prev = c;
    h->chunks = c;
    s->block.ptr = base;
    bin_put(h, s);
    p->stats.num_allocs++;
    p->stats.reserved += size;
    if (p->stats.reserved > p->stats.peak_reserved) p->stats.peak_reserved = p->stats.reserved;
    return true;
}

/* The chunk's one span is free and in its bin. */
static void chunk_delete(chunk *c) {
    heap *h = c->home;
    sft_pool *p = h->owner->pool;
    bin_take(h, c->first);
    span_delete(c->first);
    if (c->next) c->next->prev = c->prev;
    if (c->prev)
        c->prev->next = c->next;
    else
        h->chunks = c->next;
    p->stats.reserved -= c->size;
    p->source.raw_free(p->source.ctx, c->base, c->size);
    sft_free(c, sizeof *c);
}

static void slab_delete(sft_slab *s);

static void empty_heap(heap *h) {
    for (chunk *c = h->chunks, *next; c; c = next) {
        next = c->next;
        if (c->first->free && c->first->size == c->size) chunk_delete(c);
    }
}

static void slab_unlink(sft_slab *s) {
    if (s->next) s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else
        s->kind->partial = s->next;
    s->prev = s->next = NULL;
}

static void empty_cache(sft_pool *p) {
    for (arena *a = p->arenas; a; a = a->next) {
        for (slab_class *k = a->classes; k < a->classes + CLASSES; k++) {
            if (k->spare) {
                slab_delete(k->spare);
                k->spare = NULL;
            }
            for (sft_slab *s = k->partial, *next; s; s = next) {
                next = s->next;
                if (s->used) continue;
                slab_unlink(s);
                slab_delete(s);
            }
        }
        empty_heap(&a->small);
        empty_heap(&a->large);
    }
}

/* Takes memory for a span of `size` from the source: in larger pieces than needed if there is
 * plenty, and at the cost of the cache if there is not. */
static bool heap_extend(heap *h, size_t size) {
    sft_pool *p = h->owner->pool;
    size_t least = round_up(size, p->source.chunk);
    size_t want = h == &h->owner->small     ? round_up(2 * MiB, p->source.chunk)
                  : size <= LARGE_CHUNK / 2 ? round_up(LARGE_CHUNK, p->source.chunk)
                                            : least;
    size_t limit = p->stats.limit;
    if (want < least || (limit && p->stats.reserved + want > limit)) want = least;
    if (limit && p->stats.reserved + want > limit) empty_cache(p);
    if (chunk_new(h, want) || (want > least && chunk_new(h, least))) return true;
    empty_cache(p);
    return chunk_new(h, least);
}

static span *span_alloc(arena *a, size_t size) {
    heap *h = size < LARGE ? &a->small : &a->large;
    span *s = bin_find(h, size);
    if (!s) /* rather than fail, break into the other heap */
        s = bin_find(heap_extend(h, size) ? h : size < LARGE ? &a->large : &a->small, size);
    return s && span_claim(s, size) ? s : NULL;
}

/* ---- slabs ---- */

static size_t slab_bytes(const sft_slab *s) { return sizeof *s + s->room * sizeof s->blocks[0]; }

static sft_slab *slab_new(arena *a, slab_class *k) {
    size_t size = k->size * 16 < 64 * KiB ? 64 * KiB : k->size * 16;
    size = rounded(a->pool, size);
    size_t room = size / k->size;
    sft_slab *s = sft_alloc(sizeof *s + room * sizeof s->blocks[0]);
    span *memory = s ? span_alloc(a, size) : NULL;
    if (!memory) {
        sft_free(s, sizeof *s + room * sizeof s->blocks[0]);
        return NULL;
    }
    *s = (sft_slab){.owner = a, .kind = k, .memory = memory, .room = (uint32_t)room};
    return s;
}

static void slab_delete(sft_slab *s) {
    span_release(s->memory);
    sft_free(s, slab_bytes(s));
}

static void slab_link(slab_class *k, sft_slab *s) {
    s->prev = NULL;
    s->next = k->partial;
    if (s->next) s->next->prev = s;
    k->partial = s;
}

static sft_block *slab_alloc(arena *a, slab_class *k) {
    sft_slab *s = k->partial;
    if (!s) {
        s = k->spare ? k->spare : slab_new(a, k);
        if (!s) return NULL;
        k->spare = NULL;
        /* Making room may have emptied caches, but gives this class no partial slab. */
        slab_link(k, s);
    }
    sft_block *b = s->free;
    if (b) {
        s->free = b->next;
    } else {
        b = &s->blocks[s->made];
        b->ptr = (char *)s->memory->block.ptr + s->made++ * k->size;
        b->slab = s;
    }
    if (++s->used == s->room) slab_unlink(s);
    return b;
}

/* A slab without live blocks stays if it is the only partial one, or as the one spare. */
static void slab_free(sft_slab *s, sft_block *b) {
    slab_class *k = s->kind;
    b->next = s->free;
    s->free = b;
    if (s->used-- == s->room) slab_link(k, s);
    if (s->used == 0 && (s->prev || s->next)) {
        slab_unlink(s);
        if (k->spare)
            slab_delete(s);
        else
            k->spare = s;
    }
}

/* ---- pools ---- */

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static sft_pool *pools;

static void before_fork(void) {
    pthread_mutex_lock(&pools_lock);
    for (sft_pool *p = pools; p; p = p->next) sft_lock_take(&p->lock);
}

static void after_fork(void) {
    for (sft_pool *p = pools; p; p = p->next) sft_lock_release(&p->lock);
    pthread_mutex_unlock(&pools_lock);
}

static void install_fork_handlers(void) {
    sft_alloc_init(); /* its lock is taken inside a pool's */
    pthread_atfork(before_fork, after_fork, after_fork);
}

static bool power_of_two(size_t n) { return n && !(n & (n - 1)); }

sft_pool *sft_pool_new(const sft_pool_source *source) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handlers);
    if (!power_of_two(source->granularity) || source->granularity < 16 ||
        source->granularity > PAGE || !power_of_two(source->chunk) || source->chunk < PAGE)
        return NULL;
    sft_pool *p = sft_alloc_zero(sizeof *p);
    if (!p) return NULL;
    p->source = *source;
    p->shift = (unsigned)__builtin_ctzll(source->granularity);
    pthread_mutex_lock(&pools_lock);
    p->next = pools;
    if (p->next) p->next->prev = p;
    pools = p;
    pthread_mutex_unlock(&pools_lock);
    return p;
}

static void destroy_slabs(sft_slab *s) {
    while (s) {
        sft_slab *next = s->next;
        sft_free(s, slab_bytes(s));
        s = next;
    }
}

static void destroy_heap(sft_pool *p, heap *h) {
    for (chunk *c = h->chunks, *next; c; c = next) {
        next = c->next;
        for (span *s = c->first, *after; s; s = after) {
            after = s->after;
            span_delete(s);
        }
        p->source.raw_free(p->source.ctx, c->base, c->size);
        sft_free(c, sizeof *c);
    }
}

void sft_pool_destroy(sft_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&pools_lock);
    if (p->next) p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        pools = p->next;
    pthread_mutex_unlock(&pools_lock);
    for (arena *a = p->arenas, *next; a; a = next) {
        next = a->next;
        for (slab_class *k = a->classes; k < a->classes + CLASSES; k++) {
            destroy_slabs(k->partial);
            destroy_slabs(k->spare);
        }
        destroy_heap(p, &a->small);
        destroy_heap(p, &a->large);
        sft_free(a, sizeof *a);
    }
    sft_free(p, sizeof *p);
}

static arena *arena_find(sft_pool *p, uint64_t stream) {
    for (arena *a = p->arenas; a; a = a->next)
        if (a->stream == stream) return p->last = a;
    arena *a = sft_alloc_zero(sizeof *a);
    if (!a) return NULL;
    a->pool = p;
    a->stream = stream;
    a->small.owner = a->large.owner = a;
    for (unsigned c = 0; c < CLASSES; c++) a->classes[c].size = class_units(c) << p->shift;
    a->next = p->arenas;
    return p->last = p->arenas = a;
}

static sft_block *alloc_locked(sft_pool *p, size_t bytes, uint64_t stream) {
    size_t charge = rounded(p, bytes), size = charge;
    size_t allocated = atomic_load_explicit(&p->allocated, memory_order_relaxed) + charge;
    if (p->stats.limit && allocated > p->stats.limit) return NULL;
    if (p->source.redzone) size = rounded(p, bytes + p->source.redzone);
    arena *a = p->last;
    if ((!a || a->stream != stream) && !(a = arena_find(p, stream))) return NULL;
    sft_block *b;
    if (size <= SLAB_MOST) {
        b = slab_alloc(a, &a->classes[class_floor(size >> p->shift)]);
    } else {
        span *s = span_alloc(a, size);
        b = s ? &s->block : NULL;
    }
    if (!b) return NULL;
    b->bytes = charge;
    atomic_store_explicit(&p->allocated, allocated, memory_order_relaxed);
    if (allocated > p->stats.peak_allocated) p->stats.peak_allocated = allocated;
    p->stats.live_blocks++;
    if (p->source.note) p->source.note(p->source.ctx, b->ptr, bytes, stream, true);
    return b;
}

sft_block *sft_pool_alloc(sft_pool *p, size_t bytes, uint64_t stream) {
    if (bytes > ABSURD) return NULL;
    sft_lock_take(&p->lock);
    sft_block *b = alloc_locked(p, bytes, stream);
    sft_lock_release(&p->lock);
    return b;
}

static arena *arena_of(const sft_block *b) {
    return b->slab ? b->slab->owner : ((const span *)(const void *)b)->in->home->owner;
}

void sft_pool_free(sft_block *b) {
    if (!b) return;
    arena *a = arena_of(b);
    sft_pool *p = a->pool;
    sft_lock_take(&p->lock);
    size_t now = atomic_load_explicit(&p->allocated, memory_order_relaxed) - b->bytes;
    atomic_store_explicit(&p->allocated, now, memory_order_relaxed);
    p->stats.live_blocks--;
    if (p->source.note)
        p->source.note(p->source.ctx, b->ptr,
                       b->slab ? b->slab->kind->size : ((span *)(void *)b)->size, a->stream, false);
    if (b->slab)
        slab_free(b->slab, b);
    else
        span_release((span *)(void *)b);
    sft_lock_release(&p->lock);
}

uint64_t sft_block_stream(const sft_block *b) { return arena_of(b)->stream; }

void sft_pool_empty_cache(sft_pool *p) {
    sft_lock_take(&p->lock);
    empty_cache(p);
    sft_lock_release(&p->lock);
}

void sft_pool_set_limit(sft_pool *p, size_t bytes) {
    sft_lock_take(&p->lock);
    p->stats.limit = bytes;
    sft_lock_release(&p->lock);
}

static size_t largest_in(const heap *h) {
    size_t most = 0;
    for (unsigned w = BIN_WORDS; w-- > 0 && !most;)
        if (h->map[w])
            for (span *s = h->bins[w * 64 + 63 - (unsigned)__builtin_clzll(h->map[w])]; s;
                 s = s->bin_next)
                most = s->size > most ? s->size : most;
    return most;
}

void sft_pool_get_stats(sft_pool *p, sft_pool_stats *out) {
    sft_lock_take(&p->lock);
    *out = p->stats;
    out->allocated = atomic_load_explicit(&p->allocated, memory_order_relaxed);
    for (const arena *a = p->arenas; a; a = a->next) {
        size_t small = largest_in(&a->small), large = largest_in(&a->large);
        small = small > large ? small : large;
        out->largest_free = small > out->largest_free ? small : out->largest_free;
    }
    sft_lock_release(&p->lock);
}

void sft_pool_reset_peak(sft_pool *p) {
    sft_lock_take(&p->lock);
    p->stats.peak_allocated = atomic_load_explicit(&p->allocated, memory_order_relaxed);
    p->stats.peak_reserved = p->stats.reserved;
    sft_lock_release(&p->lock);
}

/* ---- host memory ---- */

#if defined(__SANITIZE_ADDRESS__)
#define CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED 1
#endif
#endif

#ifdef CHECKED
#include <sanitizer/asan_interface.h>
static void host_note(void *ctx, void *p, size_t bytes, uint64_t stream, bool live) {
    (void)ctx, (void)stream;
    if (live)
        ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    else
        ASAN_POISON_MEMORY_REGION(p, bytes);
}
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes)   ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)0)
#endif

#define HUGE_PAGE (2 * MiB)

static _Atomic size_t host_mapped;

/* Systems that promise more memory than they have kill a process that takes them by their word:
 * whoever asks for more than the machine has shall get an error instead. */
static bool host_has(size_t bytes) {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return true;
    size_t total = ((size_t)info.totalram + (size_t)info.totalswap) * info.mem_unit;
    return bytes <= total;
}

/* Fresh memory costs a page fault per page, up to 10 us for 4 KiB: huge pages make that bearable,
 * and the pool keeps what it has once touched. */
static void *host_raw_alloc(void *ctx, size_t bytes) {
    (void)ctx;
    if (!host_has(atomic_fetch_add(&host_mapped, bytes) + bytes)) goto fail;
    char *p =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) goto fail;
    size_t before = -(uintptr_t)p & (HUGE_PAGE - 1);
    if (before) munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
    p += before;
    madvise(p, bytes, MADV_HUGEPAGE);
    ASAN_POISON_MEMORY_REGION(p, bytes);
    return p;
fail:
    atomic_fetch_sub(&host_mapped, bytes);
    return NULL;
}

static void host_raw_free(void *ctx, void *p, size_t bytes) {
    (void)ctx;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    munmap(p, bytes);
    atomic_fetch_sub(&host_mapped, bytes);
}

const sft_pool_source *sft_pool_host_source(void) {
    static const sft_pool_source source = {
        .raw_alloc = host_raw_alloc,
        .raw_free = host_raw_free,
        .granularity = 64,
        .chunk = HUGE_PAGE,
#ifdef CHECKED
        .note = host_note,
        .redzone = 64,
#endif
    };
    return &source;
}
