"""Rotary layout: which columns of queries and keys turn together.

The same word stands at every place, so whatever changes from place to place is position. A pair of columns that is turned keeps
its length while each of the two changes. Two conventions are common: neighbours (0, 1), (2, 3) ("interleaved": the paper, Meta) and
halves (i, i + K/2) ("half-split": Hugging Face). Weights of the one under the code of the other still run, and are wrong.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.program.attended.seen import Seen, watching
from equiscope.record import Row
from equiscope.symmetry import Inputs

CHANGES = 1e-10  # of a column's size, from place to place: above it is no rounding in float64
KEEPS = 1e-6  # of a pair's squared length: tables of sines in float32 keep it to 1e-7
PREFIXES = (0, 1, 2, 5)  # rows that may stand before the patches of a picture: class token, registers


@dataclass(frozen=True)
class Turned:
    """What the columns of one tensor do.

    pairs    columns that turn together; changing: all columns that change with the place; width: how many there are
    angles   [N, pairs] how far each pair has turned since the first place
    """

    pairs: tuple[tuple[int, int], ...]
    changing: tuple[int, ...]
    width: int
    angles: Tensor
    scaled: bool = False

    @property
    def layout(self) -> str:
        """The name of the convention. A very slow pair may go unrecognised; what its columns are follows from the others."""
        if not self.pairs:
            return "none"
        distances, start, count = {b - a for a, b in self.pairs}, self.changing[0], len(self.changing)
        step = min(distances)
        if distances == {self.width // 2} and count < self.width:
            return "half-split"  # of the whole width, not all of which turns
        if len(distances) > 1 or self.changing != tuple(range(start, start + count)):
            return "mixed" if len(distances) > 1 else f"distance {step}"
        if count == 2:
            return "single"
        if step == 1 and all((a - start) % 2 == 0 for a, _ in self.pairs):
            return "interleaved"
        if 2 * step == count:
            return "half-split"
        return f"half-split in {count // (2 * step)} sections of {2 * step}" if count % (2 * step) == 0 else "mixed"

    def told(self) -> str:
        """In words."""
        part = f", {len(self.changing)} of {self.width} columns" if len(self.changing) < self.width else ""
        lone = " pair: both layouts are the same" if self.layout == "single" else ""
        return self.layout + lone + part + (", turned and scaled as in xPos" if self.scaled else "")


class RotaryLayout(MeasuredProperty):
    """Queries and keys turn alike, in pairs that are named."""

    name = "rotary-layout"
    summary = "queries and keys turn in the same pairs of columns, by the same angles"
    expected = True

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features", "image"):
            return "there are no words that could stand at every place"
        n = subject.inputs.length
        return "there are too few tokens" if n is not None and n < 3 else ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(torch.float64)
        asked = [s for s in asking(seen(run, repeated(run.inputs))) if _own(s, subject.inputs.length)]
        if not asked:
            raise Undecided("no attention was seen: neither scaled_dot_product_attention nor a product of queries and keys")
        looked = [(s.module, *_turned(s)) for s in asked]
        turning = [(m, q, k) for m, q, k in looked if q.pairs or k.pairs]
        if not turning:
            return self.row("not applicable", output="none", note=_none(looked[0][1], looked[0][2]))
        wrong = [(m, _differ(q, k)) for m, q, k in turning if _differ(q, k)]
        q = turning[0][1]
        if wrong:
            where, cause = wrong[0]
            return self.row("broken", where=where or type(run.model).__name__, cause=cause, output=q.layout)
        layouts = list(dict.fromkeys(t.layout for _, t, _ in turning))
        still = sum(not q.changing and not k.changing for _, q, k in looked)
        note = q.told() + (f"; {still} of {len(looked)} attentions do not turn" if still else "")
        if len(layouts) > 1:
            note += f"; attentions turn in different layouts: {', '.join(layouts)}"
        return self.row("holds", [0.0], output=" and ".join(layouts), note=note)


def repeated(inputs: Inputs) -> Inputs:
    """The first word at every place; of a picture, one colour."""

    def first(t: Tensor, axis: int) -> Tensor:
        return t.narrow(axis, 0, 1).expand_as(t).contiguous()

    same = inputs.each(lambda t: first(t, -1), "ids").each(lambda t: first(t, -2), "features")
    same = same.each(lambda t: replace(t, x=first(t.x, -2)), "tokens")
    return same.each(lambda t: t.mean((-1, -2), keepdim=True).expand_as(t).contiguous(), "image")


def seen(run: Pass, inputs: Inputs) -> list[Seen]:
    """Every attention of a pass. With gradients on, since torch's own fast paths show nothing."""
    with run.within(gradients=True), watching(run.model) as found:
        try:
            inputs.to(run.dtype).call(run.counted_model)
        except Exception as error:
            text = " ".join(str(error).split())[:160]
            raise Crashed(f"the model raised {type(error).__name__} on one word at all places: {text}") from error
    return found


