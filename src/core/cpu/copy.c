/* copy.c: copies of elements of one dtype between any two layouts. Three ways: whole rows, rows
 * element by element, and tiles where the source is transposed, so that both sides are read and
 * written a cache line at a time. */
#include "bytes.h"
#include "nd.h"

enum { TILE_BYTES = 128 }; /* a side of a tile: two cache lines */

typedef struct mover {
    char *d;
    const char *s;
    int64_t es;
    int64_t n, ds, ss;      /* the innermost dim of the destination */
    nd outer;               /* the other dims; operands: destination, source */
    int64_t chunk, nchunks; /* long rows are cut */
    int64_t tn, td; /* tiles: the dim along which the source is contiguous, and its step in d */
    int64_t side, blocks;
} mover;

/* ---- rows ------------------------------------------------------------------------------------ */

#define MOVE2(T)                                                                                   \
    static void move2_##T(int64_t rows, int64_t n, char *d, int64_t dr, int64_t dc, const char *s, \
                          int64_t sr, int64_t sc) {                                                \
        const int64_t es = sizeof(T);                                                              \
        if (n < 8 && rows > 8) {                                                                   \
            /* short rows: column by column, a few rows at a time */                               \
            for (int64_t r0 = 0; r0 < rows; r0 += 256) {                                           \
                int64_t m = rows - r0 < 256 ? rows - r0 : 256;                                     \
                for (int64_t c = 0; c < n; c++) {                                                  \
                    char *p = d + r0 * dr + c * dc;                                                \
                    const char *q = s + r0 * sr + c * sc;                                          \
                    for (int64_t r = 0; r < m; r++) *(T *)(p + r * dr) = *(const T *)(q + r * sr); \
                }                                                                                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = 0; r < rows; r++, d += dr, s += sr) {                                     \
            T *restrict o = (T *)d;                                                                \
            const T *restrict x = (const T *)s;                                                    \
            if (dc == es && sc == 0) {                                                             \
                const T v = *x;                                                                    \
                for (int64_t c = 0; c < n; c++) o[c] = v;                                          \
            } else if (dc == es && sc == -es) {                                                    \
                for (int64_t c = 0; c < n; c++) o[c] = x[-c];                                      \
            } else if (dc == es && sc == 2 * es) {                                                 \
                for (int64_t c = 0; c < n; c++) o[c] = x[2 * c];                                   \
            } else {                                                                               \
                for (int64_t c = 0; c < n; c++) *(T *)(d + c * dc) = *(const T *)(s + c * sc);     \
            }                                                                                      \
        }                                                                                          \
    }
MOVE2(uint8_t)
MOVE2(uint16_t)
MOVE2(uint32_t)
MOVE2(uint64_t)

static void whole_rows(int64_t rows, int64_t bytes, char *d, int64_t dr, const char *s,
                       int64_t sr) {
    switch (bytes) {
#define FIXED(n)                                                                                   \
    case n:                                                                                        \
        for (; rows > 0; rows--, d += dr, s += sr) memcpy(d, s, n);                                \
        break
        FIXED(4);
        FIXED(8);
        FIXED(12);
        FIXED(16);
        FIXED(20);
        FIXED(24);
        FIXED(32);
        FIXED(64);
#undef FIXED
    default:
        for (; rows > 0; rows--, d += dr, s += sr) sft_copy_bytes(d, s, (size_t)bytes);
    }
}

/* A block of rows of n elements. */
static void move2(const mover *m, int64_t rows, int64_t n, char *d, int64_t dr, const char *s,
                  int64_t sr) {
    if (m->ds == m->es && m->ss == m->es) {
        whole_rows(rows, n * m->es, d, dr, s, sr);
        return;
    }
    switch (m->es) {
    case 1:
        move2_uint8_t(rows, n, d, dr, m->ds, s, sr, m->ss);
        break;
    case 2:
        move2_uint16_t(rows, n, d, dr, m->ds, s, sr, m->ss);
        break;
    case 4:
        move2_uint32_t(rows, n, d, dr, m->ds, s, sr, m->ss);
        break;
    default:
        move2_uint64_t(rows, n, d, dr, m->ds, s, sr, m->ss);
        break;
    }
}

static void rows_range(void *ctx, int64_t begin, int64_t end) {
    const mover *m = ctx;
    const nd *o = &m->outer;
    nd_pos p;
    nd_seek(o, begin, &p);
    const int64_t dr = o->stride[0][o->ndim - 1], sr = o->stride[1][o->ndim - 1];
    while (begin < end) {
        int64_t k = nd_left(o, &p);
        if (k > end - begin) k = end - begin;
        move2(m, k, m->n, m->d + p.off[0], dr, m->s + p.off[1], sr);
        nd_advance(o, &p, k);
        begin += k;
    }
}

/* Tasks are chunks of long rows. */
static void chunks_range(void *ctx, int64_t begin, int64_t end) {
    const mover *m = ctx;
    for (; begin < end; begin++) {
        nd_pos p;
        nd_seek(&m->outer, begin / m->nchunks, &p);
        int64_t at = begin % m->nchunks * m->chunk, n = m->n - at < m->chunk ? m->n - at : m->chunk;
        move2(m, 1, n, m->d + p.off[0] + at * m->ds, 0, m->s + p.off[1] + at * m->ss, 0);
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

typedef uint32_t v8 __attribute__((vector_size(32), aligned(4)));
typedef uint64_t v4 __attribute__((vector_size(32), aligned(8)));

/* 8 x 8 elements of 4 bytes; rows `is` and `os` elements apart. */
static inline void transpose8(const uint32_t *in, int64_t is, uint32_t *out, int64_t os) {
    const v8 lo = {0, 8, 1, 9, 4, 12, 5, 13}, hi = {2, 10, 3, 11, 6, 14, 7, 15};
    const v8 lo2 = {0, 1, 8, 9, 4, 5, 12, 13}, hi2 = {2, 3, 10, 11, 6, 7, 14, 15};
    const v8 left = {0, 1, 2, 3, 8, 9, 10, 11}, right = {4, 5, 6, 7, 12, 13, 14, 15};
    v8 r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = *(const v8 *)(in + i * is);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], lo);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], hi);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = __builtin_shuffle(t[i + j], t[i + j + 2], lo2);
            r[i + 2 * j + 1] = __builtin_shuffle(t[i + j], t[i + j + 2], hi2);
        }
    for (int i = 0; i < 4; i++) {
        *(v8 *)(out + i * os) = __builtin_shuffle(r[i], r[i + 4], left);
        *(v8 *)(out + (i + 4) * os) = __builtin_shuffle(r[i], r[i + 4], right);
    }
}

