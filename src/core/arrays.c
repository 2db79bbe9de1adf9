/* arrays.c: array files of other programs: npy (numpy) and IDX (MNIST), plain or gzipped. */
#include "files.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static const uint16_t endian_probe = 1;
static bool little(void) { return *(const uint8_t *)&endian_probe == 1; }

static void swap_bytes(char *p, int64_t n, size_t es) {
    if (es < 2) return;
    for (int64_t i = 0; i < n; i++, p += es)
        for (size_t a = 0, b = es - 1; a < b; a++, b--) {
            char c = p[a];
            p[a] = p[b];
            p[b] = c;
        }
}

/* ---- npy: versions 1 to 3, both byte orders, C and Fortran order
 * ------------------------------------ */

static const struct {
    const char *code; /* kind and size in a descr such as '<f4' */
    sft_dtype dtype;
} npy_types[] = {{"b1", SFT_bool},    {"u1", SFT_uint8},   {"i1", SFT_int8},
                 {"i2", SFT_int16},   {"i4", SFT_int32},   {"i8", SFT_int64},
                 {"f2", SFT_float16}, {"f4", SFT_float32}, {"f8", SFT_float64}};
enum { NPY_TYPES = sizeof npy_types / sizeof *npy_types };

typedef struct npy_head {
    sft_dtype dtype;
    bool swap, fortran;
    int ndim;
    int64_t shape[SFT_MAX_DIMS];
} npy_head;

static sft_status npy_bad(const char *path, const char *what) {
    return sft_fail(SFT_ERR_IO, "read_npy: %s: not a valid npy file: %s", path, what);
}

/* Puts function and file before the error that stands. */
static sft_tensor *prefixed(const char *what, const char *path) {
    char text[400];
    snprintf(text, sizeof text, "%s: %s", what, path);
    sft_error_prefix(text);
    return NULL;
}

/* The value after 'key': in the header's dictionary. */
static const char *npy_field(const char *head, const char *key) {
    char quoted[32];
    for (int q = 0; q < 2; q++) {
        snprintf(quoted, sizeof quoted, q ? "\"%s\"" : "'%s'", key);
        const char *p = strstr(head, quoted);
        if (!p) continue;
        p += strlen(quoted);
        while (*p == ' ') p++;
        if (*p != ':') continue;
        p++;
        while (*p == ' ') p++;
        return p;
    }
    return NULL;
}

