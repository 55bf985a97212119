"""Which value each tensor of a running model is: single assignment from tensors that share memory and are written.

A tensor is known by where its numbers lie (storage, offset, shape, strides, dtype), not by which object it is: autograd and
dispatch hand out other objects for the same numbers. After a write, other tensors on the storage are read again out of it.
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
    """What is known of one piece of memory.

    values  by layout: the value, and how many writes it has seen
    writes  value and layout of each write
    live    values whose recorded numbers still lie here, and would be written over
    whole   the memory as one row of numbers, and how many writes are in it
    anchor  a tensor on it, so that its address is given to nobody else
    """

    anchor: Tensor
    values: dict[Layout, tuple[int, int]] = field(default_factory=dict)
    writes: list[tuple[int, Layout]] = field(default_factory=list)
    live: set[int] = field(default_factory=set)
    before: list[tuple[int, Layout]] = field(default_factory=list)
    whole: tuple[int, int] | None = None


class ValueTable:
    """The ledger of a capture.

    numbers  by value: the tensor as it was when the value was made
    step     writes down a step of ours: (name, function, arguments) to its value
    """

    def __init__(self, numbers: dict[int, Tensor], step: Callable[[str, Callable[..., Tensor], tuple[Any, ...]], int]) -> None:
        self.numbers, self._step = numbers, step
        self._storages: dict[int, _Storage] = {}

    def find(self, t: Tensor) -> int | None:
        """The value that a tensor is now, read again where its memory was written; None where it was never seen."""
        storage = self._storages.get(storage_of(t))
        if storage is None:
            return None
        layout = _layout(t)
        found = storage.values.get(layout)
        if found is None and not any(_meet(layout, other) for other in storage.values):
            return None  # other numbers of the same memory
        value, seen = found or (-1, -1)
        if found is None or any(_meet(layout, other) for _, other in storage.writes[seen:]):
            value = self._read_from_storage(storage, layout)
            self.numbers[value] = t
            storage.live.add(value)
        storage.values[layout] = (value, len(storage.writes))
        return value

    def assign(self, t: Tensor, value: int) -> None:
        """Say that a tensor is a value."""
        storage = self._storages.setdefault(storage_of(t), _Storage(t))
        storage.values[_layout(t)] = (value, len(storage.writes))
        self.numbers[value] = t
        storage.live.add(value)

    def preserve(self, t: Tensor) -> None:
        """Before a write: copy the recorded numbers that lie in the memory of this tensor."""
        storage = self._storages.get(storage_of(t))
        if storage is None:
            return
        for value in storage.live:
            self.numbers[value] = self.numbers[value].detach().clone()
        storage.live.clear()
        if not storage.writes:
            storage.before = _covering([(value, layout) for layout, (value, _) in storage.values.items()])

    def mark_written(self, t: Tensor, value: int) -> None:
        """After a write: the tensor is this value now."""
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
    """Where the numbers of a tensor lie: the same for every object that is these numbers."""
    return storage_of(t), _layout(t)


def _layout(t: Tensor) -> Layout:
    if t.layout != torch.strided:
        return 0, tuple(t.shape), (), t.dtype, False, False
    return int(t.storage_offset()), tuple(t.shape), t.stride(), t.dtype, t.is_conj(), t.is_neg()


def _meet(a: Layout, b: Layout) -> bool:
    """Whether two layouts may have a number in common: by where the first and the last lie, in bytes."""
    (begin, end), (other, last) = _extent(a), _extent(b)
    return begin < last and other < end


def _extent(layout: Layout) -> tuple[int, int]:
    offset, shape, strides, dtype = layout[:4]
    if 0 in shape:
        return 0, 0
    far = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=bool(strides)))
    return offset * dtype.itemsize, (far + 1) * dtype.itemsize


def _covering(layouts: Sequence[tuple[int, Layout]]) -> list[tuple[int, Layout]]:
    """The largest first, and of the others those that are not within what is there already."""
    chosen: list[tuple[int, Layout]] = []
    for value, layout in sorted(layouts, key=lambda one: _extent(one[1])[0] - _extent(one[1])[1]):
        begin, end = _extent(layout)
        if not any(first <= begin and end <= last for first, last in (_extent(other) for _, other in chosen)):
            chosen.append((value, layout))
    return chosen


# --- steps of our own, which a replay calls
def spread(base: Tensor, size: int, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """A memory of so many numbers in which these lie."""
    return torch.zeros(size, dtype=base.dtype, device=base.device).as_strided_scatter(base, shape, strides, offset)


def put(whole: Tensor, part: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """The memory after these numbers were written."""
    if whole.dtype == part.dtype:
        return whole.as_strided_scatter(part, shape, strides, offset)
    return whole.view(part.dtype).as_strided_scatter(part, shape, strides, offset).view(whole.dtype)


def read(whole: Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """What a tensor of this layout reads."""
    return (whole if whole.dtype == dtype else whole.view(dtype)).as_strided(shape, strides, offset)
