"""Rotary layout: which columns of queries and keys are rotated together.

The input is the same token at every position, so whatever changes along the sequence comes from the positions. A pair of columns
that is rotated keeps its length while each of the two changes. Two conventions are common: neighbours (0, 1), (2, 3)
("interleaved": the paper, Meta) and halves (i, i + K/2) ("half-split": Hugging Face). Weights trained with one layout run with the
other, but the outputs are wrong.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.program.attended.calls import AttentionCall, recorded_calls
from equiscope.record import Row
from equiscope.symmetry import Inputs

CHANGES = 1e-10  # relative to the size of a column: a larger change along the sequence is not rounding in float64
KEEPS = 1e-6  # of a pair's squared length: tables of sines in float32 keep it to 1e-7
PREFIXES = (0, 1, 2, 5)  # rows that may precede the patches of a picture: class token, registers


@dataclass(frozen=True)
class RotatedColumns:
    """How the columns of one tensor depend on the position.

    pairs     columns that are rotated together
    changing  all columns that depend on the position; width: the number of columns
    angles    [N, pairs] rotation of each pair relative to the first position
    scaled    whether the pairs are scaled too (xPos)
    """

    pairs: tuple[tuple[int, int], ...]
    changing: tuple[int, ...]
    width: int
    angles: Tensor
    scaled: bool = False

    @property
    def layout(self) -> str:
        """The name of the convention. A very slow pair may go unrecognised; the layout follows from the others."""
        if not self.pairs:
            return "none"
        distances, start, count = {b - a for a, b in self.pairs}, self.changing[0], len(self.changing)
        step = min(distances)
        if distances == {self.width // 2} and count < self.width:
            return "half-split"  # of the whole width, of which only a part is rotated
        if len(distances) > 1 or self.changing != tuple(range(start, start + count)):
            return "mixed" if len(distances) > 1 else f"distance {step}"
        if count == 2:
            return "single"
        if step == 1 and all((a - start) % 2 == 0 for a, _ in self.pairs):
            return "interleaved"
        if 2 * step == count:
            return "half-split"
        return f"half-split in {count // (2 * step)} sections of {2 * step}" if count % (2 * step) == 0 else "mixed"

    def describe(self) -> str:
        """The layout in words."""
        part = f", {len(self.changing)} of {self.width} columns" if len(self.changing) < self.width else ""
        note_single = " pair: both layouts are the same" if self.layout == "single" else ""
        return self.layout + note_single + part + (", rotated and scaled as in xPos" if self.scaled else "")


class RotaryLayout(MeasuredProperty):
    """Queries and keys are rotated alike; the row names the layout."""

    name = "rotary-layout"
    summary = "queries and keys are rotated in the same pairs of columns, by the same angles"
    expected = True

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features", "image"):
            return "the inputs have no tokens that could be repeated at every position"
        n = subject.inputs.length
        return "there are too few tokens" if n is not None and n < 3 else ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(torch.float64)
        self_attention = [
            s
            for s in query_key_products(attention_calls(run, repeated(run.inputs)))
            if _is_self_attention(s, subject.inputs.length)
        ]
        if not self_attention:
            raise Undecided("no attention was recorded: neither scaled_dot_product_attention nor a product of queries and keys")
        columns = [(s.module, *_rotated_qk(s)) for s in self_attention]
        rotating = [(m, q, k) for m, q, k in columns if q.pairs or k.pairs]
        if not rotating:
            return self.row("not applicable", output="none", note=_no_rotation(columns[0][1], columns[0][2]))
        mismatches = [(m, _differ(q, k)) for m, q, k in rotating if _differ(q, k)]
        q = rotating[0][1]
        if mismatches:
            where, cause = mismatches[0]
            return self.row("broken", where=where or type(run.model).__name__, cause=cause, output=q.layout)
        layouts = list(dict.fromkeys(t.layout for _, t, _ in rotating))
        unrotated = sum(not q.changing and not k.changing for _, q, k in columns)
        note = q.describe() + (f"; {unrotated} of {len(columns)} attention layers are not rotated" if unrotated else "")
        if len(layouts) > 1:
            note += f"; attention layers use different layouts: {', '.join(layouts)}"
        return self.row("holds", [0.0], output=" and ".join(layouts), note=note)


def repeated(inputs: Inputs) -> Inputs:
    """The first token at every position; for a picture, its mean colour."""

    def first(t: Tensor, axis: int) -> Tensor:
        return t.narrow(axis, 0, 1).expand_as(t).contiguous()

    same = inputs.each(lambda t: first(t, -1), "ids").each(lambda t: first(t, -2), "features")
    same = same.each(lambda t: replace(t, x=first(t.x, -2)), "tokens")
    return same.each(lambda t: t.mean((-1, -2), keepdim=True).expand_as(t).contiguous(), "image")


def attention_calls(run: Pass, inputs: Inputs) -> list[AttentionCall]:
    """Every attention call of a pass. Gradients are on, because torch's fast paths cannot be recorded."""
    with run.within(gradients=True), recorded_calls(run.model) as calls:
        try:
            inputs.to(run.dtype).call(run.counted_model)
        except Exception as error:
            text = " ".join(str(error).split())[:160]
            raise ModelError(f"the model raised {type(error).__name__} on one token at all positions: {text}") from error
    return calls


