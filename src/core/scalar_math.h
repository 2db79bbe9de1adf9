/* Exponentials, logarithms, hyperbolics, powers and remainders, for float and double.
 *
 * The float32 functions are branch-free so that loops of them vectorise. Polynomials are minimax
 * fits made for this file; each comment gives the interval. Where a double has the digits that a
 * float needs (pow, fmod, hypot), the arithmetic is double. The float64 functions are libm's but
 * for those of scalar_double.h. */
#ifndef SFT_SCALAR_MATH_H
#define SFT_SCALAR_MATH_H

#define SFT_LIBM1(fn)                                                                              \
    SFT_FN double sft_##fn##_f64(double x) { return fn(x); }
#define SFT_LIBM2(fn)                                                                              \
    SFT_FN double sft_##fn##_f64(double x, double y) { return fn(x, y); }
SFT_LIBM1(exp2)
SFT_LIBM1(expm1)
SFT_LIBM1(log2)
SFT_LIBM1(log10)
SFT_LIBM1(log1p)
SFT_LIBM1(sinh)
SFT_LIBM1(cosh)
SFT_LIBM1(asinh)
SFT_LIBM1(acosh)
SFT_LIBM1(atanh)
SFT_LIBM2(pow)
SFT_LIBM2(hypot)
SFT_LIBM2(fmod)
SFT_LIBM2(nextafter)

/* min(a, top) for a >= 0, both as bits: one instruction, and no constant for the compiler to follow
 * on a path of its own. NaN gives top: only where the result does not hang on it. */
SFT_FN float sft_cap_f32(float a, float top) {
    uint32_t u = sft_bits_f32(a), t = sft_bits_f32(top);
    return sft_frombits_f32(u < t ? u : t);
}

/* ---- exp --------------------------------------------------------------------------------------
 * exp(x) = 2^k exp(r) with |r| <= ln(2) / 2. k is found by adding 1.5 * 2^23, whose low bits then
 * hold the rounded integer; `bits` is that sum. What a cast would do, it does without leaving the
 * float lanes.
 *
 * Of two clamps in a row the second tests the unclamped value: testing the clamped one, the
 * compiler would follow each constant on its own path and end with twice the selects. */

#define SFT_ROUND_F32      12582912.0f /* 1.5 * 2^23 */
#define SFT_ROUND_BITS_F32 0x4b400000u

SFT_FN float sft_exp_reduce_f32(float x, uint32_t *bits) {
    float t = sft_madd_f32(x, 0x1.715476p+0f, SFT_ROUND_F32);
    *bits = sft_bits_f32(t);
    float k = t - SFT_ROUND_F32;
    float r = sft_madd_f32(k, -0x1.63p-1f, x); /* ln(2) in two parts, k times the first is exact */
    return sft_madd_f32(k, 0x1.bd0106p-13f, r);
}

/* (exp(r) - 1 - r) / r^2 */
SFT_FN float sft_exp_tail_f32(float r) {
    float p = 0x1.6be996p-10f;
    p = sft_madd_f32(p, r, 0x1.122c4cp-7f);
    p = sft_madd_f32(p, r, 0x1.5556dap-5f);
    p = sft_madd_f32(p, r, 0x1.5554aap-3f);
    return sft_madd_f32(p, r, 0x1.fffffep-2f);
}

SFT_FN float sft_exp_poly_f32(float r) {
    return sft_madd_f32(r * r, sft_exp_tail_f32(r), r) + 1.0f;
}

/* p * 2^k for -252 <= k <= 254, in two steps so that overflow and subnormals come out right. */
SFT_FN float sft_exp_scale_f32(float p, uint32_t bits) {
    uint32_t half = bits >> 1;
    float s1 = sft_frombits_f32((half << 23) + 0x3f800000u);
    float s2 = sft_frombits_f32(((bits - half) << 23) + 0x3f800000u);
    return p * s1 * s2;
}

