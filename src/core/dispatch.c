/* dispatch.c: from a call with values to an implementation, its in-place and out= forms, and the
 * tape. Every op, from a script, from C or from inside another op, passes through sft_invoke(). */
#include "backend.h"
#include "interrupt.h"
#include <stdio.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    "nothing",     "a Tensor",           "an integer",        "a number",
    "a boolean",   "a string",           "a dtype",           "a device",
    "a Generator", "a list of integers", "a list of numbers", "a list of Tensors"};
static const char *const type_names[] = {
    "a Tensor",       "a list of Tensors", "a Tensor or a number",
    "a number",       "an integer",        "a number",
    "a boolean",      "a string",          "a dim",
    "a list of dims", "an index",          "a list of integers",
    "sizes",          "a list of numbers", "a dtype",
    "a device",       "a Generator"};

/* Does value v fit parameter p? Numbers are converted where nothing is lost. */
static bool fits(const sft_param *p, sft_value *v) {
    switch ((sft_param_type)p->type) {
    case SFT_P_TENSOR:
        return v->kind == SFT_V_TENSOR && v->u.t;
    case SFT_P_TENSORS:
        if (v->kind == SFT_V_INTS && v->n == 0) v->kind = SFT_V_TENSORS;
        return v->kind == SFT_V_TENSORS;
    case SFT_P_TENSOR_SCALAR:
        if (v->kind == SFT_V_TENSOR) return v->u.t != NULL;
        return v->kind == SFT_V_INT || v->kind == SFT_V_FLOAT || v->kind == SFT_V_BOOL;
    case SFT_P_SCALAR:
        return v->kind == SFT_V_INT || v->kind == SFT_V_FLOAT || v->kind == SFT_V_BOOL;
    case SFT_P_INT:
    case SFT_P_DIM:
    case SFT_P_INDEX:
        if (v->kind == SFT_V_FLOAT && v->u.f >= -9.2e18 && v->u.f <= 9.2e18 &&
            v->u.f == (double)(int64_t)v->u.f)
            *v = sft_v_int((int64_t)v->u.f);
        return v->kind == SFT_V_INT;
    case SFT_P_FLOAT:
        if (v->kind == SFT_V_INT) *v = sft_v_float((double)v->u.i);
        return v->kind == SFT_V_FLOAT;
    case SFT_P_BOOL:
        if (v->kind == SFT_V_INT && (v->u.i == 0 || v->u.i == 1)) *v = sft_v_bool(v->u.i == 1);
        return v->kind == SFT_V_BOOL;
    case SFT_P_STR:
        return v->kind == SFT_V_STR;
    case SFT_P_DIMS:
    case SFT_P_INTS:
        if (v->kind == SFT_V_INTS) return !p->fixed || v->n <= 1 || v->n == p->fixed;
        return v->kind == SFT_V_INT;
    case SFT_P_SIZES:
        return v->kind == SFT_V_INTS || v->kind == SFT_V_INT;
    case SFT_P_FLOATS:
        return v->kind == SFT_V_FLOATS || v->kind == SFT_V_INTS;
    case SFT_P_DTYPE:
        return v->kind == SFT_V_DTYPE;
    case SFT_P_DEVICE:
        return v->kind == SFT_V_DEVICE;
    case SFT_P_GENERATOR:
        return v->kind == SFT_V_GENERATOR;
    }
    return false;
}

/* Fills values[nparams] from n given ones. A single integer where a list is due becomes a list that
 * points into ints[]. */
