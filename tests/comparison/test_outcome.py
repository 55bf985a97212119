"""Outcome: what folders of runs say, in numbers and in a sentence; what cannot be compared is refused."""

import json
from pathlib import Path

import pytest
from tests.comparison.synthetic_runs import DATA, SCHEMES, finished, plan

from equiscope.comparison import job, outcome
from equiscope.comparison.plan import add_seeds, read_plan, write_plan
from equiscope.comparison.verbs import parts
from equiscope.errors import InputError
from equiscope.record import Comparison, DataFile
from equiscope.record.comparison import Extrapolation

LOSSES = {"rope": (1.50, 1.52, 1.49), "none": (1.90, 1.93, 1.90), "alibi": (1.51, 1.51, 1.50)}


def compared(folder: Path, losses=LOSSES, **more) -> Comparison:
    made = plan(folder, **more)
    for one in made.jobs():
        finished(folder / "compared", made, one, losses[one.candidate][made.seeds.index(one.seed)])
    return outcome.of_folder(folder / "compared")


def caveats(comparison: Comparison) -> list[str]:
    """The notes after the first, which says what is equal for all candidates."""
    assert comparison.notes[0] == "Equal for all candidates: data, seeds, steps, parameters and compute."
    return comparison.notes[1:]


def test_an_undecided_pair_and_a_worse_candidate(tmp_path):
    found = compared(tmp_path)
    assert [c.name for c in found.candidates] == ["rope", "alibi", "none"]
    assert found.answer == (
        "It is undecided whether rope is better than alibi: its loss is 0.003 nats lower (95 % interval -0.048 to 0.054, "
        "p = 0.67 after Holm, 3 seeds). Both are better than none (p at most 0.00096 after Holm)."
    )
    assert caveats(found)[:2] == [
        "To find a difference as large as the measured one in the undecided pair with probability 80 %, a new comparison needs "
        "more than 128 seeds.",
        "No smallest effect was fixed before the runs, so no pair can be called equivalent.",
    ]
    assert (found.metric, found.part, found.better, found.seeds) == ("loss", "validation", "less", [1, 2, 3])
    one = next(t for t in found.trials if (t.candidate, t.seed) == ("none", 2))
    assert (one.value, one.tokens, one.memory) == (1.93, 102.0, 1e6)
    assert one.curve == [(3, pytest.approx(2.93)), (12, 1.93)]
    assert found.candidates[0].verdicts == {"shift": "holds"}
    assert {c.action for c in found.candidates[0].claims} >= {"permute", "shift"}


