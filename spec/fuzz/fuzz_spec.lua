-- The API fuzzer, bounded. For longer: sftlua spec/fuzz/api_fuzz.lua --calls 1000000, or
-- SFT_FUZZ_CALLS=1000000; SFT_FUZZ_SEED repeats a run.

local host = require "spec.support.host"

describe("the API fuzzer", function()
  it("gets values and errors only", function()
    local calls = tonumber(os.getenv("SFT_FUZZ_CALLS")) or (host.sanitized and 12000 or 60000)
    local seed = tonumber(os.getenv("SFT_FUZZ_SEED")) or os.time()
    local folder = host.folder() -- a call that writes a file may do so there
    local script = io.popen("pwd"):read("l") .. "/spec/fuzz/api_fuzz.lua"
    local r = host.sh(("cd %s && exec %s %s --calls %d --seed %d"):format(folder, host.sftlua, script, calls, seed))
    os.execute("rm -rf " .. folder)
    assert(r.code == 0, ("api_fuzz --calls %d --seed %d: status %d\n%s\n%s"):format(calls, seed, r.code,
      r.out:sub(-2000),
      r.err:sub(1, 6000)))
    assert.matches("api_fuzz: %d+ calls", r.out)
  end)
end)
