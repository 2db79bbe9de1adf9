/* table.c: tensors from Lua values (numbers, nested tables, strings of bytes) and back. */
#include "bind.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- reading a nested table: shape and kind first, then the elements
 * ------------------------------ */

enum { K_NONE, K_BOOL, K_INT, K_FLOAT };

typedef struct nest {
    lua_State *L;
    const binding *u;
    const char *fname;
    int64_t sizes[SFT_MAX_DIMS];
    int ndim;
    int kind;
    sft_dtype tensor_dtype; /* of tensors among the elements */
    bool has_tensor;
    int64_t at[SFT_MAX_DIMS]; /* position, for messages */
    char *p;                  /* where the next element goes */
    sft_dtype out;            /* what is written: bool, int64 or float64 */
} nest;

static bool complain(nest *s, int depth, const char *what) {
    char where[200] = "";
    size_t n = 0;
    for (int d = 0; d < depth && n < sizeof where - 24; d++)
        n += (size_t)snprintf(where + n, sizeof where - n, "[%lld]", (long long)s->at[d]);
    char text[400];
    snprintf(text, sizeof text, "%s: element %s %s", s->fname, n ? where : "1", what);
    sft_set_error(SFT_ERR_ARGUMENT, text);
    return false;
}

static int kind_of_dtype(sft_dtype d) {
    return d == SFT_bool ? K_BOOL : sft_dtype_is_floating(d) ? K_FLOAT : K_INT;
}

/* The scalar on the top of the stack. */
static int scalar_kind(nest *s, int depth) {
    lua_State *L = s->L;
    char buf[64], text[160];
    switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
        return lua_isinteger(L, -1) ? K_INT : K_FLOAT;
    case LUA_TBOOLEAN:
        return K_BOOL;
    case LUA_TUSERDATA: {
        sft_tensor **h = sftl_handle(L, s->u, lua_gettop(L));
        if (!h) break;
        if (!*h) return complain(s, depth, "is a released tensor"), K_NONE;
        if (sft_numel(*h) != 1)
            return complain(s, depth,
                            "is a tensor of several elements; use sft.stack or sft.cat for those"),
                   K_NONE;
        s->has_tensor = true;
        s->tensor_dtype = sft_dtype_of(*h);
        return kind_of_dtype(s->tensor_dtype);
    }
    default:
        break;
    }
    snprintf(text, sizeof text, "must be a number, got %s", sftl_kind(L, -1, buf));
    complain(s, depth, text);
    return K_NONE;
}

/* The value on the top, `depth` tables deep: finds or checks the size of this level. */
static bool measure(nest *s, int depth) {
    lua_State *L = s->L;
    char text[200];
    if (lua_type(L, -1) != LUA_TTABLE) {
        int kind = scalar_kind(s, depth);
        if (kind == K_NONE) return false;
        if (depth != s->ndim && s->ndim >= 0) {
            snprintf(text, sizeof text, "is a number where a table of %lld is expected",
                     (long long)s->sizes[depth]);
            return complain(s, depth, text);
        }
        s->ndim = depth;
        if (kind > s->kind) s->kind = kind;
        return true;
    }
    if (depth == s->ndim) return complain(s, depth, "is a table where a number is expected");
    if (depth == SFT_MAX_DIMS) return complain(s, depth, "is nested more than 16 tables deep");
    int64_t n = (int64_t)lua_rawlen(L, -1);
    if (s->sizes[depth] < 0) {
        s->sizes[depth] = n;
    } else if (s->sizes[depth] != n) {
        snprintf(
            text, sizeof text,
            "has %lld entries, its neighbours have %lld; all tables of one level must be of one "
            "length",
            (long long)n, (long long)s->sizes[depth]);
        return complain(s, depth, text);
    }
    if (n == 0) {
        if (s->ndim < 0) s->ndim = depth + 1;
        if (s->ndim != depth + 1) return complain(s, depth, "is empty");
    }
    for (int64_t i = 1; i <= n; i++) {
        s->at[depth] = i;
        lua_rawgeti(L, -1, i);
        bool ok = measure(s, depth + 1);
        lua_pop(L, 1);
        if (!ok) return false;
    }
    return true;
}

