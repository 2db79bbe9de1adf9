/* autograd.c: backward, grad, hooks and functions with a backward of their own.
 *
 * The engine calls Lua back only while a function of this file runs: on that call's lua_State, in
 * protected mode, where a yield is an error. What a callback raises is kept and raised again, as it
 * was, by the call that started the backward. */
#include "bind.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- lists of tensors
 * ---------------------------------------------------------------------------------- */

typedef struct list {
    sft_tensor **t; /* references */
    int n;
} list;

static void list_free(list *l) {
    for (int i = 0; i < l->n; i++) sft_release(l->t[i]);
    free(l->t);
    l->t = NULL;
    l->n = 0;
}

/* A tensor or a list of them; `holes`: entries may be false or nil (of a table with field n). NULL
 * or a text that says what is wrong. */
static const char *read_list(lua_State *L, binding *u, int index, bool holes, int want, list *l) {
    l->t = NULL;
    l->n = 0;
    bool table = lua_type(L, index) == LUA_TTABLE;
    size_t n = table ? lua_rawlen(L, index) : 1;
    if (want > (int)n && holes) n = (size_t)want;
    if (n > 1000000) return "too long a list";
    if (!(l->t = calloc(n ? n : 1, sizeof *l->t))) return "out of memory";
    for (size_t i = 0; i < n; i++) {
        if (table)
            lua_rawgeti(L, index, (lua_Integer)i + 1);
        else
            lua_pushvalue(L, index);
        bool none = holes && !lua_toboolean(L, -1);
        sft_tensor **h = none ? NULL : sftl_handle(L, u, lua_gettop(L));
        lua_pop(L, 1);
        if (!none && (!h || !*h)) {
            list_free(l);
            return h ? "a tensor in it was released" : "a Tensor or a list of Tensors is expected";
        }
        l->t[l->n++] = none ? NULL : sft_retain(*h);
    }
    return NULL;
}

/* ---- backward and grad
 * ----------------------------------------------------------------------------------- */

static bool flag(lua_State *L, binding *u, int table, const char *fname, const char *name,
                 bool def) {
    if (!table) return def;
    lua_pushstring(L, name);
    int type = lua_rawget(L, table);
    bool v = type == LUA_TNIL ? def : lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        sftl_error(L, u, "argument", "%s: %s must be true or false", fname, name);
    return v;
}

static int options_at(lua_State *L, binding *u, int index, const char *fname,
                      const char *const *known) {
    if (lua_isnoneornil(L, index)) return 0;
    char buf[64];
    if (lua_type(L, index) != LUA_TTABLE)
        sftl_error(L, u, "argument", "%s: a table of keywords is expected, got %s", fname,
                   sftl_kind(L, index, buf));
    sftl_check_keywords(L, u, fname, index, known);
    return index;
}

static void run_backward(lua_State *L, binding *u, list *roots, list *grads, bool retain,
                         bool create) {
    u->has_pending = false;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_backward(roots->t, grads->n ? grads->t : NULL, roots->n, retain, create);
    sftl_end(&c, u);
    list_free(roots);
    list_free(grads);
    if (st != SFT_OK) sftl_raise(L, u);
}

/* x:backward([gradient[, retain_graph[, create_graph]]][, {keywords}]) */
static int backward(lua_State *L) {
    binding *u = sftl_u(L);
    static const char *const known[] = {"gradient", "retain_graph", "create_graph", NULL};
    lua_settop(L, 5);
    sftl_collect(L, u);
    sftl_drain(L, u);
    int options = 0;
    bool flags[2] = {false, false};
    for (int i = 2; i <= 5; i++) {
        if (lua_type(L, i) == LUA_TTABLE && !options)
            options = options_at(L, u, i, "backward", known);
        else if (i > 2 && i < 5 && lua_type(L, i) == LUA_TBOOLEAN)
            flags[i - 3] = lua_toboolean(L, i);
        else if (i > 2 && !lua_isnil(L, i))
            sftl_error(L, u, "argument",
                       "backward: expected ([gradient[, retain_graph[, create_graph]]])");
    }
    int gradient = 2;
    if (options == 2) gradient = 0;
    if (options) {
        lua_pushstring(L, "gradient");
        if (lua_rawget(L, options) != LUA_TNIL) gradient = lua_gettop(L);
    }
    flags[1] = flag(L, u, options, "backward", "create_graph", flags[1]);
    flags[0] = flag(L, u, options, "backward", "retain_graph", flags[0] || flags[1]);
    list roots = {0}, grads = {0};
    sft_tensor *t = sftl_self(L, u, "backward"), *g = NULL;
    if (gradient && !lua_isnil(L, gradient)) g = sftl_check(L, u, gradient, "backward: gradient");
    roots.t = calloc(1, sizeof *roots.t);
    grads.t = calloc(1, sizeof *grads.t);
    if (!roots.t || !grads.t) {
        free(roots.t);
        free(grads.t);
        sftl_error(L, u, "oom", "backward: out of memory");
    }
    roots.t[roots.n++] = sft_retain(t);
    grads.t[grads.n++] = sft_retain(g);
    run_backward(L, u, &roots, &grads, flags[0], flags[1]);
    return 0;
}

