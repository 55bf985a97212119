"""Heads: the page of every attention of a model on one input. `program.attended` measures; this file writes the record."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from equiscope import record
from equiscope.errors import InputError, counted
from equiscope.explore.heads import rollout
from equiscope.explore.heads.compact import compact as smallest
from equiscope.explore.heads.interventions import HeadsInterventions
from equiscope.explore.heads.model_inputs import LabelledInputs
from equiscope.explore.heads.predictions import PredictionReader, predictions
from equiscope.explore.heads.rerun import parse_request, permuted_labels, rerun, rerun_inputs, rerun_support, rounding_floors
from equiscope.explore.heads.rollout import rollout_stacks
from equiscope.explore.heads.side_by_side import pair_layers, side_by_side, unpaired_notes
from equiscope.program.attended.attended import TRUSTED, Attended, attended, with_reconstruction_error
from equiscope.program.attended.position_tables import position_tables
from equiscope.program.attended.survey import survey
from equiscope.record import AttentionLayer, AttentionTensors, HeadStatistics, TokenSequence, pack
from equiscope.record.heads import CrossAlignment

RUNS = 4  # reruns that are stored
EVERY = "Leave out --compact for every number, or --export where that is too much for a file."
CROSS = re.compile(r"cross|encdec|encoder_attn|enc_attn", re.IGNORECASE)
DECODER = re.compile(r"(^|\.)(decoder|cross)|^blocks")  # modules of the decoder in an encoder-decoder
UNTRAINED = "This model is not trained: its weights are random. For learned heads, give a trained one, such as --model characters."
NOUNS = {"words": "tokens"}  # a word may be several tokens
DOES = {
    "previous": "attend to the previous token", "self": "attend to the token itself", "first": "attend to the first token",
    "content": "attend by content", "uniform": "attend almost uniformly", "mixed": "are mixed",
}  # fmt: skip


class HeadsPage:
    """All heads of a model on one input: the page as one file, or served, where the page requests the tensors of single heads.

    content     the record of the page; attentions: of its layers
    interventions  answers what the page asks after a change of the model
    candidates  sequences that a caller offers; sequences: those that attentions have, by their length
    """

    aligned_weights = 2**17  # of a cross alignment that are stored: half a megabyte
    float32_bytes = 12_000_000  # of queries, keys and values up to which a file stores them in float32
    float16_bytes = 96_000_000  # up to which a file stores them at all, in float16
    rollout_tokens = 256  # up to which a rollout is computed at once and stored in a file
    longest_rollout = 2048  # tokens up to which it is computed at all

    def __init__(
        self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], sequences: Sequence[TokenSequence], title: str,
        target: str, notes: Sequence[str] = (), reader: PredictionReader | None = None, warning: str = "",
    ) -> None:  # fmt: skip
        """sequences: labels for rows of the same length; other rows are numbered. reader: of the output; None: no predictions.

        warning  what the summary says first, such as `UNTRAINED` of random weights

        raises  InputError where no attention is found
        """
        outputs = list[Any]()
        self.attentions = attended(model, args, kwargs, compare=False, on_output=outputs.append)
        self.candidates, self.sequences, self.notes, self._reader = list(sequences), list[TokenSequence](), list(notes), reader
        self._lock = Lock()
        layers = [self._layer(one) for one in self.attentions]
        grids = [(one.prefix_tokens, one.grid) for one in self.sequences if one.grid]
        weights = [p for p in model.parameters() if p.is_floating_point()]
        self.content = record.Heads(
            title=title, summary="", target=target, model=type(model).__name__,
            parameters=sum(p.numel() for p in model.parameters()),
            dtype=str(weights[0].dtype).removeprefix("torch.") if weights else "float32",
            sequences=self.sequences, layers=layers, position_tables=list(position_tables(model, grids)),
            notes=self.notes, served=True,
            predictions=predictions(outputs.pop(), reader, self.sequences, layers[-1].query_sequence),
            cross_alignments=cross_alignments(layers, self.attentions, self.sequences, self.aligned_weights),
        )  # fmt: skip
        self.content = msgspec.structs.replace(
            self.content, summary=f"{warning} ".lstrip() + _summary(self.content, self.attentions)
        )
        self.interventions = HeadsInterventions(
            model, args, kwargs, self.attentions, self.sequences, layers[-1].query_sequence, reader, self.content.predictions
        )
        self.content = msgspec.structs.replace(self.content, interventions=self.interventions.options)
        self.other: HeadsPage | None = None
        self.partners = list[int | None]()
        self._called: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] = model, tuple(args), dict(kwargs)
        self._support = rerun_support(model, args, kwargs, self.sequences)
        self.content = msgspec.structs.replace(self.content, rerun_options=self._support.options)
        self._stacks, self._rollouts = rollout_stacks(layers, self.attentions, self.longest_rollout), dict[int, Attended]()
        rollouts = [self._rollout_layer(i) for i in range(len(self._stacks))]
        self.content = msgspec.structs.replace(self.content, rollout=rollouts)
        self._floors = list[float]()
        self._runs, self._running = dict[int, HeadsPage](), Lock()  # reruns by number; one runs at a time

    def set_second_input(self, read: Callable[[str], LabelledInputs], choices: Sequence[str] = ()) -> None:
        """Let the page take values from a second input. read: makes it from a text, or from one of the choices."""
        self.interventions.read, self.interventions.choices = read, list(choices)
        self.content = msgspec.structs.replace(self.content, interventions=self.interventions.options)

    def set_side_by_side(self, other: "HeadsPage", names: Sequence[str]) -> None:
        """Compare with another model on the same input. Raises InputError where no layers can be paired."""
        self.other, self.partners = other, pair_layers(self.content, other.content)
        theirs = side_by_side(self.content, other.content, self.partners, self.attentions, other.attentions, names)
        self.notes += unpaired_notes(self.content, other.content, self.partners)
        self.content = msgspec.structs.replace(self.content, side_by_side=theirs, notes=self.notes)

    def file(self, compact: bool = False) -> record.Heads:
        """The record of an offline file, with all tensors that fit. compact: rounded tensors, with a bound on the error."""
        if compact:
            return self._compact()
        size = sum(t.numel() for one in self.attentions for t in (one.q, one.k, one.v) if t is not None) * 4
        layers, notes = [], list(self.notes)
        if size > self.float16_bytes:
            notes.append(
                f"Queries, keys and values of all heads would be {size / 2e6:.0f} MB, so this file has the overview only. "
                "Leave out --export for every number; --compact rounds them, so that more of them fit."
            )
        for layer, one in zip(self.content.layers, self.attentions, strict=True):
            stored = one if size <= self.float32_bytes else _half(one)
            tensors = None if size > self.float16_bytes else _tensors(stored, range(one.heads), half=size > self.float32_bytes)
            reason = layer.reason if size <= self.float16_bytes else "The file would be too large: see the note above."
            layers.append(
                msgspec.structs.replace(
                    layer, tensors=tensors, reconstruction_error=stored.reconstruction_error, reason=reason
                )
            )  # fmt: skip
        if self.float32_bytes < size <= self.float16_bytes:
            notes.append("This file stores queries, keys and values as float16.")
        return msgspec.structs.replace(
            self.content, layers=layers, notes=notes, served=False, side_by_side=self._file_side_by_side(),
            rollout=self._file_rollout(), interventions=self.interventions.options,
        )  # fmt: skip

    def _compact(self) -> record.Heads:
        """Thumbnails are left out where the page can compute them, and statistics have four decimals."""
        layers, notes = [], list(self.notes)
        for layer, one in zip(self.content.layers, self.attentions, strict=True):
            tensors = smallest(one, self.float16_bytes / len(self.attentions))
            layers.append(
                msgspec.structs.replace(
                    layer, tensors=tensors, heads=[_short(h) for h in layer.heads],
                    thumbnail="" if tensors is not None and tensors.encoded_weights else layer.thumbnail,
                    reason=layer.reason if tensors is not None else "Even rounded the file would be too large: overview only.",
                )
            )  # fmt: skip
        stored = [layer.tensors for layer in layers if layer.tensors is not None]
        if stored:
            parts = [
                "weights alone" if any(n.encoded_weights for n in stored) else "",
                "queries and keys" if any(n.q is not None for n in stored) else "",
            ]
            notes.append(
                f"This file is compact: it has {' or '.join(filter(None, parts))}, rounded, so weights may be off by "
                f"{100 * max(n.relative_error for n in stored):.2g} % of themselves. {EVERY}"
            )
        return msgspec.structs.replace(
            self.content, layers=layers, notes=notes, served=False, side_by_side=self._file_side_by_side(compact=True), rollout=[],
            interventions=self.interventions.options,
        )  # fmt: skip

    def _file_side_by_side(self, compact: bool = False) -> record.SideBySide | None:
        if self.other is None or self.content.side_by_side is None:
            return None
        theirs = self.other.file(compact).layers
        filled = [
            None
            if layer is None or n is None
            else msgspec.structs.replace(theirs[n], query_sequence=layer.query_sequence, key_sequence=layer.key_sequence)
            for n, layer in zip(self.partners, self.content.side_by_side.layers, strict=True)
        ]
        return msgspec.structs.replace(self.content.side_by_side, layers=filled)

    def answer_head(self, query: Mapping[str, str]) -> bytes:
        """The response to /head?layer=L&head=H: the tensors of one head; with of=side_by_side, of the other model's head.

        raises  InputError where there is no such head
        """
        words = [query.get(name, "") for name in ("layer", "head")]
        if not all(re.fullmatch(r"[0-9]{1,6}", word) for word in words):
            raise InputError("Request /head?layer=L&head=H, two numbers from 0 on.")
        if query.get("run", "0") != "0":
            return self._run(query["run"]).answer_head({"layer": words[0], "head": words[1]})
        layer, head = (int(word) for word in words)
        if len(self.attentions) <= layer < len(self.attentions) + len(self._stacks) and head < 2:
            return msgspec.json.encode(rollout.rollout_tensors(self._rollout(layer - len(self.attentions)), [head]))
        if layer >= len(self.attentions) or head >= self.attentions[layer].heads:
            raise InputError(f"There are {len(self.attentions)} layers here, and no head {head} in layer {layer}.")
        if query.get("of") == "side_by_side":
            partner = self.partners[layer] if self.other is not None else None
            if self.other is None or partner is None:
                raise InputError(f"No layer of another model is compared with layer {layer}.")
            return self.other.answer_head({"layer": str(partner), "head": str(head)})
        with self._lock:
            return msgspec.json.encode(_tensors(self.attentions[layer], [head]))

    def answer_rerun(self, query: Mapping[str, str]) -> bytes:
        """The response to /rerun?order=2,0,1&offset=100: the heads of another run, on the tokens permuted and shifted.

        raises  InputError for an invalid request, and for one that this model cannot run
        """
        order, offset = parse_request(query, self._support)
        model, args, kwargs = self._called
        with self._running:
            arguments = rerun_inputs(model, args, kwargs, self._support, order, offset)
            candidates = permuted_labels(self.candidates, self.sequences[self._support.sequence], order)
            page = HeadsPage(
                model, *arguments, candidates, self.content.title, self.content.target, self.content.notes, self._reader
            )  # fmt: skip
            number = max(self._runs, default=0) + 1
            self._floors = self._floors or rounding_floors(*self._called, self.attentions)
            changes = rerun(
                number, self.attentions, page.attentions, self.content.layers, self._floors, self._support, order, offset
            )  # fmt: skip
            page.content = msgspec.structs.replace(
                page.content, rerun=changes, rerun_options=self._support.options, interventions=None
            )
            self._runs[number] = page
            for old in list(self._runs)[:-RUNS]:
                del self._runs[old]
        return msgspec.json.encode(page.content)

    def _rollout(self, stack: int) -> Attended:
        """The rollout of a stack, computed when it is first requested."""
        with self._lock:
            if stack not in self._rollouts:
                self._rollouts[stack] = rollout.rollout_attention([self.attentions[i] for i in self._stacks[stack]])
            return self._rollouts[stack]

    def _rollout_layer(self, stack: int) -> AttentionLayer:
        first, count = self._stacks[stack][0], len(self._stacks[stack])
        short = self.attentions[first].q.shape[-2] <= self.rollout_tokens
        return rollout.rollout_layer(self.content.layers[first].query_sequence, count, self._rollout(stack) if short else None)

    def _file_rollout(self) -> list[AttentionLayer]:
        return [
            msgspec.structs.replace(
                layer, tensors=rollout.rollout_tensors(self._rollouts[i], range(2)) if i in self._rollouts else None
            )
            for i, layer in enumerate(self.content.rollout)
        ]  # fmt: skip

    def _run(self, number: str) -> "HeadsPage":
        page = self._runs.get(int(number)) if re.fullmatch(r"[0-9]{1,9}", number) else None
        if page is None:
            raise InputError(f"Run {number} is no longer stored: only the last {RUNS} are. Run it again.")
        return page

    def _layer(self, one: Attended) -> AttentionLayer:
        n, m = one.q.shape[-2], one.k.shape[-2]
        cross = bool(CROSS.search(one.module)) or n != m
        queries, keys = self._sequence(one.module, n, "queries"), self._sequence(one.module, m, "keys" if cross else "queries")
        statistics = survey(one, not cross)
        return AttentionLayer(
            where=one.module, cross=cross, query_sequence=queries, key_sequence=keys, kv_heads=len(one.k), heads=statistics.heads,
            thumbnail=b64encode(statistics.thumbnails).decode("ascii"), thumbnail_side=statistics.thumbnail_side,
            reconstruction_error=one.reconstruction_error, reason=_reason(one),
        )  # fmt: skip

    def _sequence(self, module: str, length: int, role: str) -> int:
        """The index of the sequence of this length; where several have it, the module's name or the role decides."""
        fits = [one for one in self.candidates if len(one.labels) == length]
        if not fits:
            sequence = TokenSequence(name=f"{length} tokens", kind="tokens", labels=[str(i) for i in range(length)])
            self.candidates.append(sequence)
        elif len(fits) == 1 or role == "keys" or not DECODER.search(module):
            sequence = fits[0]
        else:
            sequence = fits[-1]
        if sequence not in self.sequences:
            self.sequences.append(sequence)
        return self.sequences.index(sequence)


