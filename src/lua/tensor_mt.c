/* tensor_mt.c: the handle of a tensor: life and death, attributes, and the way to methods and
 * indexing. */
#include "bind.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- life
 * ----------------------------------------------------------------------------------------- */

sft_tensor *sftl_check(lua_State *L, binding *u, int index, const char *fname) {
    sft_tensor **h = sftl_handle(L, u, index);
    char buf[64];
    if (!h)
        sftl_error(L, u, "argument", "%s: a Tensor is expected, got %s", fname,
                   sftl_kind(L, index, buf));
    if (!*h) sftl_error(L, u, "argument", "%s: this tensor was released", fname);
    return *h;
}

sft_tensor *sftl_self(lua_State *L, binding *u, const char *fname) {
    sft_tensor **h = sftl_handle(L, u, 1);
    char buf[64];
    if (!h)
        sftl_error(L, u, "argument",
                   "%s: the tensor is missing, got %s; call it as x:%s(), not x.%s()", fname,
                   sftl_kind(L, 1, buf), fname, fname);
    if (!*h) sftl_error(L, u, "argument", "%s: this tensor was released", fname);
    return *h;
}

static int tensor_gc(lua_State *L) {
    sft_tensor **h = sftl_handle(L, sftl_u(L), 1);
    if (h && *h) {
        sft_tensor *t = *h;
        *h = NULL;
        sft_release(t);
    }
    return 0;
}

/* A handle made in a finalizer while the state is being closed is never finalized itself. So those
 * made in finalizers are kept in a table, and state.c releases what is left at the end. */
void sftl_fragile(lua_State *L, binding *u) {
    if (u->closed) sftl_error(L, u, "argument", "the Lua state is closed: no tensor can be made");
    luaL_checkstack(L, 4, NULL);
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->fragile_ref);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* x:release(), and the end of `local x <close>`. Inside a finalizer that runs in the middle of an
 * op, the tensor may be an argument of that op, so it lives until the op is over. */
static int tensor_release(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor **h = sftl_handle(L, u, 1);
    char buf[64];
    if (!h)
        sftl_error(L, u, "argument", "release: a Tensor is expected, got %s", sftl_kind(L, 1, buf));
    sft_tensor *t = *h;
    if (!t) return 0;
    if (u->reclaiming) {
        if (u->ndeferred == u->capdeferred) {
            int cap = u->capdeferred ? 2 * u->capdeferred : 16;
            sft_tensor **p = realloc(u->deferred, sizeof *p * (size_t)cap);
            if (!p) return 0; /* the handle keeps it */
            u->deferred = p;
            u->capdeferred = cap;
        }
        u->deferred[u->ndeferred++] = t;
        *h = NULL;
        return 0;
    }
    *h = NULL;
    sft_release(t);
    return 0;
}

void sft_lua_push(lua_State *L, sft_tensor *t) {
    binding *u = sftl_find(L);
    if (!u) luaL_error(L, "sft_lua_push: sft is not open in this state (luaopen_sft)");
    if (!t) {
        lua_pushnil(L);
        return;
    }
    luaL_checkstack(L, 4, NULL);
    sft_tensor **h = sftl_new(L, u);
    *h = sft_retain(t);
}

sft_tensor *sft_lua_to(lua_State *L, int index) {
    binding *u = sftl_find(L);
    if (!u || lua_type(L, index) != LUA_TUSERDATA || !lua_checkstack(L, 2)) return NULL;
    sft_tensor **h = sftl_handle(L, u, index);
    return h ? *h : NULL;
}

sft_tensor *sft_lua_check(lua_State *L, int index) {
    sft_tensor *t = sft_lua_to(L, index);
    if (!t) {
        binding *u = sftl_find(L);
        bool released = u && lua_type(L, index) == LUA_TUSERDATA && sftl_handle(L, u, index);
        luaL_argerror(L, index, released ? "this tensor was released" : "Tensor expected");
    }
    return t;
}

