/* args.c: reads the arguments of an op by its row: positional ones first, then a trailing table of
 * keywords. One place decides what a number, a dim, a list is, and words every error.
 *
 * Nothing here allocates in Lua or calls Lua (finalizers could run and change an argument): raw
 * access only, lists that are long go to malloc, errors are texts in the frame. */
#include "bind.h"
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the table of names
 * -------------------------------------------------------------------------- */

static op_set sets[SFT_OP_COUNT];
static int nsets;
enum { HASH = 2048 };
static uint16_t hash_table[HASH]; /* 1 + index into sets */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned hash(const char *s, size_t n) {
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static op_set *find_set(const char *name, size_t n, bool add) {
    unsigned i = hash(name, n) % HASH;
    for (; hash_table[i]; i = (i + 1) % HASH) {
        op_set *s = &sets[hash_table[i] - 1];
        if (strncmp(s->name, name, n) == 0 && s->name[n] == '\0') return s;
    }
    if (!add) return NULL;
    hash_table[i] = (uint16_t)(nsets + 1);
    sets[nsets].name = name;
    return &sets[nsets++];
}

static void build_sets(void) {
    for (int op = 0; op < SFT_OP_COUNT; op++) {
        const sft_op_info *info = sft_op_get_info((sft_op_id)op);
        op_set *s = find_set(info->name, strlen(info->name), true);
        if (s->nrows < 12) s->rows[s->nrows++] = (uint16_t)op;
        s->flags |= info->flags;
        if (info->nout == 0) s->list = true;
        if (info->nout > s->max_out && info->nout <= SFT_MAX_OUTPUTS) s->max_out = info->nout;
    }
}

const op_set *sftl_op_sets(int *n) {
    pthread_once(&once, build_sets);
    *n = nsets;
    return sets;
}

const op_set *sftl_find_set(const char *name, size_t len) {
    pthread_once(&once, build_sets);
    return find_set(name, len, false);
}

int sftl_find_op(const char *name) {
    const op_set *s = sftl_find_set(name, strlen(name));
    return s ? s->rows[0] : -1;
}

/* ---- the frame
 * ----------------------------------------------------------------------------------- */

static void *block(frame *f, size_t bytes) {
    void **b = malloc(sizeof(void *) * 2 + bytes);
    if (!b) return NULL;
    b[0] = f->blocks;
    f->blocks = b;
    return b + 2;
}

void frame_free(frame *f) {
    while (f->blocks) {
        void **b = f->blocks;
        f->blocks = b[0];
        free(b);
    }
}

int64_t *frame_ints(frame *f, size_t n) {
    if (n <= (size_t)(SFTL_INLINE - f->nints)) {
        f->nints += (int)n;
        return f->ints + f->nints - n;
    }
    return n < SIZE_MAX / 16 ? block(f, n * sizeof(int64_t)) : NULL;
}

sft_tensor **frame_tensors(frame *f, size_t n) {
    if (n <= (size_t)(SFTL_INLINE - f->nts)) {
        f->nts += (int)n;
        return f->ts + f->nts - n;
    }
    return n < SIZE_MAX / 16 ? block(f, n * sizeof(sft_tensor *)) : NULL;
}

enum { /* how far a row got: the best one's error is shown */
       RANK_MANY = 10,
       RANK_MISSING = 50,
       RANK_ARGUMENT = 100,
       RANK_KEYWORD = 500,
       RANK_TWICE = 900,
       RANK_ZERO = 1000
};

static bool fail(frame *f, int rank, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fail(frame *f, int rank, const char *fmt, ...) {
    if (rank <= f->rank) return false;
    f->rank = rank;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->error, sizeof f->error, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- single values
 * ------------------------------------------------------------------------------- */

bool sftl_read_int(lua_State *L, int index, int64_t *out) {
    if (lua_type(L, index) != LUA_TNUMBER) return false;
    int ok;
    *out = lua_tointegerx(L, index, &ok);
    return ok;
}

static const char *expected(const sft_param *p) {
    switch ((sft_param_type)p->type) {
    case SFT_P_TENSOR:
        return "a Tensor";
    case SFT_P_TENSORS:
        return "a list of Tensors";
    case SFT_P_TENSOR_SCALAR:
        return "a Tensor or a number";
    case SFT_P_SCALAR:
        return "a number";
    case SFT_P_INT:
        return "a whole number";
    case SFT_P_FLOAT:
        return "a number";
    case SFT_P_BOOL:
        return "true or false";
    case SFT_P_STR:
        return "a string";
    case SFT_P_DIM:
        return "a dim (1 is the first, -1 the last)";
    case SFT_P_DIMS:
        return "a dim or a list of dims";
    case SFT_P_INDEX:
        return "an index (1 is the first, -1 the last)";
    case SFT_P_INTS:
        return "a whole number or a list of them";
    case SFT_P_SIZES:
        return "sizes: whole numbers, or one list of them";
    case SFT_P_FLOATS:
        return "a list of numbers";
    case SFT_P_DTYPE:
        return "a dtype (sft.float32, \"float32\")";
    case SFT_P_DEVICE:
        return "a device (\"cpu\", \"cuda:0\")";
    case SFT_P_GENERATOR:
        return "a Generator";
    }
    return "another value";
}

typedef struct reader {
    lua_State *L;
    const binding *u;
    frame *f;
    const sft_param *p;
    int rank;
} reader;

static bool mismatch(reader *r, int index) {
    char buf[64];
    return fail(r->f, r->rank, "%s: argument '%.*s' must be %s, got %s", r->f->name, r->p->len,
                r->p->name, expected(r->p), sftl_kind(r->L, index, buf));
}

static bool no_memory(reader *r) { return fail(r->f, r->rank, "%s: out of memory", r->f->name); }

static bool bad_int(reader *r, int index, int position) {
    char buf[64], where[40] = "";
    if (lua_type(r->L, index) != LUA_TNUMBER && !position) return mismatch(r, index);
    if (position) snprintf(where, sizeof where, ", entry %d", position);
    return fail(r->f, r->rank, "%s: argument '%.*s'%s must be a whole number, got %s", r->f->name,
                r->p->len, r->p->name, where, sftl_kind(r->L, index, buf));
}

/* 1-based to 0-based; negative ones count from the end and stay. */
static bool from_one(reader *r, int64_t *v) {
    if (*v == 0)
        return fail(r->f, RANK_ZERO,
                    "%s: argument '%.*s': dims and indices start at 1 (or count from the end: -1), "
                    "got 0",
                    r->f->name, r->p->len, r->p->name);
    if (*v > 0) --*v;
    return true;
}

static bool read_tensor(reader *r, int index, sft_tensor **out) {
    sft_tensor **h = sftl_handle(r->L, r->u, index);
    if (!h) return mismatch(r, index);
    if (!*h)
        return fail(r->f, RANK_ZERO, "%s: argument '%.*s' is a released tensor", r->f->name,
                    r->p->len, r->p->name);
    *out = *h;
    return true;
}

/* ---- lists
 * --------------------------------------------------------------------------------------- */

/* The shape attribute is a table with a metatable; any table with entries from 1 on is a list. */
static bool read_int_list(reader *r, int index, sft_value *v) {
    size_t n = lua_rawlen(r->L, index);
    int64_t *list = n < INT32_MAX ? frame_ints(r->f, n) : NULL;
    if (!list) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(r->L, index, (lua_Integer)i + 1);
        bool ok = sftl_read_int(r->L, -1, &list[i]) || bad_int(r, -1, (int)i + 1);
        lua_pop(r->L, 1);
        if (!ok || (r->p->type == SFT_P_DIMS && !from_one(r, &list[i]))) return false;
    }
    *v = sft_v_ints(list, (int)n);
    return true;
}

static bool read_float_list(reader *r, int index, sft_value *v) {
    size_t n = lua_rawlen(r->L, index);
    double *list = n < INT32_MAX ? (double *)(void *)frame_ints(r->f, n) : NULL;
    if (!list) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(r->L, index, (lua_Integer)i + 1);
        bool ok = lua_type(r->L, -1) == LUA_TNUMBER || mismatch(r, -1);
        list[i] = lua_tonumber(r->L, -1);
        lua_pop(r->L, 1);
        if (!ok) return false;
    }
    *v = sft_v_none();
    v->kind = SFT_V_FLOATS;
    v->n = (int)n;
    v->u.floats = list;
    return true;
}

static bool read_tensor_list(reader *r, int index, sft_value *v) {
    size_t n = lua_rawlen(r->L, index);
    sft_tensor **list = n < INT32_MAX ? frame_tensors(r->f, n) : NULL;
    if (!list) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(r->L, index, (lua_Integer)i + 1);
        sft_tensor **h = sftl_handle(r->L, r->u, -1);
        bool ok = h && *h;
        if (ok) {
            list[i] = *h;
        } else {
            char buf[64];
            fail(r->f, r->rank, "%s: argument '%.*s', entry %d must be a Tensor, got %s",
                 r->f->name, r->p->len, r->p->name, (int)i + 1,
                 h ? "a released one" : sftl_kind(r->L, -1, buf));
        }
        lua_pop(r->L, 1);
        if (!ok) return false;
    }
    *v = sft_v_tensors(list, (int)n);
    return true;
}