SFT_FN float sft_exp_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = x < -105.0f ? -105.0f : y;
    uint32_t bits;
    float r = sft_exp_reduce_f32(y, &bits);
    return sft_exp_scale_f32(sft_exp_poly_f32(r), bits);
}

/* p * 2^k for -127 <= k <= 127, where 2^-127 is taken for 0. */
SFT_FN float sft_exp_scale_once_f32(float p, uint32_t bits) {
    return p * sft_frombits_f32((bits << 23) + 0x3f800000u);
}

/* exp(x) where the caller knows -88 <= x <= 88; 0 where the result is below 2^-126. */
SFT_FN float sft_exp_mid_f32(float x) {
    uint32_t bits;
    float r = sft_exp_reduce_f32(x, &bits);
    return sft_exp_scale_once_f32(sft_exp_poly_f32(r), bits);
}

/* exp(min(x, top)) for top <= 88; 0 where the result is below 2^-126. */
SFT_FN float sft_exp_capped_f32(float x, float top) {
    float y = x > top ? top : x;
    return sft_exp_mid_f32(x < -88.0f ? -88.0f : y);
}

/* exp(x) for x <= 0; 0 where the result is below 2^-126. */
SFT_FN float sft_exp_down_f32(float x) { return sft_exp_mid_f32(x < -88.0f ? -88.0f : x); }

SFT_FN float sft_exp2_f32(float x) {
    float y = x > 129.0f ? 129.0f : x;
    y = x < -151.0f ? -151.0f : y;
    float t = y + SFT_ROUND_F32;
    float r = y - (t - SFT_ROUND_F32);
    /* (2^r - 1) / r on |r| <= 1/2 */
    float p = 0x1.17badp-13f;
    p = sft_madd_f32(p, r, 0x1.5ef4dap-10f);
    p = sft_madd_f32(p, r, 0x1.3b67fep-7f);
    p = sft_madd_f32(p, r, 0x1.c6af9ep-5f);
    p = sft_madd_f32(p, r, 0x1.ebfb94p-3f);
    p = sft_madd_f32(p, r, 0x1.62e43p-1f);
    p = sft_madd_f32(p, r, 1.0f);
    return sft_exp_scale_f32(p, sft_bits_f32(t));
}

SFT_FN float sft_expm1_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = x < -20.0f ? -20.0f : y;
    uint32_t bits;
    float r = sft_exp_reduce_f32(y, &bits);
    float q = sft_madd_f32(r * r, sft_exp_tail_f32(r), r);
    /* half of 2^k q + (2^k - 1): 2^128 is no float */
    float s = sft_frombits_f32((bits << 23) + 0x3f000000u);
    float h = sft_madd_f32(s, q, s - 0.5f);
    return copysignf(bits == SFT_ROUND_BITS_F32 ? q : h + h, x);
}

/* ---- log --------------------------------------------------------------------------------------
 * x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f + log_tail(f). */

#define SFT_SQRT_HALF_BITS 0x3f3504f3u

SFT_FN float sft_log_split_f32(float x, float *k) {
    bool tiny = x < 0x1p-126f;
    float up = x * 0x1p24f;
    uint32_t u = sft_bits_f32(tiny ? up : x) - SFT_SQRT_HALF_BITS;
    *k = (float)(((int32_t)u >> 23) - (tiny ? 24 : 0));
    return sft_frombits_f32((u & 0x7fffffu) + SFT_SQRT_HALF_BITS) - 1.0f;
}

SFT_FN float sft_log_tail_f32(float f) {
    /* even and odd powers apart: two short chains of multiply-adds instead of a long one */
    float f2 = f * f;
    float q = -0x1.389c14p-4f, p = 0x1.055afcp-3f;
    q = sft_madd_f32(q, f2, -0x1.0d876p-3f);
    p = sft_madd_f32(p, f2, 0x1.22d96ap-3f);
    q = sft_madd_f32(q, f2, -0x1.547214p-3f);
    p = sft_madd_f32(p, f2, 0x1.99a01ep-3f);
    q = sft_madd_f32(q, f2, -0x1.000228p-2f);
    p = sft_madd_f32(p, f2, 0x1.555554p-2f);
    p = sft_madd_f32(q, f, p);
    return sft_madd_f32(f2, -0.5f, f2 * f * p);
}