/* ---- lists that live across Lua calls
 * -------------------------------------------------------------- */

static int anchor_gc(lua_State *L) {
    sftl_anchor *a = lua_touserdata(L, 1);
    if (a->by_engine) {
        sft_free_list(a->list, a->n);
    } else {
        for (int i = 0; i < a->n; i++) sft_release(a->list[i]);
        free(a->list);
    }
    a->list = NULL;
    a->n = 0;
    return 0;
}

sftl_anchor *sftl_new_anchor(lua_State *L, binding *u) {
    sftl_anchor *a = lua_newuserdatauv(L, sizeof *a, 0);
    *a = (sftl_anchor){NULL, 0, false};
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->anchor_ref);
    lua_setmetatable(L, -2);
    return a;
}

bool sftl_anchor_room(sftl_anchor *a, int n) {
    a->list = calloc((size_t)(n ? n : 1), sizeof *a->list);
    if (!a->list) return false;
    a->n = n;
    return true;
}

void sftl_push_list(lua_State *L, binding *u, sftl_anchor *a) {
    luaL_checkstack(L, 4, NULL);
    lua_createtable(L, a->n, 0);
    for (int i = 0; i < a->n; i++) {
        if (!a->list[i]) continue;
        sft_tensor **h = sftl_new(L, u);
        *h = a->list[i];
        a->list[i] = NULL;
        lua_rawseti(L, -2, i + 1);
    }
}

/* ---- shape
 * ------------------------------------------------------------------------------------------ */

void sftl_push_shape(lua_State *L, binding *u, const int64_t *v, int n) {
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, v[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->shape_ref);
    lua_setmetatable(L, -2);
}

static int shape_tostring(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '[');
    size_t n = lua_rawlen(L, 1);
    for (size_t i = 1; i <= n; i++) {
        if (i > 1) luaL_addlstring(&b, ", ", 2);
        lua_rawgeti(L, 1, (lua_Integer)i);
        luaL_tolstring(L, -1, NULL);
        lua_remove(L, -2);
        luaL_addvalue(&b);
    }
    luaL_addchar(&b, ']');
    luaL_pushresult(&b);
    return 1;
}

static int shape_eq(lua_State *L) {
    bool same = lua_type(L, 1) == LUA_TTABLE && lua_type(L, 2) == LUA_TTABLE &&
                lua_rawlen(L, 1) == lua_rawlen(L, 2);
    size_t n = same ? lua_rawlen(L, 1) : 0;
    for (size_t i = 1; i <= n && same; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        lua_rawgeti(L, 2, (lua_Integer)i);
        same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    lua_pushboolean(L, same);
    return 1;
}

static int shape_concat(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

static int shape_numel(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer r = 1;
    size_t n = lua_rawlen(L, 1);
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        r *= lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    lua_pushinteger(L, r);
    return 1;
}

/* shape[-1] is the last size; shape.numel, shape:numel() */
static int shape_index(lua_State *L) {
    int64_t i;
    if (lua_type(L, 1) == LUA_TTABLE && sftl_read_int(L, 2, &i)) {
        if (i >= 0) return 0;
        lua_rawgeti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1 + i);
        return 1;
    }
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "numel") == 0) {
        lua_pushcfunction(L, shape_numel);
        return 1;
    }
    return 0;
}

/* ---- attributes
 * --------------------------------------------------------------------------------------- */

