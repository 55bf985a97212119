"""Other places for the same words, in training: order stays, distances stay (SHAPE) or not (randomised)."""

import pytest
import torch

from equiscope.errors import InputError
from equiscope.positions.augment import random_offset, randomised

pytestmark = pytest.mark.quick

COUNT, TEXTS = 12, 500


def counted(dtype=torch.float32):
    return torch.arange(COUNT, dtype=dtype).unsqueeze(-1).expand(TEXTS, COUNT, 1)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.long])
def test_an_offset_moves_a_whole_text(dtype):
    at = counted(dtype)
    found = random_offset(at, 9, generator())
    assert (found.dtype, found.shape) == (at.dtype, at.shape)
    assert (found.diff(dim=1) == 1).all()
    assert set(found[:, 0, 0].tolist()) == set(range(10))  # every text its own, 0 and 9 included


def test_an_offset_of_a_grid_has_one_number_an_axis():
    at = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).expand(TEXTS, 12, 2)
    found = random_offset(at, 9, generator()) - at
    assert (found == found[:, :1]).all()
    assert (found[:, 0, 0] != found[:, 0, 1]).any()


def test_randomised_places_are_a_sorted_subset():
    found = randomised(counted(), 40, generator()).squeeze(-1)
    assert (found.diff(dim=1) >= 1).all()  # the order is kept, no place twice
    assert (found == found.round()).all()
    assert found.min() == 0
    assert found.max() == 39
    assert len({tuple(row) for row in found.tolist()}) == TEXTS
    assert found.mean().item() == pytest.approx(
        19.5, abs=0.5
    )  # uniform: standard error 11.5 / sqrt(6000), texts not quite independent


def test_randomised_places_keep_the_rank_of_every_word():
    at = torch.rand(TEXTS, COUNT, 1, generator=generator(1)) * 100 - 50
    found = randomised(at, 40, generator())
    assert torch.equal(found.argsort(1), at.argsort(1))


def test_words_at_one_place_stay_together():
    at = torch.tensor([0.0, 0.0, 1.0, 2.0, 0.0, 1.0])[:, None]
    found = randomised(at, 50, generator()).squeeze(-1)
    assert found[0] == found[1] == found[4] < found[2] == found[5] < found[3]


def test_as_many_places_as_words_change_nothing():
    assert torch.equal(randomised(counted(), COUNT, generator()), counted())


def test_the_same_generator_gives_the_same_places():
    for change in (random_offset, randomised):
        assert torch.equal(change(counted(), 40, generator(3)), change(counted(), 40, generator(3)))
        assert not torch.equal(change(counted(), 40, generator(3)), change(counted(), 40, generator(4)))


def test_an_empty_text_stays_empty():
    for change in (random_offset, randomised):
        assert change(torch.zeros(2, 0, 1), 5).shape == (2, 0, 1)


def test_what_has_no_room_is_refused():
    with pytest.raises(InputError, match=r"12 tokens .* distinct positions in 0..10. .* most=12 or more"):
        randomised(counted(), 11)
    with pytest.raises(InputError, match=r"got most=-1. Use 0 or more"):
        random_offset(counted(), -1)
    with pytest.raises(InputError, match="2 coordinates each"):
        randomised(torch.zeros(3, 2), 9)


def test_both_say_that_they_are_for_training_only():
    assert all("training only" in change.__doc__ for change in (random_offset, randomised))
