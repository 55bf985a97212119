"""`equiscope explore MOLECULE`: whose models are asked, and what is refused in one sentence."""

import json

import msgspec
import pytest
import torch
from tests.cli.test_cli import equi, refused
from tests.explore.molecules import ethanol, handed, xyz

import equiscope as eq
from equiscope.cli.molecule import is_molecule
from equiscope.geometry import PointSpec
from equiscope.record import Molecule
from equiscope.training import load_run, load_task
from equiscope.training.baseline_atoms import AtomTransformer

pytestmark = pytest.mark.xdist_group("molecule-command")

__all__ = ["equi"]  # the fixture
FEW = ("--small", "--set", "budget.steps=2", "--set", "optimiser.warmup=0", "--set", "evaluation.every=2")


def shown(equi, *arguments):
    code, out, err = equi("explore", *arguments, "--json")
    assert (code, err) == (0, "")
    return msgspec.json.decode(out, type=Molecule)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two runs of two steps: of points in space, and of an ordinary transformer."""
    from typer.testing import CliRunner

    from equiscope.cli.app import app

    folder = tmp_path_factory.mktemp("runs")
    for name in ("ethanol", "ethanol-plain"):
        made = CliRunner().invoke(app, ["train", f"recipes/{name}.toml", "--out", str(folder / name), *FEW])
        assert made.exit_code == 0, made.output
    return folder


@pytest.mark.parametrize("name", ["a.xyz", "b.EXTXYZ", "folder/c.cjson", "d.sdf", "e.xyz.gz", "my water.xyz"])
def test_files_of_molecules_are_known_by_their_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my water.xyz").write_text("")
    assert is_molecule(name)


@pytest.mark.parametrize(
    "words", ["Love conquers all", "what is a .xyz file of water.xyz", "model.json", "runs/ethanol", "", "xyz"]
)
def test_sentences_are_no_molecules(words):
    assert not is_molecule(words)


def test_a_page_is_written_where_it_is_said(equi, tmp_path):
    path = xyz(tmp_path / "helium.xyz", ["He"], [[[0.0, 0.0, 0.0]]])
    target = tmp_path / "page.html"
    code, out, err = equi("explore", path, "--out", target)
    assert (code, err) == (0, "")
    assert out.startswith("wrote ")
    assert out.strip().endswith("one file, works offline)")
    assert "Rotating helium.xyz (He)" in target.read_text(encoding="utf-8")


def test_a_spec_of_ones_own_is_drawn_beside_a_plain_transformer(equi, tmp_path):
    spec = PointSpec(("H", "C", "F", "Cl", "Br"), "SE(3)", width=8, vectors=4, heads=2, layers=1, radial=4, cutoff=4.0)
    (tmp_path / "mine.json").write_text(spec.to_json())
    record = shown(equi, handed(tmp_path / "handed.xyz"), "--model", tmp_path / "mine.json", "--seed", 7)
    mine, other = record.solvers
    assert (mine.title, mine.group, mine.trained, mine.seed, mine.unit) == ("mine (SE(3))", "SE(3)", False, 7, "")
    assert other.group == "none"
    torch.manual_seed(7)
    model = eq.build(spec).double()
    place = torch.tensor(eq.record.unpack(record.frames)[0])
    assert mine.start.energy == pytest.approx(model(torch.tensor([record.atoms]), place[None]).item(), rel=1e-12)
    assert max(mine.forces) < 1e-12, "beyond the cutoff there are no neighbours, and the neighbours rotate with the molecule"


def test_learned_models_answer_as_their_runs_do(equi, runs, tmp_path):
    record = shown(
        equi, ethanol(tmp_path / "ethanol.xyz"), "--model", runs / "ethanol", "--side-by-side", runs / "ethanol-plain", "--frame", 1
    )
    mine, other = record.solvers
    assert [(one.trained, one.seed, one.unit) for one in record.solvers] == [(True, None, "eV")] * 2
    assert record.frame == 1
    assert not any("untrained" in note for note in record.notes)
    place, numbers = torch.tensor(eq.record.unpack(record.frames)[1]), torch.tensor([record.atoms])
    model = load_run(runs / "ethanol").double()
    assert mine.start.energy == pytest.approx(model(numbers, place[None]).item(), rel=1e-12)
    _, task = load_task(runs / "ethanol-plain")
    answer = AtomTransformer(load_run(runs / "ethanol-plain").double(), task.statistics).energy_and_forces(numbers, place[None])
    assert other.start.energy == pytest.approx(float(answer.energy), rel=1e-12)
    assert sum(other.start.atom_energies) == pytest.approx(other.start.energy, rel=1e-12)
    forces = torch.tensor(eq.record.unpack(other.start.forces))
    assert (forces - answer.forces[0]).norm() < 1e-10 * forces.norm()


def test_a_molecule_with_other_elements_is_refused(equi, runs, tmp_path):
    path = handed(tmp_path / "handed.xyz")
    for name in ("ethanol", "ethanol-plain"):
        refused(equi("explore", path, "--model", runs / name), "This model knows H, C, O, but there is an atom of F.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.xyz",), "There is no file missing.xyz. Give a molecule"),
        (("good.xyz", "--frame", "4"), "good.xyz has 1 frame, but frame 4 was requested. Frames are counted from 0: request 0."),
        (("good.xyz", "--model", "gpt2"), "gpt2 is no run and no spec of points in space. Give the folder of a run that learned"),
        (("good.xyz", "--model", "text.json"), "text.json is a spec, but of no model of points in space"),
        (("good.xyz", "--model", "shape.json"), 'shape.json reads "shape". Give a model that reads an energy.'),
        (("good.xyz", "--model", "none.json"), "There is no file none.json"),
        (("good.xyz", "--causal", "--heads", "2"), "which takes no --heads and no --causal. Leave that out."),
        (("Love conquers all", "--frame", "2"), "--frame 2 is for a molecule with several frames."),
        (("empty.xyz",), "empty.xyz holds no points."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_sentence(equi, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    handed(tmp_path / "good.xyz")
    (tmp_path / "empty.xyz").write_text("")
    (tmp_path / "text.json").write_text(eq.Spec(width=8, vocabulary=9, outputs=9).to_json())
    spec = PointSpec(("H", "C", "F", "Cl", "Br"), width=8, vectors=4, heads=2, layers=1, readout="shape")
    (tmp_path / "shape.json").write_text(json.dumps(spec.to_dict()))
    refused(equi("explore", *arguments), words)
