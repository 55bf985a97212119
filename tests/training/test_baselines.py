"""Baselines in recipes: they learn, go on, are measured, answer and are loaded as a transformer is."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import equiscope as eq
from equiscope.checkpoints import read_spec
from equiscope.errors import InputError
from equiscope.explore import html
from equiscope.models import Baseline, Network
from equiscope.record import read_run, run_report
from equiscope.training import fit, load_task, open_task, read_recipe, recipe, resolve_spec
from equiscope.training.reading import altered
from tests.pairwise import each_value
from tests.training.small import files, plain, told
from tests.training.test_images import plain as pictures
from tests.training.test_sounds import DIGITS, digits

pytestmark = pytest.mark.xdist_group("baselines")
RECIPES = Path(__file__).parents[2] / "recipes"
KILLING = Path(__file__).with_name("killing.py")
SMALL = {"width": 16, "layers": 2}


def text(folder, **more):
    return altered(plain(folder, evaluation={"samples": 1}), {"model": {"baseline": "lstm"} | SMALL | more})


def picture(folder, kind, **more):
    return altered(pictures(folder), {"model": {"baseline": kind} | SMALL | more})


def sound(folder, **more):
    said = digits(data={"longest": 0.5}).to_dict()
    return altered(said, {"model": {"baseline": "mlp"} | SMALL | more})


MADE = {
    "lstm": text, "mlp": lambda folder, **more: picture(folder, "mlp", **more),
    "convnet": lambda folder, **more: picture(folder, "convnet", **more), "mlp of a sound": sound,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of each: folder, record, recipe."""
    made = {}
    for name, said in MADE.items():
        folder = tmp_path_factory.mktemp("runs")
        found = recipe(said(folder))
        made[name] = folder / "run", fit(found, open_task(found), folder / "run"), found
    return made


@pytest.mark.parametrize("name", MADE)
def test_it_is_trained_and_recorded_with_its_cost(runs, name):
    folder, made, _ = runs[name]
    assert made.state == "finished"
    assert made.spec["baseline"] == name.split()[0]
    assert made.parameters == sum(p.numel() for p in eq.load(folder).parameters())
    spec, examples = read_spec(folder), {"lstm": 4}.get(name, 6)
    assert made.multiply_adds == examples * eq.describe(spec, 16).multiply_adds
    assert all(point.loss == point.loss and point.mfu >= 0 for point in read_run(folder).points)


@pytest.mark.parametrize("name", MADE)
def test_it_is_loaded_measured_and_asked(runs, name):
    folder, made, found = runs[name]
    model = eq.load(folder)
    assert isinstance(model, Network)
    assert not model.training
    part, values = next(iter(made.result.items()))
    assert open_task(found).evaluate(model, part) == values
    _, task = load_task(folder)
    if name == "lstm":
        answer = task.predict(model, ["To be"], steps=30)[0]
        assert answer == task.predict(model, ["To be"], steps=30)[0]
        assert len(answer.answer) == 30
    elif name == "mlp of a sound":
        assert task.predict(model, [str(DIGITS / "3_theo_5.wav")])[0].answer in task.classes


@pytest.mark.parametrize("name", MADE)
def test_samples_and_the_page_of_a_run_go_without_attention(runs, name):
    folder, _, _ = runs[name]
    run = read_run(folder)
    assert run.samples
    assert all(sample.attention is None for sample in run.samples)
    assert (run.samples[0].picture is not None) == (name in ("mlp", "convnet"))
    assert "</html>" in html(run_report(run))


