"""Irreps: their matrices represent rotations, and agree with e3nn's conventions."""

import pytest
import torch

from equiscope.audit import check
from equiscope.errors import ShapeError
from equiscope.symmetry.irreps import candidates, directions, harmonics, parsed, rotated, wigner
from equiscope.symmetry.motions import random_rotation, rotation
from equiscope.symmetry.space import Reflect

pytestmark = pytest.mark.quick

DEGREES = range(8)
FINE = 1e-12  # float64; measured below 1e-14 for all these degrees


def two():
    generator = torch.Generator().manual_seed(3)
    return [rotation(*random_rotation(generator)) for _ in range(2)]


def apart(a, b):
    return (a - b).abs().max().item()


@pytest.mark.parametrize("degree", DEGREES)
def test_turning_the_points_turns_their_harmonics(degree):
    turn, points = two()[0], directions(50)
    assert apart(harmonics(degree, points @ turn.mT), harmonics(degree, points) @ wigner(degree, turn).mT) < FINE


@pytest.mark.parametrize("degree", DEGREES)
def test_one_turn_after_another_is_one_matrix_after_another(degree):
    a, b = two()
    assert apart(wigner(degree, a @ b), wigner(degree, a) @ wigner(degree, b)) < FINE
    assert apart(wigner(degree, a) @ wigner(degree, a.mT), torch.eye(2 * degree + 1, dtype=torch.float64)) < FINE


def test_degree_one_is_the_vector_itself():
    turn = two()[0]
    assert apart(wigner(1, turn), turn) < FINE


@pytest.mark.parametrize("degree", DEGREES)
def test_harmonics_and_matrices_are_those_of_e3nn(degree):
    o3 = pytest.importorskip("e3nn.o3")
    points, turn = directions(40), two()[1]
    assert apart(harmonics(degree, points), o3.spherical_harmonics(degree, points, False, "norm")) < FINE
    assert apart(wigner(degree, turn), o3.Irrep(degree, 1).D_from_matrix(turn)) < 1e-4  # e3nn's own constants are float32


def test_a_name_says_how_many_of_which_degree_and_parity():
    assert [(p.blocks, p.l, p.parity) for p in parsed("4x0e+1o")] == [(4, 0, 1), (1, 1, -1)]
    assert parsed("vector") == parsed("1o")
    assert parsed("pseudo-vector") == parsed("1e")


@pytest.mark.parametrize(("name", "sign"), [("1o", -1), ("1e", 1), ("0e", 1), ("0o", -1), ("2e", 1), ("2o", -1)])
def test_inversion_changes_the_sign_of_odd_irreps_only(name, sign):
    x = torch.randn(4, parsed(name)[0].width, dtype=torch.float64)
    assert apart(rotated(x, -torch.eye(3, dtype=torch.float64), name), sign * x) < FINE


def test_several_blocks_stand_one_after_another():
    turn, x = two()[0], torch.randn(5, 4, dtype=torch.float64)
    wanted = torch.cat([x[:, :1], x[:, 1:] @ turn.mT], -1)
    assert apart(rotated(x, turn, "0e+1o"), wanted) < FINE
    assert apart(rotated(x.mT.contiguous(), turn, "0e+1o@-2"), wanted.mT) < FINE


def test_many_vectors_side_by_side_turn_alike():
    turn, x = two()[0], torch.randn(5, 4, 3, dtype=torch.float64)
    assert apart(rotated(x.flatten(-2), turn, "vector"), (x @ turn.mT).flatten(-2)) < FINE


def test_a_tensor_turns_on_both_sides_and_a_mirror_keeps_it():
    v, mirror = torch.randn(3, dtype=torch.float64), Reflect((0.0, 0.0, 1.0)).matrix()
    assert apart(rotated(torch.outer(v, v), mirror, "tensor"), torch.outer(mirror @ v, mirror @ v)) < FINE


def test_a_width_that_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="has 4 numbers, but axis -1"):
        rotated(torch.zeros(2, 5), two()[0], "0e+1o")
    with pytest.raises(ShapeError, match="3, 3"):
        rotated(torch.zeros(2, 5), two()[0], "tensor")
    with pytest.raises(ShapeError, match="no axis -2"):
        rotated(torch.zeros(3), two()[0], "vector@-2")


def test_so_many_points_are_no_components():
    assert "vector" in candidates((2, 3), (), True)
    assert "vector" not in candidates((2, 3), (1,), True)
    assert "pseudo-vector" not in candidates((2, 3), (), False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "turned_right", "mirrored_right"),
    [("2x0e+1e+2e", True, True), ("2x0e+1o+2e", True, False), ("1e+2x0e+2e", False, False)],
)
def test_a_tensor_product_of_e3nn_is_what_it_says_and_nothing_else(said, turned_right, mirrored_right):
    """Two vectors make scalars, a pseudo-vector and an even tensor: turns do not tell parities, mirrors do."""
    o3 = pytest.importorskip("e3nn.o3")

    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vectors = o3.Linear("1o", "4x1o")
            self.product = o3.FullyConnectedTensorProduct("4x1o", "4x1o", "2x0e+1e+2e")

        def forward(self, pos):
            vectors = self.vectors(pos)
            return self.product(vectors, vectors.roll(1, -2))

    rows = check(Product(), torch.randn(5, 3), actions=["rotate", "reflect"], output=said, localize=False)
    assert [row.verdict == "holds" for row in rows if row.kind == "action"] == [turned_right, mirrored_right]
