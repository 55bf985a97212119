"""Drift: the error of bfloat16 and float16, and whether rounding explains it.

No tolerance is needed: a computation with an error e in float32 has an error of about r e in a precision r times coarser. A much
larger error is not rounding: a norm underflows, or angles at position 4096 are computed in bfloat16, whose 8 binary digits leave
errors of radians. Rounding does not depend on the position, so outputs that are right at the first positions and wrong 4096
positions later point to positions in too low a precision. Every precision gets the same values, slightly perturbed so that no
low precision represents them exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.diagnose.localize import Event, events
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, max_error
from equiscope.audit.statements.pairs import error
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject, copy_in_dtype, randomize_parameters
from equiscope.audit.subject.deepcopy import deepcopy
from equiscope.audit.subject.outputs import finite
from equiscope.program.attended.calls import scoped
from equiscope.program.modes import Operations
from equiscope.record import Row
from equiscope.symmetry import Inputs

FAR = 4096
LOW_PRECISION = (torch.bfloat16, torch.float16)
FLOATS: Any = ("features", "image", "wave", "points", "vectors")
FACTOR, FACTOR_FEW = 6.0, 16.0  # times what rounding explains: two errors of many numbers agree better than those of a few
MANY = 64
ANGLE = 0.1  # radians of an angle's error that is named


@dataclass
class PrecisionFault:
    """A fault in one precision."""

    dtype: torch.dtype
    cause: str
    where: str
    error: float


class Dtype(MeasuredProperty):
    """In bfloat16 and float16 the outputs drift no further than rounding explains."""

    name = "dtype"
    summary = "in bfloat16 and float16 outputs drift no further than rounding explains"

    def missing(self, subject: Subject) -> str:
        has_floats = any(p.is_floating_point() for p in subject.model.parameters()) or subject.inputs.has(*FLOATS, "tokens")
        return "" if has_floats else "there are no floating-point parameters or inputs"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        drift_passes = _Drift(subject)
        drift, faults = drift_passes.near()
        if not any(f.error == math.inf for f in faults):
            faults += drift_passes.far()
        note = "; ".join([", ".join(f"{_name(d)} {e:.1e}" for d, e in drift.items()), *drift_passes.notes])
        measured = [drift[d] for d in LOW_PRECISION if d in drift and math.isfinite(drift[d])]
        if not measured and not faults:
            return self.row("undecided", note=note)
        if faults:
            cause = "; ".join(dict.fromkeys(f"in {_name(f.dtype)} {f.cause}" for f in faults))
            return self.row("broken", measured, error32=drift.get(torch.float32), where=faults[0].where, cause=cause, note=note)
        if drift_passes.unclear:
            return self.row("undecided", measured, note=f"{drift_passes.unclear}; {note}")
        return self.row("holds", measured, error32=drift.get(torch.float32), note=note)


class _Drift:
    """The passes of one model in each precision."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.notes, self.unclear = subject, list[str](), ""
        generator = Generator().manual_seed(subject.seed + 41)
        jittered = subject.inputs.each(lambda t: _jitter(t, generator) if t.is_floating_point() else t, *FLOATS)
        self.inputs = jittered.each(lambda t: replace(t, x=_jitter(t.x, generator)), "tokens")

    def run(self, dtype: torch.dtype, random: bool = False, keep_buffers: bool = False) -> Pass:
        """The model after `.to(dtype)`; in its own precision, as it is. keep_buffers: buffers stay in float32."""
        model = copy_in_dtype(self.subject.model, dtype) if dtype == torch.float64 else deepcopy(self.subject.model)
        if dtype not in (torch.float64, self.subject.dtype):
            model.to(dtype)
        if keep_buffers:
            _restore_buffers(self.subject.model, model)
        generator = Generator().manual_seed(self.subject.seed + 43)
        with torch.no_grad():
            for source, p in zip(self.subject.model.parameters(), model.parameters(), strict=True):
                if p.is_floating_point():
                    p.copy_(_jitter(source, generator).to(p.dtype))
        if random:
            randomize_parameters(model, self.subject.seed)
        other = self.subject.like(model, self.inputs)
        other.dtype = dtype
        return Pass(other, dtype, False)

    def near(self) -> tuple[dict[torch.dtype, float], list[PrecisionFault]]:
        """Drift at the given parameters, and the faults that rounding does not explain."""
        exact = self.run(torch.float64)
        reference = exact(exact.inputs)
        if bad := finite(reference):
            raise Undecided(f"{bad} is not finite, in float64 too")
        drift, faults = dict[torch.dtype, float](), list[PrecisionFault]()
        for dtype in (torch.float32, *LOW_PRECISION):
            try:
                run = self.run(dtype)
                outputs = run(run.inputs)
            except ModelError as crash:
                self.notes.append(f"in {_name(dtype)} {crash}")
                continue
            if dtype in LOW_PRECISION and finite(outputs):
                faults.append(_overflow(run, dtype) or PrecisionFault(dtype, "overflows to inf or NaN", "", math.inf))
                continue
            drift[dtype] = max_error(reference, outputs)
            rounding = _rounding(drift, dtype)
            if dtype in LOW_PRECISION and rounding * FACTOR > 1 and drift[dtype] > 1 / FACTOR:
                self.unclear = f"in float32 the error is {drift[torch.float32]:.1e} already, which explains any drift"
            elif dtype in LOW_PRECISION and drift[dtype] > _factor(reference) * 4 * rounding:
                if (overflow := _overflow(run, dtype)) is not None:
                    faults.append(overflow)
                    continue
                cause = f"the error of the outputs is {drift[dtype]:.1e}, and rounding explains {rounding:.1e}"
                if halves := [n for n, b in self.subject.model.named_buffers() if b.is_complex()]:
                    cause += f"; .to({_name(dtype)}) discards the imaginary part of {halves[0]}"
                faults.append(PrecisionFault(dtype, cause, _first_fault(exact, run, exact.inputs, False, dtype), drift[dtype]))
        return drift, faults

    def far(self) -> list[PrecisionFault]:
        """The same with half of the tokens 4096 positions later, at random parameters, where positions have an effect."""
        if not self.inputs.has("tokens", "position_ids", "coordinates"):
            return []
        exact, faults = self.run(torch.float64, True), list[PrecisionFault]()
        far_inputs = with_gap(exact.inputs)
        try:
            reference = exact(exact.inputs), exact(far_inputs)
        except ModelError:
            self.notes.append(f"positions {FAR} later are rejected by the model")
            return []
        for dtype in LOW_PRECISION:
            try:
                near, far = self._near_and_far(reference, dtype)
            except ModelError:
                continue
            rounding = max(near, _eps(dtype))
            if not far > _factor(reference[0]) * rounding or rounding * FACTOR > 1:
                self.notes.append(f"{_name(dtype)} at +{FAR}: {far:.1e} ({near:.1e} at the given positions), at random parameters")
                continue
            faults.append(self._fault(exact, reference, dtype, near, far, locate=not faults))
        return faults

    def _near_and_far(
        self, reference: tuple[Outputs, Outputs], dtype: torch.dtype, keep_buffers: bool = False
    ) -> tuple[float, float]:
        run = self.run(dtype, True, keep_buffers)
        near, far = run(run.inputs), run(with_gap(run.inputs))
        return max_error(reference[0], near), max_error(reference[1], far)

    def _fault(
        self, exact: Pass, reference: tuple[Outputs, Outputs], dtype: torch.dtype, near: float, far: float, locate: bool,
    ) -> PrecisionFault:  # fmt: skip
        cause = f"positions lose precision: the error is {far:.1e} at positions {FAR} later, {near:.1e} at the given ones"
        where = _first_fault(exact, self.run(dtype, True), exact.inputs, True, dtype) if locate else ""
        names = list(_buffers(self.subject.model))
        if names and dtype != self.subject.dtype:
            try:
                kept_error = self._near_and_far(reference, dtype, True)[1]
            except ModelError:
                kept_error = math.inf
            if kept_error < far / FACTOR:
                short = ", ".join(names[:3])
                cause = f".to({_name(dtype)}) rounds the buffers {short}: "
                if (first := wrong_angles_from(self.subject.model, names, dtype)) is not None:
                    cause += f"angles are off by more than {ANGLE} rad between tokens that are {first:,} positions or more apart; "
                cause += f"the error is {far:.1e} at positions {FAR} later, {kept_error:.1e} with float32 buffers"
        return PrecisionFault(dtype, cause, where, far)


