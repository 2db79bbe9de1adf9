-- Comparing tensors with what was worked out by hand: nested tables, numbers or other tensors.

local M = {}

local function flat(v, out)
  if type(v) == "userdata" then
    v = v:detach()
    if v.ndim == 0 then out[#out + 1] = v:item() else flat(v:tolist(), out) end
  elseif type(v) == "table" then
    for i = 1, #v do flat(v[i], out) end
  else
    out[#out + 1] = v
  end
  return out
end

-- All elements of a tensor, a nested table or a number, in order.
function M.flat(v)
  return flat(v, {})
end

-- Raises unless all elements agree within tol (1e-5), relative for values above 1; NaN equals NaN.
function M.near(expected, found, tol)
  tol = tol or 1e-5
  local e, f = flat(expected, {}), flat(found, {})
  if #e ~= #f then error(("%d elements expected, found %d"):format(#e, #f), 2) end
  for i = 1, #e do
    local a, b = e[i], f[i]
    if a == true or a == false then
      if a ~= b then error(("element %d: expected %s, found %s"):format(i, tostring(a), tostring(b)), 2) end
    elseif not (a == b or (a ~= a and b ~= b) or math.abs(a - b) <= tol * math.max(1, math.abs(a))) then
      error(("element %d: expected %.9g, found %.9g"):format(i, a, b), 2)
    end
  end
end

-- Raises unless fn(...) raises a string that contains each of the given plain texts.
function M.raises(texts, fn, ...)
  local ok, e = pcall(fn, ...)
  if ok then error("an error was expected", 2) end
  if type(texts) == "string" then texts = {texts} end
  for _, text in ipairs(texts) do
    if not tostring(e):find(text, 1, true) then
      error(("an error with %q was expected, found:\n%s"):format(text, tostring(e)), 2)
    end
  end
  return tostring(e)
end

-- The sizes as a plain list.
function M.shape(t)
  local out = {}
  for i, n in ipairs(t.shape) do out[i] = n end
  return out
end

-- A name for a file that the spec removes itself.
function M.temporary(suffix)
  local name = os.tmpname()
  os.remove(name)
  return name .. (suffix or "")
end

return M
