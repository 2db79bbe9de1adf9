/* state.c: the binding's data of one Lua state, and the references to Lua values that the engine
 * holds. No C static refers to a state: what outlives one is `sftl_shared`, which is counted. */
#include "bind.h"
#include <pthread.h>
#include <stdlib.h>

struct sftl_shared {
    _Atomic int refs;
    pthread_mutex_t lock;
    binding *u;   /* NULL once the state is closed */
    int *dropped; /* registry references to give back */
    int ndropped, capdropped;
    _Atomic int waiting; /* ndropped, to be read without the lock */
};

static const char key = 0; /* its address is the registry key */

__thread lua_State *sftl_running;

binding *sftl_find(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key);
    binding *u = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return u;
}

void sftl_thread_init(void) {
    static __thread bool done __attribute__((tls_model("initial-exec")));
    if (done) return;
    done = true;
    sft_set_reclaim(sftl_reclaim, NULL);
}

/* ---- the shared part ----------------------------------------------------------------------------
 */

static void shared_release(sftl_shared *s) {
    if (atomic_fetch_sub(&s->refs, 1) != 1) return;
    pthread_mutex_destroy(&s->lock);
    free(s->dropped);
    free(s);
}

bool sftl_ref_make(lua_State *L, binding *u, sftl_ref *r) {
    sftl_drain(L, u);
    r->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    r->shared = u->shared;
    atomic_fetch_add(&u->shared->refs, 1);
    return true;
}

void sftl_ref_drop(sftl_ref *r) {
    sftl_shared *s = r->shared;
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    if (s->u) {
        if (s->ndropped == s->capdropped) {
            int cap = s->capdropped ? 2 * s->capdropped : 16;
            int *p = realloc(s->dropped, sizeof *p * (size_t)cap);
            if (p) s->dropped = p, s->capdropped = cap;
        }
        /* With no memory the value stays referenced until its state is closed. */
        if (s->ndropped < s->capdropped) s->dropped[s->ndropped++] = r->ref;
        s->waiting = s->ndropped;
    }
    pthread_mutex_unlock(&s->lock);
    r->shared = NULL;
    shared_release(s);
}

void sftl_drain(lua_State *L, binding *u) {
    sftl_shared *s = u->shared;
    while (atomic_load_explicit(&s->waiting, memory_order_relaxed) > 0) {
        int ref = LUA_NOREF;
        pthread_mutex_lock(&s->lock);
        if (s->ndropped) ref = s->dropped[--s->ndropped];
        s->waiting = s->ndropped;
        pthread_mutex_unlock(&s->lock);
        luaL_unref(L, LUA_REGISTRYINDEX, ref);
    }
}

lua_State *sftl_ref_state(const sftl_ref *r, binding **u) {
    pthread_mutex_lock(&r->shared->lock);
    *u = r->shared->u;
    pthread_mutex_unlock(&r->shared->lock);
    if (!*u) {
        sft_set_error(SFT_ERR_CALLBACK,
                      "a gradient function written in Lua was called after its state was closed");
        return NULL;
    }
    if (!sftl_running || sftl_find(sftl_running) != *u) {
        sft_set_error(SFT_ERR_CALLBACK, "a gradient function written in Lua can only run in a "
                                        "backward that a script of its own state started");
        return NULL;
    }
    return sftl_running;
}

/* ---- opening and closing ------------------------------------------------------------------------
 */

static int state_gc(lua_State *L) {
    binding *u = lua_touserdata(L, 1);
    if (!u || !u->shared) return 0;
    sftl_shared *s = u->shared;
    pthread_mutex_lock(&s->lock);
    s->u = NULL;
    pthread_mutex_unlock(&s->lock);
    /* Finalizers that run later still find a binding that works; only references end here. */
    u->gc.threshold = SIZE_MAX;
    free(u->lib);
    free(u->lib_source);
    u->lib = u->lib_source = NULL;
    u->closed = true;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->fragile_ref);
    if (lua_type(L, -1) == LUA_TTABLE)
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            sft_tensor **h = sftl_handle(L, u, -2);
            if (!h) continue;
            sft_release(*h);
            *h = NULL;
        }
    sftl_flush(u);
    free(u->deferred);
    u->deferred = NULL;
    u->capdeferred = 0;
    return 0;
}

/* The counted part goes with the memory of the binding, which Lua frees last: by this userdata's
 * own finalizer, made first and so called last. */
static int shared_gc(lua_State *L) {
    sftl_shared **s = lua_touserdata(L, 1);
    if (*s) shared_release(*s);
    *s = NULL;
    return 0;
}

static sftl_shared *shared_new(void) {
    sftl_shared *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->refs = 1;
    if (pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void push_with_gc(lua_State *L, size_t bytes, lua_CFunction gc) {
    memset(lua_newuserdatauv(L, bytes, 1), 0, bytes);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
}

void sftl_metatable(lua_State *L, const char *name, int *ref) {
    lua_createtable(L, 0, 8);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    if (strncmp(name, "sft.", 4) == 0 && strcmp(name, "sft.Error") != 0) {
        lua_pushboolean(L, 0); /* internal objects: their functions trust their argument */
        lua_setfield(L, -2, "__metatable");
    }
    lua_pushvalue(L, -1);
    *ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

void sftl_setfuncs(lua_State *L, binding *u, const luaL_Reg *l) {
    lua_pushlightuserdata(L, u);
    luaL_setfuncs(L, l, 1);
}

binding *sftl_open_state(lua_State *L) {
    push_with_gc(L, sizeof(sftl_shared *), shared_gc);
    sftl_shared **holder = lua_touserdata(L, -1);
    push_with_gc(L, sizeof(binding), state_gc);
    binding *u = lua_touserdata(L, -1);
    sftl_shared *s = *holder = shared_new();
    if (!s) luaL_error(L, "not enough memory");
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, 1); /* the binding keeps the holder */
    u->shared = s;
    s->u = u;
    u->tag = (uintptr_t)u ^ (uintptr_t)0x5af7e2c9d1b3647eu;
    lua_pushboolean(L, 0);
    u->pending_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    u->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    sftl_thread_init();
    return u;
}

/* ---- callbacks from the engine ------------------------------------------------------------------
 */

/* A coroutine's own context would hide the one that the engine runs the callback in. */
void sftl_enter_callback(lua_State *L, binding *u, sftl_entered *e) {
    sft_callback_begin(&e->state);
    e->own = u->contexts > 0 ? sftl_own_context(L, u) : NULL;
    if (e->own) {
        e->saved = *e->own;
        *e->own = *sft_context_current();
    }
}

void sftl_leave_callback(sftl_entered *e) {
    if (e->own) *e->own = e->saved;
    sft_callback_end(&e->state);
}

/* A finalizer that ran inside an op may have asked to release one of its arguments. */
void sftl_flush(binding *u) {
    u->reclaimed = false;
    while (u->ndeferred > 0) sft_release(u->deferred[--u->ndeferred]);
}
