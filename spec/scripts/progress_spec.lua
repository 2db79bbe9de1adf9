local _ = require "sft"   -- finds the modules below
local progress = require "sft.progress"

-- A stream that keeps what is written, and a clock that goes on by hand.
local function fake()
  local stream = {text = ""}
  function stream:write(...)
    self.text = self.text .. table.concat({...})
    return self
  end
  function stream:flush() end
  return stream
end

describe("the progress bar", function()
  it("writes plain lines at fixed steps on a pipe", function()
    local stream, now = fake(), 0
    local bar = progress.new {total = 4, every = 2, unit = "tokens", terminal = false, stream = stream,
      clock = function() return now end}
    for step = 1, 4 do
      now = step
      bar:update(step, {loss = 1 / step}, step * 100)
    end
    bar:finish()
    assert.equal("step 2/4  loss 0.500000  100 tokens/s  0:02 left\n"
      .. "step 4/4  loss 0.250000  100 tokens/s  0:00 left\n", stream.text)
  end)

  it("draws one line again and again on a terminal", function()
    local stream, now = fake(), 0
    local bar = progress.new {total = 10, every = 100, terminal = true, stream = stream,
      clock = function() return now end}
    for step = 1, 5 do
      now = step
      bar:update(step, function() return {{"loss", 2}} end)
    end
    bar:line("note")
    assert.is_nil(stream.text:find("\n%["))
    assert.matches("\r%[############%.%.%.%.%.%.%.%.%.%.%.%.%]  50%%  loss 2%.000000", stream.text)
    assert.matches("\rnote\n$", stream.text)
  end)

  it("is drawn at most every tenth of a second", function()
    local stream, calls = fake(), 0
    local bar = progress.new {total = 1000, every = 1000, terminal = true, stream = stream,
      clock = function() return 5 end}
    for step = 1, 500 do
      bar:update(step, function()
        calls = calls + 1
        return {}
      end)
    end
    assert.equal(1, calls)
  end)

  it("formats times and quantities", function()
    assert.equal("0:05", progress.duration(5.2))
    assert.equal("1:15", progress.duration(75))
    assert.equal("1:01:40", progress.duration(3700))
    assert.equal("1.23M", progress.quantity(1234567))
    assert.equal("12.3k", progress.quantity(12345))
    assert.equal("999", progress.quantity(999))
  end)
end)