def _rounding(drift: dict[torch.dtype, float], dtype: torch.dtype) -> float:
    """The error that rounding explains: that in float32 times the ratio of precisions, at least one rounding of the outputs."""
    return max(drift.get(torch.float32, 0.0) * _eps(dtype) / _eps(torch.float32), _eps(dtype))


def _factor(outputs: Outputs) -> float:
    return FACTOR if sum(t.numel() for t in outputs.values()) >= MANY else FACTOR_FEW


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _jitter(t: Tensor, generator: Generator) -> Tensor:
    """Each value changed by up to 2^-9 of itself, in float64, so that no low precision represents it exactly."""
    noise = 2 * torch.rand(t.shape, generator=generator, dtype=torch.float64).to(t.device) - 1
    return t.detach().double() * (1 + noise * 2.0**-9)


def wrong_angles_from(model: torch.nn.Module, names: Sequence[str], dtype: torch.dtype) -> int | None:
    """The distance from which the angle of a rotation is off by more than ANGLE, where buffers are its frequencies.

    names    of buffers; frequencies are recognised by their form: one axis, positive, at most pi, and falling or rising throughout
    returns  None where none has that form, or where the cast leaves them as they are
    """
    largest = 0.0
    for name in names:
        b = model.get_buffer(name).detach().double().squeeze()
        if b.ndim != 1 or len(b) < 2 or not bool(((b > 0) & (b <= math.pi)).all()):
            continue
        steps = b.diff()
        if bool((steps < 0).all()) or bool((steps > 0).all()):
            largest = max(largest, float((b - b.to(dtype).double()).abs().max()))
    return math.ceil(ANGLE / largest) if largest > 0 else None


