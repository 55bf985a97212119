"""Models of points in space: energies stay, forces turn and are the gradient, stress answers to a strain."""

import pytest
import torch
from tests.geometry.space import places, randomised, turn

from equiscope.errors import InputError, ShapeError
from equiscope.geometry import EquivariantNorm, Features
from equiscope.geometry.model import PointSpec, SpaceModel
from equiscope.symmetry import derive

SPECS = {
    "dense": {}, "dense, SE(3)": {"group": "SE(3)", "products": 4}, "dense, typed": {"pseudo": 4, "products": 4},
    "local": {"cutoff": 4.0}, "filtered": {"cutoff": 4.0, "filtered": True}, "numbers only": {"vectors": 0},
}  # fmt: skip
NUMBERS = torch.tensor([[6, 6, 8, 1, 1, 1, 1, 1, 1], [8, 1, 1, 0, 0, 0, 0, 0, 0]])


def model(**settings):
    torch.manual_seed(0)
    return randomised(SpaceModel(PointSpec(("H", "C", "O"), width=16, **{"vectors": 8} | settings)), 0.3)


def atoms():
    return NUMBERS, places(2, 9, spread=1.5)


@pytest.mark.parametrize("away", [0.0, 1e3])
@pytest.mark.parametrize("degrees", [1e-3, 77.0])
@pytest.mark.parametrize("name", list(SPECS))
def test_energies_stay_and_forces_turn(name, degrees, away):
    (numbers, at), one, by = atoms(), model(**SPECS[name]), turn(degrees)
    plain, moved = one.energy_and_forces(numbers, at), one.energy_and_forces(numbers, at @ by.mT + away)
    assert (moved.energy - plain.energy).abs().max() < 1e-12 * plain.energy.abs().max()
    assert (moved.forces - plain.forces @ by.mT).abs().max() < 1e-11 * plain.forces.abs().max()


@pytest.mark.parametrize("name", list(SPECS))
def test_a_mirror_is_noticed_where_the_group_says_so(name):
    (numbers, at), one = atoms(), model(**SPECS[name])
    plain, mirrored = one(numbers, at), one(numbers, -at)
    apart = float(((mirrored - plain).abs().max() / plain.abs().max()).detach())
    assert (apart > 1e-6) == ("SE(3)" in name)
    claims = {claim.action: claim for claim in derive(one)}
    assert claims["reflect"].holds == ("SE(3)" not in name)
    assert all(claims[action].holds for action in ("permute", "rotate", "translate"))


@pytest.mark.parametrize("name", list(SPECS))
def test_forces_are_the_slope_of_the_energy(name):
    """Against central differences of the fourth order."""
    (numbers, at), one = atoms(), model(**SPECS[name])
    forces, scale, step = one.energy_and_forces(numbers, at).forces, one.energy_and_forces(numbers, at).forces.abs().max(), 1e-3
    for atom, axis in ((0, 0), (3, 1), (8, 2)):
        moved = torch.zeros_like(at)
        moved[:, atom, axis] = step
        e = [one(numbers, at + k * moved).detach() for k in (-2, -1, 1, 2)]
        slope = (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * step)
        assert (forces[:, atom, axis] + slope)[0].abs() < 1e-7 * scale


@pytest.mark.parametrize("name", list(SPECS))
def test_padding_changes_nothing_and_gets_no_force(name):
    (numbers, at), one = atoms(), model(**SPECS[name])
    both, alone = one.energy_and_forces(numbers, at), one.energy_and_forces(numbers[1:, :3], at[1:, :3])
    assert torch.allclose(both.energy[1], alone.energy[0], rtol=1e-12)
    assert torch.allclose(both.forces[1, :3], alone.forces[0], atol=1e-12)
    assert (both.forces[1, 3:] == 0).all()


