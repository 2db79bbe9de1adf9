/* Tests of the scalar arithmetic (scalar.h): float32 functions against libm in double over samples
 * of all floats, float64 ones against long double, special values, integers, conversions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scalar.h"

#define INF  SFT_INF_F32
#define NANF SFT_NAN_F32

static uint32_t random_bits(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* Distance in units of the last place of `want`, which is rounded to float only beyond its range.
 */
static double ulps_f32(float got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e30;
    if (got == (float)want) return 0;
    if (isinf(want)) return 1e30;
    double have = isinf(got) ? copysign(0x1p128, got) : (double)got;
    int e = want == 0 ? -149 : ilogb(want) - 23;
    return fabs(have - want) / ldexp(1, e < -149 ? -149 : e);
}

static double ulps_f64(double got, long double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e30;
    if (got == (double)want) return 0;
    if (isinf(got) || isinf((double)want)) return 1e30;
    int e = want == 0 ? -1074 : ilogbl(want) - 52;
    return (double)(fabsl((long double)got - want) / ldexpl(1, e < -1074 ? -1074 : e));
}

/* ---- float32 functions of one argument ---- */

static double ref_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double ref_silu(double x) { return x * ref_sigmoid(x); }
static double ref_softplus(double x) { return x > 20 ? x : log1p(exp(x)); }
static double ref_logsigmoid(double x) { return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }
static double ref_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double ref_gelu_tanh(double x) {
    return x * ref_sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}
static double ref_mish(double x) { return x * tanh(x > 40 ? x : log1p(exp(x))); }
static double ref_rsqrt(double x) { return 1 / sqrt(x); }
static double ref_reciprocal(double x) { return 1 / x; }
static double ref_elu(double x) { return x > 0 ? x : expm1(x); }
static double ref_selu(double x) {
    return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * expm1(x));
}
static double ref_celu(double x) { return x > 0 ? x : 2 * expm1(x / 2); }
static double ref_hardsigmoid(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5; }
static double ref_hardswish(double x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x / 6 + 0.5); }
static double ref_logit(double x) { return log(x / (1 - x)); }
static double ref_frac(double x) { return x - trunc(x); }
static float elu_one(float x) { return sft_elu_f32(x, 1, 1, 1); }
static float celu_two(float x) { return sft_celu_f32(x, 2); }
static float softplus_one(float x) { return sft_softplus_f32(x, 1, 20); }
static float logit_plain(float x) { return sft_logit_f32(x, -1); }

typedef struct unary {
    const char *name;
    float (*fn)(float);
    double (*ref)(double);
    double ulps;  /* allowed */
    double slack; /* absolute error allowed besides: subnormal results may be flushed to 0, and
                   * where terms cancel only the absolute error is bounded */
    double lo, hi;
} unary;

/* Functions that are inlined everywhere else: here one address each. */
#define AT(fn)                                                                                     \
    static float at_##fn(float x) { return sft_##fn##_f32(x); }
AT(exp)
AT(exp2)
AT(expm1) AT(log) AT(log2) AT(log10) AT(log1p) AT(sin) AT(cos) AT(tan) AT(asin) AT(acos) AT(atan)
    AT(sinh) AT(cosh) AT(tanh) AT(asinh) AT(acosh) AT(atanh) AT(erf) AT(erfc) AT(sigmoid) AT(silu)
        AT(gelu) AT(gelu_tanh) AT(mish) AT(logsigmoid) AT(rsqrt) AT(sqrt) AT(reciprocal) AT(selu)
            AT(hardsigmoid) AT(hardswish) AT(lgamma) AT(round) AT(floor) AT(ceil) AT(trunc) AT(frac)
                AT(sin_near) AT(cos_near) AT(tan_near)

