/* repl_edit.c - where the REPL's lines come from: line editing with history and completion on a
 * terminal, plain reading elsewhere.
 *
 * libedit is opened with dlopen when the first prompt is due: scripts don't pay for it, and where
 * it is missing, or the terminal can't do it, lines are read as the terminal gives them. The
 * history file (~/.sft_history) is plain text, a line each, appended to at once, so that several
 * sessions and a killed one lose nothing. */
#include "repl.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<histedit.h>)
#include <histedit.h>
#define HAVE_HISTEDIT 1
#endif
#endif

enum { HISTORY_LINES = 2000, PASTE_WAIT_MS = 10 };

static volatile sig_atomic_t prompt_interrupted;
static struct sigaction old_sigint;
static bool handling_sigint;
static char *history_path;

static void on_sigint(int sig) {
    (void)sig;
    prompt_interrupted = 1;
}

bool sft_edit_is_terminal(void) { return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO); }

bool sft_edit_pending(void) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int n;
    return sft_edit_is_terminal() && poll(&p, 1, PASTE_WAIT_MS) > 0 && (p.revents & POLLIN) &&
           ioctl(STDIN_FILENO, FIONREAD, &n) == 0 && n > 0; /* 0: the end of the input */
}

/* ---- completion ------------------------------------------------------------------------------
 * Names are gathered by a Lua call in protected mode, since metamethods may raise. */

static const char *const keywords[] = {"and",   "break", "do",       "else",  "elseif", "end",
                                       "false", "for",   "function", "goto",  "if",     "in",
                                       "local", "nil",   "not",      "or",    "repeat", "return",
                                       "then",  "true",  "until",    "while", NULL};

static bool name_char(int c) { return isalnum(c) || c == '_'; }

typedef struct names { /* the candidates, in the table at stack index set */
    lua_State *L;
    int set;
    const char *prefix;
    size_t prefix_len;
} names;

static void add_name(names *n, const char *s) {
    if (strncmp(s, n->prefix, n->prefix_len) != 0) return;
    if (s[0] == '_' && n->prefix_len == 0) return; /* the private ones come when asked for */
    if (isdigit((unsigned char)s[0]) || s[0] == '\0') return;
    for (const char *p = s; *p; p++)
        if (!name_char((unsigned char)*p)) return;
    lua_pushboolean(n->L, 1);
    lua_setfield(n->L, n->set, s);
}

/* Adds the string keys (or, of a list, the string values) of the table on the top. */
static void add_keys(names *n) {
    lua_State *L = n->L;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            add_name(n, lua_tostring(L, -2));
        else if (lua_type(L, -1) == LUA_TSTRING)
            add_name(n, lua_tostring(L, -1));
    }
}

/* Adds the fields of the value on the top, and what its metatable gives it. */
static void add_fields(names *n) {
    lua_State *L = n->L;
    int top = lua_gettop(L);
    lua_pushvalue(L, top);
    for (int depth = 0; depth < 16; depth++) { /* -1: the value */
        if (lua_istable(L, -1)) add_keys(n);
        if (luaL_getmetafield(L, -1, "__methods") == LUA_TTABLE) add_keys(n);
        lua_settop(L, top + 1);
        int type = luaL_getmetafield(L, -1, "__index");
        if (type == LUA_TNIL || type == LUA_TFUNCTION) break;
        lua_replace(L, top + 1);
    }
    lua_settop(L, top);
}