def test_what_is_learned_from_forces_reaches_every_parameter():
    (numbers, at), one = atoms(), model(cutoff=4.0, filtered=True, pseudo=4, products=4)
    answer = one.energy_and_forces(numbers, at, learn=True)
    (answer.forces.square().sum() + answer.energy.sum()).backward()
    assert [name for name, p in one.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []


def test_stress_is_how_the_energy_answers_to_a_strain():
    cell = torch.tensor([[[5.0, 0.0, 0.0], [1.0, 4.0, 0.0], [0.0, 1.0, 6.0]]], dtype=torch.float64)
    (numbers, at), one, step = (NUMBERS[:1, :4], places(1, 4)), model(cutoff=4.5), 1e-4
    stress = one.energy_and_forces(numbers, at, cell, stress=True).stress
    bend = torch.zeros(3, 3, dtype=torch.float64)
    bend[0, 1] = bend[1, 0] = step / 2
    found = [one(numbers, at @ (torch.eye(3) + s * bend), cell @ (torch.eye(3) + s * bend)).detach() for s in (-1, 1)]
    slope = (found[1] - found[0]) / (2 * step) / cell.det()
    assert torch.allclose(stress[0, 0, 1], slope[0], rtol=1e-5, atol=1e-10)
    assert torch.allclose(stress, stress.mT)


def test_a_crystal_written_twice_has_twice_the_energy():
    cell = 3.0 * torch.eye(3, dtype=torch.float64)[None]
    numbers, at, one = NUMBERS[:1, :3], places(1, 3), model(cutoff=4.0)
    twice = cell.clone()
    twice[:, 0] *= 2
    double = one(numbers.repeat(1, 2), torch.cat([at, at + cell[:, 0]], 1), twice)
    assert torch.allclose(double, 2 * one(numbers, at, cell), rtol=1e-12)


def test_one_atom_and_no_neighbour_have_an_energy_and_no_force():
    answer = model(cutoff=4.0).energy_and_forces(
        torch.tensor([[6, 8]]), torch.tensor([[[0.0, 0, 0], [50.0, 0, 0]]], dtype=torch.float64)
    )
    assert answer.energy.isfinite().all()
    assert (answer.forces == 0).all()


METHANE = torch.tensor([[6, 1, 1, 1, 1]])


def methane(displacement=0.0):
    """Positions [1, 5, 3] in Å; one hydrogen is displaced."""
    corners = [[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    at = torch.tensor(corners, dtype=torch.float64)[None] * 0.63
    at[0, 1] += displacement * torch.tensor([0.3, 0.5, -0.8], dtype=torch.float64)
    return at


def test_a_methane_carbon_feels_nothing():
    forces = model(products=4, pseudo=4).energy_and_forces(METHANE, methane()).forces
    assert forces[0, 0].norm() < 1e-9 * forces[0, 1].norm()


class NormByOwnSize(EquivariantNorm):
    """The norm of many models: each vector feature is divided by its own size."""

    def forward(self, x):
        arrows = x["1o"] * (x["1o"].square().sum((-2, -1), keepdim=True) / x["1o"].shape[-1] + 1e-1).rsqrt()
        return Features(super().forward(x) | {"1o": arrows})


def growth(one):
    """How much the vectors of the carbon grow with a displacement by 1e-6 Å, which breaks the symmetry of methane."""
    return float(one.features(METHANE, methane(1e-6))["1o"][0, 0].norm().detach()) / 1e-6


def test_near_a_symmetric_arrangement_a_small_displacement_gives_small_vectors():
    one = model(products=4, cutoff=5.0, filtered=True, layers=3)
    with torch.no_grad():
        for p in one.parameters():
            p.mul_(2)  # as large as Muon makes them
    assert growth(one) < 100
    for part in list(one.modules()):
        if isinstance(part, EquivariantNorm):
            part.__class__ = NormByOwnSize
    assert growth(one) > 1e5


class NormOfScalars(EquivariantNorm):
    """No norm of vectors, as in many models of few layers."""

    def forward(self, x):
        return Features(super().forward(x) | {"1o": x["1o"]})


def test_many_layers_need_a_norm_of_vectors():
    torch.manual_seed(0)
    one, (numbers, at) = SpaceModel(PointSpec(("H", "C", "O"), width=16, vectors=8, products=8, layers=12)).double(), atoms()
    assert one.features(numbers, at)["1o"].abs().max() < 10
    assert one.energy_and_forces(numbers, at).forces.abs().max() < 100
    for part in list(one.modules()):
        if isinstance(part, EquivariantNorm):
            part.__class__ = NormOfScalars
    assert not one.features(numbers, at)["1o"].abs().max() < 1e6


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: PointSpec(("H", "Xx")), InputError, "symbols"),
        (lambda: PointSpec(()), InputError, "symbols"),
        (lambda: PointSpec(("H",), group="SE(3)", pseudo=2), InputError, "no reflections"),
        (lambda: PointSpec(("H",), radial=0, filtered=True), InputError, "needs radial"),
        (lambda: PointSpec(("H",), cutoff=-1.0), InputError, "above 0"),
        (lambda: model()(torch.tensor([[7]]), places(1, 1)), InputError, "knows H, C, O, but there is an atom of N"),
        (lambda: model()(NUMBERS, places(2, 8)), ShapeError, r"\[B, N, 3\]"),
        (lambda: model()(NUMBERS[:1], places(1, 9), torch.eye(3, dtype=torch.float64)[None]), InputError, "cutoff"),
        (lambda: model().energy_and_forces(*atoms(), stress=True), InputError, "needs a cell"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, error, said):
    with pytest.raises(error, match=said):
        wrong()


@pytest.mark.parametrize("name", list(SPECS))
def test_a_spec_reads_what_it_wrote(name):
    spec = PointSpec(("H", "C", "O"), **SPECS[name])
    assert PointSpec.of(spec.to_dict()) == spec
