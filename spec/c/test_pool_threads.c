/* Tests of the small-object allocator, the caching pool and the thread pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc.h"
#include "pool.h"
#include "threads.h"

#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)
#define GiB ((size_t)1 << 30)

static uint64_t random_state = 1;

static size_t random_below(size_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

/* ---- small objects ---- */

static void test_objects_are_apart(void **state) {
    (void)state;
    enum { N = 3000 };
    static unsigned char *p[N];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < N; i++) {
            size_t bytes = i % 1100;
            p[i] = sft_alloc(bytes);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 16, 0);
            memset(p[i], (int)(i % 251), bytes);
        }
        for (size_t i = 0; i < N; i++) {
            for (size_t j = 0; j < i % 1100; j++)
                if (p[i][j] != i % 251) fail_msg("object %zu was overwritten", i);
            sft_free(p[i], i % 1100);
        }
    }
    sft_free(NULL, 8);
    char *zero = sft_alloc_zero(100);
    for (int i = 0; i < 100; i++) assert_int_equal(zero[i], 0);
    sft_free(zero, 100);
}

enum { HANDED = 5000 };

static void *make_objects(void *list) {
    void **p = list;
    for (int i = 0; i < HANDED; i++)
        if ((p[i] = sft_alloc(48))) memset(p[i], i, 48);
    return NULL;
}

static void *free_objects(void *list) {
    void **p = list;
    for (int i = 0; i < HANDED; i++) sft_free(p[i], 48);
    return NULL;
}

