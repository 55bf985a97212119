"""Answer: the result of a comparison in sentences, as far as the spread over seeds supports them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

import msgspec

from equiscope.comparison.vary import format_value
from equiscope.record import Comparison, PairedDifference

ALIKE = 1.02  # largest ratio of parameters, or of multiply-adds, that are called equal
GENERALISES = 0.05  # largest relative loss at another size of a candidate that generalises to it


def with_answer(comparison: Comparison, left: int = 0) -> Comparison:
    """The comparison with its answer and notes. left: number of runs that are not done yet."""
    return msgspec.structs.replace(comparison, answer=sentence(comparison), notes=list(notes(comparison, left)))


def sentence(comparison: Comparison) -> str:
    """One or two sentences: the best candidate, or those without a significant difference, and how many seeds would decide."""
    values = values_by_candidate(comparison)
    ranked = [c.name for c in comparison.candidates if values[c.name]]
    if not ranked:
        return "No run has a number yet, so nothing can be compared."
    best, seeds = ranked[0], max(len(values[name]) for name in ranked)
    lead = f"{comparison.metric} {mean_and_deviation(values[best])}"
    if len(ranked) == 1:
        return f"Only {best} has a number: {lead}."
    if seeds == 1:
        order = ", ".join(f"{name} {mean_and_deviation(values[name])}" for name in ranked)
        metric = f"{comparison.metric}, {comparison.better} is better"
        return f"With one seed the spread is unknown, so nothing is decided: {order} ({metric})."
    against = {(p.second if p.first == best else p.first): p for p in comparison.pairs if best in (p.first, p.second)}
    open_ = [name for name in ranked[1:] if not against[name].decided]
    worse = [name for name in ranked[1:] if against[name].decided]
    if not open_:
        gap = abs(against[ranked[1]].difference)
        return f"{best} is best: {lead}, {number(gap)} {_than(comparison)} {ranked[1]}, the next ({seeds} seeds)."
    if all(against[name].same for name in open_):
        lead = (
            f"{_and([best, *open_])} are identical: every seed gave exactly the same {comparison.metric}, "
            f"{mean_and_deviation(values[best])}."
        )
    else:
        lead = (
            f"No significant difference between {_and([best, *open_])} with {seeds} seeds ({comparison.metric} "
            f"{_ranges(comparison, [best, *open_])}{_seeds_hint(against, open_)})."
        )
    return lead + "".join(f" {sentence}" for sentence in _better(comparison, [best, *open_], worse))


def _better(comparison: Comparison, leaders: Sequence[str], worse: Sequence[str]) -> Iterator[str]:
    """The candidates that the leaders are significantly better than; a sentence for all leaders only if it holds for each."""
    decided = {frozenset((p.first, p.second)) for p in comparison.pairs if p.decided}
    by = {name: [one for one in leaders if frozenset((one, name)) in decided] for name in worse}
    if all_ := [name for name in worse if len(by[name]) == len(leaders)]:
        yield f"{'Both' if len(leaders) == 2 else 'All'} are better than {_and(all_)}."
    for name in worse:
        if 0 < len(by[name]) < len(leaders):
            yield f"{_and(by[name])} {'is' if len(by[name]) == 1 else 'are'} better than {name}."


def notes(comparison: Comparison, left: int = 0) -> Iterator[str]:
    """Caveats: runs without a result, behaviour at other sizes, unequal parameters."""
    if left:
        yield f"{left} run{'s are' if left > 1 else ' is'} not done yet. The same command goes on."
    for trial in comparison.trials:
        if trial.value is None and trial.reason:
            yield f"{trial.candidate} with seed {trial.seed} has no result: {trial.reason}"
    yield from _fairness(comparison)
    yield from _extrapolation(comparison)
    yield from _symmetry(comparison)


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
        yield f"Equal for all candidates: {_and(equal)}{f'; {_and(other)}' if other else ''}."
    if comparison.tune:
        tried = _and([f"{path} ({', '.join(map(format_value, values))})" for path, values in comparison.tune.items()])
        yield f"Each candidate was trained with every value of {tried} before, and takes the one that was best on validation."
        for path, values in comparison.tune.items():
            ends = [c.name for c in comparison.candidates if c.changes.get(path) in (min(values), max(values))]
            if ends and len(values) > 2:
                it = "it" if len(ends) == 1 else "them"
                yield f"{_and(ends)} took the smallest or the largest value of {path}, so a wider grid may suit {it} better."
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
        *([f"{_and(good)} generalise{'s' if len(good) == 1 else ''}"] if good else []),
        *([f"{_and(bad)} {'does' if len(bad) == 1 else 'do'} not{'' if good else ' generalise'}"] if bad else []),
        *([f"{_and(unable)} cannot read inputs of this size"] if unable else []),
    ]
    if parts:
        size = "context" if comparison.axis == "tokens of context" else "size"
        yield f"At {far:.3g} times the {size} of training, {'; '.join(parts)}."


def _symmetry(comparison: Comparison) -> Iterator[str]:
    for candidate in comparison.candidates:
        wrong = [c.action for c in candidate.claims if c.holds and candidate.verdicts.get(c.action) in ("broken", "approximate")]
        if wrong:
            yield f"{candidate.name} claims {_and(wrong)}, but the check disagrees: this is a bug, please report it."


def values_by_candidate(comparison: Comparison) -> dict[str, list[float]]:
    """The metric of each candidate, one value for each seed."""
    values: dict[str, list[float]] = {c.name: [] for c in comparison.candidates}
    for trial in comparison.trials:
        if trial.value is not None:
            values[trial.candidate].append(trial.value)
    return values


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{number(fmean(values))}{f' ± {number(stdev(values))}' if len(values) > 1 else ''}"


def number(value: float) -> str:
    return f"{value:.4g}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def _ranges(comparison: Comparison, names: Sequence[str]) -> str:
    means = [fmean(values_by_candidate(comparison)[name]) for name in names]
    return f"{number(min(means))} to {number(max(means))}"


def _seeds_hint(against: dict[str, PairedDifference], names: Sequence[str]) -> str:
    """About how many seeds would make the differences to the best candidate significant."""
    counts = [against[name].seeds for name in names if not against[name].same]
    some = [count for count in counts if count is not None]
    if not some:
        return "; no practical number of seeds would decide" if counts else ""
    return f"; about {min(some)} would decide" if len(names) == 1 else f"; about {min(some)} to {max(some)} would decide"


def _than(comparison: Comparison) -> str:
    return "less than" if comparison.better == "less" else "more than"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
