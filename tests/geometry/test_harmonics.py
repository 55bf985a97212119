"""Spherical harmonics and what follows from them: e3nn has the same."""

import itertools

import pytest
import torch
from e3nn import o3
from tests.geometry.space import turn

from equiscope.errors import InputError
from equiscope.geometry.harmonics import HIGHEST, clebsch_gordan, harmonics
from equiscope.symmetry.irreps import wigner

DEGREES = range(HIGHEST + 1)
TRIPLES = [t for t in itertools.product(range(4), repeat=3) if abs(t[0] - t[1]) <= t[2] <= t[0] + t[1]]


@pytest.mark.parametrize("degree", DEGREES)
def test_e3nn_has_the_same_harmonics(degree):
    x = torch.nn.functional.normalize(torch.randn(50, 3, dtype=torch.float64), dim=-1)
    assert torch.allclose(
        harmonics(degree, x), o3.spherical_harmonics(degree, x, normalize=False, normalization="component"), atol=1e-12
    )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("degree", DEGREES)
def test_e3nn_turns_them_by_the_same_matrix(degree, sign):
    matrix = sign * turn(77.0)
    theirs = o3.Irrep(degree, (-1) ** degree).D_from_matrix(matrix)
    assert torch.allclose(wigner(degree, matrix), theirs.double(), atol=1e-5)  # e3nn's generators are exponentials of float32
    assert torch.allclose(
        wigner(degree, matrix) @ wigner(degree, matrix).mT, torch.eye(2 * degree + 1, dtype=torch.float64), atol=1e-12
    )


@pytest.mark.parametrize("triple", TRIPLES, ids=str)
def test_e3nn_has_the_same_coefficients_up_to_a_sign(triple):
    ours, theirs = clebsch_gordan(*triple), o3.wigner_3j(*triple, dtype=torch.float64)
    assert min((ours - theirs).abs().max(), (ours + theirs).abs().max()) < 1e-6
    assert ours.square().sum() == pytest.approx(1.0)


@pytest.mark.parametrize("triple", TRIPLES, ids=str)
def test_products_turn_as_what_they_are(triple):
    first, second, third = (wigner(degree, turn(33.0, seed=4)) for degree in triple)
    c = clebsch_gordan(*triple)
    assert torch.allclose(torch.einsum("abc,ai,bj,ck->ijk", c, first, second, third), c, atol=1e-12)


def test_what_there_is_not_is_refused():
    with pytest.raises(InputError, match="degree 0 to 8"):
        harmonics(9, torch.ones(3))
    with pytest.raises(InputError, match="not 3"):
        clebsch_gordan(1, 1, 3)
