/*
 * conv.h - two-dimensional convolution of the CPU backend (one-dimensional: height 1).
 *
 * Tensors are contiguous: x n,ic,ih,iw; w oc,ic/groups,kh,kw; y n,oc,oh,ow; bias oc.
 * oneDNN does what it is faster at, if it is installed; products of unrolled patches
 * (im2col) do the rest.  Results do not depend on the number of threads.
 */
#ifndef SFT_CPU_CONV_H
#define SFT_CPU_CONV_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sft_conv {
    bool f64;
    int64_t n, ic, ih, iw, oc, kh, kw, oh, ow;
    int64_t sh, sw;             /* strides, >= 1 */
    int64_t ph0, ph1, pw0, pw1; /* zero padding above, below, left, right, >= 0 */
    int64_t dh, dw;             /* dilation, 1 = dense */
    int64_t groups;             /* divides ic and oc */
} sft_conv;

/* Sets oh and ow from the rest; false if they would not be positive or an argument is invalid. */
bool sft_conv_shape(sft_conv *c);

/* All return false only when memory ran out; the results are then unspecified. */

/* y = conv(x, w) + bias; bias may be NULL. */
bool sft_conv_forward(const sft_conv *c, const void *x, const void *w, const void *bias, void *y);

/* dx = gradient of the input. */
bool sft_conv_backward_data(const sft_conv *c, const void *dy, const void *w, void *dx);

/* dw = gradient of the weights, db = gradient of the bias; either may be NULL. */
bool sft_conv_backward_weights(const sft_conv *c, const void *x, const void *dy, void *dw,
                               void *db);

#endif
