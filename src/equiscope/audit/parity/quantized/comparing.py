"""Compare a model with its quantized form: only quantized, or also wrong?

The quantized side is computed once more with the other side's weights in place of those that are their nearest numbers on a grid,
and without rounding its activations. If it then computes the other side's numbers, quantization is all that is between the two.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from torch import Tensor

from equiscope.audit.parity.causes.finding import CAUSES
from equiscope.audit.parity.drift import answers, by_layer, growth
from equiscope.audit.parity.files import of_onnx, read_onnx
from equiscope.audit.parity.judging import compare_sides
from equiscope.audit.parity.quantized import onnx_graph, torch_modules
from equiscope.audit.parity.quantized.exact import clipped_activations, exact_side, roundings
from equiscope.audit.parity.quantized.weights import Match, matches
from equiscope.audit.parity.sides import Side, of_module
from equiscope.audit.parity.source import Source
from equiscope.record import Parity, ParityWeight
from equiscope.record.report import percent

SIDES = "A", "B"


@dataclass(frozen=True, eq=False)
class Quantization:
    """A quantized side beside the other one.

    which      0 for A, 1 for B
    side       what it computes, in floating point
    matches    its weights, in the order in which they are read
    exact      by step and by the value that it reads as its weight: A's numbers -> the side with these, and without rounding
    kernels    its modules that do not compute what their weights and a rounded input give
    unrounded  whether `exact` leaves out the rounding of activations; clipped: where that cuts numbers off, in words
    """

    which: int
    side: Side
    matches: list[Match]
    exact: Callable[[dict[tuple[int, int], Tensor]], Side]
    kernels: list[str]
    unrounded: bool
    clipped: list[str]


def quantization_of(
    sources: list[Source], sides: list[Side], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int
) -> Quantization | None:
    """The side that is quantized; None where neither has weights of the other one on a grid."""
    for which in (1, 0):
        found = None
        if sides[1 - which].is_recorded:  # it has no weights
            continue
        if sources[which].kind == "onnx":
            found = _of_graph(which, sources[which], sides, args, kwargs)
        elif sources[which].kind == "module":
            found = _of_module(which, sources[which], sides, args, kwargs, seed)
        if found is not None and any(match.grid is not None and match.a is not None for match in found.matches):
            return found
    return None


def _of_module(
    which: int, source: Source, sides: list[Side], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int
) -> Quantization | None:
    assert source.model is not None
    floats = torch_modules.in_floats(source.model)
    side = sides[which] if floats is None else of_module(floats, args, kwargs, sides[which].title, seed)
    if side.program is None:
        return None
    unrounded = [] if roundings(sides[1 - which]) else roundings(side)
    wrong = [] if floats is None else torch_modules.wrong_kernels(source.model, floats, args, kwargs)
    exact = partial(exact_side, side, unrounded=unrounded)
    return Quantization(
        which, side, matches(sides[1 - which], side), exact, wrong, bool(unrounded), clipped_activations(side, unrounded)
    )


def _of_graph(
    which: int, source: Source, sides: list[Side], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Quantization | None:
    floats = onnx_graph.in_floats(read_onnx(source.path))
    if floats is None:
        return None
    graph, products = floats
    side, native = of_onnx(graph, source.path, args, kwargs), sides[which]
    index = {name: value for value, name in native.names.items()}

    def exact(weights: dict[tuple[int, int], Tensor]) -> Side:
        numbers = {side.names[value]: t for (_, value), t in weights.items()}
        return of_onnx(onnx_graph.with_weights(graph, numbers), source.path, args, kwargs)

    wrong = [product.node for product in products if not product.explains(native, index)]
    rounded = {value: native.high[index[name]] for value, name in side.names.items() if name in index}
    found = matches(sides[1 - which], side)
    return Quantization(which, replace(side, high=rounded), found, exact, wrong, bool(products), [])


def compare_quantized(quantization: Quantization, sides: list[Side], seed: int, most: int = 1) -> Parity:
    """The record of a model and its quantized form. sides: of the two as they are; most: differences that are listed."""
    which, side, found = quantization.which, quantization.side, quantization.matches
    unrounded, clipped = quantization.unrounded, quantization.clipped
    comparison, _ = compare_sides(sides[0], sides[1], seed, most=0)
    weights = {(m.b.step.value, m.b.value): m.exact for m in found if m.state == "quantized" and m.exact is not None}
    pair = [sides[0], sides[1]]
    pair[which] = quantization.exact(weights)
    at_exact, alignment = compare_sides(pair[0], pair[1], seed, most)
    rows = [_row(match, which) for match in found]
    text = _text(found, which)
    notes = [*sides[1 - which].notes, *side.notes, *_notes(found, which), *clipped]
    if not at_exact.holds:
        fault = _first_fault(at_exact, found, side, which)
        put = f"{text}. The two were compared with {SIDES[1 - which]}'s weights in {SIDES[which]}"
        notes = [f"{put}{', and without rounding activations' if unrounded else ''}.", *at_exact.notes]
        notes += [*_notes([m for m in found if m is not fault], which), *clipped]
        cause = {} if fault is None else _cause(fault, which)
        return msgspec.structs.replace(at_exact, notes=notes, weights=rows, **cause)
    if quantization.kernels:
        return _wrong_kernel(comparison, quantization, rows, notes)
    pair[which] = side
    drift = by_layer(pair[0], pair[1], alignment)
    ours, theirs = SIDES[1 - which], SIDES[which]
    evidence = (
        f"{theirs} with {ours}'s weights{', and without rounding activations,' if unrounded else ''} computes {ours}'s numbers"
    )
    return msgspec.structs.replace(
        comparison, verdict="approximate", kind="quantization", cause=f"{CAUSES['quantization']}: {text}", evidence=evidence,
        rows=[msgspec.structs.replace(row, verdict="approximate", note="") for row in comparison.rows],
        notes=[*notes, *growth(drift)], weights=rows, drift=drift,
        answers=answers(sides), aligned=at_exact.aligned, values=at_exact.values, ties=at_exact.ties,
    )  # fmt: skip


def _wrong_kernel(comparison: Parity, quantization: Quantization, rows: list[ParityWeight], notes: list[str]) -> Parity:
    """The record where the weights are right, and a module of torch's computes other numbers from them."""
    first, side = quantization.kernels[0], SIDES[quantization.which]
    step = next(quantization.side.describe(m.b.step.value) for m in quantization.matches if m.b.step.module == first)
    steps: dict[str, Any] = {"step_a" if side == "A" else "step_b": step}
    more = f", and {len(quantization.kernels) - 1} more" if len(quantization.kernels) > 1 else ""
    kind = "quantization kernel"
    cause = f"{CAUSES[kind]}: {first} of {side}{more} computes other numbers than its weights and its input give"
    evidence = "its own input, rounded or not, times its weights is further away than rounding that input explains"
    return msgspec.structs.replace(comparison, kind=kind, cause=cause, evidence=evidence, notes=notes, weights=rows, **steps)


