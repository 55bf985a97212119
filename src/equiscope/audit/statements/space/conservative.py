"""Conservative forces: what a model of points gives as forces is minus the slope of what it gives as energy.

An energy that turns rightly beside forces that turn rightly passes every test of symmetry although the two do not belong together:
a dynamics then heats up from nothing. Of a model that gives energies alone, the gradient by autograd is asked in the place of
forces: what was detached on the way, or made without gradients, is missing in it. So the energy is differenced along random
directions, at three steps, and extrapolated: how far the last two extrapolations are apart says what the differences resolve.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import Tensor

from equiscope.audit.diagnose.localize import telling, unpacked
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.statements.space.forces import Forces
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.audit.subject.outputs import flat
from equiscope.record import Counterexample, Row
from equiscope.record.audit import Verdict

STEPS = (4e-3, 5e-4, 6e-5)  # of the size of the points; the next where the one before does not resolve
AGREES = 1e-8  # in float64 differences resolve far less where the energy is smooth
ROUGH = 0.05  # beyond it the energy is not smooth
EPS = torch.finfo(torch.float64).eps


class Conservative(MeasuredProperty):
    """forces = -dE/dx."""

    name = "conservative"
    summary = "forces are minus the gradient of the energy"
    expected = True  # of what is called an energy, or comes with forces
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("points"):
            return "the model is given no points"
        try:
            self.forces = Forces.of(subject)
        except Crashed as crash:
            return str(crash)
        self.expected = self.forces is not None and (self.forces.said or bool(self.forces.forces))
        return "" if self.forces is not None else "the model does not return an energy"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        given = self._row(subject.in_dtype(torch.float64), tolerance, 2 if count < 32 else 8)
        if given.verdict != "holds" or not subject.random:
            return given
        try:  # what is new may not be seen yet: a head that begins blind to angles hides what is wrong with them
            row = self._row(subject.in_dtype(torch.float64, True), tolerance, 1 if count < 32 else 4)
        except (Undecided, Crashed):
            return given
        if row.verdict == "holds":
            return given
        note = f"at the given parameters: {given.verdict} ({given.error:.1e})"
        return msgspec.structs.replace(row, parameters="random", note=note)

    def _row(self, run: Pass, tolerance: float, directions: int) -> Row:
        forces = self.forces
        assert forces is not None
        energy, pushed = forces.both(run, run.inputs)
        name, points = next(iter(run.inputs.of("points").items()))
        size = points.double().std().item() or 1.0
        generator = torch.Generator().manual_seed(run.subject.seed + 23)
        slopes, wanted, rough = [], [], []
        for _ in range(directions):
            direction = torch.randn(points.shape, generator=generator, dtype=torch.float64).to(points.device)

            def along(h: float, direction: Tensor = direction) -> float:
                there = run.inputs.with_values({name: points.detach() + h * direction})
                return forces.alone(run, there).item()

            wanted.append(-(pushed * direction.cpu()).sum().item())
            slope, unsure = _slope(along, size, EPS * energy.abs().sum().item(), wanted[-1])
            slopes.append(slope)
            rough.append(unsure)
        row = self._told(slopes, wanted, rough, tolerance, "forces" if forces.forces else "forces by autograd")
        if row.verdict in ("approximate", "broken") and not forces.forces:
            return msgspec.structs.replace(row, where=cut(forces, run))
        return row

    def _told(self, slopes: list[float], wanted: list[float], rough: list[float], tolerance: float, whose: str) -> Row:
        if not all(map(math.isfinite, [*slopes, *wanted])):
            raise Undecided("the energy or the forces are not finite")
        scale = max(math.hypot(*slopes), math.hypot(*wanted))
        if scale < 1e-12:
            return self.row("holds", [0.0], note="the energy does not depend on where the points are, and the forces are zero")
        errors = [abs(a - b) / scale for a, b in zip(slopes, wanted, strict=True)]
        fineness = max(rough) / scale
        if max(errors) < AGREES:
            return self.row("holds", errors, floor=fineness, note=f"of {whose}")
        if fineness > ROUGH:
            raise Undecided(
                f"the energy is not smooth here: halving the step moves its slope by {fineness:.0%}. A cut-off without "
                "an envelope, or a nearest neighbour that changes?"
            )
        if max(errors) < 10 * fineness:
            return self.row("holds", errors, floor=fineness, note=f"of {whose}; differences resolve {fineness:.1e} here")
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        worst = max(range(len(errors)), key=errors.__getitem__)
        found = f"the energy grows by {slopes[worst]:.4g} a unit, forces say {wanted[worst]:.4g}"
        text = f"move the points along a random direction: {found}"
        example = Counterexample(text=text, error=errors[worst], element={"direction": worst}, inputs={}, parameters="given")
        return self.row(verdict, errors, floor=fineness, cause=_why(slopes, wanted, whose), counterexample=example)


def _slope(along: Callable[[float], float], size: float, rounded: float, wanted: float) -> tuple[float, float]:
    """The slope, and how sure it is: by smaller steps where the first do not resolve. What is not as wanted is looked at twice."""
    tried: list[tuple[float, float]] = []
    for step in STEPS:
        slope, unsure = extrapolated(along, step * size)
        noise = rounded / (step * size)
        tried.append((unsure + noise, slope))
        as_wanted = abs(slope - wanted) <= 10 * (unsure + noise)
        fine = not max(10 * AGREES * abs(slope), 8 * noise) < unsure < ROUGH * abs(slope)  # or it is no smooth function
        if fine and (as_wanted or len(tried) > 1):
            break
    unsure, slope = min(tried)
    if abs(slope - wanted) > 10 * unsure:
        unsure = max(unsure, *(abs(slope - other) for _, other in tried))
    return slope, unsure


def extrapolated(along: Callable[[float], float], step: float) -> tuple[float, float]:
    """The slope at 0 of a function of one number, and how sure it is: central differences at three steps (Romberg)."""
    wide, half, quarter = ((along(h) - along(-h)) / (2 * h) for h in (step, step / 2, step / 4))
    once, again = half + (half - wide) / 3, quarter + (quarter - half) / 3
    return again + (again - once) / 15, abs(again - once)


def cut(forces: Forces, run: Pass) -> str:
    """The first module that was given what can be differentiated by the points, and made what cannot; empty where none did."""
    given: dict[str, list[bool]] = {}
    found: list[str] = []

    def seen(path: str, leaves: bool, value: Any) -> None:
        hangs = [t.requires_grad for t in flat(unpacked(value)).values() if t.is_floating_point()]
        if not leaves:
            given.setdefault(path, []).append(any(hangs))
        elif given.get(path) and given[path].pop() and hangs and not any(hangs):
            found.append(path)

    learned = [p for p in run.model.parameters() if p.requires_grad]
    for p in learned:  # so that nothing hangs on them
        p.requires_grad_(False)
    try:
        with telling(run.model, seen):
            forces.both(run, run.inputs)
    finally:
        for p in learned:
            p.requires_grad_(True)
    return found[0] if found else ""


def _why(slopes: list[float], wanted: list[float], whose: str) -> str:
    """Forces of the wrong sign or in other units are a multiple, the same in every direction."""
    if all(abs(w) < 1e-12 for w in wanted):
        return f"{whose} are zero although the energy has a slope" + (": something is detached" if "autograd" in whose else "")
    if all(abs(s) < 1e-12 for s in slopes):
        return f"there are {whose} although the energy has no slope"
    ratios = [w / s for s, w in zip(slopes, wanted, strict=True) if abs(s) > 1e-12]
    if len(ratios) > 1 and max(ratios) - min(ratios) < 1e-5 * max(map(abs, ratios)):
        factor = ratios[0]
        return f"{whose} are +dE/dx: the sign is wrong" if abs(factor + 1) < 1e-5 else f"{whose} are {factor:.4g} times -dE/dx"
    if "autograd" in whose:
        return f"{whose} are not the slope of this energy: something on the way is detached or made without gradients"
    return f"{whose} are not the gradient of this energy"


__all__ = ["Conservative", "extrapolated"]
