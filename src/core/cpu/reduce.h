/* reduce.h: how a reduction is described to the loops of reduce.c.
 *
 * A kind reduces elements of one compute dtype into accumulators. Accumulators of c columns lie in
 * slots: slot i is an array of c values of 8 bytes or less, at byte i * 8 * c. */
#ifndef SFT_CPU_REDUCE_H
#define SFT_CPU_REDUCE_H

#include "../ops/reduce.h"
#include "kernels.h"

enum { RED_SLOTS = 3, RED_TILE = 512, RED_ROWS = 8 };

typedef struct red_call {
    int64_t count; /* elements per result */
    const sft_reduce_params *p;
    uint8_t index_base;
} red_call;

typedef struct red_kind {
    uint8_t ct, nslots, nout;
    uint8_t out_ct[2]; /* dtype that finish() writes; then converted to the output's */
    void (*init)(void *acc, int64_t c);
    /* acc[c] takes in `rows` rows of c elements each, `stride` bytes apart; the first is number
     * `at`. */
    void (*outer)(const char *x, int64_t rows, int64_t stride, int64_t c, int64_t at, void *acc,
                  const red_call *r);
    /* Column j takes in n contiguous elements. */
    void (*inner)(const void *x, int64_t n, int64_t at, void *acc, int64_t c, int64_t j,
                  const red_call *r);
    /* acc takes in other, which came later. */
    void (*merge)(void *acc, const void *other, int64_t c);
    void (*finish)(const void *acc, int64_t c, const red_call *r, void *out0, void *out1);
} red_kind;

/* Reduces k->t[kind->nout] over the dims of the params. */
sft_status KN(red_run)(const sft_kcall *k, const red_kind *kind);
#define red_run KN(red_run)

#define SLOT(acc, T, i, c) ((T *)((char *)(acc) + (i)*8 * (c)))

#endif
