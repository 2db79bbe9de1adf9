/* activation.c: kernels of activation functions, and of their gradients: x is the gradient that
 * arrives, y the input (or the result, where that is what is saved). */
#include "kernels.h"

#define ACT(op, setup_f32, f32, setup_f64, f64)                                                    \
    EW_LOOP1K(op##_f32, float, setup_f32, f32)                                                     \
    EW_LOOP1K(op##_f64, double, setup_f64, f64)                                                    \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, NULL, false, false};                    \
        return ew_run(k, &loops);                                                                  \
    }
/* P1, P2: the op's one or two numbers */
#define P1_f32 const float p1 = (float)k->f[0]
#define P1_f64 const double p1 = k->f[0]
#define P2_f32 const float p1 = (float)k->f[0]; const float p2 = (float)k->f[1]
#define P2_f64 const double p1 = k->f[0]; const double p2 = k->f[1]

#define PLAIN(op)                                                                                  \
    ACT(op, , sft_##op##_f32(x), , sft_##op##_f64(x))                                              \
    BINARY_F(_##op##_backward, , x *sft_##op##_grad_f32(y), , x *sft_##op##_grad_f64(y))
#define ONE(op)                                                                                    \
    ACT(op, P1_f32, sft_##op##_f32(x, p1), P1_f64, sft_##op##_f64(x, p1))                          \
    BINARY_F(_##op##_backward, P1_f32, x *sft_##op##_grad_f32(y, p1), P1_f64,                      \
             x *sft_##op##_grad_f64(y, p1))

PLAIN(silu)
PLAIN(mish)
PLAIN(selu)
PLAIN(hardsigmoid)
PLAIN(hardswish)
ONE(celu)
ACT(elu, P1_f32, sft_elu_f32(x, p1, 1, 1), P1_f64, sft_elu_f64(x, p1, 1, 1))
BINARY_F(_elu_backward, P1_f32, x *sft_elu_grad_f32(y, p1, 1, 1), P1_f64,
         x *sft_elu_grad_f64(y, p1, 1, 1))
ACT(leaky_relu, P1_f32, sft_leaky_relu_f32(x, p1), P1_f64, sft_leaky_relu_f64(x, p1))
BINARY_F(_leaky_relu_backward, P1_f32, y > 0 ? x : x *p1, P1_f64, y > 0 ? x : x *p1)
BINARY_F(_hardtanh_backward, P2_f32, x *sft_hardtanh_grad_f32(y, p1, p2), P2_f64,
         x *sft_hardtanh_grad_f64(y, p1, p2))
ACT(softplus, P2_f32, sft_softplus_f32(x, p1, p2), P2_f64, sft_softplus_f64(x, p1, p2))
BINARY_F(_softplus_backward, P2_f32, x *sft_softplus_grad_f32(y, p1, p2), P2_f64,
         x *sft_softplus_grad_f64(y, p1, p2))
ACT(logsigmoid, , sft_logsigmoid_f32(x), , sft_logsigmoid_f64(x))
BINARY_F(_logsigmoid_backward, , x *sft_sigmoid_f32(-y), , x *sft_sigmoid_f64(-y))

/* gelu: i[0] says whether it is the tanh form. */
EW_LOOP1(gelu_f32, float, float, sft_gelu_f32(x))
EW_LOOP1(gelu_f64, double, double, sft_gelu_f64(x))
EW_LOOP1(gelut_f32, float, float, sft_gelu_tanh_f32(x))
EW_LOOP1(gelut_f64, double, double, sft_gelu_tanh_f64(x))
KERNEL(gelu)(const sft_kcall *k) {
    static const ew_loops forms[2] = {{gelu_f32, gelu_f64, NULL, false, false},
                                      {gelut_f32, gelut_f64, NULL, false, false}};
    return ew_run(k, &forms[k->i[0] != 0]);
}
EW_LOOP2(gelu_b_f32, float, float, , x *sft_gelu_grad_f32(y))
EW_LOOP2(gelu_b_f64, double, double, , x *sft_gelu_grad_f64(y))
EW_LOOP2(gelut_b_f32, float, float, , x *sft_gelu_tanh_grad_f32(y))
EW_LOOP2(gelut_b_f64, double, double, , x *sft_gelu_tanh_grad_f64(y))
KERNEL(_gelu_backward)(const sft_kcall *k) {
    static const ew_loops forms[2] = {{gelu_b_f32, gelu_b_f64, NULL, false, false},
                                      {gelut_b_f32, gelut_b_f64, NULL, false, false}};
    return ew_run(k, &forms[k->i[0] != 0]);
}

BINARY_F(_relu_backward, , y > 0 ? x : 0, , y > 0 ? x : 0)
BINARY_F(_tanh_backward, , x *(1 - y * y), , x *(1 - y * y))
BINARY_F(_sigmoid_backward, , x *(y * (1 - y)), , x *(y * (1 - y)))
