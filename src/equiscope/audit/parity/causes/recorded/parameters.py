"""A bias that B does not add, a weight that it transposes, and A's own parameters in the place of others."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.parameters import PRODUCTS, embedding_table, operands
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.replayed import arguments, kind_of, leaf_name, parameters_of, references
from equiscope.audit.parity.sides import Node, Side
from equiscope.program.program import Edit, Ref

ALIKE = 24  # the most other parameters that are tried in the place of one


@dataclass(frozen=True, eq=False)
class WeightSite:
    """A step that multiplies by a weight. bias: its value, or -1; axis: of the result over which the bias goes."""

    node: Node
    weights: list[int]
    bias: int = -1
    axis: int = -1


def sites(r: RecordedTensors) -> list[WeightSite]:
    """Products with parameters, and sums with a bias, in order."""
    return [site for node in r.d.a.nodes if node.value in r.d.a.moving and (site := _site(r.d.a, node)) is not None]


def _site(side: Side, node: Node) -> WeightSite | None:
    if node.op in PRODUCTS:
        parts = operands(side, node)
        bias = -1 if parts is None or parts[2] is None else parts[2]
        return WeightSite(node, [v for v in parameters_of(side, node) if v != bias], bias)
    if node.op.startswith("conv"):
        given = arguments(node, "input", "weight", "bias").get("bias")
        bias = given.id if isinstance(given, Ref) else -1
        return WeightSite(node, [v for v in parameters_of(side, node) if v != bias], bias, 1)
    if node.op in ("add", "radd"):
        others = [value for value in references(node) if value not in side.moving]
        if len(others) == 1 and side.is_number(others[0]) and side.numbers(others[0]).squeeze().ndim == 1:
            known = kind_of(side, others[0]) == "parameter" and side.high[others[0]].shape[-1:] == side.high[node.value].shape[-1:]
            return WeightSite(node, [], others[0]) if known else None
    return None


def bias(r: RecordedTensors, group: list[WeightSite]) -> Finding | None:
    """B does not add a bias, or adds a part of it."""
    some = [s for s in group if s.bias >= 0 and bool(r.d.a.numbers(s.bias).any())]
    if not some:
        return None
    name = leaf_name(r.d.a, some[0].bias)
    for part in _parts(r.d.a.numbers(some[0].bias).numel()):
        edits = {s.node.value: _without(r.d.a.numbers(s.bias).flatten(), s.axis, part) for s in some}
        what = name if part == slice(None) else f"{name}[{part.start}:{part.stop}]"
        evidence = "{0} without it computes {1}'s numbers"
        found = r.confirmed(ModelChange("bias", f"{what} is added", "no bias is added", evidence, some[0].node.value, edits))
        if found is not None:
            return found
    return None


def _parts(size: int) -> Iterator[slice]:
    """The whole of a bias, and its thirds or halves where one projection holds queries, keys and values."""
    yield slice(None)
    for parts in (3, 2):
        if size % parts == 0:
            third = size // parts
            yield from (slice(i * third, (i + 1) * third) for i in range(parts))


def _without(added: Tensor, axis: int, part: slice) -> Edit:
    less = torch.zeros_like(added)
    less[part] = added[part]

    def edit(t: Tensor, _: Values) -> Tensor:
        return t - less.reshape([-1 if i == axis % t.ndim else 1 for i in range(t.ndim)])

    return edit


def transposed(r: RecordedTensors, group: list[WeightSite]) -> Finding | None:
    """B uses a weight with two axes of one size exchanged."""
    some = [(s, v) for s in group for v in s.weights]
    if not some:
        return None
    shape = r.d.a.high[some[0][1]].shape
    for i, j in combinations(range(len(shape)), 2):
        alike = {v: _exchanged(i, j) for _, v in some if r.d.a.high[v].shape == shape}
        if shape[i] == shape[j] > 1:
            axes = "" if len(shape) == 2 else f" in the axes {i} and {j}"
            says = f"{leaf_name(r.d.a, some[0][1])} is used as it is", f"its transpose{axes} is used"
            evidence = "{0} with the transpose computes {1}'s numbers"
            found = r.confirmed(ModelChange("transposed", *says, evidence, some[0][0].node.value, alike))
            if found is not None:
                return found
    return None


def _exchanged(i: int, j: int) -> Edit:
    def edit(t: Tensor, _: Values) -> Tensor:
        return t.transpose(i, j).contiguous()

    return edit


def other(r: RecordedTensors, group: list[WeightSite]) -> Finding | None:
    """B uses one of A's parameters where A uses another one: a tied head, or the weights of another layer."""
    if len(group) > 1 or not group[0].weights:
        return None
    side, (value, *_) = r.d.a, group[0].weights
    weight, table = side.high[value], embedding_table(side)
    for candidate in _alike(side, value):
        t = side.high[candidate]
        if torch.equal(t, weight):
            continue
        names = leaf_name(side, value), leaf_name(side, candidate)
        tied = candidate == table
        kind, says = ("tied head", ("own weights, " + names[0], "the weights of the embedding")) if tied else ("weights", names)
        evidence = "{0} with these weights computes {1}'s numbers"
        found = r.confirmed(ModelChange(kind, *says, evidence, group[0].node.value, {value: _is(t)}))
        if found is not None:
            return found
    return None


def _alike(side: Side, value: int) -> list[int]:
    """Parameters of this shape, those of the same name in other layers first."""
    assert side.program is not None
    name = re.sub(r"\d+", "#", leaf_name(side, value))
    found = [
        leaf for leaf in side.program.leaves
        if leaf.kind == "parameter" and leaf.id != value and leaf.value.shape == side.high[value].shape
    ]  # fmt: skip
    return [leaf.id for leaf in sorted(found, key=lambda leaf: re.sub(r"\d+", "#", leaf.name) != name)][:ALIKE]


def _is(t: Tensor) -> Edit:
    def edit(_: Tensor, __: Values) -> Tensor:
        return t

    return edit
