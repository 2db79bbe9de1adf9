/* sftlua.c - the stand-alone interpreter: whatever `lua` takes, with sft ready for require "sft".
 *
 * Options, exit codes and messages are those of lua 5.4, so that it can stand in for `lua`
 * anywhere. What is added: `sft` in package.preload, `sftlua --diagnose`, a Ctrl-C that reaches
 * coroutines and kernels too, and a failing exit when the output could not be written. */
#include "repl.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef SFT_HAVE_BINDING
#include "sft_lua.h"
#include "threads.h"
#else
static void sft_interrupt(void) {}
static void sft_interrupt_clear(void) {}
#endif

static const char *progname = "sftlua";

/* ---- messages ------------------------------------------------------------------------------- */

const char *sftlua_set_progname(const char *name) {
    const char *old = progname;
    progname = name;
    return old;
}

void sftlua_message(const char *msg) {
    if (progname) fprintf(stderr, "%s: ", progname);
    fprintf(stderr, "%s\n", msg ? msg : "(error object is not a string)");
    fflush(stderr);
}

int sftlua_report(lua_State *L, int status) {
    if (status != LUA_OK) {
        sftlua_message(lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    return status;
}

void sftlua_print_version(void) {
    fputs(LUA_COPYRIGHT "\n", stdout);
    fflush(stdout);
}

static void print_usage(const char *bad) {
    const char *name = progname;
    if (bad[1] == 'e' || bad[1] == 'l')
        fprintf(stderr, "%s: '%s' needs argument\n", name, bad);
    else
        fprintf(stderr, "%s: unrecognized option '%s'\n", name, bad);
    fprintf(stderr,
            "usage: %s [options] [script [args]]\n"
            "Available options are:\n"
            "  -e stat   execute string 'stat'\n"
            "  -i        enter interactive mode after executing 'script'\n"
            "  -l mod    require library 'mod' into global 'mod'\n"
            "  -l g=mod  require library 'mod' into global 'g'\n"
            "  -v        show version information\n"
            "  -E        ignore environment variables\n"
            "  -W        turn warnings on\n"
            "  --        stop handling options\n"
            "  -         stop handling options and execute stdin\n",
            name);
    fflush(stderr);
}

/* ---- Ctrl-C ---------------------------------------------------------------------------------
 * The first one raises "interrupted!" in the running Lua code, through a debug hook, and makes
 * running kernels stop. A second one within a second ends the process: the code is stuck. */

static pthread_t main_thread;
static lua_State *volatile running; /* the innermost coroutine that the main thread runs */
static volatile sig_atomic_t interrupt_pending;
static volatile sig_atomic_t interrupt_seen; /* since the current call began */
static volatile long long interrupt_time;    /* ns, of the last one seen */

static void raise_interrupted(lua_State *L, lua_Debug *ar) {
    (void)ar;
    lua_sethook(L, NULL, 0, 0);
    if (!interrupt_pending) return;
    interrupt_pending = 0;
#ifdef SFT_HAVE_BINDING
    /* A kernel that has stopped has raised the error already, and taken the flag down. */
    if (!sft_interrupted()) return;
#endif
    sft_interrupt_clear();
    luaL_error(L, "interrupted!");
}

static void on_sigint(int sig) {
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, sig); /* any thread may be handed the signal */
        return;
    }
    int saved = errno;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
    if (interrupt_seen && now - interrupt_time < 1000000000) {
        signal(sig, SIG_DFL);
        raise(sig); /* takes effect when this handler returns */
    } else {
        interrupt_seen = 1;
        interrupt_time = now;
        interrupt_pending = 1;
        sft_interrupt();
        lua_sethook(running, raise_interrupted,
                    LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
    }
    errno = saved;
}

/* The linker sends the calls of liblua's coroutine library here (--wrap), so that a Ctrl-C finds
 * the coroutine that is running: a hook set on the main one would only fire after it yields. */
int __real_lua_resume(lua_State *L, lua_State *from, int narg, int *nres);
int __wrap_lua_resume(lua_State *L, lua_State *from, int narg, int *nres);
int __wrap_lua_resume(lua_State *L, lua_State *from, int narg, int *nres) {
    static _Thread_local signed char on_main; /* 0: not known yet */
    if (on_main == 0) on_main = pthread_equal(pthread_self(), main_thread) ? 1 : -1;
    if (on_main < 0) return __real_lua_resume(L, from, narg, nres);
    lua_State *outer = running;
    running = L;
    int status = __real_lua_resume(L, from, narg, nres);
    running = outer;
    return status;
}

/* ---- running chunks ---------------------------------------------------------------------------
 */

/* Pushes the traceback of the error at 1. One that came through a module call was raised further
 * inside: lib/sft/nn/module.lua keeps where, in sft._trace. */
static void push_traceback(lua_State *L) {
    int top = lua_gettop(L);
    luaL_checkstack(L, 6, NULL);
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) {
        lua_pushliteral(L, "sft");
        if (lua_rawget(L, -2) == LUA_TTABLE) {
            lua_pushliteral(L, "_trace");
            if (lua_rawget(L, -2) == LUA_TTABLE) {
                lua_pushliteral(L, "error");
                lua_rawget(L, -2);
                lua_pushliteral(L, "traceback");
                lua_rawget(L, -3);
                if (lua_rawequal(L, -2, 1) && lua_type(L, -1) == LUA_TSTRING) {
                    lua_replace(L, top + 1);
                    lua_settop(L, top + 1);
                    return;
                }
            }
        }
    }
    lua_settop(L, top);
    luaL_traceback(L, L, NULL, 1);
}

