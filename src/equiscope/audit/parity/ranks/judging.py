"""Judge one process against several: the record of the comparison."""

import platform
import time

import torch
from torch import Tensor

from equiscope import __version__
from equiscope.audit.parity.alignment import STORED, difference, is_rounding
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.ranks.causes import find_cause
from equiscope.audit.parity.ranks.layouts import Shared, layout
from equiscope.audit.parity.ranks.values import PairedCall, Processes
from equiscope.audit.verdict import SEVERITY, StatementErrors
from equiscope.errors import InputError
from equiscope.record import Parity, ParityRow, ParityStep


def judge(sides: Processes, titles: tuple[str, str]) -> Parity:
    """The record. Each output has to be whole on every process, or sharded."""
    start = time.perf_counter()
    rows = [_row(sides, name) for name in _outputs(sides)]
    verdict = max((row.verdict for row in rows), key=SEVERITY.__getitem__)
    finding, call, notes = Finding("", ""), None, list[str]()
    if verdict != "holds":
        wrong = sides.unexplained
        first = wrong[0] if wrong else next((c for c in sides.calls if c.path == ""), None)
        cause = None if first is None else find_cause(sides, first)
        finding = finding if cause is None else cause.finding
        call = first if cause is None else cause.call
    explained = sum(call.layout is not None for call in sides.calls)
    left_out = len(sides.one[torch.float64].calls) - len(sides.calls)
    if left_out > 0:
        notes.append(f"{left_out} calls of modules were not compared: B does not make them under these names on every process.")
    return Parity(
        a=titles[0], b=f"{titles[1]} on {sides.count} processes", verdict=verdict, rows=rows, kind=finding.kind, cause=finding.text,
        evidence=finding.proof, step_a=None if call is None else _step(call, call.shared.one),
        step_b=None if call is None else _step(call, call.shared.ranks[0]),
        aligned=explained, values=len(sides.calls), seed=sides.seed,
        seconds=time.perf_counter() - start, notes=notes,
        versions={"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )  # fmt: skip


def _outputs(sides: Processes) -> list[str]:
    """Outputs that A and every process return. Raises InputError where there is none."""
    ours = sides.one[torch.float64].outputs
    names = [name for name in ours if all(name in ranks[torch.float64].outputs for ranks in sides.many)]
    if not names:
        theirs = ", ".join(repr(name) for name in sides.many[0][torch.float64].outputs)
        raise InputError(f"A returns {', '.join(map(repr, ours))} and B returns {theirs}. Return the same on every process.")
    return names


def _row(sides: Processes, name: str) -> ParityRow:
    high, low = (
        Shared(sides.one[dtype].outputs[name], [ranks[dtype].outputs[name] for ranks in sides.many])
        for dtype in (torch.float64, torch.float32)
    )
    value = Shared(high.one, high.ranks, low)
    floor = max(difference(high.one.double(), low.one.double().reshape(high.one.shape)), STORED)
    found = layout(value)
    title = name or "output"
    if not bool(high.one.isfinite().all()):
        return ParityRow(name=title, verdict="undecided", note="an output of A is not a finite number")
    if found is not None and found.kind in ("whole", "sharded"):
        return ParityRow(
            name=title, verdict="holds", error=found.error, error32=found.error32, floor=floor,
            note="" if found.kind == "whole" else str(found),
        )  # fmt: skip
    one = high.one.double()
    if any(t.numel() != one.numel() for t in high.ranks):
        shapes = ", ".join(str(list(t.shape)) for t in high.ranks)
        note = f"A returns {list(one.shape)}, and the processes return {shapes}"
        return ParityRow(name=title, verdict="broken", error=float("inf"), floor=floor, note=note)
    errors = [difference(one, t.double().reshape(one.shape)) for t in high.ranks]
    narrow = [difference(low.one.double(), t.double().reshape(one.shape)) for t in low.ranks]
    wrong = [rank for rank, error in enumerate(errors) if not is_rounding(error, narrow[rank])]
    verdict = StatementErrors([max(errors)], [max(narrow)], floor).verdict
    where = "" if len(wrong) == sides.count else f"wrong on process {', '.join(map(str, wrong))} only"
    note = f"{found}" if found is not None else where
    return ParityRow(name=title, verdict=verdict, error=max(errors), error32=max(narrow), floor=floor, note=note)


def _step(call: PairedCall, t: Tensor) -> ParityStep:
    return ParityStep(module=call.path, operation=call.one.kind, value="output", shape=list(t.shape))
