"""Swin's bias: a number for each gap in a window, Hugging Face's tables, resizing (P9, P10)."""

import json
import math

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import SwinBias, from_json, to_json
from equiscope.positions.swin import from_swin_table, resized

pytestmark = pytest.mark.quick

HEADS = 3
NUMBER = torch.arange(HEADS)[:, None, None]


def cells(*shape):
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


def biased(scheme, at, other=None):
    """The bias of all pairs, [H, N, M]."""
    other = at if other is None else other
    return scheme.score_bias(NUMBER, tuple(a[..., None] for a in at.unbind(-1)), tuple(a[..., None, :] for a in other.unbind(-1)))


def made(shape):
    return from_swin_table(torch.randn((2 * shape[0] - 1) * (2 * shape[1] - 1), HEADS, dtype=torch.float64), shape)


@pytest.mark.parametrize("shape", [(7, 7), (3, 5), (1, 4)])
def test_it_is_hugging_faces_bias_on_the_same_table(shape):
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    theirs = swin.SwinRelativePositionBias(HEADS, shape).double()
    theirs.relative_position_bias_table.data.normal_()
    scheme = from_swin_table(theirs.relative_position_bias_table, None if shape == (7, 7) else shape)
    assert torch.equal(biased(scheme, cells(*shape)), theirs()[0])


def test_a_gap_has_its_number_wherever_the_window_lies():
    scheme, at = made((4, 4)), cells(4, 4)
    moved = at + torch.tensor([0.37, -1000.37], dtype=torch.float64)  # 3.37 - 2.37 is not 1: gaps are rounded
    assert torch.equal(biased(scheme, moved), biased(scheme, at))
    assert biased(scheme, at)[:, 0, 5].tolist() != biased(scheme, at)[:, 5, 0].tolist()  # each side has its own


def test_one_head_and_a_batch_read_the_same_numbers():
    scheme, at = made((4, 4)), cells(4, 4)
    at_q, at_k = tuple(a[:, None] for a in at.unbind(-1)), tuple(a[None] for a in at.unbind(-1))
    assert torch.equal(scheme.score_bias(torch.tensor(2), at_q, at_k), biased(scheme, at)[2])
    batch = at.expand(2, 1, *at.shape)
    assert torch.equal(biased(scheme, batch)[1], biased(scheme, at))


def test_places_farther_apart_than_a_window_are_refused():
    message = (
        r"window of 3 × 4 cells, but two positions are 4 rows or 1 columns apart. Use shape=\(5, 4\), resized\(scheme, \(5, 4\)\)"
    )
    with pytest.raises(InputError, match=message):
        biased(made((3, 4)), torch.tensor([[0.0, 0.0], [4.0, 1.0]]))


def test_what_padding_holds_does_not_raise_and_does_not_reach_the_others():
    scheme, at = made((3, 3)), cells(3, 3)
    batch = torch.cat([torch.full((2, 2), 1e6, dtype=torch.float64), at])[None, None]
    found = biased(scheme, batch)[0]
    assert found.isfinite().all()
    assert torch.equal(found[:, 2:, 2:], biased(scheme, at))


def test_places_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="NaN or infinite"):
        biased(made((3, 3)), torch.tensor([[float("nan"), 0.0]]))


def cubic(old, new):
    """Weights [new, old] of Keys' cubic convolution with a = -3/4, cells as areas, ends repeated."""
    weights, a = torch.zeros(new, old, dtype=torch.float64), -0.75
    for n in range(new):
        at = (n + 0.5) * old / new - 0.5
        for j in range(math.floor(at) - 1, math.floor(at) + 3):
            d = abs(at - j)
            near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            weights[n, min(max(j, 0), old - 1)] += near if d <= 1 else far
    return weights


@pytest.mark.parametrize("shape", [(6, 9), (2, 3), (4, 5)])
def test_another_windows_table_is_the_bicubic_picture_of_the_old_one(shape):
    scheme = made((4, 5))
    fresh = resized(scheme, shape)
    sizes = [2 * n - 1 for n in shape]
    picture = scheme.table.weight.detach().view(7, 9, HEADS)
    theirs = torch.einsum("ai,bj,ijh->abh", cubic(7, sizes[0]), cubic(9, sizes[1]), picture).flatten(0, 1)
    assert fresh.shape == shape
    assert (fresh.table.weight - theirs).abs().max() < 1e-13
    assert biased(fresh, cells(*shape)).isfinite().all()


def test_what_is_missing_or_does_not_fit_is_said():
    with pytest.raises(InputError, match=r"SwinBias\(\) has no parameters yet"):
        biased(SwinBias(), cells(2, 2))
    with pytest.raises(
        ShapeError, match=r"window of 7 × 7 cells has a table \[169, H\], but got \[172, 3\]. Give the window's shape"
    ):
        from_swin_table(torch.zeros(172, HEADS))  # BEiT's, with three rows for its class token
    with pytest.raises(InputError, match=r"one cell or more.*\(0, 3\)"):
        SwinBias((0, 3))
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 3"):
        SwinBias().check(torch.zeros(4, 3))


def test_settings_survive_a_file():
    scheme = SwinBias((8, 16))
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
    assert list(again.sized(8, 2, 4).table.weight.shape) == [15 * 31, 2]


def test_a_table_that_was_read_goes_on_learning():
    assert all(p.requires_grad for p in from_swin_table(torch.randn(25, 2)).parameters())
