/* safetensors.c: checkpoints. A file is 8 bytes of header length, a JSON header, and the tensors'
 * bytes (https://github.com/huggingface/safetensors describes the format). Nothing in a file is
 * trusted: the header is checked against every rule before a tensor is made. */
#include "files.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    sft_dtype dtype;
} dtype_names[] = {{"BOOL", SFT_bool}, {"U8", SFT_uint8},    {"I8", SFT_int8},     {"I16", SFT_int16},
                   {"I32", SFT_int32}, {"I64", SFT_int64},   {"F16", SFT_float16}, {"BF16", SFT_bfloat16},
                   {"F32", SFT_float32}, {"F64", SFT_float64}};
enum { NDTYPES = sizeof dtype_names / sizeof *dtype_names };

typedef struct entry {
    char *name;
    sft_dtype dtype;
    int ndim;
    int64_t shape[SFT_MAX_DIMS];
    uint64_t begin, end;
    sft_tensor *tensor;
} entry;

struct sft_safetensors {
    entry *entries;
    size_t n, cap;
    char **meta; /* key, value, key, value */
    size_t nmeta, capmeta;
};

void sft_safetensors_free(sft_safetensors *f) {
    if (!f) return;
    for (size_t i = 0; i < f->n; i++) {
        free(f->entries[i].name);
        sft_release(f->entries[i].tensor);
    }
    for (size_t i = 0; i < f->nmeta; i++) free(f->meta[i]);
    free(f->entries);
    free(f->meta);
    free(f);
}

int sft_safetensors_count(const sft_safetensors *f) { return (int)f->n; }
const char *sft_safetensors_name(const sft_safetensors *f, int i) { return f->entries[i].name; }
sft_tensor *sft_safetensors_tensor(const sft_safetensors *f, int i) { return f->entries[i].tensor; }
int sft_safetensors_meta_count(const sft_safetensors *f) { return (int)(f->nmeta / 2); }
const char *sft_safetensors_meta_key(const sft_safetensors *f, int i) { return f->meta[2 * i]; }
const char *sft_safetensors_meta_value(const sft_safetensors *f, int i) { return f->meta[2 * i + 1]; }

/* ---- the header's JSON ------------------------------------------------------------------------- */

typedef struct json {
    const char *p, *end, *path;
} json;

static sft_status bad(const json *j, const char *what) {
    return sft_fail(SFT_ERR_IO, "load: %s: not a valid safetensors file: %s", j->path, what);
}

static void space(json *j) {
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t')) j->p++;
}

static bool take(json *j, char c) {
    space(j);
    if (j->p >= j->end || *j->p != c) return false;
    j->p++;
    return true;
}

static int hex4(json *j) {
    int v = 0;
    if (j->end - j->p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = *j->p++;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

static char *put_utf8(char *o, uint32_t u) {
    if (u < 0x80) {
        *o++ = (char)u;
    } else if (u < 0x800) {
        *o++ = (char)(0xc0 | u >> 6);
        *o++ = (char)(0x80 | (u & 0x3f));
    } else if (u < 0x10000) {
        *o++ = (char)(0xe0 | u >> 12);
        *o++ = (char)(0x80 | (u >> 6 & 0x3f));
        *o++ = (char)(0x80 | (u & 0x3f));
    } else {
        *o++ = (char)(0xf0 | u >> 18);
        *o++ = (char)(0x80 | (u >> 12 & 0x3f));
        *o++ = (char)(0x80 | (u >> 6 & 0x3f));
        *o++ = (char)(0x80 | (u & 0x3f));
    }
    return o;
}

/* A string, unescaped, in memory of its own. */
static sft_status string(json *j, char **out) {
    *out = NULL;
    if (!take(j, '"')) return bad(j, "a string was expected in the header");
    const char *q = j->p;
    while (q < j->end && *q != '"') q += *q == '\\' ? 2 : 1;
    if (q >= j->end) return bad(j, "a string in the header has no end");
    char *o = *out = malloc((size_t)(q - j->p) + 1);
    if (!o) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    while (*j->p != '"') {
        unsigned char c = (unsigned char)*j->p++;
        if (c < 0x20) return bad(j, "a control character in a string");
        if (c != '\\') {
            *o++ = (char)c;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        c = (unsigned char)*j->p++;
        const char *at = c ? strchr(from, c) : NULL;
        if (at) {
            *o++ = to[at - from];
        } else if (c == 'u') {
            int u = hex4(j), low;
            if (u >= 0xd800 && u < 0xdc00 && j->end - j->p > 6 && j->p[0] == '\\' && j->p[1] == 'u') {
                j->p += 2;
                low = hex4(j);
                u = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00) : -1;
            }
            if (u <= 0 || (u >= 0xd800 && u < 0xe000)) return bad(j, "a bad \\u escape");
            o = put_utf8(o, (uint32_t)u);
        } else {
            return bad(j, "an unknown escape in a string");
        }
    }
    j->p++;
    *o = 0;
    return SFT_OK;
}

/* A plain non-negative integer below 2^63. */
static sft_status natural(json *j, int64_t *out) {
    space(j);
    int64_t v = 0;
    const char *start = j->p;
    while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *j->p++ - '0', &v))
            return bad(j, "a number in the header is too large");
    if (j->p == start) return bad(j, "a non-negative integer was expected in the header");
    if (*start == '0' && j->p - start > 1) return bad(j, "a number begins with 0");
    if (j->p < j->end && (*j->p == '.' || *j->p == 'e' || *j->p == 'E'))
        return bad(j, "a whole number was expected in the header");
    *out = v;
    return SFT_OK;
}

