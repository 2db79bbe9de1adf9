#include "dnnl.h"
bool sft_dnnl(void) { return false; }
void sft_dnnl_sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    (void)ta;
    (void)tb;
    (void)m;
    (void)n;
    (void)k;
    (void)alpha;
    (void)a;
    (void)lda;
    (void)b;
    (void)ldb;
    (void)beta;
    (void)c;
    (void)ldc;
}
sft_dnnl_result sft_dnnl_conv_forward(const sft_conv *c, const void *x, const void *w,
                                      const void *bias, void *y) {
    (void)c;
    (void)x;
    (void)w;
    (void)bias;
    (void)y;
    return SFT_DNNL_NO;
}
sft_dnnl_result sft_dnnl_conv_backward_data(const sft_conv *c, const void *dy, const void *w,
                                            void *dx) {
    (void)c;
    (void)w;
    (void)dy;
    (void)dx;
    return SFT_DNNL_NO;
}
sft_dnnl_result sft_dnnl_conv_backward_weights(const sft_conv *c, const void *x, const void *dy,
                                               void *dw) {
    (void)c;
    (void)x;
    (void)dy;
    (void)dw;
    return SFT_DNNL_NO;
}