static void test_objects_cross_threads(void **state) {
    (void)state;
    static void *lists[4][HANDED];
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, make_objects, lists[i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, free_objects, lists[3 - i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
}

static void test_injected_failure(void **state) {
    (void)state;
    sft_alloc_fail_after(2);
    void *a = sft_alloc(10), *b = sft_alloc(10), *c = sft_alloc(10);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_int_equal(sft_alloc_count(), 3);
    sft_alloc_fail_after(-1);
    sft_free(sft_alloc(10), 10);
    assert_int_equal(sft_alloc_count(), 0);
    sft_free(a, 10);
    sft_free(c, 10);
}

static void test_grow(void **state) {
    (void)state;
    void *array = NULL;
    size_t cap = 0;
    for (size_t n = 1; n < 1000; n++) {
        assert_true(sft_grow(&array, &cap, n, sizeof(int)));
        assert_true(cap >= n);
        ((int *)array)[n - 1] = (int)n;
    }
    for (int i = 0; i < 999; i++) assert_int_equal(((int *)array)[i], i + 1);
    size_t before = cap;
    assert_false(sft_grow(&array, &cap, SIZE_MAX / 2, sizeof(int)));
    assert_false(sft_grow(&array, &cap, SIZE_MAX / 8, sizeof(int)));
    sft_alloc_fail_after(1);
    assert_false(sft_grow(&array, &cap, before + 1, sizeof(int)));
    sft_alloc_fail_after(-1);
    assert_int_equal(cap, before);
    free(array);
}

/* ---- a source that gives out addresses, and no memory ---- */

typedef struct {
    uintptr_t next;
    size_t out, most; /* bytes given out, and how many there are (0: endless) */
    int chunks;
} fake;

static void *fake_alloc(void *ctx, size_t bytes) {
    fake *f = ctx;
    if ((f->most && f->out + bytes > f->most) || bytes > ((size_t)1 << 45)) return NULL;
    void *p = (void *)f->next;
    f->next += bytes + 4096;
    f->out += bytes;
    f->chunks++;
    return p;
}

static void fake_free(void *ctx, void *p, size_t bytes) {
    fake *f = ctx;
    (void)p;
    f->out -= bytes;
    f->chunks--;
}

static sft_pool *fake_pool(fake *f, size_t granularity) {
    *f = (fake){.next = (uintptr_t)1 << 46};
    sft_pool_source source = {.raw_alloc = fake_alloc,
                              .raw_free = fake_free,
                              .ctx = f,
                              .granularity = granularity,
                              .chunk = 2 * MiB};
    sft_pool *p = sft_pool_new(&source);
    assert_non_null(p);
    return p;
}

static sft_pool_stats stats_of(sft_pool *p) {
    sft_pool_stats s;
    sft_pool_get_stats(p, &s);
    return s;
}

static void check_waste(sft_pool *p, size_t bytes, size_t granularity) {
    sft_block *b = sft_pool_alloc(p, bytes, 0);
    assert_non_null(b);
    size_t most = bytes > 64 * MiB ? 4095 : bytes / 8 > granularity ? bytes / 8 : granularity;
    if (b->bytes < bytes || b->bytes - bytes > most) fail_msg("%zu bytes got %zu", bytes, b->bytes);
    assert_int_equal((uintptr_t)b->ptr % granularity, 0);
    assert_int_equal(sft_pool_allocated(p), b->bytes);
    sft_pool_free(b);
    assert_int_equal(sft_pool_allocated(p), 0);
}

static void test_waste(void **state) {
    (void)state;
    size_t granularities[] = {16, 64, 512, 4096};
    for (int g = 0; g < 4; g++) {
        fake f;
        sft_pool *p = fake_pool(&f, granularities[g]);
        for (size_t bytes = 0; bytes < 70000; bytes += 1 + bytes / 3000)
            check_waste(p, bytes, granularities[g]);
        for (size_t power = 1; power <= GiB; power *= 2)
            for (int d = -1; d <= 1; d++) check_waste(p, power + (size_t)d, granularities[g]);
        for (size_t bytes = 70000; bytes < GiB; bytes += bytes / 57)
            check_waste(p, bytes, granularities[g]);
        check_waste(p, GiB + 1, granularities[g]);
        sft_pool_destroy(p);
        assert_int_equal(f.chunks, 0);
    }
}

static void test_bad_source(void **state) {
    (void)state;
    sft_pool_source s = {.raw_alloc = fake_alloc, .raw_free = fake_free, .chunk = 2 * MiB};
    size_t bad[] = {0, 8, 48, 8192};
    for (int i = 0; i < 4; i++) {
        s.granularity = bad[i];
        assert_null(sft_pool_new(&s));
    }
    s.granularity = 64;
    s.chunk = 1024;
    assert_null(sft_pool_new(&s));
    sft_pool_destroy(NULL);
    sft_pool_free(NULL);
}

static void test_split_and_merge(void **state) {
    (void)state;
    int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}, {2, 1, 3, 0}};
    fake f;
    sft_pool *p = fake_pool(&f, 512);
    for (int o = 0; o < 5; o++) {
        sft_block *b[4];
        for (int i = 0; i < 4; i++) {
            b[i] = sft_pool_alloc(p, 4 * MiB, 0);
            assert_non_null(b[i]);
        }
        assert_int_equal(stats_of(p).num_allocs, 1);
        assert_int_equal(stats_of(p).largest_free, 16 * MiB);
        for (int i = 0; i < 4; i++) sft_pool_free(b[orders[o][i]]);
        assert_int_equal(stats_of(p).largest_free, 32 * MiB);
        sft_block *all = sft_pool_alloc(p, 32 * MiB, 0);
        assert_non_null(all);
        assert_int_equal(stats_of(p).num_allocs, 1);
        sft_pool_free(all);
    }
    sft_pool_empty_cache(p);
    assert_int_equal(f.chunks, 0);
    assert_int_equal(stats_of(p).reserved, 0);
    sft_pool_destroy(p);
}

