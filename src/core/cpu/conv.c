/* conv.c: convolutions through lib/conv.h, and patches (im2col, col2im) as ops of their own. */
#include "kernels.h"
#include "../ops/conv.h"
#include "lib/conv.h"

static sft_conv geometry(const sft_kcall *k, const sft_tensor *x, const sft_tensor *w,
                         const sft_tensor *y) {
    const sft_conv_params *p = k->params;
    return (sft_conv){.f64 = x->dtype == SFT_float64,
                      .n = x->shape[0],
                      .ic = x->shape[1],
                      .ih = x->shape[2],
                      .iw = x->shape[3],
                      .oc = w->shape[0],
                      .kh = w->shape[2],
                      .kw = w->shape[3],
                      .oh = y->shape[2],
                      .ow = y->shape[3],
                      .sh = p->stride[0],
                      .sw = p->stride[1],
                      .ph0 = p->pad[0],
                      .ph1 = p->pad[1],
                      .pw0 = p->pad[2],
                      .pw1 = p->pad[3],
                      .dh = p->dilation[0],
                      .dw = p->dilation[1],
                      .groups = p->groups};
}

static sft_status done(bool ok) { return ok ? SFT_OK : sft_fail(SFT_ERR_MEMORY, "out of memory"); }

KERNEL(conv_planes)(const sft_kcall *k) {
    const sft_conv c = geometry(k, k->t[1], k->t[2], k->t[0]);
    return done(sft_conv_forward(&c, k->t[1]->data, k->t[2]->data, k->t[3] ? k->t[3]->data : NULL,
                                 k->t[0]->data));
}

KERNEL(conv_backward_data)(const sft_kcall *k) {
    const sft_conv c = geometry(k, k->t[0], k->t[2], k->t[1]);
    return done(sft_conv_backward_data(&c, k->t[1]->data, k->t[2]->data, k->t[0]->data));
}

KERNEL(conv_backward_weights)(const sft_kcall *k) {
    const sft_conv c = geometry(k, k->t[1], k->t[0], k->t[2]);
    return done(sft_conv_backward_weights(&c, k->t[1]->data, k->t[2]->data, k->t[0]->data, NULL));
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Row r of the columns: sample, channel and place in the window; its elements of the output row oh
 * are x[ih][iw0 + ow * s]. */
typedef struct place {
    int64_t plane, i, j;
} place;

static place place_of(const sft_patch_params *p, int64_t r) {
    const int64_t taps = p->k[0] * p->k[1], tap = r % taps;
    return (place){r / taps, tap / p->k[1], tap % p->k[1]};
}

#define PATCHES(T, suffix)                                                                         \
    static void unfold_##suffix(void *ctx, int64_t begin, int64_t end) {                           \
        const sft_kcall *k = ctx;                                                                  \
        const sft_patch_params *p = k->params;                                                     \
        for (int64_t r = begin; r < end; r++) {                                                    \
            const place at = place_of(p, r);                                                       \
            const T *x = (const T *)k->t[1]->data + at.plane * p->h * p->w;                        \
            T *c = (T *)k->t[0]->data + r * p->oh * p->ow;                                         \
            for (int64_t oh = 0; oh < p->oh; oh++) {                                               \
                const int64_t ih = oh * p->s[0] - p->p[0] + at.i * p->d[0];                        \
                for (int64_t ow = 0; ow < p->ow; ow++) {                                           \
                    const int64_t iw = ow * p->s[1] - p->p[1] + at.j * p->d[1];                    \
                    const bool in = ih >= 0 && ih < p->h && iw >= 0 && iw < p->w;                  \
                    c[oh * p->ow + ow] = in ? x[ih * p->w + iw] : 0;                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void fold_##suffix(void *ctx, int64_t begin, int64_t end) {                             \
        const sft_kcall *k = ctx;                                                                  \
        const sft_patch_params *p = k->params;                                                     \
        const int64_t taps = p->k[0] * p->k[1];                                                    \
        for (int64_t plane = begin; plane < end; plane++) {                                        \
            T *x = (T *)k->t[1]->data + plane * p->h * p->w;                                       \
            memset(x, 0, sizeof(T) * (size_t)(p->h * p->w));                                       \
            for (int64_t r = plane * taps; r < (plane + 1) * taps; r++) {                          \
                const place at = place_of(p, r);                                                   \
                const T *c = (const T *)k->t[0]->data + r * p->oh * p->ow;                         \
                for (int64_t oh = 0; oh < p->oh; oh++) {                                           \
                    const int64_t ih = oh * p->s[0] - p->p[0] + at.i * p->d[0];                    \
                    if (ih < 0 || ih >= p->h) continue;                                            \
                    for (int64_t ow = 0; ow < p->ow; ow++) {                                       \
                        const int64_t iw = ow * p->s[1] - p->p[1] + at.j * p->d[1];                \
                        if (iw >= 0 && iw < p->w) x[ih * p->w + iw] += c[oh * p->ow + ow];         \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
PATCHES(float, f32)
PATCHES(double, f64)

static int64_t per_task(int64_t work) {
    return work >= SFT_GRAIN / 2 ? 1 : SFT_GRAIN / 2 / (work + 1) + 1;
}

KERNEL(unfold_patches)(const sft_kcall *k) {
    const sft_patch_params *p = k->params;
    sft_parallel_for(p->n * p->c * p->k[0] * p->k[1], per_task(p->oh * p->ow),
                     k->t[0]->dtype == SFT_float64 ? unfold_f64 : unfold_f32, (void *)k);
    return SFT_OK;
}

KERNEL(fold_patches)(const sft_kcall *k) {
    const sft_patch_params *p = k->params;
    sft_parallel_for(p->n * p->c, per_task(p->oh * p->ow * p->k[0] * p->k[1] + p->h * p->w),
                     k->t[0]->dtype == SFT_float64 ? fold_f64 : fold_f32, (void *)k);
    return SFT_OK;
}
