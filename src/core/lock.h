/* Sleeping on a word (Linux futexes), and a lock of four bytes that costs two atomic instructions
 * when nobody else wants it. */
#ifndef SFT_CORE_LOCK_H
#define SFT_CORE_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word == seen; may also return for no reason. */
static inline void sft_futex_wait(atomic_uint *word, unsigned seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static inline void sft_futex_wake(atomic_uint *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void sft_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* 0: free, 1: held, 2: held and somebody may sleep. Starts as 0. */
typedef struct {
    atomic_uint state;
} sft_lock;

static __attribute__((noinline, unused)) void sft_lock_wait(sft_lock *l) {
    for (int i = 0; i < 100; i++) {
        unsigned expected = 0;
        if (atomic_load_explicit(&l->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&l->state, &expected, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        sft_cpu_pause();
    }
    while (atomic_exchange_explicit(&l->state, 2, memory_order_acquire) != 0)
        sft_futex_wait(&l->state, 2);
}

static inline void sft_lock_take(sft_lock *l) {
    unsigned expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&l->state, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        sft_lock_wait(l);
}

static inline void sft_lock_release(sft_lock *l) {
    if (atomic_exchange_explicit(&l->state, 0, memory_order_release) == 2)
        sft_futex_wake(&l->state, 1);
}

#endif
