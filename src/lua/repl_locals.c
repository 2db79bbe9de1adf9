/* repl_locals.c - locals that outlive their line in the REPL.
 *
 * A `local` at the top level of a chunk would be gone on the next line. So that pasted script
 * code works, such a statement is turned into assignments to the session's variables before the
 * chunk is compiled:
 *
 *     local a, b <const> = f()     ->  _sft_local.a, _sft_const.b = f()
 *     local function g(x)          ->  _sft_local.g = function (x)
 *
 * Only the beginning of the statement changes, so no expression needs to be parsed: a scanner of
 * tokens that counts open blocks is enough. Functions and inner blocks stay as they are.
 *
 * The chunk's _ENV is then a table that holds the session's variables and falls back to _G; new
 * globals go to _G, where all other code sees them. Variables whose value a plain table cannot
 * tell from an absent one (const ones, and those that hide a global) make the fall-back a
 * function; else it is _G itself, so that globals in REPL code cost next to nothing more.
 */
#include "repl.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

/* ---- tokens ------------------------------------------------------------------------------- */

typedef enum token_kind { TK_EOF, TK_NAME, TK_OTHER } token_kind;

typedef struct scanner {
    const char *src, *end;
    const char *tok; /* the current token */
    size_t len;
    token_kind kind;
} scanner;

/* Length of the opening "[==[" at p, or 0; *level is the number of "=". */
static size_t long_bracket(const char *p, const char *end, size_t *level) {
    const char *q = p + 1;
    while (q < end && *q == '=') q++;
    if (q >= end || *q != '[') return 0;
    *level = (size_t)(q - p) - 1;
    return *level + 2;
}

static const char *skip_long(const char *p, const char *end, size_t level) {
    for (; p < end; p++) {
        if (*p != ']') continue;
        const char *q = p + 1;
        while (q < end && *q == '=') q++;
        if (q < end && *q == ']' && (size_t)(q - p) - 1 == level) return q + 1;
    }
    return end;
}

static const char *skip_string(const char *p, const char *end) {
    char quote = *p++;
    while (p < end && *p != quote) {
        if (*p == '\\' && p + 1 < end) p++;
        p++;
    }
    return p < end ? p + 1 : end;
}

