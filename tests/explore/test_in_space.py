"""A model of points in space as steps: at other places they give what the model says, and what turns with the points turns."""

from functools import cache

import pytest
import torch
from contract.computed import ETHANOL, SMALL, SPECS, drawn, drawn_model
from tests.pairwise import few

from equiscope.errors import InputError, ShapeError
from equiscope.explore.space.in_space import in_space
from equiscope.geometry import PLAIN, all_pairs
from equiscope.geometry.model import PointSpec, SpaceModel
from equiscope.program.loops.interpret import run
from equiscope.symmetry.space import Rotate

SHOWN = ("within a cutoff", "left and right", "no arrows")


def places(count=9, seed=1):
    return drawn(count, 3, seed=seed) * 1.5


def apart(found, wanted):
    return float((found - wanted).detach().abs().max() / wanted.detach().abs().max())


@cache
def recorded(name):
    """A model, and its record. The model is as it was."""
    model = drawn_model(SPECS[name])
    before = {name: x.clone() for name, x in model.state_dict().items()}
    record = in_space(model, ETHANOL, places(seed=5))
    assert all(x.dtype == before[name].dtype and bool((x == before[name]).all()) for name, x in model.state_dict().items())
    assert all(weight.requires_grad for weight in model.parameters())
    return model.double(), record


@pytest.mark.parametrize("name", few(sorted(SPECS, key=lambda name: name not in SHOWN), 3))
def test_energy_forces_and_features_elsewhere_are_the_models(name):
    (model, record), at = recorded(name), places()
    found, answer, features = (
        run(record, positions=at),
        model.energy_and_forces(ETHANOL[None], at[None]),
        model.features(ETHANOL[None], at[None]),
    )
    plain, arrow = PLAIN[model.spec.group]
    assert apart(found["energy"], answer.energy) < 1e-12  # rounding only, measured 2e-16
    assert apart(found["forces"], answer.forces[0]) < 1e-12
    assert apart(found["each"].sum(), answer.energy[0]) < 1e-12
    assert apart(found["numbers"], features[plain][0]) < 1e-12
    assert ("arrows" in found) == (arrow in features)
    if arrow in features:
        assert apart(found["arrows"], features[arrow][0]) < 1e-12


def test_weights_are_those_with_which_values_come_home():
    (_, record), at = recorded("within a cutoff"), places()
    found = run(record, positions=at)["weights"]
    assert found.shape == (2, 2, 9, 9)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64), rtol=0, atol=1e-12)
    far = all_pairs(at[None]).squared_distance[0] >= 9.0
    assert bool(far.any())
    assert float(found[:, :, far].abs().max()) == 0
    assert float(found[:, :, ~far].min()) > 0


def test_what_turns_with_the_points_turns_and_the_rest_stays():
    (_, record), at = recorded("left and right"), places()
    turn = Rotate((0.48, 0.6, 0.64), 100.0).matrix()
    before, after = run(record, positions=at), run(record, positions=at @ turn.T + 2)
    for name in ("energy", "each", "numbers", "weights"):
        assert apart(after[name], before[name]) < 1e-12
    assert apart(after["forces"], before["forces"] @ turn.T) < 1e-12
    assert apart(after["arrows"], turn @ before["arrows"]) < 1e-12


def test_one_atom_has_an_energy_and_no_force():
    model, at = drawn_model(SPECS["within a cutoff"]), places(1)
    found = run(in_space(model, torch.tensor([8]), at), positions=at + 1)
    assert apart(found["energy"], model.double()(torch.tensor([[8]]), at[None])) < 1e-12
    assert float(found["forces"].abs().max()) == 0
    assert found["weights"].tolist() == [[[[1.0]], [[1.0]]]] * 2


@pytest.mark.parametrize(
    ("numbers", "readout", "error", "words"),
    [
        ([6, 8], "energy", ShapeError, r"got \(2,\) and \(3, 3\)"),
        ([6, 8, 17], "energy", InputError, "there is an atom of Cl"),
        ([6, 8, 1], "atoms", InputError, 'reads "atoms"'),
    ],
)
def test_other_atoms_and_models_without_an_energy_are_refused(numbers, readout, error, words):
    model = SpaceModel(PointSpec(("H", "C", "O"), **SMALL, readout=readout))
    with pytest.raises(error, match=words):
        in_space(model, torch.tensor(numbers), places(3))
