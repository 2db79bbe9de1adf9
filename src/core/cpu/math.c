/* math.c: kernels of the transcendental functions. */
#include "kernels.h"

#define FN(op) UNARY_F(op, sft_##op##_f32(x), sft_##op##_f64(x))
#define FN2(op) BINARY_F(op, , sft_##op##_f32(x, y), , sft_##op##_f64(x, y))

FN(exp)
FN(exp2)
FN(expm1)
FN(log)
FN(log2)
FN(log10)
FN(log1p)
/* Where all arguments are moderate, as they nearly always are, the cheap reduction will do. */
static bool all_near(int64_t n, const float *p) {
    float top = 0;
    for (int64_t i = 0; i < n; i++) top = sft_abs_f32(p[i]) > top ? sft_abs_f32(p[i]) : top;
    return top <= SFT_TRIG_NEAR_F32; /* a NaN is skipped, and stays NaN in both */
}
#define TRIG(op)                                                                                   \
    EW_LOOP1(op##_near_f32, float, float, sft_##op##_near_f32(x))                                  \
    EW_LOOP1(op##_far_f32, float, float, sft_##op##_f32(x))                                        \
    static void op##_f32(int64_t n, void *out, const void *a, const void *b, const void *c,        \
                         const sft_kcall *k) {                                                     \
        for (int64_t i = 0; i < n; i += SFT_BLOCK) {                                               \
            int64_t m = n - i < SFT_BLOCK ? n - i : SFT_BLOCK;                                     \
            const float *p = (const float *)a + i;                                                 \
            (all_near(m, p) ? op##_near_f32 : op##_far_f32)(m, (float *)out + i, p, b, c, k);      \
        }                                                                                          \
    }                                                                                              \
    EW_LOOP1(op##_f64, double, double, sft_##op##_f64(x))                                          \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, NULL, false, false};                    \
        return ew_run(k, &loops);                                                                  \
    }
TRIG(sin)
TRIG(cos)
TRIG(tan)
FN(asin)
FN(acos)
FN(atan)
FN(sinh)
FN(cosh)
FN(tanh)
FN(asinh)
FN(acosh)
FN(atanh)
FN(erf)
FN(erfc)
FN(erfinv)
FN(lgamma)
FN(digamma)
FN(sigmoid)
FN2(atan2)
FN2(xlogy)

EW_LOOP1K(logit_f32, float, const float eps = (float)k->f[0], sft_logit_f32(x, eps))
EW_LOOP1K(logit_f64, double, const double eps = k->f[0], sft_logit_f64(x, eps))
KERNEL(logit)(const sft_kcall *k) {
    static const ew_loops loops = {logit_f32, logit_f64, NULL, false, false};
    return ew_run(k, &loops);
}

/* Powers that occur often are products. */
EW_LOOP2(pow_f32, float, float, , sft_pow_f32(x, y))
EW_LOOP2(pow_f64, double, double, , sft_pow_f64(x, y))
EW_LOOP2(pow_i64, int64_t, int64_t, , sft_pow_i64(x, y))
EW_LOOP1(square_f32, float, float, x *x)
EW_LOOP1(square_f64, double, double, x *x)
EW_LOOP1(cube_f32, float, float, x *x *x)
EW_LOOP1(cube_f64, double, double, x *x *x)
EW_LOOP1(root_f32, float, float, sft_sqrt_f32(x))
EW_LOOP1(root_f64, double, double, sft_sqrt_f64(x))
KERNEL(pow)(const sft_kcall *k) {
    static const ew_loops general = {pow_f32, pow_f64, pow_i64, false, false};
    static const ew_loops square = {square_f32, square_f64, pow_i64, false, false};
    static const ew_loops cube = {cube_f32, cube_f64, pow_i64, false, false};
    static const ew_loops root = {root_f32, root_f64, pow_i64, false, false};
    const ew_loops *l = k->f[0] == 2 ? &square : k->f[0] == 3 ? &cube : k->f[0] == 0.5 ? &root : &general;
    return ew_run(k, l);
}
