/* list.h: ops that return a list of tensors. */
#ifndef SFT_OPS_LIST_H
#define SFT_OPS_LIST_H

#include "elementwise.h"

/* The n tensors (borrowed or temps, none NULL) become the list of results. */
static inline sft_status sft_ret_list(sft_opctx *c, sft_tensor *const *t, int n) {
    c->list = sft_alloc(sizeof *c->list * (size_t)(n ? n : 1));
    if (!c->list) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) c->list[i] = sft_retain(t[i]);
    c->nout = n;
    return SFT_OK;
}

#endif
