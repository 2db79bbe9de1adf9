/* The caching pool: memory for tensors on the CPU, pinned memory, and that of CUDA devices.
 *
 * The pool takes big chunks from a source and never touches what is in them, so they may be device
 * memory. A block belongs to the stream it was allocated on: once freed it is only reused there.
 * Nothing goes back to the source but by sft_pool_empty_cache, or when the source or the limit
 * leaves no other way. All functions may be called from any thread. */
#ifndef SFT_CORE_POOL_H
#define SFT_CORE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sft_pool_source {
    /* `bytes` is a multiple of `chunk`. NULL: out of memory. */
    void *(*raw_alloc)(void *ctx, size_t bytes);
    void (*raw_free)(void *ctx, void *p, size_t bytes);
    /* Optional: told of each block that is handed out (live, with the size asked for) and that
     * comes back (not live, with all of the block). For checkers; the pool's lock is held. */
    void (*note)(void *ctx, void *p, size_t bytes, uint64_t stream, bool live);
    void *ctx;
    size_t granularity; /* alignment of blocks: a power of two, 16 to 4096; raw_alloc gives at
                           least that */
    size_t chunk;       /* raw sizes are multiples of it: a power of two, at least 4096 */
    size_t redzone;     /* bytes kept free behind each block, 0 but for checkers */
} sft_pool_source;

typedef struct sft_pool sft_pool;
typedef struct sft_slab sft_slab;

/* A live block. The first two may be read, nothing may be written. */
typedef struct sft_block {
    void *ptr;
    size_t bytes; /* usable: what was asked for, rounded up */
    sft_slab *slab;
    struct sft_block *next;
} sft_block;

typedef struct sft_pool_stats {
    size_t allocated, reserved, peak_allocated, peak_reserved, limit, largest_free;
    uint64_t num_allocs; /* raw allocations */
    uint64_t live_blocks;
} sft_pool_stats;

/* The source is copied. NULL: out of memory, or a source that breaks the rules above. */
sft_pool *sft_pool_new(const sft_pool_source *source);

/* Gives everything back to the source, live blocks too. */
void sft_pool_destroy(sft_pool *pool);

/* A block of at least `bytes` for use on `stream`; NULL when out of memory or over the limit.
 * Sizes are rounded up to classes that waste at most 1/8 (or less than one granularity), above
 * 64 MiB to 4096 bytes. */
sft_block *sft_pool_alloc(sft_pool *pool, size_t bytes, uint64_t stream);

/* block may be NULL. Work that was queued on the block's stream may still use it; any other must
 * be over. */
void sft_pool_free(sft_block *block);

uint64_t sft_block_stream(const sft_block *block);

/* Gives all chunks that hold no live block back to the source. */
void sft_pool_empty_cache(sft_pool *pool);

/* No more than `bytes` may be allocated (0: no limit); what is allocated already stays. */
void sft_pool_set_limit(sft_pool *pool, size_t bytes);

void sft_pool_get_stats(sft_pool *pool, sft_pool_stats *out);
void sft_pool_reset_peak(sft_pool *pool);

/* Bytes of the live blocks, as rounded. One relaxed load: it is asked on every op. */
static inline size_t sft_pool_allocated(const sft_pool *pool) {
    return atomic_load_explicit((const _Atomic size_t *)(const void *)pool, memory_order_relaxed);
}

/* Host memory: 64-byte aligned, chunks of whole huge pages. Knows AddressSanitizer: blocks have
 * their exact size there, with poisoned memory around. */
const sft_pool_source *sft_pool_host_source(void);

#endif
