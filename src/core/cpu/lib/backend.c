/* backend.c: the CPU as a backend: the host pool and the kernels of the best instruction set level
 * that this machine has (SFT_CPU=v2, v3, v4 forces one). */
#include "../../backend.h"
#include "../../pool.h"
#include <pthread.h>
#include <stdlib.h>

#if defined(SFT_HAVE_ISA_v4)
extern const sft_kernel sft_cpu_kernels_v4[SFT_OP_COUNT];
#endif
#if defined(SFT_HAVE_ISA_v3)
extern const sft_kernel sft_cpu_kernels_v3[SFT_OP_COUNT];
#endif
#if defined(SFT_HAVE_ISA_v2)
extern const sft_kernel sft_cpu_kernels_v2[SFT_OP_COUNT];
#endif
#if defined(SFT_HAVE_ISA_base)
extern const sft_kernel sft_cpu_kernels_base[SFT_OP_COUNT];
#endif

static sft_pool *pool;
static sft_backend backend;
static const char *level = "none";
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
static bool cpu_has(const char *name) {
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (!strcmp(name, "v2")) return __builtin_cpu_supports("sse4.2") != 0;
    if (!strcmp(name, "v3")) return v3;
    return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}
#else
static bool cpu_has(const char *name) { return !strcmp(name, "base"); }
#endif

/* The first level, from the best down, that is built, that the machine has and that was not ruled
 * out by SFT_CPU. */
static const sft_kernel *choose(void) {
    const char *force = getenv("SFT_CPU");
    const struct {
        const char *name;
        const sft_kernel *kernels;
    } levels[] = {
#if defined(SFT_HAVE_ISA_v4)
        {"v4", sft_cpu_kernels_v4},
#endif
#if defined(SFT_HAVE_ISA_v3)
        {"v3", sft_cpu_kernels_v3},
#endif
#if defined(SFT_HAVE_ISA_v2)
        {"v2", sft_cpu_kernels_v2},
#endif
#if defined(SFT_HAVE_ISA_base)
        {"base", sft_cpu_kernels_base},
#endif
    };
    const int n = sizeof levels / sizeof *levels;
    for (int pass = force && *force ? 0 : 1; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            if (cpu_has(levels[i].name) && (pass == 1 || !strcmp(force, levels[i].name))) {
                level = levels[i].name;
                return levels[i].kernels;
            }
    return NULL;
}

static void *cpu_alloc(int index, size_t bytes, void **block) {
    (void)index;
    sft_block *b = pool ? sft_pool_alloc(pool, bytes, 0) : NULL;
    *block = b;
    return b ? b->ptr : NULL;
}

static void cpu_free(int index, void *data, void *block, size_t bytes) {
    (void)index, (void)data, (void)bytes;
    sft_pool_free(block);
}

static sft_status cpu_stats(int index, sft_memory_stats *out) {
    (void)index;
    sft_pool_stats s = {0};
    if (pool) sft_pool_get_stats(pool, &s);
    *out = (sft_memory_stats){.allocated = s.allocated,
                              .reserved = s.reserved,
                              .peak_allocated = s.peak_allocated,
                              .peak_reserved = s.peak_reserved,
                              .limit = s.limit,
                              .largest_free = s.largest_free,
                              .num_allocs = s.num_allocs,
                              .live_blocks = s.live_blocks};
    return SFT_OK;
}

static void cpu_reset_peak(int index) {
    (void)index;
    if (pool) sft_pool_reset_peak(pool);
}
static void cpu_set_limit(int index, size_t bytes) {
    (void)index;
    if (pool) sft_pool_set_limit(pool, bytes);
}
static void cpu_empty_cache(int index) {
    (void)index;
    if (pool) sft_pool_empty_cache(pool);
}
static sft_status cpu_copy(int index, void *dst, const void *src, size_t bytes, int dst_on_host,
                           int src_on_host) {
    (void)index, (void)dst_on_host, (void)src_on_host;
    memcpy(dst, src, bytes);
    return SFT_OK;
}
static sft_status cpu_synchronize(int index) {
    (void)index;
    return SFT_OK;
}
static int cpu_count(void) { return 1; }

static void init(void) {
    static const sft_kernel none[SFT_OP_COUNT];
    const sft_kernel *kernels = choose();
    pool = sft_pool_new(sft_pool_host_source());
    backend = (sft_backend){.name = "cpu",
                            .kernels = kernels ? kernels : none,
                            .alloc = cpu_alloc,
                            .free = cpu_free,
                            .stats = cpu_stats,
                            .reset_peak = cpu_reset_peak,
                            .set_limit = cpu_set_limit,
                            .empty_cache = cpu_empty_cache,
                            .copy = cpu_copy,
                            .synchronize = cpu_synchronize,
                            .device_count = cpu_count};
}

const sft_backend *sft_cpu_backend(void) {
    pthread_once(&once, init);
    return &backend;
}

const char *sft_cpu_level(void) {
    sft_cpu_backend();
    return level;
}

sft_status sft_set_num_threads(int n) {
    sft_set_error(SFT_OK, "");
    if (n < 1 || n > 4096)
        return sft_fail(SFT_ERR_ARGUMENT, "set_num_threads: expected 1 to 4096 threads, got %d", n);
    sft_threads_set(n);
    return SFT_OK;
}
