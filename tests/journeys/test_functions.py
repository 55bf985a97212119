"""Train, evaluate, predict and compare as functions: what the commands of these names do, from Python."""

from pathlib import Path

import pytest

import equiscope as eq
from equiscope.errors import InputError
from equiscope.training import NEW

RECIPE = Path(__file__).parents[2] / "recipes" / "shakespeare-char-cpu.toml"
SHORT = [
    "budget.steps=2",
    "budget.batch=2",
    "optimiser.warmup=0",
    "evaluation.every=2",
    "model.width=16",
    "model.layers=1",
    "data.context=16",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = eq.train(RECIPE, folder, changes=SHORT, small=True)
    assert (run.state, run.steps) == ("finished", 2)
    return folder


def test_a_run_is_evaluated_and_predicts(folder, tmp_path):
    result = eq.evaluate(folder)
    assert set(result.result) == {"validation"}
    (tmp_path / "new.txt").write_text("To be, or not to be, that is the question.\n" * 3)
    assert set(eq.evaluate(folder, tmp_path / "new.txt").result) == {NEW}
    (answer,) = eq.predict(folder, ["To be"], steps=3)
    assert answer.answer


def test_a_finished_run_is_not_trained_again(folder):
    assert eq.train(folder).state == "finished"
    with pytest.raises(InputError, match="goes on by its own recipe"):
        eq.train(folder, small=True)


def test_a_recipe_that_is_not_a_file_needs_a_folder(tmp_path):
    recipe = eq.training.read_recipe(RECIPE, SHORT, small=True)
    with pytest.raises(InputError, match="Give the folder of the run"):
        eq.train(recipe)
    with pytest.raises(InputError, match="Change the recipe instead"):
        eq.train(recipe, tmp_path, changes=["seed=2"])


def test_runs_are_compared(folder, tmp_path):
    eq.train(RECIPE, tmp_path / "other", changes=[*SHORT, "model.block.attention.position=none"], small=True)
    assert len(eq.compare([folder, tmp_path / "other"]).candidates) == 2
    with pytest.raises(InputError, match="There is nothing to compare"):
        eq.compare(RECIPE, out=tmp_path / "one", small=True)


@pytest.mark.thorough
def test_candidates_are_trained_and_compared(tmp_path):
    comparison = eq.compare(RECIPE, vary=["position=none,rope"], seeds=1, out=tmp_path / "both", changes=SHORT, small=True)
    assert {candidate.name for candidate in comparison.candidates} == {"none", "rope"}
    assert comparison.answer
    assert eq.compare(tmp_path / "both").answer == comparison.answer
    runs = [tmp_path / "both" / "runs" / name / "seed-1337" for name in ("none", "rope")]
    assert len(eq.compare(runs).candidates) == 2