/* (word) -> set of the names that the last part of "a.b:c" can become */
static int complete(lua_State *L) {
    const char *word = luaL_checkstring(L, 1);
    const char *last = word + strlen(word);
    while (last > word && name_char((unsigned char)last[-1])) last--;
    lua_newtable(L);
    names n = {.L = L, .set = lua_gettop(L), .prefix = last, .prefix_len = strlen(last)};
    luaL_checkstack(L, 20, NULL);
    if (last == word) {
        for (const char *const *k = keywords; *k; k++) add_name(&n, *k);
        sft_repl_push_names(L);
        add_keys(&n);
        lua_pushglobaltable(L);
        add_fields(&n);
    } else {
        const char *p = word;
        for (bool first = true; p < last; first = false) {
            const char *end = p;
            while (name_char((unsigned char)*end)) end++;
            const char *part = lua_pushlstring(L, p, (size_t)(end - p));
            if (first) {
                sft_repl_push_value(L, part);
            } else {
                lua_pushvalue(L, -1);
                lua_gettable(L, -3);
            }
            p = end + 1;
        }
        add_fields(&n);
    }
    lua_settop(L, n.set);
    return 1;
}

/* ---- the history file ----------------------------------------------------------------------- */

static void append_history(const char *line) {
    if (history_path == NULL) return;
    int fd = open(history_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    size_t len = strlen(line);
    char *text = malloc(len + 1);
    if (text) { /* a single write: two sessions don't mix their lines */
        memcpy(text, line, len);
        text[len] = '\n';
        if (write(fd, text, len + 1) < 0) errno = 0; /* no history, then */
    }
    free(text);
    close(fd);
}

/* Calls add with each of the last lines of the file, and shortens it when it is far too long. */
static void load_history(void (*add)(const char *line)) {
    FILE *f = history_path ? fopen(history_path, "re") : NULL;
    if (f == NULL) return;
    char *line = NULL, **ring = calloc(HISTORY_LINES, sizeof *ring);
    size_t size = 0, n = 0;
    ssize_t len;
    while (ring && (len = getline(&line, &size, f)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        free(ring[n % HISTORY_LINES]);
        ring[n++ % HISTORY_LINES] = strdup(line);
    }
    fclose(f);
    free(line);
    if (ring == NULL) return;
    bool shorten = n > 4 * HISTORY_LINES;
    if (shorten && truncate(history_path, 0) != 0) shorten = false;
    for (size_t i = n > HISTORY_LINES ? n - HISTORY_LINES : 0; i < n; i++) {
        char *s = ring[i % HISTORY_LINES];
        if (s == NULL) continue;
        add(s);
        if (shorten) append_history(s);
        free(s);
    }
    free(ring);
}

static void find_history_file(void) {
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0') return;
    size_t size = strlen(home) + sizeof "/.sft_history";
    history_path = malloc(size);
    if (history_path) snprintf(history_path, size, "%s/.sft_history", home);
}

/* ---- libedit ------------------------------------------------------------------------------- */

#ifdef HAVE_HISTEDIT
static struct {
    void *handle;
    EditLine *el;
    History *history;
    lua_State *L;
    const char *prompt;
    EditLine *(*init)(const char *, FILE *, FILE *, FILE *);
    void (*end)(EditLine *);
    const char *(*gets)(EditLine *, int *);
    int (*set)(EditLine *, int, ...);
    void (*resize)(EditLine *);
    const LineInfo *(*line)(EditLine *);
    int (*insertstr)(EditLine *, const char *);
    History *(*history_init)(void);
    void (*history_end)(History *);
    int (*history_call)(History *, HistEvent *, int, ...);
} ed;

static char *get_prompt(EditLine *el) {
    (void)el;
    return (char *)(size_t)ed.prompt; /* libedit only reads it */
}

static void remember(const char *line) {
    HistEvent event;
    ed.history_call(ed.history, &event, H_ENTER, line);
}

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the candidates below the line, in columns as `ls` does. */
static void show_names(const char **list, size_t n) {
    struct winsize w;
    size_t width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
    size_t longest = 0;
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) > longest) longest = strlen(list[i]);
    size_t columns = width / (longest + 2) > 0 ? width / (longest + 2) : 1;
    size_t rows = (n + columns - 1) / columns;
    putchar('\n');
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = r; i < n; i += rows) printf("%-*s", (int)(longest + 2), list[i]);
        putchar('\n');
    }
    fflush(stdout);
}

