"""Fourier features: places on any number of axes, whose products know the difference of places only (P11)."""

import json
import math

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import Concatenated, Fourier, from_json, to_json

pytestmark = pytest.mark.quick


def sized(width=64, **settings):
    return Fourier(**settings).sized(width, 1, width)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_it_is_the_cosines_and_sines_of_the_formula(axes):
    scheme, at = sized(axes=axes, sigma=2.0), torch.randn(5, 7, axes).double() * 10
    phase = at @ scheme.directions
    found = scheme.encode(at, 64)
    assert (found - torch.cat([phase.cos(), phase.sin()], -1)).abs().max() < 1e-13
    assert torch.equal(scheme.embed(torch.zeros(5, 7, 64).double(), at), found)
    assert (found.norm(dim=-1) - math.sqrt(32)).abs().max() < 1e-13


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_products_depend_on_the_difference_of_places_only(axes):
    scheme, (x, y) = sized(axes=axes), torch.randn(2, 20, axes).double()
    products = [(scheme.encode(x + s, 64) * scheme.encode(y + s, 64)).sum(-1) for s in (0.0, 1.0, -17.25, 1000.0)]
    assert torch.stack(products).std(0, unbiased=False).max() < 1e-10  # float64: angles up to some thousand
    other = (scheme.encode(x + 1.0, 64) * scheme.encode(y, 64)).sum(-1)
    assert (other - products[0]).abs().max() > 1


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_many_directions_make_the_gaussian_of_the_distance(sigma):
    """Rahimi & Recht: the mean over directions is exp(-(sigma d)^2 / 2), to within 1/sqrt(directions)."""
    scheme, at = sized(width=40_000, axes=2, sigma=sigma), torch.tensor([[0, 0], [0.3, 0.4], [1, 0], [0, -2]]).double()
    rows = scheme.encode(at, 40_000)
    found, distance = rows @ rows[0] / 20_000, at.norm(dim=-1)
    assert (found - (-((sigma * distance) ** 2) / 2).exp()).abs().max() < 5 / math.sqrt(20_000)  # five standard deviations


def test_directions_are_drawn_once_and_by_the_seed():
    assert torch.equal(sized(seed=3).directions, sized(seed=3).directions)
    assert not torch.equal(sized(seed=3).directions, sized(seed=4).directions)
    assert not list(sized().parameters())
    assert not sized().state_dict()  # the seed is in the settings


def test_half_precision_does_not_spoil_far_places():
    scheme, at = sized().bfloat16(), torch.arange(100_000.0, 100_004.0)[:, None]
    assert scheme.directions.dtype == torch.float64
    found = scheme.encode(at, 64)
    assert found.dtype == torch.float32
    assert (found - sized().encode(at.double(), 64)).abs().max() < 3e-2  # float32 angles of up to 250 000: steps of 0.0156


def test_trained_directions_learn():
    scheme = sized(axes=2, trained=True)
    scheme.encode(torch.randn(5, 2), 64).pow(3).sum().backward()
    assert scheme.directions.grad.abs().min() > 0
    assert scheme.directions.shape == (2, 32)


def test_it_may_stand_beside_the_word():
    scheme = Concatenated(of=Fourier(axes=2), width=6).sized(8, 2, 4)
    assert scheme.embed(torch.zeros(5, 8), torch.randn(5, 2)).shape == (5, 14)


def test_its_settings_survive_a_file():
    scheme = Fourier(axes=3, sigma=0.5, seed=7, trained=True)
    assert repr(from_json(json.loads(json.dumps(to_json(scheme))))) == repr(scheme)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"reads 2 coordinates a token, but got 1"):
        sized(axes=2).encode(torch.zeros(3, 1), 64)
    with pytest.raises(ShapeError, match=r"the width is 7. Use 8 or 6"):
        sized(width=7)
    with pytest.raises(InputError, match=r"no directions yet.*sized"):
        Fourier().encode(torch.zeros(3, 1), 8)
    with pytest.raises(InputError, match=r"axes and sigma are larger than 0, but got 0 and 1.0"):
        Fourier(axes=0)
