"""Boundaries: lengths at which blocks, chunks and windows of a model may end, guessed from the model itself.

Sources: integers in its attributes, small buffers and configuration; constants in its forward functions, except those of the
libraries in `LIBRARIES`; integers by which the running model divides a length, or with which it compares one; and positions where a
mask is irregular.
"""

import types
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from equiscope.program.modes import Functions

LENGTH_WORDS = (
    "block", "chunk", "window", "segment", "stride", "bucket", "span", "local", "memory", "context", "group", "period", "landmark",
    "page", "tile", "kernel", "dilation", "horizon", "size", "length", "len", "every", "split", "step", "scan", "history",
)  # fmt: skip
SIZE_FUNCTIONS = (  # whose integer arguments may be lengths
    "view", "reshape", "unflatten", "chunk", "split", "narrow", "unfold", "roll", "pad", "tensor_split", "as_strided", "fold",
    "max_pool1d", "avg_pool1d", "conv1d", "arange", "tril", "triu", "full", "zeros", "ones", "__getitem__", "__floordiv__",
    "floor_divide", "__mod__", "remainder",
)  # fmt: skip
LIBRARIES = ("torch", "transformers", "timm", "numpy", "math")  # constants in their code are not the model's
LARGEST = 1024  # larger constants suggest no length
LONG_LENGTH = 263  # one tested length is at least this, if the model accepts it; a prime, which no size of blocks divides
MAX_NUMBERS = 16  # in a buffer that holds sizes
MAX_IRREGULAR = 4  # positions of irregular masks
MASKED_BELOW = 1e4  # a score that is smaller than the largest of its row by more than this is masked


def boundaries(model: nn.Module, sizes: Iterable[set[int]] = (), irregular: Iterable[int] = ()) -> tuple[list[int], list[int]]:
    """Likely boundaries of a model, and further ones: integers that may be widths or something else.

    sizes      what `recording_sizes` found at each of two lengths; others than those found at both follow the length
    irregular  positions of irregular masks that it found
    """
    named, others = constants(model)
    irregular = {*irregular, *(p for t in _plain_tensors(model) for p in irregular_positions(t))}
    named |= set(sorted(p for p in irregular if 1 < p <= LARGEST)[:MAX_IRREGULAR])
    all_widths = {s for p in model.parameters() for s in p.shape}
    widths = {s for s in all_widths if s > 64}
    sizes = list(sizes)
    split_sizes = (sizes[0] & sizes[1]) - all_widths if len(sizes) == 2 else set()
    candidates = [c for c in dict.fromkeys([*sorted(named), *sorted(split_sizes)]) if 1 < c <= LARGEST]
    likely = [c for c in candidates if c not in widths]
    others_left = [c for c in dict.fromkeys([*sorted(others), *candidates]) if 1 < c <= LARGEST and c not in likely]
    return likely, [c for c in others_left if c not in widths or c < LONG_LENGTH]


def lengths_around(likely: list[int], others: list[int]) -> list[int]:
    """Lengths on both sides of boundaries and of powers of two, in the order in which they are tried."""
    powers = [256, 128, 64, 32, 16, 8, 4, 2]
    lengths = [*(c + 1 for c in likely), *likely, *(2 * c + 1 for c in likely), *(p + 1 for p in powers), *(c - 1 for c in likely)]
    lengths += [*(c + 1 for c in others), *others, *(2 * c + 1 for c in others), *powers, *(p - 1 for p in powers)]
    return list(dict.fromkeys(n for n in lengths if n > 1))


