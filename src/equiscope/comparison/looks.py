"""Looks: the numbers of seeds at which all pairs are tested. They are fixed before the runs.

A comparison ends at the first look that decides every pair. Each look tests at its own level, a part of the 5 %: a look and all
looks before it together use (seeds of the look / all seeds)^3 of the 5 %, so most is left for the last look, as with O'Brien and
Fleming's boundary. The levels add up to 5 %. By the union bound the error rate is therefore at most 5 % for any number of looks,
however these depend on each other.
Sources: Lan & DeMets 1983, "Discrete Sequential Boundaries for Clinical Trials"; Kim & DeMets 1987, "Design and Analysis of Group
Sequential Tests Based on the Type I Error Spending Rate Function".
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from equiscope.comparison.prose import listed
from equiscope.comparison.significance import LEVEL
from equiscope.errors import InputError
from equiscope.record import Comparison, Look, PairedDifference

SPENDING = 3  # exponent of the spending function


def checked(looks: Sequence[int], seeds: int) -> list[int]:
    """The looks of a comparison with this number of seeds. Raises InputError unless they ascend from 2 or more to it."""
    if looks and (list(looks) != sorted(set(looks)) or looks[0] < 2 or looks[-1] != seeds):
        raise InputError(
            f"Looks are numbers of seeds that ascend from 2 or more to the number of all seeds, {seeds}, but got {list(looks)}. "
            f"Give {f'for example {max(2, seeds // 2)},{seeds}' if seeds > 2 else 'more seeds'}."
        )
    return list(looks)


def looks_at(planned: Sequence[int], added: Sequence[int] = ()) -> list[Look]:
    """The looks at these numbers of seeds. Looks that were added after the planned ones each test at LEVEL."""
    return [
        *(Look(seeds=seeds, level=level) for seeds, level in zip(planned, spending(planned), strict=True)),
        *(Look(seeds=seeds, level=LEVEL, planned=False) for seeds in added),
    ]


def spending(looks: Sequence[int]) -> list[float]:
    """The level of each look; together they are LEVEL. looks: numbers of seeds, ascending; the last is the number of all seeds."""
    until = [0.0, *(LEVEL * (seeds / looks[-1]) ** SPENDING for seeds in looks)]
    return [now - before for before, now in pairwise(until)]


def current_look(comparison: Comparison) -> Look | None:
    """The first look that the seeds so far do not exceed, or else the last one; None if no look is recorded."""
    reached = [look for look in comparison.looks if look.seeds >= len(comparison.seeds)] or comparison.looks[-1:]
    return reached[0] if reached else None


def all_decided(pairs: Sequence[PairedDifference]) -> bool:
    """Whether there are pairs and none is undecided, so that the comparison can end at this look."""
    return bool(pairs) and all(pair.verdict != "undecided" for pair in pairs)


def notes_of_looks(comparison: Comparison, left: int) -> Iterator[str]:
    """Notes: whether the number of seeds was fixed before the runs, and the level of each of several looks."""
    if not any(pair.p is not None for pair in comparison.pairs):
        return
    if not comparison.looks:
        yield "Whether the number of seeds was fixed before the runs is not recorded. The verdicts hold only if it was."
        return
    planned, look = [one for one in comparison.looks if one.planned], current_look(comparison)
    if len(planned) > 1:
        spent = listed([f"{one.seeds} seeds ({100 * one.level:.3g} %)" for one in planned])
        yield f"Looks were planned at {spent}: together they spend the {100 * LEVEL:g} % that a single look would."
    if look is not None and look.seeds < planned[-1].seeds and not left:
        done = all_decided(comparison.pairs)
        yield (
            f"The look at {look.seeds} seeds decided every pair, so the comparison ended there."
            if done
            else f"The look at {look.seeds} seeds left pairs undecided. The same command goes on to the next look."
        )
    if look is not None and not look.planned:
        level = LEVEL + sum(one.level for one in comparison.looks if not one.planned)
        added = look.seeds - planned[-1].seeds
        yield (
            f"{added} seed{' was' if added == 1 else 's were'} added after the last planned look, at {planned[-1].seeds} seeds, "
            f"which had spent the {100 * LEVEL:g} %. "
            f"A difference is reported falsely in up to {100 * level:g} % of such comparisons."
        )
