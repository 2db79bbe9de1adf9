/* scope.c: sft.scope(fn, ...) calls fn and then frees every tensor handle that was made in it, in
 * this coroutine, but those that fn returns (in tables too). */
#include "bind.h"

struct sftl_scope {
    lua_State *L;
    binding *u;
    sftl_scope *outer;
    bool open;
};

/* Handles made in the scope: a weak table, so that the collector still frees what it can. */
static void push_handles(lua_State *L, int scope) { lua_getiuservalue(L, scope, 1); }

void sftl_scope_note(lua_State *L, binding *u) {
    for (sftl_scope *s = u->scopes; s; s = s->outer) {
        if (s->L != L) continue;
        luaL_checkstack(L, 4, NULL);
        lua_rawgetp(L, LUA_REGISTRYINDEX, s);
        if (lua_type(L, -1) == LUA_TTABLE) {
            lua_pushvalue(L, -2);
            lua_pushboolean(L, 1);
            lua_rawset(L, -3);
        }
        lua_pop(L, 1);
        return;
    }
}

static void unlink(lua_State *L, sftl_scope *s) {
    if (!s->open) return;
    s->open = false;
    sftl_scope **p = &s->u->scopes;
    while (*p && *p != s) p = &(*p)->outer;
    if (*p) *p = s->outer;
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, s);
}

static int scope_close(lua_State *L) {
    sftl_scope *s = lua_touserdata(L, 1);
    if (!s->open) return 0;
    unlink(L, s);
    push_handles(L, 1);
    int t = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, t)) {
        bool keep = !lua_toboolean(L, -1);
        lua_pop(L, 1);
        sft_tensor **h = sftl_handle(L, s->u, -1);
        if (!h || !*h || keep || s->u->reclaiming) continue;
        sft_tensor *x = *h;
        *h = NULL;
        sft_release(x);
    }
    return 0;
}

/* An abandoned coroutine: its handles go the usual way. */
static int scope_gc(lua_State *L) {
    unlink(L, lua_touserdata(L, 1));
    return 0;
}

/* Marks the value on the top, and tensors in tables below it, as kept. */
static void keep(lua_State *L, binding *u, int handles, int seen) {
    luaL_checkstack(L, 6, "scope: the result is nested too deep");
    if (lua_type(L, -1) == LUA_TUSERDATA && sftl_handle(L, u, lua_gettop(L))) {
        lua_pushvalue(L, -1);
        if (lua_rawget(L, handles) != LUA_TNIL) {
            lua_pushvalue(L, -2);
            lua_pushboolean(L, 0);
            lua_rawset(L, handles);
        }
        lua_pop(L, 1);
    } else if (lua_type(L, -1) == LUA_TTABLE) {
        lua_pushvalue(L, -1);
        bool known = lua_rawget(L, seen) != LUA_TNIL;
        lua_pop(L, 1);
        if (known) return;
        lua_pushvalue(L, -1);
        lua_pushboolean(L, 1);
        lua_rawset(L, seen);
        lua_pushnil(L);
        while (lua_next(L, -2)) {
            keep(L, u, handles, seen);
            lua_pop(L, 1);
        }
    }
}

static int leave(lua_State *L, int status, lua_KContext ctx) {
    (void)status;
    (void)ctx;
    binding *u = sftl_u(L);
    int n = lua_gettop(L);
    luaL_checkstack(L, 8, NULL);
    push_handles(L, 1);
    lua_newtable(L);
    for (int i = 2; i <= n; i++) {
        lua_pushvalue(L, i);
        keep(L, u, n + 1, n + 2);
        lua_pop(L, 1);
    }
    lua_settop(L, n);
    lua_closeslot(L, 1);
    return n - 1;
}

int sftl_scope_fn(lua_State *L) {
    binding *u = sftl_u(L);
    char buf[64];
    if (lua_type(L, 1) != LUA_TFUNCTION && luaL_getmetafield(L, 1, "__call") == LUA_TNIL)
        sftl_error(L, u, "argument", "scope: expected a function to call, got %s",
                   sftl_kind(L, 1, buf));
    int n = lua_gettop(L);
    luaL_checkstack(L, 8, NULL);
    sftl_scope *s = lua_newuserdatauv(L, sizeof *s, 1);
    *s = (sftl_scope){.L = L, .u = u};
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->scope_ref);
    lua_setmetatable(L, -2);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, -3, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, s);
    lua_insert(L, 1);
    lua_toclose(L, 1);
    s->open = true;
    s->outer = u->scopes;
    u->scopes = s;
    lua_callk(L, n - 1, LUA_MULTRET, 0, leave);
    return leave(L, LUA_OK, 0);
}

void sftl_open_scope(lua_State *L, binding *u, int sft) {
    static const luaL_Reg meta[] = {{"__close", scope_close}, {"__gc", scope_gc}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"scope", sftl_scope_fn}, {NULL, NULL}};
    sftl_metatable(L, "sft.scope", &u->scope_ref);
    sftl_setfuncs(L, u, meta);
    lua_pop(L, 1);
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, functions);
    lua_pop(L, 1);
}
