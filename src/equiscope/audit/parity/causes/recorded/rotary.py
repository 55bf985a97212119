"""Rotary embeddings of another base, scaling, pair layout, width, direction or offset, or none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.recorded.attention import ReplayedAttention
from equiscope.audit.parity.causes.recorded.recording import ModelChange, RecordedTensors, Values
from equiscope.audit.parity.causes.recorded.solving import solved
from equiscope.audit.parity.causes.rotary import PATH, Rotation, fitted, named, rotation_from
from equiscope.audit.parity.causes.scores import AttentionScores
from equiscope.audit.parity.sides import Side
from equiscope.program.program import Edit

BASES = (1e4, 5e5, 1e6, 1e5, 1.6e5, 5e4, 2e4, 2e5, 1e3, 1e7)
FACTORS = (1.0, 2.0, 4.0, 8.0, 3.0, 16.0, 0.5, 0.25, 1.5, 32.0)


@dataclass(frozen=True, eq=False)
class RotarySite:
    """An attention whose queries and keys are rotated by position."""

    attention: ReplayedAttention
    q: Rotation
    k: Rotation


def sites(r: RecordedTensors, attentions: list[ReplayedAttention]) -> list[RotarySite]:
    """The attentions with rotary embeddings, in order."""
    found = []
    for one in attentions:
        s = one.scores
        assert s.query is not None
        assert s.key is not None
        q, k = (_rotated_from(r.d.a, t, v, s) for t, v in ((s.query, s.query_value), (s.key, s.key_value)))
        if q is not None and k is not None:
            found.append(RotarySite(one, q, k))
    return found


def _rotated_from(side: Side, y: Tensor, value: int, s: AttentionScores) -> Rotation | None:
    """How queries or keys are rotated from the nearest earlier value that has other numbers."""
    for source in side.ancestors(value, PATH):
        found = rotation_from(side, source, y, s)
        if found is not None and found.frequency is not None:
            return found
    return None


def rotation(r: RecordedTensors, group: list[RotarySite]) -> Finding | None:
    """B rotates its queries and keys otherwise."""
    first = group[0]
    size = first.q.x.shape[-1], first.q.width, bool(fitted(first.q)[0])
    alike = all((s.q.x.shape[-1], s.q.width, bool(fitted(s.q)[0])) == size for s in group)
    for others in zip(*(_others(site, alike) for site in group), strict=True):
        found = r.confirmed(_change(group, others))
        if found is not None:
            return found
    base, factor = fitted(first.q)
    if base:
        return _of_number(r, group, base, factor)
    return solved(r, BASES, lambda x: _change(group, [(_with(s.q, x, 1.0), _with(s.k, x, 1.0)) for s in group]), fitted=False)


def _of_number(r: RecordedTensors, group: list[RotarySite], base: float, factor: float) -> Finding | None:
    def of_base(x: float) -> ModelChange:
        return _change(group, [(_with(s.q, x, factor), _with(s.k, x, factor)) for s in group])

    def of_factor(x: float) -> ModelChange:
        return _change(group, [(_with(s.q, base, x), _with(s.k, base, x)) for s in group])

    found = solved(r, [x for x in BASES if abs(x / base - 1) > 1e-3], of_base)
    usual = dict.fromkeys([1.0, *(factor * x for x in FACTORS), *FACTORS])
    return found or solved(r, [x for x in usual if abs(x / factor - 1) > 1e-3], of_factor)


def _with(s: Rotation, base: float, factor: float) -> Rotation:
    """The same rotation with another base and linear factor."""
    assert s.frequency is not None
    steps = torch.arange(len(s.frequency), dtype=torch.float64)
    return replace(s, frequency=s.frequency[0].sign() * base ** (-2 * steps / s.width) / factor)


def _others(site: RotarySite, widths: bool) -> Iterator[tuple[Rotation, Rotation]]:
    """Rotations that people take for A's, which have no number to find, with other widths or without."""
    q, k = site.q, site.k
    other = {"half": "interleaved", "interleaved": "half"}[q.layout]
    yield replace(q, layout=other), replace(k, layout=other)
    assert q.frequency is not None
    assert k.frequency is not None
    yield replace(q, frequency=-q.frequency), replace(k, frequency=-k.frequency)
    none = [replace(one, layout="none", frequency=None) for one in (q, k)]
    yield none[0], none[1]
    yield q, none[1]
    yield none[0], k
    for shift in (1, -1, 2, -2):
        yield replace(q, start=q.start + shift), k
    size, (base, factor) = q.x.shape[-1], fitted(q)
    for width in dict.fromkeys((size, size // 2, size // 4, 3 * size // 4)):
        if widths and width != q.width and width >= 2 and width % 2 == 0 and base:
            steps = torch.arange(width // 2, dtype=torch.float64)
            for over in dict.fromkeys((width, q.width, size)):
                frequency = q.frequency[0].sign() * base ** (-2 * steps / over) / factor
                yield replace(q, width=width, frequency=frequency), replace(k, width=width, frequency=frequency)


def _change(group: list[RotarySite], others: Sequence[tuple[Rotation, Rotation]]) -> ModelChange:
    """Each attention with the rotations of its queries and keys in the place of its own."""
    found = named((group[0].q, group[0].k), others[0])
    edits: dict[int, Edit] = {}
    for site, (q, k) in zip(group, others, strict=True):
        s, pairs = site.attention.scores, site.attention.pairs(site.attention.side.high)
        edits[s.query_value] = _rotated(site.q, q, pairs.query_axes)
        edits[s.key_value] = _rotated(site.k, k, pairs.key_axes)
    return ModelChange(found.kind, found.a, found.b, found.evidence, group[0].attention.scores.query_value, edits)


def _rotated(ours: Rotation, theirs: Rotation, axes: tuple[int, int]) -> Edit:
    """What A rotates in its way, rotated in B's instead."""
    assert ours.frequency is not None
    back = replace(ours, frequency=-ours.frequency, size=1 / ours.size)

    def edit(t: Tensor, _: Values) -> Tensor:
        x = back.of(t.movedim(axes, (-2, -1)))
        return replace(theirs, size=ours.size).of(x).movedim((-2, -1), axes)

    return edit
