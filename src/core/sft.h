/* sft.h: the public C API of the tensor engine.
 *
 * Everything that a script can do goes through this file: the Lua binding is written against it.
 * Dims and indices are 0-based here (negative dims count from the end), devices are 0-based.
 *
 * Errors. A function that can fail returns a status (or NULL); sft_last_error() then describes the
 * failure for the calling thread until its next call. Nothing here prints, exits or jumps.
 *
 * Ownership. A function that returns a `sft_tensor *` gives the caller one reference, which
 * sft_release() drops, unless its comment says "borrowed". Arguments are only read; whatever the
 * engine keeps, it retains itself. All handles may be used from any thread; one tensor must not be
 * written by one thread while another uses it.
 */
#ifndef SFT_H
#define SFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define SFT_API
#else
#define SFT_API __attribute__((visibility("default")))
#endif

#define SFT_VERSION "0.1.0"
#define SFT_MAX_DIMS 16

typedef struct sft_tensor sft_tensor;
typedef struct sft_generator sft_generator;

/* ---- status and errors ------------------------------------------------------------------- */

typedef enum sft_status {
    SFT_OK = 0,
    SFT_ERR_ARGUMENT,    /* wrong type, shape, value, or an operation that is not allowed */
    SFT_ERR_INDEX,       /* index or dim out of range */
    SFT_ERR_MEMORY,      /* out of memory; the "oom" of scripts */
    SFT_ERR_DEVICE,      /* no such device, mixed devices */
    SFT_ERR_UNSUPPORTED, /* the op has no kernel for this dtype or device */
    SFT_ERR_AUTOGRAD,    /* graph freed, not differentiable, modified in place */
    SFT_ERR_IO,          /* files */
    SFT_ERR_INTERRUPTED, /* sft_interrupt() was called */
    SFT_ERR_CALLBACK     /* a callback of the host failed; it keeps the reason itself */
} sft_status;

/* Message and code of the calling thread's last failed call. Borrowed. */
SFT_API const char *sft_last_error(void);
SFT_API sft_status sft_last_status(void);
/* Short stable name of a status: "oom", "index", "argument", ... */
SFT_API const char *sft_status_name(sft_status s);
/* Sets the thread's error; for callbacks that report a failure. Returns `code`. */
SFT_API sft_status sft_set_error(sft_status code, const char *message);

/* ---- dtypes and devices ------------------------------------------------------------------ */

/* X(name, C type of one element, bytes, category: 0 bool, 1 integer, 2 float) in promotion order */
#define SFT_DTYPES(X)                                                                              \
    X(bool, uint8_t, 1, 0)                                                                         \
    X(uint8, uint8_t, 1, 1)                                                                        \
    X(int8, int8_t, 1, 1)                                                                          \
    X(int16, int16_t, 2, 1)                                                                        \
    X(int32, int32_t, 4, 1)                                                                        \
    X(int64, int64_t, 8, 1)                                                                        \
    X(float16, uint16_t, 2, 2)                                                                     \
    X(bfloat16, uint16_t, 2, 2)                                                                    \
    X(float32, float, 4, 2)                                                                        \
    X(float64, double, 8, 2)

typedef enum sft_dtype {
#define X(name, ctype, bytes, cat) SFT_##name,
    SFT_DTYPES(X)
#undef X
        SFT_DTYPE_COUNT
} sft_dtype;

SFT_API const char *sft_dtype_name(sft_dtype d);
SFT_API size_t sft_dtype_size(sft_dtype d);
SFT_API bool sft_dtype_is_floating(sft_dtype d);
/* PyTorch's promotion of two dtypes. */
SFT_API sft_dtype sft_promote_types(sft_dtype a, sft_dtype b);
SFT_API sft_dtype sft_default_dtype(void);
SFT_API sft_status sft_set_default_dtype(sft_dtype d);

typedef enum sft_device_type { SFT_CPU, SFT_CUDA, SFT_MPS, SFT_DEVICE_TYPES } sft_device_type;
typedef struct sft_device {
    int8_t type;  /* sft_device_type */
    int8_t index; /* 0-based; -1 means the current one of that type */
} sft_device;

/* "cpu", "cuda", "cuda:1", "mps". */
SFT_API sft_status sft_device_parse(const char *text, sft_device *out);
/* Writes "cpu" or "cuda:1" into buf. */
SFT_API const char *sft_device_name(sft_device d, char buf[16]);

