"""Pairs by an author who had not read the tool: without the plant they agree, with it they differ; torch alone compares them."""

import pytest

from ..outputs import difference
from .cases import CASES, HEALTHY
from .families import FAMILIES, pair


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(*pair(family)) < 1e-12  # float64: rounding only, measured 2e-15


@pytest.mark.parametrize("name", [n for n, make in HEALTHY.items() if make.args[1]])
def test_a_harmless_change_changes_nothing(name):
    a, b, inputs, _ = HEALTHY[name]()
    assert difference(a, b, inputs) < 1e-12


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_planted_changes_the_output(family):
    """A norm that casts in another order is equal in float64: only half precision tells."""
    for case in (c for c in CASES if c.family == family and c.form == "torch"):
        _, fault, layer, mode, *_ = case.make.args
        d = difference(*pair(family, fault, layer, "" if mode == "bfloat16" else mode))
        assert (d < 1e-12) if mode == "bfloat16" else (d > 1e-7), (case.name, d)


def test_twenty_four_causes_are_planted():
    assert len({case.cause for case in CASES}) >= 24
    assert len({c.name for c in CASES} | set(HEALTHY)) == len(CASES) + len(HEALTHY)