static void test_streams_are_apart(void **state) {
    (void)state;
    fake f;
    sft_pool *p = fake_pool(&f, 512);
    size_t sizes[] = {100, 100 * KiB, 4 * MiB};
    for (int i = 0; i < 3; i++) {
        sft_block *one = sft_pool_alloc(p, sizes[i], 7);
        void *at = one->ptr;
        assert_int_equal(sft_block_stream(one), 7);
        sft_pool_free(one);
        sft_block *other = sft_pool_alloc(p, sizes[i], 8);
        assert_ptr_not_equal(other->ptr, at);
        sft_block *again = sft_pool_alloc(p, sizes[i], 7);
        assert_ptr_equal(again->ptr, at);
        sft_pool_free(again);
        sft_pool_free(other);
    }
    sft_pool_empty_cache(p);
    assert_int_equal(f.chunks, 0);
    sft_pool_destroy(p);
}

static void test_stats(void **state) {
    (void)state;
    fake f;
    sft_pool *p = fake_pool(&f, 64);
    sft_block *a = sft_pool_alloc(p, MiB, 0), *b = sft_pool_alloc(p, 100, 0);
    sft_pool_stats s = stats_of(p);
    assert_int_equal(s.allocated, MiB + 128);
    assert_int_equal(s.peak_allocated, MiB + 128);
    assert_int_equal(s.reserved, f.out);
    assert_int_equal(s.live_blocks, 2);
    assert_int_equal(s.num_allocs, 2);
    sft_pool_free(a);
    s = stats_of(p);
    assert_int_equal(s.allocated, 128);
    assert_int_equal(s.peak_allocated, MiB + 128);
    sft_pool_empty_cache(p);
    sft_pool_reset_peak(p);
    s = stats_of(p);
    assert_int_equal(s.peak_allocated, 128);
    assert_int_equal(s.peak_reserved, 2 * MiB);
    assert_int_equal(s.reserved, 2 * MiB);
    sft_pool_free(b);
    sft_pool_empty_cache(p);
    s = stats_of(p);
    assert_int_equal(s.reserved + s.allocated + s.live_blocks + s.largest_free, 0);
    sft_pool_destroy(p);
}

static void test_limit(void **state) {
    (void)state;
    fake f;
    sft_pool *p = fake_pool(&f, 64);
    sft_pool_set_limit(p, 10 * MiB);
    sft_block *a = sft_pool_alloc(p, 6 * MiB, 0);
    assert_non_null(a);
    assert_null(sft_pool_alloc(p, 5 * MiB, 0));
    sft_block *b = sft_pool_alloc(p, 4 * MiB, 0);
    assert_non_null(b);
    assert_null(sft_pool_alloc(p, 1, 0));
    assert_int_equal(stats_of(p).reserved, 10 * MiB);
    sft_pool_free(a);
    sft_pool_free(b);
    /* What is cached in pieces makes way for a whole. */
    a = sft_pool_alloc(p, 10 * MiB, 0);
    assert_non_null(a);
    assert_int_equal(stats_of(p).reserved, 10 * MiB);
    sft_pool_set_limit(p, 0);
    b = sft_pool_alloc(p, 50 * MiB, 0);
    assert_non_null(b);
    sft_pool_free(a);
    sft_pool_free(b);
    sft_pool_destroy(p);
    assert_int_equal(f.chunks, 0);
}

static void test_source_runs_out(void **state) {
    (void)state;
    fake f;
    sft_pool *p = fake_pool(&f, 64);
    f.most = 34 * MiB;
    sft_block *a = sft_pool_alloc(p, 20 * MiB, 0);
    assert_non_null(a);
    assert_null(sft_pool_alloc(p, 20 * MiB, 0));
    sft_block *b = sft_pool_alloc(p, 2 * MiB, 0); /* where there is no room for a big chunk */
    assert_non_null(b);
    sft_pool_free(a);
    a = sft_pool_alloc(p, 30 * MiB, 3); /* for another stream, too */
    assert_non_null(a);
    sft_pool_free(a);
    sft_pool_free(b);
    size_t absurd[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2, (size_t)1 << 47, (size_t)1 << 46};
    for (int i = 0; i < 5; i++) assert_null(sft_pool_alloc(p, absurd[i], 0));
    /* A small block breaks into the rest of a large chunk rather than fail. */
    f.most = 0;
    sft_pool_empty_cache(p);
    a = sft_pool_alloc(p, 2 * MiB, 0);
    f.most = 1;
    b = sft_pool_alloc(p, 100, 0);
    assert_non_null(b);
    sft_pool_free(a);
    sft_pool_free(b);
    assert_null(sft_pool_alloc(p, 100 * MiB, 0));
    sft_pool_destroy(p);
    assert_int_equal(f.chunks, 0);
}

