"""The value of each tensor of a running model: single assignment for tensors that share memory and are written in place.

A tensor is identified by its location (storage, offset, shape, strides, dtype), not by its object: autograd and dispatch create
other objects for the same numbers. After a write, other tensors on the storage are read again from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from equiscope.program.private import storage_of

Layout = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype, bool, bool]


@dataclass
class _Storage:
    """The values of one storage.

    values  by layout: the value, and the number of writes before it
    writes  value and layout of each write
    live    values whose recorded numbers share this memory and would be overwritten
    whole   the value of the flat storage, and the number of writes in it
    anchor  a tensor on it, so that its address is not reused
    """

    anchor: Tensor
    values: dict[Layout, tuple[int, int]] = field(default_factory=dict)
    writes: list[tuple[int, Layout]] = field(default_factory=list)
    live: set[int] = field(default_factory=set)
    before: list[tuple[int, Layout]] = field(default_factory=list)
    whole: tuple[int, int] | None = None


class ValueTable:
    """Values of a recording by location.

    numbers  by value: the tensor when the value was computed
    step     records a step of the capture: (name, function, arguments) to its value
    """

    def __init__(self, numbers: dict[int, Tensor], step: Callable[[str, Callable[..., Tensor], tuple[Any, ...]], int]) -> None:
        self.numbers, self._step = numbers, step
        self._storages: dict[int, _Storage] = {}

    def find(self, t: Tensor) -> int | None:
        """The current value of a tensor, read again where its memory was written; None for an unknown tensor."""
        storage = self._storages.get(storage_of(t))
        if storage is None:
            return None
        layout = _layout(t)
        known = storage.values.get(layout)
        if known is None and not any(_meet(layout, other) for other in storage.values):
            return None  # other numbers of the same memory
        value, seen = known or (-1, -1)
        if known is None or any(_meet(layout, other) for _, other in storage.writes[seen:]):
            value = self._read_from_storage(storage, layout)
            self.numbers[value] = t
            storage.live.add(value)
        storage.values[layout] = (value, len(storage.writes))
        return value

    def assign(self, t: Tensor, value: int) -> None:
        """Assign a value to a tensor."""
        storage = self._storages.setdefault(storage_of(t), _Storage(t))
        storage.values[_layout(t)] = (value, len(storage.writes))
        self.numbers[value] = t
        storage.live.add(value)

    def preserve(self, t: Tensor) -> None:
        """Before a write: copy the recorded numbers that share the memory of this tensor."""
        storage = self._storages.get(storage_of(t))
        if storage is None:
            return
        for value in storage.live:
            self.numbers[value] = self.numbers[value].detach().clone()
        storage.live.clear()
        if not storage.writes:
            storage.before = _covering([(value, layout) for layout, (value, _) in storage.values.items()])

    def mark_written(self, t: Tensor, value: int) -> None:
        """After a write: assign the new value to the tensor."""
        storage = self._storages.setdefault(storage_of(t), _Storage(t))
        storage.writes.append((value, _layout(t)))
        self.assign(t, value)

    def _read_from_storage(self, storage: _Storage, layout: Layout) -> int:
        whole, done = self._whole(storage)
        for value, other in storage.writes[done:]:
            whole = self._step("put", put, (whole, value, other[1], other[2], other[0]))
        storage.whole = (whole, len(storage.writes))
        return self._step("read", read, (whole, layout[3], layout[1], layout[2], layout[0]))

    def _whole(self, storage: _Storage) -> tuple[int, int]:
        if storage.whole is not None:
            return storage.whole
        bases = storage.before or _covering([(value, layout) for layout, (value, _) in storage.values.items()])
        (first, layout), *others = bases
        size = storage.anchor.untyped_storage().nbytes() // layout[3].itemsize
        whole = self._step("spread", spread, (first, size, layout[1], layout[2], layout[0]))
        for value, other in others:
            whole = self._step("put", put, (whole, value, other[1], other[2], other[0]))
        return whole, 0


def location(t: Tensor) -> tuple[int, Layout]:
    """The location of a tensor: equal for every object with the same numbers."""
    return storage_of(t), _layout(t)


def _layout(t: Tensor) -> Layout:
    if t.layout != torch.strided:
        return 0, tuple(t.shape), (), t.dtype, False, False
    return int(t.storage_offset()), tuple(t.shape), t.stride(), t.dtype, t.is_conj(), t.is_neg()


def _meet(a: Layout, b: Layout) -> bool:
    """Whether two layouts may overlap, by the bytes of their first and last numbers."""
    (begin, end), (other, last) = _extent(a), _extent(b)
    return begin < last and other < end


def _extent(layout: Layout) -> tuple[int, int]:
    offset, shape, strides, dtype = layout[:4]
    if 0 in shape:
        return 0, 0
    far = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=bool(strides)))
    return offset * dtype.itemsize, (far + 1) * dtype.itemsize


def _covering(layouts: Sequence[tuple[int, Layout]]) -> list[tuple[int, Layout]]:
    """The largest layout first, and of the others those that no chosen one contains."""
    chosen: list[tuple[int, Layout]] = []
    for value, layout in sorted(layouts, key=lambda one: _extent(one[1])[0] - _extent(one[1])[1]):
        begin, end = _extent(layout)
        if not any(first <= begin and end <= last for first, last in (_extent(other) for _, other in chosen)):
            chosen.append((value, layout))
    return chosen


# --- steps of the capture, which a replay calls
def spread(base: Tensor, size: int, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """A flat storage of `size` numbers that contains these."""
    return torch.zeros(size, dtype=base.dtype, device=base.device).as_strided_scatter(base, shape, strides, offset)


def put(whole: Tensor, part: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """The storage after these numbers were written."""
    if whole.dtype == part.dtype:
        return whole.as_strided_scatter(part, shape, strides, offset)
    return whole.view(part.dtype).as_strided_scatter(part, shape, strides, offset).view(whole.dtype)


def read(whole: Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """The tensor of this layout on the storage."""
    return (whole if whole.dtype == dtype else whole.view(dtype)).as_strided(shape, strides, offset)
