/* bind.h: what the files of the binding share.
 *
 * The order of steps in every function that calls the engine, which keeps it safe whatever a
 * finalizer does: collector (sftl_collect), result handles, arguments, engine, fill the handles.
 * Making a handle can run finalizers, and a finalizer may release an argument; so arguments are
 * read after that, by raw access only, and nothing calls Lua between reading and the engine. */
#ifndef SFT_LUA_BIND_H
#define SFT_LUA_BIND_H

#include "sft_lua.h"
#include <lauxlib.h>
#include <stdatomic.h>
#include <string.h>

/* ---- the state's part (state.c) ----------------------------------------------------------------
 */

/* Outlives the state: hooks and autograd functions hold it. */
typedef struct sftl_shared sftl_shared;
typedef struct sftl_scope sftl_scope;

typedef struct sftl_gc {
    size_t threshold;           /* live bytes at which to collect next */
    size_t slack;               /* growth that is always allowed: 1 to 64 MB */
    size_t least;               /* smallest live bytes after a collection since the last full one */
    size_t after_full;          /* live bytes after the last full collection */
    double full_cost, full_end; /* seconds */
    double window_start, young_time, all_time; /* share of time spent, by window */
    unsigned made, made_most; /* handles since the last sftl_tidy(), and how many call for one */
    bool died;                /* the sentinel was collected */
    bool keep_mode;           /* never switch the host's collector to generational mode */
    bool running;             /* inside sftl_drive: finalizers run */
    unsigned long long young, full; /* counts, for sft.gc() */
} sftl_gc;

typedef struct binding {
    lua_State *main;
    sftl_shared *shared;
    sftl_gc gc;
    uintptr_t tag;                                   /* in every handle of this state */
    const void *dtype_mt, *device_mt, *generator_mt; /* lua_topointer of metatables */
    const void *newaxis;                             /* lua_topointer of sft.newaxis */
    int tensor_ref, anchor_ref, sentinel_ref, shape_ref, error_ref; /* metatables in the registry */
    int dtype_refs[SFT_DTYPE_COUNT];
    int devices_ref;  /* device number -> object */
    int grads_ref;    /* weak: tensor pointer -> handle of a .grad */
    int contexts_ref; /* weak: coroutine -> its context */
    int contexts;     /* how many coroutines have one */
    int fragile_ref;  /* weak: handles made in finalizers */
    bool closed;      /* the state's end has come */
    int guard_ref, scope_ref, generator_ref, context_ref;
    int pending_ref; /* slot for the error value of a callback, raised by who started it */
    bool has_pending;
    sftl_scope *scopes;    /* open sft.scope() calls, the latest first */
    int reclaiming;        /* > 0: a collection runs inside an op: arguments must stay */
    sft_tensor **deferred; /* releases asked for meanwhile */
    int ndeferred, capdeferred;
    bool reclaimed;   /* the running op has had its collection */
    int warn_mode;    /* 0 on, 1 off, 2 error */
    char *lib;        /* folder that holds sft/, or NULL */
    char *lib_source; /* prefix of debug sources of the library's files */
    int op_select, op_slice, op_unsqueeze, op_index, op_index_put, op_copy, op_fill, op_to,
        op_detach, op_clone, op_zeros, op_transpose, op_permute, op_nonzero;
} binding;

/* All functions of the binding have the binding as their first upvalue. */
static inline binding *sftl_u(lua_State *L) {
    return (binding *)lua_touserdata(L, lua_upvalueindex(1));
}
binding *sftl_find(lua_State *L); /* by the registry; NULL when sft is not open here */
binding *sftl_open_state(lua_State *L);

/* Registers functions with the binding as upvalue into the table on the top. */
void sftl_setfuncs(lua_State *L, binding *u, const luaL_Reg *l);
/* A metatable in the registry; pushes it; *ref refers to it. */
void sftl_metatable(lua_State *L, const char *name, int *ref);
void sftl_open_state_functions(lua_State *L, binding *u);

/* References to Lua values that the engine holds (hooks, functions). Released from any thread. */
typedef struct sftl_ref {
    sftl_shared *shared;
    int ref;
} sftl_ref;
bool sftl_ref_make(lua_State *L, binding *u, sftl_ref *r); /* pops the value */
void sftl_ref_drop(sftl_ref *r);
void sftl_drain(lua_State *L, binding *u); /* unrefs what was dropped elsewhere */
/* The running state if it is the one that `r` belongs to and its thread is this one; else NULL,
 * with the engine's error set. */
lua_State *sftl_ref_state(const sftl_ref *r, binding **u);

/* Around every call of the engine that may allocate, run hooks or depend on the context. */
typedef struct sftl_call {
    lua_State *outer;
    sft_context *ctx;
    bool swapped;
} sftl_call;
extern __thread lua_State *sftl_running __attribute__((tls_model("initial-exec")));
void sftl_thread_init(void);
sft_context *sftl_own_context(lua_State *L, binding *u); /* NULL: follows the thread's */

