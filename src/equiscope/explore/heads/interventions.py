"""Interventions: what a served page of heads asks of the model. `equiscope.interventions` computes every number of a response."""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from equiscope.errors import InputError, wrong_choice
from equiscope.explore.heads.model_inputs import LabelledInputs
from equiscope.explore.heads.predictions import MOST, PredictionReader
from equiscope.interventions import Change, Effect, Experiment, Move, Site, head, log_probability, move, stream
from equiscope.interventions.sites import OF_HEADS as QUANTITIES
from equiscope.program.attended.attended import Attended
from equiscope.record import TokenSequence
from equiscope.record.heads import Predictions
from equiscope.record.interventions import (
    AnswerKind,
    AnswerRow,
    By,
    InterventionEffect,
    InterventionOptions,
    RankedHeads,
    SecondInput,
)

CHANGES = 40  # in one request
STORED = 200  # effects and rankings that are kept for a file
LITERAL = 2000  # numbers of a tensor that is written out in the text in front of the plain torch
CHANGE = re.compile(r"([a-z]+)_([a-z]+)(?:_([0-9.]*))?(?:_([0-9.]*))?(?:_(-?[0-9][0-9.e+-]*))?")
USAGE = "Request /effect?changes=zero_output_2.3,cut_weights_2.3_7.1&after=9; the record's documentation lists the changes."
BY: tuple[By, ...] = ("zero", "mean", "patch")
OF_HEADS = {"zero": ("output", "q", "k", "v"), "mean": ("output",), "scale": ("output", "q", "k", "v"), "freeze": ("weights",)}


