"""Constants: whole numbers that a model holds, in its attributes, small buffers, configuration and code.

Code is that of its forward functions and of what they call, except in the libraries of `LIBRARIES`.
"""

import types
from collections.abc import Iterator
from typing import Any, TypeGuard

from torch import Tensor, nn

LENGTH_WORDS = (
    "block", "chunk", "window", "segment", "stride", "bucket", "span", "local", "memory", "context", "group", "period", "landmark",
    "page", "tile", "kernel", "dilation", "horizon", "size", "length", "len", "every", "split", "step", "scan", "history",
)  # fmt: skip
LIBRARIES = ("torch", "transformers", "timm", "numpy", "math")  # constants in their code are not the model's
LARGEST = 1024  # larger constants suggest no length
MAX_NUMBERS = 16  # in a buffer that holds sizes
MAX_DEPTH = 3  # of calls that are followed


def constants(model: nn.Module) -> tuple[set[int], set[int]]:
    """Whole numbers in a model: those whose names suggest a length or that occur in its code; and the others."""
    named, others = set[int](), set[int]()
    modules = [m for m in model.modules() if not _is_torch_layer(m)]
    config = getattr(model, "config", None)
    configs = [c for c in (config, getattr(config, "text_config", None)) if c is not None]
    for holder in (*modules, *configs):
        for name, value in vars(holder).items() if hasattr(holder, "__dict__") else ():
            inside = value.values() if type(value) is dict else value if isinstance(value, (list, tuple)) else [value]
            if _suggests_length(name):
                named.update(v for v in inside if is_constant(v))
            elif holder is not config:
                others.update(v for v in inside if is_constant(v))
    for tensor in plain_tensors(model):
        named.update(_sizes_in(tensor))
    visited: set[int] = set()
    for cls in dict.fromkeys(type(m) for m in modules):
        named.update(_function_constants(getattr(cls, "forward", None), cls, visited, 0))
    return named, others - named


def _sizes_in(tensor: Tensor) -> Iterator[int]:
    """The whole numbers of a tensor that is small enough to hold sizes."""
    if tensor.numel() <= MAX_NUMBERS and not tensor.is_complex() and not tensor.is_meta:
        yield from (int(v) for v in tensor.flatten().tolist() if v == v and abs(v) <= LARGEST and v == int(v) > 1)


def plain_tensors(model: nn.Module) -> Iterator[Tensor]:
    """Buffers and tensors in plain attributes of modules that are not torch's."""
    for module in model.modules():
        if not _is_torch_layer(module):
            values = [*module._buffers.values(), *vars(module).values()] if hasattr(module, "_buffers") else []
            yield from (v for v in values if isinstance(v, Tensor) and not isinstance(v, nn.Parameter))


def is_constant(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number that may be a length."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 < int(value) <= LARGEST


def _suggests_length(name: str) -> bool:
    return any(word in name.lower() for word in LENGTH_WORDS)


def _is_torch_layer(module: nn.Module) -> bool:
    """Whether it is a layer of torch, whose integers are widths."""
    return type(module).__module__.startswith("torch.")


def _function_constants(function: Any, owner: type, visited: set[int], depth: int) -> Iterator[int]:
    """Integers in a function: in its code, defaults, closure and globals, and in the functions that it calls."""
    function = getattr(function, "__wrapped__", function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in visited or depth > MAX_DEPTH:
        return
    visited.add(id(function))
    if (function.__module__ or "").partition(".")[0] in LIBRARIES:
        return
    code = function.__code__
    yield from (v for v in _code_constants(code) if v > 2)
    yield from (v for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()) if is_constant(v))
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if is_constant(value):
            yield value
        yield from _function_constants(value, owner, visited, depth + 1)
    names = _global_names(code)
    for name in names:
        value = function.__globals__.get(name, getattr(owner, name, None))
        if is_constant(value):
            yield value
        yield from _function_constants(value, owner, visited, depth + 1)
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] not in LIBRARIES:  # block_size of another file
            yield from (v for n in names & vars(value).keys() if is_constant(v := vars(value)[n]))


def _code_constants(code: types.CodeType) -> Iterator[int]:
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _code_constants(value)
        elif isinstance(value, tuple):
            yield from (v for v in value if is_constant(v))
        elif is_constant(value):
            yield value


def _global_names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))
