/* core.h: what the files of the engine share: structs behind the handles of sft.h, the thread's
 * state, and the interface of op implementations and gradient rules. */
#ifndef SFT_CORE_H
#define SFT_CORE_H

#include "sft.h"
#include "alloc.h"
#include "threads.h"
#include <stdatomic.h>
#include <string.h>

#define SFT_LIKELY(x) __builtin_expect(!!(x), 1)
#define SFT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SFT_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* ---- thread state (error.c) ------------------------------------------------------------------ */

typedef struct sft_tls {
    sft_context *ctx;      /* current context: own or a coroutine's */
    sft_context own;
    sft_status code;       /* of the last error; SFT_OK while a call is fine */
    int depth;             /* nesting of ops: > 0 inside an implementation or rule */
    int inside_rule;       /* > 0: a primitive runs, nothing is recorded */
    uint8_t index_base;    /* 1 while a script's call runs */
    sft_tensor **temps;    /* results of DO() not yet released */
    size_t ntemps, captemps;
    sft_reclaim_fn reclaim;
    void *reclaim_user;
    sft_node *dead;        /* nodes whose last reference went, to be freed by the loop that runs */
    bool releasing;
    char message[1536];
} sft_tls;

extern __thread sft_tls *sft_tls_ptr __attribute__((tls_model("initial-exec")));
sft_tls *sft_tls_make(void); /* never NULL: falls back to a static emergency block */
static inline sft_tls *sft_thread(void) {
    sft_tls *t = sft_tls_ptr;
    return SFT_LIKELY(t != NULL) ? t : sft_tls_make();
}

/* Sets the thread's error and returns `code`. The first error of a call stands. */
sft_status sft_fail(sft_status code, const char *fmt, ...) SFT_PRINTF(2, 3);
/* Puts "prefix: " before the message that stands. */
void sft_error_prefix(const char *prefix);
static inline bool sft_failed(void) { return sft_thread()->code != SFT_OK; }
#define SFT_TRY(expr)                                                                              \
    do {                                                                                           \
        sft_status st_ = (expr);                                                                   \
        if (SFT_UNLIKELY(st_ != SFT_OK)) return st_;                                               \
    } while (0)

/* ---- storages and tensors (tensor.c) --------------------------------------------------------- */

enum { SFT_INLINE_BYTES = 64 };
enum sft_storage_kind { SFT_STORAGE_INLINE, SFT_STORAGE_POOL, SFT_STORAGE_FOREIGN };

typedef struct sft_storage {
    _Atomic int32_t refs;
    _Atomic uint32_t version; /* bumped by every in-place write */
    sft_device device;
    char *data;
    size_t bytes;             /* asked for */
    uint8_t kind;             /* sft_storage_kind: where data comes from */
    void *block;              /* pool block */
    void (*free_fn)(void *user);
    void *user;
    _Alignas(16) char inline_data[]; /* SFT_INLINE_BYTES of kind INLINE */
} sft_storage;

typedef struct sft_edge {
    sft_node *fn;     /* one of both is set; both NULL: no gradient wanted */
    sft_tensor *leaf;
    int32_t out_nr;
} sft_edge;

typedef struct sft_hook {
    sft_hook_fn fn;
    void *user;
    void (*free_fn)(void *user);
    int64_t id;
} sft_hook;
typedef struct sft_hooks {
    sft_hook *list;
    size_t n, cap;
} sft_hooks;

/* Autograd's part of a tensor; absent while nobody asked for gradients. */
typedef struct sft_meta {
    bool requires_grad; /* as set by the user, for leaves */
    bool retain_grad;
    bool queued;        /* engine: in the list of leaves of a running backward */
    int32_t expected;   /* engine: edges of the graph that still lead here */
    sft_tensor *pending; /* engine: their sum so far */
    int32_t out_nr;
    sft_node *grad_fn; /* NULL: leaf */
    sft_tensor *grad;
    sft_hooks hooks; /* of a leaf; others hang at the node */
} sft_meta;

struct sft_tensor {
    _Atomic int32_t refs;
    uint8_t dtype, ndim;
    bool contiguous;   /* row-major without gaps */
    bool wrapped;      /* made from a script's number: takes part in promotion as a number */
    sft_device device;
    uint32_t gen;      /* times that an in-place op on a view or on this rewrote its history */
    uint32_t view_gen; /* base->gen that our grad_fn belongs to */
    sft_storage *storage;
    char *data;        /* of the first element */
    int64_t numel;
    sft_meta *meta;
    sft_tensor *base;  /* of a view: the tensor that it is a view of (never a view itself) */
    int64_t shape[SFT_MAX_DIMS];
    int64_t strides[SFT_MAX_DIMS]; /* in elements */
};

