"""Outcome: what folders of runs say, in numbers and in a sentence; what cannot be compared is refused."""

import json
from pathlib import Path

import pytest
from tests.comparison.synthetic_runs import DATA, finished, plan

from equiscope.comparison import job, outcome
from equiscope.errors import InputError
from equiscope.record import Comparison, DataFile
from equiscope.record.comparison import Extrapolation

LOSSES = {"rope": (1.50, 1.52, 1.49), "none": (1.90, 1.93, 1.90), "alibi": (1.51, 1.51, 1.50)}


def compared(folder: Path, losses=LOSSES, **more) -> Comparison:
    made = plan(folder, **more)
    for one in made.jobs():
        finished(folder / "compared", made, one, losses[one.candidate][made.seeds.index(one.seed)])
    return outcome.of_folder(folder / "compared")


def test_candidates_without_a_significant_difference_and_worse_ones(tmp_path):
    found = compared(tmp_path)
    assert [c.name for c in found.candidates] == ["rope", "alibi", "none"]
    assert found.answer == (
        "No significant difference between rope and alibi with 3 seeds (loss 1.503 to 1.507; about 76 would decide). "
        "Both are better than none."
    )
    assert (found.metric, found.part, found.better, found.seeds) == ("loss", "validation", "less", [1, 2, 3])
    one = next(t for t in found.trials if (t.candidate, t.seed) == ("none", 2))
    assert (one.value, one.tokens, one.memory) == (1.93, 102.0, 1e6)
    assert one.curve == [(3, pytest.approx(2.93)), (12, 1.93)]
    assert found.candidates[0].verdicts == {"shift": "holds"}
    assert {c.action for c in found.candidates[0].claims} >= {"permute", "shift"}


