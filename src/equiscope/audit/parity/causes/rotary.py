"""Rotary embeddings: layout, base, scaling, width, direction and offset, read from queries before and after the rotation."""

import math
from collections.abc import Set
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from equiscope.audit.parity.causes import replayed
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.scores import AttentionScores, arranged, close, first_scores, matched_heads
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, Node, Side

OFFSETS = 4096  # largest offset of positions that is recognised
PATH = 80
NEAR = 32  # values after the divergence that may be rotated


@dataclass(frozen=True, eq=False)
class Rotation:
    """Queries or keys [G, N, K] and how they are rotated.

    x          before the rotation; layout: "half" (i with i + R/2), "interleaved" (2i with 2i + 1) or "none"
    width      R, the numbers that are rotated; size: a factor on the whole
    frequency  [R/2] radians a position; start: the position of the first token
    """

    x: Tensor
    layout: str
    size: float
    width: int = 0
    frequency: Tensor | None = None
    start: int = 0

    def of(self, x: Tensor) -> Tensor:
        """Other queries rotated in the same way."""
        if self.frequency is None:
            return x * self.size
        angles = (torch.arange(x.shape[-2]) + self.start).unsqueeze(-1) * self.frequency
        first, second = pairs(x[..., : self.width], self.layout)
        cosine, sine = angles.cos(), angles.sin()
        a, b = first * cosine - second * sine, first * sine + second * cosine
        rotated = torch.cat([a, b], -1) if self.layout == "half" else torch.stack([a, b], -1).flatten(-2)
        return torch.cat([rotated, x[..., self.width :]], -1) * self.size


def pairs(x: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """The two numbers of each pair."""
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., ::2], x[..., 1::2])


def rotation(d: Divergence) -> Finding | None:
    """A's queries and keys rotated as B rotates its own give B's scores."""
    a, b = first_scores(d.a, d.a_region), first_scores(d.b, d.b_region)
    if a is None or b is None or a.query is None or b.query is None or a.key is None or b.key is None:
        return None
    if a.logits.shape != b.logits.shape:
        return None
    ours = [_solve(d.a, d.a_explained, t, v, a) for t, v in ((a.query, a.query_value), (a.key, a.key_value))]
    theirs = [_solve(d.b, d.b_explained, t, v, b) for t, v in ((b.query, b.query_value), (b.key, b.key_value))]
    if None in ours or None in theirs:
        return None
    (q, k), (other_q, other_k) = ours, theirs
    assert q is not None
    assert k is not None
    assert other_q is not None
    assert other_k is not None
    scale = _rate(q.of(q.x) @ k.of(k.x).mT, a)
    if scale is None or all(one.frequency is None for one in (q, k, other_q, other_k)):
        return None

    def reproduces(one: Rotation, other: Rotation) -> bool:
        product = one.of(q.x) @ other.of(k.x).mT
        rate = _rate(product, b)
        return rate is not None

    candidates = [(other_q, other_k)]
    permuted = _laid_out(other_q, q), _laid_out(other_k, k)
    if permuted != candidates[0]:
        candidates.insert(0, permuted)
    used = next((pair for pair in candidates if reproduces(*pair)), None)
    if used is None or (_same(used[0], q) and _same(used[1], k)):
        return None
    order = matched_heads(used[0].of(q.x) @ used[1].of(k.x).mT, b.scores, b.visible)
    if order is None or (d.a.program is not None and not replayed.reproduces(d, {a.weights_value: a.placed(b.weights[order])})):
        return None
    return named((q, k), used)


def of_tables(d: Divergence) -> Finding | None:
    """A's sines negated, or B's frequencies in A's tables, give B's numbers: also where there are no scores."""
    sines, theirs = _sines(d.a), _sines(d.b)
    if not sines or not theirs:
        return None
    if replayed.reproduces(d, {node.value: -d.a.high[node.value] for node in sines}, far=True):
        evidence = "{0} with its sines negated computes {1}'s numbers"
        return Finding("rope direction", "sines as they are", "sines negated", evidence, *_first_rotated(d))
    others = [d.b.numbers(v).unique() for v in _frequencies_of(d.b, theirs)]
    for value in _frequencies_of(d.a, sines):
        mine = d.a.numbers(value)
        own, place = mine.unique(return_inverse=True)
        for given in others:
            if given.shape != own.shape or _near(own, given):
                continue
            if replayed.reproduces(d, {value: given[place]}, far=True):
                a, b = (Rotation(mine, "half", 1.0, 2 * len(t), t.flip(0)) for t in (own, given))
                at_a, at_b = _first_rotated(d)
                evidence = "{0} with {1}'s frequencies computes {1}'s numbers"
                return replace(named((a, a), (b, b)), evidence=evidence, at_a=at_a, at_b=at_b)
    return None


