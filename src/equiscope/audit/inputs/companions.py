"""Companions: the required arguments of a call beside its ids, features or picture, by their names and annotations.

A length, a mask, positions or a time cannot be drawn like ids: a mask of random ids would hide tokens, and a check would measure
the model with those hidden. Each gets the value that says least: all rows are tokens, nothing is hidden, positions count from 0.
A graph is a ring.
"""

import inspect
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.inputs.padding_mask import MASKS, TRUE_IS_PADDING, TRUE_IS_TOKEN
from equiscope.symmetry.inputs import NAMED, is_named_lengths

TRIES = 12  # combinations of values, for one shape of the tokens
TIMES = ("t", "time", "times", "timestep", "timesteps", "noise_level", "sigma", "sigmas")
OFFSETS = ("start_pos", "offset", "past_length", "cache_length", "step")
SIZES = ("max_len", "max_length")
CLASSES = ("y", "label", "class_labels", "labels")
BY_ANNOTATION: dict[Any, Any] = {int: 0, float: 0.5, bool: False, "int": 0, "float": 0.5, "bool": False}
STATES = ("cache", "past", "past_key_values", "layer_past", "kv_cache", "state", "hidden")


def required(model: nn.Module) -> dict[str, Any]:
    """The arguments of `forward` without a default, with their annotations, in order."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name: p.annotation for p in parameters if p.default is p.empty and p.kind in kinds}


def calls(needed: dict[str, Any], draw: Callable[[], Tensor]) -> Iterator[tuple[tuple[Any, ...], dict[str, str]]]:
    """Values for all arguments, in order, and the kinds that their names do not show: the likeliest combinations first.

    needed  names of the required arguments, with their annotations
    draw    makes one tensor of ids [..., N] or numbers [..., N, D], for each argument that holds tokens
    """
    beside = [n for n, annotation in needed.items() if _is_companion(n, annotation)]
    beside = beside if len(beside) < len(needed) else beside[1:]
    drawn = {n: draw() for n in needed if n not in beside}
    first = next(iter(drawn.values()))
    choices = [_values(n, needed[n], first, draw) if n in beside else [drawn[n]] for n in needed]
    for values in islice(product(*choices), TRIES):
        yield values, {n: _kind(v) for n, v in zip(needed, values, strict=True) if n in beside and not _kind_by_name(n)}


def _is_companion(name: str, annotation: Any) -> bool:
    """Whether an argument says something of the tokens, and holds none."""
    named = name in (*MASKS, *TIMES, *OFFSETS, *SIZES, *CLASSES, *STATES) or "mask" in name
    return named or _kind_by_name(name) != "" or _number(annotation) is not None


def _kind_by_name(name: str) -> str:
    """The kind of an argument, where it is one of a companion and its name shows it; else empty."""
    kind = "lengths" if is_named_lengths(name) else NAMED.get(name, "")
    return kind if kind in ("lengths", "flags", "position_ids", "edges", "adjacency") else ""


def _kind(value: Any) -> str:
    if not isinstance(value, Tensor) or value.ndim != 2:
        return "other"
    return "pairs" if value.shape[0] == value.shape[1] else "flags" if value.dtype == torch.bool else "other"


def _number(annotation: Any) -> Any:
    """The number for an argument that is annotated as one; None for any other."""
    return BY_ANNOTATION.get(annotation) if isinstance(annotation, (type, str)) else None


def _values(name: str, annotation: Any, main: Tensor, draw: Callable[[], Tensor]) -> list[Any]:
    """What to try for a companion of `main`, the likeliest first."""
    *lead, n = main.shape[:-1] if main.is_floating_point() else main.shape
    batch, kind, number = lead[0] if lead else 1, _kind_by_name(name), _number(annotation)
    if name in SIZES or kind == "lengths":
        return [n] if name in SIZES or number is not None else [torch.full((batch,), n), n]
    if name in OFFSETS or number is not None:
        return [number or 0]
    if kind == "edges":
        ring = torch.stack([torch.arange(n), torch.arange(n).roll(1)])
        return [torch.cat([ring, ring.flip(0)], 1)]
    if kind == "adjacency":
        ring = torch.stack([torch.eye(n).roll(step, 0) for step in (-1, 0, 1)]).amax(0)
        return [ring.expand(*lead, n, n).clone(), ring]
    if kind == "position_ids":
        return [torch.arange(n).expand(*lead, n), torch.arange(n)]
    if name in TRUE_IS_PADDING or (name in MASKS and name not in TRUE_IS_TOKEN):
        return [torch.zeros(*lead, n, dtype=dtype) for dtype in (torch.bool, torch.int64)]
    if name in ("token_type_ids", "segment_ids"):
        return [torch.zeros(*lead, n, dtype=torch.int64)]
    if kind == "flags":
        return [torch.ones(*lead, n, dtype=dtype) for dtype in (torch.int64, torch.bool)]
    if "mask" in name:
        keep = torch.ones(n, n, dtype=torch.bool)
        return [None, keep, ~keep, torch.zeros(n, n), torch.ones(*lead, n, dtype=torch.bool)]
    if name in TIMES:
        return [torch.ones(batch, dtype=torch.int64), torch.full((batch,), 0.5)]
    if name in CLASSES:
        return [torch.zeros(batch, dtype=torch.int64), draw()]
    return [None, draw()]
