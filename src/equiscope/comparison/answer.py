"""Answer: the verdicts of a comparison in sentences, each with its effect, interval and p-value. No torch."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from equiscope.comparison.looks import current_look
from equiscope.comparison.notes import notes
from equiscope.comparison.prose import DECIMALS, alternatives, decimal_digits, listed, mean_and_deviation, p_text
from equiscope.comparison.significance import LEVEL, compare_pairs
from equiscope.errors import counted
from equiscope.record import Comparison, PairedDifference

IN_DETAIL = 3  # pairs of one verdict that an answer describes with their intervals


def with_answer(comparison: Comparison, left: int = 0) -> Comparison:
    """The comparison with the verdicts on its pairs, its answer and its notes, all computed from its trials.

    left  number of runs of the current look that are not done yet
    """
    values: dict[str, dict[int, float]] = {c.name: {} for c in comparison.candidates}
    for trial in comparison.trials:
        if trial.value is not None:
            values[trial.candidate][trial.seed] = trial.value
    look = current_look(comparison)
    pairs = compare_pairs(
        {name: some for name, some in values.items() if some}, comparison.better, comparison.smallest_effect,
        level=look.level if look else LEVEL,
    )  # fmt: skip
    judged = msgspec.structs.replace(comparison, pairs=pairs)
    return msgspec.structs.replace(judged, answer=" ".join(sentences(judged)), notes=list(notes(judged, left)))


def sentences(comparison: Comparison) -> Iterator[str]:
    """The verdicts on the best candidate, then on the others that may be as good."""
    values = values_by_candidate(comparison)
    ranked = [c.name for c in comparison.candidates if values[c.name]]
    if not ranked:
        yield "No run has a number yet, so nothing can be compared."
        return
    if len(ranked) == 1:
        yield f"Only {ranked[0]} has a number: {comparison.metric} {mean_and_deviation(values[ranked[0]])}."
        return
    if max(len(values[name]) for name in ranked) == 1:
        order = ", ".join(f"{name} {mean_and_deviation(values[name])}" for name in ranked)
        metric = f"{comparison.metric}, {comparison.better} is better"
        yield f"With one seed the spread is unknown, so nothing is decided: {order} ({metric})."
        return
    beaten = {(p.second if p.better == p.first else p.first) for p in comparison.pairs if p.better}
    best = next((name for name in ranked if name not in beaten), ranked[0])
    against = {(p.second if p.first == best else p.first): p for p in comparison.pairs if best in (p.first, p.second)}
    others = [name for name in ranked if name in against]
    untested = [name for name in others if _common_seeds(comparison, against[name]) == 1]
    undecided, equivalent, identical, worse = (
        [name for name in others if against[name].verdict == verdict and name not in untested]
        for verdict in ("undecided", "equivalent", "identical", "different")
    )
    if len(worse) == len(others) == 1:
        yield f"{best} is better than {worse[0]}: {_effect(comparison, against[worse[0]], best)}."
    elif len(worse) == len(others):
        yield f"{best} is best: {_effect(comparison, against[worse[0]], best, f'that of {worse[0]}, the next')}."
    else:
        yield from _undecided(comparison, best, undecided, against)
        yield from _equivalent(comparison, best, equivalent, against)
        if identical:
            yield f"{listed([best, *identical])} are identical: every seed gave exactly the same {comparison.metric}."
        leaders = [name for name in ranked if name == best or name in (*undecided, *equivalent, *identical)]
        yield from _better(comparison, leaders, worse)
    if untested:
        shown = [f"{name} ({_short_effect(comparison, against[name], best)})" for name in untested]
        yield f"{best} has only one seed in common with {listed(shown)}, so nothing is tested."
    if separate := [name for name in ranked if name != best and name not in against]:
        yield f"{listed(separate)} {'has' if len(separate) == 1 else 'have'} no seed in common with {best}, so nothing is tested."


def _undecided(
    comparison: Comparison, best: str, names: Sequence[str], against: dict[str, PairedDifference]
) -> Iterator[str]:  # fmt: skip
    lead = f"It is undecided whether {best} is better than"
    if len(names) == 1:
        yield f"{lead} {names[0]}: {_effect(comparison, against[names[0]], best)}."
    elif names:
        pairs = [against[name] for name in names]
        shown = names
        if len(names) <= IN_DETAIL:
            shown = [f"{name} ({_short_effect(comparison, pair, best)})" for name, pair in zip(names, pairs, strict=True)]
        seeds = _seeds(comparison, min(pairs, key=lambda pair: _common_seeds(comparison, pair)))
        yield f"{lead} {alternatives(shown)}: {_p_values(comparison, pairs, 'at least')}, {seeds}."


def _equivalent(
    comparison: Comparison, best: str, names: Sequence[str], against: dict[str, PairedDifference]
) -> Iterator[str]:  # fmt: skip
    effect = f"{comparison.smallest_effect:g}{_unit(comparison)}" if comparison.smallest_effect else ""
    if len(names) > IN_DETAIL:
        yield f"{best} is equivalent to {listed(names)}: each difference in {comparison.metric} is smaller than {effect}."
        return
    for name in names:
        pair = against[name]
        decimals = _decimals(pair, comparison.smallest_effect)
        known = f"{_interval(pair, decimals)}, {p_text(pair.p_equivalent)}{_adjusted(comparison, 'Bonferroni')}"
        yield (
            f"{best} and {name} are equivalent: their {comparison.metric} differs by less than the smallest effect of {effect} "
            f"({known}, {_seeds(comparison, pair)})."
        )


def _better(comparison: Comparison, leaders: Sequence[str], worse: Sequence[str]) -> Iterator[str]:
    """The candidates that the leaders are better than; a sentence for all leaders only if it holds for each."""
    decided = {frozenset((p.first, p.second)): p for p in comparison.pairs if p.verdict == "different"}
    by = {name: [one for one in leaders if frozenset((one, name)) in decided] for name in worse}
    if names := [name for name in worse if len(by[name]) == len(leaders)]:
        known = _p_values(comparison, [decided[frozenset((one, name))] for name in names for one in leaders], "at most")
        yield f"{'Both' if len(leaders) == 2 else 'All'} are better than {listed(names)} ({known})."
    for name in worse:
        if 0 < len(by[name]) < len(leaders):
            known = _p_values(comparison, [decided[frozenset((one, name))] for one in by[name]], "at most")
            yield f"{listed(by[name])} {'is' if len(by[name]) == 1 else 'are'} better than {name} ({known})."


def _effect(comparison: Comparison, pair: PairedDifference, best: str, than: str = "") -> str:
    """ "its loss is 0.058 nats lower (95 % interval 0.041 to 0.075, p = 0.002 after Holm, 5 seeds)"."""
    effect = f"its {comparison.metric} is {_difference(comparison, pair, best)}{f' than {than}' if than else ''}"
    if pair.p is None:
        return f"{effect} with every seed they share, so there is no spread to test it with"
    known = f"{_interval(pair, _decimals(pair, None))}, {p_text(pair.p)}{_adjusted(comparison, 'Holm')}"
    return f"{effect} ({known}, {_seeds(comparison, pair)})"


def _short_effect(comparison: Comparison, pair: PairedDifference, best: str) -> str:
    """ "loss 0.058 nats lower, 95 % interval 0.041 to 0.075"."""
    effect = f"{comparison.metric} {_difference(comparison, pair, best)}"
    return effect if pair.p is None else f"{effect}, {_interval(pair, _decimals(pair, None))}"


def _difference(comparison: Comparison, pair: PairedDifference, best: str) -> str:
    """ "0.058 nats lower"."""
    difference = pair.difference if pair.first == best else -pair.difference
    way = "lower" if difference < 0 else "higher"
    return f"{abs(difference):.{_decimals(pair, None)}f}{_unit(comparison)} {way}"


def _interval(pair: PairedDifference, decimals: int) -> str:
    """The interval of the difference, in the direction in which the difference is positive."""
    assert pair.low is not None
    assert pair.high is not None
    ends = (pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low)
    low, high = (f"{end:.{decimals}f}" for end in ends)
    return f"95 % interval {low} to {high}"


def _decimals(pair: PairedDifference, limit: float | None) -> int:
    """Digits after the point: two of half the interval, and enough that no end is rounded across 0 or the limit."""
    if pair.low is None or pair.high is None:
        return decimal_digits(abs(pair.difference), 3)
    limits = [0.0] if limit is None else [-limit, limit]
    decimals = decimal_digits((pair.high - pair.low) / 2, 2)
    while decimals < DECIMALS and any(
        (end < bound) != (round(end, decimals) < bound) or (end > bound) != (round(end, decimals) > bound)
        for end in (pair.low, pair.high)
        for bound in limits
    ):
        decimals += 1
    return decimals


def _adjusted(comparison: Comparison, rule: str) -> str:
    return f" after {rule}" if sum(pair.p is not None for pair in comparison.pairs) > 1 else ""


def _p_values(comparison: Comparison, pairs: Sequence[PairedDifference], bound: str) -> str:
    """The p-values of several pairs. bound: "at most", the largest one, or "at least", the smallest one."""
    p = [pair.p for pair in pairs if pair.p is not None]
    if not p:
        return "there is no spread to test the differences with"
    text = p_text(max(p) if bound == "at most" else min(p))
    return (text.replace("= ", f"{bound} ") if len(p) > 1 else text) + _adjusted(comparison, "Holm")


def _common_seeds(comparison: Comparison, pair: PairedDifference) -> int:
    """The number of seeds with which both candidates have a number."""
    seeds: dict[str, set[int]] = defaultdict(set)
    for trial in comparison.trials:
        if trial.value is not None:
            seeds[trial.candidate].add(trial.seed)
    return len(seeds[pair.first] & seeds[pair.second])


def _seeds(comparison: Comparison, pair: PairedDifference) -> str:
    """The number of seeds, and of which look."""
    count, planned = _common_seeds(comparison, pair), [look.seeds for look in comparison.looks if look.planned]
    look = current_look(comparison)
    if look is not None and not look.planned:
        return f"{count} seeds, {look.seeds - planned[-1]} of them not planned"
    if len(planned) > 1 and count < planned[-1]:
        return f"{count} of at most {planned[-1]} seeds"
    return counted(count, "seed")


def _unit(comparison: Comparison) -> str:
    return " nats" if (comparison.task, comparison.metric) == ("language", "loss") else ""


def values_by_candidate(comparison: Comparison) -> dict[str, list[float]]:
    """The metric of each candidate, one value for each seed."""
    values: dict[str, list[float]] = {c.name: [] for c in comparison.candidates}
    for trial in comparison.trials:
        if trial.value is not None:
            values[trial.candidate].append(trial.value)
    return values
