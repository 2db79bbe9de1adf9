/* arithmetic.c: kernels of elementwise arithmetic, comparisons and bits. Each op is one line: the
 * scalar expressions for float32, float64 and int64 (x, y: the inputs). */
#include "kernels.h"

/* An op of the name of its scalar function. */
#define FN1(op, fn, i64) UNARY(op, sft_##fn##_f32(x), sft_##fn##_f64(x), i64)
#define FN1F(op) UNARY_F(op, sft_##op##_f32(x), sft_##op##_f64(x))
#define FN1B(op, i64) UNARY_B(op, sft_##op##_f32(x), sft_##op##_f64(x), i64)
#define FN2(op) BINARY(op, , sft_##op##_f32(x, y), , sft_##op##_f64(x, y), , sft_##op##_i64(x, y))
#define FN2F(op) BINARY_F(op, , sft_##op##_f32(x, y), , sft_##op##_f64(x, y))

/* ---- one input ------------------------------------------------------------------------------- */

UNARY(neg, -x, -x, sft_neg_i64(x))
FN1(abs, abs, sft_abs_i64(x))
FN1(sign, sign, sft_sign_i64(x))
FN1(floor, floor, x)
FN1(ceil, ceil, x)
FN1(trunc, trunc, x)
FN1(_round, round, x)
FN1F(frac)
FN1(relu, relu, sft_relu_i64(x))
FN1F(sqrt)
FN1F(rsqrt)
FN1F(reciprocal)
FN1F(deg2rad)
FN1F(rad2deg)
FN1B(isnan, ((void)x, 0))
FN1B(isinf, ((void)x, 0))
FN1B(isfinite, ((void)x, 1))
FN1B(isposinf, ((void)x, 0))
FN1B(isneginf, ((void)x, 0))
FN1B(signbit, x < 0)
UNARY_B(logical_not, x == 0, x == 0, x == 0)

EW_LOOP1(bitwise_not_i64, int64_t, int64_t, ~x)
KERNEL(bitwise_not)(const sft_kcall *k) {
    static const ew_loops loops = {NULL, NULL, bitwise_not_i64, false, false};
    return ew_run(k, &loops);
}

/* ---- two inputs ------------------------------------------------------------------------------ */

EW_LOOP2(add_f32, float, float, , x + y)
EW_LOOP2(add_f64, double, double, , x + y)
EW_LOOP2(add_i64, int64_t, int64_t, const int64_t alpha = k->i[0],
         sft_add_i64(x, sft_mul_i64(alpha, y)))
EW_LOOP2(axpy_f32, float, float, const float alpha = (float)k->f[0], x + alpha * y)
EW_LOOP2(axpy_f64, double, double, const double alpha = k->f[0], x + alpha * y)
KERNEL(add)(const sft_kcall *k) {
    static const ew_loops plain = {add_f32, add_f64, add_i64, false, false};
    static const ew_loops scaled = {axpy_f32, axpy_f64, add_i64, false, false};
    return ew_run(k, k->f[0] == 1 ? &plain : &scaled);
}

EW_LOOP2(sub_f32, float, float, , x - y)
EW_LOOP2(sub_f64, double, double, , x - y)
EW_LOOP2(sub_i64, int64_t, int64_t, const int64_t alpha = k->i[0],
         sft_sub_i64(x, sft_mul_i64(alpha, y)))
EW_LOOP2(asub_f32, float, float, const float alpha = (float)k->f[0], x - alpha * y)
EW_LOOP2(asub_f64, double, double, const double alpha = k->f[0], x - alpha * y)
KERNEL(sub)(const sft_kcall *k) {
    static const ew_loops plain = {sub_f32, sub_f64, sub_i64, false, false};
    static const ew_loops scaled = {asub_f32, asub_f64, sub_i64, false, false};
    return ew_run(k, k->f[0] == 1 ? &plain : &scaled);
}

BINARY(mul, , x *y, , x *y, , sft_mul_i64(x, y))

/* div: i[0] is 0 for true division, 1 for trunc, 2 for floor. */
EW_LOOP2(div_f32, float, float, , x / y)
EW_LOOP2(div_f64, double, double, , x / y)
EW_LOOP2(divt_f32, float, float, , sft_trunc_divide_f32(x, y))
EW_LOOP2(divt_f64, double, double, , sft_trunc_divide_f64(x, y))
EW_LOOP2(divt_i64, int64_t, int64_t, , sft_trunc_divide_i64(x, y))
FN2(floor_divide)
KERNEL(div)(const sft_kcall *k) {
    static const ew_loops modes[3] = {
        {div_f32, div_f64, NULL, false, false},
        {divt_f32, divt_f64, divt_i64, false, false},
        {floor_divide_f32, floor_divide_f64, floor_divide_i64, false, false}};
    return ew_run(k, &modes[k->i[0]]);
}
FN2(remainder)
FN2(fmod)
FN2(maximum)
FN2(minimum)
BINARY(fmax, , sft_fmax_f32(x, y), , sft_fmax_f64(x, y), , sft_maximum_i64(x, y))
BINARY(fmin, , sft_fmin_f32(x, y), , sft_fmin_f64(x, y), , sft_minimum_i64(x, y))
FN2(heaviside)
FN2F(hypot)
FN2F(copysign)
FN2F(nextafter)

