"""Direct logit attribution: a logit as a sum over the parts of a model that add to the residual stream.

The last stream is the sum of the embeddings and of what every attention head and feed-forward adds. With the scale of the final
norm frozen at its value, the rest of the way to the logit is linear, so each part has a share, and the shares sum to the logit. A
head's share is split again over the tokens that it attends to, since its output is weights times values.
Limits: only the direct way counts. A head that moves information which a later layer reads has its effect in that layer's share.
Removing a part changes the norm's scale and all later layers; `Experiment.rank` measures that.
Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.attribution.tail import Frozen, StreamBlock, blocks_of, tail_of
from equiscope.interventions.main_tensor import main_tensor
from equiscope.interventions.passes import Edit, ValuePoint
from equiscope.interventions.ranking import metric_name
from equiscope.interventions.sites import Site, head, neuron
from equiscope.program.hooks import hooked
from equiscope.record import display

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

LIMITS = (
    "The scale of the final norm is frozen at its value. Only the direct path to the logit counts: what a part does through later "
    "layers is in their shares, so a share is not the effect of removing the part."
)
PRINTED = 24


@dataclass(frozen=True)
class LogitPart:
    """A part of a model and its share of a logit.

    site   what can be changed to test it; None for the embeddings' sum of offsets, biases, or a whole block
    block  number of its block, from 0; None for embeddings and offsets
    kind   embeddings, head, attention (all heads of one, not separated), feed-forward, bias, block or offset
    """

    name: str
    share: float
    kind: str
    block: int | None = None
    site: Site | None = None


@dataclass(repr=False)
class LogitAttribution(display.Printed):
    """A logit as a sum of shares.

    parts    in the order of the forward pass
    logit    the metric of the unchanged run; the shares sum to it
    tokens   [M]: what each token contributes directly, by its own row of the embeddings and as a value of the heads; None where the
             heads are not separated
    sources  [M]: what each token of the source contributes directly as a value of cross-attention; None where there is none
    norm     path of the final norm whose scale is frozen; empty: there is none
    passes   that this took; there were also a few backward passes
    """

    parts: list[LogitPart]
    metric: str
    logit: float
    tokens: Tensor | None
    sources: Tensor | None
    norm: str
    passes: int
    notes: list[str]
    limits: str = LIMITS

    @property
    def total(self) -> float:
        """The sum of the shares."""
        return sum(part.share for part in self.parts)

    @property
    def error(self) -> float:
        """How far the sum is from the logit: rounding."""
        return abs(self.total - self.logit)

    def __getitem__(self, name: str) -> LogitPart:
        found = next((part for part in self.parts if part.name == name), None)
        if found is None:
            raise InputError(f"There is no part {name!r}. Parts: {', '.join(part.name for part in self.parts)}.")
        return found

    @property
    def _remarks(self) -> list[str]:
        return [self.limits, *self.notes]

    @property
    def _heading(self) -> str:
        return f"{self.metric} {self.logit:.4g} as a sum of {len(self.parts)} shares, the largest first"

    @property
    def _rows(self) -> list[tuple[str, str]]:
        order = sorted(self.parts, key=lambda part: -abs(part.share))
        rows = [("part", "share"), *((part.name, f"{part.share:+.4g}") for part in order[:PRINTED])]
        if len(order) > PRINTED:
            rest = sum(part.share for part in order[PRINTED:])
            rows.append((f"{len(order) - PRINTED} more", f"{rest:+.4g}"))
        return [*rows, ("sum", f"{self.total:+.4g}")]


def attribution(experiment: "Experiment", metric: str | None, of: str) -> LogitAttribution:
    """The shares of a metric. Raises InputError where the metric is not linear in the final norm's output."""
    name, before = metric_name(experiment, metric), experiment.passes
    blocks = blocks_of(experiment.layers, of)
    tail = tail_of(experiment, blocks[-1])
    run = _Recorded(experiment, blocks, tail.norm, name)
    run.check_streams()
    run.check_linear()
    notes, parts = list(experiment.notes), [LogitPart("embeddings", run.share(run.stream(0)), "embeddings")]
    tokens: Tensor | None = run.by_token(run.stream(0))
    crossed: list[Tensor] = []
    for number, block in enumerate(blocks):
        difference = run.stream(number + 1) - run.stream(number)
        added = run.added(block, difference)
        if added is None:
            parts.append(LogitPart(f"block {number}", run.share(difference), "block", number))
            notes.append(
                f"What {block.path} adds is not the sum of its attention and its feed-forward, as where a norm follows the sum, "
                "so it is one part."
            )
            tokens = None
            continue
        rest = difference
        for position, (layer, path) in enumerate(zip(block.layers, added, strict=True)):
            more, sources = run.heads(layer, path, f"L{number} cross-attention " if position else f"L{number}", number)
            parts += more
            if more[0].kind == "attention":
                notes.append(
                    f"What {path} adds is not linear in the outputs of its heads, as where a norm follows it, so the heads are one "
                    "part."
                )
            rest = rest - run.outputs[path].detach().double()
            if experiment.layers[layer].cross:
                crossed += [] if sources is None else [sources]
            else:
                tokens = None if tokens is None or sources is None or len(sources) != len(tokens) else tokens + sources
        parts.append(LogitPart(f"L{number} feed-forward", run.share(rest), "feed-forward", number, _neurons(experiment, block)))
    parts.append(LogitPart("biases of the last part", run.offset, "offset"))
    every = sum(layer.cross for block in blocks for layer in [experiment.layers[i] for i in block.layers])
    source = torch.stack(crossed).sum(0) if crossed and len(crossed) == every else None
    return LogitAttribution(
        parts, name, run.logit, tokens, source, tail.norm.path, experiment.passes - before, list(dict.fromkeys(notes))
    )


