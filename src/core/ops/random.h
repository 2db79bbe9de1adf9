/* random.h: what the checks and the kernels of random numbers and sequences share. */
#ifndef SFT_OPS_RANDOM_H
#define SFT_OPS_RANDOM_H

#include "elementwise.h"

enum sft_random_kind {
    SFT_RANDOM_UNIFORM,     /* a + (b - a) u */
    SFT_RANDOM_NORMAL,      /* a + b z */
    SFT_RANDOM_LOG_NORMAL,  /* exp(a + b z) */
    SFT_RANDOM_EXPONENTIAL, /* -log(u) / a */
    SFT_RANDOM_CAUCHY,      /* a + b tan(pi (u - 1/2)) */
    SFT_RANDOM_GEOMETRIC,   /* ceil(log(u) / log(1 - a)) */
    SFT_RANDOM_BERNOULLI,   /* u < a */
    SFT_RANDOM_INTEGER,     /* low .. low + range - 1; range 0: all of int64 */
};

/* Kernel _random: out, contiguous. Element i depends on (key, offset, i) alone. One block of the
 * generator serves four elements, or two where `wide` (float64, and integers beyond 32 bits). */
typedef struct sft_random_params {
    int kind;
    bool wide;
    uint64_t key, offset;
    double a, b;
    int64_t low;
    uint64_t range;
} sft_random_params;

/* Kernel _sequence: out, contiguous. */
enum sft_sequence_kind { SFT_SEQUENCE_INT, SFT_SEQUENCE_STEP, SFT_SEQUENCE_LIN, SFT_SEQUENCE_LOG };
typedef struct sft_sequence_params {
    int kind;
    int64_t istart, istep;
    double start, end, step, base;
} sft_sequence_params;

/* Kernel randperm: out, contiguous int64. Kernel multinomial: out (int64 [rows, samples]), weights
 * (contiguous [rows, n]). */
typedef struct sft_draw_params {
    uint64_t key, offset; /* multinomial: n blocks for each row */
    bool replacement;
} sft_draw_params;

#endif