/* ---- one argument
 * -------------------------------------------------------------------------------- */

static bool read_number(reader *r, int index, sft_value *v) {
    if (lua_isinteger(r->L, index))
        *v = sft_v_int(lua_tointeger(r->L, index));
    else
        *v = sft_v_float(lua_tonumber(r->L, index));
    return true;
}

static bool read_whole(reader *r, int index, sft_value *v) {
    int64_t i;
    if (!sftl_read_int(r->L, index, &i)) return bad_int(r, index, 0);
    if ((r->p->type == SFT_P_DIM || r->p->type == SFT_P_INDEX) && !from_one(r, &i)) return false;
    *v = sft_v_int(i);
    return true;
}

static bool read_object(reader *r, int index, sft_value *v) {
    sft_dtype d;
    sft_device dev;
    sft_generator *g;
    if (r->p->type == SFT_P_DTYPE && sftl_to_dtype(r->L, r->u, index, &d)) {
        *v = sft_v_dtype(d);
    } else if (r->p->type == SFT_P_DEVICE && sftl_to_device(r->L, r->u, index, &dev)) {
        *v = sft_v_device(dev);
    } else if (r->p->type == SFT_P_GENERATOR && (g = sftl_to_generator(r->L, r->u, index))) {
        *v = sft_v_generator(g);
    } else {
        return mismatch(r, index);
    }
    return true;
}

