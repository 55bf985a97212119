"""Parity: do two implementations compute the same, and if not, which step differs first, and why?

No names are compared and no tolerance is chosen: values are aligned by their numbers, and an error that shrinks from float32 to
float64 as rounding does is rounding.
"""

import platform
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import msgspec
import torch
from torch import nn

from equiscope import __version__
from equiscope.audit.parity.alignment import ONE_PRECISION, STORED, align, difference, is_rounding, sorted_numbers
from equiscope.audit.parity.casts import casts
from equiscope.audit.parity.causes import Finding, find
from equiscope.audit.parity.divergence import divergence
from equiscope.audit.parity.drift import at_lower_precision, drift
from equiscope.audit.parity.side_by_side import layers
from equiscope.audit.parity.sides import Side, of_module, with_tables_of
from equiscope.audit.parity.source import Source
from equiscope.audit.subject.no_dropout import in_mode
from equiscope.audit.verdict import SEVERITY, StatementErrors
from equiscope.errors import InputError, sentences
from equiscope.record import Parity, ParityRow
from equiscope.record.audit import Verdict
from equiscope.symmetry.measure import PRECISION, TOLERANCE


def parity(
    a: Any, b: Any, *inputs: Any, kwargs: Mapping[str, Any] | None = None, titles: tuple[str, str] = ("", ""), seed: int = 0,
    processes: int | None = None,
) -> Parity:  # fmt: skip
    """Compare two implementations on the same inputs.

    a, b        each a module, in the mode in which it is; a name as `equiscope check` takes it (module:factory, a checkpoint
                folder, transformers:CLASS, timm:NAME); an ONNX file; or recorded activations: a .npz or .safetensors file, or a
                mapping of arrays by name. They need not share names, shapes of weights or layouts. To compare one process
                with several, b is a function, or the name of one, that gets a copy of A on every process and makes it parallel
    inputs      of both, with `kwargs`. By default those of the recorded activations, else those that A, or B, comes with
    titles      what the report calls the two
    seed        of random numbers that a model draws
    processes   that run B, connected by gloo on this machine; 2 by default where b is a function. After
                torch.distributed.init_process_group, every process of the group calls `parity`, and gets the same answer
    returns     a Parity: verdict, first step that differs on both sides, and its cause
    raises      InputError where a side cannot be read, or raises on these inputs
    """
    if processes is not None or (callable(b) and not isinstance(b, nn.Module)):
        return _on_processes(a, b, inputs, dict(kwargs or {}), processes, titles, seed)
    sources = [Source.of(x, side, seed) for x, side in ((a, "A"), (b, "B"))]
    named = _titles(sources, titles)
    args, named_inputs = inputs, dict(kwargs or {})
    if not args and not named_inputs:
        own = next((s for kind in ("dump", "module") for s in sources if s.kind == kind and (s.args or s.kwargs)), None)
        if own is not None:
            args, named_inputs = own.args, own.kwargs
        elif any(s.kind in ("module", "onnx") for s in sources):
            raise InputError("Neither A nor B comes with inputs. Give those of one call after the two models.")

    def compared() -> Parity:
        first, second = (s.run(args, named_inputs, title, seed) for s, title in zip(sources, named, strict=True))
        return compare_sides(first, second, seed)

    comparison = compared()
    models = [s.model for s in sources if s.model is not None]
    if not comparison.holds and len(models) == 2 and (both := at_lower_precision(models[0], models[1])) is not None:
        first, second = (of_module(m, args, named_inputs, title, seed) for m, title in zip(both, named, strict=True))
        at_narrow = compare_sides(first, second, seed)
        if at_narrow.holds:
            return drift(comparison, (models[0], models[1]), args, named_inputs, seed)
        note = "The two have weights in different precisions. They were compared at those of the lower one."
        return msgspec.structs.replace(at_narrow, notes=[*at_narrow.notes, note])
    if comparison.holds and len(models) == 2:
        return casts(comparison, (models[0], models[1]), args, named_inputs, seed)
    training = [s.model for s in sources if s.model is not None and any(part.training for part in s.model.modules())]
    if comparison.holds or not training:
        return comparison
    with ExitStack() as stack:
        for model in training:
            stack.enter_context(in_mode(model, "eval"))
        quiet = compared()
    return _of_mode(comparison, quiet, [s.model is not None and any(s.model is m for m in training) for s in sources])


def _on_processes(
    a: Any, b: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], processes: int | None, titles: tuple[str, str], seed: int
) -> Parity:
    from equiscope.audit.parity.ranks.comparing import compare_processes  # torch.distributed takes time to import

    source = Source.of(a, "A", seed)
    if source.model is None:
        raise InputError(f"On several processes, A is a torch.nn.Module or the name of one, but got {source.title}.")
    if not inputs and not kwargs:
        inputs, kwargs = source.args, source.kwargs
    if not inputs and not kwargs:
        raise InputError("A comes without inputs. Give those of one call after the two models.")
    named = titles[0] or source.title, titles[1] or (b if isinstance(b, str) else getattr(b, "__name__", "B"))
    return compare_processes(source.model, b, inputs, kwargs, processes, named, seed)


def _of_mode(noisy: Parity, quiet: Parity, training: list[bool]) -> Parity:
    """The comparison in training mode, with what evaluation mode explains."""
    says = ["training mode" if one else "evaluation mode" for one in training]
    if quiet.holds:
        mode = Finding("mode", says[0], says[1], "in evaluation mode both compute the same")
        return msgspec.structs.replace(noisy, kind=mode.kind, cause=mode.text, evidence=mode.evidence)
    modes = "Both were in training mode" if all(training) else f"A was in {says[0]} and B in {says[1]}"
    note = f"{modes}. They differ in evaluation mode too, which is what is reported."
    return msgspec.structs.replace(quiet, notes=[*quiet.notes, note])


