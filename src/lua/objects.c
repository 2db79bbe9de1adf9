/* objects.c: dtypes, devices and random number generators as Lua values. */
#include "bind.h"
#include <stdio.h>

static void *check_object(lua_State *L, int index, const void *mt) {
    void *p = lua_touserdata(L, index);
    if (!p || !lua_getmetatable(L, index)) return NULL;
    bool ok = lua_topointer(L, -1) == mt;
    lua_pop(L, 1);
    return ok ? p : NULL;
}

/* ---- dtypes
 * ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    sft_dtype d;
} dtype_aliases[] = {{"float", SFT_float32}, {"double", SFT_float64}, {"half", SFT_float16},
                     {"long", SFT_int64},    {"int", SFT_int32},      {"short", SFT_int16},
                     {"byte", SFT_uint8},    {"char", SFT_int8}};

static bool dtype_by_name(const char *s, sft_dtype *out) {
    if (strncmp(s, "sft.", 4) == 0) s += 4;
    if (strncmp(s, "torch.", 6) == 0) s += 6;
    for (int d = 0; d < SFT_DTYPE_COUNT; d++)
        if (strcmp(s, sft_dtype_name((sft_dtype)d)) == 0) {
            *out = (sft_dtype)d;
            return true;
        }
    for (size_t i = 0; i < sizeof dtype_aliases / sizeof *dtype_aliases; i++)
        if (strcmp(s, dtype_aliases[i].name) == 0) {
            *out = dtype_aliases[i].d;
            return true;
        }
    return false;
}

bool sftl_to_dtype(lua_State *L, const binding *u, int index, sft_dtype *out) {
    if (lua_type(L, index) == LUA_TSTRING) return dtype_by_name(lua_tostring(L, index), out);
    sft_dtype *d = check_object(L, index, u->dtype_mt);
    if (d) *out = *d;
    return d != NULL;
}

void sftl_push_dtype(lua_State *L, binding *u, sft_dtype d) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->dtype_refs[d]);
}

static sft_dtype self_dtype(lua_State *L) {
    binding *u = sftl_u(L);
    sft_dtype *d = check_object(L, 1, u->dtype_mt);
    if (!d) sftl_error(L, u, "argument", "a dtype is expected");
    return *d;
}

static int dtype_tostring(lua_State *L) {
    lua_pushfstring(L, "sft.%s", sft_dtype_name(self_dtype(L)));
    return 1;
}

static int dtype_index(lua_State *L) {
    sft_dtype d = self_dtype(L);
    const char *k = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(k, "name") == 0)
        lua_pushstring(L, sft_dtype_name(d));
    else if (strcmp(k, "itemsize") == 0)
        lua_pushinteger(L, (lua_Integer)sft_dtype_size(d));
    else if (strcmp(k, "is_floating_point") == 0)
        lua_pushboolean(L, sft_dtype_is_floating(d));
    else if (strcmp(k, "is_signed") == 0)
        lua_pushboolean(L, d != SFT_bool && d != SFT_uint8);
    else
        return 0;
    return 1;
}

static void open_dtypes(lua_State *L, binding *u) {
    static const luaL_Reg meta[] = {
        {"__tostring", dtype_tostring}, {"__index", dtype_index}, {NULL, NULL}};
    int ref;
    sftl_metatable(L, "dtype", &ref);
    u->dtype_mt = lua_topointer(L, -1);
    sftl_setfuncs(L, u, meta);
    for (int d = 0; d < SFT_DTYPE_COUNT; d++) {
        sft_dtype *p = lua_newuserdatauv(L, sizeof *p, 0);
        *p = (sft_dtype)d;
        lua_pushvalue(L, -2);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        u->dtype_refs[d] = luaL_ref(L, LUA_REGISTRYINDEX);
        lua_setfield(L, -3, sft_dtype_name((sft_dtype)d));
    }
    lua_pop(L, 1);
    for (size_t i = 0; i < sizeof dtype_aliases / sizeof *dtype_aliases; i++) {
        if (!strcmp(dtype_aliases[i].name, "byte") || !strcmp(dtype_aliases[i].name, "char"))
            continue;
        sftl_push_dtype(L, u, dtype_aliases[i].d);
        lua_setfield(L, -2, dtype_aliases[i].name);
    }
}

/* ---- devices
 * ---------------------------------------------------------------------------------------- */