class HeadsInterventions:
    """A model on one input, and a second one, which answers the page.

    read     makes the second input from a text, or from one of `choices`; None: there is no second input
    model_lines  lines that make `model`, for the text in plain torch
    """

    def __init__(
        self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], attentions: Sequence[Attended],
        sequences: Sequence[TokenSequence], last: int, reader: PredictionReader | None, predictions: Predictions | None,
    ) -> None:  # fmt: skip
        """last: index of the sequence of the last attention's queries. predictions: those on the page."""
        self._model, self._inputs = model, _one_input(model, args, kwargs)
        self._attentions, self._sequences, self._reader = attentions, sequences, reader
        self.kind: AnswerKind = "vector" if predictions is None else predictions.kind
        self.sequence = last if predictions is None or predictions.kind == "class" else predictions.sequence
        self.read: Callable[[str], LabelledInputs] | None = None
        self.choices = list[str]()
        self.model_lines = f"# model: your {type(model).__name__}, in evaluation mode\n"
        self._experiment: Experiment | None = None
        self._rankings = dict[tuple[str, int, int, str], Experiment]()
        self._second = dict[str, tuple[LabelledInputs, Any, Tensor]]()
        self._effects = dict[tuple[tuple[str, ...], int, str], InterventionEffect]()
        self._rankings_of_layers = dict[tuple[str, int, int, int, str], RankedHeads]()

    @property
    def options(self) -> InterventionOptions:
        """What the page may request, and what was computed so far."""
        return InterventionOptions(
            answer=self.kind, sequence=self.sequence,
            second="none" if self.read is None else "choice" if self.choices else "text", choices=self.choices,
            effects=list(self._effects.values()), rankings=list(self._rankings_of_layers.values()),
        )  # fmt: skip

    def answer_effect(self, query: Mapping[str, str]) -> bytes:
        """The response to /effect?changes=C,C&after=N&second=S: an `InterventionEffect`.

        raises  InputError for an invalid request, and for a change that this model does not take
        """
        texts = [text for text in query.get("changes", "").split(",") if text]
        if len(texts) > CHANGES:
            raise InputError(f"A request has at most {CHANGES} changes, but this one has {len(texts)}.")
        after, other = self._after(query), query.get("second", "")
        key = (tuple(texts), after, other)
        if key not in self._effects:
            self._effects[key] = self._effect(texts, after, other)
            for old in list(self._effects)[:-STORED]:
                del self._effects[old]
        return msgspec.json.encode(self._effects[key])

    def answer_rank(self, query: Mapping[str, str]) -> bytes:
        """The response to /rank?by=B&layer=L&after=N&answer=A&second=S: the `RankedHeads` of one layer.

        raises  InputError for an invalid request
        """
        other, by = query.get("second", ""), next((one for one in BY if one == query.get("by")), None)
        if by is None:
            raise wrong_choice("by", query.get("by", "")[:20], BY)
        after, experiment = self._after(query), self.experiment
        layer = _number(query, "layer", len(experiment.layers))
        answer = -1 if self.kind == "vector" else _number(query, "answer", experiment.before.shape[-1])
        key = (by, layer, after, answer, other)
        if key not in self._rankings_of_layers:
            self._rankings_of_layers[key] = self._rank(by, layer, after, answer, other)
            for old in list(self._rankings_of_layers)[:-STORED]:
                del self._rankings_of_layers[old]
        return msgspec.json.encode(self._rankings_of_layers[key])

    # --- the model
    @property
    def experiment(self) -> Experiment:
        """The model on the first input. Raises InputError where it computes other attentions than the page shows."""
        if self._experiment is None:
            found = Experiment(self._model, self._inputs)
            theirs = [(one.attention.path, one.attention.heads) for one in found.layers]
            if theirs != [(one.module, one.heads) for one in self._attentions]:
                raise InputError("The attentions of this model that can be changed are not those on this page.")
            self._experiment = found
        return self._experiment

    def _effect(self, texts: Sequence[str], after: int, other: str) -> InterventionEffect:
        second = self._read(other) if other else None
        changes = [self.change(text, other) for text in texts]
        effect = self.experiment.run(changes) if changes else _unchanged(self.experiment)
        if not bool(effect.after.isfinite().all()):
            raise InputError("After these changes the model's output has numbers that are not finite. Change less.")
        code, setup, no_code = "", "", "" if changes else "Nothing is changed."
        try:
            if changes:
                code, setup = effect.code(), self._setup(effect.variables)
        except InputError as error:
            no_code = str(error)
        return InterventionEffect(
            changes=list(texts), after=after, other=other, rows=self._rows(effect, after, second and second[2]),
            largest=effect.largest, cosine=min(1.0, effect.cosine), passes=effect.passes, code=code, setup=setup, no_code=no_code,
            second=second and SecondInput(sequence=self._second_sequence(second[0]), no_patch=self._no_patch(second)),
        )  # fmt: skip

    def _rank(self, by: By, layer: int, after: int, answer: int, other: str) -> RankedHeads:
        key, second = (by, after, answer, other), self._read(other) if other else None
        source = self._patch_source(second) if by == "patch" else None

        def change(one: Site) -> Change:
            return one.zero() if by == "zero" else one.mean() if by == "mean" else one.patch(source)

        if key not in self._rankings:
            self._rankings = {key: Experiment(self._model, self._inputs, self._metric(after, answer, other))}
        experiment = self._rankings[key]
        heads = [head(layer, index) for index in range(experiment.layers[layer].attention.heads)]
        ranking = experiment.rank(heads, by=change)
        effects = {row.site.index: row.effect for row in ranking.rows}
        numbers = [math.nan if (x := effects[index]) is None else x for index in range(len(heads))]
        if not all(map(math.isfinite, (*numbers, ranking.before))):
            raise InputError("The metric is not finite on this input, so heads cannot be ranked by it.")
        metric, name = self._metric_name(answer, other)
        return RankedHeads(
            by=by, layer=layer, after=after, answer=answer, other=other, metric=metric, name=name,
            before=ranking.before, effects=numbers, calls=ranking.calls, copies=ranking.copies, notes=ranking.notes,
        )  # fmt: skip

    def _metric(self, after: int, answer: int, other: str) -> Callable[[Tensor], Any]:
        if self.kind != "vector":
            if self._reader is not None and self._reader.independent:
                return lambda output: _row(output, after)[answer].double().sigmoid().log()
            return log_probability(answer, after)
        reference = _vector(self._read(other)[2] if other else self.experiment.before)
        return lambda output: torch.cosine_similarity(_vector(output), reference, 0)

    def _metric_name(self, answer: int, other: str) -> tuple[str, str]:
        if self.kind == "vector":
            return f"cosine with the {'second input' if other else 'unchanged vector'}", ""
        assert self._reader is not None
        return "log-probability", self._reader.name(answer)

    def _rows(self, effect: Effect, after: int, second: Tensor | None) -> list[AnswerRow]:
        if self.kind == "vector":
            reference = _vector(effect.before if second is None else second)
            cosines = [torch.cosine_similarity(_vector(x), reference, 0).item() for x in (effect.before, effect.after)]
            name = "cosine with the unchanged vector" if second is None else "cosine with the second input"
            return [AnswerRow(id=-1, name=name, before=cosines[0], after=cosines[1])]
        assert self._reader is not None
        back = after - effect.before.shape[1] if self.kind == "next" else 0  # the same token from the end of the second input
        rows = [_row(effect.before, after), _row(effect.after, after)]
        if second is not None:
            rows.append(_row(second, max(back, -second.shape[1]) if self.kind == "next" else 0))
        numbers = [x.sigmoid() if self._reader.independent else x.softmax(-1) for x in (row.double().cpu() for row in rows)]
        ids = dict.fromkeys(int(i) for x in numbers for i in x.topk(min(MOST, len(x))).indices)
        before, now = numbers[:2]
        others = numbers[2] if len(numbers) > 2 else None
        named = [
            AnswerRow(
                id=i, name=self._reader.name(i), before=before[i].item(), after=now[i].item(),
                second=None if others is None else others[i].item(),
            )
            for i in ids
        ]  # fmt: skip
        return sorted(named, key=lambda row: -row.before)

    # --- requests
    def change(self, text: str, other: str = "") -> Change | Move:
        """The change that a text of the page names. Raises InputError where it names none; see `record.interventions`."""
        found = CHANGE.fullmatch(text[:200])
        if found is None:
            raise InputError(f"{text[:60]!r} is no change. {USAGE}")
        action, quantity = found[1], found[2]
        where, tokens = ([int(n) for n in part.split(".") if n] if part else [] for part in (found[3], found[4]))
        value = _finite(found[5])
        if (action, quantity, len(tokens)) == ("move", "token", 1) and value is not None and value == int(value) and len(where) < 2:
            return move(tokens[0], int(value), self._stack(where[0]) if where else "")
        known = ("q", "k", "v", "weights", "output") if len(where) < 3 else ()
        if not where or (quantity not in known and (quantity != "stream" or len(where) > 1)):
            raise InputError(f"{text!r} is no change. {USAGE}")
        site = self._site(quantity, where)
        wants_value, number_of_tokens = action in ("scale", "set"), {"cut": 2, "set": 2}.get(action)
        if (value is None) == wants_value or (number_of_tokens is not None and len(tokens) != number_of_tokens):
            raise InputError(f"{text!r} is no change. {USAGE}")
        match action:
            case "zero" | "mean" | "scale" | "freeze" if quantity in OF_HEADS[action] and not tokens:
                return (
                    {"zero": site.zero, "mean": site.mean, "freeze": site.freeze}[action]() if value is None else site.scale(value)
                )
            case "patch" if quantity in ("output", "stream", "q", "k", "v", "weights"):
                source = self._patch_source(self._read(other) if other else None)
                return (site.on(*tokens) if tokens else site).patch(source)
            case "cut" if quantity == "weights":
                return site.cut(*tokens)
            case "set" if quantity in ("q", "k", "v", "weights") and site.index is not None and value is not None:
                return site.on(tokens[0], entry=tokens[1]).set(value)
        raise InputError(f"{text!r} is no change. {USAGE}")

    def _site(self, quantity: str, where: Sequence[int]) -> Site:
        if quantity == "stream":
            return stream(where[0])
        layers = self.experiment.layers
        if where[0] >= len(layers):
            raise InputError(f"There are {len(layers)} layers, counted from 0, but layer {where[0]} was requested.")
        one, index = layers[where[0]].attention, where[1] if len(where) == 2 else None
        if index is not None and index >= one.heads:
            raise InputError(f"Layer {where[0]} has {one.heads} heads, counted from 0, but head {index} was requested.")
        if index is not None and quantity in ("k", "v"):
            index = index * one.kv_heads // one.heads  # the head of keys that this head reads
        return with_(head(where[0], index), quantity=next(q for q in QUANTITIES if q == quantity))

    def _stack(self, layer: int) -> str:
        """The part of the path of a layer that says whether its tokens are those of an encoder or of a decoder; empty: neither."""
        self._site("output", [layer])
        parts = self.experiment.layers[layer].attention.path.split(".")
        return next((part for part in ("encoder", "decoder") if part in parts), "")

    def _after(self, query: Mapping[str, str]) -> int:
        if self.kind != "next":
            return 0
        length = len(self._sequences[self.sequence].labels)
        return _number(query, "after", length) if "after" in query else length - 1

    # --- the second input
    def _read(self, name: str) -> tuple[LabelledInputs, Any, Tensor]:
        """The second input, as the model takes it, and the model's output for it. Only the last one is kept."""
        if self.read is None:
            raise InputError("This page has no second input. Start it with a text, or with a trained model that comes along.")
        if self.choices and name not in self.choices:
            raise wrong_choice("second", name, self.choices)
        if name not in self._second:
            found = self.read(name)
            inputs = _one_input(self._model, found.args, found.kwargs)
            output = Experiment(self._model, inputs).before
            self._second = {name: (found, inputs, output)}
        return self._second[name]

    def _second_sequence(self, inputs: LabelledInputs) -> TokenSequence:
        length = self.experiment.layers[0].attention.rows
        mine = self._sequences[self.sequence]
        fits = [one for one in inputs.sequences if one.name == mine.name and (one.kind != "patches" or len(one.labels) == length)]
        return (fits or inputs.sequences)[0]

    def _no_patch(self, second: tuple[LabelledInputs, Any, Tensor]) -> str:
        theirs, ours = len(self._second_sequence(second[0]).labels), len(self._sequences[self.sequence].labels)
        if theirs == ours:
            return ""
        return f"The second input has {theirs} tokens and the first {ours}: values are patched token by token, so give as many."

    def _patch_source(self, second: tuple[LabelledInputs, Any, Tensor] | None) -> Any:
        """The second input as the model takes it. Raises InputError where its values cannot replace those of the first."""
        if second is None:
            raise InputError("Patching takes values from a second input. Give one first.")
        if reason := self._no_patch(second):
            raise InputError(reason)
        return second[1]

    # --- plain torch
    def _setup(self, variables: Mapping[str, Any]) -> str:
        lines = ["import torch", "", self.model_lines.rstrip("\n")]
        lines += [f"{name} = {_literal(value)}" for name, value in variables.items() if name != "model"]
        return "\n".join(lines) + "\n"


