/* context.c: grad mode. It belongs to the coroutine that set it: one that has set nothing follows
 * the thread's (so a function called inside no_grad is inside it too, whoever resumed it), one that
 * has keeps its own until it is back where it started. Whatever restores does so through a
 * to-be-closed value, so errors and abandoned coroutines can't leave a mode behind. */
#include "bind.h"

typedef struct own_context {
    sft_context c;
    binding *u; /* NULL once it is out of use */
} own_context;

sft_context *sftl_own_context(lua_State *L, binding *u) {
    if (L == u->main || !lua_checkstack(L, 3)) return NULL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->contexts_ref);
    lua_pushthread(L);
    lua_rawget(L, -2);
    own_context *o = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return o && o->u ? &o->c : NULL;
}

static sft_context *current(lua_State *L, binding *u) {
    sft_context *own = u->contexts > 0 ? sftl_own_context(L, u) : NULL;
    return own ? own : sft_context_current();
}

static int own_gc(lua_State *L) {
    own_context *o = lua_touserdata(L, 1);
    if (o->u) o->u->contexts--;
    o->u = NULL;
    return 0;
}

/* Pushes the coroutine's own context (nil for the main one), which is made if there is none. */
static sft_context *push_own(lua_State *L, binding *u, bool *created) {
    *created = false;
    if (L == u->main) {
        lua_pushnil(L);
        return sft_context_current();
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->contexts_ref);
    lua_pushthread(L);
    lua_rawget(L, -2);
    own_context *o = lua_touserdata(L, -1);
    if (o && o->u) {
        lua_remove(L, -2);
        return &o->c;
    }
    lua_pop(L, 1);
    o = lua_newuserdatauv(L, sizeof *o, 0);
    o->u = NULL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->context_ref);
    lua_setmetatable(L, -2);
    lua_pushthread(L);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
    lua_remove(L, -2);
    o->c = *sft_context_current();
    o->u = u;
    u->contexts++;
    *created = true;
    return &o->c;
}

/* ---- guards
 * -------------------------------------------------------------------------------------------- */

typedef struct guard {
    binding *u;
    bool open, was, created; /* created: the coroutine had no context of its own before */
    bool main;
} guard;

static int guard_close(lua_State *L) {
    guard *g = lua_touserdata(L, 1);
    if (!g || !g->open) return 0;
    g->open = false;
    if (g->main) {
        sft_context_current()->no_grad = g->was;
        return 0;
    }
    lua_getiuservalue(L, 1, 1); /* the context lives as long as the guard */
    own_context *o = lua_touserdata(L, -1);
    if (!o || !o->u) return 0;
    o->c.no_grad = g->was;
    if (g->created) { /* follows the thread again */
        o->u->contexts--;
        o->u = NULL;
    }
    return 0;
}

/* Sets the mode and pushes a guard that restores it when closed. */
static void push_guard(lua_State *L, binding *u, bool no_grad) {
    luaL_checkstack(L, 8, NULL);
    guard *g = lua_newuserdatauv(L, sizeof *g, 1);
    *g = (guard){.u = u, .main = L == u->main};
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->guard_ref);
    lua_setmetatable(L, -2);
    sft_context *c = push_own(L, u, &g->created);
    lua_setiuservalue(L, -2, 1);
    g->was = c->no_grad;
    g->open = true;
    c->no_grad = no_grad;
}

static int leave(lua_State *L, int status, lua_KContext ctx) {
    (void)status;
    (void)ctx;
    lua_closeslot(L, 1);
    return lua_gettop(L) - 1;
}

/* The function and its arguments lie from `first` on. */
static int with_mode(lua_State *L, binding *u, bool no_grad, int first, const char *name) {
    int n = lua_gettop(L);
    if (n < first || lua_isnil(L, first)) {
        push_guard(L, u, no_grad);
        return 1;
    }
    if (lua_type(L, first) != LUA_TFUNCTION && luaL_getmetafield(L, first, "__call") == LUA_TNIL) {
        char buf[64];
        sftl_error(L, u, "argument",
                   "%s: expected a function to call, got %s; as a guard it is `local g <close> = "
                   "sft.%s()`",
                   name, sftl_kind(L, first, buf), name);
    }
    lua_settop(L, n);
    push_guard(L, u, no_grad);
    lua_insert(L, 1);
    lua_toclose(L, 1);
    for (int i = 1; i < first; i++) lua_remove(L, 2);
    lua_callk(L, n - first, LUA_MULTRET, 0, leave);
    return leave(L, LUA_OK, 0);
}

static int no_grad(lua_State *L) { return with_mode(L, sftl_u(L), true, 1, "no_grad"); }
static int enable_grad(lua_State *L) { return with_mode(L, sftl_u(L), false, 1, "enable_grad"); }
static int inference_mode(lua_State *L) {
    if (lua_type(L, 1) == LUA_TBOOLEAN)
        return with_mode(L, sftl_u(L), lua_toboolean(L, 1), 2, "inference_mode");
    return with_mode(L, sftl_u(L), true, 1, "inference_mode");
}

static int set_grad_enabled(lua_State *L) {
    if (lua_type(L, 1) != LUA_TBOOLEAN)
        sftl_error(L, sftl_u(L), "argument", "set_grad_enabled: true or false is expected");
    return with_mode(L, sftl_u(L), !lua_toboolean(L, 1), 2, "set_grad_enabled");
}

static int is_grad_enabled(lua_State *L) {
    lua_pushboolean(L, !current(L, sftl_u(L))->no_grad);
    return 1;
}

void sftl_open_context(lua_State *L, binding *u, int sft) {
    static const luaL_Reg guard_meta[] = {{"__close", guard_close}, {NULL, NULL}};
    static const luaL_Reg own_meta[] = {{"__gc", own_gc}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"no_grad", no_grad},
                                         {"enable_grad", enable_grad},
                                         {"inference_mode", inference_mode},
                                         {"set_grad_enabled", set_grad_enabled},
                                         {"is_grad_enabled", is_grad_enabled},
                                         {NULL, NULL}};
    sftl_metatable(L, "sft.guard", &u->guard_ref);
    luaL_setfuncs(L, guard_meta, 0);
    lua_pop(L, 1);
    sftl_metatable(L, "sft.context", &u->context_ref);
    luaL_setfuncs(L, own_meta, 0);
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    u->contexts_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, functions);
    lua_pop(L, 1);
}
