/* random.c: kernels of random numbers: distributions, permutations, multinomial. */
#include "../ops/random.h"
#include "../philox.h"
#include "kernels.h"
#include <stdlib.h>

enum { PIECE = 1024, LANES = SFT_PHILOX_LANES };

/* ---- words ----------------------------------------------------------------------------------- */

/* Words of `blocks` <= PIECE / 2 blocks from `first` on: word w of block l is out[w][l]. Room for
 * whole groups of LANES. */
typedef struct words {
    _Alignas(64) uint32_t w[4][PIECE / 2];
} words;

static void draw(uint64_t key, uint64_t first, int blocks, words *out) {
    uint32_t group[4][LANES], one[4];
    if (blocks <= 8) { /* a small tensor */
        for (int l = 0; l < blocks; l++) {
            sft_philox(key, first + (uint64_t)l, one);
            for (int j = 0; j < 4; j++) out->w[j][l] = one[j];
        }
        return;
    }
    for (int at = 0; at < blocks; at += LANES) {
        sft_philox_blocks(key, first + (uint64_t)at, group);
        for (int j = 0; j < 4; j++) memcpy(&out->w[j][at], group[j], sizeof group[j]);
    }
}

/* 32 random bits -> (0, 1]: never 0, so that its logarithm is finite */
static inline float open_f32(uint32_t w) { return (float)(int32_t)(w >> 1) * 0x1p-31f + 0x1p-32f; }
static inline double open_f64(uint32_t hi, uint32_t lo) { return sft_unit_f64(hi, lo) + 0x1p-54; }
static inline float unit_f32(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }

/* sin and cos of 2 pi u */
static inline void turn_f32(float u, float *s, float *c) {
    float t = u * 4.0f, q = rintf(t), r = (t - q) * 1.57079632679489661923f;
    uint32_t k = (uint32_t)(int32_t)q;
    *s = sft_sin_of_f32(r, k);
    *c = sft_sin_of_f32(r, k + 1);
}
static inline void turn_f64(double u, double *s, double *c) {
    double t = 2.0 * u - 1.0, q = rint(t), f = t - q; /* u in half turns, minus half a turn */
    double sign = q == 0 ? -1.0 : 1.0;
    *s = sign * sft_sinpi_poly_f64(f);
    *c = sign * sft_cospi_poly_f64(f);
}

/* ---- float32: four elements a block ---------------------------------------------------------- */

/* expr of u (the word) for each of the four words. */
#define EACH_F32(name, expr)                                                                       \
    static void name(const words *in, int blocks, float *o, const sft_random_params *p) {          \
        const float a = (float)p->a, b = (float)p->b;                                              \
        (void)a, (void)b;                                                                          \
        for (int l = 0; l < blocks; l++) {                                                         \
            for (int j = 0; j < 4; j++) {                                                          \
                const uint32_t w = in->w[j][l];                                                    \
                o[4 * l + j] = (expr);                                                             \
            }                                                                                      \
        }                                                                                          \
    }
static inline float scale_f32(float u, float a, float b) {
    float x = a + (b - a) * u;
    return x >= b && b > a ? a : x; /* rounding must not reach the end, which is left out */
}
EACH_F32(unit_run, unit_f32(w))
EACH_F32(uniform_run, scale_f32(unit_f32(w), a, b))

static void normal_f32(const words *in, int blocks, float *o, const sft_random_params *p) {
    const float a = (float)p->a, b = (float)p->b;
    float z[4][PIECE / 4];
    for (int j = 0; j < 4; j += 2) {
        const uint32_t *w0 = in->w[j], *w1 = in->w[j + 1];
        float *z0 = z[j], *z1 = z[j + 1];
        IVDEP for (int l = 0; l < blocks; l++) {
            float r = sqrtf(-2.0f * sft_log_f32(open_f32(w0[l]))) * b, s, c;
            turn_f32(unit_f32(w1[l]), &s, &c);
            z0[l] = a + r * c;
            z1[l] = a + r * s;
        }
    }
    for (int l = 0; l < blocks; l++)
        for (int j = 0; j < 4; j++) o[4 * l + j] = z[j][l];
}

static void exponential_f32(const words *in, int blocks, float *o, const sft_random_params *p) {
    const float a = -1.0f / (float)p->a;
    float z[4][PIECE / 4];
    for (int j = 0; j < 4; j++) {
        const uint32_t *w = in->w[j];
        float *y = z[j];
        IVDEP for (int l = 0; l < blocks; l++) y[l] = sft_log_f32(open_f32(w[l])) * a;
    }
    for (int l = 0; l < blocks; l++)
        for (int j = 0; j < 4; j++) o[4 * l + j] = z[j][l];
}

