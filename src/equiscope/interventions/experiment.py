"""Experiment: a model on one input, held so that changes can be tried, one after another or many in one pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.attribution.direct import LogitAttribution, attribution
from equiscope.interventions.attribution.lens import LogitLens, lens
from equiscope.interventions.attribution.rollout import rollout
from equiscope.interventions.attribution.tail import blocks_of
from equiscope.interventions.attribution.token_effects import TokenEffects, token_effects
from equiscope.interventions.cache import ActivationCache, by_site
from equiscope.interventions.changes import Change, Cut, MaskChange, MeanAblation, Move, Patch, ScaleBy, Set, Swap
from equiscope.interventions.code import code
from equiscope.interventions.effect import Effect, Metric, MetricChange, main_output, metric_values
from equiscope.interventions.layers import Layer, layers_of, points_of
from equiscope.interventions.moving import moved
from equiscope.interventions.passes import Edit, Edits, ForwardPass, ValuePoint
from equiscope.interventions.paths import TokenPath, path
from equiscope.interventions.ranking import By, Ranking, estimate, rank
from equiscope.interventions.sites import OF_HEADS, Site, site
from equiscope.program.origins import tensors
from equiscope.record import display

Changes = Change | Move | Sequence[Change | Move] | Mapping[str, Tensor | float]


@dataclass(frozen=True)
class Arguments:
    """Arguments of a model."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, inputs: Any) -> "Arguments":
        """A mapping gives named arguments, a tuple or a list positional ones; anything else is the only argument."""
        if isinstance(inputs, Arguments):
            return inputs
        if isinstance(inputs, Mapping):
            return cls((), dict(inputs))
        return cls(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})

    def repeated(self, copies: int) -> "Arguments":
        """Copies along the batch axis, the first axis of the tensors whose first axis is as long as that of the first tensor."""
        batch = next((len(t) for _, t in tensors([list(self.args), self.kwargs]) if t.ndim), 0)

        def repeat(x: Any) -> Any:
            return x.repeat(copies, *(1,) * (x.ndim - 1)) if isinstance(x, Tensor) and x.ndim and len(x) == batch else x

        return Arguments(tuple(map(repeat, self.args)), {name: repeat(x) for name, x in self.kwargs.items()})


