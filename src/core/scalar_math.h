/* Exponentials, logarithms, powers, trigonometry and remainders, for float and double. */
#ifndef SFT_SCALAR_MATH_H
#define SFT_SCALAR_MATH_H

#define SFT_LIBM1(fn)                                                                              \
    SFT_FN float sft_##fn##_f32(float x) { return fn##f(x); }                                      \
    SFT_FN double sft_##fn##_f64(double x) { return fn(x); }
#define SFT_LIBM2(fn)                                                                              \
    SFT_FN float sft_##fn##_f32(float x, float y) { return fn##f(x, y); }                          \
    SFT_FN double sft_##fn##_f64(double x, double y) { return fn(x, y); }
SFT_LIBM1(exp)
SFT_LIBM1(exp2)
SFT_LIBM1(expm1)
SFT_LIBM1(log)
SFT_LIBM1(log2)
SFT_LIBM1(log10)
SFT_LIBM1(log1p)
SFT_LIBM1(sin)
SFT_LIBM1(cos)
SFT_LIBM1(tan)
SFT_LIBM1(asin)
SFT_LIBM1(acos)
SFT_LIBM1(atan)
SFT_LIBM1(sinh)
SFT_LIBM1(cosh)
SFT_LIBM1(tanh)
SFT_LIBM1(asinh)
SFT_LIBM1(acosh)
SFT_LIBM1(atanh)
SFT_LIBM2(pow)
SFT_LIBM2(atan2)
SFT_LIBM2(hypot)
SFT_LIBM2(fmod)
SFT_LIBM2(nextafter)

#endif
