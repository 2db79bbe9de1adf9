/* Small-object allocator: see alloc.h.
 *
 * Each thread keeps two magazines of up to BATCH free objects per class, so most calls are a push
 * or a pop. Full magazines go to, and come from, a locked list that all threads share; this serves
 * objects that one thread makes and another frees, and Lua's collector, which frees thousands at
 * once. Each object is a malloc of its own, so whatever finds no room anywhere is simply freed. */
#include "alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- fault injection ---- */

atomic_bool sft_alloc_armed;
static _Atomic int64_t fault_at, fault_count;

void sft_alloc_fail_after(int64_t n) {
    atomic_store(&fault_at, n);
    atomic_store(&fault_count, 0);
    atomic_store(&sft_alloc_armed, n >= 0);
}

int64_t sft_alloc_count(void) { return atomic_load(&fault_count); }

bool sft_alloc_fault_hit(void) {
    int64_t now = atomic_fetch_add(&fault_count, 1) + 1;
    return now == atomic_load(&fault_at);
}

/* ---- objects ---- */

/* More than any machine has for what is allocated here; sanitizers end the process when asked for
 * more than they can give. */
#define MOST ((size_t)1 << 39)

#if defined(__SANITIZE_ADDRESS__)
#define BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BYPASS 1
#endif
#endif

#ifdef BYPASS

void sft_alloc_init(void) {}

void *sft_alloc(size_t bytes) {
    return bytes > MOST || sft_alloc_fault() ? NULL : malloc(bytes ? bytes : 1);
}

void sft_free(void *p, size_t bytes) {
    (void)bytes;
    free(p);
}

#else

enum {
    STEP = 16,
    LARGEST = 1024,
    CLASSES = LARGEST / STEP + 1, /* class c holds objects of c * STEP bytes; 0 those of no bytes */
    BATCH = 64,
    SHARED_BYTES = 8 << 20 /* kept on the shared list, per class */
};

typedef struct node {
    struct node *next;
    struct node *next_batch; /* of the first node of a batch on the shared list */
} node;

typedef struct {
    node *head;     /* the magazine in use */
    node *full;     /* NULL or a magazine of BATCH objects */
    uint32_t count; /* objects on head */
} list;

typedef struct {
    list lists[CLASSES];
} cache;

static struct {
    pthread_mutex_t lock;
    node *batches[CLASSES];
    size_t count[CLASSES];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The module is opened with dlopen, where the room for thread-local data is scarce: one pointer. */
static _Thread_local cache *mine __attribute__((tls_model("initial-exec")));
static pthread_key_t exit_key;
static bool have_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_nodes(node *n) {
    while (n) {
        node *next = n->next;
        free(n);
        n = next;
    }
}

static void give_batch(size_t c, node *batch) {
    size_t most = SHARED_BYTES / (BATCH * STEP * (c ? c : 1));
    pthread_mutex_lock(&shared.lock);
    bool kept = shared.count[c] < most;
    if (kept) {
        batch->next_batch = shared.batches[c];
        shared.batches[c] = batch;
        shared.count[c]++;
    }
    pthread_mutex_unlock(&shared.lock);
    if (!kept) free_nodes(batch);
}

static node *take_batch(size_t c) {
    pthread_mutex_lock(&shared.lock);
    node *batch = shared.batches[c];
    if (batch) {
        shared.batches[c] = batch->next_batch;
        shared.count[c]--;
    }
    pthread_mutex_unlock(&shared.lock);
    return batch;
}

/* A later destructor of the same thread may still allocate: that makes a new cache, and the C
 * library calls this again. */
static void thread_exits(void *arg) {
    cache *t = arg;
    mine = NULL;
    for (size_t c = 0; c < CLASSES; c++) {
        if (t->lists[c].full) give_batch(c, t->lists[c].full);
        free_nodes(t->lists[c].head);
    }
    free(t);
}

static void before_fork(void) { pthread_mutex_lock(&shared.lock); }
static void after_fork(void) { pthread_mutex_unlock(&shared.lock); }

static void init(void) {
    have_key = pthread_key_create(&exit_key, thread_exits) == 0;
    pthread_atfork(before_fork, after_fork, after_fork);
}

void sft_alloc_init(void) { pthread_once(&once, init); }

/* This thread's cache, made at first use; NULL if there can be none. */
static cache *my_cache(void) {
    if (mine) return mine;
    sft_alloc_init();
    cache *t = have_key ? calloc(1, sizeof *t) : NULL;
    if (t && pthread_setspecific(exit_key, t) != 0) {
        free(t);
        t = NULL;
    }
    return mine = t;
}

static __attribute__((noinline)) void *alloc_slow(size_t bytes) {
    if (bytes > LARGEST) return bytes > MOST ? NULL : malloc(bytes);
    size_t c = (bytes + STEP - 1) / STEP;
    cache *t = my_cache();
    if (t) {
        list *l = &t->lists[c];
        node *n = l->full ? l->full : take_batch(c);
        l->full = NULL;
        if (n) {
            l->head = n->next;
            l->count = BATCH - 1;
            return n;
        }
    }
    return malloc(c ? c * STEP : STEP);
}

void *sft_alloc(size_t bytes) {
    if (sft_alloc_fault()) return NULL;
    if (bytes <= LARGEST && mine) {
        list *l = &mine->lists[(bytes + STEP - 1) / STEP];
        node *n = l->head;
        if (n) {
            l->head = n->next;
            l->count--;
            return n;
        }
    }
    return alloc_slow(bytes);
}

static __attribute__((noinline)) void free_slow(node *n, size_t bytes) {
    cache *t = bytes <= LARGEST ? my_cache() : NULL;
    if (!t) {
        free(n);
        return;
    }
    size_t c = (bytes + STEP - 1) / STEP;
    list *l = &t->lists[c];
    if (l->count == BATCH) {
        if (l->full) give_batch(c, l->full);
        l->full = l->head;
        l->head = NULL;
        l->count = 0;
    }
    n->next = l->head;
    l->head = n;
    l->count++;
}

void sft_free(void *p, size_t bytes) {
    if (!p) return;
    node *n = p;
    if (bytes <= LARGEST && mine) {
        list *l = &mine->lists[(bytes + STEP - 1) / STEP];
        if (l->count < BATCH) {
            n->next = l->head;
            l->head = n;
            l->count++;
            return;
        }
    }
    free_slow(n, bytes);
}

#endif

void *sft_alloc_zero(size_t bytes) {
    void *p = sft_alloc(bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

bool sft_grow(void **p, size_t *cap, size_t need, size_t elem) {
    if (need <= *cap) return true;
    size_t want = *cap + *cap / 2;
    if (want < need) want = need;
    if (want < 8) want = 8;
    size_t bytes;
    if (__builtin_mul_overflow(want, elem, &bytes) || bytes > MOST || sft_alloc_fault())
        return false;
    void *grown = realloc(*p, bytes);
    if (!grown) return false;
    *p = grown;
    *cap = want;
    return true;
}
