"""Rounded numbers come back within what is said of them."""

import numpy as np
import pytest

from equiscope.errors import InputError
from equiscope.record.rounded import LEAST, ROUGH, letters, rows, weights


def test_a_weight_comes_back_within_an_eighth_of_itself():
    wanted = 2.0 ** -np.random.default_rng(0).uniform(0, 29.8, 20_000)
    found = weights(letters(wanted))
    assert np.abs(found / wanted - 1).max() <= ROUGH * (1 + 1e-12)
    assert 0.12 < ROUGH < 0.1225


def test_what_is_smaller_is_nothing():
    assert weights(letters(np.array([1.0, 0.0, 1e-9, 2e-9, 1e-300]))).tolist() == [1, 0, 0, 2 ** (-87 / 3), 0]


def test_letters_are_such_as_json_writes_as_they_are():
    text = letters(2.0 ** (-np.arange(LEAST + 1) / 3))
    assert len(set(text)) == LEAST + 1
    assert (text[0], text[-1]) == ("#", "~")
    assert "\\" not in text
    assert '"' not in text
    assert text.isprintable()


@pytest.mark.parametrize("text", ["!", "\\", "é", "\x7f"])
def test_other_letters_are_refused(text):
    with pytest.raises(InputError, match="letters from '#' to '~'"):
        weights(text)


def test_a_row_is_rounded_in_its_own_unit():
    table = np.random.default_rng(0).standard_normal((2, 5, 8)) * np.logspace(-3, 3, 5)[:, None]
    whole, step = rows(table)
    assert (whole.dtype, step.dtype, step.shape) == (np.int8, np.float32, (2, 5))
    assert np.abs(whole).max() == 127
    assert (np.abs(whole * step[..., None] - table) <= 0.50001 * step[..., None]).all()


def test_an_empty_row_stays_empty():
    whole, step = rows(np.zeros((1, 2, 3)))
    assert not whole.any()
    assert not step.any()
