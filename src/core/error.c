/* error.c: the thread's state: its last error, its context, and the temporaries of running ops. */
#include "core.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__thread sft_tls *sft_tls_ptr __attribute__((tls_model("initial-exec")));

static pthread_key_t tls_key;
static pthread_once_t tls_once = PTHREAD_ONCE_INIT;

static void tls_free(void *p) {
    sft_tls *t = p;
    if (sft_tls_ptr == t) sft_tls_ptr = NULL;
    free(t->temps);
    free(t);
}

/* The main thread's block is not freed by its key at exit: do it there. */
static void tls_free_main(void) {
    /* The process may end from within an op (in a hook, say): what runs is still in use. */
    if (sft_tls_ptr && sft_tls_ptr->depth == 0) {
        pthread_setspecific(tls_key, NULL);
        tls_free(sft_tls_ptr);
    }
}

static void tls_init(void) {
    pthread_key_create(&tls_key, tls_free);
    atexit(tls_free_main);
}

sft_tls *sft_tls_make(void) {
    /* With no memory at all, calls fail with this block's error; nothing is ever stored in it that
     * another thread could miss. */
    static sft_tls emergency;
    pthread_once(&tls_once, tls_init);
    sft_tls *t = calloc(1, sizeof *t);
    if (!t) {
        emergency.ctx = &emergency.own;
        emergency.code = SFT_ERR_MEMORY;
        return &emergency;
    }
    t->ctx = &t->own;
    sft_tls_ptr = t;
    pthread_setspecific(tls_key, t);
    return t;
}

sft_status sft_fail(sft_status code, const char *fmt, ...) {
    sft_tls *t = sft_thread();
    if (t->code != SFT_OK) return t->code;
    t->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->message, sizeof t->message, fmt, ap);
    va_end(ap);
    return code;
}

void sft_error_prefix(const char *prefix) {
    sft_tls *t = sft_thread();
    size_t p = strlen(prefix), m = strlen(t->message), room = sizeof t->message - 1;
    if (p + 2 > room) return;
    if (m > room - p - 2) m = room - p - 2;
    memmove(t->message + p + 2, t->message, m);
    memcpy(t->message, prefix, p);
    memcpy(t->message + p, ": ", 2);
    t->message[p + 2 + m] = 0;
}

const char *sft_last_error(void) { return sft_thread()->message; }
sft_status sft_last_status(void) { return sft_thread()->code; }

sft_status sft_set_error(sft_status code, const char *message) {
    sft_tls *t = sft_thread();
    t->code = SFT_OK;
    return sft_fail(code, "%s", message);
}

const char *sft_status_name(sft_status s) {
    static const char *const names[] = {"ok",     "argument",    "index",    "oom",
                                        "device", "unsupported", "autograd", "io",
                                        "interrupted", "callback"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "unknown";
}

sft_context *sft_context_current(void) { return sft_thread()->ctx; }

sft_context *sft_context_swap(sft_context *c) {
    sft_tls *t = sft_thread();
    sft_context *old = t->ctx;
    t->ctx = c ? c : &t->own;
    return old;
}

void sft_set_reclaim(sft_reclaim_fn fn, void *user) {
    sft_tls *t = sft_thread();
    t->reclaim = fn;
    t->reclaim_user = user;
}

size_t sft_scope_open(void) { return sft_thread()->ntemps; }

void sft_scope_close(size_t mark) {
    sft_tls *t = sft_thread();
    while (t->ntemps > mark) sft_release(t->temps[--t->ntemps]);
}

sft_tensor *sft_temp(sft_tensor *x) {
    if (!x) return NULL;
    sft_tls *t = sft_thread();
    if (!sft_grow((void **)&t->temps, &t->captemps, t->ntemps + 1, sizeof *t->temps)) {
        sft_release(x);
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    t->temps[t->ntemps++] = x;
    return x;
}
