"""Another activation, or none."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding
from equiscope.audit.parity.causes.activations import CANDIDATES
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.sides import Node, Side
from equiscope.program.program import Edit

ENDS = {
    "gelu", "silu", "relu", "relu_", "tanh", "sigmoid", "leaky_relu", "elu", "softplus", "mish", "hardswish", "mul", "rmul",
    "square", "pow", "clamp", "clamp_min", "maximum", "where", "swish",
}  # fmt: skip
BACK = 12  # steps from the end of an activation that is written out to what it reads


@dataclass(frozen=True, eq=False)
class ActivationSite:
    """A step that ends an activation of the list, its name and the value that it reads."""

    node: Node
    name: str
    source: int


def sites(r: RecordedTensors) -> list[ActivationSite]:
    """The activations of A, in order; of one that is written out its last step."""
    found = list[ActivationSite]()
    for node in r.d.a.nodes:
        if node.value in r.d.a.moving and node.op in ENDS and r.d.a.is_number(node.value):
            site = _site(r.d.a, node)
            if site is not None:
                inside = set(r.d.a.ancestors(node.value, BACK)) - set(r.d.a.ancestors(site.source, 4 * BACK))
                found = [s for s in found if not (s.node.value in inside and s.node.value != site.source)]
                found.append(site)
    return found


def _site(side: Side, node: Node) -> ActivationSite | None:
    y = side.numbers(node.value)
    for value in [v for v in side.ancestors(node.value, BACK) if side.high[v].shape == y.shape and side.is_number(v)]:
        x = side.numbers(value)
        if bool(x.isfinite().all()):
            name = next((name for name, f in CANDIDATES.items() if is_rounding(difference(f(x), y))), "")
            if name and not bool((x >= 0).all()):
                return ActivationSite(node, name, value)
    return None


def activation(r: RecordedTensors, group: list[ActivationSite]) -> Finding | None:
    """B's activation is another one of the list, or left out."""
    ours = group[0].name
    functions = {**CANDIDATES, "no activation": torch.clone}
    for theirs in functions:
        if theirs != ours:
            edits = {s.node.value: _applied(s, functions[theirs]) for s in group}
            evidence = f"{theirs} of {{0}}'s input gives {{1}}'s numbers"
            found = r.confirmed(ModelChange("activation", ours, theirs, evidence, group[0].node.value, edits))
            if found is not None:
                return found
    return None


def _applied(site: ActivationSite, function: Callable[[Tensor], Tensor]) -> Edit:
    def edit(_: Tensor, values: Values) -> Tensor:
        return function(values[site.source])

    return edit
