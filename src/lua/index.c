/* index.c: x[key] and x[key] = value, with the forms of PyTorch in Lua's clothes:
 *
 *   x[3]  x[-1]              one element of dim 1
 *   x[{2, 3}]                one index per dim
 *   x[{{2, 5}}]              a range with both ends; {a, b, step}; {} is all of a dim
 *   x[{{}, sft.newaxis}]     a new dim of size 1;  "..." stands for as many {} as are missing
 *   x[t]  x[{t, {}}]         an int64 tensor picks, a bool tensor masks
 *   x[{{{1, 3, 4}}}]         a list of indices, in braces of its own (a range has one pair less)
 *
 * Integers and ranges make a view; then whatever is left of tensors and lists goes to index or
 * index_put_. As everywhere: the key is read raw, after the result's handle was made. */
#include "bind.h"
#include <stdio.h>

enum item_kind { IT_INT, IT_RANGE, IT_ALL, IT_NEWAXIS, IT_ELLIPSIS, IT_TENSOR };
enum { MAX_ITEMS = 40 };

typedef struct item {
    uint8_t kind;
    int64_t a, b, step;
    sft_tensor *t;
    bool owned;
} item;

typedef struct key {
    item items[MAX_ITEMS];
    int n;
    const char *code;
    char error[300];
} key;

static bool bad(key *k, const char *code, const char *text) {
    k->code = code;
    snprintf(k->error, sizeof k->error, "index: %s", text);
    return false;
}

/* The engine's own error stands. */
static bool engine_error(key *k) {
    k->code = NULL;
    return false;
}

static void key_free(key *k) {
    for (int i = 0; i < k->n; i++)
        if (k->items[i].owned) sft_release(k->items[i].t);
    k->n = 0;
}

static int key_error(lua_State *L, binding *u, key *k) {
    key_free(k);
    if (!k->code) sftl_raise(L, u);
    sftl_error(L, u, k->code, "%s", k->error);
}

/* ---- reading the key ----------------------------------------------------------------------------
 */

static bool add_list(lua_State *L, binding *u, key *k, int index, item *it) {
    sft_tensor *t = sftl_build(L, u, index, -1, (sft_device){SFT_CPU, 0}, "index");
    if (!t) return engine_error(k);
    it->kind = IT_TENSOR;
    it->t = t;
    it->owned = true;
    sft_dtype d = sft_dtype_of(t);
    if (d == SFT_int64 || d == SFT_bool) return true;
    return bad(k, "argument", "a list of indices must hold whole numbers or booleans");
}

/* {} all, {a, b} and {a, b, step} ranges, {{...}} a list of indices, {true, false} a mask. */
static bool add_table(lua_State *L, binding *u, key *k, int index, item *it) {
    size_t n = lua_rawlen(L, index);
    if (n == 0) {
        lua_pushnil(L);
        if (lua_next(L, index)) {
            lua_pop(L, 2);
            return bad(k, "argument", "a table in an index must be a list: {}, {a, b} or {{...}}");
        }
        it->kind = IT_ALL;
        return true;
    }
    int type = lua_rawgeti(L, index, 1);
    bool ok;
    if (type == LUA_TTABLE) {
        int at = n == 1 ? lua_gettop(L) : index; /* {{1, 3}} is the list 1, 3 */
        ok = add_list(L, u, k, at, it);
        lua_pop(L, 1);
        return ok;
    }
    lua_pop(L, 1);
    if (type == LUA_TBOOLEAN) return add_list(L, u, k, index, it);
    if (n > 3 || n < 2)
        return bad(k, "argument",
                   n < 2
                       ? "a range needs both ends: {a, b}, where -1 is the last; {} is all; a list "
                         "of indices is {{a}}"
                       : "a range is {a, b} or {a, b, step}; write a list of indices in two pairs "
                         "of braces: {{1, 3, 4, 6}}");
    int64_t v[3] = {0, 0, 1};
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        ok = sftl_read_int(L, -1, &v[i]);
        lua_pop(L, 1);
        if (!ok)
            return bad(k, "argument", "the ends and the step of a range must be whole numbers");
    }
    if (v[0] == 0 || v[1] == 0)
        return bad(k, "index", "indices start at 1 (or count from the end: -1), got 0 in a range");
    if (v[2] < 1)
        return bad(k, "argument", "the step of a range must be positive; use x:flip(dim)");
    *it = (item){.kind = IT_RANGE, .a = v[0], .b = v[1], .step = v[2]};
    return true;
}

