-- Saving when something goes wrong: a full disk, a folder without permission, a kill. The old file stays.

local sft = require "sft"
local host = require "spec.support.host"
local values = require "spec.support.values"
local near, raises = values.near, values.raises

local function files_in(folder)
  local p = io.popen("ls -A " .. folder)
  local text = p:read("a")
  p:close()
  return text
end

describe("saving", function()
  local folder
  before_each(function() folder = host.folder() end)
  after_each(function() os.execute("chmod -R u+w " .. folder .. "; rm -rf " .. folder) end)

  it("leaves the old file where something can't be saved", function()
    local path = folder .. "/a.safetensors"
    sft.save(path, {w = sft.ones(3)})
    raises("hook", sft.save, path, {w = sft.zeros(3), opt = {hook = print}})
    near({1, 1, 1}, sft.load(path).w)
    assert.equal("a.safetensors\n", files_in(folder))
  end)

  it("says why a path can't be written", function()
    raises("/nowhere/at/all", sft.save, "/nowhere/at/all/x.safetensors", {w = sft.ones(1)})
    raises(folder, sft.save, folder, {w = sft.ones(1)})
    assert.equal("", files_in(folder))
  end)

  -- a full disk: a limit on the size of files, which also stops a root user
  it("leaves the old file when the disk is full", function()
    local path = folder .. "/a.safetensors"
    sft.save(path, {w = sft.ones(3)})
    local script = folder .. "/save.lua"
    host.write_file(script, ([[
      local sft = require "sft"
      local ok, e = pcall(sft.save, %q, {w = sft.zeros(1000000)})
      assert(not ok and sft.is_error(e), "an error was expected")
      print(e.code, e.message)
      -- and the process goes on
      assert(sft.ones(3):sum():item() == 3)
    ]]):format(path))
    local r = host.sh(("trap '' XFSZ; ulimit -f 100; exec %s %s"):format(host.sftlua, script))
    assert(r.code == 0, r.err)
    assert(r.out:find("io", 1, true) and r.out:find(path, 1, true), r.out)
    near({1, 1, 1}, sft.load(path).w)
    assert.equal("a.safetensors\nsave.lua\n", files_in(folder))
  end)

  it("to a device writes into it, and its errors are errors", function()
    local kind = host.sh("test -c /dev/full")
    if kind.code ~= 0 then return end
    raises({"/dev/full", "write_npy"}, sft.write_npy, "/dev/full", sft.ones(100000))
    raises({"/dev/full"}, sft.save, "/dev/full", {w = sft.ones(100000)})
    sft.save("/dev/null", {w = sft.ones(3)})
    assert.equal(0, host.sh("test -c /dev/full && test -c /dev/null").code)
  end)

  it("through a symbolic link replaces what it points to", function()
    sft.save(folder .. "/a.safetensors", {w = sft.ones(3)})
    os.execute(("ln -s a.safetensors %s/link.safetensors"):format(folder))
    sft.save(folder .. "/link.safetensors", {w = sft.zeros(3)})
    near({0, 0, 0}, sft.load(folder .. "/a.safetensors").w)
    assert.equal(0, host.sh("test -L " .. folder .. "/link.safetensors").code)
  end)

  it("leaves the old file in a folder that can't be written to", function()
    local id = io.popen("id -u")
    local root = id:read("n") == 0
    id:close()
    local path = folder .. "/a.safetensors"
    sft.save(path, {w = sft.ones(3)})
    os.execute("chmod a-w " .. folder)
    local ok, e = pcall(sft.save, path, {w = sft.zeros(3)})
    if not root then
      assert.is_false(ok)
      assert(sft.is_error(e))
      near({1, 1, 1}, sft.load(path).w)
    end
  end)

  it("killed at any moment leaves the old file or the new one", function()
    local path = folder .. "/a.safetensors"
    local script = folder .. "/loop.lua"
    host.write_file(script, ([[
      local sft = require "sft"
      local i = 0
      while true do
        i = i + 1
        sft.save(%q, {w = sft.full({50000}, i), i = i})
      end
    ]]):format(path))
    sft.save(path, {w = sft.zeros(50000), i = 0})
    local seen = {}
    for _ = 1, host.sanitized and 5 or 25 do
      local seconds = 0.05 + math.random() * (host.sanitized and 0.5 or 0.05)
      host.sh(("%s %s & sleep %.3f; kill -KILL $!; wait $!"):format(host.sftlua, script, seconds))
      local d = sft.load(path)
      assert(d.w:eq(d.i):all():item(), "a file of two halves")
      seen[d.i] = true
    end
    assert(next(seen))
  end)

  it("two thousand small tensors takes no time", function()
    local tree = {}
    for i = 1, 2000 do tree["p" .. i] = sft.full({2}, i) end
    local path = folder .. "/many.safetensors"
    sft.save(path, tree)
    local back = sft.load(path)
    near({1999, 1999}, back.p1999)
  end)
end)

describe("a file beyond 4 GB", function()
  it("is read at the right place", function()
    -- sparse: a large tensor that is not touched would need the memory, so it is npy's header that lies
    -- far away here: reading all is refused by the limit, not by a wrapped size
    local path = values.temporary(".npy")
    local header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1342177280,), }"
    header = header .. (" "):rep(63 - (10 + #header) % 64) .. "\n"
    local f = assert(io.open(path, "wb"))
    f:write("\x93NUMPY\1\0", string.pack("<I2", #header), header)
    assert(f:seek("set", 10 + #header + 4 * 1342177280 - 1))
    f:write("\0")
    f:close()
    sft.set_memory_limit("cpu", 1 << 30)
    local ok, e = pcall(sft.read_npy, path)
    sft.set_memory_limit("cpu", 0)
    os.remove(path)
    assert.is_false(ok)
    assert.equal("oom", e.code)
    assert(tostring(e):find("5120", 1, true), tostring(e))
  end)
end)
