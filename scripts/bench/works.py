"""What is measured, in PyTorch: the same as works.lua, under the same names. setup() prepares the
data and returns a function that does the work n times."""
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import nn

works = {}


def work(name, setup):
    works[name] = setup


def times(body):
    def run(n):
        for _ in repeat(None, n):
            body()

    return run


# Calls -------------------------------------------------------------------------------------------


def setup():
    a, b = torch.rand(1), torch.rand(1)

    def run(n):
        for _ in repeat(None, n):
            a + b

    return run


work("a + b, 1 element", setup)


def setup():
    a, b = torch.zeros(1), torch.zeros(1)

    def run(n):
        for _ in repeat(None, n):
            a.add_(b)

    return run


work("a.add_(b), 1 element", setup)


def setup():
    x = torch.rand(100, 4)

    def run(n):
        for _ in repeat(None, n):
            x[4]

    return run


work("x[i]", setup)


def setup():
    a, b = torch.rand(2, 2), torch.rand(2, 2)

    def run(n):
        for _ in repeat(None, n):
            a.matmul(b)

    return run


work("matmul 2x2", setup)


def setup():
    x = torch.rand(2, 2, requires_grad=True)
    w = torch.rand(2, 2, requires_grad=True)
    b = torch.rand(2, 2)

    def body():
        h = ((x * w + b).tanh() * w + b).sigmoid()
        (h * w + b).relu().sum().backward()
        x.grad = w.grad = None

    return times(body)


work("ten small ops, forward and backward", setup)

# Elementwise -------------------------------------------------------------------------------------


def elementwise(name, count, op):
    def make():
        x, y = torch.randn(int(float(count))), torch.randn(int(float(count)))

        def run(n):
            for _ in repeat(None, n):
                op(x, y)

        return run

    work(f"{name}, {count} elements", make)


for count in ("1e5", "1e7"):
    elementwise("add", count, lambda x, y: x + y)
    elementwise("mul", count, lambda x, y: x * y)
    elementwise("relu", count, lambda x, y: x.relu())
    elementwise("exp", count, lambda x, y: x.exp())
    elementwise("gelu", count, lambda x, y: F.gelu(x))
    elementwise("tanh", count, lambda x, y: x.tanh())

# Reductions --------------------------------------------------------------------------------------


def reduction(name, over, dim):
    def make():
        x = torch.randn(4096, 1024)
        op = getattr(x, name)
        given = () if dim is None else (dim,)

        def run(n):
            for _ in repeat(None, n):
                op(*given)

        return run

    work(f"{name} over {over}, 4096x1024", make)


for name in ("sum", "mean", "max"):
    for over, dim in (("all", None), ("the first dim", 0), ("the last dim", 1)):
        reduction(name, over, dim)

# Rows --------------------------------------------------------------------------------------------


def with_backward(name, make):
    def forward():
        f, x, _ = make(False)

        def run(n):
            for _ in repeat(None, n):
                f(x)

        return run

    def both():
        f, x, leaves = make(True)
        y = f(x)
        g = torch.randn(y.shape) if y.ndim else None
        del y

        def body():
            f(x).backward(g)
            for leaf in leaves:
                leaf.grad = None

        return times(body)

    work(name + ", forward", forward)
    work(name + ", forward and backward", both)


def softmax(op):
    def make(grad):
        x = torch.randn(4096, 1024, requires_grad=grad)
        return lambda v: op(v, -1), x, [x]

    return make


with_backward("softmax 4096x1024", softmax(torch.softmax))
with_backward("log_softmax 4096x1024", softmax(torch.log_softmax))


def make(grad):
    x = torch.randn(4096, 1024, requires_grad=grad)
    w, b = torch.ones(1024, requires_grad=grad), torch.zeros(1024, requires_grad=grad)
    return lambda v: F.layer_norm(v, (1024,), w, b), x, [x, w, b]


with_backward("layer_norm 4096x1024", make)


