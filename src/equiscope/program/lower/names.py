"""What values are called on a page: by a legend, by their role in attention, else by the variable in the model's code."""

from collections.abc import Sequence

from torch import Tensor

from equiscope.program.lower.graph import Apply
from equiscope.program.program import Leaf, ValueLabel
from equiscope.program.source import SourceLocation

PROJECTIONS = {
    "Q": ("q_proj", "query", "q", "to_q", "wq", "q_lin", "linear_q"),
    "K": ("k_proj", "key", "k", "to_k", "wk", "k_lin", "linear_k"),
    "V": ("v_proj", "value", "v", "to_v", "wv", "v_lin", "linear_v"),
    "O": ("o_proj", "out_proj", "o", "to_out", "wo", "out_lin"),
}
LETTER = {name: letter for letter, names in PROJECTIONS.items() for name in names}
INPUT = ("batch", "token", "feature")
WORD = 20  # letters of a variable that is still a symbol
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda_": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω",
}  # fmt: skip


def named_leaf(leaf: Leaf, legend: ValueLabel | None) -> tuple[ValueLabel, str]:
    """What a leaf is called, and the module that it belongs to."""
    path, _, name = leaf.name.rpartition(".")
    rank = leaf.value.ndim
    match leaf.kind:
        case "input":
            return _input(name, leaf.value), ""
        case "parameter" | "buffer":
            symbol, axes, label, _ = legend or ValueLabel(_parameter(path, name), (), f"{name} of {path}" if path else name)
            return ValueLabel(symbol, axes if len(axes) == rank else ("channel",) * rank, label, "weight"), path
        case "constant":
            symbol, label = named(leaf.source, "a constant of the model's code")
            return ValueLabel(symbol or symbol_of(leaf.value), ("",) * rank, label, "constant"), leaf.where
        case "chance":
            return ValueLabel("", ("",) * rank, f"drawn by chance in {leaf.where or 'the model'}", "constant"), leaf.where
        case _:
            return ValueLabel("", ("",) * rank, "made by code that was not seen", "opaque"), leaf.where


def _input(name: str, t: Tensor) -> ValueLabel:
    """Rows of numbers are tokens and features, whole numbers are tokens; of other inputs nothing is known."""
    floats = t.is_floating_point()
    known = INPUT if floats else INPUT[:2]
    axes = known[len(known) - t.ndim :] if t.ndim <= len(known) else ("",) * t.ndim
    symbols = {"input_ids": "i", "x": "X"}
    plain = name.isdigit()
    symbol = symbols.get(name, name) if not plain else "X" if floats else "i"
    return ValueLabel(symbol, axes, "the input" if plain else f"the input {name}", "content")


def _parameter(path: str, name: str) -> str:
    letter = LETTER.get(path.rpartition(".")[2])
    kinds = {"weight": "W", "bias": "b"}
    return f"{kinds[name]}_{letter}" if letter and name in kinds else kinds.get(name, name)


def named(source: SourceLocation, otherwise: str) -> tuple[str, str]:
    """Symbol and label from the model's code: the variable, and the expression."""
    variable = GREEK.get(source.name, source.name)
    return variable if len(variable) <= WORD else "", source.text or otherwise


def letter_of(plan: Apply, where: str) -> str:
    """Q, K or V of what a projection of that name makes; else nothing."""
    letter = LETTER.get(where.rpartition(".")[2], "") if plan.op in ("matmul", "add") else ""
    return letter if letter in ("Q", "K", "V") else ""


def operation_in(plan: Apply, where: str) -> str:
    """The label of a step without another name."""
    call = str(plan.params.get("call", plan.op) if plan.op == "loops" else plan.op).replace("_", " ")
    return f"{call} in {where}" if where else call


def named_part(plan: Apply, symbol: str) -> tuple[str, str]:
    """Symbol and label of a step inside a call that is several, such as a linear map before its bias."""
    first = plan.inputs[0]
    match plan.op:
        case "norm":
            return "N", "normalized rows"
        case "multiply" if isinstance(first, Apply) and first.op == "norm":
            return "N·g", "times the gain"
        case "matmul":
            return f"{symbol}_0" if symbol else "", "before the bias"
        case _:
            return "", plan.op.replace("_", " ")


def symbol_of(t: Tensor) -> str:
    """A constant number as itself, others as c."""
    return f"{t.item():.4g}" if t.numel() == 1 and not t.is_complex() else "c"


def axes_of(shape: Sequence[int], axes: Sequence[Sequence[str]], shapes: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Axes of a result without a rule: each takes the name of an input axis of the same length, counted from the right."""
    axis_names = []
    for i in range(-len(shape), 0):
        names = [a[i] for a, s in zip(axes, shapes, strict=True) if len(s) >= -i and s[i] == shape[i] and a[i] not in ("", "axis")]
        axis_names.append(names[0] if names else "")
    return tuple(axis_names)
