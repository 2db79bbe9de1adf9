/*
 * conv.c - convolution as matrix products over unrolled patches (im2col), and who does what.
 *
 * For one image and one group, "columns" is the matrix (ic/groups * kh * kw) x (output positions)
 * of the input value that each weight meets at each position.  Forward is W @ columns, the gradient
 * of the weights dY @ columns^T, and that of the input is W^T @ dY added back to where the columns
 * came from.  Columns are made in pieces that stay in the second-level cache.
 */
#include "conv.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "../../threads.h"
#include "dnnl.h"
#include "gemm.h"
#include "scratch.h"

enum {
    PIECE_BYTES = 192 << 10, /* columns made at once */
    WEIGHT_TASKS = 16 /* parts of a weight gradient; fixed, so that sums are always the same */
};

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t div_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

bool sft_conv_shape(sft_conv *c) {
    if (c->groups < 1 || c->sh < 1 || c->sw < 1 || c->dh < 1 || c->dw < 1 || c->kh < 1 ||
        c->kw < 1 || c->ic % c->groups || c->oc % c->groups)
        return false;
    int64_t h = c->ih + c->ph0 + c->ph1 - (c->kh - 1) * c->dh - 1;
    int64_t w = c->iw + c->pw0 + c->pw1 - (c->kw - 1) * c->dw - 1;
    if (h < 0 || w < 0) return false;
    c->oh = h / c->sh + 1;
    c->ow = w / c->sw + 1;
    return true;
}

/* ---- pieces of the output plane ---- */

typedef struct piece {
    int64_t y, rows, x, width; /* `rows` whole rows, or one row's columns x .. x + width */
} piece;

typedef struct job {
    sft_conv c;
    int64_t es;       /* bytes of an element */
    int64_t icg, ocg; /* channels of a group */
    int64_t taps, positions, plane;
    int64_t piece_rows, piece_width, pieces_x, pieces; /* of one output plane */
    int64_t channels, blocks; /* input channels of a task, and such blocks of a group */
    int64_t images, parts;    /* weight gradient: images of a part, parts */
    bool pointwise;
    const char *x, *w, *dy, *bias;
    char *y, *dx, *dw, *partial;
    _Atomic bool failed;
} job;

static void make_job(job *j, const sft_conv *c) {
    j->c = *c;
    j->es = c->f64 ? 8 : 4;
    j->icg = c->ic / c->groups;
    j->ocg = c->oc / c->groups;
    j->taps = c->kh * c->kw;
    j->positions = c->oh * c->ow;
    j->plane = c->ih * c->iw;
    j->channels = j->icg;
    j->blocks = 1;
    j->pointwise = j->taps == 1 && c->sh == 1 && c->sw == 1 && j->positions == j->plane &&
                   c->ph0 == 0 && c->pw0 == 0;
    atomic_init(&j->failed, false);
}

/* Chooses pieces for columns of `channels` input channels. */
static void make_pieces(job *j, int64_t channels) {
    const sft_conv *c = &j->c;
    int64_t room = max64(PIECE_BYTES / (j->es * max64(channels * j->taps, 1)), 16);
    if (room >= c->ow) {
        j->piece_rows = min64(room / c->ow, c->oh);
        j->piece_rows = div_up(c->oh, div_up(c->oh, j->piece_rows));
        j->piece_width = c->ow;
    } else {
        j->piece_rows = 1;
        j->piece_width = min64(room / 16 * 16, c->ow);
    }
    j->pieces_x = div_up(c->ow, j->piece_width);
    j->pieces = div_up(c->oh, j->piece_rows) * j->pieces_x;
}

static piece get_piece(const job *j, int64_t i) {
    piece p = {.y = i / j->pieces_x * j->piece_rows, .x = i % j->pieces_x * j->piece_width};
    p.rows = min64(j->piece_rows, j->c.oh - p.y);
    p.width = min64(j->piece_width, j->c.ow - p.x);
    return p;
}

