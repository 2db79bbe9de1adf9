/*
 * dnnl_api.h - the functions of oneDNN 2.x that we call, by pointer; types from its own headers.
 *
 * Included only where those headers were found (SFT_HAVE_DNNL_H).
 */
#ifndef SFT_CPU_DNNL_API_H
#define SFT_CPU_DNNL_API_H

#if defined(__has_include)
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#include <oneapi/dnnl/dnnl.h>
#define SFT_HAVE_DNNL_H 1
#endif
#endif
#endif

#ifdef SFT_HAVE_DNNL_H

#define SFT_DNNL_FUNCTIONS(X)                                                                      \
    X(sgemm)                                                                                       \
    X(engine_create)                                                                               \
    X(stream_create)                                                                               \
    X(stream_destroy)                                                                              \
    X(primitive_attr_create)                                                                       \
    X(primitive_attr_set_scratchpad_mode)                                                          \
    X(memory_desc_init_by_tag)                                                                     \
    X(memory_desc_init_by_strides)                                                                 \
    X(memory_desc_get_size)                                                                        \
    X(memory_desc_equal)                                                                           \
    X(memory_create)                                                                               \
    X(memory_destroy)                                                                              \
    X(dilated_convolution_forward_desc_init)                                                       \
    X(dilated_convolution_backward_data_desc_init)                                                 \
    X(dilated_convolution_backward_weights_desc_init)                                              \
    X(primitive_desc_create)                                                                       \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_desc_query)                                                                        \
    X(primitive_desc_query_md)                                                                     \
    X(reorder_primitive_desc_create)                                                               \
    X(primitive_create)                                                                            \
    X(primitive_execute)                                                                           \
    X(primitive_destroy)

typedef struct sft_dnnl_api {
#define X(name) __typeof__(&dnnl_##name) name;
    SFT_DNNL_FUNCTIONS(X)
#undef X
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr; /* scratchpads come from us */
} sft_dnnl_api;

/* Valid after sft_dnnl() was true. */
extern sft_dnnl_api sft_dnnl_lib;

#endif
#endif
