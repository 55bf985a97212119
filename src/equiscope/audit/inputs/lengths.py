"""Lengths: the sequence lengths and positions at which a model is measured.

Some faults occur only at some lengths: a leak within complete blocks of 64 tokens does not appear at 13. The lengths therefore
come from the model itself: integers in its modules, its buffers, its configuration and its code, and positions where a mask is
irregular, with their neighbours and doubles; powers of two with their neighbours; and one length beyond 257, or the longest that
the model accepts.
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeGuard

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.inputs.variations import lengthened
from equiscope.audit.subject import ModelError, Pass, Subject, shortened
from equiscope.program.modes import Functions
from equiscope.symmetry import Inputs

LENGTH_WORDS = (
    "block", "chunk", "window", "segment", "stride", "bucket", "span", "local", "memory", "context", "group", "period", "landmark",
    "page", "tile", "kernel", "dilation", "horizon", "size", "length", "len", "every", "split", "step", "scan", "history",
)  # fmt: skip
RESHAPING = (
    "view", "reshape", "unflatten", "chunk", "split", "narrow", "unfold", "roll", "pad", "tensor_split", "as_strided", "fold",
    "max_pool1d", "avg_pool1d", "conv1d", "arange", "tril", "triu", "full", "zeros", "ones", "__getitem__", "__floordiv__",
    "floor_divide", "__mod__", "remainder",
)  # fmt: skip
LIBRARIES = ("torch", "transformers", "timm", "numpy", "math")  # constants in their code are not the model's
LARGEST = 1024  # larger constants suggest no length
FLOOR = 263  # one length is at least this, where the model accepts it: a prime beyond 257
LONGEST = 2 * LARGEST + 1
TOKENS = 8192  # in one call at most
MAX_NUMBERS = 16  # in a buffer that holds sizes
MAX_IRREGULAR = 4  # positions of irregular masks
HIDDEN = 1e4  # a score that is smaller than the largest of its row by more than this is hidden


@dataclass(frozen=True)
class LengthBudget:
    """Budget for lengths and positions at one effort.

    work       multiply-adds of one statement, approximately: sequences * tokens * (parameters + tokens * 64)
    calls      calls of the model at other lengths than the given one
    positions  positions that are tried at the longest of these
    sequences  sequences in one call
    """

    operations: float
    calls: int
    positions: int
    sequences: int = 128


LENGTH_BUDGETS = {
    "quick": LengthBudget(4e10, 6, 8),
    "default": LengthBudget(8e11, 15, 12),
    "thorough": LengthBudget(8e12, 96, 1000),
}


@dataclass
class LengthLadder:
    """Lengths at which a model is measured.

    boundaries  where blocks, chunks and windows of the model end
    lengths     the other lengths to measure at, without the given one
    """

    boundaries: list[int]
    lengths: list[int] = field(default_factory=list)


def cost(model: nn.Module, sequences: int, length: int) -> float:
    """Approximate multiply-adds of one call; embeddings cost nothing."""
    return sequences * length * (weights(model) + 64.0 * length)


def weights(model: nn.Module) -> int:
    """The number of parameters that multiply something: all but embeddings that are not tied."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tied = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    return sum(p.numel() for p in model.parameters() if id(p) not in tables or id(p) in tied)


def length_ladder(subject: Subject, run: Pass, budget: LengthBudget) -> LengthLadder:
    """The lengths at which to measure this model, the most informative first; none where its inputs have no length."""
    n = subject.inputs.length
    if n is None:
        return LengthLadder([])
    named, others = constants(subject.model)
    split_sizes, irregular = _recorded(run) if budget.calls > 6 else (set(), set())
    irregular |= {p for t in _plain_tensors(subject.model) for p in irregular_positions(t)}
    named |= set(sorted(p for p in irregular if 1 < p <= LARGEST)[:MAX_IRREGULAR])
    widths = {s for p in run.model.parameters() for s in p.shape if s > 64}
    candidates = [c for c in dict.fromkeys([*sorted(named), *sorted(split_sizes)]) if 1 < c <= LARGEST]
    likely = [c for c in candidates if c not in widths]
    others_left = [c for c in dict.fromkeys([*sorted(others), *candidates]) if 1 < c <= LARGEST and c not in likely]
    others_left = [c for c in others_left if c not in widths or c < FLOOR]
    boundaries = [*likely, *others_left]
    powers = [256, 128, 64, 32, 16, 8, 4, 2]
    most = longest(subject.model)
    candidates_in_order = [FLOOR if most is None or most > FLOOR else most]
    candidates_in_order += [*(c + 1 for c in likely), *likely, *(2 * c + 1 for c in likely), *(p + 1 for p in powers)]
    candidates_in_order += [
        *(c - 1 for c in likely),
        *(c + 1 for c in others_left),
        *others_left,
        *(2 * c + 1 for c in others_left),
        *powers,
        *(p - 1 for p in powers),
    ]
    lengths, spent = list[int](), 0.0
    for length in dict.fromkeys(candidates_in_order):
        if length < 2 or length == n or length > (most or LONGEST) or len(lengths) >= budget.calls:
            continue
        call_cost = cost(subject.model, 1, length)
        if spent + call_cost > budget.operations / 2:
            continue
        lengths.append(length)
        spent += call_cost
    return LengthLadder(boundaries, lengths)


