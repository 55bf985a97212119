"""Both sides step by step: each value of A beside its equal in B, in layers, with a block of the numbers of each."""

import math
from itertools import groupby

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import Alignment, difference, sorted_numbers
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Side
from equiscope.record import ParityLayer, ParityPair

STEPS = 1200  # the most that are listed
ROWS, COLUMNS, DIGITS = 5, 6, 7  # of a block of numbers


def layers(a: Side, b: Side, alignment: Alignment, where: Divergence | None) -> list[ParityLayer]:
    """Both sides in the order of A; what B computes in between stands before the next step that both have."""
    order = _merged(a, b, alignment, where)[:STEPS]
    pairs = [(x, y, _pair(a, b, x, y, where)) for x, y in order]
    named, layer = [], ("", "")
    for x, y, pair in pairs:
        layer = (layer[0] if x is None else layer_of(_module(a, x)), layer[1] if y is None else layer_of(_module(b, y)))
        named.append((layer, pair))
    found = []
    for ours, group in groupby(named, key=lambda one: one[0][0]):
        both = list(group)
        theirs = next((names[1] for names, pair in both if pair.state != "unpaired"), both[-1][0][1])
        steps = [pair for _, pair in both]
        states = [pair.state for pair in steps]
        found.append(ParityLayer(a=ours, b=theirs, paired=states.count("equal"), differs="differs" in states, pairs=steps))
    return found


def layer_of(module: str) -> str:
    """The path up to its first number: "model.layers.0" of "model.layers.0.mlp"; empty without one."""
    parts = module.replace("/", ".").strip(".").split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[: number + 1])


def _module(side: Side, value: int) -> str:
    node = side.maker.get(value)
    return "" if node is None else node.module


def _merged(a: Side, b: Side, alignment: Alignment, where: Divergence | None) -> list[tuple[int | None, int | None]]:
    first = None if where is None or where.b_step is None else (where.a_step.value, where.b_step.value)
    partner = dict(alignment.pairs) | ({first[0]: first[1]} if first is not None else {})
    taken = set(partner.values())
    theirs = [value for value in _listed(b) if value not in taken]
    place = {node.value: i for i, node in enumerate(b.nodes)}
    found: list[tuple[int | None, int | None]] = []
    shown = set[int]()
    first_of, stage_of = _stages(a, _listed(a)), _stages(b, theirs + [v for v in _listed(b) if v in taken])
    for value in _listed(a):
        while theirs and partner.get(value) is None and stage_of[theirs[0]] < first_of[value]:
            found.append((None, theirs.pop(0)))
        other = partner.get(value)
        if other is not None and other in shown:
            other = None if a.source(value) == value else other
        while other is not None and theirs and place[theirs[0]] < place.get(other, -1):
            found.append((None, theirs.pop(0)))
        if other is not None:
            shown.add(other)
        found.append((value, other))
    return found + [(None, value) for value in theirs]


def _stages(side: Side, values: list[int]) -> dict[int, int]:
    """By value, the number of its layer, in the order in which the layers begin."""
    stages, names = dict[int, int](), list[str]()
    for value in sorted(values, key={node.value: i for i, node in enumerate(side.nodes)}.__getitem__):
        name = layer_of(_module(side, value))
        if not names or (name != names[-1] and (name not in names or name == "")):
            names.append(name)
        stages[value] = len(names) - 1
    return stages


def _listed(side: Side) -> list[int]:
    """Values with numbers of their own that depend on the input."""
    return [
        node.value
        for node in side.nodes
        if node.value in side.moving and side.is_number(node.value) and node.op not in MOVEMENT and side.high[node.value].numel()
    ]


def _pair(a: Side, b: Side, x: int | None, y: int | None, where: Divergence | None) -> ParityPair:
    step_a, step_b = (None if v is None else side.describe(v) for side, v in ((a, x), (b, y)))
    if x is None or y is None:
        one = a.numbers(x) if x is not None else b.numbers(y) if y is not None else torch.empty(0)
        shown = _block(_matrix(one), 0, 0)
        return ParityPair(
            state="unpaired", a=step_a, b=step_b, numbers_a=[] if x is None else shown, numbers_b=[] if y is None else shown
        )
    ours, theirs = a.numbers(x), b.numbers(y)
    differs = where is not None and x == where.a_step.value
    error, row, column = _error(ours, theirs)
    blocks = [_block(_matrix(t), row, column) for t in (ours, theirs)]
    return ParityPair(
        state="differs" if differs else "equal", error=error, row=row, column=column, numbers_a=blocks[0],
        numbers_b=[] if blocks[0] == blocks[1] else blocks[1], a=step_a, b=step_b,
    )  # fmt: skip


def _error(a: Tensor, b: Tensor) -> tuple[float | None, int, int]:
    """The relative difference, and the row and column where a block should begin to show it."""
    if a.numel() != b.numel():
        return None, 0, 0
    straight = difference(a.flatten(), b.flatten())
    first, second = sorted_numbers(a), sorted_numbers(b)
    if first is not None and second is not None and first.shape == second.shape and difference(first, second) < 1e-3 * straight:
        return difference(first, second), 0, 0  # the same numbers in another order
    if not math.isfinite(straight) or straight < 1e-6:
        return (straight if math.isfinite(straight) else None), 0, 0
    gap = (a.flatten() - b.flatten()).abs().nan_to_num(0.0, 0.0, 0.0)
    row, column = divmod(int(gap.argmax()), a.shape[-1] if a.ndim else 1)
    height, width = _matrix(a).shape
    return straight, max(min(row - ROWS // 2, height - ROWS), 0), max(min(column - COLUMNS // 2, width - COLUMNS), 0)


def _matrix(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1] if t.ndim else 1)


def _block(t: Tensor, row: int, column: int) -> list[list[float | None]]:
    return [
        [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in line]
        for line in t[row : row + ROWS, column : column + COLUMNS].to(torch.float64).tolist()
    ]
