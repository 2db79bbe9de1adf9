/* tape.c: what autograd records. A node holds the arguments of one call, an edge per tensor
 * argument to where that came from, and whatever its gradient rule asked to have saved.
 *
 * An edge to a leaf points at the leaf itself, any other at the node that made the tensor. A saved
 * tensor is a fresh struct over the same storage, so that no cycle arises, with the version of the
 * storage, so that a later in-place write is noticed. */
#include "core.h"
#include <stdio.h>
#include <stdlib.h>

static _Atomic uint64_t next_seq = 1;

/* ---- the autograd part of a tensor ---------------------------------------------------------- */

sft_meta *sft_tensor_meta(sft_tensor *t) {
    if (t->meta) return t->meta;
    sft_meta *m = sft_alloc_zero(sizeof *m);
    if (!m) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    return t->meta = m;
}

void sft_hooks_free(sft_hooks *hooks) {
    for (size_t i = 0; i < hooks->n; i++)
        if (hooks->list[i].free_fn) hooks->list[i].free_fn(hooks->list[i].user);
    free(hooks->list);
    *hooks = (sft_hooks){0};
}

void sft_meta_free(sft_meta *m) {
    if (m->grad_fn) {
        if (m->retain_grad) m->grad_fn->retained[m->out_nr] = NULL;
        sft_node_release(m->grad_fn);
    }
    sft_release(m->grad);
    sft_release(m->pending);
    sft_hooks_free(&m->hooks);
    sft_free(m, sizeof *m);
}

