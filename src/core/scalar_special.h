/* erf and its kin, gelu, the gamma family. */
#ifndef SFT_SCALAR_SPECIAL_H
#define SFT_SCALAR_SPECIAL_H

SFT_LIBM1(erf)
SFT_LIBM1(erfc)

/* The gamma functions of libm leave the sign in a global; nobody here reads it. */
SFT_FN float sft_lgamma_f32(float x) { return lgammaf(x); }
SFT_FN double sft_lgamma_f64(double x) { return lgamma(x); }

/* Reflection left of 0, recurrence up to 10, then the asymptotic series. NaN at the negative
 * integers, -inf at 0 and +inf at -0, as PyTorch. */
SFT_FN double sft_digamma_f64(double x) {
    if (x == 0) return copysign(SFT_INF_F64, -x);
    double shift = 0;
    if (x < 0) {
        if (x == trunc(x)) return SFT_NAN_F64;
        double whole, part = modf(x, &whole);
        shift = -3.14159265358979323846 / tan(3.14159265358979323846 * part);
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
SFT_FN float sft_digamma_f32(float x) { return (float)sft_digamma_f64((double)x); }

/* Giles' starting value in w = -log(1 - x^2) would do for float; for double start from the
 * logarithmic estimate and take Newton steps on erf or, in the tails, on erfc. */
SFT_FN double sft_erfinv_f64(double x) {
    double a = fabs(x);
    if (!(a < 1)) return a == 1 ? copysign(SFT_INF_F64, x) : SFT_NAN_F64;
    double l = log1p(-a * a), s = 2 / (3.14159265358979323846 * 0.147) + l / 2;
    double y = sqrt(sqrt(s * s - l / 0.147) - s);
    for (int i = 0; i < 4; i++) {
        double err = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
        double step = err / (1.12837916709551257390 * exp(-y * y));
        y -= step / (1 + y * step); /* Halley: the second derivative is -2y times the first */
    }
    return copysign(y, x);
}
SFT_FN float sft_erfinv_f32(float x) { return (float)sft_erfinv_f64((double)x); }

/* x * Phi(x), Phi the normal distribution, by erfc so that the left side keeps its digits. */
SFT_FN double sft_gelu_f64(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
SFT_FN float sft_gelu_f32(float x) { return (float)sft_gelu_f64((double)x); }
SFT_FN double sft_gelu_grad_f64(double x) {
    double pdf = 0.39894228040143267794 * exp(-0.5 * x * x);
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * pdf;
}
SFT_FN float sft_gelu_grad_f32(float x) { return (float)sft_gelu_grad_f64((double)x); }

#endif
