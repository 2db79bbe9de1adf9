/* env.c: what a script may ask of the engine and set in it: dtypes, memory, threads, warnings. */
#include "bind.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- dtypes
 * ------------------------------------------------------------------------------------------ */

static sft_dtype check_dtype(lua_State *L, binding *u, int index, const char *fname) {
    sft_dtype d;
    char buf[64];
    if (!sftl_to_dtype(L, u, index, &d))
        sftl_error(L, u, "argument", "%s: a dtype is expected (sft.float32, \"float32\"), got %s",
                   fname, sftl_kind(L, index, buf));
    return d;
}

static int get_default_dtype(lua_State *L) {
    sftl_push_dtype(L, sftl_u(L), sft_default_dtype());
    return 1;
}

static int set_default_dtype(lua_State *L) {
    binding *u = sftl_u(L);
    if (sft_set_default_dtype(check_dtype(L, u, 1, "set_default_dtype")) != SFT_OK)
        sftl_raise(L, u);
    return 0;
}

static int promote_types(lua_State *L) {
    binding *u = sftl_u(L);
    sft_dtype a = check_dtype(L, u, 1, "promote_types"), b = check_dtype(L, u, 2, "promote_types");
    sftl_push_dtype(L, u, sft_promote_types(a, b));
    return 1;
}

static int can_cast(lua_State *L) {
    binding *u = sftl_u(L);
    sft_dtype a = check_dtype(L, u, 1, "can_cast"), b = check_dtype(L, u, 2, "can_cast");
    lua_pushboolean(L, sft_can_cast(a, b));
    return 1;
}

static int result_type(lua_State *L) {
    binding *u = sftl_u(L);
    sft_value v[2];
    for (int i = 0; i < 2; i++) {
        if (lua_type(L, i + 1) == LUA_TNUMBER)
            v[i] = lua_isinteger(L, i + 1) ? sft_v_int(0) : sft_v_float(0);
        else if (lua_type(L, i + 1) == LUA_TBOOLEAN)
            v[i] = sft_v_bool(false);
        else
            v[i] = sft_v_tensor(sftl_check(L, u, i + 1, "result_type"));
    }
    sftl_push_dtype(L, u, sft_result_type(v, 2));
    return 1;
}

static void number_field(lua_State *L, const char *name, double v) {
    lua_pushnumber(L, v);
    lua_setfield(L, -2, name);
}

/* finfo([dtype]): bits, eps, max, min, tiny, smallest_normal, resolution */
static int finfo(lua_State *L) {
    binding *u = sftl_u(L);
    sft_dtype d = lua_isnoneornil(L, 1) ? sft_default_dtype() : check_dtype(L, u, 1, "finfo");
    static const struct {
        sft_dtype d;
        double eps, max, tiny, resolution;
    } known[] = {{SFT_float16, 0x1p-10, 65504.0, 0x1p-14, 1e-3},
                 {SFT_bfloat16, 0x1p-7, 0x1.fep127, 0x1p-126, 1e-2},
                 {SFT_float32, FLT_EPSILON, FLT_MAX, FLT_MIN, 1e-6},
                 {SFT_float64, DBL_EPSILON, DBL_MAX, DBL_MIN, 1e-15}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].d != d) continue;
        lua_createtable(L, 0, 8);
        lua_pushinteger(L, (lua_Integer)sft_dtype_size(d) * 8);
        lua_setfield(L, -2, "bits");
        number_field(L, "eps", known[i].eps);
        number_field(L, "max", known[i].max);
        number_field(L, "min", -known[i].max);
        number_field(L, "tiny", known[i].tiny);
        number_field(L, "smallest_normal", known[i].tiny);
        number_field(L, "resolution", known[i].resolution);
        sftl_push_dtype(L, u, d);
        lua_setfield(L, -2, "dtype");
        return 1;
    }
    sftl_error(L, u, "argument", "finfo: a floating dtype is expected, got %s; use sft.iinfo",
               sft_dtype_name(d));
}

