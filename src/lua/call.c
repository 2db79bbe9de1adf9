/* call.c: the one C function behind every op of ops.def, as function, method and in-place method,
 * and the arithmetic operators. */
#include "bind.h"

/* ---- results
 * -------------------------------------------------------------------------------------- */

/* A result that is the first argument itself is given back as the same handle. */
static bool same_handle(lua_State *L, const binding *u, const sft_tensor *t) {
    if (lua_type(L, 1) != LUA_TUSERDATA) return false;
    sft_tensor **h = sftl_handle(L, u, 1);
    return h && *h == t;
}

static int fill_results(lua_State *L, binding *u, frame *f, int first, sft_tensor **out, int nout) {
    for (int i = 0; i < nout; i++) *(sft_tensor **)lua_touserdata(L, first + i) = out[i];
    lua_settop(L, first + nout - 1);
    if (f->has_out) {
        lua_pushliteral(L, "out");
        lua_rawget(L, f->keywords);
        lua_replace(L, first);
    } else if (nout > 0 && __builtin_expect(same_handle(L, u, out[0]), 0)) {
        lua_pushvalue(L, 1);
        lua_replace(L, first);
    }
    return nout;
}

static int call_list(lua_State *L, binding *u, unsigned mode, int op, frame *f, int anchor) {
    sftl_anchor *a = lua_touserdata(L, anchor);
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_call_list((sft_op_id)op, mode, f->v,
                                  sft_op_get_info((sft_op_id)op)->nparams, &a->list, &a->n);
    sftl_end(&c, u);
    frame_free(f);
    if (st != SFT_OK) {
        a->list = NULL;
        a->n = 0;
        sftl_raise_op(L, u, f->name);
    }
    a->by_engine = true;
    sftl_push_list(L, u, a);
    return 1;
}

/* `form`: the flag that a row needs to be called in this way. */
static int call_rows(lua_State *L, unsigned mode, unsigned form) {
    binding *u = sftl_u(L);
    const op_set *set = lua_touserdata(L, lua_upvalueindex(2));
    int n = lua_gettop(L), first = n + 1, handles = 0, anchor = 0;
    luaL_checkstack(L, 16, NULL);
    sftl_collect(L, u);
    if (!(mode & SFT_CALL_INPLACE))
        for (; handles < set->max_out; handles++) sftl_new(L, u);
    if (set->list) {
        sftl_new_anchor(L, u);
        anchor = lua_gettop(L);
    }
    frame f;
    frame_init(&f, set->name);
    n = sftl_split_keywords(L, &f, n);
    int op = -1;
    for (int i = 0; i < set->nrows && n >= 0; i++) {
        const sft_op_info *info = sft_op_get_info((sft_op_id)set->rows[i]);
        if (!(info->flags & form)) continue;
        f.dst = NULL;
        f.has_out = false;
        f.nints = f.nts = 0;
        if (sftl_read_row(L, u, info, n, &f)) {
            op = set->rows[i];
            break;
        }
    }
    if (op < 0) sftl_args_error(L, u, set, &f);
    const sft_op_info *info = sft_op_get_info((sft_op_id)op);
    if (info->nout == 0) return call_list(L, u, mode, op, &f, anchor);
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int nout = 0;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_call((sft_op_id)op, mode, f.v, info->nparams, f.dst, out, &nout);
    sftl_end(&c, u);
    if (__builtin_expect(f.blocks != NULL, 0)) frame_free(&f);
    if (st != SFT_OK) sftl_raise_op(L, u, f.name);
    if (mode & SFT_CALL_INPLACE) {
        bool self = same_handle(L, u, out[0]);
        for (int i = 0; i < nout; i++) sft_release(out[i]);
        if (!self) return 0;
        lua_settop(L, 1);
        return 1;
    }
    return fill_results(L, u, &f, first, out, nout);
}

