"""What each atom does to an energy, against calls of the model itself."""

import pytest
import torch

import equiscope as eq
from equiscope import trained
from equiscope.errors import InputError
from equiscope.explore.pages.attribution import of_molecule, plain
from equiscope.explore.space.atom_effects import atom_effects, energies_of_layers
from equiscope.geometry import PointSpec
from equiscope.geometry.attend import listed
from equiscope.tokens.points import read_points


@pytest.fixture(scope="module")
def ethanol():
    points = read_points(trained.examples("ethanol")[0])
    return eq.load("ethanol").double().eval(), points.numbers, points.positions


@torch.no_grad()
def test_a_removed_atom_is_in_no_neighbour_list_but_its_own(ethanol):
    model, numbers, at = ethanol
    found = atom_effects(model, numbers, at)
    for gone in (0, 5):
        lists = [[i, *(j for j in range(9) if j not in (i, gone))] for i in range(9)]
        mask = torch.tensor([[True] * len(one) + [False] * (9 - len(one)) for one in lists])
        index = torch.tensor([one + [0] * (9 - len(one)) for one in lists])
        energy = model(numbers[None], at[None], near=listed(at[None], index[None], mask[None]))
        assert found.removed[gone] == pytest.approx(float(energy) - found.before, abs=1e-9)


@torch.no_grad()
def test_a_deleted_atom_is_not_in_the_molecule(ethanol):
    model, numbers, at = ethanol
    found = atom_effects(model, numbers, at)
    kept = torch.arange(9) != 3
    energy = float(model(numbers[None, kept], at[None, kept])) + float(model.references[model.elements(numbers[None])[0, 3]])
    assert found.scores["deleted"][3] == pytest.approx(found.before - energy, abs=1e-9)


def test_shares_and_layers_end_at_the_energy(ethanol):
    model, numbers, at = ethanol
    energy = model(numbers[None], at[None]).item()
    content = of_molecule(model, read_points(trained.examples("ethanol")[0]), "", "", "eV")
    assert sum(part.share for part in content.parts) == pytest.approx(energy, abs=1e-9)
    layers = energies_of_layers(model, numbers, at)
    assert layers[-1] == pytest.approx(energy, abs=1e-9)
    assert layers[0] == pytest.approx(energies_of_layers(model, numbers, at * 1.5)[0], abs=1e-9), "elements alone"
    assert len(content.bonds) == 8
    assert [one.name for one in content.scores] == ["attention of the last layer", "rollout", "direct share", "deleted"]
    assert "isolated atoms" in plain(content)


def test_what_has_no_energy_is_refused(ethanol):
    _, numbers, at = ethanol
    shape = eq.build(PointSpec(("H", "C", "O"), readout="shape", width=8, vectors=4, layers=1))
    with pytest.raises(InputError, match="Atoms decide an energy, but this model reads"):
        atom_effects(shape, numbers, at)