/* What every logarithm gives outside (0, inf), r inside. */
SFT_FN float sft_log_ends_f32(float x, float r) {
    float low = x == 0.0f ? -SFT_INF_F32 : SFT_NAN_F32;
    r = x > 0.0f ? r : low;
    return x == SFT_INF_F32 ? x : r;
}

SFT_FN float sft_log_f32(float x) {
    float k, f = sft_log_split_f32(x, &k);
    float y = sft_madd_f32(k, -0x1.bd0106p-13f, sft_log_tail_f32(f));
    return sft_log_ends_f32(x, sft_madd_f32(k, 0x1.63p-1f, f + y));
}

SFT_FN float sft_log2_f32(float x) {
    float k, f = sft_log_split_f32(x, &k);
    /* 1 / ln(2) = 1 + 0.4427: the first part is free of rounding */
    float y = sft_log_tail_f32(f), g = f + y;
    float low = (f - g) + y;
    float r = g + sft_madd_f32(g, 0x1.c551dap-2f, low * 0x1.715476p+0f);
    return sft_log_ends_f32(x, k + r);
}

SFT_FN float sft_log10_f32(float x) {
    float k, f = sft_log_split_f32(x, &k);
    float r = (f + sft_log_tail_f32(f)) * 0x1.bcb7b2p-2f;
    r = sft_madd_f32(k, 0x1.3509f8p-18f, r);
    return sft_log_ends_f32(x, sft_madd_f32(k, 0x1.344p-2f, r));
}

/* log(1 + x) + k0 ln(2), for x > -1: k and f are found so that 2^-k (1 + x) - 1 has no error that
 * counts. */
SFT_FN float sft_log1p_plus_f32(float x, float k0) {
    float u = 1.0f + x;
    uint32_t b = sft_bits_f32(u) - SFT_SQRT_HALF_BITS;
    float big = sft_frombits_f32((b & 0x7fffffu) + SFT_SQRT_HALF_BITS) - 1.0f;
    int32_t e = (int32_t)b >> 23;
    float s = sft_frombits_f32(0x3f800000u - ((uint32_t)e << 23)); /* 2^-e */
    float f = sft_madd_f32(x, s, s - 1.0f);
    f = e > 24 ? big : f;
    float k = (float)e + k0;
    float y = sft_madd_f32(k, -0x1.bd0106p-13f, sft_log_tail_f32(f));
    return sft_madd_f32(k, 0x1.63p-1f, f + y);
}

SFT_FN float sft_log1p_f32(float x) {
    float r = copysignf(sft_log1p_plus_f32(x, 0.0f), x);
    float low = x == -1.0f ? -SFT_INF_F32 : SFT_NAN_F32;
    r = x > -1.0f ? r : low;
    return x == SFT_INF_F32 ? x : r;
}

/* log(1 + x) for 0 <= x <= 1. */
SFT_FN float sft_log1p_unit_f32(float x) {
    bool far = x > 0x1.a8279ap-2f; /* sqrt(2) - 1 */
    float half = sft_madd_f32(x, 0.5f, -0.5f);
    float f = far ? half : x;
    float k = far ? 1.0f : 0.0f;
    float y = sft_madd_f32(k, -0x1.bd0106p-13f, sft_log_tail_f32(f));
    return sft_madd_f32(k, 0x1.63p-1f, f + y);
}
SFT_FN double sft_log1p_unit_f64(double x) { return log1p(x); }

/* ---- hyperbolics ------------------------------------------------------------------------------
 */

