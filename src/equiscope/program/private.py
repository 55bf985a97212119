"""Private names of torch that captures and exports use: the purpose of each, and the behaviour with a torch that lacks it.

torch._C._functorch.is_functorch_wrapped_tensor
    Whether vmap or grad of torch.func wraps a tensor. Without it, models that use these transforms cannot be watched.
Tensor.untyped_storage()._cdata
    The identity of a storage, which finds aliases. Without it, a write through one tensor is not seen in its aliases.
Tensor._version
    The number of in-place writes to a tensor. Without it, a write that neither the name nor the schema of a call shows is missed.
torch._C.TensorBase
    Methods of tensors in C. Without it, methods in Python that call them are opened, and torch recurses without end.
has_torch_function, has_torch_function_unary, has_torch_function_variadic in the globals of torch's Python functions
    By these a function checks for overrides. A function that checks in another way is recorded by its ATen calls.
torch.ops.aten.NAME.OVERLOAD, its _schema and its tags
    Which arguments a call writes, and whether it draws random numbers. Without them, a call is assumed to do neither.
torch.ops.aten._safe_softmax
    The softmax of fused attention, which returns 0 for a fully masked row. Without it, such a row is NaN.
_decompose_exported_program and _split_decomp_table_to_cia_and_python_decomp of torch.export.exported_program
    `run_decompositions` without overriding composite operations that torch decomposes by itself. Without them, that is called,
    and an export of a small model takes twice as long.
"""

import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

_wrapped: Any = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
_GUARDS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_Base: Any = getattr(torch._C, "TensorBase", Tensor)
_safe_softmax: Any = getattr(torch.ops.aten, "_safe_softmax", None)


def is_wrapped(t: Tensor) -> bool:
    """Whether vmap or grad of torch.func wraps it, so that its numbers are not its own."""
    return _wrapped is not None and bool(_wrapped(t))


def storage_of(t: Tensor) -> int:
    """The same number for tensors that share their memory."""
    try:
        return int(t.untyped_storage()._cdata)
    except (AttributeError, NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(t)


def version(t: Tensor) -> int:
    """How often it was written in place; -1 where torch does not count."""
    return -1 if t.is_inference() else int(getattr(t, "_version", -1))


def opened(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A Python function of torch without its check for overrides, so that a watcher sees the calls inside it."""
    if not isinstance(function, types.FunctionType) or not str(function.__module__).startswith("torch"):
        return None
    if hasattr(_Base, function.__name__) and getattr(Tensor, function.__name__) is function:
        return None  # a method of tensors that calls the one in C, which torch reports by the name of this one
    guards = set(_GUARDS) & set(function.__code__.co_names) & function.__globals__.keys()
    return _opened(function) if guards else None


@cache
def _opened(function: types.FunctionType) -> Callable[..., Any]:
    space = {**function.__globals__, **dict.fromkeys(_GUARDS, lambda *_: False)}
    opened = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


def writes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments that an ATen call says it writes."""
    schema = getattr(function, "_schema", None)
    if schema is None or not getattr(schema, "is_mutable", False):
        return []
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs
    return [given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]


@cache
def draws(function: Any) -> bool:
    """Whether torch says that a function draws by chance: some overload of its name, where it is no ATen call."""
    if hasattr(function, "_schema"):
        return torch.Tag.nondeterministic_seeded in function.tags
    packet = getattr(torch.ops.aten, str(getattr(function, "__name__", "")), None)
    overloads = packet.overloads() if packet is not None and hasattr(packet, "overloads") else []
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, name).tags for name in overloads)


def safe_softmax(scores: Tensor) -> Tensor:
    """Softmax along the last axis, as fused attention has it."""
    return scores.softmax(-1) if _safe_softmax is None else _safe_softmax.default(scores, -1)


def decomposed(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """`exported.run_decompositions()`, in which attention stays one operation."""
    private: Any = torch.export.exported_program
    try:
        composite, others = _decompositions()
        return private._decompose_exported_program(
            exported,
            cia_to_decomp=composite,
            python_decomp_table=dict(others),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )
    except (AttributeError, TypeError):  # another version of torch has no such function, or one with other arguments
        return exported.run_decompositions(_without_attention())


def _without_attention() -> Any:
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)
    return table


@cache
def _decompositions() -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What replaces a composite operation, if not torch's own definition, and what replaces another one."""
    private: Any = torch.export.exported_program
    composite, others = private._split_decomp_table_to_cia_and_python_decomp(_without_attention().materialize())
    return {op: replacement for op, replacement in composite.items() if not isinstance(replacement, partial)}, others
