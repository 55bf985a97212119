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