SFT_FN float sft_tanh_f32(float x) {
    float a = fabsf(x);
    float b = sft_cap_f32(a, 9.1f); /* tanh rounds to 1 */
    float large = 1.0f - 2.0f / (sft_exp_mid_f32(b + b) + 1.0f);
    float z = x * x;
    /* (tanh(x) - x) / x^3 on |x| <= 0.6 */
    float p = -0x1.828778p-8f;
    p = sft_madd_f32(p, z, 0x1.54c3c2p-6f);
    p = sft_madd_f32(p, z, -0x1.b89abap-5f);
    p = sft_madd_f32(p, z, 0x1.1109bep-3f);
    p = sft_madd_f32(p, z, -0x1.55553ep-2f);
    float small = sft_madd_f32(p * z, a, a);
    return copysignf(a > 0.6f ? large : small, x);
}

/* exp(a) / 2 for a >= 0, finite as long as the result is. */
SFT_FN float sft_half_exp_f32(float a) {
    float b = a > 90.0f ? 90.0f : a;
    uint32_t bits;
    float r = sft_exp_reduce_f32(b, &bits);
    float s = sft_frombits_f32((bits << 23) + 0x3e800000u); /* 2^(k - 2) */
    return sft_exp_poly_f32(r) * s * 2.0f;
}

SFT_FN float sft_sinh_f32(float x) {
    float a = fabsf(x), h = sft_half_exp_f32(a), z = x * x;
    float large = h - 0.25f / h;
    /* (sinh(x) - x) / x^3 on |x| <= 1 */
    float p = 0x1.756c1ep-19f;
    p = sft_madd_f32(p, z, 0x1.a022bcp-13f);
    p = sft_madd_f32(p, z, 0x1.1110ep-7f);
    p = sft_madd_f32(p, z, 0x1.555556p-3f);
    float small = sft_madd_f32(p * z, a, a);
    return copysignf(a > 1.0f ? large : small, x);
}

SFT_FN float sft_cosh_f32(float x) {
    float h = sft_half_exp_f32(fabsf(x));
    return h + 0.25f / h;
}

SFT_FN float sft_asinh_f32(float x) {
    float a = fabsf(x);
    bool big = a > 0x1p60f;
    float b = big ? 1.0f : a, b2 = b * b;
    float z = b + b2 / (1.0f + sqrtf(1.0f + b2));
    float r = sft_log1p_plus_f32(big ? a : z, big ? 1.0f : 0.0f);
    r = a < SFT_INF_F32 ? r : a;
    return copysignf(r, x);
}

SFT_FN float sft_acosh_f32(float x) {
    bool big = x > 0x1p60f;
    float t = x - 1.0f, b = big ? 1.0f : t;
    float z = b + sqrtf(b * (b + 2.0f)); /* NaN below 1 */
    float r = sft_log1p_plus_f32(big ? t : z, big ? 1.0f : 0.0f);
    r = x >= 1.0f ? r : SFT_NAN_F32;
    return x == SFT_INF_F32 ? x : r;
}

SFT_FN float sft_atanh_f32(float x) {
    float a = fabsf(x);
    float r = 0.5f * sft_log1p_f32((a + a) / (1.0f - a)); /* inf at 1, NaN beyond: below -1 */
    return copysignf(r, x);
}

/* ---- powers and remainders, in double ----------------------------------------------------------
 */

/* log2(a) for a float a >= 0, with a relative error near 1e-13; -inf at 0, inf at inf. */
SFT_FN double sft_log2_of_f32(float a) {
    double k, f = sft_log_split_f64((double)a, &k);
    double s = f / (2.0 + f), w = s * s;
    double p = 0x1.5ceba14d1253ap-2;
    p = sft_madd_f64(p, w, 0x1.a58d583100992p-2);
    p = sft_madd_f64(p, w, 0x1.277780583806ap-1);
    p = sft_madd_f64(p, w, 0x1.ec709d122b5f8p-1);
    p = sft_madd_f64(p, w, 0x1.71547652bee89p+1);
    double r = sft_madd_f64(p, s, k);
    r = a > 0.0f ? r : -SFT_INF_F64;
    return a < SFT_INF_F32 ? r : (double)a;
}

