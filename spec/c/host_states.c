/* host_states.c: several Lua states in one process: trained at once in threads of their own, tensors
 * passed between them, hooks and functions whose state is gone. Prints nothing when all is well. */
#include "sft_lua.h"
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static lua_State *open_state(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "sft", luaopen_sft, 1);
    lua_pop(L, 1);
    return L;
}

static void run(lua_State *L, const char *code) {
    if (luaL_dostring(L, code) == LUA_OK) return;
    fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
    lua_settop(L, 0);
    failures++;
}

static void give(lua_State *L, const char *name, sft_tensor *t) {
    sft_lua_push(L, t);
    lua_setglobal(L, name);
}

static sft_tensor *take(lua_State *L, const char *name) {
    lua_getglobal(L, name);
    sft_tensor *t = sft_retain(sft_lua_check(L, -1));
    lua_pop(L, 1);
    return t;
}

/* ---- threads -------------------------------------------------------------------------------------- */

static const char training[] =
    "local g = sft.Generator(seed)\n"
    "local x, y = sft.randn(16, 4, {generator = g}), sft.randn(16, 1, {generator = g})\n"
    "local w = sft.zeros(4, 1, {requires_grad = true})\n"
    "for _ = 1, 60 do\n"
    "  local loss = ((x:matmul(w) - y) ^ 2):mean()\n"
    "  loss:backward()\n"
    "  sft.no_grad(function() w:sub_(w.grad * 0.1) end)\n"
    "  w.grad = nil\n"
    "  last = loss:item()\n"
    "end\n"
    "local plus = 0\n"
    "for i = 1, 200 do local t = sft.ones(3) * i; plus = plus + t:sum():item() end\n"
    "assert(plus == 60300)\n"
    "assert(last < 2 and sft.is_grad_enabled())\n";

static void *train(void *arg) {
    double *result = arg;
    lua_State *L = open_state();
    lua_pushinteger(L, 5);
    lua_setglobal(L, "seed");
    run(L, training);
    lua_getglobal(L, "last");
    *result = lua_tonumber(L, -1);
    lua_close(L);
    return NULL;
}

static void test_threads(void) {
    enum { N = 8 };
    pthread_t threads[N];
    double results[N];
    for (int i = 0; i < N; i++) CHECK(pthread_create(&threads[i], NULL, train, &results[i]) == 0);
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i < N; i++) CHECK(results[i] == results[0]);
}

/* ---- tensors and states ------------------------------------------------------------------------------ */

static void test_passing(void) {
    lua_State *a = open_state(), *b = open_state();
    run(a, "t = sft.ones(2, 3, {requires_grad = true}); u = (t * 2):sum()");
    sft_tensor *t = take(a, "t"), *u = take(a, "u");
    give(b, "t", t);
    give(b, "u", u);
    lua_close(a);
    run(b, "u:backward(); assert(t.grad:sum():item() == 12); assert(t:sum():item() == 6)");
    lua_close(b);
    CHECK(sft_numel(t) == 6 && sft_grad(t) != NULL);
    sft_release(t);
    sft_release(u);
}

/* Two opens of one state give one module. */
static void test_twice(void) {
    lua_State *L = open_state();
    luaopen_sft(L);
    lua_getglobal(L, "sft");
    CHECK(lua_rawequal(L, -1, -2));
    lua_pushnil(L);
    CHECK(sft_lua_to(L, -1) == NULL);
    sft_lua_push(L, NULL);
    CHECK(lua_isnil(L, -1));
    lua_close(L);
}

static int check_arg(lua_State *L) {
    sft_lua_check(L, 1);
    return 0;
}

static void test_check(void) {
    lua_State *L = open_state();
    lua_pushcfunction(L, check_arg);
    lua_setglobal(L, "check");
    run(L, "local ok, e = pcall(check, 3); assert(not ok and e:find('Tensor expected'))\n"
           "local t = sft.ones(1); check(t); t:release()\n"
           "ok, e = pcall(check, t); assert(not ok and e:find('released'))\n"
           "assert(not pcall(check, io.stdout))");
    lua_close(L);
    L = luaL_newstate(); /* without sft */
    CHECK(sft_lua_to(L, 1) == NULL);
    lua_close(L);
}