static inline void transpose4(const uint64_t *in, int64_t is, uint64_t *out, int64_t os) {
    const v4 lo = {0, 4, 2, 6}, hi = {1, 5, 3, 7}, left = {0, 1, 4, 5}, right = {2, 3, 6, 7};
    v4 r[4], t[4];
    for (int i = 0; i < 4; i++) r[i] = *(const v4 *)(in + i * is);
    for (int i = 0; i < 4; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], lo);
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], hi);
    }
    for (int i = 0; i < 2; i++) {
        *(v4 *)(out + i * os) = __builtin_shuffle(t[i], t[i + 2], left);
        *(v4 *)(out + (i + 2) * os) = __builtin_shuffle(t[i], t[i + 2], right);
    }
}

/* out[b][a] = in[a][b], side x side elements. */
static void transpose_tile(int64_t es, const void *in, void *out) {
    if (es == 4) {
        for (int a = 0; a < 32; a += 8)
            for (int b = 0; b < 32; b += 8)
                transpose8((const uint32_t *)in + a * 32 + b, 32, (uint32_t *)out + b * 32 + a, 32);
    } else if (es == 8) {
        for (int a = 0; a < 16; a += 4)
            for (int b = 0; b < 16; b += 4)
                transpose4((const uint64_t *)in + a * 16 + b, 16, (uint64_t *)out + b * 16 + a, 16);
    } else if (es == 2) {
        for (int b = 0; b < 64; b++)
            for (int a = 0; a < 64; a++)
                ((uint16_t *)out)[b * 64 + a] = ((const uint16_t *)in)[a * 64 + b];
    } else {
        for (int b = 0; b < 128; b++)
            for (int a = 0; a < 128; a++)
                ((uint8_t *)out)[b * 128 + a] = ((const uint8_t *)in)[a * 128 + b];
    }
}

