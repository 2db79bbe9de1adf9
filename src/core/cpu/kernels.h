/* kernels.h: what the kernel files share. Every file of this folder is compiled once per instruction
 * set level; KN(name) gives each copy its own name. */
#ifndef SFT_CPU_KERNELS_H
#define SFT_CPU_KERNELS_H

#include "../backend.h"
#include "../scalar.h"

#define KN_(name, isa) name##_##isa
#define KN2_(name, isa) KN_(name, isa)
#define KN(name) KN2_(name, SFT_ISA)

/* A kernel: KERNEL(softmax)(const sft_kcall *k) { ... }; listed in kernels.def. */
#define KERNEL(op) sft_status KN(cpu_##op)
#define IVDEP _Pragma("GCC ivdep")

/* Elements per task of a cheap loop: about ten microseconds. */
enum { SFT_GRAIN = 32768, SFT_BLOCK = 1024 };

/* ---- conversions (convert.c) ----------------------------------------------------------------- */

/* The dtype in which elements of `dtype` are computed: float32, float64 or int64. */
static inline int sft_compute_dtype(int dtype) {
    return dtype == SFT_float64 ? SFT_float64 : sft_is_float(dtype) ? SFT_float32 : SFT_int64;
}

/* n elements of `dtype`, `stride` bytes apart -> dst[n] of compute dtype `to` (float32, float64,
 * int64, bool). */
void KN(sft_load)(int to, int dtype, int64_t n, const char *src, int64_t stride, void *dst);
/* src[n] of compute dtype `from` -> n elements of `dtype`, `stride` bytes apart. */
void KN(sft_store)(int from, int dtype, int64_t n, const void *src, char *dst, int64_t stride);
#define sft_load KN(sft_load)
#define sft_store KN(sft_store)

/* ---- elementwise loops (elementwise.c) ----------------------------------------------------------- */

/* out[n] from contiguous inputs of the compute dtype; `k` has the op's numbers. Inputs may be the
 * output itself. */
typedef void (*ew_loop)(int64_t n, void *out, const void *a, const void *b, const void *c,
                        const sft_kcall *k);

typedef struct ew_loops {
    ew_loop f32, f64, i64; /* NULL: not for this dtype */
    bool to_bool;          /* results are bool */
    bool bool_first;       /* the first input is read as bool (a condition) */
} ew_loops;

sft_status KN(ew_run)(const sft_kcall *k, const ew_loops *loops);
#define ew_run KN(ew_run)

/* Operand 0 of `it` = operand 1, of the same dtype (copy.c). */
void KN(copy_same)(const sft_iter *it);
#define copy_same KN(copy_same)

/* EW1(exp, T, expr of x) ... define one loop. */
#define EW_LOOP1(name, TO, T, expr)                                                                \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c,            \
                     const sft_kcall *k) {                                                         \
        (void)b, (void)c, (void)k;                                                                 \
        TO *o = out;                                                                               \
        const T *p = a;                                                                            \
        IVDEP for (int64_t i = 0; i < n; i++) {                                                    \
            const T x = p[i];                                                                      \
            o[i] = (TO)(expr);                                                                     \
        }                                                                                          \
    }
/* One input and numbers of the call, read by `setup`. */
#define EW_LOOP1K(name, T, setup, expr)                                                            \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c,            \
                     const sft_kcall *k) {                                                         \
        (void)b, (void)c, (void)k;                                                                 \
        T *o = out;                                                                                \
        const T *p = a;                                                                            \
        setup;                                                                                     \
        IVDEP for (int64_t i = 0; i < n; i++) {                                                    \
            const T x = p[i];                                                                      \
            o[i] = (T)(expr);                                                                      \
        }                                                                                          \
    }
#define EW_LOOP2(name, TO, T, setup, expr)                                                         \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c,            \
                     const sft_kcall *k) {                                                         \
        (void)c, (void)k;                                                                          \
        TO *o = out;                                                                               \
        const T *p = a, *q = b;                                                                    \
        setup;                                                                                     \
        IVDEP for (int64_t i = 0; i < n; i++) {                                                    \
            const T x = p[i], y = q[i];                                                            \
            o[i] = (TO)(expr);                                                                     \
        }                                                                                          \
    }
#define EW_LOOP3(name, TO, TC, T, setup, expr)                                                     \
    static void name(int64_t n, void *out, const void *a, const void *b, const void *c,            \
                     const sft_kcall *k) {                                                         \
        (void)k;                                                                                   \
        TO *o = out;                                                                               \
        const TC *p = a;                                                                           \
        const T *q = b, *r = c;                                                                    \
        setup;                                                                                     \
        IVDEP for (int64_t i = 0; i < n; i++) {                                                    \
            const TC x = p[i];                                                                     \
            const T y = q[i], z = r[i];                                                            \
            o[i] = (TO)(expr);                                                                     \
        }                                                                                          \
    }

/* Whole kernels in one line: the scalar expressions for each compute dtype; x, y, z are the inputs. */
#define UNARY(op, f32, f64, i64)                                                                   \
    EW_LOOP1(op##_f32, float, float, f32)                                                          \
    EW_LOOP1(op##_f64, double, double, f64)                                                        \
    EW_LOOP1(op##_i64, int64_t, int64_t, i64)                                                      \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, false, false};                \
        return ew_run(k, &loops);                                                                  \
    }
/* Floating only; integers were promoted. */
#define UNARY_F(op, f32, f64)                                                                      \
    EW_LOOP1(op##_f32, float, float, f32)                                                          \
    EW_LOOP1(op##_f64, double, double, f64)                                                        \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, NULL, false, false};                    \
        return ew_run(k, &loops);                                                                  \
    }
#define UNARY_B(op, f32, f64, i64)                                                                 \
    EW_LOOP1(op##_f32, uint8_t, float, f32)                                                        \
    EW_LOOP1(op##_f64, uint8_t, double, f64)                                                       \
    EW_LOOP1(op##_i64, uint8_t, int64_t, i64)                                                      \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, true, false};                 \
        return ew_run(k, &loops);                                                                  \
    }
#define BINARY(op, setup_f32, f32, setup_f64, f64, setup_i64, i64)                                 \
    EW_LOOP2(op##_f32, float, float, setup_f32, f32)                                               \
    EW_LOOP2(op##_f64, double, double, setup_f64, f64)                                             \
    EW_LOOP2(op##_i64, int64_t, int64_t, setup_i64, i64)                                           \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, false, false};                \
        return ew_run(k, &loops);                                                                  \
    }
#define BINARY_F(op, setup_f32, f32, setup_f64, f64)                                               \
    EW_LOOP2(op##_f32, float, float, setup_f32, f32)                                               \
    EW_LOOP2(op##_f64, double, double, setup_f64, f64)                                             \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, NULL, false, false};                    \
        return ew_run(k, &loops);                                                                  \
    }
#define COMPARE(op, expr)                                                                          \
    EW_LOOP2(op##_f32, uint8_t, float, , expr)                                                     \
    EW_LOOP2(op##_f64, uint8_t, double, , expr)                                                    \
    EW_LOOP2(op##_i64, uint8_t, int64_t, , expr)                                                   \
    KERNEL(op)(const sft_kcall *k) {                                                               \
        static const ew_loops loops = {op##_f32, op##_f64, op##_i64, true, false};                 \
        return ew_run(k, &loops);                                                                  \
    }

#endif
