/* callback.c: what a host's callback (gradient hook, backward of a custom function, reclaim) needs
 * around it, so that calls that it makes itself, failing ones too, leave the call that runs it as
 * it was. */
#include "core.h"

void sft_callback_begin(sft_callback_state *s) {
    sft_tls *t = sft_thread();
    s->code = t->code;
    s->depth = t->depth;
    s->inside_rule = t->inside_rule;
    s->index_base = t->index_base;
    t->code = SFT_OK;
    t->depth = t->inside_rule = 0;
    t->index_base = 0;
}

void sft_callback_end(const sft_callback_state *s) {
    sft_tls *t = sft_thread();
    t->code = s->code;
    t->depth = s->depth;
    t->inside_rule = s->inside_rule;
    t->index_base = (uint8_t)s->index_base;
}