def _neurons(experiment: "Experiment", block: StreamBlock) -> Site | None:
    last = block.layers[-1]
    return neuron(last) if experiment.layers[last].down else None


class _Recorded:
    """One pass with gradients: the streams, what the modules of each block return, the heads' outputs, weights and values.

    direction  the gradient of the metric by the last stream, with the norm's scale frozen; like the stream
    """

    def __init__(self, experiment: "Experiment", blocks: Sequence[StreamBlock], norm: Frozen, name: str) -> None:
        self.experiment, self.blocks, self.norm, self.name = experiment, blocks, norm, name
        self.outputs: dict[str, Tensor] = {}
        layers = [number for block in blocks for number in block.layers]
        self.index = {number: experiment.layers[number].attention.index for number in layers}
        heads = [ValuePoint(q, i) for i in self.index.values() for q in ("output", "weights", "v")]
        self.read = ValuePoint("module", norm.path) if norm.path else blocks[-1].exit
        wanted = [*(block.entry for block in blocks), blocks[-1].exit, self.read, *heads]

        def record(path: str, _: nn.Module, output: Any) -> None:
            value = main_tensor(output) if output is not None else None
            if value is not None:
                self.outputs[path] = value

        inside = [
            (path, module)
            for path, module in experiment.model.named_modules()
            if any(path.startswith(f"{block.path}.") for block in blocks)
        ]
        with torch.enable_grad():
            edits = {blocks[0].entry: [Edit(_with_gradient)]}
            with hooked(inside, after=record):
                output, self.values = experiment.forward(edits, wanted, gradients=True)
            number = experiment.metrics[name](experiment.output(output))
            if not isinstance(number, Tensor) or not number.requires_grad:
                raise InputError(f"The metric {name} has no gradient: it left torch, or does not read the output.")
            y = self.values[self.read]
            (gradient,) = torch.autograd.grad(number.reshape(()), [y], retain_graph=True)
        self.logit = float(number.detach())
        self.gradient = gradient.double()
        self.constant = self.logit - float((self.gradient * y.detach().double()).sum())
        self.direction = norm.back(self.gradient)
        self.offset = self.constant + (0.0 if norm.offset is None else float((self.gradient * norm.offset).sum()))
        self.empty = self._without_heads()

    def check_streams(self) -> None:
        """Raises InputError where the stream changes its shape, so that its parts do not add up."""
        shapes = [list(self.stream(i).shape) for i in range(len(self.blocks) + 1)]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[-1]), None)
        if other is not None:
            raise InputError(
                f"The stream that enters {self.blocks[other].path} has shape {shapes[other]}, the last one {shapes[-1]}: what the "
                "blocks add is no sum."
            )

    def check_linear(self) -> None:
        """Raises InputError where the metric for an output of 0 of the norm is not what is left of it without the gradient."""
        output, _ = self.experiment.forward({self.read: [Edit(torch.zeros_like)]})
        found = float(self.experiment.metrics[self.name](self.experiment.output(output)))
        tolerance = {torch.float64: 1e-5, torch.float32: 1e-4}.get(self.gradient_dtype, 3e-2)  # norms may compute in float32
        if not abs(found - self.constant) <= tolerance * max(1.0, abs(self.logit)):
            where = self.norm.path or "the last block"
            raise InputError(
                f"The metric {self.name} is not linear in the output of {where}, so it is no sum of shares. Use logit() or "
                "logit_difference(); a cap on logits, a log-probability or a second layer after the norm is not linear."
            )

    @property
    def gradient_dtype(self) -> torch.dtype:
        return self.values[self.read].dtype

    def _without_heads(self) -> dict[str, Tensor]:
        """What the modules return when every head's output is 0: of an attention its bias, which does not depend on the input."""
        outputs: dict[str, Tensor] = {}

        def record(path: str, _: nn.Module, output: Any) -> None:
            value = main_tensor(output) if output is not None else None
            if value is not None:
                outputs[path] = value.detach()

        inside = [(path, self.experiment.model.get_submodule(path)) for path in self.outputs]
        with hooked(inside, after=record):
            self.experiment.forward({ValuePoint("output", i): [Edit(torch.zeros_like)] for i in self.index.values()})
        return outputs

    def stream(self, number: int) -> Tensor:
        """The stream that enters a block; after the last one the stream that leaves it."""
        point = self.blocks[number].entry if number < len(self.blocks) else self.blocks[-1].exit
        return self.values[point].detach().double()

    def share(self, part: Tensor) -> float:
        return float((self.direction * part).sum())

    def by_token(self, part: Tensor) -> Tensor:
        """The shares of the rows of a part, summed over sequences."""
        products = (self.direction * part).sum(-1)
        axis = self.experiment.layers[self.blocks[0].layers[0]].tokens
        return products.sum(1 if axis == 0 else 0)

    def added(self, block: StreamBlock, difference: Tensor) -> list[str] | None:
        """The modules whose results are what each attention of a block adds to the stream; None where no such results, and one of
        the feed-forward, sum to the difference.
        """
        layers = self.experiment.layers
        attentions = [layers[number].attention.path for number in block.layers]
        down = layers[block.layers[-1]].down
        names = [path for path, t in self.outputs.items() if path.startswith(f"{block.path}.") and t.shape == difference.shape]
        order = {path: i for i, path in enumerate(names)}
        starts = [next((order[p] for p in names if p == path), -1) for path in attentions]
        if not down or min(starts) < 0:
            return None
        ends = [*starts[1:], next((order[p] for p in names if down == p or down.startswith(f"{p}.")), -1)]
        choices = [names[a : b if b > a else a + 1] for a, b in zip(starts, ends, strict=True)]
        choices.append(names[ends[-1] :] if ends[-1] >= 0 else [])
        dtype = self.gradient_dtype
        tolerance = (1e-10 if dtype == torch.float64 else 1e-4) * float(difference.abs().max())
        if dtype in (torch.bfloat16, torch.float16):  # the sum was rounded to the stream, which may be much larger
            tolerance = 4 * torch.finfo(dtype).eps * float(self.values[block.entry].detach().abs().max())
        for chosen in product(*choices):
            found = [self.outputs[path].detach().double() for path in chosen]
            if float((sum(found) - difference).abs().max()) <= tolerance:
                return list(chosen[:-1])
        return None

    def heads(self, layer: int, path: str, name: str, block: int) -> tuple[list[LogitPart], Tensor | None]:
        """The share of each head of an attention and of its bias, and what its source tokens contribute, [M]; None where the heads
        are not separated. path: of the module whose result the attention adds.
        """
        index, output = self.index[layer], self.outputs[path].detach().double()
        z = self.values[ValuePoint("output", index)]
        total = (self.direction.to(self.outputs[path]) * self.outputs[path]).sum()
        (gradient,) = torch.autograd.grad(total, [z], retain_graph=True)
        each = (gradient.double() * z.detach().double()).sum((0, 2, 3))
        whole = self.share(output)
        rest = self.share(self.empty[path].double()) if path in self.empty else float("nan")
        near = {torch.float64: 1e-8, torch.float32: 1e-4}.get(self.gradient_dtype, 3e-2)
        if not abs(rest + float(each.sum()) - whole) <= near * max(1.0, abs(whole)):
            return [LogitPart(f"{name} attention", whole, "attention", block, head(layer))], None
        parts = [LogitPart(f"{name}H{h}", float(share), "head", block, head(layer, h)) for h, share in enumerate(each)]
        if bool(self.empty[path].any()):
            parts.append(LogitPart(f"{name} output bias", whole - float(each.sum()), "bias", block))
        weights, v = (self.values[ValuePoint(q, index)].detach().double() for q in ("weights", "v"))
        v = v.repeat_interleave(len(each) // v.shape[1], 1)
        if v.shape[-1] != gradient.shape[-1]:
            return parts, None
        return parts, (weights * (gradient.double() @ v.mT)).sum((0, 1, 2))


def _with_gradient(value: Tensor) -> Tensor:
    return value + torch.zeros_like(value, requires_grad=True)
