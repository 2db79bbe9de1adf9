/* The engine's thread pool, and the flag by which Ctrl-C stops a long kernel.
 *
 * Chunks of a loop are handed out one by one; the caller takes chunks like any worker and only
 * ever waits for chunks that a worker has already begun. So a worker that the system does not
 * schedule, beside a busy process, costs nothing. */
#ifndef SFT_CORE_THREADS_H
#define SFT_CORE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Part of the public interface too (sft.h), which this file does not need otherwise. */
#define SFT_EXPORTED __attribute__((visibility("default")))

/* Works on the indices begin <= i < end. */
typedef void sft_range_fn(void *ctx, int64_t begin, int64_t end);

void sft_parallel_run(int64_t n, int64_t grain, sft_range_fn *fn, void *ctx);

/* Calls fn on ranges that together cover 0 .. n-1 once, on several threads, and returns when all
 * are done. Each range begins at a multiple of grain and is at least grain long (but if n < grain);
 * about 30 us of work is a good grain. The ranges are independent of the number of threads only in
 * that sense: a result that shall not depend on it must be combined per grain.
 * From inside fn it runs serially. Once sft_interrupt was called, ranges not yet begun are left
 * out: whoever asked for the result must look at sft_interrupted() and throw it away. */
static inline void sft_parallel_for(int64_t n, int64_t grain, sft_range_fn *fn, void *ctx) {
    if (n > grain)
        sft_parallel_run(n, grain, fn, ctx);
    else if (n > 0)
        fn(ctx, 0, n);
}

/* Threads that one sft_parallel_for uses at most, the caller among them. The default is
 * OMP_NUM_THREADS, or the cores that this process may use (affinity, cgroup quota) divided by the
 * ranks on this machine. n < 1 restores the default. In a forked child it is 1 until set. */
void sft_threads_set(int n);
SFT_EXPORTED int sft_get_num_threads(void);

/* True inside a range function that sft_parallel_for called on several threads: a library called
 * from there must use one thread. */
bool sft_in_parallel(void);

/* Ends the workers; the next sft_parallel_for makes new ones. Not from inside a range function
 * (does nothing there). Done by itself at exit. */
void sft_threads_shutdown(void);

/* The interrupt flag. sft_interrupt may be called from a signal handler. */
SFT_EXPORTED void sft_interrupt(void);
SFT_EXPORTED void sft_interrupt_clear(void);
bool sft_interrupted(void);

#endif
