"""What one step reads or computes otherwise: a norm, a token, positions, learned queries, one of two outputs."""

import copy

import pytest
import torch
from torch import nn

import equiscope as eq

D = 8


class Reader(nn.Module):
    """Ids [B, N]; learned queries, normalised, attend to the tokens. change: what another implementation does otherwise."""

    def __init__(self, change=""):
        super().__init__()
        self.change = change
        self.tokens, self.places, self.queries = nn.Embedding(11, D), nn.Embedding(9, D), nn.Parameter(torch.randn(4, D))
        self.batch, self.norm, self.key, self.out = nn.BatchNorm1d(D), nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, 3)
        for p in (self.norm.weight, self.norm.bias, self.batch.weight, self.batch.bias, self.batch.running_mean):
            nn.init.normal_(p)

    def forward(self, ids):
        change = self.change
        at = torch.arange(1, ids.shape[1] + 1).expand_as(ids) * (ids != 0)
        at = torch.where(at > 0, ids.shape[1] + 1 - at, at) if change == "backwards" else at
        x = self.tokens(ids) + self.places(at)
        y = self.key(x)
        if change == "layer norm":
            y = x + nn.functional.layer_norm(y, (D,), self.batch.weight, self.batch.bias)
        elif change == "no weight":
            y = x + (y - self.batch.running_mean) * (self.batch.running_var + 1e-5).rsqrt() + self.batch.bias
        elif change == "norm of the sum":
            y = self.batch((x + y).mT).mT
        else:
            y = x + self.batch(y.mT).mT
        queries = self.queries if change == "queries as they are" else self.norm(self.queries)
        read = (queries @ y.mT / D**0.5).softmax(-1) @ y
        first = self.out(y[:, -1 if change == "last token" else 0])
        return read / (2 if change == "half" else 1), first.tanh()


@pytest.mark.parametrize(
    ("change", "kind", "place"),
    [
        ("", "", ""),
        ("backwards", "exchanged", "places"),
        ("layer norm", "norm kind", "batch"),
        ("no weight", "norm weight", "batch"),
        ("norm of the sum", "norm placement", "batch"),
        ("queries as they are", "norm placement", "norm"),
        ("last token", "exchanged", "out"),
        ("half", "scale", ""),
    ],
)
def test_what_one_step_reads_or_computes_otherwise_is_named_where_it_is(change, kind, place):
    torch.manual_seed(0)
    a = Reader().eval()
    b = copy.deepcopy(a)
    b.change = change
    parity = eq.parity(a, b, torch.tensor([[0, 3, 4, 5, 1], [1, 8, 2, 9, 6]]), differences=1)
    assert parity.holds == (not change)
    assert parity.kind == kind, parity.cause
    if change:
        assert parity.step_a.module == place


class Projections(nn.Module):
    """Attention whose queries, keys and values are of one projection each, or of one for all. by_head: how the rows are split."""

    def __init__(self, of=None, by_head=False):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
        self.packed, self.by_head = of is not None, by_head
        if of is not None:
            self.parts.load_state_dict(of.parts.state_dict())
            self.weight = nn.Parameter(torch.cat([m.weight for m in self.parts]))
            self.bias = nn.Parameter(torch.cat([m.bias for m in self.parts]))

    def forward(self, x):
        if self.packed:
            y = nn.functional.linear(x, self.weight, self.bias)
            y = y.unflatten(-1, (2, 3, -1)).transpose(2, 3) if self.by_head else y.unflatten(-1, (3, 2, -1))
            q, k, v = y.unbind(-3)
        else:
            q, k, v = (m(x).unflatten(-1, (2, -1)) for m in self.parts)
        return torch.einsum("bhij,bjhd->bihd", torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1), v)


def test_projections_that_the_other_side_packs_head_by_head_are_a_layout():
    torch.manual_seed(0)
    a, x = Projections(), torch.randn(2, 5, D)
    assert eq.parity(a, Projections(a), x, differences=1).holds
    parity = eq.parity(a, Projections(a, by_head=True), x, differences=1)
    assert parity.kind == "fused layout", parity.cause