bool sftl_to_device(lua_State *L, const binding *u, int index, sft_device *out) {
    if (lua_type(L, index) == LUA_TSTRING)
        return sft_device_parse(lua_tostring(L, index), out) == SFT_OK;
    sft_device *d = check_object(L, index, u->device_mt);
    if (d) *out = *d;
    return d != NULL;
}

/* One object per device, so that == and table keys work. */
void sftl_push_device(lua_State *L, binding *u, sft_device d) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->devices_ref);
    lua_Integer key = d.type * 256 + d.index;
    if (lua_rawgeti(L, -1, key) == LUA_TNIL) {
        lua_pop(L, 1);
        sft_device *p = lua_newuserdatauv(L, sizeof *p, 0);
        *p = d;
        lua_rawgetp(L, -2, u->device_mt);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, key);
    }
    lua_remove(L, -2);
}

static sft_device self_device(lua_State *L) {
    binding *u = sftl_u(L);
    sft_device *d = check_object(L, 1, u->device_mt);
    if (!d) sftl_error(L, u, "argument", "a device is expected");
    return *d;
}

static int device_tostring(lua_State *L) {
    char buf[16];
    lua_pushstring(L, sft_device_name(self_device(L), buf));
    return 1;
}

static int device_index(lua_State *L) {
    sft_device d = self_device(L);
    const char *k = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(k, "type") == 0) {
        char buf[16];
        lua_pushstring(L, sft_device_name((sft_device){d.type, -1}, buf));
    } else if (strcmp(k, "index") == 0 && d.type != SFT_CPU && d.index >= 0) {
        lua_pushinteger(L, d.index);
    } else {
        return 0;
    }
    return 1;
}

/* sft.device("cuda:1"), sft.device("cuda", 1), sft.device(other) */
static int device_fn(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 2);
    sft_device d;
    if (!sftl_to_device(L, u, 1, &d)) {
        char buf[64];
        if (lua_type(L, 1) == LUA_TSTRING) sftl_raise(L, u);
        sftl_error(L, u, "device", "device: expected \"cpu\", \"cuda\" or \"cuda:N\", got %s",
                   sftl_kind(L, 1, buf));
    }
    if (!lua_isnil(L, 2)) {
        int64_t i;
        if (!sftl_read_int(L, 2, &i) || i < 0 || i > 127 || (d.type == SFT_CPU && i))
            sftl_error(L, u, "device",
                       "device: the index must be a whole number from 0 on (devices "
                       "count from 0; \"cpu\" is 0)");
        d.index = (int8_t)i;
    }
    sftl_push_device(L, u, d);
    return 1;
}

static void open_devices(lua_State *L, binding *u) {
    static const luaL_Reg meta[] = {
        {"__tostring", device_tostring}, {"__index", device_index}, {NULL, NULL}};
    lua_newtable(L);
    lua_pushvalue(L, -1);
    u->devices_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    int ref;
    sftl_metatable(L, "device", &ref);
    u->device_mt = lua_topointer(L, -1);
    sftl_setfuncs(L, u, meta);
    lua_rawsetp(L, -2, u->device_mt);
    lua_pop(L, 1);
}

/* ---- generators
 * ------------------------------------------------------------------------------------- */

sft_generator *sftl_to_generator(lua_State *L, const binding *u, int index) {
    sft_generator **g = check_object(L, index, u->generator_mt);
    return g ? *g : NULL;
}

static sft_generator *self_generator(lua_State *L) {
    binding *u = sftl_u(L);
    sft_generator *g = sftl_to_generator(L, u, 1);
    if (!g)
        sftl_error(L, u, "argument", "a Generator is expected; call it as g:name(), not g.name()");
    return g;
}

static int64_t check_seed(lua_State *L, int index, const char *fname) {
    binding *u = sftl_u(L);
    int64_t seed;
    char buf[64];
    if (!sftl_read_int(L, index, &seed))
        sftl_error(L, u, "argument", "%s: the seed must be a whole number, got %s", fname,
                   sftl_kind(L, index, buf));
    return seed;
}

