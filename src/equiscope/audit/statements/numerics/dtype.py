"""Drift: what bfloat16 and float16 cost, and whether rounding explains it.

No tolerance: a computation whose error in float32 is e has, in a precision r times coarser, an error of about r e. Far more is no
rounding: a norm that underflows, or angles of 4096 steps computed in bfloat16, which knows 8 binary digits: they are off by
radians. Rounding knows no place, so what is right at the first words and wrong 4096 places on was computed too coarsely.
Every precision is given the same numbers, moved a little off those that a coarse one holds exactly.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.diagnose.localize import Event, events
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, max_error
from equiscope.audit.statements.pairs import error
from equiscope.audit.subject import Crashed, Outputs, Pass, Subject, copy_in_dtype, randomize_parameters
from equiscope.audit.subject.outputs import finite
from equiscope.program.attended.seen import scoped
from equiscope.program.modes import Operations
from equiscope.record import Row
from equiscope.symmetry import Inputs

FAR = 4096
COARSE = (torch.bfloat16, torch.float16)
FLOATS: Any = ("features", "image", "wave", "points", "vectors")
MORE, MORE_FEW = 6.0, 16.0  # times what rounding explains: two errors of many numbers agree better than those of a few
MANY = 64


@dataclass
class Finding:
    """What is wrong in one precision."""

    dtype: torch.dtype
    cause: str
    where: str
    error: float


class Dtype(MeasuredProperty):
    """In bfloat16 and float16 the outputs drift no further than rounding explains."""

    name = "dtype"
    summary = "in bfloat16 and float16 outputs drift no further than rounding explains"

    def missing(self, subject: Subject) -> str:
        transformed = any(p.is_floating_point() for p in subject.model.parameters()) or subject.inputs.has(*FLOATS, "tokens")
        return "" if transformed else "there is no number whose precision could change"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        work = _Drift(subject)
        drift, wrong = work.near()
        if not any(f.cause.startswith("overflow") for f in wrong):
            wrong += work.far()
        note = "; ".join([", ".join(f"{_name(d)} {e:.1e}" for d, e in drift.items()), *work.notes])
        measured = [drift[d] for d in COARSE if d in drift and math.isfinite(drift[d])]
        if not measured and not wrong:
            return self.row("undecided", note=note)
        if wrong:
            cause = "; ".join(dict.fromkeys(f"in {_name(f.dtype)} {f.cause}" for f in wrong))
            return self.row("broken", measured, error32=drift.get(torch.float32), where=wrong[0].where, cause=cause, note=note)
        if work.unclear:
            return self.row("undecided", measured, note=f"{work.unclear}; {note}")
        return self.row("holds", measured, error32=drift.get(torch.float32), note=note)


class _Drift:
    """The passes of one model, in each precision."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.notes, self.unclear = subject, list[str](), ""
        generator = Generator().manual_seed(subject.seed + 41)
        jittered = subject.inputs.each(lambda t: _off(t, generator) if t.is_floating_point() else t, *FLOATS)
        self.inputs = jittered.each(lambda t: replace(t, x=_off(t.x, generator)), "tokens")

    def run(self, dtype: torch.dtype, random: bool = False, kept: bool = False) -> Pass:
        """The model as `.to(dtype)` makes it; in its own precision, as it is. kept: buffers stay in float32."""
        model = copy_in_dtype(self.subject.model, dtype) if dtype == torch.float64 else copy.deepcopy(self.subject.model)
        if dtype not in (torch.float64, self.subject.dtype):
            model.to(dtype)
        if kept:
            _keep_buffers(self.subject.model, model)
        generator = Generator().manual_seed(self.subject.seed + 43)
        with torch.no_grad():
            for given, p in zip(self.subject.model.parameters(), model.parameters(), strict=True):
                if p.is_floating_point():
                    p.copy_(_off(given, generator).to(p.dtype))
        if random:
            randomize_parameters(model, self.subject.seed)
        other = self.subject.like(model, self.inputs)
        other.dtype = dtype
        return Pass(other, dtype, False)

    def near(self) -> tuple[dict[torch.dtype, float], list[Finding]]:
        """Drift at the given parameters, and what rounding does not explain."""
        wide = self.run(torch.float64)
        reference = wide(wide.inputs)
        if bad := finite(reference):
            raise Undecided(f"{bad} is not finite, in float64 too")
        drift, wrong = dict[torch.dtype, float](), list[Finding]()
        for dtype in (torch.float32, *COARSE):
            try:
                run = self.run(dtype)
                outputs = run(run.inputs)
            except Crashed as crash:
                self.notes.append(f"in {_name(dtype)} {crash}")
                continue
            if dtype in COARSE and finite(outputs) and not finite(reference):
                wrong.append(_overflowing(run, dtype) or Finding(dtype, "overflows to inf or NaN", "", math.inf))
                continue
            drift[dtype] = max_error(reference, outputs)
            explained = _explained(drift, dtype)
            if dtype in COARSE and explained * MORE > 1 and drift[dtype] > 1 / MORE:
                self.unclear = f"in float32 outputs are {drift[torch.float32]:.1e} off already, which explains any drift"
            elif dtype in COARSE and drift[dtype] > _more(reference) * 4 * explained:
                if (overflow := _overflowing(run, dtype)) is not None:
                    wrong.append(overflow)
                    continue
                cause = f"outputs are {drift[dtype]:.1e} off where rounding explains {explained:.1e}"
                if halves := [n for n, b in self.subject.model.named_buffers() if b.is_complex()]:
                    cause += f"; .to({_name(dtype)}) throws the imaginary part of {halves[0]} away"
                wrong.append(Finding(dtype, cause, _begins(wide, run, wide.inputs, False, dtype), drift[dtype]))
        return drift, wrong

    def far(self) -> list[Finding]:
        """The same with half of the words 4096 places on, at random parameters, at which places matter."""
        if not self.inputs.has("tokens", "position_ids", "coordinates"):
            return []
        wide, wrong = self.run(torch.float64, True), list[Finding]()
        there = apart_by(wide.inputs)
        try:
            reference = wide(wide.inputs), wide(there)
        except Crashed:
            self.notes.append(f"places {FAR} further on are not taken")
            return []
        for dtype in COARSE:
            try:
                near, far = self._both(reference, dtype)
            except Crashed:
                continue
            explained = max(near, _eps(dtype))
            if not far > _more(reference[0]) * explained or explained * MORE > 1:
                self.notes.append(f"{_name(dtype)} at +{FAR}: {far:.1e} ({near:.1e} at the given places), at random parameters")
                continue
            wrong.append(self._found(wide, reference, dtype, near, far, locate=not wrong))
        return wrong

    def _both(self, reference: tuple[Outputs, Outputs], dtype: torch.dtype, kept: bool = False) -> tuple[float, float]:
        run = self.run(dtype, True, kept)
        near, far = run(run.inputs), run(apart_by(run.inputs))
        return max_error(reference[0], near), max_error(reference[1], far)

    def _found(
        self, wide: Pass, reference: tuple[Outputs, Outputs], dtype: torch.dtype, near: float, far: float, locate: bool,
    ) -> Finding:  # fmt: skip
        cause = f"places are computed too coarsely: {far:.1e} off {FAR} places further on, {near:.1e} at the given ones"
        where = _begins(wide, self.run(dtype, True), wide.inputs, True, dtype) if locate else ""
        names = list(_buffers(self.subject.model))
        if names and dtype != self.subject.dtype:
            try:
                kept = self._both(reference, dtype, True)[1]
            except Crashed:
                kept = math.inf
            if kept < far / MORE:
                short = ", ".join(names[:3])
                cause = f".to({_name(dtype)}) rounds the buffers {short}: {far:.1e} off {FAR} places further on, {kept:.1e} without"
        return Finding(dtype, cause, where, far)