/* ---- values: how arguments are handed to an op ---------------------------------------------- */

typedef enum sft_kind {
    SFT_V_NONE, /* absent: the default, or nil */
    SFT_V_TENSOR,
    SFT_V_INT,
    SFT_V_FLOAT,
    SFT_V_BOOL,
    SFT_V_STR,
    SFT_V_DTYPE,
    SFT_V_DEVICE,
    SFT_V_GENERATOR,
    SFT_V_INTS,    /* n integers */
    SFT_V_FLOATS,  /* n numbers */
    SFT_V_TENSORS, /* n tensors; entries may be NULL where the op allows it */
} sft_kind;

typedef struct sft_value {
    uint8_t kind; /* sft_kind */
    int32_t n;    /* length of a list */
    union {
        sft_tensor *t;
        int64_t i;
        double f;
        bool b;
        const char *s;
        sft_dtype dtype;
        sft_device device;
        sft_generator *generator;
        const int64_t *ints;
        const double *floats;
        sft_tensor *const *tensors;
    } u;
} sft_value;

#define SFT_VALUE_FN(name, kindname, type, field)                                                  \
    static inline sft_value sft_v_##name(type x) {                                                 \
        sft_value v;                                                                               \
        v.kind = kindname;                                                                         \
        v.n = 0;                                                                                   \
        v.u.i = 0;                                                                                 \
        v.u.field = x;                                                                             \
        return v;                                                                                  \
    }
SFT_VALUE_FN(tensor, SFT_V_TENSOR, sft_tensor *, t)
SFT_VALUE_FN(int, SFT_V_INT, int64_t, i)
SFT_VALUE_FN(float, SFT_V_FLOAT, double, f)
SFT_VALUE_FN(bool, SFT_V_BOOL, bool, b)
SFT_VALUE_FN(str, SFT_V_STR, const char *, s)
SFT_VALUE_FN(dtype, SFT_V_DTYPE, sft_dtype, dtype)
SFT_VALUE_FN(device, SFT_V_DEVICE, sft_device, device)
SFT_VALUE_FN(generator, SFT_V_GENERATOR, sft_generator *, generator)
#undef SFT_VALUE_FN
static inline sft_value sft_v_none(void) {
    sft_value v;
    v.kind = SFT_V_NONE;
    v.n = 0;
    v.u.i = 0;
    return v;
}
static inline sft_value sft_v_value(sft_value v) { return v; }
static inline sft_value sft_v_ints(const int64_t *p, int n) {
    sft_value v = sft_v_none();
    v.kind = SFT_V_INTS;
    v.n = n;
    v.u.ints = p;
    return v;
}
static inline sft_value sft_v_tensors(sft_tensor *const *p, int n) {
    sft_value v = sft_v_none();
    v.kind = SFT_V_TENSORS;
    v.n = n;
    v.u.tensors = p;
    return v;
}

/* The dtype that an op on these tensors and numbers computes in; may `from` be cast to `to`
 * in place (no loss of category)? */
SFT_API sft_dtype sft_result_type(const sft_value *values, int n);
SFT_API bool sft_can_cast(int from, int to);

/* ---- ops ------------------------------------------------------------------------------------ */

/* One enumerator per row of ops.def: SFT_OP_add, SFT_OP_softmax, ... */
typedef enum sft_op_id {
#define OP(id, impl, dtypes, flags, grad, signature, doc) SFT_OP_##id,
#include "ops.def"
#undef OP
    SFT_OP_COUNT
} sft_op_id;

/* How a parameter of an op is typed (the words of a signature in ops.def). */
typedef enum sft_param_type {
    SFT_P_TENSOR,        /* Tensor */
    SFT_P_TENSORS,       /* Tensor[] */
    SFT_P_TENSOR_SCALAR, /* Tensor|Scalar */
    SFT_P_SCALAR,        /* Scalar: integer, float or boolean */
    SFT_P_INT,
    SFT_P_FLOAT,
    SFT_P_BOOL,
    SFT_P_STR,
    SFT_P_DIM,   /* dim: 1-based in scripts, 0-based here */
    SFT_P_DIMS,  /* dim[] (one number is a list of one) */
    SFT_P_INDEX, /* index: 1-based in scripts */
    SFT_P_INTS,  /* int[] (one number is a list of one); int[2]: one number stands for all */
    SFT_P_SIZES, /* size...: numbers up to the end, or one list */
    SFT_P_FLOATS,
    SFT_P_DTYPE,
    SFT_P_DEVICE,
    SFT_P_GENERATOR,
} sft_param_type;