static const char *skip_blanks(const char *p, const char *end) {
    for (;;) {
        while (p < end && isspace((unsigned char)*p)) p++;
        if (end - p < 2 || p[0] != '-' || p[1] != '-') return p;
        p += 2;
        size_t level, n = p < end && *p == '[' ? long_bracket(p, end, &level) : 0;
        if (n > 0)
            p = skip_long(p + n, end, level);
        else
            while (p < end && *p != '\n') p++;
    }
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void next_token(scanner *s, const char *from) {
    const char *p = skip_blanks(from, s->end);
    s->tok = p;
    s->kind = TK_OTHER;
    size_t level, n;
    if (p >= s->end) {
        s->kind = TK_EOF;
    } else if (isdigit((unsigned char)*p) ||
               (*p == '.' && p + 1 < s->end && isdigit((unsigned char)p[1]))) {
        /* a number: whatever looks like part of it, with the sign of an exponent */
        while (p < s->end &&
               (name_char(*p) || *p == '.' || ((*p == '+' || *p == '-') && strchr("eEpP", p[-1]))))
            p++;
    } else if (name_char(*p)) {
        s->kind = TK_NAME;
        while (p < s->end && name_char(*p)) p++;
    } else if (*p == '"' || *p == '\'') {
        p = skip_string(p, s->end);
    } else if (*p == '[' && (n = long_bracket(p, s->end, &level)) > 0) {
        p = skip_long(p + n, s->end, level);
    } else if (s->end - p >= 2 && p[1] == '=' && strchr("=~<>", *p)) {
        p += 2;
    } else {
        p++;
    }
    s->len = (size_t)(p - s->tok);
}

static void advance(scanner *s) { next_token(s, s->tok + s->len); }

static bool is(const scanner *s, const char *word) {
    return s->len == strlen(word) && memcmp(s->tok, word, s->len) == 0;
}

static bool is_any(const scanner *s, const char *const *words) {
    for (; *words; words++)
        if (is(s, *words)) return true;
    return false;
}

/* ---- the rewriting -------------------------------------------------------------------------- */

/* Appends the line breaks of a part that was replaced: messages keep their line numbers. */
static void add_newlines(luaL_Buffer *b, const char *p, const char *end) {
    for (; p < end; p++)
        if (*p == '\n') luaL_addchar(b, '\n');
}

static bool same_name(const scanner *a, const scanner *b) {
    return a->len == b->len && memcmp(a->tok, b->tok, a->len) == 0;
}

/* Whether the name at s comes again in its list; the last one is the one that counts. */
static bool named_again(scanner s) {
    scanner first = s;
    for (advance(&s);; advance(&s)) {
        if (is(&s, "<")) { /* an attribute */
            advance(&s);
            advance(&s);
        } else if (is(&s, ",")) {
            advance(&s);
            if (same_name(&first, &s)) return true;
        } else {
            return false;
        }
    }
}

/* Parses `name <attrib>, ...` at s and leaves s after it. False if it should stay a local: one
 * that is to be closed at the end of the chunk. Writes the targets when b is there. */
static bool name_list(scanner *s, luaL_Buffer *b) {
    for (;;) {
        if (s->kind != TK_NAME) return false;
        scanner name = *s;
        bool constant = false;
        advance(s);
        if (is(s, "<")) {
            advance(s);
            if (is(s, "const"))
                constant = true;
            else
                return false;
            advance(s);
            if (!is(s, ">")) return false;
            advance(s);
        }
        if (b) {
            luaL_addstring(b, constant ? "_sft_const" : "_sft_local");
            if (named_again(name)) {
                luaL_addstring(b, "[1]"); /* a value that is thrown away */
            } else {
                luaL_addchar(b, '.');
                luaL_addlstring(b, name.tok, name.len);
            }
        }
        if (!is(s, ",")) return true;
        if (b) luaL_addchar(b, ',');
        advance(s);
    }
}

/* Pushes the chunk with its top-level locals turned into variables; false (and nothing pushed) if
 * it has none. The chunk is known to be correct Lua. */
static bool push_rewritten(lua_State *L, const char *src, size_t len) {
    static const char *const openers[] = {"function", "do", "if", "repeat", NULL};
    static const char *const closers[] = {"end", "until", NULL};
    scanner s = {.src = src, .end = src + len};
    luaL_Buffer b;
    const char *copied = src; /* all before this is in the buffer */
    bool changed = false;
    int depth = 0;
    luaL_buffinit(L, &b);
    for (next_token(&s, src); s.kind != TK_EOF; advance(&s)) {
        if (s.kind != TK_NAME) continue;
        if (is_any(&s, openers)) depth++;
        if (is_any(&s, closers)) depth--;
        if (depth != 0 || !is(&s, "local")) continue;

        const char *begin = s.tok;
        scanner t = s;
        advance(&t);
        bool is_function = is(&t, "function");
        if (is_function) advance(&t);
        scanner list = t;
        if (!name_list(&t, NULL)) continue;
        luaL_addlstring(&b, copied, (size_t)(begin - copied));
        name_list(&list, &b);
        if (is_function) {
            luaL_addstring(&b, "=function ");
            depth++;
        } else if (!is(&t, "=")) {
            luaL_addstring(&b, "=nil;");
        }
        add_newlines(&b, begin, t.tok);
        copied = t.tok;
        changed = true;
        s = t;
        s.len = 0; /* t has not been looked at yet */
    }
    luaL_addlstring(&b, copied, (size_t)(s.end - copied));
    luaL_pushresult(&b);
    if (!changed) lua_pop(L, 1);
    return changed;
}

/* ---- the session's variables ------------------------------------------------------------------
 * Registry entry: {env = the chunks' _ENV, kinds = name -> VAR_LOCAL or VAR_CONST,
 *                  consts = name -> value of a const variable} */

enum { VAR_LOCAL = 1, VAR_CONST = 2 };
enum { UP_ENV = 1, UP_KINDS, UP_CONSTS };
static const char session_key = 0;

#define UP(i) lua_upvalueindex(i)

/* Looks a name's kind up in the table at index kinds; 0 for a global. */
static int kind_of(lua_State *L, int kinds, int name) {
    lua_pushvalue(L, name);
    lua_rawget(L, kinds);
    int kind = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return kind;
}

static int env_index(lua_State *L) { /* (env, name) */
    int kind = kind_of(L, UP(UP_KINDS), 2);
    if (kind == VAR_LOCAL) return 0; /* or it would have been found: its value is nil */
    if (kind == VAR_CONST) {
        lua_settop(L, 2);
        lua_rawget(L, UP(UP_CONSTS));
        return 1;
    }
    lua_pushglobaltable(L);
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

static int env_newindex(lua_State *L) { /* (env, name, value) */
    int kind = kind_of(L, UP(UP_KINDS), 2);
    if (kind == VAR_CONST)
        return luaL_error(L, "attempt to assign to const variable '%s'", lua_tostring(L, 2));
    if (kind == VAR_LOCAL) {
        lua_rawset(L, 1);
    } else {
        lua_pushglobaltable(L);
        lua_insert(L, 2);
        lua_settable(L, 2);
    }
    return 0;
}

/* From now on, names that the environment lacks are looked up by env_index. */
static void use_index_function(lua_State *L) {
    lua_getmetatable(L, UP(UP_ENV));
    lua_pushvalue(L, UP(UP_ENV));
    lua_pushvalue(L, UP(UP_KINDS));
    lua_pushvalue(L, UP(UP_CONSTS));
    lua_pushcclosure(L, env_index, 3);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

static void declare(lua_State *L, int kind) { /* (proxy, name, value) */
    if (lua_type(L, 2) != LUA_TSTRING) return;
    lua_pushvalue(L, 2);
    lua_pushinteger(L, kind);
    lua_rawset(L, UP(UP_KINDS));

    lua_pushvalue(L, 2); /* the value goes to one table and leaves the other */
    lua_pushvalue(L, 3);
    lua_rawset(L, kind == VAR_CONST ? UP(UP_CONSTS) : UP(UP_ENV));
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_rawset(L, kind == VAR_CONST ? UP(UP_ENV) : UP(UP_CONSTS));

    lua_pushglobaltable(L);
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
    /* `local print = print` hides nothing, and stays cheap */
    bool hides = !lua_isnil(L, -1) && !lua_rawequal(L, -1, 3);
    lua_pop(L, 2);
    if (kind == VAR_CONST || hides) use_index_function(L);
}

static int declare_local(lua_State *L) {
    declare(L, VAR_LOCAL);
    return 0;
}

static int declare_const(lua_State *L) {
    declare(L, VAR_CONST);
    return 0;
}

/* env[name] = a table on which an assignment declares a variable of the session */
static void add_proxy(lua_State *L, int session, const char *name, lua_CFunction fn) {
    lua_getfield(L, session, "env");
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_getfield(L, session, "env");
    lua_getfield(L, session, "kinds");
    lua_getfield(L, session, "consts");
    lua_pushcclosure(L, fn, 3);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* Pushes the session's table, made when it is first needed. */
static void push_session(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &session_key) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 3);
    int session = lua_gettop(L);
    lua_newtable(L);
    lua_setfield(L, session, "env");
    lua_newtable(L);
    lua_setfield(L, session, "kinds");
    lua_newtable(L);
    lua_setfield(L, session, "consts");
    add_proxy(L, session, "_sft_local", declare_local);
    add_proxy(L, session, "_sft_const", declare_const);

    lua_getfield(L, session, "env");
    lua_createtable(L, 0, 2);
    lua_pushglobaltable(L);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, -2);
    lua_getfield(L, session, "kinds");
    lua_getfield(L, session, "consts");
    lua_pushcclosure(L, env_newindex, 3);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    lua_pushvalue(L, session);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &session_key);
}

