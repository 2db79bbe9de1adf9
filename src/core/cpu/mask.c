/* mask.c: kernels of masks: masked_fill, the steps of masked_select, masked_scatter and nonzero,
 * and the triangles of tril and triu. */
#include "../ops/mask.h"
#include "kernels.h"

/* ---- masked_fill: mask ? value : self -------------------------------------------------------- */

EW_LOOP3(fill_f32, float, uint8_t, float, , x ? y : z)
EW_LOOP3(fill_f64, double, uint8_t, double, , x ? y : z)
EW_LOOP3(fill_i64, int64_t, uint8_t, int64_t, , x ? y : z)
KERNEL(masked_fill)(const sft_kcall *k) {
    static const ew_loops loops = {fill_f32, fill_f64, fill_i64, false, true};
    return ew_run(k, &loops);
}

/* ---- steps over the true elements ------------------------------------------------------------ */

typedef struct masking {
    const uint8_t *mask;
    int64_t n, es, base;
    int64_t *counts;
    char *out;
    const char *x;
    const sft_tensor *shaped;
    int step;
} masking;

enum { PIECE = 1024 };

/* Positions of the true ones among m[n], n <= PIECE; returns their number. Writes up to 8 entries
 * past them. */
static int positions(const uint8_t *m, int n, uint16_t *pos) {
    int k = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, m + i, 8);
        if (!w) continue;
        for (int j = 0; j < 8; j++) {
            pos[k] = (uint16_t)(i + j);
            k += m[i + j] != 0;
        }
    }
    for (; i < n; i++) {
        pos[k] = (uint16_t)i;
        k += m[i] != 0;
    }
    return k;
}

static void count_block(const masking *s, int64_t block) {
    int64_t at = block * SFT_MASK_BLOCK,
            n = s->n - at < SFT_MASK_BLOCK ? s->n - at : SFT_MASK_BLOCK;
    int32_t total = 0;
    for (int64_t i = 0; i < n; i++) total += s->mask[at + i] != 0;
    s->counts[block] = total;
}

static void move_piece(const masking *s, const uint16_t *pos, int k, int64_t at, int64_t to) {
#define MOVE(T)                                                                                    \
    if (s->step == SFT_MASK_SELECT) {                                                              \
        const T *restrict x = (const T *)s->x + at;                                                \
        T *restrict o = (T *)s->out + to;                                                          \
        for (int j = 0; j < k; j++) o[j] = x[pos[j]];                                              \
    } else {                                                                                       \
        const T *restrict x = (const T *)s->x + to;                                                \
        T *restrict o = (T *)s->out + at;                                                          \
        for (int j = 0; j < k; j++) o[pos[j]] = x[j];                                              \
    }                                                                                              \
    break
    switch (s->es) {
    case 1:
        MOVE(uint8_t);
    case 2:
        MOVE(uint16_t);
    case 4:
        MOVE(uint32_t);
    default:
        MOVE(uint64_t);
    }
#undef MOVE
}

/* Coordinates of the given positions. */
static void list_piece(const masking *s, const uint16_t *pos, int k, int64_t at, int64_t to) {
    int64_t *out = (int64_t *)s->out;
    const sft_tensor *t = s->shaped;
    const int64_t base = s->base;
    if (t->ndim == 1) {
        out += to;
        for (int j = 0; j < k; j++) out[j] = at + pos[j] + base;
        return;
    }
    int last = t->ndim - 1;
    int64_t index[SFT_MAX_DIMS], here = -1, row_end = -1;
    for (int j = 0; j < k; j++) {
        int64_t p = at + pos[j], *o = out + (to + j) * t->ndim;
        if (p >= row_end) {
            int64_t rest = p;
            for (int d = last; d >= 0; d--) {
                index[d] = rest % t->shape[d];
                rest /= t->shape[d];
            }
            row_end = p - index[last] + t->shape[last];
        } else {
            index[last] += p - here;
        }
        here = p;
        for (int d = 0; d <= last; d++) o[d] = index[d] + base;
    }
}

static void mask_range(void *ctx, int64_t begin, int64_t end) {
    const masking *s = ctx;
    uint16_t pos[PIECE + 8];
    for (int64_t block = begin; block < end; block++) {
        if (s->step == SFT_MASK_COUNT) {
            count_block(s, block);
            continue;
        }
        int64_t to = s->counts[block], stop = (block + 1) * SFT_MASK_BLOCK;
        if (stop > s->n) stop = s->n;
        for (int64_t at = block * SFT_MASK_BLOCK; at < stop; at += PIECE) {
            int k = positions(s->mask + at, (int)(stop - at < PIECE ? stop - at : PIECE), pos);
            if (s->step == SFT_MASK_LIST)
                list_piece(s, pos, k, at, to);
            else
                move_piece(s, pos, k, at, to);
            to += k;
        }
    }
}

KERNEL(masked_select)(const sft_kcall *k) {
    const sft_mask_params *p = k->params;
    masking s = {.mask = (const uint8_t *)k->t[1]->data,
                 .n = k->t[1]->numel,
                 .base = k->index_base,
                 .counts = (int64_t *)k->t[0]->data,
                 .step = p->step};
    if (k->nt > 2) {
        s.out = k->t[2]->data;
        s.x = k->t[3]->data;
        s.shaped = k->t[3];
        s.es = (int64_t)sft_esize(k->t[3]);
    }
    sft_parallel_for((s.n + SFT_MASK_BLOCK - 1) / SFT_MASK_BLOCK, 2, mask_range, &s);
    return SFT_OK;
}

/* ---- tril, triu ------------------------------------------------------------------------------ */

typedef struct triangle {
    const char *x;
    char *out;
    int64_t rows, row_bytes, es, cols, diagonal;
    bool upper;
} triangle;

static void triangle_range(void *ctx, int64_t begin, int64_t end) {
    const triangle *t = ctx;
    for (int64_t i = begin; i < end; i++) {
        /* columns up to `cut` belong to the lower part */
        int64_t r = i % t->rows, cut = t->upper ? r + t->diagonal : r + t->diagonal + 1;
        cut = cut < 0 ? 0 : cut > t->cols ? t->cols : cut;
        size_t low = (size_t)(cut * t->es), high = (size_t)t->row_bytes - low;
        char *o = t->out + i * t->row_bytes;
        const char *x = t->x + i * t->row_bytes;
        if (t->upper) {
            memset(o, 0, low);
            memcpy(o + low, x + low, high);
        } else {
            memcpy(o, x, low);
            memset(o + low, 0, high);
        }
    }
}

/* out, x: contiguous. */
static sft_status run_triangle(const sft_kcall *k) {
    const sft_tri_params *p = k->params;
    const sft_tensor *x = k->t[1];
    const int64_t es = (int64_t)sft_esize(x), cols = x->shape[x->ndim - 1];
    triangle t = {.x = x->data,
                  .out = k->t[0]->data,
                  .rows = x->shape[x->ndim - 2],
                  .es = es,
                  .row_bytes = cols * es,
                  .cols = cols,
                  .upper = p->upper};
    /* Beyond the matrix nothing changes; this keeps the sums small. */
    int64_t far = t.rows + cols;
    t.diagonal = p->diagonal > far ? far : p->diagonal < -far ? -far : p->diagonal;
    if (x->numel) sft_parallel_for(x->numel / cols, SFT_GRAIN / cols + 1, triangle_range, &t);
    return SFT_OK;
}
KERNEL(tril)(const sft_kcall *k) { return run_triangle(k); }
KERNEL(triu)(const sft_kcall *k) { return run_triangle(k); }
