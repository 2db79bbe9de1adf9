/* rows.c: the engine's view of ops.def: implementation and gradient rule of every op. */
#include "core.h"

#define RULE(name, saves) void sft_grad_##name(sft_bw *);
#define COMPOSITE
#define NONDIFF
#define UNWRITTEN
#define OP(id, impl, dtypes, flags, grad, signature, doc)                                          \
    sft_status sft_impl_##impl(sft_opctx *);                                                       \
    grad
#include "ops.def"
#undef OP
#undef RULE
#undef COMPOSITE
#undef NONDIFF
#undef UNWRITTEN

#define RULE(name, saves) sft_grad_##name, SFT_GRAD_RULE, saves
#define COMPOSITE NULL, SFT_GRAD_COMPOSITE, 0
#define NONDIFF NULL, SFT_GRAD_NONE, 0
#define UNWRITTEN NULL, SFT_GRAD_UNWRITTEN, 0
const sft_op_row sft_rows[SFT_OP_COUNT] = {
#define OP(id, impl, dtypes, flags, grad, signature, doc)                                          \
    [SFT_OP_##id] = {sft_impl_##impl, grad},
#include "ops.def"
#undef OP
};