/* Reads `tensors` at 1 and their gradients at `at`; both must be of one length. */
static void read_outputs(lua_State *L, binding *u, const char *fname, int at, list *out,
                         list *grads) {
    const char *bad = read_list(L, u, 1, false, 0, out);
    *grads = (list){0};
    if (!bad && !lua_isnoneornil(L, at)) {
        bad = read_list(L, u, at, true, out->n, grads);
        if (!bad && grads->n != out->n) bad = "one gradient per tensor is expected";
    }
    if (!bad) return;
    list_free(out);
    list_free(grads);
    sftl_error(L, u, "argument", "%s: %s", fname, bad);
}

/* backward(tensors[, gradients[, {retain_graph, create_graph}]]) */
static int backward_list(lua_State *L) {
    binding *u = sftl_u(L);
    static const char *const known[] = {"retain_graph", "create_graph", NULL};
    lua_settop(L, 3);
    sftl_collect(L, u);
    int options = options_at(L, u, 3, "backward", known);
    bool create = flag(L, u, options, "backward", "create_graph", false);
    bool retain = flag(L, u, options, "backward", "retain_graph", create);
    list roots, grads;
    read_outputs(L, u, "backward", 2, &roots, &grads);
    run_backward(L, u, &roots, &grads, retain, create);
    return 0;
}

/* grad(outputs, inputs[, grad_outputs[, {retain_graph, create_graph, allow_unused}]]): a list of
 * gradients; false stands for an input that is not used. */
static int grad(lua_State *L) {
    binding *u = sftl_u(L);
    static const char *const known[] = {"retain_graph", "create_graph", "allow_unused", NULL};
    lua_settop(L, 4);
    sftl_collect(L, u);
    int options = options_at(L, u, 4, "grad", known);
    bool create = flag(L, u, options, "grad", "create_graph", false);
    bool retain = flag(L, u, options, "grad", "retain_graph", create);
    bool unused = flag(L, u, options, "grad", "allow_unused", false);
    sftl_anchor *a = sftl_new_anchor(L, u);
    list out, grads, in;
    read_outputs(L, u, "grad", 3, &out, &grads);
    const char *bad = read_list(L, u, 2, false, 0, &in);
    if (!bad && !sftl_anchor_room(a, in.n)) bad = "out of memory";
    if (bad) {
        list_free(&out);
        list_free(&grads);
        list_free(&in);
        sftl_error(L, u, "argument", "grad: inputs: %s", bad);
    }
    u->has_pending = false;
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_autograd_grad(out.t, grads.n ? grads.t : NULL, out.n, in.t, in.n, retain,
                                      create, unused, a->list);
    sftl_end(&c, u);
    int n = in.n;
    list_free(&out);
    list_free(&grads);
    list_free(&in);
    if (st != SFT_OK) sftl_raise(L, u);
    a->n = n;
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        if (a->list[i]) {
            sft_tensor **h = sftl_new(L, u);
            *h = a->list[i];
            a->list[i] = NULL;
        } else {
            lua_pushboolean(L, 0);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* ---- protected calls from the engine
 * -------------------------------------------------------------------- */

/* Runs body(arg) on L in protected mode; an error is kept for whoever started the backward. */
static sft_status protected(lua_State *L, binding *u, lua_CFunction body, void *arg,
                            const char *what) {
    if (!lua_checkstack(L, 30)) return sft_set_error(SFT_ERR_MEMORY, "out of memory");
    sftl_entered e;
    sftl_enter_callback(L, u, &e);
    lua_pushcfunction(L, body);
    lua_pushlightuserdata(L, arg);
    int status = lua_pcall(L, 1, 0, 0);
    sftl_leave_callback(&e);
    if (status == LUA_OK) return SFT_OK;
    char text[160];
    if (lua_type(L, -1) == LUA_TSTRING &&
        (strstr(lua_tostring(L, -1), "attempt to yield across a C-call boundary") ||
         strstr(lua_tostring(L, -1), "attempt to yield from outside a coroutine"))) {
        lua_pop(L, 1);
        snprintf(text, sizeof text, "a %s can't yield", what);
        return sft_set_error(SFT_ERR_AUTOGRAD, text);
    }
    lua_rawseti(L, LUA_REGISTRYINDEX, u->pending_ref); /* a slot that exists: no memory needed */
    u->has_pending = true;
    snprintf(text, sizeof text, "a %s failed", what);
    return sft_set_error(SFT_ERR_CALLBACK, text);
}

/* ---- hooks
 * ------------------------------------------------------------------------------------------------
 */

typedef struct hook_call {
    binding *u;
    int ref;
    sft_tensor *grad, *result;
} hook_call;

static int hook_body(lua_State *L) {
    hook_call *c = lua_touserdata(L, 1);
    sft_tensor **h = sftl_new(L, c->u);
    *h = sft_retain(c->grad);
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->ref);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) return 0;
    sft_tensor **r = sftl_handle(L, c->u, lua_gettop(L));
    char buf[64];
    if (!r || !*r)
        sftl_error(L, c->u, "argument", "a hook must return a Tensor or nil, got %s",
                   r ? "a released tensor" : sftl_kind(L, -1, buf));
    c->result = sft_retain(*r);
    return 0;
}

