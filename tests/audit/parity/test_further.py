"""Behind the first difference, the two go on: several planted differences are all listed, and one never becomes two."""

from dataclasses import replace

import pytest
import torch

import equiscope as eq
from equiscope.errors import InputError
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.audit.parity.planted import cases, pair
from tests.pairwise import few

# family, changes of B, the kinds in the order in which A computes
THREE = (PlainA, {"offset": 2, "activation": "gelu", "output_cap": 3.0}, ["position offset", "activation", "output cap"])
MORE = [
    (GatedA, {"embedding": 32**0.5, "cap": 2.0, "activation": "gelu"}, ["embedding scale", "soft-cap", "activation"]),
    (GatedA, {"norm": "other", "start": 1}, ["norm kind", "rope offset"]),
    (PlainA, {"cap": 2.0, "residual": False}, ["soft-cap", "residual"]),
    (GatedA, {"one_plus": True, "order": "strided"}, ["norm weight", "head order"]),
    (GatedA, {"activation": "relu", "layout": "interleaved"}, ["rope layout", "activation"]),
    (GatedA, {"layout": "interleaved", "tied": False}, ["rope layout", "tied head"]),
    (PlainA, {"offset": 2, "heads": 2}, ["position offset", "head width"]),
    (PlainA, {"scale": 1 / 8, "activation": "quick"}, ["softmax scale", "activation"]),
    (PlainA, {"cap": 2.0, "tied": False}, ["soft-cap", "tied head"]),
]
ALONE = ("PlainA, norm placement", "PlainA, residual")


def compared(family, changed):
    a = made(family)
    return eq.parity(a, (gated_b if family is GatedA else plain_b)(a, replace(a.o, **changed)), ids())


@pytest.mark.parametrize(("family", "changed", "kinds"), few([THREE, *MORE], 1))
def test_several_planted_differences_are_listed_in_order(family, changed, kinds):
    """The same difference in another layer is named beside the first."""
    found = compared(family, changed)
    assert [found.kind, *(one.kind for one in found.further)] == kinds
    assert f"They differ in {len(kinds)} ways: " in found.summary
    assert repr(found).count("difference") == len(kinds)
    for one in found.further:
        assert one.kind != "activation" or one.repeated == [one.step_a.module.replace("0", "1")]


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c[0], marks=() if c[0] in ALONE else pytest.mark.thorough) for c in cases() if not c[-2]],
)
def test_one_planted_difference_stays_one_although_every_layer_has_it(case):
    a, b = pair(*case[1:-1])
    found = eq.parity(a, b, ids())
    assert (found.kind, found.further) == (case[-1], [])


def test_other_weights_at_two_places_are_two_differences():
    a = made(PlainA)
    b = plain_b(a)
    with torch.no_grad():
        b.blocks[0].c_fc.weight.add_(0.1 * torch.randn(b.blocks[0].c_fc.weight.shape))
        b.blocks[1].c_proj.weight.add_(0.1 * torch.randn(b.blocks[1].c_proj.weight.shape))
    found = eq.parity(a, b, ids())
    assert [found.kind, *(one.kind for one in found.further)] == ["weights", "weights"]
    assert [one.step_a.module for one in (found, *found.further)] == ["h.0.fc_in", "h.1"]


def test_no_more_are_sought_than_asked_for():
    found = eq.parity(made(PlainA), plain_b(made(PlainA), replace(made(PlainA).o, offset=2, output_cap=3.0)), ids(), differences=1)
    assert (found.kind, found.further) == ("position offset", [])


def test_less_than_one_difference_is_refused():
    with pytest.raises(InputError, match="but got differences=0"):
        eq.parity(made(PlainA), made(PlainA), ids(), differences=0)
