/* erf and its kin, gelu, the gamma family. */
#ifndef SFT_SCALAR_SPECIAL_H
#define SFT_SCALAR_SPECIAL_H

SFT_FN double sft_erf_f64(double x) { return erf(x); }
SFT_FN double sft_erfc_f64(double x) { return erfc(x); }

/* exp(-scale a^2) 2^-k, scale a power of 2, a^2's rounding error taken in: where the square is
 * large, its last place is many last places of the result. */
SFT_FN float sft_exp_minus_square_f32(float a, float scale, uint32_t *bits) {
    float b = a * scale, s = b * a;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
    float err = __builtin_fmaf(b, a, -s);
#else
    float h = sft_frombits_f32(sft_bits_f32(a) & 0xfffff000u), l = a - h;
    float err = (h * h * scale - s) + l * scale * (a + h);
#endif
    return sft_exp_poly_f32(sft_exp_reduce_f32(-s, bits) - err);
}

/* u = (a - c) / (a + c), given t = 1 / (a + c). One step on the remainder: the rounding of a + c
 * would be felt threefold. */
SFT_FN float sft_erfcx_variable_f32(float a, float c, float t) {
    float d = a - c, u = d * t;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)
    u = __builtin_fmaf(__builtin_fmaf(-a, u, __builtin_fmaf(u, -c, d)), t, u);
#endif
    return u;
}

/* erfc(a) exp(a^2) (a + 3) for 0 <= a <= 10.2, in u = (a - 3) / (a + 3). */
SFT_FN float sft_erfcx_poly_f32(float u) {
    float u2 = u * u; /* even and odd powers apart: two short chains instead of a long one */
    float q = -0x1.3846a0p-12f, p = -0x1.c96c76p-12f;
    q = sft_madd_f32(q, u2, 0x1.938e0ap-9f);
    p = sft_madd_f32(p, u2, -0x1.4a0124p-10f);
    q = sft_madd_f32(q, u2, -0x1.b7d774p-6f);
    p = sft_madd_f32(p, u2, 0x1.e99f10p-4f);
    q = sft_madd_f32(q, u2, -0x1.3dea76p-2f);
    p = sft_madd_f32(p, u2, 0x1.2e3254p-1f);
    q = sft_madd_f32(q, u2, -0x1.c44c4ap-1f);
    p = sft_madd_f32(p, u2, 0x1.12f21ep+0f);
    return sft_madd_f32(q, u, p);
}

/* erf(x) / x - 1 on |x| <= 0.9, z = x^2. */
SFT_FN float sft_erf_poly_f32(float z) {
    float q = -0x1.17bed2p-11f;
    q = sft_madd_f32(q, z, 0x1.3e8c8ep-8f);
    q = sft_madd_f32(q, z, -0x1.b502a2p-6f);
    q = sft_madd_f32(q, z, 0x1.cdfe2ep-4f);
    q = sft_madd_f32(q, z, -0x1.81263p-2f);
    return sft_madd_f32(q, z, 0x1.06eba6p-3f);
}

SFT_FN float sft_erf_f32(float x) {
    float a = fabsf(x);
    float b = sft_cap_f32(a, 4.0f); /* erf rounds to 1 */
    /* log(erfc(a)) on [0.9, 4] */
    float p = 0x1.9fea1ep-13f;
    p = sft_madd_f32(p, b, -0x1.91ee56p-9f);
    p = sft_madd_f32(p, b, 0x1.6dad36p-6f);
    p = sft_madd_f32(p, b, -0x1.aa7b7ap-4f);
    p = sft_madd_f32(p, b, -0x1.46208ep-1f);
    p = sft_madd_f32(p, b, -0x1.20b7aap+0f);
    p = sft_madd_f32(p, b, -0x1.5a6f44p-13f);
    float large = 1.0f - sft_exp_mid_f32(p);
    float small = sft_madd_f32(sft_erf_poly_f32(x * x), a, a);
    return copysignf(a > 0.9f ? large : small, x);
}

SFT_FN float sft_erfc_f32(float x) {
    float a = sft_cap_f32(fabsf(x), 10.2f);
    float t = 1.0f / (a + 3.0f);
    uint32_t bits;
    float e = sft_exp_minus_square_f32(a, 1.0f, &bits);
    float r = t * sft_erfcx_poly_f32(sft_erfcx_variable_f32(a, 3.0f, t));
    r = sft_exp_scale_f32(e * r, bits);
    float left = 2.0f - r;
    float small = 1.0f - sft_madd_f32(sft_erf_poly_f32(x * x), x, x);
    r = x < 0.0f ? left : r;
    return fabsf(x) > 0.5f ? r : small; /* NaN too */
}

/* Phi(-a), the normal distribution's left tail, for 0 <= a <= 13.25; *pdf is sqrt(2 pi) times the
 * density at a. Both are 0 from 13.25 on, where they would be subnormal. The polynomial is for
 * Phi(-a) exp(a^2 / 2) (a + 4). */
