"""An ordinary transformer of molecules: slopes of its own energy, turned frames, and how far turning moves its answers."""

import json

import pytest
import torch

import equiscope as eq
from equiscope.data.molecules import EnergyStatistics
from equiscope.errors import InputError
from equiscope.models import Model, Spec
from equiscope.training import fit, load_run, load_task, open_task, recipe, resolve_spec
from equiscope.training.baseline_atoms import AtomTransformer
from equiscope.training.loop import initial_model
from tests.training.test_molecules_task import plain, written

SIZES = {"width": 16, "layers": 2, "block": {"attention": {"heads": 2}}}


def ordinary(**changes):
    said = plain(**changes)
    return recipe(said | {"model": SIZES | changes.get("model", {})})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run."""
    found, folder = ordinary(data={"random_rotation": True}), tmp_path_factory.mktemp("runs") / "plain"
    return fit(found, open_task(found), folder), folder


def answering():
    """An ordinary transformer in float64, as a run asks it."""
    found = ordinary()
    task = open_task(found)
    return AtomTransformer(initial_model(found, resolve_spec(task)).double(), task.statistics), task.batch(0).tensors


def test_a_run_is_an_ordinary_transformer_that_is_measured_and_answers(run, tmp_path):
    made, folder = run
    model = eq.load(folder)
    assert isinstance(model, Model)
    assert (model.spec.input.features, model.spec.readout, model.spec.outputs) == (6, "mean", 1)  # H, C, O and three for a place
    assert made.parameters == sum(p.numel() for p in model.parameters())
    assert list(made.result["test"])[:2] == ["forces", "energy"]
    _, task = load_task(folder)
    one, moved = task.predict(load_run(folder), [written(tmp_path / "a.xyz"), written(tmp_path / "b.xyz", shift=7.0)])
    assert moved.arrays["energy"] == pytest.approx(one.arrays["energy"], abs=1e-4)  # places are taken from their mean
    assert torch.tensor(one.arrays["forces"]).shape == (9, 3)
    spec = json.loads((folder / "run.json").read_text())["spec"]
    assert spec["block"]["attention"]["backend"] == "eager"


def test_its_forces_are_the_slope_of_its_energy():
    """Against central differences of the fourth order."""
    one, t = answering()
    numbers, at, step = t["numbers"], t["positions"], 1e-3
    forces = one.energy_and_forces(numbers, at).forces
    for atom, axis in ((0, 0), (4, 1), (8, 2)):
        moved = torch.zeros_like(at)
        moved[:, atom, axis] = step
        e = [one(numbers, at + k * moved).detach() for k in (-2, -1, 1, 2)]
        slope = (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * step)
        assert (forces[:, atom, axis] + slope).abs().max() < 1e-6 * forces.abs().max()


def test_padding_changes_nothing_and_gets_no_force():
    one, t = answering()
    wide = (
        torch.cat([t["numbers"], torch.zeros(4, 3, dtype=torch.long)], 1),
        torch.cat([t["positions"], torch.full((4, 3, 3), 9.0)], 1),
    )
    plain_, padded = one.energy_and_forces(t["numbers"], t["positions"]), one.energy_and_forces(*wide)
    assert torch.allclose(padded.energy, plain_.energy, rtol=1e-12)
    assert torch.allclose(padded.forces[:, :9], plain_.forces, atol=1e-12)
    assert (padded.forces[:, 9:] == 0).all()


def test_an_energy_is_of_each_atom_and_what_atoms_have_alone():
    statistics = EnergyStatistics(elements=["H", "O"], references=[-10.0, -400.0], scale=2.0, offset=0.5)
    model = Model(Spec(width=8, input=eq.models.spec.InputLayer(features=5), readout="mean", outputs=1))
    torch.nn.init.zeros_(model.output_layer.lm_head.weight)
    energy = AtomTransformer(model, statistics)(torch.tensor([[8, 1, 1], [1, 1, 0]]), torch.randn(2, 3, 3, dtype=torch.float64))
    assert energy.tolist() == [-420 + 3 * 0.5, -20 + 2 * 0.5]


def test_turning_moves_its_answers_and_an_equivariant_models_only_by_rounding(run, tmp_path):
    found = recipe(plain())
    equivariant = fit(found, open_task(found), tmp_path / "run").result["test"]
    ordinarily = run[0].result["test"]
    assert ordinarily["rotated forces"] > 1.0  # meV/Å
    assert ordinarily["rotated energy"] > 1.0
    assert equivariant["rotated forces"] < 1e-4 * equivariant["forces"]  # float32 in the layers, measured 2e-8
    assert equivariant["rotated energy"] < 0.01  # of -4209 eV, whose references and sum are float64
    _, task = load_task(run[1])
    assert {"rotated forces", "rotated energy"} <= set(task.signatures)


def test_rotated_frames_teach_the_rotational_symmetry(tmp_path):
    moved = []
    for rotated in (False, True):
        found = ordinary(
            data={"train_count": 16, "random_rotation": rotated, "weights": {"forces": 0}}, budget={"steps": 100, "batch": 16},
            evaluation={"every": 100, "samples": 0}, optimiser={"rate": 3e-3},
        )  # fmt: skip
        moved.append(fit(found, open_task(found), tmp_path / f"{rotated}").result["validation"]["rotated energy"])
    assert moved[1] < 0.5 * moved[0]  # of frames that neither saw; three seeds: 36 of 192 meV, 71 of 254, 41 of 552


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"outputs": 2}, "has outputs = 1, but model.outputs is 2"),
        ({"readout": "first"}, "has readout = 'mean', but model.readout is 'first'"),
        ({"input": {"features": 4}}, r"has input\.features = 6, but model\.input\.features is 4"),
        ({"vocabulary": 7}, "has vocabulary = None"),
    ],
)
def test_what_the_data_decides_is_not_said_otherwise(model, said):
    with pytest.raises(InputError, match=said):
        resolve_spec(open_task(ordinary(model=model)))


def test_cells_and_other_elements_are_refused(tmp_path, run):
    lines = "".join(
        f'1\nLattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3:forces:R:3 energy={-9 - i / 50}\nH {i / 9} 0 0 0 0 0\n'
        for i in range(12)
    )
    (tmp_path / "a.extxyz").write_text(lines)
    data = {"train": str(tmp_path / "a.extxyz"), "keys": {"energy": "energy"}, "held_out": 2, "where": {}}
    with pytest.raises(InputError, match="has no periodic cell, but the frames are periodic"):
        resolve_spec(open_task(ordinary(data=data)))
    _, task = load_task(run[1])
    with pytest.raises(InputError, match="is periodic, but this model has no cutoff"):
        task.predict(load_run(run[1]), [str(tmp_path / "a.extxyz")])
    with pytest.raises(InputError, match=r"a\.xyz: This model knows H, C, O, but there is an atom of N\."):
        task.predict(load_run(run[1]), [written(tmp_path / "a.xyz", third="N")])
    one, t = answering()
    with pytest.raises(InputError, match="has no periodic cell"):
        one(t["numbers"], t["positions"], torch.eye(3)[None])
