/* gc.c: drives Lua's collector by the bytes of live tensors, which Lua can't see.
 *
 * A handle is a few bytes to Lua, so left alone it would collect far too late. Before an op, once
 * the live bytes have grown by some slack, a young collection runs (microseconds); a full one only
 * when young ones don't free enough, and not so often that it takes much of the time. It works in
 * coroutines, with the collector stopped, and in incremental mode, where there is no young
 * collection and only full ones are of use. */
#include "bind.h"
#include <stdlib.h>
#include <time.h>

static const size_t MB = 1 << 20;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int sentinel_gc(lua_State *L) {
    sftl_u(L)->gc.died = true;
    return 0;
}

static size_t min(size_t a, size_t b) { return a < b ? a : b; }
static size_t max(size_t a, size_t b) { return a > b ? a : b; }

static void full(lua_State *L, sftl_gc *g) {
    double start = now();
    if (lua_gc(L, LUA_GCCOLLECT) < 0) return;
    g->full_end = now();
    g->full_cost = g->full_end - start;
    g->all_time += g->full_cost;
    g->least = g->after_full = sft_live_bytes();
    g->full++;
}

/* The host's collector becomes generational, which starts with a full collection. False: it was
 * already, or shall not. */
static bool go_generational(lua_State *L, sftl_gc *g) {
    if (g->keep_mode) return false;
    double start = now();
    bool running = g->running;
    g->running = true;
    int old = lua_gc(L, LUA_GCGEN, 0, 0);
    g->running = running;
    if (old != LUA_GCINC) return false;
    g->all_time += now() - start;
    g->least = g->after_full = sft_live_bytes();
    return true;
}

/* Young collections that take more than 5 % of the time want to be rarer (in incremental mode,
 * which has none: want to be young ones). A slack of a few megabytes or less is faster as long as
 * collecting costs little, since the pool hands back blocks that are still in cache. */
static void adapt(lua_State *L, sftl_gc *g) {
    double t = now(), elapsed = t - g->window_start;
    if (elapsed < 0.1) return;
    double young = g->young_time / elapsed, all = g->all_time / elapsed;
    double most = g->slack < 2 * MB ? 0.1 : g->slack < 8 * MB ? 0.03 : 1;
    if (all > most || (young > 0.05 && g->slack >= 2 * MB)) {
        if (!go_generational(L, g)) g->slack = min(2 * g->slack, 32 * MB);
    } else if (all < (g->slack <= 2 * MB ? 0.03 : 0.005) || (g->slack > 8 * MB && young < 0.01)) {
        g->slack = max(g->slack / 2, MB / 2);
    }
    g->window_start = t;
    g->young_time = g->all_time = 0;
}

void sftl_drive(lua_State *L, binding *u) {
    sftl_gc *g = &u->gc;
    if (g->running || !lua_checkstack(L, 4)) return;
    sftl_drain(L, u);
    double start = now();
    /* An object that nothing refers to: if it dies, young collections work. */
    lua_newuserdatauv(L, 0, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->sentinel_ref);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    g->died = false;
    g->running = true;
    int r = lua_gc(L, LUA_GCSTEP, 0);
    g->running = false;
    if (r < 0) return; /* in a finalizer: at the next op */
    g->young++;
    g->made = 0;
    double t = now();
    g->young_time += t - start;
    g->all_time += t - start;
    size_t live = sft_live_bytes();
    g->least = min(g->least, live);
    bool young_works = g->died;
    if (!young_works || live > g->least + g->least / 4 + g->slack / 2) {
        if (t - g->full_end >= 12 * g->full_cost ||
            live > g->after_full + g->after_full / 2 + 256 * MB) {
            g->running = true;
            full(L, g);
            g->running = false;
        } else if (!young_works) {
            go_generational(L, g);
        }
        live = sft_live_bytes();
    }
    g->threshold = max(live + live / 4, live + g->slack);
    adapt(L, g);
}

/* Small tensors weigh nothing, but thousands of dead ones push each other out of the cache: after a
 * number of handles a young collection gives their memory back while it is still warm. Honours
 * collectgarbage("stop"). */