def _first_rotated(d: Divergence) -> tuple[int | None, int | None]:
    """The first rotated value of A and of B; a rotation that only the next product shows may not be the first step."""
    sites = _rotated(d.a, d.a_region, d.a_explained), _rotated(d.b, d.b_region, d.b_explained)
    first, second = (found[0].value if found else None for found in sites)
    return first, second


def of_values(d: Divergence) -> Finding | None:
    """A's values, rotated in other pairs or from another position, give B's numbers: also where there are no scores."""
    sites = _rotated(d.a, d.a_region, d.a_explained)
    if not sites:
        return None
    at_a, at_b = _first_rotated(d)
    evidence = "{0} with these numbers rotated so computes {1}'s numbers"
    for layout, depth in product(("half", "interleaved"), range(max(len(site.sources) for site in sites))):
        changes = {s.value: s.otherwise(layout, s.sources[min(depth, len(s.sources) - 1)]) for s in sites}
        if replayed.reproduces(d, changes, far=True):
            width = sites[0].rotation.width
            pairs_of = {"half": f"pairs (i, i + {width // 2})", "interleaved": "pairs (2i, 2i + 1)"}
            other = pairs_of.pop(layout)
            return Finding("rope layout", next(iter(pairs_of.values())), other, evidence, at_a, at_b)
    for site, shift in product(sites, (1, -1)):
        moved = replace(site.rotation, start=site.rotation.start + shift)
        if replayed.reproduces(d, {site.value: site.rotated(moved, site.rotation.x)}, far=True):
            says = [f"the first token is rotated by position {r.start}" for r in (site.rotation, moved)]
            return Finding("rope offset", says[0], says[1], evidence, site.value, at_b)
    return None


@dataclass(frozen=True, eq=False)
class RotatedValue:
    """A value of a program that is rotated along one axis.

    sources  what it is rotated from, also before it was moved, [G, N, K]
    """

    value: int
    axis: int
    shape: torch.Size
    rotation: Rotation
    sources: list[Tensor]

    def otherwise(self, layout: str, x: Tensor) -> Tensor:
        """The source rotated in the other pairs."""
        return self.rotated(replace(self.rotation, layout=layout), x)

    def rotated(self, rotation: Rotation, x: Tensor) -> Tensor:
        """In the axes of the program."""
        moved = torch.empty(self.shape, dtype=x.dtype).movedim(self.axis, -2)
        return rotation.of(x).reshape(moved.shape).movedim(-2, self.axis)


def _rotated(side: Side, region: list[int], explained: Set[int]) -> list[RotatedValue]:
    """The values among the first ones that are rotated from explained values."""
    found = list[RotatedValue]()
    for value in (v for v in region[:NEAR] if side.is_number(v) and not side.high[v].is_complex()):
        t, before = side.numbers(value), side.ancestors(value, PATH)
        if t.ndim < 3 or t.shape[-1] < 4 or t.shape[-1] % 2 or any(one.value in before for one in found):
            continue
        alike = [x for x in before[:NEAR] if x in explained and side.high[x].shape == t.shape and side.is_number(x)]
        for source, axis in product(alike, range(t.ndim - 2, 0, -1)):
            x, y = (one.movedim(axis, -2).flatten(0, -3) for one in (side.numbers(source), t))
            if x.shape[1] > 2 and (rotation := _between(x, y)) is not None and rotation.frequency is not None:
                moved = [s for s in [source, *side.ancestors(source, NEAR)] if side.high[s].shape == t.shape]
                same = [s for s in moved if side.source(s) == side.source(source)]
                sources = [side.numbers(s).movedim(axis, -2).flatten(0, -3) for s in same]
                own = [s for s in sources if torch.equal(s.sort(-1).values, x.sort(-1).values)]  # columns moved, not heads
                found.append(RotatedValue(value, axis, t.shape, rotation, own))
                break
    return found


