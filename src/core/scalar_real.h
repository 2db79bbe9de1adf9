/* Functions of the elementwise ops whose text is the same for float and double.
 * No include guard: scalar.h includes it once per type, with
 *   SFT_R the type, SFT_N(f) the name, SFT_C(x) a literal, SFT_M(f) the libm function.
 * Only exact libm functions (fabs, floor, ...) are called here: each is one instruction. */

SFT_FN SFT_R SFT_N(abs)(SFT_R x) { return SFT_M(fabs)(x); }
SFT_FN SFT_R SFT_N(neg)(SFT_R x) { return -x; }
SFT_FN SFT_R SFT_N(square)(SFT_R x) { return x * x; }
SFT_FN SFT_R SFT_N(sqrt)(SFT_R x) { return SFT_M(sqrt)(x); }
SFT_FN SFT_R SFT_N(rsqrt)(SFT_R x) { return SFT_C(1.0) / SFT_M(sqrt)(x); }
SFT_FN SFT_R SFT_N(reciprocal)(SFT_R x) { return SFT_C(1.0) / x; }
SFT_FN SFT_R SFT_N(floor)(SFT_R x) { return SFT_M(floor)(x); }
SFT_FN SFT_R SFT_N(ceil)(SFT_R x) { return SFT_M(ceil)(x); }
SFT_FN SFT_R SFT_N(trunc)(SFT_R x) { return SFT_M(trunc)(x); }
/* Ties to even. */
SFT_FN SFT_R SFT_N(round)(SFT_R x) { return SFT_M(rint)(x); }
SFT_FN SFT_R SFT_N(frac)(SFT_R x) { return x - SFT_M(trunc)(x); }
/* 0 for NaN, as PyTorch. */
SFT_FN SFT_R SFT_N(sign)(SFT_R x) {
    SFT_R up = x > 0 ? SFT_C(1.0) : SFT_C(0.0);
    SFT_R down = x < 0 ? SFT_C(1.0) : SFT_C(0.0);
    return up - down;
}
SFT_FN SFT_R SFT_N(copysign)(SFT_R x, SFT_R y) { return SFT_M(copysign)(x, y); }
SFT_FN SFT_R SFT_N(deg2rad)(SFT_R x) { return x * SFT_C(0.017453292519943295); }
SFT_FN SFT_R SFT_N(rad2deg)(SFT_R x) { return x * SFT_C(57.29577951308232); }

SFT_FN bool SFT_N(isnan)(SFT_R x) { return x != x; }
SFT_FN bool SFT_N(isinf)(SFT_R x) { return SFT_M(fabs)(x) == (SFT_R)SFT_INF_F64; }
SFT_FN bool SFT_N(isfinite)(SFT_R x) { return SFT_M(fabs)(x) < (SFT_R)SFT_INF_F64; }
SFT_FN bool SFT_N(isposinf)(SFT_R x) { return x == (SFT_R)SFT_INF_F64; }
SFT_FN bool SFT_N(isneginf)(SFT_R x) { return x == -(SFT_R)SFT_INF_F64; }
SFT_FN bool SFT_N(signbit)(SFT_R x) { return SFT_M(copysign)(SFT_C(1.0), x) < 0; }

/* Propagate NaN from either side. */
SFT_FN SFT_R SFT_N(maximum)(SFT_R a, SFT_R b) { return (a > b) | (a != a) ? a : b; }
SFT_FN SFT_R SFT_N(minimum)(SFT_R a, SFT_R b) { return (a < b) | (a != a) ? a : b; }
/* Ignore NaN on one side. */
SFT_FN SFT_R SFT_N(fmax)(SFT_R a, SFT_R b) { return (a > b) | (b != b) ? a : b; }
SFT_FN SFT_R SFT_N(fmin)(SFT_R a, SFT_R b) { return (a < b) | (b != b) ? a : b; }
/* min(max(x, lo), hi): hi where lo > hi; NaN in x or a bound propagates. */
SFT_FN SFT_R SFT_N(clamp)(SFT_R x, SFT_R lo, SFT_R hi) {
    return SFT_N(minimum)(SFT_N(maximum)(x, lo), hi);
}
SFT_FN SFT_R SFT_N(nan_to_num)(SFT_R x, SFT_R nan, SFT_R posinf, SFT_R neginf) {
    SFT_R y = x == (SFT_R)SFT_INF_F64 ? posinf : x;
    y = x == -(SFT_R)SFT_INF_F64 ? neginf : y;
    return x != x ? nan : y;
}
/* b where a is 0, else the step; 0 for NaN, as PyTorch. */
SFT_FN SFT_R SFT_N(heaviside)(SFT_R a, SFT_R b) {
    SFT_R step = a > 0 ? SFT_C(1.0) : SFT_C(0.0);
    return a == 0 ? b : step;
}
/* PyTorch's form: exact at both ends. */
SFT_FN SFT_R SFT_N(lerp)(SFT_R a, SFT_R b, SFT_R w) {
    SFT_R d = b - a;
    SFT_R low = a + w * d;
    SFT_R high = b - d * (SFT_C(1.0) - w);
    return SFT_M(fabs)(w) < SFT_C(0.5) ? low : high;
}

