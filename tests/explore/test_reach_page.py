"""The reach page shows the record that comes with the package: what was measured, on a named machine."""

import msgspec
import numpy as np
import pytest

from equiscope import explore
from equiscope.explore.pages.reach import plain, reach
from equiscope.record import Reach, unpack


@pytest.fixture(scope="module")
def page():
    return reach()


@pytest.mark.quick
def test_the_record_comes_with_the_package_and_survives_json(page):
    assert msgspec.json.decode(msgspec.json.encode(page), type=Reach) == page
    assert page.cpu
    assert page.torch
    assert [one.name for one in page.networks] == ["lstm", "convolution", "attention"]


def test_an_output_depends_on_no_later_token(page):
    for one in page.networks:
        for array in one.influence.values():
            assert np.tril(unpack(array), -1).max() == 0


def test_no_weights_let_four_convolutions_reach_more_than_eight_tokens_back(page):
    convolution = page.networks[1]
    for array in convolution.influence.values():
        effect = unpack(array)
        distance = np.subtract.outer(np.arange(page.length), np.arange(page.length))
        assert effect[-distance > 8].max() == 0
        assert effect[(-distance >= 0) & (-distance <= 8)].min() > 0


def test_training_lets_the_lstm_remember_and_leaves_its_steps(page):
    lstm = page.networks[0]
    assert unpack(lstm.influence["random"])[0, -1] < 1e-4 < 0.1 < unpack(lstm.influence["trained"])[0, -1]
    assert lstm.steps == [n + 1 for n in page.timed_lengths]


def test_who_is_right_beyond_the_patch(page):
    """What chapter 0 of the book says of three seeds; guessing gives an eighth."""
    for one in page.networks:
        for shares in one.right["trained"]:
            assert min(shares[:9]) > 0.97
            beyond = shares[9:]
            assert np.mean(beyond) < 0.2 if one.name == "convolution" else min(beyond) > 0.97


def test_the_page_is_one_file_with_tables_for_a_browser_without_javascript(page):
    text = plain(page)
    assert "products in a row" in text
    assert page.cpu in text
    assert "<noscript>" in explore.html(page)
