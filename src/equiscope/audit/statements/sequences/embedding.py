"""Embeddings: one vector for each text does not depend on padding, on the batch or on its order; and what precision does to it.

The sequences of the given batch are the texts; their ranks by cosine are what a search returns. bfloat16 and float16 round, so
their change of cosines and ranks is reported and decides nothing.

An encoder with a tokenizer cuts texts that are longer than its limit. What it keeps has to be the special tokens at both ends, and
between them the beginning of the text. What the cut does to cosines and ranks is reported too.
"""

from dataclasses import replace
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Generator, Tensor
from torch.nn import functional as F

from equiscope.audit.inputs.padding_mask import mask_name, pads_left, read, written
from equiscope.audit.inputs.variations import batched, resampled, sequence
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, verdict_of
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
        if not pads_left(subject):
            return "it pads on the left, which lengths cannot mark: right-padding and batch measure this model"
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
        cut = _truncated(subject, runs, inputs)
        outputs += cut
        errors += [o.error for o in cut if o.decides and o.error is not None]
        decided = [o for o in outputs if o.decides and o.verdict != "undecided"]
        if not decided:
            raise Undecided("; ".join(o.note for o in outputs))
        verdict = max((o.verdict for o in decided), key=SEVERITY.__getitem__)
        wrong = [o.name for o in decided if o.verdict != "holds"]
        note = "; ".join(f"{o.name}: {o.note}" for o in outputs if o.note)
        changes = [name for name in wrong if name != "truncation"]
        causes = [f"the vector depends on: {', '.join(changes)}"] if changes else []
        cause = "; ".join(causes + ["a long text is cut in another place than its end"] * ("truncation" in wrong))
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
    mask = written(subject, name, torch.arange(ids.shape[-1]) < torch.tensor(lengths)[:, None])
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
    name = mask_name(subject)
    kept = read(subject, name, inputs.values[name])[0]
    values = {n: v[:, kept] if isinstance(v, Tensor) and v.shape[-1:] == kept.shape else v for n, v in inputs.values.items()}
    return inputs.with_values(values)


def _padded(inputs: Inputs, extra: int, left: bool, subject: Subject) -> Inputs:
    """More rows of padding; on the left, the tokens of each sequence move to its end."""
    name, pad = mask_name(subject), inputs.extra.get("pad") or 0
    is_token = read(subject, name, inputs.values[name])

    def wider(value: Tensor, fill: int) -> Tensor:
        wide = F.pad(value, (0, extra), value=fill)
        if left:
            wide = torch.stack([row.roll(wide.shape[-1] - int(m.sum())) for row, m in zip(wide, is_token, strict=True)])
        return wide

    values = {
        n: wider(v, pad if inputs.kinds[n] == "ids" else 0)
        for n, v in inputs.values.items()
        if isinstance(v, Tensor) and v.shape[-1] == is_token.shape[-1]
    }
    return inputs.with_values(values | {name: written(subject, name, wider(is_token, 0))})