/* Many random calls; live blocks never overlap, and in the end everything merges. */
static void random_calls(sft_pool *p, int calls) {
    enum { LIVE = 200 };
    static sft_block *live[LIVE];
    memset(live, 0, sizeof live);
    for (int i = 0; i < calls; i++) {
        size_t j = random_below(LIVE);
        sft_pool_free(live[j]);
        size_t bytes = (size_t)1 << random_below(random_below(16) ? 18 : 27);
        bytes += random_below(bytes);
        live[j] = sft_pool_alloc(p, bytes, random_below(2));
        if (random_below(1000) == 0) sft_pool_empty_cache(p);
        if (!live[j]) continue;
        char *begin = live[j]->ptr, *end = begin + live[j]->bytes;
        for (size_t k = 0; k < LIVE; k++)
            if (k != j && live[k] && begin < (char *)live[k]->ptr + live[k]->bytes &&
                (char *)live[k]->ptr < end)
                fail_msg("two blocks overlap after %d calls", i);
    }
    for (int j = 0; j < LIVE; j++) sft_pool_free(live[j]);
}

static void test_random_calls(void **state) {
    (void)state;
    fake f;
    sft_pool *p = fake_pool(&f, 64);
    random_calls(p, 30000);
    sft_pool_empty_cache(p);
    sft_pool_stats s = stats_of(p);
    assert_int_equal(s.reserved + s.allocated + s.live_blocks, 0);
    assert_int_equal(f.chunks, 0);
    sft_pool_destroy(p);
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    int64_t total = 1;
    for (int64_t n = 0; n <= total; n++) {
        fake f;
        sft_pool *p = fake_pool(&f, 64);
        random_state = 42;
        sft_alloc_fail_after(n);
        random_calls(p, 120);
        if (n == 0) total = sft_alloc_count();
        sft_alloc_fail_after(-1);
        sft_pool_empty_cache(p);
        assert_int_equal(stats_of(p).reserved + sft_pool_allocated(p), 0);
        sft_pool_destroy(p);
        assert_int_equal(f.chunks, 0);
    }
    assert_true(total > 100);
}

static void test_host_memory(void **state) {
    (void)state;
    sft_pool *p = sft_pool_new(sft_pool_host_source());
    size_t sizes[] = {1, 63, 64, 65, 4096, 100000, 3 * MiB, 20 * MiB};
    sft_block *b[8];
    for (int i = 0; i < 8; i++) {
        b[i] = sft_pool_alloc(p, sizes[i], 0);
        assert_non_null(b[i]);
        assert_int_equal((uintptr_t)b[i]->ptr % 64, 0);
        memset(b[i]->ptr, i, sizes[i]);
    }
    for (int i = 0; i < 8; i++) {
        for (size_t j = 0; j < sizes[i]; j += 1 + sizes[i] / 100)
            assert_int_equal(((char *)b[i]->ptr)[j], i);
        sft_pool_free(b[i]);
    }
    assert_null(sft_pool_alloc(p, (size_t)1 << 46, 0));
    assert_null(sft_pool_alloc(p, (size_t)1 << 43, 0));
    sft_pool_empty_cache(p);
    assert_int_equal(stats_of(p).reserved, 0);
    sft_pool_destroy(p);
}

static atomic_int failures; /* cmocka's assertions are for the main thread only */

