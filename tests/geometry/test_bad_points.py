"""Points that are hardly any: one place twice, one atom, nobody near, cells without a volume, coordinates that are no numbers.

What has an answer gets the right one; what has none is a sentence.
"""

import pytest
import torch
from tests.geometry.space import places, randomised

from equiscope.errors import InputError
from equiscope.geometry import neighbours, pairs
from equiscope.geometry.model import PointSpec, SpaceModel

KINDS = {
    "dense": {}, "dense, SE(3)": {"group": "SE(3)", "products": 4}, "dense, typed": {"pseudo": 4, "products": 4},
    "local": {"cutoff": 4.0}, "filtered": {"cutoff": 4.0, "filtered": True},
}  # fmt: skip
LOCAL = [name for name in KINDS if "cutoff" in KINDS[name]]
MANY = 40  # atoms: more than are computed as all pairs
NAN, INFINITE = float("nan"), float("inf")


def model(**settings):
    torch.manual_seed(0)
    return randomised(SpaceModel(PointSpec(("H", "C", "O"), width=16, vectors=8, **settings)), 0.3)


def water(batch=1):
    at = torch.tensor([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]], dtype=torch.float64)
    return torch.tensor([[8, 1, 1]]).expand(batch, 3), at.expand(batch, 3, 3).clone()


