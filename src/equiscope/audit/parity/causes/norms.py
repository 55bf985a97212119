"""Norms: their kind, epsilon, weight, bias and placement, solved from the numbers before and after."""

from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, sorted_numbers
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import (
    SEVERAL,
    arguments,
    downstream,
    first_nodes,
    references,
    reproduces,
    steps_explained,
)
from equiscope.audit.parity.causes.sums import ADDITIONS
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import CASTS, MOVEMENT, Node, Side, rerun
from equiscope.program.program import Ref

ELEMENTWISE = {"add", "radd", "mul", "rmul", "Mul", "Add", *CASTS}  # a weight and a bias behind a norm
NORMALISING = {"layer_norm", "rms_norm", "mul", "rmul", "Mul", "div", "truediv", "Div"}  # the step after which it is normalised
NATIVE = {  # steps that are norms, and the names of their arguments
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("input", "normalized_shape", "weight", "eps"),
    "group_norm": ("input", "num_groups", "weight", "bias", "eps"),
    "batch_norm": ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
}
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
NEAR = 14  # steps after the divergence that may belong to the norm
KINDS = (
    "RMSNorm", "LayerNorm", "LayerNorm with an unbiased variance",
    "LayerNorm divided by the unbiased standard deviation plus epsilon", "LayerNorm divided by the standard deviation plus epsilon",
    "division by the length",
)  # fmt: skip
LENGTH = KINDS[5]
BATCH = "BatchNorm"
GROUPS = 32  # the most groups that are tried


@dataclass(frozen=True)
class SolvedNorm:
    """A norm that was found: x, the numbers before it, normalised as `kind` with `eps`, times weight plus bias; value: of x.

    axis    of the channels, one number of weight, bias, mean and variance each, which have a shape that goes with x
    groups  of a GroupNorm; mean, variance: the running ones of a BatchNorm
    """

    kind: str
    eps: float
    x: Tensor
    weight: Tensor | None = None
    bias: Tensor | None = None
    value: int = -1
    axis: int = -1
    groups: int = 0
    mean: Tensor | None = None
    variance: Tensor | None = None

    def normalised(self, x: Tensor) -> Tensor:
        """Other numbers normalised in the same way, without weight and bias."""
        axis = self.axis
        if self.mean is not None and self.variance is not None:
            return (x - self.mean) * (self.variance + self.eps).rsqrt()
        if self.groups:
            y = x.unflatten(1, (self.groups, -1))
            axes = tuple(range(2, y.ndim))
            return ((y - y.mean(axes, keepdim=True)) * (y.var(axes, correction=0, keepdim=True) + self.eps).rsqrt()).flatten(1, 2)
        if self.kind == KINDS[0]:
            return x * (x.square().mean(axis, keepdim=True) + self.eps).rsqrt()
        if self.kind == LENGTH:
            return x * (x.square().sum(axis, keepdim=True) + self.eps).rsqrt()
        centered = x - x.mean(axis, keepdim=True)
        if self.kind in KINDS[3:5]:
            return centered / (x.std(axis, correction=int(self.kind == KINDS[3]), keepdim=True) + self.eps)
        variance = x.var(axis, correction=int(self.kind == KINDS[2]), keepdim=True)
        return centered * (variance + self.eps).rsqrt()

    def weighted(self, z: Tensor) -> Tensor:
        """Normalised numbers times the weight plus the bias, as far as there are any."""
        z = z if self.weight is None else z * self.weight
        return z if self.bias is None else z + self.bias

    def with_axes_of(self, other: "SolvedNorm") -> "SolvedNorm":
        """This norm for the axes of another one."""
        vectors = (
            None if t is None else _vector(t, other.x, other.axis) for t in (self.weight, self.bias, self.mean, self.variance)
        )
        weight, bias, mean, variance = vectors
        return replace(self, axis=other.axis, weight=weight, bias=bias, mean=mean, variance=variance)


def _vector(t: Tensor, like: Tensor, axis: int) -> Tensor:
    """A number for each channel, in a shape that goes with a tensor of which this is the axis of the channels."""
    return t.reshape(-1, *[1] * (like.ndim - 1 - axis % like.ndim))