/* Hooks and functions of a closed state: an error, never a call. */
static void test_closed(void) {
    lua_State *a = open_state(), *b = open_state();
    run(a, "t = sft.ones(2, {requires_grad = true})\n"
           "t:register_hook(function(g) return g * 2 end)\n"
           "u = (t * 3):sum()\n"
           "local F = sft.autograd.Function('F')\n"
           "function F.forward(ctx, x) ctx:save_for_backward(x) return x * 2 end\n"
           "function F.backward(ctx, g) return g * ctx.saved_tensors[1] end\n"
           "v = F.apply(sft.ones(2, {requires_grad = true})):sum()\n");
    sft_tensor *t = take(a, "t"), *u = take(a, "u"), *v = take(a, "v");
    /* From C, and from another state, while the state lives: it can't be entered. */
    CHECK(sft_backward(&u, NULL, 1, true, false) != SFT_OK);
    CHECK(strstr(sft_last_error(), "of its own state") != NULL);
    give(b, "u", u);
    run(b, "local ok, e = pcall(u.backward, u, nil, {retain_graph = true})\n"
           "assert(not ok and tostring(e):find('of its own state'), tostring(e))");
    run(a, "u:backward(nil, true); assert(t.grad[1]:item() == 6)");
    lua_close(a);
    CHECK(sft_backward(&u, NULL, 1, true, false) != SFT_OK);
    CHECK(strstr(sft_last_error(), "closed") != NULL);
    CHECK(sft_backward(&v, NULL, 1, true, false) != SFT_OK);
    CHECK(strstr(sft_last_error(), "closed") != NULL);
    run(b, "assert(not pcall(u.backward, u)); u = nil; collectgarbage()");
    sft_release(u);
    sft_release(v);
    sft_release(t);
    lua_close(b);
}

/* What a state refers to is freed in another thread, while it runs. */
static void *release_all(void *arg) {
    sft_tensor **list = arg;
    for (int i = 0; i < 200; i++) sft_release(list[i]);
    return NULL;
}

static void test_release_elsewhere(void) {
    lua_State *L = open_state();
    sft_tensor *list[200];
    for (int i = 0; i < 200; i++) {
        run(L, "t = sft.ones(2, {requires_grad = true}); t:register_hook(function(g) return g end)");
        list[i] = take(L, "t");
    }
    run(L, "t = nil; sft.gc()");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release_all, list) == 0);
    run(L, "for i = 1, 300 do local x = sft.ones(2, {requires_grad = true})\n"
           "x:register_hook(function(g) return g end); x:sum():backward() end");
    pthread_join(thread, NULL);
    lua_close(L);
}

/* States opened and closed in random order, tensors outliving them. */
static void test_random_order(void) {
    enum { N = 6 };
    lua_State *states[N] = {0};
    sft_tensor *kept[N] = {0};
    unsigned r = 1;
    for (int step = 0; step < 120; step++) {
        r = r * 1103515245u + 12345u;
        int i = (int)(r >> 16) % N;
        if (states[i]) {
            lua_close(states[i]);
            states[i] = NULL;
            continue;
        }
        states[i] = open_state();
        if (kept[(i + 1) % N]) give(states[i], "other", kept[(i + 1) % N]);
        run(states[i], "t = (other or sft.ones(4)) + 1; local co = coroutine.create(function()\n"
                       "sft.no_grad(coroutine.yield) end); coroutine.resume(co)");
        sft_release(kept[i]);
        kept[i] = take(states[i], "t");
    }
    for (int i = 0; i < N; i++) {
        if (states[i]) lua_close(states[i]);
        sft_release(kept[i]);
    }
}

/* Grad mode of the thread is the main coroutine's; a state that is closed leaves none behind. */
static void test_context(void) {
    lua_State *L = open_state();
    run(L, "co = coroutine.wrap(function() local g <close> = sft.no_grad(); coroutine.yield() end); co()");
    CHECK(sft_grad_enabled());
    sft_set_grad_enabled(false);
    run(L, "assert(not sft.is_grad_enabled())");
    sft_set_grad_enabled(true);
    lua_close(L);
    CHECK(sft_grad_enabled());
}

int main(void) {
    int64_t before = sft_live_tensors();
    test_twice();
    test_check();
    test_passing();
    test_closed();
    test_release_elsewhere();
    test_random_order();
    test_context();
    test_threads();
    CHECK(sft_live_tensors() == before);
    if (failures) fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}
