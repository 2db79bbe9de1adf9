/* einsum.c: the Einstein summation convention, brought down to permute, mul, bmm and sum. Operands
 * are contracted from left to right; each pair becomes one bmm over (shared kept, free, summed)
 * labels. */
#include "elementwise.h"
#include <ctype.h>

enum { MAX_OPS = 16, LABELS = 52 + SFT_MAX_DIMS }; /* letters, then dims of "..." from the left */

typedef struct term {
    int label[SFT_MAX_DIMS];
    int n;
} term;

typedef struct plan {
    term in[MAX_OPS], out;
    int nops;
    int ellipsis;           /* most dims that "..." stands for */
    int64_t size[LABELS];   /* 0: unused label, else size + 1 */
} plan;

static int letter(int ch) {
    if (ch >= 'A' && ch <= 'Z') return ch - 'A';
    if (ch >= 'a' && ch <= 'z') return ch - 'a' + 26;
    return -1;
}

static sft_status bad(const char *eq, const char *what) {
    return sft_fail(SFT_ERR_ARGUMENT, "einsum: %s in \"%.80s\"", what, eq);
}

/* Reads one term up to ',' , '-' or the end. ndim < 0: the output. */
static sft_status read_term(const char *eq, const char **s, int ndim, int ellipsis_dims, term *t) {
    bool dots = false;
    int letters = 0;
    for (const char *p = *s; *p && *p != ',' && *p != '-'; p++) letters += letter(*p) >= 0;
    t->n = 0;
    for (; **s && **s != ',' && **s != '-'; ++*s) {
        if (isspace((unsigned char)**s)) continue;
        if (**s == '.') {
            if ((*s)[1] != '.' || (*s)[2] != '.') return bad(eq, "a '.' that is not part of '...'");
            if (dots) return bad(eq, "two '...' in one operand");
            dots = true;
            *s += 2;
            int n = ndim < 0 ? ellipsis_dims : ndim - letters;
            if (n < 0) return bad(eq, "more labels than the operand has dims");
            if (t->n + n > SFT_MAX_DIMS) return bad(eq, "too many dims");
            for (int i = 0; i < n; i++) t->label[t->n++] = 52 + SFT_MAX_DIMS - n + i;
        } else {
            int l = letter(**s);
            if (l < 0) return bad(eq, "a character that is no letter, ',', '->' or '...'");
            if (t->n == SFT_MAX_DIMS) return bad(eq, "too many labels");
            t->label[t->n++] = l;
        }
    }
    if (ndim >= 0 && t->n != ndim)
        return sft_fail(SFT_ERR_ARGUMENT, "einsum: %d labels for an operand of %d dims in \"%.80s\"",
                        t->n, ndim, eq);
    return SFT_OK;
}

static bool has(const term *t, int label) {
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == label) return true;
    return false;
}

/* Without "->": "..." first, then the labels that occur once, in alphabetical order (upper case
 * first). */
static void implicit_output(plan *p) {
    int count[LABELS] = {0};
    for (int i = 0; i < p->nops; i++)
        for (int j = 0; j < p->in[i].n; j++) count[p->in[i].label[j]]++;
    p->out.n = 0;
    for (int i = SFT_MAX_DIMS - p->ellipsis; i < SFT_MAX_DIMS; i++) p->out.label[p->out.n++] = 52 + i;
    for (int l = 0; l < 52 && p->out.n < SFT_MAX_DIMS; l++)
        if (count[l] == 1) p->out.label[p->out.n++] = l;
}

