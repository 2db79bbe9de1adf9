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
sft_status sft_need_float(sft_opctx *c, sft_dtype found); /* the error of rows of class real */

/* A number argument as a double, and as an integer. */
static inline double sft_number(const sft_value *v) {
    return v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_BOOL ? (double)v->u.b : (double)v->u.i;
}
static inline int64_t sft_integer(const sft_value *v) {
    if (v->kind != SFT_V_FLOAT) return v->kind == SFT_V_BOOL ? v->u.b : v->u.i;
    return v->u.f >= 9.2233720368547758e18    ? INT64_MAX
           : v->u.f <= -9.2233720368547758e18 ? INT64_MIN
           : v->u.f != v->u.f                 ? 0
                                              : (int64_t)v->u.f;
}

/* The dtype that a row of class float computes in. */
static inline sft_dtype sft_to_float(sft_dtype d) {
    return sft_is_float(d) ? d : sft_default_dtype();
}

#endif
