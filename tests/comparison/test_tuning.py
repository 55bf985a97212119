"""Tuning: every candidate is trained with every value, with seeds that are not reported, and takes the best on validation."""

from functools import partial

import pytest
from tests.comparison.synthetic_runs import finished, plan

from equiscope.comparison import job, outcome, tuning
from equiscope.comparison.plan import read_plan, write_plan
from equiscope.errors import InputError

RATES = {"optimiser.rate": [1e-3, 3e-3, 6e-3]}
LOSSES = {
    "rope": {1e-3: 1.7, 3e-3: 1.5, 6e-3: 1.6},
    "none": {1e-3: 1.9, 3e-3: 2.0, 6e-3: 2.1},
    "alibi": {1e-3: 1.5, 3e-3: 1.6, 6e-3: 1.4},
}


def trained(folder, trials, losses=LOSSES, failing=()):
    """What training the trials would leave behind."""
    for one in trials.jobs():
        if one in failing:
            job.record_failure(folder / one.folder, "the loss became no number after step 3")
            continue
        change = trials.candidates[one.candidate]
        loss = losses[change["model.block.attention.position"]][change["optimiser.rate"]]
        finished(folder, trials, one, loss + one.seed / 1e3)


def test_trials_have_every_candidate_with_every_value_and_seeds_that_are_not_reported(tmp_path):
    made = plan(tmp_path, tune=RATES)
    trials = tuning.tuning_plan(made)
    assert len(trials.candidates) == 9
    assert trials.candidates["alibi, rate 0.003"] == made.candidates["alibi"] | {"optimiser.rate": 3e-3}
    assert trials.seeds == [4, 5]
    assert (trials.sizes, trials.check) == ([], False)


def test_each_candidate_takes_its_own_best_value(tmp_path):
    made = plan(tmp_path, tune=RATES)
    found = tuning.tuned(tmp_path / "new", made, trained)
    rates = {name: change["optimiser.rate"] for name, change in found.candidates.items()}
    assert rates == {"rope": 3e-3, "none": 1e-3, "alibi": 6e-3}
    again = tuning.tuned(tmp_path / "new", made, lambda folder, trials: None)
    assert again == found
    write_plan(found, tmp_path / "new")
    assert read_plan(tmp_path / "new") == found


def test_a_value_with_which_one_seed_failed_is_not_taken(tmp_path):
    made = plan(tmp_path, tune=RATES)
    failing = [one for one in tuning.tuning_plan(made).jobs() if one.candidate == "alibi, rate 0.006" and one.seed == 5]
    found = tuning.tuned(tmp_path / "new", made, partial(trained, failing=failing))
    assert found.candidates["alibi"]["optimiser.rate"] == 1e-3


def test_a_candidate_that_never_finishes_is_an_error_with_its_name(tmp_path):
    made = plan(tmp_path, tune=RATES)
    failing = [one for one in tuning.tuning_plan(made).jobs() if one.candidate.startswith("none")]
    with pytest.raises(InputError, match=r"Candidate 'none' has no result with any value of optimiser\.rate: see .*tuning"):
        tuning.tuned(tmp_path / "new", made, partial(trained, failing=failing))


def test_a_candidate_does_not_set_what_is_tuned(tmp_path):
    made = plan(tmp_path, {"slow": {"optimiser.rate": 1e-4}, "none": {}}, tune=RATES)
    with pytest.raises(InputError, match=r"Candidate 'slow' sets optimiser\.rate, which `tune` chooses"):
        tuning.tuning_plan(made)


def test_without_fields_to_tune_the_plan_stays_as_it_is(tmp_path):
    made = plan(tmp_path)
    assert tuning.tuned(tmp_path / "new", made, trained) is made


def test_the_notes_say_how_candidates_were_tuned_and_what_is_equal(tmp_path):
    made = plan(tmp_path, tune=RATES)
    found = tuning.tuned(tmp_path / "new", made, trained)
    write_plan(found, tmp_path / "new")
    for one in found.jobs():
        finished(tmp_path / "new", found, one, 1.5 + one.seed / 1e3)
    notes = outcome.of_folder(tmp_path / "new").notes
    assert "Equal for all candidates: data, seeds, steps, parameters and compute." in notes
    assert (
        "Each candidate was trained with every value of optimiser.rate (0.001, 0.003, 0.006) before, "
        "and takes the one that was best on validation."
    ) in notes
    assert "none and alibi took the smallest or the largest value of optimiser.rate, so a wider grid may suit them better." in notes