def _one_input(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The arguments as one mapping of names where some have names, else as a tuple."""
    if not kwargs:
        return tuple(args)
    if not args:
        return dict(kwargs)
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    return dict(bound.arguments)


def _unchanged(experiment: Experiment) -> Effect:
    return Effect([], experiment.before, experiment.before, [], 0)


def _row(output: Tensor, after: int) -> Tensor:
    """The logits of the first input, at a token."""
    return output[0] if output.ndim == 2 else output[0, after]


def _vector(output: Tensor) -> Tensor:
    """The mean of the token vectors of the first input."""
    first = output[0].double()
    return first.reshape(-1, first.shape[-1]).mean(0)


def _number(query: Mapping[str, str], name: str, count: int) -> int:
    text = query.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) >= count:
        raise InputError(f"{name} is a whole number from 0 to {count - 1}, but got {text[:20]!r}.")
    return int(text)


def _finite(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= 1e6:
        raise InputError(f"A value is a number between -1e6 and 1e6, but got {text[:20]!r}.")
    return value


def _literal(value: Any) -> str:
    """A value as Python that makes it again, for tensors that are not too large."""
    if isinstance(value, Tensor):
        if value.numel() > LITERAL:
            return f"...  # a tensor {list(value.shape)} of {value.dtype}, too long to write out here"
        kind = "" if value.dtype in (torch.int64, torch.float32, torch.bool) else f", dtype={value.dtype}"
        return f"torch.tensor({value.tolist()}{kind})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_literal(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(_literal, value))
        return f"({inner},)" if isinstance(value, tuple) else f"[{inner}]"
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else f"...  # {type(value).__name__}"
