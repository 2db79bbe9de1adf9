/*
 * scratch.h - reusable working memory of the CPU kernels, one set of buffers a thread.
 *
 * Fresh memory costs more in page faults than most kernels cost in arithmetic, so packing buffers
 * stay with their thread and only ever grow.
 */
#ifndef SFT_CPU_SCRATCH_H
#define SFT_CPU_SCRATCH_H

#include <stddef.h>

/* A slot has one user at a time: a kernel that calls another must use slots of its own. */
enum {
    SFT_SCRATCH_GEMM_A,
    SFT_SCRATCH_GEMM_B,
    SFT_SCRATCH_GEMM_SHARED,
    SFT_SCRATCH_CONV,
    SFT_SCRATCH_CONV_SHARED,
    SFT_SCRATCH_DNNL,
    SFT_SCRATCH_ATTENTION,
    SFT_SCRATCH_POOL,
    SFT_SCRATCH_SLOTS
};

/* At least `bytes` of 64-byte aligned memory with old contents undefined, valid until the thread
 * asks for the same slot again or releases; NULL when out of memory. */
void *sft_scratch(int slot, size_t bytes);

/* Gives the calling thread's buffers back (also done when a thread ends). */
void sft_scratch_release(void);

#endif