/* Inserts what all names have in common, or shows them. The set is on Lua's stack. */
static unsigned char offer_names(lua_State *L, EditLine *el, size_t typed) {
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) n++;
    const char **list = n ? malloc(n * sizeof *list) : NULL;
    if (list == NULL) return CC_REFRESH_BEEP;
    n = 0; /* the set keeps the strings alive */
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) list[n++] = lua_tostring(L, -2);
    qsort(list, n, sizeof *list, compare_strings);
    size_t common = strlen(list[0]);
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        while (k < common && list[i][k] == list[0][k]) k++;
        common = k;
    }
    unsigned char result = CC_REFRESH;
    if (common > typed) {
        char text[256];
        snprintf(text, sizeof text, "%.*s", (int)(common - typed), list[0] + typed);
        ed.insertstr(el, text);
    } else if (n > 1) {
        show_names(list, n);
        result = CC_REDISPLAY;
    }
    free(list);
    return result;
}

static unsigned char on_tab(EditLine *el, int ch) {
    (void)ch;
    const LineInfo *line = ed.line(el);
    const char *p = line->cursor, *begin = line->buffer;
    while (p > begin && isspace((unsigned char)p[-1])) p--;
    bool indenting = p == begin;
    if (indenting || sft_edit_pending()) { /* a tab of a paste stays one */
        ed.insertstr(el, "\t");
        return CC_REFRESH;
    }
    p = line->cursor;
    while (p > begin && (name_char((unsigned char)p[-1]) || p[-1] == '.' || p[-1] == ':')) p--;
    size_t typed = 0;
    while (line->cursor - typed > p && name_char((unsigned char)line->cursor[-(int)typed - 1]))
        typed++;
    lua_State *L = ed.L;
    int top = lua_gettop(L);
    unsigned char result = CC_REFRESH_BEEP;
    if (lua_checkstack(L, 20)) {
        lua_pushcfunction(L, complete);
        lua_pushlstring(L, p, (size_t)(line->cursor - p));
        if (lua_pcall(L, 1, 1, 0) == LUA_OK) result = offer_names(L, el, typed);
    }
    lua_settop(L, top);
    return result;
}