static sft_status npy_parse(const char *path, const char *text, npy_head *h) {
    const char *p = npy_field(text, "descr");
    if (!p || (*p != '\'' && *p != '"'))
        return npy_bad(path, "no simple 'descr' (structured arrays are not supported)");
    p++;
    char order = '|';
    if (strchr("<>|=", *p)) order = *p++;
    int t = 0;
    while (t < NPY_TYPES && strncmp(p, npy_types[t].code, 2) != 0) t++;
    if (t == NPY_TYPES || (p[2] != '\'' && p[2] != '"'))
        return sft_fail(SFT_ERR_IO, "read_npy: %s: the dtype \"%.8s\" is not supported", path, p);
    h->dtype = npy_types[t].dtype;
    h->swap = (order == '>' && little()) || (order == '<' && !little());
    p = npy_field(text, "fortran_order");
    if (!p || (strncmp(p, "True", 4) && strncmp(p, "False", 5)))
        return npy_bad(path, "no 'fortran_order'");
    h->fortran = *p == 'T';
    p = npy_field(text, "shape");
    if (!p || *p++ != '(') return npy_bad(path, "no 'shape'");
    for (h->ndim = 0;;) {
        while (*p == ' ' || *p == ',') p++;
        if (*p == ')') break;
        if (*p < '0' || *p > '9') return npy_bad(path, "a size is not a number");
        if (h->ndim == SFT_MAX_DIMS) return npy_bad(path, "more than 16 dims");
        int64_t v = 0;
        for (; *p >= '0' && *p <= '9'; p++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
                return npy_bad(path, "a size is too large");
        if (*p == 'L') p++;
        h->shape[h->ndim++] = v;
    }
    return SFT_OK;
}

static sft_tensor *npy_load(int fd, const char *path, uint64_t size) {
    unsigned char magic[12];
    if (size < 10 || sft_read_at(fd, path, magic, size < 12 ? 10 : 12, 0) != SFT_OK ||
        memcmp(magic, "\x93NUMPY", 6) != 0) {
        npy_bad(path, "the first bytes are not those of the format");
        return NULL;
    }
    uint64_t start = magic[6] == 1 ? 10 : 12, len = magic[8] | (uint64_t)magic[9] << 8;
    if (magic[6] > 1) len |= (uint64_t)magic[10] << 16 | (uint64_t)magic[11] << 24;
    if (magic[6] < 1 || magic[6] > 3 || len > size - start || len > 1 << 20) {
        npy_bad(path, "unknown version, or a header longer than the file");
        return NULL;
    }
    char *text = malloc(len + 1);
    npy_head h = {0};
    if (!text) {
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    sft_status st = sft_read_at(fd, path, text, len, start);
    text[len] = 0;
    if (st == SFT_OK) st = npy_parse(path, text, &h);
    free(text);
    if (st != SFT_OK) return NULL;
    int64_t n = sft_checked_numel(h.shape, h.ndim, sft_dtype_size(h.dtype));
    if (n < 0) return prefixed("read_npy", path);
    uint64_t bytes = (uint64_t)n * sft_dtype_size(h.dtype);
    if (bytes > size - start - len) {
        sft_fail(SFT_ERR_IO,
                 "read_npy: %s: %llu bytes of data expected, %llu found; is it cut off?", path,
                 (unsigned long long)bytes, (unsigned long long)(size - start - len));
        return NULL;
    }
    int64_t reversed[SFT_MAX_DIMS], back[SFT_MAX_DIMS];
    for (int d = 0; d < h.ndim; d++) {
        reversed[d] = h.shape[h.ndim - 1 - d];
        back[d] = h.ndim - 1 - d;
    }
    sft_tensor *t =
        sft_empty(h.fortran ? reversed : h.shape, h.ndim, h.dtype, (sft_device){SFT_CPU, 0});
    if (!t) return prefixed("read_npy", path);
    if (sft_read_at(fd, path, t->data, bytes, start + len) != SFT_OK) {
        sft_release(t);
        return NULL;
    }
    if (h.swap) swap_bytes(t->data, n, sft_esize(t));
    if (h.dtype == SFT_bool)
        for (int64_t i = 0; i < n; i++) t->data[i] = t->data[i] != 0;
    if (!h.fortran) return t;
    sft_tensor *v = sft_op(permute, t, sft_v_ints(back, h.ndim));
    sft_tensor *c = v ? sft_op(contiguous, v) : NULL;
    sft_release(t);
    sft_release(v);
    return c;
}

sft_tensor *sft_npy_read(const char *path) {
    sft_thread()->code = SFT_OK;
    uint64_t size;
    int fd = sft_open_read(path, "read_npy", &size);
    if (fd < 0) return NULL;
    sft_tensor *t = npy_load(fd, path, size);
    close(fd);
    return t;
}

sft_status sft_npy_write(const char *path, sft_tensor *x) {
    sft_thread()->code = SFT_OK;
    int t = 0;
    while (t < NPY_TYPES && npy_types[t].dtype != x->dtype) t++;
    if (t == NPY_TYPES)
        return sft_fail(SFT_ERR_ARGUMENT, "write_npy: numpy has no %s; convert with x:float()",
                        sft_dtype_name((sft_dtype)x->dtype));
    char head[1024];
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     sft_esize(x) == 1 ? '|'
                     : little()        ? '<'
                                       : '>',
                     npy_types[t].code);
    for (int d = 0; d < x->ndim; d++)
        n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "%lld,%s",
                      (long long)x->shape[d], d + 1 < x->ndim ? " " : "");
    n += snprintf(head + 10 + n, sizeof head - 10 - (size_t)n, "), }");
    while ((n + 11) % 64) head[10 + n++] = ' ';
    head[10 + n++] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)(n & 0xff);
    head[9] = (char)(n >> 8);
    sft_outfile f;
    SFT_TRY(sft_outfile_open(&f, path, "write_npy"));
    sft_status st = sft_outfile_write(&f, head, 10 + (size_t)n);
    if (st == SFT_OK) st = sft_outfile_tensor(&f, x);
    if (st == SFT_OK) return sft_outfile_commit(&f);
    sft_outfile_discard(&f);
    return st;
}

