/* dtype.c: dtypes, devices' names, and PyTorch's type promotion. */
#include "core.h"
#include <stdio.h>

typedef struct dtype_info {
    const char *name;
    uint8_t size, category;
} dtype_info;

static const dtype_info dtypes[] = {
#define X(name, ctype, bytes, cat) {#name, bytes, cat},
    SFT_DTYPES(X)
#undef X
};

static _Atomic int default_dtype = SFT_float32;

const char *sft_dtype_name(sft_dtype d) {
    return (unsigned)d < SFT_DTYPE_COUNT ? dtypes[d].name : "unknown";
}
size_t sft_dtype_size(sft_dtype d) { return (unsigned)d < SFT_DTYPE_COUNT ? dtypes[d].size : 0; }
bool sft_dtype_is_floating(sft_dtype d) { return sft_is_float(d); }
sft_dtype sft_default_dtype(void) { return (sft_dtype)default_dtype; }

sft_status sft_set_default_dtype(sft_dtype d) {
    sft_thread()->code = SFT_OK;
    if (!sft_is_float(d) || d >= SFT_DTYPE_COUNT)
        return sft_fail(SFT_ERR_ARGUMENT,
                        "set_default_dtype: only floating dtypes can be the default, got %s",
                        sft_dtype_name(d));
    default_dtype = d;
    return SFT_OK;
}

sft_dtype sft_promote_types(sft_dtype a, sft_dtype b) {
    if (a == b) return a;
    if (a > b) {
        sft_dtype t = a;
        a = b;
        b = t;
    }
    if (dtypes[b].category == 2) {
        if (a == SFT_float16 && b == SFT_bfloat16) return SFT_float32;
        return b;
    }
    /* The one integer pair in which neither holds the other: uint8 with a signed type. */
    if (a == SFT_uint8 && b == SFT_int8) return SFT_int16;
    return b;
}

bool sft_can_cast(int from, int to) {
    int cf = dtypes[from].category, ct = dtypes[to].category;
    return ct >= cf;
}

/* Tensors with dims decide first; 0-dim tensors, then numbers, count only where their category
 * (bool < integer < float) is higher. */
sft_dtype sft_result_type(const sft_value *values, int n) {
    int dim = -1, zero = -1, num = -1;
    for (int i = 0; i < n; i++) {
        const sft_value *v = &values[i];
        int d;
        int *slot;
        switch (v->kind) {
        case SFT_V_TENSOR:
            d = v->u.t->dtype;
            slot = v->u.t->wrapped ? &num : v->u.t->ndim ? &dim : &zero;
            break;
        case SFT_V_INT: d = SFT_int64, slot = &num; break;
        case SFT_V_FLOAT: d = default_dtype, slot = &num; break;
        case SFT_V_BOOL: d = SFT_bool, slot = &num; break;
        default: continue;
        }
        *slot = *slot < 0 ? d : (int)sft_promote_types((sft_dtype)*slot, (sft_dtype)d);
    }
    int r = dim;
    if (zero >= 0 && (r < 0 || dtypes[zero].category > dtypes[r].category))
        r = r < 0 ? zero : (int)sft_promote_types((sft_dtype)r, (sft_dtype)zero);
    if (num >= 0 && (r < 0 || dtypes[num].category > dtypes[r].category)) {
        if (r < 0)
            r = num;
        else
            r = (int)sft_promote_types((sft_dtype)r, (sft_dtype)num);
    }
    return r < 0 ? sft_default_dtype() : (sft_dtype)r;
}

static const char *const device_types[] = {"cpu", "cuda", "mps"};

sft_status sft_device_parse(const char *text, sft_device *out) {
    sft_thread()->code = SFT_OK;
    for (int type = 0; type < SFT_DEVICE_TYPES; type++) {
        size_t len = strlen(device_types[type]);
        if (strncmp(text, device_types[type], len) != 0) continue;
        const char *rest = text + len;
        if (!*rest) {
            *out = (sft_device){(int8_t)type, (int8_t)(type == SFT_CPU ? 0 : -1)};
            return SFT_OK;
        }
        if (*rest != ':' || !rest[1]) break;
        int index = 0;
        for (rest++; *rest; rest++) {
            if (*rest < '0' || *rest > '9') goto bad;
            index = index * 10 + (*rest - '0');
            if (index > 127) goto bad;
        }
        if (type == SFT_CPU && index != 0) break;
        *out = (sft_device){(int8_t)type, (int8_t)index};
        return SFT_OK;
    }
bad:
    return sft_fail(SFT_ERR_DEVICE,
                    "device: expected \"cpu\", \"cuda\", \"cuda:N\" or \"mps\", got \"%.40s\"", text);
}

const char *sft_device_name(sft_device d, char buf[16]) {
    const char *type = (unsigned)d.type < SFT_DEVICE_TYPES ? device_types[(int)d.type] : "?";
    if (d.type == SFT_CPU || d.index < 0)
        snprintf(buf, 16, "%s", type);
    else
        snprintf(buf, 16, "%s:%d", type, d.index);
    return buf;
}