static inline sftl_call sftl_begin(lua_State *L, binding *u) {
    sftl_call c = {sftl_running, NULL, false};
    if (__builtin_expect(!c.outer, 0)) sftl_thread_init();
    sftl_running = L;
    if (__builtin_expect(u->contexts > 0, 0) && L != u->main) {
        sft_context *own = sftl_own_context(L, u);
        if (own) {
            c.ctx = sft_context_swap(own);
            c.swapped = true;
        }
    }
    return c;
}
void sftl_flush(binding *u); /* releases what was deferred */
static inline void sftl_end(sftl_call *c, binding *u) {
    sftl_running = c->outer;
    if (__builtin_expect(c->swapped, 0)) sft_context_swap(c->ctx);
    if (__builtin_expect(u->reclaimed, 0)) sftl_flush(u);
}

/* ---- errors (errors.c)
 * --------------------------------------------------------------------------- */

void sftl_open_errors(lua_State *L, binding *u);
/* Raises an sft error: {code =, message =, where =}. */
int sftl_error(lua_State *L, binding *u, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), noreturn));
/* Raises the engine's last error, or the error of a callback of this state. */
int sftl_raise(lua_State *L, binding *u) __attribute__((noreturn));
/* The same; a message that does not begin with the name of an op gets this one. */
int sftl_raise_op(lua_State *L, binding *u, const char *op) __attribute__((noreturn));
/* What a value is, for messages: "the string \"abc\"", "nil", "2.5", "a table". */
const char *sftl_kind(lua_State *L, int index, char buf[64]);
/* Small distance between two names; for "did you mean". */
int sftl_distance(const char *a, size_t alen, const char *b, size_t blen);

/* ---- collector (gc.c)
 * ---------------------------------------------------------------------------- */

void sftl_open_gc(lua_State *L, binding *u);
void sftl_drive(lua_State *L, binding *u);
void sftl_tidy(lua_State *L, binding *u);
void sftl_reclaim(void *user); /* sft_set_reclaim */
static inline void sftl_collect(lua_State *L, binding *u) {
    if (__builtin_expect(sft_live_bytes() > u->gc.threshold, 0))
        sftl_drive(L, u);
    else if (__builtin_expect(u->gc.made >= u->gc.made_most, 0))
        sftl_tidy(L, u);
}

/* ---- handles (tensor_mt.c)
 * ------------------------------------------------------------------------ */

void sftl_open_tensor(lua_State *L, binding *u);
void sftl_scope_note(lua_State *L, binding *u); /* the handle on the top was made in a scope */
void sftl_fragile(lua_State *L, binding *u);    /* ... in a finalizer */

/* A handle. The tag tells it from other userdata faster than its metatable would. */
typedef struct sftl_box {
    sft_tensor *t; /* NULL once it is released */
    uintptr_t tag;
} sftl_box;

/* Pushes an empty handle. May run finalizers: before arguments are read. */
static inline sft_tensor **sftl_new(lua_State *L, binding *u) {
    sftl_box *p = lua_newuserdatauv(L, sizeof *p, 0);
    p->t = NULL;
    p->tag = u->tag;
    u->gc.made++;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->tensor_ref);
    lua_setmetatable(L, -2);
    if (__builtin_expect(u->scopes != NULL, 0)) sftl_scope_note(L, u);
    if (__builtin_expect(lua_gc(L, LUA_GCISRUNNING) < 0, 0)) sftl_fragile(L, u);
    return &p->t;
}
/* The handle at index, or NULL; *p is NULL when it was released. */
static inline sft_tensor **sftl_handle(lua_State *L, const binding *u, int index) {
    sftl_box *p = lua_touserdata(L, index);
    return p && lua_rawlen(L, index) == sizeof *p && p->tag == u->tag ? &p->t : NULL;
}
/* The tensor at index or an error that names the function. */
sft_tensor *sftl_check(lua_State *L, binding *u, int index, const char *fname);
/* Self of a hand-written method. */
sft_tensor *sftl_self(lua_State *L, binding *u, const char *fname);
/* Lists of tensors that live across Lua calls: a userdata that frees what is left in it. */
typedef struct sftl_anchor {
    sft_tensor **list;
    int n;
    bool by_engine; /* from sft_call_list */
} sftl_anchor;
sftl_anchor *sftl_new_anchor(lua_State *L, binding *u);
bool sftl_anchor_room(sftl_anchor *a, int n); /* n NULL entries; false: no memory */
/* Pushes a Lua list of the anchor's tensors (moved out of it); NULL entries are nil. */
void sftl_push_list(lua_State *L, binding *u, sftl_anchor *a);

/* ---- dtypes, devices, generators (objects.c)
 * -------------------------------------------------------- */

void sftl_open_objects(lua_State *L, binding *u);
void sftl_push_dtype(lua_State *L, binding *u, sft_dtype d);
void sftl_push_device(lua_State *L, binding *u, sft_device d);
/* Raw access only; false: the value is neither. With a wrong name the engine's error is set. */
bool sftl_to_dtype(lua_State *L, const binding *u, int index, sft_dtype *out);
bool sftl_to_device(lua_State *L, const binding *u, int index, sft_device *out);
sft_generator *sftl_to_generator(lua_State *L, const binding *u, int index);