static sft_status run_hook(void *user, sft_tensor *g, sft_tensor **replacement) {
    sftl_ref *r = user;
    binding *u;
    lua_State *L = sftl_ref_state(r, &u);
    if (!L) return sft_last_status();
    hook_call c = {u, r->ref, g, NULL};
    sft_status st = protected(L, u, hook_body, &c, "backward hook");
    *replacement = c.result;
    return st;
}

static void free_ref(void *user) {
    sftl_ref_drop(user);
    free(user);
}

/* The object that register_hook returns. Its tensor is held weakly. */
static int hook_remove(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 1);
    if (lua_type(L, 1) != LUA_TTABLE)
        sftl_error(L, u, "argument", "remove: the hook's handle is missing; call it as h:remove()");
    lua_pushstring(L, "id");
    lua_rawget(L, 1);
    lua_pushstring(L, "tensor");
    lua_rawget(L, 1);
    sft_tensor **h = lua_type(L, 3) == LUA_TUSERDATA ? sftl_handle(L, u, 3) : NULL;
    if (h && *h) sft_remove_hook(*h, lua_tointeger(L, 2));
    return 0;
}

static int register_hook(lua_State *L) {
    binding *u = sftl_u(L);
    char buf[64];
    lua_settop(L, 2);
    sftl_self(L, u, "register_hook");
    if (lua_type(L, 2) != LUA_TFUNCTION && luaL_getmetafield(L, 2, "__call") == LUA_TNIL)
        sftl_error(L, u, "argument", "register_hook: expected a function, got %s",
                   sftl_kind(L, 2, buf));
    lua_settop(L, 2);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, 1);
    lua_setfield(L, 3, "tensor");
    lua_pushinteger(L, 0);
    lua_setfield(L, 3, "id");
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, 3);
    sftl_ref *r = malloc(sizeof *r);
    if (!r) sftl_error(L, u, "oom", "register_hook: out of memory");
    /* luaL_ref may fail for want of memory: its result goes into a block that is anchored. */
    lua_pushvalue(L, 2);
    *r = (sftl_ref){NULL, LUA_NOREF};
    sftl_anchor *a = sftl_new_anchor(L, u);
    a->list = (sft_tensor **)r; /* freed with the anchor if luaL_ref raises */
    lua_insert(L, -2);
    sftl_ref_make(L, u, r);
    a->list = NULL;
    int64_t id;
    sft_tensor *t = sftl_self(L, u, "register_hook");
    if (sft_register_hook(t, run_hook, r, free_ref, &id) != SFT_OK) {
        free_ref(r);
        sftl_raise(L, u);
    }
    lua_settop(L, 3);
    lua_pushliteral(L, "id");
    lua_pushinteger(L, id);
    lua_rawset(L, 3);
    return 1;
}