static void set_history(sft_meta *m, sft_node *fn, int out_nr) {
    sft_tensor *owner = NULL; /* retain_grad stays with the tensor */
    if (m->grad_fn && m->retain_grad) {
        owner = m->grad_fn->retained[m->out_nr];
        m->grad_fn->retained[m->out_nr] = NULL;
    }
    if (fn) sft_node_retain(fn);
    if (m->grad_fn) sft_node_release(m->grad_fn);
    m->grad_fn = fn;
    m->out_nr = out_nr;
    m->retain_grad = fn && owner;
    if (m->retain_grad) fn->retained[out_nr] = owner;
    if (fn) m->requires_grad = false;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

sft_node *sft_node_retain(sft_node *n) {
    atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

void sft_node_drop_saved(sft_node *n) {
    for (int i = 0; i < n->nparams; i++) {
        sft_value *v = &n->a[i];
        if (v->kind == SFT_V_TENSOR) {
            sft_release(v->u.t);
            v->u.t = NULL;
        } else if (v->kind == SFT_V_TENSORS) {
            for (int j = 0; j < v->n; j++) {
                sft_release(v->u.tensors[j]);
                ((sft_tensor **)v->u.tensors)[j] = NULL;
            }
        } else if (v->kind == SFT_V_GENERATOR) {
            sft_generator_release(v->u.generator);
            v->kind = SFT_V_NONE;
        }
    }
    for (int i = 0; i < n->nout; i++) {
        sft_release(n->outs[i]);
        n->outs[i] = NULL;
    }
    if (n->free_fn) { /* what a host's function saved */
        n->free_fn(n->user);
        n->free_fn = NULL;
        n->user = NULL;
        n->name = "a function whose graph is freed";
        n->saves = true;
    }
    n->freed = true;
}

static void node_free(sft_node *n) {
    sft_node_drop_saved(n);
    for (int i = 0; i < n->nedges; i++) {
        if (n->edges[i].fn) sft_node_release(n->edges[i].fn);
        sft_release(n->edges[i].leaf);
    }
    for (int i = 0; i < n->nout; i++) {
        sft_release(n->pending[i]);
        if (n->hooks) sft_hooks_free(&n->hooks[i]);
    }
    free(n->hooks);
    sft_free(n, n->bytes);
}

/* Long chains are freed by this loop, not by recursion. */
void sft_node_release(sft_node *n) {
    if (atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1) return;
    sft_tls *t = sft_thread();
    n->next = t->dead;
    t->dead = n;
    if (t->releasing) return;
    t->releasing = true;
    while (t->dead) {
        sft_node *d = t->dead;
        t->dead = d->next;
        node_free(d);
    }
    t->releasing = false;
}

/* Takes `bytes` from the node's block. */
static void *carve(char **p, size_t bytes) {
    void *r = *p;
    *p += (bytes + 15) & ~(size_t)15;
    return r;
}

/* A node with room for everything that `a` refers to. */
static sft_node *node_new(int op, const sft_value *a, int nparams, int nout) {
    size_t shapes = 0, lists = 0;
    int nedges = 0;
    for (int i = 0; i < nparams; i++) {
        if (a[i].kind == SFT_V_TENSOR) {
            nedges++;
            shapes += a[i].u.t->ndim;
        } else if (a[i].kind == SFT_V_TENSORS) {
            nedges += a[i].n;
            for (int j = 0; j < a[i].n; j++)
                if (a[i].u.tensors[j]) shapes += a[i].u.tensors[j]->ndim;
            lists += sizeof(void *) * (size_t)a[i].n + 16;
        } else if (a[i].kind == SFT_V_INTS || a[i].kind == SFT_V_FLOATS) {
            lists += 8 * (size_t)a[i].n + 16;
        } else if (a[i].kind == SFT_V_STR) {
            lists += strlen(a[i].u.s) + 17;
        }
    }
    size_t e = (size_t)nedges, o = (size_t)nout;
    size_t bytes = sizeof(sft_node) + (sizeof(sft_edge) + sizeof(sft_input)) * e +
                   sizeof(sft_value) * (size_t)nparams + 8 * shapes + lists +
                   3 * sizeof(void *) * o + 4 * o + 16 * 10;
    sft_node *n = sft_alloc(bytes);
    if (!n) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    memset(n, 0, sizeof *n);
    char *p = (char *)n + ((sizeof *n + 15) & ~(size_t)15);
    n->refs = 1;
    n->op = op;
    n->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
    n->bytes = bytes;
    n->index_base = sft_thread()->index_base;
    n->nparams = (uint8_t)nparams;
    n->nedges = nedges;
    n->nout = nout;
    n->edges = carve(&p, sizeof(sft_edge) * e);
    n->in = carve(&p, sizeof(sft_input) * e);
    n->a = carve(&p, sizeof(sft_value) * (size_t)nparams);
    n->outs = carve(&p, sizeof(void *) * o);
    n->pending = carve(&p, sizeof(void *) * o);
    n->retained = carve(&p, sizeof(void *) * o);
    n->out_versions = carve(&p, 4 * o);
    memset(n->edges, 0, sizeof(sft_edge) * e);
    memset(n->outs, 0, sizeof(void *) * o);
    memset(n->pending, 0, sizeof(void *) * o);
    memset(n->retained, 0, sizeof(void *) * o);
    int64_t *shape = carve(&p, 8 * shapes);
    int edge = 0;
    for (int i = 0; i < nparams; i++) {
        n->first_edge[i] = edge;
        n->a[i] = a[i];
        int count = a[i].kind == SFT_V_TENSOR ? 1 : a[i].kind == SFT_V_TENSORS ? a[i].n : 0;
        for (int j = 0; j < count; j++) {
            sft_tensor *t = a[i].kind == SFT_V_TENSOR ? a[i].u.t : a[i].u.tensors[j];
            sft_input *in = &n->in[edge++];
            *in = (sft_input){.shape = shape};
            if (!t) continue;
            in->ndim = t->ndim;
            in->dtype = t->dtype;
            in->device = t->device;
            memcpy(shape, t->shape, 8 * (size_t)t->ndim);
            shape += t->ndim;
        }
        if (a[i].kind == SFT_V_TENSOR) {
            n->a[i].u.t = NULL;
        } else if (a[i].kind == SFT_V_TENSORS) {
            sft_tensor **copy = carve(&p, sizeof(void *) * (size_t)a[i].n);
            memset(copy, 0, sizeof(void *) * (size_t)a[i].n);
            n->a[i].u.tensors = copy;
        } else if (a[i].kind == SFT_V_INTS || a[i].kind == SFT_V_FLOATS) {
            void *copy = carve(&p, 8 * (size_t)a[i].n);
            if (a[i].n) memcpy(copy, a[i].u.ints, 8 * (size_t)a[i].n);
            n->a[i].u.ints = copy;
        } else if (a[i].kind == SFT_V_STR) {
            size_t len = strlen(a[i].u.s) + 1;
            char *copy = carve(&p, len);
            memcpy(copy, a[i].u.s, len);
            n->a[i].u.s = copy;
        } else if (a[i].kind == SFT_V_GENERATOR) {
            sft_generator_retain(a[i].u.generator);
        }
    }
    return n;
}

static bool save_input(sft_node *n, int edge, sft_tensor **slot, sft_tensor *t) {
    if (!t) return true;
    *slot = sft_alias(t);
    if (!*slot) return false;
    n->in[edge].version = sft_version_of(t);
    n->saves = true;
    return true;
}

static bool fill_node(sft_node *n, const sft_value *a, uint32_t saves) {
    for (int i = 0; i < n->nparams; i++) {
        int edge = n->first_edge[i];
        bool save = i < 16 && (saves >> i & 1);
        if (a[i].kind == SFT_V_TENSOR) {
            n->edges[edge] = sft_tensor_edge(a[i].u.t);
            if (save && !save_input(n, edge, &n->a[i].u.t, a[i].u.t)) return false;
        } else if (a[i].kind == SFT_V_TENSORS) {
            for (int j = 0; j < a[i].n; j++) {
                sft_tensor *t = a[i].u.tensors[j];
                if (!t) continue;
                n->edges[edge + j] = sft_tensor_edge(t);
                if (save && !save_input(n, edge + j, (sft_tensor **)&n->a[i].u.tensors[j], t))
                    return false;
            }
        }
    }
    return true;
}

static sft_status attach_outputs(sft_node *n, sft_tensor **outs, int nout) {
    for (int i = 0; i < nout; i++) {
        if (!sft_is_float(outs[i]->dtype)) continue;
        sft_meta *m = sft_tensor_meta(outs[i]);
        if (!m) return SFT_ERR_MEMORY;
        set_history(m, n, i);
        if (outs[i]->base) outs[i]->view_gen = outs[i]->base->gen;
    }
    return SFT_OK;
}

static bool value_needs_grad(const sft_value *v) {
    return v->kind == SFT_V_TENSOR && v->u.t && sft_tensor_needs_grad(v->u.t);
}

uint32_t sft_saves(sft_op_id op, const sft_value *a) {
    uint32_t saves = sft_rows[op].saves;
    if (SFT_LIKELY(!(saves & CROSS))) return saves;
    if ((saves & CROSS0) && !value_needs_grad(&a[1])) saves &= ~(uint32_t)IN0;
    if ((saves & CROSS1) && !value_needs_grad(&a[0])) saves &= ~(uint32_t)IN1;
    return saves;
}

sft_status sft_record(sft_op_id op, const sft_value *a, sft_tensor **outs, int nout, bool inplace) {
    const sft_op_row *row = &sft_rows[op];
    sft_node *n = node_new((int)op, a, sft_op_get_info(op)->nparams, nout);
    if (!n) return SFT_ERR_MEMORY;
    bool ok = fill_node(n, a, sft_saves(op, a));
    sft_status st = ok ? SFT_OK : SFT_ERR_MEMORY;
    if (ok && inplace)
        st = sft_rebase(outs[0], n, 0);
    else if (ok)
        st = attach_outputs(n, outs, nout);
    for (int i = 0; i < nout && i < SFT_MAX_OUTPUTS && st == SFT_OK; i++) {
        if (!(row->saves & SFT_SAVE_OUT(i))) continue;
        n->outs[i] = sft_alias(outs[i]);
        if (!n->outs[i]) st = SFT_ERR_MEMORY;
        /* An in-place call counts as a write only after it is recorded. */
        n->out_versions[i] = sft_version_of(outs[i]) + inplace;
        n->saves = true;
    }
    sft_node_release(n);
    return st;
}

/* ---- history of views ----------------------------------------------------------------------- */

/* The last five values of as_strided and as_strided_scatter: the geometry of v, and of its base. */
static void view_geometry(const sft_tensor *v, sft_value *a) {
    const sft_tensor *base = v->base;
    a[0] = sft_v_ints(v->shape, v->ndim);
    a[1] = sft_v_ints(v->strides, v->ndim);
    a[2] = sft_v_int(sft_storage_offset(v));
    a[3] = sft_v_ints(base->strides, base->ndim);
    a[4] = sft_v_int(sft_storage_offset(base));
}

/* v's base got a new history: v becomes a fresh view of it. */
static sft_status refresh_view(sft_tensor *v) {
    sft_tensor *base = v->base;
    v->view_gen = base->gen;
    sft_value a[6] = {sft_v_tensor(base)};
    view_geometry(v, &a[1]);
    sft_node *n = node_new(SFT_OP_as_strided, a, 6, 1);
    if (!n) return SFT_ERR_MEMORY;
    sft_status st = fill_node(n, a, sft_rows[SFT_OP_as_strided].saves) ? SFT_OK : SFT_ERR_MEMORY;
    if (st == SFT_OK) st = attach_outputs(n, &v, 1);
    sft_node_release(n);
    return st;
}

sft_status sft_rebase(sft_tensor *x, sft_node *fn, int out_nr) {
    if (!sft_is_float(x->dtype)) return SFT_OK;
    sft_meta *m = sft_tensor_meta(x);
    if (!m) return SFT_ERR_MEMORY;
    if (!x->base) {
        set_history(m, fn, out_nr);
        x->gen++;
        return SFT_OK;
    }
    /* base := base with x's elements replaced; x := a view of that. */
    sft_tensor *base = x->base;
    sft_value a[7] = {sft_v_tensor(base), sft_v_tensor(x)};
    view_geometry(x, &a[2]);
    sft_node *n = node_new(SFT_OP_as_strided_scatter, a, 7, 1);
    if (!n) return SFT_ERR_MEMORY;
    n->edges[0] = sft_tensor_edge(base);
    n->edges[1] = (sft_edge){.fn = sft_node_retain(fn), .out_nr = out_nr};
    sft_meta *bm = sft_tensor_meta(base);
    sft_status st = bm ? SFT_OK : SFT_ERR_MEMORY;
    if (bm) {
        set_history(bm, n, 0);
        base->gen++;
    }
    sft_node_release(n);
    return st == SFT_OK ? refresh_view(x) : st;
}

static bool own_needs_grad(const sft_tensor *t) {
    return t->meta && (t->meta->requires_grad || t->meta->grad_fn);
}

bool sft_tensor_needs_grad(const sft_tensor *t) {
    if (SFT_UNLIKELY(t->base && t->view_gen != t->base->gen) && own_needs_grad(t->base) &&
        sft_is_float(t->dtype))
        refresh_view((sft_tensor *)t);
    return own_needs_grad(t);
}

sft_edge sft_tensor_edge(sft_tensor *t) {
    if (!sft_tensor_needs_grad(t)) return (sft_edge){0};
    if (t->meta->grad_fn)
        return (sft_edge){.fn = sft_node_retain(t->meta->grad_fn), .out_nr = t->meta->out_nr};
    return (sft_edge){.leaf = sft_retain(t)};
}

/* ---- running a rule ------------------------------------------------------------------------- */

bool sft_bw_needs_at(sft_bw *b, int param, int j) {
    const sft_edge *e = &b->node->edges[b->node->first_edge[param] + j];
    return e->fn || e->leaf;
}

bool sft_bw_needs(sft_bw *b, int param) {
    int kind = b->node->a[param].kind;
    int n = kind == SFT_V_TENSOR ? 1 : kind == SFT_V_TENSORS ? b->node->a[param].n : 0;
    for (int j = 0; j < n; j++)
        if (sft_bw_needs_at(b, param, j)) return true;
    return false;
}

void sft_bw_set_at(sft_bw *b, int param, int j, sft_tensor *grad) {
    b->gi[b->node->first_edge[param] + j] = grad;
}
void sft_bw_set(sft_bw *b, int param, sft_tensor *grad) { sft_bw_set_at(b, param, 0, grad); }

const int64_t *sft_bw_shape_at(sft_bw *b, int param, int j, int *ndim) {
    const sft_input *in = &b->node->in[b->node->first_edge[param] + j];
    *ndim = in->ndim;
    return in->shape;
}
const int64_t *sft_bw_shape(sft_bw *b, int param, int *ndim) {
    return sft_bw_shape_at(b, param, 0, ndim);
}
sft_dtype sft_bw_dtype(sft_bw *b, int param) {
    return (sft_dtype)b->node->in[b->node->first_edge[param]].dtype;
}

/* A saved tensor as the rule sees it; with create_graph it is part of the graph again. */
static sft_tensor *unpack(sft_bw *b, sft_tensor *saved, uint32_t version, const sft_edge *e) {
    sft_node *n = b->node;
    if (sft_version_of(saved) != version) {
        sft_fail(SFT_ERR_AUTOGRAD,
                 "backward: a tensor that %s needs for its gradient (%s %s) was modified by an "
                 "in-place operation: it is at version %u, expected version %u",
                 n->op >= 0 ? sft_op_get_info((sft_op_id)n->op)->name : n->name,
                 sft_dtype_name((sft_dtype)saved->dtype), SFT_SHAPE(saved), sft_version_of(saved),
                 version);
        return NULL;
    }
    if (!b->create_graph || (!e->fn && !e->leaf)) return saved;
    if (e->leaf) return e->leaf;
    sft_tensor *t = sft_alias(saved);
    sft_meta *m = t ? sft_tensor_meta(t) : NULL;
    if (m) set_history(m, e->fn, e->out_nr);
    return sft_temp(t);
}

sft_tensor *sft_bw_out(sft_bw *b, int i) {
    if (!b->node->outs[i]) return NULL;
    sft_edge e = {.fn = b->node, .out_nr = i};
    return unpack(b, b->node->outs[i], b->node->out_versions[i], &e);
}

/* Sums g over the dims that broadcasting added, down to `shape`. */
sft_tensor *sft_sum_to(sft_tensor *g, const int64_t *shape, int ndim) {
    if (!g) return NULL;
    if (g->ndim == ndim && memcmp(g->shape, shape, 8 * (size_t)ndim) == 0) return g;
    int64_t dims[SFT_MAX_DIMS];
    int n = 0, shift = g->ndim - ndim;
    if (shift < 0) goto mismatch;
    for (int d = 0; d < g->ndim; d++) {
        if (d < shift || (shape[d - shift] == 1 && g->shape[d] != 1))
            dims[n++] = d;
        else if (shape[d - shift] != g->shape[d])
            goto mismatch;
    }
    sft_tensor *s = n ? DO(sum, g, sft_v_ints(dims, n), true) : g;
    return DO(reshape, s, sft_v_ints(shape, ndim));
mismatch:
    sft_fail(SFT_ERR_AUTOGRAD, "backward: a gradient of shape %s does not fit an input of shape %s",
             SFT_SHAPE(g), sft_shape_text(shape, ndim, (char[160]){0}, 160));
    return NULL;
}

static sft_status run_rule(sft_node *n, sft_bw *b) {
    sft_value a[SFT_MAX_PARAMS];
    sft_tensor *lists[64]; /* entries of tensor lists; longer ones are never saved */
    int used = 0;
    for (int i = 0; i < n->nparams; i++) {
        a[i] = n->a[i];
        int e = n->first_edge[i];
        if (a[i].kind == SFT_V_TENSOR && a[i].u.t) {
            a[i].u.t = unpack(b, a[i].u.t, n->in[e].version, &n->edges[e]);
        } else if (a[i].kind == SFT_V_TENSORS && used + a[i].n <= 64) {
            sft_tensor **list = lists + used;
            for (int j = 0; j < a[i].n; j++) {
                sft_tensor *t = n->a[i].u.tensors[j];
                list[j] = t ? unpack(b, t, n->in[e + j].version, &n->edges[e + j]) : NULL;
            }
            a[i].u.tensors = list;
            used += a[i].n;
        }
    }
    if (sft_failed()) return sft_last_status();
    b->a = a;
    sft_rows[n->op].rule(b);
    return sft_last_status();
}

sft_status sft_node_apply(sft_node *n, sft_tensor **g, sft_tensor **gi, bool create_graph) {
    if (n->freed && n->saves)
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "backward: the graph was already used and its saved tensors are freed (at "
                        "%s); pass {retain_graph = true} to the first backward to use it twice",
                        n->op >= 0 ? sft_op_get_info((sft_op_id)n->op)->name : n->name);
    sft_tls *t = sft_thread();
    uint8_t base = t->index_base;
    t->index_base = n->index_base;
    sft_status st;
    if (n->op < 0 && !n->fn) {
        st = sft_fail(SFT_ERR_AUTOGRAD, "%s: memory ran out while it was recorded", n->name);
    } else if (n->op < 0) {
        st = n->fn(n->user, g, n->nout, gi, n->nedges);
        for (int i = 0; i < n->nedges; i++) gi[i] = sft_temp(gi[i]);
        if (st != SFT_OK && !sft_failed())
            sft_fail(st, "%s: its backward function failed", n->name);
    } else {
        sft_bw b = {.node = n, .create_graph = create_graph, .gi = gi, .gl = g};
        for (int i = 0; i < n->nout && i < SFT_MAX_OUTPUTS; i++) b.g[i] = g[i];
        st = run_rule(n, &b);
    }
    /* Broadcasting and promotion are undone here, for every rule. */
    for (int i = 0; i < n->nedges && st == SFT_OK; i++) {
        const sft_edge *e = &n->edges[i];
        if (!e->fn && !e->leaf) gi[i] = NULL;
        if (!gi[i]) continue;
        gi[i] = sft_sum_to(gi[i], n->in[i].shape, n->in[i].ndim);
        if (gi[i] && gi[i]->dtype != n->in[i].dtype)
            gi[i] = DO(to, gi[i], sft_v_none(), sft_v_dtype((sft_dtype)n->in[i].dtype));
        st = sft_last_status();
    }
    t->index_base = base;
    if (st != SFT_OK && n->op >= 0) {
        char where[64];
        snprintf(where, sizeof where, "backward of %s", sft_op_get_info((sft_op_id)n->op)->name);
        if (strncmp(t->message, "backward", 8) != 0) sft_error_prefix(where);
    }
    return st;
}

/* ---- public --------------------------------------------------------------------------------- */

bool sft_requires_grad(const sft_tensor *t) { return sft_tensor_needs_grad(t); }
bool sft_is_leaf(const sft_tensor *t) { return !sft_tensor_needs_grad(t) || !t->meta->grad_fn; }

sft_status sft_set_requires_grad(sft_tensor *t, bool on) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (!sft_is_leaf(t)) {
        if (on) return SFT_OK;
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "requires_grad can only be turned off for leaves; use x:detach()");
    }
    if (on && !sft_is_float(t->dtype))
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "requires_grad: only floating tensors can have gradients, this one is %s",
                        sft_dtype_name((sft_dtype)t->dtype));
    if (!on && !t->meta) return SFT_OK;
    sft_meta *m = sft_tensor_meta(t);
    if (!m) return SFT_ERR_MEMORY;
    m->requires_grad = on;
    return SFT_OK;
}

