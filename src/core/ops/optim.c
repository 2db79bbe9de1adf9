/* optim.c: optimizer steps over lists of tensors: checks, and the table of what lies where. */
#include "optim.h"
#include "widen.h"
#include <math.h>

/* A list of items in one block of memory, with the contiguous stand-ins of tensors that have holes.
 */
typedef struct job {
    sft_optim_params o;
    sft_optim_item *items;
    size_t bytes;
    sft_tensor **stand_in; /* [count * SFT_OPTIM_TENSORS], NULL: the tensor itself */
} job;

static void job_free(job *j) {
    if (j->items) sft_free(j->items, j->bytes);
    j->items = NULL;
}

static sft_status job_new(job *j, int count) {
    const size_t n = count ? (size_t)count : 1;
    const size_t items = n * sizeof(sft_optim_item);
    j->bytes = items + n * SFT_OPTIM_TENSORS * sizeof(sft_tensor *);
    j->items = sft_alloc_zero(j->bytes);
    if (!j->items) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    j->stand_in = (sft_tensor **)(void *)((char *)j->items + items);
    j->o.items = j->items;
    j->o.count = count;
    return SFT_OK;
}

static bool same_layout(const sft_tensor *a, const sft_tensor *b) {
    return !memcmp(a->strides, b->strides, sizeof(int64_t) * (size_t)a->ndim);
}

/* Enters the i-th tensors of lists[nlists] (absent ones have no entries) into item i. */
static sft_status add_item(job *j, const sft_opctx *c, const sft_value *const *lists, int nlists,
                           int i) {
    const char *op = c->info->name;
    sft_optim_item *it = &j->items[i];
    const sft_tensor *first = lists[0]->u.tensors[i];
    bool flat = true;
    for (int l = 0; l < nlists; l++) {
        if (!lists[l] || !lists[l]->n) continue;
        const sft_tensor *t = lists[l]->u.tensors[i];
        const sft_param *p = &c->info->params[lists[l] - c->a];
        const int at = i + sft_thread()->index_base;
        if (!t)
            return sft_fail(SFT_ERR_ARGUMENT, "%s: %.*s[%d] is missing", op, p->len, p->name, at);
        if (!sft_is_float(t->dtype))
            return sft_fail(SFT_ERR_ARGUMENT, "%s: %.*s[%d] must be floating, got %s", op, p->len,
                            p->name, at, sft_dtype_name((sft_dtype)t->dtype));
        if (!sft_same_shape(t, first))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: %.*s[%d] must have the shape of its parameter, %s, "
                            "got %s",
                            op, p->len, p->name, at, SFT_SHAPE(first), SFT_SHAPE(t));
        if (l != SFT_OPT_GRAD && sft_has_overlap(t))
            return sft_fail(SFT_ERR_ARGUMENT,
                            "%s: elements of %.*s[%d] share one memory location (expanded?); call "
                            "x:clone() first",
                            op, p->len, p->name, at);
        flat = flat && sft_is_dense(t) && same_layout(t, first);
    }
    for (int l = 0; l < nlists; l++) {
        if (!lists[l] || !lists[l]->n) continue;
        sft_tensor *t = lists[l]->u.tensors[i], *use = t;
        if (!flat && !t->contiguous) {
            use = j->stand_in[i * SFT_OPTIM_TENSORS + l] = DO(contiguous, t);
            if (!use) return sft_last_status();
        }
        it->data[l] = use->data;
        it->dtype[l] = t->dtype;
    }
    it->ct = (uint8_t)sft_wide_dtype(first);
    it->n = first->numel;
    it->start = j->o.total;
    j->o.total += it->n;
    return SFT_OK;
}

/* Runs the kernel; afterwards stand-ins of the lists in `written` go back, versions rise. */
static sft_status run(job *j, const sft_opctx *c, const sft_value *const *lists, int nlists,
                      unsigned written) {
    sft_status st = SFT_OK;
    if (j->o.total) st = sft_run(c->op, lists[0]->u.tensors, lists[0]->n, &j->o);
    for (int i = 0; i < j->o.count && st == SFT_OK; i++)
        for (int l = 0; l < nlists && st == SFT_OK; l++) {
            if (!(written >> l & 1) || !lists[l] || !lists[l]->n) continue;
            sft_tensor *t = lists[l]->u.tensors[i], *copy = j->stand_in[i * SFT_OPTIM_TENSORS + l];
            if (copy) st = sft_copy_raw(t, copy);
            sft_bump_version(t);
        }
    return st;
}