static sft_status read_plan(plan *p, const char *eq, sft_tensor *const *ops, int nops) {
    const char *s = eq;
    p->nops = nops;
    for (int i = 0; i < nops; i++) {
        SFT_TRY(read_term(eq, &s, ops[i]->ndim, 0, &p->in[i]));
        if (i + 1 < nops && *s != ',')
            return sft_fail(SFT_ERR_ARGUMENT, "einsum: \"%.80s\" names %d operands, got %d", eq, i + 1,
                            nops);
        if (i + 1 < nops) s++;
        int dots = 0;
        for (int j = 0; j < p->in[i].n; j++) {
            int l = p->in[i].label[j];
            dots += l >= 52;
            int64_t size = ops[i]->shape[j];
            if (p->size[l] && p->size[l] - 1 != size && size != 1 && p->size[l] != 2)
                return sft_fail(SFT_ERR_ARGUMENT,
                                "einsum: one label has sizes %lld and %lld in \"%.80s\"",
                                (long long)p->size[l] - 1, (long long)size, eq);
            if (!p->size[l] || p->size[l] == 2) p->size[l] = size + 1;
        }
        if (dots > p->ellipsis) p->ellipsis = dots;
    }
    if (*s == ',')
        return sft_fail(SFT_ERR_ARGUMENT, "einsum: \"%.80s\" names more operands than the %d given", eq,
                        nops);
    if (!*s) {
        implicit_output(p);
        return SFT_OK;
    }
    if (s[0] != '-' || s[1] != '>') return bad(eq, "'-' without '>'");
    s += 2;
    SFT_TRY(read_term(eq, &s, -1, p->ellipsis, &p->out));
    if (*s) return bad(eq, "text after the output");
    for (int i = 0; i < p->out.n; i++) {
        if (!p->size[p->out.label[i]]) return bad(eq, "an output label that no operand has");
        for (int j = 0; j < i; j++)
            if (p->out.label[i] == p->out.label[j]) return bad(eq, "an output label given twice");
    }
    return SFT_OK;
}

/* A label twice in one operand: its diagonal. */
static sft_tensor *take_diagonals(sft_tensor *x, term *t) {
    for (int i = 0; x && i < t->n; i++)
        for (int j = i + 1; j < t->n; j++) {
            if (t->label[i] != t->label[j]) continue;
            if (x->shape[i] != x->shape[j]) {
                sft_fail(SFT_ERR_ARGUMENT, "einsum: a label repeated in one operand has sizes %lld and %lld",
                         (long long)x->shape[i], (long long)x->shape[j]);
                return NULL;
            }
            int64_t shape[SFT_MAX_DIMS], stride[SFT_MAX_DIMS];
            int n = 0;
            for (int d = 0; d < t->n; d++) {
                if (d == j) continue;
                shape[n] = x->shape[d];
                stride[n++] = x->strides[d] + (d == i ? x->strides[j] : 0);
            }
            x = DO(as_strided, x, sft_v_ints(shape, n), sft_v_ints(stride, n), sft_storage_offset(x));
            memmove(&t->label[j], &t->label[j + 1], sizeof(int) * (size_t)(t->n - j - 1));
            t->n--;
            j--;
        }
    return x;
}

/* Sums out the dims whose label `keep` rejects. */
static sft_tensor *sum_out(sft_tensor *x, term *t, const bool *keep) {
    int64_t dims[SFT_MAX_DIMS];
    int n = 0, m = 0;
    for (int i = 0; i < t->n; i++) {
        if (keep[t->label[i]])
            t->label[m++] = t->label[i];
        else
            dims[n++] = i;
    }
    t->n = m;
    return n ? DO(sum, x, sft_v_ints(dims, n)) : x;
}

/* x with dims in the order of labels[], missing ones of size 1, reshaped to three dims. */
static sft_tensor *arrange(sft_tensor *x, const term *t, const int *order, int n) {
    int64_t perm[SFT_MAX_DIMS], shape[SFT_MAX_DIMS];
    int m = 0;
    for (int i = 0; i < n; i++) {
        shape[i] = 1;
        for (int j = 0; j < t->n; j++)
            if (t->label[j] == order[i]) {
                perm[m++] = j;
                shape[i] = x->shape[j];
            }
    }
    return DO(reshape, DO(permute, x, sft_v_ints(perm, m)), sft_v_ints(shape, n));
}

static int64_t product(const int64_t *s, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= s[i];
    return p;
}

