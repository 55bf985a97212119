"""Masked rows: the output of attention for a query whose keys are all masked.

This happens to padding (on the left of a causal sequence, or a sequence that is all padding) and to the first row of a strict mask.
A softmax over nothing is 0/0: nn.MultiheadAttention returns NaN, a mask of -1e9 gives the mean of all values, masked ones included,
safe kernels return 0. NaN in one row may spread: 0 times NaN is NaN in the next layer, in the rows of real tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.padded import padded
from equiscope.audit.inputs.padding_mask import mask_name, pads_left, written
from equiscope.audit.inputs.variations import batched, sequence
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.statements.sequences.rotary_layout import attention_calls, query_key_products
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.program.attended.calls import AttentionCall
from equiscope.record import Row
from equiscope.symmetry import Inputs

MASKED = -1e4  # a score below it is a mask
RESULTS = {
    "nan": "NaN", "zero": "0", "mean": "the mean of all values, masked ones included", "self": "the token's own value",
    "other": "a mean of some values",
}  # fmt: skip


class MaskedRows(MeasuredProperty):
    """A fully masked row gives a finite output and does not affect other rows."""

    name = "masked-rows"
    summary = "a fully masked row gives a finite number, not NaN"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "the inputs have no tokens to mask"
        return ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(torch.float64)
        descriptions, worst, failures, masks_seen = list[str](), "", list[str](), False
        results: dict[str, str] = {}
        for text, inputs, token_rows in _masked_inputs(subject, run):
            changed = inputs is not run.inputs
            try:
                outputs = run(inputs)
                calls = attention_calls(run, inputs)
                results_here, masks_seen = (
                    _results_of(calls),
                    masks_seen or any(s.mask is not None or s.weights is not None for s in calls),
                )
            except ModelError as crash:
                failures.append(f"{text}: {crash}")
                continue
            if not results_here and not (finite(outputs) and changed):
                if finite(outputs):
                    raise Undecided(f"{finite(outputs)} is not finite, although no recorded attention has a fully masked row")
                continue
            spreads = _spreads(subject, run, outputs, inputs, token_rows)
            results |= {kind: where for kind, where in results_here.items() if kind not in results}
            if finite(outputs):
                results.setdefault("nan", next(iter(results_here.values()), ""))
            descriptions.append(
                f"{text}: {' and '.join(RESULTS[k] for k in results_here) or 'NaN'}"
                + _consequence(results_here, finite(outputs), spreads)
            )
            worst = "harm" if spreads else worst or ("nan" if finite(outputs) else "")
        if not descriptions:
            no_mask = "no row was fully masked" if masks_seen else "no attention with a mask was recorded"
            note = "; ".join(failures) or no_mask
            return self.row("not applicable" if masks_seen and not failures else "undecided", note=note)
        note = "; ".join([*descriptions, *failures])
        output = " and ".join(RESULTS[k] for k in results)
        if not worst:
            return self.row("holds", [0.0], output=output, note=note)
        cause = "a softmax over nothing is 0/0"
        cause += ", and NaN spreads to tokens that are not masked" if worst == "harm" else ""
        return self.row("broken", output=output, note=note, cause=cause, where=results.get("nan", "") or type(run.model).__name__)


def _masked_inputs(subject: Subject, run: Pass) -> Iterator[tuple[str, Inputs, Tensor | None]]:
    """Description, inputs in which a row may be fully masked, and which rows are tokens rather than padding (None: all)."""
    inputs, n = run.inputs, run.inputs.length or 0
    yield "as given", inputs, None
    if not (inputs.has("tokens") or mask_name(subject)):
        return
    call = sequence(inputs, 0) if inputs.batch is not None else inputs
    if pads_left(subject):
        padding = padded(subject, call, 2, True, Generator().manual_seed(subject.seed))
        yield "padding on the left", padding, torch.arange(n + 2) >= 2
    if inputs.batch is not None:
        full = padded(subject, call, 0, False, Generator().manual_seed(subject.seed))
        yield "a sequence that is all padding, beside one of tokens", batched(full, _all_padding(subject, full)), None


def _all_padding(subject: Subject, inputs: Inputs) -> Inputs:
    """Every token marked as padding."""
    name = mask_name(subject)
    if inputs.has("tokens"):
        return inputs.each(lambda t: replace(t, valid=torch.zeros_like(t.valid)), "tokens")
    none = torch.zeros_like(inputs.values[name], dtype=torch.bool)
    return inputs.with_values({name: written(subject, name, none)})


def _spreads(subject: Subject, run: Pass, outputs: dict[str, Tensor], inputs: Inputs, token_rows: Tensor | None) -> bool:
    """Whether a value of a token that is not padding is NaN."""
    batch = inputs.batch or 0
    for name, t in outputs.items():
        if not t.is_floating_point():
            continue
        axes = subject.axes(run).get(name, ())
        if token_rows is not None and axes and t.shape[axes[0]] == len(token_rows):
            t = t.index_select(axes[0], token_rows.nonzero().flatten())
        elif token_rows is None and inputs is not run.inputs and batch > 1 and t.ndim and t.shape[0] == batch:
            t = t[:-1]
        if bool(torch.isnan(t).any()):
            return True
    return False


def _results_of(calls: list[AttentionCall]) -> dict[str, str]:
    """The results of fully masked rows: kind -> the first module with it."""
    changed: dict[str, str] = {}
    for call in [s for s in calls if s.weights is not None] + query_key_products(calls):
        for kind in _from_weights(call) if call.weights is not None else _from_output(call):
            changed.setdefault(kind, call.module)
    return changed


def _from_weights(call: AttentionCall) -> Iterator[str]:
    assert call.scores is not None
    assert call.weights is not None
    scores, weights = call.scores.detach().double(), call.weights.detach().double()
    if scores.ndim < 2 or scores.shape[-1] < 2:
        return
    fully_masked = (scores < MASKED).all(-1)
    yield from _classify(weights[fully_masked], scores.shape[-1])


def _from_output(call: AttentionCall) -> Iterator[str]:
    """The result in fused attention, from its mask and output."""
    if call.mask is None or call.output is None or call.v is None:
        return
    mask = call.mask.detach()
    masked = ~mask if mask.dtype == torch.bool else mask.double() < MASKED
    fully_masked = masked.all(-1)
    result, v = call.output.detach().double(), call.v.detach().double()
    fully_masked = fully_masked.expand(result.shape[:-1])
    rows = result[fully_masked]
    if not len(rows):
        return
    mean = v.mean(-2, keepdim=True)
    if mean.shape[:-2] != result.shape[:-2]:
        mean = mean.repeat_interleave(result.shape[1] // mean.shape[1], 1)
    means = mean.expand(result.shape)[fully_masked]
    if bool(torch.isnan(rows).any()):
        yield "nan"
    elif bool((rows == 0).all()):
        yield "zero"
    elif bool(((rows - means).abs() < 1e-9 * v.abs().max()).all()):
        yield "mean"
    else:
        yield "other"


def _classify(weights: Tensor, n: int) -> Iterator[str]:
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


def _consequence(results_here: dict[str, str], nonfinite: str, spreads: bool) -> str:
    if spreads:
        return ", which spreads to tokens that are not masked"
    if "nan" in results_here and not nonfinite:
        return ", repaired before the output"
    return ""