static bool find_functions(void) {
    static const char *const sonames[] = {"libedit.so.2", "libedit.so.0", "libedit.so", NULL};
    for (const char *const *s = sonames; *s && !ed.handle; s++)
        ed.handle = dlopen(*s, RTLD_NOW | RTLD_LOCAL);
    if (ed.handle == NULL) return false;
    const struct {
        void *slot;
        const char *name;
    } wanted[] = {{&ed.init, "el_init"},
                  {&ed.end, "el_end"},
                  {&ed.gets, "el_gets"},
                  {&ed.set, "el_set"},
                  {&ed.resize, "el_resize"},
                  {&ed.line, "el_line"},
                  {&ed.insertstr, "el_insertstr"},
                  {&ed.history_init, "history_init"},
                  {&ed.history_end, "history_end"},
                  {&ed.history_call, "history"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *fn = dlsym(ed.handle, wanted[i].name);
        if (fn == NULL) return false;
        memcpy(wanted[i].slot, &fn, sizeof fn);
    }
    return true;
}

static void open_editor(lua_State *L) {
    const char *term = getenv("TERM");
    if (term == NULL || strcmp(term, "dumb") == 0 || !find_functions()) return;
    /* libedit needs a character set with more than ASCII for UTF-8 input; the C locale's other
     * categories, which Lua's functions follow, stay. */
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    ed.history = ed.history_init();
    ed.el = ed.history ? ed.init("sftlua", stdin, stdout, stderr) : NULL;
    if (ed.el == NULL) return;
    ed.L = L;
    HistEvent event;
    ed.history_call(ed.history, &event, H_SETSIZE, HISTORY_LINES);
    ed.history_call(ed.history, &event, H_SETUNIQUE, 1);
    load_history(remember);
    ed.set(ed.el, EL_PROMPT, get_prompt);
    ed.set(ed.el, EL_SIGNAL, 1);
    ed.set(ed.el, EL_EDITOR, "emacs");
    ed.set(ed.el, EL_HIST, ed.history_call, ed.history);
    ed.set(ed.el, EL_ADDFN, "sft-complete", "completes a name", on_tab);
    ed.set(ed.el, EL_BIND, "\t", "sft-complete", NULL);
    ed.set(ed.el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    /* home, end, delete, and words with Ctrl as today's terminals send them */
    static const char *const keys[][2] = {
        {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},
        {"\\e[1~", "ed-move-to-beg"},      {"\\e[4~", "ed-move-to-end"},
        {"\\eOH", "ed-move-to-beg"},       {"\\eOF", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5D", "ed-prev-word"},
        {"\\e[1;5C", "em-next-word"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ed.set(ed.el, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static int edit_line(lua_State *L, const char *prompt) {
    ed.prompt = prompt;
    ed.resize(ed.el);
    const char *line;
    int n;
    do { /* again after a signal that is not ours: stopped and continued, say */
        n = 0;
        errno = 0;
        line = ed.gets(ed.el, &n);
    } while (line == NULL && n < 0 && errno == EINTR && !prompt_interrupted);
    if (prompt_interrupted) {
        putchar('\n');
        return SFT_LINE_INTERRUPTED;
    }
    if (line == NULL || n <= 0) return SFT_LINE_EOF;
    if (line[n - 1] == '\n') n--;
    lua_pushlstring(L, line, (size_t)n);
    return SFT_LINE_OK;
}
#endif

/* ---- lines -------------------------------------------------------------------------------- */

void sft_edit_open(lua_State *L) {
    if (!sft_edit_is_terminal()) return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_sigint;
    sigemptyset(&action.sa_mask);
    handling_sigint = sigaction(SIGINT, &action, &old_sigint) == 0;
    find_history_file();
#ifdef HAVE_HISTEDIT
    open_editor(L);
#else
    (void)L;
#endif
}

void sft_edit_close(void) {
#ifdef HAVE_HISTEDIT
    if (ed.el) ed.end(ed.el);
    if (ed.history) ed.history_end(ed.history);
    ed.el = NULL;
    ed.history = NULL;
#endif
    free(history_path);
    history_path = NULL;
    if (handling_sigint) sigaction(SIGINT, &old_sigint, NULL);
    handling_sigint = false;
}

/* A line from a stream without editing; echoed when nobody else does. */
static int plain_line(lua_State *L, const char *prompt) {
    fputs(prompt, stdout);
    fflush(stdout);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    int c;
    bool any = false;
    while ((c = getchar()) != EOF && c != '\n') {
        luaL_addchar(&b, (char)c);
        any = true;
    }
    luaL_pushresult(&b);
    if (c == EOF && !any) {
        bool interrupted = prompt_interrupted;
        clearerr(stdin);
        lua_pop(L, 1);
        if (interrupted) putchar('\n');
        return interrupted ? SFT_LINE_INTERRUPTED : SFT_LINE_EOF;
    }
    if (!isatty(STDIN_FILENO)) {
        fwrite(lua_tostring(L, -1), 1, lua_rawlen(L, -1), stdout);
        putchar('\n');
        fflush(stdout);
    }
    return SFT_LINE_OK;
}

int sft_edit_line(lua_State *L, const char *prompt) {
    prompt_interrupted = 0;
    fflush(stdout);
#ifdef HAVE_HISTEDIT
    if (ed.el) {
        int got = edit_line(L, prompt);
        const char *line = got == SFT_LINE_OK ? lua_tostring(L, -1) : "";
        if (line[strspn(line, " \t")] != '\0') {
            remember(line);
            append_history(line);
        }
        return got;
    }
#endif
    return plain_line(L, prompt);
}
