/* Trigonometry, for float and double (libm's). */
#ifndef SFT_SCALAR_TRIG_H
#define SFT_SCALAR_TRIG_H

SFT_LIBM1(sin)
SFT_LIBM1(cos)
SFT_LIBM1(tan)
SFT_LIBM1(asin)
SFT_LIBM1(acos)
SFT_LIBM1(atan)
SFT_LIBM2(atan2)

/* x = (*quadrant + r / (pi / 2)) * pi / 2 with |r| <= pi / 4, for every finite x; only the low two
 * bits of *quadrant count.
 *
 * x * 2/pi is wanted modulo 4. From 2^31 on, x = 2^s * n with n an integer, so 2^s * 2/pi may
 * itself be taken modulo 4 first. Of that, 29 bits, 29 bits and 53 bits are kept: a float times 29
 * bits is exact in double, and so is taking such a product modulo 4. */
SFT_FN float sft_trig_reduce_f32(float x, uint32_t *quadrant) {
    double d = (double)x, a = fabs(d);
    bool g1 = a >= 0x1p31, g2 = a >= 0x1p63, g3 = a >= 0x1p95;
    double hi = g1 ? -0x1.067c91cp+0 : 0x1.45f306cp-1;
    double mid = g1 ? 0x1.c882a54p-29 : 0x1.c9c882ap-29;
    double low = g1 ? -0x1.ec54170565912p-63 : 0x1.4fe13abe8fa9ap-59;
    double down = g1 ? 0x1p-8 : 1.0;
    hi = g2 ? -0x1.bbead6p+0 : hi;
    mid = g2 ? -0x1.ec54170p-31 : mid;
    low = g2 ? -0x1.596447e493ad5p-61 : low;
    down = g2 ? 0x1p-40 : down;
    hi = g3 ? 0x1.3abe9p-3 : hi;
    mid = g3 ? -0x1.596447ep-29 : mid;
    low = g3 ? -0x1.24eb53361de38p-59 : low;
    down = g3 ? 0x1p-72 : down;
    double n = d * down;
    double p1 = n * hi, p2 = n * mid, p3 = n * low;
    p1 -= 4.0 * rint(p1 * 0.25);
    p2 -= 4.0 * rint(p2 * 0.25);
    double whole = p1 + (p2 + p3) + 0x1.8p52; /* the low bits: rounded to an integer */
    *quadrant = (uint32_t)sft_bits_f64(whole);
    double r = ((p1 - (whole - 0x1.8p52)) + p2) + p3;
    return (float)(r * 0x1.921fb54442d18p+0);
}

/* sin(r) and cos(r) on |r| <= pi / 4 */
SFT_FN float sft_sin_poly_f32(float r) {
    float z = r * r;
    float p = -0x1.9952f8p-13f;
    p = sft_madd_f32(p, z, 0x1.110776p-7f);
    p = sft_madd_f32(p, z, -0x1.555546p-3f);
    return sft_madd_f32(p * z, r, r);
}
SFT_FN float sft_cos_poly_f32(float r) {
    float z = r * r;
    float p = 0x1.9a676cp-16f;
    p = sft_madd_f32(p, z, -0x1.6c0e2ep-10f);
    p = sft_madd_f32(p, z, 0x1.55554ep-5f);
    return sft_madd_f32(z * z, p, sft_madd_f32(z, -0.5f, 1.0f));
}

SFT_FN float sft_sin_of_f32(float r, uint32_t q) {
    float s = sft_sin_poly_f32(r), c = sft_cos_poly_f32(r);
    float y = (q & 1) != 0 ? c : s;
    return sft_frombits_f32(sft_bits_f32(y) ^ ((q & 2) << 30));
}
SFT_FN float sft_tan_of_f32(float r, uint32_t q) {
    float s = sft_sin_poly_f32(r), c = sft_cos_poly_f32(r);
    float num = (q & 1) != 0 ? -c : s;
    float den = (q & 1) != 0 ? s : c;
    return num / den;
}

SFT_FN float sft_sin_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_f32(x, &q);
    return x == 0.0f ? x : sft_sin_of_f32(r, q);
}
SFT_FN float sft_cos_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_f32(x, &q);
    return sft_sin_of_f32(r, q + 1);
}
SFT_FN float sft_tan_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_f32(x, &q);
    return x == 0.0f ? x : sft_tan_of_f32(r, q);
}

/* The same three, several times as fast, where the caller knows |x| <= SFT_TRIG_NEAR_F32: a loop
 * that first looks at its whole block can choose. */
#define SFT_TRIG_NEAR_F32 0x1p17f