static inline size_t sft_esize(const sft_tensor *t) {
    static const uint8_t size[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
    return size[t->dtype];
}
static inline bool sft_is_float(int dtype) { return dtype >= SFT_float16; }
static inline bool sft_is_integral(int dtype) { return dtype >= SFT_uint8 && dtype <= SFT_int64; }

/* A new tensor struct over `storage` (retained); numel and contiguous are computed. */
sft_tensor *sft_tensor_new(sft_storage *storage, sft_dtype dtype, const int64_t *shape,
                           const int64_t *strides, int ndim, char *data);
/* A view of t with its own geometry, base set, no history. `offset` in elements from t's data. */
sft_tensor *sft_view_of(sft_tensor *t, const int64_t *shape, const int64_t *strides, int ndim,
                        int64_t offset);
/* Same storage and geometry, no base, no history. */
sft_tensor *sft_alias(sft_tensor *t);
sft_tensor *sft_empty_like_(const sft_tensor *t, sft_dtype dtype); /* keeps a dense layout */
sft_storage *sft_storage_new(size_t bytes, sft_device device);
void sft_storage_release(sft_storage *s);
/* Product of sizes; -1 with an error set when it overflows. */
int64_t sft_checked_numel(const int64_t *shape, int ndim, size_t esize);
void sft_contiguous_strides(const int64_t *shape, int ndim, int64_t *strides);
bool sft_has_overlap(const sft_tensor *t);       /* may two elements share memory? */
bool sft_partial_overlap(const sft_tensor *a, const sft_tensor *b);
bool sft_is_dense(const sft_tensor *t);          /* some permutation of contiguous */
/* "[2, 3]" into buf; returns buf. */
const char *sft_shape_text(const int64_t *shape, int ndim, char *buf, size_t size);
#define SFT_SHAPE(t) sft_shape_text((t)->shape, (t)->ndim, (char[160]){0}, 160)
/* d in [-ndim, ndim) -> [0, ndim); else an error that names the range as the caller counts. 0-dim
 * tensors take 0 and -1. Returns -1 on error. */
int sft_wrap_dim(int64_t d, int ndim);
/* Sets dst's elements to the number v (no history). */
sft_status sft_fill_raw(sft_tensor *dst, sft_value v);
/* Element copy with conversion and broadcasting of src to dst's shape (no history). */
sft_status sft_copy_raw(sft_tensor *dst, const sft_tensor *src);

/* ---- promotion (dtype.c) ----------------------------------------------------------------------- */

/* PyTorch's result_type over tensors and numbers among values[n]. */
sft_dtype sft_result_type(const sft_value *values, int n);
bool sft_can_cast(int from, int to);

/* ---- rows, calls (dispatch.c, signature.c) ------------------------------------------------------- */

typedef struct sft_opctx {
    sft_op_id op;
    const sft_op_info *info;
    sft_value *a;      /* [nparams], defaults filled in */
    sft_tensor *dst;   /* where to write (F_DST rows only), or NULL */
    sft_tensor **out;  /* results: references */
    int nout;
    sft_tensor **list; /* rows with a varying number of results */
} sft_opctx;

typedef sft_status (*sft_impl)(sft_opctx *c);

/* What a rule wants to see again (column `grad` of ops.def). Bits: parameters 0..15 and outputs. */
#define SFT_SAVE_OUT(i) (1u << (16 + (i)))
enum {
    IN0 = 1, IN1 = 2, IN2 = 4, IN3 = 8, IN4 = 16, IN5 = 32, IN6 = 64, IN7 = 128,
    OUT0 = 1 << 16, OUT1 = 1 << 17, OUT2 = 1 << 18,
    /* IN0 is seen only for parameter 1's gradient, and IN1 only for parameter 0's: what has none
     * doesn't keep the other alive, nor mind when it is written to. */
    CROSS0 = 1 << 28, CROSS1 = 1 << 29, CROSS = CROSS0 | CROSS1
};
/* The saves of this very call. */
uint32_t sft_saves(sft_op_id op, const sft_value *a);

typedef struct sft_bw sft_bw;
typedef void (*sft_rule)(sft_bw *b);
enum sft_grad_kind { SFT_GRAD_RULE, SFT_GRAD_COMPOSITE, SFT_GRAD_NONE, SFT_GRAD_UNWRITTEN };

typedef struct sft_op_row {
    sft_impl impl;
    sft_rule rule;
    uint8_t grad; /* sft_grad_kind */
    uint32_t saves;
} sft_op_row;
extern const sft_op_row sft_rows[SFT_OP_COUNT];

/* Calls with complete, checked values; results are references. Internal twin of sft_call(). */
sft_status sft_invoke(sft_op_id op, unsigned mode, sft_value *values, sft_tensor *dst,
                      sft_tensor **out, int *nout, sft_tensor ***list);

/* DO(mul, x, y): the first result, borrowed: it lives until the running implementation or rule
 * ends. NULL when it fails, or when something failed before: chains need no checks in between. */
sft_tensor *sft_do(sft_op_id op, unsigned mode, const sft_value *args, int n);
/* The same for several results. */
bool sft_do_n(sft_op_id op, const sft_value *args, int n, sft_tensor **out, int nout);
#define DO(name, ...)                                                                              \
    sft_do(SFT_CAT_(SFT_OP_, name), 0, SFT_VALUES(__VA_ARGS__),                                    \
           (int)(sizeof(SFT_VALUES(__VA_ARGS__)) / sizeof(sft_value)))
#define DO_(name, ...)                                                                             \
    sft_do(SFT_CAT_(SFT_OP_, name), SFT_CALL_INPLACE, SFT_VALUES(__VA_ARGS__),                     \
           (int)(sizeof(SFT_VALUES(__VA_ARGS__)) / sizeof(sft_value)))
#define DO_N(out, nout, name, ...)                                                                 \
    sft_do_n(SFT_CAT_(SFT_OP_, name), SFT_VALUES(__VA_ARGS__),                                     \
             (int)(sizeof(SFT_VALUES(__VA_ARGS__)) / sizeof(sft_value)), out, nout)
/* Hands a reference to the running scope, which drops it at its end; returns t. NULL passes. */
sft_tensor *sft_temp(sft_tensor *t);
size_t sft_scope_open(void);
void sft_scope_close(size_t mark);

/* For implementations. ret(c, t): t (borrowed or temp) becomes the next result. */
static inline sft_status sft_ret(sft_opctx *c, sft_tensor *t) {
    if (SFT_UNLIKELY(!t)) return sft_thread()->code ? sft_thread()->code : SFT_ERR_MEMORY;
    c->out[c->nout++] = sft_retain(t);
    return SFT_OK;
}
/* give(c, t): as ret, but t is a reference that is handed over. */
static inline sft_status sft_give(sft_opctx *c, sft_tensor *t) {
    if (SFT_UNLIKELY(!t)) return sft_thread()->code ? sft_thread()->code : SFT_ERR_MEMORY;
    c->out[c->nout++] = t;
    return SFT_OK;
}
#define ARG_T(p_) (c->a[p_].kind == SFT_V_TENSOR ? c->a[p_].u.t : NULL)
#define ARG_I(p_) (c->a[p_].u.i)
#define ARG_F(p_) (c->a[p_].kind == SFT_V_INT ? (double)c->a[p_].u.i : c->a[p_].u.f)
#define ARG_B(p_) (c->a[p_].u.b)
#define ARG_NONE(p_) (c->a[p_].kind == SFT_V_NONE)
#define ARG_NAME(c) ((c)->info->name)

/* ---- gradient rules (tape.c) ------------------------------------------------------------------- */

/* A recorded call. Everything in it lies in one block of memory. */
typedef struct sft_input {
    uint8_t ndim, dtype;
    sft_device device;
    int64_t *shape;
    uint32_t version; /* of the saved tensor */
} sft_input;

struct sft_node {
    _Atomic int32_t refs;
    int32_t op;        /* sft_op_id, or -1: a function of the host */
    uint64_t seq;      /* later nodes have greater numbers */
    size_t bytes;
    uint8_t index_base, nparams;
    bool freed;        /* saved tensors were dropped after a backward */
    bool saves;        /* had any */
    bool queued;       /* engine: in its heap */
    uint64_t visit;    /* engine: last task that counted its edges */
    int32_t nedges, nout;
    sft_edge *edges;   /* [nedges] one per tensor argument, lists unrolled */
    sft_input *in;     /* [nedges] */
    sft_value *a;      /* [nparams] arguments; tensors that are not saved are NULL */
    int32_t first_edge[SFT_MAX_PARAMS]; /* parameter -> its first edge */
    sft_tensor **outs; /* [nout] saved outputs */
    uint32_t *out_versions;
    sft_tensor **pending; /* [nout] engine: gradients that arrived */
    sft_tensor **retained; /* [nout] tensors with retain_grad; not references */
    sft_hooks *hooks;  /* [nout], or NULL */
    const char *name;  /* of a host's function */
    sft_backward_fn fn;
    void *user;
    void (*free_fn)(void *user);
    sft_node *next;    /* in the list of dead ones */
};

struct sft_bw {
    sft_node *node;
    bool create_graph;
    const sft_value *a;     /* the call's arguments; a tensor that was not saved is NULL */
    sft_tensor *g[SFT_MAX_OUTPUTS]; /* gradients of the outputs, NULL where none arrived */
    sft_tensor *const *gl;  /* the same for ops with any number of outputs: [node->nout] */
    sft_tensor **gi;        /* gradients of the inputs to fill in (borrowed temps), by edge */
};
/* Is a gradient wanted for tensor parameter i (of a list: for any / for its j-th entry)? */
bool sft_bw_needs(sft_bw *b, int param);
bool sft_bw_needs_at(sft_bw *b, int param, int j);
void sft_bw_set(sft_bw *b, int param, sft_tensor *grad);
void sft_bw_set_at(sft_bw *b, int param, int j, sft_tensor *grad);
/* Shape of a tensor input, also where it was not saved. */
const int64_t *sft_bw_shape(sft_bw *b, int param, int *ndim);
const int64_t *sft_bw_shape_at(sft_bw *b, int param, int j, int *ndim);
sft_dtype sft_bw_dtype(sft_bw *b, int param);
/* A saved output. */
sft_tensor *sft_bw_out(sft_bw *b, int i);
#define G (b->g[0])
#define NEED(p_) sft_bw_needs(b, p_)
#define SET(p_, x) sft_bw_set(b, p_, x)
#define IN(p_) (b->a[p_].kind == SFT_V_TENSOR ? b->a[p_].u.t : NULL)
#define VAL(p_) (b->a[p_]) /* tensor or number, as a value for DO() */
#define OUT(p_) sft_bw_out(b, p_)
#define INT(p_) (b->a[p_].u.i)
#define NUM(p_) (b->a[p_].kind == SFT_V_INT ? (double)b->a[p_].u.i : b->a[p_].u.f)

/* ---- autograd (tape.c, engine.c) ----------------------------------------------------------------- */

bool sft_tensor_needs_grad(const sft_tensor *t); /* requires_grad, history brought up to date */
sft_edge sft_tensor_edge(sft_tensor *t);         /* retained */
sft_meta *sft_tensor_meta(sft_tensor *t);        /* made on first use; NULL: out of memory */
void sft_meta_free(sft_meta *m);
static inline bool sft_recording(void) {
    sft_tls *t = sft_thread();
    return !t->ctx->no_grad && !t->inside_rule;
}
/* Records op on outputs; `inplace`: outputs[0] is the rewritten first argument. */
sft_status sft_record(sft_op_id op, const sft_value *a, sft_tensor **outputs, int nout,
                      bool inplace);
sft_tensor *sft_sum_to(sft_tensor *g, const int64_t *shape, int ndim); /* temp */
sft_status sft_run_hooks(sft_hooks *hooks, sft_tensor **grad);
void sft_hooks_free(sft_hooks *hooks);
void sft_node_drop_saved(sft_node *n);
/* Runs the rule of `n` (or the host's function); gi[nedges] are temps. */
sft_status sft_node_apply(sft_node *n, sft_tensor **g, sft_tensor **gi, bool create_graph);
/* Gives x the history of r (for composite in-place ops). */
sft_status sft_rebase(sft_tensor *x, sft_node *fn, int out_nr);
sft_node *sft_node_retain(sft_node *n);
void sft_node_release(sft_node *n);

/* ---- elementwise and reduction geometry (iter.c) --------------------------------------------------- */

enum { SFT_MAX_OPERANDS = 6 };

typedef struct sft_operand {
    char *data;
    uint8_t dtype;
    bool is_scalar; /* a number: `num` holds it, data is NULL, strides are 0 */
    sft_value num;
    int64_t stride[SFT_MAX_DIMS]; /* in bytes; 0 where broadcast */
} sft_operand;

/* Operands over one index space; op[0..nout-1] are written. Dims are coalesced, ordered so that the
 * last one is the fastest in memory. */
typedef struct sft_iter {
    int ndim, nop, nout;
    int64_t numel;
    int64_t size[SFT_MAX_DIMS];
    sft_operand op[SFT_MAX_OPERANDS];
} sft_iter;

/* Broadcast shape of tensors among values[n]; error names both shapes. Returns ndim or -1. */
int sft_broadcast_shape(const sft_value *values, int n, int64_t *shape);
/* outputs have the full shape already. */
void sft_iter_build(sft_iter *it, sft_tensor *const *outs, int nout, const sft_value *ins, int nin);

/* ---- generators (random.c) ------------------------------------------------------------------------- */

/* Reserves `n` 4-number Philox blocks; *key and *offset name them. NULL: the default generator. */
void sft_generator_reserve(sft_generator *g, uint64_t n, uint64_t *key, uint64_t *offset);

#endif
