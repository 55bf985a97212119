"""A soft-cap of the output, or none."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.recorded.solving import solved
from equiscope.audit.parity.sides import Node
from equiscope.program.program import Edit

CAPS = (30.0, 50.0, 20.0, 15.0, 10.0, 5.0, 3.0)


@dataclass(frozen=True, eq=False)
class OutputSite:
    """An output of A. before, cap: of one that is cap · tanh(x / cap), the value of x / cap and the cap; else -1 and 0."""

    node: Node
    before: int = -1
    cap: float = 0.0


def sites(r: RecordedTensors) -> list[OutputSite]:
    """The outputs of A."""
    return [_site(r, r.d.a.maker[v]) for v in r.d.a.outputs.values() if v in r.d.a.maker]


def _site(r: RecordedTensors, node: Node) -> OutputSite:
    y = r.d.a.numbers(node.value)
    for value in r.d.a.ancestors(node.value, 3):
        before = r.d.a.maker.get(value)
        if before is not None and before.op == "tanh" and r.d.a.high[value].shape == y.shape:
            t = r.d.a.numbers(value)
            cap = ((t * y).sum() / t.square().sum()).item()
            if bool((y - cap * t).norm() <= 1e-9 * y.norm()):
                return OutputSite(node, r.d.a.parents(value)[0], cap)
    return OutputSite(node)


def cap(r: RecordedTensors, group: list[OutputSite]) -> Finding | None:
    """B caps its output otherwise."""
    site = group[0]
    says = f"{site.cap:.6g}" if site.cap else "no cap"

    def edit(bound: float) -> Edit:
        def capped(t: Tensor, values: Values) -> Tensor:
            x = values[site.before] * site.cap if site.cap else t
            return bound * torch.tanh(x / bound) if bound else x

        return capped

    def change(bound: float) -> ModelChange:
        theirs = f"{bound:.6g}" if bound else "no cap"
        evidence = f"tanh(x / {theirs}) · {theirs} of {{0}} is {{1}}'s" if bound else "{0} without its cap computes {1}'s numbers"
        return ModelChange("output cap", says, theirs, evidence, site.node.value, {site.node.value: edit(bound)})

    found = r.confirmed(change(0.0)) if site.cap else None
    return found or solved(r, [x for x in CAPS if x != site.cap], change)
