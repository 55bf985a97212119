"""A model in a lower precision drifts, which is said as such; a difference beside the precision is still named."""

import copy
from dataclasses import replace

import pytest
import torch

import equiscope as eq
from equiscope.audit.integrations.parity_junit import parity_junit
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.pairwise import few


@pytest.mark.parametrize("dtype", few([torch.bfloat16, torch.float16], 1), ids=str)
def test_a_lower_precision_is_drift(dtype):
    a = made(PlainA)
    for b in (copy.deepcopy(a).to(dtype), plain_b(a, permuted=True).to(dtype)):
        found = eq.parity(a, b, ids())
        assert (found.verdict, found.kind) == ("approximate", "precision")
        assert not found.failed
        assert "<failure" not in parity_junit(found)
        assert str(dtype).removeprefix("torch.") in found.cause
        assert found.answers[0].count == 11
        assert [one.layer for one in found.drift] == ["h.0", "h.1"]
        assert 1e-5 < found.drift[0].error < 0.1


def test_a_difference_beside_the_precision_is_named():
    a = made(PlainA)
    b = plain_b(a, replace(a.o, activation="gelu")).to(torch.bfloat16)
    assert eq.parity(a, b, ids()).kind == "activation"
    assert eq.parity(b, a, ids()).kind == "activation"


def test_two_models_in_one_low_precision_are_no_drift():
    a = made(GatedA).to(torch.bfloat16)
    found = eq.parity(a, gated_b(made(GatedA)).to(torch.bfloat16), ids())
    assert found.kind != "precision"
