"""Molecules: what is learned, measured and answered in one unit, gone on with exactly, and what a recipe must not ask."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import equiscope as eq
from equiscope.checkpoints import read_spec
from equiscope.data.frame_files import FrameFormat, Keys, frames
from equiscope.errors import InputError
from equiscope.geometry import PointSpec, SpaceModel
from equiscope.training import atom_domain, fit, load_run, load_task, open_task, read_recipe, recipe, resolve_spec
from equiscope.training.loop import initial_model
from equiscope.training.molecules import MoleculesTask
from equiscope.training.reading import merged
from equiscope.units import ENERGIES
from tests.training.small import files, told

RECIPES = Path(__file__).parents[2] / "recipes"
ETHANOL = RECIPES / "samples" / "ethanol.npz"
KILLING = Path(__file__).with_name("killing.py")


def plain(**changes):
    """A small recipe of ethanol, as data."""
    said = {
        "title": "ethanol", "seed": 1,
        "data": {
            "task": "molecules", "train": str(ETHANOL), "keys": {"energy": "energies"}, "unit": "kcal/mol", "held_out": 8,
            "where": {"test": [8, 3]},
        },
        "model": {"width": 16, "vectors": 8, "heads": 2, "layers": 1, "radial": 8},
        "budget": {"steps": 6, "batch": 4},
        "optimiser": {"rate": 3e-3, "decay": 0.0, "average": 0.9},
        "evaluation": {"every": 3, "samples": 2},
    }  # fmt: skip
    return merged(said, changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run."""
    found = recipe(plain())
    folder = tmp_path_factory.mktemp("runs") / "ethanol"
    return fit(found, open_task(found), folder), folder


def written(path, frames=1, shift=0.0, third="O"):
    """Frames of the sample as xyz."""
    with np.load(ETHANOL) as held:
        names = {6: "C", 1: "H", 8: third}
        text = ""
        for at in held["coords"][:frames]:
            atoms = zip(held["nuclear_charges"], at + np.array([shift, 0, 0]), strict=True)
            text += "9\n\n" + "".join(f"{names[n]} {x:.12f} {y:.12f} {z:.12f}\n" for n, (x, y, z) in atoms)
    path.write_text(text)
    return str(path)


# ---------------------------------------------------------------------------------------------------------------- a run


def test_forces_come_first_and_are_to_fall(run):
    made, _ = run
    assert made.state == "finished"
    assert list(made.result) == ["validation", "test"]
    assert list(made.result["test"])[:2] == ["forces", "energy"]
    assert MoleculesTask.better == "less"
    assert made.result["test"]["frames"] == 5
    assert made.parameters == sum(p.numel() for p in load_run(run[1]).parameters())


def test_what_is_measured_is_in_milli_electronvolts(run):
    """Against what the model answers, frame by frame, and the raw file."""
    made, folder = run
    model = eq.load(folder)
    assert isinstance(model, SpaceModel)
    with np.load(ETHANOL) as held:
        rows = np.arange(40)[np.arange(40) % 8 == 3]
        at, numbers = torch.from_numpy(held["coords"][rows]), torch.from_numpy(held["nuclear_charges"]).long().expand(len(rows), -1)
        energies, forces = (torch.from_numpy(held[name][rows]) * ENERGIES["kcal/mol"] for name in ("energies", "forces"))
    found = model.energy_and_forces(numbers, at)
    assert made.result["test"]["energy"] == pytest.approx(1000 * float((found.energy - energies).abs().mean()), rel=1e-9)
    assert made.result["test"]["forces"] == pytest.approx(1000 * float((found.forces - forces).abs().mean()), rel=1e-6)


def test_references_and_scale_are_in_the_checkpoint(run):
    _, folder = run
    statistics, model = json.loads((folder / "elements.json").read_text()), load_run(folder)
    assert model.spec.elements == ("H", "C", "O")
    assert model.references.tolist() == statistics["references"]
    assert float(model.scale) == statistics["scale"]
    assert model.references.dtype == torch.float64  # thousands of eV, of which thousandths count
    assert load_run(folder, "last").references.tolist() == statistics["references"]


