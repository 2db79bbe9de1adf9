/* host_script.c: a host with a Lua state of its own. It hands a script a buffer that it owns, as a
 * tensor; what the script writes is there in the buffer, and what the host writes the script sees.
 * The buffer is given back when its last tensor goes, though the state may have ended before. */
#include <sft_lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "host_script: %s:%d: %s\n", __FILE__, __LINE__, #cond);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *const script = "local x = ...\n"
                                  "assert(x.shape[1] == 2 and x.shape[2] == 3)\n"
                                  "assert(x:sum():item() == 21)\n"
                                  "x[{2, 3}] = 60\n"
                                  "x:mul_(2)\n"
                                  "view = x[2]\n" /* kept by the state */
                                  "return x:t():contiguous()\n";

static int freed;
static void give_back(void *user) {
    freed++;
    free(user);
}

/* Runs in protected mode: whatever raises in here comes out of lua_pcall. */
static int run(lua_State *L) {
    luaL_openlibs(L);
    luaL_requiref(L, "sft", luaopen_sft, 0);
    lua_pop(L, 1);
    if (luaL_loadstring(L, script) != LUA_OK) return lua_error(L);
    sft_lua_push(L, lua_touserdata(L, 1));
    lua_call(L, 1, 1);
    return 1;
}

int main(void) {
    float *data = malloc(6 * sizeof *data);
    CHECK(data);
    for (int i = 0; i < 6; i++) data[i] = (float)(i + 1);
    sft_tensor *t = sft_from_buffer(data, (int64_t[]){2, 3}, 2, SFT_float32, give_back, data);
    CHECK(t);

    lua_State *L = luaL_newstate();
    CHECK(L);
    lua_pushcfunction(L, run);
    lua_pushlightuserdata(L, t);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        fprintf(stderr, "host_script: %s\n", luaL_tolstring(L, -1, NULL));
        return 1;
    }
    CHECK(data[0] == 2 && data[4] == 10 && data[5] == 120); /* the script's writes */

    sft_tensor *result = sft_lua_to(L, -1);
    CHECK(result && sft_ndim(result) == 2 && sft_sizes(result)[0] == 3);
    CHECK(((float *)sft_data(result))[5] == 120);
    sft_retain(result); /* to keep it when the state has gone */

    data[3] = -5; /* the host's */
    sft_bump_version(t);
    CHECK(luaL_dostring(L, "assert(view[1]:item() == -5)") == LUA_OK);
    /* a script's error is a value in Lua, and the engine goes on */
    CHECK(luaL_dostring(L, "view:reshape(7)") != LUA_OK);
    CHECK(luaL_tolstring(L, -1, NULL) != NULL);
    CHECK(luaL_dostring(L, "assert(view:sum():item() == -5 + 10 + 120)") == LUA_OK);

    sft_release(t); /* the script's `view` still holds the buffer */
    CHECK(freed == 0);
    lua_close(L);
    CHECK(freed == 1);
    CHECK(((float *)sft_data(result))[0] == 2);
    sft_release(result);
    CHECK(sft_live_tensors() == 0);
    printf("the buffer was shared both ways\n");
    return 0;
}