static int iinfo(lua_State *L) {
    binding *u = sftl_u(L);
    sft_dtype d = check_dtype(L, u, 1, "iinfo");
    if (sft_dtype_is_floating(d) || d == SFT_bool)
        sftl_error(L, u, "argument", "iinfo: an integer dtype is expected, got %s",
                   sft_dtype_name(d));
    int bits = (int)sft_dtype_size(d) * 8;
    int64_t max = d == SFT_uint8 ? 255 : (int64_t)(UINT64_MAX >> (65 - bits));
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, bits);
    lua_setfield(L, -2, "bits");
    lua_pushinteger(L, max);
    lua_setfield(L, -2, "max");
    lua_pushinteger(L, d == SFT_uint8 ? 0 : -max - 1);
    lua_setfield(L, -2, "min");
    sftl_push_dtype(L, u, d);
    lua_setfield(L, -2, "dtype");
    return 1;
}

/* ---- memory
 * -------------------------------------------------------------------------------------------- */

static sft_device check_device(lua_State *L, binding *u, int index, const char *fname) {
    sft_device d = {SFT_CPU, 0};
    char buf[64];
    if (lua_isnoneornil(L, index)) return d;
    if (!sftl_to_device(L, u, index, &d)) {
        if (lua_type(L, index) == LUA_TSTRING) sftl_raise(L, u);
        sftl_error(L, u, "device", "%s: a device is expected (\"cpu\", \"cuda:0\"), got %s", fname,
                   sftl_kind(L, index, buf));
    }
    return d;
}

static int live_tensors(lua_State *L) {
    lua_pushinteger(L, sft_live_tensors());
    return 1;
}

static int live_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)sft_live_bytes());
    return 1;
}

static void get_stats(lua_State *L, sft_memory_stats *s, const char *fname) {
    binding *u = sftl_u(L);
    sft_device d = check_device(L, u, 1, fname);
    memset(s, 0, sizeof *s);
    if (sft_get_memory_stats(d, s) != SFT_OK) sftl_raise(L, u);
}

static int memory_stats(lua_State *L) {
    sft_memory_stats s;
    get_stats(L, &s, "memory_stats");
    const struct {
        const char *name;
        uint64_t v;
    } fields[] = {{"allocated", s.allocated},
                  {"reserved", s.reserved},
                  {"peak_allocated", s.peak_allocated},
                  {"peak_reserved", s.peak_reserved},
                  {"limit", s.limit},
                  {"largest_free", s.largest_free},
                  {"num_allocs", s.num_allocs},
                  {"live_blocks", s.live_blocks},
                  {"live_bytes", sft_live_bytes()},
                  {"live_tensors", (uint64_t)sft_live_tensors()}};
    lua_createtable(L, 0, 10);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        lua_pushinteger(L, (lua_Integer)fields[i].v);
        lua_setfield(L, -2, fields[i].name);
    }
    return 1;
}

static int memory_allocated(lua_State *L) {
    sft_memory_stats s;
    get_stats(L, &s, "memory_allocated");
    lua_pushinteger(L, (lua_Integer)s.allocated);
    return 1;
}

static int max_memory_allocated(lua_State *L) {
    sft_memory_stats s;
    get_stats(L, &s, "max_memory_allocated");
    lua_pushinteger(L, (lua_Integer)s.peak_allocated);
    return 1;
}

static int reset_peak(lua_State *L) {
    binding *u = sftl_u(L);
    if (sft_reset_peak_memory(check_device(L, u, 1, "reset_peak_memory_stats")) != SFT_OK)
        sftl_raise(L, u);
    return 0;
}

/* set_memory_limit(device, bytes), or (bytes) for the CPU; 0 or nil: no limit */
static int set_memory_limit(lua_State *L) {
    binding *u = sftl_u(L);
    lua_settop(L, 2);
    if (lua_type(L, 1) == LUA_TNUMBER && lua_isnil(L, 2)) {
        lua_pushnil(L);
        lua_insert(L, 1);
    }
    sft_device d = check_device(L, u, 1, "set_memory_limit");
    int64_t bytes = 0;
    char buf[64];
    if (!lua_isnil(L, 2) && (!sftl_read_int(L, 2, &bytes) || bytes < 0))
        sftl_error(L, u, "argument",
                   "set_memory_limit: the limit must be a number of bytes, got %s",
                   sftl_kind(L, 2, buf));
    if (sft_set_memory_limit(d, (size_t)bytes) != SFT_OK) sftl_raise(L, u);
    return 0;
}