def norm(d: Divergence) -> Finding | None:
    """Both sides normalise the same numbers, with another epsilon or in another way."""
    here = _solve_at(d.a, d.a_region, d.explained_inputs())
    theirs = _solve(d.b, d.b_region, d.mirrored().explained_inputs())
    if here is not None and theirs is None:
        theirs = _recorded(d, here[0]) if d.b.program is None else _of_another_kind(d, *here)
    if here is None or theirs is None:
        return None
    ours, at = here[0], here[1].value if d.b.program is None else None
    theirs = theirs.with_axes_of(ours)
    same_eps = abs(ours.eps - theirs.eps) <= 1e-3 * max(abs(ours.eps), abs(theirs.eps)) + 1e-13
    if ours.kind == theirs.kind and same_eps:
        return None
    if not d.whole and ours.kind == theirs.kind and not all(_is_written(one.eps) for one in (ours, theirs)):
        return None  # a multiple of what is normalised looks like another epsilon
    several = 1 if ours.kind == theirs.kind else SEVERAL  # a norm may come right behind a norm, whose epsilon differs too
    if not _gives(d, here[1], _weighted(theirs.normalised(ours.x), [ours, theirs]), several):
        return None
    if ours.kind != theirs.kind:
        return Finding("norm kind", ours.kind, theirs.kind, f"{theirs.kind} of {{0}}'s input gives {{1}}'s numbers", at)
    e, other = f"{_round(ours.eps):.3g}", f"{_round(theirs.eps):.3g}"
    return Finding("epsilon", e, other, f"{{0}}'s norm with epsilon {other} gives {{1}}'s numbers", at)


def _of_another_kind(d: Divergence, solved: SolvedNorm, node: Node) -> SolvedNorm | None:
    """The norm of another kind with which A computes B's numbers, where A's has an axis of channels."""
    if solved.axis == -1 or d.a.program is None:
        return None
    size = solved.x.shape[solved.axis]
    plain = replace(solved, groups=0, mean=None, variance=None)
    groups = [n for n in range(1, min(size, GROUPS) + 1) if size % n == 0 and n != solved.groups]
    others = [replace(plain, kind=KINDS[1]), replace(plain, kind=KINDS[0])]
    others += [replace(plain, kind=_of_groups(n), groups=n) for n in groups]
    return next((one for one in others if reproduces(d, {node.value: one.weighted(one.normalised(one.x))})), None)


def _of_groups(count: int) -> str:
    return f"GroupNorm of {count} group{'s' * (count > 1)}"


def _is_written(eps: float) -> bool:
    """Whether people write this number: it has at most two digits that are not 0."""
    return abs(float(f"{eps:.1e}") - eps) <= 1e-3 * eps


def _gives(d: Divergence, node: Node, results: list[Tensor], several: int = SEVERAL) -> bool:
    """Whether A computes B's numbers with one of these in the place of its norm, or of what weights it."""
    if d.a.program is None:
        return any(d.hit(t) is not None for t in results)
    shape, count = d.a.high[node.value].shape, len(d.reproducing)
    given = [{end.value: t} for t in results if t.shape == shape for end in norm_ends(d.a, node)]
    found = [changes for changes in given if reproduces(d, changes, several)]
    if not found:
        return False
    best = found[0] if d.whole else max(found, key=lambda changes: steps_explained(d, changes))
    d.reproducing[count:] = [best]  # with or without its weight, the norm may be a value of B
    return True


def _recorded(d: Divergence, ours: SolvedNorm) -> SolvedNorm | None:
    """The norm of recorded activations, which may hold its result alone: another kind or a usual epsilon that gives it.

    None where the same norm gives it, for instance without its bias.
    """
    if any(d.hit(y) is not None for y in _weighted(ours.normalised(ours.x), [ours])):
        return None
    for kind in KINDS:
        for eps in (ours.eps, *EPSILONS):
            other = replace(ours, kind=kind, eps=eps)
            changed = (kind, eps) != (ours.kind, ours.eps)
            if changed and any(d.hit(y) is not None for y in _weighted(other.normalised(ours.x), [ours])):
                return other
    return None


def _weighted(z: Tensor, norms: list[SolvedNorm]) -> list[Tensor]:
    """Normalised numbers, plain and with the weights of these norms."""
    found = [z]
    for one in norms:
        if one.weight is not None:
            found += [z * one.weight, z * one.weight + one.bias] if one.bias is not None else [z * one.weight]
    return found