def asking(found: list[Seen]) -> list[Seen]:
    """Those in which queries meet keys: fused ones, and products that a softmax follows (where there is any)."""
    products = not any(s.weights is not None for s in found)
    made, last = list[Seen](), None
    for s in found:
        if s.result is not None or (products and s.q is not None):
            made.append(s)
        elif s.q is not None:
            last = s
        elif last is not None and s.scores is not None and _leads_to(last, s.scores):
            made, last = [*made, last], None
    return made


def _leads_to(one: Seen, scores: Tensor) -> bool:
    """Whether these scores may be that product: as many rows, and as many columns or one more (a sink)."""
    assert one.q is not None
    assert one.k is not None
    return one.q.shape[:-1].numel() == scores.shape[:-1].numel() and scores.shape[-1] - one.k.shape[-2] in (0, 1)


def _own(one: Seen, length: int | None) -> bool:
    """Whether tokens ask tokens of the same row, as many as went in."""
    if one.q is None or one.k is None:
        return False
    n, m = one.q.shape[-2], one.k.shape[-2]
    return n == m and one.q.shape[-1] == one.k.shape[-1] and n > 2 and (length is None or n == length)


def _turned(one: Seen) -> tuple[Turned, Turned]:
    """Of the first head; rows that stand before the patches of a picture are left out."""
    q, k = _first(one.q), _first(one.k)
    tries = [(turned(q[skip:]), turned(k[skip:])) for skip in PREFIXES if len(q) - skip > 2]
    tries.append((turned(q, k), turned(k, q)))
    return max(tries, key=lambda t: len(t[0].pairs) + len(t[1].pairs))


def _first(t: Tensor | None) -> Tensor:
    assert t is not None
    return t.detach().cpu().double().reshape(-1, *t.shape[-2:])[0]


def turned(rows: Tensor, beside: Tensor | None = None) -> Turned:
    """Which columns of [N, K] turn in pairs from row to row. beside: what is scaled down where this is scaled up (xPos)."""
    size = rows.abs().amax(0).clamp(min=1e-300)
    changing = tuple(c for c in range(rows.shape[1]) if ((rows[:, c] - rows[0, c]).abs().max() / size[c]) > CHANGES)
    left, pairs = list(changing), list[tuple[int, int]]()
    while len(left) > 1:
        a = left.pop(0)
        joint = rows[:, a : a + 1] ** 2 + rows[:, left] ** 2
        if beside is not None:
            joint = joint * (beside[:, a : a + 1] ** 2 + beside[:, left] ** 2)
        spread = (joint - joint[:1]).abs().amax(0) / joint[0].clamp(min=1e-300)
        transformed = (rows[:, a] ** 2 - rows[0, a] ** 2).abs().max() / (size[a] ** 2)
        best = int(spread.argmin())
        if spread[best] < min(KEEPS, 1e-3 * transformed.item()):
            pairs.append((a, left.pop(best)))
    if 4 * len(pairs) < len(changing):  # by chance: what turns, turns in pairs
        pairs = []
    angles = [torch.atan2(rows[:, b], rows[:, a]) for a, b in pairs]
    turns = torch.stack([t - t[0] for t in angles], 1) if angles else rows.new_zeros(len(rows), 0)
    return Turned(tuple(pairs), changing, rows.shape[1], turns, beside is not None)


def _differ(q: Turned, k: Turned) -> str:
    """How queries and keys turn differently, in words; empty where they turn alike."""
    for one, other, names in ((q, k, "queries"), (k, q, "keys")):
        if not other.pairs:
            if other.changing:
                raise Undecided(f"{names} turn, but what they are compared with changes with the place in a way that is not known")
            return f"only the {names} turn with the place"
        if one.scaled != other.scaled:
            return f"only the {names} are scaled"
    if q.layout != k.layout:
        return f"queries turn in the layout {q.layout}, keys in the layout {k.layout}"
    if q.changing != k.changing:
        return f"queries turn {len(q.changing)} columns, keys {len(k.changing)}, or other ones"
    common = [pair for pair in q.pairs if pair in k.pairs]
    ours, theirs = (t.angles[:, [t.pairs.index(pair) for pair in common]] for t in (q, k))
    if _same(ours, theirs):
        return ""
    if _same(ours, -theirs):
        return "queries and keys turn in opposite directions, so their product knows the sum of the places"
    return "queries and keys turn by different angles"


def _same(a: Tensor, b: Tensor) -> bool:
    turn = torch.remainder(a - b + torch.pi, 2 * torch.pi) - torch.pi
    return turn.numel() == 0 or bool(turn.abs().max() < 1e-6)


def _none(q: Turned, k: Turned) -> str:
    if q.changing or k.changing:
        return "queries and keys change with the place, but not by turning: positions are added or concatenated"
    return "queries and keys do not change with the place"


__all__ = ["RotaryLayout"]