/* Output columns lo .. hi - 1 of p meet the input at tap kx; the others meet padding. */
static void valid_columns(const sft_conv *c, const piece *p, int64_t kx, int64_t *lo, int64_t *hi) {
    int64_t first = c->pw0 - kx * c->dw, last = c->iw - 1 + first; /* ox * sw within first..last */
    *lo = first > 0 ? div_up(first, c->sw) : 0;
    *hi = last < 0 ? 0 : last / c->sw + 1;
    *lo = min64(max64(*lo - p->x, 0), p->width);
    *hi = max64(min64(*hi - p->x, p->width), *lo);
}

#define COLUMN_LINES(T, SUFFIX)                                                                    \
    /* to[0 .. width) = the inputs of one row of a piece at one tap */                             \
    static void gather_##SUFFIX(const sft_conv *c, const T *row, const piece *p, int64_t kx,       \
                                int64_t lo, int64_t hi, T *to) {                                   \
        for (int64_t i = 0; i < lo; i++) to[i] = 0;                                                \
        const T *from = row + (p->x + lo) * c->sw - c->pw0 + kx * c->dw;                           \
        if (c->sw == 1) {                                                                          \
            if (hi > lo) memcpy(to + lo, from, (size_t)(hi - lo) * sizeof(T));                     \
        } else {                                                                                   \
            for (int64_t i = lo; i < hi; i++) to[i] = from[(i - lo) * c->sw];                      \
        }                                                                                          \
        for (int64_t i = hi; i < p->width; i++) to[i] = 0;                                         \
    }                                                                                              \
    static void scatter_##SUFFIX(const sft_conv *c, T *row, const piece *p, int64_t kx,            \
                                 int64_t lo, int64_t hi, const T *from) {                          \
        T *to = row + (p->x + lo) * c->sw - c->pw0 + kx * c->dw;                                   \
        if (c->sw == 1) {                                                                          \
            for (int64_t i = lo; i < hi; i++) to[i - lo] += from[i];                               \
        } else {                                                                                   \
            for (int64_t i = lo; i < hi; i++) to[(i - lo) * c->sw] += from[i];                     \
        }                                                                                          \
    }
COLUMN_LINES(float, f32)
COLUMN_LINES(double, f64)

/* Unrolls `channels` planes at x for piece p: cols is (channels * taps) x (rows * width). */
static void to_columns(const job *j, const char *x, int64_t channels, const piece *p, char *cols) {
    const sft_conv *c = &j->c;
    int64_t es = j->es;
    for (int64_t ch = 0; ch < channels; ch++, x += j->plane * es) {
        for (int64_t tap = 0; tap < j->taps; tap++) {
            int64_t ky = tap / c->kw, kx = tap % c->kw, lo, hi;
            valid_columns(c, p, kx, &lo, &hi);
            for (int64_t r = 0; r < p->rows; r++, cols += p->width * es) {
                int64_t iy = (p->y + r) * c->sh - c->ph0 + ky * c->dh;
                if (iy < 0 || iy >= c->ih)
                    memset(cols, 0, (size_t)(p->width * es));
                else if (c->f64)
                    gather_f64(c, (const double *)(const void *)x + iy * c->iw, p, kx, lo, hi,
                               (double *)(void *)cols);
                else
                    gather_f32(c, (const float *)(const void *)x + iy * c->iw, p, kx, lo, hi,
                               (float *)(void *)cols);
            }
        }
    }
}

/* The reverse: adds cols to the planes. */
static void from_columns(const job *j, char *x, int64_t channels, const piece *p,
                         const char *cols) {
    const sft_conv *c = &j->c;
    int64_t es = j->es;
    for (int64_t ch = 0; ch < channels; ch++, x += j->plane * es) {
        for (int64_t tap = 0; tap < j->taps; tap++) {
            int64_t ky = tap / c->kw, kx = tap % c->kw, lo, hi;
            valid_columns(c, p, kx, &lo, &hi);
            for (int64_t r = 0; r < p->rows; r++, cols += p->width * es) {
                int64_t iy = (p->y + r) * c->sh - c->ph0 + ky * c->dh;
                if (iy < 0 || iy >= c->ih) continue;
                if (c->f64)
                    scatter_f64(c, (double *)(void *)x + iy * c->iw, p, kx, lo, hi,
                                (const double *)(const void *)cols);
                else
                    scatter_f32(c, (float *)(void *)x + iy * c->iw, p, kx, lo, hi,
                                (const float *)(const void *)cols);
            }
        }
    }
}

/* ---- forward ---- */