def _titles(sources: "list[Source]", titles: tuple[str, str]) -> tuple[str, str]:
    first, second = (title or source.title for title, source in zip(titles, sources, strict=True))
    return (f"{first} (A)", f"{second} (B)") if first == second else (first, second)


def compare_sides(a: Side, b: Side, seed: int = 0) -> Parity:
    """The record of two sides."""
    start = time.perf_counter()
    rows = [_row(a, b, *pair) for pair in _output_pairs(a, b)]
    if any(row.error is None or row.error > 1e3 * PRECISION * (row.floor or 0.0) for row in rows):
        b = with_tables_of(b, a)
        a = with_tables_of(a, b)
        rows = [_row(a, b, *pair) for pair in _output_pairs(a, b)]
    verdict = max((row.verdict for row in rows), key=SEVERITY.__getitem__)
    alignment, first, second = align(a, b)
    finding, where = Finding("", ""), None
    if verdict != "holds":
        where = divergence(a, b, alignment, first, second)
        finding = find(where) if where is not None else finding
    at = (None, finding.at) if a.program is None else (finding.at, None)
    notes = [*a.notes, *b.notes]
    if alignment.ties:
        notes.append(f"{alignment.ties} values had several equals in B; the order of computation decided.")
    return Parity(
        a=a.title, b=b.title, verdict=verdict, rows=rows, kind=finding.kind, cause=finding.text, evidence=finding.proof,
        step_a=None if where is None else a.describe(where.a_step.value if at[0] is None else at[0]),
        step_b=None if where is None or where.b_step is None else b.describe(where.b_step.value if at[1] is None else at[1]),
        aligned=len(alignment.pairs), values=alignment.candidates, ties=alignment.ties, seed=seed,
        seconds=time.perf_counter() - start, notes=notes,
        layers=layers(a, b, alignment, where),
        versions={"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )  # fmt: skip


def _output_pairs(a: Side, b: Side) -> list[tuple[str, int, int]]:
    """Outputs to compare: by name where names are shared, else in order."""
    shared = [name for name in a.outputs if name in b.outputs]
    if shared:
        return [(name or "output", a.outputs[name], b.outputs[name]) for name in shared]
    pairs = list(zip(a.outputs.items(), b.outputs.items(), strict=False))
    return [(name or other or "output", x, y) for (name, x), (other, y) in pairs]


def _row(a: Side, b: Side, name: str, x: int, y: int) -> ParityRow:
    """The comparison of two outputs. Their axes may be in another order, their numbers may not."""
    steps: dict[str, Any] = {"a": a.describe(x), "b": b.describe(y)}
    ours, theirs = a.numbers(x), b.numbers(y)
    if not bool(ours.isfinite().any()) or bool(ours.isnan().any() or theirs.isnan().any()):
        return ParityRow(name=name, verdict="undecided", note="an output is not a finite number", **steps)
    note, order = "", _axes(ours.shape, theirs.shape)
    if order is None:
        if ours.numel() != theirs.numel():
            shapes = f"{list(ours.shape)} and {list(theirs.shape)}"
            return ParityRow(name=name, verdict="broken", error=float("inf"), note=f"the shapes differ: {shapes}", **steps)
        order = ()
    if order:
        theirs, note = theirs.permute(order), f"the axes of B are permuted by {list(order)}"
    theirs = theirs.reshape(ours.shape)
    high = difference(ours, theirs)
    low, rounding = high, STORED
    if x in a.low:
        rounding = max(rounding, difference(ours, a.low[x].detach().double().reshape(ours.shape)))
    if x in a.low and y in b.low:
        one, other = (side.low[value].detach().double() for side, value in ((a, x), (b, y)))
        other = (other.permute(order) if order else other).reshape(one.shape)
        low, rounding = difference(one, other), difference(ours, one.reshape(ours.shape))
    if a.single or b.single:
        return _one_precision(name, high, rounding, note, steps)
    errors = StatementErrors([high], [low], rounding)
    if errors.verdict != "holds":
        flat, others = sorted_numbers(ours), sorted_numbers(theirs)
        if flat is not None and others is not None and is_rounding(difference(flat, others), low):
            note = "the outputs hold the same numbers in another order"
    return ParityRow(name=name, verdict=errors.verdict, error=high, error32=low, floor=rounding, note=note, **steps)


def _one_precision(name: str, error: float, rounding: float, note: str, steps: dict[str, Any]) -> ParityRow:
    """The comparison where a side has one precision: an error is rounding up to a multiple of the rounding error of one pass."""
    verdict: Verdict = "holds" if error <= ONE_PRECISION * rounding else "approximate" if error < TOLERANCE else "broken"
    note = sentences(note, f"one precision: an error up to {ONE_PRECISION} times the rounding error of one pass counts as rounding")
    return ParityRow(name=name, verdict=verdict, error32=error, floor=rounding, note=note, **steps)


def _axes(a: torch.Size, b: torch.Size) -> tuple[int, ...] | None:
    """Which axis of B is which of A: nothing where the shapes are equal up to axes of size 1; None where they cannot be."""
    if [n for n in a if n > 1] == [n for n in b if n > 1]:
        return ()
    if sorted(a) == sorted(b) and len(set(a)) == len(a):
        return tuple(list(b).index(n) for n in a)
    return None