static bool read_one(reader *r, int index, sft_value *v) {
    lua_State *L = r->L;
    int type = lua_type(L, index);
    sft_tensor *t;
    int64_t i;
    if (type == LUA_TNIL) {
        *v = sft_v_none();
        return r->p->optional || mismatch(r, index);
    }
    switch ((sft_param_type)r->p->type) {
    case SFT_P_TENSOR:
        if (!read_tensor(r, index, &t)) return false;
        *v = sft_v_tensor(t);
        return true;
    case SFT_P_TENSOR_SCALAR:
        if (type == LUA_TNUMBER) return read_number(r, index, v);
        if (type == LUA_TBOOLEAN) {
            *v = sft_v_bool(lua_toboolean(L, index));
            return true;
        }
        if (!read_tensor(r, index, &t)) return false;
        *v = sft_v_tensor(t);
        return true;
    case SFT_P_SCALAR:
        if (type == LUA_TNUMBER) return read_number(r, index, v);
        if (type != LUA_TBOOLEAN) return mismatch(r, index);
        *v = sft_v_bool(lua_toboolean(L, index));
        return true;
    case SFT_P_FLOAT:
        if (type != LUA_TNUMBER) return mismatch(r, index);
        *v = sft_v_float(lua_tonumber(L, index));
        return true;
    case SFT_P_INT:
    case SFT_P_DIM:
    case SFT_P_INDEX:
        return read_whole(r, index, v);
    case SFT_P_BOOL:
        if (type != LUA_TBOOLEAN) return mismatch(r, index);
        *v = sft_v_bool(lua_toboolean(L, index));
        return true;
    case SFT_P_STR:
        if (type != LUA_TSTRING) return mismatch(r, index);
        *v = sft_v_str(lua_tostring(L, index));
        return true;
    case SFT_P_DIMS:
    case SFT_P_INTS:
    case SFT_P_SIZES:
        if (type == LUA_TTABLE) return read_int_list(r, index, v);
        if (!sftl_read_int(L, index, &i)) return bad_int(r, index, 0);
        if (r->p->type == SFT_P_DIMS && !from_one(r, &i)) return false;
        {
            int64_t *list = frame_ints(r->f, 1);
            if (!list) return no_memory(r);
            *list = i;
            *v = sft_v_ints(list, 1);
        }
        return true;
    case SFT_P_TENSORS:
        if (type != LUA_TTABLE) return mismatch(r, index);
        return read_tensor_list(r, index, v);
    case SFT_P_FLOATS:
        if (type != LUA_TTABLE) return mismatch(r, index);
        return read_float_list(r, index, v);
    case SFT_P_DTYPE:
    case SFT_P_DEVICE:
    case SFT_P_GENERATOR:
        return read_object(r, index, v);
    }
    return mismatch(r, index);
}