static void log_normal_f32(const words *in, int blocks, float *o, const sft_random_params *p) {
    normal_f32(in, blocks, o, p);
    for (int i = 0; i < 4 * blocks; i++) o[i] = sft_exp_f32(o[i]);
}
static void bernoulli_f32(const words *in, int blocks, float *o, const sft_random_params *p) {
    const uint64_t limit = p->a >= 1 ? UINT64_C(1) << 32 : (uint64_t)(p->a * 0x1p32);
    for (int l = 0; l < blocks; l++)
        for (int j = 0; j < 4; j++) o[4 * l + j] = in->w[j][l] < limit ? 1.0f : 0.0f;
}
EACH_F32(cauchy_run, a + b * tanf((unit_f32(w) - 0.5f) * 3.14159265358979f))
EACH_F32(geometric_run, fmaxf(1.0f, ceilf(sft_log_f32(open_f32(w)) / b)))

/* ---- float64: two elements a block ----------------------------------------------------------- */

static void fill_f64(const words *in, int blocks, double *o, const sft_random_params *p) {
    const double a = p->a, b = p->b;
    for (int l = 0; l < blocks; l++) {
        for (int j = 0; j < 2; j++) {
            uint32_t hi = in->w[2 * j][l], lo = in->w[2 * j + 1][l];
            double u = sft_unit_f64(hi, lo), x = 0;
            switch (p->kind) {
            case SFT_RANDOM_UNIFORM:
                x = a + (b - a) * u;
                x = x >= b && b > a ? a : x;
                break;
            case SFT_RANDOM_EXPONENTIAL:
                x = -sft_log_f64(open_f64(hi, lo)) / a;
                break;
            case SFT_RANDOM_CAUCHY:
                x = a + b * tan((u - 0.5) * 3.14159265358979323846);
                break;
            case SFT_RANDOM_GEOMETRIC:
                x = fmax(1.0, ceil(sft_log_f64(open_f64(hi, lo)) / b));
                break;
            default:
                x = u < a ? 1.0 : 0.0;
                break;
            }
            o[2 * l + j] = x;
        }
    }
}

static void normal_f64(const words *in, int blocks, double *o, const sft_random_params *p) {
    for (int l = 0; l < blocks; l++) {
        double r = sqrt(-2.0 * sft_log_f64(open_f64(in->w[0][l], in->w[1][l]))) * p->b, s, c;
        turn_f64(sft_unit_f64(in->w[2][l], in->w[3][l]), &s, &c);
        o[2 * l] = p->a + r * c;
        o[2 * l + 1] = p->a + r * s;
    }
    if (p->kind == SFT_RANDOM_LOG_NORMAL)
        for (int i = 0; i < 2 * blocks; i++) o[i] = sft_exp_f64(o[i]);
}

/* ---- integers -------------------------------------------------------------------------------- */