def _buffers(model: torch.nn.Module) -> Iterator[str]:
    """Names of buffers that a cast rounds."""
    for name, b in model.named_buffers():
        if b.dtype == torch.float32 and not torch.equal(b, b.to(torch.bfloat16).to(b.dtype)):
            yield name


def _restore_buffers(source: torch.nn.Module, model: torch.nn.Module) -> None:
    for name in _buffers(source):
        path, _, key = name.rpartition(".")
        model.get_submodule(path)._buffers[key] = source.get_buffer(name).clone()


def _has_overflow(t: Any) -> bool:
    return isinstance(t, Tensor) and t.is_floating_point() and bool((torch.isnan(t) | (t == math.inf)).any())


def _overflow(run: Pass, dtype: torch.dtype) -> PrecisionFault | None:
    """The first operation that returns inf or NaN for finite inputs (-inf is allowed: masks use it); None where none does."""
    faults_found: list[tuple[str, str]] = []
    with scoped(run.model) as scope:

        def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = func(*args, **kwargs)
            if not faults_found and isinstance(result, Tensor) and _has_overflow(result) and not any(map(_has_overflow, args)):
                faults_found.append((func.overloadpacket.__name__.strip("_"), scope[-1] if scope else ""))
            return result

        with Operations(handler):
            run.outputs_of(run.inputs.call)
    if not faults_found:
        return None
    operation, module = faults_found[0]
    where = module or type(run.model).__name__
    return PrecisionFault(dtype, f"overflows to inf or NaN, first in {operation} of {where}", where, math.inf)


def _first_fault(exact: Pass, run: Pass, inputs: Inputs, far: bool, dtype: torch.dtype) -> str:
    """The first module whose error exceeds several times that of its inputs or, with `far`, that at the given positions."""

    def errors_by_event(inputs: Inputs) -> list[tuple[Event, float]]:
        pairs = zip(events(exact, inputs), events(run, inputs), strict=False)
        return [(a, max((error(s, t) for s, t in zip(a.tensors, b.tensors, strict=False)), default=0.0)) for a, b in pairs]

    near_errors = errors_by_event(inputs)
    far_errors = errors_by_event(with_gap(inputs)) if far else near_errors
    for i, ((event, error_here), (_, near)) in enumerate(zip(far_errors, near_errors, strict=False)):
        before = near if far else near_errors[i - 1][1] if i else 0.0
        if event.is_output and error_here > FACTOR * max(before, _eps(dtype)) * (1 if far else 4):
            return event.module or type(run.model).__name__
    return type(run.model).__name__


def with_gap(inputs: Inputs) -> Inputs:
    """The second half of the tokens at positions larger by FAR."""

    def later(at: Tensor, axis: int) -> Tensor:
        moved = at.clone()
        n = at.shape[axis]
        moved.narrow(axis, n // 2, n - n // 2).add_(FAR)
        return moved

    moved = inputs.each(lambda at: later(at, -1), "position_ids").each(lambda at: later(at, -2), "coordinates")
    return moved.each(lambda t: replace(t, positions=later(t.positions, -2), counted=None), "tokens")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