static void push_state(lua_State *L, sft_generator *g) {
    uint64_t s[2];
    sft_generator_get_state(g, s);
    lua_createtable(L, 2, 0);
    for (int i = 0; i < 2; i++) {
        lua_pushinteger(L, (lua_Integer)s[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static void read_state(lua_State *L, int index, sft_generator *g) {
    binding *u = sftl_u(L);
    int64_t s[2];
    for (int i = 0; i < 2; i++) {
        bool ok = lua_type(L, index) == LUA_TTABLE;
        if (ok) {
            lua_rawgeti(L, index, i + 1);
            ok = sftl_read_int(L, -1, &s[i]);
            lua_pop(L, 1);
        }
        if (!ok)
            sftl_error(L, u, "argument",
                       "set_state: a state as get_rng_state() or get_state() gives it is expected");
    }
    sft_generator_set_state(g, (uint64_t[2]){(uint64_t)s[0], (uint64_t)s[1]});
}

static int generator_gc(lua_State *L) {
    sft_generator **g = check_object(L, 1, sftl_u(L)->generator_mt);
    if (g) {
        sft_generator_release(*g);
        *g = NULL;
    }
    return 0;
}

static int generator_fn(lua_State *L) {
    binding *u = sftl_u(L);
    int64_t seed = 0;
    if (lua_type(L, 1) == LUA_TNUMBER) seed = check_seed(L, 1, "Generator");
    sft_generator **g = lua_newuserdatauv(L, sizeof *g, 0);
    *g = NULL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->generator_ref);
    lua_setmetatable(L, -2);
    *g = sft_generator_new((uint64_t)seed);
    if (!*g) sftl_error(L, u, "oom", "Generator: out of memory");
    return 1;
}

static int generator_manual_seed(lua_State *L) {
    sft_generator_seed(self_generator(L), (uint64_t)check_seed(L, 2, "manual_seed"));
    lua_settop(L, 1);
    return 1;
}

static int generator_get_state(lua_State *L) {
    push_state(L, self_generator(L));
    return 1;
}

static int generator_set_state(lua_State *L) {
    read_state(L, 2, self_generator(L));
    lua_settop(L, 1);
    return 1;
}

static int generator_initial_seed(lua_State *L) {
    uint64_t s[2];
    sft_generator_get_state(self_generator(L), s);
    lua_pushinteger(L, (lua_Integer)s[0]);
    return 1;
}

static int manual_seed(lua_State *L) {
    sft_generator_seed(sft_default_generator(), (uint64_t)check_seed(L, 1, "manual_seed"));
    return 0;
}

static int get_rng_state(lua_State *L) {
    push_state(L, sft_default_generator());
    return 1;
}

static int set_rng_state(lua_State *L) {
    read_state(L, 1, sft_default_generator());
    return 0;
}

static int initial_seed(lua_State *L) {
    uint64_t s[2];
    sft_generator_get_state(sft_default_generator(), s);
    lua_pushinteger(L, (lua_Integer)s[0]);
    return 1;
}

static void open_generators(lua_State *L, binding *u) {
    static const luaL_Reg meta[] = {{"__gc", generator_gc}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"manual_seed", generator_manual_seed},
                                       {"initial_seed", generator_initial_seed},
                                       {"get_state", generator_get_state},
                                       {"set_state", generator_set_state},
                                       {NULL, NULL}};
    sftl_metatable(L, "Generator", &u->generator_ref);
    u->generator_mt = lua_topointer(L, -1);
    sftl_setfuncs(L, u, meta);
    lua_newtable(L);
    sftl_setfuncs(L, u, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void sftl_open_objects(lua_State *L, binding *u) {
    open_dtypes(L, u);
    open_devices(L, u);
    open_generators(L, u);
    static const luaL_Reg functions[] = {{"device", device_fn},
                                         {"Generator", generator_fn},
                                         {"manual_seed", manual_seed},
                                         {"initial_seed", initial_seed},
                                         {"get_rng_state", get_rng_state},
                                         {"set_rng_state", set_rng_state},
                                         {NULL, NULL}};
    sftl_setfuncs(L, u, functions);
}
