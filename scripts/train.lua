-- Trains a small transformer on text, character by character, and shows what it writes before and
-- after. Without options: on the Lua files of this repository, in about a minute on two cores.
--
--   sftlua scripts/train.lua --text book.txt --steps 3000
--   sftlua scripts/train.lua --resume                       goes on from the checkpoint

local sft = require "sft"
local options = require "sft.options"
local progress = require "sft.progress"

local nn, F = sft.nn, sft.nn.functional

local function folder_of_script()
  return (arg[0] or ""):match("^(.*)/[^/]*$") or "."
end

-- Beside what was built, where there is a build tree.
local function default_checkpoint()
  local folder = folder_of_script() .. "/../build/"
  local file = io.open(folder .. "CMakeCache.txt")
  if not file then return "train.safetensors" end
  file:close()
  return folder .. "train.safetensors"
end

local opt = options.parse(arg, {
  usage = "train.lua [options]",
  about = "Trains a character-level transformer and writes samples.",
  {"text", "str", nil, "train on this file; default: this repository's Lua files", value = "FILE"},
  {"steps", "int", 800, "train up to this step"},
  {"batch", "int", 12, "sequences in a batch", min = 1},
  {"block", "int", 64, "characters in a sequence", min = 1},
  {"layers", "int", 4, "transformer blocks", min = 1},
  {"width", "int", 128, "size of a character's vector", min = 1},
  {"heads", "int", 4, "attention heads", min = 1},
  {"dropout", "num", 0, "probability of dropping an activation"},
  {"lr", "num", 2e-3, "highest learning rate"},
  {"seed", "int", 1, "seed of the random numbers"},
  {"device", "str", "cpu", "device to train on", value = "NAME"},
  {"sample", "int", 300, "characters in a sample; 0 for none"},
  {"temperature", "num", 0.8, "of the samples: low is careful, high is wild"},
  {"every", "int", 100, "steps between two printed losses", min = 1},
  {"checkpoint", "str", default_checkpoint(), "where the training is saved", value = "PATH"},
  {"save-every", "int", 500, "steps between two checkpoints; 0: at the end only"},
  {"resume", "str?", nil, "go on from a checkpoint", value = "PATH"},
})

local function stop(text, ...)
  io.stderr:write("train.lua: ", text:format(...), "\n")
  os.exit(1, true)
end

-- The model --------------------------------------------------------------------------------------

local Attention = nn.class("Attention")

function Attention:init(width, heads, dropout)
  self.heads, self.dropout = heads, dropout
  self.qkv = nn.Linear(width, 3 * width)
  self.out = nn.Linear(width, width)
end

function Attention:forward(x)
  local batch, length, width = x:size(1), x:size(2), x:size(3)
  -- [batch, length, 3, heads, size] -> [3, batch, heads, length, size]
  local qkv = self.qkv(x):view(batch, length, 3, self.heads, width // self.heads):permute(3, 1, 4, 2, 5)
  local y = F.scaled_dot_product_attention(qkv[1], qkv[2], qkv[3],
    {is_causal = true, dropout_p = self.training and self.dropout or 0})
  return self.out(y:transpose(2, 3):reshape(batch, length, width))
end

local Block = nn.class("Block")

function Block:init(width, heads, dropout)
  self.norm1 = nn.LayerNorm(width)
  self.attention = Attention(width, heads, dropout)
  self.norm2 = nn.LayerNorm(width)
  self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))
end

function Block:forward(x)
  x = x + self.attention(self.norm1(x))
  return x + self.mlp(self.norm2(x))
end

local GPT = nn.class("GPT")

function GPT:init(config)
  self.token = nn.Embedding(config.vocabulary, config.width)
  self.position = nn.Embedding(config.block, config.width)
  self.blocks = nn.ModuleList()
  for _ = 1, config.layers do self.blocks:append(Block(config.width, config.heads, config.dropout)) end
  self.norm = nn.LayerNorm(config.width)
  self.head = nn.Linear(config.width, config.vocabulary, {bias = false})
  self:register_buffer("positions", sft.arange(1, config.block + 1), {persistent = false})
  self:apply(function(m)
    if m:is(nn.Linear) or m:is(nn.Embedding) then nn.init.normal_(m.weight, 0, 0.02) end
    if m:is(nn.Linear) and m.bias then nn.init.zeros_(m.bias) end
  end)