typedef struct sft_param {
    const char *name;    /* not terminated: `len` bytes */
    uint8_t len;
    uint8_t type;        /* sft_param_type */
    bool optional;       /* nil is allowed ("?") or a default exists */
    bool keyword_only;   /* after "*" */
    uint8_t fixed;       /* int[2]: 2 */
    sft_value def;       /* default; SFT_V_NONE when it is nil or there is none */
} sft_param;

enum { /* flags of an op */
    SFT_F_METHOD = 1,   /* x:name() */
    SFT_F_FUNCTION = 2, /* sft.name() */
    SFT_F_NN = 4,       /* sft.nn.functional.name() */
    SFT_F_INPLACE = 8,  /* x:name_() too */
    SFT_F_OUT = 16,     /* takes out = */
    SFT_F_DST = 32,     /* its implementation can write straight into a given tensor */
    SFT_F_VIEW = 64,    /* the result shares the storage of the first argument */
    SFT_F_INDEX_OUT = 128, /* an output holds indices: 1-based in scripts */
    SFT_F_MUTATES = 256, /* writes into its first argument (or list); name ends in _ */
    SFT_F_INTERNAL = 512 /* a part of other ops, which check its arguments: can't be called */
};

enum { SFT_MAX_PARAMS = 20, SFT_MAX_OUTPUTS = 4 };

typedef struct sft_op_info {
    const char *name; /* public name: several rows may share it (overloads, tried in order) */
    const char *signature;
    const char *doc;
    const char *dtypes; /* class: "num", "float", "cmp", "bool", "int", "any", ... */
    uint16_t flags;
    uint8_t nparams;
    uint8_t nout; /* number of outputs; 0: varies */
    bool differentiable;
    sft_param params[SFT_MAX_PARAMS];
} sft_op_info;

/* The row of an op, parsed. Borrowed, lives for ever. */
SFT_API const sft_op_info *sft_op_get_info(sft_op_id op);

/* Second public names (absolute for abs, ...): the i-th, or NULL past the end; *of is the name that
 * it stands for. Borrowed. */
SFT_API const char *sft_op_alias(int i, const char **of);

enum { /* how an op is called */
    SFT_CALL_ONE_BASED = 1, /* index tensors hold 1-based indices (scripts) */
    SFT_CALL_INPLACE = 2    /* the result replaces the first argument's contents */
};

/* Calls an op with `n` positional arguments (missing ones get their defaults). On success out[]
 * holds the results, *nout their number (room: SFT_MAX_OUTPUTS, or what the op returns). `dst`,
 * where not NULL, is the `out =` tensor; the result is then that tensor, retained. */
SFT_API sft_status sft_call(sft_op_id op, unsigned mode, const sft_value *args, int n,
                            sft_tensor *dst, sft_tensor **out, int *nout);
/* Ops with a varying number of results (split, unbind, ...): the list is allocated; free it with
 * sft_free_list(), which drops the references too. */
SFT_API sft_status sft_call_list(sft_op_id op, unsigned mode, const sft_value *args, int n,
                                 sft_tensor ***out, int *nout);
SFT_API void sft_free_list(sft_tensor **list, int n);
/* The first result, or NULL. */
SFT_API sft_tensor *sft_call1(sft_op_id op, const sft_value *args, int n);

/* sft_op(matmul, x, w), sft_op(sum, x, 0): positional arguments of any of the types above. */
#ifndef __cplusplus
#define SFT_V(x)                                                                                   \
    _Generic((x),                                                                                  \
        sft_tensor *: sft_v_tensor,                                                                \
        const char *: sft_v_str,                                                                   \
        char *: sft_v_str,                                                                         \
        bool: sft_v_bool,                                                                          \
        float: sft_v_float,                                                                        \
        double: sft_v_float,                                                                       \
        sft_device: sft_v_device,                                                                  \
        sft_generator *: sft_v_generator,                                                          \
        sft_value: sft_v_value,                                                                    \
        default: sft_v_int)(x)
