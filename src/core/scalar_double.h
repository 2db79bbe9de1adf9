/* exp and log in double, branch-free so that loops of them vectorise; the float32 functions that
 * need more digits than float has use them too. Errors stay near 1 ulp. */
#ifndef SFT_SCALAR_DOUBLE_H
#define SFT_SCALAR_DOUBLE_H

#define SFT_ROUND_F64 0x1.8p52 /* added to x, its low bits hold x rounded to an integer */

/* exp(x) = 2^k exp(r); *bits holds k in its low bits. */
SFT_FN double sft_exp_reduce_f64(double x, uint64_t *bits) {
    double t = sft_madd_f64(x, 0x1.71547652b82fep+0, SFT_ROUND_F64);
    *bits = sft_bits_f64(t);
    double k = t - SFT_ROUND_F64;
    double r = sft_madd_f64(k, -0x1.62e42feep-1, x); /* k times this is exact */
    return sft_madd_f64(k, -0x1.a39ef35793c76p-33, r);
}

/* exp(r) on |r| <= ln(2) / 2 */
SFT_FN double sft_exp_poly_f64(double r) {
    double r2 = r * r;
    double q = 0x1.b2aecfadd5baep-26, p = 0x1.28b558a2e9276p-22;
    q = sft_madd_f64(q, r2, 0x1.71dd1e5c57f4ap-19);
    p = sft_madd_f64(p, r2, 0x1.a01993b542eddp-16);
    q = sft_madd_f64(q, r2, 0x1.a01a016136fabp-13);
    p = sft_madd_f64(p, r2, 0x1.6c16c1856ffb1p-10);
    q = sft_madd_f64(q, r2, 0x1.11111111474dep-7);
    p = sft_madd_f64(p, r2, 0x1.5555555550862p-5);
    q = sft_madd_f64(q, r2, 0x1.55555555553a0p-3);
    p = sft_madd_f64(p, r2, 0x1.0000000000009p-1);
    return sft_madd_f64(r2, sft_madd_f64(q, r, p), r) + 1.0;
}

SFT_FN double sft_exp_scale_f64(double p, uint64_t bits) {
    uint64_t half = bits >> 1;
    double s1 = sft_frombits_f64((half << 52) + 0x3ff0000000000000u);
    double s2 = sft_frombits_f64(((bits - half) << 52) + 0x3ff0000000000000u);
    return p * s1 * s2;
}

SFT_FN double sft_exp_f64(double x) {
    double y = x > 710.0 ? 710.0 : x;
    y = x < -746.0 ? -746.0 : y;
    uint64_t bits;
    double r = sft_exp_reduce_f64(y, &bits);
    return sft_exp_scale_f64(sft_exp_poly_f64(r), bits);
}

/* exp(x) for x <= 0 */
SFT_FN double sft_exp_down_f64(double x) {
    double y = x < -746.0 ? -746.0 : x;
    uint64_t bits;
    double r = sft_exp_reduce_f64(y, &bits);
    return sft_exp_scale_f64(sft_exp_poly_f64(r), bits);
}

/* exp(min(x, top)) */
SFT_FN double sft_exp_capped_f64(double x, double top) { return sft_exp_f64(x > top ? top : x); }

/* exp(x) where the caller knows |x| <= 700 */
SFT_FN double sft_exp_mid_f64(double x) {
    uint64_t bits;
    double r = sft_exp_reduce_f64(x, &bits);
    return sft_exp_poly_f64(r) * sft_frombits_f64((bits << 52) + 0x3ff0000000000000u);
}

#define SFT_SQRT_HALF_BITS_F64 0x3fe6a09e667f3bcdu

/* x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for a normal x > 0; returns f. */
SFT_FN double sft_log_split_f64(double x, double *k) {
    uint64_t u = sft_bits_f64(x) - SFT_SQRT_HALF_BITS_F64;
    /* k + 1024 is put into the low bits of 2^52: no vector unit before AVX-512 converts int64 */
    *k = sft_frombits_f64(((u + 0x4000000000000000u) >> 52) + 0x4330000000000000u) -
         (0x1p52 + 1024.0);
    return sft_frombits_f64((u & 0xfffffffffffffu) + SFT_SQRT_HALF_BITS_F64) - 1.0;
}