/* Python's %: the sign of b. NaN for b = 0. */
SFT_FN SFT_R SFT_N(remainder)(SFT_R a, SFT_R b) {
    SFT_R r = SFT_N(fmod)(a, b);
    SFT_R shifted = r + b;
    return (r != 0) & ((b < 0) != (r < 0)) ? shifted : r;
}
/* PyTorch's div_floor, which Python's float // follows: consistent with remainder. */
SFT_FN SFT_R SFT_N(floor_divide)(SFT_R a, SFT_R b) {
    SFT_R mod = SFT_N(fmod)(a, b);
    SFT_R div = (a - mod) / b;
    SFT_R less = div - SFT_C(1.0);
    div = (mod != 0) & ((b < 0) != (mod < 0)) ? less : div;
    SFT_R down = SFT_M(floor)(div);
    SFT_R up = down + SFT_C(1.0);
    down = div - down > SFT_C(0.5) ? up : down;
    SFT_R exact = a / b;
    SFT_R zero = SFT_M(copysign)(SFT_C(0.0), exact);
    SFT_R r = div != 0 ? down : zero;
    r = div != div ? div : r;
    return b == 0 ? exact : r;
}
SFT_FN SFT_R SFT_N(trunc_divide)(SFT_R a, SFT_R b) { return SFT_M(trunc)(a / b); }

/* 0 where x is 0, whatever y but NaN. */
SFT_FN SFT_R SFT_N(xlogy)(SFT_R x, SFT_R y) {
    SFT_R p = x * SFT_N(log)(y);
    p = x == 0 ? SFT_C(0.0) : p;
    return y != y ? y : p;
}
SFT_FN SFT_R SFT_N(xlog1py)(SFT_R x, SFT_R y) {
    SFT_R p = x * SFT_N(log1p)(y);
    p = x == 0 ? SFT_C(0.0) : p;
    return y != y ? y : p;
}
SFT_FN SFT_R SFT_N(logaddexp)(SFT_R a, SFT_R b) {
    SFT_R m = SFT_N(maximum)(a, b);
    SFT_R d = SFT_M(fabs)(a - b);
    SFT_R r = m + SFT_N(log1p_unit)(SFT_N(exp_down)(-d));
    return a == b && SFT_M(fabs)(a) == (SFT_R)SFT_INF_F64 ? a : r;
}
SFT_FN SFT_R SFT_N(logaddexp2)(SFT_R a, SFT_R b) {
    SFT_R m = SFT_N(maximum)(a, b);
    SFT_R d = SFT_M(fabs)(a - b);
    SFT_R r = m + SFT_N(log1p_unit)(SFT_N(exp2)(-d)) * SFT_C(1.4426950408889634);
    return a == b && SFT_M(fabs)(a) == (SFT_R)SFT_INF_F64 ? a : r;
}
/* Without eps: pass a negative one. With it x is first clamped to [eps, 1 - eps]. */
SFT_FN SFT_R SFT_N(logit)(SFT_R x, SFT_R eps) {
    SFT_R hi = SFT_C(1.0) - eps;
    SFT_R z = x < eps ? eps : x;
    z = z > hi ? hi : z;
    z = eps < 0 ? x : z;
    return SFT_N(log)(z / (SFT_C(1.0) - z));
}

