"""Pairs of the kinds that were answered wrongly before: without the plant they agree, with it they differ."""

import pytest
import torch

from .cases import CASES, FAMILIES, pair


def difference(family, fault=""):
    """The largest difference of the outputs in float64, relative to the largest output."""
    a, b, inputs, _ = pair(family, fault)
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        x, y = a.double()(*inputs), b.double()(*inputs)
    return ((x - y).abs().max() / x.abs().max()).item()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_port_agree(family):
    assert difference(family) < 1e-14  # float64: rounding only, measured 9e-16


def test_what_is_planted_changes_the_output():
    assert all(difference(*case.make.args) > 1e-5 for case in CASES)
