/* host_alloc_failure.c: makes the n-th allocation fail, Lua's or the engine's, or raises an error
 * at the n-th instruction of the script, for every n of a whole training step. Each time the
 * outcome may only be the right value or an error; nothing may leak (run it under LeakSanitizer),
 * and a step after it has to give the right number.
 *
 *   host_alloc_failure [--lua|--engine|--instructions] [--step N] [--most N] [--script FILE]
 *
 * --step: try every N-th n (default: 1, or what keeps the run short), --most: stop there. */
#include <sft_lua.h>
#include "alloc.h"
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a lua_Alloc that fails once ---- */

static long long lua_left = -1; /* allocations until one fails; -1: never */
static long long lua_count, lua_blocks;

static void *lua_alloc(void *ud, void *p, size_t osize, size_t nsize) {
    (void)ud;
    if (nsize == 0) {
        if (p) lua_blocks--;
        free(p);
        return NULL;
    }
    if (!p || nsize > osize) { /* Lua relies on shrinking to work */
        lua_count++;
        if (lua_left > 0 && --lua_left == 0) {
            lua_left = -1;
            return NULL;
        }
    }
    void *q = realloc(p, nsize);
    if (q && !p) lua_blocks++;
    return q;
}

/* ---- the step ---- */

static const char *const step_script =
    "local sft = require 'sft'\n"
    "sft.manual_seed(1)\n"
    "local x = sft.tensor({{1, 2, 3}, {-1, 0.5, 2}, {0, 1, -2}, {2, 2, 1}}, {dtype = "
    "sft.float32})\n"
    "local y = sft.tensor({1, 2, 2, 1})\n"
    "local w1 = (sft.arange(1, 16) / 10):reshape(5, 3):detach():requires_grad_(true)\n"
    "local b1 = sft.zeros(5, {requires_grad = true})\n"
    "local w2 = sft.linspace(-1, 1, 10):reshape(2, 5):detach():requires_grad_(true)\n"
    "local params = {w1, b1, w2}\n"
    "local losses = {}\n"
    "local hook = w2:register_hook(function(g) return g * 1 end)\n"
    "for step = 1, 2 do\n"
    "  local F = sft._functional\n"
    "  local h = F.linear(x, w1, b1)\n"
    "  h = (h - h:mean()):relu() + h[{{}, {1, 5}}] * 0.5\n"
    "  h = sft.cat({h:narrow(2, 1, 2), h:narrow(2, 3, 3)}, 2):softmax(2)\n"
    "  local logits = h:matmul(w2:t())\n"
    "  local loss = F.cross_entropy(logits, y)\n"
    "  loss:backward()\n"
    "  losses[step] = loss:item()\n"
    "  sft.no_grad(function()\n"
    "    for _, p in ipairs(params) do\n"
    "      p:sub_(p.grad, {alpha = 0.5})\n"
    "      p.grad = nil\n"
    "    end\n"
    "  end)\n"
    "end\n"
    "local text = tostring(w1) .. tostring(x:int())\n"
    "assert(#text > 100)\n"
    "return losses[1] * 1000 + losses[2]\n";

static char *script;

static int run_step(lua_State *L) {
    if (luaL_loadstring(L, script ? script : step_script) != LUA_OK) return lua_error(L);
    lua_call(L, 0, 1);
    return 1;
}

static int open_all(lua_State *L) {
    luaL_openlibs(L);
    luaL_requiref(L, "sft", luaopen_sft, 0);
    return 0;
}

static void fail(const char *what, long long n, const char *text) {
    fprintf(stderr, "host_alloc_failure: %s, n = %lld: %s\n", what, n, text);
    exit(1);
}

/* Runs fn in protected mode; true with the number it returned in *result (0 if none). */
static bool protected_call(lua_State *L, lua_CFunction fn, double *result) {
    lua_settop(L, 0);
    lua_pushcfunction(L, fn); /* no upvalues: allocates nothing */
    int rc = lua_pcall(L, 0, 1, 0);
    if (rc == LUA_OK) *result = lua_tonumber(L, -1);
    return rc == LUA_OK;
}

enum { LUA, ENGINE, INSTRUCTIONS };

static long long hook_calls;
static void count_hook(lua_State *L, lua_Debug *ar) {
    (void)L, (void)ar;
    hook_calls++;
}
static void raise_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    lua_sethook(L, NULL, 0, 0);
    luaL_error(L, "raised by the hook");
}

