"""Attention in space: both forms turn with the points, agree, end smoothly, and have right derivatives."""

import pytest
import torch
from tests.geometry.space import apart, features, places, randomised, turn
from tests.pairwise import pairwise

from equiscope.errors import ShapeError
from equiscope.geometry import Features, SpaceAttention, all_pairs, attend, neighbours

WIDTHS = {"E(3)": {"0e": 8, "0o": 2, "1o": 4, "1e": 2}, "SE(3)": {"0": 8, "1": 4}}
FORMS = {
    "dense": {},
    "dense, radial": {"radial": 6},
    "local": {"radial": 6, "cutoff": 5.0},
    "filtered": {"radial": 6, "cutoff": 5.0, "filtered": True},
}


def attention(group, dtype=torch.float64, **settings):
    return randomised(SpaceAttention(WIDTHS[group], 2, group, value_heads=3, **settings), dtype=dtype)


def double(x):
    return Features({kind: part.double() for kind, part in x.items()})


@pairwise(
    pytest.mark.parametrize("form", list(FORMS)),
    pytest.mark.parametrize("group", list(WIDTHS)),
    pytest.mark.parametrize("degrees", [1e-4, 33.0, 180.0]),
    pytest.mark.parametrize("away", [0.0, 1e3]),
)
def test_it_turns_and_does_not_notice_where_it_is(form, group, degrees, away):
    part, x, at, by = attention(group, **FORMS[form]), features(WIDTHS[group]), places(), turn(degrees)
    moved = at @ by.mT + torch.tensor([0.6, -0.64, 0.48], dtype=torch.float64) * away
    assert apart(part(x.rotated(by), moved), part(x, at).rotated(by)) < 1e-12


@pytest.mark.parametrize("form", list(FORMS))
def test_a_mirror_image_is_alike_in_E3(form):
    part, x, at, by = attention("E(3)", **FORMS[form]), features(WIDTHS["E(3)"]), places(), -turn(70.0)
    assert apart(part(x.rotated(by), at @ by.mT), part(x, at).rotated(by)) < 1e-12


@pytest.mark.parametrize("form", list(FORMS))
def test_points_in_another_order_answer_in_that_order(form):
    part, x, at, order = attention("E(3)", **FORMS[form]), features(WIDTHS["E(3)"]), places(), [3, 0, 4, 1, 2]
    moved = Features({kind: values[:, order] for kind, values in x.items()})
    wanted = Features({kind: values[:, order] for kind, values in part(x, at).items()})
    assert apart(part(moved, at[:, order]), wanted) < 1e-13


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("form", list(FORMS))
def test_float32_is_as_good_as_its_inputs(form, spread):
    """Beyond 10 units, at most 10 times the error that rounding the inputs makes."""
    exact, rough = attention("E(3)", **FORMS[form]), attention("E(3)", torch.float32, **FORMS[form])
    x, at, by = features(WIDTHS["E(3)"]), places(spread=spread / 3), turn(33.0)
    few = Features({kind: values.float() for kind, values in x.items()})
    found, wanted = rough(few.rotated(by.float()), (at @ by.mT).float()), exact(x, at).rotated(by)
    rounded = exact(double(few.rotated(by.float())), (at @ by.mT).float().double())
    assert apart(double(found), wanted) < max(5e-6, 10 * apart(rounded, wanted))


@pytest.mark.parametrize("settings", [{}, {"radial": 6}], ids=str)
@pytest.mark.parametrize("group", list(WIDTHS))
def test_both_forms_agree_where_all_see_all(group, settings):
    part, x, at = attention(group, **settings), features(WIDTHS[group]), places()
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found, wanted = part(x, at, all_pairs(at, valid), valid), part(x, at, None, valid)
    real = [Features({kind: values[valid] for kind, values in one.items()}) for one in (found, wanted)]
    assert apart(*real) < 1e-13