static void fill(const job *j, char *to, int64_t n, const char *value) {
    if (j->c.f64) {
        double v = *(const double *)(const void *)value, *t = (void *)to;
        for (int64_t i = 0; i < n; i++) t[i] = v;
    } else {
        float v = *(const float *)(const void *)value, *t = (void *)to;
        for (int64_t i = 0; i < n; i++) t[i] = v;
    }
}

/* One piece of one group of one image. */
static bool forward_piece(const job *j, int64_t image, int64_t group, int64_t index) {
    const sft_conv *c = &j->c;
    int64_t es = j->es, k = j->icg * j->taps;
    piece p = get_piece(j, index);
    int64_t count = p.rows * p.width;
    const char *x = j->x + (image * c->ic + group * j->icg) * j->plane * es;
    int64_t first = p.y * c->ow + p.x;
    char *y = j->y + ((image * c->oc + group * j->ocg) * j->positions + first) * es;
    sft_gemm_args g = {.f64 = c->f64, .batch = 1, .m = j->ocg, .n = count, .k = k};
    g.a = j->w + group * j->ocg * k * es;
    g.a_rs = k;
    g.a_cs = 1;
    if (j->pointwise) {
        g.b = x + first * es;
        g.b_rs = j->plane;
    } else {
        char *cols = sft_scratch(SFT_SCRATCH_CONV, (size_t)(k * count * es) + 1);
        if (!cols) return false;
        to_columns(j, x, j->icg, &p, cols);
        g.b = cols;
        g.b_rs = count;
    }
    g.b_cs = 1;
    g.c = y;
    g.c_rs = j->positions;
    g.alpha = 1;
    if (j->bias) {
        g.beta = 1;
        for (int64_t o = 0; o < j->ocg; o++)
            fill(j, y + o * j->positions * es, count, j->bias + (group * j->ocg + o) * es);
    }
    return sft_gemm_serial(&g);
}

static void forward_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        int64_t unit = t / j->pieces;
        if (!forward_piece(j, unit / j->c.groups, unit % j->c.groups, t % j->pieces))
            atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    }
}

static bool run_job(job *j, int64_t tasks, sft_range_fn *fn) {
    sft_parallel_for(tasks, 1, fn, j);
    return !atomic_load_explicit(&j->failed, memory_order_relaxed);
}

bool sft_conv_forward(const sft_conv *c, const void *x, const void *w, const void *bias, void *y) {
    if (c->n <= 0 || c->oc <= 0 || c->oh <= 0 || c->ow <= 0) return true;
    sft_dnnl_result done = sft_dnnl_conv_forward(c, x, w, bias, y);
    if (done != SFT_DNNL_NO) return done == SFT_DNNL_OK;
    job j = {.x = x, .w = w, .bias = bias, .y = y};
    make_job(&j, c);
    make_pieces(&j, j.icg);
    return run_job(&j, c->n * c->groups * j.pieces, forward_range);
}

/* ---- gradient of the input ---- */

/* One block of input channels of one group of one image. */
static bool backward_data_block(const job *j, int64_t image, int64_t group, int64_t block) {
    const sft_conv *c = &j->c;
    int64_t es = j->es, k = j->icg * j->taps;
    int64_t ch = block * j->channels, channels = min64(j->channels, j->icg - ch);
    char *dx = j->dx + (image * c->ic + group * j->icg + ch) * j->plane * es;
    sft_gemm_args g = {.f64 = c->f64, .batch = 1, .m = channels * j->taps, .k = j->ocg};
    g.a = j->w + (group * j->ocg * k + ch * j->taps) * es;
    g.a_rs = 1;
    g.a_cs = k;
    g.b_rs = j->positions;
    g.b_cs = 1;
    g.alpha = 1;
    if (!j->pointwise) memset(dx, 0, (size_t)(channels * j->plane * es));
    for (int64_t i = 0; i < j->pieces; i++) {
        piece p = get_piece(j, i);
        int64_t first = p.y * c->ow + p.x;
        g.n = p.rows * p.width;
        g.b = j->dy + ((image * c->oc + group * j->ocg) * j->positions + first) * es;
        if (j->pointwise) {
            g.c = dx + first * es;
            g.c_rs = j->plane;
            if (!sft_gemm_serial(&g)) return false;
            continue;
        }
        char *cols = sft_scratch(SFT_SCRATCH_CONV, (size_t)(g.m * g.n * es) + 1);
        if (!cols) return false;
        g.c = cols;
        g.c_rs = g.n;
        if (!sft_gemm_serial(&g)) return false;
        from_columns(j, dx, channels, &p, cols);
    }
    return true;
}