def norm_parameters(d: Divergence) -> Finding | None:
    """B adds 1 to the weight of the norm, leaves the weight out, or has no bias."""
    here = _solve_at(d.a, d.a_region, d.explained_inputs()) or _solve_at(d.a, _back(d), d.explained_inputs())
    if here is None:
        return None
    found = _of_parameters(d, *here)
    return replace(found, at_a=here[1].value) if found is not None and d.b.program is None else found


def _of_parameters(d: Divergence, solved: SolvedNorm, node: Node) -> Finding | None:
    weights = [v for node in first_nodes(d.a, d.a_region, NEAR) for v in references(node) if v not in d.a.moving]
    vectors = [d.a.numbers(v) for v in dict.fromkeys(weights) if d.a.is_number(v) and d.a.numbers(v).squeeze().ndim == 1]
    z = solved.normalised(solved.x)
    vectors = [
        v for v in [*vectors, *(v for v in (solved.weight, solved.bias) if v is not None)] if v.numel() == z.shape[solved.axis]
    ]
    vectors = [_vector(v, z, solved.axis) for v in vectors]
    for weight in vectors:
        if _gives(d, node, [z * (1 + weight), *(z * (1 + weight) + b for b in vectors if b is not weight)]):
            return Finding("norm weight", "weight", "1 + weight", "{0}'s norm times 1 + weight gives {1}'s numbers")
        for bias in vectors:
            if bias is not weight and bool(bias.any()) and _is(d, z * weight + bias) and _gives(d, node, [z * weight]):
                return Finding("norm bias", "weight and bias", "no bias", "{0}'s norm without its bias gives {1}'s numbers")
    if solved.weight is not None and solved.bias is not None and _gives(d, node, [z + solved.bias]):
        return Finding("norm weight", "a weight", "no weight", "{0}'s norm without its weight gives {1}'s numbers")
    if vectors and any(_is(d, z * weight) for weight in vectors) and _gives(d, node, [z]):
        return Finding("norm weight", "a weight", "no weight", "{0}'s norm without its weight gives {1}'s numbers")
    return None


def _back(d: Divergence) -> list[int]:
    """The explained values before the first step: a norm whose numbers agree before the weight."""
    return [v for v in d.explained_inputs() if v in d.a.maker]


def _is(d: Divergence, t: Tensor) -> bool:
    """Whether A computes these numbers."""
    return any(
        d.a.high[v].numel() == t.numel() and is_rounding(difference(t.flatten(), d.a.numbers(v).flatten()))
        for v in d.a_region[:NEAR]
        if d.a.is_number(v)
    )


def placement(d: Divergence) -> Finding | None:
    """B does not normalise here: A without this norm computes B's numbers."""
    found = _solve_at(d.a, d.a_region, d.explained_inputs())
    if found is None:
        return None
    solved, node = found
    for candidate in norm_ends(d.a, node):
        if reproduces(d, {candidate.value: solved.x}) or _is_output(d, solved.x):
            where = candidate.module or "the model"
            return Finding(
                "norm placement", f"{solved.kind} in {where}", "no norm at this step", "{0} without it computes {1}'s numbers"
            )
    return _before_sum(d, solved, node) or _both_missing(d, solved, node) or _moved(d, solved, node)


def _before_sum(d: Divergence, solved: SolvedNorm, node: Node) -> Finding | None:
    """A normalises a sum, as of a residual and a result; B normalises one of the two terms, and then adds."""
    total = d.a.source(solved.value)
    terms = d.a.parents(total)
    if total not in d.a.maker or d.a.maker[total].op not in ADDITIONS or len(terms) != 2:
        return None
    for end, (one, other) in product(norm_ends(d.a, node), (terms, terms[::-1])):
        x, y = d.a.numbers(one), d.a.numbers(other)
        if x.shape == y.shape == d.a.high[total].shape:
            kept, normalised = (rerun(d.a, {total: t}, [v])[v] for t, v in ((x, solved.value), (y, end.value)))
            if reproduces(d, {end.value: kept + normalised}):
                where = end.module or "the model"
                evidence = "{0} with the norm of one term computes {1}'s numbers"
                return Finding("norm placement", f"{solved.kind} in {where} of a sum", "of one term, before the sum", evidence)
    return None


