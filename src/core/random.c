/* random.c: generators. A generator is a seed and an offset into the Philox sequence of that seed;
 * a call reserves as much of it as it needs, so the numbers do not depend on who computes them. */
#include "core.h"
#include <pthread.h>

struct sft_generator {
    _Atomic int32_t refs;
    pthread_mutex_t lock;
    uint64_t seed, offset; /* offset in blocks of four numbers */
};

static sft_generator default_generator = {1, PTHREAD_MUTEX_INITIALIZER, 67280421310721u, 0};

sft_generator *sft_default_generator(void) { return &default_generator; }

sft_generator *sft_generator_new(uint64_t seed) {
    sft_generator *g = sft_alloc(sizeof *g);
    if (!g) {
        sft_thread()->code = SFT_OK;
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    g->refs = 1;
    pthread_mutex_init(&g->lock, NULL);
    g->seed = seed;
    g->offset = 0;
    return g;
}

sft_generator *sft_generator_retain(sft_generator *g) {
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void sft_generator_release(sft_generator *g) {
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&g->lock);
    sft_free(g, sizeof *g);
}

void sft_generator_seed(sft_generator *g, uint64_t seed) {
    const uint64_t state[2] = {seed, 0};
    sft_generator_set_state(g, state);
}

void sft_generator_get_state(sft_generator *g, uint64_t state[2]) {
    pthread_mutex_lock(&g->lock);
    state[0] = g->seed;
    state[1] = g->offset;
    pthread_mutex_unlock(&g->lock);
}

void sft_generator_set_state(sft_generator *g, const uint64_t state[2]) {
    pthread_mutex_lock(&g->lock);
    g->seed = state[0];
    g->offset = state[1];
    pthread_mutex_unlock(&g->lock);
}

void sft_generator_reserve(sft_generator *g, uint64_t n, uint64_t *key, uint64_t *offset) {
    if (!g) g = &default_generator;
    pthread_mutex_lock(&g->lock);
    *key = g->seed;
    *offset = g->offset;
    g->offset += n;
    pthread_mutex_unlock(&g->lock);
}
