"""Beside: which layers of two models are compared, and what became of each head."""

from collections.abc import Sequence

from msgspec.structs import replace

from equiscope import record
from equiscope.errors import InputError
from equiscope.program.attended.attended import Attended
from equiscope.program.attended.beside import apart
from equiscope.record import Layer, Line

Kind = tuple[int | None, int | None, bool]  # lines of who asks and who answers, and whether a layer goes from one to another


def paired(one: record.Heads, other: record.Heads) -> list[int | None]:
    """For each layer of one model the number of the other's that it stands beside, if any.

    Layers stand in the order in which they run, those of an encoder apart from those of a decoder; rows and heads must be alike.
    raises  InputError where no layer has a partner: the sentence says what differs
    """
    lines = [_partner(one.lines, line, place) for place, line in enumerate(other.lines)]
    if lines[other.layers[0].asks] is None:
        raise InputError(_differs(one.lines[one.layers[0].asks], other.lines[other.layers[0].asks], one.target, other.target))
    waiting: dict[Kind, list[int]] = {}
    for place, layer in enumerate(other.layers):
        waiting.setdefault((lines[layer.asks], lines[layer.answers], layer.cross), []).append(place)
    found = list[int | None]()
    for layer in one.layers:
        left = waiting.get((layer.asks, layer.answers, layer.cross), [])
        number = left.pop(0) if left else None
        found.append(number if number is not None and len(other.layers[number].heads) == len(layer.heads) else None)
    if all(number is None for number in found):
        heads = [f"{len(c.layers[0].heads)} heads a layer in {c.target}" for c in (one, other)]
        raise InputError(f"There are {' and '.join(heads)}, so no two can be compared. Give two models of one layout.")
    return found


def beside(
    one: record.Heads, other: record.Heads, partners: Sequence[int | None], ours: Sequence[Attended], theirs: Sequence[Attended],
    names: Sequence[str],
) -> record.Beside:  # fmt: skip
    """The record of the other model. ours, theirs: what was seen of the layers; names: short ones of both."""
    layers: list[Layer | None] = [
        None if number is None else replace(other.layers[number], asks=layer.asks, answers=layer.answers)
        for layer, number in zip(one.layers, partners, strict=True)
    ]
    far = [[] if n is None else apart(found, theirs[n]) for found, n in zip(ours, partners, strict=True)]
    return record.Beside(
        target=other.target, names=list(names), model=other.model, parameters=other.parameters, dtype=other.dtype, layers=layers,
        apart=far,
    )  # fmt: skip


def lonely(one: record.Heads, other: record.Heads, partners: Sequence[int | None]) -> list[str]:
    """What of both models could not be compared, as notes."""
    counts = [len(c.layers) - sum(number is not None for number in partners) for c in (one, other)]
    said = [f"{count} of {c.target}" for count, c in zip(counts, (one, other), strict=True) if count]
    return [f"Some layers have no partner of the same rows and as many heads: {' and '.join(said)}."] if said else []


def _partner(lines: Sequence[Line], other: Line, place: int) -> int | None:
    """The number of the line that stands for the same: the one at the same place where several do."""
    fits = [i for i, line in enumerate(lines) if _alike(line, other)]
    return place if place in fits else fits[0] if fits else None


def _alike(one: Line, other: Line) -> bool:
    """Whether rows of the two lines stand for the same."""
    return (one.kind, one.labels, one.grid, one.before) == (other.kind, other.labels, other.grid, other.before)


def _differs(one: Line, other: Line, target: str, theirs: str) -> str:
    counts = [len(line.labels) for line in (one, other)]
    if counts[0] != counts[1]:
        said = f"the input is {counts[0]} {one.kind} for {target}, but {counts[1]} {other.kind} for {theirs}"
    elif one.kind == "patches" and (one.grid, one.before) != (other.grid, other.before):
        said = f"{target} has {one.before} tokens before {one.grid} patches, but {theirs} {other.before} before {other.grid}"
    else:
        place = next((i for i, labels in enumerate(zip(one.labels, other.labels, strict=True)) if labels[0] != labels[1]), 0)
        said = f"token {place + 1} is {one.labels[place]!r} for {target}, but {other.labels[place]!r} for {theirs}"
    return f"The two models do not see the same rows: {said}. Give two that share a tokenizer, or the size of a patch."