end

-- ids [batch, length], from 1 -> logits [batch, length, vocabulary]
function GPT:forward(ids)
  local x = self.token(ids) + self.position(self.positions:narrow(1, 1, ids:size(2)))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

-- The text ---------------------------------------------------------------------------------------

-- All Lua files of the repository, in a fixed order.
local function own_text()
  local root = folder_of_script() .. "/.."
  local list = io.popen(("find '%s/lib' '%s/scripts' '%s/spec' -name '*.lua' 2>/dev/null | LC_ALL=C sort")
    :format(root, root, root))
  local parts = {}
  for path in list:lines() do parts[#parts + 1] = sft.data.read_text(path) end
  list:close()
  if #parts == 0 then stop("found no Lua files beside %s; pass --text FILE", arg[0]) end
  return table.concat(parts, "\n")
end

local function read_text()
  if not opt.text then return own_text() end
  local ok, text = pcall(sft.data.read_text, opt.text)
  if not ok then stop("%s", text.message or text) end
  return text
end

local function vocabulary_of(text)
  local seen, chars = {}, {}
  for i = 1, #text do seen[text:byte(i)] = true end
  for byte = 0, 255 do
    if seen[byte] then chars[#chars + 1] = string.char(byte) end
  end
  return table.concat(chars)
end

-- The place of each byte in the vocabulary, as a tensor.
local function encode(text, vocabulary)
  local place = {}
  for byte = 0, 255 do place[byte + 1] = vocabulary:find(string.char(byte), 1, true) or 0 end
  local bytes = sft.frombuffer(text, {dtype = sft.uint8}):to {dtype = sft.int64}
  local ids = sft.tensor(place, {dtype = sft.int64}):index_select(1, bytes + 1)
  if ids:min():item() == 0 then
    local unknown = text:byte(ids:argmin():item())
    stop("the text has the character %q, which the checkpoint does not know", string.char(unknown))
  end
  return ids
end

-- Setting up -------------------------------------------------------------------------------------

local saved
if opt.resume then
  local path = opt.resume == true and opt.checkpoint or opt.resume
  local ok, tree = pcall(sft.load, path)
  if not ok then stop("can't resume: %s", tree.message or tree) end
  if type(tree.config) ~= "table" or not tree.step then stop("%s is not a checkpoint of this script", path) end
  saved = tree
  if not opt.given.checkpoint then opt.checkpoint = path end
  for _, key in ipairs {"layers", "width", "heads", "block", "dropout"} do
    if opt.given[key] and opt[key] ~= saved.config[key] then
      stop("--%s is %s, the checkpoint has %s", key, opt[key], saved.config[key])
    end
    opt[key] = saved.config[key]
  end
  for _, key in ipairs {"batch", "lr", "text"} do
    if not opt.given[key] then opt[key] = saved.options[key] end
  end
end

if opt.width % opt.heads ~= 0 then
  stop("--width must be a multiple of --heads, got %d and %d", opt.width, opt.heads)
end

sft.manual_seed(opt.seed)
local text = read_text()
local vocabulary = saved and saved.vocabulary or vocabulary_of(text)
if #text < opt.block + 2 then
  stop("the text has %d characters, at least %d are needed for --block %d", #text, opt.block + 2, opt.block)
end

local config = {vocabulary = #vocabulary, block = opt.block, layers = opt.layers, width = opt.width,
  heads = opt.heads, dropout = opt.dropout}
local model = GPT(config):to(opt.device)
local optimizer = sft.optim.AdamW(model:named_parameters(), {lr = opt.lr, betas = {0.9, 0.99}, weight_decay = 0.1})
-- Up within 100 steps, then down with the root of the step: it does not depend on --steps, so that
-- a run which is resumed with more of them goes on as if it had been longer from the start.
local schedule = sft.optim.lr_scheduler.LambdaLR(optimizer, function(step)
  return math.min((step + 1) / 100, 1 / math.sqrt(1 + math.max(0, step - 100) / 400))
end)

local ids = encode(text, vocabulary):to(opt.device)
local held_out = math.min(#text // 10, 20000)
held_out = held_out > opt.block + 1 and held_out or 0
local training = ids:narrow(1, 1, #text - held_out)

-- Every stretch of block + 1 characters, as a view: row i starts at character i.
local windows = training:unfold(1, opt.block + 1, 1)

local function random_batch(rows)
  local starts = sft.randint(1, rows:size(1) + 1, {opt.batch}):to(opt.device)
  local both = rows:index_select(1, starts)
  return both:narrow(2, 1, opt.block), both:narrow(2, 2, opt.block)
end

local function loss_of(x, y)
  return F.cross_entropy(model(x):view(-1, config.vocabulary), y:reshape(-1))
end

-- Runs fn without gradients, in evaluation mode, and leaves the random numbers as they were.
local function evaluating(fn)
  local state = sft.get_rng_state()
  model:eval()
  local result = sft.no_grad(fn)
  model:train()
  sft.set_rng_state(state)
  return result
end

local function sample(length)
  return evaluating(function()
    sft.manual_seed(opt.seed)
    local out = {}
    -- The start of a line.
    local context = sft.full({1, 1}, vocabulary:find("\n", 1, true) or 1, {dtype = sft.int64, device = opt.device})
    for i = 1, length do
      local logits = model(context)[{1, -1}]
      local id = sft.multinomial((logits / opt.temperature):softmax(-1), 1)
      out[i] = vocabulary:sub(id:item(), id:item())
      context = sft.cat({context, id:view(1, 1)}, 2)
      local n = context:size(2)
      if n > opt.block then context = context:narrow(2, n - opt.block + 1, opt.block) end
    end
    return table.concat(out)
  end)
end

local function show_sample(title)
  if opt.sample == 0 then return end
  print(("-- %s %s"):format(title, ("-"):rep(90 - #title)))
  print((sample(opt.sample):gsub("[^\n\t -~]", "?")))
  print(("-"):rep(94))
end

-- Training ---------------------------------------------------------------------------------------

local step = 0
local total, count = sft.zeros({}, {device = opt.device}), 0   -- of the losses since the last printed one

local function save()
  sft.save(opt.checkpoint, {
    config = config, vocabulary = vocabulary, step = step, options = {batch = opt.batch, lr = opt.lr, text = opt.text},
    model = model:state_dict(), optimizer = optimizer:state_dict(), schedule = schedule:state_dict(),
    random = sft.get_rng_state(), total = total, count = count,
  })
end

if saved then
  model:load_state_dict(saved.model)
  optimizer:load_state_dict(saved.optimizer)
  schedule:load_state_dict(saved.schedule)
  sft.set_rng_state(saved.random)
  step, total, count = saved.step, saved.total:to(opt.device), saved.count
end

local parameters = 0
for p in model:parameters() do parameters = parameters + p:numel() end
print(("%d characters of text, %d different; a model of %d parameters on %s"):format(#text, #vocabulary, parameters,
  opt.device))
if saved then print(("resumed at step %d"):format(step)) end
show_sample(saved and ("as resumed, at step %d"):format(step) or "before training")

local started_at = step
local weights = model:parameters()
local bar = progress.new {total = opt.steps, start = step, every = opt.every, unit = "tokens"}
while step < opt.steps do
  local x, y = random_batch(windows)
  optimizer:zero_grad()
  local loss = loss_of(x, y)
  loss:backward()
  nn.utils.clip_grad_norm_(weights, 1.0)
  optimizer:step()
  schedule:step()
  step, total, count = step + 1, total + loss:detach(), count + 1
  bar:update(step, function() return {{"loss", total:item() / count}} end,
    (step - started_at) * opt.batch * opt.block)
  if step % opt.every == 0 then
    total, count = sft.zeros({}, {device = opt.device}), 0
  end
  if opt.save_every > 0 and step % opt.save_every == 0 and step < opt.steps then save() end
end
bar:finish()
save()
print(("saved to %s"):format(opt.checkpoint))

if held_out > 0 then
  local rows = ids:narrow(1, #text - held_out + 1, held_out):unfold(1, opt.block + 1, 1)
  print(("loss on text held out: %.4f"):format(evaluating(function()
    sft.manual_seed(opt.seed)
    local sum = 0
    for _ = 1, 20 do sum = sum + loss_of(random_batch(rows)):item() end
    return sum / 20
  end)))
end
show_sample(("after %d steps"):format(step))
