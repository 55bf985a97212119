"""Packing: documents that share a row do not see one another.

Texts of different lengths are laid end to end to waste no padding. Each then has to get what it gets alone. A row says where
a document begins: our Tokens by `document`, other models by an argument of that name, transformers by `position_ids` that
begin again, which it looks at only without a mask, without a cache and with one row.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import RunPair, SameRows, error
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Crashed, Pass, Subject, arguments
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import InputKind

DOCUMENTS = ("document", "documents", "document_ids", "document_id", "doc_ids", "doc_id", "segment_ids", "sequence_ids", "seq_ids")
WHOLE = ("attention_mask", "labels")  # what would speak of the whole row


class Packing(Statement):
    """Every document of a packed row equals that document alone."""

    name = "packing"
    summary = "documents that share a row do not see one another"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features"):
            return "there are no tokens in an order"
        if (subject.inputs.length or 0) < 2:
            return "there is one token only"
        if way(subject):
            return ""
        if "position_ids" in arguments(subject.model):
            return "the model is given no position_ids, so a row cannot say where a document begins"
        return "a row cannot say where a document begins: no Tokens, no position_ids, no argument such as document_ids"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        said = {
            "tokens": "our masks hide other documents",
            "argument": "it takes an argument that says which token is of which document",
        }
        found = way(subject)
        return ("yes", said[found]) if found in said else ("unknown", "")

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        ways = [([n // 2, n - n // 2], 1), ([n // 2, n - n // 2], 0), ([1, n - 1], 1)]
        if n > 2:
            ways.insert(0, ([n // 3, n - 2 * (n // 3), n // 3], 1))
        made = [pair(run.subject, run.inputs, sizes, one) for sizes, one in ways[: max(count // 3, 1)]]
        self.remark = self.remark or _remark(run, made[0])
        return made

    def simpler(self, run: Pass, pair_: RunPair) -> Iterator[RunPair]:
        n = run.inputs.length or 0
        fewer = run.inputs if n == 2 else _part(run.inputs, 0, 2)
        yield pair(run.subject, fewer, [1, 1], 1)
        yield pair(run.subject, run.inputs, [1, n - 1], 1)
        yield pair(run.subject, run.inputs, [n - 1, 1], 1)

    def cause(self, run: Pass, pair_: RunPair, where: str) -> str:
        deaf = way(run.subject) == "position_ids"
        return "a document sees the others of its row" + (": places that begin again do not part them" if deaf else "")


def way(subject: Subject) -> str:
    """How this model is told where documents begin: tokens, argument, places; empty where it cannot be."""
    if subject.inputs.has("tokens"):
        return "tokens"
    if _argument(subject):
        return "argument"
    return "position_ids" if isinstance(subject.inputs.values.get("position_ids"), Tensor) else ""


def pair(subject: Subject, inputs: Inputs, sizes: list[int], one: int) -> RunPair:
    """A packed row of documents of these sizes, and one of them alone."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    start, end, n = ends[one] - sizes[one], ends[one], sum(sizes)
    inputs = _part(inputs if inputs.batch is None else sequence(inputs, 0), 0, n)
    numbers = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    steps = torch.arange(n) - (torch.tensor(ends) - torch.tensor(sizes))[numbers]
    packed = _told(subject, inputs, numbers, steps, inputs)
    first = torch.zeros(end - start, dtype=torch.long)
    alone = _told(subject, _part(inputs, start, end), first, torch.arange(end - start), inputs)
    text = f"pack documents of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} tokens, and read number {one + 1} alone"
    return RunPair(
        packed, alone, SameRows(slice(start, end), slice(None), (n, end - start)), text, {"sizes": sizes, "document": one}
    )


def _argument(subject: Subject) -> str:
    taken = arguments(subject.model)
    return next((n for n in DOCUMENTS if n in taken), "")


def _told(subject: Subject, inputs: Inputs, numbers: Tensor, steps: Tensor, given: Inputs) -> Inputs:
    """Where documents begin, said in the model's own way; the places of each begin where those that were given do."""
    if way(subject) == "tokens":

        def packed(t: Any) -> Any:
            lead = t.x.shape[:-2]
            starts = torch.arange(len(steps)) - steps  # the row at which the document of each token begins
            device = t.x.device
            begin = next(iter(given.of("tokens").values())).positions[..., :1, :]
            at = t.positions - t.positions[..., starts.to(device), :] + begin
            return replace(t, positions=at, document=numbers.to(device).expand(*lead, -1), counted=None)

        return inputs.each(packed, "tokens")
    main = next(iter(inputs.of("ids", "features").values()))
    lead = main.shape[:-2] if main.is_floating_point() else main.shape[:-1]
    changed: dict[str, Any] = {}
    kinds: dict[str, InputKind] = {}
    places = given.values.get("position_ids")
    if isinstance(places, Tensor) or way(subject) == "position_ids":
        start = places[..., :1] if isinstance(places, Tensor) else 0
        changed["position_ids"], kinds["position_ids"] = steps.to(main.device).expand(*lead, -1) + start, "position_ids"
    if name := _argument(subject):
        changed[name], kinds[name] = numbers.to(main.device).expand(*lead, -1), "flags"
    elif "use_cache" in arguments(subject.model) or hasattr(getattr(subject.model, "config", None), "use_cache"):
        changed["use_cache"], kinds["use_cache"] = False, "other"
    left = {n: v for n, v in inputs.values.items() if n not in WHOLE}
    return replace(
        inputs, values=left | changed, kinds=inputs.kinds | kinds, positional=tuple(n for n in inputs.positional if n in left)
    )


def _remark(run: Pass, pair_: RunPair) -> str:
    """transformers keeps a cache unless it is told not to, and then looks for no documents."""
    if "use_cache" not in pair_.original.values or not run.high_precision:
        return ""
    kept = pair_.original.with_values({"use_cache": True})
    try:
        original, careless = run(pair_.original), run(kept)
    except Crashed:
        return ""
    off = max((error(t, careless[n]) for n, t in original.items() if n in careless), default=0.0)
    text = f"with use_cache=True, the default, documents see one another ({off:.1e}): packed rows need use_cache=False"
    return text if off > 1e-9 else ""


def _part(inputs: Inputs, start: int, end: int) -> Inputs:
    """Tokens start .. end - 1, with everything that goes with them."""
    rows = list(range(start, end))
    kinds: tuple[InputKind, ...] = ("ids", "features", "flags", "position_ids", "coordinates")

    def cut(t: Any) -> Any:
        flags = {n: f[..., start:end] for n in ("order", "document", "valid") if (f := getattr(t, n)) is not None}
        return replace(t, x=t.x[..., start:end, :], positions=t.positions[..., start:end, :], counted=None, **flags)

    return inputs.rows(rows, kinds).each(cut, "tokens")


__all__ = ["Packing"]