#define SFT_VALUES(...) ((sft_value[]){SFT_MAP_(__VA_ARGS__)})
#define SFT_NARGS_(...) ((int)(sizeof((sft_value[]){SFT_MAP_(__VA_ARGS__)}) / sizeof(sft_value)))
#define SFT_CAT_(a, b) a##b
#define SFT_CAT2_(a, b) SFT_CAT_(a, b)
#define SFT_COUNT_(...) SFT_COUNT2_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SFT_COUNT2_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, N, ...) N
#define SFT_MAP_(...) SFT_CAT2_(SFT_M, SFT_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define SFT_M1(a) SFT_V(a)
#define SFT_M2(a, ...) SFT_V(a), SFT_M1(__VA_ARGS__)
#define SFT_M3(a, ...) SFT_V(a), SFT_M2(__VA_ARGS__)
#define SFT_M4(a, ...) SFT_V(a), SFT_M3(__VA_ARGS__)
#define SFT_M5(a, ...) SFT_V(a), SFT_M4(__VA_ARGS__)
#define SFT_M6(a, ...) SFT_V(a), SFT_M5(__VA_ARGS__)
#define SFT_M7(a, ...) SFT_V(a), SFT_M6(__VA_ARGS__)
#define SFT_M8(a, ...) SFT_V(a), SFT_M7(__VA_ARGS__)
#define SFT_M9(a, ...) SFT_V(a), SFT_M8(__VA_ARGS__)
#define SFT_M10(a, ...) SFT_V(a), SFT_M9(__VA_ARGS__)
#define SFT_M11(a, ...) SFT_V(a), SFT_M10(__VA_ARGS__)
#define SFT_M12(a, ...) SFT_V(a), SFT_M11(__VA_ARGS__)
#define SFT_M13(a, ...) SFT_V(a), SFT_M12(__VA_ARGS__)
#define SFT_M14(a, ...) SFT_V(a), SFT_M13(__VA_ARGS__)
#define SFT_M15(a, ...) SFT_V(a), SFT_M14(__VA_ARGS__)
#define SFT_M16(a, ...) SFT_V(a), SFT_M15(__VA_ARGS__)
#define sft_op(name, ...)                                                                          \
    sft_call1(SFT_CAT_(SFT_OP_, name), SFT_VALUES(__VA_ARGS__),                                    \
              (int)(sizeof(SFT_VALUES(__VA_ARGS__)) / sizeof(sft_value)))
#endif

/* ---- tensors -------------------------------------------------------------------------------- */

SFT_API sft_tensor *sft_retain(sft_tensor *t);
SFT_API void sft_release(sft_tensor *t); /* NULL is fine */

/* Uninitialised contiguous tensor. sizes[ndim] >= 0. */
SFT_API sft_tensor *sft_empty(const int64_t *sizes, int ndim, sft_dtype dtype, sft_device device);
/* A contiguous CPU tensor over memory of the caller, which must outlive it: `free_fn(user)` (may be
 * NULL) is called when the last reference to the storage goes. Alignment: that of the element. */
SFT_API sft_tensor *sft_from_buffer(void *data, const int64_t *sizes, int ndim, sft_dtype dtype,
                                    void (*free_fn)(void *user), void *user);
/* A new contiguous CPU tensor with a copy of `data`. */
SFT_API sft_tensor *sft_from_data(const void *data, const int64_t *sizes, int ndim,
                                  sft_dtype dtype);
/* A 0-dim tensor that holds a number. */
SFT_API sft_tensor *sft_scalar(sft_value v, sft_dtype dtype, sft_device device);

SFT_API int sft_ndim(const sft_tensor *t);
SFT_API const int64_t *sft_sizes(const sft_tensor *t);   /* borrowed, [ndim] */
SFT_API const int64_t *sft_strides(const sft_tensor *t); /* borrowed, in elements */
SFT_API int64_t sft_numel(const sft_tensor *t);
SFT_API sft_dtype sft_dtype_of(const sft_tensor *t);
SFT_API sft_device sft_device_of(const sft_tensor *t);
SFT_API bool sft_is_contiguous(const sft_tensor *t);
SFT_API int64_t sft_storage_offset(const sft_tensor *t); /* in elements */
/* Address of the first element. CPU: readable and writable by the host; a writer calls
 * sft_bump_version() afterwards so that autograd notices. */