SFT_FN float sft_normal_tail_f32(float a, float *pdf) {
    float t = 1.0f / (a + 4.0f), u = sft_erfcx_variable_f32(a, 4.0f, t), u2 = u * u;
    uint32_t bits;
    float e = sft_exp_minus_square_f32(a, 0.5f, &bits);
    *pdf = e = sft_exp_scale_once_f32(e, bits);
    float q = -0x1.8bb502p-14f, p = 0x1.fa9c4p-13f;
    q = sft_madd_f32(q, u2, 0x1.9ac21cp-10f);
    p = sft_madd_f32(p, u2, -0x1.d1c416p-9f);
    q = sft_madd_f32(q, u2, -0x1.ed9334p-8f);
    p = sft_madd_f32(p, u2, 0x1.eee7p-5f);
    q = sft_madd_f32(q, u2, -0x1.7dff62p-3f);
    p = sft_madd_f32(p, u2, 0x1.8c6d7p-2f);
    q = sft_madd_f32(q, u2, -0x1.373e3ap-1f);
    p = sft_madd_f32(p, u2, 0x1.82b4bcp-1f);
    return e * (t * sft_madd_f32(q, u, p));
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), where nothing cancels. */
SFT_FN float sft_gelu_f32(float x) {
    float a = sft_cap_f32(fabsf(x), 13.25f), pdf;
    float up = x < 0.0f ? 0.0f : x;
    return up - a * sft_normal_tail_f32(a, &pdf);
}
/* Phi(x) + x phi(x): v at -a, 1 - v at a. */
SFT_FN float sft_gelu_grad_f32(float x) {
    float a = sft_cap_f32(fabsf(x), 13.25f), pdf;
    float tail = sft_normal_tail_f32(a, &pdf);
    float v = sft_madd_f32(a * -0x1.988454p-2f, pdf, tail), rest = 1.0f - v;
    v = x > 0.0f ? rest : v;
    return x == x ? v : x;
}
SFT_FN double sft_gelu_f64(double x) { return x * (0.5 * erfc(-x * 0.70710678118654752440)); }
SFT_FN double sft_gelu_grad_f64(double x) {
    double pdf = 0.39894228040143267794 * exp(-0.5 * x * x);
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * pdf;
}

/* ---- the gamma family -------------------------------------------------------------------------
 */

/* libm's lgamma leaves the sign in a global, which two threads must not write: hence the _r form.
 */
SFT_FN double sft_lgamma_f64(double x) {
#if defined(__GLIBC__) && (defined(_GNU_SOURCE) || defined(_DEFAULT_SOURCE))
    int sign;
    return lgamma_r(x, &sign);
#else
    return lgamma(x);
#endif
}

/* Stirling's series at w >= 8, where below 8 the argument was raised by 8 and the eight factors are
 * divided off; left of 0 the reflection. In double, since around 1, 2 and the negative roots the
 * terms cancel. */
SFT_FN float sft_lgamma_f32(float x) {
    double a = fabs((double)x);
    bool near = a < 8.0;
    double up = a + 8.0, w = near ? up : a;
    double product = (a * (a + 1.0)) * ((a + 2.0) * (a + 3.0)) *
                     (((a + 4.0) * (a + 5.0)) * ((a + 6.0) * (a + 7.0)));
    product = near ? product : 1.0;
    double reflected =
        3.14159265358979323846 * product / (a * fabs(sft_sinpi_poly_f64(a - rint(a))));
    double inv = 1.0 / w, z = inv * inv;
    double p = sft_madd_f64(z, 1.0 / 156, -691.0 / 360360);
    p = sft_madd_f64(p, z, 1.0 / 1188);
    p = sft_madd_f64(p, z, -1.0 / 1680);
    p = sft_madd_f64(p, z, 1.0 / 1260);
    p = sft_madd_f64(p, z, -1.0 / 360);
    p = sft_madd_f64(p, z, 1.0 / 12);
    double y = sft_madd_f64(w - 0.5, sft_log_f64(w), 0.91893853320467274178 - w) + p * inv;
    y -= sft_log_f64(x < 0.0f ? reflected : product);
    y = x < 0.0f ? -y : y;
    y = (x == 1.0f) | (x == 2.0f) ? 0.0 : y;
    return a == SFT_INF_F64 ? SFT_INF_F32 : (float)y;
}

/* Reflection left of 0, recurrence up to 10, then the asymptotic series. NaN at the negative
 * integers, -inf at 0 and +inf at -0, as PyTorch. */
