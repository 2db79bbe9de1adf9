/* Conversions between dtypes: sft_<to>_from_<from>.
 * Float to integer truncates, saturates at the type's ends and maps NaN to 0, on every device.
 * float16 (f16) and bfloat16 (bf16) are uint16_t here; to them, round to nearest, ties to even. */
#ifndef SFT_SCALAR_CONVERT_H
#define SFT_SCALAR_CONVERT_H

/* The largest float below 2^31 and the largest double below 2^63 (float below 2^63), so that the C
 * cast is always in range; what lies beyond is set afterwards. */
SFT_FN int32_t sft_i32_from_f32(float x) {
    float y = x >= -2147483648.0f ? x : -2147483648.0f;
    y = y <= 2147483520.0f ? y : 2147483520.0f;
    int32_t v = (int32_t)y;
    v = x >= 2147483648.0f ? INT32_MAX : v;
    return x == x ? v : 0;
}

SFT_FN int32_t sft_i32_from_f64(double x) {
    double y = x >= -2147483648.0 ? x : -2147483648.0;
    y = y <= 2147483647.0 ? y : 2147483647.0;
    int32_t v = (int32_t)y;
    return x == x ? v : 0;
}

SFT_FN int64_t sft_i64_from_f32(float x) {
    float y = x >= -0x1p63f ? x : -0x1p63f;
    y = y <= 0x1.fffffep62f ? y : 0x1.fffffep62f;
    int64_t v = (int64_t)y;
    v = x >= 0x1p63f ? INT64_MAX : v;
    return x == x ? v : 0;
}

SFT_FN int64_t sft_i64_from_f64(double x) {
    double y = x >= -0x1p63 ? x : -0x1p63;
    y = y <= 0x1.fffffffffffffp62 ? y : 0x1.fffffffffffffp62;
    int64_t v = (int64_t)y;
    v = x >= 0x1p63 ? INT64_MAX : v;
    return x == x ? v : 0;
}

/* The narrow types: clamp to the ends first; the comparisons send NaN to 0. */
#define SFT_NARROW(to, type, from, real, lo, hi)                                                   \
    SFT_FN type sft_##to##_from_##from(real x) {                                                   \
        real y = x >= (real)(lo) ? x : (real)(lo);                                                 \
        y = y <= (real)(hi) ? y : (real)(hi);                                                      \
        y = x == x ? y : (real)0;                                                                  \
        return (type)(int32_t)y;                                                                   \
    }
SFT_NARROW(i16, int16_t, f32, float, INT16_MIN, INT16_MAX)
SFT_NARROW(i16, int16_t, f64, double, INT16_MIN, INT16_MAX)
SFT_NARROW(i8, int8_t, f32, float, INT8_MIN, INT8_MAX)
SFT_NARROW(i8, int8_t, f64, double, INT8_MIN, INT8_MAX)
SFT_NARROW(u8, uint8_t, f32, float, 0, UINT8_MAX)
SFT_NARROW(u8, uint8_t, f64, double, 0, UINT8_MAX)
#undef SFT_NARROW

/* NaN is true. */
SFT_FN uint8_t sft_bool_from_f32(float x) { return x != 0.0f; }
SFT_FN uint8_t sft_bool_from_f64(double x) { return x != 0.0; }
SFT_FN uint8_t sft_bool_from_i64(int64_t x) { return x != 0; }

/* No arithmetic on subnormal operands, so the result holds under flush-to-zero too. */
SFT_FN float sft_f32_from_f16(uint16_t h) {
    uint32_t em = (uint32_t)(h & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t normal = em + 0x38000000u;                         /* exponent bias 15 becomes 127 */
    normal = em >= 0x0f800000u ? normal + 0x38000000u : normal; /* inf, NaN: exponent all ones */
    float tiny = sft_frombits_f32(em + 0x38800000u) - 0x1p-14f;
    uint32_t u = em < 0x00800000u ? sft_bits_f32(tiny) : normal;
    return sft_frombits_f32(u | sign);
}

SFT_FN uint16_t sft_f16_from_f32(float x) {
    uint32_t u = sft_bits_f32(x);
    uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    uint32_t normal = (u + 0xfffu + ((u >> 13) & 1u) - 0x38000000u) >> 13;
    /* below 2^-14: 0.5's last place is float16's smallest step, so the sum rounds rightly */
    uint32_t tiny = sft_bits_f32(sft_frombits_f32(u) + 0.5f) - 0x3f000000u;
    uint32_t h = u < 0x38800000u ? tiny : normal;
    h = u >= 0x477ff000u ? 0x7c00u : h; /* 65520 and beyond round to infinity */
    h = u > 0x7f800000u ? 0x7e00u | ((u >> 13) & 0x1ffu) : h;
    return (uint16_t)(h | sign);
}

SFT_FN float sft_f32_from_bf16(uint16_t h) { return sft_frombits_f32((uint32_t)h << 16); }

SFT_FN uint16_t sft_bf16_from_f32(float x) {
    uint32_t u = sft_bits_f32(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u; /* stays NaN also where the payload's top bits are 0 */
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* As PyTorch, through float: two roundings. */
SFT_FN uint16_t sft_f16_from_f64(double x) { return sft_f16_from_f32((float)x); }
SFT_FN uint16_t sft_bf16_from_f64(double x) { return sft_bf16_from_f32((float)x); }

#endif
