"""Hidden rows: what a word gets that may look at no word at all.

It happens to padding (left of a causal text, or a sequence that is all padding) and to the first row of a strict mask. A softmax
over nothing is 0/0: nn.MultiheadAttention gives NaN, a mask of -1e9 gives the mean of all values, hidden ones too, safe kernels
give 0. What is harmless in its own row may spread: 0 times NaN is NaN in the next layer, in the rows of real words.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import batched, sequence
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.statements.sequences.padding import TORCH, mask_name, padded
from equiscope.audit.statements.sequences.rotary_layout import asking, seen
from equiscope.audit.subject import Crashed, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.program.attended.seen import Seen
from equiscope.record import Row
from equiscope.symmetry import Inputs

HIDES = -1e4  # a score below it is no score, but a mask
GIVES = {
    "nan": "NaN", "zero": "0", "mean": "the mean of all values, hidden ones too", "self": "the word itself",
    "other": "a mix of some values",
}  # fmt: skip


class MaskedRows(MeasuredProperty):
    """A row that sees nothing gives something finite, and does no harm to others."""

    name = "masked-rows"
    summary = "a row that may look at nothing gives a number, not NaN"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "there are no words to hide"
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(torch.float64)
        told, worst, crashed, watched = list[str](), "", list[str](), False
        gives: dict[str, str] = {}
        for text, inputs, real in _cases(subject, run):
            made = inputs is not run.inputs
            try:
                outputs = run(inputs)
                found = seen(run, inputs)
                kinds, watched = _kinds(found), watched or any(s.mask is not None or s.weights is not None for s in found)
            except Crashed as crash:
                crashed.append(f"{text}: {crash}")
                continue
            if not kinds and not (finite(outputs) and made):
                if finite(outputs):
                    raise Undecided(
                        f"{finite(outputs)} is not finite, though no row is hidden wholly in an attention that was seen"
                    )
                continue
            harmed = _harmed(subject, run, outputs, inputs, real)
            gives |= {kind: where for kind, where in kinds.items() if kind not in gives}
            if finite(outputs):
                gives.setdefault("nan", next(iter(kinds.values()), ""))
            told.append(f"{text}: {' and '.join(GIVES[k] for k in kinds) or 'NaN'}" + _after(kinds, finite(outputs), harmed))
            worst = "harm" if harmed else worst or ("nan" if finite(outputs) else "")
        if not told:
            seen_none = "no row was hidden wholly" if watched else "no attention with a mask was seen"
            note = "; ".join(crashed) or seen_none
            return self.row("not applicable" if watched and not crashed else "undecided", note=note)
        note = "; ".join([*told, *crashed])
        output = " and ".join(GIVES[k] for k in gives)
        if not worst:
            return self.row("holds", [0.0], output=output, note=note)
        cause = "a softmax over nothing is 0/0"
        cause += ", and NaN spreads to words that are not hidden" if worst == "harm" else ""
        return self.row("broken", output=output, note=note, cause=cause, where=gives.get("nan", "") or type(run.model).__name__)


def _cases(subject: Subject, run: Pass) -> Iterator[tuple[str, Inputs, Tensor | None]]:
    """In words, inputs in which a row may see nothing, and which rows are real words (None: all)."""
    inputs, n = run.inputs, run.inputs.length or 0
    yield "as given", inputs, None
    if not (inputs.has("tokens") or mask_name(subject)):
        return
    one = sequence(inputs, 0) if inputs.batch is not None else inputs
    padding = padded(subject, one, 2, True, Generator().manual_seed(subject.seed))
    yield "padding on the left", padding, torch.arange(n + 2) >= 2
    if inputs.batch is not None:
        full = padded(subject, one, 0, True, Generator().manual_seed(subject.seed))
        yield "a sequence that is all padding, beside one of words", batched(full, _emptied(subject, full)), None


def _emptied(subject: Subject, inputs: Inputs) -> Inputs:
    """Every word marked as padding."""
    name = mask_name(subject)
    if inputs.has("tokens"):
        return inputs.each(lambda t: replace(t, valid=torch.zeros_like(t.valid)), "tokens")
    value = inputs.values[name]
    return inputs.with_values({name: torch.ones_like(value) if name in TORCH else torch.zeros_like(value)})


def _harmed(subject: Subject, run: Pass, outputs: dict[str, Tensor], inputs: Inputs, real: Tensor | None) -> bool:
    """Whether a number of a real word is not finite."""
    batch = inputs.batch or 0
    for name, t in outputs.items():
        if not t.is_floating_point():
            continue
        axes = subject.axes(run).get(name, ())
        if real is not None and axes and t.shape[axes[0]] == len(real):
            t = t.index_select(axes[0], real.nonzero().flatten())
        elif real is None and inputs is not run.inputs and batch > 1 and t.ndim and t.shape[0] == batch:
            t = t[:-1]
        if bool(torch.isnan(t).any()):
            return True
    return False


def _kinds(found: list[Seen]) -> dict[str, str]:
    """What fully hidden rows give, kind -> the first module where they do."""
    made: dict[str, str] = {}
    for one in [s for s in found if s.weights is not None] + asking(found):
        for kind in _of_weights(one) if one.weights is not None else _of_result(one):
            made.setdefault(kind, one.module)
    return made


def _of_weights(one: Seen) -> Iterator[str]:
    assert one.scores is not None
    assert one.weights is not None
    scores, weights = one.scores.detach().double(), one.weights.detach().double()
    if scores.ndim < 2 or scores.shape[-1] < 2:
        return
    hidden = (scores < HIDES).all(-1)
    yield from _named(weights[hidden], scores.shape[-1])


def _of_result(one: Seen) -> Iterator[str]:
    """Of a fused attention, from its mask; the mean of the values is told by comparing."""
    if one.mask is None or one.result is None or one.v is None:
        return
    mask = one.mask.detach()
    hides = ~mask if mask.dtype == torch.bool else mask.double() < HIDES
    hidden = hides.all(-1)
    result, v = one.result.detach().double(), one.v.detach().double()
    hidden = hidden.expand(result.shape[:-1])
    rows = result[hidden]
    if not len(rows):
        return
    mean = v.mean(-2, keepdim=True)
    if mean.shape[:-2] != result.shape[:-2]:
        mean = mean.repeat_interleave(result.shape[1] // mean.shape[1], 1)
    means = mean.expand(result.shape)[hidden]
    if bool(torch.isnan(rows).any()):
        yield "nan"
    elif bool((rows == 0).all()):
        yield "zero"
    elif bool(((rows - means).abs() < 1e-9 * v.abs().max()).all()):
        yield "mean"
    else:
        yield "other"


def _named(weights: Tensor, n: int) -> Iterator[str]:
    if not len(weights):
        return
    if bool(torch.isnan(weights).any()):
        yield "nan"
    elif bool((weights == 0).all()):
        yield "zero"
    elif bool(((weights - 1 / n).abs() < 1e-9).all()):
        yield "mean"
    else:
        yield "self" if bool((weights.amax(-1) == 1).all()) else "other"


def _after(kinds: dict[str, str], bad: str, harmed: bool) -> str:
    if harmed:
        return ", which spreads to words that are not hidden"
    if "nan" in kinds and not bad:
        return ", repaired before the output"
    return ""