COMPARE(eq, x == y)
COMPARE(ne, x != y)
COMPARE(lt, x < y)
COMPARE(le, x <= y)
COMPARE(gt, x > y)
COMPARE(ge, x >= y)
COMPARE(logical_and, (x != 0) & (y != 0))
COMPARE(logical_or, (x != 0) | (y != 0))
COMPARE(logical_xor, (x != 0) ^ (y != 0))

#define BITS(op, expr)                                                                             \
    EW_LOOP2(op##_i64, int64_t, int64_t, , expr)                                                   \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {NULL, NULL, op##_i64, false, false};                        \
        return ew_run(k, &loops);                                                                  \
    }
BITS(bitwise_and, x &y)
BITS(bitwise_or, x | y)
BITS(bitwise_xor, x ^ y)
BITS(bitwise_left_shift, sft_lshift_i64(x, y))
BITS(bitwise_right_shift, sft_rshift_i64(x, y))
BITS(gcd, sft_gcd_i64(x, y))
BITS(lcm, sft_lcm_i64(x, y))

/* ---- three inputs ---------------------------------------------------------------------------- */

EW_LOOP3(where_f32, float, uint8_t, float, , x ? y : z)
EW_LOOP3(where_f64, double, uint8_t, double, , x ? y : z)
EW_LOOP3(where_i64, int64_t, uint8_t, int64_t, , x ? y : z)
KERNEL(where)(const sft_kcall *k) {
    static const ew_loops loops = {where_f32, where_f64, where_i64, false, true};
    return ew_run(k, &loops);
}

EW_LOOP3(lerp_f32, float, float, float, , sft_lerp_f32(x, y, z))
EW_LOOP3(lerp_f64, double, double, double, , sft_lerp_f64(x, y, z))
KERNEL(lerp)(const sft_kcall *k) {
    static const ew_loops loops = {lerp_f32, lerp_f64, NULL, false, false};
    return ew_run(k, &loops);
}

EW_LOOP3(addcmul_f32, float, float, float, const float v = (float)k->f[0], x + v * y * z)
EW_LOOP3(addcmul_f64, double, double, double, const double v = k->f[0], x + v * y * z)
EW_LOOP3(addcmul_i64, int64_t, int64_t, int64_t, const int64_t v = k->i[0],
         sft_add_i64(x, sft_mul_i64(v, sft_mul_i64(y, z))))
KERNEL(addcmul)(const sft_kcall *k) {
    static const ew_loops loops = {addcmul_f32, addcmul_f64, addcmul_i64, false, false};
    return ew_run(k, &loops);
}
EW_LOOP3(addcdiv_f32, float, float, float, const float v = (float)k->f[0], x + v * (y / z))
EW_LOOP3(addcdiv_f64, double, double, double, const double v = k->f[0], x + v * (y / z))
KERNEL(addcdiv)(const sft_kcall *k) {
    static const ew_loops loops = {addcdiv_f32, addcdiv_f64, NULL, false, false};
    return ew_run(k, &loops);
}

/* ---- with numbers ---------------------------------------------------------------------------- */

/* Bounds as floats (f) and, for integers, as integers (i). */
EW_LOOP1K(clamp_f32, float, const float lo = (float)k->f[0]; const float hi = (float)k->f[1],
          sft_clamp_f32(x, lo, hi))
EW_LOOP1K(clamp_f64, double, const double lo = k->f[0]; const double hi = k->f[1],
          sft_clamp_f64(x, lo, hi))
EW_LOOP1K(clamp_i64, int64_t, const int64_t lo = k->i[0]; const int64_t hi = k->i[1],
          sft_clamp_i64(x, lo, hi))
KERNEL(clamp)(const sft_kcall *k) {
    static const ew_loops loops = {clamp_f32, clamp_f64, clamp_i64, false, false};
    return ew_run(k, &loops);
}
KERNEL(hardtanh)(const sft_kcall *k) { return KN(cpu_clamp)(k); }

EW_LOOP1K(nan_f32, float, const float nan = (float)k->f[0]; const float hi = (float)k->f[1];
          const float lo = (float)k->f[2], sft_nan_to_num_f32(x, nan, hi, lo))
EW_LOOP1K(nan_f64, double, const double nan = k->f[0]; const double hi = k->f[1];
          const double lo = k->f[2], sft_nan_to_num_f64(x, nan, hi, lo))
EW_LOOP1(nan_i64, int64_t, int64_t, x)
KERNEL(nan_to_num)(const sft_kcall *k) {
    static const ew_loops loops = {nan_f32, nan_f64, nan_i64, false, false};
    return ew_run(k, &loops);
}
