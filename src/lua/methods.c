/* methods.c: methods of tensors whose results are no tensors, or whose arguments fit no row. */
#include "bind.h"
#include <stdio.h>

/* A handle that keeps self alive while Lua memory is allocated. */
static sft_tensor *held_self(lua_State *L, binding *u, const char *fname) {
    sft_tensor **keep = sftl_new(L, u);
    sft_tensor *t = sftl_self(L, u, fname);
    *keep = sft_retain(t);
    return t;
}

static int item(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "item");
    sft_value v;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_item(t, &v);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    sftl_push_value(L, &v);
    return 1;
}

static int tolist(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 1);
    sft_tensor *t = held_self(L, u, "tolist");
    sftl_push_nested(L, u, t);
    return 1;
}

static int tobytes(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 1);
    sft_tensor *t = held_self(L, u, "tobytes");
    luaL_Buffer b;
    size_t bytes = (size_t)sft_numel(t) * sft_dtype_size(sft_dtype_of(t));
    char *p = luaL_buffinitsize(L, &b, bytes);
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_copy_out(t, sft_dtype_of(t), p);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    luaL_pushresultsize(&b, bytes);
    return 1;
}

/* Dim argument at 2 as a 0-based dim in range; -1 when there is none. */
static int dim_argument(lua_State *L, binding *u, sft_tensor *t, const char *fname) {
    int64_t d;
    char buf[64];
    if (lua_type(L, 2) == LUA_TTABLE && lua_rawlen(L, 2) == 0) {
        lua_getfield(L, 2, "dim");
        lua_replace(L, 2);
    }
    if (lua_isnoneornil(L, 2)) return -1;
    if (!sftl_read_int(L, 2, &d))
        sftl_error(L, u, "argument", "%s: argument 'dim' must be a whole number, got %s", fname,
                   sftl_kind(L, 2, buf));
    if (d == 0)
        sftl_error(
            L, u, "index",
            "%s: argument 'dim': dims and indices start at 1 (or count from the end: -1), got 0",
            fname);
    int n = sft_ndim(t);
    if (d > n || d < -n)
        sftl_error(L, u, "index", "%s: dim %lld is out of range: the tensor has %d dims", fname,
                   (long long)d, n);
    return (int)(d > 0 ? d - 1 : d + n);
}

static int size(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "size");
    int d = dim_argument(L, u, t, "size");
    if (d >= 0) {
        lua_pushinteger(L, sft_sizes(t)[d]);
    } else {
        t = held_self(L, u, "size");
        sftl_push_shape(L, u, sft_sizes(t), sft_ndim(t));
    }
    return 1;
}

static int stride(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "stride");
    int d = dim_argument(L, u, t, "stride");
    if (d >= 0) {
        lua_pushinteger(L, sft_strides(t)[d]);
    } else {
        t = held_self(L, u, "stride");
        sftl_push_shape(L, u, sft_strides(t), sft_ndim(t));
    }
    return 1;
}

static int storage_offset(lua_State *L) {
    lua_pushinteger(L, sft_storage_offset(sftl_self(L, sftl_u(L), "storage_offset")));
    return 1;
}

static int dim(lua_State *L) {
    lua_pushinteger(L, sft_ndim(sftl_self(L, sftl_u(L), "dim")));
    return 1;
}

static int numel(lua_State *L) {
    sft_tensor *t = lua_gettop(L) ? sftl_self(L, sftl_u(L), "numel") : NULL;
    if (!t)
        sftl_error(L, sftl_u(L), "argument", "numel: a Tensor is expected; call it as x:numel()");
    lua_pushinteger(L, sft_numel(t));
    return 1;
}

static int element_size(lua_State *L) {
    sft_tensor *t = sftl_self(L, sftl_u(L), "element_size");
    lua_pushinteger(L, (lua_Integer)sft_dtype_size(sft_dtype_of(t)));
    return 1;
}

static int is_contiguous(lua_State *L) {
    lua_pushboolean(L, sft_is_contiguous(sftl_self(L, sftl_u(L), "is_contiguous")));
    return 1;
}

static int data_ptr(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)(intptr_t)sft_data(sftl_self(L, sftl_u(L), "data_ptr")));
    return 1;
}

/* A number that names the storage: equal for views of one storage. */
static int storage_id(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)sft_storage_id(sftl_self(L, sftl_u(L), "_storage_id")));
    return 1;
}

static int is_floating_point(lua_State *L) {
    lua_pushboolean(
        L, sft_dtype_is_floating(sft_dtype_of(sftl_self(L, sftl_u(L), "is_floating_point"))));
    return 1;
}

