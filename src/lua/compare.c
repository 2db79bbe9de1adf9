/* compare.c: comparisons of whole tensors that answer with a Lua boolean (equal, allclose),
 * isclose, and small questions. Made of ops; nothing is recorded. */
#include "bind.h"
#include <math.h>

/* References that are dropped together. */
typedef struct chain {
    sft_tensor *t[16];
    int n;
    bool failed;
} chain;

static void chain_free(chain *c) {
    while (c->n > 0) sft_release(c->t[--c->n]);
}

static sft_tensor *op(chain *c, const char *name, sft_value a, sft_value b, int n) {
    int id = sftl_find_op(name);
    sft_value v[2] = {a, b};
    if (c->failed) return NULL;
    if (id < 0) sft_set_error(SFT_ERR_UNSUPPORTED, "an op is missing in this build");
    sft_tensor *t = id < 0 ? NULL : sft_call1((sft_op_id)id, v, n);
    if (!t || c->n == 16) {
        sft_release(t);
        c->failed = true;
        return NULL;
    }
    return c->t[c->n++] = t;
}

static sft_tensor *one(chain *c, const char *name, sft_tensor *a) {
    return op(c, name, sft_v_tensor(a), sft_v_none(), 1);
}
static sft_tensor *two(chain *c, const char *name, sft_tensor *a, sft_tensor *b) {
    return op(c, name, sft_v_tensor(a), sft_v_tensor(b), 2);
}
static sft_tensor *with(chain *c, const char *name, sft_tensor *a, double b) {
    return op(c, name, sft_v_tensor(a), sft_v_float(b), 2);
}

/* |a - b| <= atol + rtol |b|, or equal (infinities too). */
static sft_tensor *close_to(chain *c, sft_tensor *a, sft_tensor *b, double rtol, double atol,
                            bool nan) {
    sft_tensor *same = two(c, "eq", a, b);
    bool bools = sft_dtype_of(a) == SFT_bool || sft_dtype_of(b) == SFT_bool;
    if (bools || c->failed) return same;
    sft_tensor *distance = one(c, "abs", two(c, "sub", a, b));
    sft_tensor *limit = with(c, "add", with(c, "mul", one(c, "abs", b), rtol), atol);
    sft_tensor *near = two(c, "le", distance, limit);
    /* 1 and inf are not close, though inf <= inf */
    near = two(c, "logical_and", near, with(c, "lt", distance, (double)INFINITY));
    sft_tensor *r = two(c, "logical_or", same, near);
    if (!nan || c->failed) return r;
    return two(c, "logical_or", r, two(c, "logical_and", one(c, "isnan", a), one(c, "isnan", b)));
}

typedef struct close_args {
    double rtol, atol;
    bool nan;
} close_args;

static void read_close(lua_State *L, binding *u, const char *fname, close_args *a) {
    static const char *const known[] = {"rtol", "atol", "equal_nan", NULL};
    *a = (close_args){1e-5, 1e-8, false};
    lua_settop(L, 5);
    for (int i = 3; i <= 5; i++) {
        if (lua_type(L, i) == LUA_TTABLE) {
            sftl_check_keywords(L, u, fname, i, known);
            int table = i;
            lua_pushvalue(L, table);
            table = lua_gettop(L);
            for (int k = 0; k < 3; k++) {
                lua_pushstring(L, known[k]);
                if (lua_rawget(L, table) != LUA_TNIL)
                    lua_replace(L, 3 + k);
                else
                    lua_pop(L, 1);
                if (3 + k == i && lua_type(L, i) == LUA_TTABLE) {
                    lua_pushnil(L);
                    lua_replace(L, i);
                }
            }
            lua_settop(L, 5);
            break;
        }
    }
    double *out[] = {&a->rtol, &a->atol};
    char buf[64];
    for (int i = 3; i <= 5; i++) {
        if (lua_isnil(L, i)) continue;
        if (lua_type(L, i) != (i < 5 ? LUA_TNUMBER : LUA_TBOOLEAN))
            sftl_error(L, u, "argument", "%s: %s must be %s, got %s", fname, known[i - 3],
                       i < 5 ? "a number" : "true or false", sftl_kind(L, i, buf));
        if (i < 5)
            *out[i - 3] = lua_tonumber(L, i);
        else
            a->nan = lua_toboolean(L, 5);
    }
}

