/* lanes.h: sums over contiguous elements, in LANES interleaved partial sums: the compiler makes
 * vectors of them, and the result is the same for every instruction set. */
#ifndef SFT_CPU_LANES_H
#define SFT_CPU_LANES_H

#include "kernels.h"

enum { LANES = 32 };

/* s = the sum of `expr` for i in 0 .. n-1, computed in T. */
#define LANE_SUM(T, s, n, expr)                                                                    \
    do {                                                                                           \
        T acc_[LANES] = {0};                                                                       \
        int64_t at_ = 0;                                                                           \
        for (; at_ + LANES <= (n); at_ += LANES)                                                   \
            for (int l_ = 0; l_ < LANES; l_++) {                                                   \
                const int64_t i = at_ + l_;                                                        \
                acc_[l_] += (expr);                                                                \
            }                                                                                      \
        for (int l_ = 0; at_ < (n); at_++, l_++) {                                                 \
            const int64_t i = at_;                                                                 \
            acc_[l_] += (expr);                                                                    \
        }                                                                                          \
        for (int w_ = LANES / 2; w_; w_ /= 2)                                                      \
            for (int l_ = 0; l_ < w_; l_++) acc_[l_] += acc_[l_ + w_];                             \
        (s) = acc_[0];                                                                             \
    } while (0)

/* Two sums over the same elements. */
#define LANE_SUM2(T, s, t, n, expr_s, expr_t)                                                      \
    do {                                                                                           \
        T acc_[LANES] = {0}, bcc_[LANES] = {0};                                                    \
        int64_t at_ = 0;                                                                           \
        for (; at_ + LANES <= (n); at_ += LANES)                                                   \
            for (int l_ = 0; l_ < LANES; l_++) {                                                   \
                const int64_t i = at_ + l_;                                                        \
                acc_[l_] += (expr_s);                                                              \
                bcc_[l_] += (expr_t);                                                              \
            }                                                                                      \
        for (int l_ = 0; at_ < (n); at_++, l_++) {                                                 \
            const int64_t i = at_;                                                                 \
            acc_[l_] += (expr_s);                                                                  \
            bcc_[l_] += (expr_t);                                                                  \
        }                                                                                          \
        for (int w_ = LANES / 2; w_; w_ /= 2)                                                      \
            for (int l_ = 0; l_ < w_; l_++) {                                                      \
                acc_[l_] += acc_[l_ + w_];                                                         \
                bcc_[l_] += bcc_[l_ + w_];                                                         \
            }                                                                                      \
        (s) = acc_[0];                                                                             \
        (t) = bcc_[0];                                                                             \
    } while (0)

#endif
