"""Views: which ways there are, in which order, and that a mirrored picture has the same ones."""

import torch

from equiscope.data.views import Views

IMAGES = torch.randint(0, 256, (2, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_without_more_there_is_the_picture_as_it_is():
    assert len(Views()) == 1
    (one,) = Views().of(IMAGES)
    assert torch.equal(one, IMAGES)


def test_views_are_counted_and_begin_with_the_picture_as_it_is():
    for views, many in ((Views(flip=True), 2), (Views(shift=1), 9), (Views(flip=True, shift=1), 18), (Views(shift=2), 25)):
        seen = list(views.of(IMAGES))
        assert len(seen) == len(views) == many
        assert torch.equal(seen[0], IMAGES)
        assert len({one.numpy().tobytes() for one in seen}) == many


def test_a_mirrored_picture_has_the_views_of_the_picture():
    views = Views(flip=True, shift=1)
    assert {one.numpy().tobytes() for one in views.of(IMAGES.flip(-1))} == {one.numpy().tobytes() for one in views.of(IMAGES)}


def test_a_moved_picture_does_not():
    moved = list(Views(shift=1).of(IMAGES))[1]
    assert {one.numpy().tobytes() for one in Views(shift=1).of(moved)} != {
        one.numpy().tobytes() for one in Views(shift=1).of(IMAGES)
    }