/* Runs isclose; pushes the tensor, or whether all of it is true. */
static int run_close(lua_State *L, const char *fname, bool all) {
    binding *u = sftl_u(L);
    close_args a;
    read_close(L, u, fname, &a);
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    sft_tensor *x = sftl_self(L, u, fname), *y = sftl_check(L, u, 2, fname);
    chain c = {.n = 0};
    sft_value v = sft_v_bool(false);
    sftl_call call = sftl_begin(L, u);
    bool grad = sft_set_grad_enabled(false);
    sft_tensor *t = close_to(&c, x, y, a.rtol, a.atol, a.nan);
    if (t && all) t = one(&c, "all", t);
    if (t && all && sft_item(t, &v) != SFT_OK) c.failed = true;
    if (t && !all && !c.failed) *r = sft_retain(t);
    sft_set_grad_enabled(grad);
    sftl_end(&call, u);
    chain_free(&c);
    if (c.failed) sftl_raise_op(L, u, fname);
    if (all) lua_pushboolean(L, v.u.b);
    return 1;
}

static int isclose(lua_State *L) { return run_close(L, "isclose", false); }
static int allclose(lua_State *L) { return run_close(L, "allclose", true); }

/* equal(a, b): same shape, and the same elements. */
static int equal(lua_State *L) {
    binding *u = sftl_u(L);
    sftl_collect(L, u);
    sft_tensor *x = sftl_self(L, u, "equal"), *y = sftl_check(L, u, 2, "equal");
    bool same = sft_ndim(x) == sft_ndim(y) &&
                memcmp(sft_sizes(x), sft_sizes(y), sizeof(int64_t) * (size_t)sft_ndim(x)) == 0;
    if (same && sft_numel(x) > 0) {
        chain c = {.n = 0};
        sft_value v = sft_v_bool(false);
        sftl_call call = sftl_begin(L, u);
        bool grad = sft_set_grad_enabled(false);
        sft_tensor *t = one(&c, "all", two(&c, "eq", x, y));
        if (t && sft_item(t, &v) != SFT_OK) c.failed = true;
        sft_set_grad_enabled(grad);
        sftl_end(&call, u);
        chain_free(&c);
        if (c.failed) sftl_raise_op(L, u, "equal");
        same = v.u.b;
    }
    lua_pushboolean(L, same);
    return 1;
}

static int is_nonzero(lua_State *L) {
    binding *u = sftl_u(L);
    sft_value v;
    if (sft_item(sftl_self(L, u, "is_nonzero"), &v) != SFT_OK) sftl_raise_op(L, u, "is_nonzero");
    lua_pushboolean(L, v.kind == SFT_V_FLOAT ? v.u.f != 0
                       : v.kind == SFT_V_INT ? v.u.i != 0
                                             : v.u.b);
    return 1;
}

static int is_signed(lua_State *L) {
    sft_dtype d = sft_dtype_of(sftl_self(L, sftl_u(L), "is_signed"));
    lua_pushboolean(L, d != SFT_bool && d != SFT_uint8);
    return 1;
}

/* Registered as methods and as functions of sft, but where the op table has the name. */
void sftl_open_compare(lua_State *L, binding *u, int sft, int methods) {
    static const luaL_Reg list[] = {{"isclose", isclose},     {"allclose", allclose},
                                    {"equal", equal},         {"is_nonzero", is_nonzero},
                                    {"is_signed", is_signed}, {NULL, NULL}};
    for (const luaL_Reg *r = list; r->name; r++) {
        if (sftl_find_op(r->name) >= 0) continue;
        lua_pushlightuserdata(L, u);
        lua_pushcclosure(L, r->func, 1);
        lua_pushvalue(L, -1);
        lua_setfield(L, sft, r->name);
        lua_setfield(L, methods, r->name);
    }
}
