/* ops_table.c: sft._ops(): the rows of ops.def as Lua tables, for specs, the fuzzer and tools that
 * write reference pages. */
#include "bind.h"

static const struct {
    const char *id, *grad;
} rows[] = {
#define OP(id, impl, dtypes, flags, grad, signature, doc) {#id, #grad},
#include "ops.def"
#undef OP
};

static const struct {
    const char *name, *of;
} aliases[] = {
#define OP(id, impl, dtypes, flags, grad, signature, doc)
#define ALIAS(name, of) {#name, #of},
#include "ops.def"
#undef OP
    {NULL, NULL}};

static const char *type_name(uint8_t type) {
    static const char *const names[] = {[SFT_P_TENSOR] = "Tensor",
                                        [SFT_P_TENSORS] = "Tensor[]",
                                        [SFT_P_TENSOR_SCALAR] = "Tensor|Scalar",
                                        [SFT_P_SCALAR] = "Scalar",
                                        [SFT_P_INT] = "int",
                                        [SFT_P_FLOAT] = "float",
                                        [SFT_P_BOOL] = "bool",
                                        [SFT_P_STR] = "str",
                                        [SFT_P_DIM] = "dim",
                                        [SFT_P_DIMS] = "dim[]",
                                        [SFT_P_INDEX] = "index",
                                        [SFT_P_INTS] = "int[]",
                                        [SFT_P_SIZES] = "size...",
                                        [SFT_P_FLOATS] = "float[]",
                                        [SFT_P_DTYPE] = "dtype",
                                        [SFT_P_DEVICE] = "device",
                                        [SFT_P_GENERATOR] = "Generator"};
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "?";
}

static void text(lua_State *L, const char *key, const char *value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

static void flag(lua_State *L, const char *key, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

static void push_params(lua_State *L, const sft_op_info *info) {
    lua_createtable(L, info->nparams, 0);
    for (int i = 0; i < info->nparams; i++) {
        const sft_param *p = &info->params[i];
        lua_createtable(L, 0, 5);
        lua_pushlstring(L, p->name, p->len);
        lua_setfield(L, -2, "name");
        text(L, "type", type_name(p->type));
        flag(L, "optional", p->optional);
        flag(L, "keyword_only", p->keyword_only);
        lua_pushinteger(L, p->fixed);
        lua_setfield(L, -2, "fixed");
        lua_rawseti(L, -2, i + 1);
    }
}

/* Grad is "rule", "composite", "nondiff" or "unwritten". */
static const char *grad_kind(const char *word) {
    return strncmp(word, "COMPOSITE", 9) == 0   ? "composite"
           : strncmp(word, "NONDIFF", 7) == 0   ? "nondiff"
           : strncmp(word, "UNWRITTEN", 9) == 0 ? "unwritten"
                                                : "rule";
}

static int ops(lua_State *L) {
    static const struct {
        const char *name;
        uint16_t bit;
    } flags[] = {{"method", SFT_F_METHOD},  {"func", SFT_F_FUNCTION},
                 {"nn", SFT_F_NN},          {"inplace", SFT_F_INPLACE},
                 {"out", SFT_F_OUT},        {"dst", SFT_F_DST},
                 {"view", SFT_F_VIEW},      {"index_out", SFT_F_INDEX_OUT},
                 {"mutates", SFT_F_MUTATES}};
    lua_createtable(L, SFT_OP_COUNT, 0);
    for (int i = 0; i < SFT_OP_COUNT; i++) {
        const sft_op_info *info = sft_op_get_info((sft_op_id)i);
        lua_createtable(L, 0, 20);
        text(L, "name", info->name);
        text(L, "id", rows[i].id);
        text(L, "grad", grad_kind(rows[i].grad));
        text(L, "signature", info->signature);
        text(L, "doc", info->doc);
        text(L, "dtypes", info->dtypes);
        lua_pushinteger(L, info->nout);
        lua_setfield(L, -2, "nout");
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            flag(L, flags[k].name, info->flags & flags[k].bit);
        push_params(L, info);
        lua_setfield(L, -2, "params");
        lua_rawseti(L, -2, i + 1);
    }
    lua_newtable(L);
    for (size_t i = 0; aliases[i].name; i++) text(L, aliases[i].name, aliases[i].of);
    return 2;
}

/* sft._ops(): a list of rows, and a table of second names. */
void sftl_open_ops_table(lua_State *L, binding *u, int sft) {
    static const luaL_Reg fns[] = {{"_ops", ops}, {NULL, NULL}};
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, fns);
    lua_pop(L, 1);
}
