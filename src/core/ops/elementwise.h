/* elementwise.h: the one way from checked arguments to an elementwise kernel. */
#ifndef SFT_OPS_ELEMENTWISE_H
#define SFT_OPS_ELEMENTWISE_H

#include "../backend.h"

/* Impl and rule heads: IMPL(relu) { ... }  GRAD(relu) { ... } */
#define IMPL(name) sft_status sft_impl_##name(sft_opctx *c)
#define GRAD(name) void sft_grad_##name(sft_bw *b)

/* Runs c->op on ins[nin] (tensors and numbers, broadcast). `common`: the dtype of the inputs after
 * promotion, which decides what is computed in; `result`: the dtype of a new result. `k` may hold
 * the op's numbers (f, i); its other fields are filled here. Writes into c->dst where it is set. */
sft_status sft_elementwise(sft_opctx *c, const sft_value *ins, int nin, sft_dtype common,
                           sft_dtype result, sft_kcall *k);
/* The dtype that a row of class float computes in. */
static inline sft_dtype sft_to_float(sft_dtype d) {
    return sft_is_float(d) ? d : sft_default_dtype();
}

#endif