def test_what_is_learned_is_better_than_before(tmp_path):
    found = recipe(
        plain(
            data={"weights": {"energy": 0.1}}, budget={"steps": 250, "batch": 8}, evaluation={"every": 250, "samples": 0},
            optimiser={"rate": 2e-2, "warmup": 20, "average": None},
        )
    )  # fmt: skip
    fit(found, open_task(found), tmp_path / "run")
    scores = [line["values"]["forces"] for line in told(tmp_path / "run") if line["entry"] == "score"]
    assert scores[-1] < 0.8 * scores[0]  # measured 0.61


@torch.no_grad()
def test_energies_of_the_training_part_miss_nothing_on_average(run):
    """Of the weights that are kept; others are levelled for as long as they are measured, whatever their scale."""
    task, model = open_task(recipe(plain())), load_run(run[1])

    def missed():
        parts = [
            (t["energy"] - model(t["numbers"], t["positions"])) / (t["numbers"] > 0).sum(-1)
            for t in task.frames.groups("train", 100)
        ]
        return abs(float(torch.cat(parts).mean())) / task.statistics.scale

    assert missed() < 1e-6
    model.last.bias.fill_(0.5)
    model.scale.mul_(3)  # as of a run that another began
    assert missed() > 0.1
    with task.calibrated(model):
        assert missed() < 1e-5
    assert float(model.last.bias) == 0.5


@torch.no_grad()
def test_an_energy_that_is_no_number_levels_nothing(run):
    task, model = open_task(recipe(plain())), load_run(run[1])
    before = float(model.last.bias)
    model.first.weight.fill_(torch.nan)
    with task.calibrated(model):
        assert float(model.last.bias) == before


@pytest.mark.slow
@pytest.mark.compile
@pytest.mark.thorough  # tests/models/test_slopes.py compiles the same step of two layers
def test_compiled_the_same_is_learned(tmp_path):
    """Steps as one graph, of energies, forces and padded lists; a weight whose slope is 0 but for rounding may go either way."""
    found = [recipe(plain(model={"cutoff": 3.0, "filtered": True}, engine={"compile": how})) for how in (True, False)]
    one, other = (fit(made, open_task(made), tmp_path / str(made.engine.compile)).result["test"] for made in found)
    assert one == pytest.approx(other, rel=1e-4, abs=1e-2)


@pytest.mark.parametrize("loss", ["absolute", "square", "huber"])
def test_a_loss_is_nothing_where_nothing_is_missed_and_padding_adds_none(loss):
    found = recipe(plain(data={"loss": loss}))
    task = open_task(found)
    model, batch = task.init_model(initial_model(found, resolve_spec(task))), task.batch(0)
    answer = model.energy_and_forces(batch.tensors["numbers"], batch.tensors["positions"])
    assert float(task.loss(model, batch).detach()) > 0
    batch.tensors.update({"energy": answer.energy, "forces": answer.forces})
    assert float(task.loss(model, batch).detach()) < 1e-5  # float32 in the layers
    t = batch.tensors
    wide = {"numbers": torch.cat([t["numbers"], torch.zeros(4, 2, dtype=torch.long)], 1)}
    wide |= {name: torch.cat([t[name], torch.zeros(4, 2, 3, dtype=torch.float64)], 1) for name in ("positions", "forces")}
    batch.tensors.update(wide)
    assert float(task.loss(model, batch).detach()) < 1e-5


def test_energies_alone_are_learned_and_measured_in_their_own_unit_too(tmp_path):
    found = recipe(plain(data={"keys": {"forces": "none"}}))
    assert found.data.keys.forces is None
    task = open_task(found)
    made = fit(found, task, tmp_path / "run")
    values = made.result["test"]
    assert next(iter(values)) == "energy"
    assert not any("forces" in name for name in values)
    assert values["energy in kcal/mol"] * ENERGIES["kcal/mol"] * 1000 == pytest.approx(values["energy"])
    answer = task.predict(load_run(tmp_path / "run"), [written(tmp_path / "a.xyz")])[0]
    assert "forces" not in answer.arrays