SFT_FN double sft_digamma_f64(double x) {
    if (x == 0) return copysign(SFT_INF_F64, -x);
    double shift = 0;
    if (x < 0) {
        double f = x - rint(x);
        if (!(f != 0)) return SFT_NAN_F64;
        shift = -3.14159265358979323846 * sft_cospi_poly_f64(f) / sft_sinpi_poly_f64(f);
        x = 1 - x;
    }
    for (; x < 10; x += 1) shift -= 1 / x;
    double z = 1 / (x * x);
    double series =
        z * (1.0 / 12 -
             z * (1.0 / 120 -
                  z * (1.0 / 252 -
                       z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
    return shift + log(x) - 0.5 / x - series;
}

/* The same without branches: eight steps of the recurrence, or none, as one quotient n / d. */
SFT_FN float sft_digamma_f32(float x) {
    double a = fabs((double)x);
    bool near = a < 8.0;
    double up = a + 8.0, w = near ? up : a;
    double d = a, n = 1.0;
#define SFT_STEP(i)                                                                                \
    n = sft_madd_f64(n, a + (i), d);                                                               \
    d *= a + (i);
    SFT_STEP(1.0)
    SFT_STEP(2.0)
    SFT_STEP(3.0)
    SFT_STEP(4.0)
    SFT_STEP(5.0)
    SFT_STEP(6.0)
    SFT_STEP(7.0)
#undef SFT_STEP
    double steps = n / d, inv = 1.0 / w, z = inv * inv;
    double p = sft_madd_f64(z, 1.0 / 12, -691.0 / 32760);
    p = sft_madd_f64(p, z, 1.0 / 132);
    p = sft_madd_f64(p, z, -1.0 / 240);
    p = sft_madd_f64(p, z, 1.0 / 252);
    p = sft_madd_f64(p, z, -1.0 / 120);
    p = sft_madd_f64(p, z, 1.0 / 12);
    double y = sft_log_f64(w) - 0.5 * inv - p * z - (near ? steps : 0.0);
    /* psi(-a) = psi(a) + 1 / a + pi cot(pi a) */
    double f = a - rint(a);
    double cot = 3.14159265358979323846 * sft_cospi_poly_f64(f) / sft_sinpi_poly_f64(f);
    double left = f == 0.0 ? SFT_NAN_F64 : y + 1.0 / a + cot;
    y = x < 0.0f ? left : y;
    return x == 0.0f ? copysignf(SFT_INF_F32, -x) : (float)y;
}

/* ---- erfinv -----------------------------------------------------------------------------------
 */

/* x times a smooth function of w = -log(1 - x^2), after Giles (2010): a polynomial in w - 2.5 up to
 * w = 5, in sqrt(w) - 3 beyond. */
SFT_FN float sft_erfinv_f32(float x) {
    float w = -sft_log_f32((1.0f - x) * (1.0f + x)); /* inf at 1, NaN beyond */
    float v = w - 2.5f;
    float p = -0x1.9d2f5p-30f;
    p = sft_madd_f32(p, v, 0x1.dc95acp-26f);
    p = sft_madd_f32(p, v, 0x1.87e8dcp-22f);
    p = sft_madd_f32(p, v, -0x1.d84a4cp-19f);
    p = sft_madd_f32(p, v, -0x1.2dd2fep-18f);
    p = sft_madd_f32(p, v, 0x1.ca5bd4p-13f);
    p = sft_madd_f32(p, v, -0x1.489ae6p-10f);
    p = sft_madd_f32(p, v, -0x1.11c974p-8f);
    p = sft_madd_f32(p, v, 0x1.f91ebap-3f);
    p = sft_madd_f32(p, v, 0x1.805c5ep+0f);
    float t = sqrtf(w) - 3.0f;
    float q = 0x1.8f3a64p-14f;
    q = sft_madd_f32(q, t, -0x1.31b7d4p-12f);
    q = sft_madd_f32(q, t, -0x1.c5983cp-16f);
    q = sft_madd_f32(q, t, 0x1.7f6cd8p-10f);
    q = sft_madd_f32(q, t, -0x1.d989d2p-9f);
    q = sft_madd_f32(q, t, 0x1.7543acp-8f);
    q = sft_madd_f32(q, t, -0x1.f44e8p-8f);
    q = sft_madd_f32(q, t, 0x1.357858p-7f);
    q = sft_madd_f32(q, t, 0x1.006dc2p+0f);
    q = sft_madd_f32(q, t, 0x1.6a9efcp+1f);
    return x * (w < 5.0f ? p : q);
}

/* From the logarithmic estimate, Halley's steps on erf or, in the tails, on erfc. */
SFT_FN double sft_erfinv_f64(double x) {
    double a = fabs(x);
    if (!(a < 1)) return a == 1 ? copysign(SFT_INF_F64, x) : SFT_NAN_F64;
    double l = log1p(-a * a), s = 2 / (3.14159265358979323846 * 0.147) + l / 2;
    double y = sqrt(sqrt(s * s - l / 0.147) - s);
    for (int i = 0; i < 4; i++) {
        double err = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
        double step = err / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1 + y * step); /* the second derivative is -2y times the first */
    }
    return copysign(y, x);
}

#endif