static sft_status complete(const sft_op_info *info, const sft_value *args, int n, sft_value *values,
                           int64_t *ints) {
    if (n > info->nparams)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: takes at most %d arguments, got %d; %s", info->name,
                        info->nparams, n, info->signature);
    for (int i = 0; i < info->nparams; i++) {
        const sft_param *p = &info->params[i];
        values[i] = i < n ? args[i] : sft_v_none();
        if (values[i].kind == SFT_V_TENSOR && !values[i].u.t) values[i].kind = SFT_V_NONE;
        if (values[i].kind == SFT_V_NONE) {
            values[i] = p->def;
            if (!p->optional)
                return sft_fail(SFT_ERR_ARGUMENT, "%s: argument '%.*s' is missing; %s", info->name,
                                p->len, p->name, info->signature);
            continue;
        }
        if (!fits(p, &values[i]))
            return sft_fail(SFT_ERR_ARGUMENT, "%s: argument '%.*s' must be %s, got %s", info->name,
                            p->len, p->name, type_names[p->type], kind_names[values[i].kind]);
        if (values[i].kind == SFT_V_INT &&
            (p->type == SFT_P_DIMS || p->type == SFT_P_INTS || p->type == SFT_P_SIZES)) {
            ints[i] = values[i].u.i;
            values[i] = sft_v_ints(&ints[i], 1);
        }
    }
    return SFT_OK;
}

/* ---- what holds for every op -------------------------------------------------------------------
 */

/* Calls fn for each tensor among the values, until it returns false. */
#define EACH_TENSOR(info, values, t, i, ...)                                                       \
    for (int i = 0; i < (info)->nparams; i++) {                                                    \
        if ((values)[i].kind == SFT_V_TENSOR) {                                                    \
            sft_tensor *t = (values)[i].u.t;                                                       \
            __VA_ARGS__;                                                                           \
        } else if ((values)[i].kind == SFT_V_TENSORS) {                                            \
            for (int j_ = 0; j_ < (values)[i].n; j_++) {                                           \
                sft_tensor *t = (values)[i].u.tensors[j_];                                         \
                if (t) __VA_ARGS__;                                                                \
            }                                                                                      \
        }                                                                                          \
    }

static bool any_needs_grad(const sft_op_info *info, const sft_value *values) {
    EACH_TENSOR(info, values, t, i, if (sft_tensor_needs_grad(t)) return true);
    return false;
}

static inline bool same_device(sft_device a, sft_device b) {
    return a.type == b.type && a.index == b.index;
}

/* One device for all tensors (a 0-dim CPU tensor mixes with any). */
static sft_status check_devices(const sft_op_info *info, const sft_value *values) {
    sft_tensor *first = NULL;
    int first_at = 0;
    EACH_TENSOR(info, values, t, i, {
        if (first && !same_device(t->device, first->device)) {
            if (t->ndim == 0 && t->device.type == SFT_CPU) continue;
            if (!(first->ndim == 0 && first->device.type == SFT_CPU)) {
                char a[16], b[16];
                return sft_fail(SFT_ERR_DEVICE,
                                "%s: all tensors must be on one device: '%.*s' is on %s, '%.*s' is "
                                "on %s; move one of them with x:to(...)",
                                info->name, info->params[first_at].len, info->params[first_at].name,
                                sft_device_name(first->device, a), info->params[i].len,
                                info->params[i].name, sft_device_name(t->device, b));
            }
            first = NULL;
        }
        if (!first) first = t, first_at = i;
    });
    return SFT_OK;
}

/* ---- in place ----------------------------------------------------------------------------------
 */

static sft_status check_writable(const sft_op_info *info, sft_tensor *x, bool recording) {
    if (recording && sft_tensor_needs_grad(x)) {
        sft_tensor *root = x->base ? x->base : x;
        if (root->meta && root->meta->requires_grad && !root->meta->grad_fn)
            return sft_fail(SFT_ERR_AUTOGRAD,
                            "%s_: %s leaf that requires grad is used in an in-place operation; "
                            "wrap it in sft.no_grad(), or work on a copy (x:clone())",
                            info->name, x->base ? "a view of a" : "a");
    } else if (recording && x->base && sft_is_float(x->dtype) && sft_tensor_needs_grad(x->base)) {
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "%s_: the tensor is a view of one that requires grad, made where that was "
                        "not recorded (inside sft.no_grad(), or before requires_grad was set), so "
                        "the graph would not see the change; make the view again, or write inside "
                        "sft.no_grad()",
                        info->name);
    }
    if (sft_has_overlap(x))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s_: several elements of the tensor written to share one memory location "
                        "(expanded?); call x:clone() first",
                        info->name);
    return SFT_OK;
}