static int call_method(lua_State *L) { return call_rows(L, SFT_CALL_ONE_BASED, SFT_F_METHOD); }
static int call_function(lua_State *L) { return call_rows(L, SFT_CALL_ONE_BASED, SFT_F_FUNCTION); }
static int call_functional(lua_State *L) { return call_rows(L, SFT_CALL_ONE_BASED, SFT_F_NN); }
static int call_inplace(lua_State *L) {
    return call_rows(L, SFT_CALL_ONE_BASED | SFT_CALL_INPLACE, SFT_F_INPLACE);
}

/* ---- for hand-written functions
 * --------------------------------------------------------------------- */

sft_status sftl_op(lua_State *L, binding *u, int op, unsigned mode, const sft_value *a, int n,
                   sft_tensor **out) {
    int nout = 0;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_call((sft_op_id)op, mode, a, n, NULL, out, &nout);
    sftl_end(&c, u);
    return st;
}

int sftl_need(lua_State *L, binding *u, int op, const char *name) {
    if (op < 0) sftl_error(L, u, "unsupported", "%s: this build has no op of that name", name);
    return op;
}

/* ---- operators
 * ---------------------------------------------------------------------------------------- */

static bool operand(lua_State *L, const binding *u, int index, sft_value *v) {
    if (lua_type(L, index) == LUA_TNUMBER) {
        *v = lua_isinteger(L, index) ? sft_v_int(lua_tointeger(L, index))
                                     : sft_v_float(lua_tonumber(L, index));
        return true;
    }
    sft_tensor **h = sftl_handle(L, u, index);
    if (!h || !*h) return false;
    *v = sft_v_tensor(*h);
    return true;
}

static int operand_error(lua_State *L, binding *u, const char *name) {
    for (int i = 1; i <= 2; i++) {
        sft_value v;
        if (lua_type(L, i) != LUA_TBOOLEAN && operand(L, u, i, &v)) continue;
        sft_tensor **h = sftl_handle(L, u, i);
        char buf[64];
        sftl_error(L, u, "argument", "%s: the operands must be Tensors or numbers, got %s", name,
                   h ? "a released tensor" : sftl_kind(L, i, buf));
    }
    return 0;
}

static int binary(lua_State *L) {
    binding *u = sftl_u(L);
    int op = (int)lua_tointeger(L, lua_upvalueindex(2));
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    sft_value v[2];
    if (!operand(L, u, 1, &v[0]) || !operand(L, u, 2, &v[1]))
        return operand_error(L, u, lua_tostring(L, lua_upvalueindex(3)));
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int nout = 0;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_call((sft_op_id)op, SFT_CALL_ONE_BASED, v, 2, NULL, out, &nout);
    sftl_end(&c, u);
    if (__builtin_expect(st != SFT_OK, 0))
        sftl_raise_op(L, u, lua_tostring(L, lua_upvalueindex(3)));
    *r = out[0];
    return 1;
}

static int unary(lua_State *L) {
    binding *u = sftl_u(L);
    int op = (int)lua_tointeger(L, lua_upvalueindex(2));
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    sft_value v = sft_v_tensor(sftl_check(L, u, 1, lua_tostring(L, lua_upvalueindex(3))));
    sft_tensor *out[SFT_MAX_OUTPUTS];
    if (sftl_op(L, u, op, SFT_CALL_ONE_BASED, &v, 1, out) != SFT_OK) sftl_raise(L, u);
    *r = out[0];
    return 1;
}

static int order(lua_State *L) {
    binding *u = sftl_u(L);
    const char *op = lua_tostring(L, lua_upvalueindex(2)),
               *name = lua_tostring(L, lua_upvalueindex(3));
    sftl_error(L, u, "argument",
               "tensors can't be compared with %s, whose result is always one boolean in Lua; use "
               "x:%s(y), or x:item() %s y for one element",
               op, name, op);
}

static int concat(lua_State *L) {
    binding *u = sftl_u(L);
    sftl_error(L, u, "argument",
               "tensors can't be joined with ..; use sft.cat{a, b}, or "
               "tostring(x) for text");
}

