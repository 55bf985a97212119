"""Parity: do two implementations compute the same, and if not, which step differs first, and why?

No names are compared and no tolerance is chosen: values are aligned by their numbers, and an error that shrinks from float32 to
float64 as rounding does is rounding.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import msgspec
import torch
from torch import nn

from equiscope.audit.parity.alignment import align
from equiscope.audit.parity.casts import casts
from equiscope.audit.parity.causes import Finding
from equiscope.audit.parity.drift import at_lower_precision, drift
from equiscope.audit.parity.judging import compare_sides
from equiscope.audit.parity.quantized.comparing import compare_quantized, quantization_of
from equiscope.audit.parity.sides import Side, of_module
from equiscope.audit.parity.source import Source
from equiscope.audit.subject.no_dropout import in_mode
from equiscope.errors import InputError
from equiscope.record import Parity

HALF_PASSES = 4  # times the rounding error of one pass in half precision: a larger error is a difference


def parity(
    a: Any, b: Any, *inputs: Any, kwargs: Mapping[str, Any] | None = None, titles: tuple[str, str] = ("", ""), seed: int = 0,
    processes: int | None = None, differences: int = 5,
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
    differences the most that are listed, 1 or more: behind the first one, A goes on from B's numbers. On processes only the first
    returns     a Parity: verdict, first step that differs on both sides, and its cause
    raises      InputError where a side cannot be read, or raises on these inputs
    """
    if differences < 1:
        raise InputError(f"At least one difference is sought, but got differences={differences}. Give 1 or more.")
    if processes is not None or (callable(b) and not isinstance(b, nn.Module)):
        return _on_processes(a, b, inputs, dict(kwargs or {}), processes, titles, seed)
    sources = [Source.of(x, side, seed) for x, side in ((a, "A"), (b, "B"))]
    named = _titles(sources, titles)
    args, named_inputs = inputs, dict(kwargs or {})
    if not args and not named_inputs:
        own = next((s for kind in ("dump", "module") for s in sources if s.kind == kind and (s.args or s.kwargs)), None)
        runs = next((s for s in sources if s.kind != "dump"), None)
        silent = next((s for s in sources if s.kind == "dump" and not (s.args or s.kwargs)), None)
        if runs is not None and silent is not None and (own is None or own.generated):
            raise InputError(
                f"{silent.title} records no inputs, and {runs.title} comes with none, so the two cannot be compared. Record the "
                "inputs as input.0, input.1, ..., or let a factory return (model, inputs)."
            )
        if own is not None:
            args, named_inputs = own.args, own.kwargs
        elif (refusal := next((s.refusal for s in sources if s.refusal is not None), None)) is not None:
            raise refusal
        elif runs is not None:
            raise InputError("Neither A nor B comes with inputs. Give those of one call after the two models.")

    def run() -> list[Side]:
        return [s.run(args, named_inputs, title, seed) for s, title in zip(sources, named, strict=True)]

    sides = run()
    if (quantization := quantization_of(sources, sides, args, named_inputs, seed)) is not None:
        return compare_quantized(quantization, sides, seed, differences)
    if (found := _computed_in_half(sources, sides, args, named_inputs, seed, differences)) is not None:
        return found
    comparison = compare_sides(sides[0], sides[1], seed, differences)[0]
    if not comparison.holds and not comparison.kind and any(side.is_recorded for side in sides):
        comparison = _at_its_precision(comparison, sources, sides, args, named_inputs, seed, differences)
    models = [s.model for s in sources if s.model is not None]
    if not comparison.holds and len(models) == 2 and (both := at_lower_precision(models[0], models[1])) is not None:
        first, second = (of_module(m, args, named_inputs, title, seed) for m, title in zip(both, named, strict=True))
        at_narrow = compare_sides(first, second, seed, differences)[0]
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
        sides = run()
        quiet = compare_sides(sides[0], sides[1], seed, differences)[0]
    return _of_mode(comparison, quiet, [None if s.model is None else any(s.model is m for m in training) for s in sources])


