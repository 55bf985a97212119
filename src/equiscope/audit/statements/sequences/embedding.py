"""Embeddings: one vector for each text does not depend on padding, on the batch or on its order; and what precision does to it.

The sequences of the given batch are the texts; their ranks by cosine are what a search returns. bfloat16 and float16 round, so
their change of cosines and ranks is reported and decides nothing.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from equiscope.audit.inputs.variations import batched, resampled, sequence
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, verdict_of
from equiscope.audit.statements.sequences.padding import mask_name
from equiscope.audit.subject import ModelError, Pass, Subject, copy_in_dtype
from equiscope.audit.verdict import SEVERITY
from equiscope.record import OutputVerdict, Row
from equiscope.symmetry import Inputs

TEXTS = 6  # sequences, where fewer are given
CHANGES = ("right padding", "left padding", "longer padding", "alone", "order")


class EmbeddingVectors(MeasuredProperty):
    """The vector of a text is the same however it is padded and batched."""

    name = "embedding"
    summary = "the vector of a text does not depend on padding, batch and order"
    by_default = False

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("ids") or not mask_name(subject):
            return "the model takes no ids with a padding mask"
        return "" if subject.inputs.batch is not None else "the inputs have no batch axis"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        inputs = _texts(subject)
        runs = {dtype: _run(subject, dtype, inputs) for dtype in (torch.float64, torch.float32)}
        plain = {dtype: _vectors(run, inputs) for dtype, run in runs.items()}
        floor = _distance(plain[torch.float64], plain[torch.float32])
        outputs, errors = [], []
        for change in CHANGES:
            try:
                changed = {dtype: _changed(run, inputs, change) for dtype, run in runs.items()}
            except ModelError as crash:
                outputs.append(OutputVerdict(name=change, verdict="undecided", note=str(crash)[:120]))
                continue
            high, low = (_distance(plain[dtype], changed[dtype]) for dtype in (torch.float64, torch.float32))
            verdict = verdict_of([high], [low], floor, tolerance)
            note = "" if verdict == "holds" else _effect(plain[torch.float64], changed[torch.float64])
            outputs.append(OutputVerdict(name=change, verdict=verdict, error=high, note=note))
            errors.append(high)
        for dtype in (torch.bfloat16, torch.float16):
            try:
                vectors = _vectors(_run(subject, dtype, inputs), inputs)
            except ModelError as crash:
                outputs.append(OutputVerdict(name=_name(dtype), verdict="undecided", decides=False, note=str(crash)[:120]))
                continue
            exact = plain[torch.float64]
            outputs.append(
                OutputVerdict(
                    name=_name(dtype), verdict="approximate", error=_distance(exact, vectors), decides=False,
                    note=_effect(exact, vectors),
                )
            )  # fmt: skip
        decided = [o for o in outputs if o.decides and o.verdict != "undecided"]
        if not decided:
            raise Undecided("; ".join(o.note for o in outputs))
        verdict = max((o.verdict for o in decided), key=SEVERITY.__getitem__)
        wrong = [o.name for o in decided if o.verdict != "holds"]
        note = "; ".join(f"{o.name}: {o.note}" for o in outputs if o.note)
        cause = f"the vector depends on: {', '.join(wrong)}" if wrong else ""
        return self.row(verdict, errors, cause=cause, note=note, outputs=outputs)


def _texts(subject: Subject) -> Inputs:
    """The given sequences, with more of other ids and lengths where there are few."""
    name, generator = mask_name(subject), Generator().manual_seed(subject.seed + 31)
    inputs = subject.inputs
    if (inputs.batch or 0) < TEXTS:
        one = sequence(inputs, 0)
        inputs = batched(*(sequence(inputs, n) for n in range(inputs.batch or 1)),
                         *(resampled(one, generator) for _ in range(TEXTS - (inputs.batch or 1))))  # fmt: skip
    if name in inputs.values:
        return inputs
    ids: Any = next(iter(inputs.of("ids").values()))
    lengths = [max(ids.shape[-1] - row % 3, 1) for row in range(len(ids))]
    mask = (torch.arange(ids.shape[-1]) < torch.tensor(lengths)[:, None]).long()
    return replace(inputs, values=inputs.values | {name: mask}, kinds=inputs.kinds | {name: "flags"})


def _run(subject: Subject, dtype: torch.dtype, inputs: Inputs) -> Pass:
    other = subject.like(copy_in_dtype(subject.model, dtype), inputs)
    other.dtype = dtype
    return Pass(other, dtype, False)


def _vectors(run: Pass, inputs: Inputs) -> Tensor:
    found = run.outputs_of(lambda model: inputs.call(model))
    vectors = next((t for t in found.values() if t.ndim == 2 and len(t) == inputs.batch), None)
    if vectors is None:
        shapes = [list(t.shape) for t in found.values()]
        raise Undecided(f"no output has one vector for each sequence: shapes {shapes}")
    return vectors


def _changed(run: Pass, inputs: Inputs, change: str) -> Tensor:
    size = inputs.batch or 0
    if change == "alone":
        return torch.cat([_vectors(run, _trimmed(sequence(inputs, n), run.subject)) for n in range(size)])
    if change == "order":
        order = list(reversed(range(size)))
        return _vectors(run, batched(*(sequence(inputs, n) for n in order))).flip(0)
    extra = {"right padding": 3, "left padding": 3, "longer padding": inputs.length or 1}[change]
    return _vectors(run, _padded(inputs, extra, change == "left padding", run.subject))


def _trimmed(inputs: Inputs, subject: Subject) -> Inputs:
    """One sequence without its padding."""
    mask: Any = inputs.values[mask_name(subject)]
    kept = mask[0].bool()
    values = {n: v[:, kept] if isinstance(v, Tensor) and v.shape[-1:] == kept.shape else v for n, v in inputs.values.items()}
    return inputs.with_values(values)


def _padded(inputs: Inputs, extra: int, left: bool, subject: Subject) -> Inputs:
    """More rows of padding; on the left, the tokens of each sequence move to its end."""
    name, pad = mask_name(subject), inputs.extra.get("pad") or 0
    mask: Any = inputs.values[name]
    values = {}
    for n, v in inputs.values.items():
        if not isinstance(v, Tensor) or v.shape[-1] != mask.shape[-1]:
            values[n] = v
            continue
        fill = pad if inputs.kinds[n] == "ids" else 0
        wide = F.pad(v, (0, extra), value=fill)
        if left:
            wide = torch.stack([row.roll(wide.shape[-1] - int(m.sum())) for row, m in zip(wide, mask, strict=True)])
        values[n] = wide
    return inputs.with_values(values)


def _distance(a: Tensor, b: Tensor) -> float:
    """The largest relative difference of a vector."""
    return float(((a - b).norm(dim=-1) / a.norm(dim=-1).clamp(min=1e-300)).max()) if a.shape == b.shape else float("inf")


def _effect(a: Tensor, b: Tensor) -> str:
    """What a change does to the cosines and the ranks of a search with each text among the others."""
    one, other = (F.normalize(t, dim=-1) @ F.normalize(t, dim=-1).mT for t in (a, b))
    apart = ~torch.eye(len(a), dtype=torch.bool)
    ranks = [s.masked_fill(~apart, -2).argsort(-1, descending=True) for s in (one, other)]
    first = int((ranks[0][:, 0] != ranks[1][:, 0]).sum())
    moved = int((ranks[0] != ranks[1]).any(-1).sum())
    change = float((one - other)[apart].abs().max())
    return f"cosines change by up to {change:.1e}; of {len(a)} searches, {moved} change their order and {first} their first"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
