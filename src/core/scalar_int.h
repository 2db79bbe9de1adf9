/* int64 arithmetic of the elementwise ops: wraps as two's complement, never traps.
 * Narrower integer dtypes are computed here and truncated, which gives the same bits.
 * Division: kernels report a zero divisor before they call; here it gives 0. */
#ifndef SFT_SCALAR_INT_H
#define SFT_SCALAR_INT_H

SFT_FN int64_t sft_add_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
SFT_FN int64_t sft_sub_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
SFT_FN int64_t sft_mul_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
SFT_FN int64_t sft_neg_i64(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
SFT_FN int64_t sft_abs_i64(int64_t a) { return a < 0 ? sft_neg_i64(a) : a; }
SFT_FN int64_t sft_square_i64(int64_t a) { return sft_mul_i64(a, a); }
SFT_FN int64_t sft_sign_i64(int64_t a) { return (a > 0) - (a < 0); }
SFT_FN int64_t sft_maximum_i64(int64_t a, int64_t b) { return a > b ? a : b; }
SFT_FN int64_t sft_minimum_i64(int64_t a, int64_t b) { return a < b ? a : b; }
SFT_FN int64_t sft_relu_i64(int64_t a) { return a > 0 ? a : 0; }
SFT_FN int64_t sft_heaviside_i64(int64_t a, int64_t b) { return a == 0 ? b : a > 0; }

/* lo wins over nothing: as PyTorch, min(max(a, lo), hi), so hi is the result where lo > hi. */
SFT_FN int64_t sft_clamp_i64(int64_t a, int64_t lo, int64_t hi) {
    return sft_minimum_i64(sft_maximum_i64(a, lo), hi);
}

/* Quotient rounded towards zero; b = 0 gives 0, INT64_MIN / -1 wraps to INT64_MIN. */
SFT_FN int64_t sft_trunc_divide_i64(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return b == -1 ? sft_neg_i64(a) : a / b;
}

/* C's %: the sign of a; b = 0 gives 0. */
SFT_FN int64_t sft_fmod_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/* Quotient rounded down (Python's //); b = 0 gives 0, INT64_MIN / -1 wraps to INT64_MIN. */
SFT_FN int64_t sft_floor_divide_i64(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return sft_neg_i64(a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Python's %: the sign of b; b = 0 gives 0. */
SFT_FN int64_t sft_remainder_i64(int64_t a, int64_t b) {
    int64_t r = sft_fmod_i64(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* a to the n, wrapping. A negative n gives what rounding towards zero leaves: 1 for a = 1, +-1 for
 * a = -1, else 0 (also for a = 0, as PyTorch). */
SFT_FN int64_t sft_pow_i64(int64_t a, int64_t n) {
    if (n < 0) return a == 1 ? 1 : a == -1 ? ((n & 1) ? -1 : 1) : 0;
    uint64_t base = (uint64_t)a, result = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1) result *= base;
        base *= base;
    }
    return (int64_t)result;
}

/* A count that is negative or at least the width shifts every bit out. */
SFT_FN int64_t sft_lshift_i64(int64_t a, int64_t n) {
    bool in = n >= 0 && n < 64;
    uint64_t r = (uint64_t)a << (n & 63);
    return in ? (int64_t)r : 0;
}

/* Arithmetic; a count that is negative or at least the width leaves the sign: 0 or -1. */
SFT_FN int64_t sft_rshift_i64(int64_t a, int64_t n) {
    bool in = n >= 0 && n < 64;
    return a >> (in ? n : 63);
}

/* |a| as unsigned, so that INT64_MIN has one. */
SFT_FN uint64_t sft_magnitude_i64(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }

/* Not negative, but for gcd(INT64_MIN, 0 or INT64_MIN), which wraps. gcd(0, 0) = 0. */
SFT_FN int64_t sft_gcd_i64(int64_t a, int64_t b) {
    uint64_t x = sft_magnitude_i64(a), y = sft_magnitude_i64(b);
    while (y != 0) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return (int64_t)x;
}

/* Wraps where the multiple has no int64. */
SFT_FN int64_t sft_lcm_i64(int64_t a, int64_t b) {
    uint64_t g = (uint64_t)sft_gcd_i64(a, b);
    if (g == 0) return 0;
    return sft_abs_i64((int64_t)(sft_magnitude_i64(a) / g * sft_magnitude_i64(b)));
}

#endif
