"""Lengths: at which lengths a model is asked, and at which positions.

A fault that follows the length is silent at others: a leak within complete blocks of 64 tokens is not there at 13. So the lengths
come from the model itself: numbers that its modules, its configuration and its code hold, with their neighbours and doubles; powers
of two with theirs; and one length beyond 257, or the longest that the model takes.
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeGuard

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.inputs.variations import lengthened
from equiscope.audit.subject import Crashed, Pass, Subject, shortened
from equiscope.program.modes import Functions
from equiscope.symmetry import Inputs

NAMED = (
    "block", "chunk", "window", "segment", "stride", "bucket", "span", "local", "memory", "context", "group", "period", "landmark",
    "page", "tile", "kernel", "dilation", "horizon", "size", "length", "len", "every", "split", "step", "scan", "history",
)  # fmt: skip
CUTTING = (
    "view", "reshape", "unflatten", "chunk", "split", "narrow", "unfold", "roll", "pad", "tensor_split", "as_strided", "fold",
    "max_pool1d", "avg_pool1d", "conv1d", "arange", "tril", "triu", "full", "zeros", "ones", "__getitem__", "__floordiv__",
    "floor_divide", "__mod__", "remainder",
)  # fmt: skip
LIBRARIES = ("torch", "transformers", "timm", "numpy", "math")  # whose code speaks of no block of this model
LARGEST = 1024  # a constant above it asks for no length
FLOOR = 263  # the least length that is asked in the end, where the model takes it: a prime beyond 257
LONGEST = 2 * LARGEST + 1
TOKENS = 8192  # in one call at most


@dataclass(frozen=True)
class LengthBudget:
    """What may be spent on lengths and positions at one effort.

    work   multiply-adds of one statement, about: rows * tokens * (parameters + tokens * 64)
    calls  of the model at other lengths than the given one
    ends   positions that are tried in the longest of these
    rows   sequences in one call
    """

    work: float
    calls: int
    ends: int
    rows: int = 128


LENGTH_BUDGETS = {
    "quick": LengthBudget(4e10, 6, 8),
    "default": LengthBudget(8e11, 15, 12),
    "thorough": LengthBudget(8e12, 96, 1000),
}


@dataclass
class LengthLadder:
    """borders: where blocks, chunks and windows of a model end; lengths: those to ask at, the given one left out."""

    borders: list[int]
    lengths: list[int] = field(default_factory=list)


def cost(model: nn.Module, rows: int, length: int) -> float:
    """Multiply-adds of one call, about; tables of words are looked up and cost nothing."""
    return rows * length * (weights(model) + 64.0 * length)


def weights(model: nn.Module) -> int:
    """Parameters that multiply something: all but the tables that are only looked up."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tied = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    return sum(p.numel() for p in model.parameters() if id(p) not in tables or id(p) in tied)


def ladder(subject: Subject, run: Pass, budget: LengthBudget) -> LengthLadder:
    """The lengths to measure this model at, the most informative first; none where its inputs have no length."""
    n = subject.inputs.length
    if n is None:
        return LengthLadder([])
    named, others = constants(subject.model)
    cut = _cuts(run) if budget.calls > 6 else set()
    widths = {s for p in run.model.parameters() for s in p.shape if s > 64}
    telling = [c for c in dict.fromkeys([*sorted(named), *sorted(cut)]) if 1 < c <= LARGEST]
    ranked = [c for c in telling if c not in widths]
    rest = [c for c in dict.fromkeys([*sorted(others), *telling]) if 1 < c <= LARGEST and c not in ranked]
    rest = [c for c in rest if c not in widths or c < FLOOR]
    borders = [*ranked, *rest]
    powers = [256, 128, 64, 32, 16, 8, 4, 2]
    most = longest(subject.model)
    wanted = [FLOOR if most is None or most > FLOOR else most]
    wanted += [*(c + 1 for c in ranked), *ranked, *(2 * c + 1 for c in ranked), *(p + 1 for p in powers)]
    wanted += [
        *(c - 1 for c in ranked),
        *(c + 1 for c in rest),
        *rest,
        *(2 * c + 1 for c in rest),
        *powers,
        *(p - 1 for p in powers),
    ]
    lengths, spent = list[int](), 0.0
    for length in dict.fromkeys(wanted):
        if length < 2 or length == n or length > (most or LONGEST) or len(lengths) >= budget.calls:
            continue
        price = cost(subject.model, 1, length)
        if spent + price > budget.work / 2:
            continue
        lengths.append(length)
        spent += price
    return LengthLadder(borders, lengths)


