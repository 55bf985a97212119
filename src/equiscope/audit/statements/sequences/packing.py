"""Packing: documents that share a sequence do not attend to one another.

Documents of different lengths are concatenated to avoid padding. The output of each must equal that of the document alone. The
boundaries are given to our models by `Tokens.document`, to other models by an argument of that name, and to transformers by
`position_ids` that restart, which it uses only without a mask, without a cache and with a batch of one.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Pass, Subject, arguments
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import InputKind

DOCUMENTS = ("document", "documents", "document_ids", "document_id", "doc_ids", "doc_id", "segment_ids", "sequence_ids", "seq_ids")
WHOLE = ("attention_mask", "labels")  # arguments about the whole packed sequence


class Packing(Statement):
    """The outputs of every document in a packed sequence equal those of the document alone."""

    name = "packing"
    summary = "documents packed into one sequence do not attend to one another"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "the inputs have no ordered tokens"
        if (subject.inputs.length or 0) < 2:
            return "there is only one token"
        if boundary_mode(subject):
            return ""
        if "position_ids" in arguments(subject.model):
            return "the call has no position_ids, so it cannot mark where a document begins"
        return "the call cannot mark where a document begins: no Tokens, no position_ids, no argument such as document_ids"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        reasons = {
            "tokens": "our masks exclude other documents",
            "argument": "it takes an argument that assigns each token to a document",
        }
        mode = boundary_mode(subject)
        return ("yes", reasons[mode]) if mode in reasons else ("unknown", "")

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        layouts = [([n // 2, n - n // 2], 1), ([n // 2, n - n // 2], 0), ([1, n - 1], 1)]
        if n > 2:
            layouts.insert(0, ([n // 3, n - 2 * (n // 3), n // 3], 1))
        pairs = [packed_pair(run.subject, run.inputs, sizes, which) for sizes, which in layouts[: max(count // 3, 1)]]
        self.remark = self.remark or _remark(run, pairs[0])
        return pairs

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        n = run.inputs.length or 0
        fewer = run.inputs if n == 2 else _slice(run.inputs, 0, 2)
        yield packed_pair(run.subject, fewer, [1, 1], 1)
        yield packed_pair(run.subject, run.inputs, [1, n - 1], 1)
        yield packed_pair(run.subject, run.inputs, [n - 1, 1], 1)

    def cause(self, run: Pass, pair: RunPair, where: str) -> str:
        positions_only = boundary_mode(run.subject) == "position_ids"
        return "a document attends to the others of its sequence" + (
            ": restarting positions do not separate them" if positions_only else ""
        )


def boundary_mode(subject: Subject) -> str:
    """How document boundaries are passed to this model: tokens, argument or position_ids; empty where they cannot be."""
    if subject.inputs.has("tokens"):
        return "tokens"
    if _argument(subject):
        return "argument"
    return "position_ids" if isinstance(subject.inputs.values.get("position_ids"), Tensor) else ""


def packed_pair(subject: Subject, inputs: Inputs, sizes: list[int], which: int) -> RunPair:
    """A packed sequence of documents of these sizes, and one of them alone."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    start, end, n = ends[which] - sizes[which], ends[which], sum(sizes)
    inputs = _slice(inputs if inputs.batch is None else sequence(inputs, 0), 0, n)
    documents = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    steps = torch.arange(n) - (torch.tensor(ends) - torch.tensor(sizes))[documents]
    packed = _with_documents(subject, inputs, documents, steps, inputs)
    first = torch.zeros(end - start, dtype=torch.long)
    alone = _with_documents(subject, _slice(inputs, start, end), first, torch.arange(end - start), inputs)
    text = f"pack documents of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} tokens, and run number {which + 1} alone"
    return RunPair(
        packed, alone, SameRows(slice(start, end), slice(None), (n, end - start)), text, {"sizes": sizes, "document": which}
    )


def _argument(subject: Subject) -> str:
    names = arguments(subject.model)
    return next((n for n in DOCUMENTS if n in names), "")


def _with_documents(subject: Subject, inputs: Inputs, documents: Tensor, steps: Tensor, original_inputs: Inputs) -> Inputs:
    """The inputs with document boundaries in the form that the model takes. The positions of each document start like the given."""
    if boundary_mode(subject) == "tokens":

        def packed(t: Any) -> Any:
            lead = t.x.shape[:-2]
            starts = torch.arange(len(steps)) - steps  # the first row of the document of each token
            device = t.x.device
            begin = next(iter(original_inputs.of("tokens").values())).positions[..., :1, :]
            at = t.positions - t.positions[..., starts.to(device), :] + begin
            return replace(t, positions=at, document=documents.to(device).expand(*lead, -1), counted=None)

        return inputs.each(packed, "tokens")
    main = next(iter(inputs.of("ids", "features").values()))
    lead = main.shape[:-2] if main.is_floating_point() else main.shape[:-1]
    changed: dict[str, Any] = {}
    kinds: dict[str, InputKind] = {}
    positions = original_inputs.values.get("position_ids")
    if isinstance(positions, Tensor) or boundary_mode(subject) == "position_ids":
        start = positions[..., :1] if isinstance(positions, Tensor) else 0
        changed["position_ids"], kinds["position_ids"] = steps.to(main.device).expand(*lead, -1) + start, "position_ids"
    if name := _argument(subject):
        changed[name], kinds[name] = documents.to(main.device).expand(*lead, -1), "flags"
    elif "use_cache" in arguments(subject.model) or hasattr(getattr(subject.model, "config", None), "use_cache"):
        changed["use_cache"], kinds["use_cache"] = False, "other"
    remaining = {n: v for n, v in inputs.values.items() if n not in WHOLE}
    return replace(
        inputs,
        values=remaining | changed,
        kinds=inputs.kinds | kinds,
        positional=tuple(n for n in inputs.positional if n in remaining),
    )


def _remark(run: Pass, pair: RunPair) -> str:
    """A remark on transformers: by default it keeps a cache, and then ignores document boundaries."""
    if "use_cache" not in pair.original.values or not run.high_precision:
        return ""
    with_cache = pair.original.with_values({"use_cache": True})
    try:
        without_cache, cached = run(pair.original), run(with_cache)
    except ModelError:
        return ""
    max_error = max((error(t, cached[n]) for n, t in without_cache.items() if n in cached), default=0.0)
    text = f"with use_cache=True, the default, documents attend to one another ({max_error:.1e}): packing needs use_cache=False"
    return text if max_error > 1e-9 else ""


def _slice(inputs: Inputs, start: int, end: int) -> Inputs:
    """Tokens start .. end - 1, with everything that belongs to them."""
    rows = list(range(start, end))
    kinds: tuple[InputKind, ...] = ("ids", "features", "flags", "position_ids", "coordinates")

    def cut(t: Any) -> Any:
        flags = {n: f[..., start:end] for n in ("order", "document", "valid") if (f := getattr(t, n)) is not None}
        return replace(t, x=t.x[..., start:end, :], positions=t.positions[..., start:end, :], counted=None, **flags)

    return inputs.rows(rows, kinds).each(cut, "tokens")


__all__ = ["Packing"]