#define FLUSH 0x1p-119
                    static const unary unaries[] = {
                        {"exp", at_exp, exp, 1.25, 0, -INF, INF},
                        {"exp2", at_exp2, exp2, 1.25, 0, -INF, INF},
                        {"expm1", at_expm1, expm1, 2, 0, -INF, INF},
                        {"log", at_log, log, 1.25, 0, -INF, INF},
                        {"log2", at_log2, log2, 1.5, 0, -INF, INF},
                        {"log10", at_log10, log10, 2, 0, -INF, INF},
                        {"log1p", at_log1p, log1p, 2, 0, -INF, INF},
                        {"sqrt", at_sqrt, sqrt, 0.5, 0, -INF, INF},
                        {"rsqrt", at_rsqrt, ref_rsqrt, 2, 0, -INF, INF},
                        {"reciprocal", at_reciprocal, ref_reciprocal, 0.5, 0, -INF, INF},
                        {"sin", at_sin, sin, 2, 0, -INF, INF},
                        {"cos", at_cos, cos, 2, 0, -INF, INF},
                        {"tan", at_tan, tan, 4, 0, -INF, INF},
                        {"sin_near", at_sin_near, sin, 2, 0, -SFT_TRIG_NEAR_F32, SFT_TRIG_NEAR_F32},
                        {"cos_near", at_cos_near, cos, 2, 0, -SFT_TRIG_NEAR_F32, SFT_TRIG_NEAR_F32},
                        {"tan_near", at_tan_near, tan, 4, 0, -SFT_TRIG_NEAR_F32, SFT_TRIG_NEAR_F32},
                        {"asin", at_asin, asin, 3, 0, -INF, INF},
                        {"acos", at_acos, acos, 2, 0, -INF, INF},
                        {"atan", at_atan, atan, 2.5, 0, -INF, INF},
                        {"sinh", at_sinh, sinh, 2, 0, -INF, INF},
                        {"cosh", at_cosh, cosh, 2, 0, -INF, INF},
                        {"tanh", at_tanh, tanh, 2, 0, -INF, INF},
                        {"asinh", at_asinh, asinh, 2, 0, -INF, INF},
                        {"acosh", at_acosh, acosh, 2, 0, -INF, INF},
                        {"atanh", at_atanh, atanh, 2.5, 0, -INF, INF},
                        {"erf", at_erf, erf, 2.5, 0, -INF, INF},
                        {"erfc", at_erfc, erfc, 5.5, 0, -INF, INF},
                        {"lgamma", at_lgamma, lgamma, 4, 0, 0, INF},
                        {"round", at_round, rint, 0, 0, -INF, INF},
                        {"floor", at_floor, floor, 0, 0, -INF, INF},
                        {"ceil", at_ceil, ceil, 0, 0, -INF, INF},
                        {"trunc", at_trunc, trunc, 0, 0, -INF, INF},
                        {"frac", at_frac, ref_frac, 0, 0, -3e38, 3e38},
                        {"sigmoid", at_sigmoid, ref_sigmoid, 3, FLUSH, -INF, INF},
                        {"silu", at_silu, ref_silu, 3.5, FLUSH, -1e30, INF},
                        {"softplus", softplus_one, ref_softplus, 2, FLUSH, -INF, INF},
                        {"logsigmoid", at_logsigmoid, ref_logsigmoid, 2, FLUSH, -INF, INF},
                        {"gelu", at_gelu, ref_gelu, 7, FLUSH, -1e30, INF},
                        {"gelu_tanh", at_gelu_tanh, ref_gelu_tanh, 8, 1e-8, -1e30, INF},
                        {"mish", at_mish, ref_mish, 5, FLUSH, -1e30, INF},
                        {"elu", elu_one, ref_elu, 2, 0, -INF, INF},
                        {"selu", at_selu, ref_selu, 3, 0, -INF, INF},
                        {"celu", celu_two, ref_celu, 2, 0, -INF, INF},
                        {"hardsigmoid", at_hardsigmoid, ref_hardsigmoid, 2, 1e-7, -INF, INF},
                        {"hardswish", at_hardswish, ref_hardswish, 2, 3e-7, -1e30, INF},
                        {"logit", logit_plain, ref_logit, 2, 2e-7, 0, 1},
};

static void check_unary(const unary *u, float x) {
    if (!(x >= u->lo && x <= u->hi) && x == x) return;
    float got = u->fn(x);
    double want = u->ref((double)x);
    if (ulps_f32(got, want) <= u->ulps || fabs((double)got - want) <= u->slack) return;
    fail_msg("%s(%.9g) = %.9g, expected %.9g: off by %g ulp, %g allowed", u->name, (double)x,
             (double)got, want, ulps_f32(got, want), u->ulps);
}

