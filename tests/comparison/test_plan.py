"""A plan is looked at before anything is trained, kept, and made equal where that is asked."""

import json

import pytest
from tests.comparison.synthetic_runs import SCHEMES, base, finished, plan

from equiscope.comparison.plan import make_plan, read_plan
from equiscope.errors import InputError
from equiscope.models import describe
from equiscope.record import VERSION
from equiscope.record.run import read_run
from equiscope.training import open_task, resolve_spec


def test_jobs_go_seed_by_seed_and_each_has_its_recipe(tmp_path):
    made = plan(tmp_path, seeds=(4, 9))
    jobs = list(made.jobs())
    assert [(j.candidate, j.seed) for j in jobs] == [(name, seed) for seed in (4, 9) for name in ("rope", "none", "alibi")]
    assert jobs[5].folder == "runs/alibi/seed-9"
    found = made.recipe_of(jobs[5])
    assert (found.seed, found.title) == (9, "small: alibi")
    assert found.model["block"]["attention"]["position"] == "alibi"
    assert read_plan(tmp_path / "compared") == made


def test_another_plan_in_the_same_folder_is_refused_with_the_difference(tmp_path):
    plan(tmp_path)
    plan(tmp_path)
    with pytest.raises(InputError, match=r"holds another comparison: seeds\[1\]: 2, now 7"):
        plan(tmp_path, seeds=(1, 7, 3))


def test_a_plan_from_before_a_field_came_is_the_same_plan(tmp_path):
    plan(tmp_path)
    path = tmp_path / "compared" / "plan.json"
    kept = json.loads(path.read_text())
    del kept["recipe"]["data"]["overlap"]
    kept["recipe"]["title"] = kept["title"] = "as it was called then"
    path.write_text(json.dumps(kept))
    plan(tmp_path)


@pytest.mark.parametrize(
    ("candidates", "seeds", "said"),
    [
        ({"rope": {}}, (1,), "two candidates or more, but got 1"),
        (SCHEMES, (), "Seeds are different whole numbers, at least one"),
        (SCHEMES, (1, 1), "Seeds are different whole numbers"),
        ({"a b": {}, "a-b": {}}, (1,), "would have the same folder"),
        ({"fine": {}, "odd": {"model.block.attention.heads": 5}}, (1,), "Candidate 'odd': "),
        (
            {"fine": {}, "odd": {"model.block.attention.causal": False}},
            (1,),
            "Candidate 'odd': model.block.attention.causal is false",
        ),
        ({"fine": {}, "odd": {"optimiser.rate": -1}}, (1,), r"Candidate 'odd': optimiser.rate is -1, but takes a number above 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(tmp_path, candidates, seeds, said):
    with pytest.raises(InputError, match=said):
        make_plan(base(tmp_path), tmp_path, candidates, seeds)


def parameters(made, job):
    task = open_task(made.recipe_of(job))
    return describe(resolve_spec(task), 1, 1).parameters


def test_parameters_are_made_equal_by_the_feed_forward(tmp_path):
    candidates = {"narrow": {"model.width": 12}, "as it is": {}, "wide": {"model.width": 20}}
    made = plan(tmp_path, candidates, (1,), equal="parameters")
    counts = [parameters(made, one) for one in made.jobs()]
    assert max(counts) - min(counts) <= 0.02 * counts[1]
    assert made.candidates["as it is"] == {}
    inner = {name: change.get("model.block.feedforward.inner") for name, change in made.candidates.items()}
    assert inner["wide"] < 64 < inner["narrow"]


def test_compute_is_made_equal_by_steps(tmp_path):
    made = plan(tmp_path, {"one": {"model.layers": 1}, "two": {}, "four": {"model.layers": 4}}, (1,), equal="compute")
    steps = [made.recipe_of(one).budget.steps for one in made.jobs()]
    assert steps[1] == 12
    assert steps[0] > 16
    assert 6 <= steps[2] < 9


@pytest.mark.parametrize(
    ("candidates", "equal", "said"),
    [
        ({"a": {"model.width": 400}, "b": {}}, "parameters", "no size of that part makes them equal"),
        ({"a": {"model.block.feedforward.inner": 4}, "b": {}}, "parameters", "which equal parameters need to be free"),
        ({"a": {"budget.steps": 4}, "b": {}}, "compute", "which equal compute needs to be free"),
    ],
)
def test_what_cannot_be_made_equal_is_refused(tmp_path, candidates, equal, said):
    with pytest.raises(InputError, match=said):
        plan(tmp_path, candidates, (1,), equal=equal)


def test_a_file_of_an_older_version_is_refused_with_the_next_step(tmp_path):
    made = plan(tmp_path)
    place = finished(tmp_path / "compared", made, next(made.jobs()), 1.5)
    for path, reader in ((tmp_path / "compared" / "plan.json", read_plan), (place / "run.json", read_run)):
        path.write_text(path.read_text().replace(f'"version": {VERSION}', '"version": 1', 1))
        with pytest.raises(InputError, match=rf"has version 1, but this equiscope reads version {VERSION}\. .* another folder"):
            reader(path.parent)


def test_a_plan_says_which_candidate_has_no_effect_because_a_norm_removes_it(tmp_path):
    position, norm = "model.block.attention.position", "model.block.norm.kind"
    candidates = {"index": {position: "index", norm: "layer"}, "kept": {position: "index", norm: "rms"}, "none": {position: "none"}}
    made = make_plan(base(tmp_path), tmp_path, candidates, (1, 2))
    assert made.removed == {"index": "every norm subtracts the mean over the features, and with it what Index adds to all of them"}