static void put_scalar(nest *s, const sft_value *v) {
    double f = v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_INT ? (double)v->u.i : v->u.b;
    int64_t i = v->kind == SFT_V_INT ? v->u.i : v->kind == SFT_V_BOOL ? v->u.b : 0;
    if (s->out == SFT_float64) {
        memcpy(s->p, &f, 8);
        s->p += 8;
    } else if (s->out == SFT_int64) {
        memcpy(s->p, &i, 8);
        s->p += 8;
    } else {
        *s->p++ = v->u.b;
    }
}

static bool write_elements(nest *s, int depth) {
    lua_State *L = s->L;
    if (depth < s->ndim) {
        for (int64_t i = 1; i <= s->sizes[depth]; i++) {
            lua_rawgeti(L, -1, i);
            bool ok = write_elements(s, depth + 1);
            lua_pop(L, 1);
            if (!ok) return false;
        }
        return true;
    }
    sft_value v;
    if (lua_type(L, -1) == LUA_TNUMBER) {
        v = lua_isinteger(L, -1) ? sft_v_int(lua_tointeger(L, -1))
                                 : sft_v_float(lua_tonumber(L, -1));
    } else if (lua_type(L, -1) == LUA_TBOOLEAN) {
        v = sft_v_bool(lua_toboolean(L, -1));
    } else {
        sft_tensor **h = sftl_handle(L, s->u, lua_gettop(L));
        if (!h || !*h) return complain(s, 0, "changed while the table was read");
        if (sft_item(*h, &v) != SFT_OK) return false;
    }
    put_scalar(s, &v);
    return true;
}

/* Moves and converts; takes over the reference `t`. */
static sft_tensor *convert(const binding *u, sft_tensor *t, sft_dtype dtype, sft_device device) {
    if (!t || (sft_dtype_of(t) == dtype && device.type == SFT_CPU)) return t;
    sft_value a[3] = {sft_v_tensor(t), sft_v_device(device), sft_v_dtype(dtype)};
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int n = 0;
    bool grad = sft_set_grad_enabled(false);
    sft_status st = sft_call((sft_op_id)u->op_to, 0, a, 3, NULL, out, &n);
    sft_set_grad_enabled(grad);
    sft_release(t);
    return st == SFT_OK ? out[0] : NULL;
}

