/* repl.c - the read-eval-print loop of sftlua.
 *
 * Lines are read until they make a chunk, first tried as "return <line>", and the values go
 * through the global print, all as `lua` does it. What is more on a terminal: `sft` is there,
 * locals last (repl_locals.c), lines that were pasted together are one chunk where they can be, and
 * Ctrl-C always comes back to the prompt. Where the input is no terminal, each line is echoed
 * after its prompt, as readline does for `lua -i`. */
#include "repl.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

static const char pasted_key = 0; /* registry: list of pasted lines that wait for their turn */

/* ---- lines -------------------------------------------------------------------------------- */

/* Pushes the prompt: _PROMPT and _PROMPT2 may be any value, and change any time. */
static const char *push_prompt(lua_State *L, bool first) {
    if (lua_getglobal(L, first ? "_PROMPT" : "_PROMPT2") == LUA_TNIL) {
        lua_pop(L, 1);
        return lua_pushstring(L, first ? "> " : ">> ");
    }
    const char *p = luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    return p;
}

/* Takes the next of the lines that were pasted; false if there is none. */
static bool push_pasted(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pasted_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        return false;
    }
    int list = lua_gettop(L);
    lua_Integer n = luaL_len(L, list);
    lua_rawgeti(L, list, 1);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i + 1);
        lua_rawseti(L, list, i);
    }
    lua_remove(L, list);
    if (n > 0) return true;
    lua_pop(L, 1);
    return false;
}

static void drop_pasted(lua_State *L) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &pasted_key);
}

static int push_line(lua_State *L, bool first, bool *pasted) {
    *pasted = push_pasted(L);
    if (*pasted) return SFT_LINE_OK;
    const char *prompt = push_prompt(L, first);
    int got = sft_edit_line(L, prompt);
    if (got == SFT_LINE_OK) lua_remove(L, -2);
    if (got == SFT_LINE_INTERRUPTED) drop_pasted(L);
    return got;
}

/* ---- chunks ------------------------------------------------------------------------------- */

/* Whether a syntax error (on the top) says that the chunk ended too early. */
static bool incomplete(lua_State *L, int status) {
    if (status != LUA_ERRSYNTAX) return false;
    size_t len;
    const char *msg = lua_tolstring(L, -1, &len);
    static const char mark[] = "<eof>";
    return len >= sizeof mark - 1 && strcmp(msg + len - (sizeof mark - 1), mark) == 0;
}

/* Loads the text at index 1 as "return <text>", or else as statements. */
static int load_text(lua_State *L, bool try_return) {
    size_t len;
    if (try_return) {
        lua_pushfstring(L, "return %s;", lua_tostring(L, 1));
        const char *text = lua_tolstring(L, -1, &len);
        int status = sft_repl_load(L, text, len);
        lua_remove(L, -2);
        if (status == LUA_OK) return status;
        lua_pop(L, 1);
    }
    const char *text = lua_tolstring(L, 1, &len);
    return sft_repl_load(L, text, len);
}

/* Whether the text at index 1, which has a syntax error, is the beginning of an expression: "1 +".
 * (`lua` reports it; a person at a terminal wants to go on.) */
static bool half_expression(lua_State *L, int status) {
    if (status != LUA_ERRSYNTAX) return false;
    const char *text = lua_pushfstring(L, "return %s", lua_tostring(L, 1));
    status = luaL_loadbuffer(L, text, strlen(text), "=stdin");
    bool half = incomplete(L, status);
    lua_pop(L, 2);
    return half;
}

/* Appends the lines of a paste, which wait in the terminal already, to the text at index 1. When
 * all of them together are no chunk, they are taken one by one, as if they had been typed. */
