"""Digits: the error of the outputs does not exceed rounding, also for points far from the origin.

Rounding is no violation of a symmetry, so a distance that loses its digits passes `translate`. Here the error is compared with
what rounding requires: at 1000 from the origin, the error of a model in float32 is about that of rounding its inputs. A distance
computed from squares of coordinates has the rounding error of these squares, a thousand times larger. A model in float64 that
computes in float32 inside has the error of float32.
"""

import torch

from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, max_error
from equiscope.audit.statements.space.forces import Forces, outputs_with_forces, points_of
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.record import Row
from equiscope.record.audit import Verdict
from equiscope.symmetry import Inputs
from equiscope.symmetry.measure import shrinks
from equiscope.symmetry.space import Translate

AWAY = 1000.0
MORE = 10.0  # times the error of rounding the inputs, or of the model at the given points


class Digits(MeasuredProperty):
    """The error does not exceed rounding."""

    name = "digits"
    summary = "the error does not exceed rounding the points, also 1000 from the origin, and float64 is used throughout"
    forces: Forces | None = None

    def missing(self, subject: Subject) -> str:
        if points_of(subject.inputs) is None:
            return "the inputs have no points in space"
        try:
            self.forces = Forces.of(subject)
        except ModelError as crash:
            return str(crash)
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        exact, single, unpromoted = (
            subject.in_dtype(torch.float64),
            subject.in_dtype(torch.float32),
            subject.in_dtype(torch.float64),
        )
        unpromoted.high_precision = False  # casts to float32 inside the model stay
        inputs = subject.inputs.to(torch.float32).to(torch.float64)
        step = AWAY / 3**0.5
        translated = Translate((step, -step, step)).on_input(inputs)
        near_outputs, far_outputs = (outputs_with_forces(exact, inputs_here, self.forces) for inputs_here in (inputs, translated))
        if bad := finite(near_outputs) or finite(far_outputs):
            raise Undecided(f"{bad} is not finite, in float64 too")
        error32, error64 = self._error(single, inputs, near_outputs), self._error(unpromoted, inputs, near_outputs)
        error_far, rounding = (
            self._error(single, translated, far_outputs),
            max_error(far_outputs, outputs_with_forces(exact, _float32(translated), self.forces)),
        )
        causes, errors = [], []
        if error64 > 1e-12 and not shrinks(error64, error32):
            causes.append(
                f"in float64 the error is {error64:.1e}, as in float32 ({error32:.1e}): the model computes in float32 inside"
            )
            errors.append(error64)
        if not error_far <= MORE * max(rounding, error32):
            causes.append(
                f"{AWAY:g} from the origin the error in float32 is {error_far:.1e}, rounding the points explains {rounding:.1e}: "
                "are distances computed from products of coordinates rather than from differences?"
            )
            errors.append(error_far)
        note = f"float32 {error32:.1e}, {AWAY:g} from the origin {error_far:.1e} (rounding the points alone: {rounding:.1e})"
        note += f"; float64 {error64:.1e}"
        if not causes:
            return self.row("holds", [error64], error32=error32, floor=error64, note=note)
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        return self.row(verdict, errors, error32=error32, cause="; ".join(causes), note=note)

    def _error(self, run: Pass, inputs: Inputs, expected: dict[str, torch.Tensor]) -> float:
        return max_error(expected, outputs_with_forces(run, inputs, self.forces))


def _float32(inputs: Inputs) -> Inputs:
    """Points that float32 represents exactly."""
    return inputs.to(torch.float32).to(torch.float64)


__all__ = ["Digits"]
