/* The engine's thread pool: see threads.h.
 *
 * A loop that runs in parallel occupies one of a few static slots. Its caller fills the slot in,
 * opens it, and takes chunks from the counter in it; workers that find the slot open join it and do
 * the same. When no chunk is left the caller closes the slot, so that nobody can join any more, and
 * waits for the workers inside. Slots are never freed, so a late worker can look at one at any
 * time. When all slots are taken, a loop runs serially. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "threads.h"
#include "interrupt.h"
#include "lock.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_THREADS = 512,
    SLOTS = 8,
    SPINS = 2000,          /* pauses before a thread sleeps: some 30 us */
    CHUNKS_PER_THREAD = 4, /* balance against the cost of handing out */
    SERIAL_GRAINS = 16,    /* the chunk of a serial loop: how soon an interrupt is seen */
    MOST_GRAINS = 64       /* the same in a parallel one */
};

/* slot.state: */
#define OPEN    0x80000000u /* workers may join */
#define WAITING 0x40000000u /* the caller sleeps until the last worker leaves */
#define INSIDE  0x0000ffffu /* workers inside */

typedef struct {
    _Alignas(64) _Atomic int64_t next; /* the next chunk */
    _Alignas(64) atomic_uint state;
    atomic_bool taken;
    _Atomic int64_t chunks;
    int64_t n, chunk; /* indices, and indices per chunk */
    sft_range_fn *fn;
    void *ctx;
} slot;

static slot slots[SLOTS];
static _Alignas(64) atomic_uint epoch; /* counts what is news to an idle worker */
static atomic_int sleepers;
static atomic_bool stopping;

static atomic_int threads_wanted; /* 0: not yet found out */
static atomic_int workers_for;    /* the threads_wanted that the workers were made for */
static pthread_mutex_t workers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t workers[MAX_THREADS];
static int workers_count;

static atomic_bool interrupted;
static atomic_uint interrupts;

/* One small word: the module is opened with dlopen. */
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

void sft_interrupt(void) {
    atomic_fetch_add(&interrupts, 1);
    atomic_store(&interrupted, true);
}
unsigned sft_interrupt_count(void) {
    return atomic_load_explicit(&interrupts, memory_order_acquire);
}
bool sft_interrupted(void) { return atomic_load_explicit(&interrupted, memory_order_relaxed); }
void sft_interrupt_clear(void) { atomic_store_explicit(&interrupted, false, memory_order_relaxed); }
bool sft_in_parallel(void) { return inside != 0; }

/* ---- how many threads ---- */

static int affinity_cores(void) {
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int failed = sched_getaffinity(0, bytes, set) ? errno : 0;
        int cores = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (cores > 0) return cores;
        if (failed != EINVAL) break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static bool read_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, size, f) != NULL;
    fclose(f);
    return ok;
}

/* The cores that the quota of one control group allows, rounded up; INT_MAX without a quota. */
static int group_quota(const char *dir, bool v2) {
    char path[PATH_MAX], line[128];
    long long quota = -1, period = -1;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lld %lld", &quota, &period) != 2)
            return INT_MAX;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lld", &quota) != 1)
            return INT_MAX;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lld", &period) != 1)
            return INT_MAX;
    }
    if (quota <= 0 || period <= 0 || quota / period >= MAX_THREADS) return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* A group is bound by the quotas of the groups around it as well. In a container the path may name
 * a place outside of what is mounted: then only the root is looked at. */
static int tightest_quota(const char *mount, const char *group, bool v2) {
    char dir[PATH_MAX - 64];
    int length = snprintf(dir, sizeof dir, "%s%s", mount, group);
    if (length < 0 || length >= (int)sizeof dir) return group_quota(mount, v2);
    int least = INT_MAX;
    size_t root = strlen(mount);
    while (strlen(dir) >= root) {
        int quota = group_quota(dir, v2);
        least = quota < least ? quota : least;
        char *slash = strrchr(dir, '/');
        if (!slash) break;
        *slash = '\0';
    }
    return least;
}

static bool names_cpu(const char *controllers) {
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
    return false;
}

static int quota_cores(void) {
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return INT_MAX;
    char line[PATH_MAX];
    int least = INT_MAX;
    while (fgets(line, sizeof line, f)) { /* hierarchy:controllers:/path */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = *group++ = '\0';
        int quota = INT_MAX;
        if (!*controllers)
            quota = tightest_quota("/sys/fs/cgroup", group, true);
        else if (names_cpu(controllers))
            quota = tightest_quota("/sys/fs/cgroup/cpu", group, false);
        least = quota < least ? quota : least;
    }
    fclose(f);
    return least;
}