class Experiment:
    """A model on one input. The unchanged run is computed once; each `run` with changes is one more pass.

    before  the output of the unchanged run: logits where the model has them
    layers  the attentions that ran, in order, with the blocks around them
    """

    def __init__(
        self, model: nn.Module, inputs: Any, metric: Metric | Mapping[str, Metric] | None = None,
        output: Callable[[Any], Tensor] | None = None,
    ) -> None:  # fmt: skip
        """inputs: a tensor, or a tuple of arguments, or a mapping of named arguments, as a tokenizer returns it.

        metric  a function of the output to one number, such as `logit(17)`; or several by name
        output  picks the tensor that is compared and measured from what the model returns; by default its logits
        raises  InputError where the model raises, or returns no tensor
        """
        self.model = getattr(model, "_orig_mod", model)
        self.inputs, self._pick = Arguments.of(inputs), output or main_output
        self.metrics = dict(metric) if isinstance(metric, Mapping) else {} if metric is None else {"metric": metric}
        self.notes = ["The model is in training mode: dropout is random. Call model.eval()."] if self.model.training else []
        reading = ForwardPass(self.model)
        self.before = self.output(reading.run(self.inputs.args, self.inputs.kwargs))
        assert reading.structure is not None
        self.structure = reading.structure
        self.layers: list[Layer] = layers_of(self.model, self.structure.attentions)
        self.metrics_before = metric_values(self.metrics, self.before)
        self._values: dict[ValuePoint, Tensor] = {}
        self._others: dict[int, tuple[Any, dict[ValuePoint, Tensor]]] = {}
        self.passes = 1

    def run(self, changes: Changes) -> Effect:
        """The effect of changes, together. They act in the order of the forward pass; at one site, in the order given.

        changes  one, or several; or numbers by the name of a site: {"layers.2.attention.weights[3]": numbers}
        raises   InputError where a site does not exist, or numbers do not fit it
        """
        listed, before = as_list(changes), self.passes
        inputs, edits = self._prepared(listed)
        one = ForwardPass(self.model, self.structure, edits)
        after = self.output(one.run(inputs.args, inputs.kwargs))
        self.passes += 1
        effect = self._effect(listed, after, self.passes - before)
        effect.write_code = lambda: code(self, listed, one.holders)
        return effect

    def cache(self, names: Sequence[str | Site] | None = None) -> ActivationCache:
        """Values of the unchanged run by name. names: of sites; by default queries, keys, values and outputs of every head, the
        weights, the residual stream and the neurons. Takes one pass for those not asked for yet.
        """
        wanted = list(names) if names is not None else self._every_name()
        points = {str(name): self._one_point(site(name) if isinstance(name, str) else name) for name in wanted}
        values = self.values(list(points.values()))
        return ActivationCache({name: values[point] for name, point in points.items()})

    def values(self, points: Sequence[ValuePoint], source: Any = None) -> dict[ValuePoint, Tensor]:
        """Values at points in the unchanged run, or in that of other inputs."""
        if source is None:
            known, inputs = self._values, self.inputs
        else:
            known = self._others.setdefault(id(source), (source, {}))[1]
            inputs = Arguments.of(source)
        missing = [point for point in points if point not in known]
        if missing:
            known |= self.forward({}, missing, inputs)[1]
        return {point: known[point] for point in points}

    def rank(
        self, which: Literal["heads", "layers"] | Sequence[Site] = "heads", by: By = "zero", metric: str | None = None,
        copies: int | None = None,
    ) -> Ranking:  # fmt: skip
        """Sites by their measured effect on a metric, each changed alone; several changed copies of the inputs run in one call.

            experiment.rank()                                    every head set to 0
            experiment.rank(by=lambda one: one.patch(other))     every head patched from another input

        which   "heads"; "layers": the attention and the feed-forward of each; or any sites
        by      "zero", "mean", or a function from a site to its change
        metric  one of the experiment's metrics; by default the first
        copies  changed copies in one call; by default up to 16, and 1 where the model has no batch axis: this is tested
        """
        return rank(self, which, by, metric, copies)

    def estimate(
        self, which: Literal["heads", "layers"] | Sequence[Site] = "heads", by: By = "zero", metric: str | None = None,
        check: int = 8, copies: int | None = None,
    ) -> Ranking:  # fmt: skip
        """Sites by their first-order effect: one forward and one backward pass for all of them together.

        check  how many of the largest estimates are also measured; the ranking says how large their error is
        raises InputError where the metric has no gradient
        """
        return estimate(self, which, by, metric, check, copies)

    def path(self, token: int, answer: int = -1, metric: str | None = None, of: str = "") -> TokenPath:
        """The attention edges by which a token reaches another one, by their effect on a metric: see `paths` for its limits.

        token   where the path begins; answer: where it ends, by default the last token
        of      a part of the path of the attentions, such as "encoder", of a model with several stacks
        raises  InputError where no edge leads there, or the metric has no gradient
        """
        return path(self, token, answer, metric, of)

    # --- attribution
    def lens(self, norm: bool = True, of: str = "") -> LogitLens:
        """The logit lens: what the model's last part answers to the residual stream of each layer. One pass for each layer.

        norm    whether the final norm is applied; of: a part of the path of the attentions, such as "decoder"
        raises  InputError where the output is no table of logits, or the last part cannot read the streams
        """
        return lens(self, norm, of)

    def attribution(self, metric: str | None = None, of: str = "") -> LogitAttribution:
        """Direct logit attribution: a logit as the sum of the shares of embeddings, heads and feed-forwards.

        metric  one of the experiment's metrics, by default the first: a logit, or a difference of logits
        of      as in `lens`
        raises  InputError where the metric is not linear in the output of the final norm
        """
        return attribution(self, metric, of)

    def token_effects(self, tokens: Sequence[int] | None = None, metric: str | None = None, of: str = "") -> TokenEffects:
        """Which tokens decide a metric: rollout, attention, direct share and lens of each, beside the effect of its removal.

        tokens  numbers of the tokens, by default all that can be removed and reach the answer through attention; of a model with an
                encoder those of the source
        metric  one of the experiment's metrics, by default the first; of: as in `lens`
        raises  InputError where tokens do not attend to each other
        """
        return token_effects(self, tokens, metric, of)

    def rollout(self, of: str = "") -> Tensor:
        """Attention rollout: the weights of all layers of a stack, each averaged with the residual path, multiplied. [B, N, N].

        of  as in `lens`
        """
        blocks = blocks_of(self.layers, of)
        points = [ValuePoint("weights", self.layers[block.layers[0]].attention.index) for block in blocks]
        return rollout(self.values(points)[point].double() for point in points)

    # --- passes
    def forward(
        self,
        edits: Edits,
        wanted: Sequence[ValuePoint] = (),
        inputs: Arguments | None = None,
        copies: int = 1,
        gradients: bool = False,
    ) -> tuple[Any, dict[ValuePoint, Tensor]]:
        """One pass with edits: what the model returns, and values at points. copies: of the inputs along the batch axis."""
        inputs = (inputs or self.inputs).repeated(copies) if copies > 1 else inputs or self.inputs
        one = ForwardPass(self.model, self.structure, edits, wanted, copies, gradients)
        self.passes += 1
        output = one.run(inputs.args, inputs.kwargs)
        return output, one.values

    def output(self, returned: Any) -> Tensor:
        """The tensor that is compared and measured, from what the model returns."""
        return self._pick(returned)

    def _effect(self, changes: Sequence[Change | Move], after: Tensor, passes: int) -> Effect:
        numbers = zip(self.metrics, self.metrics_before, metric_values(self.metrics, after), strict=True)
        metrics = [MetricChange(name, before, now) for name, before, now in numbers]
        return Effect([str(one) for one in changes], self.before, after, metrics, passes, list(self.notes))

    def _every_name(self) -> list[str]:
        rooms = [*(f"attention.{name}" for name in ("q", "k", "v", "weights", "output")), "stream"]
        names = [f"layers.{i}.{room}" for i in range(len(self.layers)) for room in rooms]
        names += [f"layers.{i}.feedforward.neurons" for i, layer in enumerate(self.layers) if layer.down]
        return [*names, f"layers.{len(self.layers)}.stream"] if self.layers else names

    def _one_point(self, one: Site) -> ValuePoint:
        points = points_of(one, self.layers)
        if len(points) > 1:
            raise InputError(f"{one} is {len(points)} values. Name one layer.")
        return points[0]

    # --- changes to edits
    def _prepared(
        self, changes: Sequence[Change | Move], copy: int | None = None
    ) -> tuple[Arguments, dict[ValuePoint, list[Edit]]]:
        inputs, edits = self.inputs, dict[ValuePoint, list[Edit]]()
        for change in changes:
            if isinstance(change, Move):
                args, kwargs, more = moved(self.model, inputs.args, inputs.kwargs, change)
                inputs = Arguments(args, kwargs)
            else:
                more = self.edits_of(change, copy)
            for point, edit in more:
                edits.setdefault(point, []).append(edit)
        return inputs, edits

    def edits_of(self, change: Change, copy: int | None = None) -> list[tuple[ValuePoint, Edit]]:
        """A change as edits at points. copy: of the inputs, counted from 0; None: all."""
        where, points = change.site, points_of(change.site, self.layers)
        by_point = {layer.attention.index: layer for layer in self.layers}
        edits = []
        others = self.sources(change, points)
        for point in points:
            layer = by_point.get(point.key) if isinstance(point.key, int) else None
            heads = layer.attention.heads if layer else 0
            touched: tuple[int, ...] | None = None if where.index is None else (where.index % max(heads, 1),)
            name, function = point.quantity, self._function(change, point, others.get(point))
            if isinstance(change, (Cut, MaskChange)):
                name = "allowed"
            if isinstance(change, Swap) and touched is not None:
                touched = (*touched, change.other % max(heads, 1))
            edits.append((ValuePoint(name, point.key), Edit(function, touched, copy)))
        return edits

    def sources(self, change: Change, points: Sequence[ValuePoint]) -> dict[ValuePoint, Tensor]:
        """Values of another run that a change needs."""
        if not isinstance(change, (Patch, MeanAblation)):
            return {}
        source = change.source if isinstance(change, Patch) else change.of
        if isinstance(source, Mapping) and (named := by_site(source)) is not None:
            found = {self._one_point(site(name)): value for name, value in named.items()}
            missing = [point for point in points if point not in found]
            if missing:
                raise InputError(f"The values have no {change.site}. They are of {', '.join(list(named)[:8])}.")
            return {point: found[point] for point in points}
        return self.values(points, source)

    def _function(self, change: Change, point: ValuePoint, other: Tensor | None) -> Callable[[Tensor], Tensor]:
        """From the value at a point to the changed one."""
        where = change.site
        axis = self.token_axis(point)

        def region(value: Tensor) -> tuple[Any, ...]:
            return _region(where, value, axis)

        def replace(value: Tensor, numbers: Tensor | float) -> Tensor:
            index, changed = region(value), value.clone()
            if isinstance(numbers, Tensor):
                numbers = _fitting(numbers.to(value), value[index].shape, where)
            changed[index] = numbers
            return changed

        match change:
            case Set(numbers=numbers):
                return lambda value: replace(value, numbers)
            case ScaleBy(factor=factor):
                return lambda value: replace(value, value[region(value)] * factor)
            case Patch():
                assert other is not None
                return lambda value: replace(value, _batched(other, value)[region(value)])
            case MeanAblation():
                assert other is not None
                axes = (0,) if point.quantity in ("scores", "weights") else (0, axis)
                mean = other.mean(axes, keepdim=True)
                return lambda value: replace(value, mean[_region(where, mean, None)])
            case Swap(other=second):
                return lambda value: _swapped(value, where, second, axis)
            case Cut(token=token, keys=keys):
                cross = any(layer.cross and layer.attention.index == point.key for layer in self.layers)
                return lambda allowed: _cut(allowed, where, token, keys, cross)
            case MaskChange(allowed=mask):
                return lambda allowed: replace(allowed, _four(mask, where).bool())
            case _:
                raise InputError(f"{type(change).__name__} is no change of a site. Use the methods of head(), stream() and others.")

    def token_axis(self, point: ValuePoint) -> int:
        """Which axis of the value at a point counts tokens."""
        if isinstance(point.key, int):
            return 2
        around = [layer for layer in self.layers if layer.block and f"{point.key}.".startswith(f"{layer.block}.")]
        return around[0].tokens if around else -2

    def __repr__(self) -> str:
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        return display.html(self._heading, ("layer", "attention", "heads", "tokens"), self._rows)

    @property
    def _heading(self) -> str:
        return f"Experiment on {type(self.model).__name__}: {len(self.layers)} layers of attention"

    @property
    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [("layer", "attention", "heads", "tokens")]
        for i, layer in enumerate(self.layers):
            one = layer.attention
            heads = f"{one.heads}" if one.heads == one.kv_heads else f"{one.heads} of {one.kv_heads} keys"
            rows.append((str(i), one.path or type(self.model).__name__, heads, f"{one.rows} x {one.columns}"))
        return rows