/* Writes result r into x: shape must be equal, dtype castable. */
static sft_status write_back(const sft_op_info *info, sft_tensor *x, sft_tensor *r) {
    if (r->ndim != x->ndim || memcmp(r->shape, x->shape, sizeof(int64_t) * x->ndim) != 0)
        return sft_fail(
            SFT_ERR_ARGUMENT,
            "%s_: the result has shape %s, which does not fit into the tensor of shape %s",
            info->name, SFT_SHAPE(r), SFT_SHAPE(x));
    if (!sft_can_cast(r->dtype, x->dtype))
        return sft_fail(SFT_ERR_ARGUMENT,
                        "%s_: result type %s can't be cast to the tensor's type %s", info->name,
                        sft_dtype_name(r->dtype), sft_dtype_name(x->dtype));
    return sft_copy_raw(x, r);
}

static sft_status run_impl(sft_opctx *c, bool quiet) {
    sft_tls *t = sft_thread();
    size_t mark = t->ntemps;
    t->depth++;
    t->inside_rule += quiet;
    sft_status st = sft_rows[c->op].impl(c);
    t->inside_rule -= quiet;
    t->depth--;
    if (SFT_UNLIKELY(t->ntemps > mark)) sft_scope_close(mark);
    if (SFT_UNLIKELY(st == SFT_OK && t->code != SFT_OK)) st = t->code;
    return st;
}

static void drop_results(sft_opctx *c) {
    for (int i = 0; i < c->nout; i++) {
        if (c->list)
            sft_release(c->list[i]);
        else
            sft_release(c->out[i]);
    }
    if (c->list) sft_free(c->list, sizeof(sft_tensor *) * (size_t)(c->nout ? c->nout : 1));
    c->list = NULL;
    c->nout = 0;
}

/* x was overwritten by what no gradient flows through: none goes to what it held before. */
static sft_status cut_history(sft_tensor *x, bool recording) {
    if (!recording || !sft_tensor_needs_grad(x)) return SFT_OK;
    sft_value a[1] = {sft_v_tensor(x)};
    return sft_record(SFT_OP_zero, a, &x, 1, true);
}

static sft_status invoke_inplace(sft_opctx *c, bool needs) {
    const sft_op_row *row = &sft_rows[c->op];
    sft_tensor *x = c->a[0].u.t;
    bool recording = sft_recording();
    if (!(c->info->flags & SFT_F_INPLACE) || c->a[0].kind != SFT_V_TENSOR)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: has no in-place form", c->info->name);
    SFT_TRY(check_writable(c->info, x, recording));
    sft_tensor *old = NULL; /* what the rule will see as the first argument */
    sft_status st;
    if (needs && row->grad == SFT_GRAD_RULE && (sft_saves(c->op, c->a) & IN0)) {
        old = sft_empty_like_(x, x->dtype);
        if (!old || sft_copy_raw(old, x) != SFT_OK) {
            sft_release(old);
            return sft_fail(SFT_ERR_MEMORY, "out of memory");
        }
    }
    if (c->info->flags & SFT_F_DST) c->dst = x;
    st = run_impl(c, row->grad != SFT_GRAD_COMPOSITE);
    sft_tensor *r = st == SFT_OK ? c->out[0] : NULL;
    if (st == SFT_OK && r != x) st = write_back(c->info, x, r);
    bool written = st == SFT_OK || st == SFT_ERR_INTERRUPTED;
    if (st == SFT_OK) {
        if (row->grad == SFT_GRAD_NONE) {
            st = cut_history(x, recording);
        } else if (needs && row->grad == SFT_GRAD_RULE) {
            sft_value a0 = c->a[0];
            sft_edge e = {0};
            if (old) {
                /* The copy stands for x's old value, history included. */
                e = sft_tensor_edge(x);
                sft_meta *m = (e.fn || e.leaf) ? sft_tensor_meta(old) : NULL;
                if (m && e.fn) m->grad_fn = sft_node_retain(e.fn), m->out_nr = e.out_nr;
                if (!m && (e.fn || e.leaf)) st = SFT_ERR_MEMORY;
                c->a[0].u.t = old;
            }
            sft_tensor *outs[1] = {x};
            if (st == SFT_OK) st = sft_record(c->op, c->a, outs, 1, true);
            c->a[0] = a0;
            if (e.fn) sft_node_release(e.fn);
            if (e.leaf) sft_release(e.leaf);
        } else if (needs && row->grad == SFT_GRAD_COMPOSITE && r != x) {
            sft_edge e = sft_tensor_edge(r);
            if (e.fn) {
                st = sft_rebase(x, e.fn, e.out_nr);
                sft_node_release(e.fn);
            } else if (e.leaf) {
                sft_release(e.leaf);
            }
        } else if (needs && row->grad == SFT_GRAD_UNWRITTEN) {
            st = sft_fail(SFT_ERR_AUTOGRAD, "%s_: its gradient is not written yet", c->info->name);
        }
    }
    /* After the recording: an argument that shares x's memory and was saved is no longer what the
     * rule wants to see, and its version tells. */
    if (written) sft_bump_version(x);
    sft_release(old);
    drop_results(c);
    if (st == SFT_OK) c->out[c->nout++] = sft_retain(x);
    return st;
}