SFT_FN float sft_trig_reduce_near_f32(float x, uint32_t *quadrant) {
    float t = sft_madd_f32(x, 0x1.45f306p-1f, SFT_ROUND_F32), n = t - SFT_ROUND_F32;
    *quadrant = sft_bits_f32(t);
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
    /* the first step is exact; the parts of pi / 2 have 24 bits each */
    float r = __builtin_fmaf(n, -0x1.921fb6p+0f, x);
    r = __builtin_fmaf(n, 0x1.777a5cp-25f, r);
    return __builtin_fmaf(n, 0x1.ee59dap-50f, r);
#else
    double r = (double)x - (double)n * 0x1.921fb5448p+0; /* 34 bits: the product is exact */
    return (float)(r - (double)n * -0x1.e973dcb3b399dp-35);
#endif
}
SFT_FN float sft_sin_near_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_near_f32(x, &q);
    return x == 0.0f ? x : sft_sin_of_f32(r, q);
}
SFT_FN float sft_cos_near_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_near_f32(x, &q);
    return sft_sin_of_f32(r, q + 1);
}
SFT_FN float sft_tan_near_f32(float x) {
    uint32_t q;
    float r = sft_trig_reduce_near_f32(x, &q);
    return x == 0.0f ? x : sft_tan_of_f32(r, q);
}

/* asin(s) on 0 <= s <= 1/2 */
SFT_FN float sft_asin_poly_f32(float s, float z) {
    float p = 0x1.596d1cp-5f;
    p = sft_madd_f32(p, z, 0x1.8c2db6p-6f);
    p = sft_madd_f32(p, z, 0x1.747d04p-5f);
    p = sft_madd_f32(p, z, 0x1.3301fcp-4f);
    p = sft_madd_f32(p, z, 0x1.5555c8p-3f);
    return sft_madd_f32(p * z, s, s);
}

#define SFT_HALF_PI_F32     0x1.921fb6p+0f
#define SFT_HALF_PI_LOW_F32 (-0x1.777a5cp-25f)

/* Above 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). The two selects ask the same in two ways:
 * from one condition the compiler would make two paths with a polynomial in each. */
SFT_FN float sft_asin_f32(float x) {
    float a = fabsf(x), a2 = a * a, half = (1.0f - a) * 0.5f;
    float z = a > 0.5f ? half : a2;
    float y = sft_asin_poly_f32(half < a2 ? sqrtf(half) : a, z); /* NaN beyond 1 */
    float far = SFT_HALF_PI_F32 - (2.0f * y - SFT_HALF_PI_LOW_F32);
    return copysignf(half < 0.25f ? far : y, x);
}

SFT_FN float sft_acos_f32(float x) {
    float a = fabsf(x);
    bool outer = a > 0.5f;
    float half = (1.0f - a) * 0.5f;
    float z = outer ? half : a * a;
    float y = sft_asin_poly_f32(outer ? sqrtf(half) : a, z);
    float s = copysignf(y, x);
    float pi = x < 0.0f ? 2.0f * SFT_HALF_PI_F32 : 0.0f;
    float pi_low = x < 0.0f ? 2.0f * SFT_HALF_PI_LOW_F32 : 0.0f;
    float far = pi + (2.0f * s + pi_low);
    float near = SFT_HALF_PI_F32 - (s - SFT_HALF_PI_LOW_F32);
    return outer ? far : near;
}

/* atan(t) on 0 <= t <= 1 */
SFT_FN float sft_atan_poly_f32(float t) {
    float z = t * t, w = z * z; /* even and odd powers of z apart */
    float p = -0x1.cc8aacp-10f, q = 0x1.615f8p-7f;
    p = sft_madd_f32(p, w, -0x1.fbd174p-6f);
    q = sft_madd_f32(q, w, 0x1.d9bb7cp-5f);
    p = sft_madd_f32(p, w, -0x1.580228p-4f);
    q = sft_madd_f32(q, w, 0x1.c08ffep-4f);
    p = sft_madd_f32(p, w, -0x1.242118p-3f);
    q = sft_madd_f32(q, w, 0x1.9991ecp-3f);
    p = sft_madd_f32(p, w, -0x1.55553ep-2f);
    p = sft_madd_f32(q, z, p);
    return sft_madd_f32(p * z, t, t);
}

SFT_FN float sft_atan_f32(float x) {
    float a = fabsf(x), small = sft_cap_f32(a, 1.0f);
    float y = sft_atan_poly_f32(small / (a > 1.0f ? a : 1.0f));
    float far = SFT_HALF_PI_F32 - (y - SFT_HALF_PI_LOW_F32);
    y = copysignf(small < a ? far : y, x);
    return x == x ? y : x;
}

SFT_FN float sft_atan2_f32(float y, float x) {
    float ay = fabsf(y), ax = fabsf(x);
    bool steep = ay > ax;
    float num = steep ? ax : ay, den = steep ? ay : ax;
    float t = num / den;
    t = num == den ? 1.0f : t; /* both infinite */
    t = den == 0.0f ? 0.0f : t;
    float r = sft_atan_poly_f32(t);
    float up = SFT_HALF_PI_F32 - (r - SFT_HALF_PI_LOW_F32);
    r = steep ? up : r;
    float back = 2.0f * SFT_HALF_PI_F32 - (r - 2.0f * SFT_HALF_PI_LOW_F32);
    r = sft_bits_f32(x) >> 31 != 0 ? back : r;
    r = copysignf(r, y);
    return (x != x) | (y != y) ? x + y : r;
}

#endif