/* The text on the top without the lines of the library's own files and of the calls that only they
 * make. */
static void fold_library(lua_State *L) {
    static const char *const hidden[] = {"/lib/sft/", "[C]: in function 'xpcall'"};
    int text = lua_gettop(L);
    const char *s = lua_tostring(L, text);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    while (s && *s) {
        const char *end = strchr(s, '\n');
        size_t n = end ? (size_t)(end - s) + 1 : strlen(s);
        bool hide = false;
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden && !hide; i++) {
            const char *at = strstr(s, hidden[i]);
            hide = at && at < s + n;
        }
        if (!hide) luaL_addlstring(&b, s, n);
        s += n;
    }
    luaL_pushresult(&b);
    lua_remove(L, text);
}

static bool is_sft_error(lua_State *L) {
    return luaL_getmetafield(L, 1, "__name") == LUA_TSTRING &&
           strcmp(lua_tostring(L, -1), "sft.Error") == 0;
}

static int message_handler(lua_State *L) {
    const char *msg = lua_tostring(L, 1);
    if (msg == NULL) {
        bool ours = is_sft_error(L);
        lua_settop(L, 1);
        if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
            if (!ours) return 1;
            msg = lua_tostring(L, -1);
        } else {
            msg = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
        }
    }
    push_traceback(L);
    fold_library(L);
    lua_pushfstring(L, "%s\n%s", msg, lua_tostring(L, -1));
    return 1;
}

int sftlua_pcall(lua_State *L, int narg, int nres, int handler) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_sigint; /* no SA_RESTART: a blocked read comes back */
    sigemptyset(&action.sa_mask);
    lua_State *outer = running;
    running = L;
    interrupt_pending = interrupt_seen = 0;
    sigaction(SIGINT, &action, &old);
    int status = lua_pcall(L, narg, nres, handler);
    sigaction(SIGINT, &old, NULL);
    running = outer;
    if (interrupt_seen) { /* it may have come too late to be raised */
        lua_sethook(L, NULL, 0, 0);
        interrupt_pending = interrupt_seen = 0;
        sft_interrupt_clear();
    }
    return status;
}

int sftlua_docall(lua_State *L, int narg, int nres) {
    int base = lua_gettop(L) - narg;
    lua_pushcfunction(L, message_handler);
    lua_insert(L, base);
    int status = sftlua_pcall(L, narg, nres, base);
    lua_remove(L, base);
    return status;
}

static int run_chunk(lua_State *L, int status) {
    if (status == LUA_OK) status = sftlua_docall(L, 0, 0);
    return sftlua_report(L, status);
}

static int run_string(lua_State *L, const char *s, const char *name) {
    return run_chunk(L, luaL_loadbuffer(L, s, strlen(s), name));
}

/* -l mod, -l name=mod: requires a module into a global. */
static int run_library(lua_State *L, const char *spec) {
    const char *eq = strchr(spec, '=');
    const char *module = eq ? eq + 1 : spec;
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    int status = sftlua_docall(L, 1, 1);
    if (status == LUA_OK) {
        lua_pushglobaltable(L);
        lua_pushlstring(L, spec, eq ? (size_t)(eq - spec) : strlen(spec));
        lua_pushvalue(L, -3);
        lua_settable(L, -3);
        lua_pop(L, 2);
    }
    return sftlua_report(L, status);
}

/* ---- the command line ----------------------------------------------------------------------- */

typedef struct options {
    bool bad, interactive, version, no_env, executed;
    int script; /* index in argv of the script (argc: none), or of the bad option */
} options;

static options parse_options(char **argv) {
    options o = {0};
    int i = 1;
    for (; argv[i]; i++) {
        const char *a = argv[i];
        o.script = i;
        if (a[0] != '-' || a[1] == '\0') return o; /* a script; or "-", which is stdin */
        if (a[1] == '-') {
            if (a[2] != '\0') goto bad;
            o.script = i + 1;
            return o;
        }
        switch (a[1]) {
        case 'E':
            if (a[2] != '\0') goto bad;
            o.no_env = true;
            break;
        case 'i':
            if (a[2] != '\0') goto bad;
            o.interactive = o.version = true;
            break;
        case 'v':
            if (a[2] != '\0') goto bad;
            o.version = true;
            break;
        case 'W':
            if (a[2] != '\0') goto bad;
            break;
        case 'e':
            o.executed = true; /* fall through */
        case 'l':
            if (a[2] == '\0') {
                i++;
                if (argv[i] == NULL || argv[i][0] == '-') goto bad;
            }
            break;
        default:
            goto bad;
        }
    }
    o.script = i;
    return o;
bad:
    o.bad = true;
    return o;
}

