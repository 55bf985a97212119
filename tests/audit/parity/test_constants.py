"""Constants that differ, and factors that stand at other places."""

import pytest
import torch
from torch import nn

import equiscope as eq


class Scaled(nn.Module):
    """Embeddings times a number; scale: a function of the model that gives it; cast: of the result."""

    def __init__(self, scale, cast=None):
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(11, 24), nn.LayerNorm(24), nn.Linear(24, 11)
        self.stored = nn.Buffer(torch.tensor(24**0.5).bfloat16())
        self.scale, self.cast = scale, cast

    def forward(self, ids):
        x = self.table(ids) * self.scale(self)
        x = x if self.cast is None else x.to(self.cast).to(x.dtype)
        return self.head(x + self.norm(x))


def scaled(*choices):
    torch.manual_seed(0)
    return Scaled(*choices)


@pytest.mark.parametrize(
    "scale",
    [lambda m: torch.tensor(24**0.5).bfloat16().item(), lambda m: torch.tensor(24**0.5).to(torch.bfloat16), lambda m: m.stored],
    ids=["read by Python", "cast", "stored"],
)
def test_a_constant_in_half_precision_beside_weights_in_float32_is_another_constant(scale):
    ids = torch.arange(10).view(2, 5)
    found = eq.parity(scaled(lambda m: 24**0.5), scaled(scale), ids, differences=1)
    assert (found.verdict, found.kind) == ("approximate", "embedding scale"), found.summary


def test_a_constant_in_half_precision_beside_such_weights_is_rounding_and_so_is_a_cast_of_activations():
    ids = torch.arange(10).view(2, 5)
    assert eq.parity(scaled(lambda m: 24**0.5).bfloat16(), scaled(lambda m: m.stored).bfloat16(), ids).holds
    assert eq.parity(scaled(lambda m: 24**0.5), scaled(lambda m: 24**0.5, torch.bfloat16), ids).holds


class Memory(nn.Module):
    """Linear attention with a decay: at once, with a factor of the keys, or token by token, with the factor of the queries."""

    def __init__(self, recurrent, decay):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))
        self.recurrent, self.decay = recurrent, decay

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        k = k if self.recurrent else k / 2
        q, k = (y * 0.6 + y.roll(1, -1) * 0.8 for y in (q, k))
        if not self.recurrent:
            i = torch.arange(x.shape[1])
            return nn.functional.normalize((q @ k.mT * (self.decay ** (i[:, None] - i).to(x.dtype)).tril()) @ v, dim=-1)
        q, state, rows = q / 2, 0, []
        for i in range(x.shape[1]):
            state = self.decay * state + k[:, i, :, None] * v[:, i, None]
            rows.append((q[:, i, :, None] * state).sum(1))
        return nn.functional.normalize(torch.stack(rows, 1), dim=-1)


def test_a_factor_that_the_other_side_has_at_another_place_is_no_cause():
    a, b, x = Memory(False, 0.9), Memory(True, 0.9), torch.randn(2, 2, 4)
    b.load_state_dict(a.state_dict())
    assert eq.parity(a, b, x).holds
    b.decay = 0.7
    found = eq.parity(a, b, x, differences=1)
    assert found.verdict == "broken"
    assert found.kind not in ("scale", "exchanged"), found.cause


class Rotated(nn.Module):
    """Linear attention of rotated queries and keys: all pairs at once, or token by token."""

    def __init__(self, recurrent, base, sign=1):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.recurrent, self.base, self.sign = recurrent, base, sign

    def forward(self, x):
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * self.base ** (-torch.arange(3, dtype=x.dtype) / 3)
        cos, sin = angles.cos(), (self.sign * angles).sin()

        def rotated(y):
            a, b = y.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

        q, k, v = rotated(self.q(x)), rotated(self.k(x)), self.v(x)
        if not self.recurrent:
            return (q @ k.mT).tril() @ v
        return (q.unsqueeze(-1) * (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(1)).sum(-2)


@pytest.mark.parametrize(("changed", "kind"), [((True, 500.0), "rope base"), ((True, 1e4, -1), "rope direction")])
def test_a_rotation_of_linear_attention_is_named(changed, kind):
    a, b = Rotated(False, 1e4), Rotated(*changed)
    b.load_state_dict(a.state_dict())
    found = eq.parity(a, b, torch.randn(2, 4, 6), differences=1)
    assert found.kind == kind, found.summary
    assert "10000" in found.cause or kind != "rope base"


class Branch(nn.Module):
    """A sum of x and a branch that is moved by one token, or not."""

    def __init__(self, moved):
        super().__init__()
        self.one, self.two, self.moved = nn.Linear(8, 8), nn.Linear(8, 8), moved

    def forward(self, x):
        y = self.one(x).tanh()
        return self.two(x + (y.roll(1, 1) if self.moved else y))


def test_a_sum_that_reads_another_form_of_its_branch_has_the_same_residual():
    a, b = Branch(True), Branch(False)
    b.load_state_dict(a.state_dict())
    found = eq.parity(a, b, torch.randn(2, 6, 8), differences=1)
    assert found.kind == "exchanged", found.cause