static void *use_pool(void *pool) {
    unsigned seed = (unsigned)(uintptr_t)pthread_self() >> 6;
    sft_block *mine[16] = {0};
    for (int i = 0; i < 4000; i++) {
        seed = seed * 1103515245u + 12345;
        size_t j = (seed >> 16) % 16;
        if (mine[j] && *(unsigned *)mine[j]->ptr != (unsigned)(uintptr_t)mine[j])
            atomic_fetch_add(&failures, 1);
        sft_pool_free(mine[j]);
        mine[j] = sft_pool_alloc(pool, (size_t)4 << (seed >> 8) % 20, 0);
        if (mine[j])
            *(unsigned *)mine[j]->ptr = (unsigned)(uintptr_t)mine[j];
        else
            atomic_fetch_add(&failures, 1);
    }
    for (int j = 0; j < 16; j++) sft_pool_free(mine[j]);
    return NULL;
}

static void test_pool_from_threads(void **state) {
    (void)state;
    sft_pool *p = sft_pool_new(sft_pool_host_source());
    pthread_t threads[8];
    atomic_store(&failures, 0);
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_pool, p), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(sft_pool_allocated(p), 0);
    sft_pool_empty_cache(p);
    assert_int_equal(stats_of(p).reserved, 0);
    sft_pool_destroy(p);
}

/* ---- threads ---- */

typedef struct {
    int64_t n, grain;
    unsigned char *seen; /* one per index: how often */
    atomic_int calls;
    int64_t interrupt_at; /* -1: never */
} loop;

static void mark(void *ctx, int64_t begin, int64_t end) {
    loop *l = ctx;
    if (begin % l->grain != 0 || end > l->n ||
        (end - begin < l->grain && !(begin == 0 && end == l->n)))
        atomic_fetch_add(&failures, 1);
    for (int64_t i = begin; i < end; i++) l->seen[i]++;
    if (atomic_fetch_add(&l->calls, 1) == l->interrupt_at) sft_interrupt();
}

static int64_t run_loop(loop *l) {
    l->seen = calloc((size_t)l->n + 1, 1);
    sft_parallel_for(l->n, l->grain, mark, l);
    int64_t done = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (l->seen[i] > 1) atomic_fetch_add(&failures, 1);
        done += l->seen[i];
    }
    if (l->seen[l->n]) atomic_fetch_add(&failures, 1);
    free(l->seen);
    return done;
}

static void test_each_index_once(void **state) {
    (void)state;
    atomic_store(&failures, 0);
    int counts[] = {1, 2, 3, 8};
    int64_t grains[] = {1, 2, 7, 64, 1000};
    for (int t = 0; t < 4; t++) {
        sft_threads_set(counts[t]);
        assert_int_equal(sft_get_num_threads(), counts[t]);
        for (int g = 0; g < 5; g++)
            for (int64_t n = 0; n < 20000; n = n < 20 ? n + 1 : n * 2 - 7) {
                loop l = {.n = n, .grain = grains[g], .interrupt_at = -1};
                assert_int_equal(run_loop(&l), n);
            }
    }
    assert_int_equal(atomic_load(&failures), 0);
    sft_parallel_for(-5, 1, mark, NULL);
    sft_parallel_for(0, 0, mark, NULL);
}