/* Activations. <fn>_grad is the derivative at x. */
SFT_FN SFT_R SFT_N(relu)(SFT_R x) { return x < 0 ? SFT_C(0.0) : x; }
SFT_FN SFT_R SFT_N(relu6)(SFT_R x) {
    SFT_R y = x < 0 ? SFT_C(0.0) : x;
    return x > SFT_C(6.0) ? SFT_C(6.0) : y;
}
SFT_FN SFT_R SFT_N(leaky_relu)(SFT_R x, SFT_R slope) { return x > 0 ? x : x * slope; }
SFT_FN SFT_R SFT_N(threshold)(SFT_R x, SFT_R threshold, SFT_R value) {
    return x <= threshold ? value : x;
}
SFT_FN SFT_R SFT_N(hardtanh)(SFT_R x, SFT_R lo, SFT_R hi) { return SFT_N(clamp)(x, lo, hi); }
SFT_FN SFT_R SFT_N(hardtanh_grad)(SFT_R x, SFT_R lo, SFT_R hi) {
    return (x > lo) & (x < hi) ? SFT_C(1.0) : SFT_C(0.0);
}
SFT_FN SFT_R SFT_N(hardsigmoid)(SFT_R x) { return SFT_N(relu6)(x + SFT_C(3.0)) / SFT_C(6.0); }
SFT_FN SFT_R SFT_N(hardsigmoid_grad)(SFT_R x) {
    return (x > SFT_C(-3.0)) & (x < SFT_C(3.0)) ? (SFT_R)(1.0 / 6.0) : SFT_C(0.0);
}
SFT_FN SFT_R SFT_N(hardswish)(SFT_R x) { return x * SFT_N(hardsigmoid)(x); }
/* At the corners as PyTorch: 0 up to and at -3, 1 from 3 on. */
SFT_FN SFT_R SFT_N(hardswish_grad)(SFT_R x) {
    SFT_R mid = x / SFT_C(3.0) + SFT_C(0.5);
    SFT_R y = x <= SFT_C(-3.0) ? SFT_C(0.0) : mid;
    return x >= SFT_C(3.0) ? SFT_C(1.0) : y;
}
SFT_FN SFT_R SFT_N(softsign)(SFT_R x) { return x / (SFT_C(1.0) + SFT_M(fabs)(x)); }

/* scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1)): elu, selu and celu in one. */
SFT_FN SFT_R SFT_N(elu)(SFT_R x, SFT_R alpha, SFT_R scale, SFT_R input_scale) {
    SFT_R down = SFT_N(expm1)(x * input_scale) * (alpha * scale);
    SFT_R up = x * scale;
    return x <= 0 ? down : up;
}
SFT_FN SFT_R SFT_N(elu_grad)(SFT_R x, SFT_R alpha, SFT_R scale, SFT_R input_scale) {
    SFT_R down = SFT_N(exp)(x * input_scale) * (alpha * scale * input_scale);
    return x <= 0 ? down : scale;
}
#define SFT_SELU_ALPHA SFT_C(1.6732632423543772848170429916717)
#define SFT_SELU_SCALE SFT_C(1.0507009873554804934193349852946)
SFT_FN SFT_R SFT_N(selu)(SFT_R x) {
    return SFT_N(elu)(x, SFT_SELU_ALPHA, SFT_SELU_SCALE, SFT_C(1.0));
}
SFT_FN SFT_R SFT_N(selu_grad)(SFT_R x) {
    return SFT_N(elu_grad)(x, SFT_SELU_ALPHA, SFT_SELU_SCALE, SFT_C(1.0));
}
#undef SFT_SELU_ALPHA
#undef SFT_SELU_SCALE
SFT_FN SFT_R SFT_N(celu)(SFT_R x, SFT_R alpha) {
    return SFT_N(elu)(x, alpha, SFT_C(1.0), SFT_C(1.0) / alpha);
}
SFT_FN SFT_R SFT_N(celu_grad)(SFT_R x, SFT_R alpha) {
    return SFT_N(elu_grad)(x, alpha, SFT_C(1.0), SFT_C(1.0) / alpha);
}