def test_one_that_is_best_is_named_with_the_gap(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": (1.70, 1.72, 1.71)})
    assert found.answer == "rope is best: loss 1.503 ± 0.01528, 0.2067 less than alibi, the next (3 seeds)."


def test_identical_numbers_are_called_identical(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": LOSSES["rope"]})
    assert found.answer == (
        "rope and alibi are identical: every seed gave exactly the same loss, 1.503 ± 0.01528. Both are better than none."
    )


def test_only_what_is_decided_is_said_of_each(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": (1.40, 1.60, 1.55), "none": (1.60, 1.62, 1.59)})
    assert found.answer == (
        "No significant difference between rope and alibi with 3 seeds (loss 1.503 to 1.517; "
        "no practical number of seeds would decide). rope is better than none."
    )


def test_one_seed_orders_and_decides_nothing(tmp_path):
    found = compared(tmp_path, seeds=(1,))
    assert found.answer == (
        "With one seed the spread is unknown, so nothing is decided: rope 1.5, alibi 1.51, none 1.9 (loss, less is better)."
    )


def test_a_run_that_failed_is_a_result_and_one_that_is_missing_is_said(tmp_path):
    made = plan(tmp_path)
    jobs = list(made.jobs())
    for one in jobs[:-2]:
        finished(tmp_path / "compared", made, one, LOSSES[one.candidate][0] + one.seed / 100)
    job.record_failure(tmp_path / "compared" / jobs[-2].folder, "the loss became no number after step 3")
    found = outcome.of_folder(tmp_path / "compared")
    failed = next(t for t in found.trials if t.state == "failed")
    assert (failed.candidate, failed.seed, failed.value) == ("none", 3, None)
    assert found.notes[:2] == [
        "1 run is not done yet. The same command goes on.",
        "none with seed 3 has no result: the loss became no number after step 3",
    ]
    assert len(found.trials) == 8


@pytest.mark.parametrize(
    ("none", "said"),
    [
        (1.91, "none generalises; rope (1.5 to 2.4) does not; alibi cannot read inputs of this size."),
        (2.9, "rope (1.5 to 2.4) and none (1.9 to 2.9) do not generalise; alibi cannot read inputs of this size."),
    ],
)
def test_which_candidates_generalise_to_other_lengths(tmp_path, none, said):
    made = plan(tmp_path)
    for one in made.jobs():
        near, far = {"rope": (1.5, 2.4), "none": (1.9, none), "alibi": (1.5, None)}[one.candidate]
        extrapolation = (
            Extrapolation(factor=1, size=16, value=near),
            Extrapolation(factor=8, size=128, value=far, reason="" if far else "no such row"),
        )
        finished(tmp_path / "compared", made, one, near, extrapolation)
    found = outcome.of_folder(tmp_path / "compared")
    assert found.axis == "tokens of context"
    assert f"At 8 times the context of training, {said}" in found.notes


def test_other_lengths_are_compared_by_the_number_that_decides(tmp_path):
    made = plan(tmp_path, {"characters": {"data.tokens": "characters"}, "bytes": {"data.tokens": "bytes"}}, (1, 2))
    for one in made.jobs():
        near = Extrapolation(factor=1, size=16, value=1.5, values={"loss": 1.5, "bits per character": 3.0})
        finished(tmp_path / "compared", made, one, 1.5, (near, Extrapolation(factor=8, size=128, reason="no such row")))
    found = outcome.of_folder(tmp_path / "compared")
    assert found.metric == "bits per character"
    assert {trial.extrapolation[0].value for trial in found.trials} == {trial.value for trial in found.trials} == {3.0}
    assert {trial.extrapolation[1].value for trial in found.trials} == {None}


def test_texts_in_other_tokens_are_compared_by_their_characters(tmp_path):
    candidates = {"characters": {"data.tokens": "characters"}, "bytes": {"data.tokens": "bytes"}}
    made = plan(tmp_path, candidates, (1, 2))
    for one in made.jobs():
        finished(tmp_path / "compared", made, one, 1.0 + 0.1 * one.seed)
    found = outcome.of_folder(tmp_path / "compared")
    assert (found.metric, found.trials[0].value) == ("bits per character", 2.2)


def test_runs_of_other_data_are_refused(tmp_path):
    made = plan(tmp_path)
    other = [DataFile(name="text.txt", part="train", bytes=3, sha256="2" * 64)]
    for n, one in enumerate(made.jobs()):
        finished(tmp_path / "compared", made, one, 1.0, data=other if n == 4 else DATA)
    with pytest.raises(InputError, match=r"have read different data: the train file text.txt is other"):
        outcome.of_folder(tmp_path / "compared")


def test_runs_that_were_made_alone_are_compared_by_what_differs(tmp_path):
    made = plan(tmp_path)
    places = [finished(tmp_path / "compared", made, one, LOSSES[one.candidate][0] + one.seed / 100) for one in made.jobs()]
    found = outcome.of_runs(places)
    assert [c.name for c in found.candidates] == ["rope", "alibi", "none"]
    assert found.varied == ["model.block.attention.position"]
    with pytest.raises(InputError, match="differ in nothing but their seeds"):
        outcome.of_runs([places[0], places[3]])
    with pytest.raises(InputError, match=r"rope with seed 1 is given twice"):
        outcome.of_runs([places[0], places[1], places[0]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"task": "images"}, "one is of the task language, the other of images"),
        ({"data": DATA[:0]}, "only one has the train file text.txt"),
    ],
)
def test_runs_of_other_tasks_and_data_are_refused(tmp_path, change, said):
    made = plan(tmp_path)
    jobs = list(made.jobs())
    places = [finished(tmp_path / "compared", made, jobs[0], 1.0), finished(tmp_path / "compared", made, jobs[1], 1.0, **change)]
    with pytest.raises(InputError, match=said):
        outcome.of_runs(places)


def test_runs_of_another_budget_are_refused(tmp_path):
    made = plan(tmp_path)
    jobs = list(made.jobs())
    longer = made.recipe_of(jobs[1]).to_dict()
    longer["budget"]["steps"] = 99
    places = [
        finished(tmp_path / "compared", made, jobs[0], 1.0),
        finished(tmp_path / "compared", made, jobs[1], 1.0, recipe=longer),
    ]
    with pytest.raises(InputError, match=r"cannot be compared: budget.steps: 12 and 99"):
        outcome.of_runs(places)


def test_a_folder_without_runs_says_what_to_do(tmp_path):
    made = plan(tmp_path)
    with pytest.raises(InputError, match=r"has no run yet. Put that right, and start it again: equiscope compare"):
        outcome.of_folder(tmp_path / "compared")
    job.record_failure(tmp_path / "compared" / next(made.jobs()).folder, "the disk is full")
    with pytest.raises(InputError, match=r"No run of .* began: the disk is full"):
        outcome.of_folder(tmp_path / "compared")
    with pytest.raises(InputError, match=r"holds no comparison: it has no plan.json"):
        outcome.of_folder(tmp_path)


def test_damaged_measurements_are_reported(tmp_path):
    compared(tmp_path)
    place = next((tmp_path / "compared" / "runs").glob("*/*/measurements.json"))
    place.write_text(json.dumps({"extrapolation": 3}))
    with pytest.raises(InputError, match=r"is damaged: .*Delete it, and compare again"):
        outcome.of_folder(tmp_path / "compared")