def intervene(
    model: nn.Module, inputs: Any, changes: Changes, metric: Metric | Mapping[str, Metric] | None = None,
    output: Callable[[Any], Tensor] | None = None,
) -> Effect:  # fmt: skip
    """Run a model unchanged and with changes, at its own attention implementation, and compare its outputs.

        eq.intervene(model, ids, head(2, 3).zero())

    The model keeps its mode, its parameters and its hooks, also where it raises. For several questions about one input make an
    `Experiment`, which computes the unchanged run once. The arguments are those of `Experiment` and of its `run`.
    """
    return Experiment(model, inputs, metric, output).run(changes)


def as_list(changes: Changes) -> list[Change | Move]:
    """Changes as a list; of a mapping, the numbers that replace the values of its sites."""
    if isinstance(changes, Mapping):
        return [site(name).set(numbers) for name, numbers in changes.items()]
    listed: list[Any] = [changes] if isinstance(changes, (Change, Move, Site)) else list(changes)
    for one in listed:
        if not isinstance(one, (Change, Move)):
            hint = f"Use {'one of its methods' if isinstance(one, Site) else 'a method of a site'}, such as head(2, 3).zero()."
            raise InputError(f"A change was expected, but got {one}. {hint}")
    return listed


def _region(where: Site, value: Tensor, axis: int | None) -> tuple[Any, ...]:
    """The index of a site's part of a value. axis: of the tokens; None: they were averaged."""
    index: list[Any] = [slice(None)] * value.ndim
    if where.index is not None:
        place = 1 if where.quantity in OF_HEADS else -1
        size = value.shape[place]
        if not -size <= where.index < size:
            raise InputError(f"The value has {size} entries along this axis, counted from 0, but {where} was asked for.")
        index[place] = slice(where.index % size, where.index % size + 1)
    if where.tokens is not None and axis is not None:
        count = value.shape[axis]
        if any(not -count <= token < count for token in where.tokens):
            raise InputError(f"There are {count} tokens, counted from 0, but {where} was asked for.")
        index[axis] = torch.tensor(where.tokens, device=value.device)
    if where.entry is not None:
        size = value.shape[-1]
        if not -size <= where.entry < size:
            raise InputError(f"A row has {size} numbers, counted from 0, but {where} was asked for.")
        index[-1] = slice(where.entry % size, where.entry % size + 1)
    return tuple(index)


