-- Readers of files: IDX (MNIST), npy, CSV, text. Each raises an error that says what is wrong with
-- which file.

local sft = require "sft"
local args = require "sft.args"
local dataset = require "sft.data.dataset"

local fail = args.fail
local M = {}

-- An IDX file, plain or gzipped: a tensor of the type that the file has.
function M.read_idx(path)
  return sft.read_idx(path)
end

-- A .npy file: a tensor. Indices in it count from 0 where Python wrote them: add 1.
function M.read_npy(path)
  return sft.read_npy(path)
end

function M.write_npy(path, t)
  return sft.write_npy(path, t)
end

-- The whole file as a string.
function M.read_text(path)
  if type(path) ~= "string" then fail("read_text: path must be a string, got %s", args.kind(path)) end
  local file, e = io.open(path, "rb")
  if not file then fail("read_text: can't open %s", e) end
  local text, read_error = file:read("a")
  file:close()
  if not text then fail("read_text: can't read %s: %s", path, read_error) end
  return text
end

-- The fields of one record that starts at `at`; quotes may hold separators and line breaks.
local function csv_record(text, at, separator, path, line)
  local fields = {}
  while true do
    if text:byte(at) == 34 then
      local parts, from = {}, at + 1
      while true do
        local quote = text:find('"', from, true)
        if not quote then fail("read_csv: %s:%d: a quoted field has no end", path, line) end
        parts[#parts + 1] = text:sub(from, quote - 1)
        from = quote + 1
        if text:byte(from) ~= 34 then break end
        parts[#parts + 1] = '"'
        from = from + 1
      end
      fields[#fields + 1] = table.concat(parts)
      at = from
    else
      local stop = text:find("[" .. separator .. "\r\n]", at) or #text + 1
      fields[#fields + 1] = text:sub(at, stop - 1)
      at = stop
    end
    local c = text:sub(at, at)
    if c == "\r" and text:sub(at + 1, at + 1) == "\n" then return fields, at + 2 end
    if c == "\n" or c == "\r" or c == "" then return fields, at + 1 end
    if c ~= separator:sub(-1) then fail("read_csv: %s:%d: text after a quoted field", path, line) end
    at = at + 1
  end
end

local csv_signature = args.signature("read_csv", "path:str, *, header:any=auto, separator:str?, dtype?, "
  .. "columns:any?, as:str=tensor")

-- A CSV file of numbers as a tensor [rows, columns], and the list of the column names (nil without
-- a header). {header = true or false; else the first line is one when it holds no number},
-- {separator = ";"}, {columns = {"x", 3}} picks some, {as = "rows"} gives lists of strings.
function M.read_csv(path, options)
  local a = csv_signature(path, options or {})
  a.separator = a.separator or ","
  if #a.separator ~= 1 then fail("read_csv: separator must be one character, got %s", args.kind(a.separator)) end
  local text = M.read_text(a.path)
  if text:sub(1, 3) == "\xEF\xBB\xBF" then text = text:sub(4) end
  local separator = a.separator:find("%w") and a.separator or "%" .. a.separator
  local rows, at, line = {}, 1, 1
  local lines = {}
  while at <= #text do
    local fields, after = csv_record(text, at, separator, a.path, line)
    if #fields > 1 or fields[1] ~= "" then
      rows[#rows + 1], lines[#rows + 1] = fields, line
    end
    local _, breaks = text:sub(at, after - 1):gsub("\n", "")
    line, at = line + math.max(1, breaks), after
  end
  local header
  if a.header == true or (a.header == "auto" and rows[1] and not tonumber(rows[1][1])) then
    header = table.remove(rows, 1)
    table.remove(lines, 1)
  end
  if a.as == "rows" then return rows, header end
  if #rows == 0 then fail("read_csv: %s has no rows", a.path) end
  local width = #(header or rows[1])
  local pick = {}
  for k, c in ipairs(a.columns or {}) do
    local place = args.whole(c)
    if type(c) == "string" then
      for i, name in ipairs(header or {}) do if name == c then place = i end end
    end
    if not place or place < 1 or place > width then fail("read_csv: %s has no column %s", a.path, args.kind(c)) end
    pick[k] = place
  end
  if not a.columns then for i = 1, width do pick[i] = i end end
  local out = {}
  for r, fields in ipairs(rows) do
    if #fields ~= width then
      fail("read_csv: %s:%d: %d fields, expected %d", a.path, lines[r], #fields, width)
    end
    local numbers = {}
    for k, place in ipairs(pick) do
      local field = fields[place]
      local v = tonumber(field)
      if not v then
        local word = field:lower():match("^%s*([+-]?%a+)%s*$")
        if word == "nan" or field == "" then v = 0 / 0
        elseif word == "inf" or word == "+inf" then v = math.huge
        elseif word == "-inf" then v = -math.huge
        else fail('read_csv: %s:%d: "%s" is not a number', a.path, lines[r], field) end
      end
      numbers[k] = v + 0.0
    end
    out[r] = numbers
  end
  local names
  if header then
    names = {}
    for k, place in ipairs(pick) do names[k] = header[place] end
  end
  return sft.tensor(out, {dtype = a.dtype or sft.float32}), names
end

local mnist_files = {
  train = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
  test = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
}

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

-- The path of each of the four files, plain or gzipped; raises with all that are missing.
local function find_mnist(dir)
  local found, missing = {}, {}
  for _, part in ipairs {"train", "test"} do
    for _, name in ipairs(mnist_files[part]) do
      local path = dir .. "/" .. name
      if exists(path) then found[name] = path
      elseif exists(path .. ".gz") then found[name] = path .. ".gz"
      else missing[#missing + 1] = name .. " (or .gz)"
      end
    end
  end
  if #missing > 0 then
    fail("mnist: in %s %s missing:\n  %s\nGet the four files of the MNIST database of handwritten digits, for "
      .. "example from https://storage.googleapis.com/cvdf-datasets/mnist/ (train-images-idx3-ubyte.gz and so on), "
      .. "and put them in one folder, gzipped or not", dir, #missing == 1 and "a file is" or "these files are",
      table.concat(missing, "\n  "))
  end
  return found
end

local function mnist_part(found, part)
  local images = M.read_idx(found[mnist_files[part][1]])
  local labels = M.read_idx(found[mnist_files[part][2]])
  if images.ndim ~= 3 or labels.ndim ~= 1 or images:size(1) ~= labels:size(1) then
    fail("mnist: %s images and labels don't belong together: %s and %s", part, tostring(images.shape),
      tostring(labels.shape))
  end
  images = images:to(sft.float32):div_(255):unsqueeze(2)
  return dataset.TensorDataset(images, labels:to(sft.int64):add_(1))
end

-- The MNIST files in a folder: two TensorDatasets, for training and for testing. Images are float32
-- [n, 1, 28, 28] within 0 to 1, labels 1 to 10 (the digit + 1), as labels count from 1.
function M.mnist(dir)
  if type(dir) ~= "string" then fail("mnist: a folder is expected, got %s", args.kind(dir)) end
  local found = find_mnist(dir)
  return mnist_part(found, "train"), mnist_part(found, "test")
end

return M
