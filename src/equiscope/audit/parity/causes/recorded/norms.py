"""Norms with another epsilon, of another kind, with or without their weight and bias, or left out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.norms import KINDS, SolvedNorm, norm_ends, norms_of
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.recorded.solving import solved
from equiscope.audit.parity.sides import Node
from equiscope.program.program import Edit

USUAL = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 1e-7, 1e-2, 1e-4, 1e-15)


@dataclass(frozen=True, eq=False)
class NormSite:
    """A norm of A: its step, and the step that ends it with a weight and a bias."""

    node: Node
    solved: SolvedNorm
    end: Node
    weight: Tensor | None
    bias: Tensor | None

    @property
    def where(self) -> str:
        return self.node.module or "the model"


def sites(r: RecordedTensors) -> list[NormSite]:
    """The norms of A, in order."""
    return [_site(r, node, solved) for node, solved in norms_of(r.d.a)]


def _site(r: RecordedTensors, node: Node, solved: SolvedNorm) -> NormSite:
    if node.op in ("layer_norm", "rms_norm"):
        return NormSite(node, solved, node, solved.weight, solved.bias)
    weight, bias, end = None, None, node
    for step in norm_ends(r.d.a, node)[1:]:
        vectors = [v for v in step.inputs if v not in r.d.a.moving and r.d.a.is_number(v)]
        if len(vectors) == 1 and step.op in ("mul", "rmul", "Mul") and weight is None and bias is None:
            weight, end = r.d.a.numbers(vectors[0]), step
        elif len(vectors) == 1 and step.op in ("add", "radd", "Add") and bias is None:
            bias, end = r.d.a.numbers(vectors[0]), step
    return NormSite(node, solved, end, weight, bias)


def _normalised(site: NormSite, other: SolvedNorm) -> Edit:
    """The step of the norm with another kind or epsilon."""
    native = site.node is site.end

    def edit(_: Tensor, values: Values) -> Tensor:
        z = other.normalised(values[site.solved.value])
        return _weighted(z, site.weight, site.bias) if native else z

    return edit


def _weighted(z: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    z = z if weight is None else z * weight
    return z if bias is None else z + bias


def epsilon(r: RecordedTensors, group: list[NormSite]) -> Finding | None:
    """B's norms have another epsilon."""
    ours = group[0].solved.eps

    def change(eps: float) -> ModelChange:
        edits = {s.node.value: _normalised(s, replace(s.solved, eps=eps)) for s in group}
        says = f"{float(f'{ours:.4g}') if ours > 1e-13 else 0:.3g}", f"{eps:.3g}"
        return ModelChange(
            "epsilon", *says, f"{{0}}'s norm with epsilon {eps:.3g} gives {{1}}'s numbers", group[0].node.value, edits
        )

    return solved(r, [eps for eps in USUAL if abs(eps - ours) > 1e-3 * ours + 1e-16], change)


def kind(r: RecordedTensors, group: list[NormSite]) -> Finding | None:
    """B's norms are of another kind, weigh otherwise or are not there."""
    for change in _kinds(group):
        found = r.confirmed(change)
        if found is not None:
            return found
    return None


def _kinds(group: list[NormSite]) -> Iterator[ModelChange]:
    first = group[0]
    for other in KINDS:
        if other != first.solved.kind:
            edits = {s.node.value: _normalised(s, replace(s.solved, kind=other)) for s in group}
            evidence = f"{other} of {{0}}'s input gives {{1}}'s numbers"
            yield ModelChange("norm kind", first.solved.kind, other, evidence, first.node.value, edits)
    for kind, ours, theirs, evidence, weights in (
        (
            "norm weight",
            "weight",
            "1 + weight",
            "{0}'s norm times 1 + weight gives {1}'s numbers",
            lambda s: (1 + s.weight, s.bias),
        ),
        (
            "norm weight",
            "1 + weight",
            "weight",
            "{0}'s norm times weight alone gives {1}'s numbers",
            lambda s: (s.weight - 1, s.bias),
        ),
        ("norm weight", "a weight", "no weight", "{0}'s norm without its weight gives {1}'s numbers", lambda s: (None, s.bias)),
    ):
        if all(s.weight is not None for s in group):
            yield ModelChange(kind, ours, theirs, evidence, first.node.value, {s.end.value: _ended(s, *weights(s)) for s in group})
    if all(s.bias is not None for s in group):
        edits = {s.end.value: _ended(s, s.weight, None) for s in group}
        evidence = "{0}'s norm without its bias gives {1}'s numbers"
        yield ModelChange("norm bias", "weight and bias", "no bias", evidence, first.node.value, edits)
    for keeps in (False, True):
        if keeps and first.weight is None:
            continue
        edits = {s.end.value: _left_out(s, keeps) for s in group}
        ours = f"{first.solved.kind} in {first.where}"
        yield ModelChange(
            "norm placement", ours, "no norm at this step", "{0} without it computes {1}'s numbers", first.node.value, edits
        )


def _ended(site: NormSite, weight: Tensor | None, bias: Tensor | None) -> Edit:
    def edit(_: Tensor, values: Values) -> Tensor:
        return _weighted(site.solved.normalised(values[site.solved.value]), weight, bias)

    return edit


def _left_out(site: NormSite, keeps: bool) -> Edit:
    def edit(_: Tensor, values: Values) -> Tensor:
        x = values[site.solved.value]
        return _weighted(x, site.weight, site.bias) if keeps else x

    return edit