static bool add_item(lua_State *L, binding *u, key *k, int index) {
    if (k->n == MAX_ITEMS) return bad(k, "argument", "too many indices");
    item *it = &k->items[k->n];
    *it = (item){0};
    int type = lua_type(L, index);
    bool ok = true;
    char buf[64], text[160];
    if (type == LUA_TNUMBER) {
        it->kind = IT_INT;
        if (!sftl_read_int(L, index, &it->a)) {
            snprintf(text, sizeof text, "an index must be a whole number, got %s",
                     sftl_kind(L, index, buf));
            return bad(k, "argument", text);
        }
        if (it->a == 0)
            return bad(k, "index", "indices start at 1 (or count from the end: -1), got 0");
    } else if (type == LUA_TTABLE && lua_topointer(L, index) == u->newaxis) {
        it->kind = IT_NEWAXIS;
    } else if (type == LUA_TTABLE) {
        ok = add_table(L, u, k, index, it);
    } else if (type == LUA_TSTRING && strcmp(lua_tostring(L, index), "...") == 0) {
        it->kind = IT_ELLIPSIS;
    } else {
        sft_tensor **h = type == LUA_TUSERDATA ? sftl_handle(L, u, index) : NULL;
        if (!h || !*h) {
            snprintf(
                text, sizeof text,
                "expected a whole number, {a, b}, {}, a Tensor, sft.newaxis or \"...\", got %s",
                h ? "a released tensor" : sftl_kind(L, index, buf));
            return bad(k, "argument", text);
        }
        it->kind = IT_TENSOR;
        it->t = *h;
    }
    k->n++; /* also when it failed: what it owns is freed */
    return ok;
}

static bool read_key(lua_State *L, binding *u, key *k, int index) {
    k->n = 0;
    k->code = NULL;
    if (lua_type(L, index) != LUA_TTABLE || lua_topointer(L, index) == u->newaxis)
        return add_item(L, u, k, index);
    size_t n = lua_rawlen(L, index);
    if (n == 0) {
        lua_pushnil(L);
        if (lua_next(L, index)) {
            lua_pop(L, 2);
            return bad(k, "argument", "a list of indices is expected, got a table of names");
        }
    }
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        bool ok = add_item(L, u, k, lua_gettop(L));
        lua_pop(L, 1);
        if (!ok) return false;
    }
    return true;
}

/* ---- the view
 * ------------------------------------------------------------------------------------ */

typedef struct walk {
    lua_State *L;
    binding *u;
    key *k;
    sft_tensor *x; /* a reference: the view so far */
    int dim;       /* of x, where the next item applies */
    int shown;     /* the dim as the script counts it, for messages */
    sft_tensor *adv[SFT_MAX_DIMS];
    int last_adv; /* 1 + the last dim that has an index tensor */
} walk;

static bool step(walk *w, int op, const char *name, const sft_value *a, int n) {
    sft_tensor *out[SFT_MAX_OUTPUTS];
    if (op < 0) return bad(w->k, "unsupported", name);
    if (sftl_op(w->L, w->u, op, SFT_CALL_ONE_BASED, a, n, out) != SFT_OK) return engine_error(w->k);
    sft_release(w->x);
    w->x = out[0];
    return true;
}

static bool take_int(walk *w, int64_t i) {
    int64_t size = sft_sizes(w->x)[w->dim];
    if (i > size || i < -size) {
        w->k->code = "index";
        if (size == 0)
            snprintf(w->k->error, sizeof w->k->error,
                     "index: %lld is out of range: dim %d has size 0", (long long)i, w->shown);
        else
            snprintf(
                w->k->error, sizeof w->k->error,
                "index: %lld is out of range for dim %d of size %lld (1 to %lld, or -1 to -%lld)%s",
                (long long)i, w->shown, (long long)size, (long long)size, (long long)size,
                i == size + 1 && w->k->n == 1
                    ? "; a loop over the rows is `for i, row in x:iter() do`"
                    : "");
        return false;
    }
    sft_value a[3] = {sft_v_tensor(w->x), sft_v_int(w->dim), sft_v_int(i > 0 ? i - 1 : i)};
    return step(w, w->u->op_select, "select is missing in this build", a, 3);
}

/* Ends beyond the last element are cut off, as in PyTorch and string.sub. */
static bool take_range(walk *w, const item *it) {
    int64_t size = sft_sizes(w->x)[w->dim];
    int64_t a = it->a > 0 ? it->a - 1 : it->a + size, b = it->b > 0 ? it->b : it->b + size + 1;
    if (a < 0) a = 0;
    if (a > size) a = size;
    if (b > size) b = size;
    if (b < a) b = a;
    if (a == 0 && b == size && it->step == 1) {
        w->dim++;
        return true;
    }
    sft_value v[5] = {sft_v_tensor(w->x), sft_v_int(w->dim), sft_v_int(a), sft_v_int(b),
                      sft_v_int(it->step)};
    w->dim++;
    return step(w, w->u->op_slice, "slice is missing in this build", v, 5);
}