/* ---- functions of the script's own
 * -------------------------------------------------------------------------- */

typedef struct output_info {
    int ndim, position;
    sft_dtype dtype;
    sft_device device;
    int64_t sizes[SFT_MAX_DIMS];
} output_info;

typedef struct function {
    sftl_ref ref; /* {backward, ctx} */
    char *name;
    int *positions; /* of the tensor inputs among the arguments */
    int nin, nout, total_out;
    output_info *outputs;
    sft_tensor **saved; /* by save_for_backward; NULL entries are nil */
    int *saved_out;     /* the output (its number) that it is, without its history; or -1 */
    int nsaved;
    sft_tensor **inputs; /* [nin], only if an output is saved: to give that its history again */
} function;

static void function_free(void *user) {
    function *f = user;
    if (f->ref.shared) sftl_ref_drop(&f->ref);
    for (int i = 0; i < f->nsaved; i++) sft_release(f->saved[i]);
    for (int i = 0; i < f->nin && f->inputs; i++) sft_release(f->inputs[i]);
    free(f->saved);
    free(f->saved_out);
    free(f->inputs);
    free(f->name);
    free(f->positions);
    free(f->outputs);
    free(f);
}

static int held_gc(lua_State *L) {
    function **slot = lua_touserdata(L, 1);
    if (*slot) function_free(*slot);
    *slot = NULL;
    return 0;
}

/* A place for a function that is being made: an error frees it. */
static function **hold(lua_State *L) {
    function **slot = lua_newuserdatauv(L, sizeof *slot, 0);
    *slot = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, held_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return slot;
}

typedef struct function_call {
    binding *u;
    function *f;
    sft_tensor *const *grads;
    sft_tensor **results;
} function_call;

static void push_grad_output(lua_State *L, function_call *c, int k) {
    binding *u = c->u;
    sft_tensor **h = sftl_new(L, u);
    if (c->grads[k]) {
        *h = sft_retain(c->grads[k]);
        return;
    }
    const output_info *o = &c->f->outputs[k];
    sft_value a[3] = {sft_v_ints(o->sizes, o->ndim), sft_v_dtype(o->dtype),
                      sft_v_device(o->device)};
    sft_tensor *out[SFT_MAX_OUTPUTS];
    if (sftl_op(L, u, sftl_need(L, u, u->op_zeros, "zeros"), 0, a, 3, out) != SFT_OK)
        sftl_raise(L, u);
    *h = out[0];
}

static sft_status run_function(void *user, sft_tensor *const *grads, int nout, sft_tensor **results,
                               int nin);

static bool copy_function(lua_State *L, binding *u, const function *f, function **copy) {
    function *g = *copy = calloc(1, sizeof *g);
    if (!g) return false;
    luaL_checkstack(L, 10, NULL);
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->ref.ref);
    sftl_ref_make(L, u, &g->ref);
    g->name = strdup(f->name);
    g->positions = malloc(sizeof(int) * (size_t)(f->nin + 1));
    g->outputs = malloc(sizeof *g->outputs * (size_t)(f->nout + 1));
    g->saved = calloc((size_t)f->nsaved + 1, sizeof *g->saved);
    g->saved_out = malloc(sizeof(int) * (size_t)(f->nsaved + 1));
    g->inputs = calloc((size_t)f->nin + 1, sizeof *g->inputs);
    if (!g->name || !g->positions || !g->outputs || !g->saved || !g->saved_out || !g->inputs)
        return false;
    memcpy(g->positions, f->positions, sizeof(int) * (size_t)f->nin);
    memcpy(g->outputs, f->outputs, sizeof *g->outputs * (size_t)f->nout);
    memcpy(g->saved_out, f->saved_out, sizeof(int) * (size_t)f->nsaved);
    g->total_out = f->total_out;
    g->nout = f->nout;
    for (; g->nsaved < f->nsaved; g->nsaved++)
        g->saved[g->nsaved] = sft_retain(f->saved[g->nsaved]);
    for (; g->nin < f->nin; g->nin++) g->inputs[g->nin] = sft_retain(f->inputs[g->nin]);
    return true;
}

/* An alias of a saved output with the function as its history again, for gradients of gradients.
 * Outputs that were not saved are stood in for: nobody sees them. */