/* out =: an empty tensor takes the result's shape; any other must have it. */
static sft_status into_dst(sft_opctx *c, sft_tensor *dst) {
    sft_tensor *r = c->out[0];
    if (r == dst) return SFT_OK;
    if (dst->numel == 0 && r->numel != 0) {
        if (!sft_can_cast(r->dtype, dst->dtype))
            return sft_fail(SFT_ERR_ARGUMENT, "%s: result type %s can't be cast to out's type %s",
                            c->info->name, sft_dtype_name(r->dtype), sft_dtype_name(dst->dtype));
        sft_tensor *fresh = sft_empty(r->shape, r->ndim, (sft_dtype)dst->dtype, dst->device);
        if (!fresh) return sft_thread()->code;
        sft_status st = sft_copy_raw(fresh, r);
        if (st == SFT_OK) st = sft_set_data(dst, fresh);
        sft_release(fresh);
        if (st != SFT_OK) return st;
    } else {
        SFT_TRY(write_back(c->info, dst, r));
        sft_bump_version(dst);
    }
    sft_release(r);
    c->out[0] = sft_retain(dst);
    return SFT_OK;
}

static sft_status invoke_out(sft_opctx *c, sft_tensor *dst, bool needs) {
    if (!(c->info->flags & SFT_F_OUT))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: takes no out =", c->info->name);
    if (needs || (sft_recording() &&
                  (sft_tensor_needs_grad(dst) || (dst->base && sft_tensor_needs_grad(dst->base)))))
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "%s: out = does not support gradients, but an argument requires grad; use "
                        "sft.no_grad() or drop out =",
                        c->info->name);
    if (sft_has_overlap(dst))
        return sft_fail(SFT_ERR_ARGUMENT, "%s: elements of out share one memory location",
                        c->info->name);
    bool direct = (c->info->flags & SFT_F_DST) && dst->numel != 0;
    if (direct) c->dst = dst;
    SFT_TRY(run_impl(c, sft_rows[c->op].grad != SFT_GRAD_COMPOSITE));
    if (c->out[0] == dst) sft_bump_version(dst);
    return into_dst(c, dst);
}

/* ---- the one way in
 * ------------------------------------------------------------------------------ */