/* ---- runs of positional arguments
 * ---------------------------------------------------------------- */

static bool takes_run(const sft_op_info *info, int at) {
    const sft_param *p = &info->params[at];
    if (p->type == SFT_P_SIZES || p->type == SFT_P_TENSORS) return true;
    if ((p->type != SFT_P_DIMS && p->type != SFT_P_INTS) || p->fixed) return false;
    if (info->params[0].type != SFT_P_TENSOR) return false; /* randint(1, 10, 3) */
    return at + 1 == info->nparams || info->params[at + 1].keyword_only; /* the last one */
}

/* x:permute(2, 1), sft.zeros(2, 3), sft.meshgrid(a, b): all that follows belongs to one list. */
static int read_run(reader *r, int from, int n, sft_value *v) {
    lua_State *L = r->L;
    int last = from;
    bool tensors = r->p->type == SFT_P_TENSORS;
    int want = tensors ? LUA_TUSERDATA : LUA_TNUMBER;
    while (last < n && lua_type(L, last + 1) == want &&
           (!tensors || sftl_handle(L, r->u, last + 1)))
        last++;
    int count = last - from + 1;
    if (tensors) {
        sft_tensor **list = frame_tensors(r->f, (size_t)count);
        if (!list) return no_memory(r), 0;
        for (int i = 0; i < count; i++)
            if (!read_tensor(r, from + i, &list[i])) return 0;
        *v = sft_v_tensors(list, count);
        return last;
    }
    int64_t *list = frame_ints(r->f, (size_t)count);
    if (!list) return no_memory(r), 0;
    for (int i = 0; i < count; i++) {
        if (!sftl_read_int(L, from + i, &list[i])) {
            char buf[64];
            fail(r->f, r->rank, "%s: %s %d must be a whole number, got %s", r->f->name,
                 r->p->type == SFT_P_SIZES ? "size" : "dim", i + 1, sftl_kind(L, from + i, buf));
            return 0;
        }
        if (r->p->type == SFT_P_DIMS && !from_one(r, &list[i])) return 0;
    }
    *v = sft_v_ints(list, count);
    return last;
}

/* ---- keywords
 * ------------------------------------------------------------------------------------ */

int sftl_split_keywords(lua_State *L, frame *f, int n) {
    f->keywords = 0;
    if (n == 0 || lua_type(L, n) != LUA_TTABLE) return n;
    if (lua_getmetatable(L, n)) {
        lua_pop(L, 1);
        return n;
    }
    size_t len = lua_rawlen(L, n);
    if (len == 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)len); /* what follows the list's last entry? */
    if (!lua_next(L, n)) return n;            /* a list, or {}: an empty one */
    bool name = lua_type(L, -2) == LUA_TSTRING;
    char buf[64];
    snprintf(buf, sizeof buf, "%.40s", name ? lua_tostring(L, -2) : "?");
    lua_pop(L, 2);
    if (len == 0 && name) {
        f->keywords = n;
        return n - 1;
    }
    if (name)
        fail(f, RANK_ZERO,
             "%s: the last argument mixes a list and keywords; write the list first and the "
             "keywords in a table of their own: %s(..., {1, 2}, {%s = ...})",
             f->name, f->name, buf);
    else
        fail(f, RANK_ZERO, "%s: the last argument is neither a list nor a table of keywords",
             f->name);
    return -1;
}