void sftl_tidy(lua_State *L, binding *u) {
    enum { FEW = 512, MANY = 16384 };
    sftl_gc *g = &u->gc;
    g->made = 0;
    if (g->running || !lua_gc(L, LUA_GCISRUNNING)) return;
    sftl_drain(L, u);
    double start = now();
    g->running = true;
    lua_gc(L, LUA_GCSTEP, 0);
    g->running = false;
    /* A handle costs some 0.2 us; much more than that is work which does not depend on their number
     * (large weak tables, say). */
    double each = (now() - start) / g->made_most;
    if (each > 2e-6 && g->made_most < MANY)
        g->made_most *= 2;
    else if (each < 0.75e-6 && g->made_most > FEW)
        g->made_most /= 2;
    g->made = 0;
}

/* An allocation inside an op failed. One full collection per op: what it finds dead was so before,
 * and explicit releases by finalizers wait until the op is over, so no argument can go. */
void sftl_reclaim(void *user) {
    (void)user;
    lua_State *L = sftl_running;
    if (!L) return;
    binding *u = sftl_find(L);
    if (!u || u->reclaimed || u->gc.running || !lua_checkstack(L, 20)) return;
    sft_callback_state saved;
    sft_callback_begin(&saved);
    u->reclaimed = true;
    u->reclaiming++;
    u->gc.running = true;
    full(L, &u->gc);
    u->gc.running = false;
    u->reclaiming--;
    sft_callback_end(&saved);
}

/* sft.gc(): a full collection now. sft.gc{mode = "keep" or "auto", slack = bytes} sets the policy.
 * Returns counts. */
static int gc_fn(lua_State *L) {
    binding *u = sftl_u(L);
    sftl_gc *g = &u->gc;
    static const char *const known[] = {"mode", "slack", NULL};
    lua_settop(L, 1);
    if (!lua_isnil(L, 1)) {
        if (!lua_istable(L, 1)) sftl_error(L, u, "argument", "gc: a table of options is expected");
        sftl_check_keywords(L, u, "gc", 1, known);
        lua_getfield(L, 1, "mode");
        if (!lua_isnil(L, -1)) {
            const char *mode = lua_tostring(L, -1);
            if (!mode || (strcmp(mode, "keep") && strcmp(mode, "auto")))
                sftl_error(L, u, "argument", "gc: mode must be \"keep\" or \"auto\"");
            g->keep_mode = mode[0] == 'k';
        }
        lua_getfield(L, 1, "slack");
        if (!lua_isnil(L, -1)) {
            lua_Integer n = 0;
            if (!sftl_read_int(L, -1, (int64_t *)&n) || n < 0)
                sftl_error(L, u, "argument", "gc: slack must be a number of bytes");
            g->slack = (size_t)n;
        }
    } else {
        sftl_drain(L, u);
        lua_gc(L, LUA_GCCOLLECT);
        g->least = g->after_full = sft_live_bytes();
        g->threshold = max(g->after_full + g->after_full / 4, g->after_full + g->slack);
    }
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, (lua_Integer)g->young);
    lua_setfield(L, -2, "young");
    lua_pushinteger(L, (lua_Integer)g->full);
    lua_setfield(L, -2, "full");
    lua_pushinteger(L, (lua_Integer)g->slack);
    lua_setfield(L, -2, "slack");
    return 1;
}

void sftl_open_gc(lua_State *L, binding *u) {
    u->gc.slack = 2 * MB;
    u->gc.threshold = sft_live_bytes() + u->gc.slack;
    u->gc.least = SIZE_MAX / 4;
    u->gc.window_start = now();
    u->gc.made_most = 512;
    sftl_metatable(L, "sft.sentinel", &u->sentinel_ref);
    static const luaL_Reg meta[] = {{"__gc", sentinel_gc}, {NULL, NULL}};
    sftl_setfuncs(L, u, meta);
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {{"gc", gc_fn}, {NULL, NULL}};
    sftl_setfuncs(L, u, functions);
}