def _explained(drift: dict[torch.dtype, float], dtype: torch.dtype) -> float:
    """What rounding explains: the error in float32 times the ratio of precisions, at least one rounding of the outputs."""
    return max(drift.get(torch.float32, 0.0) * _eps(dtype) / _eps(torch.float32), _eps(dtype))


def _more(outputs: Outputs) -> float:
    return MORE if sum(t.numel() for t in outputs.values()) >= MANY else MORE_FEW


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _off(t: Tensor, generator: Generator) -> Tensor:
    """Each number moved by up to 2^-9 of itself, in float64: so no precision holds it exactly."""
    noise = 2 * torch.rand(t.shape, generator=generator, dtype=torch.float64).to(t.device) - 1
    return t.detach().double() * (1 + noise * 2.0**-9)


def _buffers(model: torch.nn.Module) -> Iterator[str]:
    """Names of buffers that a cast rounds."""
    for name, b in model.named_buffers():
        if b.dtype == torch.float32 and not torch.equal(b, b.to(torch.bfloat16).to(b.dtype)):
            yield name


def _keep_buffers(given: torch.nn.Module, model: torch.nn.Module) -> None:
    for name in _buffers(given):
        path, _, key = name.rpartition(".")
        model.get_submodule(path)._buffers[key] = given.get_buffer(name).clone()


