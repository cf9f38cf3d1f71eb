"""Small networks of PyTorch on which the greedy plans of ExecuTorch are larger than needed, or not."""

import torch
from torch import nn


class Residual(nn.Module):
    """Blocks of two convolutions beside a convolution of one pixel."""

    def __init__(self):
        super().__init__()
        sizes = [(8 << number, 16 << number) for number in range(3)]
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.first = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in sizes)
        self.second = nn.ModuleList(nn.Conv2d(b, b, 3, padding=1) for _, b in sizes)
        self.skip = nn.ModuleList(nn.Conv2d(a, b, 1, stride=2) for a, b in sizes)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for first, second, skip in zip(self.first, self.second, self.skip, strict=True):
            x = torch.relu(second(torch.relu(first(x))) + skip(x))
        return x.mean((2, 3))


class Attention(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        scores = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2) / 6, -1)
        x = x + scores @ self.value(x)
        return x + self.down(torch.relu(self.up(x)))


class Branches(nn.Module):
    """Two branches of which a condition chooses, each with tensors of its own."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 200), nn.Linear(200, 64)

    def forward(self, x):
        def long_way(x):
            return self.down(torch.relu(self.up(x)))

        found = torch.cond(x.sum() > 0, long_way, lambda x: x * 2.0, (x,))
        return torch.relu(found + x).mean(-1)


class Remembering(nn.Module):
    """A network with a state from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(1, 16))
        self.mixed = nn.Linear(32, 16)

    def forward(self, x):
        self.kept.copy_(torch.tanh(self.mixed(torch.cat([x, self.kept], 1))))
        return self.kept * 2


MODELS = {  # with a frame
    "residual": (Residual, (1, 3, 24, 24)),
    "attention": (Attention, (1, 12, 32)),
    "branches": (Branches, (2, 64)),
    "remembering": (Remembering, (1, 16)),
}