sft_tensor *sft_grad(sft_tensor *t) { return t->meta ? t->meta->grad : NULL; }

sft_status sft_set_grad(sft_tensor *t, sft_tensor *grad) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (!grad) {
        if (t->meta) {
            sft_release(t->meta->grad);
            t->meta->grad = NULL;
        }
        return SFT_OK;
    }
    if (grad == t) return sft_fail(SFT_ERR_AUTOGRAD, "grad: a tensor can't be its own gradient");
    if (grad->dtype != t->dtype || grad->ndim != t->ndim ||
        memcmp(grad->shape, t->shape, 8 * (size_t)t->ndim) != 0)
        return sft_fail(SFT_ERR_AUTOGRAD,
                        "grad: expected a %s tensor of shape %s, got %s of shape %s",
                        sft_dtype_name((sft_dtype)t->dtype), SFT_SHAPE(t),
                        sft_dtype_name((sft_dtype)grad->dtype), SFT_SHAPE(grad));
    if (grad->device.type != t->device.type || grad->device.index != t->device.index) {
        char a[16], b[16];
        return sft_fail(SFT_ERR_DEVICE, "grad: the tensor is on %s, the gradient on %s",
                        sft_device_name(t->device, a), sft_device_name(grad->device, b));
    }
    sft_meta *m = sft_tensor_meta(t);
    if (!m) return SFT_ERR_MEMORY;
    sft_retain(grad);
    sft_release(m->grad);
    m->grad = grad;
    return SFT_OK;
}