# --- texts that are longer than the limit
def _truncated(subject: Subject, runs: dict[torch.dtype, Pass], inputs: Inputs) -> list[OutputVerdict]:
    """What an encoder with a tokenizer keeps of a text that is too long, and what the cut changes. Empty for other models."""
    encoder: Any = subject.model
    if not all(hasattr(encoder, name) for name in ("tokens", "limit", "tokenizer")) or encoder.tokenizer is None:
        return []
    whole = Tokenizer.from_str(encoder.tokenizer.to_str())
    whole.no_truncation()
    whole.no_padding()
    texts = _long_texts(whole, inputs, encoder.limit)
    encodings = [whole.encode(text) for text in texts]
    full = [e.ids for e in encodings]
    right = [_cut(e.ids, e.special_tokens_mask, encoder.limit) for e in encodings]
    given = encoder.tokens(texts)
    ids, mask = given["input_ids"], given["attention_mask"].bool()
    cut_ids = [row[keep].tolist() for row, keep in zip(ids, mask, strict=True)]
    run, length = runs[torch.float64], max(map(len, full))
    try:
        expected, found = (_vectors(run, _of_ids(inputs, rows, subject)) for rows in (right, cut_ids))
        error = _distance(expected, found)
    except (ModelError, Undecided) as crash:
        return [OutputVerdict(name="truncation", verdict="undecided", note=str(crash)[:120])]
    if cut_ids == right:
        result = OutputVerdict(name="truncation", verdict="holds", error=error)
    else:
        what = next(_difference(k, r, f) for k, r, f in zip(cut_ids, right, full, strict=True) if k != r)
        result = OutputVerdict(name="truncation", verdict="broken", error=error, note=f"{what}; {_effect(expected, found)}")
    name = "beyond the limit"
    try:
        uncut = _vectors(run, _of_ids(inputs, full, subject))
    except (ModelError, Undecided):
        note = f"texts of {length} tokens are cut at {encoder.limit} without an error; the model takes no more tokens"
        return [result, OutputVerdict(name=name, verdict="undecided", decides=False, note=note)]
    note = f"texts of up to {length} tokens are cut at {encoder.limit} without an error: {_effect(uncut, expected)}"
    cut_error = _distance(uncut, expected)
    return [result, OutputVerdict(name=name, verdict="approximate", error=cut_error, decides=False, note=note)]


def _long_texts(whole: Tokenizer, inputs: Inputs, limit: int) -> list[str]:
    """Each given text, followed by the others, until it has about 1.4 times as many tokens as the limit."""
    ids: Any = next(iter(inputs.of("ids").values()))
    texts = [whole.decode(row.tolist()) or "a" for row in ids]
    found = []
    for number in range(len(texts)):
        text, others = texts[number], [*texts[number + 1 :], *texts[: number + 1]]
        while len(whole.encode(text).ids) <= 1.4 * limit:
            text = " ".join([text, *others])
        words = text.split()
        while len(words) > 1 and len(whole.encode(" ".join(words[: -max(len(words) // 10, 1)])).ids) > 1.2 * limit:
            words = words[: -max(len(words) // 10, 1)]
        found.append(" ".join(words))
    return found


def _cut(ids: list[int], special: list[int], limit: int) -> list[int]:
    """The special tokens at both ends, and between them as many tokens from the beginning as the limit allows."""
    opening = next((i for i, flag in enumerate(special) if not flag), len(ids))
    closing = next((i for i, flag in enumerate(reversed(special)) if not flag), 0)
    end = ids[len(ids) - closing :] if closing else []
    return ids[: max(limit - closing, opening)] + end


def _difference(cut_ids: list[int], right: list[int], full: list[int]) -> str:
    """How what is kept differs from what should be, in words."""
    if len(cut_ids) > len(right):
        return f"a text of {len(full)} tokens keeps {len(cut_ids)} of them, more than the limit of {len(right)}"
    if cut_ids[-1:] != right[-1:] and cut_ids[: len(right) - 1] == right[: len(cut_ids[: len(right) - 1])]:
        return f"a text of {len(full)} tokens is cut with its last special token"
    if len(cut_ids) > 2 and cut_ids[1:-1] == full[-len(cut_ids) + 1 : -1]:
        return f"of a text of {len(full)} tokens the last {len(cut_ids)} are kept, not the first"
    return f"of a text of {len(full)} tokens other {len(cut_ids)} tokens are kept than the first {len(right)}"


def _of_ids(inputs: Inputs, rows: list[list[int]], subject: Subject) -> Inputs:
    """Inputs with these ids, padded on the right."""
    length, pad = max(map(len, rows)), inputs.extra.get("pad") or 0
    ids = torch.tensor([row + [pad] * (length - len(row)) for row in rows])
    name = mask_name(subject)
    mask = written(subject, name, torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None])
    first = next(iter(inputs.of("ids")))
    others = {n: v.new_zeros(ids.shape) for n, v in inputs.values.items() if isinstance(v, Tensor) and n not in (first, name)}
    return inputs.with_values({first: ids, name: mask} | others)


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