static void test_unary(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++) {
        const unary *u = &unaries[i];
        for (uint64_t b = 0; b <= UINT32_MAX; b += 65521)
            check_unary(u, sft_frombits_f32((uint32_t)b));
        for (int k = -10000; k <= 10000; k++) check_unary(u, (float)k * 0.00213f);
        for (int k = 0; k < 5000; k++) /* around 1, where logarithms cancel */
            check_unary(u, 1.0f + (float)(int32_t)random_bits() * 0x1p-34f);
        for (int k = -300; k <= 300; k++) check_unary(u, (float)(k * 1.57079632679489661923));
        static const float edge[] = {
            0.0f,   -0.0f,          1.0f,       -1.0f,     INF,   -INF,   NANF,
            89.0f,  -104.0f,        88.7228f,   -103.972f, 0.5f,  -0.5f,  1e-45f,
            3e38f,  -3e38f,         0x1p-126f,  0x1p-127f, 1e10f, -1e10f, 20.0f,
            -20.0f, 0x1.fffffep-1f, 8388607.5f, 2.5f,      3.5f,  -2.5f,  0x1p31f};
        for (size_t k = 0; k < sizeof edge / sizeof *edge; k++) check_unary(u, edge[k]);
    }
}

/* ---- special values ---- */

static bool same_f32(float a, float b) {
    return (a != a && b != b) || (a == b && !signbit(a) == !signbit(b));
}
static bool same_f64(double a, double b) {
    return (a != a && b != b) || (a == b && !signbit(a) == !signbit(b));
}
#define SAME(got, want)                                                                            \
    do {                                                                                           \
        float got_ = (got), want_ = (want);                                                        \
        if (!same_f32(got_, want_))                                                                \
            fail_msg(#got " = %.9g, expected %.9g", (double)got_, (double)want_);                  \
    } while (0)
#define SAME64(got, want)                                                                          \
    do {                                                                                           \
        double got_ = (got), want_ = (want);                                                       \
        if (!same_f64(got_, want_)) fail_msg(#got " = %.17g, expected %.17g", got_, want_);        \
    } while (0)

static void test_special_unary(void **state) {
    (void)state;
    SAME(sft_exp_f32(89.0f), INF);
    SAME(sft_exp_f32(-104.0f), 0.0f);
    SAME(sft_exp_f32(0.0f), 1.0f);
    SAME(sft_exp_f32(-103.0f), 0x1p-149f);
    SAME(sft_exp2_f32(-149.0f), 0x1p-149f);
    SAME(sft_exp2_f32(127.0f), 0x1p127f);
    SAME(sft_exp2_f32(128.0f), INF);
    SAME(sft_expm1_f32(-0.0f), -0.0f);
    SAME(sft_expm1_f32(-INF), -1.0f);
    SAME(sft_expm1_f32(0x1p-149f), 0x1p-149f);
    SAME(sft_log_f32(0.0f), -INF);
    SAME(sft_log_f32(-0.0f), -INF);
    SAME(sft_log_f32(-1.0f), NANF);
    SAME(sft_log_f32(-INF), NANF);
    SAME(sft_log_f32(1.0f), 0.0f);
    SAME(sft_log2_f32(0x1p-149f), -149.0f);
    SAME(sft_log2_f32(8.0f), 3.0f);
    SAME(sft_log1p_f32(-1.0f), -INF);
    SAME(sft_log1p_f32(-1.5f), NANF);
    SAME(sft_log1p_f32(-0.0f), -0.0f);
    SAME(sft_sin_f32(-0.0f), -0.0f);
    SAME(sft_sin_f32(INF), NANF);
    SAME(sft_cos_f32(-INF), NANF);
    SAME(sft_cos_f32(0.0f), 1.0f);
    SAME(sft_tan_f32(-0.0f), -0.0f);
    SAME(sft_asin_f32(1.5f), NANF);
    SAME(sft_acos_f32(1.0f), 0.0f);
    SAME(sft_tanh_f32(INF), 1.0f);
    SAME(sft_tanh_f32(-INF), -1.0f);
    SAME(sft_tanh_f32(-0.0f), -0.0f);
    SAME(sft_sinh_f32(-INF), -INF);
    SAME(sft_cosh_f32(-INF), INF);
    SAME(sft_acosh_f32(0.5f), NANF);
    SAME(sft_atanh_f32(1.0f), INF);
    SAME(sft_atanh_f32(-1.0f), -INF);
    SAME(sft_atanh_f32(2.0f), NANF);
    SAME(sft_erf_f32(-INF), -1.0f);
    SAME(sft_erfc_f32(INF), 0.0f);
    SAME(sft_erfc_f32(-INF), 2.0f);
    SAME(sft_erfinv_f32(1.0f), INF);
    SAME(sft_erfinv_f32(-1.0f), -INF);
    SAME(sft_erfinv_f32(1.1f), NANF);
    SAME(sft_lgamma_f32(1.0f), 0.0f);
    SAME(sft_lgamma_f32(-3.0f), INF);
    SAME(sft_lgamma_f32(-INF), INF);
    SAME(sft_digamma_f32(0.0f), -INF);
    SAME(sft_digamma_f32(-0.0f), INF);
    SAME(sft_digamma_f32(-4.0f), NANF);
    SAME(sft_digamma_f32(INF), INF);
    SAME(sft_digamma_f32(NANF), NANF);
    SAME(sft_sigmoid_f32(INF), 1.0f);
    SAME(sft_sigmoid_f32(-INF), 0.0f);
    SAME(sft_gelu_f32(INF), INF);
    SAME(sft_gelu_grad_f32(INF), 1.0f);
    SAME(sft_gelu_grad_f32(NANF), NANF);
    assert_true(sft_gelu_tanh_grad_f32(-INF) == 0.0f);
    SAME(sft_sign_f32(NANF), 0.0f);
    SAME(sft_sign_f32(-0.5f), -1.0f);
    SAME(sft_relu_f32(NANF), NANF);
    SAME(sft_relu_f32(-1.0f), 0.0f);
    SAME(sft_relu6_f32(NANF), NANF);
    SAME(sft_leaky_relu_f32(-2.0f, 0.5f), -1.0f);
    SAME(sft_nan_to_num_f32(NANF, 1, 2, 3), 1.0f);
    SAME(sft_nan_to_num_f32(INF, 1, 2, 3), 2.0f);
    SAME(sft_nan_to_num_f32(-INF, 1, 2, 3), 3.0f);
    SAME(sft_logit_f32(0.0f, 0.25f), sft_logit_f32(0.25f, -1.0f));
    assert_true(sft_isnan_f32(NANF) && !sft_isnan_f32(INF) && sft_isnan_f64(SFT_NAN_F64));
    assert_true(sft_isinf_f32(-INF) && !sft_isinf_f32(NANF) && !sft_isinf_f64(1e308));
    assert_true(sft_isfinite_f32(3e38f) && !sft_isfinite_f32(NANF) && !sft_isfinite_f32(-INF));
    assert_true(sft_signbit_f32(-0.0f) && !sft_signbit_f32(0.0f));
}

/* Derivatives against differences of the reference: near their roots only the absolute error. */
static void test_derivatives(void **state) {
    (void)state;
    for (int k = -600; k <= 600; k++) {
        double x = k * 0.0251, h = 1e-5;
#define SLOPE(ref, got)                                                                            \
    do {                                                                                           \
        double want_ = (ref(x + h) - ref(x - h)) / (2 * h);                                        \
        if (!(fabs(want_ - (double)(got)) < 2e-6))                                                 \
            fail_msg(#got " at %g: %g, expected %g", x, (double)(got), want_);                     \
    } while (0)
        SLOPE(ref_gelu, sft_gelu_grad_f32((float)x));
        SLOPE(ref_gelu, sft_gelu_grad_f64(x));
        SLOPE(ref_gelu_tanh, sft_gelu_tanh_grad_f32((float)x));
        SLOPE(ref_gelu_tanh, sft_gelu_tanh_grad_f64(x));
        SLOPE(ref_silu, sft_silu_grad_f32((float)x));
        SLOPE(ref_mish, sft_mish_grad_f32((float)x));
        SLOPE(ref_sigmoid, sft_sigmoid_grad_f32((float)x));
        SLOPE(ref_softplus, sft_softplus_grad_f32((float)x, 1, 20));
        if (k == 0) continue;
        SLOPE(ref_selu, sft_selu_grad_f32((float)x));
        SLOPE(ref_celu, sft_celu_grad_f32((float)x, 2));
    }
}

/* Inverse and recurrence relations, where libm has no reference. */
static void test_erfinv_and_digamma(void **state) {
    (void)state;
    for (int k = -999; k <= 999; k++) {
        double x = k * 0.001, y = sft_erfinv_f64(x);
        if (ulps_f64(erf(y), (long double)x) > 4) fail_msg("erfinv of %g", x);
        float xf = (float)x;
        if (ulps_f32(sft_erfinv_f32(xf), sft_erfinv_f64((double)xf)) > 4)
            fail_msg("erfinv32 of %g", x);
    }
    assert_true(fabs(sft_digamma_f64(1) + 0.57721566490153286061) < 1e-15);
    assert_true(fabs(sft_digamma_f64(0.5) + 1.96351002602142347944) < 1e-15);
    assert_true(fabs(sft_digamma_f64(100) - 4.60016185273808740110) < 1e-15);
    assert_true(fabs(sft_digamma_f64(-1.5) - 0.70315664064524318723) < 1e-14);
    for (int k = -2000; k <= 2000; k++) {
        float x = (float)k * 0.00731f;
        if (x == truncf(x)) continue;
        double want = sft_digamma_f64((double)x);
        if (ulps_f32(sft_digamma_f32(x), want) > 1) fail_msg("digamma of %.9g", (double)x);
    }
}

/* ---- functions of two arguments ---- */

static float ref_floor_divide(float a, float b) {
    if (b == 0) return a / b;
    float mod = fmodf(a, b), div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
    if (div == 0) return copysignf(0, a / b);
    float down = floorf(div);
    return div - down > 0.5f ? down + 1 : down;
}
static float ref_remainder(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

static void check_pair(float a, float b) {
    double x = (double)a, y = (double)b;
#define NEAR(fn, limit)                                                                            \
    do {                                                                                           \
        double off_ = ulps_f32(sft_##fn##_f32(a, b), fn(x, y));                                    \
        if (off_ > (limit))                                                                        \
            fail_msg(#fn "(%.9g, %.9g) = %.9g, expected %.9g", x, y, (double)sft_##fn##_f32(a, b), \
                     fn(x, y));                                                                    \
    } while (0)
    NEAR(pow, 1);
    NEAR(atan2, 2);
    NEAR(hypot, 1);
#define EXACT(fn, want)                                                                            \
    do {                                                                                           \
        if (!same_f32(sft_##fn##_f32(a, b), want))                                                 \
            fail_msg(#fn "(%.9g, %.9g) = %.9g, expected %.9g", x, y, (double)sft_##fn##_f32(a, b), \
                     (double)(want));                                                              \
    } while (0)
    EXACT(fmod, fmodf(a, b));
    EXACT(remainder, ref_remainder(a, b));
    EXACT(floor_divide, ref_floor_divide(a, b));
    EXACT(nextafter, nextafterf(a, b));
    EXACT(copysign, copysignf(a, b));
    EXACT(maximum, a != a ? a : b != b ? b : a > b ? a : b);
    EXACT(minimum, a != a ? a : b != b ? b : a < b ? a : b);
    assert_true(isnan(a) || isnan(b) ? same_f32(sft_fmax_f32(a, b), isnan(a) ? b : a)
                                     : sft_fmax_f32(a, b) == fmaxf(a, b));
    assert_true(isnan(a) || isnan(b) ? same_f32(sft_fmin_f32(a, b), isnan(a) ? b : a)
                                     : sft_fmin_f32(a, b) == fminf(a, b));
    EXACT(heaviside, a == 0 ? b : a > 0 ? 1.0f : 0.0f);
    double lae = x == y && isinf(x) ? x : fmax(x, y) + log1p(exp(-fabs(x - y)));
    if (a == a && b == b && fabs((double)sft_logaddexp_f32(a, b) - lae) > 2e-7 * fmax(1, fabs(lae)))
        fail_msg("logaddexp(%.9g, %.9g)", x, y);
    double xly = b != b ? y : a == 0 ? 0 : x * log(y);
    if (ulps_f32(sft_xlogy_f32(a, b), xly) > 3) fail_msg("xlogy(%.9g, %.9g)", x, y);
}

static void test_binary(void **state) {
    (void)state;
    static const float v[] = {0.0f,   -0.0f,      1.0f,       -1.0f,    INF,   -INF,   NANF,
                              0.5f,   -0.5f,      2.0f,       -2.0f,    3.0f,  -3.0f,  1e-45f,
                              3e38f,  -3e38f,     1e10f,      7.0f,     -2.5f, 100.0f, 16777215.0f,
                              1e-20f, 8388607.5f, 1.0000001f, 0x1p-126f};
    size_t n = sizeof v / sizeof *v;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) check_pair(v[i], v[j]);
    for (int k = 0; k < 40000; k++)
        check_pair(sft_frombits_f32(random_bits()), sft_frombits_f32(random_bits()));
    for (int k = 0; k < 40000; k++) {
        float a = ldexpf((float)(int32_t)random_bits(), -20 - (int)(random_bits() % 20));
        float b = ldexpf((float)(int32_t)random_bits(), -20 - (int)(random_bits() % 20));
        check_pair(a, b);
        check_pair(a, rintf(b));
        check_pair(b * (float)(random_bits() % 9), b);
    }
    SAME(sft_floor_divide_f32(-7.0f, 2.0f), -4.0f);
    SAME(sft_remainder_f32(-7.0f, 2.0f), 1.0f);
    SAME(sft_remainder_f32(5.0f, 0.0f), NANF);
    SAME(sft_floor_divide_f32(1.0f, 0.0f), INF);
    SAME(sft_lerp_f32(1.0f, 3.0f, 1.0f), 3.0f);
    SAME(sft_lerp_f32(1.0f, 3.0f, 0.0f), 1.0f);
    SAME(sft_clamp_f32(5.0f, 3.0f, 1.0f), 1.0f);
    SAME(sft_clamp_f32(NANF, 0.0f, 1.0f), NANF);
    SAME64(sft_floor_divide_f64(-7.0, 2.0), -4.0);
    SAME64(sft_remainder_f64(7.5, -2.0), -0.5);
    SAME64(sft_maximum_f64(1.0, SFT_NAN_F64), SFT_NAN_F64);
}

/* ---- float64 ---- */

static void check_f64(double x) {
#define NEAR64(fn, limit)                                                                          \
    do {                                                                                           \
        double off_ = ulps_f64(sft_##fn##_f64(x), fn##l((long double)x));                          \
        if (off_ > (limit))                                                                        \
            fail_msg(#fn "(%.17g) = %.17g: off by %g ulp", x, sft_##fn##_f64(x), off_);            \
    } while (0)
    NEAR64(exp, 1.25);
    NEAR64(log, 1);
    NEAR64(tanh, 2);
    if (fabs(x) > 1e-300 || x == 0) NEAR64(erf, 2);
    if (x < -600) return;
    long double e = expl(-fabsl((long double)x));
    if (ulps_f64(sft_sigmoid_f64(x), (x < 0 ? e : 1) / (1 + e)) > 3) fail_msg("sigmoid(%.17g)", x);
}

static void test_float64(void **state) {
    (void)state;
    for (int k = 0; k < 100000; k++)
        check_f64(sft_frombits_f64((uint64_t)random_bits() << 32 | random_bits()));
    for (int k = 0; k < 100000; k++)
        check_f64(ldexp((double)(int32_t)random_bits(), -31 + (int)(random_bits() % 11)));
    for (int k = 0; k < 20000; k++) check_f64(1 + (double)(int32_t)random_bits() * 0x1p-34);
    static const double edge[] = {0.0,    1.0,    709.782712893384, 709.8,
                                  -745.1, -745.2, 0x1p-1074,        1e-310};
    for (size_t k = 0; k < sizeof edge / sizeof *edge; k++) check_f64(edge[k]);
    SAME64(sft_exp_f64(SFT_INF_F64), SFT_INF_F64);
    SAME64(sft_exp_f64(-SFT_INF_F64), 0.0);
    SAME64(sft_exp_f64(SFT_NAN_F64), SFT_NAN_F64);
    SAME64(sft_log_f64(0.0), -SFT_INF_F64);
    SAME64(sft_log_f64(-1.0), SFT_NAN_F64);
    SAME64(sft_log_f64(SFT_INF_F64), SFT_INF_F64);
    SAME64(sft_tanh_f64(-SFT_INF_F64), -1.0);
    SAME64(sft_tanh_f64(-0.0), -0.0);
    SAME64(sft_tanh_f64(SFT_NAN_F64), SFT_NAN_F64);
}

/* ---- int64 ---- */

#define IS(got, want) assert_int_equal((int64_t)(got), (int64_t)(want))

static void test_int64(void **state) {
    (void)state;
    IS(sft_add_i64(INT64_MAX, 1), INT64_MIN);
    IS(sft_sub_i64(INT64_MIN, 1), INT64_MAX);
    IS(sft_mul_i64(INT64_MAX, 2), -2);
    IS(sft_neg_i64(INT64_MIN), INT64_MIN);
    IS(sft_abs_i64(INT64_MIN), INT64_MIN);
    IS(sft_abs_i64(-5), 5);
    IS(sft_floor_divide_i64(7, 2), 3);
    IS(sft_floor_divide_i64(-7, 2), -4);
    IS(sft_floor_divide_i64(7, -2), -4);
    IS(sft_floor_divide_i64(-7, -2), 3);
    IS(sft_floor_divide_i64(5, 0), 0);
    IS(sft_floor_divide_i64(INT64_MIN, -1), INT64_MIN);
    IS(sft_trunc_divide_i64(-7, 2), -3);
    IS(sft_trunc_divide_i64(INT64_MIN, -1), INT64_MIN);
    IS(sft_trunc_divide_i64(1, 0), 0);
    IS(sft_remainder_i64(-7, 2), 1);
    IS(sft_remainder_i64(7, -2), -1);
    IS(sft_remainder_i64(INT64_MIN, -1), 0);
    IS(sft_remainder_i64(5, 0), 0);
    IS(sft_remainder_i64(INT64_MAX, INT64_MIN), -1);
    IS(sft_fmod_i64(-7, 2), -1);
    IS(sft_fmod_i64(INT64_MIN, -1), 0);
    IS(sft_pow_i64(3, 4), 81);
    IS(sft_pow_i64(-2, 63), INT64_MIN);
    IS(sft_pow_i64(2, 64), 0);
    IS(sft_pow_i64(0, 0), 1);
    IS(sft_pow_i64(7, INT64_MAX), sft_mul_i64(7, sft_pow_i64(49, INT64_MAX / 2)));
    IS(sft_pow_i64(1, -5), 1);
    IS(sft_pow_i64(-1, -5), -1);
    IS(sft_pow_i64(-1, -4), 1);
    IS(sft_pow_i64(2, -1), 0);
    IS(sft_pow_i64(0, -1), 0);
    IS(sft_lshift_i64(1, 63), INT64_MIN);
    IS(sft_lshift_i64(1, 64), 0);
    IS(sft_lshift_i64(1, -1), 0);
    IS(sft_rshift_i64(-8, 1), -4);
    IS(sft_rshift_i64(-8, 64), -1);
    IS(sft_rshift_i64(8, -1), 0);
    IS(sft_rshift_i64(-1, -1), -1);
    IS(sft_gcd_i64(-12, 18), 6);
    IS(sft_gcd_i64(0, -5), 5);
    IS(sft_gcd_i64(0, 0), 0);
    IS(sft_gcd_i64(INT64_MIN, 2), 2);
    IS(sft_lcm_i64(4, -6), 12);
    IS(sft_lcm_i64(0, 5), 0);
    IS(sft_clamp_i64(5, 3, 1), 1);
    IS(sft_sign_i64(INT64_MIN), -1);
}

/* ---- conversions ---- */

/* The value of a float of `exponent` + `mantissa` bits, read digit by digit. */
static double value_of(uint32_t h, int exponent, int mantissa) {
    int e = (int)(h >> mantissa) & ((1 << exponent) - 1), bias = (1 << (exponent - 1)) - 1;
    double m = (double)(h & ((1u << mantissa) - 1)), sign = h >> (exponent + mantissa) ? -1 : 1;
    if (e == (1 << exponent) - 1) return m != 0 ? NAN : sign * HUGE_VAL;
    if (e == 0) return sign * ldexp(m, 1 - bias - mantissa);
    return sign * ldexp(m + ldexp(1, mantissa), e - bias - mantissa);
}

/* x to the nearest such float, ties to even, by rounding in double. */
static double nearest(float x, int exponent, int mantissa) {
    int bias = (1 << (exponent - 1)) - 1, least = 1 - bias;
    if (x != x || x == 0 || isinf(x)) return (double)x;
    int e = ilogb((double)x);
    int last = (e < least ? least : e) - mantissa;
    double r = ldexp(rint(ldexp((double)x, -last)), last);
    return fabs(r) >= ldexp(1, bias + 1) ? copysign(HUGE_VAL, r) : r;
}

static void check_halves(float x) {
    double f16 = (double)sft_f32_from_f16(sft_f16_from_f32(x));
    double bf16 = (double)sft_f32_from_bf16(sft_bf16_from_f32(x));
    if (!same_f64(f16, nearest(x, 5, 10))) fail_msg("float16 of %.9g: %.9g", (double)x, f16);
    if (!same_f64(bf16, nearest(x, 8, 7))) fail_msg("bfloat16 of %.9g: %.9g", (double)x, bf16);
}

static void test_halves(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = sft_f32_from_f16((uint16_t)h), b = sft_f32_from_bf16((uint16_t)h);
        if (!same_f64((double)f, value_of(h, 5, 10))) fail_msg("float16 %04x", h);
        if (!same_f64((double)b, value_of(h, 8, 7))) fail_msg("bfloat16 %04x", h);
        if (f == f) assert_int_equal(sft_f16_from_f32(f), h);
        if (b == b) assert_int_equal(sft_bf16_from_f32(b), h);
        /* half way to the next one, and a float to either side */
        for (int d = -1; d <= 1; d++) {
            check_halves(sft_frombits_f32(sft_bits_f32(f) + 0x1000u + (uint32_t)d));
            check_halves(sft_frombits_f32((h << 16) + 0x8000u + (uint32_t)d));
        }
    }
    for (uint64_t b = 0; b <= UINT32_MAX; b += 9973) check_halves(sft_frombits_f32((uint32_t)b));
    assert_int_equal(sft_f16_from_f32(65519.0f), 0x7bff);
    assert_int_equal(sft_f16_from_f32(65520.0f), 0x7c00);
}

static void test_casts(void **state) {
    (void)state;
#define CAST(to, type, lo, hi)                                                                     \
    do {                                                                                           \
        IS(sft_##to##_from_f32(NANF), 0);                                                          \
        IS(sft_##to##_from_f32(INF), hi);                                                          \
        IS(sft_##to##_from_f32(-INF), lo);                                                         \
        IS(sft_##to##_from_f32(1e30f), hi);                                                        \
        IS(sft_##to##_from_f32(2.9f), 2);                                                          \
        IS(sft_##to##_from_f32(-0.9f), 0);                                                         \
        IS(sft_##to##_from_f64(SFT_NAN_F64), 0);                                                   \
        IS(sft_##to##_from_f64(1e300), hi);                                                        \
        IS(sft_##to##_from_f64(-1e300), lo);                                                       \
        IS(sft_##to##_from_f64(-2.9), (lo) < 0 ? -2 : 0);                                          \
        for (int k = 0; k < 20000; k++) {                                                          \
            float x = ldexpf((float)(int32_t)random_bits(), (int)(random_bits() % 72) - 36);       \
            double d = (double)x + (double)random_bits() * 1e-12;                                  \
            long double t = truncl((long double)x), u = truncl((long double)d);                    \
            long double l = (long double)(lo), g = (long double)(hi);                              \
            IS(sft_##to##_from_f32(x), (type)(t < l ? l : t > g ? g : t));                         \
            IS(sft_##to##_from_f64(d), (type)(u < l ? l : u > g ? g : u));                         \
        }                                                                                          \
    } while (0)
    CAST(i64, int64_t, INT64_MIN, INT64_MAX);
    CAST(i32, int32_t, INT32_MIN, INT32_MAX);
    CAST(i16, int16_t, INT16_MIN, INT16_MAX);
    CAST(i8, int8_t, INT8_MIN, INT8_MAX);
    CAST(u8, uint8_t, 0, UINT8_MAX);
    IS(sft_i32_from_f64(2147483647.9), INT32_MAX);
    IS(sft_i32_from_f64(-2147483648.9), INT32_MIN);
    IS(sft_i64_from_f64(0x1p63), INT64_MAX);
    assert_int_equal(sft_bool_from_f32(NANF), 1);
    assert_int_equal(sft_bool_from_f32(-0.0f), 0);
    assert_int_equal(sft_bool_from_f64(1e-320), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),       cmocka_unit_test(test_special_unary),
        cmocka_unit_test(test_derivatives), cmocka_unit_test(test_erfinv_and_digamma),
        cmocka_unit_test(test_binary),      cmocka_unit_test(test_float64),
        cmocka_unit_test(test_int64),       cmocka_unit_test(test_halves),
        cmocka_unit_test(test_casts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