enum attribute {
    A_SHAPE = 1,
    A_DTYPE,
    A_DEVICE,
    A_REQUIRES_GRAD,
    A_GRAD,
    A_GRAD_FN,
    A_IS_LEAF,
    A_NDIM,
    A_T,
    A_MT,
    A_DATA,
    A_IS_CUDA,
    A_ITEMSIZE,
    A_NBYTES,
    A_VERSION
};
static const struct {
    const char *name;
    int code;
} attributes[] = {{"shape", A_SHAPE},
                  {"dtype", A_DTYPE},
                  {"device", A_DEVICE},
                  {"requires_grad", A_REQUIRES_GRAD},
                  {"grad", A_GRAD},
                  {"grad_fn", A_GRAD_FN},
                  {"is_leaf", A_IS_LEAF},
                  {"ndim", A_NDIM},
                  {"T", A_T},
                  {"mT", A_MT},
                  {"data", A_DATA},
                  {"is_cuda", A_IS_CUDA},
                  {"itemsize", A_ITEMSIZE},
                  {"nbytes", A_NBYTES},
                  {"_version", A_VERSION}};

/* The same handle each time, so that it serves as a table key. */
static void push_grad(lua_State *L, binding *u) {
    sft_tensor **h = sftl_new(L, u);
    sft_tensor *g = sft_grad(sftl_check(L, u, 1, "grad"));
    if (!g) {
        lua_pushnil(L);
        return;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->grads_ref);
    lua_rawgetp(L, -1, g);
    sft_tensor **known = sftl_handle(L, u, -1);
    if (known && *known == g) return;
    lua_pop(L, 1);
    *h = sft_retain(g);
    lua_pushvalue(L, -2);
    lua_rawsetp(L, -2, g);
    lua_pop(L, 1);
}

static void push_view(lua_State *L, binding *u, int which, const char *name) {
    sft_tensor **r = sftl_new(L, u), *out[SFT_MAX_OUTPUTS];
    sft_tensor *t = sftl_check(L, u, 1, name);
    sft_value v[3] = {sft_v_tensor(t)};
    int64_t dims[SFT_MAX_DIMS];
    int n = sft_ndim(t), op, nargs;
    if (which == A_DATA) {
        op = sftl_need(L, u, u->op_detach, "detach");
        nargs = 1;
    } else if (which == A_MT) {
        if (n < 2) sftl_error(L, u, "argument", "mT: needs at least 2 dims, this tensor has %d", n);
        op = sftl_need(L, u, u->op_transpose, "transpose");
        v[1] = sft_v_int(-2);
        v[2] = sft_v_int(-1);
        nargs = 3;
    } else {
        op = sftl_need(L, u, u->op_permute, "permute");
        for (int i = 0; i < n; i++) dims[i] = n - 1 - i;
        v[1] = sft_v_ints(dims, n);
        nargs = 2;
    }
    if (sftl_op(L, u, op, SFT_CALL_ONE_BASED, v, nargs, out) != SFT_OK) sftl_raise(L, u);
    *r = out[0];
}

static int push_attribute(lua_State *L, binding *u, sft_tensor *t, int code) {
    switch (code) {
    case A_SHAPE: {
        int64_t sizes[SFT_MAX_DIMS]; /* a finalizer may release t while the table is made */
        int n = sft_ndim(t);
        memcpy(sizes, sft_sizes(t), sizeof(int64_t) * (size_t)n);
        sftl_push_shape(L, u, sizes, n);
        break;
    }
    case A_DTYPE:
        sftl_push_dtype(L, u, sft_dtype_of(t));
        break;
    case A_DEVICE:
        sftl_push_device(L, u, sft_device_of(t));
        break;
    case A_REQUIRES_GRAD:
        lua_pushboolean(L, sft_requires_grad(t));
        break;
    case A_GRAD:
        push_grad(L, u);
        break;
    case A_GRAD_FN: {
        const char *s = sft_grad_fn_name(t);
        if (s)
            lua_pushstring(L, s);
        else
            lua_pushnil(L);
        break;
    }
    case A_IS_LEAF:
        lua_pushboolean(L, sft_is_leaf(t));
        break;
    case A_NDIM:
        lua_pushinteger(L, sft_ndim(t));
        break;
    case A_T:
        push_view(L, u, A_T, "T");
        break;
    case A_MT:
        push_view(L, u, A_MT, "mT");
        break;
    case A_DATA:
        push_view(L, u, A_DATA, "data");
        break;
    case A_IS_CUDA:
        lua_pushboolean(L, sft_device_of(t).type == SFT_CUDA);
        break;
    case A_ITEMSIZE:
        lua_pushinteger(L, (lua_Integer)sft_dtype_size(sft_dtype_of(t)));
        break;
    case A_NBYTES:
        lua_pushinteger(L, sft_numel(t) * (lua_Integer)sft_dtype_size(sft_dtype_of(t)));
        break;
    case A_VERSION:
        lua_pushinteger(L, sft_version_of(t));
        break;
    default:
        return 0;
    }
    return 1;
}