def _both_missing(d: Divergence, solved: SolvedNorm, node: Node) -> Finding | None:
    """B lacks this norm and the next one, as those of queries and keys, which only their product shows."""
    start = d.a_region.index(node.value)
    for value in d.a_region[start + 1 : start + NEAR]:
        found = _solve_at(d.a, [value], d.a.ancestors(value, NEAR))
        if found is None or torch.equal(found[0].x, solved.x):
            continue
        second, after = found
        for one, other in product(norm_ends(d.a, node), norm_ends(d.a, after)):
            if reproduces(d, {one.value: solved.x, other.value: second.x}):
                where = " and ".join(step.module or "the model" for step in (node, after))
                evidence = "{0} without both computes {1}'s numbers"
                return Finding("norm placement", f"{solved.kind} in {where}", "no norm at these steps", evidence)
        return None
    return None


def _moved(d: Divergence, solved: SolvedNorm, node: Node) -> Finding | None:
    """B normalises later, behind a rotation for example: A without this norm computes the numbers before B's norm."""
    other = _solve_at(d.b, d.b_region, d.mirrored().explained_inputs()) or _of_file(d.b, d.b_region)
    if other is None or other[0].kind != solved.kind:
        return None
    before = sorted_numbers(other[0].x)
    if before is None or _same(d, before, solved.x, other[0].value):
        return None
    for skipped in norm_ends(d.a, node):
        later = [v for v in downstream(d.a, {skipped.value}) if d.a.high[v].numel() == before.numel()][:NEAR]
        values = rerun(d.a, {skipped.value: solved.x.to(d.a.high[skipped.value].dtype)}, later)
        if any(_same(d, before, t, other[0].value) for t in values.values()):
            says = [f"{solved.kind} in {one.module or 'the model'}" for one in (node, other[1])]
            return Finding("norm placement", says[0], f"{says[1]}, later", "{0} without it computes the input of {1}'s norm")
    return None


def _of_file(side: Side, region: list[int]) -> tuple[SolvedNorm, Node] | None:
    """A LayerNorm of an ONNX graph, of which one precision does not show the epsilon."""
    node = next((n for n in first_nodes(side, region, NEAR) if n.op == "LayerNormalization"), None)
    return None if node is None else (SolvedNorm(KINDS[1], 0.0, side.numbers(node.inputs[0]), value=node.inputs[0]), node)


def _same(d: Divergence, ordered: Tensor, t: Tensor, value: int) -> bool:
    """Whether a tensor has the sorted numbers of this value of B."""
    numbers = sorted_numbers(t)
    return numbers is not None and numbers.shape == ordered.shape and d.is_same(difference(ordered, numbers), value)


def _is_output(d: Divergence, t: Tensor) -> bool:
    """Whether B ends with these numbers."""
    numbers = sorted_numbers(t)
    ends = [sorted_numbers(d.b.numbers(v)) for v in d.b.outputs.values()] if not d.b_region else []
    return any(
        numbers is not None and end is not None and end.shape == numbers.shape and is_rounding(difference(end, numbers))
        for end in ends
    )


def norm_ends(side: Side, node: Node) -> list[Node]:
    """The step of a norm, and what multiplies it by a weight or adds a bias."""
    found = [node]
    while len(users := side.users.get(found[-1].value, [])) == 1 and users[0].op not in MOVEMENT:
        step = users[0]
        if side.parents(step.value) != [found[-1].value] or side.high[step.value].shape != side.high[node.value].shape:
            break
        if step.op not in ELEMENTWISE:
            break
        found.append(step)
    return found


def _solve(side: Side, region: list[int], inputs: list[int]) -> SolvedNorm | None:
    found = _solve_at(side, region, inputs)
    return None if found is None else found[0]


def _solve_at(side: Side, region: list[int], inputs: list[int]) -> tuple[SolvedNorm, Node] | None:
    """The norm among the first steps of a region, and its step."""
    for node in first_nodes(side, region, NEAR):
        native = _native(side, node)
        if native is not None:
            return native, node
        y = side.numbers(node.value)
        results = [y, *(y / w for w in _factors(side, node))]  # the weight may come before the division
        for value in [*inputs, *side.ancestors(node.value, 8)]:
            x = side.numbers(value)
            if x.shape == y.shape and x.ndim and x.shape[-1] > 2 and side.is_number(value):
                solved = next(filter(None, (_from_numbers(x, result) for result in results)), None)
                if solved is not None:
                    return replace(solved, value=value), node
    return None