def _at_its_precision(
    exact: Parity, sources: list[Source], sides: list[Side], args: Any, kwargs: Mapping[str, Any], seed: int, most: int
) -> Parity:
    """The comparison with activations that were computed in a lower precision than the file has, or in half precision.

    exact  the comparison with the numbers as they are stored, which differ and have no cause
    """
    recorded = next(side for side in sides if side.is_recorded)
    if recorded.single:
        wide = _in_half(sources, sides, args, kwargs, seed)
        found = exact if wide is None else compare_sides(wide[0], wide[1], seed, most)[0]
        note = _of_half(recorded)
    else:
        first, second = (replace(side, single=side.single or side.is_recorded) for side in sides)
        found = compare_sides(first, second, seed, most)[0]
        note = f"{recorded.title} is in float64, and differs by less than the rounding of float32: a step may compute in float32."
    return msgspec.structs.replace(found, notes=[*found.notes, note]) if found.holds or found.kind else found


def _computed_in_half(
    sources: list[Source], sides: list[Side], args: Any, kwargs: Mapping[str, Any], seed: int, most: int
) -> Parity | None:
    """The comparison with activations that were computed in half precision; None where they differ, or were only stored so."""
    wide = _in_half(sources, sides, args, kwargs, seed)
    if wide is None or not compare_sides(wide[0], wide[1], seed, 0)[0].holds:
        return None
    recorded = next(side for side in sides if side.is_recorded)
    alignment = align(*sides)[0]
    equal = alignment.back if recorded is sides[1] else alignment.pairs
    if 2 * sum(node.value in equal for node in recorded.nodes) > len(recorded.nodes):
        return None  # what was only stored in half precision is compared more closely
    found = compare_sides(wide[0], wide[1], seed, most)[0]
    return msgspec.structs.replace(found, notes=[*found.notes, _of_half(recorded)])


def _in_half(sources: list[Source], sides: list[Side], args: Any, kwargs: Mapping[str, Any], seed: int) -> list[Side] | None:
    """The sides with the rounding of one pass in half precision; None where no recorded tensor is in half precision."""
    recorded = next((side for side in sides if side.is_recorded and side.units), None)
    if recorded is None or not any(s.model is not None for s in sources):
        return None
    dtype = _dtype_of(recorded)
    try:
        return [
            replace(side, passes=HALF_PASSES) if s.model is None
            else replace(of_module(s.model, args, kwargs, side.title, seed, dtype), tables=side.tables)
            for s, side in zip(sources, sides, strict=True)
        ]  # fmt: skip
    except InputError:  # an operation without a kernel for the dtype
        return None


def _dtype_of(recorded: Side) -> torch.dtype:
    return torch.bfloat16 if max(recorded.units.values(), default=0.0) > torch.finfo(torch.float16).eps else torch.float16


def _of_half(recorded: Side) -> str:
    name = str(_dtype_of(recorded)).removeprefix("torch.")
    return f"{recorded.title} is compared as computed in {name}: up to {HALF_PASSES} times the rounding of one pass is rounding."


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
        raise source.refusal or InputError("A comes without inputs. Give those of one call after the two models.")
    named = titles[0] or source.title, titles[1] or (b if isinstance(b, str) else getattr(b, "__name__", "B"))
    return compare_processes(source.model, b, inputs, kwargs, processes, named, seed)


def _of_mode(noisy: Parity, quiet: Parity, training: list[bool | None]) -> Parity:
    """The comparison in training mode, with what evaluation mode explains. training: of each side; None for a file."""
    says = ["a file" if one is None else "training mode" if one else "evaluation mode" for one in training]
    if quiet.holds:
        mode = Finding("mode", says[0], says[1], "in evaluation mode both compute the same")
        return msgspec.structs.replace(noisy, kind=mode.kind, cause=mode.text, evidence=mode.evidence, further=[])
    sides = [f"{side} was in {mode}" for side, mode, one in zip("AB", says, training, strict=True) if one is not None]
    modes = "Both were in training mode" if all(training) else " and ".join(sides)
    note = f"{modes}. They differ in evaluation mode too, which is what is reported."
    return msgspec.structs.replace(quiet, notes=[*quiet.notes, note] if quiet.verdict != "undecided" else quiet.notes)


def _titles(sources: "list[Source]", titles: tuple[str, str]) -> tuple[str, str]:
    first, second = (title or source.title for title, source in zip(titles, sources, strict=True))
    return (f"{first} (A)", f"{second} (B)") if first == second else (first, second)
