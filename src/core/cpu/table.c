/* table.c: the CPU's kernels by op, from kernels.def. */
#include "kernels.h"

#define K(op) sft_status KN(cpu_##op)(const sft_kcall *k);
#include "kernels.def"
#undef K

extern const sft_kernel KN(sft_cpu_kernels)[SFT_OP_COUNT];
const sft_kernel KN(sft_cpu_kernels)[SFT_OP_COUNT] = {
#define K(op) [SFT_OP_##op] = KN(cpu_##op),
#include "kernels.def"
#undef K
};