sft_tensor *sftl_build(lua_State *L, const binding *u, int index, int dtype, sft_device device,
                       const char *fname) {
    nest s = {.L = L, .u = u, .fname = fname, .ndim = -1};
    for (int d = 0; d < SFT_MAX_DIMS; d++) s.sizes[d] = -1;
    if (!lua_checkstack(L, SFT_MAX_DIMS + 10)) {
        sft_set_error(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    lua_pushvalue(L, index);
    sft_tensor *t = NULL;
    if (measure(&s, 0)) {
        sft_dtype inferred = s.kind == K_BOOL  ? SFT_bool
                             : s.kind == K_INT ? SFT_int64
                                               : sft_default_dtype();
        s.out = s.kind == K_BOOL ? SFT_bool : s.kind == K_INT ? SFT_int64 : SFT_float64;
        t = sft_empty(s.sizes, s.ndim, s.out, (sft_device){SFT_CPU, 0});
        s.p = t ? sft_data(t) : NULL;
        if (t && sft_numel(t) > 0 && !write_elements(&s, 0)) {
            sft_release(t);
            t = NULL;
        }
        t = convert(u, t, dtype >= 0 ? (sft_dtype)dtype : inferred, device);
    }
    lua_pop(L, 1);
    return t;
}

/* ---- sft.tensor and its relatives
 * -------------------------------------------------------------------- */

typedef struct options {
    int dtype; /* -1: inferred */
    bool has_device, requires_grad;
    sft_device device;
    int64_t sizes[SFT_MAX_DIMS];
    int ndim;              /* -1: no shape was given */
    int64_t offset, count; /* count -1: to the end */
} options;

static bool get(lua_State *L, int table, const char *name) {
    if (lua_getfield(L, table, name) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

static void read_shape(lua_State *L, binding *u, const char *fname, options *o) {
    int64_t one;
    o->ndim = 0;
    if (sftl_read_int(L, -1, &one)) {
        o->sizes[o->ndim++] = one;
    } else {
        bool ok = lua_type(L, -1) == LUA_TTABLE && lua_rawlen(L, -1) <= SFT_MAX_DIMS;
        int n = ok ? (int)lua_rawlen(L, -1) : 0;
        for (int i = 0; i < n && ok; i++) {
            lua_rawgeti(L, -1, i + 1);
            ok = sftl_read_int(L, -1, &o->sizes[o->ndim++]);
            lua_pop(L, 1);
        }
        if (!ok)
            sftl_error(L, u, "argument", "%s: shape must be a list of at most %d whole numbers",
                       fname, SFT_MAX_DIMS);
    }
}

static void read_options(lua_State *L, binding *u, int table, const char *fname, bool bytes,
                         options *o) {
    *o = (options){.dtype = -1, .device = {SFT_CPU, 0}, .ndim = -1, .count = -1};
    static const char *const plain[] = {"dtype",      "device", "requires_grad",
                                        "pin_memory", "shape",  NULL};
    static const char *const all[] = {"dtype", "device", "requires_grad", "shape", "offset",
                                      "count", NULL};
    char buf[64];
    if (lua_isnoneornil(L, table)) return;
    if (!lua_istable(L, table))
        sftl_error(L, u, "argument", "%s: a table of keywords is expected, got %s", fname,
                   sftl_kind(L, table, buf));
    sftl_check_keywords(L, u, fname, table, bytes ? all : plain);
    sft_dtype d;
    if (get(L, table, "dtype")) {
        if (!sftl_to_dtype(L, u, -1, &d))
            sftl_error(L, u, "argument",
                       "%s: argument 'dtype' must be a dtype (sft.float32, \"float32\"), got %s",
                       fname, sftl_kind(L, -1, buf));
        o->dtype = d;
        lua_pop(L, 1);
    }
    if (get(L, table, "device")) {
        if (!sftl_to_device(L, u, -1, &o->device))
            sftl_error(L, u, "device",
                       "%s: argument 'device' must be a device (\"cpu\", \"cuda:0\"), got %s",
                       fname, sftl_kind(L, -1, buf));
        o->has_device = true;
        lua_pop(L, 1);
    }
    if (get(L, table, "requires_grad")) {
        if (lua_type(L, -1) != LUA_TBOOLEAN)
            sftl_error(L, u, "argument", "%s: requires_grad must be true or false, got %s", fname,
                       sftl_kind(L, -1, buf));
        o->requires_grad = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    if (get(L, table, "shape")) {
        read_shape(L, u, fname, o);
        lua_pop(L, 1);
    }
    int64_t *numbers[] = {&o->offset, &o->count};
    static const char *const names[] = {"offset", "count"};
    for (int i = 0; i < 2 && bytes; i++) {
        if (!get(L, table, names[i])) continue;
        if (!sftl_read_int(L, -1, numbers[i]))
            sftl_error(L, u, "argument", "%s: %s must be a whole number, got %s", fname, names[i],
                       sftl_kind(L, -1, buf));
        lua_pop(L, 1);
    }
}

/* A string of bytes as elements of dtype (default uint8), in the machine's byte order. */
static sft_tensor *from_bytes(lua_State *L, binding *u, int index, const char *fname, options *o) {
    size_t len;
    const char *s = lua_tolstring(L, index, &len);
    sft_dtype d = o->dtype < 0 ? SFT_uint8 : (sft_dtype)o->dtype;
    size_t esize = sft_dtype_size(d);
    char text[200];
    if (o->offset < 0 || (uint64_t)o->offset > len) {
        snprintf(text, sizeof text, "%s: offset %lld is outside of the %zu bytes", fname,
                 (long long)o->offset, len);
        sft_set_error(SFT_ERR_ARGUMENT, text);
        return NULL;
    }
    s += o->offset;
    len -= (size_t)o->offset;
    int64_t have = (int64_t)(len / esize), want = have;
    if (o->ndim >= 0) {
        want = 1;
        for (int i = 0; i < o->ndim; i++)
            if (o->sizes[i] < 0 || __builtin_mul_overflow(want, o->sizes[i], &want))
                want = INT64_MAX / 16;
    } else {
        if (o->count >= 0) want = o->count;
        if (o->count < 0 && len % esize) want = have + 1;
        o->ndim = 1;
        o->sizes[0] = want;
    }
    if (want > have || (o->count < 0 && want != have)) {
        snprintf(text, sizeof text,
                 "%s: %zu bytes are %lld elements of %s%s, but %lld are asked for", fname, len,
                 (long long)have, sft_dtype_name(d), len % esize ? " and a rest" : "",
                 (long long)want);
        sft_set_error(SFT_ERR_ARGUMENT, text);
        return NULL;
    }
    sft_tensor *t = sft_from_data(s, o->sizes, o->ndim, d);
    if (t && d == SFT_bool) { /* any byte but 0 is true */
        uint8_t *p = sft_data(t);
        for (int64_t i = 0; i < want; i++) p[i] = p[i] != 0;
    }
    (void)u;
    return convert(u, t, d, o->device);
}

static int finish(lua_State *L, binding *u, sft_tensor **r, sft_tensor *t, const options *o) {
    if (!t) sftl_raise(L, u);
    *r = t;
    if (o->requires_grad && sft_set_requires_grad(t, true) != SFT_OK) sftl_raise(L, u);
    return 1;
}

/* A copy of a tensor, without history; for as_tensor only where something changes. */
static int copy_tensor(lua_State *L, binding *u, sft_tensor **r, const options *o, bool may_share) {
    sft_tensor *t = sftl_check(L, u, 1, "tensor"), *out[SFT_MAX_OUTPUTS];
    sft_dtype d = o->dtype < 0 ? sft_dtype_of(t) : (sft_dtype)o->dtype;
    sft_device dev = o->has_device ? o->device : sft_device_of(t);
    sft_value a[5] = {sft_v_tensor(t), sft_v_device(dev), sft_v_dtype(d), sft_v_bool(false),
                      sft_v_bool(!may_share)};
    if (sftl_op(L, u, u->op_to, SFT_CALL_ONE_BASED, a, 5, out) != SFT_OK) sftl_raise(L, u);
    *r = out[0];
    if (may_share) {
        if (out[0] == t) lua_settop(L, 1);
        return 1;
    }
    sft_value v = sft_v_tensor(out[0]);
    if (sftl_op(L, u, sftl_need(L, u, u->op_detach, "detach"), 0, &v, 1, out) != SFT_OK)
        sftl_raise(L, u);
    sft_release(*r);
    *r = NULL;
    return finish(L, u, r, out[0], o);
}

static int tensor_from(lua_State *L, const char *fname, bool may_share) {
    binding *u = sftl_u(L);
    if (lua_gettop(L) > 2)
        sftl_error(
            L, u, "argument",
            "%s: takes a value and a table of keywords; for sizes use sft.empty or sft.zeros, "
            "for several numbers a table: sft.tensor{1, 2, 3}",
            fname);
    lua_settop(L, 2);
    sftl_collect(L, u);
    options o;
    read_options(L, u, 2, fname, lua_type(L, 1) == LUA_TSTRING, &o);
    sft_tensor **r = sftl_new(L, u), *t;
    sftl_call c;
    char buf[64];
    switch (lua_type(L, 1)) {
    case LUA_TUSERDATA:
        if (sftl_handle(L, u, 1)) return copy_tensor(L, u, r, &o, may_share);
        break;
    case LUA_TSTRING:
        c = sftl_begin(L, u);
        t = from_bytes(L, u, 1, fname, &o);
        sftl_end(&c, u);
        return finish(L, u, r, t, &o);
    case LUA_TNUMBER:
    case LUA_TBOOLEAN:
    case LUA_TTABLE:
        c = sftl_begin(L, u);
        t = sftl_build(L, u, 1, o.dtype, o.device, fname);
        if (t && o.ndim >= 0) {
            sft_value a[2] = {sft_v_tensor(t), sft_v_ints(o.sizes, o.ndim)};
            sft_tensor *view = sft_call1(SFT_OP_reshape, a, 2);
            sft_release(t);
            t = view;
        }
        sftl_end(&c, u);
        return finish(L, u, r, t, &o);
    default:
        break;
    }
    sftl_error(
        L, u, "argument",
        "%s: expected a number, a boolean, a (nested) table, a Tensor or a string of bytes, got %s",
        fname, sftl_kind(L, 1, buf));
}

static int tensor_fn(lua_State *L) { return tensor_from(L, "tensor", false); }
static int as_tensor(lua_State *L) { return tensor_from(L, "as_tensor", true); }

/* sft.frombuffer(bytes, {dtype, shape, offset, count}): a copy; offset in bytes. */
static int frombuffer(lua_State *L) {
    if (lua_type(L, 1) != LUA_TSTRING) {
        char buf[64];
        sftl_error(L, sftl_u(L), "argument", "frombuffer: a string of bytes is expected, got %s",
                   sftl_kind(L, 1, buf));
    }
    return tensor_from(L, "frombuffer", false);
}

static int is_tensor(lua_State *L) {
    lua_pushboolean(L, lua_type(L, 1) == LUA_TUSERDATA && sftl_handle(L, sftl_u(L), 1) != NULL);
    return 1;
}

/* ---- back to Lua
 * ---------------------------------------------------------------------------------------- */

void sftl_push_value(lua_State *L, const sft_value *v) {
    if (v->kind == SFT_V_INT)
        lua_pushinteger(L, v->u.i);
    else if (v->kind == SFT_V_BOOL)
        lua_pushboolean(L, v->u.b);
    else
        lua_pushnumber(L, v->u.f);
}

typedef struct unnest {
    const char *p;
    sft_dtype d; /* bool, int64 or float64 */
    const int64_t *sizes;
    int ndim;
} unnest;

static void push_level(lua_State *L, unnest *s, int depth) {
    if (depth == s->ndim) {
        sft_value v;
        if (s->d == SFT_bool) {
            v = sft_v_bool(*s->p++ != 0);
        } else {
            v = s->d == SFT_int64 ? sft_v_int(0) : sft_v_float(0);
            memcpy(&v.u, s->p, 8);
            s->p += 8;
        }
        sftl_push_value(L, &v);
        return;
    }
    int64_t n = s->sizes[depth];
    lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
    for (int64_t i = 1; i <= n; i++) {
        push_level(L, s, depth + 1);
        lua_rawseti(L, -2, i);
    }
}

void sftl_push_nested(lua_State *L, binding *u, sft_tensor *t) {
    luaL_checkstack(L, SFT_MAX_DIMS + 8, NULL);
    sft_dtype d = sft_dtype_of(t) == SFT_bool              ? SFT_bool
                  : sft_dtype_is_floating(sft_dtype_of(t)) ? SFT_float64
                                                           : SFT_int64;
    int64_t sizes[SFT_MAX_DIMS];
    int ndim = sft_ndim(t);
    memcpy(sizes, sft_sizes(t), sizeof(int64_t) * (size_t)ndim);
    /* An expanded tensor of bytes can have more elements than there is room for as numbers. */
    if (sft_numel(t) > INT64_MAX / 16)
        sftl_error(L, u, "oom", "tolist: out of memory: %lld elements", (long long)sft_numel(t));
    char *p = lua_newuserdatauv(L, (size_t)sft_numel(t) * sft_dtype_size(d) + 1, 0);
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_copy_out(t, d, p);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    unnest s = {p, d, sizes, ndim};
    push_level(L, &s, 0);
}

void sftl_open_table(lua_State *L, binding *u, int sft) {
    static const luaL_Reg functions[] = {{"tensor", tensor_fn},      {"as_tensor", as_tensor},
                                         {"from_bytes", frombuffer}, {"frombuffer", frombuffer},
                                         {"is_tensor", is_tensor},   {NULL, NULL}};
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, functions);
    lua_pop(L, 1);
}