def _text(weights: list[Match], which: int) -> str:
    """How many weights are quantized, in words."""
    kinds = Counter(_grid(m) for m in weights if m.state == "quantized")
    ours, theirs = SIDES[1 - which], SIDES[which]
    total = sum(kinds.values())
    first = f"{total} of {len(weights)} weight matrices of {theirs} are {ours}'s"
    if len(kinds) <= 1:
        return f"{first}, rounded{' to ' + next(iter(kinds)) if kinds else ''}"
    return f"{first}, rounded: {', '.join(f'{count} to {grid}' for grid, count in kinds.most_common())}"


def _grid(match: Match) -> str:
    assert match.grid is not None
    per = match.grid.per
    return f"{match.grid.bits} bits with one scale per {per if isinstance(per, str) else f'group of {per}'}"


def _notes(weights: list[Match], which: int) -> list[str]:
    equal = list(dict.fromkeys(m.b.name for m in weights if m.state == "equal"))
    notes = [f"Not quantized: {_some(equal)}."] if equal else []
    for match in weights:
        if match.judgement is not None and match.state == "quantized" and match.judgement.clipped:
            share = percent(match.judgement.clipped)
            notes.append(f"{match.b.name}: {share} of the numbers lie beyond the largest that the grid holds.")
    return [*notes, *(f"{_other(match, which)}." for match in weights if match.state == "other")]


def _other(match: Match, which: int) -> str:
    """What another weight holds, as a sentence without its end."""
    ours, theirs = f"{SIDES[1 - which]}'s", f"{SIDES[which]}'s {match.b.name}"
    if match.a is None:
        return f"{theirs} is similar to no weight of {SIDES[1 - which]}"
    ours = ours if match.a == match.b.name else f"{ours} {match.a}"
    if match.judgement is None:
        return f"{theirs} differs from {ours} by {percent(match.error or 0.0)} and is not rounded"
    wrong = match.judgement.text or f"numbers are up to {match.judgement.worst:.3g} steps away, where half a step is the most"
    return f"{theirs} is {ours}, rounded to {_grid(match)}, but {wrong}"


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def _row(match: Match, which: int) -> ParityWeight:
    names = match.a or "", match.b.name
    a, b = names if which == 1 else names[::-1]
    grid, judgement = match.grid, match.judgement
    return ParityWeight(
        a=a, b=b, module=match.b.step.module, state=match.state, bits=None if grid is None else grid.bits,
        scales="" if grid is None else f"per {grid.per if isinstance(grid.per, str) else f'group of {grid.per}'}",
        error=match.error, steps=None if judgement is None else judgement.worst, note="" if judgement is None else judgement.text,
    )  # fmt: skip


def _first_fault(at_exact: Parity, weights: list[Match], side: Side, which: int) -> Match | None:
    """The weight of the first step that differs, if it is on a grid and its numbers are not the nearest."""
    step = at_exact.step_b if which == 1 else at_exact.step_a
    match = next((m for m in weights if m.state == "other" and step is not None and side.describe(m.b.step.value) == step), None)
    return None if match is None or match.judgement is None or match.a is None else match


def _cause(match: Match, which: int) -> dict[str, str]:
    assert match.judgement is not None
    kind = f"quantization {match.judgement.kind}" if match.judgement.kind else "weights"
    evidence = "every number of the weight was compared with the nearest of the grid"
    return {"kind": kind, "cause": f"{CAUSES[kind]}: {_other(match, which)}", "evidence": evidence}