/* 2^t, rounded to float. */
SFT_FN float sft_exp2_of_f64(double t) {
    t = t > 130.0 ? 130.0 : t;
    t = t < -152.0 ? -152.0 : t;
    double n = t + 0x1.8p52, r = t - (n - 0x1.8p52);
    double p = 0x1.41d3fe9df8b6bp-13;
    p = sft_madd_f64(p, r, 0x1.5f4589a02c434p-10);
    p = sft_madd_f64(p, r, 0x1.3b2dbbc7cdcc4p-7);
    p = sft_madd_f64(p, r, 0x1.c6aed475d77bcp-5);
    p = sft_madd_f64(p, r, 0x1.ebfbdada92631p-3);
    p = sft_madd_f64(p, r, 0x1.62e430c82f1acp-1);
    p = sft_madd_f64(p, r, 0x1.00000002625cp+0);
    double s = sft_frombits_f64((sft_bits_f64(n) << 52) + 0x3ff0000000000000u);
    return (float)(p * s);
}

SFT_FN float sft_pow_f32(float x, float y) {
    float a = fabsf(x);
    float r = sft_exp2_of_f64((double)y * sft_log2_of_f32(a));
    bool whole = truncf(y) == y;
    float h = y * 0.5f;
    bool odd = whole & (truncf(h) != h);
    float neg = -r;
    r = odd & (sft_bits_f32(x) >> 31 != 0) ? neg : r;
    r = (x < 0.0f) & !whole & (a < SFT_INF_F32) ? SFT_NAN_F32 : r;
    r = (a == 1.0f) & (fabsf(y) == SFT_INF_F32) ? 1.0f : r;
    return (x == 1.0f) | (y == 0.0f) ? 1.0f : r;
}

SFT_FN float sft_hypot_f32(float x, float y) {
    double a = (double)x, b = (double)y;
    float r = (float)sqrt(a * a + b * b);
    return (fabsf(x) == SFT_INF_F32) | (fabsf(y) == SFT_INF_F32) ? SFT_INF_F32 : r;
}

/* C's fmod, exact. The quotient may have 277 bits: ten rounds take off 28 at a time. A round's
 * quotient is rounded to nearest, so the remainder may end below 0 and is mended last. */
SFT_FN float sft_fmod_f32(float x, float y) {
    double a = fabs((double)x), b = fabs((double)y), inv = 1.0 / b, r = a;
#define SFT_ROUND(e)                                                                               \
    do {                                                                                           \
        double q = rint(r * (inv * (1.0 / (e))));                                                  \
        r = r - q * (b * (e));                                                                     \
    } while (0)
    SFT_ROUND(0x1p252);
    SFT_ROUND(0x1p224);
    SFT_ROUND(0x1p196);
    SFT_ROUND(0x1p168);
    SFT_ROUND(0x1p140);
    SFT_ROUND(0x1p112);
    SFT_ROUND(0x1p84);
    SFT_ROUND(0x1p56);
    SFT_ROUND(0x1p28);
    SFT_ROUND(1.0);
#undef SFT_ROUND
    double mended = r + b;
    r = r < 0.0 ? mended : r;
    float z = (b == SFT_INF_F64) & (a < SFT_INF_F64) ? (float)a : (float)r;
    return copysignf(z, x);
}

SFT_FN float sft_nextafter_f32(float x, float y) {
    uint32_t u = sft_bits_f32(x);
    bool away = (x < y) == (x > 0.0f);
    uint32_t next = away ? u + 1 : u - 1;
    uint32_t least = y > 0.0f ? 1u : 0x80000001u;
    float r = sft_frombits_f32(x == 0.0f ? least : next);
    r = x == y ? y : r;
    return (x != x) | (y != y) ? x + y : r;
}

#endif
