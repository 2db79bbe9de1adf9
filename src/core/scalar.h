/* Scalar arithmetic of the elementwise ops, one value at a time.
 *
 * Each function is written once and is compiled for the CPU, where the compiler vectorises the
 * loops that call it, and for CUDA. So the float32 functions have no branches, only selects, and
 * call nothing that has no vector form. Names: sft_<fn>_f32 / _f64 / _i64.
 *
 * This file holds what every type needs (bits, multiply-add) and pulls in the rest:
 *   scalar_double.h   exp and log in double
 *   scalar_math.h     exp, log, hyperbolics, powers, remainders
 *   scalar_trig.h     sin to atan2
 *   scalar_special.h  erf, the gamma family, and functions built on them
 *   scalar_real.h     the functions whose text is the same for float and double (included twice)
 *   scalar_int.h      int64 arithmetic that wraps and never traps
 *   scalar_convert.h  conversions between dtypes
 *
 * To be compiled with -ffp-contract=off -fno-math-errno -fno-trapping-math and without -ffast-math:
 * NaN and infinity must mean what IEEE 754 says.
 */
#ifndef SFT_SCALAR_H
#define SFT_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define SFT_FN static __device__ __forceinline__
#else
#define SFT_FN static inline __attribute__((always_inline))
#endif

#define SFT_INF_F32 __builtin_inff()
#define SFT_NAN_F32 __builtin_nanf("")
#define SFT_INF_F64 __builtin_inf()
#define SFT_NAN_F64 __builtin_nan("")

SFT_FN uint32_t sft_bits_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SFT_FN float sft_frombits_f32(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

SFT_FN uint64_t sft_bits_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SFT_FN double sft_frombits_f64(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* a * b + c, with one rounding where the target has an instruction for it, else with two. */
SFT_FN float sft_madd_f32(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

SFT_FN double sft_madd_f64(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

#include "scalar_double.h"
#include "scalar_math.h"
#include "scalar_trig.h"
#include "scalar_special.h"

#define SFT_R       float
#define SFT_N(name) sft_##name##_f32
#define SFT_C(x)    x##f
#define SFT_M(fn)   fn##f
#include "scalar_real.h"
#undef SFT_R
#undef SFT_N
#undef SFT_C
#undef SFT_M

#define SFT_R       double
#define SFT_N(name) sft_##name##_f64
#define SFT_C(x)    x
#define SFT_M(fn)   fn
#include "scalar_real.h"
#undef SFT_R
#undef SFT_N
#undef SFT_C
#undef SFT_M

#include "scalar_int.h"
#include "scalar_convert.h"

#undef SFT_LIBM1
#undef SFT_LIBM2

#endif