static void *call_loops(void *unused) {
    (void)unused;
    for (int i = 0; i < 300; i++) {
        loop l = {.n = 1 + i * 13, .grain = 3, .interrupt_at = -1};
        if (run_loop(&l) != l.n) atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

static void test_eight_callers(void **state) {
    (void)state;
    atomic_store(&failures, 0);
    pthread_t threads[8];
    sft_threads_set(4);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_loops, NULL), 0);
    for (int i = 0; i < 20; i++) { /* and others that change the number meanwhile */
        sft_threads_set(1 + i % 4);
        usleep(500);
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
}

static atomic_int inner_calls, serial_calls;

static void inner(void *ctx, int64_t begin, int64_t end) {
    if (sft_in_parallel() && pthread_equal(*(pthread_t *)ctx, pthread_self()))
        atomic_fetch_add(&serial_calls, (int)(end - begin));
    atomic_fetch_add(&inner_calls, (int)(end - begin));
}

static void outer(void *ctx, int64_t begin, int64_t end) {
    (void)ctx;
    pthread_t self = pthread_self();
    for (int64_t i = begin; i < end; i++) sft_parallel_for(100, 1, inner, &self);
    sft_threads_shutdown(); /* refused */
}

static void test_nested(void **state) {
    (void)state;
    sft_threads_set(3);
    sft_parallel_for(50, 1, outer, NULL);
    assert_int_equal(atomic_load(&inner_calls), 5000);
    assert_int_equal(atomic_load(&serial_calls), 5000);
    assert_false(sft_in_parallel());
}

static void test_interrupt(void **state) {
    (void)state;
    atomic_store(&failures, 0);
    for (int threads = 1; threads <= 3; threads++) {
        sft_threads_set(threads);
        loop l = {.n = 100000, .grain = 10, .interrupt_at = 2};
        assert_true(run_loop(&l) < l.n);
        assert_true(sft_interrupted());
        sft_interrupt_clear();
        l = (loop){.n = 100000, .grain = 10, .interrupt_at = -1};
        assert_int_equal(run_loop(&l), l.n);
    }
    assert_int_equal(atomic_load(&failures), 0);
}

static void *fork_noise(void *pool) {
    for (int i = 0; i < 20000; i++) {
        sft_free(sft_alloc(64), 64);
        sft_pool_free(sft_pool_alloc(pool, 5000, 0));
    }
    return NULL;
}

static void test_fork(void **state) {
    (void)state;
    sft_threads_set(3);
    loop l = {.n = 5000, .grain = 1, .interrupt_at = -1};
    assert_int_equal(run_loop(&l), l.n);
    sft_pool *p = sft_pool_new(sft_pool_host_source());
    pthread_t noise;
    assert_int_equal(pthread_create(&noise, NULL, fork_noise, p), 0);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* a hang shall not outlive the test */
            int bad = sft_get_num_threads() != 1 || run_loop(&l) != l.n;
            sft_block *b = sft_pool_alloc(p, 5000, 0);
            void *o = sft_alloc(64);
            bad |= !b || !o;
            sft_pool_free(b);
            sft_free(o, 64);
            _exit(bad);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(run_loop(&l), l.n);
    }
    pthread_join(noise, NULL);
    sft_pool_destroy(p);
}

static void test_default_number(void **state) {
    (void)state;
    setenv("OMP_NUM_THREADS", "3,2", 1);
    sft_threads_set(0);
    assert_int_equal(sft_get_num_threads(), 3);
    setenv("OMP_NUM_THREADS", "many", 1);
    sft_threads_set(0);
    int all = sft_get_num_threads();
    assert_true(all >= 1);
    unsetenv("OMP_NUM_THREADS");
    setenv("LOCAL_WORLD_SIZE", "100000", 1);
    sft_threads_set(0);
    assert_int_equal(sft_get_num_threads(), 1);
    unsetenv("LOCAL_WORLD_SIZE");
    sft_threads_set(0);
    assert_int_equal(sft_get_num_threads(), all);
}

static void test_shutdown(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        sft_threads_set(4);
        loop l = {.n = 5000, .grain = 1, .interrupt_at = -1};
        assert_int_equal(run_loop(&l), l.n);
        sft_threads_shutdown();
        sft_threads_shutdown();
    }
    loop l = {.n = 5000, .grain = 1, .interrupt_at = -1};
    assert_int_equal(run_loop(&l), l.n); /* leaves workers for the exit to end */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_are_apart),
        cmocka_unit_test(test_objects_cross_threads),
        cmocka_unit_test(test_injected_failure),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_waste),
        cmocka_unit_test(test_bad_source),
        cmocka_unit_test(test_split_and_merge),
        cmocka_unit_test(test_streams_are_apart),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_source_runs_out),
        cmocka_unit_test(test_random_calls),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_pool_from_threads),
        cmocka_unit_test(test_each_index_once),
        cmocka_unit_test(test_eight_callers),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_default_number),
        cmocka_unit_test(test_shutdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
