/* backend.h: what a backend (the CPU, the CUDA plug-in) gives the engine: memory, copies and one
 * array of kernels indexed by op. A kernel that is NULL means "not supported"; there is no second
 * list of what works. */
#ifndef SFT_BACKEND_H
#define SFT_BACKEND_H

#include "core.h"

/* Everything that one kernel call needs. Shapes and dtypes are checked before. */
typedef struct sft_kcall {
    sft_op_id op;
    int nt;
    sft_tensor *const *t;  /* outputs first, then inputs, in the order that the family documents;
                              NULL where an optional one is absent */
    const sft_iter *iter;  /* elementwise and copies */
    uint8_t ctype;         /* elementwise: the dtype that is computed in (float32/64, int64) */
    uint8_t index_base;    /* index tensors count from here: 0 or 1 */
    double f[4];           /* numbers of an elementwise op (alpha, slope, ...) as floats */
    int64_t i[4];          /* the same as integers */
    const void *params;    /* struct of the family (params.h), or NULL */
} sft_kcall;

typedef sft_status (*sft_kernel)(const sft_kcall *k);

typedef struct sft_backend {
    const char *name;
    const sft_kernel *kernels; /* [SFT_OP_COUNT] */
    /* `bytes` of memory on device `index`; *block is the pool's handle. NULL: out of memory. */
    void *(*alloc)(int index, size_t bytes, void **block);
    void (*free)(int index, void *data, void *block, size_t bytes);
    sft_status (*stats)(int index, sft_memory_stats *out);
    void (*reset_peak)(int index);
    void (*set_limit)(int index, size_t bytes);
    void (*empty_cache)(int index);
    /* Bytes between the host and the device, or within it; contiguous. `kind` as host/device of
     * dst and src. Optional for the CPU. */
    sft_status (*copy)(int index, void *dst, const void *src, size_t bytes, int dst_on_host,
                       int src_on_host);
    sft_status (*synchronize)(int index);
    int (*device_count)(void);
} sft_backend;

extern const sft_backend *sft_cpu_backend(void);
/* The backend of a device, or NULL with an error that says what is there. */
const sft_backend *sft_backend_of(sft_device d);

/* Runs op's kernel on `device`; an absent one is an error naming op, dtype and device. */
sft_status sft_run_kernel(sft_kcall *k, sft_device device);
/* Convenience: tensors listed outputs first. */
sft_status sft_run(sft_op_id op, sft_tensor *const *t, int nt, const void *params);

#endif
