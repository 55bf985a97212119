"""Products of matrices on a CPU: through oneDNN where a probe shows that it is faster, and as exact as float32.

PyTorch gives float32 products to MKL, which is slow on some processors. oneDNN takes them where torch's precision of float32
products is set to "bf16". On processors that multiply in bfloat16 (AMX) that may be what the name says, so the error is measured
on this machine before it is used: never assumed. One switch of torch, for all products of the process, set by a `with` block.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.models.build import Model

ROWS = 1024  # rows of a batch that a probe multiplies, at most
GAIN, ALLOWED = 1.05, 4.0  # at least so much faster, and at most so many times the error of float32


@dataclass(frozen=True)
class Probe:
    """Seconds for the products of one layer's training step, and relative errors against float64: torch's own way and oneDNN's."""

    seconds: float
    routed_seconds: float
    error: float
    routed_error: float

    @property
    def used(self) -> bool:
        return self.routed_seconds * GAIN < self.seconds and self.routed_error < ALLOWED * self.error


def probe(model: Model, rows: int, turns: int = 5) -> Probe | None:
    """Try both ways on products of this model's shapes, turn by turn; None where there is no choice (no oneDNN, no float32 CPU).

    rows  tokens of a batch
    """
    first = next(model.parameters())
    if first.device.type != "cpu" or first.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return None
    shapes = sorted({tuple(p.shape) for block in model.blocks for p in block.parameters() if p.ndim == 2})
    generator = torch.Generator().manual_seed(0)
    data = []
    for inward, outward in shapes:
        x, weight = torch.randn(min(rows, ROWS), inward, generator=generator), torch.randn(inward, outward, generator=generator)
        data.append((x, weight, torch.randn(min(rows, ROWS), outward, generator=generator)))
    spent: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(turns + 1):
        for through in (False, True):
            with _through(through):
                begin = time.perf_counter()
                for x, weight, g in data:
                    torch.mm(x, weight), torch.mm(g, weight.mT), torch.mm(x.mT, g)  # forward, and backward to both
                if turn:  # the first makes plans
                    spent[through].append(time.perf_counter() - begin)
    errors = {}
    for through in (False, True):
        with _through(through):
            errors[through] = max(_error(x[:256], weight) for x, weight, _ in data)
    middle = {through: sorted(times)[len(times) // 2] for through, times in spent.items()}
    return Probe(middle[False], middle[True], errors[False], errors[True])


@contextmanager
def fast_products(model: Model, rows: int, found: Probe | None = None) -> Iterator[Probe | None]:
    """Inside, float32 products go the way that `probe` finds best for this model; afterwards as before.

    found  a probe made before, such as one that many runs share
    """
    found = found or probe(model, rows)
    if found is None or not found.used:
        yield found
        return
    with _through(True):
        yield found


@contextmanager
def _through(onednn: bool) -> Iterator[None]:
    switch = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # made by a module of its own class
    before = switch.fp32_precision
    switch.fp32_precision = "bf16" if onednn else "ieee"
    try:
        yield
    finally:
        switch.fp32_precision = before


def _error(x: Tensor, weight: Tensor) -> float:
    exact = x.double() @ weight.double()
    return float(((x @ weight).double() - exact).norm() / exact.norm())