sft_status sft_retain_grad(sft_tensor *t) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    if (!sft_tensor_needs_grad(t))
        return sft_fail(SFT_ERR_AUTOGRAD, "retain_grad: the tensor does not require grad");
    if (t->meta->grad_fn) {
        t->meta->retain_grad = true;
        t->meta->grad_fn->retained[t->meta->out_nr] = t;
    }
    return SFT_OK;
}

const char *sft_grad_fn_name(const sft_tensor *t) {
    if (!sft_tensor_needs_grad(t) || !t->meta->grad_fn) return NULL;
    const sft_node *n = t->meta->grad_fn;
    return n->op >= 0 ? sft_op_get_info((sft_op_id)n->op)->name : n->name;
}

static sft_hooks *hooks_of(sft_tensor *t) {
    if (!t->meta->grad_fn) return &t->meta->hooks;
    sft_node *n = t->meta->grad_fn;
    if (!n->hooks) n->hooks = calloc((size_t)n->nout, sizeof *n->hooks);
    return n->hooks ? &n->hooks[t->meta->out_nr] : NULL;
}

sft_status sft_register_hook(sft_tensor *t, sft_hook_fn fn, void *user, void (*free_fn)(void *),
                             int64_t *id) {
    static _Atomic int64_t next_id = 1;
    sft_thread()->code = SFT_OK;
    if (!sft_tensor_needs_grad(t))
        return sft_fail(
            SFT_ERR_AUTOGRAD,
            "register_hook: the tensor does not require grad, so no gradient will come");
    sft_hooks *h = hooks_of(t);
    if (!h || !sft_grow((void **)&h->list, &h->cap, h->n + 1, sizeof *h->list))
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    int64_t number = next_id++;
    h->list[h->n++] = (sft_hook){fn, user, free_fn, number};
    if (id) *id = number;
    return SFT_OK;
}

