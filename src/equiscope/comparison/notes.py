"""Notes: the caveats below an answer."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean

from equiscope.comparison.looks import notes_of_looks
from equiscope.comparison.prose import listed, number
from equiscope.comparison.significance import MOST_SEEDS, POWER
from equiscope.comparison.vary import format_value
from equiscope.record import Comparison

ALIKE = 1.02  # largest ratio of parameters, or of multiply-adds, that are called equal
GENERALISES = 0.05  # largest relative loss at another size of a candidate that generalises to it


def notes(comparison: Comparison, left: int = 0) -> Iterator[str]:
    """Caveats: runs without a result, seeds that were not planned, pairs that more seeds would decide, other sizes, parameters."""
    if left:
        yield (
            f"{left} run{'s are' if left > 1 else ' is'} not done yet: the same command goes on. "
            "Until then the verdicts are preliminary."
        )
    yield from _failed(comparison)
    yield from _fairness(comparison)
    yield from notes_of_looks(comparison, left)
    yield from _more_seeds(comparison)
    yield from _extrapolation(comparison)
    yield from _symmetry(comparison)


def _failed(comparison: Comparison) -> Iterator[str]:
    """Runs without a result: of each candidate the seeds, and the reason of the first."""
    failed = defaultdict(list)
    for trial in comparison.trials:
        if trial.value is None and trial.reason:
            failed[trial.candidate].append(trial)
    for candidate, (first, *others) in failed.items():
        if others:
            seeds = listed([str(trial.seed) for trial in (first, *others)])
            yield f"{candidate} with the seeds {seeds} has no result. Seed {first.seed}: {first.reason}"
        else:
            yield f"{candidate} with seed {first.seed} has no result: {first.reason}"


def _more_seeds(comparison: Comparison) -> Iterator[str]:
    """How many seeds a new comparison needs to decide the pairs that are undecided."""
    undecided = [pair for pair in comparison.pairs if pair.verdict == "undecided" and pair.p is not None]
    if not undecided:
        return
    which = "the undecided pair" if len(undecided) == 1 else f"each of the {len(undecided)} undecided pairs"
    counts = [pair.seeds for pair in undecided if pair.seeds is not None]
    needs = f"a new comparison needs {f'about {max(counts)}' if len(counts) == len(undecided) else f'more than {MOST_SEEDS}'} seeds"
    chance = f"with probability {100 * POWER:g} %"
    if comparison.smallest_effect is None:
        yield f"To find a difference as large as the measured one in {which} {chance}, {needs}."
        yield "No smallest effect was fixed before the runs, so no pair can be called equivalent."
    else:
        yield f"To decide {which} {chance}, if the true difference is 0 or at least the smallest effect, {needs}."


def _fairness(comparison: Comparison) -> Iterator[str]:
    """What is equal between the candidates and what is not; how they were tuned; and what a part of a model makes meaningless."""
    known = [c for c in comparison.candidates if c.parameters]
    if known:
        sizes, costs = [c.parameters for c in known], [c.multiply_adds * c.steps for c in known]
        equal = ["data", "seeds"] + ["steps"] * (len({c.steps for c in known}) == 1)
        equal += ["parameters"] * (max(sizes) <= ALIKE * min(sizes)) + ["compute"] * (max(costs) <= ALIKE * min(costs))
        other = []
        if "parameters" not in equal:
            other.append(f"parameters differ ({min(sizes):,} to {max(sizes):,})")
        if "compute" not in equal:
            other.append(f"the most expensive candidate computes {max(costs) / min(costs):.3g} times as much as the cheapest")
        yield f"Equal for all candidates: {listed(equal)}{f'; {listed(other)}' if other else ''}."
    if comparison.tune:
        tried = listed([f"{path} ({', '.join(map(format_value, values))})" for path, values in comparison.tune.items()])
        yield f"Each candidate was trained with every value of {tried} before, and takes the one that was best on validation."
        for path, values in comparison.tune.items():
            ends = [c.name for c in comparison.candidates if c.changes.get(path) in (min(values), max(values))]
            if ends and len(values) > 2:
                it = "it" if len(ends) == 1 else "them"
                yield f"{listed(ends)} took the smallest or the largest value of {path}, so a wider grid may suit {it} better."
    for candidate in comparison.candidates:
        if candidate.removed:
            yield f"{candidate.name} has no effect of its own here: {candidate.removed}."


def _extrapolation(comparison: Comparison) -> Iterator[str]:
    """Which candidates generalise to the largest size that was measured."""
    values: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    errors: dict[str, str] = {}
    for trial in comparison.trials:
        for one in trial.extrapolation:
            if one.value is not None:
                values[trial.candidate][one.factor].append(one.value)
            else:
                errors[trial.candidate] = one.reason
    factors = [factor for by_factor in values.values() for factor in by_factor]
    if not factors or max(factors) == 1:
        return
    far = max(factors)
    means = {name: (fmean(some[1]), fmean(some[far])) for name, some in values.items() if far in some and 1 in some}
    sign = 1 if comparison.better == "less" else -1
    good = [name for name, (near, there) in means.items() if sign * (there - near) <= GENERALISES * abs(near)]
    bad = [f"{name} ({number(near)} to {number(there)})" for name, (near, there) in means.items() if name not in good]
    unable = [name for name in errors if name not in means]
    parts = [
        *([f"{listed(good)} generalise{'s' if len(good) == 1 else ''}"] if good else []),
        *([f"{listed(bad)} {'does' if len(bad) == 1 else 'do'} not{'' if good else ' generalise'}"] if bad else []),
        *([f"{listed(unable)} cannot read inputs of this size"] if unable else []),
    ]
    if parts:
        size = {"tokens of context": "context", "symbols of input": "length"}.get(comparison.axis, "size")
        yield f"At {far:.3g} times the {size} of training, {'; '.join(parts)}."


def _symmetry(comparison: Comparison) -> Iterator[str]:
    for candidate in comparison.candidates:
        wrong = [c.action for c in candidate.claims if c.holds and candidate.verdicts.get(c.action) in ("broken", "approximate")]
        if wrong:
            yield f"{candidate.name} claims {listed(wrong)}, but the check disagrees: this is a bug, please report it."
