"""The record of the image page: its numbers are those of plain torch, and the shares that the book quotes are measured."""

import json
import math
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from equiscope.cli.app import app
from equiscope.errors import InputError
from equiscope.explore.pages import image as page
from equiscope.explore.pages.image import LABELS, PHOTO, SCALE, SIDE
from equiscope.program.replay import replay
from equiscope.record import unpack
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.xdist_group("image-page")
ROUNDING = 1e-12  # float64: rounding only

image = cache(page.image)


def numbers(record, scheme):
    """All values by role."""
    one = next(found for found in record.programs if found.scheme == scheme)
    found = replay(page.filled(one.program, record.pool))
    return {role: found[ident] for role, ident in one.roles.items()}


def by_hand():
    """Features, weights and what is added, from the file of the photograph with numpy alone."""
    pixels = np.asarray(Image.open(PHOTO).convert("RGB"), dtype=float) / 255
    cut = pixels.reshape(15, SIDE, 10, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(150, SIDE, SIDE, 3)
    colours = cut.mean((1, 2))
    halves = cut[:, :, : SIDE // 2].mean((1, 2, 3)) - cut[:, :, SIDE // 2 :].mean((1, 2, 3))
    features = torch.from_numpy(np.concatenate([colours, halves[:, None]], 1))
    red, green, blue, _ = features.T
    query = SCALE * torch.stack([green - (red + blue) / 2, red - green], 1)
    weights = (2 * query @ query.T / math.sqrt(4)).softmax(-1)
    return features, weights, weights @ features


def test_the_numbers_are_those_of_the_photograph_by_hand():
    found = numbers(image(), "none")
    for role, wanted in zip(("features", "weights", "added"), by_hand(), strict=True):
        assert relative_error(found[role].reshape(wanted.shape), wanted) < ROUNDING
    assert relative_error(found["output"], found["features"] + found["added"]) < ROUNDING


def test_lawn_finds_lawn_and_dog_finds_dog_and_the_others_are_not_found():
    ratios = {one.region: one.attention / one.area for one in image().shares if one.scheme == "none"}
    assert ratios["lawn"] >= 1.5 <= ratios["dog"]
    assert ratios["person"] < 1.5 > ratios["background"]


def test_added_positions_drown_four_features_and_rotated_ones_do_not():
    ratios = {(one.scheme, one.region): one.attention / one.area for one in image().shares}
    assert max(ratios["sinusoidal-nd", "lawn"], ratios["sinusoidal-nd", "dog"]) < 1.5
    assert min(ratios["axial-rope", "lawn"], ratios["axial-rope", "dog"]) >= 1.5


def test_rotated_positions_keep_scores_where_the_whole_picture_is_shifted():
    record = image()
    one = next(found for found in record.programs if found.scheme == "axial-rope")
    program = page.filled(one.program, record.pool)
    leaf = next(leaf for leaf in program.leaves if leaf.kind == "coordinate")
    assert leaf.array is not None
    moved = replay(program, {leaf.id: torch.from_numpy(unpack(leaf.array)) + 7.0})
    assert relative_error(moved[one.roles["scores"]], replay(program)[one.roles["scores"]]) < ROUNDING


def test_regions_cover_each_patch_once():
    record = image()
    assert [len(row) for row in LABELS] == [record.grid[1]] * record.grid[0]
    every = [patch for region in record.regions for patch in region.patches]
    assert sorted(every) == list(range(len("".join(LABELS))))


@pytest.mark.parametrize(("size", "grid"), [((300, 200), [10, 15]), ((200, 300), [15, 10]), ((210, 200), [12, 12])])
def test_a_photograph_of_ones_own_has_no_labels_and_says_what_was_done(tmp_path, size, grid):
    file = tmp_path / "mine.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)).save(file)
    record = page.image(file)
    assert (record.grid, record.regions, record.shares, record.credit) == (grid, [], [], "")
    assert f"{size[0]}×{size[1]}" in record.notes[0]


def test_what_is_no_picture_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "words.jpg").write_text("no picture")
    with pytest.raises(InputError, match="cannot be read as a picture"):
        page.image(tmp_path / "words.jpg")
    with pytest.raises(InputError, match="There is no picture"):
        page.image(tmp_path / "missing.jpg")


def test_the_command_prints_the_record_and_takes_no_sentence():
    found = CliRunner().invoke(app, ["explore", "--page", "image", "--json"])
    assert json.loads(found.output)["grid"] == [15, 10]
    refused = CliRunner().invoke(app, ["explore", "a sentence", "--page", "image"])
    assert "--page image takes image, found sentence" in str(refused.exception)


def test_without_javascript_the_page_has_the_shares():
    text = page.plain(image())
    assert "How much of its attention a region gives to itself" in text
    assert "CC0" in text