def test_a_cutoff_that_holds_every_pair_changes_nothing_but_the_envelope():
    wide = attention("E(3)", radial=6, cutoff=1e6)
    x, at = features(WIDTHS["E(3)"]), places()
    assert apart(wide(x, at, neighbours(at, 1e6)), wide(x, at, all_pairs(at))) < 1e-13


@pytest.mark.parametrize("learned", [False, True])
def test_dense_is_the_plain_formula(learned):
    """Against a sum over pairs that is written out, with and without the second derivative."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, u = (torch.randn(2, 3, 5, n, generator=generator, dtype=torch.float64) for n in (4, 4, 6, 2))
    at, sharp = places().requires_grad_(learned), torch.tensor([0.1, 0.7, 0.0], dtype=torch.float64)
    values, ways = attend.dense(q, k, v, u, at, sharp, 0.5)
    way = at[:, None, :] - at[:, :, None]
    scores = 0.5 * q @ k.mT - sharp[:, None, None] * way.square().sum(-1)[:, None]
    weights = scores.softmax(-1)
    assert torch.allclose(values, weights @ v, atol=1e-13)
    wanted = torch.einsum("bhij,bhju,bijc->bhicu", weights, u, way)
    assert torch.allclose(ways, wanted, atol=1e-12)


def test_a_point_that_leaves_the_cutoff_leaves_smoothly():
    """Across the cutoff neither a value nor a slope jumps; without an envelope both do."""
    part, x = attention("E(3)", radial=6, cutoff=5.0, filtered=True), features(WIDTHS["E(3)"], batch=1, points=3)

    def seen(far, envelope=True):
        at = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 0.2, 0.0], [far, 0.0, 0.0]]], dtype=torch.float64)
        near = neighbours(at, 5.0)
        if envelope:
            return part(x, at, near)["0e"][0, 0].detach()
        q, k, v, u = part._project(x)
        return attend.local(q, k, v, u, near, part.decay.detach() * 0, 1.0)[0][0, :, 0].detach()

    step = 1e-6
    before, at_edge, after = seen(5.0 - step), seen(5.0), seen(5.0 + step)
    assert (before - after).abs().max() < 1e-12
    assert ((at_edge - before) / step).abs().max() < 1e-5
    assert (seen(5.0 - step, False) - seen(5.0 + step, False)).abs().max() > 1e-3


@pytest.mark.parametrize("form", list(FORMS))
def test_second_derivatives_exist_and_are_right(form):
    part = randomised(SpaceAttention({"0e": 2, "1o": 2}, 1, **FORMS[form]))
    x, at = features({"0e": 2, "1o": 2}, batch=1, points=3), places(batch=1, points=3)

    def answered(at):
        return part(x, at)["1o"].sum(-1)

    assert torch.autograd.gradcheck(answered, at.requires_grad_(), atol=1e-6)
    assert torch.autograd.gradgradcheck(answered, at, atol=1e-5)


@pytest.mark.parametrize("form", list(FORMS))
def test_two_points_at_one_place_are_no_accident(form):
    part, x = attention("E(3)", **FORMS[form]), features(WIDTHS["E(3)"], batch=1, points=3)
    at = torch.zeros(1, 3, 3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(part(x, at)["0e"].sum(), at, create_graph=True)
    (bend,) = torch.autograd.grad(slope.square().sum(), at)
    assert slope.isfinite().all()
    assert bend.isfinite().all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="3 heads do not divide 8 of 0e"):
        SpaceAttention({"0e": 8, "1o": 4}, 3)
    q = torch.randn(1, 2, 4, 3)
    with pytest.raises(ShapeError, match=r"coordinates \[B, N, 3\]"):
        attend.dense(q, q, q, q, torch.randn(1, 4, 2), torch.ones(2), 1.0)
    with pytest.raises(ShapeError, match="Queries and keys"):
        attend.dense(q, q[:, :, :2], q, q, torch.randn(1, 4, 3), torch.ones(2), 1.0)
