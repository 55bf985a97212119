"""Pairs of the kinds that were answered wrongly before: without the plant they agree, with it they differ."""

import pytest

from ..outputs import difference
from .cases import CASES, FAMILIES, pair


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(*pair(family, "")[:3]) < 1e-14  # float64: rounding only, measured 9e-16


def test_what_is_planted_changes_the_output():
    assert all(difference(*pair(*case.make.args)[:3]) > 1e-5 for case in CASES)