/* A positive number from the environment, or 0. OMP_NUM_THREADS may be a list: its first. */
static int env_number(const char *name) {
    const char *text = getenv(name);
    if (!text) return 0;
    char *end;
    long value = strtol(text, &end, 10);
    return end == text || value < 1 ? 0 : value > MAX_THREADS ? MAX_THREADS : (int)value;
}

static int default_threads(void) {
    int threads = env_number("OMP_NUM_THREADS");
    if (threads) return threads;
    int cores = affinity_cores(), quota = quota_cores();
    int ranks = env_number("LOCAL_WORLD_SIZE");
    if (!ranks) ranks = env_number("OMPI_COMM_WORLD_LOCAL_SIZE");
    cores = quota < cores ? quota : cores;
    cores = ranks ? cores / ranks : cores;
    return cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : cores;
}

int sft_get_num_threads(void) {
    int wanted = atomic_load_explicit(&threads_wanted, memory_order_relaxed);
    if (wanted) return wanted;
    int unset = 0, found = default_threads();
    return atomic_compare_exchange_strong(&threads_wanted, &unset, found) ? found : unset;
}

void sft_threads_set(int n) {
    if (n < 1) n = default_threads();
    /* The workers follow at the next loop: a range function may call this, on a worker. */
    atomic_store(&threads_wanted, n > MAX_THREADS ? MAX_THREADS : n);
}

/* ---- doing the work ---- */

static void run_chunk(const slot *s, int64_t i, int64_t chunks) {
    int64_t begin = i * s->chunk;
    s->fn(s->ctx, begin, i == chunks - 1 ? s->n : begin + s->chunk);
}

static void take_chunks(slot *s) {
    int64_t chunks = atomic_load_explicit(&s->chunks, memory_order_relaxed);
    while (!sft_interrupted() && atomic_load_explicit(&s->next, memory_order_relaxed) < chunks) {
        int64_t i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (i >= chunks) break;
        run_chunk(s, i, chunks);
    }
}

static bool join(slot *s) {
    unsigned state = atomic_load_explicit(&s->state, memory_order_acquire);
    while (state & OPEN) {
        if (atomic_load_explicit(&s->next, memory_order_relaxed) >=
            atomic_load_explicit(&s->chunks, memory_order_relaxed))
            return false;
        if (atomic_compare_exchange_weak_explicit(&s->state, &state, state + 1,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
    return false;
}

static void leave(slot *s) {
    unsigned before = atomic_fetch_sub_explicit(&s->state, 1, memory_order_acq_rel);
    if ((before & (WAITING | INSIDE)) == (WAITING | 1)) sft_futex_wake(&s->state, 1);
}

static bool help_once(void) {
    bool helped = false;
    for (int i = 0; i < SLOTS; i++) {
        if (!join(&slots[i])) continue;
        take_chunks(&slots[i]);
        leave(&slots[i]);
        helped = true;
    }
    return helped;
}

static void wait_for_news(unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&epoch, memory_order_acquire) != seen) return;
        sft_cpu_pause();
    }
    /* Whoever makes news counts epoch up and then looks for sleepers; here it is the other way
     * round, so one of the two sees the other. */
    atomic_fetch_add(&sleepers, 1);
    if (atomic_load(&epoch) == seen) sft_futex_wait(&epoch, seen);
    atomic_fetch_sub(&sleepers, 1);
}

static void make_news(int count) {
    atomic_fetch_add(&epoch, 1);
    if (atomic_load(&sleepers) > 0) sft_futex_wake(&epoch, count);
}

static void *worker(void *unused) {
    (void)unused;
    inside = 1;
    for (;;) {
        unsigned seen = atomic_load(&epoch);
        if (atomic_load(&stopping)) return NULL;
        if (!help_once()) wait_for_news(seen);
    }
}

/* ---- workers come and go ---- */

static void stop_workers(void) {
    atomic_store(&stopping, true);
    make_news(INT_MAX);
    for (int i = 0; i < workers_count; i++) pthread_join(workers[i], NULL);
    workers_count = 0;
    atomic_store(&workers_for, 0);
    atomic_store(&stopping, false);
}

/* Only what one thread does matters after a fork: the child has no workers. A slot that was in use
 * belongs either to a thread that is no more, or to the caller, who then finishes it alone. */
static void before_fork(void) { pthread_mutex_lock(&workers_lock); }