@pytest.mark.thorough  # tests/training/test_resume.py kills a run at every moment
def test_a_killed_run_of_each_is_the_run_that_would_have_been(tmp_path):
    chance, said = random.Random(1), []
    steps = {"budget": {"steps": 6}, "evaluation": {"every": 3, "save": 2}}
    for number, make in enumerate(MADE.values()):
        data = altered(make(tmp_path, dropout=0.1), steps)
        lives = [{"event": chance.randint(8, 25)}, {"event": chance.randint(8, 25)}, {"after": chance.uniform(0.1, 0.4)}]
        said.append({"folder": str(tmp_path / f"{number}-undisturbed"), "recipe": data, "lives": []})
        said.append({"folder": str(tmp_path / f"{number}-killed"), "recipe": data, "lives": [*lives, {}]})
    (tmp_path / "runs.json").write_text(json.dumps(said))
    done = subprocess.run(
        [sys.executable, str(KILLING), str(tmp_path / "runs.json")], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    for number in range(len(MADE)):
        assert ended[2 * number + 1].count(-9) >= 2
        assert ended[2 * number + 1][-1] == 0, done.stderr
        one, other = tmp_path / f"{number}-undisturbed", tmp_path / f"{number}-killed"
        assert told(other) == told(one)
        assert files(other) == files(one)


@each_value(
    pytest.mark.parametrize("name", list(MADE)),
    pytest.mark.parametrize("engine", [{"precision": "bfloat16"}, {"products": "onednn", "recompute": True}]),
)
def test_it_is_computed_in_every_way_that_one_process_has(name, engine, tmp_path):
    more = {"engine": engine, "optimiser": {"kind": "muon", "average": 0.9}, "evaluation": {"samples": 0}}
    found = recipe(altered(MADE[name](tmp_path), more))
    assert fit(found, open_task(found), tmp_path / "run").state == "finished"


def test_the_loss_of_a_step_is_the_same_for_one_process_and_for_three(tmp_path):
    task = open_task(recipe(text(tmp_path)))
    model = eq.build(resolve_spec(task))
    parts = [task.loss(model, task.batch(3, share, 3)) for share in range(3)]
    assert torch.allclose(sum(parts), task.loss(model, task.batch(3)), rtol=1e-5)


def test_what_is_learned_is_better_than_a_guess(tmp_path):
    found = recipe(picture(tmp_path, "convnet") | {"budget": {"steps": 60, "batch": 12}})
    assert fit(found, open_task(found), tmp_path / "run").result["validation"]["accuracy"] > 0.6  # of three classes; measured 1.0


def test_a_run_goes_on_from_another_of_the_same_data(runs, tmp_path):
    folder, _, found = runs["convnet"]
    begun = recipe(found.to_dict() | {"model": {"start": str(folder), "dropout": 0.1}})
    spec = resolve_spec(open_task(begun))
    assert isinstance(spec, Baseline)
    assert (spec.width, spec.dropout) == (16, 0.1)
    assert fit(begun, open_task(begun), tmp_path / "run").state == "finished"
    data = found.to_dict()
    data["data"] |= {"size": [12, 12]}
    other = recipe(data | {"model": {"start": str(folder)}})
    with pytest.raises(
        InputError, match=r"The checkpoint of model\.start = .* has shape = \[1, 8, 8\], but the data has \(1, 12, 12"
    ):
        resolve_spec(open_task(other))


def test_no_folder_of_the_world_holds_a_baseline(runs, tmp_path):
    with pytest.raises(InputError, match='No family of checkpoints holds a baseline "mlp"'):
        eq.save(eq.load(runs["mlp"][0]), tmp_path)


# --- in a recipe ------------------------------------------------------------------------------------------------------
def test_a_baseline_takes_the_place_of_a_recipes_transformer():
    path = RECIPES / "shakespeare-char-cpu.toml"
    found = read_recipe(path, ["model.baseline=lstm", "model.layers=1"], small=True)
    assert found.model == {"baseline": "lstm", "width": 128, "layers": 1}
    kept = altered({"model": {"width": 8, "dropout": 0.1, "block": {}}, "seed": 1}, {"model": {"baseline": "mlp"}})
    assert kept == {"model": {"width": 8, "dropout": 0.1, "baseline": "mlp"}, "seed": 1}
    assert altered(kept, {"model": {"baseline": "convnet", "halve": 3}})["model"]["halve"] == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            ["model.baseline=lstmm"],
            r"model\.baseline=lstmm: There is no baseline called 'lstmm'\. Did you mean lstm\? Known: lstm, mlp",
        ),
        (
            ["model.baseline=lstm", "model.tied=true"],
            r"--set model\.tied=true: model\.tied belongs to a transformer, but model\.base",
        ),
        (["model.baseline=lstm", "model.preset=gpt2"], r"model\.preset belongs to a transformer"),
        (["model.halve=2"], r"--set model\.halve=2: model\.halve belongs to a baseline\. Set model\.baseline, or leave it out"),
        (["model.baseline=lstm", "model.halve=3"], r'halve belongs to a baseline "convnet", but this one is "lstm"'),
        (["model.baseline=lstm", "model.width=0"], r"model\.width is 0, but takes a whole number of 1 or more"),
        (["model.baseline=lstm", "model.widht=3"], r"there is no field model\.widht\. Did you mean width\?"),
        (["model.baseline=lstm", "model.dropout=1.5"], r"model\.dropout is 1\.5, but takes a number of 0 or more and below 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changes, words):
    with pytest.raises(InputError, match=words):
        read_recipe(RECIPES / "shakespeare-char-cpu.toml", changes, small=True)


def test_a_baseline_of_another_task_or_of_other_data_is_refused(tmp_path):
    with pytest.raises(InputError, match=r'"mlp", which the task language has no use for\. Choose one of lstm, or a transformer'):
        resolve_spec(open_task(recipe(text(tmp_path, baseline="mlp"))))
    with pytest.raises(InputError, match=r"The recipe sets outputs = 7, but the data has 3\. Leave it out"):
        resolve_spec(open_task(recipe(picture(tmp_path, "mlp", outputs=7))))
    said = altered(digits().to_dict(), {"model": {"baseline": "mlp", "layers": 1}})
    with pytest.raises(InputError, match=r"takes a whole recording at once\. Set data\.longest"):
        resolve_spec(open_task(recipe(said)))
    path = RECIPES / "multi30k.toml"
    with pytest.raises(InputError, match=r"the task translation has no use for\. Choose a transformer\."):
        resolve_spec(open_task(read_recipe(path, ["model.baseline=lstm"], small=True), path.parent))