static sft_tensor *with_history(lua_State *L, binding *u, const function *f, int i) {
    sftl_anchor *a = sftl_new_anchor(L, u);
    function **slot = hold(L), *g = NULL;
    bool ok = copy_function(L, u, f, slot) && sftl_anchor_room(a, f->nout);
    g = *slot;
    for (int k = 0; k < f->nout && ok; k++) {
        const output_info *o = &f->outputs[k];
        sft_value v = sft_v_tensor(f->saved[i]);
        sft_tensor *out[SFT_MAX_OUTPUTS];
        if (k != f->saved_out[i])
            a->list[k] = sft_empty(o->sizes, o->ndim, o->dtype, o->device);
        else if (sftl_op(L, u, u->op_detach, 0, &v, 1, out) == SFT_OK)
            a->list[k] = out[0];
        ok = a->list[k] != NULL;
    }
    ok = ok && sft_custom_function(g->name, g->inputs, g->nin, a->list, g->nout, run_function, g,
                                   function_free) == SFT_OK;
    if (!ok) sftl_error(L, u, "oom", "%s: out of memory", f->name);
    *slot = NULL;
    sft_tensor *t = a->list[f->saved_out[i]];
    a->list[f->saved_out[i]] = NULL;
    lua_pop(L, 2);
    return t;
}