def longest(model: nn.Module) -> int | None:
    """The longest input according to the configuration; None where it has no limit."""
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
    """Integers in a model: those whose names suggest blocks or windows, or that occur in its code; and the others."""
    named, others = set[int](), set[int]()
    config = getattr(model, "config", None)
    holders: list[Any] = [m for m in model.modules() if not _is_torch_layer(m)]
    holders += [c for c in (config, getattr(config, "text_config", None)) if c is not None]
    for holder in holders:
        for name, value in vars(holder).items() if hasattr(holder, "__dict__") else ():
            inside = value.values() if type(value) is dict else value if isinstance(value, (list, tuple)) else [value]
            recorded_sizes = {v for v in inside if _is_constant(v)}
            (named if _suggests_length(name) else others).update(
                recorded_sizes if holder is not config or _suggests_length(name) else ()
            )
    for t in _plain_tensors(model):
        if t.numel() <= MAX_NUMBERS and not t.is_complex() and not t.is_meta:
            named.update(int(v) for v in t.flatten().tolist() if v == v and abs(v) <= LARGEST and v == int(v) > 1)
    visited: set[int] = set()
    for cls in dict.fromkeys(type(m) for m in model.modules() if not _is_torch_layer(m)):
        for named_constant, number in _function_constants(getattr(cls, "forward", None), cls, visited, 0):
            (named if named_constant else others).add(number)
    return named, others - named


def _plain_tensors(model: nn.Module) -> Iterator[Tensor]:
    """Buffers and tensors in plain attributes of modules that are not torch's."""
    for module in model.modules():
        if not _is_torch_layer(module):
            values = [*module._buffers.values(), *vars(module).values()] if hasattr(module, "_buffers") else []
            yield from (v for v in values if isinstance(v, Tensor) and not isinstance(v, nn.Parameter))


def irregular_positions(mask: Tensor) -> set[int]:
    """Positions j of a square mask that an earlier row treats otherwise than the rows around it treat their own.

    A causal mask and a window are equal along each diagonal. A mask that is open within blocks, or at the end of a block, is not.
    """
    n = mask.shape[-1] if mask.ndim > 1 else 0
    if n < 4 or mask.shape[-2] != n or mask.is_complex() or mask.is_meta:
        return set()
    mask = mask.detach().reshape(-1, n, n)[0]
    if mask.dtype != torch.bool:
        values = mask.unique()
        if len(values) != 2:
            return set()
        mask = mask == values[1]
    changes = (mask[1:, 1:] != mask[:-1, :-1]).triu(1)
    return {j + 1 for j in changes.any(0).nonzero().flatten().tolist()}


def _function_constants(function: Any, owner: type, visited: set[int], depth: int) -> Iterator[tuple[bool, int]]:
    """Integers in a function: in its code, defaults, closure and globals, and in the functions that it calls."""
    function = getattr(function, "__wrapped__", function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in visited or depth > 3:
        return
    visited.add(id(function))
    if (function.__module__ or "").partition(".")[0] in LIBRARIES:
        return
    code = function.__code__
    yield from ((True, v) for v in _code_constants(code) if v > 2)
    yield from ((True, v) for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()) if _is_constant(v))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if _is_constant(value):
            yield True, value
        yield from _function_constants(value, owner, visited, depth + 1)
    names = _global_names(code)
    for name in names:
        value = function.__globals__.get(name, getattr(owner, name, None))
        if _is_constant(value):
            yield True, value
        yield from _function_constants(value, owner, visited, depth + 1)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:  # block_size of another file
            yield from ((True, v) for n in names & vars(value).keys() if _is_constant(v := vars(value)[n]))


def _code_constants(code: types.CodeType) -> Iterator[int]:
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _code_constants(value)
        elif isinstance(value, tuple):
            yield from (v for v in value if _is_constant(v))
        elif _is_constant(value):
            yield value