static void integers(const words *in, int blocks, int64_t *o, const sft_random_params *p) {
    const uint64_t range = p->range, low = (uint64_t)p->low;
    if (!p->wide) {
        for (int l = 0; l < blocks; l++)
            for (int j = 0; j < 4; j++) o[4 * l + j] = (int64_t)(low + (in->w[j][l] * range >> 32));
        return;
    }
    for (int l = 0; l < blocks; l++)
        for (int j = 0; j < 2; j++) {
            uint64_t w = (uint64_t)in->w[2 * j][l] << 32 | in->w[2 * j + 1][l];
            uint64_t v = range ? (uint64_t)((unsigned __int128)w * range >> 64) : w;
            o[2 * l + j] = (int64_t)(low + v);
        }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

typedef union piece {
    _Alignas(64) float f[PIECE];
    double d[PIECE];
    int64_t i[PIECE];
} piece;

static void run_f32(const words *in, int blocks, float *o, const sft_random_params *p) {
    static void (*const runs[])(const words *, int, float *, const sft_random_params *) = {
        [SFT_RANDOM_UNIFORM] = uniform_run,       [SFT_RANDOM_NORMAL] = normal_f32,
        [SFT_RANDOM_LOG_NORMAL] = log_normal_f32, [SFT_RANDOM_EXPONENTIAL] = exponential_f32,
        [SFT_RANDOM_CAUCHY] = cauchy_run,         [SFT_RANDOM_GEOMETRIC] = geometric_run,
        [SFT_RANDOM_BERNOULLI] = bernoulli_f32};
    if (p->kind == SFT_RANDOM_UNIFORM && p->a == 0 && p->b == 1)
        unit_run(in, blocks, o, p);
    else
        runs[p->kind](in, blocks, o, p);
}

/* The upper bits of each word: as many as a half type holds, so that none rounds up to 1. */
static void keep_bits(words *w, int blocks, int bits) {
    for (int j = 0; j < 4; j++)
        for (int l = 0; l < blocks; l++) w->w[j][l] &= ~(uint32_t)0 << (32 - bits);
}

static void random_range(void *ctx, int64_t begin, int64_t end) {
    const sft_kcall *k = ctx;
    const sft_random_params *p = k->params;
    const sft_tensor *out = k->t[0];
    const int per = p->wide ? 2 : 4, dtype = out->dtype;
    const int64_t es = (int64_t)sft_esize(out), n = out->numel;
    const bool ints = p->kind == SFT_RANDOM_INTEGER;
    const int ct = ints ? SFT_int64 : p->wide ? SFT_float64 : SFT_float32;
    words w;
    piece buf;
    for (int64_t at = begin * PIECE; at < n && at < end * PIECE; at += PIECE) {
        int m = (int)(n - at < PIECE ? n - at : PIECE), blocks = (m + per - 1) / per;
        draw(p->key, p->offset + (uint64_t)(at / per), blocks, &w);
        if (p->kind == SFT_RANDOM_UNIFORM && (dtype == SFT_float16 || dtype == SFT_bfloat16))
            keep_bits(&w, blocks, dtype == SFT_float16 ? 11 : 8);
        char *dst = out->data + at * es;
        bool direct = ct == dtype && m == PIECE;
        void *o = direct ? (void *)dst : &buf;
        if (ints)
            integers(&w, blocks, o, p);
        else if (!p->wide)
            run_f32(&w, blocks, o, p);
        else if (p->kind == SFT_RANDOM_NORMAL || p->kind == SFT_RANDOM_LOG_NORMAL)
            normal_f64(&w, blocks, o, p);
        else
            fill_f64(&w, blocks, o, p);
        if (!direct) sft_store(ct, dtype, m, &buf, dst, es);
    }
}

KERNEL(_random)(const sft_kcall *k) {
    sft_parallel_for((k->t[0]->numel + PIECE - 1) / PIECE, 8, random_range, (void *)k);
    return SFT_OK;
}

/* ---- sequences: arange, linspace, logspace --------------------------------------------------- */

static void sequence_range(void *ctx, int64_t begin, int64_t end) {
    const sft_kcall *k = ctx;
    const sft_sequence_params *p = k->params;
    const sft_tensor *out = k->t[0];
    const int64_t n = out->numel, es = (int64_t)sft_esize(out);
    piece buf;
    for (int64_t at = begin * PIECE; at < n && at < end * PIECE; at += PIECE) {
        int m = (int)(n - at < PIECE ? n - at : PIECE);
        if (p->kind == SFT_SEQUENCE_INT) {
            const uint64_t start = (uint64_t)p->istart + (uint64_t)at * (uint64_t)p->istep;
            for (int i = 0; i < m; i++)
                buf.i[i] = (int64_t)(start + (uint64_t)i * (uint64_t)p->istep);
            sft_store(SFT_int64, out->dtype, m, &buf, out->data + at * es, es);
            continue;
        }
        for (int i = 0; i < m; i++) {
            int64_t j = at + i;
            /* the second half counts from the end, so that the end is met exactly */
            buf.d[i] = p->kind == SFT_SEQUENCE_STEP || j < n - n / 2
                           ? p->start + p->step * (double)j
                           : p->end - p->step * (double)(n - 1 - j);
        }
        if (p->kind == SFT_SEQUENCE_LOG)
            for (int i = 0; i < m; i++) buf.d[i] = pow(p->base, buf.d[i]);
        sft_store(SFT_float64, out->dtype, m, &buf, out->data + at * es, es);
    }
}

KERNEL(_sequence)(const sft_kcall *k) {
    sft_parallel_for((k->t[0]->numel + PIECE - 1) / PIECE, 32, sequence_range, (void *)k);
    return SFT_OK;
}

/* ---- permutations and draws ------------------------------------------------------------------ */

static inline uint64_t wide_word(const words *w, int i) {
    return (uint64_t)w->w[2 * (i & 1)][i / 2] << 32 | w->w[2 * (i & 1) + 1][i / 2];
}

/* Fisher and Yates: two elements a block. */
KERNEL(randperm)(const sft_kcall *k) {
    const sft_draw_params *p = k->params;
    int64_t *v = (int64_t *)k->t[0]->data, n = k->t[0]->numel;
    words w;
    for (int64_t i = 0; i < n; i++) v[i] = i + k->index_base;
    int64_t to[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int m = (int)(n - at < PIECE ? n - at : PIECE);
        draw(p->key, p->offset + (uint64_t)at / 2, (m + 1) / 2, &w);
        /* The places are known before the swaps: they are fetched meanwhile. */
        for (int i = 0; i < m; i++) {
            to[i] = at + i +
                    (int64_t)((unsigned __int128)wide_word(&w, i) * (uint64_t)(n - at - i) >> 64);
            __builtin_prefetch(&v[to[i]], 1);
        }
        for (int i = 0; i < m; i++) {
            int64_t t = v[at + i];
            v[at + i] = v[to[i]];
            v[to[i]] = t;
        }
    }
    return SFT_OK;
}

typedef struct keyed {
    double key;
    int64_t index;
} keyed;

static int by_key(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static double uniform_at(const sft_draw_params *p, uint64_t i) {
    uint32_t w[4];
    sft_philox(p->key, p->offset + i / 2, w);
    return i & 1 ? open_f64(w[2], w[3]) : open_f64(w[0], w[1]);
}

/* Checks a row of weights; where asked for, replaces each by the sum up to it. Returns the number
 * of positive ones, or -1. */
static int64_t check_weights(double *w, int64_t n, bool sums) {
    double sum = 0;
    int64_t positive = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(w[i] >= 0) || w[i] > 1.79e308) return -1;
        positive += w[i] > 0;
        sum += w[i];
        if (sums) w[i] = sum;
    }
    return sum > 1.79e308 ? -1 : positive;
}