/* [n, n, ...]; at most `max` numbers. */
static sft_status naturals(json *j, int64_t *out, int max, int *n) {
    *n = 0;
    if (!take(j, '[')) return bad(j, "a list was expected in the header");
    if (take(j, ']')) return SFT_OK;
    do {
        if (*n == max) return bad(j, "a list in the header is too long (tensors have at most 16 dims)");
        SFT_TRY(natural(j, &out[(*n)++]));
    } while (take(j, ','));
    return take(j, ']') ? SFT_OK : bad(j, "a list in the header has no end");
}

/* The object that describes one tensor. */
static sft_status read_entry(json *j, entry *e) {
    int64_t offsets[2];
    int n = 0, seen = 0;
    char *key = NULL, *text = NULL;
    if (!take(j, '{')) return bad(j, "a tensor's entry is not an object");
    sft_status st = SFT_OK;
    do {
        free(key);
        st = string(j, &key);
        if (st == SFT_OK && !take(j, ':')) st = bad(j, "':' is missing");
        if (st != SFT_OK) break;
        int bit;
        if (!strcmp(key, "dtype")) {
            bit = 1;
            st = string(j, &text);
            int d = 0;
            while (st == SFT_OK && d < NDTYPES && strcmp(text, dtype_names[d].name) != 0) d++;
            if (st == SFT_OK && d == NDTYPES)
                st = sft_fail(SFT_ERR_IO, "load: %s: tensor \"%.80s\" has the dtype \"%.20s\", which is "
                                          "not supported",
                              j->path, e->name, text);
            if (st == SFT_OK) e->dtype = dtype_names[d].dtype;
            free(text);
            text = NULL;
        } else if (!strcmp(key, "shape")) {
            bit = 2;
            st = naturals(j, e->shape, SFT_MAX_DIMS, &e->ndim);
        } else if (!strcmp(key, "data_offsets")) {
            bit = 4;
            st = naturals(j, offsets, 2, &n);
            if (st == SFT_OK && n != 2) st = bad(j, "data_offsets needs two numbers");
        } else {
            st = sft_fail(SFT_ERR_IO, "load: %s: tensor \"%.80s\" has an unknown field \"%.40s\"", j->path,
                          e->name, key);
            break;
        }
        if (st == SFT_OK && (seen & bit)) st = bad(j, "a field is given twice");
        seen |= bit;
    } while (st == SFT_OK && take(j, ','));
    free(key);
    free(text);
    if (st == SFT_OK && !take(j, '}')) st = bad(j, "an object in the header has no end");
    if (st == SFT_OK && seen != 7) st = bad(j, "a tensor lacks dtype, shape or data_offsets");
    if (st == SFT_OK) {
        e->begin = (uint64_t)offsets[0];
        e->end = (uint64_t)offsets[1];
    }
    return st;
}

static sft_status push_meta(sft_safetensors *f, char *text) {
    if (!sft_grow((void **)&f->meta, &f->capmeta, f->nmeta + 1, sizeof *f->meta)) {
        free(text);
        return sft_fail(SFT_ERR_MEMORY, "out of memory");
    }
    f->meta[f->nmeta++] = text;
    return SFT_OK;
}

