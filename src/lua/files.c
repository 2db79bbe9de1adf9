/* files.c: the engine's file formats for the Lua part: safetensors, npy and IDX. */
#include "bind.h"
#include <stdlib.h>

static const char *check_path(lua_State *L, binding *u, const char *fname) {
    char buf[64];
    size_t n;
    if (lua_type(L, 1) != LUA_TSTRING)
        sftl_error(L, u, "argument", "%s: the path must be a string, got %s", fname,
                   sftl_kind(L, 1, buf));
    const char *s = lua_tolstring(L, 1, &n);
    if (strlen(s) != n) sftl_error(L, u, "argument", "%s: the path has a zero byte", fname);
    return s;
}

/* Strings of a list, or of the pairs of a table; NULL when an entry is no string, or there is no
 * memory. The pointers live as long as the table is not changed. */
static const char **strings(lua_State *L, int table, bool pairs, int *n) {
    int count = 0, cap = 16;
    const char **list = malloc(sizeof *list * (size_t)cap);
    if (!list) return NULL;
    lua_pushnil(L);
    while (pairs ? lua_next(L, table) : lua_rawgeti(L, table, count + 1) != LUA_TNIL) {
        if (count + 2 > cap) {
            const char **p = realloc(list, sizeof *list * (size_t)(cap *= 2));
            if (!p) {
                free(list);
                lua_pop(L, 2);
                return NULL;
            }
            list = p;
        }
        bool ok = lua_type(L, -1) == LUA_TSTRING && (!pairs || lua_type(L, -2) == LUA_TSTRING);
        if (!ok) {
            free(list);
            lua_pop(L, 2);
            return NULL;
        }
        if (pairs) list[count++] = lua_tostring(L, -2);
        list[count++] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    if (!pairs) lua_pop(L, 2);
    *n = count;
    return list;
}

/* _safetensors_write(path, names, tensors, metadata) */
static int write_safetensors(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 4);
    if (lua_isnil(L, 4)) {
        lua_newtable(L);
        lua_replace(L, 4);
    }
    for (int i = 2; i <= 4; i++)
        if (lua_type(L, i) != LUA_TTABLE)
            sftl_error(L, u, "argument", "save: lists of names and tensors are expected");
    const char *path = check_path(L, u, "save");
    int n = 0, nmeta = 0;
    const char **names = strings(L, 2, false, &n);
    const char **meta = names ? strings(L, 4, true, &nmeta) : NULL;
    sft_tensor **list = meta ? calloc((size_t)n + 1, sizeof *list) : NULL;
    bool ok = list != NULL;
    for (int i = 0; i < n && ok; i++) {
        lua_rawgeti(L, 3, i + 1);
        sft_tensor **h = sftl_handle(L, u, lua_gettop(L));
        ok = h && *h;
        if (ok) list[i] = sft_retain(*h);
        lua_pop(L, 1);
    }
    sft_status st = SFT_OK;
    if (ok) {
        sftl_call c = sftl_begin(L, u);
        st = sft_safetensors_write(path, names, list, n, meta, nmeta / 2);
        sftl_end(&c, u);
    }
    for (int i = 0; i < n && list; i++) sft_release(list[i]);
    free(list);
    free(meta);
    free(names);
    if (!ok)
        sftl_error(L, u, "argument",
                   "save: names and metadata must be strings, with one tensor per "
                   "name");
    if (st != SFT_OK) sftl_raise(L, u);
    return 0;
}

static int file_gc(lua_State *L) {
    sft_safetensors **f = lua_touserdata(L, 1);
    sft_safetensors_free(*f);
    *f = NULL;
    return 0;
}

/* _safetensors_read(path): tensors by name, list of names in the file's order, metadata */
static int read_safetensors(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 1);
    const char *path = check_path(L, u, "load");
    sft_safetensors **f = lua_newuserdatauv(L, sizeof *f, 0);
    *f = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, file_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    sftl_collect(L, u);
    sftl_call c = sftl_begin(L, u);
    *f = sft_safetensors_read(path);
    sftl_end(&c, u);
    if (!*f) sftl_raise(L, u);
    int n = sft_safetensors_count(*f), nmeta = sft_safetensors_meta_count(*f);
    lua_createtable(L, 0, n);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        sft_tensor **h = sftl_new(L, u);
        *h = sft_retain(sft_safetensors_tensor(*f, i));
        lua_setfield(L, 3, sft_safetensors_name(*f, i));
        lua_pushstring(L, sft_safetensors_name(*f, i));
        lua_rawseti(L, 4, i + 1);
    }
    lua_createtable(L, 0, nmeta);
    for (int i = 0; i < nmeta; i++) {
        lua_pushstring(L, sft_safetensors_meta_value(*f, i));
        lua_setfield(L, 5, sft_safetensors_meta_key(*f, i));
    }
    sft_safetensors_free(*f);
    *f = NULL;
    return 3;
}

static int read_one(lua_State *L, const char *fname, sft_tensor *(*read)(const char *)) {
    binding *u = sftl_u(L);
    const char *path = check_path(L, u, fname);
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    sftl_call c = sftl_begin(L, u);
    *r = read(path);
    sftl_end(&c, u);
    if (!*r) sftl_raise(L, u);
    return 1;
}

static int read_npy(lua_State *L) { return read_one(L, "read_npy", sft_npy_read); }
static int read_idx(lua_State *L) { return read_one(L, "read_idx", sft_idx_read); }

static int write_npy(lua_State *L) {
    binding *u = sftl_u(L);
    const char *path = check_path(L, u, "write_npy");
    sft_tensor *t = sftl_check(L, u, 2, "write_npy");
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_npy_write(path, t);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    return 0;
}

void sftl_open_files(lua_State *L, binding *u, int sft) {
    static const luaL_Reg functions[] = {{"_safetensors_write", write_safetensors},
                                         {"_safetensors_read", read_safetensors},
                                         {"read_npy", read_npy},
                                         {"write_npy", write_npy},
                                         {"read_idx", read_idx},
                                         {NULL, NULL}};
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, functions);
    lua_pop(L, 1);
}