/* ctx.saved_tensors, for the time of the call. The ctx is on the top. */
static void push_saved(lua_State *L, binding *u, const function *f) {
    bool again = f->inputs && sft_grad_enabled();
    lua_pushliteral(L, "saved_tensors");
    lua_createtable(L, f->nsaved, 0);
    for (int i = 0; i < f->nsaved; i++) {
        if (!f->saved[i]) continue;
        sft_tensor **h = sftl_new(L, u);
        *h = again && f->saved_out[i] >= 0 ? with_history(L, u, f, i) : sft_retain(f->saved[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_rawset(L, -3);
}

static int function_body(lua_State *L) {
    function_call *c = lua_touserdata(L, 1);
    function *f = c->f;
    luaL_checkstack(L, f->total_out + f->nin + 30, "too many results");
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->ref.ref);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    push_saved(L, c->u, f);
    for (int i = 0, k = 0; i < f->total_out; i++) {
        if (k < f->nout && f->outputs[k].position == i)
            push_grad_output(L, c, k++);
        else
            lua_pushnil(L);
    }
    lua_call(L, f->total_out + 1, LUA_MULTRET);
    int first = 3, n = lua_gettop(L) - 2; /* 1: the call, 2: {backward, ctx} */
    luaL_checkstack(L, 10, NULL);
    lua_rawgeti(L, 2, 2);
    lua_pushliteral(L, "saved_tensors");
    lua_pushnil(L);
    lua_rawset(L, -3);
    for (int k = 0; k < f->nin; k++) {
        int p = f->positions[k];
        if (p >= n || !lua_toboolean(L, first + p)) continue;
        sft_tensor **h = sftl_handle(L, c->u, first + p);
        char buf[64];
        if (!h || !*h)
            sftl_error(L, c->u, "argument",
                       "%s.backward: result %d must be a Tensor or nil, got %s", f->name, p + 1,
                       h ? "a released tensor" : sftl_kind(L, first + p, buf));
        c->results[k] = sft_retain(*h);
    }
    return 0;
}

static sft_status run_function(void *user, sft_tensor *const *grads, int nout, sft_tensor **results,
                               int nin) {
    function *f = user;
    binding *u;
    (void)nout;
    (void)nin;
    if (!f) return sft_set_error(SFT_ERR_AUTOGRAD, "this function's graph is incomplete");
    lua_State *L = sftl_ref_state(&f->ref, &u);
    if (!L) return sft_last_status();
    function_call c = {u, f, grads, results};
    sft_status st = protected(L, u, function_body, &c, "Function.backward");
    if (st != SFT_OK)
        for (int k = 0; k < f->nin; k++) {
            sft_release(results[k]);
            results[k] = NULL;
        }
    return st;
}

/* An output that is an input, or a view or leaf with a history of its own, is replaced by an alias:
 * the function's node becomes the history of what it returns. */
static void fresh_output(lua_State *L, binding *u, int table, int i) {
    sft_tensor **r = sftl_new(L, u), *out[SFT_MAX_OUTPUTS];
    lua_rawgeti(L, table, i);
    sft_value a = sft_v_tensor(sftl_check(L, u, lua_gettop(L), "apply"));
    if (sftl_op(L, u, sftl_need(L, u, u->op_detach, "detach"), 0, &a, 1, out) != SFT_OK)
        sftl_raise(L, u);
    *r = out[0];
    lua_pop(L, 1);
    lua_rawseti(L, table, i);
}

static bool among(lua_State *L, binding *u, int table, int n, const sft_tensor *t) {
    bool yes = false;
    for (int i = 1; i <= n && !yes; i++) {
        lua_rawgeti(L, table, i);
        sft_tensor **h = lua_type(L, -1) == LUA_TUSERDATA ? sftl_handle(L, u, lua_gettop(L)) : NULL;
        yes = h && *h == t;
        lua_pop(L, 1);
    }
    return yes;
}

static int table_n(lua_State *L, int table) {
    lua_pushstring(L, "n");
    lua_rawget(L, table);
    int n = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return n;
}

static bool make_function(function *f, const char *name, int nin, int nout) {
    f->name = malloc(strlen(name) + 1);
    f->positions = calloc((size_t)nin + 1, sizeof(int));
    f->outputs = calloc((size_t)nout + 1, sizeof *f->outputs);
    if (!f->name || !f->positions || !f->outputs) return false;
    memcpy(f->name, name, strlen(name) + 1);
    f->total_out = nout;
    return true;
}

/* Takes over what ctx._saved lists. */
static bool save_tensors(lua_State *L, binding *u, function *f, sft_tensor **in, sft_tensor **out) {
    lua_rawgeti(L, 3, 2);
    lua_pushliteral(L, "_saved");
    int table = lua_rawget(L, -2) == LUA_TTABLE ? lua_gettop(L) : 0;
    int n = table ? table_n(L, table) : 0;
    if (n < 0 || n > 10000) return false;
    f->saved = calloc((size_t)n + 1, sizeof *f->saved);
    f->saved_out = calloc((size_t)n + 1, sizeof *f->saved_out);
    bool ok = f->saved && f->saved_out, outputs = false;
    for (int i = 0; i < n && ok; i++, f->nsaved++) {
        f->saved_out[i] = -1;
        lua_rawgeti(L, table, i + 1);
        sft_tensor **h = lua_type(L, -1) == LUA_TUSERDATA ? sftl_handle(L, u, lua_gettop(L)) : NULL;
        ok = lua_isnil(L, -1) || (h && *h);
        lua_pop(L, 1);
        if (!h || !*h) continue;
        for (int k = 0; k < f->nout; k++)
            if (out[k] == *h) f->saved_out[i] = k;
        if (f->saved_out[i] < 0) {
            f->saved[i] = sft_retain(*h);
            continue;
        }
        /* Without its history: output and function would keep each other alive. */
        sft_value a = sft_v_tensor(*h);
        sft_tensor *alias[SFT_MAX_OUTPUTS];
        ok = sftl_op(L, u, u->op_detach, 0, &a, 1, alias) == SFT_OK;
        if (ok) f->saved[i] = alias[0];
        outputs = true;
    }
    if (ok && outputs && (ok = (f->inputs = calloc((size_t)f->nin + 1, sizeof *in)) != NULL))
        for (int i = 0; i < f->nin; i++) f->inputs[i] = sft_retain(in[i]);
    return ok;
}

/* Attaches {backward, ctx} (3) as the history of the outputs (2), which were computed from the
 * inputs (1); both are packed tables. Entries of skip (5) have no gradient. Nothing is called
 * between reading and the engine. */
static int attach(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 5);
    for (int i = 1; i <= 5; i++)
        if (i != 4) luaL_checktype(L, i, LUA_TTABLE);
    const char *name = luaL_checkstring(L, 4);
    int nin = table_n(L, 1), nout = table_n(L, 2);
    if (nin > 1000 || nout > 1000 || nin < 0 || nout < 0)
        sftl_error(L, u, "argument", "%s: too many arguments", name);
    for (int i = 1; i <= nout; i++) {
        lua_rawgeti(L, 2, i);
        sft_tensor **h = lua_type(L, -1) == LUA_TUSERDATA ? sftl_handle(L, u, 6) : NULL;
        bool replace = h && *h && (sft_requires_grad(*h) || among(L, u, 1, nin, *h));
        lua_pop(L, 1);
        if (replace) fresh_output(L, u, 2, i);
    }
    sftl_anchor *fa = sftl_new_anchor(L, u); /* 6: inputs, then outputs, as references */
    function **slot = hold(L), *f = *slot = calloc(1, sizeof *f);
    if (f) {
        lua_pushvalue(L, 3);
        sftl_ref_make(L, u, &f->ref);
    }
    if (!f || !sftl_anchor_room(fa, nin + nout) || !make_function(f, name, nin, nout))
        sftl_error(L, u, "oom", "%s: out of memory", name);
    for (int i = 1; i <= nin; i++) {
        lua_rawgeti(L, 1, i);
        sft_tensor **h = lua_type(L, -1) == LUA_TUSERDATA ? sftl_handle(L, u, lua_gettop(L)) : NULL;
        if (h && *h) {
            f->positions[f->nin] = i - 1;
            fa->list[f->nin++] = sft_retain(*h);
        }
        lua_pop(L, 1);
    }
    for (int i = 1; i <= nout; i++) {
        lua_rawgeti(L, 2, i);
        sft_tensor **h = lua_type(L, -1) == LUA_TUSERDATA ? sftl_handle(L, u, lua_gettop(L)) : NULL;
        lua_pushvalue(L, -1);
        bool skip = h && lua_rawget(L, 5) != LUA_TNIL;
        lua_pop(L, 2);
        if (!h || !*h || skip || !sft_dtype_is_floating(sft_dtype_of(*h))) continue;
        output_info *o = &f->outputs[f->nout];
        o->ndim = sft_ndim(*h);
        o->position = i - 1;
        o->dtype = sft_dtype_of(*h);
        o->device = sft_device_of(*h);
        memcpy(o->sizes, sft_sizes(*h), sizeof(int64_t) * (size_t)o->ndim);
        fa->list[nin + f->nout++] = sft_retain(*h);
    }
    if (f->nout == 0) return 0;
    if (!save_tensors(L, u, f, fa->list, fa->list + nin))
        sftl_error(L, u, "argument",
                   "%s: a tensor given to save_for_backward was released, or out of "
                   "memory",
                   name);
    sftl_call c = sftl_begin(L, u);
    sft_status st = sft_custom_function(f->name, fa->list, f->nin, fa->list + nin, f->nout,
                                        run_function, f, function_free);
    sftl_end(&c, u);
    if (st != SFT_OK) sftl_raise(L, u);
    *slot = NULL;
    return 0;
}

/* ---- opening
 * ------------------------------------------------------------------------------------------------
 */

static int requires_grad_(lua_State *L) {
    binding *u = sftl_u(L);
    sft_tensor *t = sftl_self(L, u, "requires_grad_");
    char buf[64];
    if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TBOOLEAN)
        sftl_error(L, u, "argument", "requires_grad_: true or false is expected, got %s",
                   sftl_kind(L, 2, buf));
    bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    if (sft_set_requires_grad(t, on) != SFT_OK) sftl_raise(L, u);
    lua_settop(L, 1);
    return 1;
}