SFT_FN double sft_log_f64(double x) {
    bool tiny = x < 0x1p-1022;
    double up = x * 0x1p54, k, f = sft_log_split_f64(tiny ? up : x, &k);
    k -= tiny ? 54.0 : 0.0;
    /* log(1 + f) = 2 atanh(s) */
    double s = f / (2.0 + f), w = s * s, w2 = w * w;
    double q = 0x1.2f04ea5d3955fp-3, p = 0x1.39a1cd5f9d209p-3;
    q = sft_madd_f64(q, w2, 0x1.74663dde24283p-3);
    p = sft_madd_f64(p, w2, 0x1.c71c52106fd98p-3);
    q = sft_madd_f64(q, w2, 0x1.24924941e505cp-2);
    p = sft_madd_f64(p, w2, 0x1.999999997fef1p-2);
    q = sft_madd_f64(q, w2, 0x1.5555555555592p-1);
    double r = w * sft_madd_f64(p, w, q);
    double h = 0.5 * f * f;
    double low = sft_madd_f64(s, h + r, k * 0x1.a39ef35793c76p-33);
    double y = sft_madd_f64(k, 0x1.62e42feep-1, f - (h - low));
    double end = x == 0.0 ? -SFT_INF_F64 : SFT_NAN_F64;
    y = x > 0.0 ? y : end;
    return x == SFT_INF_F64 ? x : y;
}

/* Outside 0.6, 1 - 2 / (exp(2a) + 1); inside, a polynomial for (tanh(a) - a) / a^3. */
SFT_FN double sft_tanh_f64(double x) {
    double a = fabs(x), b = a > 20.0 ? 20.0 : a; /* rounds to 1 */
    double large = 1.0 - 2.0 / (sft_exp_mid_f64(b + b) + 1.0);
    double z = x * x, w = z * z;
    double p = -0x1.2040f1fe36fa1p-16, q = 0x1.4cb0412a23efp-14;
    p = sft_madd_f64(p, w, -0x1.e32fcbdce28fcp-13);
    q = sft_madd_f64(q, w, 0x1.33db668072064p-11);
    p = sft_madd_f64(p, w, -0x1.7d79e5d0648b8p-10);
    q = sft_madd_f64(q, w, 0x1.d6d0c75ecdff5p-9);
    p = sft_madd_f64(p, w, -0x1.226e229ce5763p-7);
    q = sft_madd_f64(q, w, 0x1.664f47f07dc99p-6);
    p = sft_madd_f64(p, w, -0x1.ba1ba1b783077p-5);
    q = sft_madd_f64(q, w, 0x1.111111110e1e6p-3);
    p = sft_madd_f64(p, w, -0x1.555555555553p-2);
    p = sft_madd_f64(q, z, p);
    double small = sft_madd_f64(p * z, a, a);
    return copysign(a > 0.6 ? large : small, x);
}

/* sin(pi f) and cos(pi f) on |f| <= 1/2 */
SFT_FN double sft_sinpi_poly_f64(double f) {
    double z = f * f;
    double p = 0x1.2aca67992b3d1p-21;
    p = sft_madd_f64(p, z, -0x1.6bda79ecf4295p-16);
    p = sft_madd_f64(p, z, 0x1.e8db76d053d9fp-12);
    p = sft_madd_f64(p, z, -0x1.e306fb7acb953p-8);
    p = sft_madd_f64(p, z, 0x1.507833e751405p-4);
    p = sft_madd_f64(p, z, -0x1.32d2cce4ddcf5p-1);
    p = sft_madd_f64(p, z, 0x1.466bc67757ff6p+1);
    p = sft_madd_f64(p, z, -0x1.4abbce625be0fp+2);
    return f * sft_madd_f64(p, z, 0x1.921fb54442d18p+1);
}
SFT_FN double sft_cospi_poly_f64(double f) {
    double z = f * f;
    double p = 0x1.1652f704e2ce9p-18;
    p = sft_madd_f64(p, z, -0x1.b6935a3600964p-14);
    p = sft_madd_f64(p, z, 0x1.f9d24860b6e23p-10);
    p = sft_madd_f64(p, z, -0x1.a6d1efa7db957p-6);
    p = sft_madd_f64(p, z, 0x1.e1f50680e23acp-3);
    p = sft_madd_f64(p, z, -0x1.55d3c7e3bf6c2p+0);
    p = sft_madd_f64(p, z, 0x1.03c1f081b599ap+2);
    p = sft_madd_f64(p, z, -0x1.3bd3cc9be45dcp+2);
    return sft_madd_f64(p, z, 1.0);
}

#endif