/* No such name: says what was meant. Upvalue 2 holds all members. */
static int unknown_member(lua_State *L, binding *u) {
    size_t len, n;
    const char *name = lua_tolstring(L, 2, &len);
    int best = 1000;
    char near[64] = "";
    lua_pushnil(L);
    while (lua_next(L, lua_upvalueindex(2))) {
        lua_pop(L, 1);
        const char *s = lua_tolstring(L, -1, &n);
        int d = sftl_distance(name, len, s, n);
        if (d < best || (d == best && strcmp(s, near) < 0)) {
            best = d;
            snprintf(near, sizeof near, "%.60s", s);
        }
    }
    if (best <= (len < 4 ? 1 : 2))
        sftl_error(L, u, "argument",
                   "a Tensor has no attribute or method '%.40s' (did you mean '%s'?)", name, near);
    sftl_error(L, u, "argument", "a Tensor has no attribute or method '%.40s'", name);
}

static int tensor_index(lua_State *L) {
    binding *u = sftl_u(L);
    if (lua_type(L, 2) != LUA_TSTRING) return sftl_index_read(L, u);
    lua_pushvalue(L, 2);
    int type = lua_rawget(L, lua_upvalueindex(2));
    if (type == LUA_TFUNCTION) return 1;
    if (type == LUA_TNUMBER) {
        int code = (int)lua_tointeger(L, -1);
        return push_attribute(L, u, sftl_check(L, u, 1, lua_tostring(L, 2)), code);
    }
    if (strcmp(lua_tostring(L, 2), "...") == 0) return sftl_index_read(L, u);
    return unknown_member(L, u);
}

static void no_finalizer(lua_State *L, binding *u, const char *what) {
    if (u->reclaiming)
        sftl_error(L, u, "argument", "%s: not from a finalizer that runs in the middle of an op",
                   what);
}

static void set_grad(lua_State *L, binding *u) {
    sft_tensor *t = sftl_check(L, u, 1, "grad"), *g = NULL;
    if (!lua_isnil(L, 3)) g = sftl_check(L, u, 3, "grad");
    no_finalizer(L, u, "grad");
    if (sft_set_grad(t, g) != SFT_OK) sftl_raise(L, u);
    if (!g) return;
    /* The handle that was assigned is the one that x.grad gives back. */
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->grads_ref);
    lua_pushvalue(L, 3);
    lua_rawsetp(L, -2, g);
    lua_pop(L, 1);
}

static int tensor_newindex(lua_State *L) {
    binding *u = sftl_u(L);
    if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "...") == 0)
        return sftl_index_write(L, u);
    const char *name = lua_tostring(L, 2);
    sft_tensor *t = sftl_check(L, u, 1, name);
    if (strcmp(name, "requires_grad") == 0) {
        if (lua_type(L, 3) != LUA_TBOOLEAN)
            sftl_error(L, u, "argument", "requires_grad must be true or false");
        if (sft_set_requires_grad(t, lua_toboolean(L, 3)) != SFT_OK) sftl_raise(L, u);
    } else if (strcmp(name, "grad") == 0) {
        set_grad(L, u);
    } else if (strcmp(name, "data") == 0) {
        sft_tensor *src = sftl_check(L, u, 3, "data");
        no_finalizer(L, u, "data");
        if (sft_set_data(t, src) != SFT_OK) sftl_raise(L, u);
    } else {
        lua_pushvalue(L, 2);
        if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
            sftl_error(L, u, "argument", "the attribute '%.40s' of a Tensor can't be assigned",
                       name);
        sftl_error(
            L, u, "argument",
            "a Tensor has no attribute '%.40s'; requires_grad, grad and data can be assigned, "
            "and elements: x[i] = v",
            name);
    }
    return 0;
}