def test_a_run_starts_from_another_with_its_references(run, tmp_path):
    _, folder = run
    data = plain(data={"where": {}}) | {"model": {"start": str(folder)}}
    found = recipe(data)
    task = open_task(found)
    assert initial_model(found, resolve_spec(task)).references.tolist() == load_run(folder).references.tolist()
    fit(found, task, tmp_path / "run")
    with pytest.raises(InputError, match="takes a run of molecules with a spec of its own, so model has no other fields"):
        resolve_spec(open_task(recipe(merged(data, {"model": {"width": 8}}))))


def test_a_crystal_needs_a_cutoff_and_trains_with_one(tmp_path):
    lines = "".join(
        f'2\nLattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3:forces:R:3 energy={-9 - i / 50}\nH 0 0 0 0 0 {i / 9}\n'
        f"O {1 + i / 20} 0 0 0 0 {-i / 9}\n"
        for i in range(12)
    )
    (tmp_path / "a.extxyz").write_text(lines)
    data = plain(data={"train": str(tmp_path / "a.extxyz"), "keys": {"energy": "energy"}, "held_out": 2, "where": {}})
    with pytest.raises(InputError, match=r"Set model\.cutoff, in Å"):
        resolve_spec(open_task(recipe(data)))
    found = recipe(merged(data, {"model": {"cutoff": 3.0}, "budget": {"steps": 2}, "evaluation": {"every": 2}}))
    task = open_task(found)
    assert fit(found, task, tmp_path / "run").state == "finished"
    assert task.predict(load_run(tmp_path / "run"), [str(tmp_path / "a.extxyz")])[0].answer.endswith("eV")


# ------------------------------------------------------------------------------------------------------------- answers


