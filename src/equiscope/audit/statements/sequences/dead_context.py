"""Dead context: tokens that affect no output at another position.

One token after another is changed, and the outputs that change are recorded. A window, a clipped mask or heads with zero values can
make a part of the context useless: it costs time and affects nothing. The row also says how far back the model attends.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import changed_tokens
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.subject import Outputs, Pass, Subject
from equiscope.errors import counted
from equiscope.record import Row

MAX_TOKENS = 12  # tokens that are changed, one in each pass
ROUNDING = 1e-13  # relative to the size of an output, in float64: a smaller change is rounding


@dataclass(frozen=True)
class Influence:
    """The rows of the outputs that change with a token. pooled: whether an output without rows changes."""

    token: int
    rows: frozenset[int]
    pooled: bool

    @property
    def others(self) -> frozenset[int]:
        return self.rows - {self.token}


class DeadContext(MeasuredProperty):
    """Every token but the last affects the output at some other token."""

    name = "dead-context"
    summary = "every token affects the output at some other token"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "the inputs have no tokens"
        return "" if (subject.inputs.length or 0) > 1 else "there is only one token"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        n = subject.inputs.length or 0
        positions = _spread(n, MAX_TOKENS if count < 32 else 64)
        influences = _influences(subject.in_dtype(torch.float64), positions, subject)
        if not any(r.rows or r.pooled for r in influences):
            return self.row("broken", note="no output changes with any token", cause="the outputs do not depend on the tokens")
        dead = [r.token for r in influences if _is_dead(r, influences, n)]
        causal = all(min(r.rows, default=r.token) >= r.token for r in influences)
        note = _describe_reach(influences, n, causal)
        share = len(dead) / max(len(influences), 1)
        if not dead:
            return self.row("holds", [0.0], note=note, samples=len(influences))
        revived = [
            r.token for r in _influences(subject.in_dtype(torch.float64, True), dead, subject) if not _is_dead(r, influences, n)
        ]
        if revived:
            note += f"; at random parameters {_list_tokens(revived)} {'has' if len(revived) == 1 else 'have'} an effect"
        isolated = len(dead) >= sum(r.token < n - 1 or not causal for r in influences) and not any(r.pooled for r in influences)
        cause = (
            f"{_list_tokens(dead)} of {n} (counted from 0) {'affects' if len(dead) == 1 else 'affect'} no output at another token"
        )
        cause = "every output depends on its own token only" if isolated else cause
        return self.row("broken", [share], samples=len(influences), cause=cause, note=note)


def _influences(run: Pass, positions: list[int], subject: Subject) -> list[Influence]:
    axes = subject.axes(run)
    original = run(run.inputs)
    influences_found = []
    for j in positions:
        generator = Generator().manual_seed(subject.seed + 37 + j)
        changed = run(changed_tokens(run.inputs, slice(j, j + 1), generator))
        influences_found.append(_influence_of(j, original, changed, axes))
    return influences_found


def _influence_of(j: int, original: Outputs, changed: Outputs, axes: dict[str, tuple[int, ...]]) -> Influence:
    rows, pooled = set[int](), False
    for name, a in original.items():
        b = changed.get(name)
        if b is None or a.shape != b.shape:
            continue
        if not bool((a == a).all()):
            raise Undecided("the outputs are not finite")
        differs = a != b
        if a.is_floating_point():  # equal infinities differ by NaN, which is no more than rounding
            size = a.abs().masked_fill(~a.isfinite(), 0).max() if a.numel() else 0.0
            differs = ((a - b).abs() > ROUNDING * size) | b.isnan()
        if along := axes.get(name, ()):
            others = [i for i in range(a.ndim) if i != along[0]]
            rows |= set(_any_along(differs, others).nonzero().flatten().tolist())
        else:
            pooled = pooled or bool(differs.any())
    return Influence(j, frozenset(rows), pooled)


def _any_along(differs: Tensor, axes: list[int]) -> Tensor:
    for axis in sorted(axes, reverse=True):
        differs = differs.any(axis)
    return differs


def _is_dead(r: Influence, influences: list[Influence], n: int) -> bool:
    """Whether no other row changes with it. The last token of a causal model cannot affect another."""
    if r.pooled:
        return False
    rows_exist = any(f.rows for f in influences)
    if not rows_exist:
        return True
    forward = all(min(f.rows, default=f.token) >= f.token for f in influences)
    return not r.others and not (forward and r.token == n - 1)


def _describe_reach(influences: list[Influence], n: int, causal: bool) -> str:
    """How far the outputs depend on other tokens, in words."""
    if not any(f.rows for f in influences):
        first = min((f.token for f in influences if f.pooled), default=0)
        return "" if first == 0 else f"the output depends on the tokens from {first} on"
    if not causal:
        far = max((abs(i - f.token) for f in influences for i in f.rows), default=0)
        full = all(f.rows == frozenset(range(n)) for f in influences)
        return (
            "every token affects every other" if full else f"no token affects outputs more than {far} away" if far < n - 1 else ""
        )
    distance = max((max(f.rows) - f.token for f in influences if f.rows), default=0)
    if not distance:
        return ""
    short_of_start = [f for f in influences if f.token + distance < n - 1]
    if not short_of_start:
        return "outputs depend on all earlier tokens"
    return f"outputs depend on the last {counted(distance, 'token')} before their own"


def _spread(n: int, most: int) -> list[int]:
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def _list_tokens(positions: list[int]) -> str:
    listed = ", ".join(map(str, positions[:8])) + (", ..." if len(positions) > 8 else "")
    return f"the token {listed}" if len(positions) == 1 else f"the tokens {listed}"
