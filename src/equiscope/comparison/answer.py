"""Answer: what the numbers say, in sentences that the spread supports."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

import msgspec

from equiscope.record import Comparison, Pair

HOLDS = 0.05  # share by which a number may be worse at another size and still be called held


def answered(found: Comparison, left: int = 0) -> Comparison:
    """With its answer and notes. left: runs that are still to be done."""
    return msgspec.structs.replace(found, answer=sentence(found), notes=list(notes(found, left)))


def sentence(found: Comparison) -> str:
    """One or two sentences: who is best, or who cannot be told apart, and what would decide."""
    values = of(found)
    ranked = [c.name for c in found.candidates if values[c.name]]
    if not ranked:
        return "No run has a number yet, so nothing can be compared."
    best, seeds = ranked[0], max(len(values[name]) for name in ranked)
    lead = f"{found.metric} {shown(values[best])}"
    if len(ranked) == 1:
        return f"Only {best} has a number: {lead}."
    if seeds == 1:
        order = ", ".join(f"{name} {shown(values[name])}" for name in ranked)
        return f"With one seed no spread is known, so nothing is decided: {order} ({found.metric}, {found.better} is better)."
    against = {(p.second if p.first == best else p.first): p for p in found.pairs if best in (p.first, p.second)}
    open_ = [name for name in ranked[1:] if not against[name].decided]
    worse = [name for name in ranked[1:] if against[name].decided]
    if not open_:
        gap = abs(against[ranked[1]].difference)
        return f"{best} is best: {lead}, {number(gap)} {_than(found)} {ranked[1]}, the next ({seeds} seeds)."
    if all(against[name].same for name in open_):
        said = f"{_and([best, *open_])} are the same: every seed gave the very same {found.metric}, {shown(values[best])}."
    else:
        said = (
            f"{_and([best, *open_])} cannot be told apart with {seeds} seeds ({found.metric} {_ranges(found, [best, *open_])}"
            f"{_would(against, open_)})."
        )
    return said + "".join(f" {sentence}" for sentence in _better(found, [best, *open_], worse))


def _better(found: Comparison, leaders: Sequence[str], worse: Sequence[str]) -> Iterator[str]:
    """Whom those that cannot be told apart are better than: only where that is decided for each of them."""
    decided = {frozenset((p.first, p.second)) for p in found.pairs if p.decided}
    by = {name: [one for one in leaders if frozenset((one, name)) in decided] for name in worse}
    if all_ := [name for name in worse if len(by[name]) == len(leaders)]:
        yield f"{'Both' if len(leaders) == 2 else 'All'} are better than {_and(all_)}."
    for name in worse:
        if 0 < len(by[name]) < len(leaders):
            yield f"{_and(by[name])} {'is' if len(by[name]) == 1 else 'are'} better than {name}."


def notes(found: Comparison, left: int = 0) -> Iterator[str]:
    """What a reader should know beside the answer."""
    if left:
        yield f"{left} run{'s are' if left > 1 else ' is'} not done yet. The same command goes on."
    for trial in found.trials:
        if trial.value is None and trial.reason:
            yield f"{trial.candidate} with seed {trial.seed} has no result: {trial.reason}"
    yield from _beyond(found)
    yield from _symmetry(found)
    sizes = [c.parameters for c in found.candidates if c.parameters]
    if found.equal != "parameters" and sizes and max(sizes) > 1.02 * min(sizes):
        yield f"Parameters differ: {min(sizes):,} to {max(sizes):,}. With --equal parameters they would not."
    if found.equal == "compute":
        yield "Steps differ, so that each candidate computes as much as the recipe."


def _beyond(found: Comparison) -> Iterator[str]:
    """Which candidates hold at other sizes."""
    sizes: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    cannot: dict[str, str] = {}
    for trial in found.trials:
        for one in trial.beyond:
            if one.value is not None:
                sizes[trial.candidate][one.factor].append(one.value)
            else:
                cannot[trial.candidate] = one.reason
    factors = [factor for of in sizes.values() for factor in of]
    if not factors or max(factors) == 1:
        return
    far = max(factors)
    at = {name: (fmean(values[1]), fmean(values[far])) for name, values in sizes.items() if far in values and 1 in values}
    sign = 1 if found.better == "less" else -1
    held = [name for name, (near, there) in at.items() if sign * (there - near) <= HOLDS * abs(near)]
    lost = [f"{name} ({number(near)} to {number(there)})" for name, (near, there) in at.items() if name not in held]
    unable = [name for name in cannot if name not in at]
    said = [
        *([f"{_and(held)} hold{'s' if len(held) == 1 else ''}"] if held else []),
        *([f"{_and(lost)} {'does' if len(lost) == 1 else 'do'} not{'' if held else ' hold'}"] if lost else []),
        *([f"{_and(unable)} cannot read it"] if unable else []),
    ]
    if said:
        size = "context" if found.axis == "tokens of context" else "size"
        yield f"At {far:g} times the {size} of training, {'; '.join(said)}."


def _symmetry(found: Comparison) -> Iterator[str]:
    for candidate in found.candidates:
        wrong = [c.action for c in candidate.claims if c.holds and candidate.measured.get(c.action) in ("broken", "approximate")]
        if wrong:
            yield f"{candidate.name} claims {_and(wrong)}, and the check says otherwise: this is a bug, please report it."


def of(found: Comparison) -> dict[str, list[float]]:
    """The deciding numbers of each candidate."""
    made: dict[str, list[float]] = {c.name: [] for c in found.candidates}
    for trial in found.trials:
        if trial.value is not None:
            made[trial.candidate].append(trial.value)
    return made


def shown(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{number(fmean(values))}{f' ± {number(stdev(values))}' if len(values) > 1 else ''}"


def number(value: float) -> str:
    return f"{value:.4g}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def _ranges(found: Comparison, names: Sequence[str]) -> str:
    means = [fmean(of(found)[name]) for name in names]
    return f"{number(min(means))} to {number(max(means))}"


def _would(against: dict[str, Pair], names: Sequence[str]) -> str:
    """How many seeds would decide between the best and those beside it."""
    counts = [against[name].seeds for name in names if not against[name].same]
    some = [count for count in counts if count is not None]
    if not some:
        return "; no number of seeds that one could wait for would decide" if counts else ""
    return f"; about {min(some)} would decide" if len(names) == 1 else f"; about {min(some)} to {max(some)} would decide"


def _than(found: Comparison) -> str:
    return "less than" if found.better == "less" else "more than"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
