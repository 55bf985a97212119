"""Causes in words, for modules outside the planted bugs; no cause where none is known."""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from equiscope.audit import check
from tests.audit.zoo import (
    AddAt,
    Attend,
    Batched,
    Causal,
    Clock,
    Convolved,
    Layers,
    NormTokens,
    Table,
    Turned,
    features,
    placed,
    words,
)
from tests.audit.zoo_padding import Keeps


def row(model, given, statement, **settings):
    action = statement in ("permute", "shift", "reverse")
    return check(model, *given, actions=[statement] * action, properties=[statement] * (not action), **settings).rows[0]


class Reaches(Causal):
    """Sees one token that lies further ahead, and none between."""

    def bias(self, scores, at):
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1) & ~torch.ones_like(scores, dtype=torch.bool).triu(3)
        return scores.masked_fill(hidden | torch.ones_like(scores, dtype=torch.bool).triu(4), float("-inf"))


class Interleaved(nn.Module):
    """Both turned in neighbouring pairs, keys by twice the angle."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, at):
        def turned(t, angle):
            a, b = t[..., 0::2], t[..., 1::2]
            return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)

        q, k = turned(self.query(x), at), turned(self.key(x), 2 * at)
        return torch.einsum("bnk,bmk->bnm", q, k).softmax(-1) @ x


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (lambda: Causal(reach=2), "token i attends to token i + 1: the mask is off by one"),
        pytest.param(lambda: Causal(reach=4), "token i attends to token i + 3, 3 tokens ahead", marks=pytest.mark.thorough),
        (Reaches, "token i attends to token i + 3"),
        (Attend, "softmax over the axis of tokens: every token depends on all later ones"),
        pytest.param(
            lambda: NormTokens(False),
            "layer_norm over the axis of tokens: every token depends on all later ones",
            marks=pytest.mark.thorough,
        ),
        (Convolved, "token i reads token i + 1: the padding is off by one"),
        (Clock, "the output does not depend on later tokens, but on their number: something depends on the sequence length"),
        pytest.param(
            lambda: Turned("length"), "the output does not depend on later tokens, but on their number", marks=pytest.mark.thorough
        ),
    ],
)
def test_the_cause_says_how_far_ahead_a_model_attends(model, cause):
    assert cause in row(model(), features(), "causal").cause


def test_the_cause_says_what_mixes_a_batch():
    assert row(Batched(), features(), "batch", mode="train").cause == "batch_norm over the batch axis"


class Capacity(nn.Module):
    """The first rows of all sequences together are mapped, as a layer of experts with a capacity does."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(8, 8)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        kept = torch.arange(len(rows)) < 6
        return (rows + self.map(rows) * kept[:, None]).view_as(x)


def test_a_reshape_that_joins_the_sequences_is_not_called_the_fault():
    found = row(Capacity(), features(), "batch")
    assert (found.verdict, found.cause) == ("broken", "after reshape, which puts all sequences of the batch into one axis")


def test_the_cause_names_the_operation_that_depends_on_the_order():
    assert row(Layers(a=Attend(), b=Convolved()), features(), "permute").cause.startswith("conv1d")
    assert row(Layers(a=Attend(), b=Table()), features(), "permute").cause == "b is added to the tokens, and its rows differ"


def test_positions_that_are_not_distinguished_are_named():
    assert row(AddAt("clipped"), placed(), "shift").cause == "positions beyond 3 are not distinguished"
    assert row(AddAt("strided"), placed(), "shift").cause == ""  # every place differs from the next


class Clipped(nn.Module):
    """Attention with a bias by the distance, clipped at 3 on both sides; positions below `low` count as `low`."""

    def __init__(self, low=0):
        super().__init__()
        self.low, self.table = low, nn.Parameter(torch.randn(7))
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, at):
        places = at[..., 0].clamp(min=self.low)
        distances = (places[:, None] - places).clamp(-3, 3).long() + 3
        return (self.query(x) @ self.key(x).mT + self.table[distances]).softmax(-1) @ x


class Strided(Clipped):
    """The same, with a table that repeats after four positions."""

    def __init__(self):
        super().__init__()
        self.four = nn.Parameter(torch.randn(4, 8))

    def forward(self, x, at):
        return super().forward(x + self.four[at[..., 0].long() % 4], at)


def test_a_clipped_distance_is_no_limit_of_positions():
    assert row(Clipped(), placed(), "shift").verdict == "holds"
    found = row(Clipped(2), placed(), "shift")
    assert (found.verdict, found.cause) == ("broken", "positions up to 2 are not distinguished")
    found = row(Strided(), placed(), "shift")
    assert found.verdict == "broken"
    assert "not distinguished" not in found.cause


def test_different_angles_are_named():
    assert row(Turned("double"), placed(), "shift").cause == "queries and keys are rotated by different angles"
    assert row(Interleaved(), placed(), "shift").cause == "queries and keys are rotated by different angles"


def test_the_cause_says_from_which_token_on_a_cache_differs():
    assert row(Keeps("clock"), words(), "cache").cause.startswith("the difference begins at token 1, in piece 2 of 7: ")
    assert row(Keeps("forgets"), words(), "cache").cause.endswith("piece 6 of 7: 5 keys are attended to instead of 7")


class Returns(Keeps):
    """The same, as a dict or as a tuple."""

    def __init__(self, kind, how=""):
        super().__init__(how)
        self.kind = kind

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        output = vars(super().forward(input_ids, past_key_values, use_cache))
        return output if self.kind is dict else tuple(output.values())


@pytest.mark.parametrize("loaded", [False, True])
def test_a_cache_that_is_a_key_of_the_output_is_read(loaded, monkeypatch):
    """loaded: whether transformers is, whose models may write into the cache that they are given."""
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers") if loaded else None)
    assert row(Returns(dict), words(), "cache").verdict == "holds"
    assert row(Returns(dict, "forgets"), words(), "cache").verdict == "broken"
    found = row(Returns(tuple), words(), "cache")
    assert found.verdict == "undecided"
    assert "the output has no past_key_values, as an attribute or a key" in found.note


def test_what_holds_has_no_cause():
    assert row(Causal(), features(), "causal").cause == ""
    assert row(Turned(), placed(), "shift").cause == ""


class Learned(nn.Module):
    """Adds a table of positions in the model itself, between its parts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.wpe, self.head = nn.Embedding(20, 8), nn.Embedding(32, 8), nn.Linear(8, 8)

    def forward(self, ids):
        return self.head(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))


def test_the_cause_names_the_table_that_is_added():
    found = check(Learned().eval(), torch.randint(20, (2, 6)), actions=["permute"])["permute"]
    assert (found.verdict, found.where) == ("broken", "wpe")
    assert found.cause == "wpe is added to the tokens, and its rows differ"