/* tn elements along the source's contiguous dim, n along the destination's. */
static void move_tile(const mover *m, int64_t tn, int64_t n, char *d, const char *s) {
    _Alignas(64) char in[128 * TILE_BYTES], out[128 * TILE_BYTES];
    const int64_t es = m->es, w = tn * es;
    if (tn == m->side && n == m->side) {
        for (int64_t c = 0; c < n; c++) memcpy(in + c * TILE_BYTES, s + c * m->ss, TILE_BYTES);
        transpose_tile(es, in, out);
        for (int64_t t = 0; t < tn; t++) memcpy(d + t * m->td, out + t * TILE_BYTES, TILE_BYTES);
        return;
    }
    for (int64_t c = 0; c < n; c++) memcpy(in + c * TILE_BYTES, s + c * m->ss, (size_t)w);
    transpose_tile(es, in, out);
    for (int64_t t = 0; t < tn; t++) memcpy(d + t * m->td, out + t * TILE_BYTES, (size_t)(n * es));
}

/* Tasks: positions of the outer dims x blocks of `side` along the tile dim. */
static void tiles_range(void *ctx, int64_t begin, int64_t end) {
    const mover *m = ctx;
    for (; begin < end; begin++) {
        nd_pos p;
        nd_seek(&m->outer, begin / m->blocks, &p);
        int64_t t = begin % m->blocks * m->side, tn = m->tn - t < m->side ? m->tn - t : m->side;
        char *d = m->d + p.off[0] + t * m->td;
        const char *s = m->s + p.off[1] + t * m->es;
        for (int64_t c = 0; c < m->n; c += m->side) {
            int64_t n = m->n - c < m->side ? m->n - c : m->side;
            move_tile(m, tn, n, d + c * m->es, s + c * m->ss);
        }
    }
}

/* The dim to tile with the innermost one, or -1. */
static int tile_dim(const mover *m, const sft_iter *it) {
    const int64_t least = m->es >= 4 ? 8 : 64 / m->es; /* below, a tile costs more than it saves */
    if (m->ds != m->es || m->ss == m->es || m->n < least) return -1;
    for (int d = 0; d < it->ndim - 1; d++)
        if (it->op[1].stride[d] == m->es && it->size[d] >= least) return d;
    return -1;
}

void copy_same(const sft_iter *it) {
    const int in = it->ndim - 1;
    mover m = {.d = it->op[0].data,
               .s = it->op[1].data,
               .n = it->size[in],
               .es = (int64_t)sft_dtype_size((sft_dtype)it->op[0].dtype),
               .ds = it->op[0].stride[in],
               .ss = it->op[1].stride[in]};
    int tile = tile_dim(&m, it);
    nd_init(&m.outer, 2);
    for (int d = 0; d < in; d++)
        if (d != tile) nd_add(&m.outer, it->size[d], it->op[0].stride[d], it->op[1].stride[d], 0);
    nd_finish(&m.outer);
    if (tile >= 0) {
        m.tn = it->size[tile];
        m.td = it->op[0].stride[tile];
        m.side = TILE_BYTES / m.es;
        m.blocks = (m.tn + m.side - 1) / m.side;
        int64_t grain = SFT_GRAIN / (m.side * m.n);
        sft_parallel_for(m.outer.numel * m.blocks, grain < 1 ? 1 : grain, tiles_range, &m);
    } else if (m.n > 2 * SFT_GRAIN) {
        m.chunk = SFT_GRAIN;
        m.nchunks = (m.n + m.chunk - 1) / m.chunk;
        sft_parallel_for(m.outer.numel * m.nchunks, 1, chunks_range, &m);
    } else {
        int64_t grain = SFT_GRAIN / (m.n ? m.n : 1);
        sft_parallel_for(m.outer.numel, grain < 1 ? 1 : grain, rows_range, &m);
    }
}