def test_a_run_answers_files_without_its_data(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    model, two = load_run(folder), written(tmp_path / "two.xyz", 2)
    answers = task.predict(model, [two, written(tmp_path / "moved.xyz", 1, shift=7.0)])
    assert [answer.given.rpartition("/")[2] for answer in answers] == ["two.xyz, frame 0", "two.xyz, frame 1", "moved.xyz"]
    assert answers[0].answer == f"{answers[0].arrays['energy']:.6f} eV"
    assert answers[2].arrays["energy"] == pytest.approx(answers[0].arrays["energy"], abs=1e-5)  # float32 in the layers
    forces = torch.tensor(answers[0].arrays["forces"])
    assert forces.shape == (9, 3)
    assert float(forces.sum(0).abs().max()) < 1e-4  # nothing pushes from outside
    assert answers[0].more["largest force"] == pytest.approx(float(forces.norm(dim=-1).max()))


def test_what_cannot_be_answered_is_refused(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    model = load_run(folder)
    with pytest.raises(InputError, match=r"a\.xyz: This model knows H, C, O, but there is an atom of N\."):
        task.predict(model, [written(tmp_path / "a.xyz", third="N")])
    (tmp_path / "nan.xyz").write_text("1\n\nH nan 0 0\n")
    with pytest.raises(InputError, match=r"nan\.xyz has coordinates that are NaN or infinite"):
        task.predict(model, [str(tmp_path / "nan.xyz")])
    (tmp_path / "cell.xyz").write_text('1\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3\nH 0 0 0\n')
    with pytest.raises(InputError, match="is periodic, but this model has no cutoff"):
        task.predict(model, [str(tmp_path / "cell.xyz")])
    for pbc, message in (
        (' pbc="T T F"', "is periodic, but this model has no cutoff"),
        (' pbc="1 2 1"', "pbc = .*, but '2' is neither T nor F"),
    ):
        (tmp_path / "part.xyz").write_text(f'1\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3{pbc}\nH 0 0 0\n')
        with pytest.raises(InputError, match=message):
            task.predict(model, [str(tmp_path / "part.xyz")])
    (tmp_path / "none.xyz").write_text('1\nProperties=species:S:1:pos:R:3 pbc="T T T"\nH 0 0 0\n')
    with pytest.raises(InputError, match="says no Lattice"):
        task.predict(model, [str(tmp_path / "none.xyz")])
    (tmp_path / "far.xyz").write_text("2\n\nH 1e200 0 0\nH 0 0 1\n")
    with pytest.raises(InputError, match=r"far\.xyz: the model's prediction is NaN or infinite"):
        task.predict(model, [str(tmp_path / "far.xyz")])
    (tmp_path / "one.xyz").write_text("3\n\nH 0 0 1\nO 0 1 0\nC 0 0 1\n")
    with pytest.raises(InputError, match=r"one\.xyz: atoms 1 and 3 have the same position"):
        task.predict(model, [str(tmp_path / "one.xyz")])
    with pytest.raises(InputError, match=r"no option of the task molecules called .top.* It has none"):
        task.predict(model, [], top=3)
    (folder / "elements.json").rename(folder / "away.json")
    with pytest.raises(InputError, match=r"elements\.json, which says what atoms this run knows, cannot be read"):
        load_task(folder)
    (folder / "away.json").rename(folder / "elements.json")


def test_samples_say_the_target_energy(run):
    _, folder = run
    samples = [line for line in told(folder) if line["entry"] == "sample"]
    assert len(samples) == 2 * 3
    assert all(line["answer"].endswith(" eV") and line["target"].endswith(" eV") for line in samples)


# ------------------------------------------------------------------------------------------------------------ going on


@pytest.mark.thorough  # tests/training/test_resume.py kills a run at every moment
def test_a_run_that_is_killed_is_the_run_that_would_have_been(tmp_path):
    data = plain(evaluation={"every": 3, "save": 2, "samples": 1})
    runs = [
        {"folder": str(tmp_path / "whole"), "recipe": data, "lives": []},
        {"folder": str(tmp_path / "killed"), "recipe": data, "lives": [{"event": 12}, {"event": 20}, {"event": 9}, {}]},
    ]
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    done = subprocess.run(
        [sys.executable, str(KILLING), str(tmp_path / "runs.json")], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout.splitlines()[1])
    assert ended[-1] == 0, done.stderr
    assert ended.count(-9) >= 2
    assert told(tmp_path / "killed") == told(tmp_path / "whole")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


# ----------------------------------------------------------------------------------------------------------- bad input

TEXT = """title = "A test"

[data]
task = "molecules"
train = "frames.xyz"
unit = "kcal/mol"
keys = { energy = "E" }

[model]
width = 8
heads = 2
cutoff = 4.0

[budget]
steps = 2
batch = 2

[engine]
precision = "float32"
"""
WRONG = [
    (
        'unit = "kcal/mol"',
        'unit = "kcal"',
        'line 6: data.unit is "kcal", but takes "Ry" or "eV" or "hartree" or "kJ/mol" or "kcal/mol"',
    ),
    ('{ energy = "E" }', '{ enrgy = "E" }', "line 7: there is no field data.keys.enrgy. Did you mean energy?"),
    ("width = 8", "widht = 8", "line 10: there is no field model.widht. Did you mean width? Known: "),
    ("width = 8", "width = 0", "line 10: model.width is 0, but takes a whole number of 1 or more."),
    ("cutoff = 4.0", "cutoff = -1.0", "A cutoff is above 0, but got -1.0."),
    ("cutoff = 4.0", 'group = "O(3)"', 'line 12: model.group is "O(3)", but takes "E(3)" or "SE(3)". Did you mean E(3)?'),
    ("cutoff = 4.0", "pseudo = 2\ngroup = 'SE(3)'", "SE(3) has no reflections"),
    ("cutoff = 4.0", 'elements = ["Xx"]', "Elements are symbols"),
    ("cutoff = 4.0", 'preset = "gpt2"', "line 12: model.preset belongs to other tasks"),
    ("cutoff = 4.0", 'baseline = "mlp"', "line 12: model.baseline belongs to other tasks"),
    ("cutoff = 4.0", "block = {}", "line 11: there is no field model.heads."),  # a block makes it an ordinary transformer
    ("cutoff = 4.0", "blocks = {}", "line 12: there is no field model.blocks."),
    ("cutoff = 4.0", "start = 3", "line 12: model.start is 3, but takes a folder"),
    ('precision = "float32"', 'precision = "bfloat16"', 'line 19: engine.precision is "bfloat16", but a model of points'),
    ('precision = "float32"', "recompute = true", "line 19: engine.recompute is true"),
    ('precision = "float32"', 'products = "onednn"', "line 19: engine.products is"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[new for _, new, _ in WRONG])
def test_what_is_wrong_in_a_recipe_is_said_with_its_line(tmp_path, old, new, said):
    assert old in TEXT
    path = tmp_path / "test.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(InputError) as error:
        read_recipe(path)
    assert said in str(error.value)


def test_no_cutoff_may_be_said_and_elements_that_come_later(tmp_path):
    path = tmp_path / "test.toml"
    path.write_text(TEXT.replace("cutoff = 4.0", 'cutoff = "none"'))
    assert read_recipe(path).model["cutoff"] is None
    task = open_task(recipe(plain(model={"elements": ["H", "C", "N", "O"]})))
    assert resolve_spec(task).elements == ("H", "C", "N", "O")
    assert task.init_model(SpaceModel(resolve_spec(task))).references[2] == 0
    for wrong, said in (({"elements": ["H", "C"]}, "the molecules have O too"), ({"readout": "atoms"}, "an energy is learned")):
        with pytest.raises(InputError, match=said):
            resolve_spec(open_task(recipe(plain(model=wrong))))
    with pytest.raises(InputError, match=r"data\.weights are all 0"):
        open_task(recipe(plain(data={"weights": {"energy": 0, "forces": 0}})))


def test_a_description_counts_what_is_there():
    spec = PointSpec(("H", "C", "O"), width=16, vectors=8, layers=3, products=4, pseudo=4)
    said = eq.describe(spec, 9)
    assert said.parameters == sum(p.numel() for p in SpaceModel(spec).parameters())
    assert eq.describe(spec, 18).multiply_adds > 2 * said.multiply_adds
    assert {claim.action for claim in said.claims if claim.holds} >= {"permute", "rotate", "translate", "reflect"}


def test_two_processes_are_refused(tmp_path):
    found = recipe(plain())
    with pytest.raises(InputError, match="in one process, but 2 were requested"):
        fit(found, open_task(found), tmp_path / "run", devices=2)
    assert not (tmp_path / "run").exists()


def test_what_only_words_can_do_is_refused(run, tmp_path):
    from equiscope.cli.generate import run as written_by

    _, folder = run
    with pytest.raises(InputError, match="No family of checkpoints holds a model of points in space"):
        eq.save(eq.load(folder), tmp_path / "saved")
    with pytest.raises(InputError, match="holds a model of points in space, which generates no text"):
        written_by(folder, "hi", 3, {}, None, None, None, 0, False, False)
    with pytest.raises(InputError, match="no row of words, patches or slices to look at"):
        load_task(folder)[1].model_inputs(eq.load(folder), "a.xyz")
    assert eq.describe(read_spec(folder), 9).parameters == run[0].parameters


def test_the_unit_of_length_follows_the_kind_of_file_not_its_name(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    task.config = msgspec.structs.replace(task.config, length="bohr")
    content = Path(written(tmp_path / "a.xyz")).read_bytes()
    (tmp_path / "A.XYZ").write_bytes(content)
    (tmp_path / "b.EXTXYZ.gz").write_bytes(gzip.compress(content))
    model = load_run(folder)
    answers = task.predict(model, [str(tmp_path / name) for name in ("a.xyz", "A.XYZ", "b.EXTXYZ.gz")])
    assert len({answer.answer for answer in answers}) == 1
    sdf = "a\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    1.0000    0.0000    0.0000 O   0\nM  END\n$$$$\n"
    for name in ("from_xyz.sdf", "w.sdf"):
        (tmp_path / name).write_text(sdf)
    answers = task.predict(model, [str(tmp_path / name) for name in ("from_xyz.sdf", "w.sdf")])
    assert len({answer.answer for answer in answers}) == 1


# --- frames unlike the training part --------------------------------------------------------------------------------------
def stretched(path, by):
    """The example of the trained ethanol with its last hydrogen `by` Å farther from the oxygen."""
    lines = (eq.trained.path_of("ethanol") / "examples" / "ethanol.xyz").read_text().splitlines()
    oxygen, hydrogen = (np.array(lines[i].split()[1:], dtype=float) for i in (4, 10))
    moved = hydrogen + by * (hydrogen - oxygen) / np.linalg.norm(hydrogen - oxygen)
    path.write_text("\n".join([*lines[:10], "H " + " ".join(f"{x:.8f}" for x in moved)]) + "\n")
    return str(path)


def test_a_stretched_bond_is_unlike_the_training_part_and_the_farther_the_more(tmp_path):
    near, far, farther = eq.predict("ethanol", [stretched(tmp_path / f"{by}.xyz", by) for by in (0.0, 0.4, 0.8)])
    assert near.arrays["distance"] < 1 < far.arrays["distance"] < farther.arrays["distance"]
    assert not near.warning
    assert "0.4.xyz is unlike the training part" in far.warning


def test_the_distance_ignores_rotations_and_the_order_of_atoms(run):
    task = MoleculesTask.for_evaluation(recipe(plain()), run[1], [str(ETHANOL)])
    (domain, frame), order = (atom_domain.AtomDomain.read(run[1]), task.frames.parts["data"][0]), torch.randperm(9)
    turned = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q.to(frame.positions.dtype)
    moved = replace(frame, numbers=frame.numbers[order], positions=frame.positions[order] @ turned)
    assert domain.distances([moved]) == pytest.approx(domain.distances([frame]), abs=1e-4)


def test_an_evaluation_says_how_far_frames_are_and_a_run_without_the_file_says_nothing(run, tmp_path):
    part = eq.evaluate(run[1], part="validation")["validation"]
    distances = [one.more["distance"] for one in part.examples]
    assert max(distances) == pytest.approx(1), "the limit of a small validation part is its farthest frame"
    assert not part.warnings
    old = shutil.copytree(run[1], tmp_path / "old")
    (old / atom_domain.FILE).unlink()
    assert "distance" not in eq.evaluate(old, part="validation")["validation"].examples[0].more
    assert "distance" not in eq.predict(old, [str(ETHANOL)])[0].arrays


def test_a_validation_part_that_repeats_the_training_part_gives_a_limit_above_rounding():
    task = open_task(recipe(plain()))
    task.frames.parts["validation"] = task.frames.parts["train"][:4]
    domain = atom_domain.AtomDomain.of(task.frames)
    assert domain.limit == atom_domain.SMALLEST
    assert domain.distances(task.frames.parts["train"]).max() < 1


def test_training_frames_are_within_and_a_damaged_file_is_refused(run, tmp_path):
    task = open_task(recipe(plain()))
    assert atom_domain.AtomDomain.read(run[1]).distances(task.frames.parts["train"]).max() < 0.01, "only rounding of what is stored"
    (tmp_path / atom_domain.FILE).write_bytes(b"nothing")
    with pytest.raises(InputError, match="Delete it"):
        atom_domain.AtomDomain.read(tmp_path)


@pytest.mark.parametrize(("axis", "turned"), [((0, 2), [8]), ((0, 1), [5, 6, 7])], ids=["hydroxyl", "methyl"])
def test_torsions_that_the_simulation_shows_are_within(axis, turned):
    path = eq.trained.path_of("ethanol")
    (frame,), _ = frames(str(path / "examples" / "ethanol.xyz"), FrameFormat(Keys()), labelled=False)
    domain, at = atom_domain.AtomDomain.read(path), frame.positions.double().numpy()
    start, end = at[list(axis)]
    unit = (end - start) / np.linalg.norm(end - start)
    for angle in range(0, 360, 30):
        positions = at.copy()
        positions[turned] = end + Rotation.from_rotvec(np.deg2rad(angle) * unit).apply(at[turned] - end)
        assert domain.distances([replace(frame, positions=torch.from_numpy(positions))])[0] < 1
