"""Learned on a grid: a row a cell, errors past the grid, resizing as vision transformers do it (P10)."""

import json
import math

import pytest
import torch
import torch.nn.functional as F

from equiscope.errors import InputError, ShapeError
from equiscope.positions import LearnedNd, from_json, to_json
from equiscope.positions.learned_nd import resized

pytestmark = pytest.mark.quick


def made(shape, width=8, **settings):
    scheme = LearnedNd(shape, **settings).sized(width, 2, width // 2).double()
    scheme.table.weight.data.normal_()
    return scheme


def cells(*shape):
    return torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape))


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (6,)])
@pytest.mark.parametrize("between", [False, True])
def test_every_cell_has_the_row_of_its_number_in_reading_order(shape, between):
    scheme = made(shape, between=between)
    assert torch.equal(scheme.encode(cells(*shape).view(-1, len(shape)), 8), scheme.table.weight)
    if len(shape) == 2:
        assert torch.equal(scheme.encode(torch.tensor([[[2.0, 3.0]]]), 8)[0, 0], scheme.table.weight.view(3, 5, 8)[2, 3])


def test_a_larger_grid_is_what_a_vision_transformer_makes_of_it():
    vit = pytest.importorskip("transformers.models.vit.modeling_vit")
    config = pytest.importorskip("transformers").ViTConfig(hidden_size=8, image_size=64, patch_size=8)
    theirs = vit.ViTEmbeddings(config).double()
    theirs.position_embeddings.data.normal_()
    scheme = LearnedNd((8, 8)).sized(8, 2, 4)
    scheme.table.weight.data = theirs.position_embeddings.data[0, 1:].clone()
    for height, width in ((12, 20), (8, 5), (3, 3)):
        found = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + height * width, 8), 8 * height, 8 * width)[0, 1:]
        fresh = resized(scheme, (height, width))
        assert fresh.shape == (height, width)
        assert (fresh.encode(cells(height, width), 8) - found).abs().max() < 1e-14


def linear(old, new):
    """Weights [new, old] of cells as areas: the middle of new cell n lies at (n + 1/2) old/new - 1/2, ends held."""
    weights = torch.zeros(new, old, dtype=torch.float64)
    for n in range(new):
        at = min(max((n + 0.5) * old / new - 0.5, 0), old - 1)
        low = min(math.floor(at), old - 1)
        weights[n, low] += 1 - (at - low)
        weights[n, min(low + 1, old - 1)] += at - low
    return weights


def test_a_grid_of_three_axes_is_resized_linearly():
    scheme = made((2, 3, 4))
    fresh = resized(scheme, (5, 2, 7))
    theirs = torch.einsum(
        "ai,bj,ck,ijkd->abcd", linear(2, 5), linear(3, 2), linear(4, 7), scheme.table.weight.detach().view(2, 3, 4, 8)
    )
    assert (fresh.table.weight - theirs.flatten(0, 2)).abs().max() < 1e-14


def test_between_cells_rows_are_mixed_as_a_grid_sampler_does():
    scheme = made((4, 6), between=True)
    at = torch.rand(9, 2, dtype=torch.float64) * torch.tensor([3.0, 5.0])
    image = scheme.table.weight.detach().view(1, 4, 6, 8).movedim(-1, 1)
    where = (at / torch.tensor([3.0, 5.0]) * 2 - 1).flip(-1)  # theirs is (x, y) in -1..1
    theirs = F.grid_sample(image, where.view(1, 1, 9, 2), align_corners=True)[0, :, 0].T
    assert (scheme.encode(at, 8) - theirs).abs().max() < 1e-13


def test_resizing_to_the_same_grid_changes_nothing_and_trains_on():
    scheme = made((3, 4))
    again = resized(scheme, (3, 4))
    assert (again.table.weight - scheme.table.weight).abs().max() < 1e-14
    assert again.table.weight is not scheme.table.weight
    assert again.table.weight.requires_grad


@pytest.mark.parametrize("place", [(3.0, 0.0), (0.0, 5.0), (-1.0, 2.0)])
def test_a_place_past_the_grid_is_refused(place):
    message = rf"grid of 3 × 5 cells, counted from 0, but got \({place[0]:g}, {place[1]:g}\).*resized\(scheme, shape\).*AxialRope"
    with pytest.raises(InputError, match=message):
        made((3, 5)).encode(torch.tensor([[0.0, 0.0], place]), 8)


def test_places_between_cells_and_places_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match=r"whole numbers only.*between=True"):
        made((3, 5)).encode(torch.tensor([[0.5, 1.0]]), 8)
    with pytest.raises(InputError, match="NaN"):
        made((3, 5), between=True).encode(torch.tensor([[float("nan"), 1.0]]), 8)


def test_what_is_missing_or_does_not_fit_is_said():
    with pytest.raises(InputError, match=r"no table yet.*sized"):
        LearnedNd().encode(torch.zeros(1, 2), 8)
    with pytest.raises(InputError, match=r"no table to resize"):
        resized(LearnedNd(), (3, 3))
    with pytest.raises(InputError, match=r"grid of 2 axes becomes one of as many.*shape=\(3,\)"):
        resized(made((2, 2)), (3,))
    with pytest.raises(InputError, match=r"one cell or more.*\(3, 0\)"):
        LearnedNd((3, 0))
    with pytest.raises(ShapeError, match="reads 2 coordinates a token, but got 1"):
        made((2, 2)).encode(torch.zeros(1, 1), 8)


def test_settings_survive_a_file():
    scheme = LearnedNd((2, 3, 4), between=True)
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert again.settings == scheme.settings
    assert again.axes == 3