def _tensors(one: Attended, heads: Sequence[int], half: bool = False) -> AttentionTensors:
    """The tensors behind the weights of these heads. half: queries, keys and values in float16."""
    groups = len(one.k)
    whole = len(heads) == one.heads
    keys = list(range(groups)) if whole else [h * groups // one.heads for h in heads]
    queries = list(heads)

    def shared(table: Tensor | None) -> record.Array | None:
        return None if table is None else pack((table if len(table) == 1 or whole else table[queries]).numpy())

    def packed(table: Tensor | None, rows: list[int]) -> record.Array | None:
        if table is None:
            return None
        part = table[rows]
        wide = part if part.dtype in (torch.float32, torch.float64) else part.float()
        return pack((wide.half() if half else wide).numpy())

    weights = one.weights if not one.trusted else None
    return AttentionTensors(
        scale=one.scale, causal=one.causal, cap=one.cap, q=packed(one.q, queries), k=packed(one.k, keys), v=packed(one.v, keys),
        bias=shared(one.bias), mask=shared(one.mask), sink=None if one.sink is None else pack(one.sink[queries].float().numpy()),
        weights=None if weights is None else pack(weights[queries].float().numpy()),
    )  # fmt: skip


def _short(head: HeadStatistics) -> HeadStatistics:
    """With four decimals."""
    figures = {name: getattr(head, name) for name in head.__struct_fields__ if name != "role"}
    return HeadStatistics(role=head.role, **{name: None if x is None else round(x, 4) for name, x in figures.items()})


def _half(one: Attended) -> Attended:
    """The same attention with q, k and v rounded to float16, and its reconstruction error."""
    rounded = {name: t.half().to(t.dtype) for name in ("q", "k", "v") if (t := getattr(one, name)) is not None}
    return with_reconstruction_error(replace(one, **rounded))


def _reason(one: Attended) -> str:
    reasons = []
    if one.instances > 1:
        reasons.append(f"It runs on {one.instances} windows or sequences separately; this is the first.")
    if one.reconstruction_error is None:
        reasons.append("The product of weights and values was not found, so the weights could not be compared with it.")
    elif not one.trusted and one.weights is not None:
        reasons.append("These are the weights that the model computed: they cannot be recomputed from its queries and keys.")
    elif not one.trusted:
        reasons.append(
            f"With the recomputed weights the output differs from the model's by more than {TRUSTED:g} of it: do not trust them."
        )
    return " ".join(reasons)


def _summary(content: record.Heads, attentions: Sequence[Attended]) -> str:
    roles = Counter(h.role for layer in content.layers for h in layer.heads)
    heads, sequence = sum(roles.values()), content.sequences[content.layers[0].query_sequence]
    does = {role: text.replace("attend ", "attends ").replace("are ", "is ") for role, text in DOES.items()}
    counts = [f"{'all' if count == heads else count} {(does if count == 1 else DOES)[role]}" for role, count in roles.most_common()]
    listed = counts[0] if len(counts) == 1 else f"{', '.join(counts[:-1])} and {counts[-1]}"
    errors = [one.reconstruction_error for one in attentions if one.reconstruction_error is not None]
    exact = f" With weights recomputed from Q and K, the relative error of the outputs is {max(errors):.0e}." if errors else ""
    length = f"{len(sequence.labels)} {NOUNS.get(sequence.kind, sequence.kind)}"
    layers = counted(len(content.layers), "attention layer")
    return f"{heads} heads in {layers}, {length}. {listed[:1].upper()}{listed[1:]}.{exact}"


def cross_alignments(
    layers: Sequence[AttentionLayer], attentions: Sequence[Attended], sequences: Sequence[TokenSequence], most: int
) -> list[CrossAlignment]:
    """One for each two sequences of words of which one attends to the other. attentions: of the layers; most: weights stored."""
    pairs = dict.fromkeys(
        (layer.query_sequence, layer.key_sequence) for layer in layers if layer.cross and layer.query_sequence != layer.key_sequence
    )  # fmt: skip
    alignments = []
    for queries, keys in pairs:
        if not all(sequences[i].kind in ("words", "tokens") for i in (queries, keys)):
            continue
        own = [i for i, layer in enumerate(layers) if (layer.query_sequence, layer.key_sequence) == (queries, keys) and layer.cross]
        size = len(own) * len(sequences[queries].labels) * len(sequences[keys].labels)
        weights = None
        if size <= most and all(attentions[i].instances == 1 for i in own):
            means = [torch.stack([attentions[i].best_weights(head) for head in range(attentions[i].heads)]).mean(0) for i in own]
            weights = pack(torch.stack(means).float().numpy())
        alignments.append(CrossAlignment(query_sequence=queries, key_sequence=keys, layers=own, weights=weights))
    return alignments
