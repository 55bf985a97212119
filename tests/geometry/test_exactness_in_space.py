"""How exact models of points are, at random parameters: how many digits survive a rotation, translation, reflection or permutation.

Errors are those of energies, forces and features, beside the largest energy, component of a force, or feature.
"""

import math

import pytest
import torch
from tests.geometry.space import places, randomised, turn

from equiscope.geometry.model import PointSpec, SpaceModel

FORMS = {"dense": {}, "local": {"cutoff": 4.0}, "filtered": {"cutoff": 4.0, "filtered": True}}
GROUPS = {"E(3)": {"pseudo": 4, "products": 4}, "SE(3)": {"products": 4}}
NUMBERS = torch.tensor([[8, 1, 1, 6, 1, 8, 6], [6, 1, 1, 1, 1, 0, 0]])
TINY = math.degrees(1e-3)
AWAY = torch.tensor([0.6, -0.64, 0.48], dtype=torch.float64)


def model(form, group, dtype=torch.float64):
    torch.manual_seed(0)
    spec = PointSpec(("H", "C", "O"), group, 16, **{"vectors": 8} | GROUPS[group] | FORMS[form])
    return randomised(SpaceModel(spec), 0.3, dtype)


def atoms(spread=1.5):
    return NUMBERS, places(2, 7, spread=spread)


def said(one, numbers, at, order=None):
    """Energy, forces and features by name, in float64; of atoms in another order."""
    answer, x = one.energy_and_forces(numbers, at), one.features(numbers, at)
    made = {"energy": answer.energy, "forces": answer.forces} | dict(x)
    made = {name: part.detach().double() for name, part in made.items()}
    return made if order is None else {name: part if name == "energy" else part[:, order] for name, part in made.items()}


def turned(parts, by):
    """Forces and arrows turned; what a mirror turns round, too."""
    sign, made = float(torch.linalg.det(by).sign()), {}
    for name, part in parts.items():
        if name == "forces":
            part = part @ by.mT
        elif name[0] == "1":
            part = torch.einsum("cd,bndk->bnck", by, part) * (sign if name == "1e" else 1.0)
        elif name == "0o":
            part = part * sign
        made[name] = part
    return made


def apart(found, wanted):
    largest = max(float(part.abs().max()) for name, part in wanted.items() if name not in ("energy", "forces"))
    sizes = {name: float(part.abs().max()) if name in ("energy", "forces") else largest for name, part in wanted.items()}
    return max(float((found[name] - part).abs().max()) / sizes[name] for name, part in wanted.items())


def moves(group):
    yield from ((turn(degrees), away) for degrees in (TINY, 33.0, 180.0) for away in (0.0, 1.0))
    if group == "E(3)":
        yield from ((-turn(degrees), 1.0) for degrees in (TINY, 70.0))


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_in_float64_a_motion_leaves_twelve_digits(form, group):
    one, (numbers, at) = model(form, group), atoms()
    plain = said(one, numbers, at)
    for by, away in moves(group):
        assert apart(said(one, numbers, at @ by.mT + away * AWAY), turned(plain, by)) < 1e-12


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_a_thousand_away_costs_what_rounding_the_points_there_costs(form, group):
    one, (numbers, at), by = model(form, group), atoms(), turn(33.0)
    wanted, there = turned(said(one, numbers, at), by), at @ by.mT + 1e3 * AWAY
    rounded = apart(said(one, numbers, there - 1e3 * AWAY), wanted)  # moved back: what is left is the rounding of the places
    assert apart(said(one, numbers, there), wanted) < max(1e-12, 3 * rounded)


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_another_order_leaves_twelve_digits(form, group):
    one, (numbers, at), order = model(form, group), atoms(), [3, 0, 6, 4, 1, 2, 5]
    assert apart(said(one, numbers[:, order], at[:, order]), said(one, numbers, at, order)) < 1e-12


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_float32_is_as_good_as_its_inputs(form, group, spread):
    """To 10 angstrom within 5e-6; beyond, at most 10 times the error that rounding the inputs makes."""
    exact, rough, by = model(form, group), model(form, group, torch.float32), turn(33.0)
    numbers, at = atoms()
    far = at @ by.mT + spread * AWAY
    wanted, rounded = turned(said(exact, numbers, at), by), said(exact, numbers, far.float().double())
    assert apart(said(rough, numbers, far.float()), wanted) < max(5e-6, 10 * apart(rounded, wanted))


@pytest.mark.parametrize("group", list(GROUPS))
@pytest.mark.parametrize("form", list(FORMS))
def test_forces_are_central_differences(form, group):
    """By all coordinates, of the fourth order, and extrapolated."""
    one, (numbers, at) = model(form, group), atoms()
    forces = one.energy_and_forces(numbers[:1], at[:1]).forces
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        way = torch.randn(at[:1].shape, generator=generator, dtype=torch.float64)

        def slope(h, way=way):
            e = [one(numbers[:1], at[:1] + k * h * way).item() for k in (-2, -1, 1, 2)]
            return (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h)

        found = [(16 * slope(h / 2) - slope(h)) / 15 for h in (1e-2, 3e-3, 1e-3, 3e-4)]
        wanted = -(forces * way).sum().item()
        assert min(abs(f - wanted) for f in found) < 1e-7 * forces.norm()