static int find_param(const sft_op_info *info, const char *name, size_t len) {
    for (int i = 0; i < info->nparams; i++)
        if (info->params[i].len == len && memcmp(info->params[i].name, name, len) == 0) return i;
    return -1;
}

/* PyTorch's second names. */
static int find_alias(const sft_op_info *info, const char *name) {
    static const char *const alias[][2] = {{"input", "self"},
                                           {"self", "input"},
                                           {"axis", "dim"},
                                           {"keepdims", "keepdim"},
                                           {"axis", "dims"}};
    for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
        if (strcmp(name, alias[i][0]) == 0) {
            int p = find_param(info, alias[i][1], strlen(alias[i][1]));
            if (p >= 0) return p;
        }
    return -1;
}

static bool unknown_keyword(frame *f, const sft_op_info *info, const char *name) {
    int best = 1000;
    const sft_param *near = NULL;
    size_t len = strlen(name);
    for (int i = 0; i < info->nparams; i++) {
        int d = sftl_distance(name, len, info->params[i].name, info->params[i].len);
        if (d < best) best = d, near = &info->params[i];
    }
    if (near && best <= (len < 4 ? 1 : len < 7 ? 2 : 3))
        return fail(f, RANK_KEYWORD + 10 - best,
                    "%s: unknown keyword '%.40s' (did you mean '%.*s'?)", f->name, name, near->len,
                    near->name);
    char known[300] = "";
    size_t n = 0;
    for (int i = 1; i < info->nparams && n < sizeof known - 64; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%.*s", n ? ", " : "",
                              info->params[i].len, info->params[i].name);
    return fail(f, RANK_KEYWORD, "%s: unknown keyword '%.40s' (%s%s)", f->name, name,
                n ? "known: " : "it takes none", known);
}

static bool read_out(reader *r) {
    sft_tensor **h = sftl_handle(r->L, r->u, -1);
    if (!h || !*h) {
        char buf[64];
        return fail(r->f, RANK_KEYWORD, "%s: out must be a Tensor, got %s", r->f->name,
                    h ? "a released one" : sftl_kind(r->L, -1, buf));
    }
    r->f->dst = *h;
    r->f->has_out = true;
    return true;
}

/* The value is on the top. */
static bool read_keyword(reader *r, const sft_op_info *info, uint32_t *given) {
    lua_State *L = r->L;
    if (lua_type(L, -2) != LUA_TSTRING)
        return fail(r->f, RANK_KEYWORD, "%s: keywords must be names", r->f->name);
    size_t len;
    const char *name = lua_tolstring(L, -2, &len);
    int i = find_param(info, name, len);
    if (i < 0 && len == 3 && !memcmp(name, "out", 3) && (info->flags & SFT_F_OUT))
        return read_out(r);
    if (i < 0) i = find_alias(info, name);
    if (i < 0) return unknown_keyword(r->f, info, name);
    if (*given >> i & 1)
        return fail(r->f, RANK_TWICE, "%s: argument '%.40s' is given twice", r->f->name, name);
    *given |= 1u << i;
    r->p = &info->params[i];
    r->rank = RANK_ARGUMENT + i;
    return read_one(r, lua_gettop(L), &r->f->v[i]);
}

static bool read_keywords(reader *r, const sft_op_info *info, uint32_t *given) {
    lua_State *L = r->L;
    int table = r->f->keywords;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        if (!read_keyword(r, info, given)) {
            lua_pop(L, 2);
            return false;
        }
        lua_pop(L, 1);
    }
    return true;
}

/* ---- a row
 * ---------------------------------------------------------------------------------------- */

static bool missing(frame *f, const sft_op_info *info, int i) {
    const sft_param *p = &info->params[i];
    if (i == 0 && (info->flags & SFT_F_METHOD))
        return fail(f, RANK_MISSING, "%s: the tensor is missing; call it as x:%s(), not x.%s()",
                    f->name, f->name, f->name);
    return fail(f, RANK_MISSING + i, "%s: argument '%.*s' is missing (%s)", f->name, p->len,
                p->name, expected(p));
}