/* One product of two operands; result's labels in *ta. */
static sft_tensor *contract(sft_tensor *a, term *ta, sft_tensor *b, term *tb, const bool *keep) {
    int batch[SFT_MAX_DIMS], fa[SFT_MAX_DIMS], fb[SFT_MAX_DIMS], sum[SFT_MAX_DIMS];
    int nb = 0, na = 0, nf = 0, ns = 0;
    bool alone[LABELS];
    memcpy(alone, keep, sizeof alone);
    for (int i = 0; i < tb->n; i++) alone[tb->label[i]] = true;
    a = sum_out(a, ta, alone);
    memcpy(alone, keep, sizeof alone);
    for (int i = 0; i < ta->n; i++) alone[ta->label[i]] = true;
    b = sum_out(b, tb, alone);
    if (!a || !b) return NULL;
    for (int i = 0; i < ta->n; i++) {
        int l = ta->label[i];
        if (!has(tb, l))
            fa[na++] = l;
        else if (keep[l])
            batch[nb++] = l;
        else
            sum[ns++] = l;
    }
    for (int i = 0; i < tb->n; i++)
        if (!has(ta, tb->label[i])) fb[nf++] = tb->label[i];
    int order[3 * SFT_MAX_DIMS];
    int64_t full[3 * SFT_MAX_DIMS];
    if (nb + na + ns > SFT_MAX_DIMS || nb + nf + ns > SFT_MAX_DIMS || nb + na + nf > SFT_MAX_DIMS) {
        sft_fail(SFT_ERR_ARGUMENT, "einsum: more than %d dims in one step", SFT_MAX_DIMS);
        return NULL;
    }
    /* a: [batch, free a, summed], b: [batch, summed, free b]; broadcast sizes of 1 are expanded. */
    int64_t size[LABELS];
    for (int i = 0; i < ta->n; i++) size[ta->label[i]] = a->shape[i];
    for (int i = 0; i < tb->n; i++) {
        int l = tb->label[i];
        size[l] = has(ta, l) && b->shape[i] == 1 ? size[l] : b->shape[i];
    }
    int n = 0;
    for (int i = 0; i < nb; i++) order[n++] = batch[i];
    for (int i = 0; i < na; i++) order[n++] = fa[i];
    for (int i = 0; i < ns; i++) order[n++] = sum[i];
    for (int i = 0; i < n; i++) full[i] = size[order[i]];
    const int64_t sa[3] = {product(full, nb), product(full + nb, na), product(full + nb + na, ns)};
    sft_tensor *a3 = DO(reshape, DO(expand, arrange(a, ta, order, n), sft_v_ints(full, n)),
                        sft_v_ints(sa, 3));
    n = nb;
    for (int i = 0; i < ns; i++) order[n++] = sum[i];
    for (int i = 0; i < nf; i++) order[n++] = fb[i];
    for (int i = 0; i < n; i++) full[i] = size[order[i]];
    const int64_t sb[3] = {sa[0], sa[2], product(full + nb + ns, nf)};
    sft_tensor *b3 = DO(reshape, DO(expand, arrange(b, tb, order, n), sft_v_ints(full, n)),
                        sft_v_ints(sb, 3));
    n = nb;
    for (int i = 0; i < na; i++) order[n++] = fa[i];
    for (int i = 0; i < nf; i++) order[n++] = fb[i];
    ta->n = n;
    for (int i = 0; i < n; i++) {
        ta->label[i] = order[i];
        full[i] = size[order[i]];
    }
    return DO(reshape, DO(bmm, a3, b3), sft_v_ints(full, n));
}

IMPL(einsum) {
    const char *eq = c->a[0].u.s;
    int nops = c->a[1].n;
    if (nops < 1 || nops > MAX_OPS)
        return sft_fail(SFT_ERR_ARGUMENT, "einsum: takes 1 to %d operands, got %d", MAX_OPS, nops);
    plan p;
    memset(&p, 0, sizeof p);
    for (int i = 0; i < nops; i++)
        if (!c->a[1].u.tensors[i]) return sft_fail(SFT_ERR_ARGUMENT, "einsum: operand %d is nil", i + 1);
    SFT_TRY(read_plan(&p, eq, c->a[1].u.tensors, nops));
    sft_tensor *x[MAX_OPS];
    for (int i = 0; i < nops; i++) {
        x[i] = take_diagonals(c->a[1].u.tensors[i], &p.in[i]);
        if (!x[i]) return sft_last_status();
        if (x[i]->dtype != x[0]->dtype)
            return sft_fail(SFT_ERR_ARGUMENT, "einsum: operands must have one dtype, got %s and %s",
                            sft_dtype_name((sft_dtype)x[0]->dtype),
                            sft_dtype_name((sft_dtype)x[i]->dtype));
    }
    for (int i = 1; i < nops; i++) {
        bool keep[LABELS] = {false};
        for (int j = 0; j < p.out.n; j++) keep[p.out.label[j]] = true;
        for (int k = i + 1; k < nops; k++)
            for (int j = 0; j < p.in[k].n; j++) keep[p.in[k].label[j]] = true;
        x[0] = contract(x[0], &p.in[0], x[i], &p.in[i], keep);
        if (!x[0]) return sft_last_status();
    }
    bool keep[LABELS] = {false};
    for (int j = 0; j < p.out.n; j++) keep[p.out.label[j]] = true;
    x[0] = sum_out(x[0], &p.in[0], keep);
    return sft_ret(c, x[0] ? arrange(x[0], &p.in[0], p.out.label, p.out.n) : NULL);
}
