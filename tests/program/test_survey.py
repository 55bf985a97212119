"""Roles: heads that were made to do one thing are called by it; chance is not called content."""

import math

import pytest
import torch

from equiscope.program.attended.attended import Attended
from equiscope.program.attended.survey import survey

pytestmark = pytest.mark.quick

N = 12


def one(scores, causal=True):
    """An attention of one head whose scores are these."""
    n = len(scores)
    return Attended(
        "made", torch.eye(n, dtype=torch.float64)[None], scores.T[None].double(), None, 1.0, causal, reconstruction_error=0.0
    )


def sharp(columns, strength=8.0):
    scores = torch.zeros(N, N)
    scores[torch.arange(N), columns] = strength
    return scores


@pytest.mark.parametrize(
    ("role", "scores"),
    [
        ("previous", sharp((torch.arange(N) - 1).clamp(min=0))),
        ("self", sharp(torch.arange(N))),
        ("first", sharp(torch.zeros(N, dtype=torch.long))),
        ("uniform", torch.zeros(N, N)),
        ("content", 3 * torch.randn(N, N, generator=torch.Generator().manual_seed(0))),
    ],
)
def test_a_head_that_does_one_thing_is_called_by_it(role, scores):
    assert survey(one(scores), own=True).heads[0].role == role


def test_figures_are_means_of_the_weights():
    made = one(sharp(torch.arange(N), 2.0), causal=False)
    weights = made.recomputed_weights(0)
    found = survey(made, own=True).heads[0]
    assert found.own == pytest.approx(weights.diagonal().mean().item())
    assert found.previous == pytest.approx(weights.diagonal(-1).mean().item())
    assert found.first == pytest.approx(weights[1:, 0].mean().item())
    assert found.entropy == pytest.approx((-(weights * weights.log()).sum(-1) / math.log(N)).mean().item())
    apart = (torch.arange(N)[:, None] - torch.arange(N)).abs()
    assert found.distance == pytest.approx((weights * apart).sum(-1).mean().item())


@pytest.mark.parametrize("kind", ["distance", "key", "both"])
def test_what_distance_and_place_explain_is_not_content(kind):
    at = torch.arange(N).double()
    scores = -0.4 * (at[:, None] - at).abs() * (kind != "key") + torch.sin(at)[None] * (kind != "distance")
    weights = torch.exp(scores)  # additive before the softmax, so nearly so behind it
    made = Attended("made", torch.eye(N).double()[None], torch.zeros(1, N, N), None, 1.0, weights=weights[None] / weights.sum())
    assert survey(made, own=True).heads[0].content < 0.35


def test_of_cross_attention_nothing_is_said_that_needs_one_line():
    found = survey(one(torch.randn(N, N), causal=False), own=False).heads[0]
    assert (found.previous, found.own, found.distance) == (None, None, None)
    assert found.first is not None


def test_one_token_has_nothing_to_choose():
    found = survey(one(torch.zeros(1, 1)), own=True).heads[0]
    assert (found.role, found.entropy) == ("mixed", None)


@pytest.mark.parametrize("n", [5, 32, 50, 96])
def test_the_small_picture_holds_the_largest_weight_of_each_cell(n):
    made = one(torch.randn(n, n, generator=torch.Generator().manual_seed(n)))
    found = survey(made, own=True)
    content, side = found.thumbnails, found.thumbnail_side
    assert side == min(n, 32)
    picture = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(side, side)
    if n % side == 0:
        cells = made.recomputed_weights(0).reshape(side, n // side, side, n // side).amax((1, 3))
        assert (picture.double() - 255 * cells.sqrt()).abs().max() <= 0.51
    assert picture.max() == round(255 * math.sqrt(made.recomputed_weights(0).max().item()))


def test_many_rows_give_the_same_weights_in_pieces():
    made = one(torch.randn(64, 64))
    pieces = list(made.row_chunks(100))
    assert len(pieces) == 64
    for rows, columns in pieces:
        assert torch.allclose(
            made.recomputed_weights(0, rows, columns=columns), made.recomputed_weights(0)[rows, :columns], rtol=1e-14
        )
