-- The training scripts, as a user runs them.
local values = require "spec.support.values"

local interpreter = os.getenv("SFTLUA") or "build/sftlua"

-- Runs a script; returns its output (both streams) and its exit code.
local function run(script, options)
  local out = values.temporary(".out")
  local _, _, code = os.execute(("%s scripts/%s %s >%s 2>&1 </dev/null"):format(interpreter, script, options, out))
  local file = assert(io.open(out))
  local text = file:read("a")
  file:close()
  os.remove(out)
  return text, code
end

local function losses(text)
  local list = {}
  for step, loss in text:gmatch("step (%d+)/%d+  loss ([%d.]+)") do list[tonumber(step)] = loss end
  return list
end

local small = "--layers 1 --width 16 --heads 2 --block 16 --batch 4 --sample 20 --every 5 "

describe("train.lua", function()
  it("trains, samples, saves, and goes on as if it had not stopped", function()
    local whole, part = values.temporary(".safetensors"), values.temporary(".safetensors")
    local text, code = run("train.lua", small .. "--dropout 0.1 --steps 20 --checkpoint " .. whole)
    assert.equal(0, code, text)
    local expected = losses(text)
    assert.is_not_nil(expected[20], text)
    assert.matches("before training", text)
    assert.matches("after 20 steps", text)
    assert.is_nil(text:find("\r", 1, true))
    text, code = run("train.lua", small .. "--dropout 0.1 --steps 12 --checkpoint " .. part)
    assert.equal(0, code, text)
    text, code = run("train.lua", "--sample 0 --every 5 --steps 20 --resume " .. part)
    os.remove(whole)
    os.remove(part)
    assert.equal(0, code, text)
    assert.matches("resumed at step 12", text)
    local resumed = losses(text)
    assert.equal(expected[15], resumed[15])
    assert.equal(expected[20], resumed[20])
  end)

  it("says what is wrong with its options", function()
    local text, code = run("train.lua", "--stesp 3")
    assert.equal(2, code)
    assert.matches('did you mean "steps"', text)
    text, code = run("train.lua", "--resume /nowhere/x")
    assert.equal(1, code)
    assert.matches("can't resume: .*/nowhere/x", text)
    text, code = run("train.lua", "--text /nowhere/x")
    assert.equal(1, code)
    assert.matches("/nowhere/x", text)
    text, code = run("train.lua", "--width 10 --heads 3")
    assert.equal(1, code)
    assert.matches("multiple of %-%-heads", text)
    text, code = run("train.lua", "--help")
    assert.equal(0, code)
    assert.matches("%-%-resume", text)
  end)
end)

describe("train_mnist.lua", function()
  it("says which files are missing", function()
    local text, code = run("train_mnist.lua", "--data /nowhere")
    assert.equal(1, code)
    assert.matches("train%-labels%-idx1%-ubyte", text)
    assert.matches("https://", text)
    text, code = run("train_mnist.lua", "")
    assert.equal(1, code)
    assert.matches("%-%-data", text)
  end)

  it("ends with the accuracy", function()
    local dir = values.temporary("")
    assert(os.execute("mkdir " .. dir))
    local function write(name, sizes, byte)
      local parts, count = {string.pack(">BBBB", 0, 0, 8, #sizes)}, 1
      for _, n in ipairs(sizes) do
        parts[#parts + 1] = string.pack(">I4", n)
        count = count * n
      end
      local bytes = {}
      for i = 1, count do bytes[i] = string.char(byte(i - 1)) end
      local file = assert(io.open(dir .. "/" .. name, "wb"))
      file:write(table.concat(parts), table.concat(bytes))
      file:close()
    end
    for part, n in pairs {train = 256, t10k = 100} do
      -- The digit is the brightness of the whole picture.
      write(part .. "-images-idx3-ubyte", {n, 28, 28}, function(i) return i // 784 % 2 * 200 end)
      write(part .. "-labels-idx1-ubyte", {n}, function(i) return i % 2 end)
    end
    for _, model in ipairs {"mlp", "cnn"} do
      local text, code = run("train_mnist.lua", ("--data %s --model %s --batch 32 --epochs 2"):format(dir, model))
      assert.equal(0, code, text)
      assert.matches("test accuracy [01]%.%d%d%d%d\n$", text)
    end
    os.execute("rm -r " .. dir)
  end)
end)