static int empty_cache(lua_State *L) {
    (void)L;
    sft_empty_cache();
    return 0;
}

/* For tests: the n-th following allocation fails, once. */
static int fail_alloc_after(lua_State *L) {
    sft_fail_alloc_after(luaL_checkinteger(L, 1));
    return 0;
}

/* ---- threads
 * ------------------------------------------------------------------------------------------- */

static int set_num_threads(lua_State *L) {
    binding *u = sftl_u(L);
    int64_t n;
    char buf[64];
    if (!sftl_read_int(L, 1, &n) || n < 1 || n > 4096)
        sftl_error(L, u, "argument",
                   "set_num_threads: expected a number of threads from 1 on, got %s",
                   sftl_kind(L, 1, buf));
    if (sft_set_num_threads((int)n) != SFT_OK) sftl_raise(L, u);
    return 0;
}

static int get_num_threads(lua_State *L) {
    lua_pushinteger(L, sft_get_num_threads());
    return 1;
}

/* ---- messages
 * ------------------------------------------------------------------------------------------- */

/* sft.warn(message): to stderr, unless warnings("off"); an error with warnings("error"). */
static int warn(lua_State *L) {
    binding *u = sftl_u(L);
    const char *text = luaL_checkstring(L, 1);
    if (u->warn_mode == 2) sftl_error(L, u, "warning", "%s", text);
    if (u->warn_mode == 0) {
        fprintf(stderr, "sft: warning: %s\n", text);
        fflush(stderr);
    }
    return 0;
}

/* warnings("on" | "off" | "error"): sets the mode; returns the former one. */
static int warnings(lua_State *L) {
    binding *u = sftl_u(L);
    static const char *const modes[] = {"on", "off", "error"};
    int old = u->warn_mode;
    if (!lua_isnoneornil(L, 1)) {
        const char *s = lua_tostring(L, 1);
        int mode = -1;
        for (int i = 0; i < 3 && s; i++)
            if (strcmp(s, modes[i]) == 0) mode = i;
        if (mode < 0)
            sftl_error(L, u, "argument", "warnings: expected \"on\", \"off\" or \"error\"");
        u->warn_mode = mode;
    }
    lua_pushstring(L, modes[old]);
    return 1;
}

static int collect_env(lua_State *L) {
    binding *u = sftl_u(L);
    struct utsname un = {0};
    uname(&un);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    char line[600];
    sft_memory_stats s = {0};
    sft_get_memory_stats((sft_device){SFT_CPU, 0}, &s);
    snprintf(line, sizeof line,
             "sft:          %s\nLua:          %s\nsystem:       %s %s %s\nCPU kernels:  %s\n"
             "threads:      %d\nlib/sft:      %s\n",
             SFT_VERSION, LUA_RELEASE, un.sysname, un.release, un.machine, sft_cpu_level(),
             sft_get_num_threads(), u->lib ? u->lib : "not found");
    luaL_addstring(&b, line);
    snprintf(line, sizeof line,
             "memory:       %.1f MB in tensors, %.1f MB reserved\nCUDA:         %s\n",
             (double)s.allocated / 1048576.0, (double)s.reserved / 1048576.0,
             "not available (no CUDA backend in this build)");
    luaL_addstring(&b, line);
    static const char *const vars[] = {"OMP_NUM_THREADS", "SFT_LUA_PATH", "SFT_CPU_LEVEL",
                                       "LUA_PATH", "LUA_CPATH"};
    for (size_t i = 0; i < sizeof vars / sizeof *vars; i++) {
        const char *v = getenv(vars[i]);
        if (!v) continue;
        snprintf(line, sizeof line, "%s=%.400s\n", vars[i], v);
        luaL_addstring(&b, line);
    }
    luaL_pushresult(&b);
    return 1;
}

/* ---- devices
 * --------------------------------------------------------------------------------------------- */

static int get_device(lua_State *L) {
    sftl_push_device(L, sftl_u(L), (sft_device){SFT_CPU, 0});
    return 1;
}

/* One process so far; the call is there so that one script serves one process or many. */
static int initialize_distributed(lua_State *L) {
    (void)L;
    return 0;
}

static int cuda_is_available(lua_State *L) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "this build has no CUDA backend");
    return 2;
}