/* ---- arguments (args.c)
 * ----------------------------------------------------------------------------- */

enum { SFTL_INLINE = 40 };
typedef struct frame {
    sft_value v[SFT_MAX_PARAMS];
    sft_tensor *dst;
    int keywords; /* stack index of the keyword table, or 0 */
    bool has_out;
    int nints, nts;
    void *blocks;     /* long lists */
    int rank;         /* how far the best failed row got */
    const char *name; /* public name of the op */
    int64_t ints[SFTL_INLINE];
    sft_tensor *ts[SFTL_INLINE];
    char error[700];
} frame;

static inline void frame_init(frame *f, const char *name) {
    f->dst = NULL;
    f->has_out = false;
    f->nints = f->nts = 0;
    f->blocks = NULL;
    f->rank = -1;
    f->keywords = 0;
    f->name = name;
}
void frame_free(frame *f);
/* Memory for n numbers or tensors that lives as long as the frame. */
int64_t *frame_ints(frame *f, size_t n);
sft_tensor **frame_tensors(frame *f, size_t n);

/* Overloads of one name. */
typedef struct op_set {
    const char *name;
    uint16_t flags; /* of all rows together */
    uint8_t nrows;
    uint8_t max_out; /* results at most */
    bool list;       /* some row has a varying number of results */
    uint16_t rows[12];
} op_set;
const op_set *sftl_op_sets(int *n); /* all of them */
const op_set *sftl_find_set(const char *name, size_t len);
int sftl_find_op(const char *name); /* first row of that name, or -1 */

/* Sets f->keywords and returns the number of positional arguments, or -1 (error is set). */
int sftl_split_keywords(lua_State *L, frame *f, int n);
/* Reads arguments 1..n for a row. False: f->error says why, f->rank how near it was. */
bool sftl_read_row(lua_State *L, const binding *u, const sft_op_info *info, int n, frame *f);
/* Raises the error of the best row; frees the frame. */
int sftl_args_error(lua_State *L, binding *u, const op_set *set, frame *f)
    __attribute__((noreturn));
/* Reads a list of whole numbers (or one number) into the frame. False: error set. */
bool sftl_read_int(lua_State *L, int index, int64_t *out);

/* Options of hand-written functions: the value of a keyword at `table`, pushed; false if nil.
 * Raises for keywords that are not in the NULL-terminated list. */
void sftl_check_keywords(lua_State *L, binding *u, const char *fname, int table,
                         const char *const *known);

/* ---- calls (call.c)
 * ------------------------------------------------------------------------------------ */

void sftl_open_ops(lua_State *L, binding *u, int sft, int methods, int functional);
void sftl_open_operators(lua_State *L, binding *u); /* into the metatable on the top */
/* Engine calls for hand-written functions. out[] may be longer than the results. */
sft_status sftl_op(lua_State *L, binding *u, int op, unsigned mode, const sft_value *a, int n,
                   sft_tensor **out);
/* The op by number, or an error that it is missing in this build. */
int sftl_need(lua_State *L, binding *u, int op, const char *name);

/* ---- the rest
 * ---------------------------------------------------------------------------------------------- */

int sftl_index_read(lua_State *L, binding *u);  /* x[key], key at 2 is no string */
int sftl_index_write(lua_State *L, binding *u); /* x[key] = value */
void sftl_open_methods(lua_State *L, binding *u, int methods);
void sftl_open_compare(lua_State *L, binding *u, int sft, int methods);
/* Makes a tensor of a Lua value (number, boolean, nested table); raw access only. dtype < 0:
 * inferred. NULL with the engine's error set. */
sft_tensor *sftl_build(lua_State *L, const binding *u, int index, int dtype, sft_device device,
                       const char *fname);
/* tolist; `t` must be held by more than its argument: memory is allocated. */
void sftl_push_nested(lua_State *L, binding *u, sft_tensor *t);
void sftl_push_shape(lua_State *L, binding *u, const int64_t *v, int n);
void sftl_push_value(lua_State *L, const sft_value *v);
void sftl_open_table(lua_State *L, binding *u, int sft);
void sftl_open_autograd(lua_State *L, binding *u, int sft, int methods);
void sftl_open_context(lua_State *L, binding *u, int sft);
void sftl_open_files(lua_State *L, binding *u, int sft);
void sftl_open_env(lua_State *L, binding *u, int sft);
void sftl_open_loader(lua_State *L, binding *u, int sft);
void sftl_open_ops_table(lua_State *L, binding *u, int sft);
void sftl_find_lib(binding *u);
int sftl_scope_fn(lua_State *L);
void sftl_open_scope(lua_State *L, binding *u, int sft);
/* During a callback from the engine: `L`'s context is the engine's. */
typedef struct sftl_entered {
    sft_context *own, saved;
    sft_callback_state state;
} sftl_entered;
void sftl_enter_callback(lua_State *L, binding *u, sftl_entered *e);
void sftl_leave_callback(sftl_entered *e);

#endif