static sft_status check_lengths(const sft_opctx *c, const sft_value *const *lists, int nlists) {
    for (int l = 1; l < nlists; l++) {
        if (!lists[l] || lists[l]->n == lists[0]->n) continue;
        const sft_param *p = &c->info->params[lists[l] - c->a];
        return sft_fail(SFT_ERR_ARGUMENT, "%s: %.*s has %d entries, params has %d", c->info->name,
                        p->len, p->name, lists[l]->n, lists[0]->n);
    }
    return SFT_OK;
}

static sft_status step(job *j, sft_opctx *c, const sft_value *const *lists, int nlists,
                       unsigned written) {
    SFT_TRY(check_lengths(c, lists, nlists));
    SFT_TRY(job_new(j, lists[0]->n));
    sft_status st = SFT_OK;
    for (int i = 0; i < lists[0]->n && st == SFT_OK; i++) st = add_item(j, c, lists, nlists, i);
    if (st == SFT_OK) st = run(j, c, lists, nlists, written);
    job_free(j);
    return st;
}

/* (params, grads, momentum_buffers, lr, momentum, dampening, weight_decay, nesterov, maximize,
 * first_step) */
IMPL(_fused_sgd_) {
    job j = {.o = {.lr = ARG_F(3),
                   .momentum = ARG_F(4),
                   .dampening = ARG_F(5),
                   .weight_decay = ARG_F(6),
                   .nesterov = ARG_B(7),
                   .maximize = ARG_B(8),
                   .first_step = ARG_B(9)}};
    const sft_value *lists[3] = {&c->a[0], &c->a[1], j.o.momentum != 0 ? &c->a[2] : NULL};
    return step(&j, c, lists, 3, 1 | 4);
}

/* (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, step, lr, beta1, beta2, eps,
 * weight_decay, decoupled, amsgrad, maximize) */
IMPL(_fused_adam_) {
    const double t = (double)ARG_I(5), lr = ARG_F(6), beta1 = ARG_F(7), beta2 = ARG_F(8);
    if (ARG_I(5) < 1)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: step counts from 1, got %lld", c->info->name,
                        (long long)ARG_I(5));
    job j = {.o = {.lr = lr,
                   .beta1 = beta1,
                   .beta2 = beta2,
                   .eps = ARG_F(9),
                   .weight_decay = ARG_F(10),
                   .decoupled = ARG_B(11),
                   .amsgrad = ARG_B(12),
                   .maximize = ARG_B(13),
                   .step_size = lr / (1 - pow(beta1, t)),
                   .correction2 = sqrt(1 - pow(beta2, t))}};
    const sft_value *lists[5] = {&c->a[0], &c->a[1], &c->a[2], &c->a[3],
                                 j.o.amsgrad ? &c->a[4] : NULL};
    return step(&j, c, lists, 5, 1 | 4 | 8 | 16);
}

/* (tensors, norm_type) -> 0-dim norm of all elements together */
IMPL(_global_norm) {
    const sft_value *lists[1] = {&c->a[0]};
    sft_dtype dtype = SFT_float32;
    sft_device device = {SFT_CPU, 0};
    for (int i = 0; i < c->a[0].n; i++) {
        const sft_tensor *t = c->a[0].u.tensors[i];
        if (t && t->dtype == SFT_float64) dtype = SFT_float64;
        if (t) device = t->device;
    }
    SFT_TRY(sft_give(c, sft_empty(NULL, 0, dtype, device)));
    job j = {.o = {.p = ARG_F(1)}};
    SFT_TRY(job_new(&j, lists[0]->n));
    sft_status st = SFT_OK;
    for (int i = 0; i < lists[0]->n && st == SFT_OK; i++) st = add_item(&j, c, lists, 1, i);
    if (st == SFT_OK && j.o.total)
        st = sft_run(c->op, c->out, 1, &j.o);
    else if (st == SFT_OK)
        st = sft_fill_raw(c->out[0], sft_v_float(0));
    job_free(&j);
    return st;
}

/* (tensors, factor): each times the one element of factor, in place */
IMPL(_scale_) {
    const sft_value *lists[1] = {&c->a[0]};
    sft_value factor;
    if (ARG_T(1)->numel != 1)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: factor must have one element, got %s", c->info->name,
                        SFT_SHAPE(ARG_T(1)));
    SFT_TRY(sft_item(ARG_T(1), &factor));
    job j = {.o = {.factor = factor.kind == SFT_V_FLOAT ? factor.u.f
                             : factor.kind == SFT_V_INT ? (double)factor.u.i
                                                        : factor.u.b}};
    return step(&j, c, lists, 1, 1);
}