static void draw_with(const sft_draw_params *p, const double *sum, int64_t n, int64_t *out,
                      int64_t m, uint64_t first, int base) {
    for (int64_t s = 0; s < m; s++) {
        double x = (1 - uniform_at(p, first + (uint64_t)s) + 0x1p-54) * sum[n - 1];
        int64_t lo = 0, hi = n - 1;
        while (lo < hi) {
            int64_t mid = (lo + hi) / 2;
            if (sum[mid] > x)
                hi = mid;
            else
                lo = mid + 1;
        }
        while (lo > 0 && sum[lo] == sum[lo - 1]) lo--; /* never one of weight 0 */
        out[s] = lo + base;
    }
}

/* The first m of n exponential races: the same as drawing one after the other without putting back.
 */
static void draw_without(const sft_draw_params *p, const double *w, int64_t n, int64_t *out,
                         int64_t m, uint64_t first, int base, keyed *keys) {
    for (int64_t i = 0; i < n; i++) {
        keys[i].index = i;
        keys[i].key =
            w[i] > 0 ? -sft_log_f64(uniform_at(p, first + (uint64_t)i)) / w[i] : SFT_INF_F64;
    }
    qsort(keys, (size_t)n, sizeof *keys, by_key);
    for (int64_t s = 0; s < m; s++) out[s] = keys[s].index + base;
}

KERNEL(multinomial)(const sft_kcall *k) {
    const sft_draw_params *p = k->params;
    const sft_tensor *out = k->t[0], *x = k->t[1];
    int64_t n = x->shape[x->ndim - 1], m = out->shape[out->ndim - 1], rows = n ? x->numel / n : 0;
    bool with = p->replacement || m == 1;
    double *w = malloc(sizeof *w * (size_t)(n ? n : 1));
    keyed *keys = with ? NULL : malloc(sizeof *keys * (size_t)(n ? n : 1));
    sft_status st = w && (with || keys) ? SFT_OK : sft_fail(SFT_ERR_MEMORY, "out of memory");
    for (int64_t r = 0; r < rows && st == SFT_OK; r++) {
        int64_t each = with ? m : n, *o = (int64_t *)out->data + r * m;
        uint64_t first = (uint64_t)r * (uint64_t)((each + 1) / 2 * 2);
        sft_load(SFT_float64, x->dtype, n, x->data + r * n * (int64_t)sft_esize(x),
                 (int64_t)sft_esize(x), w);
        int64_t positive = check_weights(w, n, with);
        if (positive < 0)
            st = sft_fail(SFT_ERR_ARGUMENT,
                          "multinomial: the probabilities must be finite and not negative");
        else if (positive == 0)
            st = sft_fail(SFT_ERR_ARGUMENT, "multinomial: the probabilities must not all be 0");
        else if (!with && positive < m)
            st = sft_fail(SFT_ERR_ARGUMENT,
                          "multinomial: %lld samples without replacement from %lld of positive "
                          "probability",
                          (long long)m, (long long)positive);
        else if (with)
            draw_with(p, w, n, o, m, first, k->index_base);
        else
            draw_without(p, w, n, o, m, first, k->index_base, keys);
    }
    free(w);
    free(keys);
    return st;
}
