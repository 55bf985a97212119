"""Dead context: words that are read and never matter.

One word after another is changed, and it is seen which outputs move. A window forgets, a clipped mask cuts off, a head whose values
are zero passes nothing on: then a part of the context costs time and changes nothing. How far back the model looks comes with it.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import changed_tokens
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.subject import Outputs, Pass, Subject
from equiscope.record import Row

MOST = 12  # words that are changed, one a pass
MOVES = 1e-13  # of an output's size, in float64: below it is rounding of another order of sums


@dataclass(frozen=True)
class Reach:
    """Which rows of outputs move with a word; where outputs have no rows, whether they move at all."""

    token: int
    rows: frozenset[int]
    whole: bool

    @property
    def others(self) -> frozenset[int]:
        return self.rows - {self.token}


class DeadContext(MeasuredProperty):
    """Every word but the last matters to the output at some other word."""

    name = "dead-context"
    summary = "every word changes what is said at some other"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "there are no words"
        return "" if (subject.inputs.length or 0) > 1 else "there is one word only"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        n = subject.inputs.length or 0
        places = _spread(n, MOST if count < 32 else 64)
        found = _reaches(subject.in_dtype(torch.float64), places, subject)
        if not any(r.rows or r.whole for r in found):
            return self.row("broken", note="no output moves with any word", cause="the outputs do not depend on the words")
        dead = [r.token for r in found if _dead(r, found, n)]
        causal = all(min(r.rows, default=r.token) >= r.token for r in found)
        note = _looks(found, n, causal)
        share = len(dead) / max(len(found), 1)
        if not dead:
            return self.row("holds", [0.0], note=note, samples=len(found))
        alive = [r.token for r in _reaches(subject.in_dtype(torch.float64, True), dead, subject) if not _dead(r, found, n)]
        if alive:
            note += f"; at random parameters {_names(alive)} would matter"
        alone = len(dead) >= sum(r.token < n - 1 or not causal for r in found) and not any(r.whole for r in found)
        cause = "every word is read alone" if alone else f"{_names(dead)} of {n} (counted from 0) changes nothing at any other word"
        return self.row("broken", [share], samples=len(found), cause=cause, note=note)


def _reaches(run: Pass, places: list[int], subject: Subject) -> list[Reach]:
    axes = subject.axes(run)
    original = run(run.inputs)
    made = []
    for j in places:
        generator = Generator().manual_seed(subject.seed + 37 + j)
        changed = run(changed_tokens(run.inputs, slice(j, j + 1), generator))
        made.append(_moved(j, original, changed, axes))
    return made


def _moved(j: int, original: Outputs, changed: Outputs, axes: dict[str, tuple[int, ...]]) -> Reach:
    rows, whole = set[int](), False
    for name, a in original.items():
        b = changed.get(name)
        if b is None or a.shape != b.shape:
            continue
        if not bool((a == a).all()):
            raise Undecided("the outputs are not finite")
        differs = ((a - b).abs() > MOVES * a.abs().max()) if a.is_floating_point() else a != b
        if along := axes.get(name, ()):
            others = [i for i in range(a.ndim) if i != along[0]]
            rows |= set(_any(differs, others).nonzero().flatten().tolist())
        else:
            whole = whole or bool(differs.any())
    return Reach(j, frozenset(rows), whole)


def _any(differs: Tensor, axes: list[int]) -> Tensor:
    for axis in sorted(axes, reverse=True):
        differs = differs.any(axis)
    return differs


def _dead(r: Reach, found: list[Reach], n: int) -> bool:
    """Nothing else moves with it. The last word of a causal text has nobody to matter to."""
    if r.whole:
        return False
    rows_exist = any(f.rows for f in found)
    if not rows_exist:
        return True
    forward = all(min(f.rows, default=f.token) >= f.token for f in found)
    return not r.others and not (forward and r.token == n - 1)


def _looks(found: list[Reach], n: int, causal: bool) -> str:
    """How far back the outputs look, from the words that are not too near the end to show it."""
    if not any(f.rows for f in found):
        first = min((f.token for f in found if f.whole), default=0)
        return "" if first == 0 else f"the output depends on the words from {first} on"
    if not causal:
        far = max((abs(i - f.token) for f in found for i in f.rows), default=0)
        full = all(f.rows == frozenset(range(n)) for f in found)
        return "every word matters to every other" if full else f"no word matters further than {far} away" if far < n - 1 else ""
    back = max((max(f.rows) - f.token for f in found if f.rows), default=0)
    seen = [f for f in found if f.token + back < n - 1]
    if not seen:
        return "it looks back to the first word"
    return f"it looks back {back} word{'s' * (back != 1)}"


def _spread(n: int, most: int) -> list[int]:
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def _names(places: list[int]) -> str:
    shown = ", ".join(map(str, places[:8])) + (", ..." if len(places) > 8 else "")
    return f"the word {shown}" if len(places) == 1 else f"each of the words {shown}"