sft_status sft_invoke(sft_op_id op, unsigned mode, sft_value *values, sft_tensor *dst,
                      sft_tensor **out, int *nout, sft_tensor ***list) {
    const sft_op_info *info = sft_op_get_info(op);
    const sft_op_row *row = &sft_rows[op];
    sft_opctx c = {.op = op, .info = info, .a = values, .out = out};
    sft_status st = check_devices(info, values);
    bool needs = sft_recording() && row->grad != SFT_GRAD_NONE && any_needs_grad(info, values);
    if (SFT_UNLIKELY(st != SFT_OK)) {
    } else if (mode & SFT_CALL_INPLACE) {
        st = invoke_inplace(&c, needs);
    } else if (dst) {
        st = invoke_out(&c, dst, needs);
    } else {
        if (info->flags & SFT_F_MUTATES) {
            if (values[0].kind == SFT_V_TENSOR)
                st = check_writable(info, values[0].u.t, sft_recording());
        }
        if (st == SFT_OK) st = run_impl(&c, row->grad != SFT_GRAD_COMPOSITE);
        if (st == SFT_OK && (info->flags & SFT_F_MUTATES) && values[0].kind == SFT_V_TENSOR) {
            sft_bump_version(values[0].u.t);
            st = cut_history(values[0].u.t, sft_recording());
        }
        if (st == SFT_OK && needs) {
            if (row->grad == SFT_GRAD_RULE)
                st = sft_record(op, values, c.list ? c.list : out, c.nout, false);
            else if (row->grad == SFT_GRAD_UNWRITTEN)
                st =
                    sft_fail(SFT_ERR_AUTOGRAD,
                             "%s: its gradient is not written yet; call it inside sft.no_grad() or "
                             "on x:detach()",
                             info->name);
        }
    }
    if (SFT_UNLIKELY(st != SFT_OK)) {
        drop_results(&c);
        *nout = 0;
        return st;
    }
    if (list) {
        *list = c.list;
        if (!c.list) {
            *list = sft_alloc(sizeof(sft_tensor *) * (size_t)(c.nout ? c.nout : 1));
            if (!*list) {
                drop_results(&c);
                return sft_fail(SFT_ERR_MEMORY, "out of memory");
            }
            memcpy(*list, out, sizeof(sft_tensor *) * (size_t)c.nout);
        }
    } else if (c.list) {
        /* A list was not expected: hand over the first ones. */
        int keep = c.nout < SFT_MAX_OUTPUTS ? c.nout : SFT_MAX_OUTPUTS;
        for (int i = 0; i < c.nout; i++) {
            if (i < keep)
                out[i] = c.list[i];
            else
                sft_release(c.list[i]);
        }
        sft_free(c.list, sizeof(sft_tensor *) * (size_t)(c.nout ? c.nout : 1));
        c.nout = keep;
    }
    *nout = c.nout;
    return SFT_OK;
}

/* An error of an op that another one is made of speaks of the one that was called. */
static void name_outer(const sft_op_info *info) {
    sft_tls *t = sft_thread();
    size_t n = strspn(t->message, "abcdefghijklmnopqrstuvwxyz_0123456789"),
           own = strlen(info->name);
    if (n == 0 || strncmp(t->message + n, ": ", 2) != 0 ||
        (n >= own && memcmp(t->message, info->name, own) == 0))
        return;
    for (int i = 0; i < SFT_OP_COUNT; i++) {
        const char *name = sft_op_get_info((sft_op_id)i)->name;
        if (strlen(name) != n || memcmp(t->message, name, n) != 0) continue;
        memmove(t->message, t->message + n + 2, strlen(t->message + n + 2) + 1);
        sft_error_prefix(info->name);
        return;
    }
}

/* From the outside: a fresh error, the caller's index base. */
static sft_status outer_call(sft_op_id op, unsigned mode, const sft_value *args, int n,
                             sft_tensor *dst, sft_tensor **out, int *nout, sft_tensor ***list) {
    sft_tls *t = sft_thread();
    if ((unsigned)op >= SFT_OP_COUNT) return sft_set_error(SFT_ERR_ARGUMENT, "unknown op");
    const sft_op_info *info = sft_op_get_info(op);
    sft_value values[SFT_MAX_PARAMS];
    int64_t ints[SFT_MAX_PARAMS];
    if (t->depth == 0) t->code = SFT_OK;
    if (info->flags & SFT_F_INTERNAL)
        return sft_fail(SFT_ERR_ARGUMENT, "%s: internal; it can't be called", info->name);
    uint8_t base = t->index_base;
    t->index_base = mode & SFT_CALL_ONE_BASED;
    sft_status st = complete(info, args, n, values, ints);
    if (st == SFT_OK) {
        st = sft_invoke(op, mode, values, dst, out, nout, list);
        if (SFT_UNLIKELY(st != SFT_OK) && t->depth == 0 && st != SFT_ERR_CALLBACK) name_outer(info);
    }
    t->index_base = base;
    return st;
}

sft_status sft_call(sft_op_id op, unsigned mode, const sft_value *args, int n, sft_tensor *dst,
                    sft_tensor **out, int *nout) {
    return outer_call(op, mode, args, n, dst, out, nout, NULL);
}

