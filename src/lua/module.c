/* module.c: opens the Lua module `sft`. */
#include "bind.h"

static void find_ops(binding *u) {
    u->op_select = sftl_find_op("select");
    u->op_slice = sftl_find_op("slice");
    u->op_unsqueeze = sftl_find_op("unsqueeze");
    u->op_index = sftl_find_op("index");
    u->op_index_put = sftl_find_op("index_put");
    if (u->op_index_put < 0) u->op_index_put = sftl_find_op("index_put_");
    u->op_copy = sftl_find_op("copy");
    if (u->op_copy < 0) u->op_copy = sftl_find_op("copy_");
    u->op_fill = sftl_find_op("fill");
    u->op_to = sftl_find_op("to");
    u->op_detach = sftl_find_op("detach");
    u->op_clone = sftl_find_op("clone");
    u->op_zeros = sftl_find_op("zeros");
    u->op_transpose = sftl_find_op("transpose");
    u->op_permute = sftl_find_op("permute");
    u->op_nonzero = sftl_find_op("nonzero");
}

/* The table of one state: a second luaopen_sft gives the same one. */
int luaopen_sft(lua_State *L) {
    luaL_checkversion(L);
    luaL_checkstack(L, 20, NULL);
    binding *u = sftl_find(L);
    if (u) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, u);
        return 1;
    }
    u = sftl_open_state(L);
    find_ops(u);
    lua_createtable(L, 0, 512);
    int sft = lua_gettop(L);
    sftl_open_errors(L, u);
    sftl_open_gc(L, u);
    sftl_open_objects(L, u);
    sftl_open_tensor(L, u);
    int methods = lua_gettop(L);
    lua_createtable(L, 0, 128);
    int functional = lua_gettop(L);
    sftl_open_ops(L, u, sft, methods, functional);
    sftl_open_methods(L, u, methods);
    sftl_open_compare(L, u, sft, methods);
    lua_pushvalue(L, functional);
    lua_setfield(L, sft, "_functional");
    lua_pushvalue(L, methods);
    lua_setfield(L, sft, "_methods");
    sftl_open_autograd(L, u, sft, methods);
    sftl_open_context(L, u, sft);
    sftl_open_scope(L, u, sft);
    sftl_open_table(L, u, sft);
    sftl_open_files(L, u, sft);
    sftl_open_env(L, u, sft);
    sftl_open_loader(L, u, sft);
    sftl_open_ops_table(L, u, sft);
    lua_settop(L, sft);
    lua_pushvalue(L, sft);
    lua_rawsetp(L, LUA_REGISTRYINDEX, u);
    return 1;
}
