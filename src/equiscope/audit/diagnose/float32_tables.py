"""Float32 tables: what a model computed once in float32 and keeps.

Cosines made at construction stay rounded to float32 when the model is run in float64. Then an error of about 1e-8 is left that does
not shrink, and looks like a small violation. It is told by moving every number of such tables by half of its last float32 digit: an
error no larger than what that changes is the rounding of the tables.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Crashed, Pass
from equiscope.symmetry import Inputs

SMALL = 1e-13  # errors below it are rounding in float64
LARGEST = 1e-4  # an error above it is no rounding of a table
HALF = 2.0**-24  # half of the last digit of a float32, relative
TIMES = 4.0  # two runs err apart, each by other entries, and outputs draw them at random


def explained(run: Pass, pair: RunPair, found: float) -> str:
    """Names of tables whose rounding is as large as this error; empty where there are none, or where it is larger."""
    if not run.high_precision or not found < LARGEST:
        return ""
    groups = dict[str, list[tuple[str, Tensor]]]()
    for name, table in _tables(run):
        groups.setdefault(name.rpartition(".")[2], []).append((name, table))
    if not groups:
        return ""
    try:
        whole = _change(run, pair, [t for group in groups.values() for _, t in group])
        if not found <= TIMES * whole:
            return ""
        said = [_said(g) for g in groups.values() if len(groups) == 1 or _change(run, pair, [t for _, t in g]) > whole / 4]
    except Crashed:
        return ""
    return ", ".join(said[:3])


def _said(group: list[tuple[str, Tensor]]) -> str:
    return group[0][0] + (f" and {len(group) - 1} more" if len(group) > 1 else "")


def _tables(run: Pass) -> Iterator[tuple[str, Tensor]]:
    """Tensors that are not learned, were narrower than float64 in the given model, and are no whole numbers."""
    theirs = {name: t for name, t, _ in _kept(run.subject.model)}
    for name, table, learned in _kept(run.model):
        given = theirs.get(name)
        narrow = given is not None and given.dtype in (torch.float32, torch.complex64, torch.bfloat16, torch.float16)
        if narrow and not learned and table.numel() > 1 and not _whole(table):
            yield name, table


def _kept(model: nn.Module) -> Iterator[tuple[str, Tensor, bool]]:
    """Buffers, parameters and plain attributes: name, tensor, whether it is learned."""
    for path, module in model.named_modules():
        plain = {n: v for n, v in vars(module).items() if isinstance(v, Tensor)}
        for name, t in [*module._parameters.items(), *module._buffers.items(), *plain.items()]:
            if t is not None:
                yield f"{path}.{name}".lstrip("."), t, isinstance(t, nn.Parameter) and t.requires_grad


def _whole(t: Tensor) -> bool:
    """Numbers that float32 holds exactly anyhow: counts, flags."""
    parts = torch.view_as_real(t) if t.is_complex() else t
    return not parts.is_floating_point() or bool((parts == parts.round()).all())


def _change(run: Pass, pair: RunPair, tables: list[Tensor]) -> float:
    """How much outputs change, of both runs together, when tables move by half of their last digit."""
    total = 0.0
    for inputs in (pair.original, pair.transformed):
        if not isinstance(inputs, Inputs):
            continue

        def call(model: nn.Module, given: Inputs = inputs) -> Any:
            return given.to(run.dtype).call(model)

        def changed(model: nn.Module, call: Callable[[nn.Module], Any] = call) -> Any:
            with _moved(tables):
                return call(model)

        plain, other = run.outputs_of(call), run.outputs_of(changed)
        total += max((error(t, other[n]) for n, t in plain.items() if n in other), default=0.0)
    return total


def _turned(t: Tensor) -> Tensor:
    """How far a sine of an angle in float32 is off, in halves of a digit: the angle grows by one step a row, the sine by its slope.

    The speed of each column is read off the table: the largest step from row to row.
    """
    if t.ndim < 2 or t.abs().max() > 1 + 1e-6 or max(t.shape) < 3:
        return torch.zeros_like(t)
    axis = max(range(t.ndim), key=lambda i: t.shape[i])
    speed = 2 * torch.asin((t.diff(dim=axis).abs().amax(axis, keepdim=True) / 2).clamp(max=1))
    rows = torch.arange(t.shape[axis], device=t.device).reshape([-1 if i == axis else 1 for i in range(t.ndim)])
    return rows * speed * (1 - t**2).clamp(min=0).sqrt()


@contextmanager
def _moved(tables: list[Tensor]) -> Iterator[None]:
    generator, kept = Generator().manual_seed(0), [t.detach().clone() for t in tables]
    with torch.no_grad():
        for t in tables:
            parts = torch.view_as_real(t) if t.is_complex() else t
            sign = 2.0 * torch.randint(2, parts.shape, generator=generator).to(parts) - 1
            parts.add_(sign * HALF * (parts.abs() + _turned(parts)))
    try:
        yield
    finally:
        with torch.no_grad():
            for t, value in zip(tables, kept, strict=True):
                t.copy_(value)


__all__ = ["LARGEST", "SMALL", "explained"]