static int is_same(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *a = sftl_self(L, u, "is_set_to"), *b = sftl_check(L, u, 2, "is_set_to");
    bool same = sft_same_storage(a, b) && sft_data(a) == sft_data(b) && sft_ndim(a) == sft_ndim(b);
    for (int d = 0; d < sft_ndim(a) && same; d++)
        same = sft_sizes(a)[d] == sft_sizes(b)[d] && sft_strides(a)[d] == sft_strides(b)[d];
    lua_pushboolean(L, same);
    return 1;
}

/* ---- conversion
 * -------------------------------------------------------------------------------------- */

static int run_to(lua_State *L, binding *u, sft_tensor **r, sft_tensor *t, const sft_value *a) {
    sft_tensor *out[SFT_MAX_OUTPUTS];
    if (sftl_op(L, u, sftl_need(L, u, u->op_to, "to"), SFT_CALL_ONE_BASED, a, 5, out) != SFT_OK)
        sftl_raise(L, u);
    if (out[0] == t) {
        sft_release(out[0]);
        lua_settop(L, 1);
    } else {
        *r = out[0];
        lua_pushvalue(L, lua_gettop(L));
    }
    return 1;
}

/* One positional argument of x:to(). */
static bool to_argument(lua_State *L, binding *u, int i, sft_value *a) {
    sft_dtype d;
    sft_device dev;
    sft_tensor **h = lua_type(L, i) == LUA_TUSERDATA ? sftl_handle(L, u, i) : NULL;
    if (h && *h) {
        a[1] = sft_v_device(sft_device_of(*h));
        a[2] = sft_v_dtype(sft_dtype_of(*h));
    } else if (sftl_to_dtype(L, u, i, &d)) {
        a[2] = sft_v_dtype(d);
    } else if (sftl_to_device(L, u, i, &dev)) {
        a[1] = sft_v_device(dev);
    } else if (lua_type(L, i) == LUA_TBOOLEAN) {
        a[a[3].kind == SFT_V_NONE ? 3 : 4] = sft_v_bool(lua_toboolean(L, i));
    } else {
        return lua_isnil(L, i);
    }
    return true;
}

static void to_keywords(lua_State *L, binding *u, int table, sft_value *a) {
    static const char *const known[] = {"device", "dtype", "non_blocking", "copy", "other", NULL};
    sftl_check_keywords(L, u, "to", table, known);
    char buf[64];
    for (int k = 0; known[k]; k++) {
        lua_pushstring(L, known[k]);
        lua_rawget(L, table);
        int i = lua_gettop(L);
        bool ok = true;
        sft_dtype d;
        sft_device dev;
        if (lua_isnil(L, i)) {
        } else if (k == 0) {
            if ((ok = sftl_to_device(L, u, i, &dev))) a[1] = sft_v_device(dev);
        } else if (k == 1) {
            if ((ok = sftl_to_dtype(L, u, i, &d))) a[2] = sft_v_dtype(d);
        } else if (k == 4) {
            ok = sftl_handle(L, u, i) && to_argument(L, u, i, a);
        } else {
            ok = lua_type(L, i) == LUA_TBOOLEAN;
            a[k + 1] = sft_v_bool(lua_toboolean(L, i));
        }
        if (!ok)
            sftl_error(L, u, "argument", "to: keyword '%s' can't be %s", known[k],
                       sftl_kind(L, i, buf));
        lua_pop(L, 1);
    }
}

/* x:to(device), (dtype), (device, dtype), (tensor), with {device, dtype, non_blocking, copy}. */
static int to(lua_State *L) {
    binding *u = sftl_u(L);
    int n = lua_gettop(L);
    luaL_checkstack(L, 8, NULL);
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u), *t = sftl_self(L, u, "to");
    sft_value a[5];
    for (int i = 0; i < 5; i++) a[i] = sft_v_none();
    a[0] = sft_v_tensor(t);
    char buf[64];
    for (int i = 2; i <= n; i++) {
        if (i == n && lua_type(L, i) == LUA_TTABLE) {
            to_keywords(L, u, i, a);
        } else if (!to_argument(L, u, i, a)) {
            if (lua_type(L, i) == LUA_TSTRING)
                sftl_error(L, u, "argument",
                           "to: \"%.40s\" is neither a dtype (\"float32\") nor a device (\"cpu\", "
                           "\"cuda:0\")",
                           lua_tostring(L, i));
            sftl_error(L, u, "argument", "to: expected a device, a dtype or a Tensor, got %s",
                       sftl_kind(L, i, buf));
        }
    }
    return run_to(L, u, r, t, a);
}