static sft_status read_metadata(json *j, sft_safetensors *f) {
    if (!take(j, '{')) return bad(j, "__metadata__ is not an object");
    if (take(j, '}')) return SFT_OK;
    do {
        char *key, *value;
        sft_status st = string(j, &key);
        if (st != SFT_OK) {
            free(key);
            return st;
        }
        for (size_t i = 0; i < f->nmeta; i += 2)
            if (!strcmp(f->meta[i], key)) st = bad(j, "a metadata key is given twice");
        if (st == SFT_OK && !take(j, ':')) st = bad(j, "':' is missing");
        if (st == SFT_OK) {
            st = string(j, &value);
            if (st != SFT_OK) {
                free(key);
                free(value);
                return st;
            }
            if ((st = push_meta(f, key)) != SFT_OK) {
                free(value);
                return st;
            }
            SFT_TRY(push_meta(f, value));
        } else {
            free(key);
            return st;
        }
    } while (take(j, ','));
    return take(j, '}') ? SFT_OK : bad(j, "__metadata__ has no end");
}

static sft_status read_header(json *j, sft_safetensors *f) {
    if (!take(j, '{')) return bad(j, "the header is not a JSON object");
    bool meta = false;
    if (!take(j, '}')) {
        do {
            char *name;
            sft_status st = string(j, &name);
            if (st != SFT_OK) {
                free(name);
                return st;
            }
            if (!take(j, ':')) {
                free(name);
                return bad(j, "':' is missing");
            }
            if (!strcmp(name, "__metadata__")) {
                free(name);
                if (meta) return bad(j, "__metadata__ is given twice");
                meta = true;
                SFT_TRY(read_metadata(j, f));
                continue;
            }
            if (!sft_grow((void **)&f->entries, &f->cap, f->n + 1, sizeof *f->entries)) {
                free(name);
                return sft_fail(SFT_ERR_MEMORY, "out of memory");
            }
            entry *e = &f->entries[f->n++];
            memset(e, 0, sizeof *e);
            e->name = name;
            SFT_TRY(read_entry(j, e));
        } while (take(j, ','));
        if (!take(j, '}')) return bad(j, "the header has no end");
    }
    space(j);
    return j->p == j->end ? SFT_OK : bad(j, "text after the header's object");
}

/* ---- the rules of the format ----------------------------------------------------------------------- */

static bool valid_utf8(const unsigned char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        unsigned c = s[i++], more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2
                                       : c >= 0xf0 && c < 0xf5 ? 3 : 9;
        if (more == 9 || i + more > n) return false;
        if ((c == 0xe0 && s[i] < 0xa0) || (c == 0xed && s[i] >= 0xa0) || (c == 0xf0 && s[i] < 0x90) ||
            (c == 0xf4 && s[i] >= 0x90))
            return false;
        for (; more; more--)
            if ((s[i++] & 0xc0) != 0x80) return false;
    }
    return true;
}

static int by_begin(const void *a, const void *b) {
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}
static int by_name(const void *a, const void *b) {
    return strcmp((*(entry *const *)a)->name, (*(entry *const *)b)->name);
}

