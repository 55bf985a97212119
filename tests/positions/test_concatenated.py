"""Beside the word or added to it: one linear layer later it is the same (P6)."""

import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.positions import Concatenated, Learned, Sinusoidal

pytestmark = pytest.mark.quick


def inputs(width=8, length=6):
    return torch.randn(length, width).double(), torch.arange(length).double().unsqueeze(-1)


@pytest.mark.parametrize("of", [None, Sinusoidal(layout="half"), Learned(6)], ids=["sinusoids", "halves", "learned"])
def test_a_linear_layer_makes_concatenating_an_adding_of_projected_places(of):
    x, at = inputs()
    scheme = Concatenated(of=of).sized(8, 2, 4).double()
    w = torch.randn(16, 5).double()
    beside = scheme.embed(x, at)
    p = beside[:, 8:]
    assert (beside @ w - (x @ w[:8] + p @ w[8:])).abs().max() < 1e-12  # float64: the sums in another order


def test_the_word_itself_stays_untouched_and_the_sinusoids_are_those_that_would_be_added():
    x, at = inputs()
    beside = Concatenated().sized(8, 2, 4).embed(x, at)
    assert torch.equal(beside[:, :8], x)
    assert torch.equal(beside[:, 8:], Sinusoidal().encode(at, 8))


def test_the_places_may_be_narrower_than_the_words():
    x, at = inputs()
    scheme = Concatenated(width=2).sized(8, 2, 4)
    assert scheme.widened(8) == 10
    assert scheme.embed(x, at).shape == (6, 10)


def test_an_odd_width_is_refused():
    with pytest.raises(ShapeError, match=r"even width, but got 3. Use 4"):
        Concatenated(width=3).sized(8, 2, 4)


def test_every_model_gets_an_encoding_of_its_own():
    one = Concatenated(of=Learned(6))
    assert one.sized(8, 2, 4).of is not one.sized(8, 2, 4).of
    assert one.width is None


def test_a_base_beside_a_scheme_is_refused_as_it_would_be_ignored():
    with pytest.raises(InputError, match=r"base=500 is for the sinusoids, but sinusoidal was given. Use Sinusoidal\(...\)"):
        Concatenated(of=Sinusoidal(), base=500.0)
    x, at = inputs()
    found = Concatenated(of=Sinusoidal(base=500.0)).sized(8, 2, 4).embed(x, at)
    assert torch.equal(found, Concatenated(base=500.0).sized(8, 2, 4).embed(x, at))