void sft_repl_push_names(lua_State *L) {
    push_session(L);
    lua_getfield(L, -1, "kinds");
    lua_remove(L, -2);
}

void sft_repl_push_value(lua_State *L, const char *name) {
    push_session(L);
    lua_getfield(L, -1, "env");
    lua_getfield(L, -1, name);
    if (lua_isnil(L, -1)) { /* a const one, perhaps */
        lua_pop(L, 1);
        lua_getfield(L, -2, "consts");
        lua_getfield(L, -1, name);
        lua_remove(L, -2);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* Gives the function on the stack's top the session's environment, if the session has variables
 * (or is about to: declares). */
static void set_env(lua_State *L, bool declares) {
    int function = lua_gettop(L);
    push_session(L);
    lua_getfield(L, -1, "kinds");
    lua_pushnil(L);
    if (lua_next(L, -2)) declares = true;
    lua_settop(L, function + 1);
    if (declares) {
        lua_getfield(L, -1, "env");
        if (lua_setupvalue(L, function, 1) == NULL) lua_pop(L, 1);
    }
    lua_settop(L, function);
}

int sft_repl_load(lua_State *L, const char *src, size_t len) {
    luaL_checkstack(L, 20, "too deep");
    /* The chunk as it was typed comes first: its syntax errors are the ones to show. */
    int status = luaL_loadbuffer(L, src, len, "=stdin");
    if (status != LUA_OK) return status;
    bool declares = push_rewritten(L, src, len);
    if (declares) {
        size_t n;
        const char *text = lua_tolstring(L, -1, &n);
        if (luaL_loadbuffer(L, text, n, "=stdin") == LUA_OK)
            lua_replace(L, -3);
        else
            lua_pop(L, 1); /* then the chunk runs as it was typed */
        lua_pop(L, 1);
    }
    set_env(L, declares);
    return LUA_OK;
}
