"""Smooth: energy and forces have no jump while one point moves past the others.

With a cutoff without an envelope both jump when an atom crosses it, and so they do with a fixed number of neighbours; molecular
dynamics then gains or loses energy at every crossing. Here one point moves away from another, first among two points and then
among all, from very near to beyond the cutoff. Intervals with a large fourth difference of five values are bisected: for a smooth
function it vanishes, for a jump it stays. A cutoff declared by the model is examined to the ninth digit from the start. For a
model without an energy, its outputs are examined.
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
from equiscope.audit.statements.space.forces import Forces, nearest_distance, points_of
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.record import Counterexample, Row
from equiscope.symmetry import Inputs

CUTOFFS = ("cutoff", "r_max", "max_radius", "cutoff_upper", "r_cut", "rcut", "radius", "valid_radius", "rc")
FAR = 12.0  # how far a point is moved where no cutoff is declared
NARROWEST = 1e-8  # of the path: a change within it is a jump
SMOOTH_ENOUGH = 1e-3  # roughness that is accepted at first where no cutoff is declared
CLOSEST = 1e-13
JUMP = 1e-9  # relative to the size of the values; in float64 rounding is far below
DIVERGES = 1e3  # times the size elsewhere: a potential that diverges may be NaN at distance 0
NEAR_CUTOFF = 1e-6  # of a declared cutoff: this close it is examined from the start
WIDTHS = torch.tensor([1.0, -4.0, 6.0, -4.0, 1.0], dtype=torch.float64) / 16


@dataclass
class PointPath:
    """One point on its path: values by distance, and where they are roughest.

    read      distance -> values by name
    readings  distance -> values, once read
    scales    the typical size of each value
    """

    read: Callable[[float], dict[str, Tensor]]
    readings: dict[float, dict[str, Tensor]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def values_at(self, t: float) -> dict[str, Tensor]:
        if t not in self.readings:
            self.readings[t] = self.read(t)
        return self.readings[t]

    def measure(self, span: tuple[float, float]) -> None:
        """Set the typical size of each value, at distances like those of the given points."""
        start, end = span
        for t in (2 * start, 3 * start, start + end / 20, end / 2):
            for name, reading in self.values_at(t).items():
                size = reading.norm().item()
                if name not in self.scales and 0 < size < math.inf:
                    self.scales[name] = size

    def roughness(self, a: float, b: float) -> tuple[float, str]:
        """The largest fourth difference of five values in an interval, relative to their size; and the name of the value."""
        five = [self.values_at(a + (b - a) * k / 4) for k in range(5)]
        location = []
        for name, scale in self.scales.items():
            stack = torch.stack([one[name].flatten() for one in five])
            difference = (WIDTHS[:, None] * stack).sum(0).norm().item()
            location.append((difference / scale if difference == difference else math.inf, name))
        return max(location, default=(0.0, ""))

    def jump(self, a: float, b: float) -> dict[str, float]:
        """The relative change of each value from a to b."""
        before, after = self.values_at(a), self.values_at(b)
        return {n: (after[n] - before[n]).norm().item() / scale for n, scale in self.scales.items()}


class UnitScaled(Unchanged):
    """Outputs are equal, relative to 1: values that vanish at a cutoff have no scale of their own."""

    def inner(self, original: Tensor, transformed: Tensor) -> Sides | None:
        if original.shape != transformed.shape:
            return None
        one = torch.ones(1, dtype=original.dtype, device=original.device)
        return torch.cat([original.flatten(), one]), torch.cat([transformed.flatten(), one])


class Smooth(MeasuredProperty):
    """Energy and forces are continuous."""

    name = "smooth"
    summary = "energy and forces do not jump when a point comes near, or passes a cutoff"
    expected = True  # of outputs named energy, or returned with forces
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        points = points_of(subject.inputs)
        if points is None:
            return "the inputs have no points in space"
        if points.shape[-2] < 2:
            return "there is only one point"
        try:
            self.forces = Forces.of(subject)
        except ModelError as crash:
            return str(crash)
        self.expected = self.forces is not None and (self.forces.named_energy or bool(self.forces.forces))
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run, cutoff = subject.in_dtype(torch.float64), declared_cutoff(subject.model)
        roughness, measured_sets, crashed = 0.0, list[str](), ""
        for set_name, inputs in self._point_sets(run):
            path, edges = self._point_path(run, inputs, subject.seed, cutoff)
            path_of_point, span = PointPath(lambda t, path=path: self._read(run, path(t))), _span(inputs, cutoff)  # type: ignore[misc]
            try:
                path_of_point.measure(span)
                if ends := self._coincident(path_of_point):
                    return self.row("broken", [math.inf], cause=ends)
                interval, remaining = find_jump(path_of_point, span, edges, 20 * count)
                if interval is None and cutoff is None and remaining > SMOOTH_ENOUGH:
                    interval, remaining = find_jump(path_of_point, span, edges, 40 * count)
            except ModelError as crash:
                crashed = str(crash)
                continue
            if interval is not None:
                return self._broken(run, path_of_point, path, interval, set_name, cutoff, tolerance)
            roughness, measured_sets = max(roughness, remaining), [*measured_sets, set_name]
        if not measured_sets:
            return self.row("undecided", note=crashed or "no two points can be moved")
        what = "energy and forces" if self.forces is not None else "outputs"
        reach = f"cutoff {cutoff:g}" if cutoff else f"to a distance of {_span(run.inputs, cutoff)[1]:g}"
        note = f"{what}, {' and '.join(measured_sets)}, {reach}; jumps below {max(roughness, JUMP):.1e} could hide"
        if cutoff is None and roughness > tolerance:
            return self.row("undecided", note=f"{note}. Choose a higher effort, or declare the cutoff in the model")
        return self.row("holds", [0.0], floor=max(roughness, JUMP), note=note)

    def _read(self, run: Pass, inputs: Inputs) -> dict[str, Tensor]:
        if self.forces is None:
            return {n: t for n, t in run.outputs_of(inputs.call).items() if t.is_floating_point()}
        energy, forces = self.forces.energy_and_forces(run, inputs)
        return {"energy": energy, "forces": forces}

    def _point_sets(self, run: Pass) -> Iterator[tuple[str, Inputs]]:
        """Two points alone, then all points; each with its description."""
        one = sequence(run.inputs, 0) if run.inputs.batch is not None else run.inputs
        if not one.has("edges", "pairs"):
            yield "of two points", one.rows(_two_points(one))
        if (one.length or 0) > 2 or one.has("edges", "pairs"):
            yield "of all points", one

    def _point_path(
        self, run: Pass, inputs: Inputs, seed: int, cutoff: float | None
    ) -> tuple[Callable[[float], Inputs], list[float]]:  # fmt: skip
        """Distance -> inputs with the second point at that distance from the first; and where it crosses the cutoff of others."""
        i, j = _two_points(inputs)
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

    def _coincident(self, path_of_point: PointPath) -> str:
        """The fault where two points coincide; empty where there is none."""
        here, near = path_of_point.values_at(0.0), path_of_point.values_at(1e-6)
        for name, scale in path_of_point.scales.items():
            if bool(torch.isnan(here[name]).any()) and near[name].norm().item() < DIVERGES * scale:
                return f"NaN in {name or 'the output'} where two points coincide"
        return ""

    def _broken(
        self,
        run: Pass,
        path_of_point: PointPath,
        path: Any,
        interval: tuple[float, float],
        set_name: str,
        cutoff: float | None,
        tolerance: float,
    ) -> Row:
        a, b = interval
        jumps = path_of_point.jump(a, b)
        worst = max(jumps, key=lambda n: jumps[n])
        size, many = jumps[worst], " and ".join(f"{n or 'output'} ({jumps[n]:.1e})" for n in sorted(jumps) if jumps[n] > JUMP)
        where = f"at a distance of {(a + b) / 2:.6g}" + (", the cutoff of the model" if _is_cutoff(cutoff, a, b) else "")
        cause = f"a jump of {many} {where}, {set_name}; 1 is the size at typical distances"
        try:
            location = localize(run, RunPair(path(a), path(b), UnitScaled(), ""), True)
        except ModelError:
            location = None
        text = f"move one point from {a:.15g} to {b:.15g} away from another, {set_name}"
        example = Counterexample(text=text, error=size, element={"from": a, "to": b}, inputs={}, parameters="given")
        module = location.module if location is not None else type(run.model).__name__
        verdict: Any = "approximate" if size < tolerance else "broken"
        return self.row(verdict, [size], floor=JUMP, where=module, cause=cause, counterexample=example)


def find_jump(
    path_of_point: PointPath, span: tuple[float, float], edges: list[float], budget: int
) -> tuple[tuple[float, float] | None, float]:
    """The interval in which a value jumps, or None; and the largest roughness left when the budget ends.

    span   start and end of the path; edges: distances that are examined closely from the start
    """
    start, end = span
    grid = [start + (end - start) * k / 12 for k in range(13)]
    for edge in edges:
        margin = NEAR_CUTOFF * end
        grid = [*(t for t in grid if abs(t - edge) > 0.01 * end), *(edge + k * margin for k in (-1.3, 1.7))]
    grid = sorted(set(grid))
    heap = [_interval(path_of_point, a, b, 0.0, 0, b - a < 4 * NEAR_CUTOFF * end) for a, b in pairwise(grid)]
    heapq.heapify(heap)
    budget += len(path_of_point.readings)
    while len(path_of_point.readings) < budget and heap:
        _, roughness, persistence, a, b = heapq.heappop(heap)
        if roughness < JUMP:
            continue
        if b - a < NARROWEST * end:
            return _bisect_jump(path_of_point, a, b), roughness
        middle = (a + b) / 2
        for part in ((a, middle), (middle, b)):
            heapq.heappush(heap, _interval(path_of_point, *part, roughness, persistence))
    return None, max((one[1] for one in heap), default=0.0)


def _interval(
    path_of_point: PointPath, a: float, b: float, before: float, persistence: int, first: bool = False
) -> tuple[float, float, int, float, float]:  # fmt: skip
    """An interval for the heap: first those at declared cutoffs, then those whose roughness persists under bisection, as at a jump.

    Five values show 1/16 or 3/16 of a jump, depending on where it lies; for a function with two derivatives a quarter is left.
    """
    roughness = path_of_point.roughness(a, b)[0]
    persistence = 30 if first else persistence + 1 if roughness > 0.3 * before > 0 else 0
    return -roughness * 2**persistence, roughness, persistence, a, b


def _bisect_jump(path_of_point: PointPath, a: float, b: float) -> tuple[float, float]:
    """Distances just before and just after the jump, so close that any other change between them is rounding."""
    while b - a > CLOSEST * b:
        middle = (a + b) / 2
        a, b = max(((a, middle), (middle, b)), key=lambda step: max(path_of_point.jump(*step).values()))
    return a, b


def _edges(offsets: Tensor, direction: Tensor, cutoff: float | None) -> list[float]:
    """Distances t on the path at which |offset + t direction| is the cutoff, for a few others [N, 3]; and the cutoff itself."""
    if cutoff is None:
        return []
    along = offsets[:4] @ direction
    root = (along.square() - offsets[:4].square().sum(-1) + cutoff**2).clamp_min(0.0).sqrt()
    crossed = torch.cat([-along - root, -along + root])[root.repeat(2) > 0].tolist()
    return [cutoff, *(t for t in crossed if 0.05 * cutoff < t < 1.4 * cutoff)]


def declared_cutoff(model: nn.Module) -> float | None:
    """The cutoff that the model, its spec, its configuration or a module declares; None where none does."""
    holders = [getattr(model, n) for n in ("spec", "config") if hasattr(model, n)]
    for holder in (*holders, *model.modules()):
        for name in CUTOFFS:
            value = getattr(holder, name, 0)
            if value is None and holder is not model:  # declared to have none
                return None
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e3:
                return float(value)
    return None


def _span(inputs: Inputs, cutoff: float | None) -> tuple[float, float]:
    """From half the typical nearest distance to beyond the cutoff."""
    near = nearest_distance(inputs)
    return (0.5 * near, max(FAR, 4 * near)) if cutoff is None else (min(0.5 * near, 0.3 * cutoff), 1.5 * cutoff)


def _is_cutoff(cutoff: float | None, a: float, b: float) -> bool:
    return cutoff is not None and abs((a + b) / 2 - cutoff) < 1e-6 * cutoff


def _two_points(inputs: Inputs) -> list[int]:
    """The rows of two points; atoms with the number 0 are padding."""
    n = inputs.length or 0
    kinds = [t.reshape(-1, n)[0].tolist() for t in inputs.of("atoms").values()]
    real_points = [i for i in range(n) if all(kind[i] != 0 for kind in kinds)]
    return (real_points * 2)[:2] if len(real_points) < 2 else [real_points[0], real_points[1]]


__all__ = ["Smooth", "declared_cutoff"]
