/* arithmetic.c: kernels of elementwise arithmetic and comparisons. Each op is one line: the scalar
 * expressions for float32, float64 and int64 (x, y: the inputs). */
#include "kernels.h"

#define UNARY(op, f32, f64, i64)                                                                   \
    EW_LOOP1(op##_f32, float, float, f32)                                                          \
    EW_LOOP1(op##_f64, double, double, f64)                                                        \
    EW_LOOP1(op##_i64, int64_t, int64_t, i64)                                                      \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, false, false};                \
        return ew_run(k, &loops);                                                                  \
    }
/* Floating only; integers were promoted. */
#define UNARY_F(op, f32, f64)                                                                      \
    EW_LOOP1(op##_f32, float, float, f32)                                                          \
    EW_LOOP1(op##_f64, double, double, f64)                                                        \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, NULL, false, false};                    \
        return ew_run(k, &loops);                                                                  \
    }
#define UNARY_B(op, f32, f64, i64)                                                                 \
    EW_LOOP1(op##_f32, uint8_t, float, f32)                                                        \
    EW_LOOP1(op##_f64, uint8_t, double, f64)                                                       \
    EW_LOOP1(op##_i64, uint8_t, int64_t, i64)                                                      \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, true, false};                 \
        return ew_run(k, &loops);                                                                  \
    }
#define BINARY(op, setup_f32, f32, setup_f64, f64, setup_i64, i64)                                 \
    EW_LOOP2(op##_f32, float, float, setup_f32, f32)                                               \
    EW_LOOP2(op##_f64, double, double, setup_f64, f64)                                             \
    EW_LOOP2(op##_i64, int64_t, int64_t, setup_i64, i64)                                           \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, false, false};                \
        return ew_run(k, &loops);                                                                  \
    }
#define COMPARE(op, expr)                                                                          \
    EW_LOOP2(op##_f32, uint8_t, float, , expr)                                                     \
    EW_LOOP2(op##_f64, uint8_t, double, , expr)                                                    \
    EW_LOOP2(op##_i64, uint8_t, int64_t, , expr)                                                   \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, true, false};                 \
        return ew_run(k, &loops);                                                                  \
    }

#define U(x) ((uint64_t)(x)) /* wraps without undefined behaviour */

UNARY(neg, -x, -x, (int64_t)(0 - U(x)))
UNARY(abs, sft_abs_f32(x), sft_abs_f64(x), (int64_t)(x < 0 ? 0 - U(x) : U(x)))
UNARY(sign, sft_sign_f32(x), sft_sign_f64(x), (x > 0) - (x < 0))
UNARY(relu, sft_relu_f32(x), sft_relu_f64(x), x < 0 ? 0 : x)
UNARY_F(exp, sft_exp_f32(x), sft_exp_f64(x))
UNARY_F(log, sft_log_f32(x), sft_log_f64(x))
UNARY_F(sqrt, sft_sqrt_f32(x), sft_sqrt_f64(x))
UNARY_F(tanh, sft_tanh_f32(x), sft_tanh_f64(x))
UNARY_F(sigmoid, sft_sigmoid_f32(x), sft_sigmoid_f64(x))
UNARY_B(isnan, x != x, x != x, ((void)x, 0))

EW_LOOP2(add_f32, float, float, , x + y)
EW_LOOP2(add_f64, double, double, , x + y)
EW_LOOP2(add_i64, int64_t, int64_t, const uint64_t alpha = (uint64_t)k->i[0],
         (int64_t)(U(x) + alpha * U(y)))
EW_LOOP2(axpy_f32, float, float, const float alpha = (float)k->f[0], x + alpha * y)
EW_LOOP2(axpy_f64, double, double, const double alpha = k->f[0], x + alpha * y)
KERNEL(add)(const sft_kcall *k) {
    static const ew_loops plain = {add_f32, add_f64, add_i64, false, false};
    static const ew_loops scaled = {axpy_f32, axpy_f64, add_i64, false, false};
    return ew_run(k, k->f[0] == 1 ? &plain : &scaled);
}

EW_LOOP2(sub_f32, float, float, , x - y)
EW_LOOP2(sub_f64, double, double, , x - y)
EW_LOOP2(sub_i64, int64_t, int64_t, const uint64_t alpha = (uint64_t)k->i[0],
         (int64_t)(U(x) - alpha * U(y)))
EW_LOOP2(asub_f32, float, float, const float alpha = (float)k->f[0], x - alpha * y)
EW_LOOP2(asub_f64, double, double, const double alpha = k->f[0], x - alpha * y)
KERNEL(sub)(const sft_kcall *k) {
    static const ew_loops plain = {sub_f32, sub_f64, sub_i64, false, false};
    static const ew_loops scaled = {asub_f32, asub_f64, sub_i64, false, false};
    return ew_run(k, k->f[0] == 1 ? &plain : &scaled);
}

BINARY(mul, , x * y, , x * y, , (int64_t)(U(x) * U(y)))
EW_LOOP2(div_f32, float, float, , x / y)
EW_LOOP2(div_f64, double, double, , x / y)
KERNEL(div)(const sft_kcall *k) {
    static const ew_loops loops = {div_f32, div_f64, NULL, false, false};
    return ew_run(k, &loops);
}
COMPARE(eq, x == y)
COMPARE(lt, x < y)
COMPARE(gt, x > y)
