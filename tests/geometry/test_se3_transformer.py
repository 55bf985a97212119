"""The SE(3)-Transformer of 2020: it turns with its input, and its gradients are right."""

import pytest
import torch
from tests.geometry.space import places, randomised, turn

from equiscope.geometry.se3_transformer import SE3Transformer
from equiscope.symmetry.irreps import wigner


def reference(degrees=3, **settings):
    torch.manual_seed(0)
    return randomised(SE3Transformer(4, degrees, heads=2, **settings), 0.4)


def numbers(seed=3):
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("degrees", [0, 1, 2, 3])
def test_every_degree_turns_by_its_own_matrix(degrees):
    model, x, at, by = reference(degrees), numbers(), places(), turn(77.0)
    plain, moved = model(x, at), model(x, at @ by.mT + 3.0)
    for degree, part in plain.items():
        wanted = part @ wigner(degree, by).mT
        assert (moved[degree] - wanted).abs().max() < 1e-11 * max(1.0, float(wanted.detach().abs().max()))


def test_a_mirror_is_noticed():
    """Degree 0 of two layers holds products of three ways, as a triple product."""
    model, x, at = reference(1), numbers(), places()
    assert (model(x, -at)[0] - model(x, at)[0]).abs().max() > 1e-6


def test_points_in_another_order_answer_in_that_order():
    model, x, at, order = reference(2), numbers(), places(), [3, 0, 4, 1, 2]
    plain, moved = model(x, at), model(x[:, order], at[:, order])
    assert all(torch.allclose(moved[degree], part[:, order], atol=1e-12) for degree, part in plain.items())


def test_gradients_are_those_of_finite_differences():
    model, x, at = reference(2, layers=1), numbers()[:1, :3], places(1, 3)
    assert torch.autograd.gradcheck(lambda at: model(x, at)[1], at.requires_grad_(), atol=1e-6)


def test_padding_changes_nothing():
    model, x, at = reference(1), numbers(), places()
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    both, alone = model(x, at, valid), model(x[1:, :3], at[1:, :3])
    assert torch.allclose(both[1][1, :3], alone[1][0], atol=1e-12)
