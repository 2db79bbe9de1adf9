/* print.c: a tensor as text, as PyTorch prints it: 4 digits, scientific where the range asks for
 * it, summarised beyond 1000 elements with 3 at each edge. */
#include "core.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 80, EDGE = 3, THRESHOLD = 1000, PRECISION = 4, INDENT = 7 /* "tensor(" */ };

typedef struct text {
    char *p;
    size_t n, cap;
    bool failed;
} text;

static void put(text *t, const char *s, size_t n) {
    if (t->failed || !sft_grow((void **)&t->p, &t->cap, t->n + n + 1, 1)) {
        t->failed = true;
        return;
    }
    memcpy(t->p + t->n, s, n);
    t->n += n;
    t->p[t->n] = '\0';
}

static void puts_(text *t, const char *s) { put(t, s, strlen(s)); }

static void spaces(text *t, int n) {
    while (n-- > 0) put(t, " ", 1);
}

/* ---- how elements are written
 * ---------------------------------------------------------------------- */

typedef struct format {
    bool floating, int_mode, sci;
    int width;
    double min, max; /* of the finite elements that are not 0, absolute */
    bool any;
} format;

typedef struct printer {
    text *out;
    sft_tensor *x;
    bool summarise;
    format f;
    int64_t at[SFT_MAX_DIMS];
    bool failed;
} printer;

static double number(const sft_value *v) {
    return v->kind == SFT_V_FLOAT ? v->u.f : v->kind == SFT_V_INT ? (double)v->u.i : v->u.b;
}

/* Without padding. */
static int element(const format *f, const sft_value *v, char buf[400]) {
    if (v->kind == SFT_V_BOOL) return sprintf(buf, "%s", v->u.b ? "True" : "False");
    if (v->kind == SFT_V_INT) return sprintf(buf, "%lld", (long long)v->u.i);
    double d = v->u.f;
    if (isnan(d)) return sprintf(buf, "nan");
    if (isinf(d)) return sprintf(buf, d < 0 ? "-inf" : "inf");
    if (f->sci) return sprintf(buf, "%.*e", PRECISION, d);
    if (f->int_mode) return sprintf(buf, "%.0f.", d);
    return sprintf(buf, "%.*f", PRECISION, d);
}

static void padded(printer *p, const sft_value *v) {
    char buf[400];
    int n = element(&p->f, v, buf);
    spaces(p->out, p->f.width - n);
    put(p->out, buf, (size_t)n);
}

/* ---- a walk over what is shown
 * ------------------------------------------------------------------------ */

/* First pass: range and width. PyTorch takes the width over finite elements other than 0. */
static void measure(printer *p, const sft_value *v) {
    format *f = &p->f;
    char buf[400];
    if (!f->floating) {
        int n = element(f, v, buf);
        if (n > f->width) f->width = n;
        return;
    }
    double d = fabs(number(v));
    if (!isfinite(d) || d == 0) return;
    if (!f->any || d < f->min) f->min = d;
    if (!f->any || d > f->max) f->max = d;
    f->any = true;
    if (d != ceil(d)) f->int_mode = false;
}

static void measure_width(printer *p, const sft_value *v) {
    char buf[400];
    double d = number(v);
    if (!isfinite(d) || d == 0) return;
    int n = element(&p->f, v, buf);
    if (n > p->f.width) p->f.width = n;
}

static void visit(printer *p, int dim, void (*fn)(printer *, const sft_value *)) {
    if (p->failed) return;
    if (dim == p->x->ndim) {
        sft_value v;
        if (sft_get(p->x, p->at, &v) != SFT_OK) {
            p->failed = true;
            return;
        }
        fn(p, &v);
        return;
    }
    int64_t n = p->x->shape[dim];
    for (int64_t i = 0; i < n && !p->failed; i++) {
        if (p->summarise && n > 2 * EDGE && i == EDGE) i = n - EDGE;
        p->at[dim] = i;
        visit(p, dim + 1, fn);
    }
}

static void choose_format(printer *p) {
    format *f = &p->f;
    f->floating = sft_is_float(p->x->dtype);
    f->int_mode = true;
    f->width = 1;
    visit(p, 0, measure);
    if (!f->floating || !f->any) return;
    f->sci = f->max / f->min > 1000.0 || f->max > 1e8 || (!f->int_mode && f->min < 1e-4);
    visit(p, 0, measure_width);
}

static void vector(printer *p, int indent) {
    int dim = p->x->ndim - 1, column = 0, per_line = (LINE - indent) / (p->f.width + 2);
    if (per_line < 1) per_line = 1;
    int64_t n = p->x->shape[dim];
    put(p->out, "[", 1);
    for (int64_t i = 0; i < n && !p->failed; i++, column++) {
        if (column == per_line) {
            put(p->out, ",\n", 2);
            spaces(p->out, indent + 1);
            column = 0;
        } else if (i > 0) {
            put(p->out, ", ", 2);
        }
        if (p->summarise && n > 2 * EDGE && i == EDGE) {
            puts_(p->out, " ...");
            i = n - EDGE - 1;
            continue;
        }
        p->at[dim] = i;
        sft_value v;
        if (sft_get(p->x, p->at, &v) != SFT_OK)
            p->failed = true;
        else
            padded(p, &v);
    }
    put(p->out, "]", 1);
}