def longest(model: nn.Module) -> int | None:
    """The longest text that a configuration names; None where none does."""
    config = getattr(model, "config", None)
    text = getattr(config, "text_config", config)
    for name in (
        "max_position_embeddings",
        "n_positions",
        "max_target_positions",
        "max_seq_len",
        "max_seq_length",
        "n_ctx",
        "block_size",
    ):
        value = getattr(text, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            return value
    return None


# ------------------------------------------------------------------------------------------------- a model's own constants


def constants(model: nn.Module) -> tuple[set[int], set[int]]:
    """Whole numbers that a model holds: those whose names speak of blocks and the like, or that its code has; and others."""
    named, others = set[int](), set[int]()
    config = getattr(model, "config", None)
    holders: list[Any] = [m for m in model.modules() if not _theirs(m)]
    holders += [c for c in (config, getattr(config, "text_config", None)) if c is not None]
    for holder in holders:
        for name, value in vars(holder).items() if hasattr(holder, "__dict__") else ():
            inside = value.values() if type(value) is dict else value if isinstance(value, (list, tuple)) else [value]
            found = {v for v in inside if _whole(v)}
            (named if _speaks(name) else others).update(found if holder is not config or _speaks(name) else ())
    seen: set[int] = set()
    for cls in dict.fromkeys(type(m) for m in model.modules() if not _theirs(m)):
        for spoken, number in _of_code(getattr(cls, "forward", None), cls, seen, 0):
            (named if spoken else others).add(number)
    return named, others - named


def _of_code(function: Any, owner: type, seen: set[int], depth: int) -> Iterator[tuple[bool, int]]:
    """Numbers in a function: in its text, its defaults, its closure, the globals that it reads, and in functions that it calls."""
    function = getattr(function, "__wrapped__", function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in seen or depth > 3:
        return
    seen.add(id(function))
    if (function.__module__ or "").partition(".")[0] in LIBRARIES:
        return
    code = function.__code__
    yield from ((True, v) for v in _in_text(code) if v > 2)
    yield from ((True, v) for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()) if _whole(v))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if _whole(value):
            yield True, value
        yield from _of_code(value, owner, seen, depth + 1)
    names = _names(code)
    for name in names:
        value = function.__globals__.get(name, getattr(owner, name, None))
        if _whole(value):
            yield True, value
        yield from _of_code(value, owner, seen, depth + 1)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:  # block_size of another file
            yield from ((True, v) for n in names & vars(value).keys() if _whole(v := vars(value)[n]))


def _in_text(code: types.CodeType) -> Iterator[int]:
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _in_text(value)
        elif isinstance(value, tuple):
            yield from (v for v in value if _whole(v))
        elif _whole(value):
            yield value


def _names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < int(value) <= LARGEST


def _speaks(name: str) -> bool:
    return any(word in name.lower() for word in NAMED)


def _theirs(module: nn.Module) -> bool:
    """Whether it is a layer of torch, whose numbers are widths."""
    return type(module).__module__.startswith("torch.")


class _Length(int):
    """A size of a tensor that notes what it is divided by and compared with: where code cuts, or does something else."""

    noted: set[int]

    def __new__(cls, value: int, noted: set[int]) -> "_Length":
        made = super().__new__(cls, value)
        made.noted = noted
        return made


def _noting(name: str) -> Any:
    plain = getattr(int, name)

    def noting(self: _Length, other: Any) -> Any:
        if _whole(other):
            self.noted.add(int(other))
        return plain(self, other)

    return noting


def _going_on(name: str) -> Any:
    plain = getattr(int, name)

    def going_on(self: _Length, *others: Any) -> Any:
        made = plain(self, *others)
        return _Length(made, self.noted) if isinstance(made, int) else made

    return going_on


for _name in ("__floordiv__", "__truediv__", "__mod__", "__divmod__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Length, _name, _noting(_name))
for _name in ("__neg__", "__add__", "__sub__", "__radd__"):
    setattr(_Length, _name, _going_on(_name))
_Length.__hash__ = int.__hash__  # type: ignore[method-assign]


def _noting_sizes(found: set[int]) -> Functions:
    """Notes whole numbers that cutting functions are given, and those that a length is divided by or compared with."""

    def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(func, "__name__", "") in CUTTING:
            found.update(_numbers([*args, *kwargs.values()]))
        made = func(*args, **kwargs)
        if func in (SHAPE, Tensor.size):  # each access gives a new getter
            return torch.Size([_Length(n, found) for n in made]) if isinstance(made, tuple) else _Length(made, found)
        return made

    return Functions(answer)


SHAPE = Tensor.shape.__get__  # type: ignore[attr-defined]


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, slice):
        yield from _numbers([value.start, value.stop, value.step])
    elif _whole(value):
        yield int(value)


def _cuts(run: Pass) -> set[int]:
    """Sizes by which the running model cuts and reshapes, at two lengths alike: what follows the length is no constant."""
    found: list[set[int]] = []
    for length in (run.inputs.length or 0, FLOOR, 67, 37):
        inputs = resized(run.inputs, length, Generator().manual_seed(3))
        if inputs is None or len(found) == 2:
            continue

        def watched(model: nn.Module, inputs: Inputs = inputs) -> Any:
            sizes: set[int] = set()
            with _noting_sizes(sizes):
                made = inputs.call(model)
            found.append(sizes)
            return made

        try:
            run.outputs_of(watched)
        except Crashed:
            continue
    widths = {s for p in run.model.parameters() for s in p.shape}
    return (found[0] & found[1]) - widths if len(found) == 2 else set()


# ------------------------------------------------------------------------------------------------------ inputs of a length


def resized(inputs: Inputs, length: int, generator: Generator) -> Inputs | None:
    """The same inputs at another length: the first tokens, or more behind them; None where they cannot be made longer."""
    n = inputs.length or 0
    return inputs if length == n else shortened(inputs, length) if length < n else lengthened(inputs, length, generator)


def positions(n: int, borders: list[int], most: int) -> list[int]:
    """Positions 1 .. n - 1 in order: all, or so many: those beside the ends of blocks first, then spread evenly."""
    if n - 1 <= most:
        return list(range(1, n))
    near = [k * c + d for c in borders for k in range(1, n // c + 1) if k <= 4 or k == n // c for d in (0, 1, -1)]
    chosen = list(dict.fromkeys(p for p in [1, n - 1, *near] if 0 < p < n))[: most // 2]
    for parts in count(2):
        spread = (round(i * n / parts) for i in range(1, parts))
        for p in spread:
            if len(chosen) >= most:
                return sorted(chosen)
            if 0 < p < n and p not in chosen:
                chosen.append(p)
    return sorted(chosen)


def largest_batch(run: Pass, rows: int, length: int) -> int:
    """Inputs of that length that may stand side by side: their outputs take at most half of the parameters' memory, or 64 MiB."""
    rows = min(rows, TOKENS // max(length * (run.inputs.batch or 1), 1))
    numbers = sum(t.numel() for t in run(run.inputs).values()) * length / max(run.inputs.length or 1, 1)
    held = sum(p.numel() * p.element_size() for p in run.subject.model.parameters())
    room = max(held / 2, 64 * 2**20)
    return max(1, min(rows, int(room / (8 * max(numbers, 1)))))