def _fitting(numbers: Tensor, shape: torch.Size, where: Site) -> Tensor:
    """Numbers that broadcast to the part of a value. One head may be given without its axis."""
    if where.index is not None and where.quantity in OF_HEADS and numbers.ndim == len(shape) - 1 and numbers.ndim > 2:
        numbers = numbers.unsqueeze(1)
    try:
        return numbers.expand(shape)
    except RuntimeError:
        raise InputError(f"{where} has shape {list(shape)}, but got numbers {list(numbers.shape)}.") from None


def _batched(other: Tensor, value: Tensor) -> Tensor:
    """The value of another run, for each sequence of this one."""
    if other.shape[1:] != value.shape[1:] or len(value) % len(other):
        raise InputError(
            f"The other run has values {list(other.shape)} here, this one {list(value.shape)}. Give inputs of the same length."
        )
    return other.repeat(len(value) // len(other), *(1,) * (other.ndim - 1)) if len(other) < len(value) else other


def _swapped(value: Tensor, where: Site, second: int, axis: int) -> Tensor:
    one, other = _region(where, value, axis), _region(with_(where, index=second), value, axis)
    changed = value.clone()
    changed[one], changed[other] = value[other], value[one]
    return changed


def _cut(allowed: Tensor, where: Site, token: int | None, keys: Sequence[int], cross: bool) -> Tensor:
    n, m = allowed.shape[-2:]
    if (token is not None and not -n <= token < n) or any(not -m <= key < m for key in keys):
        raise InputError(f"{n} tokens attend to {m}, counted from 0, but token {token} and keys {list(keys)} were given.")
    heads = slice(None) if where.index is None else where.index
    changed = allowed.clone()
    for key in keys:
        if token is None:
            own = changed[:, heads, key, key].clone() if not cross else None
            changed[:, heads, :, key] = False
            if own is not None:
                changed[:, heads, key, key] = own
        else:
            changed[:, heads, token, key] = False
    return changed


def _four(mask: Tensor, where: Site) -> Tensor:
    """A mask [N, M] as [1, 1, N, M]."""
    if mask.dtype != torch.bool:
        raise InputError(f"A mask is bool, True = may attend, but got {mask.dtype}. Use mask.bool().")
    return mask[(None,) * (4 - mask.ndim)]
