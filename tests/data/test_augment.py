"""Augmentation: what each change does to a picture, and that it is decided by the seed, the epoch and the example alone."""

import math

import torch

from equiscope.data.augment import (
    Augment,
    Draws,
    augmented,
    brightened,
    erased,
    flipped,
    mixture,
    rotated,
    shifted,
    whole,
)  # fmt: skip

MEAN, STD = torch.tensor([0.5]), torch.tensor([0.25])
ALL = Augment(flip=0.5, shift=2, rotate=10, zoom=0.1, brightness=0.1, erase=0.5)


def pictures(count: int = 6, height: int = 8, width: int = 10, channels: int = 1) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8)


def test_a_flip_turns_left_to_right_where_it_is_asked():
    images = pictures(3)
    seen = flipped(images, torch.tensor([True, False, True]))
    assert torch.equal(seen[0], images[0].flip(-1))
    assert torch.equal(seen[1], images[1])


def test_a_shift_moves_every_picture_by_its_own_pixels_and_lets_black_in():
    images = pictures(3, channels=3)
    seen = shifted(images, torch.tensor([2, 0, -1]), torch.tensor([0, -3, 4]))
    assert torch.equal(seen[0, :, 2:], images[0, :, :-2])
    assert not seen[0, :, :2].any()
    assert torch.equal(seen[1, :, :, :-3], images[1, :, :, 3:])
    assert not seen[1, :, :, -3:].any()
    assert torch.equal(seen[2, :, :-1, 4:], images[2, :, 1:, :-4])


def test_shifts_are_whole_numbers_each_as_often():
    moved = whole(torch.arange(5000) / 5000, 2)
    assert torch.bincount(moved + 2).tolist() == [1000] * 5


def test_a_quarter_turn_is_against_the_clock():
    x = torch.rand(1, 1, 9, 9)
    seen = rotated(x, torch.tensor([math.pi / 2]), torch.ones(1))
    assert torch.allclose(seen, x.rot90(1, (-2, -1)), atol=1e-5)  # places between pixels, rounded in float32


def test_a_turn_keeps_angles_in_pictures_that_are_no_squares():
    x = torch.zeros(1, 1, 9, 21)
    x[..., 4, :] = 1.0  # a level line becomes an upright one, not a slanted one
    seen = rotated(x, torch.tensor([math.pi / 2]), torch.ones(1))
    assert torch.allclose(seen[..., 10], torch.ones(9), atol=1e-5)
    assert float(seen.sum()) < 9.001


def test_zoom_two_shows_the_middle_at_twice_its_size():
    x = torch.zeros(1, 1, 8, 8)
    x[..., 3:5, 3:5] = 1.0
    assert abs(float(rotated(x, torch.zeros(1), torch.full((1,), 2.0)).sum()) - 16) < 1e-4


def test_light_and_contrast_keep_the_range():
    x = torch.rand(2, 3, 4, 4)
    assert torch.allclose(brightened(x, torch.zeros(2), torch.ones(2)), x, atol=1e-6)
    seen = brightened(x, torch.tensor([0.5, -0.5]), torch.tensor([1.0, 2.0]))
    assert float(seen[0].mean()) > float(x[0].mean())
    assert float(seen.min()) >= 0
    assert float(seen.max()) <= 1


def test_what_is_erased_is_one_rectangle_of_the_asked_share():
    x = torch.ones(400, 1, 28, 28)
    draws = Draws(400, 0).of([(0, i) for i in range(400)])
    seen = erased(x, draws[:, 0] < 0.5, *draws[:, 1:5].unbind(-1))
    gone = (seen[:, 0] == 0).flatten(1)
    assert 0.4 < float(gone.any(-1).float().mean()) < 0.6
    for picture in seen[gone.any(-1)][:50, 0]:
        rows, columns = torch.nonzero((picture == 0).any(-1)), torch.nonzero((picture == 0).any(-2))
        assert int((picture == 0).sum()) == len(rows) * len(columns)  # a rectangle
        assert 0.01 < len(rows) * len(columns) / 784 < 0.37  # 2 to 33 %, sides rounded to pixels


def test_an_example_looks_the_same_in_whatever_batch_it_stands():
    images = pictures(6)
    alone, together = Draws(6, seed=1), Draws(6, seed=1)
    batch = augmented(images, together.of([(4, i) for i in range(6)]), ALL, MEAN, STD)
    for i in (5, 0, 3):
        one = augmented(images[i : i + 1], alone.of([(4, i)]), ALL, MEAN, STD)
        assert torch.equal(one[0], batch[i])


def test_another_epoch_another_seed_and_another_example_look_otherwise():
    draws = Draws(6, seed=1)
    first = draws.of([(0, 2)])
    assert not torch.equal(first, draws.of([(1, 2)]))
    assert not torch.equal(first, draws.of([(0, 3)]))
    assert not torch.equal(first, Draws(6, seed=2).of([(0, 2)]))
    assert torch.equal(first, draws.of([(0, 2)]))  # also after another epoch was asked for


def test_without_augmentation_a_picture_is_only_normed():
    images = pictures(2)
    seen = augmented(images, Draws(2, 0).of([(0, 0), (0, 1)]), Augment(), MEAN, STD)
    assert torch.equal(seen, (images.float() / 255 - 0.5) / 0.25)


def test_a_mixture_gives_the_answer_the_share_that_the_pixels_have():
    for config in (Augment(mixup=1.0), Augment(cutmix=1.0), Augment(mixup=0.2, cutmix=1.0)):
        ways = set()
        for step in range(12):
            made = mixture(config, 0, step, 16, 8, 10)
            assert made is not None
            other, keep, part = made
            assert sorted(other.tolist()) == list(range(16))
            assert torch.allclose(keep.expand(16, 1, 8, 10).mean((1, 2, 3)), part)
            ways.add(keep.shape[-1])
        assert ways == {Augment(mixup=1.0): {1}, Augment(cutmix=1.0): {10}}.get(config, {1, 10})


def test_steps_mix_as_often_as_is_asked_and_the_seed_decides():
    half = Augment(mixup=1.0, mix_probability=0.5)
    mixed = [mixture(half, 0, step, 4, 8, 8) is not None for step in range(400)]
    assert 160 < sum(mixed) < 240
    assert mixed == [mixture(half, 0, step, 4, 8, 8) is not None for step in range(400)]
    assert not Augment(mixup=1.0, mix_probability=0.0).mixes
    assert not Augment().mixes