/* x:float(), x:cpu(), ...: upvalue 2 is a dtype, upvalue 3 a device string or nil. */
static int convert(lua_State *L) {
    binding *u = sftl_u(L);
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    sft_tensor *t = sftl_self(L, u, name);
    sft_value a[5];
    for (int i = 0; i < 5; i++) a[i] = sft_v_none();
    a[0] = sft_v_tensor(t);
    if (lua_type(L, lua_upvalueindex(3)) == LUA_TNUMBER) {
        a[2] = sft_v_dtype((sft_dtype)lua_tointeger(L, lua_upvalueindex(3)));
    } else {
        sft_device d = {SFT_CPU, 0};
        if (sft_device_parse(lua_tostring(L, lua_upvalueindex(3)), &d) != SFT_OK) sftl_raise(L, u);
        int64_t index;
        if (d.type == SFT_CUDA && sftl_read_int(L, 2, &index) && index >= 0 && index < 128)
            d.index = (int8_t)index;
        a[1] = sft_v_device(d);
    }
    return run_to(L, u, r, t, a);
}

static int type_as(lua_State *L) {
    binding *u = sftl_u(L);
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u), *t = sftl_self(L, u, "type_as");
    sft_tensor *other = sftl_check(L, u, 2, "type_as");
    sft_value a[5] = {sft_v_tensor(t), sft_v_device(sft_device_of(other)),
                      sft_v_dtype(sft_dtype_of(other)), sft_v_none(), sft_v_none()};
    return run_to(L, u, r, t, a);
}

static void open_conversions(lua_State *L, binding *u) {
    static const struct {
        const char *name;
        int dtype; /* -1: a device */
    } list[] = {{"float", SFT_float32},
                {"double", SFT_float64},
                {"half", SFT_float16},
                {"bfloat16", SFT_bfloat16},
                {"long", SFT_int64},
                {"int", SFT_int32},
                {"short", SFT_int16},
                {"char", SFT_int8},
                {"byte", SFT_uint8},
                {"bool", SFT_bool},
                {"cpu", -1},
                {"cuda", -1}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        lua_pushlightuserdata(L, u);
        lua_pushstring(L, list[i].name);
        if (list[i].dtype < 0)
            lua_pushstring(L, list[i].name);
        else
            lua_pushinteger(L, list[i].dtype);
        lua_pushcclosure(L, convert, 3);
        lua_setfield(L, -2, list[i].name);
    }
}

/* ---- rows
 * ---------------------------------------------------------------------------------------------- */

static int iter_next(lua_State *L) {
    binding *u = sftl_u(L);
    int64_t i = lua_tointeger(L, 2);
    sft_tensor **h = sftl_handle(L, u, 1);
    if (h && *h && i >= sft_sizes(*h)[0]) return 0;
    lua_settop(L, 1);
    lua_pushinteger(L, i + 1);
    sftl_index_read(L, u);
    lua_pushinteger(L, i + 1);
    lua_insert(L, -2);
    return 2;
}

/* for i, row in x:iter() do */
static int iter(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "iter");
    if (sft_ndim(t) == 0) sftl_error(L, u, "argument", "iter: a 0-dim tensor has no rows");
    lua_pushlightuserdata(L, u);
    lua_pushcclosure(L, iter_next, 1);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    return 3;
}

/* ---- opening
 * ------------------------------------------------------------------------------------------- */

void sftl_open_methods(lua_State *L, binding *u, int methods) {
    static const luaL_Reg list[] = {{"item", item},
                                    {"tolist", tolist},
                                    {"tobytes", tobytes},
                                    {"size", size},
                                    {"stride", stride},
                                    {"storage_offset", storage_offset},
                                    {"dim", dim},
                                    {"ndimension", dim},
                                    {"numel", numel},
                                    {"nelement", numel},
                                    {"element_size", element_size},
                                    {"is_contiguous", is_contiguous},
                                    {"data_ptr", data_ptr},
                                    {"_storage_id", storage_id},
                                    {"is_floating_point", is_floating_point},
                                    {"is_set_to", is_same},
                                    {"to", to},
                                    {"type_as", type_as},
                                    {"iter", iter},
                                    {NULL, NULL}};
    lua_pushvalue(L, methods);
    sftl_setfuncs(L, u, list);
    open_conversions(L, u);
    lua_pop(L, 1);
}
