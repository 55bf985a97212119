"""Float32 tables: values that a model computed once in float32 and stores.

Cosines computed at construction stay rounded to float32 when the model runs in float64. This leaves an error of about 1e-8 that
does not shrink and looks like a small violation. To recognise it, every value of such tables is changed by half of its last float32
digit: an error not larger than the effect of that change is rounding of the tables.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import ModelError, Pass
from equiscope.symmetry import Inputs

ROUNDING = 1e-13  # errors below it are rounding in float64
LARGEST = 1e-4  # a larger error is not rounding of a table
HALF = 2.0**-24  # half of the last digit of a float32, relative
FACTOR = 4.0  # both runs have errors, from different entries


def explaining_tables(run: Pass, pair: RunPair, own_error: float) -> str:
    """Names of the tables whose rounding explains this error; empty where none does."""
    if not run.high_precision or not own_error < LARGEST:
        return ""
    groups = dict[str, list[tuple[str, Tensor]]]()
    for name, table in _tables(run):
        groups.setdefault(name.rpartition(".")[2], []).append((name, table))
    if not groups:
        return ""
    try:
        whole = _change(run, pair, [t for group in groups.values() for _, t in group])
        if not own_error <= FACTOR * whole:
            return ""
        names = [_group_name(g) for g in groups.values() if len(groups) == 1 or _change(run, pair, [t for _, t in g]) > whole / 4]
    except ModelError:
        return ""
    return ", ".join(names[:3])


def _group_name(group: list[tuple[str, Tensor]]) -> str:
    return group[0][0] + (f" and {len(group) - 1} more" if len(group) > 1 else "")


def _tables(run: Pass) -> Iterator[tuple[str, Tensor]]:
    """Tensors that are not trainable, have a lower precision than float64 in the given model, and are not integers."""
    original_tensors = {name: t for name, t, _ in _named_tensors(run.subject.model)}
    for name, table, trainable in _named_tensors(run.model):
        original = original_tensors.get(name)
        low_precision = original is not None and original.dtype in (torch.float32, torch.complex64, torch.bfloat16, torch.float16)
        if low_precision and not trainable and table.numel() > 1 and not _is_exact(table):
            yield name, table


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor, bool]]:
    """Buffers, parameters and plain attributes: name, tensor, whether it is trainable."""
    for path, module in model.named_modules():
        plain = {n: v for n, v in vars(module).items() if isinstance(v, Tensor)}
        for name, t in [*module._parameters.items(), *module._buffers.items(), *plain.items()]:
            if t is not None:
                yield f"{path}.{name}".lstrip("."), t, isinstance(t, nn.Parameter) and t.requires_grad


def _is_exact(t: Tensor) -> bool:
    """Whether float32 represents the values exactly: counts, flags."""
    parts = torch.view_as_real(t) if t.is_complex() else t
    return not parts.is_floating_point() or bool((parts == parts.round()).all())


def _change(run: Pass, pair: RunPair, tables: list[Tensor]) -> float:
    """How much the outputs of both runs change when tables are changed by half of their last digit."""
    total = 0.0
    for inputs in (pair.original, pair.transformed):
        if not isinstance(inputs, Inputs):
            continue

        def call(model: nn.Module, original: Inputs = inputs) -> Any:
            return original.to(run.dtype).call(model)

        def changed(model: nn.Module, call: Callable[[nn.Module], Any] = call) -> Any:
            with _perturbed(tables):
                return call(model)

        plain, other = run.outputs_of(call), run.outputs_of(changed)
        total += max((error(t, other[n]) for n, t in plain.items() if n in other), default=0.0)
    return total


def _angle_error(t: Tensor) -> Tensor:
    """The error of sines of angles in float32, in half digits: the error of an angle grows with the row.

    The speed of each column is estimated from the table: the largest step from row to row.
    """
    if t.ndim < 2 or t.abs().max() > 1 + 1e-6 or max(t.shape) < 3:
        return torch.zeros_like(t)
    axis = max(range(t.ndim), key=lambda i: t.shape[i])
    speed = 2 * torch.asin((t.diff(dim=axis).abs().amax(axis, keepdim=True) / 2).clamp(max=1))
    rows = torch.arange(t.shape[axis], device=t.device).reshape([-1 if i == axis else 1 for i in range(t.ndim)])
    return rows * speed * (1 - t**2).clamp(min=0).sqrt()


@contextmanager
def _perturbed(tables: list[Tensor]) -> Iterator[None]:
    generator, saved = Generator().manual_seed(0), [t.detach().clone() for t in tables]
    with torch.no_grad():
        for t in tables:
            parts = torch.view_as_real(t) if t.is_complex() else t
            sign = 2.0 * torch.randint(2, parts.shape, generator=generator).to(parts) - 1
            parts.add_(sign * HALF * (parts.abs() + _angle_error(parts)))
    try:
        yield
    finally:
        with torch.no_grad():
            for t, value in zip(tables, saved, strict=True):
                t.copy_(value)


__all__ = ["LARGEST", "ROUNDING", "explaining_tables"]
