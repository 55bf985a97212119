"""One attention in two forms, for the causes that the two families of decoders do not have."""

import math

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS = 24, 3
K = WIDTH // HEADS


class First(nn.Module):
    """Queries of the last N tokens of M, three projections, scores written out."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(1)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.options = options

    def forward(self, x):
        o, m = self.options, x.shape[1]
        n = m - o.get("cached", 0)
        q, k, v = (p(t).unflatten(-1, (HEADS, K)).transpose(1, 2) for p, t in ((self.q, x[:, m - n :]), (self.k, x), (self.v, x)))
        v = v[:, o.get("values", [0, 1, 2])]
        i, j = torch.arange(n)[:, None], torch.arange(m)[None]
        late = 0 if o.get("align") == "top" else m - n
        scores = q @ k.mT * o.get("scale", K**-0.5)
        if "slope" in o:
            slopes = torch.tensor([2.0 ** (-o["slope"] * h) for h in range(1, HEADS + 1)])[:, None, None]
            scores = scores - slopes * (i + m - n - j).abs()
        if o.get("rope"):
            scores = self.rotated(q, m - n) @ self.rotated(k, 0).mT * K**-0.5
        weights = scores.masked_fill(j > i + late, -math.inf).softmax(-1)
        y = self.o((weights @ v).transpose(1, 2).flatten(2))
        return y if o.get("bias", True) else y - self.o.bias

    def rotated(self, x, start):
        angles = torch.outer(torch.arange(x.shape[2]) + start, 100.0 ** (-torch.arange(K // 2) / (K // 2))).to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class Second(First):
    """SDPA with one fused projection."""

    def __init__(self, **options):
        super().__init__(**options)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([p.weight for p in (self.q, self.k, self.v)]))
            self.qkv.bias.copy_(torch.cat([p.bias for p in (self.q, self.k, self.v)]))
        self.out = self.o
        del self.q, self.k, self.v, self.o

    def forward(self, x):
        o, (b, m, _) = self.options, x.shape
        n = m - o.get("cached", 0)
        q, k, v = self.qkv(x).view(b, m, 3, HEADS, K).permute(2, 0, 3, 1, 4)
        q, v = q[:, :, m - n :], v[:, o.get("values", [0, 1, 2])]
        gap = torch.arange(m)[None] - torch.arange(n)[:, None] - (m - n)
        mask = torch.where(gap > (n - m if o.get("align") == "top" else 0), -math.inf, 0.0).to(x.dtype)
        if "slope" in o:
            mask = mask - torch.tensor([2.0 ** (-o["slope"] * h) for h in range(1, HEADS + 1)])[:, None, None] * gap.abs()
        if o.get("rope"):
            q, k = self.rotated(q, m - n), self.rotated(k, 0)
        y = F.scaled_dot_product_attention(q, k, v, mask.to(x.dtype), scale=o.get("scale", K**-0.5)).transpose(1, 2).flatten(2)
        return self.out(y)


CASES = [  # name, options of A, options of B, kind
    ("healthy", {}, {}, ""), ("healthy slopes", {"slope": 2, "cached": 4}, {"slope": 2, "cached": 4}, ""),
    ("healthy rope", {"rope": True}, {"rope": True}, ""),
    ("mask alignment", {"cached": 4}, {"cached": 4, "align": "top"}, "mask alignment"),
    ("position bias", {"slope": 2}, {}, "position bias"), ("slopes", {"slope": 2}, {"slope": 3}, "position bias"),
    ("value heads", {}, {"values": [1, 0, 2]}, "head order"), ("rope missing", {"rope": True}, {}, "rope"),
    ("scale", {}, {"scale": 1.0}, "softmax scale"),
]  # fmt: skip


def inputs():
    return torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(2))
