"""Tuning: before the comparison, each candidate gets its own values of some fields, chosen on the validation part.

Every candidate is trained with every combination of the values, so all candidates are tuned with the same effort. The seeds of
these runs are not used in the comparison, so its numbers are not biased by the choice.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import msgspec

from equiscope.comparison import job
from equiscope.comparison.plan import Plan, make_plan, write_plan
from equiscope.comparison.vary import combinations
from equiscope.errors import InputError
from equiscope.record import read_run
from equiscope.training import recipe
from equiscope.training.registry import task_of

FOLDER = "tuning"  # for these runs, inside the folder of the comparison
SEEDS = 2  # for each candidate and combination of values


def tuned(folder: Path, plan: Plan, run: Callable[[Path, Plan], None]) -> Plan:
    """The plan with each candidate's best values of the fields in `plan.tune`; the same plan if it tunes no field.

    run     trains the runs of a plan in a folder
    raises  InputError if a candidate sets such a field itself, or diverged or failed with every combination of values
    """
    if not plan.tune:
        return plan
    trials = tuning_plan(plan)
    write_plan(trials, folder / FOLDER)
    run(folder / FOLDER, trials)
    return chosen(folder, plan, trials)


def tuning_plan(plan: Plan) -> Plan:
    """The plan of the tuning runs: every candidate with every combination of the values, with the seeds after those of the plan.

    raises  InputError if a candidate sets a field that is tuned
    """
    for name, change in plan.candidates.items():
        if twice := sorted(set(change) & set(plan.tune)):
            raise InputError(f"Candidate {name!r} sets {twice[0]}, which `tune` chooses. Leave it out of one of the two.")
    candidates = {
        f"{name}, {values}": change | chosen
        for name, change in plan.candidates.items()
        for values, chosen in combinations(plan.tune).items()
    }  # fmt: skip
    last = max(plan.seeds)
    trials = make_plan(
        recipe(plan.recipe), Path(plan.recipe_folder), candidates, range(last + 1, last + 1 + SEEDS), threads=plan.threads,
        question=f"Which values suit each candidate of: {plan.question or plan.title}", sizes=[], check=False,
    )  # fmt: skip
    return msgspec.structs.replace(trials, together=plan.together)


def chosen(folder: Path, plan: Plan, trials: Plan) -> Plan:
    """The plan with the values whose mean over seeds is best on the validation part.

    A combination counts only if the runs with all seeds finished.
    raises  InputError for a candidate without such a combination
    """
    less = task_of(first := recipe(plan.recipe)).better_for(first) == "less"
    values_of = combinations(plan.tune)
    candidates = {}
    for name, change in plan.candidates.items():
        means = {}
        for values in values_of:
            results = [_result(folder / FOLDER / one.folder) for one in trials.jobs() if one.candidate == f"{name}, {values}"]
            if None not in results:  # if one seed diverged, other seeds may diverge too
                means[values] = fmean(value for value in results if value is not None) * (1 if less else -1)
        if not means:
            raise InputError(f"Candidate {name!r} has no result with any value of {', '.join(plan.tune)}: see {folder / FOLDER}.")
        candidates[name] = change | values_of[min(means, key=means.__getitem__)]
    return msgspec.structs.replace(plan, candidates=candidates)


def _result(folder: Path) -> float | None:
    """The first metric of a run on the validation part; None if the run did not finish."""
    if job.state_of(folder) != "finished":
        return None
    return next(iter(read_run(folder, entries=False).result["validation"].values()))
