/* loader.c: the part of sft that is written in Lua. It is found beside the module or the program
 * (or by SFT_LUA_PATH), and loaded on first use: sft.nn, or require "sft.nn". package.path is not
 * touched, and the searcher says nothing of modules that are not ours. */
#include "bind.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool holds_library(const char *dir) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/sft/args.lua", dir) < (int)sizeof path && is_file(path);
}

static bool accept(binding *u, const char *dir) {
    if (!holds_library(dir)) return false;
    size_t n = strlen(dir);
    char *real = realpath(dir, NULL);
    if (!real) return false;
    n = strlen(real);
    u->lib = real;
    u->lib_source = malloc(n + 8);
    if (!u->lib_source) return true;
    snprintf(u->lib_source, n + 8, "@%s/sft/", real);
    return true;
}

/* Below the prefix that the file `of` was installed under: up to four folders above it. */
static bool search_above(binding *u, const char *of) {
#ifdef SFT_INSTALL_LIBDIR
    char dir[PATH_MAX];
    if (!realpath(of, dir)) return false;
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(dir, '/');
        if (!slash || slash == dir) return false;
        *slash = '\0';
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", dir, SFT_INSTALL_LIBDIR) < (int)sizeof path &&
            accept(u, path))
            return true;
    }
#else
    (void)u;
    (void)of;
#endif
    return false;
}

void sftl_find_lib(binding *u) {
    const char *env = getenv("SFT_LUA_PATH");
    if (env && *env && accept(u, env)) return;
    Dl_info info;
    if (dladdr((void *)(uintptr_t)luaopen_sft, &info) && info.dli_fname &&
        search_above(u, info.dli_fname))
        return;
    if (search_above(u, "/proc/self/exe")) return;
#ifdef SFT_BUILD_LIBDIR
    accept(u, SFT_BUILD_LIBDIR);
#endif
}

/* "sft.nn.utils" -> its file, or false. */
static bool module_file(const binding *u, const char *name, char path[PATH_MAX]) {
    if (!u->lib || strncmp(name, "sft.", 4) != 0) return false;
    char rest[200];
    if (strlen(name) >= sizeof rest) return false;
    size_t n = 0;
    for (const char *s = name + 4; *s; s++) {
        bool ok = *s == '.' || *s == '_' || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
                  (*s >= 'A' && *s <= 'Z');
        if (!ok || (*s == '.' && (n == 0 || s[1] == '.' || !s[1]))) return false;
        rest[n++] = *s == '.' ? '/' : *s;
    }
    rest[n] = '\0';
    if (n == 0) return false;
    if (snprintf(path, PATH_MAX, "%s/sft/%s.lua", u->lib, rest) >= PATH_MAX) return false;
    if (is_file(path)) return true;
    if (snprintf(path, PATH_MAX, "%s/sft/%s/init.lua", u->lib, rest) >= PATH_MAX) return false;
    return is_file(path);
}

static int searcher(lua_State *L) {
    binding *u = sftl_u(L);
    char path[PATH_MAX];
    const char *name = luaL_checkstring(L, 1);
    if (!module_file(u, name, path)) return 0;
    if (luaL_loadfilex(L, path, "t") != LUA_OK)
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path,
                          lua_tostring(L, -1));
    lua_pushstring(L, path);
    return 2;
}

/* sft.nn and the like: loaded on first access. Names that are no module are nil. */
static int lazy_index(lua_State *L) {
    binding *u = sftl_u(L);
    char path[PATH_MAX];
    if (lua_type(L, 2) != LUA_TSTRING) return 0;
    lua_pushfstring(L, "sft.%s", lua_tostring(L, 2));
    const char *name = lua_tostring(L, -1);
    if (!module_file(u, name, path)) return 0;
    lua_rawgetp(L, LUA_REGISTRYINDEX, (char *)u + 1); /* require, as it was when sft was opened */
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

static void add_searcher(lua_State *L, binding *u) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "package") == LUA_TTABLE &&
        lua_getfield(L, -1, "searchers") == LUA_TTABLE) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = n; i >= 2; i--) {
            lua_rawgeti(L, -1, i);
            lua_rawseti(L, -2, i + 1);
        }
        lua_pushlightuserdata(L, u);
        lua_pushcclosure(L, searcher, 1);
        lua_rawseti(L, -2, n >= 1 ? 2 : 1);
    }
}

/* Expects the table sft at `sft`. */
void sftl_open_loader(lua_State *L, binding *u, int sft) {
    sftl_find_lib(u);
    int top = lua_gettop(L);
    add_searcher(L, u);
    lua_settop(L, top);
    lua_getglobal(L, "require");
    lua_rawsetp(L, LUA_REGISTRYINDEX, (char *)u + 1);
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, u);
    lua_pushcclosure(L, lazy_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "sft");
    lua_setfield(L, -2, "__name");
    lua_setmetatable(L, sft);
    lua_settop(L, top);
}