static sft_status check_ranges(const sft_safetensors *f, const char *path, uint64_t data) {
    if (f->n == 0) {
        if (data) return sft_fail(SFT_ERR_IO, "load: %s: %llu bytes that belong to no tensor", path,
                                  (unsigned long long)data);
        return SFT_OK;
    }
    entry **sorted = malloc(f->n * sizeof *sorted);
    if (!sorted) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_status st = SFT_OK;
    for (size_t i = 0; i < f->n && st == SFT_OK; i++) {
        entry *e = sorted[i] = &f->entries[i];
        int64_t n = 1;
        bool over = false;
        for (int d = 0; d < e->ndim; d++) over |= __builtin_mul_overflow(n, e->shape[d], &n);
        over |= __builtin_mul_overflow(n, (int64_t)sft_dtype_size(e->dtype), &n);
        char shape[160];
        if (over || e->end < e->begin || e->end - e->begin != (uint64_t)n)
            st = sft_fail(SFT_ERR_IO,
                          "load: %s: tensor \"%.80s\": data_offsets [%llu, %llu] do not fit shape %s "
                          "%s (%s%lld bytes)",
                          path, e->name, (unsigned long long)e->begin, (unsigned long long)e->end,
                          sft_shape_text(e->shape, e->ndim, shape, sizeof shape),
                          sft_dtype_name(e->dtype), over ? "overflows " : "", (long long)n);
        else if (e->end > data)
            st = sft_fail(SFT_ERR_IO,
                          "load: %s: tensor \"%.80s\" ends at %llu, but the file holds %llu bytes of "
                          "data; is it cut off?",
                          path, e->name, (unsigned long long)e->end, (unsigned long long)data);
    }
    if (st == SFT_OK) {
        qsort(sorted, f->n, sizeof *sorted, by_begin);
        uint64_t at = 0;
        for (size_t i = 0; i < f->n && st == SFT_OK; i++) {
            if (sorted[i]->begin != at)
                st = sft_fail(SFT_ERR_IO, "load: %s: tensor \"%.80s\" begins at %llu, expected %llu "
                                          "(%s)",
                              path, sorted[i]->name, (unsigned long long)sorted[i]->begin,
                              (unsigned long long)at, sorted[i]->begin < at ? "overlap" : "hole");
            at = sorted[i]->end;
        }
        if (st == SFT_OK && at != data)
            st = sft_fail(SFT_ERR_IO, "load: %s: %llu bytes at the end belong to no tensor", path,
                          (unsigned long long)(data - at));
    }
    if (st == SFT_OK) {
        qsort(sorted, f->n, sizeof *sorted, by_name);
        for (size_t i = 1; i < f->n && st == SFT_OK; i++)
            if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
                st = sft_fail(SFT_ERR_IO, "load: %s: the name \"%.80s\" is given twice", path,
                              sorted[i]->name);
    }
    free(sorted);
    return st;
}

/* bool bytes are 0 or 1 in memory, whatever a file says. */
static void clean_bools(sft_tensor *t) {
    if (t->dtype != SFT_bool) return;
    uint8_t *p = (uint8_t *)t->data;
    for (int64_t i = 0; i < t->numel; i++) p[i] = p[i] != 0;
}

static sft_status read_file(sft_safetensors *f, int fd, const char *path, uint64_t size) {
    unsigned char head[8];
    if (size < 8) return sft_fail(SFT_ERR_IO, "load: %s: too short for a safetensors file", path);
    SFT_TRY(sft_read_at(fd, path, head, 8, 0));
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--) len = len << 8 | head[i];
    if (len > MAX_HEADER || len > size - 8)
        return sft_fail(SFT_ERR_IO,
                        "load: %s: the header is said to be %llu bytes long, the file has %llu; not a "
                        "safetensors file, or cut off",
                        path, (unsigned long long)len, (unsigned long long)(size - 8));
    char *header = malloc(len + 1);
    if (!header) return sft_fail(SFT_ERR_MEMORY, "out of memory");
    sft_status st = sft_read_at(fd, path, header, len, 8);
    header[len] = 0;
    json j = {header, header + len, path};
    if (st == SFT_OK && !valid_utf8((unsigned char *)header, len)) st = bad(&j, "the header is not UTF-8");
    if (st == SFT_OK && (len == 0 || header[0] != '{')) st = bad(&j, "the header does not begin with '{'");
    if (st == SFT_OK) st = read_header(&j, f);
    free(header);
    if (st == SFT_OK) st = check_ranges(f, path, size - 8 - len);
    for (size_t i = 0; i < f->n && st == SFT_OK; i++) {
        entry *e = &f->entries[i];
        e->tensor = sft_empty(e->shape, e->ndim, e->dtype, (sft_device){SFT_CPU, 0});
        st = e->tensor ? sft_read_at(fd, path, e->tensor->data, e->end - e->begin, 8 + len + e->begin)
                       : sft_last_status();
        if (st == SFT_OK) clean_bools(e->tensor);
    }
    return st;
}

sft_safetensors *sft_safetensors_read(const char *path) {
    sft_thread()->code = SFT_OK;
    uint64_t size;
    int fd = sft_open_read(path, "load", &size);
    if (fd < 0) return NULL;
    sft_safetensors *f = calloc(1, sizeof *f);
    sft_status st = f ? read_file(f, fd, path, size) : sft_fail(SFT_ERR_MEMORY, "out of memory");
    close(fd);
    if (st == SFT_OK) return f;
    sft_safetensors_free(f);
    return NULL;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

typedef struct text {
    char *p;
    size_t n, cap;
    bool failed;
} text;

static void put(text *t, const char *s, size_t n) {
    if (t->failed || !sft_grow((void **)&t->p, &t->cap, t->n + n, 1)) {
        t->failed = true;
        return;
    }
    memcpy(t->p + t->n, s, n);
    t->n += n;
}
static void puts_(text *t, const char *s) { put(t, s, strlen(s)); }

static void put_string(text *t, const char *s) {
    put(t, "\"", 1);
    for (; *s; s++) {
        char esc[8];
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            esc[0] = '\\', esc[1] = (char)c;
            put(t, esc, 2);
        } else if (c < 0x20) {
            put(t, esc, (size_t)snprintf(esc, sizeof esc, "\\u%04x", c));
        } else {
            put(t, s, 1);
        }
    }
    put(t, "\"", 1);
}