def positions_around(n: int, ends: list[int]) -> list[int]:
    """Positions 1 .. n - 1 near multiples of boundaries: the first of each, then the second, third, fourth and last."""
    near = []
    for times in (1, 2, 3, 4, None):
        multiples = [c * (times or n // c) for c in ends if c <= n]
        near += [multiple + d for d in (0, 1, -1) for multiple in multiples if multiple <= n]
    return list(dict.fromkeys(p for p in near if 0 < p < n))


def positions(n: int, ends: list[int], most: int) -> list[int]:
    """Positions 1 .. n - 1 in order: all, or at most `most`, first those next to block boundaries, then evenly spread ones."""
    if n - 1 <= most:
        return list(range(1, n))
    chosen = list(dict.fromkeys([1, n - 1, *positions_around(n, ends)]))[: most // 2]
    for parts in count(2):
        spread = (round(i * n / parts) for i in range(1, parts))
        for p in spread:
            if len(chosen) >= most:
                return sorted(chosen)
            if 0 < p < n and p not in chosen:
                chosen.append(p)
    return sorted(chosen)


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
            if _suggests_length(name):
                named.update(v for v in inside if _is_constant(v))
            elif holder is not config:
                others.update(v for v in inside if _is_constant(v))
    for t in _plain_tensors(model):
        if t.numel() <= MAX_NUMBERS and not t.is_complex() and not t.is_meta:
            named.update(int(v) for v in t.flatten().tolist() if v == v and abs(v) <= LARGEST and v == int(v) > 1)
    visited: set[int] = set()
    for cls in dict.fromkeys(type(m) for m in model.modules() if not _is_torch_layer(m)):
        named.update(_function_constants(getattr(cls, "forward", None), cls, visited, 0))
    return named, others - named


def _plain_tensors(model: nn.Module) -> Iterator[Tensor]:
    """Buffers and tensors in plain attributes of modules that are not torch's."""
    for module in model.modules():
        if not _is_torch_layer(module):
            values = [*module._buffers.values(), *vars(module).values()] if hasattr(module, "_buffers") else []
            yield from (v for v in values if isinstance(v, Tensor) and not isinstance(v, nn.Parameter))


def irregular_positions(mask: Tensor) -> set[int]:
    """Columns j at which mask[i, j] != mask[i - 1, j - 1] for some row i < j, of the first matrix of a batch.

    Causal masks and windows are constant along each diagonal. A mask that is open within blocks, or at the end of a block, is not.
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


def _function_constants(function: Any, owner: type, visited: set[int], depth: int) -> Iterator[int]:
    """Integers in a function: in its code, defaults, closure and globals, and in the functions that it calls."""
    function = getattr(function, "__wrapped__", function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in visited or depth > 3:
        return
    visited.add(id(function))
    if (function.__module__ or "").partition(".")[0] in LIBRARIES:
        return
    code = function.__code__
    yield from (v for v in _code_constants(code) if v > 2)
    yield from (v for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()) if _is_constant(v))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if _is_constant(value):
            yield value
        yield from _function_constants(value, owner, visited, depth + 1)
    names = _global_names(code)
    for name in names:
        value = function.__globals__.get(name, getattr(owner, name, None))
        if _is_constant(value):
            yield value
        yield from _function_constants(value, owner, visited, depth + 1)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:  # block_size of another file
            yield from (v for n in names & vars(value).keys() if _is_constant(v := vars(value)[n]))


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


def _recording_operator(name: str) -> Any:
    plain = getattr(int, name)

    def operator(self: _Length, other: Any) -> Any:
        if _is_constant(other):
            self.recorded.add(int(other))
        return plain(self, other)

    return operator


def _preserving(name: str) -> Any:
    plain = getattr(int, name)

    def preserving(self: _Length, *others: Any) -> Any:
        result = plain(self, *others)
        return _Length(result, self.recorded) if isinstance(result, int) else result

    return preserving


for _name in ("__floordiv__", "__truediv__", "__mod__", "__divmod__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Length, _name, _recording_operator(_name))
for _name in ("__neg__", "__add__", "__sub__", "__radd__"):
    setattr(_Length, _name, _preserving(_name))
_Length.__hash__ = int.__hash__  # type: ignore[method-assign]


def recording_sizes(recorded_sizes: set[int], irregular: set[int]) -> Functions:
    """Records the integers that reshaping functions receive, those that divide a length or are compared with it, and positions at
    which a mask is irregular."""

    def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name in SIZE_FUNCTIONS:
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

    return Functions(handler)


MASKING = ("softmax", "masked_fill", "masked_fill_", "where", "mul", "__mul__", "scaled_dot_product_attention")


def _masks(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Square masks among the arguments of a function; for a softmax, where the scores are not masked."""
    for t in (t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim > 1 and t.shape[-1] == t.shape[-2] > 4):
        if name == "softmax":
            t = t.detach().reshape(-1, *t.shape[-2:])[0]
            yield t > t.amax(-1, keepdim=True) - MASKED_BELOW
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
