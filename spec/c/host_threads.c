/* host_threads.c: eight threads, each with a Lua state of its own, train at the same time and hand
 * a tensor round; states are opened and closed in between, and tensors outlive the states that made
 * them. Every thread has to end with the same numbers. Best run under ThreadSanitizer. */
#include <sft_lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 4 };

static const char *const script =
    "local shared, steps = ...\n"
    "local sft = require 'sft'\n"
    "local F = sft._functional\n"
    "local w = shared:clone():requires_grad_(true)\n"
    "local x = (sft.arange(1, 257) / 256):reshape(32, 8):detach()\n"
    "for step = 1, steps do\n"
    "  local loss = F.mse_loss((x:matmul(w)):tanh(), x:narrow(2, 1, 4))\n"
    "  loss:backward()\n"
    "  sft.no_grad(function() w:sub_(w.grad * 0.1) end)\n"
    "  w.grad = nil\n"
    "  local ok, e = pcall(sft.zeros(2).sum, sft.zeros(2), 9)\n"
    "  assert(not ok and e.code == 'index')\n"
    "end\n"
    "w:register_hook(function(g) return g end)\n" /* stays when the state goes */
    "return (w * 1):detach()\n";

static sft_tensor *shared;

static int run(lua_State *L) {
    luaL_openlibs(L);
    luaL_requiref(L, "sft", luaopen_sft, 0);
    lua_pop(L, 1);
    if (luaL_loadstring(L, script) != LUA_OK) return lua_error(L);
    sft_lua_push(L, lua_touserdata(L, 1));
    lua_pushinteger(L, lua_tointeger(L, 2));
    lua_call(L, 2, 1);
    return 1;
}

/* The tensor that one state ends with, taken out of it; the state is closed. */
static sft_tensor *one_state(sft_tensor *from, int steps) {
    lua_State *L = luaL_newstate();
    if (!L) return NULL;
    lua_pushcfunction(L, run);
    lua_pushlightuserdata(L, from);
    lua_pushinteger(L, steps);
    sft_tensor *out = NULL;
    if (lua_pcall(L, 2, 1, 0) == LUA_OK)
        out = sft_retain(sft_lua_to(L, -1));
    else
        fprintf(stderr, "host_threads: %s\n", luaL_tolstring(L, -1, NULL));
    lua_close(L);
    return out;
}

static void *worker(void *arg) {
    (void)arg;
    sft_tensor *w = sft_retain(shared);
    for (int i = 0; i < ROUNDS && w; i++) {
        sft_tensor *next = one_state(w, 5);
        sft_release(w);
        w = next;
    }
    return w;
}

int main(void) {
    float start[32];
    for (int i = 0; i < 32; i++) start[i] = (float)(i % 7 - 3) / 8;
    shared = sft_from_data(start, (int64_t[]){8, 4}, 2, SFT_float32);
    pthread_t t[THREADS];
    sft_tensor *result[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, worker, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], (void **)&result[i]);
    int bad = 0;
    for (int i = 0; i < THREADS; i++) {
        if (!result[i]) return 1;
        for (int k = 0; k < 32; k++)
            bad += ((float *)sft_data(result[i]))[k] != ((float *)sft_data(result[0]))[k];
    }
    for (int i = 0; i < THREADS; i++) sft_release(result[i]);
    sft_release(shared);

    /* States of one thread, closed out of order, with a tensor that passes from one to the other.
     */
    lua_State *a = luaL_newstate(), *b = luaL_newstate();
    for (int i = 0; i < 2; i++) {
        lua_State *L = i ? b : a;
        luaL_openlibs(L);
        luaL_requiref(L, "sft", luaopen_sft, 1);
        lua_pop(L, 1);
    }
    if (luaL_dostring(a, "x = sft.ones(3, {requires_grad = true}); y = (x * 2):sum(); return y"))
        return 1;
    sft_tensor *y = sft_retain(sft_lua_to(a, -1));
    sft_lua_push(b, y);
    lua_setglobal(b, "y");
    lua_close(a);
    if (luaL_dostring(b, "y:backward(); assert(y:item() == 6); y = nil; collectgarbage()")) {
        fprintf(stderr, "host_threads: %s\n", luaL_tolstring(b, -1, NULL));
        return 1;
    }
    lua_close(b);
    sft_release(y);
    printf("%d differences, %lld tensors left\n", bad, (long long)sft_live_tensors());
    return bad != 0 || sft_live_tensors() != 0;
}