static void gather_paste(lua_State *L) {
    lua_createtable(L, 8, 0);
    int lines = lua_gettop(L);
    lua_pushvalue(L, 1);
    lua_rawseti(L, lines, 1);
    lua_Integer n = 1;
    bool ignored;
    while (sft_edit_pending() && push_line(L, false, &ignored) == SFT_LINE_OK)
        lua_rawseti(L, lines, ++n);
    lua_settop(L, lines);
    if (n == 1) return;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, lines, i);
        luaL_addvalue(&b);
        if (i < n) luaL_addchar(&b, '\n');
    }
    luaL_pushresult(&b);
    lua_replace(L, 1);
    int status = load_text(L, true);
    bool whole = status == LUA_OK || incomplete(L, status);
    lua_settop(L, lines);
    if (whole) return;
    lua_rawgeti(L, lines, 1); /* the first line now, the others in their turn */
    lua_replace(L, 1);
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 2; i <= n; i++) {
        lua_rawgeti(L, lines, i);
        lua_rawseti(L, -2, i - 1);
    }
    lua_rawsetp(L, LUA_REGISTRYINDEX, &pasted_key);
    lua_settop(L, lines);
}

/* Reads a chunk; leaves the function or the message. Returns a status of Lua's, or one of these: */
enum { READ_EOF = -1, READ_AGAIN = -2 };

static int read_chunk(lua_State *L) {
    bool terminal = sft_edit_is_terminal(), pasted;
    lua_settop(L, 0);
    int got = push_line(L, true, &pasted);
    if (got == SFT_LINE_EOF) return READ_EOF;
    if (got == SFT_LINE_INTERRUPTED) return READ_AGAIN;
    if (terminal && !pasted && sft_edit_pending()) {
        gather_paste(L);
        lua_settop(L, 1);
    }
    const char *line = lua_tostring(L, 1);
    if (line[0] == '=') { /* "=x", as in older versions */
        lua_pushfstring(L, "return %s", line + 1);
        lua_replace(L, 1);
    }
    int status = load_text(L, true);
    while (incomplete(L, status) || (terminal && half_expression(L, status))) {
        got = push_line(L, false, &pasted);
        if (got == SFT_LINE_INTERRUPTED) return READ_AGAIN;
        if (got == SFT_LINE_EOF) {
            lua_settop(L, 2); /* the message */
            break;
        }
        lua_remove(L, -2); /* the message */
        lua_pushliteral(L, "\n");
        lua_insert(L, -2);
        lua_concat(L, 3);
        /* `lua` shows no value of an expression of several lines; a person expects it */
        status = load_text(L, terminal);
    }
    lua_remove(L, 1);
    return status;
}

static void print_values(lua_State *L) {
    int n = lua_gettop(L);
    if (n == 0) return;
    luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
    lua_getglobal(L, "print");
    lua_insert(L, 1);
    if (sftlua_pcall(L, n, 0, 0) != LUA_OK)
        sftlua_message(lua_pushfstring(L, "error calling 'print' (%s)", lua_tostring(L, -1)));
}

/* The one global name of sft's, and only here. A sft that can't be loaded doesn't stop the REPL. */
static void set_global_sft(lua_State *L) {
#ifdef SFT_HAVE_BINDING
    lua_settop(L, 0);
    if (lua_getglobal(L, "sft") == LUA_TNIL) {
        lua_getglobal(L, "require");
        lua_pushliteral(L, "sft");
        if (sftlua_docall(L, 1, 1) == LUA_OK)
            lua_setglobal(L, "sft");
        else
            sftlua_message(lua_tostring(L, -1));
    }
#endif
    lua_settop(L, 0);
}

void sft_repl(lua_State *L) {
    const char *old = sftlua_set_progname(NULL);
    set_global_sft(L);
    sft_edit_open(L);
    int status;
    while ((status = read_chunk(L)) != READ_EOF) {
        if (status == READ_AGAIN) continue;
        if (status == LUA_OK) status = sftlua_docall(L, 0, LUA_MULTRET);
        if (status == LUA_OK)
            print_values(L);
        else
            sftlua_report(L, status);
    }
    sft_edit_close();
    lua_settop(L, 0);
    putchar('\n');
    fflush(stdout);
    sftlua_set_progname(old);
}
