"""Conservative forces: what a model of points gives as forces is minus the slope of what it gives as energy.

An energy that turns rightly beside forces that turn rightly passes every test of symmetry although the two do not belong together:
a dynamics then heats up from nothing. So the energy is differenced along random directions, at two step sizes: where it is
smooth, the central difference errs by the square of the step.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from equiscope.audit.properties.answered import Answered, Undecided
from equiscope.audit.subject import Crashed, Outputs, Pass, Subject
from equiscope.record import Row
from equiscope.record.audit import Verdict
from equiscope.symmetry import Inputs

ENERGY = ("energy", "energies", "total_energy", "potential", "potential_energy", "e", "u")
FORCES = ("forces", "force", "f")
STEP = 1e-3  # of the size of the points; the other step is half of it
AGREES = 1e-6  # what steps of 1e-3 resolve by extrapolation in float64 is far below


class Conservative(Answered):
    """forces = -dE/dx."""

    name = "conservative"
    summary = "forces are minus the gradient of the energy"
    expected = True

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("points"):
            return "the model is given no points"
        try:
            outputs = _whole(subject, subject.at(subject.dtype))
        except Crashed as crash:
            return str(crash)
        return "" if _named(outputs, subject.inputs) else "the model does not return an energy and forces"

    def answer(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.at(torch.float64)
        plain = _whole(subject, run)
        energy, forces = _named(plain, subject.inputs) or ("", "")
        name, points = next(iter(run.inputs.of("points").items()))
        size = points.double().std().item() or 1.0
        generator = torch.Generator().manual_seed(subject.seed + 23)
        slopes, wanted, rough = [], [], []
        for _ in range(2 if count < 32 else 8):
            direction = torch.randn(points.shape, generator=generator, dtype=torch.float64).to(points.device)

            def along(h: float, direction: Tensor = direction) -> float:
                there = run.inputs.with_values({name: points.detach() + h * size * direction})
                return _whole(subject, run, there)[energy].sum().item()

            wide, narrow = (_slope(along, h * size, h) for h in (STEP, STEP / 2))
            slopes.append(narrow + (narrow - wide) / 3)  # Richardson: the square of the step cancels
            rough.append(abs(narrow - wide))
            wanted.append(-(plain[forces].reshape(points.shape) * direction.cpu()).sum().item())
        return self._told(slopes, wanted, rough, tolerance)

    def _told(self, slopes: list[float], wanted: list[float], rough: list[float], tolerance: float) -> Row:
        if not all(map(math.isfinite, [*slopes, *wanted])):
            raise Undecided("the energy or the forces are not finite")
        scale = max(math.hypot(*slopes), math.hypot(*wanted))
        if scale < 1e-12:
            return self.row("exact", [0.0], note="the energy does not depend on where the points are, and the forces are zero")
        errors = [abs(a - b) / scale for a, b in zip(slopes, wanted, strict=True)]
        fineness = max(rough) / scale
        if max(errors) < AGREES:
            return self.row("rounding", errors, floor=fineness**2, bound=None)
        if fineness > 0.05:
            raise Undecided(
                f"the energy is not smooth here: halving the step moves its slope by {fineness:.0%}. A cut-off without "
                "an envelope, or a nearest neighbour that changes?"
            )
        if max(errors) < fineness**2:
            return self.row("rounding", errors, note=f"differences resolve {fineness**2:.1e} here")
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        return self.row(verdict, errors, cause=_why(slopes, wanted))


def _slope(along: Any, length: float, h: float) -> float:
    return float((along(h) - along(-h)) / (2 * length))


def _why(slopes: list[float], wanted: list[float]) -> str:
    """Forces of the wrong sign or in other units are a multiple, the same in every direction."""
    if all(abs(w) < 1e-12 for w in wanted):
        return "forces are zero although the energy has a slope"
    if all(abs(s) < 1e-12 for s in slopes):
        return "there are forces although the energy has no slope"
    ratios = [w / s for s, w in zip(slopes, wanted, strict=True) if abs(s) > 1e-12]
    if max(ratios) - min(ratios) < 1e-5 * max(map(abs, ratios)):
        factor = ratios[0]
        return "forces are +dE/dx: the sign is wrong" if abs(factor + 1) < 1e-5 else f"forces are {factor:.4g} times -dE/dx"
    return "forces are not the gradient of this energy"


def _whole(subject: Subject, run: Pass, inputs: Inputs | None = None) -> Outputs:
    """All outputs, whichever were picked: with gradients, since forces are often made by them."""
    every = copy.copy(subject)
    every.pick = None
    run.subject = every
    try:
        given = run.inputs if inputs is None else inputs
        fresh = given.each(lambda t: t.detach().clone(), "points")
        return run.made(lambda model: fresh.call(model))
    finally:
        subject.gradients = every.gradients
        run.subject = subject


def _named(outputs: Mapping[str, Tensor], inputs: Inputs) -> tuple[str, str] | None:
    """Names of energy and forces: by name, else the one output shaped like the points and the one that is a number a sample."""
    points = next(iter(inputs.of("points").values()))
    last = {n: n.rpartition(".")[2].lower() for n in outputs}
    forces = [n for n, t in outputs.items() if last[n] in FORCES and t.numel() == points.numel()]
    energy = [n for n, t in outputs.items() if last[n] in ENERGY and t.is_floating_point()]
    if forces and energy:
        return energy[0], forces[0]
    if any(not word.isdigit() for word in last.values()):  # they have names, but others
        return None
    shaped = [n for n, t in outputs.items() if t.shape == points.shape]
    numbers = [n for n, t in outputs.items() if t.is_floating_point() and t.numel() == math.prod(points.shape[:-2])]
    return (numbers[0], shaped[0]) if len(shaped) == len(numbers) == 1 else None


__all__ = ["Conservative"]