SFT_API void *sft_data(sft_tensor *t);
SFT_API void sft_bump_version(sft_tensor *t);
SFT_API uint32_t sft_version_of(const sft_tensor *t);
/* Do two handles show the same storage? */
SFT_API bool sft_same_storage(const sft_tensor *a, const sft_tensor *b);
/* A number that names the tensor (its storage): equal for views of one storage. */
SFT_API uintptr_t sft_storage_id(const sft_tensor *t);
/* The one element of a tensor, as SFT_V_INT, SFT_V_FLOAT or SFT_V_BOOL. */
SFT_API sft_status sft_item(const sft_tensor *t, sft_value *out);
/* One element by position; `index[ndim]` 0-based. */
SFT_API sft_status sft_get(const sft_tensor *t, const int64_t *index, sft_value *out);
/* Copies all elements, row-major and converted to `dtype`, into `dst`. */
SFT_API sft_status sft_copy_out(const sft_tensor *t, sft_dtype dtype, void *dst);
/* dst[...] = src, with broadcasting and conversion; recorded by autograd. */
SFT_API sft_status sft_copy_(sft_tensor *dst, sft_tensor *src);
/* Makes `t` show what `src` shows (storage, shape, dtype, device); identity, requires_grad and
 * .grad of `t` stay. For Module:to. */
SFT_API sft_status sft_set_data(sft_tensor *t, const sft_tensor *src);
/* Text as PyTorch prints it; `one_based` is for messages only. Free with sft_free_text(). */
SFT_API char *sft_to_text(sft_tensor *t);
SFT_API void sft_free_text(char *text);

/* ---- autograd ------------------------------------------------------------------------------- */

typedef struct sft_node sft_node;

SFT_API bool sft_requires_grad(const sft_tensor *t);
SFT_API sft_status sft_set_requires_grad(sft_tensor *t, bool on);
SFT_API bool sft_is_leaf(const sft_tensor *t);
SFT_API sft_tensor *sft_grad(sft_tensor *t);                       /* borrowed, may be NULL */
SFT_API sft_status sft_set_grad(sft_tensor *t, sft_tensor *grad);  /* NULL clears */
SFT_API sft_status sft_retain_grad(sft_tensor *t);
/* Name of the op that made `t` ("mul"), or NULL for a leaf. */
SFT_API const char *sft_grad_fn_name(const sft_tensor *t);
/* Accumulates gradients of `n` tensors into the leaves. grads[i] may be NULL for one element. */
SFT_API sft_status sft_backward(sft_tensor *const *tensors, sft_tensor *const *grads, int n,
                                bool retain_graph, bool create_graph);
/* Gradients of outputs with regard to inputs: results[ninputs], NULL where there is none (an error
 * unless allow_unused). */
SFT_API sft_status sft_autograd_grad(sft_tensor *const *outputs, sft_tensor *const *grads,
                                     int noutputs, sft_tensor *const *inputs, int ninputs,
                                     bool retain_graph, bool create_graph, bool allow_unused,
                                     sft_tensor **results);
/* A hook sees a tensor's gradient and may return another one in *replacement (a reference). */
typedef sft_status (*sft_hook_fn)(void *user, sft_tensor *grad, sft_tensor **replacement);
SFT_API sft_status sft_register_hook(sft_tensor *t, sft_hook_fn fn, void *user,
                                     void (*free_fn)(void *user), int64_t *id);
SFT_API sft_status sft_remove_hook(sft_tensor *t, int64_t id);
/* A function with its own backward: marks `outputs` as computed from `inputs`. `backward` gets the
 * gradients of the outputs (NULL: zero) and fills grad_inputs (references; NULL: none). */
typedef sft_status (*sft_backward_fn)(void *user, sft_tensor *const *grad_outputs, int noutputs,
                                      sft_tensor **grad_inputs, int ninputs);
SFT_API sft_status sft_custom_function(const char *name, sft_tensor *const *inputs, int ninputs,
                                       sft_tensor **outputs, int noutputs, sft_backward_fn backward,
                                       void *user, void (*free_fn)(void *user));

/* A callback that calls the engine itself does so between these two: whatever fails in it is then
 * its own affair (it reports a failure by its return value and sft_set_error() afterwards). */
typedef struct sft_callback_state {
    sft_status code;
    int depth, inside_rule, index_base;
} sft_callback_state;
SFT_API void sft_callback_begin(sft_callback_state *s);
SFT_API void sft_callback_end(const sft_callback_state *s);

