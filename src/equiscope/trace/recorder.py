"""The recorder: who is writing down the steps, if anybody.

`current` is the one piece of module state in the package: set by `watch` inside a `with` block that always resets it, and
a plain variable because context variables break `torch.compile(fullgraph=True)`. When it is None, an operation costs one
comparison.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equiscope import record
from equiscope.program.axes import output_axes


@dataclass(frozen=True)
class Given:
    """What is known about a tensor before it is used: the name and axes that its leaf will carry."""

    id: str
    symbol: str
    label: str
    axes: tuple[str, ...]
    kind: record.trace.Kind
    where: str = ""


@dataclass
class Recorder:
    """Collects leaves and steps. Tensors are known by identity, and kept alive so that identities stay unique.

    tables  weights of embeddings; paths: of modules; across: weights of linear maps, transposed; all by identity
    """

    only: str = ""
    arrays: bool = True
    given: dict[int, Given] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    leaves: list[record.Leaf] = field(default_factory=list)
    steps: list[record.Step] = field(default_factory=list)
    scope: list[str] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    packed: dict[bytes, record.Array] = field(default_factory=dict)
    thread: int = field(default_factory=threading.get_ident)
    tables: set[int] = field(default_factory=set)
    paths: dict[int, str] = field(default_factory=dict)
    across: dict[int, Tensor] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return self.scope[-1] if self.scope else ""

    @property
    def listening(self) -> bool:
        if threading.get_ident() != self.thread:
            return False  # a model that another thread runs meanwhile is not ours
        return not self.only or self.where == self.only or self.where.startswith(self.only + ".")

    def introduce(self, tensor: Tensor, given: Given) -> None:
        """Say what a tensor is; it becomes a leaf when a step first uses it."""
        self.kept.append(tensor)
        self.given.setdefault(id(tensor), given)

    def transposed(self, weight: Tensor) -> Tensor:
        """The weight [out, in] of a linear map as [in, out], under its name."""
        if id(weight) not in self.across:
            self.across[id(weight)] = weight.detach().mT
            if id(weight) in self.given:
                self.introduce(self.across[id(weight)], self.given[id(weight)])
        return self.across[id(weight)]

    @contextmanager
    def inside(self, module: nn.Module | None) -> Iterator[None]:
        """Steps made in this block happen in `module`, whose forward is not called."""
        path = self.where if module is None else self.paths.get(id(module), self.where)
        self.scope.append(path)
        try:
            yield
        finally:
            self.scope.pop()

    def step(self, op: str, output: Tensor, inputs: Sequence[Tensor], name: str, label: str, params: dict[str, Any]) -> None:
        sources = [self._source(tensor) for tensor in inputs]
        axes = output_axes(op, [self.axes[s] for s in sources], [tuple(t.shape) for t in inputs], params)
        ident = self._unique(name or op)
        self.steps.append(
            record.Step(
                id=ident, symbol=name, label=label, axes=list(axes), op=op, inputs=sources, params=dict(params),
                where=self.where, array=self._array(output) if self.arrays else None,
            )
        )  # fmt: skip
        self._remember(ident, output, axes)

    def _source(self, tensor: Tensor) -> str:
        return self.ids[id(tensor)] if id(tensor) in self.ids else self._leaf(tensor)

    def _leaf(self, tensor: Tensor) -> str:
        unnamed = Given("opaque", "", "made outside the recorded steps", ("",) * tensor.ndim, "opaque", self.where)
        given = self.given.get(id(tensor), unnamed)
        ident = self._unique(given.id, given.where)
        axes = given.axes if len(given.axes) == tensor.ndim else ("batch",) * (tensor.ndim - len(given.axes)) + given.axes
        self.leaves.append(
            record.Leaf(
                id=ident, symbol=given.symbol, label=given.label, axes=list(axes), kind=given.kind,
                where=given.where, array=self._array(tensor),
            )
        )  # fmt: skip
        self._remember(ident, tensor, axes)
        return ident

    def _remember(self, ident: str, tensor: Tensor, axes: tuple[str, ...]) -> None:
        self.kept.append(tensor)
        self.ids[id(tensor)] = ident
        self.values[ident] = tensor
        self.axes[ident] = axes

    def _array(self, tensor: Tensor) -> record.Array:
        values = _numpy(tensor)
        key = str((values.dtype, values.shape)).encode() + values.tobytes()
        if key not in self.packed:
            self.packed[key] = record.pack(values)
        return self.packed[key]

    def _unique(self, name: str, where: str | None = None) -> str:
        where = self.where if where is None else where
        base = f"{where}.{name}" if where else name
        candidates = (base if n == 1 else f"{base}~{n}" for n in range(1, len(self.values) + 2))
        return next(c for c in candidates if c not in self.values)


current: Recorder | None = None


def recording() -> bool:
    """Whether a step made now would be written down: where a part has a fast path, it then takes the readable one."""
    return current is not None and current.listening


def watching() -> Recorder | None:
    """The recorder that would write down a step made now."""
    return current if recording() else None


@contextmanager
def using(recorder: Recorder) -> Iterator[Recorder]:
    """Write the steps made in this block into `recorder`."""
    global current
    before, current = current, recorder
    try:
        yield recorder
    finally:
        current = before


def constant(tensor: Tensor, name: str, label: str, axes: str, kind: record.trace.Kind = "constant", symbol: str = "") -> Tensor:
    """Name a tensor that a part makes from its settings (frequencies, head numbers); axes in words, e.g. "head"."""
    if current is not None and current.listening:
        words = tuple(axes.split())
        current.introduce(tensor, Given(name, symbol or name, label, words, kind, current.where))
    return tensor


def note(op: str, output: Tensor, inputs: Sequence[Tensor], name: str, label: str, **params: Any) -> Tensor:
    """Write one step down if somebody records; hand the output back unchanged."""
    if current is not None and current.listening:
        if any(output is tensor for tensor in inputs):
            output = output.view_as(output)  # a step that changes nothing is still a step with an output of its own
        current.step(op, output, inputs, name, label, params)
    return output


def _numpy(tensor: Tensor) -> np.ndarray:
    values = tensor.detach().cpu()
    if values.dtype in (torch.bfloat16, torch.float16):
        values = values.float()
    elif not values.dtype.is_floating_point and values.dtype != torch.bool:
        values = values.long()
    return values.numpy()
