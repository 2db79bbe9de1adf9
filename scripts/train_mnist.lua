-- Trains a classifier of handwritten digits on the MNIST files, and prints its accuracy on the test
-- images as the last line.
--
--   sftlua scripts/train_mnist.lua --data DIR --model cnn

local sft = require "sft"
local options = require "sft.options"
local progress = require "sft.progress"

local nn, F = sft.nn, sft.nn.functional

local opt = options.parse(arg, {
  usage = "train_mnist.lua --data DIR [options]",
  about = "Trains a classifier of handwritten digits.",
  {"data", "str", nil, "folder with the four MNIST files, plain or gzipped", value = "DIR"},
  {"model", {"mlp", "cnn"}, "mlp", "784-512-512-10, or two convolutions and two linear layers"},
  {"epochs", "int", 1, "passes over the training images"},
  {"batch", "int", 0, "images in a batch; 0: 128 for the mlp, 64 for the cnn"},
  {"lr", "num", nil, "highest learning rate; default: 2e-3 for the mlp, 1e-3 for the cnn"},
  {"seed", "int", 1, "seed of the random numbers"},
  {"device", "str", "cpu", "device to train on", value = "NAME"},
})

local function stop(text)
  io.stderr:write("train_mnist.lua: ", text, "\n")
  os.exit(1, true)
end

if not opt.data then stop("--data DIR is needed: the folder with the four MNIST files") end
local batch = opt.batch > 0 and opt.batch or (opt.model == "mlp" and 128 or 64)

local function mlp()
  return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
    nn.Linear(512, 10))
end

local function cnn()
  return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 12 * 12, 128), nn.ReLU(), nn.Linear(128, 10))
end

sft.manual_seed(opt.seed)
local ok, train, test = pcall(sft.data.mnist, opt.data)
if not ok then stop(tostring(train.message or train)) end

for _, part in ipairs {train, test} do
  part.tensors[1]:sub_(0.1307):div_(0.3081)   -- the training images' mean and deviation
end

local model = (opt.model == "mlp" and mlp() or cnn()):to(opt.device)
print(model)
local loader = sft.data.DataLoader(train, {batch_size = batch, shuffle = true, drop_last = true})
local steps = opt.epochs * #loader
local optimizer = sft.optim.Adam(model:parameters(), {lr = opt.lr or (opt.model == "mlp" and 2e-3 or 1e-3)})
-- Up within the first tenth, then straight down to nothing.
local schedule = sft.optim.lr_scheduler.LambdaLR(optimizer, function(step)
  return math.min((step + 1) / (0.1 * steps), 1.02 - step / steps)
end)

local bar = progress.new {total = steps, every = math.max(1, #loader // 8), unit = "images"}
local step = 0
for _ = 1, opt.epochs do
  local total, count = sft.zeros({}, {device = opt.device}), 0
  for x, y in loader:iter() do
    x, y = x:to {device = opt.device, non_blocking = true}, y:to {device = opt.device, non_blocking = true}
    optimizer:zero_grad()
    local loss = F.cross_entropy(model(x), y)
    loss:backward()
    optimizer:step()
    schedule:step()
    step, total, count = step + 1, total + loss:detach(), count + 1
    bar:update(step, function() return {{"loss", total:item() / count}} end, step * batch)
  end
end
bar:finish()

model:eval()
local right = sft.no_grad(function()
  local n = 0
  for x, y in sft.data.DataLoader(test, {batch_size = 500}):iter() do
    local guess = model(x:to {device = opt.device}):argmax(2)
    n = n + guess:eq(y:to {device = opt.device}):sum():item()
  end
  return n
end)
print(("test accuracy %.4f"):format(right / #test))