/* State that belongs to one line of execution (a thread, or a coroutine of a script). */
typedef struct sft_context {
    bool no_grad;
    uint8_t reserved[7];
} sft_context;
/* Makes `c` the calling thread's context (NULL: the thread's own); returns the former one. */
SFT_API sft_context *sft_context_swap(sft_context *c);
SFT_API sft_context *sft_context_current(void);
static inline bool sft_grad_enabled(void) { return !sft_context_current()->no_grad; }
static inline bool sft_set_grad_enabled(bool on) {
    sft_context *c = sft_context_current();
    bool was = !c->no_grad;
    c->no_grad = !on;
    return was;
}

/* ---- random numbers ------------------------------------------------------------------------- */

SFT_API sft_generator *sft_generator_new(uint64_t seed); /* NULL: out of memory */
SFT_API sft_generator *sft_generator_retain(sft_generator *g);
SFT_API void sft_generator_release(sft_generator *g);
SFT_API sft_generator *sft_default_generator(void); /* borrowed */
SFT_API void sft_generator_seed(sft_generator *g, uint64_t seed);
/* State = {seed, offset}: equal states give equal numbers. */
SFT_API void sft_generator_get_state(sft_generator *g, uint64_t state[2]);
SFT_API void sft_generator_set_state(sft_generator *g, const uint64_t state[2]);

/* ---- files ---------------------------------------------------------------------------------- */

/* Writes a safetensors file: to a temporary file first, synced and renamed, so that a failure
 * leaves what was there. metadata: `nmeta` pairs of strings. */
SFT_API sft_status sft_safetensors_write(const char *path, const char *const *names,
                                         sft_tensor *const *tensors, int n,
                                         const char *const *meta, int nmeta);
/* Reads one. The result owns names and metadata; tensors are CPU tensors. */
typedef struct sft_safetensors sft_safetensors;
SFT_API sft_safetensors *sft_safetensors_read(const char *path);
SFT_API int sft_safetensors_count(const sft_safetensors *f);
SFT_API const char *sft_safetensors_name(const sft_safetensors *f, int i);
SFT_API sft_tensor *sft_safetensors_tensor(const sft_safetensors *f, int i); /* borrowed */
SFT_API int sft_safetensors_meta_count(const sft_safetensors *f);
SFT_API const char *sft_safetensors_meta_key(const sft_safetensors *f, int i);
SFT_API const char *sft_safetensors_meta_value(const sft_safetensors *f, int i);
SFT_API void sft_safetensors_free(sft_safetensors *f);

SFT_API sft_tensor *sft_npy_read(const char *path);
SFT_API sft_status sft_npy_write(const char *path, sft_tensor *t);
/* IDX (the MNIST format), plain or gzipped. */
SFT_API sft_tensor *sft_idx_read(const char *path);

/* ---- memory, threads, interruption ---------------------------------------------------------- */

typedef struct sft_memory_stats {
    size_t allocated, reserved, peak_allocated, peak_reserved, limit, largest_free;
    uint64_t num_allocs, live_blocks;
} sft_memory_stats;
SFT_API sft_status sft_get_memory_stats(sft_device d, sft_memory_stats *out);
SFT_API sft_status sft_reset_peak_memory(sft_device d);
SFT_API sft_status sft_set_memory_limit(sft_device d, size_t bytes); /* 0: none */
SFT_API size_t sft_live_bytes(void); /* bytes held by live tensors, all devices */
SFT_API int64_t sft_live_tensors(void);
SFT_API void sft_empty_cache(void);
/* Called when an allocation fails, before the cache is emptied and it is tried again: frees what it
 * can. Per thread; returns the former one through *old. */
typedef void (*sft_reclaim_fn)(void *user);
SFT_API void sft_set_reclaim(sft_reclaim_fn fn, void *user);

SFT_API sft_status sft_set_num_threads(int n);
SFT_API int sft_get_num_threads(void);
/* Stops the running kernels of all threads soon (SFT_ERR_INTERRUPTED); async-signal-safe. */
SFT_API void sft_interrupt(void);
SFT_API void sft_interrupt_clear(void);
/* Name of the instruction set level in use: "v2", "v3", "v4". */
SFT_API const char *sft_cpu_level(void);
/* Tests of hosts: lets the n-th following allocation fail once (-1: off). */
SFT_API void sft_fail_alloc_after(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
