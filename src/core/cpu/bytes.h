/* bytes.h: copies of rows of bytes.
 *
 * memcpy() of some kilobytes uses `rep movsb`, which is ten times slower on current AMD cores when
 * source and destination lie at nearly the same place within a page, as rows of tensors often do.
 */
#ifndef SFT_CPU_BYTES_H
#define SFT_CPU_BYTES_H

#include <stddef.h>
#include <string.h>

typedef unsigned char sft_v32 __attribute__((vector_size(32), aligned(1), may_alias));

static inline void sft_copy_bytes(void *dst, const void *src, size_t n) {
    char *d = dst;
    const char *s = src;
    if (n < 32 || n > 65536) {
        memcpy(d, s, n);
        return;
    }
    const sft_v32 last = *(const sft_v32 *)(s + n - 32);
    char *end = d + n - 32;
    for (; n >= 128; n -= 128, d += 128, s += 128) {
        const sft_v32 a = *(const sft_v32 *)s, b = *(const sft_v32 *)(s + 32),
                      c = *(const sft_v32 *)(s + 64), e = *(const sft_v32 *)(s + 96);
        *(sft_v32 *)d = a;
        *(sft_v32 *)(d + 32) = b;
        *(sft_v32 *)(d + 64) = c;
        *(sft_v32 *)(d + 96) = e;
    }
    for (; n >= 32; n -= 32, d += 32, s += 32) *(sft_v32 *)d = *(const sft_v32 *)s;
    *(sft_v32 *)end = last;
}

#endif