static void after_fork(void) { pthread_mutex_unlock(&workers_lock); }

static void child_of_fork(void) {
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&slots[i].state, 0);
        atomic_store(&slots[i].taken, false);
    }
    workers_count = 0;
    atomic_store(&workers_for, 1);
    atomic_store(&threads_wanted, 1);
    atomic_store(&sleepers, 0);
    pthread_mutex_unlock(&workers_lock);
}

static void install_fork_handlers(void) { pthread_atfork(before_fork, after_fork, child_of_fork); }

/* Too few threads, if the system grants no more, is no error: the caller does the rest. */
static void resize_workers(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handlers);
    sigset_t all, old;
    sigfillset(&all);
    pthread_mutex_lock(&workers_lock);
    int wanted = sft_get_num_threads();
    if (workers_count > wanted - 1) stop_workers();
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (workers_count < wanted - 1 &&
           pthread_create(&workers[workers_count], NULL, worker, NULL) == 0)
        pthread_setname_np(workers[workers_count++], "sft-worker");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    atomic_store(&workers_for, wanted);
    pthread_mutex_unlock(&workers_lock);
}

void sft_threads_shutdown(void) {
    if (inside) return;
    pthread_mutex_lock(&workers_lock);
    stop_workers();
    pthread_mutex_unlock(&workers_lock);
}

__attribute__((destructor)) static void at_exit(void) { sft_threads_shutdown(); }

/* ---- loops ---- */

static void run_serially(int64_t n, int64_t grain, sft_range_fn *fn, void *ctx) {
    if (n / SERIAL_GRAINS <= grain) {
        if (!sft_interrupted()) fn(ctx, 0, n);
        return;
    }
    int64_t chunk = SERIAL_GRAINS * grain;
    for (int64_t begin = 0; begin < n && !sft_interrupted();) {
        int64_t end = n - begin < chunk + grain ? n : begin + chunk;
        fn(ctx, begin, end);
        begin = end;
    }
}

static slot *claim_slot(void) {
    for (int i = 0; i < SLOTS; i++)
        if (!atomic_load_explicit(&slots[i].taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&slots[i].taken, true, memory_order_acquire))
            return &slots[i];
    return NULL;
}

static void wait_for_workers(slot *s) {
    unsigned state = atomic_fetch_and_explicit(&s->state, ~OPEN, memory_order_acq_rel) & ~OPEN;
    for (int i = 0; i < SPINS && (state & INSIDE); i++) {
        sft_cpu_pause();
        state = atomic_load_explicit(&s->state, memory_order_acquire);
    }
    while (state & INSIDE) {
        if ((state & WAITING) ||
            atomic_compare_exchange_weak_explicit(&s->state, &state, state | WAITING,
                                                  memory_order_acq_rel, memory_order_acquire))
            sft_futex_wait(&s->state, state | WAITING);
        state = atomic_load_explicit(&s->state, memory_order_acquire);
    }
}

/* A whole number of grains, and a few chunks for each thread unless that makes them so long that
 * an interrupt would have to wait. */
static int64_t chunk_size(int64_t n, int64_t grain, int threads) {
    int64_t grains = (n - 1) / grain + 1, parts = (int64_t)threads * CHUNKS_PER_THREAD;
    int64_t each = (grains - 1) / parts + 1;
    return grain * (each < MOST_GRAINS ? each : MOST_GRAINS);
}

void sft_parallel_run(int64_t n, int64_t grain, sft_range_fn *fn, void *ctx) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    int threads = sft_get_num_threads();
    int64_t chunk = chunk_size(n, grain, threads);
    int64_t chunks = n / chunk + (n % chunk >= grain); /* a shorter rest joins the last chunk */
    slot *s = threads > 1 && !inside && chunks > 1 ? claim_slot() : NULL;
    if (!s) {
        run_serially(n, grain, fn, ctx);
        return;
    }
    if (atomic_load_explicit(&workers_for, memory_order_relaxed) != threads) resize_workers();
    s->n = n;
    s->chunk = chunk;
    s->fn = fn;
    s->ctx = ctx;
    atomic_store_explicit(&s->chunks, chunks, memory_order_relaxed);
    atomic_store_explicit(&s->next, 0, memory_order_relaxed);
    atomic_store_explicit(&s->state, OPEN, memory_order_release);
    make_news(chunks < threads ? (int)chunks - 1 : threads - 1);
    inside = 1;
    take_chunks(s);
    inside = 0;
    wait_for_workers(s);
    atomic_store_explicit(&s->taken, false, memory_order_release);
}
