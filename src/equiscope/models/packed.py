"""Packed: products laid out for rows that come one at a time.

With one row, a product does two operations for every weight that it reads: memory decides, and most libraries read with one
thread, or badly. What reads fastest depends on the shape, and on the CPU and its library, so in float32 and bfloat16 it is
measured (`Ways`) when weights are prepared, for one row; what is measured on a busy machine may differ from time to time, and
ways differ in rounding:
  plain    torch's own product, the weights of each input one after another; on other devices and in most other dtypes as given
  turned   the same, the weights of each output one after another; in bfloat16 torch's own where oneDNN is passed by
           (`past_onednn`), which reads faster than oneDNN on a CPU of Zen 4, but one row alone
  rows     the sum over the input cut into one part a thread, each a product of its own
  columns  the output cut into parts
  packed   oneDNN's blocks of weights; bias, activation and residual on the way out
What is packed or cut by columns is a copy; the others are views of one weight that lies so already.
"""

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.trace import ops
from equiscope.trace.ops import Activation

SMALL = 2**15  # weights for which any way will do
TRIES = 5
CACHED = 2**26  # bytes of weights that are read between two uses of one, or 64 weights, when ways are compared: a step reads more
MANY = 2**13  # outputs, more of which are as so many: a vocabulary
ROWS = 64  # that oneDNN lays its blocks out for: its blocks for one row read a tenth slower
FUSED: dict[Activation | None, tuple[str, str]] = {
    None: ("none", ""), "relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu-tanh": ("gelu", "tanh"), "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}  # fmt: skip
Way = Literal["plain", "turned", "rows", "columns", "packed"]
WAYS: tuple[Way, ...] = ("plain", "turned", "rows", "columns", "packed")  # the simplest first
NARROW: tuple[Way, ...] = ("packed", "turned")  # in bfloat16, all others are many times slower; packed suits several rows too
GAIN = 0.95  # of the time of a simpler way, that another must not take to be chosen
# its overloads are named where they are called, or torch looks through them each time; not every torch has it
LINEAR: Any = torch.ops.mkldnn._linear_pointwise if torch.backends.mkldnn.is_available() else None


class Packed:
    """x [R, in] to activation(x W + b) [R, out], W the given weights [in, out] side by side.

    bias  of each weight, or None
    way   in which weights are read
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        bias: Sequence[Tensor | None],
        activation: Activation | None = None,
        way: Way | "Ways" = "plain",
    ) -> None:
        weight = torch.cat([w.detach() for w in weights], 1) if len(weights) > 1 else weights[0].detach()
        given = [w.new_zeros(w.shape[1]) if b is None else b.detach() for w, b in zip(weights, bias, strict=True)]
        self.bias = None if all(b is None for b in bias) else torch.cat(given)
        self.activation, self.outputs = activation, weight.shape[1]
        self.parts, (self._after, self._form) = _parts(weight.shape[0]), FUSED[activation]
        way = way.of(weight) if isinstance(way, Ways) else way
        self._laid: tuple[Way, Tensor] = way, self._lay(way, weight)  # one, so that who reads it has both of one moment
        if way == "rows":
            self._cut = self.weight.view(self.parts, -1, self.outputs)
            self._first = weight.new_zeros(self.parts, 1, self.outputs)
            if self.bias is not None:
                self._first[0, 0] = self.bias

    @property
    def way(self) -> Way:
        return self._laid[0]

    @property
    def weight(self) -> Tensor:
        return self._laid[1]

    def _lay(self, way: Way, weight: Tensor) -> Tensor:
        """Weights [in, out] as a way reads them."""
        if way == "rows" or (way == "plain" and weight.dtype == torch.float32 and weight.device.type == "cpu"):
            return weight.contiguous()
        if way == "turned":
            return weight.t().contiguous().t()
        if way == "packed":
            return cast(Tensor, torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), ROWS))
        if way == "columns":
            parts = 2 * self.parts
            full = F.pad(weight, (0, -self.outputs % parts))
            return full.view(len(weight), parts, -1).transpose(0, 1).contiguous()
        return weight

    def __call__(self, x: Tensor) -> Tensor:
        way, weight = self._laid
        if way == "packed":
            return cast(Tensor, LINEAR.default(x, weight, self.bias, self._after, [], self._form))
        y = self.product(x)
        return y if self.activation is None else ops.activation(y, self.activation)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """The product (without activation) added to other rows [R, out]."""
        way, weight = self._laid
        if way == "packed":
            return cast(Tensor, LINEAR.binary(x, to, weight, self.bias, "add"))
        return self.product(x).add_(to)

    @property
    def passes(self) -> bool:
        """Whether one row alone reads it fast, and only where oneDNN is passed by."""
        return self.way == "turned" and self.weight.dtype == torch.bfloat16

    def for_several(self) -> None:
        """Lay weights that one row alone reads fast so that several rows do. Other threads may multiply meanwhile."""
        way, weight = self._laid
        if way == "turned" and weight.dtype == torch.bfloat16:
            self._laid = "packed", self._lay("packed", weight)

    def product(self, x: Tensor) -> Tensor:
        """Without activation."""
        way, weight = self._laid
        if way == "packed":
            return cast(Tensor, LINEAR.default(x, weight, self.bias, "none", [], ""))
        if way == "rows" and len(x) == 1:
            return torch.baddbmm(self._first, x.view(self.parts, 1, -1), self._cut).sum(0)
        if way == "columns":
            y = torch.bmm(x.expand(len(weight), *x.shape), weight)
            y = y.transpose(0, 1).reshape(len(x), -1)[:, : self.outputs]
            return y if self.bias is None else y + self.bias
        return x @ weight if self.bias is None else torch.addmm(self.bias, x, weight)


class Ways:
    """Which way of reading weights is fastest for one row, here and now; each size is measured when it is first asked for.

    measured  whether to; if not, all go one way always, so that no number depends on how busy a machine is
    """

    def __init__(self, measured: bool = True) -> None:
        self.measured = measured
        self._found: dict[tuple[int, int, torch.dtype], Way] = {}

    def of(self, weight: Tensor) -> Way:
        """For weights [in, out] of any kind."""
        if weight.device.type != "cpu":
            return "plain"
        if weight.numel() < SMALL:
            return "plain"
        ways = _ways(weight.dtype)
        if len(ways) == 1 or not self.measured:
            return ways[0]
        size = weight.shape[0], min(weight.shape[1], MANY), weight.dtype
        if size not in self._found:
            self._found[size] = quickest(*size)
        return self._found[size]


def _ways(dtype: torch.dtype) -> tuple[Way, ...]:
    """In which weights of a dtype may be read on a CPU that multiplies it, the one that is taken unmeasured first."""
    there = torch.backends.mkldnn.is_available()
    if dtype == torch.bfloat16:
        return NARROW if there and cast(bool, torch.ops.mkldnn._is_mkldnn_bf16_supported()) else WAYS[:1]
    if dtype != torch.float32:
        return WAYS[:1]
    return WAYS if there else WAYS[:-1]


@torch.no_grad()
def quickest(inputs: int, outputs: int, dtype: torch.dtype = torch.float32) -> Way:
    """The simplest way of reading weights [inputs, outputs] that hardly another is faster than, as measured now."""
    kind: Any = {"dtype": dtype, "device": "cpu"}
    x, many = torch.ones(1, inputs, **kind), min(64, math.ceil(CACHED / (dtype.itemsize * inputs * outputs)))
    weight, bias = torch.zeros(inputs, outputs, **kind), torch.zeros(outputs, **kind)
    took: dict[Way, float] = {}
    for way in _ways(dtype):
        some = [Packed([weight.clone()], [bias], way=way) for _ in range(many)]
        with torch.autocast("cpu", enabled=False), past_onednn() if some[0].passes else contextlib.nullcontext():
            took[way] = min(_seconds(some, x) for _ in range(TRIES))
        del some  # or two ways' weights are held at once
    least = min(took.values())
    return next(way for way, seconds in took.items() if GAIN * seconds <= least)


def _seconds(some: list[Packed], x: Tensor) -> float:
    began = time.perf_counter()
    for one in some:
        one.product(x)
    return time.perf_counter() - began


class _Passing:
    """Who passes by oneDNN now: torch has one switch for all threads, so the last to leave sets it as the first found it."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, True


_passing = _Passing()  # as the switch is, one for the process


@contextlib.contextmanager
def past_onednn() -> Iterator[None]:
    """In it torch multiplies without oneDNN, but for what calls it by name. Other threads' products may be slower meanwhile."""
    torchs: Any = torch._C  # below torch.backends, whose switches may be frozen
    with _passing.lock:
        if not _passing.inside:
            _passing.before = torchs._get_mkldnn_enabled()
            torchs._set_mkldnn_enabled(False)
        _passing.inside += 1
    try:
        yield
    finally:
        with _passing.lock:
            _passing.inside -= 1
            if not _passing.inside:
                torchs._set_mkldnn_enabled(_passing.before)


def _parts(inputs: int) -> int:
    """As many parts as there are threads, if the inputs divide so."""
    threads = torch.get_num_threads()
    return next(n for n in range(min(threads, inputs), 0, -1) if inputs % n == 0)
