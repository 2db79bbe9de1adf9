/* join.c: the kernel of cat and stack. */
#include "../ops/join.h"
#include "bytes.h"
#include "kernels.h"

/* Rows of one input go to every `pitch` bytes of the output. Long rows are cut into chunks. */
typedef struct placing {
    char *out;
    const char *in;
    int64_t pitch, step, row, chunk, nchunks; /* step: from row to row of the input */
} placing;

static void place_range(void *ctx, int64_t begin, int64_t end) {
    const placing *p = ctx;
    if (p->nchunks > 1) {
        for (; begin < end; begin++) {
            int64_t o = begin / p->nchunks, at = begin % p->nchunks * p->chunk;
            int64_t n = p->row - at < p->chunk ? p->row - at : p->chunk;
            sft_copy_bytes(p->out + o * p->pitch + at, p->in + o * p->step + at, (size_t)n);
        }
        return;
    }
    char *out = p->out + begin * p->pitch;
    const char *in = p->in + begin * p->step;
    const int64_t row = p->row, pitch = p->pitch, step = p->step;
    switch (row) {
#define FIXED(n)                                                                                   \
    case n:                                                                                        \
        for (; begin < end; begin++, out += pitch, in += step) memcpy(out, in, n);                 \
        break
        FIXED(4);
        FIXED(8);
        FIXED(12);
        FIXED(16);
        FIXED(32);
#undef FIXED
    default:
        for (; begin < end; begin++, out += pitch, in += step) sft_copy_bytes(out, in, (size_t)row);
    }
}

KERNEL(cat)(const sft_kcall *k) {
    const sft_cat_params *p = k->params;
    const sft_tensor *out = k->t[0];
    const int64_t es = (int64_t)sft_esize(out);
    int64_t outer = 1, inner = es;
    for (int d = 0; d < p->dim; d++) outer *= out->shape[d];
    for (int d = p->dim + 1; d < out->ndim; d++) inner *= out->shape[d];
    placing c = {.out = out->data, .pitch = out->shape[p->dim] * inner, .chunk = 4 * SFT_GRAIN};
    for (int i = 1; i < k->nt; i++) {
        c.in = k->t[i]->data;
        c.row = k->t[i]->shape[p->dim] * inner;
        if (!c.row || !outer) continue;
        int64_t step = 0;
        sft_cat_rows(k->t[i], p->dim, &step);
        c.step = step * es;
        c.nchunks = (c.row + c.chunk - 1) / c.chunk;
        int64_t grain = c.nchunks > 1 ? 1 : 4 * SFT_GRAIN / (c.row < 64 ? 64 : c.row);
        sft_parallel_for(outer * c.nchunks, grain < 1 ? 1 : grain, place_range, &c);
        c.out += c.row;
    }
    return SFT_OK;
}
