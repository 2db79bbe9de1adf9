/* engine.c: backward. Nodes wait in a heap, the latest first: a node is taken when everything that
 * depends on it has run, since that was recorded after it. No recursion over the graph. */
#include "core.h"
#include <stdlib.h>

typedef struct seen_node {
    uint64_t seq;
    sft_node *node; /* not a reference, and not looked at once hooks run */
    bool leads;     /* autograd.grad: to an input */
    bool asked;     /* autograd.grad: one of its outputs is an input */
} seen_node;

typedef struct task {
    sft_node **heap; /* references */
    size_t n, cap;
    sft_tensor **leaves; /* references: leaves that got something */
    size_t nleaves, capleaves;
    seen_node *seen; /* the graph */
    size_t nseen, capseen;
    bool retain_graph, create_graph;
    int ninputs;
    sft_edge *input_edges; /* autograd.grad: collect for these only */
    sft_tensor **results;
    uint64_t id;
} task;

/* ---- the heap ------------------------------------------------------------------------------- */

static sft_status push(task *t, sft_node *n) {
    if (n->queued) return SFT_OK;
    if (!sft_grow((void **)&t->heap, &t->cap, t->n + 1, sizeof *t->heap))
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    n->queued = true;
    sft_node_retain(n);
    size_t i = t->n++;
    while (i > 0 && t->heap[(i - 1) / 2]->seq < n->seq) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = n;
    return SFT_OK;
}

static sft_node *pop(task *t) {
    sft_node *top = t->heap[0], *last = t->heap[--t->n];
    size_t i = 0;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= t->n) break;
        if (c + 1 < t->n && t->heap[c + 1]->seq > t->heap[c]->seq) c++;
        if (t->heap[c]->seq <= last->seq) break;
        t->heap[i] = t->heap[c];
        i = c;
    }
    if (t->n) t->heap[i] = last;
    top->queued = false;
    return top;
}

/* ---- adding gradients up -------------------------------------------------------------------- */

/* *sum += g. A sum that nobody else sees is added to in place. */
static sft_status add_up(task *t, sft_tensor **sum, sft_tensor *g) {
    if (!*sum) {
        *sum = sft_retain(g);
        return SFT_OK;
    }
    sft_tensor *s = *sum;
    bool own = !t->create_graph && s->refs == 1 && s->storage->refs == 1 && s->contiguous &&
               !s->base && s->storage->kind != SFT_STORAGE_FOREIGN;
    if (own) return DO_(add, s, g) ? SFT_OK : sft_last_status();
    sft_tensor *r = DO(add, s, g);
    if (!r) return sft_last_status();
    sft_release(s);
    *sum = sft_retain(r);
    return SFT_OK;
}

/* The gradient of a leaf is complete for this backward: hooks, then into .grad. */
static sft_status accumulate(task *t, sft_tensor *leaf) {
    sft_meta *m = leaf->meta;
    sft_tensor *g = m->pending;
    m->pending = NULL;
    if (!g) return SFT_OK;
    sft_status st = SFT_OK;
    if (m->hooks.n) st = sft_run_hooks(&m->hooks, &g);
    if (st == SFT_OK && !m->grad) {
        /* A temporary of the running scope holds one more reference of a gradient just made. */
        bool own = g->storage->refs == 1 && g->contiguous && !g->base && !t->create_graph &&
                   g->storage->kind != SFT_STORAGE_FOREIGN && g->refs <= 2 && !g->wrapped;
        sft_tensor *kept = own || t->create_graph ? g : DO(clone, g);
        if (kept) {
            m->grad = sft_retain(kept);
        } else {
            st = sft_last_status();
        }
    } else if (st == SFT_OK && t->create_graph) {
        sft_tensor *sum = DO(add, m->grad, g);
        if (sum) {
            sft_release(m->grad);
            m->grad = sft_retain(sum);
        } else {
            st = sft_last_status();
        }
    } else if (st == SFT_OK) {
        st = DO_(add, m->grad, g) ? SFT_OK : sft_last_status();
    }
    sft_release(g);
    return st;
}

static sft_status queue_leaf(task *t, sft_tensor *leaf) {
    if (leaf->meta->queued) return SFT_OK;
    if (!sft_grow((void **)&t->leaves, &t->capleaves, t->nleaves + 1, sizeof *t->leaves))
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    leaf->meta->queued = true;
    t->leaves[t->nleaves++] = sft_retain(leaf);
    return SFT_OK;
}

