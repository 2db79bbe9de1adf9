/* lua_version.h - a clear message when sft.so is loaded by another Lua than 5.4.
 *
 * Every function of the C API that Lua 5.1 (or LuaJIT) lacks is a weak symbol here, so that the
 * module loads there at all, and luaopen_sft can say what is wrong. The build includes this file
 * first in every file of the binding. */
#ifndef SFT_LUA_VERSION_H
#define SFT_LUA_VERSION_H

#pragma weak lua_absindex
#pragma weak lua_arith
#pragma weak lua_callk
#pragma weak lua_closeslot
#pragma weak lua_compare
#pragma weak lua_copy
#pragma weak lua_getglobal
#pragma weak lua_geti
#pragma weak lua_getiuservalue
#pragma weak lua_isinteger
#pragma weak lua_isyieldable
#pragma weak lua_len
#pragma weak lua_newuserdatauv
#pragma weak lua_pcallk
#pragma weak lua_rawgetp
#pragma weak lua_rawlen
#pragma weak lua_rawsetp
#pragma weak lua_resetthread
#pragma weak lua_rotate
#pragma weak lua_setglobal
#pragma weak lua_seti
#pragma weak lua_setiuservalue
#pragma weak lua_setwarnf
#pragma weak lua_stringtonumber
#pragma weak lua_toclose
#pragma weak lua_tointegerx
#pragma weak lua_tonumberx
#pragma weak lua_upvalueid
#pragma weak lua_upvaluejoin
#pragma weak lua_version
#pragma weak lua_warning
#pragma weak lua_yieldk
#pragma weak luaL_addgsub
#pragma weak luaL_buffinitsize
#pragma weak luaL_checkversion_
#pragma weak luaL_execresult
#pragma weak luaL_fileresult
#pragma weak luaL_getsubtable
#pragma weak luaL_len
#pragma weak luaL_loadbufferx
#pragma weak luaL_loadfilex
#pragma weak luaL_prepbuffsize
#pragma weak luaL_pushresultsize
#pragma weak luaL_requiref
#pragma weak luaL_setfuncs
#pragma weak luaL_setmetatable
#pragma weak luaL_testudata
#pragma weak luaL_tolstring
#pragma weak luaL_traceback

#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>

/* Raises an error unless the host is Lua 5.4. Uses nothing that a Lua since 5.1 lacks. */
static inline void sft_check_lua_version(lua_State *L) {
    if (lua_newuserdatauv) return; /* new in 5.4 */
    const char *name = "Lua 5.1";
    if (dlsym(RTLD_DEFAULT, "luaJIT_setmode"))
        name = "LuaJIT";
    else if (lua_rotate)
        name = "Lua 5.3";
    else if (lua_callk)
        name = "Lua 5.2";
    luaL_error(L, "sft needs Lua 5.4, this is %s", name);
}

#endif
