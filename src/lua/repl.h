/* repl.h - what the files of the interpreter share: sftlua.c (options, scripts, signals), repl.c
 * (the read-eval-print loop), repl_edit.c (line editing), repl_locals.c (locals that last). */
#ifndef SFT_REPL_H
#define SFT_REPL_H

#include <stdbool.h>
#include <stddef.h>
#include <lua.h>

/* ---- sftlua.c ---- */
/* lua_pcall, with Ctrl-C raising an error in the function. */
int sftlua_pcall(lua_State *L, int narg, int nres, int handler);
/* The same, with a traceback in the message. */
int sftlua_docall(lua_State *L, int narg, int nres);
/* Writes "name: msg" to stderr, or "msg" alone in the REPL. */
void sftlua_message(const char *msg);
/* Writes the error on the stack's top and pops it, unless status is LUA_OK. Returns status. */
int sftlua_report(lua_State *L, int status);
/* The name that messages begin with; NULL for none. Returns the former one. */
const char *sftlua_set_progname(const char *name);
void sftlua_print_version(void);

/* ---- repl.c ---- */
/* Runs the loop until the end of the input. */
void sft_repl(lua_State *L);

/* ---- repl_locals.c ---- */
/* Like luaL_loadbuffer(L, src, len, "=stdin"), but top-level locals of the chunk become variables
 * of the session, which chunks loaded after it see. */
int sft_repl_load(lua_State *L, const char *src, size_t len);
/* Pushes the table whose keys are the names of the session's variables. */
void sft_repl_push_names(lua_State *L);
/* Pushes the value of a variable of the session, or else of the global; may raise. */
void sft_repl_push_value(lua_State *L, const char *name);

/* ---- repl_edit.c ---- */
enum { SFT_LINE_OK, SFT_LINE_EOF, SFT_LINE_INTERRUPTED };
/* Prepares line editing, history and completion; does nothing where the terminal allows none. */
void sft_edit_open(lua_State *L);
void sft_edit_close(void);
/* Reads a line and pushes it, without its newline, when SFT_LINE_OK. It is in the history then. */
int sft_edit_line(lua_State *L, const char *prompt);
/* Whether more input waits already, as it does in the middle of a paste. */
bool sft_edit_pending(void);
/* Whether a person sits at the other end. */
bool sft_edit_is_terminal(void);

#endif