/* Is this edge one whose gradient autograd.grad was asked for? */
static int wanted(const task *t, const sft_edge *e) {
    for (int i = 0; i < t->ninputs; i++) {
        const sft_edge *w = &t->input_edges[i];
        if (w->fn == e->fn && w->leaf == e->leaf && w->out_nr == e->out_nr) return i;
    }
    return -1;
}

/* ---- the graph before the run --------------------------------------------------------------- */

static sft_status see(task *t, sft_node *n) {
    if (!n || n->visit == t->id) return SFT_OK;
    if (!sft_grow((void **)&t->seen, &t->capseen, t->nseen + 1, sizeof *t->seen))
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    n->visit = t->id;
    t->seen[t->nseen++] = (seen_node){.seq = n->seq, .node = n};
    return SFT_OK;
}

/* Lists root and the nodes that it leads to. backward: counts for each leaf the edges that lead to
 * it, so that its gradient is known to be complete (and its hooks run) as early as possible. */
static sft_status walk(task *t, sft_node *root) {
    size_t at = t->nseen;
    SFT_TRY(see(t, root));
    for (; at < t->nseen; at++) {
        const sft_node *n = t->seen[at].node;
        for (int i = 0; i < n->nedges; i++) {
            SFT_TRY(see(t, n->edges[i].fn));
            sft_tensor *leaf = n->edges[i].leaf;
            if (!leaf || t->results) continue;
            SFT_TRY(queue_leaf(t, leaf));
            leaf->meta->expected++;
        }
    }
    return SFT_OK;
}

static int by_seq(const void *a, const void *b) {
    uint64_t x = ((const seen_node *)a)->seq, y = ((const seen_node *)b)->seq;
    return x < y ? -1 : x > y;
}

static seen_node *seen_find(const task *t, const sft_node *n) {
    seen_node key = {.seq = n->seq};
    return t->nseen ? bsearch(&key, t->seen, t->nseen, sizeof key, by_seq) : NULL;
}

/* autograd.grad: which nodes does a gradient have to pass to get to the inputs? What they are made
 * from is older, so that its answer is there first. The rest of the graph isn't run, and keeps what
 * it saved. */
static void choose(task *t) {
    if (t->nseen) qsort(t->seen, t->nseen, sizeof *t->seen, by_seq);
    for (size_t at = 0; at < t->nseen; at++) {
        seen_node *s = &t->seen[at];
        for (int i = 0; i < s->node->nedges && !s->leads; i++) {
            const sft_edge *e = &s->node->edges[i];
            if (!e->fn && !e->leaf) continue;
            const seen_node *from = e->fn ? seen_find(t, e->fn) : NULL;
            s->leads = wanted(t, e) >= 0 || (from && (from->leads || from->asked));
        }
        for (int i = 0; i < t->ninputs; i++) s->asked |= t->input_edges[i].fn == s->node;
    }
}

static sft_status send(task *t, const sft_edge *e, sft_tensor *g) {
    if (e->fn) {
        const seen_node *s = t->results ? seen_find(t, e->fn) : NULL;
        if (t->results && !(s && (s->leads || s->asked))) return SFT_OK;
        SFT_TRY(add_up(t, &e->fn->pending[e->out_nr], g));
        return push(t, e->fn);
    }
    if (!e->leaf) return SFT_OK;
    if (t->results) {
        int k = wanted(t, e);
        return k < 0 ? SFT_OK : add_up(t, &t->results[k], g);
    }
    SFT_TRY(queue_leaf(t, e->leaf));
    return add_up(t, &e->leaf->meta->pending, g);
}

/* ---- one node ------------------------------------------------------------------------------- */