def _endless(t: Any) -> bool:
    return isinstance(t, Tensor) and t.is_floating_point() and bool((torch.isnan(t) | (t == math.inf)).any())


def _overflowing(run: Pass, dtype: torch.dtype) -> Finding | None:
    """The first operation that makes inf or NaN of numbers that are neither (-inf is how a mask hides); None where none does."""
    found: list[tuple[str, str]] = []
    with scoped(run.model) as scope:

        def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            made = func(*args, **kwargs)
            if not found and isinstance(made, Tensor) and _endless(made) and not any(map(_endless, args)):
                found.append((func.overloadpacket.__name__.strip("_"), scope[-1] if scope else ""))
            return made

        with Operations(answer):
            run.outputs_of(run.inputs.call)
    if not found:
        return None
    operation, module = found[0]
    where = module or type(run.model).__name__
    return Finding(dtype, f"overflows to inf or NaN, first in {operation} of {where}", where, math.inf)


def _begins(wide: Pass, run: Pass, inputs: Inputs, far: bool, dtype: torch.dtype) -> str:
    """The first module whose numbers are off by more than rounding explains: several times more than what it was given, or, with
    places far apart, than at the given ones."""

    def off(inputs: Inputs) -> list[tuple[Event, float]]:
        pairs = zip(events(wide, inputs), events(run, inputs), strict=False)
        return [(a, max((error(s, t) for s, t in zip(a.tensors, b.tensors, strict=False)), default=0.0)) for a, b in pairs]

    here = off(inputs)
    there = off(apart_by(inputs)) if far else here
    for i, ((event, found), (_, near)) in enumerate(zip(there, here, strict=False)):
        before = near if far else here[i - 1][1] if i else 0.0
        if event.leaves and found > MORE * max(before, _eps(dtype)) * (1 if far else 4):
            return event.module or type(run.model).__name__
    return type(run.model).__name__


def apart_by(inputs: Inputs, gap: int = FAR) -> Inputs:
    """The second half of the words so many places further on: far away, and far from the first half."""

    def later(at: Tensor, axis: int) -> Tensor:
        transformed = at.clone()
        n = at.shape[axis]
        transformed.narrow(axis, n // 2, n - n // 2).add_(gap)
        return transformed

    transformed = inputs.each(lambda at: later(at, -1), "position_ids").each(lambda at: later(at, -2), "coordinates")
    return transformed.each(lambda t: replace(t, positions=later(t.positions, -2), counted=None), "tokens")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
