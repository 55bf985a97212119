"""Names of torch's calls: what each is called as a step, what it writes, and which lets a number leave torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equiscope.program.private import writes

EXITS = {
    "item", "__bool__", "__int__", "__float__", "__complex__", "__index__", "tolist", "numpy", "is_nonzero", "equal", "allclose",
    "__contains__", "__format__", "__repr__", "__array__", "_local_scalar_dense",
}  # fmt: skip
NOTHING = {"requires_grad_", "detach_", "share_memory_", "retain_grad", "register_hook", "record_stream", "grad"}
DROPOUT = {"dropout", "feature_dropout"}  # a product with what is drawn
PROPERTIES = {"T", "mT", "H", "mH", "real", "imag", "data"}
IN_PLACE = {
    "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "ifloordiv": "floor_divide", "imod": "remainder", "ipow": "pow",
    "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor", "imatmul": "matmul", "setitem": "setitem",
}  # fmt: skip
OPERATORS = {
    "truediv": "div", "rtruediv": "rdiv", "radd": "add", "rmul": "mul", "rmatmul": "rmatmul", "invert": "bitwise_not",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "floordiv": "floor_divide", "mod": "remainder", "rsub": "rsub",
}  # fmt: skip
SAME = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "concat": "cat", "concatenate": "cat",
    "_unsafe_view": "view", "_to_copy": "to", "absolute": "abs", "negative": "neg", "less": "lt",
    "greater": "gt",
}  # fmt: skip
SILENT = {"batch_norm": (3, 4), "instance_norm": (3, 4), "_batch_norm_impl_index": (3, 4)}  # running mean and variance


def raw_name(function: Any) -> str:
    """As torch spells it: "__iadd__", "add_"; of a property the property's."""
    schema = getattr(function, "_schema", None)
    if schema is not None:
        return str(schema.name).split("::")[-1]
    name = str(getattr(function, "__name__", function))
    return str(function.__self__.__name__) if name in ("__get__", "__set__") and hasattr(function, "__self__") else name


def op_name(function: Any) -> tuple[str, bool]:
    """The name of a step, and whether the name says that the first argument is written."""
    name = raw_name(function)
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        return (IN_PLACE[name], True) if name in IN_PLACE else (OPERATORS.get(name, name), False)
    if name.endswith("_") and not name.startswith("_"):
        return SAME.get(name[:-1], name[:-1]), True
    return SAME.get(name, name), False


def written(function: Any, in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Tensors that a call says it writes: by its name, by its schema, or as its `out`."""
    tensors = [*writes(function, args, kwargs), *(args[:1] if in_place else ()), kwargs.get("out")]
    tensors += [args[place] for place in SILENT.get(raw_name(function), ()) if place < len(args)]
    flat = [x for one in tensors for x in (one if isinstance(one, Sequence) else [one])]
    return list({id(t): t for t in flat if isinstance(t, Tensor)}.values())


def generator_state(t: Tensor) -> Tensor:
    """The state of the generator that calls on this tensor draw from."""
    return torch.cuda.get_rng_state(t.device) if t.is_cuda else torch.get_rng_state()


def set_generator_state(t: Tensor, state: Tensor) -> None:
    """Draw again from there."""
    if t.is_cuda:
        torch.cuda.set_rng_state(state, t.device)
    else:
        torch.set_rng_state(state)