static void backward_data_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        int64_t unit = t / j->blocks;
        if (!backward_data_block(j, unit / j->c.groups, unit % j->c.groups, t % j->blocks))
            atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    }
}

/* Blocks of channels, so that there are tasks enough even for one image. */
static void make_blocks(job *j, int64_t units) {
    int64_t blocks = min64(div_up(WEIGHT_TASKS, max64(units, 1)), div_up(j->icg * j->taps, 32));
    j->channels = max64(div_up(j->icg, max64(blocks, 1)), 1);
    j->blocks = div_up(j->icg, j->channels);
}

bool sft_conv_backward_data(const sft_conv *c, const void *dy, const void *w, void *dx) {
    if (c->n <= 0 || c->ic <= 0 || c->ih <= 0 || c->iw <= 0) return true;
    if (c->oc <= 0 || c->oh <= 0 || c->ow <= 0) {
        memset(dx, 0, (size_t)(c->n * c->ic * c->ih * c->iw * (c->f64 ? 8 : 4)));
        return true;
    }
    sft_dnnl_result done = sft_dnnl_conv_backward_data(c, dy, w, dx);
    if (done != SFT_DNNL_NO) return done == SFT_DNNL_OK;
    job j = {.dy = dy, .w = w, .dx = dx};
    make_job(&j, c);
    make_blocks(&j, c->n * c->groups);
    make_pieces(&j, j.channels);
    return run_job(&j, c->n * c->groups * j.blocks, backward_data_range);
}

/* ---- gradient of the weights ---- */

/* One block of input channels of one group, summed over the images of one part. */
static bool backward_weights_block(const job *j, int64_t part, int64_t group, int64_t block) {
    const sft_conv *c = &j->c;
    int64_t es = j->es, k = j->icg * j->taps;
    int64_t ch = block * j->channels, channels = min64(j->channels, j->icg - ch);
    char *dw = (part ? j->partial + (part - 1) * c->oc * k * es : j->dw);
    sft_gemm_args g = {.f64 = c->f64, .batch = 1, .m = j->ocg, .n = channels * j->taps};
    g.a_rs = j->positions;
    g.a_cs = 1;
    g.b_rs = 1;
    g.c = dw + (group * j->ocg * k + ch * j->taps) * es;
    g.c_rs = k;
    g.alpha = 1;
    int64_t last = min64((part + 1) * j->images, c->n);
    for (int64_t image = part * j->images; image < last; image++) {
        const char *x = j->x + (image * c->ic + group * j->icg + ch) * j->plane * es;
        for (int64_t i = 0; i < j->pieces; i++) {
            piece p = get_piece(j, i);
            int64_t first = p.y * c->ow + p.x;
            g.k = p.rows * p.width;
            g.a = j->dy + ((image * c->oc + group * j->ocg) * j->positions + first) * es;
            if (j->pointwise) {
                g.b = x + first * es;
                g.b_cs = j->plane;
            } else {
                char *cols = sft_scratch(SFT_SCRATCH_CONV, (size_t)(g.n * g.k * es) + 1);
                if (!cols) return false;
                to_columns(j, x, channels, &p, cols);
                g.b = cols;
                g.b_cs = g.k;
            }
            if (!sft_gemm_serial(&g)) return false;
            g.beta = 1;
        }
    }
    return true;
}

static void backward_weights_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        int64_t unit = t / j->blocks;
        if (!backward_weights_block(j, unit / j->c.groups, unit % j->c.groups, t % j->blocks))
            atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    }
}

#define SUM_PARTS(T, SUFFIX)                                                                       \
    static void sum_parts_##SUFFIX(void *ctx, int64_t begin, int64_t end) {                        \
        job *j = ctx;                                                                              \
        int64_t size = j->c.oc * j->icg * j->taps;                                                 \
        T *dw = (T *)(void *)j->dw;                                                                \
        for (int64_t p = 0; p + 1 < j->parts; p++) {                                               \
            const T *from = (const T *)(const void *)j->partial + p * size;                        \
            for (int64_t i = begin; i < end; i++) dw[i] += from[i];                                \
        }                                                                                          \
    }
