"""Smooth: as one point moves past the others, energy and forces go on without a jump.

A cutoff without an envelope lets both jump when an atom crosses it, and so do neighbours that are chosen by their number; a
dynamics then gains or loses energy at every crossing. So one point is moved away from another, first of two and then of all,
from very near to beyond the cutoff. What is odd on that way (the fourth difference of five readings) is looked at ever closer:
of a smooth function it vanishes, of a jump it stays. A cutoff that the model says is looked at to the ninth digit from the start.
Of a model without an energy, its outputs are read.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.diagnose.localize import localize
from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.measured_property import MeasuredProperty
from equiscope.audit.statements.pairs import RunPair, Sides, Unchanged
from equiscope.audit.statements.space.forces import Forces, gap, places
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.record import Counterexample, Row
from equiscope.symmetry import Inputs

CUTOFFS = ("cutoff", "r_max", "max_radius", "cutoff_upper", "r_cut", "rcut", "radius", "valid_radius", "rc")
FAR = 12.0  # how far a point is moved where no cutoff is said
NARROW = 1e-8  # of the way: what still jumps over it is a jump
FINE = 1e-3  # what is sought at first where no cutoff is said
CLOSE = 1e-13
JUMP = 1e-9  # of the size of what is read; in float64 rounding is far below
ENDLESS = 1e3  # times what is read elsewhere: a potential that grows without end may have no number at 0
EDGE = 1e-6  # of a cutoff that is said: so closely it is looked at from the start
WIDTHS = torch.tensor([1.0, -4.0, 6.0, -4.0, 1.0], dtype=torch.float64) / 16


@dataclass
class Way:
    """One point on its way: readings by distance, and where they are oddest.

    read  distance -> what is read, by name
    """

    read: Callable[[float], dict[str, Tensor]]
    known: dict[float, dict[str, Tensor]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def at(self, t: float) -> dict[str, Tensor]:
        if t not in self.known:
            self.known[t] = self.read(t)
        return self.known[t]

    def measure(self, span: tuple[float, float]) -> None:
        """How large each reading is, as a rule: where the points are as near as those given."""
        start, far = span
        for t in (2 * start, 3 * start, start + far / 20, far / 2):
            for name, reading in self.at(t).items():
                size = reading.norm().item()
                if name not in self.scales and 0 < size < math.inf:
                    self.scales[name] = size

    def odd(self, a: float, b: float) -> tuple[float, str]:
        """The fourth difference of five readings between, beside the size of what is read; and of which."""
        five = [self.at(a + (b - a) * k / 4) for k in range(5)]
        found = []
        for name, scale in self.scales.items():
            stack = torch.stack([one[name].flatten() for one in five])
            difference = (WIDTHS[:, None] * stack).sum(0).norm().item()
            found.append((difference / scale if difference == difference else math.inf, name))
        return max(found, default=(0.0, ""))

    def jump(self, a: float, b: float) -> dict[str, float]:
        """How far each reading goes in one step."""
        before, after = self.at(a), self.at(b)
        return {n: (after[n] - before[n]).norm().item() / scale for n, scale in self.scales.items()}


class Beside(Unchanged):
    """Nothing changes, measured beside 1: what vanishes at a cutoff has no size of its own."""

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        if original.shape != transformed.shape:
            return None
        one = torch.ones(1, dtype=original.dtype, device=original.device)
        return torch.cat([original.flatten(), one]), torch.cat([transformed.flatten(), one])


class Smooth(MeasuredProperty):
    """Energy and forces are continuous."""

    name = "smooth"
    summary = "energy and forces do not jump when a point comes near, or passes a cutoff"
    expected = True  # of what is called an energy, or comes with forces
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        points = places(subject.inputs)
        if points is None:
            return "the model is given no points in space"
        if points.shape[-2] < 2:
            return "there is one point only"
        try:
            self.forces = Forces.of(subject)
        except Crashed as crash:
            return str(crash)
        self.expected = self.forces is not None and (self.forces.said or bool(self.forces.forces))
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run, cutoff = subject.in_dtype(torch.float64), said_cutoff(subject.model)
        odd, seen, crashed = 0.0, list[str](), ""
        for words, inputs in self._sets(run):
            path, edges = self._path(run, inputs, subject.seed, cutoff)
            way, span = Way(lambda t, path=path: self._read(run, path(t))), _span(inputs, cutoff)  # type: ignore[misc]
            try:
                way.measure(span)
                if ends := self._together(way):
                    return self.row("broken", [math.inf], cause=ends)
                place, left = follow(way, span, edges, 20 * count)
                if place is None and cutoff is None and left > FINE:
                    place, left = follow(way, span, edges, 40 * count)
            except Crashed as crash:
                crashed = str(crash)
                continue
            if place is not None:
                return self._broken(run, way, path, place, words, cutoff, tolerance)
            odd, seen = max(odd, left), [*seen, words]
        if not seen:
            return self.row("undecided", note=crashed or "no two points can be moved")
        what = "energy and forces" if self.forces is not None else "outputs"
        reach = f"cutoff {cutoff:g}" if cutoff else f"to a distance of {_span(run.inputs, cutoff)[1]:g}"
        note = f"{what}, {' and '.join(seen)}, {reach}; jumps below {max(odd, JUMP):.1e} could hide"
        if cutoff is None and odd > tolerance:
            return self.row("undecided", note=f"{note}. Ask for more effort, or let the model say its cutoff")
        return self.row("holds", [0.0], floor=max(odd, JUMP), note=note)

    def _read(self, run: Pass, inputs: Inputs) -> dict[str, Tensor]:
        if self.forces is None:
            return {n: t for n, t in run.outputs_of(inputs.call).items() if t.is_floating_point()}
        energy, forces = self.forces.both(run, inputs)
        return {"energy": energy, "forces": forces}

    def _sets(self, run: Pass) -> Iterator[tuple[str, Inputs]]:
        """Two points alone, whose distance is all there is; then all of them."""
        one = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        if not one.has("edges", "pairs"):
            yield "of two points", one.rows(_two(one))
        if (one.length or 0) > 2 or one.has("edges", "pairs"):
            yield "of all points", one

    def _path(
        self, run: Pass, inputs: Inputs, seed: int, cutoff: float | None
    ) -> tuple[Callable[[float], Inputs], list[float]]:  # fmt: skip
        """Inputs in which the second of two points is so far from the first; and where it passes the cutoff of others."""
        i, j = _two(inputs)
        direction = torch.randn(3, generator=torch.Generator().manual_seed(seed + 53), dtype=torch.float64)
        direction = direction / direction.norm()
        name, points = next((n, t) for n, t in inputs.of("points").items())

        def path(t: float) -> Inputs:
            transformed = points.detach().clone()
            transformed[..., j, :] = transformed[..., i, :] + (t * direction).to(transformed)
            return inputs.with_values({name: transformed})

        others = points.detach().double().cpu().reshape(-1, *points.shape[-2:])[0]
        offsets = (others[i] - others)[[k for k in range(len(others)) if k not in (i, j)]]
        return path, _edges(offsets, direction, cutoff)

    def _together(self, way: Way) -> str:
        """What is wrong where two points are at one place; empty where nothing is."""
        here, near = way.at(0.0), way.at(1e-6)
        for name, scale in way.scales.items():
            if bool(torch.isnan(here[name]).any()) and near[name].norm().item() < ENDLESS * scale:
                return f"NaN in {name or 'the output'} where two points are at one place"
        return ""

    def _broken(
        self, run: Pass, way: Way, path: Any, place: tuple[float, float], words: str, cutoff: float | None, tolerance: float
    ) -> Row:  # fmt: skip
        a, b = place
        jumps = way.jump(a, b)
        worst = max(jumps, key=lambda n: jumps[n])
        size, many = jumps[worst], " and ".join(f"{n or 'output'} ({jumps[n]:.1e})" for n in sorted(jumps) if jumps[n] > JUMP)
        where = f"at a distance of {(a + b) / 2:.6g}" + (", the cutoff of the model" if _is(cutoff, a, b) else "")
        cause = f"a jump of {many} {where}, {words}; 1 is what is read at usual distances"
        try:
            found = localize(run, RunPair(path(a), path(b), Beside(), ""), True)
        except Crashed:
            found = None
        text = f"move one point from {a:.15g} to {b:.15g} away from another, {words}"
        example = Counterexample(text=text, error=size, element={"from": a, "to": b}, inputs={}, parameters="given")
        module = found.module if found is not None else type(run.model).__name__
        verdict: Any = "approximate" if size < tolerance else "broken"
        return self.row(verdict, [size], floor=JUMP, where=module, cause=cause, counterexample=example)


def follow(way: Way, span: tuple[float, float], edges: list[float], budget: int) -> tuple[tuple[float, float] | None, float]:
    """Where a reading jumps, from before to after, or None; and the oddest that is left where the budget ends.

    span  where the way begins and ends; edges: what is looked at closely from the start
    """
    start, far = span
    grid = [start + (far - start) * k / 12 for k in range(13)]
    for edge in edges:
        close = EDGE * far
        grid = [*(t for t in grid if abs(t - edge) > 0.01 * far), *(edge + k * close for k in (-1.3, 1.7))]
    grid = sorted(set(grid))
    heap = [_found(way, a, b, 0.0, 0, b - a < 4 * EDGE * far) for a, b in pairwise(grid)]
    heapq.heapify(heap)
    budget += len(way.known)
    while len(way.known) < budget and heap:
        _, odd, stubborn, a, b = heapq.heappop(heap)
        if odd < JUMP:
            continue
        if b - a < NARROW * far:
            return _closer(way, a, b), odd
        middle = (a + b) / 2
        for part in ((a, middle), (middle, b)):
            heapq.heappush(heap, _found(way, *part, odd, stubborn))
    return None, max((one[1] for one in heap), default=0.0)


def _found(
    way: Way, a: float, b: float, before: float, stubborn: int, first: bool = False
) -> tuple[float, float, int, float, float]:  # fmt: skip
    """An interval for the heap: first those that were said, then what does not get less odd where it is halved, as around a jump.

    Five readings show 1/16 or 3/16 of a jump, depending on where it lies; of what has two derivatives a quarter is left.
    """
    odd = way.odd(a, b)[0]
    stubborn = 30 if first else stubborn + 1 if odd > 0.3 * before > 0 else 0
    return -odd * 2**stubborn, odd, stubborn, a, b


def _closer(way: Way, a: float, b: float) -> tuple[float, float]:
    """Just before the jump and just after it, so close that whatever else happens there is rounding."""
    while b - a > CLOSE * b:
        middle = (a + b) / 2
        a, b = max(((a, middle), (middle, b)), key=lambda step: max(way.jump(*step).values()))
    return a, b


def _edges(offsets: Tensor, direction: Tensor, cutoff: float | None) -> list[float]:
    """Distances t on the way at which |apart + t direction| is the cutoff, for a few others [N, 3], and for where it begins."""
    if cutoff is None:
        return []
    along = offsets[:4] @ direction
    root = (along.square() - offsets[:4].square().sum(-1) + cutoff**2).clamp_min(0.0).sqrt()
    crossed = torch.cat([-along - root, -along + root])[root.repeat(2) > 0].tolist()
    return [cutoff, *(t for t in crossed if 0.05 * cutoff < t < 1.4 * cutoff)]


def said_cutoff(model: nn.Module) -> float | None:
    """The distance beyond which nobody is seen, where the model, its spec, its configuration or a part of it says one."""
    holders = [getattr(model, n) for n in ("spec", "config") if hasattr(model, n)]
    for holder in (*holders, *model.modules()):
        for name in CUTOFFS:
            value = getattr(holder, name, 0)
            if value is None and holder is not model:  # said: none
                return None
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e3:
                return float(value)
    return None


def _span(inputs: Inputs, cutoff: float | None) -> tuple[float, float]:
    """From half of how near points are given, to beyond the cutoff."""
    near = gap(inputs)
    return (0.5 * near, max(FAR, 4 * near)) if cutoff is None else (min(0.5 * near, 0.3 * cutoff), 1.5 * cutoff)


def _is(cutoff: float | None, a: float, b: float) -> bool:
    return cutoff is not None and abs((a + b) / 2 - cutoff) < 1e-6 * cutoff


def _two(inputs: Inputs) -> list[int]:
    """Two points that are there: rows of atoms with the number 0 are none."""
    n = inputs.length or 0
    kinds = [t.reshape(-1, n)[0].tolist() for t in inputs.of("atoms").values()]
    real = [i for i in range(n) if all(kind[i] != 0 for kind in kinds)]
    return (real * 2)[:2] if len(real) < 2 else [real[0], real[1]]


__all__ = ["Smooth", "said_cutoff"]
