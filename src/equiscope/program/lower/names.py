"""What values are called on a page: symbols and axes from a module's legend, else from where they stand in the model."""

from collections.abc import Sequence

from torch import Tensor

from equiscope.program.lower.graph import Apply
from equiscope.program.program import Leaf
from equiscope.record.trace import Kind

PROJECTIONS = {
    "Q": ("q_proj", "query", "q", "to_q", "wq", "q_lin", "linear_q"),
    "K": ("k_proj", "key", "k", "to_k", "wk", "k_lin", "linear_k"),
    "V": ("v_proj", "value", "v", "to_v", "wv", "v_lin", "linear_v"),
    "O": ("o_proj", "out_proj", "o", "to_out", "wo", "out_lin"),
}
LETTER = {name: letter for letter, names in PROJECTIONS.items() for name in names}
INPUT = ("batch", "token", "feature")
Name = tuple[str, str, tuple[str, ...], Kind, str]  # symbol, label, axes, kind, module


def named_leaf(leaf: Leaf, legend: tuple[str, str, str] | None) -> Name:
    """What a leaf is called: (symbol, label, axes, kind, module)."""
    path, _, name = leaf.name.rpartition(".")
    rank = leaf.value.ndim
    match leaf.kind:
        case "input":
            return _input(name, leaf.value)
        case "parameter" | "buffer" | "constant":
            symbol, words, label = legend or (_parameter(path, name), "", f"{name} of {path}" if path else name)
            axes = tuple(words.split()) if len(words.split()) == rank else ("channel",) * rank
            return symbol, label, axes, "constant" if leaf.kind == "constant" else "weight", path
        case "chance":
            return "", f"drawn by chance in {leaf.where or 'the model'}", ("",) * rank, "constant", leaf.where
        case _:
            return "", "made by code that was not seen", ("",) * rank, "opaque", leaf.where


def _input(name: str, t: Tensor) -> Name:
    """Rows of numbers are tokens and features, whole numbers are tokens; of other inputs nothing is known."""
    floats = t.is_floating_point()
    known = INPUT if floats else INPUT[:2]
    axes = known[len(known) - t.ndim :] if t.ndim <= len(known) else ("",) * t.ndim
    symbols = {"input_ids": "i", "x": "X"}
    plain = name.isdigit()
    symbol = symbols.get(name, name) if not plain else "X" if floats else "i"
    return symbol, "the input" if plain else f"the input {name}", axes, "content", ""


def _parameter(path: str, name: str) -> str:
    letter = LETTER.get(path.rpartition(".")[2])
    kinds = {"weight": "W", "bias": "b"}
    return f"{kinds[name]}_{letter}" if letter and name in kinds else {"weight": "W", "bias": "b"}.get(name, name)


def named_step(plan: Apply, where: str, whole: bool) -> tuple[str, str]:
    """Symbol and label of a step. whole: it is a value of the program, and no part of one."""
    letter = LETTER.get(where.rpartition(".")[2]) if whole and plan.op in ("matmul", "add") else None
    call = plan.params.get("call", plan.op) if plan.op == "loops" else plan.op
    label = f"{str(call).replace('_', ' ')} in {where}" if where else str(call).replace("_", " ")
    return letter if letter in ("Q", "K", "V") else "", label


def symbol_of(t: Tensor) -> str:
    """A constant number as itself, others as c."""
    return f"{t.item():.4g}" if t.numel() == 1 and not t.is_complex() else "c"


def axes_of(shape: Sequence[int], axes: Sequence[Sequence[str]], shapes: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Axes of a result of which nothing is known: each has the name of an input's axis as long as it, counted from the right."""
    found = []
    for i in range(-len(shape), 0):
        names = [a[i] for a, s in zip(axes, shapes, strict=True) if len(s) >= -i and s[i] == shape[i] and a[i] not in ("", "axis")]
        found.append(names[0] if names else "")
    return tuple(found)