def _sines(side: Side) -> list[Node]:
    """The steps that compute sines whose results are only multiplied by values that depend on the input, as in a rotation.

    Sinusoidal embeddings are added instead.
    """
    found = []
    for node in side.nodes:
        users = side.users.get(node.value, []) if node.op == "sin" and node.value not in side.moving else []
        while users and all(n.op in MOVEMENT and n.value not in side.moving for n in users):
            users = [n for one in users for n in side.users.get(one.value, [])]
        if users and all(n.op in ("mul", "rmul") and n.value in side.moving for n in users):
            found.append(node)
    return found


def _frequencies_of(side: Side, sines: list[Node]) -> list[int]:
    """Positive numbers along one axis from which the angles of these sines are computed, nearest first."""
    found, todo = dict[int, None](), [x for node in sines for x in node.inputs]
    while todo:
        value = todo.pop(0)
        if value not in found and side.is_number(value) and value not in side.moving:
            found[value] = None
            todo += side.maker[value].inputs if value in side.maker else ()
    lines = (v for v in found if side.high[v].numel() == max(side.high[v].shape, default=0) > 1)
    return [v for v in lines if bool((side.numbers(v) > 0).all())]


def _laid_out(other: Rotation, own: Rotation) -> Rotation:
    """B's rotation in A's layout: the weights may be permuted. What agrees behind its rotation has none."""
    rotated = own.frequency is not None and other.frequency is not None
    return replace(other, layout=own.layout) if rotated and own.layout != other.layout else other


def _same(a: Rotation, b: Rotation) -> bool:
    if a.frequency is None or b.frequency is None:
        return a.frequency is b.frequency
    same = a.width == b.width and _near(a.frequency, b.frequency)
    return a.layout == b.layout and a.start == b.start and same


def _near(a: Tensor, b: Tensor) -> bool:
    """Whether frequencies are equal, where one side may store them in float32."""
    return bool(((a - b).abs() <= 1e-6 * b.abs()).all())


def _rate(product: Tensor, s: AttentionScores) -> float | None:
    """The factor from a product to scores."""
    x, y = product[s.visible], s.scores[s.visible]
    rate = ((x * y).sum() / x.square().sum()).item()
    return rate if close(product * rate, s.scores, s.visible) else None


def named(ours: tuple[Rotation, Rotation], theirs: tuple[Rotation, Rotation]) -> Finding:
    differ = [not _same(a, b) for a, b in zip(ours, theirs, strict=True)]
    a, b = ours[not differ[0]], theirs[not differ[0]]
    evidence = "{0}'s queries and keys, rotated as in {1}, give {1}'s scores"
    if a.frequency is None or b.frequency is None:
        what = "" if all(differ) else "queries " if differ[0] else "keys "
        says = [f"{what}not rotated" if r.frequency is None else f"{what}rotated by position, base {_base(r)}" for r in (a, b)]
        return Finding("rope", says[0], says[1], evidence)
    if a.width != b.width:
        return Finding("rope width", f"{a.width} of {a.x.shape[-1]} numbers", f"{b.width} of {b.x.shape[-1]}", evidence)
    if a.layout != b.layout:
        words = {"half": f"pairs (i, i + {a.width // 2})", "interleaved": "pairs (2i, 2i + 1)"}
        return Finding("rope layout", words[a.layout], words[b.layout], evidence)
    if _near(a.frequency, -b.frequency):
        says = ["forwards" if bool(r.frequency is not None and r.frequency[0] > 0) else "backwards" for r in (a, b)]
        return Finding("rope direction", says[0], says[1], evidence)
    if _near(a.frequency, b.frequency):
        says = [f"queries start at {q.start}, keys at {k.start}" for q, k in (ours, theirs)]
        return Finding("rope offset", says[0], says[1], evidence)
    (base, factor), (other_base, other_factor) = fitted(a), fitted(b)
    if base and other_base and abs(factor - other_factor) < 1e-6 * factor:
        return Finding("rope base", f"{base:.6g}", f"{other_base:.6g}", evidence)
    if not base and not other_base:
        (base, factor), (other_base, other_factor) = _slow(a), _slow(b)
        if base and abs(factor - other_factor) < 1e-4 * factor and abs(base - other_base) > 1e-4 * base:
            return Finding("rope base", f"{base:.6g}, slow frequencies scaled", f"{other_base:.6g}, scaled by the same", evidence)
    says = [f"base {_base(r)}" if len(a.frequency) > 2 else _rates(r) for r in (a, b)]
    return Finding("rope scaling", says[0], says[1], evidence)


