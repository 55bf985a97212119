"""The third set of pairs: without the plant they agree, with it they differ.

`first_run.json` keeps each wrong answer of the first run.
"""

import pytest

from ..outputs import difference
from .cases import CASES, FAMILIES, pair


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(*pair(family, "")[:3]) < 1e-12  # float64: rounding only, measured 2e-15


def test_what_is_planted_changes_the_output():
    """A norm that casts in another order is equal in float64: only half precision tells."""
    for family, fault, at, *_ in (case.make.args for case in CASES):
        assert (difference(*pair(family, fault, at)[:3]) > 1e-8) == (fault != "cast"), (family, fault)


def test_each_cause_is_planted_in_three_families():
    families = {}
    for case in CASES:
        for kind in case.kinds:
            families.setdefault(kind, set()).add(case.family)
    assert all(
        len(families[kind]) >= 3
        for kind in (
            "rope base", "rope scaling", "rope layout", "head order", "head width", "softmax scale", "epsilon", "norm kind",
            "norm placement", "cast", "soft-cap", "window", "mask alignment", "padding side", "tied head", "bias", "activation",
            "embedding scale", "position offset", "mode",
        )
    )  # fmt: skip
