/* Small-object allocator of the engine: tensors, storages, tape nodes, block headers.
 *
 * An object is given back with the size that it was asked for with. It may be freed on another
 * thread than the one that made it. Under AddressSanitizer everything goes straight to malloc, so
 * that its checks see each object. */
#ifndef SFT_CORE_ALLOC_H
#define SFT_CORE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16-byte aligned, not cleared; NULL when out of memory. bytes == 0 is allowed. */
void *sft_alloc(size_t bytes);

/* The same, cleared. */
void *sft_alloc_zero(size_t bytes);

/* p may be NULL; bytes is the size given to sft_alloc. */
void sft_free(void *p, size_t bytes);

/* Makes room for `need` elements of `elem` bytes in the array *p, whose capacity is *cap elements.
 * Grows geometrically, and keeps what was there. On failure returns false and changes nothing. The
 * array is released with free(). */
bool sft_grow(void **p, size_t *cap, size_t need, size_t elem);

/* Fault injection for tests. The n-th allocation from now on (1 is the next one) fails, once:
 * sft_alloc, sft_grow and the raw allocations of every pool count. 0 only counts, -1 turns it off.
 * Each call starts the count anew. */
void sft_alloc_fail_after(int64_t n);

/* Allocations counted since sft_alloc_fail_after was last called with n >= 0. */
int64_t sft_alloc_count(void);

/* For what allocates by other means and wants to be tested with the rest: true if this allocation
 * shall fail. */
extern atomic_bool sft_alloc_armed;
bool sft_alloc_fault_hit(void);

static inline bool sft_alloc_fault(void) {
    return __builtin_expect(atomic_load_explicit(&sft_alloc_armed, memory_order_relaxed), 0) &&
           sft_alloc_fault_hit();
}

/* Installs the fork handlers; safe to call again. A subsystem that allocates while it holds a lock
 * of its own calls this before it installs its own handlers, which fixes the order of the locks. */
void sft_alloc_init(void);

#endif