def make(grad):
    x = torch.randn(4096, 1000, requires_grad=grad)
    target = torch.randint(0, 1000, (4096,))
    return lambda v: F.cross_entropy(v, target), x, [x]


with_backward("cross_entropy 4096x1000", make)

# Matrix products ---------------------------------------------------------------------------------


def product(name, make):
    def setup():
        a, b = make()

        def run(n):
            for _ in repeat(None, n):
                a.matmul(b)

        return run

    work(name, setup)


for s in (128, 256, 512, 1024):
    product(f"matmul {s}^3", lambda s=s: (torch.randn(s, s), torch.randn(s, s)))
for m, n, k in (
    (128, 512, 784),
    (128, 512, 512),
    (128, 10, 512),
    (768, 384, 128),
    (768, 512, 128),
    (768, 128, 512),
    (2048, 1152, 384),
    (2048, 1536, 384),
    (2048, 384, 1536),
):
    t = f"{m}x{n}x{k}"
    product("matmul NT " + t, lambda m=m, n=n, k=k: (torch.randn(m, k), torch.randn(n, k).t()))
    product("matmul NN " + t, lambda m=m, n=n, k=k: (torch.randn(m, k), torch.randn(k, n)))
    product("matmul TN " + t, lambda m=m, n=n, k=k: (torch.randn(k, m).t(), torch.randn(k, n)))
for b, s, k in ((48, 64, 32), (48, 256, 64)):
    product(
        f"bmm {b}x{s}x{s}x{k}",
        lambda b=b, s=s, k=k: (torch.randn(b, s, k), torch.randn(b, s, k).transpose(1, 2)),
    )

# Convolution -------------------------------------------------------------------------------------


def convolution(inputs, size, outputs):
    def make(grad):
        x = torch.randn(64, inputs, size, size, requires_grad=grad and inputs > 1)
        return nn.Conv2d(inputs, outputs, 3, padding=1), x

    def forward():
        conv, x = make(False)

        def run(n):
            with torch.no_grad():
                for _ in repeat(None, n):
                    conv(x)

        return run

    def both():
        conv, x = make(True)
        g = torch.randn(64, outputs, size, size)

        def body():
            conv(x).backward(g)
            x.grad = conv.weight.grad = conv.bias.grad = None

        return times(body)

    name = f"conv2d 64x{inputs}x{size}x{size} to {outputs}, 3x3"
    work(name + ", forward", forward)
    work(name + ", forward and backward", both)


for s in ((1, 28, 32), (32, 28, 64), (64, 32, 64), (128, 16, 128)):
    convolution(*s)

# Training steps ----------------------------------------------------------------------------------


def train(model, optimizer, loss):
    def body():
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()

    return times(body)


def setup():
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))
    return train(
        model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda m: F.cross_entropy(m(x), y)
    )


work("step of MLP 784-512-512-10, batch 128, Adam", setup)


def setup():
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return train(model, optimizer, lambda m: F.cross_entropy(m(x), y))


work("step of CNN 32-64-pool-128-10, batch 64, SGD momentum", setup)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, layers, width, heads):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("places", torch.arange(length))

    def forward(self, ids):
        x = self.token(ids) + self.position(self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(layers, width, heads, length, batch):
    def make():
        model = GPT(65, length, layers, width, heads)
        x = torch.randint(0, 65, (batch, length))
        y = torch.randint(0, 65, (batch * length,))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return train(model, optimizer, lambda m: F.cross_entropy(m(x).view(-1, 65), y))

    work(f"step of GPT {layers}x{width}, T {length}, batch {batch}, AdamW", make)


gpt(4, 128, 4, 64, 12)
gpt(6, 384, 6, 256, 8)

# Data --------------------------------------------------------------------------------------------


def setup():
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.rand(50000, 784), torch.randint(0, 10, (50000,)))
    loader = DataLoader(data, batch_size=128, shuffle=True)

    def body():
        for _ in loader:
            pass

    return times(body)


work("epoch of DataLoader, 50000x784 by 128", setup)
