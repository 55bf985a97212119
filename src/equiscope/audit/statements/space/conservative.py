"""Conservative forces: the forces of a model of points are minus the gradient of its energy.

An invariant energy and equivariant forces pass every test of symmetry even where the forces are not the gradient of the energy:
molecular dynamics then gains energy. For a model that returns energies only, the gradient by autograd takes the place of forces: it
misses what was detached or computed without gradients. The energy is differenced along random directions with three step sizes and
extrapolated; the difference of the last two extrapolations is the resolution.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import Tensor

from equiscope.audit.diagnose.localize import features_of, watching_modules
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.statements.space.forces import Forces
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.subject.outputs import flat
from equiscope.record import Counterexample, Row
from equiscope.record.audit import Verdict

STEPS = (4e-3, 5e-4, 6e-5)  # relative to the size of the points; the next where one does not resolve the derivative
AGREES = 1e-8  # in float64, where the energy is smooth, differences resolve far smaller errors
NOT_SMOOTH = 0.05  # relative resolution above which the energy is not smooth
EPS = torch.finfo(torch.float64).eps


class Conservative(MeasuredProperty):
    """forces = -dE/dx."""

    name = "conservative"
    summary = "forces are minus the gradient of the energy"
    expected = True  # of outputs named energy, or returned with forces
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("points"):
            return "the inputs have no points"
        try:
            self.forces = Forces.of(subject)
        except ModelError as crash:
            return str(crash)
        self.expected = self.forces is not None and (self.forces.named_energy or bool(self.forces.forces))
        return "" if self.forces is not None else "the model does not return an energy"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        given_row = self._row(subject.in_dtype(torch.float64), tolerance, 2 if count < 32 else 8)
        if given_row.verdict != "holds" or not subject.random:
            return given_row
        try:  # parameters initialised at zero can hide a fault
            row = self._row(subject.in_dtype(torch.float64, True), tolerance, 1 if count < 32 else 4)
        except (Undecided, ModelError):
            return given_row
        if row.verdict == "holds":
            return given_row
        note = f"at the given parameters: {given_row.verdict} ({given_row.error:.1e})"
        return msgspec.structs.replace(row, parameters="random", note=note)

    def _row(self, run: Pass, tolerance: float, directions: int) -> Row:
        forces = self.forces
        assert forces is not None
        energy, forces_here = forces.energy_and_forces(run, run.inputs)
        name, points = next(iter(run.inputs.of("points").items()))
        size = points.double().std().item() or 1.0
        generator = torch.Generator().manual_seed(run.subject.seed + 23)
        slopes, expected, uncertainties = [], [], []
        for _ in range(directions):
            direction = torch.randn(points.shape, generator=generator, dtype=torch.float64).to(points.device)

            def along(h: float, direction: Tensor = direction) -> float:
                displaced = run.inputs.with_values({name: points.detach() + h * direction})
                return forces.total_energy(run, displaced).item()

            expected.append(-(forces_here * direction.cpu()).sum().item())
            slope, uncertainty = _slope(along, size, EPS * energy.abs().sum().item(), expected[-1])
            slopes.append(slope)
            uncertainties.append(uncertainty)
        row = self._verdict_row(slopes, expected, uncertainties, tolerance, "forces" if forces.forces else "forces by autograd")
        if row.verdict in ("approximate", "broken") and not forces.forces:
            return msgspec.structs.replace(row, where=detaching_module(forces, run))
        return row

    def _verdict_row(
        self, slopes: list[float], expected: list[float], uncertainties: list[float], tolerance: float, whose: str
    ) -> Row:
        if not all(map(math.isfinite, [*slopes, *expected])):
            raise Undecided("the energy or the forces are not finite")
        scale = max(math.hypot(*slopes), math.hypot(*expected))
        if scale < 1e-12:
            return self.row("holds", [0.0], note="the energy does not depend on the points, and the forces are zero")
        errors = [abs(a - b) / scale for a, b in zip(slopes, expected, strict=True)]
        resolution = max(uncertainties) / scale
        if max(errors) < AGREES:
            return self.row("holds", errors, floor=resolution, note=f"of {whose}")
        if resolution > NOT_SMOOTH:
            raise Undecided(
                f"the energy is not smooth here: halving the step changes its derivative by {resolution:.0%}. A cutoff without "
                "an envelope, or a nearest neighbour that changes?"
            )
        if max(errors) < 10 * resolution:
            return self.row("holds", errors, floor=resolution, note=f"of {whose}; differences resolve {resolution:.1e} here")
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        worst = max(range(len(errors)), key=errors.__getitem__)
        values = f"the energy grows by {slopes[worst]:.4g} per unit, the forces give {expected[worst]:.4g}"
        text = f"move the points along a random direction: {values}"
        example = Counterexample(text=text, error=errors[worst], element={"direction": worst}, inputs={}, parameters="given")
        return self.row(verdict, errors, floor=resolution, cause=_cause(slopes, expected, whose), counterexample=example)


def _slope(along: Callable[[float], float], size: float, rounded: float, expected: float) -> tuple[float, float]:
    """The derivative and its uncertainty, with smaller steps where the first do not resolve it. A violation is measured twice."""
    estimates: list[tuple[float, float]] = []
    for step in STEPS:
        slope, uncertainty = extrapolated(along, step * size)
        noise = rounded / (step * size)
        estimates.append((uncertainty + noise, slope))
        as_wanted = abs(slope - expected) <= 10 * (uncertainty + noise)
        fine = not max(10 * AGREES * abs(slope), 8 * noise) < uncertainty < NOT_SMOOTH * abs(slope)  # or it is no smooth function
        if fine and (as_wanted or len(estimates) > 1):
            break
    uncertainty, slope = min(estimates)
    if abs(slope - expected) > 10 * uncertainty:
        uncertainty = max(uncertainty, *(abs(slope - other) for _, other in estimates))
    return slope, uncertainty


def extrapolated(along: Callable[[float], float], step: float) -> tuple[float, float]:
    """The derivative at 0 of a function of one number and its uncertainty: central differences at three steps (Romberg)."""
    wide, half, quarter = ((along(h) - along(-h)) / (2 * h) for h in (step, step / 2, step / 4))
    first, refined = half + (half - wide) / 3, quarter + (quarter - half) / 3
    return refined + (refined - first) / 15, abs(refined - first)


def detaching_module(forces: Forces, run: Pass) -> str:
    """The first module whose inputs depend on the points for autograd, and whose outputs do not; empty where there is none."""
    input_grads: dict[str, list[bool]] = {}
    modules: list[str] = []

    def record(path: str, leaves: bool, value: Any) -> None:
        requires_grad = [t.requires_grad for t in flat(features_of(value)).values() if t.is_floating_point()]
        if not leaves:
            input_grads.setdefault(path, []).append(any(requires_grad))
        elif input_grads.get(path) and input_grads[path].pop() and requires_grad and not any(requires_grad):
            modules.append(path)

    trainable = [p for p in run.model.parameters() if p.requires_grad]
    for p in trainable:  # only the points require gradients
        p.requires_grad_(False)
    try:
        with watching_modules(run.model, record):
            forces.energy_and_forces(run, run.inputs)
    finally:
        for p in trainable:
            p.requires_grad_(True)
    return modules[0] if modules else ""


def _cause(slopes: list[float], expected: list[float], whose: str) -> str:
    """The cause in words. Forces with the wrong sign or in other units are the same multiple in every direction."""
    if all(abs(w) < 1e-12 for w in expected):
        return f"{whose} are zero although the energy has a gradient" + (": something is detached" if "autograd" in whose else "")
    if all(abs(s) < 1e-12 for s in slopes):
        return f"{whose} are not zero although the energy has no gradient"
    ratios = [w / s for s, w in zip(slopes, expected, strict=True) if abs(s) > 1e-12]
    if len(ratios) > 1 and max(ratios) - min(ratios) < 1e-5 * max(map(abs, ratios)):
        factor = ratios[0]
        return f"{whose} are +dE/dx: the sign is wrong" if abs(factor + 1) < 1e-5 else f"{whose} are {factor:.4g} times -dE/dx"
    if "autograd" in whose:
        return f"{whose} are not the gradient of this energy: something is detached or computed without gradients"
    return f"{whose} are not the gradient of this energy"


__all__ = ["Conservative", "extrapolated"]