/* One n: in a fresh state, everything up to the failure, and a step after it. */
static void try_at(int kind, long long n, double expected) {
    lua_left = -1;
    if (kind == LUA) lua_left = n;
    if (kind == ENGINE) sft_fail_alloc_after(n);
    double got = 0;
    bool ok = false;
    lua_State *L = lua_newstate(lua_alloc, NULL);
    if (L) {
        ok = protected_call(L, open_all, &got);
        if (ok && kind == INSTRUCTIONS) lua_sethook(L, raise_hook, LUA_MASKCOUNT, (int)n);
        ok = ok && protected_call(L, run_step, &got);
        lua_sethook(L, NULL, 0, 0);
        if (ok && fabs(got - expected) > 1e-3) fail("a wrong value after a failure", n, "");
        if (!ok && !lua_isstring(L, -1) && !lua_istable(L, -1) && !lua_isnil(L, -1))
            fail("an odd error value", n, luaL_typename(L, -1));
    }
    lua_left = -1;
    sft_fail_alloc_after(-1);
    if (L) { /* the state still works, if it got as far as opening */
        if (!protected_call(L, open_all, &got)) fail("opening again", n, lua_tostring(L, -1));
        if (!protected_call(L, run_step, &got)) {
            luaL_tolstring(L, -1, NULL);
            fail("the step after it", n, lua_tostring(L, -1));
        }
        if (fabs(got - expected) > 1e-3) fail("the step after it gives another number", n, "");
        lua_close(L);
    }
    if (sft_live_tensors() != 0) fail("tensors stay alive", n, "");
    if (lua_blocks != 0) fail("Lua's memory leaks", n, "");
}

/* How many allocations of a kind a whole run makes. */
static long long count_of(int kind, double *expected) {
    lua_count = 0;
    sft_fail_alloc_after(INT64_MAX); /* counts from here */
    lua_State *L = lua_newstate(lua_alloc, NULL);
    double got = 0;
    bool ok = L && protected_call(L, open_all, &got);
    if (ok && kind == INSTRUCTIONS) lua_sethook(L, count_hook, LUA_MASKCOUNT, 1);
    if (!ok || !protected_call(L, run_step, expected)) {
        fprintf(stderr, "host_alloc_failure: the plain run fails: %s\n",
                L ? luaL_tolstring(L, -1, NULL) : "no state");
        exit(1);
    }
    long long counted = kind == LUA      ? lua_count
                        : kind == ENGINE ? (long long)sft_alloc_count()
                                         : hook_calls;
    sft_fail_alloc_after(-1);
    lua_close(L);
    return counted;
}

static void walk(int kind, long long step, long long most) {
    static const char *const names[] = {"Lua's allocations", "the engine's allocations",
                                        "instructions"};
    const char *name = names[kind];
    double expected = 0;
    long long total = count_of(kind, &expected), tried = 0;
    if (most > 0 && total > most) total = most;
    if (step <= 0) step = 1;
    for (long long n = 1; n <= total; n += step) {
        try_at(kind, n, expected);
        tried++;
    }
    printf("%s: %lld of %lld failed in turn, the result stays %.6f\n", name, tried, total,
           expected);
    fflush(stdout);
}

int main(int argc, char **argv) {
    long long step = 0, most = 0;
    bool lua = true, engine = true, instructions = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--lua") == 0) {
            engine = instructions = false;
        } else if (strcmp(argv[i], "--engine") == 0) {
            lua = instructions = false;
        } else if (strcmp(argv[i], "--instructions") == 0) {
            lua = engine = false;
        } else if (strcmp(argv[i], "--step") == 0 && i + 1 < argc) {
            step = atoll(argv[++i]);
        } else if (strcmp(argv[i], "--most") == 0 && i + 1 < argc) {
            most = atoll(argv[++i]);
        } else if (strcmp(argv[i], "--script") == 0 && i + 1 < argc) {
            FILE *f = fopen(argv[++i], "rb");
            script = calloc(1, 1 << 16);
            if (!f || !script || fread(script, 1, (1 << 16) - 1, f) == 0) {
                fprintf(stderr, "host_alloc_failure: can't read %s\n", argv[i]);
                return 2;
            }
            fclose(f);
        }
    }
    sft_set_num_threads(1);
    if (lua) walk(LUA, step, most);
    if (engine) walk(ENGINE, step, most);
    if (instructions) walk(INSTRUCTIONS, step, most);
    free(script);
    return 0;
}