/* The options with an effect, in their order. */
static bool run_options(lua_State *L, char **argv, int n) {
    for (int i = 1; i < n; i++) {
        int option = argv[i][1];
        if (option == 'W') {
            lua_warning(L, "@on", 0);
        } else if (option == 'e' || option == 'l') {
            const char *extra = argv[i] + 2;
            if (*extra == '\0') extra = argv[++i];
            int status =
                option == 'e' ? run_string(L, extra, "=(command line)") : run_library(L, extra);
            if (status != LUA_OK) return false;
        }
    }
    return true;
}

static void create_arg(lua_State *L, char **argv, int argc, int script) {
    if (script == argc) script = 0; /* no script: the interpreter is arg[0] */
    lua_createtable(L, argc - script, script + 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - script);
    }
    lua_setglobal(L, "arg");
}

static int push_args(lua_State *L) {
    if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
    int n = (int)luaL_len(L, -1);
    luaL_checkstack(L, n + 3, "too many arguments to script");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, -i, i);
    lua_remove(L, -(n + 1));
    return n;
}

static int run_script(lua_State *L, char **argv) {
    const char *name = argv[0];
    if (strcmp(name, "-") == 0 && strcmp(argv[-1], "--") != 0) name = NULL; /* stdin */
    int status = luaL_loadfile(L, name);
    if (status == LUA_OK) status = sftlua_docall(L, push_args(L), LUA_MULTRET);
    return sftlua_report(L, status);
}

static int run_init(lua_State *L) {
    const char *name = "=LUA_INIT_5_4";
    const char *init = getenv(name + 1);
    if (init == NULL) {
        name = "=LUA_INIT";
        init = getenv(name + 1);
    }
    if (init == NULL) return LUA_OK;
    if (init[0] == '@') return run_chunk(L, luaL_loadfile(L, init + 1));
    return run_string(L, init, name);
}

static void preload_sft(lua_State *L) {
#ifdef SFT_HAVE_BINDING
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, luaopen_sft);
    lua_setfield(L, -2, "sft");
    lua_pop(L, 1);
#else
    (void)L;
#endif
}

/* The interpreter proper, called in protected mode; returns whether all went well. */
static int interpreter(lua_State *L) {
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_checkversion(L);
    if (argv[0] && argv[0][0]) progname = argv[0];

    bool diagnose = argc == 2 && strcmp(argv[1], "--diagnose") == 0;
    options o = {.script = argc};
    if (!diagnose && argc > 0) o = parse_options(argv);
    if (o.bad) {
        print_usage(argv[o.script]);
        return 0;
    }
    if (o.version) sftlua_print_version();
    if (o.no_env) {
        lua_pushboolean(L, 1);
        lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
    }
    luaL_openlibs(L);
    preload_sft(L);
    create_arg(L, argv, argc, o.script);
    lua_gc(L, LUA_GCGEN, 0, 0);

    if (diagnose) {
        int status = run_string(L, "print(require('sft').collect_env())", "=(diagnose)");
        lua_pushboolean(L, status == LUA_OK);
        return 1;
    }
    if (!o.no_env && run_init(L) != LUA_OK) return 0;
    if (!run_options(L, argv, o.script)) return 0;
    if (o.script < argc && run_script(L, argv + o.script) != LUA_OK) return 0;
    if (o.interactive) {
        sft_repl(L);
    } else if (o.script == argc && !o.executed && !o.version) {
        if (isatty(STDIN_FILENO)) {
            sftlua_print_version();
            sft_repl(L);
        } else {
            run_chunk(L, luaL_loadfile(L, NULL));
        }
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* ---- the process ------------------------------------------------------------------------------
 */

/* A standard stream that is closed would give its number to the next file that is opened, and
 * print would write into that file. Reading or writing this stand-in fails, as it should. */
static void guard_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
            if (got >= 0 && got != fd) close(got);
        }
}

/* Output that could not be written makes the process fail, however it ends. */
static void check_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return;
    fprintf(stderr, "%s: cannot write to stdout", progname ? progname : "sftlua");
    if (errno) fprintf(stderr, ": %s", strerror(errno));
    fputc('\n', stderr);
    fflush(stderr);
    _exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
    main_thread = pthread_self();
    guard_standard_streams();
    atexit(check_output);
    lua_State *L = luaL_newstate();
    if (L == NULL) {
        sftlua_message("cannot create state: not enough memory");
        return EXIT_FAILURE;
    }
    running = L;
    lua_pushcfunction(L, interpreter);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = lua_pcall(L, 2, 1, 0);
    bool ok = lua_toboolean(L, -1);
    sftlua_report(L, status);
    lua_close(L);
    return ok && status == LUA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
