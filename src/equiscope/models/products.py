"""Products of matrices on a CPU: through oneDNN where a probe shows that it is faster, and as exact as float32.

PyTorch gives float32 products to MKL, which is slow on some processors. oneDNN takes them where torch's precision of float32
products is set to "bf16". On processors that multiply in bfloat16 (AMX) that may be what the name says, so the error is measured
on this machine before it is used: never assumed; nor is the gain, which small models and other processors do not have. One
switch of torch, for all products of the process, set by a `with` block.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.attention.apart import routed
from equiscope.models.build import Built
from equiscope.tokens import Tokens

GAIN, ALLOWED = 1.05, 4.0  # at least so much faster, and at most so many times the error of float32
SHARE = 3.0  # seconds after which turns are enough


@dataclass(frozen=True)
class Probe:
    """Seconds of a forward and a backward pass, and relative errors of products: torch's own way, and oneDNN's."""

    seconds: float
    routed_seconds: float
    error: float
    routed_error: float

    @property
    def used(self) -> bool:
        return self.routed_seconds * GAIN < self.seconds and self.routed_error < ALLOWED * self.error


def probe(model: Built, inputs: Tokens | Tensor, source: Tokens | Tensor | None = None, turns: int = 5) -> Probe | None:
    """Try both ways on forward and backward passes of this model, turn by turn; no gradient is left behind.

    inputs   a batch as in the work to come; source: of a model with an encoder
    returns  None where there is no choice (no oneDNN, other than float32 on a CPU, layers without products)
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    first = weights[0] if weights else next(model.parameters())
    shapes = {tuple(p.shape) for block in model.blocks for p in block.parameters() if p.ndim == 2}
    if first.device.type != "cpu" or first.dtype != torch.float32 or not torch.backends.mkldnn.is_available() or not shapes:
        return None
    spent: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(turns + 1):
        for through in (False, True):
            with routed(through):
                begin = time.perf_counter()
                answer = model(inputs) if source is None else model(inputs, source=source)
                if weights:
                    torch.autograd.grad(answer.square().mean(), weights, allow_unused=True)
                if turn:  # the first makes plans
                    spent[through].append(time.perf_counter() - begin)
        if sum(map(sum, spent.values())) > SHARE:
            break
    errors = {}
    for through in (False, True):
        with routed(through):
            errors[through] = max(_error(shape) for shape in shapes)
    middle = {through: sorted(times)[len(times) // 2] for through, times in spent.items()}
    return Probe(middle[False], middle[True], errors[False], errors[True])


@contextmanager
def fast_products(model: Built, inputs: Tokens | Tensor, found: Probe | None = None) -> Iterator[Probe | None]:
    """Inside, float32 products go the way that `probe` finds best for this model and such a batch; afterwards as before.

    found  a probe made before, such as one that many runs share, or one with a source
    """
    found = found or probe(model, inputs)
    if found is None or not found.used:
        yield found
        return
    with routed(True):
        yield found


def _error(shape: tuple[int, ...]) -> float:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(256, shape[0], generator=generator), torch.randn(shape, generator=generator)
    exact = x.double() @ weight.double()
    return float(((x @ weight).double() - exact).norm() / exact.norm())