/* Hooks and retained gradients of a node's outputs, and those asked for by autograd.grad. */
static sft_status before_apply(task *t, sft_node *n) {
    for (int i = 0; i < n->nout; i++) {
        if (!n->pending[i]) continue;
        if (n->hooks && n->hooks[i].n) SFT_TRY(sft_run_hooks(&n->hooks[i], &n->pending[i]));
        sft_tensor *owner = n->retained[i];
        if (owner && !t->results) {
            SFT_TRY(queue_leaf(t, owner));
            sft_tensor *g =
                owner->meta->grad ? DO(add, owner->meta->grad, n->pending[i]) : n->pending[i];
            if (!g) return sft_last_status();
            sft_retain(g);
            sft_release(owner->meta->grad);
            owner->meta->grad = g;
        }
        if (t->results) {
            sft_edge e = {.fn = n, .out_nr = i};
            int k = wanted(t, &e);
            for (int j = k < 0 ? t->ninputs : k; j < t->ninputs; j++)
                if (t->input_edges[j].fn == n && t->input_edges[j].out_nr == i && !t->results[j])
                    t->results[j] = sft_retain(n->pending[i]);
        }
    }
    return SFT_OK;
}

static sft_status run_node(task *t, sft_node *n) {
    sft_tensor *few[16] = {0}, **gi = few;
    size_t bytes = sizeof(sft_tensor *) * (size_t)(n->nedges ? n->nedges : 1);
    if (n->nedges > 16 && !(gi = sft_alloc_zero(bytes)))
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    size_t mark = sft_scope_open();
    sft_status st = before_apply(t, n);
    bool apply = true;
    if (t->results) apply = seen_find(t, n)->leads;
    if (st == SFT_OK && apply) st = sft_node_apply(n, n->pending, gi, t->create_graph);
    for (int i = 0; i < n->nedges && st == SFT_OK; i++) {
        if (gi[i]) st = send(t, &n->edges[i], gi[i]);
        sft_tensor *leaf = n->edges[i].leaf;
        if (leaf && !t->results && --leaf->meta->expected == 0 && st == SFT_OK)
            st = accumulate(t, leaf);
    }
    for (int i = 0; i < n->nout; i++) {
        sft_release(n->pending[i]);
        n->pending[i] = NULL;
    }
    if (!t->retain_graph && apply) sft_node_drop_saved(n);
    sft_scope_close(mark);
    if (gi != few) sft_free(gi, bytes);
    return st;
}

static sft_status run(task *t) {
    sft_status st = SFT_OK;
    while (t->n > 0 && st == SFT_OK) {
        sft_node *n = pop(t);
        st = run_node(t, n);
        sft_node_release(n);
        if (st == SFT_OK && sft_interrupted()) {
            sft_interrupt_clear();
            st = sft_fail(SFT_ERR_INTERRUPTED, "interrupted!");
        }
    }
    return st;
}

/* Everything back as it was, whether it went well or not. */
static void finish(task *t) {
    for (size_t i = 0; i < t->n; i++) {
        sft_node *n = t->heap[i];
        n->queued = false;
        for (int j = 0; j < n->nout; j++) {
            sft_release(n->pending[j]);
            n->pending[j] = NULL;
        }
        sft_node_release(n);
    }
    for (size_t i = 0; i < t->nleaves; i++) {
        sft_meta *m = t->leaves[i]->meta;
        m->queued = false;
        m->expected = 0;
        sft_release(m->pending);
        m->pending = NULL;
        sft_release(t->leaves[i]);
    }
    free(t->heap);
    free(t->leaves);
    free(t->seen);
}

/* ---- roots ---------------------------------------------------------------------------------- */

static sft_status seed(task *t, sft_tensor *x, sft_tensor *g, const char *what) {
    if (!sft_tensor_needs_grad(x))
        return sft_fail(
            SFT_ERR_AUTOGRAD,
            "%s: the tensor does not require grad and has no history; was it made inside "
            "sft.no_grad(), or detached?",
            what);
    if (!g) {
        if (x->numel != 1)
            return sft_fail(SFT_ERR_AUTOGRAD,
                            "%s: a gradient can be created implicitly for one element only, this "
                            "tensor has shape %s; pass one, or reduce it first (x:sum())",
                            what, SFT_SHAPE(x));
        g = DO(ones_like, x);
        if (!g) return sft_last_status();
    } else if (g->ndim != x->ndim || memcmp(g->shape, x->shape, 8 * (size_t)x->ndim) != 0) {
        return sft_fail(SFT_ERR_AUTOGRAD, "%s: the gradient has shape %s, the tensor %s", what,
                        SFT_SHAPE(g), SFT_SHAPE(x));
    } else if (!x->meta->grad_fn) {
        g = DO(clone, g); /* a leaf would keep the caller's tensor as its .grad */
        if (!g) return sft_last_status();
    }
    if (g->dtype != x->dtype) g = DO(to, g, sft_v_none(), sft_v_dtype((sft_dtype)x->dtype));
    sft_edge e = sft_tensor_edge(x);
    sft_status st = g ? send(t, &e, g) : sft_last_status();
    if (e.fn) sft_node_release(e.fn);
    sft_release(e.leaf);
    return st;
}