bool sftl_read_row(lua_State *L, const binding *u, const sft_op_info *info, int n, frame *f) {
    reader r = {L, u, f, NULL, 0};
    uint32_t given = 0;
    int at = 0, i = 1;
    for (; i <= n; i++, at++) {
        if (at == info->nparams || info->params[at].keyword_only) break;
        r.p = &info->params[at];
        r.rank = RANK_ARGUMENT + at;
        int type = lua_type(L, i);
        if ((type == LUA_TNUMBER || type == LUA_TUSERDATA) && takes_run(info, at) &&
            (type == LUA_TUSERDATA) == (r.p->type == SFT_P_TENSORS)) {
            i = read_run(&r, i, n, &f->v[at]);
            if (!i) return false;
        } else if (!read_one(&r, i, &f->v[at])) {
            return false;
        }
        given |= (uint32_t)(lua_type(L, i) != LUA_TNIL) << at;
    }
    /* An empty table at the end is one of no keywords, nil is nothing. */
    if (n >= i && lua_type(L, n) == LUA_TTABLE && lua_rawlen(L, n) == 0) n--;
    while (n >= i && lua_type(L, n) == LUA_TNIL) n--;
    if (i <= n)
        return fail(f, RANK_MANY, "%s: too many arguments: takes %d, got %d%s", f->name, at, n,
                    at < info->nparams ? "; the others are keywords: {name = value}" : "");
    for (; at < info->nparams; at++) f->v[at] = sft_v_none();
    if (f->keywords && !read_keywords(&r, info, &given)) return false;
    for (int k = 0; k < info->nparams; k++) {
        if (f->v[k].kind != SFT_V_NONE || info->params[k].optional) continue;
        if (info->params[k].type == SFT_P_SIZES)
            f->v[k] = sft_v_ints(f->ints, 0); /* no sizes: 0-dim */
        else
            return missing(f, info, k);
    }
    return true;
}

/* "sum(self, dim=nil, keepdim=false, {dtype})", dims as scripts count them. */
static size_t signature_text(const sft_op_info *info, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "%s(", info->name);
    bool keywords = false;
    for (int i = 0; i < info->nparams && n < size; i++) {
        const sft_param *p = &info->params[i];
        const char *before = i ? ", " : "";
        if (p->keyword_only && !keywords) {
            keywords = true;
            before = i ? ", {" : "{";
        }
        n += (size_t)snprintf(buf + n, size - n, "%s%.*s%s", before, p->len, p->name,
                              p->type == SFT_P_SIZES ? "..."
                              : p->optional          ? "?"
                                                     : "");
    }
    if (n < size) n += (size_t)snprintf(buf + n, size - n, keywords ? "})" : ")");
    return n < size ? n : size - 1;
}

int sftl_args_error(lua_State *L, binding *u, const op_set *set, frame *f) {
    char text[1400];
    frame_free(f);
    size_t n = (size_t)snprintf(text, sizeof text, "%s", f->error);
    if (f->rank < RANK_KEYWORD && n < sizeof text - 200) {
        for (int i = 0; i < set->nrows && n < sizeof text - 160; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, i ? " or " : "; it is ");
            n +=
                signature_text(sft_op_get_info((sft_op_id)set->rows[i]), text + n, sizeof text - n);
        }
    }
    const char *code =
        f->rank == RANK_ZERO && strstr(f->error, "start at 1") ? "index" : "argument";
    sftl_error(L, u, code, "%s", text);
}

void sftl_check_keywords(lua_State *L, binding *u, const char *fname, int table,
                         const char *const *known) {
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "?";
        bool ok = false;
        int best = 1000;
        const char *near = NULL;
        for (int i = 0; known[i]; i++) {
            int d = sftl_distance(name, strlen(name), known[i], strlen(known[i]));
            if (d < best) best = d, near = known[i];
            ok |= d == 0;
        }
        if (ok) continue;
        if (near && best <= 2)
            sftl_error(L, u, "argument", "%s: unknown keyword '%.40s' (did you mean '%s'?)", fname,
                       name, near);
        char list[200] = "";
        for (int i = 0; known[i]; i++)
            if (strlen(list) + strlen(known[i]) < sizeof list - 3)
                strcat(strcat(list, i ? ", " : ""), known[i]);
        sftl_error(L, u, "argument", "%s: unknown keyword '%.40s' (known: %s)", fname, name, list);
    }
}