sft_status sft_remove_hook(sft_tensor *t, int64_t id) {
    sft_thread()->code = SFT_OK;
    sft_hooks *lists[2] = {t->meta ? &t->meta->hooks : NULL, NULL};
    if (t->meta && t->meta->grad_fn && t->meta->grad_fn->hooks)
        lists[1] = &t->meta->grad_fn->hooks[t->meta->out_nr];
    for (int k = 0; k < 2; k++) {
        sft_hooks *h = lists[k];
        for (size_t i = 0; h && i < h->n; i++) {
            if (h->list[i].id != id) continue;
            sft_hook gone = h->list[i];
            memmove(h->list + i, h->list + i + 1, (h->n - i - 1) * sizeof *h->list);
            h->n--;
            if (gone.free_fn) gone.free_fn(gone.user);
            return SFT_OK;
        }
    }
    return SFT_OK; /* removing twice is fine */
}

sft_status sft_run_hooks(sft_hooks *hooks, sft_tensor **grad) {
    for (size_t i = 0, next; i < hooks->n; i = next) {
        sft_tensor *other = NULL;
        const int64_t id = hooks->list[i].id;
        sft_status st = hooks->list[i].fn(hooks->list[i].user, *grad, &other);
        next = i < hooks->n && hooks->list[i].id == id ? i + 1 : i; /* it may remove itself */
        if (st != SFT_OK) {
            sft_release(other);
            return sft_failed() ? sft_last_status() : sft_fail(st, "a gradient hook failed");
        }
        if (!other) continue;
        if (other->ndim != (*grad)->ndim ||
            memcmp(other->shape, (*grad)->shape, 8 * (size_t)other->ndim) != 0) {
            sft_fail(SFT_ERR_AUTOGRAD, "a gradient hook returned shape %s instead of %s",
                     SFT_SHAPE(other), SFT_SHAPE(*grad));
            sft_release(other);
            return SFT_ERR_AUTOGRAD;
        }
        if (other->dtype != (*grad)->dtype) {
            sft_fail(SFT_ERR_AUTOGRAD, "a gradient hook returned %s instead of %s",
                     sft_dtype_name((sft_dtype)other->dtype),
                     sft_dtype_name((sft_dtype)(*grad)->dtype));
            sft_release(other);
            return SFT_ERR_AUTOGRAD;
        }
        sft_release(*grad);
        *grad = other;
    }
    return SFT_OK;
}

sft_status sft_custom_function(const char *name, sft_tensor *const *inputs, int ninputs,
                               sft_tensor **outputs, int noutputs, sft_backward_fn backward,
                               void *user, void (*free_fn)(void *user)) {
    sft_thread()->code = SFT_OK;
    sft_value a = sft_v_tensors(inputs, ninputs);
    sft_node *n = node_new(-1, &a, 1, noutputs);
    if (!n) return SFT_ERR_MEMORY;
    n->name = name; /* static, or kept by `user` */
    sft_status st = fill_node(n, &a, 0) ? attach_outputs(n, outputs, noutputs) : SFT_ERR_MEMORY;
    if (st == SFT_OK) {
        n->fn = backward;
        n->user = user;
        n->free_fn = free_fn;
    }
    sft_node_release(n);
    return st;
}
