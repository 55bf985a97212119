"""A model in a lower precision drifts, which is said as such; a difference beside the precision is still named."""

import copy
from dataclasses import replace

import pytest
import torch

import equiscope as eq
from equiscope.audit.integrations.parity_junit import parity_junit
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.pairwise import few


@pytest.mark.parametrize(
    ("dtype", "copied"), few([(torch.bfloat16, False), (torch.bfloat16, True), (torch.float16, False), (torch.float16, True)], 1)
)
def test_a_lower_precision_is_drift(dtype, copied):
    a = made(PlainA)
    found = eq.parity(a, (copy.deepcopy(a) if copied else plain_b(a, permuted=True)).to(dtype), ids())
    assert (found.verdict, found.kind) == ("approximate", "precision")
    assert not found.failed
    assert "<failure" not in parity_junit(found)
    assert str(dtype).removeprefix("torch.") in found.cause
    assert found.answers[0].count == 11
    assert [one.layer for one in found.drift] == ["h.0", "h.1"]
    assert 1e-5 < found.drift[0].error < 0.1


@pytest.mark.parametrize("exchanged", few([False, True], 1))
def test_a_difference_beside_the_precision_is_named(exchanged):
    a = made(PlainA)
    b = plain_b(a, replace(a.o, activation="gelu")).to(torch.bfloat16)
    assert eq.parity(*((b, a) if exchanged else (a, b)), ids(), differences=1).kind == "activation"


def test_two_models_in_one_low_precision_are_no_drift():
    a = made(GatedA).to(torch.bfloat16)
    found = eq.parity(a, gated_b(made(GatedA)).to(torch.bfloat16), ids())
    assert found.kind != "precision"
