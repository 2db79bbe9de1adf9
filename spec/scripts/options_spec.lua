local _ = require "sft"   -- finds the modules below
local options = require "sft.options"

local spec = {
  usage = "x [options]", about = "Does x.",
  {"steps", "int", 10, "number of steps", min = 1},
  {"lr", "num", 0.5, "rate"},
  {"text", "str", nil, "a file", value = "FILE"},
  {"resume", "str?", nil, "go on"},
  {"model", {"mlp", "cnn"}, "mlp", "which"},
  {"save-every", "int", 5, "between"},
  {"quiet", "flag", false, "say less"},
}

describe("options", function()
  it("are read in both forms", function()
    local o = options.read({"--steps", "3", "--lr=1e-2", "--resume", "--model", "cnn", "--save-every", "0", "--quiet"},
      spec)
    assert.equal(3, o.steps)
    assert.equal(0.01, o.lr)
    assert.is_true(o.resume)
    assert.equal("cnn", o.model)
    assert.equal(0, o.save_every)
    assert.is_true(o.quiet)
    assert.is_nil(o.text)
    assert.is_true(o.given.save_every)
    assert.is_nil(o.given.text)
    assert.equal("file", options.read({"--resume", "file"}, spec).resume)
    assert.equal("a=b", options.read({"--text=a=b"}, spec).text)
  end)

  it("have messages for what is wrong", function()
    local function message(...)
      local o, text = options.read({...}, spec)
      assert.is_nil(o)
      return text
    end
    assert.matches('unknown option %-%-stesp', (message("--stesp", "1"):gsub("'", "")))
    assert.matches('did you mean "steps"', message("--stesp", "1"))
    assert.matches("must be a whole number, got '1.5'", message("--steps", "1.5"))
    assert.matches("at least 1", message("--steps", "0"))
    assert.matches("needs a value", message("--lr"))
    assert.matches("one of mlp, cnn", message("--model", "rnn"))
    assert.matches("unexpected argument 'x'", message("x"))
    assert.matches("takes no value", message("--quiet=1"))
  end)

  it("have a help text", function()
    local text = options.help(spec)
    assert.matches("usage: x", text)
    assert.matches("%-%-steps N%s+number of steps %(10%)", text)
    assert.matches("%-%-model mlp|cnn", text)
    assert.is_true(options.read({"--help"}, spec).help)
  end)
end)
