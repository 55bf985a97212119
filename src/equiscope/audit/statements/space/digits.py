"""Digits: outputs are as exact as the precision and the places of the points allow, also far from the origin.

Rounding is no violation of a symmetry, so a distance that loses its digits passes `translate`. Here it is compared with what it
need not exceed: a model in float32, 1000 away, errs about as much as rounding its inputs there does (a distance from squares of
coordinates errs by their rounding, which is a thousand times larger). And a model in float64 that computes in float32 inside
errs as one in float32 does.
"""

import torch

from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, max_error
from equiscope.audit.statements.space.forces import Forces, answers, places
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.record import Row
from equiscope.record.audit import Verdict
from equiscope.symmetry import Inputs
from equiscope.symmetry.measure import shrinks
from equiscope.symmetry.space import Translate

AWAY = 1000.0
MORE = 10.0  # times the error of rounding the inputs, or of the model where it is


class Digits(MeasuredProperty):
    """No digits are lost but those that rounding takes."""

    name = "digits"
    summary = "points lose no more digits than rounding them does, 1000 from the origin too, and none of float64"
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if places(subject.inputs) is None:
            return "the model is given no points in space"
        try:
            self.forces = Forces.of(subject)
        except Crashed as crash:
            return str(crash)
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        exact, rough, bare = subject.in_dtype(torch.float64), subject.in_dtype(torch.float32), subject.in_dtype(torch.float64)
        bare.high_precision = False  # casts to float32 inside stay what they are
        inputs = subject.inputs.to(torch.float32).to(torch.float64)
        step = AWAY / 3**0.5
        moved = Translate((step, -step, step)).on_input(inputs)
        here, there = (answers(exact, given, self.forces) for given in (inputs, moved))
        if bad := finite(here) or finite(there):
            raise Undecided(f"{bad} is not finite, in float64 too")
        near, inside = self._off(rough, inputs, here), self._off(bare, inputs, here)
        far, rounded = self._off(rough, moved, there), max_error(there, answers(exact, _float32(moved), self.forces))
        causes, errors = [], []
        if inside > 1e-12 and not shrinks(inside, near):
            causes.append(f"in float64 outputs are {inside:.1e} off, as in float32 ({near:.1e}): it computes in float32 inside")
            errors.append(inside)
        if not far <= MORE * max(rounded, near):
            causes.append(
                f"{AWAY:g} from the origin outputs in float32 are {far:.1e} off, where rounding the points explains {rounded:.1e}: "
                "distances from products of coordinates, rather than from differences?"
            )
            errors.append(far)
        note = f"float32 {near:.1e}, {AWAY:g} away {far:.1e} (rounding the points alone: {rounded:.1e}); float64 {inside:.1e}"
        if not causes:
            return self.row("holds", [inside], error32=near, floor=inside, note=note)
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        return self.row(verdict, errors, error32=near, cause="; ".join(causes), note=note)

    def _off(self, run: Pass, inputs: Inputs, wanted: dict[str, torch.Tensor]) -> float:
        return max_error(wanted, answers(run, inputs, self.forces))


def _float32(inputs: Inputs) -> Inputs:
    """Points that float32 holds."""
    return inputs.to(torch.float32).to(torch.float64)


__all__ = ["Digits"]