static sft_status check_names(const char *const *names, sft_tensor *const *tensors, int n) {
    for (int i = 0; i < n; i++) {
        if (!tensors[i]) return sft_fail(SFT_ERR_ARGUMENT, "save: tensor \"%.80s\" is missing", names[i]);
        if (!strcmp(names[i], "__metadata__"))
            return sft_fail(SFT_ERR_ARGUMENT, "save: a tensor can't be named \"__metadata__\"");
        if (!valid_utf8((const unsigned char *)names[i], strlen(names[i])))
            return sft_fail(SFT_ERR_ARGUMENT, "save: the name of tensor %d is not UTF-8", i + 1);
        for (int k = 0; k < i; k++)
            if (names[k] == names[i] || !strcmp(names[k], names[i]))
                return sft_fail(SFT_ERR_ARGUMENT, "save: the name \"%.80s\" is given twice", names[i]);
    }
    return SFT_OK;
}

static void header_text(text *t, const char *const *names, sft_tensor *const *tensors, int n,
                        const char *const *meta, int nmeta) {
    char num[64];
    uint64_t at = 0;
    puts_(t, "{");
    if (nmeta) {
        puts_(t, "\"__metadata__\":{");
        for (int i = 0; i < nmeta; i++) {
            if (i) puts_(t, ",");
            put_string(t, meta[2 * i]);
            puts_(t, ":");
            put_string(t, meta[2 * i + 1]);
        }
        puts_(t, "}");
    }
    for (int i = 0; i < n; i++) {
        const sft_tensor *x = tensors[i];
        const char *dtype = "";
        for (int d = 0; d < NDTYPES; d++)
            if (dtype_names[d].dtype == x->dtype) dtype = dtype_names[d].name;
        if (i || nmeta) puts_(t, ",");
        put_string(t, names[i]);
        puts_(t, ":{\"dtype\":\"");
        puts_(t, dtype);
        puts_(t, "\",\"shape\":[");
        for (int d = 0; d < x->ndim; d++)
            put(t, num, (size_t)snprintf(num, sizeof num, d ? ",%lld" : "%lld", (long long)x->shape[d]));
        uint64_t end = at + (uint64_t)x->numel * sft_esize(x);
        put(t, num, (size_t)snprintf(num, sizeof num, "],\"data_offsets\":[%llu,%llu]}",
                                     (unsigned long long)at, (unsigned long long)end));
        at = end;
    }
    puts_(t, "}");
    while (!t->failed && t->n % 8) puts_(t, " "); /* so that the data is aligned */
}

sft_status sft_safetensors_write(const char *path, const char *const *names,
                                 sft_tensor *const *tensors, int n, const char *const *meta,
                                 int nmeta) {
    sft_thread()->code = SFT_OK;
    SFT_TRY(check_names(names, tensors, n));
    text t = {0};
    header_text(&t, names, tensors, n, meta, nmeta);
    if (t.failed || t.n > MAX_HEADER) {
        bool failed = t.failed;
        free(t.p);
        return failed ? sft_fail(SFT_ERR_MEMORY, "out of memory")
                      : sft_fail(SFT_ERR_ARGUMENT, "save: the header would exceed 100 MB");
    }
    sft_outfile f;
    sft_status st = sft_outfile_open(&f, path, "save");
    if (st == SFT_OK) {
        unsigned char head[8];
        for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)t.n >> 8 * i);
        st = sft_outfile_write(&f, head, 8);
        if (st == SFT_OK) st = sft_outfile_write(&f, t.p, t.n);
        for (int i = 0; i < n && st == SFT_OK; i++) st = sft_outfile_tensor(&f, tensors[i]);
        if (st == SFT_OK)
            st = sft_outfile_commit(&f);
        else
            sft_outfile_discard(&f);
    }
    free(t.p);
    return st;
}