static bool take_tensor(walk *w, const item *it) {
    int n = sft_dtype_of(it->t) == SFT_bool ? sft_ndim(it->t) : 1;
    if (sft_dtype_of(it->t) == SFT_bool && n == 0)
        return bad(w->k, "argument", "a 0-dim bool tensor can't be an index; use x:masked_select");
    for (int d = 0; d < n; d++) w->adv[w->dim + d] = NULL;
    w->adv[w->dim] = it->t;
    w->last_adv = w->dim + 1;
    w->dim += n;
    w->shown += n;
    return true;
}

static bool count_dims(walk *w, int *fill) {
    int used = 0, dots = 0;
    for (int i = 0; i < w->k->n; i++) {
        const item *it = &w->k->items[i];
        if (it->kind == IT_ELLIPSIS)
            dots++;
        else if (it->kind == IT_TENSOR)
            used += sft_dtype_of(it->t) == SFT_bool ? sft_ndim(it->t) : 1;
        else if (it->kind != IT_NEWAXIS)
            used++;
    }
    int ndim = sft_ndim(w->x);
    if (dots > 1) return bad(w->k, "argument", "\"...\" may occur once only");
    if (used > ndim) {
        w->k->code = "index";
        if (ndim == 0)
            snprintf(w->k->error, sizeof w->k->error,
                     "index: a 0-dim tensor has no elements to index; its value is x:item()");
        else
            snprintf(w->k->error, sizeof w->k->error, "index: %d indices for a tensor of %d dims",
                     used, ndim);
        return false;
    }
    *fill = ndim - used;
    return true;
}

static bool apply(walk *w) {
    int fill = 0;
    if (!count_dims(w, &fill)) return false;
    memset(w->adv, 0, sizeof w->adv);
    w->dim = w->last_adv = 0;
    w->shown = 1;
    for (int i = 0; i < w->k->n; i++) {
        const item *it = &w->k->items[i];
        bool ok = true;
        switch ((enum item_kind)it->kind) {
        case IT_INT:
            ok = take_int(w, it->a), w->shown++;
            break;
        case IT_RANGE:
            ok = take_range(w, it), w->shown++;
            break;
        case IT_ALL:
            w->dim++, w->shown++;
            break;
        case IT_ELLIPSIS:
            w->dim += fill, w->shown += fill;
            break;
        case IT_TENSOR:
            ok = take_tensor(w, it);
            break;
        case IT_NEWAXIS: {
            if (sft_ndim(w->x) == SFT_MAX_DIMS) return bad(w->k, "argument", "too many dims");
            sft_value a[2] = {sft_v_tensor(w->x), sft_v_int(w->dim)};
            ok = step(w, w->u->op_unsqueeze, "unsqueeze is missing in this build", a, 2);
            w->dim++;
        }
        }
        if (!ok) return false;
    }
    return true;
}

/* A bool mask takes several dims; the list for the op has one entry per mask or tensor. */
static int index_list(walk *w, sft_tensor **list) {
    int n = 0;
    for (int d = 0; d < w->last_adv; d++) {
        list[n++] = w->adv[d];
        if (w->adv[d] && sft_dtype_of(w->adv[d]) == SFT_bool) d += sft_ndim(w->adv[d]) - 1;
    }
    return n;
}

/* ---- reading
 * -------------------------------------------------------------------------------------- */

static int fast_select(lua_State *L, binding *u, sft_tensor **r, sft_tensor *t, int64_t i) {
    sft_value a[3] = {sft_v_tensor(t), sft_v_int(0), sft_v_int(i - 1)};
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int n = 0;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_call((sft_op_id)u->op_select, SFT_CALL_ONE_BASED, a, 3, NULL, out, &n);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    *r = out[0];
    return 1;
}

int sftl_index_read(lua_State *L, binding *u) {
    sftl_collect(L, u);
    sft_tensor **r = sftl_new(L, u);
    sft_tensor *t = sftl_check(L, u, 1, "index");
    int64_t i;
    if (sftl_read_int(L, 2, &i) && i > 0 && sft_ndim(t) > 0 && i <= sft_sizes(t)[0] &&
        u->op_select >= 0)
        return fast_select(L, u, r, t, i);
    key k;
    luaL_checkstack(L, 24, NULL);
    walk w = {.L = L, .u = u, .k = &k, .x = t};
    if (!read_key(L, u, &k, 2)) key_error(L, u, &k);
    sft_retain(t);
    bool ok = apply(&w);
    if (ok && w.last_adv) {
        sft_tensor *list[SFT_MAX_DIMS];
        sft_value a[2] = {sft_v_tensor(w.x), sft_v_tensors(list, index_list(&w, list))};
        ok = step(&w, u->op_index, "index is missing in this build", a, 2);
    } else if (ok && w.x == t) {
        /* x[{}] is a new view, as in PyTorch. */
        sft_value a = sft_v_tensor(t);
        int op = sftl_find_op("alias");
        if (op >= 0) ok = step(&w, op, "", &a, 1);
    }
    if (!ok) {
        sft_release(w.x);
        key_error(L, u, &k);
    }
    key_free(&k);
    *r = w.x;
    return 1;
}

