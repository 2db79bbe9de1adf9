-- Options of a script's command line: `--name value`, `--name=value`, flags, and --help.
--
--   local opt = options.parse(arg, {
--     usage = "train.lua [options]", about = "Trains a model.",
--     {"steps", "int", 600, "number of steps"},        -- kinds: int, num, str, flag
--     {"resume", "str?", nil, "go on from a checkpoint"},   -- the value may be left out: true
--     {"model", {"mlp", "cnn"}, "mlp", "the model"},   -- one of these
--   })
--
-- opt.steps is the value; opt.given.steps is true when it was on the command line. A bad option
-- ends the script with a message and exit code 2.

local args = require "sft.args"

local M = {}

local function finish(text)
  io.stderr:write(text, "\n")
  os.exit(2, true)
end

local function placeholder(spec)
  local kind = spec[2]
  if type(kind) == "table" then return table.concat(kind, "|") end
  return ({int = "N", num = "X", str = spec.value or "TEXT", ["str?"] = "[" .. (spec.value or "TEXT") .. "]",
    flag = ""})[kind]
end

-- The text of --help.
function M.help(spec)
  local rows, width = {}, 0
  for _, s in ipairs(spec) do
    local left = ("--%s %s"):format(s[1], placeholder(s)):gsub("%s+$", "")
    rows[#rows + 1] = {left, s[4] .. (s[3] ~= nil and s[3] ~= false and (" (%s)"):format(tostring(s[3])) or "")}
    width = math.max(width, #left)
  end
  rows[#rows + 1] = {"--help", "this text"}
  local lines = {"usage: " .. spec.usage, spec.about or "", ""}
  for _, row in ipairs(rows) do
    lines[#lines + 1] = ("  %s%s  %s"):format(row[1], (" "):rep(width - #row[1]), row[2])
  end
  return table.concat(lines, "\n")
end

local function convert(s, text)
  local kind = s[2]
  if type(kind) == "table" then
    for _, v in ipairs(kind) do if v == text then return v end end
    return nil, "one of " .. table.concat(kind, ", ")
  end
  if kind == "str" or kind == "str?" then return text end
  local v = tonumber(text)
  if kind == "int" then
    v = v and args.whole(v)
    if not v then return nil, "a whole number" end
    if v < (s.min or 0) then return nil, ("at least %d"):format(s.min or 0) end
  elseif not v or v ~= v then
    return nil, "a number"
  elseif v < (s.min or 0) then
    return nil, ("at least %g"):format(s.min or 0)
  end
  return v
end

-- Reads `list` (normally `arg`). Returns nil and a message when it is wrong; `"help"` is true in
-- the result when that was asked for.
function M.read(list, spec)
  local out, by_name, names = {given = {}}, {}, {}
  for _, s in ipairs(spec) do
    by_name[s[1]], names[#names + 1] = s, s[1]
    out[s[1]:gsub("-", "_")] = s[3]
  end
  local i = 1
  while i <= #list do
    local name, value = list[i]:match("^%-%-([^=]+)=?(.*)$")
    local inline = list[i]:find("=", 1, true) ~= nil
    if not name then return nil, ("unexpected argument '%s'"):format(list[i]) end
    if name == "help" then
      out.help = true
      return out
    end
    local s = by_name[name]
    if not s then return nil, ("unknown option '--%s'%s"):format(name, args.suggest(name, names)) end
    local key = name:gsub("-", "_")
    if s[2] == "flag" then
      if inline then return nil, ("--%s takes no value"):format(name) end
      out[key] = true
    else
      if not inline then
        value = list[i + 1]
        if s[2] == "str?" and (value == nil or value:sub(1, 2) == "--") then
          value = true
        elseif value == nil then
          return nil, ("--%s needs a value"):format(name)
        else
          i = i + 1
        end
      end
      if value ~= true then
        local v, expected = convert(s, value)
        if v == nil then return nil, ("--%s must be %s, got '%s'"):format(name, expected, value) end
        value = v
      end
      out[key] = value
    end
    out.given[key] = true
    i = i + 1
  end
  return out
end

function M.parse(list, spec)
  local out, message = M.read(list, spec)
  if not out then finish(("%s\nTry --help."):format(message)) end
  if out.help then
    print(M.help(spec))
    os.exit(0, true)
  end
  return out
end

return M