SUM_PARTS(float, f32)
SUM_PARTS(double, f64)

#define ROW_SUM(T, SUFFIX)                                                                         \
    /* Short runs in T, 16 lanes wide, and those in double: fast, and exact enough for any n. */   \
    static double row_sum_##SUFFIX(const T *v, int64_t n) {                                        \
        double total = 0;                                                                          \
        int64_t q = 0;                                                                             \
        while (n - q >= 16) {                                                                      \
            T lane[16] = {0};                                                                      \
            int64_t stop = q + min64((n - q) / 16, 16) * 16;                                       \
            for (; q < stop; q += 16)                                                              \
                for (int l = 0; l < 16; l++) lane[l] += v[q + l];                                  \
            double part = 0;                                                                       \
            for (int l = 0; l < 16; l++) part += (double)lane[l];                                  \
            total += part;                                                                         \
        }                                                                                          \
        for (; q < n; q++) total += (double)v[q];                                                  \
        return total;                                                                              \
    }
ROW_SUM(float, f32)
ROW_SUM(double, f64)

/* db[o] = sum of dy over images and positions, always in the same order. */
static void bias_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    for (int64_t o = begin; o < end; o++) {
        double total = 0;
        for (int64_t i = 0; i < j->c.n; i++) {
            const void *dy = j->dy + (i * j->c.oc + o) * j->positions * j->es;
            total += j->c.f64 ? row_sum_f64(dy, j->positions) : row_sum_f32(dy, j->positions);
        }
        if (j->c.f64)
            ((double *)(void *)j->dw)[o] = total;
        else
            ((float *)(void *)j->dw)[o] = (float)total;
    }
}

static void bias_gradient(const sft_conv *c, const void *dy, void *db) {
    job j = {.dy = dy, .dw = db};
    make_job(&j, c);
    int64_t grain = 1 + 50000 / max64(c->n * j.positions, 1);
    sft_parallel_for(c->oc, grain, bias_range, &j);
}

static bool weight_gradient(const sft_conv *c, const void *x, const void *dy, void *dw) {
    job j = {.x = x, .dy = dy, .dw = dw};
    make_job(&j, c);
    make_blocks(&j, c->groups);
    make_pieces(&j, j.channels);
    /* images are split too where channels alone do not keep the threads busy */
    int64_t want = min64(div_up(WEIGHT_TASKS, j.blocks * c->groups), c->n);
    j.images = div_up(c->n, want);
    j.parts = div_up(c->n, j.images);
    int64_t size = c->oc * j.icg * j.taps;
    if (j.parts > 1) {
        j.partial = sft_scratch(SFT_SCRATCH_CONV_SHARED, (size_t)((j.parts - 1) * size * j.es));
        if (!j.partial) return false;
    }
    if (!run_job(&j, j.parts * c->groups * j.blocks, backward_weights_range)) return false;
    if (j.parts > 1) sft_parallel_for(size, 16384, c->f64 ? sum_parts_f64 : sum_parts_f32, &j);
    return true;
}

bool sft_conv_backward_weights(const sft_conv *c, const void *x, const void *dy, void *dw,
                               void *db) {
    size_t es = c->f64 ? 8 : 4, icg = (size_t)(c->ic / c->groups);
    bool empty = c->n <= 0 || c->oh <= 0 || c->ow <= 0;
    if (c->oc <= 0) return true;
    if (db) {
        if (empty)
            memset(db, 0, (size_t)c->oc * es);
        else
            bias_gradient(c, dy, db);
    }
    if (!dw || icg == 0 || c->kh <= 0 || c->kw <= 0) return true;
    if (empty) {
        memset(dw, 0, (size_t)(c->oc * c->kh * c->kw) * icg * es);
        return true;
    }
    sft_dnnl_result done = sft_dnnl_conv_backward_weights(c, x, dy, dw);
    if (done != SFT_DNNL_NO) return done == SFT_DNNL_OK;
    return weight_gradient(c, x, dy, dw);
}
