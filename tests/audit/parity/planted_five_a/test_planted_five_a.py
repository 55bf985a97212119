"""The pairs of this set: without the plant they agree, with it they differ; torch alone compares them."""

import pytest

from ..outputs import difference
from .cases import CASES, HARMLESS
from .families import FAMILIES, pair


@pytest.mark.parametrize(
    ("family", "fault"), sorted({(family, fault) for family, fault, *_ in HARMLESS} | {(f, "") for f in FAMILIES})
)
def test_a_model_and_its_port_agree(family, fault):
    """In float64 rounding only, measured 4e-15; two ports store a product of parameters in float32, measured 2e-9 and 2e-8."""
    stored = fault in ("norm folded into the taps", "scale in the norm")
    assert difference(*pair(family, fault)) < (1e-6 if stored else 1e-12)


@pytest.mark.parametrize("family", [pytest.param(f, marks=() if f == "swin" else pytest.mark.thorough) for f in FAMILIES])
def test_what_is_planted_changes_the_output(family):
    for case in (c for c in CASES if c.family == family):
        d = difference(*pair(*case.make.args[:4]))
        assert d > 1e-6, (case.name, d)


def test_twenty_causes_are_planted():
    assert len({kind for case in CASES for kind in case.kinds} - {"none"}) >= 20