static void body(printer *p, int dim, int indent) {
    int left = p->x->ndim - dim;
    if (left == 0) {
        sft_value v;
        if (sft_get(p->x, p->at, &v) != SFT_OK)
            p->failed = true;
        else
            padded(p, &v);
        return;
    }
    if (left == 1) {
        vector(p, indent);
        return;
    }
    int64_t n = p->x->shape[dim];
    put(p->out, "[", 1);
    for (int64_t i = 0; i < n && !p->failed; i++) {
        if (i > 0) {
            put(p->out, ",", 1);
            for (int k = 0; k < left - 1; k++) put(p->out, "\n", 1);
            spaces(p->out, indent + 1);
        }
        if (p->summarise && n > 2 * EDGE && i == EDGE) {
            puts_(p->out, "...");
            i = n - EDGE - 1;
            continue;
        }
        p->at[dim] = i;
        body(p, dim + 1, indent + 1);
    }
    put(p->out, "]", 1);
}

/* ---- what follows the elements
 * -------------------------------------------------------------------------- */

static void suffix(text *t, int *column, const char *s) {
    int n = (int)strlen(s);
    if (*column + n + 2 > LINE) {
        put(t, ",\n", 2);
        spaces(t, INDENT);
        *column = INDENT + n;
    } else {
        put(t, ", ", 2);
        *column += n + 2;
    }
    put(t, s, (size_t)n);
}

/* "log_softmax" -> "LogSoftmaxBackward"; the names of functions of a script stay. */
static void grad_fn_name(const sft_node *n, char *buf, size_t size) {
    const char *s = n->op >= 0 ? sft_op_get_info((sft_op_id)n->op)->name : n->name;
    size_t k = 0;
    bool upper = n->op >= 0;
    for (; *s && k + 10 < size; s++) {
        if (*s == '_' && n->op >= 0) {
            upper = true;
            continue;
        }
        buf[k++] = (char)(upper ? toupper((unsigned char)*s) : *s);
        upper = false;
    }
    snprintf(buf + k, size - k, "Backward");
}

static void suffixes(text *t, sft_tensor *x, bool summarised) {
    const char *line = t->p ? strrchr(t->p, '\n') : NULL;
    int column = (int)(line ? strlen(line) : t->n + 1);
    char s[300];
    if (x->device.type != SFT_CPU) {
        char name[16];
        snprintf(s, sizeof s, "device='%s'", sft_device_name(x->device, name));
        suffix(t, &column, s);
    }
    if ((x->numel == 0 && x->ndim != 1) || summarised) {
        char shape[200];
        sft_shape_text(x->shape, x->ndim, shape, sizeof shape);
        snprintf(s, sizeof s, "%s=%s", x->numel ? "shape" : "size", shape);
        suffix(t, &column, s);
    }
    bool usual = x->dtype == sft_default_dtype() ||
                 (x->numel > 0 && (x->dtype == SFT_int64 || x->dtype == SFT_bool));
    if (!usual) {
        snprintf(s, sizeof s, "dtype=sft.%s", sft_dtype_name((sft_dtype)x->dtype));
        suffix(t, &column, s);
    }
    if (!sft_tensor_needs_grad(x)) return;
    if (x->meta->grad_fn) {
        char name[100];
        grad_fn_name(x->meta->grad_fn, name, sizeof name);
        snprintf(s, sizeof s, "grad_fn=<%s>", name);
        suffix(t, &column, s);
    } else {
        suffix(t, &column, "requires_grad=True");
    }
}

/* sft_get() reads host memory. */
static sft_tensor *on_host(sft_tensor *x) {
    if (x->device.type == SFT_CPU) return sft_retain(x);
    sft_value a[2] = {sft_v_tensor(x), sft_v_device((sft_device){SFT_CPU, 0})};
    return sft_call1(SFT_OP_to, a, 2);
}

char *sft_to_text(sft_tensor *t) {
    text out = {0};
    sft_tensor *host = on_host(t);
    if (!host) return NULL;
    printer p = {.out = &out, .x = host, .summarise = t->numel > THRESHOLD};
    puts_(&out, "tensor(");
    if (t->numel == 0) {
        puts_(&out, "[]");
    } else {
        choose_format(&p);
        body(&p, 0, INDENT);
    }
    sft_release(host);
    if (!p.failed) suffixes(&out, t, p.summarise);
    puts_(&out, ")");
    if (out.failed) sft_set_error(SFT_ERR_MEMORY, "tostring: out of memory");
    if (out.failed || p.failed) {
        free(out.p);
        return NULL;
    }
    return out.p;
}

void sft_free_text(char *s) { free(s); }
