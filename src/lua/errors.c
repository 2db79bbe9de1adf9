/* errors.c: error objects. sft raises a table {code, message, where}: code is a short stable word
 * ("argument", "index", "oom", "autograd", ...), message the text, where "file:line: " of the
 * innermost line that is not part of the library. tostring() gives where .. message, `..` works,
 * and the methods of strings do (e:find("...")). */
#include "bind.h"
#include <stdarg.h>
#include <stdio.h>

/* "file:line: " of the innermost user line, or "". */
static void push_where(lua_State *L, binding *u) {
    lua_Debug ar;
    size_t n = u->lib_source ? strlen(u->lib_source) : 0;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline <= 0) continue;
        if (n && strncmp(ar.source, u->lib_source, n) == 0) continue;
        lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

static int raise(lua_State *L, binding *u, const char *code, const char *message) {
    luaL_checkstack(L, 6, NULL);
    lua_createtable(L, 0, 3);
    lua_pushstring(L, code);
    lua_setfield(L, -2, "code");
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    push_where(L, u);
    lua_setfield(L, -2, "where");
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->error_ref);
    lua_setmetatable(L, -2);
    return lua_error(L);
}

int sftl_error(lua_State *L, binding *u, const char *code, const char *fmt, ...) {
    char text[1536];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    raise(L, u, code, text);
    __builtin_unreachable();
}

/* Does it begin like "matmul: ..."? */
static bool names_op(const char *text) {
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789.");
    return n > 0 && text[n] == ':';
}

int sftl_raise(lua_State *L, binding *u) { sftl_raise_op(L, u, NULL); }

int sftl_raise_op(lua_State *L, binding *u, const char *op) {
    sft_status st = sft_last_status();
    if (u->has_pending && st == SFT_ERR_CALLBACK) {
        /* What a callback raised, as it was. */
        u->has_pending = false;
        lua_rawgeti(L, LUA_REGISTRYINDEX, u->pending_ref);
        lua_pushboolean(L, 0);
        lua_rawseti(L, LUA_REGISTRYINDEX, u->pending_ref);
        lua_error(L);
    }
    char text[1536];
    bool prefix = op && st != SFT_ERR_INTERRUPTED && !names_op(sft_last_error());
    snprintf(text, sizeof text, "%s%s%s", prefix ? op : "", prefix ? ": " : "", sft_last_error());
    if (st == SFT_ERR_MEMORY && u->gc.running)
        strncat(text, " (inside a finalizer, where nothing can be collected)",
                sizeof text - strlen(text) - 1);
    raise(L, u, sft_status_name(st), text);
    __builtin_unreachable();
}

const char *sftl_kind(lua_State *L, int index, char buf[64]) {
    switch (lua_type(L, index)) {
    case LUA_TNONE:
        return "nothing";
    case LUA_TNIL:
        return "nil";
    case LUA_TBOOLEAN:
        return lua_toboolean(L, index) ? "true" : "false";
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            snprintf(buf, 64, "%lld", (long long)lua_tointeger(L, index));
        else
            snprintf(buf, 64, "%.14g", lua_tonumber(L, index));
        return buf;
    case LUA_TSTRING: {
        size_t n;
        const char *s = lua_tolstring(L, index, &n);
        snprintf(buf, 64, n > 36 ? "the string \"%.36s...\"" : "the string \"%.36s\"", s);
        return buf;
    }
    default:
        if (lua_getmetatable(L, index)) {
            lua_pushstring(L, "__name");
            lua_rawget(L, -2);
            if (lua_type(L, -1) == LUA_TSTRING) {
                snprintf(buf, 64, "%.60s", lua_tostring(L, -1));
                lua_pop(L, 2);
                return buf;
            }
            lua_pop(L, 2);
        }
        snprintf(buf, 64, "a %s", luaL_typename(L, index));
        return buf;
    }
}

/* Edits between two names; two neighbours swapped count as one. */
int sftl_distance(const char *a, size_t alen, const char *b, size_t blen) {
    int rows[3][64], *two = rows[0], *one = rows[1], *row = rows[2];
    if (alen > 60 || blen > 60) return 1000;
    for (size_t j = 0; j <= blen; j++) one[j] = (int)j;
    for (size_t i = 1; i <= alen; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= blen; j++) {
            int best = one[j - 1] + (a[i - 1] != b[j - 1]);
            if (one[j] + 1 < best) best = one[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two[j - 2] + 1 < best)
                best = two[j - 2] + 1;
            row[j] = best;
        }
        int *t = two;
        two = one;
        one = row;
        row = t;
    }
    return one[blen];
}

/* ---- the object -------------------------------------------------------------------------------
 */

static void push_field(lua_State *L, int index, const char *name) {
    lua_pushstring(L, name);
    lua_rawget(L, index);
    if (lua_type(L, -1) != LUA_TSTRING) {
        lua_pop(L, 1);
        lua_pushliteral(L, "");
    }
}

static int error_tostring(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    push_field(L, 1, "where");
    push_field(L, 1, "message");
    lua_concat(L, 2);
    return 1;
}

static int error_concat(lua_State *L) {
    lua_settop(L, 2);
    luaL_tolstring(L, 1, NULL);
    luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

/* e:find(...): string.find of its text. */
static int string_method(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    lua_replace(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int error_index(lua_State *L) {
    lua_settop(L, 2);
    if (lua_type(L, 2) != LUA_TSTRING) return 0;
    lua_pushliteral(L, "");
    if (!lua_getmetatable(L, 3)) return 0;
    if (lua_getfield(L, -1, "__index") != LUA_TTABLE) return 0;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TFUNCTION) return 0;
    lua_pushcclosure(L, string_method, 1);
    return 1;
}

/* sft._error(code, message): raises an error object; for the Lua part. */
static int error_fn(lua_State *L) {
    binding *u = sftl_u(L);
    const char *code = luaL_checkstring(L, 1), *message = luaL_checkstring(L, 2);
    return raise(L, u, code, message);
}

static int is_error(lua_State *L) {
    bool yes = false;
    if (lua_getmetatable(L, 1)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, sftl_u(L)->error_ref);
        yes = lua_rawequal(L, -1, -2);
    }
    lua_pushboolean(L, yes);
    return 1;
}

void sftl_open_errors(lua_State *L, binding *u) {
    static const luaL_Reg meta[] = {{"__tostring", error_tostring},
                                    {"__concat", error_concat},
                                    {"__index", error_index},
                                    {NULL, NULL}};
    sftl_metatable(L, "sft.Error", &u->error_ref);
    sftl_setfuncs(L, u, meta);
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {
        {"_error", error_fn}, {"is_error", is_error}, {NULL, NULL}};
    sftl_setfuncs(L, u, functions);
}
