"""Pictures: moved as wholes, and the cells of an output with them, as far as they can be compared."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.errors import ShapeError, UnknownName
from equiscope.program.attended.position_tables import patch_side as patch_of
from equiscope.symmetry import inputs_of, named
from equiscope.symmetry.grids import layouts
from equiscope.symmetry.pictures import (
    PICTURES,
    ImageFlip,
    ImageRotate,
    ImageRotateAny,
    ImageScale,
    ImageShift,
    ImageShiftPadded,
    PatchShift,
    patch,
)

SIZE = (8, 8)
FINE = 1e-12


def picture(*shape):
    return torch.randn(2, 3, *(shape or SIZE), dtype=torch.float64)


def given(x, **extra):
    inputs = inputs_of((x,), kinds={"input0": "image"})
    inputs.extra.update(extra)
    return inputs


@pytest.mark.parametrize("action", PICTURES)
def test_every_element_says_itself_and_moves_all_pictures(action):
    inputs = given(picture())
    for one in [*action.samples(inputs, torch.Generator().manual_seed(0), 4), *action.simpler(inputs)]:
        moved = one.on_input(inputs).values["input0"]
        assert moved.shape[:2] == (2, 3)
        assert not torch.equal(moved, inputs.values["input0"])
        assert one.describe() != one.summary
        assert action(**one.element()) == one
        assert action is named(action.name)


@pytest.mark.parametrize(
    ("one", "back"),
    [
        (ImageShift((1, 5), SIZE), ImageShift((-1, -5), SIZE)), (ImageRotate(1, SIZE), ImageRotate(3, SIZE)),
        (ImageFlip(-1, SIZE), ImageFlip(-1, SIZE)), (PatchShift((4, 0), SIZE), PatchShift((4, 0), SIZE)),
    ],
)  # fmt: skip
def test_there_and_back_is_nothing(one, back):
    x = picture()
    assert torch.equal(back.on_input(one.on_input(x)), x)


def test_shifts_add_and_quarter_turns_add():
    x = picture()
    assert torch.equal(
        ImageShift((1, 2), SIZE).on_input(ImageShift((3, 7), SIZE).on_input(x)), ImageShift((4, 9), SIZE).on_input(x)
    )
    assert torch.equal(ImageRotate(1, SIZE).on_input(ImageRotate(2, SIZE).on_input(x)), ImageRotate(3, SIZE).on_input(x))


def test_a_shift_goes_down_and_to_the_right():
    x = torch.zeros(1, 4, 4)
    x[0, 0, 0] = 1
    assert ImageShift((1, 2), (4, 4)).on_input(x)[0, 1, 2] == 1
    assert ImageShiftPadded((-1, 0), (4, 4)).on_input(x).sum() == 0
    assert ImageShift((1, 2), (4, 4)).describe() == "shift by 1 pixel down and 2 pixels to the right, circularly"


def test_a_turn_by_a_quarter_of_the_circle_is_a_quarter_turn():
    x = picture()
    assert (ImageRotateAny(90.0, SIZE).on_input(x) - ImageRotate(1, SIZE).on_input(x)).abs().max() < FINE
    assert (ImageRotateAny(360.0, SIZE).on_input(x) - x).abs().max() < FINE


def test_a_turn_keeps_a_disk_that_has_no_direction():
    ring = (torch.arange(32) - 15.5).square()
    x = (-(ring[:, None] + ring) / 50).exp()[None]
    moved = ImageRotateAny(33.0, (32, 32)).on_input(x)
    assert (moved - x).abs().max() < 0.01  # interpolated: second differences of the bump are 2/50 at most


def test_a_wide_picture_is_not_turned_by_a_quarter():
    wide = given(picture(4, 8))
    assert [one.quarters for one in ImageRotate.samples(wide, torch.Generator(), 8)] == [2]


@pytest.mark.parametrize(
    ("shape", "size", "wanted"),
    [
        ((2, 4, 8, 8), (8, 8), {"map"}), ((2, 4, 4, 4), (16, 16), {"map", "map-last"}),
        ((2, 4, 6, 5), (16, 16), {"map", "map-last"}),
        ((2, 8, 16, 3), (8, 16), {"map-last"}), ((2, 17, 32), (16, 16), {"patches"}), ((2, 5), (16, 16), set()),
        ((2, 4, 16, 16), (8, 8), {"map"}), ((2, 98, 7), (224, 112), {"patches"}),
    ],
)  # fmt: skip
def test_the_cells_of_an_output_are_found_by_its_shape(shape, size, wanted):
    assert set(layouts(shape, size)) >= wanted
    if not wanted:
        assert not layouts(shape, size)


def test_rows_of_patches_move_and_those_before_them_stay():
    rows = torch.arange(2 * 18.0).view(2, 18, 1)  # two rows before 4 x 4 patches
    moved = PatchShift((0, 4), (16, 16)).moved(rows, "patches", ())
    assert torch.equal(moved[:, :2], rows[:, :2])
    assert torch.equal(moved[:, 2:].view(2, 4, 4), rows[:, 2:].view(2, 4, 4).roll(1, -1))


def test_a_map_with_a_stride_moves_by_whole_cells():
    cells = torch.randn(1, 4, 4)
    assert torch.equal(ImageShift((8, -4), (16, 16)).moved(cells, "map", ()), cells.roll((2, -1), (-2, -1)))


def test_near_the_border_nothing_is_compared_where_that_is_asked():
    plain = torch.arange(64.0).view(1, 8, 8)
    moved = plain.roll((0, 1), (-2, -1))
    moved[:, 0] += 1
    exact = [ImageShift((0, 1), SIZE, margin).sides(plain, moved, "map", ()) for margin in (0, 1)]
    assert not torch.equal(*exact[0])
    assert torch.equal(*exact[1])
    assert exact[1][0].shape == (1, 6, 5)  # of the columns 1..6 those that came from 1..6


def test_the_patch_is_that_of_the_model_or_the_largest_that_fits_twice():
    assert patch_of(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 14, 14))) == 14
    assert patch_of(nn.Conv2d(3, 4, 3, 2)) is None
    assert patch(given(picture(28, 28), patch=14)) == 14
    assert patch(given(picture(32, 64))) == 16
    assert patch(given(picture(28, 28))) == 14
    assert PatchShift.missing(given(picture(1, 7))) == "no patch fits into the image twice"


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(UnknownName, match="map-last"):
        ImageShift((1, 1), SIZE).moved(torch.zeros(1, 8, 8), "mapp", ())
    with pytest.raises(ShapeError, match=r"\[2, 5\].*8 × 8"):
        ImageShift((1, 1), SIZE).moved(torch.zeros(2, 5), "map", ())


def test_a_picture_made_larger_by_a_network_moves_further():
    row = check(nn.Upsample(scale_factor=2), picture().float(), actions=["image-shift", "image-flip", "image-scale"])
    assert [(r.verdict, r.output) for r in row if r.kind == "action"] == [("holds", "map")] * 3


def test_only_what_interpolation_does_not_break_is_asked_without_being_named():
    names = [row.name for row in check(nn.Conv2d(3, 2, 1), picture().float())]
    assert "image-shift" in names
    assert "image-rotate-any" not in names


def test_the_layer_that_breaks_a_shift_is_found_though_it_has_many_channels():
    """Channels are sketched inside, not columns."""
    ring = {"padding": 1, "padding_mode": "circular"}
    model = nn.Sequential(nn.Conv2d(3, 40, 3, **ring), nn.ReLU(), nn.Conv2d(40, 40, 3, padding=1), nn.Conv2d(40, 40, 3, **ring))
    row = check(model, picture(32, 32).float(), actions=["image-shift"])["image-shift"]
    assert (row.verdict, row.where, row.subgroup) == ("broken", "2", "shifts inside, 2 pixels from the border")


def test_enlarging_is_a_square_for_each_pixel():
    x = torch.tensor([[[1.0, 2.0]]])
    assert ImageScale(2, (1, 2)).on_input(x).tolist() == [[[1, 1, 2, 2], [1, 1, 2, 2]]]


def test_a_picture_of_one_row_is_shifted_along_it_only():
    line = given(picture(1, 9))
    for action in (ImageShift, ImageShiftPadded):
        ways = [one.by for one in action.samples(line, torch.Generator().manual_seed(0), 8)]
        assert {down for down, _ in ways} == {0}
        assert all(0 < abs(right) < 9 for _, right in ways)


def test_a_picture_without_channels_is_a_map_too():
    rows = check(nn.Identity(), torch.randn(8, 8), kinds={"input": "image"}, actions=["image-shift", "image-flip"])
    assert [(r.verdict, r.output) for r in rows if r.kind == "action"] == [("holds", "map")] * 2


def test_whole_numbers_are_not_interpolated():
    whole = inputs_of((torch.ones(3, 8, 8, dtype=torch.uint8),), kinds={"input0": "image"})
    assert ImageRotateAny.missing(whole) == "an integer image cannot be interpolated"
