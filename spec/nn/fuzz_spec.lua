-- Every constructor and function of the Lua part with arguments at random: the outcome is a value,
-- or an error that speaks of the arguments (not one from inside the library).
local sft = require "sft"
local nn = sft.nn

local makers = {
  function() return nil end, function() return 0 end, function() return -1 end, function() return 3 end,
  function() return 2.5 end, function() return 0 / 0 end, function() return "x" end, function() return "cpu" end,
  function() return {} end, function() return {1, 2} end, function() return {p = 1} end, function() return true end,
  function() return function() end end, function() return io.stdout end, function() return sft.float64 end,
  function() return sft.zeros(2, 3) end, function() return sft.ones(4) end, function() return sft.tensor {1, 2} end,
  function() return nn.Linear(3, 2) end, function() return {nn.Linear(3, 3)} end, function() return {sft.ones(2)} end,
  function() return nn.Linear(3, 2):parameters() end,
  function() return sft.optim.SGD(nn.Linear(2, 2):parameters()) end,
}

local targets = {}
local function add(prefix, t)
  local names = {}
  for name, f in pairs(t) do
    local mt = getmetatable(f)
    local callable = type(f) == "function" or (type(f) == "table" and mt and mt.__call)
    if callable and not name:find("^write") then names[#names + 1] = name end   -- no files here
  end
  table.sort(names)
  for _, name in ipairs(names) do targets[#targets + 1] = {prefix .. name, t[name]} end
end
add("nn.", nn)
add("nn.init.", nn.init)
add("nn.utils.", nn.utils)
add("optim.", sft.optim)
add("lr_scheduler.", sft.optim.lr_scheduler)
add("data.", sft.data)
local methods = {}
for name, f in pairs(nn.Module) do
  if type(f) == "function" and name:sub(1, 1) ~= "_" and name ~= "init" then
    methods[name] = function(...) return f(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)), ...) end
  end
end
add("Module:", methods)

describe("random arguments", function()
  it("give a value or an error about them", function()
    local count = tonumber(os.getenv("SFT_FUZZ_COUNT")) or 4000
    local seed = tonumber(os.getenv("SFT_FUZZ_SEED")) or 1
    local state = seed
    -- A generator of its own, as the calls may seed the others.
    local function pick(n)
      state = (state * 6364136223846793005 + 1442695040888963407)
      return (state >> 33) % n + 1
    end
    local mode = sft.warnings("off")
    local failures = {}
    local function try(name, f, ...)
      local ok, e = pcall(f, ...)
      if not ok and not (type(e) == "string" or sft.is_error(e)) then e = "an odd error value" end
      local text = ok and "" or tostring(e)
      if text:find("lib/sft/", 1, true) or text:find("attempt to", 1, true) or text:find("odd error") then
        failures[#failures + 1] = name .. ": " .. text
      end
      return ok and e or nil
    end
    for _ = 1, count do
      local target = targets[pick(#targets)]
      local n, list = pick(5) - 1, {}
      for i = 1, n do list[i] = makers[pick(#makers)]() end
      local made = try(target[1], target[2], table.unpack(list, 1, n))
      if nn.is_module(made) and made:is(nn.Module) then
        try(target[1] .. " called", made, makers[pick(#makers)](), makers[pick(#makers)]())
      end
    end
    sft.warnings(mode)
    assert.same({}, failures)
  end)
end)