static int zero(lua_State *L) {
    lua_pushinteger(L, 0);
    return 1;
}

static int nothing(lua_State *L) {
    (void)L;
    return 0;
}

static int false_fn(lua_State *L) {
    lua_pushboolean(L, 0);
    return 1;
}

/* ---- small functions
 * ---------------------------------------------------------------------------------------- */

/* Calls the method of that name of the first argument. */
static int call_method(lua_State *L) {
    binding *u = sftl_u(L);
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    sftl_check(L, u, 1, name);
    lua_getfield(L, 1, name);
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* sft.where(condition) alone gives the positions, one index tensor per dim. */
static int where(lua_State *L) {
    binding *u = sftl_u(L);
    if (lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TUSERDATA) {
        sftl_check(L, u, 1, "where");
        lua_getfield(L, 1, "nonzero");
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        lua_getfield(L, -1, "unbind");
        lua_insert(L, -2);
        lua_pushinteger(L, 2);
        lua_call(L, 2, 1);
        return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int newaxis_tostring(lua_State *L) {
    lua_pushliteral(L, "sft.newaxis");
    return 1;
}

static void open_constants(lua_State *L, binding *u) {
    lua_newtable(L);
    u->newaxis = lua_topointer(L, -1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, newaxis_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "newaxis");
    lua_setfield(L, -2, "__name");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "newaxis");
    number_field(L, "pi", 3.14159265358979323846);
    number_field(L, "e", 2.7182818284590452354);
    number_field(L, "inf", (double)INFINITY);
    number_field(L, "nan", (double)NAN);
    lua_pushliteral(L, SFT_VERSION);
    lua_setfield(L, -2, "version");
    lua_pushliteral(L, SFT_VERSION);
    lua_setfield(L, -2, "_VERSION");
}

/* sft._clock(): seconds that only go forward; sft._isatty(fd). For scripts that show progress. */
static int wall_clock(lua_State *L) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    lua_pushnumber(L, (double)t.tv_sec + (double)t.tv_nsec * 1e-9);
    return 1;
}

static int is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

void sftl_open_env(lua_State *L, binding *u, int sft) {
    static const luaL_Reg functions[] = {
        {"get_default_dtype", get_default_dtype},
        {"set_default_dtype", set_default_dtype},
        {"promote_types", promote_types},
        {"result_type", result_type},
        {"can_cast", can_cast},
        {"finfo", finfo},
        {"iinfo", iinfo},
        {"live_tensors", live_tensors},
        {"live_bytes", live_bytes},
        {"memory_stats", memory_stats},
        {"memory_allocated", memory_allocated},
        {"max_memory_allocated", max_memory_allocated},
        {"reset_peak_memory_stats", reset_peak},
        {"set_memory_limit", set_memory_limit},
        {"empty_cache", empty_cache},
        {"_fail_alloc_after", fail_alloc_after},
        {"_clock", wall_clock},
        {"_isatty", is_terminal},
        {"set_num_threads", set_num_threads},
        {"get_num_threads", get_num_threads},
        {"warn", warn},
        {"warnings", warnings},
        {"collect_env", collect_env},
        {"get_device", get_device},
        {"initialize_distributed_training", initialize_distributed},
        {NULL, NULL}};
    static const luaL_Reg cuda[] = {{"is_available", cuda_is_available}, {"device_count", zero},
                                    {"empty_cache", empty_cache},        {"synchronize", nothing},
                                    {"is_initialized", false_fn},        {NULL, NULL}};
    static const char *const methods[] = {"is_floating_point", "numel"};
    lua_pushvalue(L, sft);
    sftl_setfuncs(L, u, functions);
    open_constants(L, u);
    lua_newtable(L);
    sftl_setfuncs(L, u, cuda);
    lua_setfield(L, -2, "cuda");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        lua_pushlightuserdata(L, u);
        lua_pushstring(L, methods[i]);
        lua_pushcclosure(L, call_method, 2);
        lua_setfield(L, -2, methods[i]);
    }
    lua_pushlightuserdata(L, u);
    if (lua_getfield(L, -2, "where") == LUA_TFUNCTION) {
        lua_pushcclosure(L, where, 2);
        lua_setfield(L, -2, "where");
    } else {
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}