static int equal(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor **a = sftl_handle(L, u, 1), **b = sftl_handle(L, u, 2);
    lua_pushboolean(L, a && b && *a && *a == *b);
    return 1;
}

void sftl_open_operators(lua_State *L, binding *u) {
    static const char *const ops[][2] = {{"__add", "add"},
                                         {"__sub", "sub"},
                                         {"__mul", "mul"},
                                         {"__div", "div"},
                                         {"__idiv", "floor_divide"},
                                         {"__mod", "remainder"},
                                         {"__pow", "pow"},
                                         {"__band", "bitwise_and"},
                                         {"__bor", "bitwise_or"},
                                         {"__bxor", "bitwise_xor"},
                                         {"__shl", "bitwise_left_shift"},
                                         {"__shr", "bitwise_right_shift"},
                                         {"__unm", "neg"},
                                         {"__bnot", "bitwise_not"}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int op = sftl_find_op(ops[i][1]);
        if (op < 0) continue;
        lua_pushlightuserdata(L, u);
        lua_pushinteger(L, op);
        lua_pushstring(L, ops[i][1]);
        bool one = strcmp(ops[i][0], "__unm") == 0 || strcmp(ops[i][0], "__bnot") == 0;
        lua_pushcclosure(L, one ? unary : binary, 3);
        lua_setfield(L, -2, ops[i][0]);
    }
    static const char *const orders[][3] = {{"__lt", "<", "lt"}, {"__le", "<=", "le"}};
    for (int i = 0; i < 2; i++) {
        lua_pushlightuserdata(L, u);
        lua_pushstring(L, orders[i][1]);
        lua_pushstring(L, orders[i][2]);
        lua_pushcclosure(L, order, 3);
        lua_setfield(L, -2, orders[i][0]);
    }
    static const luaL_Reg others[] = {{"__concat", concat}, {"__eq", equal}, {NULL, NULL}};
    sftl_setfuncs(L, u, others);
}

/* ---- registration
 * ---------------------------------------------------------------------------------------- */

static void put(lua_State *L, binding *u, const op_set *s, lua_CFunction fn, int table,
                const char *name) {
    lua_pushlightuserdata(L, u);
    lua_pushlightuserdata(L, (void *)s);
    lua_pushcclosure(L, fn, 2);
    lua_setfield(L, table, name);
}

/* name, and name_ where there is an in-place form */
static void put_names(lua_State *L, binding *u, const op_set *s, const char *as, int sft,
                      int methods, int functional) {
    if (s->flags & SFT_F_METHOD) put(L, u, s, call_method, methods, as);
    if (s->flags & SFT_F_FUNCTION) put(L, u, s, call_function, sft, as);
    if (s->flags & SFT_F_NN) put(L, u, s, call_functional, functional, as);
    char name[64];
    size_t len = strlen(as);
    if (!(s->flags & SFT_F_INPLACE) || len >= sizeof name - 2) return;
    memcpy(name, as, len);
    memcpy(name + len, "_", 2);
    put(L, u, s, call_inplace, methods, name);
    if (s->flags & SFT_F_FUNCTION) put(L, u, s, call_inplace, sft, name);
    if (s->flags & SFT_F_NN) put(L, u, s, call_inplace, functional, name);
}

/* A row may share its name with a submodule's folder or a hand-written function, which wins: those
 * are registered later. */
void sftl_open_ops(lua_State *L, binding *u, int sft, int methods, int functional) {
    int n;
    const op_set *sets = sftl_op_sets(&n);
    for (int i = 0; i < n; i++) put_names(L, u, &sets[i], sets[i].name, sft, methods, functional);
    const char *as, *of;
    for (int i = 0; (as = sft_op_alias(i, &of)) != NULL; i++) {
        const op_set *s = sftl_find_set(of, strlen(of));
        if (s) put_names(L, u, s, as, sft, methods, functional);
    }
}
