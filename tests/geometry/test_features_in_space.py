"""Features in space, their maps, norms, products and gates: what turns, what stays, what a mirror does."""

import pytest
import torch
from tests.geometry.space import apart, features, randomised, turn
from torch import nn

from equiscope.errors import InputError, ShapeError, UnknownName
from equiscope.geometry import (
    KINDS,
    EquivariantFeedForward,
    EquivariantLinear,
    EquivariantNorm,
    Features,
    Products,
    length,
    product_kinds,
)

WIDTHS = {"E(3)": {"0e": 6, "0o": 3, "1o": 4, "1e": 2}, "SE(3)": {"0": 6, "1": 4}}
PARTS = {
    "map": lambda widths, group: EquivariantLinear(widths, dict.fromkeys(widths, 5), group),
    "norm": EquivariantNorm,
    "products": lambda widths, group: Products(widths, 3, group),
    "gated": lambda widths, group: EquivariantFeedForward(widths, 7, group, products=2),
    "gated without products": lambda widths, group: EquivariantFeedForward(widths, 7, group),
}


@pytest.mark.parametrize("degrees", [1e-4, 33.0, 180.0])
@pytest.mark.parametrize("group", list(KINDS))
@pytest.mark.parametrize("name", list(PARTS))
def test_a_part_turns_as_its_input_does(name, group, degrees):
    part, x, by = randomised(PARTS[name](WIDTHS[group], group)), features(WIDTHS[group]), turn(degrees)
    assert apart(part(x.rotated(by)), part(x).rotated(by)) < 1e-13


@pytest.mark.parametrize("name", list(PARTS))
def test_a_mirror_changes_signs_in_E3(name):
    part, x, by = randomised(PARTS[name](WIDTHS["E(3)"], "E(3)")), features(WIDTHS["E(3)"]), -turn(70.0)
    assert apart(part(x.rotated(by)), part(x).rotated(by)) < 1e-13


def test_products_of_SE3_tell_a_mirror():
    products, x = randomised(Products(WIDTHS["SE(3)"], 3, "SE(3)")), features(WIDTHS["SE(3)"])
    mirrored = Features({"0": x["0"], "1": -x["1"]})
    found, wanted = products(mirrored), products(x)
    assert torch.allclose(found["0"], wanted["0"]), "a dot of two arrows stays"
    cross = slice(3, None)  # after number times arrow
    assert not torch.allclose(found["1"][..., cross], -wanted["1"][..., cross]), "a cross of two arrows does not turn round"


@pytest.mark.parametrize(
    ("pair", "gives"),
    [
        (("1o", "1o"), {"dot": "0e", "cross": "1e"}),
        (("1o", "1e"), {"dot": "0o", "cross": "1o"}),
        (("0o", "1o"), {"times": "1e"}),
        (("0o", "0o"), {"times": "0e"}),
        (("1", "1"), {"dot": "0", "cross": "1"}),
    ],
)
def test_parities_multiply(pair, gives):
    assert product_kinds(*pair) == gives


def test_nothing_breaks_where_an_arrow_vanishes():
    x = torch.zeros(2, 3, 4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(length(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum() + first.sum(), x)
    assert first.isfinite().all()
    assert second.isfinite().all()
    assert (length(x) == 0).all()


@pytest.mark.parametrize("group", list(KINDS))
def test_a_norm_makes_no_small_feature_larger_and_keeps_large_ones_in_bounds(group):
    norm, x = EquivariantNorm(WIDTHS[group], group).double(), features(WIDTHS[group])
    for kind in list(x)[1:]:
        for size, most in ((1e-6, 1e-6 * x[kind].abs()), (1e6, WIDTHS[group][kind] ** 0.5)):
            assert (norm(Features(x | {kind: size * x[kind]}))[kind].abs() <= most).all()


def test_a_norm_without_scalars_makes_nothing_larger():
    x = features({"1o": 4})
    assert (EquivariantNorm({"1o": 4}).double()(x)["1o"].abs() < x["1o"].abs()).all()


def test_a_bias_on_arrows_would_be_noticed():
    class Biased(nn.Module):
        def forward(self, x):
            return Features(x | {"1o": x["1o"] + 0.1})

    x, by = features(WIDTHS["E(3)"]), turn(33.0)
    assert apart(Biased()(x.rotated(by)), Biased()(x).rotated(by)) > 1e-3


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: EquivariantLinear({"2e": 3}, {"0e": 3}), UnknownName, "Known: 0e, 0o, 1o, 1e"),
        (lambda: EquivariantLinear({"0e": -1}, {"0e": 3}), ShapeError, "0e has -1"),
        (lambda: features(WIDTHS["SE(3)"]).rotated(-turn(3.0)), InputError, "reflections"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, error, said):
    with pytest.raises(error, match=said):
        wrong()
