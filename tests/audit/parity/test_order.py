"""Causes that are an order: of rows, parts, pairs, layers and constants; each also beside a model without it."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit.parity.causes.masks import named
from equiscope.audit.parity.sides import Node, Side

D, T = 8, 6


class Retention(nn.Module):
    """Attention without a softmax, with rotated keys and queries of one projection, behind two small layers."""

    def __init__(self, fault=""):
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.first, self.second, self.fused, self.out = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D + 4), nn.Linear(D, 3)
        self.gate, self.table = nn.Linear(4, D), nn.Parameter(torch.randn(T, T))

    def rotated(self, x, start=0):
        at = torch.arange(start, start + T, dtype=x.dtype)[:, None] * 100.0 ** (-torch.arange(D // 2, dtype=x.dtype) / (D // 2))
        a, b = x.chunk(2, -1) if self.fault == "halves" else (x[..., ::2], x[..., 1::2])
        return torch.stack([a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos()], -1).flatten(-2)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        x = x if self.fault == "layer" else torch.sigmoid(self.second(x))
        y = self.fused(x)
        gate, q = y.split([4, D], -1) if self.fault == "parts" else y.split([D, 4], -1)[::-1]
        k = self.rotated(q)
        q = self.rotated(q, 1) if self.fault == "offset" else k
        content, table = q @ k.mT, (self.table.mT if self.fault == "constants" else self.table) * 2.0
        decay = (0.5 ** (torch.arange(T)[:, None] - torch.arange(T)).to(x.dtype)).tril()
        mask = decay.roll(1, 0).tril(-1) if self.fault == "mask" else decay
        mixed = (content * mask + (2.0 if self.fault == "term" else 0.5) * (table * mask)) @ x
        y = self.out(mixed * torch.sigmoid(self.gate(gate)))
        return y[:, 0] if self.fault == "rows" else y[:, -1]


class Written(Retention):
    """The same, with other steps."""

    def rotated(self, x, start=0):
        if self.fault == "halves":
            return super().rotated(x, start)
        at = torch.arange(start, start + T, dtype=x.dtype)[:, None] * 100.0 ** (-torch.arange(D // 2, dtype=x.dtype) / (D // 2))
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(at), at)
        return torch.view_as_real(z).flatten(-2)


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        ("rows", "exchanged", "entry 5 of axis 1"), ("parts", "fused layout", "of widths 8, 4"),
        ("halves", "rope layout", "pairs (2i"), ("offset", "rope offset", "position 1"),
        ("layer", "exchanged", "is read in its place"), ("term", "scale", "4 times"),
        ("mask", "mask", "of the row before it"),
    ],
)  # fmt: skip
def test_an_order_is_named(fault, kind, says):
    found = eq.parity(Retention().eval(), Written(fault).eval(), torch.randn(2, T, D), differences=1)
    assert (found.kind, says in found.cause) == (kind, True), found.cause


def test_two_ways_to_write_it_are_no_difference():
    assert eq.parity(Retention().eval(), Written().eval(), torch.randn(2, T, D), differences=1).holds


def test_a_window_is_named_beside_a_rule_that_shows_more():
    i = torch.arange(8)
    gap = i[:, None] - i
    image = (i[:, None] >= 2) & (i[:, None] < 5) & (i >= 2) & (i < 5)
    window = [(((gap >= 0) & (gap < w)) | image)[None] for w in (2, 3)]
    assert named(*window) == ("window", "tokens up to 1 before", "tokens up to 2 before")
    documents = (gap >= 0)[None], ((gap >= 0) & (i[:, None] // 4 == i // 4))[None]
    assert named(*documents)[0] == "mask"


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["t000/layers/0", "t001/head"], True), (["0.layers", "1.head"], True), (["layers.0", "embed"], True),
        (["embed", "head", "layers.0"], False), (["layers.0.attention", "layers.0.feed_forward"], False),
    ],
)  # fmt: skip
def test_names_that_count_recorded_tensors_are_an_order(names, ordered):
    nodes = [Node(i, name, "", name) for i, name in enumerate(names)]
    assert Side("file", nodes, {}, {}, set(), {}).is_ordered == ordered
