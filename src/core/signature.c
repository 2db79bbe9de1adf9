/* signature.c: reads the signature strings of ops.def once, into parameter lists. */
#include "core.h"
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>

#define M SFT_F_METHOD
#define F SFT_F_FUNCTION
#define N SFT_F_NN
#define INPLACE SFT_F_INPLACE
#define DST SFT_F_DST
#define TAKES_OUT SFT_F_OUT
#define VIEW SFT_F_VIEW
#define IDX SFT_F_INDEX_OUT
#define MUT SFT_F_MUTATES
#define OUTPUTS(n) ((n) << 12)

typedef struct text_row {
    const char *id, *dtypes, *signature, *doc;
    uint32_t flags;
} text_row;

static const text_row texts[SFT_OP_COUNT] = {
#define OP(id, impl, dtypes, flags, grad, signature, doc) {#id, #dtypes, signature, doc, flags},
#include "ops.def"
#undef OP
};

static sft_op_info infos[SFT_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *word;
    uint8_t type;
} type_words[] = {
    {"Tensor", SFT_P_TENSOR}, {"Tensor[]", SFT_P_TENSORS},  {"Tensor|Scalar", SFT_P_TENSOR_SCALAR},
    {"Scalar", SFT_P_SCALAR}, {"int", SFT_P_INT},           {"float", SFT_P_FLOAT},
    {"bool", SFT_P_BOOL},     {"str", SFT_P_STR},           {"dim", SFT_P_DIM},
    {"dim[]", SFT_P_DIMS},    {"index", SFT_P_INDEX},       {"int[]", SFT_P_INTS},
    {"int[1]", SFT_P_INTS},   {"int[2]", SFT_P_INTS},       {"int[3]", SFT_P_INTS},
    {"size...", SFT_P_SIZES}, {"float[]", SFT_P_FLOATS},    {"dtype", SFT_P_DTYPE},
    {"device", SFT_P_DEVICE}, {"Generator", SFT_P_GENERATOR},
};

static bool read_type(const char *s, size_t len, sft_param *p) {
    if (len && s[len - 1] == '?') {
        p->optional = true;
        len--;
    }
    for (size_t i = 0; i < sizeof type_words / sizeof *type_words; i++) {
        const char *w = type_words[i].word;
        if (strlen(w) == len && memcmp(w, s, len) == 0) {
            p->type = type_words[i].type;
            if (len == 6 && p->type == SFT_P_INTS) p->fixed = (uint8_t)(w[4] - '0');
            return true;
        }
    }
    return false;
}

static const int64_t small_ints[] = {0, 1, 2, 3};

/* A default: nil, true, 1, 2.5, "mean" or 'mean', -inf. */
static void read_default(const char *s, size_t len, sft_param *p) {
    p->optional = true;
    if (len == 3 && !memcmp(s, "nil", 3)) return;
    if (p->type == SFT_P_BOOL || !strncmp(s, "true", 4) || !strncmp(s, "false", 5)) {
        p->def = sft_v_bool(s[0] == 't');
    } else if (p->type == SFT_P_STR || *s == '\'') {
        /* Kept for ever: rows are static. */
        char *copy = malloc(len);
        if (!copy) return;
        memcpy(copy, s + 1, len - 2);
        copy[len - 2] = 0;
        p->def = sft_v_str(copy);
    } else if (p->type == SFT_P_INTS || p->type == SFT_P_DIMS) {
        int v = *s - '0';
        p->def = sft_v_ints(&small_ints[v & 3], 1);
    } else if (p->type == SFT_P_FLOAT || memchr(s, '.', len) || memchr(s, 'e', len)) {
        p->def = sft_v_float(strtod(s, NULL));
    } else {
        p->def = sft_v_int(strtoll(s, NULL, 10));
    }
}

static void parse(const text_row *row, sft_op_info *info) {
    const char *s = row->signature;
    const char *open = strchr(s, '(');
    char *name = malloc((size_t)(open - s) + 1);
    if (name) {
        memcpy(name, s, (size_t)(open - s));
        name[open - s] = 0;
    }
    info->name = name ? name : row->id;
    info->signature = s;
    info->doc = row->doc;
    info->dtypes = row->dtypes;
    info->flags = (uint16_t)(row->flags & 0xfff);
    if ((*row->id == '_' || !strncmp(row->doc, "Internal:", 9)) && strcmp(row->id, "_T") &&
        strcmp(row->id, "_mT") && !(info->flags & (SFT_F_METHOD | SFT_F_FUNCTION | SFT_F_NN)))
        info->flags |= SFT_F_INTERNAL;
    info->nout = (uint8_t)(row->flags >> 12);
    if (!info->nout) info->nout = 1;
    if (info->nout == 15) info->nout = 0;
    bool keyword_only = false;
    for (s = open + 1; *s && *s != ')';) {
        while (*s == ' ' || *s == ',') s++;
        if (*s == '*') {
            keyword_only = true;
            s++;
            continue;
        }
        if (*s == ')' || !*s || info->nparams == SFT_MAX_PARAMS) break;
        sft_param *p = &info->params[info->nparams++];
        p->keyword_only = keyword_only;
        const char *end = strchr(s, ' ');
        if (!end || !read_type(s, (size_t)(end - s), p)) {
            info->nparams--;
            info->nout = 255; /* a spec looks for this: the row can't be read */
            return;
        }
        s = end + 1;
        p->name = s;
        while (isalnum((unsigned char)*s) || *s == '_') s++;
        p->len = (uint8_t)(s - p->name);
        if (*s == '=') {
            const char *d = ++s;
            while (*s && *s != ',' && *s != ')') s++;
            read_default(d, (size_t)(s - d), p);
        }
    }
}

static void parse_all(void) {
    for (int i = 0; i < SFT_OP_COUNT; i++) parse(&texts[i], &infos[i]);
    for (int i = 0; i < SFT_OP_COUNT; i++)
        infos[i].differentiable =
            sft_rows[i].grad == SFT_GRAD_RULE || sft_rows[i].grad == SFT_GRAD_COMPOSITE;
}

const sft_op_info *sft_op_get_info(sft_op_id op) {
    pthread_once(&once, parse_all);
    return (unsigned)op < SFT_OP_COUNT ? &infos[op] : NULL;
}

static const char *const aliases[][2] = {
#define OP(id, impl, dtypes, flags, grad, signature, doc)
#define ALIAS(name, of) {#name, #of},
#include "ops.def"
#undef OP
    {NULL, NULL},
};

const char *sft_op_alias(int i, const char **of) {
    if (i < 0 || (size_t)i >= sizeof aliases / sizeof *aliases) return NULL;
    *of = aliases[i][1];
    return aliases[i][0];
}