def query_key_products(calls: list[AttentionCall]) -> list[AttentionCall]:
    """Calls with queries and keys: fused attention, and products that are followed by a softmax (where there is any)."""
    no_weights = not any(s.weights is not None for s in calls)
    products, last = list[AttentionCall](), None
    for s in calls:
        if s.output is not None or (no_weights and s.q is not None):
            products.append(s)
        elif s.q is not None:
            last = s
        elif last is not None and s.scores is not None and _may_give(last, s.scores):
            products, last = [*products, last], None
    return products


def _may_give(call: AttentionCall, scores: Tensor) -> bool:
    """Whether these scores may come from that product: equal rows, and equal columns or one more (a sink)."""
    assert call.q is not None
    assert call.k is not None
    return call.q.shape[:-1].numel() == scores.shape[:-1].numel() and scores.shape[-1] - call.k.shape[-2] in (0, 1)


def _is_self_attention(call: AttentionCall, length: int | None) -> bool:
    """Whether it is self-attention over all tokens of the input."""
    if call.q is None or call.k is None:
        return False
    n, m = call.q.shape[-2], call.k.shape[-2]
    return n == m and call.q.shape[-1] == call.k.shape[-1] and n > 2 and (length is None or n == length)


def _rotated_qk(call: AttentionCall) -> tuple[RotatedColumns, RotatedColumns]:
    """Queries and keys of the first head; rows before the patches of a picture are skipped."""
    q, k = _first(call.q), _first(call.k)
    tries = [(rotated_columns(q[skip:]), rotated_columns(k[skip:])) for skip in PREFIXES if len(q) - skip > 2]
    tries.append((rotated_columns(q, k), rotated_columns(k, q)))
    return max(tries, key=lambda t: len(t[0].pairs) + len(t[1].pairs))


def _first(t: Tensor | None) -> Tensor:
    assert t is not None
    return t.detach().cpu().double().reshape(-1, *t.shape[-2:])[0]


def rotated_columns(rows: Tensor, partner: Tensor | None = None) -> RotatedColumns:
    """Which columns of [N, K] are rotated in pairs along the rows. partner: scaled down where this is scaled up (xPos)."""
    size = rows.abs().amax(0).clamp(min=1e-300)
    changing = tuple(c for c in range(rows.shape[1]) if ((rows[:, c] - rows[0, c]).abs().max() / size[c]) > CHANGES)
    remaining, pairs = list(changing), list[tuple[int, int]]()
    while len(remaining) > 1:
        a = remaining.pop(0)
        joint = rows[:, a : a + 1] ** 2 + rows[:, remaining] ** 2
        if partner is not None:
            joint = joint * (partner[:, a : a + 1] ** 2 + partner[:, remaining] ** 2)
        spread = (joint - joint[:1]).abs().amax(0) / joint[0].clamp(min=1e-300)
        change = (rows[:, a] ** 2 - rows[0, a] ** 2).abs().max() / (size[a] ** 2)
        best = int(spread.argmin())
        if spread[best] < min(KEEPS, 1e-3 * change.item()):
            pairs.append((a, remaining.pop(best)))
    if 4 * len(pairs) < len(changing):  # by chance: rotated columns come in pairs
        pairs = []
    angles = [torch.atan2(rows[:, b], rows[:, a]) for a, b in pairs]
    relative_angles = torch.stack([t - t[0] for t in angles], 1) if angles else rows.new_zeros(len(rows), 0)
    return RotatedColumns(tuple(pairs), changing, rows.shape[1], relative_angles, partner is not None)


def _differ(q: RotatedColumns, k: RotatedColumns) -> str:
    """How the rotations of queries and keys differ, in words; empty where they are equal."""
    for call, other, names in ((q, k, "queries"), (k, q, "keys")):
        if not other.pairs:
            if other.changing:
                raise Undecided(f"{names} are rotated, but the other side depends on the position in a way that is not recognised")
            return f"only the {names} are rotated with the position"
        if call.scaled != other.scaled:
            return f"only the {names} are scaled"
    if q.layout != k.layout:
        return f"queries are rotated in the layout {q.layout}, keys in the layout {k.layout}"
    if q.changing != k.changing:
        return f"{len(q.changing)} columns of the queries are rotated and {len(k.changing)} of the keys, or other ones"
    common = [pair for pair in q.pairs if pair in k.pairs]
    q_angles, k_angles = (t.angles[:, [t.pairs.index(pair) for pair in common]] for t in (q, k))
    if _same(q_angles, k_angles):
        return ""
    if _same(q_angles, -k_angles):
        return "queries and keys are rotated in opposite directions, so their product depends on the sum of the positions"
    return "queries and keys are rotated by different angles"


def _same(a: Tensor, b: Tensor) -> bool:
    difference = torch.remainder(a - b + torch.pi, 2 * torch.pi) - torch.pi
    return difference.numel() == 0 or bool(difference.abs().max() < 1e-6)


def _no_rotation(q: RotatedColumns, k: RotatedColumns) -> str:
    if q.changing or k.changing:
        return "queries and keys depend on the position, but not by rotation: positions are added or concatenated"
    return "queries and keys do not depend on the position"


__all__ = ["RotaryLayout"]