static int retain_grad(lua_State *L) {
    binding *u = sftl_u(L);
    if (sft_retain_grad(sftl_self(L, u, "retain_grad")) != SFT_OK) sftl_raise(L, u);
    return 0;
}

void sftl_open_autograd(lua_State *L, binding *u, int sft, int methods) {
    static const luaL_Reg on_tensors[] = {{"backward", backward},
                                          {"requires_grad_", requires_grad_},
                                          {"retain_grad", retain_grad},
                                          {NULL, NULL}};
    static const luaL_Reg engine[] = {
        {"backward", backward_list}, {"grad", grad}, {"attach", attach}, {NULL, NULL}};
    lua_pushvalue(L, methods);
    sftl_setfuncs(L, u, on_tensors);
    lua_pushlightuserdata(L, u);
    lua_createtable(L, 0, 3); /* metatable of hook handles: fields are weak */
    lua_createtable(L, 0, 1);
    lua_pushlightuserdata(L, u);
    lua_pushcclosure(L, hook_remove, 1);
    lua_setfield(L, -2, "remove");
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_pushliteral(L, "hook");
    lua_setfield(L, -2, "__name");
    lua_pushcclosure(L, register_hook, 2);
    lua_setfield(L, -2, "register_hook");
    lua_pop(L, 1);
    lua_newtable(L);
    sftl_setfuncs(L, u, engine);
    lua_setfield(L, sft, "_autograd");
}
