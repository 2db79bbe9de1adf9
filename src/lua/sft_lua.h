/* sft_lua.h: sft in a Lua state of your own; C and C++.
 *
 *     luaL_requiref(L, "sft", luaopen_sft, 0);
 *
 * A tensor in Lua is a full userdata that holds one reference. Needs Lua 5.4.4 or later. Functions
 * that take a `lua_State` may raise Lua errors: call them in protected mode. */
#ifndef SFT_LUA_H
#define SFT_LUA_H

#include "sft.h"
#ifdef __cplusplus
extern "C" {
#include <lua.h>
#else
#include <lua.h>
#endif

/* Opens the module: pushes the table `sft`. Each state has its own; several may be open at once. */
SFT_API int luaopen_sft(lua_State *L);

/* Pushes a handle of `t` (NULL: nil). The handle takes a reference of its own: the caller keeps
 * his. A memory error is raised before the reference is taken. Needs luaopen_sft first. */
SFT_API void sft_lua_push(lua_State *L, sft_tensor *t);

/* The tensor at `index`, borrowed from its handle: it lives while the handle does. Retain it to
 * keep it. sft_lua_check raises an argument error for anything else and for released tensors,
 * sft_lua_to returns NULL. */
SFT_API sft_tensor *sft_lua_check(lua_State *L, int index);
SFT_API sft_tensor *sft_lua_to(lua_State *L, int index);

#ifdef __cplusplus
}
#endif
#endif
