"""The script that relaxes and simulates a molecule with a run: its summary agrees with the energies and forces."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import io
from ase.build import molecule

from equiscope.errors import InputError
from equiscope.geometry import PointSpec, SpaceModel, calculator
from equiscope.training import fit, open_task, recipe
from tests.geometry.space import randomised
from tests.training.test_molecules_task import plain

pytestmark = pytest.mark.xdist_group("move")
FILE = Path(__file__).parents[1] / "recipes" / "move.py"


@pytest.fixture(scope="module")
def move():
    found = importlib.util.spec_from_file_location("move", FILE)
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has learned little."""
    found, folder = recipe(plain()), tmp_path_factory.mktemp("runs") / "ethanol"
    fit(found, open_task(found), folder)
    return folder


def water():
    torch.manual_seed(0)
    atoms = molecule("H2O")
    atoms.calc = calculator(randomised(SpaceModel(PointSpec(("H", "O"), width=16, vectors=8)), 0.2))
    return atoms


def test_a_run_relaxes_and_moves_a_molecule(move, run, tmp_path, capsys):
    io.write(tmp_path / "ethanol.xyz", molecule("CH3CH2OH"))
    words = [str(run), str(tmp_path / "ethanol.xyz"), "--picoseconds", "0.005", "--double", "--out", str(tmp_path / "path.xyz")]
    assert move.main(words) == 0
    rest, drift = capsys.readouterr().out.splitlines()
    assert rest.startswith("relaxed: -42")
    assert drift.startswith("simulated: 0.005 ps, energy drift ")
    assert len(io.read(tmp_path / "path.xyz", ":")) == 11


def test_a_relaxed_molecule_is_at_rest_and_lower(move):
    atoms = water()
    result = move.relaxed(atoms)
    assert result["after"] <= result["before"]
    assert result["force"] == pytest.approx(np.linalg.norm(atoms.get_forces(), axis=1).max())
    assert result["force"] <= 0.01
    assert move.relaxation_summary(result).endswith("converged")
    assert move.relaxation_summary(result | {"force": 0.5}).endswith("not converged: the largest force is 0.5 eV/Å")


def test_energy_is_kept_the_better_the_smaller_the_steps(move):
    """Velocity Verlet sways with the square of its step."""
    sways = []
    for femtoseconds in (0.5, 0.25):
        atoms = water()
        move.relaxed(atoms)
        times, energies = move.simulated(atoms, 0.02, femtoseconds)
        assert times[-1] == pytest.approx(0.02)
        sways.append(float(np.abs(energies - energies[0]).max()))
    assert 2.5 < sways[0] / sways[1] < 6
    assert sways[1] < 1e-2


def test_a_drift_is_the_slope_in_milli_electronvolts_an_atom(move):
    times = np.linspace(0, 2, 50)
    assert "simulated: 2 ps, energy drift 2 meV/atom/ps" in move.drift_summary(times, -100 + 0.006 * times, 3)


def test_what_cannot_be_moved_is_a_sentence(move, run, tmp_path, capsys):
    io.write(tmp_path / "nitrogen.xyz", molecule("N2"))
    (tmp_path / "no.xyz").write_text("no")
    for words, said in (
        ([str(run), str(tmp_path / "nitrogen.xyz")], "there is an atom of N"),
        ([str(run), str(tmp_path / "no.xyz")], "cannot be read as a molecule"),
        ([str(run), str(tmp_path / "nowhere.xyz")], "cannot be read as a molecule"),
        ([str(tmp_path), "a.xyz"], "There is no"),
    ):
        assert move.main(words) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be simulated"):
        move.simulated(water(), picoseconds=0.0)