def _slow(r: Rotation) -> tuple[float, float]:
    """Base and factor of the slow half, where scaling by parts divides the slow frequencies by a factor and not the fastest.

    (0, 0) where they are not of that form.
    """
    assert r.frequency is not None
    count = len(r.frequency) // 2
    if count < 3 or abs(float(r.frequency[0].abs()) - 1) > 1e-6:
        return 0.0, 0.0
    base, factor = fitted(replace(r, frequency=r.frequency[-count:]))
    first = base ** (-(len(r.frequency) - count) * 2 / r.width) if base else 0.0
    return base, factor * first


def _rates(r: Rotation) -> str:
    """The frequencies themselves: two of them are of any base."""
    assert r.frequency is not None
    return f"{' and '.join(f'{abs(x):.4g}' for x in r.frequency.tolist())} radians a position"


def _base(r: Rotation) -> str:
    base, factor = fitted(r)
    if not base:
        return "not one, frequencies are scaled apart"
    return f"{base:.6g}" if abs(factor - 1) < 1e-6 else f"{base:.6g}, positions divided by {factor:.6g}"


def fitted(r: Rotation) -> tuple[float, float]:
    """Base and linear factor with frequencies base^(-2j/R) / factor; a base of 0 where they are not of that form."""
    assert r.frequency is not None
    logs = r.frequency.abs().log()
    if len(logs) < 2:
        return 0.0, 1.0
    slope = (logs[-1] - logs[0]).item() / (len(logs) - 1)
    if bool((logs - logs[0] - slope * torch.arange(len(logs))).abs().max() > 1e-5):
        return 0.0, 1.0
    return math.exp(-slope * r.width / 2), math.exp(-logs[0].item())


def _solve(side: Side, explained: Set[int], y: Tensor, value: int, s: AttentionScores) -> Rotation | None:
    """How an operand of the scores was rotated from the nearest explained value of its size."""
    for source in [value, *side.ancestors(value, PATH)]:
        if source in explained and (found := rotation_from(side, source, y, s)) is not None:
            return found
    return None


def rotation_from(side: Side, source: int, y: Tensor, s: AttentionScores) -> Rotation | None:
    """How an operand of the scores was rotated from this value; None where it was not."""
    if not side.is_number(source):
        return None
    forms = arranged(side.numbers(source), tuple(y.shape), s.heads)
    return next((found for x in forms if (found := _between(x, y)) is not None), None)


def _between(x: Tensor, y: Tensor) -> Rotation | None:
    """The rotation from x to y; one without frequencies where y is a multiple of x."""
    before, after = x.norm(dim=-1), y.norm(dim=-1)
    size = (after.norm() / before.norm()).item()
    if not close(before * size, after, torch.ones_like(before, dtype=torch.bool)):
        return None
    y = y / size
    changed = (y - x).abs().amax((0, 1)) > 1e-6 * x.abs().max()
    if not bool(changed.any()):
        return Rotation(x, "none", size)
    width = int(changed.nonzero().max()) + 1
    width += width % 2
    for layout in ("half", "interleaved"):
        first, second = (torch.complex(*pairs(t[..., :width], layout)) for t in (x, y))
        if not bool((first.abs() - second.abs()).norm() <= 1e-6 * first.abs().norm()):
            continue
        phase = (second * first.conj()).sum(0)
        phase = phase / phase.abs()
        if not bool((second - first * phase).norm() <= 1e-6 * second.norm()) or len(phase) < 3:
            continue
        steps = phase[1:] * phase[:-1].conj()
        if bool((steps - steps[:1]).abs().max() > 1e-5):
            continue
        frequency = _frequencies(phase)
        start = _start(phase[0], frequency)
        if start is not None:
            return Rotation(x, layout, size, width, frequency, start)
    return None


def _frequencies(phase: Tensor) -> Tensor:
    """Radians a position; over many positions, so that slow ones are exact."""
    frequency = (phase[1] * phase[0].conj()).angle()
    span = 1
    while 2 * span < len(phase):
        span *= 2
        turned = (phase[span] * phase[0].conj()).angle()
        whole = torch.round((span * frequency - turned) / (2 * math.pi))
        frequency = (turned + 2 * math.pi * whole) / span
    return frequency


def _start(phase: Tensor, frequency: Tensor) -> int | None:
    """The position of the first token, where it is a whole number."""
    positions = torch.arange(-OFFSETS, OFFSETS + 1)
    wrong = (torch.exp(1j * positions.unsqueeze(-1) * frequency) - phase).abs().amax(-1)
    best = int(wrong.argmin())
    return int(positions[best]) if wrong[best] < 1e-4 else None