/* ---- writing
 * -------------------------------------------------------------------------------------- */

/* Dims of size 1 in front of what fits: x[1] = t of shape [1, 3]. */
static bool drop_leading(walk *w, sft_tensor **v, int ndim) {
    while (sft_ndim(*v) > ndim && sft_sizes(*v)[0] == 1) {
        sft_value a[3] = {sft_v_tensor(*v), sft_v_int(0), sft_v_int(0)};
        sft_tensor *out[SFT_MAX_OUTPUTS];
        if (sftl_op(w->L, w->u, w->u->op_select, 0, a, 3, out) != SFT_OK) return engine_error(w->k);
        sft_release(*v);
        *v = out[0];
    }
    return true;
}

static bool inplace(walk *w, int op, unsigned mode, const sft_value *a, int n) {
    sft_tensor *out[SFT_MAX_OUTPUTS] = {0};
    if (op < 0) return bad(w->k, "unsupported", "this build can't assign here");
    if (sftl_op(w->L, w->u, op, mode, a, n, out) != SFT_OK) return engine_error(w->k);
    sft_release(out[0]);
    return true;
}

static bool store(walk *w, const sft_value *number, sft_tensor **value) {
    if (!w->last_adv) {
        if (number) {
            sft_value a[2] = {sft_v_tensor(w->x), *number};
            return inplace(w, w->u->op_fill, SFT_CALL_ONE_BASED | SFT_CALL_INPLACE, a, 2);
        }
        if (!drop_leading(w, value, sft_ndim(w->x))) return false;
        sft_value a[2] = {sft_v_tensor(w->x), sft_v_tensor(*value)};
        return inplace(w, w->u->op_copy, SFT_CALL_ONE_BASED | SFT_CALL_INPLACE, a, 2);
    }
    if (number) {
        *value = sft_scalar(*number, sft_dtype_of(w->x), sft_device_of(w->x));
        if (!*value) return engine_error(w->k);
    }
    sft_tensor *list[SFT_MAX_DIMS];
    sft_value a[4] = {sft_v_tensor(w->x), sft_v_tensors(list, index_list(w, list)),
                      sft_v_tensor(*value), sft_v_bool(false)};
    unsigned mode = SFT_CALL_ONE_BASED;
    if (w->u->op_index_put >= 0 &&
        sft_op_get_info((sft_op_id)w->u->op_index_put)->flags & SFT_F_INPLACE)
        mode |= SFT_CALL_INPLACE;
    return inplace(w, w->u->op_index_put, mode, a, 4);
}

int sftl_index_write(lua_State *L, binding *u) {
    lua_settop(L, 3);
    luaL_checkstack(L, 24, NULL);
    sftl_collect(L, u);
    sft_tensor *t = sftl_check(L, u, 1, "index"), *value = NULL;
    key k;
    walk w = {.L = L, .u = u, .k = &k, .x = t};
    if (!read_key(L, u, &k, 2)) key_error(L, u, &k);
    sft_value number;
    bool is_number = true, ok = true;
    if (lua_type(L, 3) == LUA_TNUMBER) {
        number =
            lua_isinteger(L, 3) ? sft_v_int(lua_tointeger(L, 3)) : sft_v_float(lua_tonumber(L, 3));
    } else if (lua_type(L, 3) == LUA_TBOOLEAN) {
        number = sft_v_bool(lua_toboolean(L, 3));
    } else {
        is_number = false;
        sft_tensor **h = lua_type(L, 3) == LUA_TUSERDATA ? sftl_handle(L, u, 3) : NULL;
        if (h && *h) {
            value = sft_retain(*h);
        } else if (lua_type(L, 3) == LUA_TTABLE) {
            value = sftl_build(L, u, 3, -1, sft_device_of(t), "index");
            if (!value) ok = engine_error(&k);
        } else {
            char buf[64], text[160];
            snprintf(text, sizeof text, "the value must be a number, a Tensor or a list, got %s",
                     h ? "a released tensor" : sftl_kind(L, 3, buf));
            ok = bad(&k, "argument", text);
        }
    }
    sft_retain(t);
    ok = ok && apply(&w) && store(&w, is_number ? &number : NULL, &value);
    sft_release(value);
    sft_release(w.x);
    if (!ok) key_error(L, u, &k);
    key_free(&k);
    return 0;
}