/* ---- IDX
 * -------------------------------------------------------------------------------------------- */

static sft_status gz_read(gzFile f, const char *path, void *data, size_t bytes) {
    char *p = data;
    while (bytes) {
        int n = gzread(f, p, bytes < (1u << 28) ? (unsigned)bytes : (1u << 28));
        if (n < 0) {
            int code;
            return sft_fail(SFT_ERR_IO, "read_idx: %s: %s", path, gzerror(f, &code));
        }
        if (n == 0)
            return sft_fail(SFT_ERR_IO,
                            "read_idx: %s: the file ends %llu bytes too early; is it cut off?",
                            path, (unsigned long long)bytes);
        p += n;
        bytes -= (size_t)n;
    }
    return SFT_OK;
}

/* The end of the data, and of a gzip file's check sums, or an error. */
static sft_status gz_finish(gzFile f, const char *path, const sft_tensor *x) {
    char extra;
    int code = Z_OK, n = gzread(f, &extra, 1);
    if (n > 0)
        return sft_fail(SFT_ERR_IO, "read_idx: %s: more data than its sizes %s say", path,
                        SFT_SHAPE(x));
    const char *text = gzerror(f, &code);
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END))
        return sft_fail(SFT_ERR_IO, "read_idx: %s: %s; is it cut off?", path, text);
    return SFT_OK;
}

/* `size`: of the file, which a plain one can't exceed. */
static sft_tensor *idx_load(gzFile f, const char *path, uint64_t size) {
    static const struct {
        uint8_t code;
        sft_dtype dtype;
    } types[] = {{8, SFT_uint8},  {9, SFT_int8},     {11, SFT_int16},
                 {12, SFT_int32}, {13, SFT_float32}, {14, SFT_float64}};
    uint8_t head[4];
    if (gz_read(f, path, head, 4) != SFT_OK) return NULL;
    int t = 0;
    while (t < 6 && types[t].code != head[2]) t++;
    if (head[0] || head[1] || t == 6 || head[3] > SFT_MAX_DIMS) {
        sft_fail(
            SFT_ERR_IO,
            "read_idx: %s: not an IDX file (it begins with %02x %02x %02x %02x, expected 00 00, a "
            "type code and the number of dims)",
            path, head[0], head[1], head[2], head[3]);
        return NULL;
    }
    int64_t shape[SFT_MAX_DIMS];
    for (int d = 0; d < head[3]; d++) {
        uint8_t b[4];
        if (gz_read(f, path, b, 4) != SFT_OK) return NULL;
        shape[d] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
    }
    int64_t n = sft_checked_numel(shape, head[3], sft_dtype_size(types[t].dtype));
    if (n < 0) return prefixed("read_idx", path);
    uint64_t bytes = (uint64_t)n * sft_dtype_size(types[t].dtype),
             start = 4 + 4 * (uint64_t)head[3];
    if (gzdirect(f) && bytes > size - start) {
        sft_fail(
            SFT_ERR_IO,
            "read_idx: %s: the file ends %llu bytes too early for its sizes %s; is it cut off?",
            path, (unsigned long long)(bytes - (size - start)),
            sft_shape_text(shape, head[3], (char[160]){0}, 160));
        return NULL;
    }
    sft_tensor *x = sft_empty(shape, head[3], types[t].dtype, (sft_device){SFT_CPU, 0});
    if (!x) return prefixed("read_idx", path);
    if (gz_read(f, path, x->data, bytes) == SFT_OK && gz_finish(f, path, x) == SFT_OK) {
        if (little()) swap_bytes(x->data, x->numel, sft_esize(x));
        return x;
    }
    sft_release(x);
    return NULL;
}

sft_tensor *sft_idx_read(const char *path) {
    sft_thread()->code = SFT_OK;
    uint64_t size;
    int fd = sft_open_read(path, "read_idx", &size);
    if (fd < 0) return NULL;
    gzFile f = gzdopen(fd, "rb");
    if (!f) {
        close(fd);
        sft_fail(SFT_ERR_MEMORY, "out of memory");
        return NULL;
    }
    gzbuffer(f, 1 << 18);
    sft_tensor *t = idx_load(f, path, size);
    gzclose(f);
    return t;
}