static sft_status run_task(task *t, sft_tensor *const *tensors, sft_tensor *const *grads, int n,
                           const char *what) {
    static _Atomic uint64_t ids = 1;
    sft_tls *tls = sft_thread();
    if (tls->inside_rule) return sft_fail(SFT_ERR_AUTOGRAD, "%s: called from inside an op", what);
    sft_context ctx = *tls->ctx, *outer = tls->ctx;
    ctx.no_grad = !t->create_graph;
    t->id = ids++;
    size_t mark = sft_scope_open();
    tls->depth++;
    tls->ctx = &ctx;
    sft_status st = SFT_OK;
    for (int i = 0; i < n && st == SFT_OK; i++)
        if (sft_tensor_needs_grad(tensors[i]) && tensors[i]->meta->grad_fn)
            st = walk(t, tensors[i]->meta->grad_fn);
    if (t->results && st == SFT_OK) choose(t);
    for (int i = 0; i < n && st == SFT_OK; i++)
        st = seed(t, tensors[i], grads ? grads[i] : NULL, what);
    if (st == SFT_OK) st = run(t);
    /* Leaves that not every edge gave a gradient to. */
    for (size_t i = 0; i < t->nleaves && st == SFT_OK && !t->results; i++)
        if (t->leaves[i]->meta->pending) st = accumulate(t, t->leaves[i]);
    /* An input that is named twice gets its gradient twice. */
    for (int i = 0; i < t->ninputs && st == SFT_OK; i++)
        if (t->input_edges[i].leaf && !t->results[i])
            t->results[i] = sft_retain(t->results[wanted(t, &t->input_edges[i])]);
    finish(t);
    tls->ctx = outer;
    tls->depth--;
    sft_scope_close(mark);
    return st;
}

sft_status sft_backward(sft_tensor *const *tensors, sft_tensor *const *grads, int n,
                        bool retain_graph, bool create_graph) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    task t = {.retain_graph = retain_graph || create_graph, .create_graph = create_graph};
    return run_task(&t, tensors, grads, n, "backward");
}

sft_status sft_autograd_grad(sft_tensor *const *outputs, sft_tensor *const *grads, int noutputs,
                             sft_tensor *const *inputs, int ninputs, bool retain_graph,
                             bool create_graph, bool allow_unused, sft_tensor **results) {
    sft_tls *tls = sft_thread();
    if (tls->depth == 0) tls->code = SFT_OK;
    sft_edge *edges = calloc((size_t)(ninputs ? ninputs : 1), sizeof *edges);
    if (!edges) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_status st = SFT_OK;
    for (int i = 0; i < ninputs; i++) {
        results[i] = NULL;
        if (sft_tensor_needs_grad(inputs[i]))
            edges[i] = sft_tensor_edge(inputs[i]);
        else
            st = sft_fail(SFT_ERR_AUTOGRAD, "grad: input %d of %d does not require grad", i + 1,
                          ninputs);
    }
    if (st == SFT_OK) {
        task t = {.retain_graph = retain_graph || create_graph,
                  .create_graph = create_graph,
                  .ninputs = ninputs,
                  .input_edges = edges,
                  .results = results};
        st = run_task(&t, outputs, grads, noutputs, "grad");
    }
    for (int i = 0; i < ninputs; i++) {
        if (st == SFT_OK && !results[i] && !allow_unused)
            st = sft_fail(SFT_ERR_AUTOGRAD,
                          "grad: input %d of %d is not used in the graph of the outputs; pass "
                          "{allow_unused = true} to get nil for it",
                          i + 1, ninputs);
        if (edges[i].fn) sft_node_release(edges[i].fn);
        sft_release(edges[i].leaf);
    }
    if (st != SFT_OK)
        for (int i = 0; i < ninputs; i++) {
            sft_release(results[i]);
            results[i] = NULL;
        }
    free(edges);
    return st;
}