sft_status sft_call_list(sft_op_id op, unsigned mode, const sft_value *args, int n,
                         sft_tensor ***out, int *nout) {
    sft_tensor *few[SFT_MAX_OUTPUTS];
    return outer_call(op, mode, args, n, NULL, few, nout, out);
}

void sft_free_list(sft_tensor **list, int n) {
    if (!list) return;
    for (int i = 0; i < n; i++) sft_release(list[i]);
    sft_free(list, sizeof(sft_tensor *) * (size_t)(n ? n : 1));
}

sft_tensor *sft_call1(sft_op_id op, const sft_value *args, int n) {
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int nout = 0;
    if (sft_call(op, 0, args, n, NULL, out, &nout) != SFT_OK) return NULL;
    for (int i = 1; i < nout; i++) sft_release(out[i]);
    return nout ? out[0] : NULL;
}

/* ---- calls from inside --------------------------------------------------------------------------
 */

static int inner_call(sft_op_id op, unsigned mode, const sft_value *args, int n, sft_tensor **out) {
    sft_tls *t = sft_thread();
    if (t->code != SFT_OK) return 0;
    sft_value values[SFT_MAX_PARAMS];
    int64_t ints[SFT_MAX_PARAMS];
    int nout = 0;
    t->depth++;
    sft_status st = complete(sft_op_get_info(op), args, n, values, ints);
    if (st == SFT_OK) st = sft_invoke(op, mode, values, NULL, out, &nout, NULL);
    t->depth--;
    return st == SFT_OK ? nout : 0;
}

sft_tensor *sft_do(sft_op_id op, unsigned mode, const sft_value *args, int n) {
    sft_tensor *out[SFT_MAX_OUTPUTS];
    int nout = inner_call(op, mode, args, n, out);
    for (int i = 1; i < nout; i++) sft_release(out[i]);
    return nout ? sft_temp(out[0]) : NULL;
}

bool sft_do_n(sft_op_id op, const sft_value *args, int n, sft_tensor **out, int nout) {
    sft_tensor *all[SFT_MAX_OUTPUTS];
    int got = inner_call(op, 0, args, n, all);
    for (int i = 0; i < got; i++) {
        sft_tensor *x = sft_temp(all[i]);
        if (i < nout) out[i] = x;
    }
    return got >= nout && !sft_failed();
}

/* ---- kernels
 * ------------------------------------------------------------------------------------- */

const sft_backend *sft_backend_of(sft_device d) {
    if (d.type == SFT_CPU) return sft_cpu_backend();
    char name[16];
    sft_fail(SFT_ERR_DEVICE,
             "device %s is not available: this build has no backend for it; use "
             "\"cpu\" or sft.get_device()",
             sft_device_name(d, name));
    return NULL;
}

sft_status sft_run_kernel(sft_kcall *k, sft_device device) {
    const sft_backend *be = sft_backend_of(device);
    if (!be) return sft_thread()->code;
    sft_kernel kernel = be->kernels[k->op];
    k->index_base = sft_thread()->index_base;
    if (SFT_UNLIKELY(!kernel)) {
        const sft_tensor *x = NULL;
        for (int i = 0; i < k->nt && !x; i++) x = k->t[i];
        return sft_fail(SFT_ERR_UNSUPPORTED, "%s: not supported for %s on %s",
                        sft_op_get_info(k->op)->name,
                        x ? sft_dtype_name(x->dtype) : "these arguments", be->name);
    }
    const unsigned before = sft_interrupt_count();
    sft_status st = kernel(k);
    if (SFT_UNLIKELY(sft_interrupted() || sft_interrupt_count() != before)) {
        sft_interrupt_clear();
        return sft_fail(SFT_ERR_INTERRUPTED, "interrupted!");
    }
    return st;
}

sft_status sft_run(sft_op_id op, sft_tensor *const *t, int nt, const void *params) {
    sft_kcall k = {.op = op, .nt = nt, .t = t, .params = params};
    for (int i = 0; i < nt; i++)
        if (t[i]) return sft_run_kernel(&k, t[i]->device);
    return SFT_OK;
}
