"""Verdicts: rounding and violation are distinguished without a tolerance."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import WIDTH, attending, words
from torch import nn

from equiscope.attention import MultiHeadAttention
from equiscope.errors import UnknownName
from equiscope.positions import Rope
from equiscope.symmetry import ACTIONS, CLAIMED, Permute, Reverse, Shift, floor, measure, named, relative_error, verdict

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("error", "error32", "wanted"),
    [
        (0.0, 0.0, "holds"), (0.0, 1e-7, "holds"), (1e-16, 1e-7, "holds"), (1e-13, 1e-4, "holds"), (2e-8, 3e-4, "holds"),
        (0.5, 0.5, "broken"), (1e-4, 1e-4, "approximate"), (1e-9, 1e-9, "approximate"),
        (float("nan"), 0.1, "undecided"), (float("inf"), 0.1, "undecided"), (0.1, float("nan"), "undecided"),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_how_the_error_shrinks_with_the_precision(error, error32, wanted):
    assert verdict(error, error32) == wanted


def test_an_error_of_nothing_is_nothing():
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0.0
    assert relative_error(torch.ones(2), torch.zeros(2)) == float("inf")


def test_the_floor_is_the_rounding_of_float64():
    x = torch.randn(50, 50, dtype=torch.float64)
    assert 1e-18 < floor(lambda dtype: x.to(dtype) @ x.to(dtype)) < 1e-14


class Leak(nn.Module):
    """Permutation equivariant but for a small truth about the first row."""

    def __init__(self, size):
        super().__init__()
        self.attention, self.size = MultiHeadAttention(WIDTH, 2), size

    def forward(self, tokens):
        first = torch.zeros_like(tokens.x)
        first[..., 0, :] = self.size
        return self.attention(tokens) + first


@pytest.mark.parametrize(("size", "wanted"), [(0.0, "holds"), (1e-3, "approximate"), (1.0, "broken")])
def test_a_small_violation_is_not_taken_for_rounding(size, wanted):
    found = measure(Leak(size), words(), Permute((1, 2, 3, 4, 5, 0)))
    assert found.verdict == wanted
    assert found.floor < 1e-12


@pytest.mark.slow
def test_luck_in_float32_does_not_make_a_rounding_error_a_violation():
    """Over hundreds of shifts the float32 outputs of a rotary model agree to the last bit now and then."""
    model, tokens = attending(Rope()).attention, words(length=2)

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.position = model, Rope()

        def forward(self, tokens):
            return self.part(tokens, self.position)[..., -1:, :1]

    found = [measure(Last(), tokens, Shift(by)) for by in range(1, 200)]
    assert any(m.error32 == 0 < m.error for m in found)
    assert {m.verdict for m in found} <= {"holds"}


def test_measuring_leaves_the_model_and_its_dtype_alone():
    model = MultiHeadAttention(WIDTH, 2)
    before = model.q_proj.weight.clone()
    measure(model, words(), Shift(1))
    assert model.q_proj.weight.dtype == torch.float32
    assert torch.equal(model.q_proj.weight, before)


def test_a_nan_is_undecided_and_never_exact():
    tokens = words()
    assert measure(MultiHeadAttention(WIDTH, 2), replace(tokens, x=tokens.x * float("nan")), Reverse()).verdict == "undecided"


@pytest.mark.parametrize("action", CLAIMED)
def test_every_action_is_found_by_its_name(action):
    assert named(action.name) is action
    assert set(action.implies) <= {a.name for a in ACTIONS}


def test_an_unknown_action_lists_the_known_ones():
    with pytest.raises(UnknownName, match="permute, shift, reverse"):
        named("wiggle")


def test_words_move_over_places_that_stay_and_places_under_words_that_stay():
    tokens = words(start=4)
    shuffled, moved, mirrored = (a.on_input(tokens) for a in (Permute((1, 0, 2, 3, 4, 5)), Shift(2), Reverse()))
    assert torch.equal(shuffled.x[0], tokens.x[1])
    assert torch.equal(shuffled.positions, tokens.positions)
    assert torch.equal(moved.x, tokens.x)
    assert torch.equal(moved.positions, tokens.positions + 2)
    assert torch.equal(moved.order, tokens.order + 2)
    assert mirrored.positions.squeeze(-1).tolist() == [9, 8, 7, 6, 5, 4]
    assert mirrored.order.tolist() == [9, 8, 7, 6, 5, 4]