def test_the_best_is_named_with_effect_interval_and_p(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": (1.70, 1.72, 1.71)})
    assert found.answer == (
        "rope is best: its loss is 0.207 nats lower than that of alibi, the next (95 % interval 0.178 to 0.258, "
        "p = 0.0017 after Holm, 3 seeds)."
    )


def test_one_pair_needs_no_correction(tmp_path):
    found = compared(tmp_path, candidates={name: SCHEMES[name] for name in ("rope", "none")})
    assert found.answer == (
        "rope is better than none: its loss is 0.407 nats lower (95 % interval 0.392 to 0.421, p < 0.0001, 3 seeds)."
    )


def test_equivalence_is_said_where_the_question_states_a_smallest_effect(tmp_path):
    found = compared(tmp_path, smallest_effect=0.1)
    assert found.answer == (
        "rope and alibi are equivalent: their loss differs by less than the smallest effect of 0.1 nats (95 % interval "
        "-0.048 to 0.054, p = 0.014 after Bonferroni, 3 seeds). Both are better than none (p at most 0.00096 after Holm)."
    )
    assert caveats(found) == []
    found = compared(tmp_path / "smaller", smallest_effect=0.01)
    assert found.answer.startswith("It is undecided whether rope is better than alibi")
    assert caveats(found) == [
        "To decide the undecided pair with probability 80 %, if the true difference is 0 or at least the smallest effect, "
        "a new comparison needs about 84 seeds."
    ]


def test_identical_numbers_are_called_identical(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": LOSSES["rope"]})
    assert found.answer == (
        "rope and alibi are identical: every seed gave exactly the same loss. "
        "Both are better than none (p at most 0.00013 after Holm)."
    )


def test_a_constant_difference_has_no_spread_to_be_tested_with(tmp_path):
    found = compared(tmp_path, {"rope": (1.5, 1.6, 1.7), "none": (1.75, 1.85, 1.95)}, candidates=dict(list(SCHEMES.items())[:2]))
    assert found.answer == (
        "It is undecided whether rope is better than none: its loss is 0.250 nats lower with every seed they share, "
        "so there is no spread to test it with."
    )


def test_only_what_is_decided_is_said_of_each(tmp_path):
    found = compared(tmp_path, LOSSES | {"alibi": (1.40, 1.60, 1.55), "none": (1.60, 1.62, 1.58)})
    assert found.answer == (
        "It is undecided whether rope is better than alibi: its loss is 0.01 nats lower (95 % interval -0.42 to 0.45, "
        "p = 0.84 after Holm, 3 seeds). rope is better than none (p = 0.0036 after Holm)."
    )


def looked(folder: Path, seeds: int, losses, **more) -> Comparison:
    """A comparison with looks at 3 and 6 seeds of which so many are trained."""
    made = plan(folder, seeds=(1, 2, 3, 4, 5, 6), looks=(3, 6), **more)
    for one in made.until(seeds).jobs():
        loss = losses[one.candidate][one.seed % 3]
        finished(folder / "compared", made, one, loss)
    return outcome.of_folder(folder / "compared")


LOOKS = "Looks were planned at 3 seeds (0.625 %) and 6 seeds (4.38 %): together they spend the 5 % that a single look would."


def test_a_look_is_tested_at_its_part_of_the_level(tmp_path):
    two = dict(list(SCHEMES.items())[:2])
    losses = {"rope": (1.5, 1.52, 1.49), "none": (1.9, 2.2, 1.9)}
    once = compared(tmp_path / "once", losses, candidates=two)
    first = looked(tmp_path / "first", 3, losses, candidates=two)
    assert first.pairs[0].p == pytest.approx(8 * once.pairs[0].p)  # (3/6)^3 of the level
    assert (once.pairs[0].verdict, first.pairs[0].verdict) == ("different", "undecided")
    assert caveats(first)[:2] == [LOOKS, "The look at 3 seeds left pairs undecided. The same command goes on to the next look."]
    last = looked(tmp_path / "last", 6, losses, candidates=two)
    assert last.pairs[0].verdict == "different"
    assert "6 seeds)" in last.answer
    assert caveats(last) == [LOOKS]


def test_a_look_that_decides_every_pair_ends_the_comparison(tmp_path):
    losses = {"rope": (1.5, 1.52, 1.49), "none": (1.9, 1.921, 1.89), "alibi": (2.9, 2.922, 2.89)}
    found = looked(tmp_path, 3, losses)
    assert "3 of at most 6 seeds" in found.answer
    assert caveats(found) == [LOOKS, "The look at 3 seeds decided every pair, so the comparison ended there."]


@pytest.mark.parametrize(("none", "trained"), [(2.9, [3]), (1.5, [3, 6])])
def test_training_goes_on_to_the_next_look_only_if_a_pair_is_undecided(tmp_path, none, trained):
    made = plan(tmp_path, dict(list(SCHEMES.items())[:2]), seeds=(1, 2, 3, 4, 5, 6), looks=(3, 6))
    counts = []
    for part in parts(tmp_path / "compared", made):
        counts.append(len(part.seeds))
        for one in part.jobs():
            if not job.done(tmp_path / "compared", one):
                loss = none + one.seed % 2 / 100 if one.candidate == "none" else 1.5 + one.seed % 3 / 100
                finished(tmp_path / "compared", made, one, loss)
    assert counts == trained
    assert list(parts(tmp_path / "compared", made)) == [made.until(count) for count in trained]


def test_between_looks_the_verdicts_are_preliminary(tmp_path):
    found = looked(tmp_path, 4, LOSSES)
    assert found.notes[0] == "6 runs are not done yet: the same command goes on. Until then the verdicts are preliminary."


def test_seeds_that_were_not_planned_are_reported(tmp_path):
    made = plan(tmp_path)
    more = add_seeds(tmp_path / "compared", 5)
    assert (more.seeds, more.looks, more.added) == ([1, 2, 3, 4, 5], [3], [5])
    write_plan(more, tmp_path / "compared")
    assert made.seeds != read_plan(tmp_path / "compared").seeds == more.seeds
    for one in more.jobs():
        finished(tmp_path / "compared", more, one, LOSSES[one.candidate][one.seed % 3])
    found = outcome.of_folder(tmp_path / "compared")
    assert "5 seeds, 2 of them not planned" in found.answer
    assert caveats(found)[0] == (
        "2 seeds were added after the last planned look, at 3 seeds, which had spent the 5 %. "
        "A difference is reported falsely in up to 10 % of such comparisons."
    )
    for seeds in (5, 4, [1, 2, 3, 4, 5, 5, 9], [9, 1, 2, 3, 4, 5]):
        with pytest.raises(InputError, match=r"has the seeds \[1, 2, 3, 4, 5\]. --seeds adds to them"):
            add_seeds(tmp_path / "compared", seeds)


def test_one_seed_orders_and_decides_nothing(tmp_path):
    found = compared(tmp_path, seeds=(1,))
    assert found.answer == (
        "With one seed the spread is unknown, so nothing is decided: rope 1.5, alibi 1.51, none 1.9 (loss, less is better)."
    )


def test_candidates_with_one_common_seed_are_not_tested(tmp_path):
    """One run of "none" finished. The tests of the other pair stand on three seeds, and say so."""
    made = plan(tmp_path)
    for one in made.jobs():
        if one.candidate != "none" or one.seed == 2:
            finished(tmp_path / "compared", made, one, LOSSES[one.candidate][made.seeds.index(one.seed)])
        else:
            job.record_failure(tmp_path / "compared" / one.folder, "the gradient's length is inf")
    assert outcome.of_folder(tmp_path / "compared").answer == (
        "It is undecided whether rope is better than alibi: its loss is 0.003 nats lower (95 % interval -0.025 to 0.032, p = 0.67, "
        "3 seeds). rope has only one seed in common with none (loss 0.410 nats lower), so nothing is tested."
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
        "1 run is not done yet: the same command goes on. Until then the verdicts are preliminary.",
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
    places = [finished(tmp_path / "compared", made, one, LOSSES[one.candidate][one.seed - 1]) for one in made.jobs()]
    found = outcome.of_runs(places)
    assert [c.name for c in found.candidates] == ["rope", "alibi", "none"]
    assert found.varied == ["model.block.attention.position"]
    assert caveats(found)[0].startswith("Whether the number of seeds was fixed before the runs is not recorded.")
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