def norms_of(side: Side) -> list[tuple[Node, SolvedNorm]]:
    """All norms of a side, in order, with the step that normalises."""
    found = []
    for node in side.nodes:
        if node.value in side.moving and node.op in NORMALISING and side.is_number(node.value):
            solved = _native(side, node) or _unweighted(side, node)
            if solved is not None:
                found.append((node, solved))
    return found


def _unweighted(side: Side, node: Node) -> SolvedNorm | None:
    y = side.numbers(node.value)
    before = [v for v in side.ancestors(node.value, 8) if side.high[v].shape == y.shape and side.is_number(v)]
    for value in before if y.ndim and y.shape[-1] > 2 else []:
        x = side.numbers(value)
        solved = _from_numbers(x, y)
        if solved is None:
            continue
        if solved.kind == KINDS[0] and bool(x.mean(-1).abs().max() <= 1e-9 * x.abs().max()):  # it was centered before
            for earlier in side.parents(value):
                whole = side.numbers(earlier)
                if whole.shape == x.shape and is_rounding(difference(x, whole - whole.mean(-1, keepdim=True))):
                    return SolvedNorm(KINDS[1], solved.eps, whole, value=earlier)
        return replace(solved, value=value)
    return None


def _factors(side: Side, node: Node) -> list[Tensor]:
    """Of a division, the constant vectors that multiply what is divided."""
    if node.op not in ("div", "Div") or not node.inputs or (before := side.maker.get(node.inputs[0])) is None:
        return []
    if before.op not in ("mul", "Mul", "rmul"):
        return []
    vectors = [side.numbers(v) for v in before.inputs if v not in side.moving and side.is_number(v)]
    return [w for w in vectors if w.numel() == side.high[node.value].shape[-1] and bool(w.all())]


def _native(side: Side, node: Node) -> SolvedNorm | None:
    names = NATIVE.get(node.op)
    given = arguments(node, *names) if names else {}
    if not isinstance(source := given.get("input"), Ref):
        return None
    x = side.numbers(source.id)
    axis = -1 if node.op in ("layer_norm", "rms_norm") else 1
    vectors = {n: _vector(side.numbers(t.id), x, axis) for n, t in given.items() if isinstance(t, Ref) and n != "input"}
    eps = float(given.get("eps", torch.finfo(torch.float64).eps if node.op == "rms_norm" else 1e-5))
    solved = SolvedNorm(KINDS[0], eps, x, vectors.get("weight"), vectors.get("bias"), source.id, axis)
    if node.op == "group_norm":
        return replace(solved, kind=_of_groups(given["num_groups"]), groups=given["num_groups"])
    if node.op == "batch_norm":
        mean, variance = vectors.get("running_mean"), vectors.get("running_var")
        known = mean is not None and variance is not None and not given.get("training", False)
        return replace(solved, kind=BATCH, mean=mean, variance=variance) if known else None
    return replace(solved, kind=KINDS[1]) if node.op == "layer_norm" else solved


def _from_numbers(x: Tensor, y: Tensor) -> SolvedNorm | None:
    """The kind and epsilon of an unweighted norm from x to y: each row is one multiple of the (centered) row."""
    centered = x - x.mean(-1, keepdim=True)
    for start, kinds in ((x, (KINDS[0], LENGTH)), (centered, KINDS[1:5])):
        rate = (y * start).sum(-1) / start.square().sum(-1)
        if not bool((rate > 0).all()) or difference(y, start * rate.unsqueeze(-1)) > 1e-12:
            continue
        for kind in kinds:
            squares = {KINDS[0]: x.square().mean(-1), LENGTH: x.square().sum(-1)}
            size = squares[kind] if kind in squares else x.var(-1, correction=int(kind in KINDS[2:4]))
            values = 1 / rate - size.sqrt() if kind in KINDS[3:5] else rate.pow(-2) - size
            eps, scale = values.median().item(), size.max().item() + 1e-300
            if bool(((values - eps).abs() <= 1e-11 * scale).all()) and -1e-12 * scale <= eps < 0.2 * scale:
                return SolvedNorm(kind, max(eps, 0.0), x)
    return None


def _round(eps: float) -> float:
    return float(f"{eps:.4g}") if eps > 1e-13 else 0.0
