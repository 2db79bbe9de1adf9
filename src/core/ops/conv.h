/* conv.h: what the checks and the kernels of convolution share. */
#ifndef SFT_OPS_CONV_H
#define SFT_OPS_CONV_H

#include "elementwise.h"

/* Tensors are contiguous: x [n, ic, ih, iw], w [oc, ic / groups, kh, kw], y [n, oc, oh, ow], of one
 * dtype, float32 or float64. conv_planes: y, x, w, bias; conv_backward_data: dx, dy, w;
 * conv_backward_weights: dw, x, dy. */
typedef struct sft_conv_params {
    int64_t stride[2], pad[4], dilation[2], groups; /* pad: above, below, left, right */
} sft_conv_params;

/* unfold_patches: columns [n, c * kh * kw, oh * ow], x [n, c, h, w]; fold_patches: the same order.
 */
typedef struct sft_patch_params {
    int64_t n, c, h, w, oh, ow, k[2], d[2], p[2], s[2];
} sft_patch_params;

#endif