/* The power of e is never above 1, so nothing overflows and the small side keeps its digits. */
SFT_FN SFT_R SFT_N(sigmoid)(SFT_R x) {
    SFT_R e = SFT_N(exp_down)(-SFT_M(fabs)(x));
    SFT_R num = x < 0 ? e : SFT_C(1.0);
    return num / (SFT_C(1.0) + e);
}
SFT_FN SFT_R SFT_N(sigmoid_grad)(SFT_R x) {
    SFT_R e = SFT_N(exp_down)(-SFT_M(fabs)(x));
    SFT_R d = SFT_C(1.0) + e;
    return e / (d * d);
}
/* NaN for -inf, as PyTorch's x / (1 + exp(-x)). */
SFT_FN SFT_R SFT_N(silu)(SFT_R x) {
    SFT_R e = SFT_N(exp_down)(-SFT_M(fabs)(x));
    SFT_R down = x * e;
    return (x < 0 ? down : x) / (SFT_C(1.0) + e);
}
SFT_FN SFT_R SFT_N(silu_grad)(SFT_R x) {
    SFT_R s = SFT_N(sigmoid)(x);
    return s * (SFT_C(1.0) + x * (SFT_C(1.0) - s));
}
SFT_FN SFT_R SFT_N(logsigmoid)(SFT_R x) {
    SFT_R low = x < 0 ? x : SFT_C(0.0);
    return low - SFT_N(log1p_unit)(SFT_N(exp_down)(-SFT_M(fabs)(x)));
}
SFT_FN SFT_R SFT_N(softplus)(SFT_R x, SFT_R beta, SFT_R threshold) {
    SFT_R z = x * beta;
    SFT_R up = z > 0 ? z : SFT_C(0.0);
    SFT_R y = (up + SFT_N(log1p_unit)(SFT_N(exp_down)(-SFT_M(fabs)(z)))) / beta;
    return z > threshold ? x : y;
}
SFT_FN SFT_R SFT_N(softplus_grad)(SFT_R x, SFT_R beta, SFT_R threshold) {
    SFT_R z = x * beta;
    SFT_R s = SFT_N(sigmoid)(z);
    return z > threshold ? SFT_C(1.0) : s;
}
/* x * tanh(log(1 + exp(x))). With n = exp(x) the tanh is n (n + 2) / (n (n + 2) + 2), which is 1 to
 * the last digit from n = exp(20) on. */
SFT_FN SFT_R SFT_N(mish)(SFT_R x) {
    SFT_R n = SFT_N(exp_capped)(x, SFT_C(20.0));
    SFT_R num = n * (n + SFT_C(2.0));
    return x * (num / (num + SFT_C(2.0)));
}
SFT_FN SFT_R SFT_N(mish_grad)(SFT_R x) {
    SFT_R y = x > SFT_C(20.0) ? SFT_C(20.0) : x;
    SFT_R n = SFT_N(exp_capped)(x, SFT_C(20.0));
    SFT_R num = n * (n + SFT_C(2.0));
    SFT_R inv = SFT_C(1.0) / (num + SFT_C(2.0));
    return inv * (num + SFT_C(4.0) * inv * (y * (n * (n + SFT_C(1.0)))));
}
/* The tanh form of gelu: 0.5 (1 + tanh(u)) is the sigmoid of 2u, which keeps the small side. */
SFT_FN SFT_R SFT_N(gelu_tanh)(SFT_R x) {
    SFT_R u = x * SFT_N(madd)(x * x, SFT_C(0.07135481282553455), SFT_C(1.5957691216057308));
    return x * SFT_N(sigmoid)(u);
}
/* v at -a and 1 - v at a; from 20 on 1 and 0. */
SFT_FN SFT_R SFT_N(gelu_tanh_grad)(SFT_R x) {
    SFT_R a = SFT_M(fabs)(x);
    a = a > SFT_C(20.0) ? SFT_C(20.0) : a;
    SFT_R a2 = a * a;
    SFT_R u = a * SFT_N(madd)(a2, SFT_C(0.07135481282553455), SFT_C(1.5957691216057308));
    SFT_R slope = a * SFT_N(madd)(a2, SFT_C(0.21406443847660365), SFT_C(1.5957691216057308));
    SFT_R e = SFT_N(exp_down)(-u), inv = SFT_C(1.0) / (SFT_C(1.0) + e);
    SFT_R v = e * inv * (SFT_C(1.0) - slope * inv);
    SFT_R rest = SFT_C(1.0) - v;
    return x > 0 ? rest : v;
}
