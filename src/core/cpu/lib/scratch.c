/*
 * scratch.c - per-thread, grow-only working memory.  See scratch.h.
 */
#include "scratch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../../alloc.h"

enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 512 << 10 };

typedef struct slot {
    void *ptr;
    size_t size;
} slot;

static _Thread_local slot slots[SFT_SCRATCH_SLOTS];
static _Thread_local bool registered;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_ok;

void sft_scratch_release(void) {
    for (int i = 0; i < SFT_SCRATCH_SLOTS; i++) {
        free(slots[i].ptr);
        slots[i] = (slot){0};
    }
}

static void at_thread_exit(void *unused) {
    (void)unused;
    sft_scratch_release();
}

static void make_key(void) { exit_key_ok = pthread_key_create(&exit_key, at_thread_exit) == 0; }

void *sft_scratch(int which, size_t bytes) {
    slot *s = &slots[which];
    if (bytes <= s->size && s->ptr) return s->ptr;
    if (!registered) {
        pthread_once(&exit_once, make_key);
        /* any non-NULL value makes the destructor run for this thread */
        if (exit_key_ok) pthread_setspecific(exit_key, slots);
        registered = true;
    }
    if (bytes > SIZE_MAX / 4 || sft_alloc_fault()) return NULL;
    free(s->ptr);
    *s = (slot){0};
    /* a few huge pages spare hundreds of page faults, and misses of the page cache afterwards */
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : 4096;
    size_t size = (bytes + bytes / 8 + align) & ~(align - 1);
    void *p = aligned_alloc(align, size);
    if (!p) return NULL;
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE) madvise(p, size, MADV_HUGEPAGE);
#endif
    *s = (slot){p, size};
    return p;
}