def crowd(count=MANY):
    """More atoms than a dense form is used for, each near some others."""
    return torch.tensor([[1, 6, 8, 1] * (count // 4)]), places(1, count, spread=3.0)


def box(side):
    return side * torch.eye(3, dtype=torch.float64)[None]


# ----------------------------------------------------------------------------------------------------- the same place


@pytest.mark.parametrize("name", list(KINDS))
def test_two_atoms_in_one_place_have_the_energy_that_near_ones_approach(name):
    one, (numbers, at) = model(**KINDS[name]), water()
    at[:, 1] = at[:, 0]  # a hydrogen in the oxygen
    found, way = one.energy_and_forces(numbers, at), torch.tensor([0.6, -0.48, 0.64], dtype=torch.float64)
    assert found.energy.isfinite().all()
    assert found.forces.isfinite().all()
    for apart, bend in ((1e-3, 1.0), (1e-7, 5e-3)):  # distances are smooth below a ten-thousandth of an angstrom
        moved = at.clone()
        moved[:, 1] += apart * way
        near = one.energy_and_forces(numbers, moved)
        assert (near.energy - found.energy).abs().max() < 5 * apart * near.forces.abs().max() + 1e-12
        assert (near.forces - found.forces).abs().max() < bend * near.forces.abs().max()


@pytest.mark.parametrize("name", list(KINDS))
def test_two_atoms_that_are_one_pull_alike_and_can_be_learned_from(name):
    one, numbers = model(**KINDS[name]), torch.tensor([[8, 1, 1, 6]])
    at = torch.tensor([[[0.0, 0, 0], [0.9, 0, 0], [0.9, 0, 0], [0, 1.2, 0.3]]], dtype=torch.float64)
    found = one.energy_and_forces(numbers, at, learn=True)
    assert torch.allclose(found.forces[:, 1], found.forces[:, 2], rtol=1e-10, atol=1e-14)  # nobody can tell the two
    (found.forces.square().sum() + found.energy.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in one.parameters())


@pytest.mark.parametrize("name", list(KINDS))
def test_all_atoms_in_one_place_feel_nothing(name):
    found = model(**KINDS[name]).energy_and_forces(torch.tensor([[8, 1, 1]]), torch.full((1, 3, 3), 2.0, dtype=torch.float64))
    assert found.energy.isfinite().all()
    assert (found.forces.abs() < 1e-12).all()  # no way leads anywhere


def test_what_lies_in_one_place_is_a_neighbour_of_the_other():
    x = torch.zeros(3, 3, dtype=torch.float64)
    i, j, _ = pairs(x, 1.0)
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(a, b) for a in range(3) for b in range(3) if a != b]


# -------------------------------------------------------------------------------------------------------------- alone


@pytest.mark.parametrize("name", list(KINDS))
def test_one_atom_feels_nothing_wherever_it_is(name):
    one, numbers = model(**KINDS[name]), torch.tensor([[6]])
    here, there = (one.energy_and_forces(numbers, torch.full((1, 1, 3), x, dtype=torch.float64)) for x in (0.0, 1e4))
    assert torch.allclose(here.energy, there.energy, rtol=1e-12)
    assert (here.forces.abs() < 1e-12).all()
    assert (there.forces.abs() < 1e-9).all()


@pytest.mark.parametrize("name", LOCAL)
def test_atoms_that_are_far_from_each_other_have_the_energy_of_atoms_alone(name):
    one, numbers = model(**KINDS[name]), torch.tensor([[8, 1, 6]])
    at = torch.tensor([[[0.0, 0, 0], [9.0, 0, 0], [0, 0, -70.0]]], dtype=torch.float64)
    alone = sum(one(numbers[:, i : i + 1], at[:, i : i + 1]) for i in range(3))
    found = one.energy_and_forces(numbers, at)
    assert torch.allclose(found.energy, alone, rtol=1e-12)
    assert (found.forces == 0).all()


@pytest.mark.parametrize("name", LOCAL)
def test_one_atom_in_a_small_cell_sees_its_own_images_and_feels_nothing(name):
    """A mean of neighbours that are all alike is as one of them, unless filters tell how far they are."""
    one, numbers, at = model(**KINDS[name]), torch.tensor([[6]]), torch.full((1, 1, 3), 0.3, dtype=torch.float64)
    found, alone = one.energy_and_forces(numbers, at, box(1.7)), one(numbers, at)
    assert torch.allclose(found.energy, alone, rtol=1e-12) == (name != "filtered")
    assert (found.forces.abs() < 1e-10).all()


# --------------------------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("side", [7.0, 3.9, 2.0])
def test_a_cutoff_of_more_than_half_the_cell_is_right(name, side):
    """Against the same crystal as one cell of 2 x 2 x 2, of which each atom has its share; forces stay."""
    one, (numbers, at) = model(**KINDS[name]), water()
    steps = torch.tensor([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=torch.float64)
    many = torch.cat([at + side * step for step in steps], 1)
    small, large = one.energy_and_forces(numbers, at, box(side)), one.energy_and_forces(numbers.repeat(1, 8), many, box(2 * side))
    assert torch.allclose(large.energy, 8 * small.energy, rtol=1e-10)
    assert torch.allclose(large.forces, small.forces.repeat(1, 8, 1), rtol=1e-8, atol=1e-10 * small.forces.abs().max())


@pytest.mark.parametrize(
    "cell",
    [
        torch.zeros(1, 3, 3), torch.ones(1, 3, 3), torch.tensor([[[4.0, 0, 0], [0, 4.0, 0], [4.0, 4.0, 0]]]),
        torch.full((1, 3, 3), NAN), INFINITE * torch.eye(3)[None],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", LOCAL)
def test_a_cell_without_a_volume_is_refused(name, cell):
    with pytest.raises(InputError, match=r"has no volume\. Give three vectors that do not lie in a plane, or no cell"):
        model(**KINDS[name]).energy_and_forces(*water(), cell.double())


def test_a_cell_that_the_cutoff_reaches_through_a_million_times_is_refused():
    with pytest.raises(InputError, match="look at the cell's unit, or take a smaller cutoff"):
        model(**KINDS[LOCAL[0]]).energy_and_forces(*water(), torch.tensor([4.0, 4.0, 1e-9], dtype=torch.float64).diag()[None])


def test_a_cell_of_a_model_that_sees_all_is_refused():
    with pytest.raises(InputError, match="Give the spec a cutoff"):
        model()(*water(), box(9.0))


# ------------------------------------------------------------------------------------------------------------- no atoms


@pytest.mark.parametrize("wrong", [NAN, INFINITE, -INFINITE])
@pytest.mark.parametrize("name", list(KINDS))
def test_coordinates_that_are_no_numbers_are_refused(name, wrong):
    for numbers, at in (water(2), crowd()):
        at[-1, -1, 1] = wrong
        for asked in (model(**KINDS[name]), model(**KINDS[name]).energy_and_forces):
            with pytest.raises(InputError, match="coordinates are NaN or infinite"):
                asked(numbers, at)


@pytest.mark.parametrize(("number", "said"), [(7, "of N"), (118, "of Og"), (119, "of number 119"), (-1, "of number -1")])
def test_elements_that_are_not_known_are_refused(number, said):
    numbers, at = water()
    wrong = numbers.clone()
    wrong[0, 1] = number
    with pytest.raises(InputError, match=f"knows H, C, O, but there is an atom {said}"):
        model()(wrong, at)


def test_no_atoms_at_all_have_no_energy_and_no_forces():
    for settings in KINDS.values():
        found = model(**settings).energy_and_forces(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, 3, dtype=torch.float64))
        assert (found.energy == 0).all()
        assert (found.forces == 0).all()


@pytest.mark.parametrize("cutoff", [0.0, -2.0, NAN, INFINITE])
def test_a_cutoff_that_is_none_is_refused(cutoff):
    with pytest.raises(InputError, match="cutoff"):
        neighbours(torch.zeros(1, 2, 3), cutoff)
    if cutoff != INFINITE:
        with pytest.raises(InputError, match=r"[Cc]utoff"):
            PointSpec(("H",), cutoff=cutoff)