static int set_data(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "set_data"), *src = sftl_check(L, u, 2, "set_data");
    no_finalizer(L, u, "set_data");
    if (sft_set_data(t, src) != SFT_OK) sftl_raise(L, u);
    lua_settop(L, 1);
    return 1;
}

static int tensor_len(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_check(L, u, 1, "#");
    if (sft_ndim(t) == 0) sftl_error(L, u, "argument", "#: a 0-dim tensor has no length");
    lua_pushinteger(L, sft_sizes(t)[0]);
    return 1;
}

static int free_text(lua_State *L) {
    char **p = lua_touserdata(L, 1);
    sft_free_text(*p);
    *p = NULL;
    return 0;
}

static int tensor_tostring(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor **h = sftl_handle(L, u, 1);
    if (h && !*h) {
        lua_pushliteral(L, "tensor(<released>)");
        return 1;
    }
    char **text = lua_newuserdatauv(L, sizeof *text, 0);
    *text = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, free_text);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    sft_tensor *t = sftl_check(L, u, 1, "tostring");
    sftl_call c = sftl_begin(L, u);
    *text = sft_to_text(t);
    sftl_end(&c, u);
    if (!*text) sftl_raise(L, u);
    lua_pushstring(L, *text);
    sft_free_text(*text);
    *text = NULL;
    return 1;
}

/* ---- opening
 * ------------------------------------------------------------------------------------------ */

static int weak_table(lua_State *L, const char *mode) {
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static void small_metatables(lua_State *L, binding *u) {
    static const luaL_Reg anchor[] = {{"__gc", anchor_gc}, {NULL, NULL}};
    static const luaL_Reg shape[] = {{"__tostring", shape_tostring},
                                     {"__eq", shape_eq},
                                     {"__concat", shape_concat},
                                     {"__index", shape_index},
                                     {NULL, NULL}};
    sftl_metatable(L, "sft.anchor", &u->anchor_ref);
    luaL_setfuncs(L, anchor, 0);
    lua_pop(L, 1);
    sftl_metatable(L, "shape", &u->shape_ref);
    luaL_setfuncs(L, shape, 0);
    lua_pop(L, 1);
    u->grads_ref = weak_table(L, "v");
    u->fragile_ref = weak_table(L, "k");
}

/* Makes the metatable; pushes the table of methods, to be filled. */
void sftl_open_tensor(lua_State *L, binding *u) {
    static const luaL_Reg meta[] = {{"__gc", tensor_gc},
                                    {"__close", tensor_release},
                                    {"__len", tensor_len},
                                    {"__tostring", tensor_tostring},
                                    {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"release", tensor_release}, {"set_data", set_data}, {NULL, NULL}};
    small_metatables(L, u);
    lua_createtable(L, 0, 512);
    sftl_setfuncs(L, u, methods);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        lua_pushinteger(L, attributes[i].code);
        lua_setfield(L, -2, attributes[i].name);
    }
    sftl_metatable(L, "Tensor", &u->tensor_ref);
    sftl_setfuncs(L, u, meta);
    sftl_open_operators(L, u);
    static const luaL_Reg access[] = {
        {"__index", tensor_index}, {"__newindex", tensor_newindex}, {NULL, NULL}};
    for (const luaL_Reg *r = access; r->name; r++) {
        lua_pushlightuserdata(L, u);
        lua_pushvalue(L, -3);
        lua_pushcclosure(L, r->func, 2);
        lua_setfield(L, -2, r->name);
    }
    lua_pop(L, 1);
}
