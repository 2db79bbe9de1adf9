-- Every op that a script can reach has samples, and every sample belongs to an op and runs.

local sft = require "sft"
local S = require "spec.support.samples"
local walk = require "spec.generic.walk"

describe("samples", function()
  it("exist for every row of the op table", function()
    local missing = {}
    for _, row in ipairs(S.rows) do
      if row.public and not S.all[row.id] then missing[#missing + 1] = row.id end
    end
    assert(#missing == 0, "rows of ops.def without a sample in spec/support/samples: " .. table.concat(missing, ", "))
  end)

  it("belong to a row", function()
    local rows = {}
    for _, row in ipairs(S.rows) do
      if row.public then rows[row.id] = true end
    end
    for id in pairs(S.all) do assert(rows[id], id .. " is not a row that scripts can call") end
  end)

  it("run", function()
    for _, row in ipairs(S.rows) do
      for i, sample in ipairs(row.public and S.all[row.id] or {}) do
        local args = S.build(sample, walk.dtypes_of(row, sample)[1])
        local ok, e = pcall(walk.call, S.caller(row), args)
        assert(ok, ("%s, sample %d: %s"):format(row.id, i, tostring(e)))
      end
    end
  end)

  it("have a line of documentation in their row", function()
    for _, row in ipairs(S.rows) do
      assert(#row.doc > 3 and row.doc:find("[.?]$"), row.id)
      assert(row.signature:find("^[%w_]+%b()"), row.id)
      assert(row.nout >= 0)
    end
  end)

  it("are reached by their second names too", function()
    for name, of in pairs(S.aliases) do
      local found = sft[name] or sft._methods[name] or sft._functional[name]
      assert(found, name .. " (of " .. of .. ")")
    end
  end)
end)