def _global_names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _is_constant(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < int(value) <= LARGEST


def _suggests_length(name: str) -> bool:
    return any(word in name.lower() for word in LENGTH_WORDS)


def _is_torch_layer(module: nn.Module) -> bool:
    """Whether it is a layer of torch, whose integers are widths."""
    return type(module).__module__.startswith("torch.")


class _Length(int):
    """A size of a tensor that records the integers by which it is divided and with which it is compared."""

    recorded: set[int]

    def __new__(cls, value: int, recorded: set[int]) -> "_Length":
        result = super().__new__(cls, value)
        result.recorded = recorded
        return result


def _recording(name: str) -> Any:
    plain = getattr(int, name)

    def recording(self: _Length, other: Any) -> Any:
        if _is_constant(other):
            self.recorded.add(int(other))
        return plain(self, other)

    return recording


def _preserving(name: str) -> Any:
    plain = getattr(int, name)

    def preserving(self: _Length, *others: Any) -> Any:
        result = plain(self, *others)
        return _Length(result, self.recorded) if isinstance(result, int) else result

    return preserving


for _name in ("__floordiv__", "__truediv__", "__mod__", "__divmod__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Length, _name, _recording(_name))
for _name in ("__neg__", "__add__", "__sub__", "__radd__"):
    setattr(_Length, _name, _preserving(_name))
_Length.__hash__ = int.__hash__  # type: ignore[method-assign]


def _recording_sizes(recorded_sizes: set[int], irregular: set[int]) -> Functions:
    """Records the integers that reshaping functions receive, those that divide a length or are compared with it, and positions at
    which a mask is irregular."""

    def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name in RESHAPING:
            recorded_sizes.update(_integers([*args, *kwargs.values()]))
        if name in MASKING:
            irregular.update(p for t in _masks(name, args, kwargs) for p in irregular_positions(t))
        result = func(*args, **kwargs)
        if func in (SHAPE, Tensor.size):  # each access gives a new getter
            return (
                torch.Size([_Length(n, recorded_sizes) for n in result])
                if isinstance(result, tuple)
                else _Length(result, recorded_sizes)
            )
        return result

    return Functions(answer)


MASKING = ("softmax", "masked_fill", "masked_fill_", "where", "mul", "__mul__", "scaled_dot_product_attention")


def _masks(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Square masks among the arguments of a function; for a softmax, the scores that are not hidden."""
    for t in (t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim > 1 and t.shape[-1] == t.shape[-2] > 4):
        if name == "softmax":
            t = t.detach().reshape(-1, *t.shape[-2:])[0]
            yield t > t.amax(-1, keepdim=True) - HIDDEN
        elif name != "scaled_dot_product_attention" or t is kwargs.get("attn_mask", args[3] if len(args) > 3 else None):
            yield t


SHAPE = Tensor.shape.__get__  # type: ignore[attr-defined]


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, slice):
        yield from _integers([value.start, value.stop, value.step])
    elif _is_constant(value):
        yield int(value)


def _recorded(run: Pass) -> tuple[set[int], set[int]]:
    """Sizes by which the running model splits and reshapes, and positions at which its masks are irregular.

    Sizes count if they are the same at two lengths: what follows the length is not constant.
    """
    recorded_sizes, irregular = list[set[int]](), set[int]()
    for length in (run.inputs.length or 0, FLOOR, 67, 37):
        inputs = resized(run.inputs, length, Generator().manual_seed(3))
        if inputs is None or len(recorded_sizes) == 2:
            continue

        def record(model: nn.Module, inputs: Inputs = inputs) -> Any:
            sizes: set[int] = set()
            with _recording_sizes(sizes, irregular):
                result = inputs.call(model)
            recorded_sizes.append(sizes)
            return result

        try:
            run.outputs_of(record)
        except ModelError:
            continue
    widths = {s for p in run.model.parameters() for s in p.shape}
    return (recorded_sizes[0] & recorded_sizes[1]) - widths if len(recorded_sizes) == 2 else set(), irregular


# ------------------------------------------------------------------------------------------------------ inputs of a length


def resized(inputs: Inputs, length: int, generator: Generator) -> Inputs | None:
    """The same inputs at another length: the first tokens, or more tokens appended; None where they cannot be extended."""
    n = inputs.length or 0
    return inputs if length == n else shortened(inputs, length) if length < n else lengthened(inputs, length, generator)


def positions(n: int, boundaries: list[int], most: int) -> list[int]:
    """Positions 1 .. n - 1 in order: all, or at most `most`, first those next to block boundaries, then evenly spread ones."""
    if n - 1 <= most:
        return list(range(1, n))
    near = [k * c + d for c in boundaries for k in range(1, n // c + 1) if k <= 4 or k == n // c for d in (0, 1, -1)]
    chosen = list(dict.fromkeys(p for p in [1, n - 1, *near] if 0 < p < n))[: most // 2]
    for parts in count(2):
        spread = (round(i * n / parts) for i in range(1, parts))
        for p in spread:
            if len(chosen) >= most:
                return sorted(chosen)
            if 0 < p < n and p not in chosen:
                chosen.append(p)
    return sorted(chosen)


def largest_batch(run: Pass, sequences: int, length: int) -> int:
    """The largest batch of inputs of that length whose outputs take at most half of the parameters' memory, or 64 MiB."""
    sequences = min(sequences, TOKENS // max(length * (run.inputs.batch or 1), 1))
    numbers = sum(t.numel() for t in run(run.inputs).values()) * length / max(run.inputs.length or 1, 1)
    parameter_bytes = sum(p.numel() * p.element_size() for p in run.subject.model.parameters())
    room = max(parameter_bytes / 2, 64 * 2**20)
    return max(1, min(sequences, int(room / (8 * max(numbers, 1)))))
