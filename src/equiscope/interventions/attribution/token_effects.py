"""Which input tokens decide an answer: what cheap scores say of each token, beside the measured effect of removing it.

A token is removed where it is read: in every layer no other token attends to it. All other tokens keep their positions. Each
score is compared with this effect by Spearman's rank correlation: scores with a sign with the drop of the metric, scores
without one with the size of its change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.interventions.attribution.direct import attribution
from equiscope.interventions.attribution.rollout import rollout
from equiscope.interventions.attribution.tail import StreamBlock, blocks_of
from equiscope.interventions.changes import Change
from equiscope.interventions.passes import Edit, ValuePoint
from equiscope.interventions.ranking import By, metric_name, rank
from equiscope.interventions.sites import Site, head
from equiscope.record import display

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

ATTENTION, ROLLOUT, SHARE, LENS = "attention of the last layer", "rollout", "direct share", "logit lens"
CROSS, CROSS_ROLLOUT, MEAN = "cross-attention", "cross-attention of rollouts", "replaced by the mean"
DELETED = "deleted"
SIGNED = (SHARE, LENS, MEAN, DELETED)
LIMITS = (
    "Removed means that no other token attends to it, in any layer: its position stays empty, and an input with such a gap may be "
    "one that the model has never seen. The token that the answer is read at cannot be removed."
)
CROSS_LIMITS = (
    "Removed means that no other token attends to this token of the source, in any layer of the encoder or of the decoder: its "
    "position stays empty, and a source with such a gap may be one that the model has never seen. What the decoder has written "
    "stays."
)
PRINTED = 40


@dataclass(repr=False)
class TokenEffects(display.Printed):
    """Scores of what each token does to a metric, and the measured effect.

    tokens   numbers of the tokens, of the source in a model of two stacks
    removed  change of the metric without the token
    scores   by the name of the method: a number for each token; without a sign unless it is in `SIGNED`
    read     tokens at which the answer is read
    calls    of the model
    """

    tokens: list[int]
    metric: str
    before: float
    removed: list[float]
    scores: dict[str, list[float]]
    read: list[int]
    calls: int
    notes: list[str]
    limits: str = LIMITS

    @property
    def correlations(self) -> dict[str, float | None]:
        """Spearman's rank correlation of each score with the effect of removal; None where one does not vary.

        Of scores with a sign with the drop of the metric, of others with the size of its change.
        """
        drop = [-x for x in self.removed]
        return {
            name: spearman(score, drop if name in SIGNED else [abs(x) for x in self.removed]) for name, score in self.scores.items()
        }

    @property
    def _remarks(self) -> list[str]:
        return [self.limits, *self.notes]

    @property
    def _heading(self) -> str:
        return f"{len(self.tokens)} tokens by change of {self.metric} ({self.before:.4g} unchanged), {self.calls} calls"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        order = sorted(range(len(self.tokens)), key=lambda i: -abs(self.removed[i]))
        rows = [("token", "removed", *self.scores)]
        for i in order[:PRINTED]:
            rows.append((str(self.tokens[i]), f"{self.removed[i]:+.4g}", *(f"{x[i]:.4g}" for x in self.scores.values())))
        if len(order) > PRINTED:
            rows.append((f"{len(order) - PRINTED} more", "", *("" for _ in self.scores)))
        words = ("" if x is None else f"{x:.2f}" for x in self.correlations.values())
        return [*rows, ("rank correlation with removal", "", *words)]


def token_effects(experiment: "Experiment", tokens: Sequence[int] | None, metric: str | None, of: str) -> TokenEffects:
    """All scores and the effect of removal. Raises InputError where there is no self-attention over the tokens."""
    name, before = metric_name(experiment, metric), experiment.passes
    blocks = blocks_of(experiment.layers, of)
    cross = [number for block in blocks for number in block.layers if experiment.layers[number].cross]
    source = blocks_of(experiment.layers[: blocks[0].layers[0]], "") if cross else blocks
    own = [block.layers[0] for block in source]
    n = experiment.layers[own[0]].attention.columns
    if any((one := experiment.layers[i].attention).rows != n or one.columns != n for i in own):
        raise InputError("The tokens that attend are not those that are attended to, so no token can be removed.")
    _check_tokens(experiment, source[0], own[0])
    weight = _read_rows(experiment, blocks[-1], name)
    read = [int(i) for i in weight.nonzero()[:, 0]]
    scores = _attention_scores(experiment, own, cross, weight)
    reaches = next(reversed(scores.values())) > 0  # through attention, in any number of layers; a causal mask hides later tokens
    chosen = [t % n for t in tokens] if tokens is not None else [t for t in range(n) if bool(reaches[t])]
    if not cross and len(read) == 1:
        chosen = [t for t in chosen if t not in read]
    if not chosen:
        raise InputError(f"The answer is read at token {read[0]} alone, which cannot be removed. Give a longer input.")

    def removal(one: Site) -> list[Change]:
        token = (one.tokens or (0,))[0]
        return [head(i).cut(None, token) for i in (*own, *cross)]

    def effect(site: Site, by: By) -> list[float]:
        ranking = rank(experiment, [site.on(t) for t in chosen], by, name, None)
        effects = {(row.site.tokens or (0,))[0]: row.effect or 0.0 for row in ranking.rows}
        return [effects[t] for t in chosen]

    start = Site("input", path=str(source[0].entry.key))
    removed = effect(start, removal)
    notes = list(experiment.notes)
    try:
        shares = attribution(experiment, name, of)
    except InputError as error:
        notes.append(f"There are no direct shares: {error}")
    else:
        found = shares.sources if cross else shares.tokens
        if found is not None:
            scores[SHARE] = found
    result = {key: [float(values[t]) for t in chosen] for key, values in scores.items()}
    if not cross:
        last = experiment.values([blocks[-1].exit])[blocks[-1].exit]
        if experiment.layers[own[0]].tokens == -2 and last.ndim == 3 and last.shape[1] == n:
            exit_site = Site("module", path=str(blocks[-1].exit.key))
            result[LENS] = effect(exit_site, lambda one: exit_site.set(last[:, list(one.tokens or ())]))
    result[MEAN] = [-x for x in effect(start, "mean")]
    return TokenEffects(
        chosen, name, experiment.metrics_before[list(experiment.metrics).index(name)], removed, result, read,
        experiment.passes - before, notes, CROSS_LIMITS if cross else LIMITS,
    )  # fmt: skip


def _check_tokens(experiment: "Experiment", block: StreamBlock, layer: int) -> None:
    """Raises InputError where the tokens of an attention are not those of the stream, as in windows."""
    stream = experiment.values([block.entry])[block.entry]
    site, first = experiment.layers[layer].attention, experiment.layers[layer].tokens == 0
    wanted = (site.rows, site.batch) if first else (site.batch, site.rows)
    if stream.ndim != 3 or tuple(stream.shape[:2]) != wanted:
        raise InputError(
            f"{block.path} reads {list(stream.shape)}, but its attention has {site.batch} sequences of {site.rows} tokens, as in "
            "windows: a token of the input is not one of the attention, so none can be removed. rank() measures heads."
        )


def _read_rows(experiment: "Experiment", block: StreamBlock, name: str) -> Tensor:
    """How much the metric depends on each row of the last stream: [N], summing to 1; 0 for rows that it does not read."""
    added: list[Tensor] = []

    def change(value: Tensor) -> Tensor:
        added.append(torch.zeros_like(value, requires_grad=True))
        return value + added[0]

    with torch.enable_grad():
        output, _ = experiment.forward({block.exit: [Edit(change)]}, gradients=True)
        number = experiment.metrics[name](experiment.output(output))
        if not isinstance(number, Tensor) or not number.requires_grad:
            raise InputError(f"The metric {name} has no gradient: it left torch, or does not read the output.")
        (gradient,) = torch.autograd.grad(number.reshape(()), added)
    axis = experiment.layers[block.layers[0]].tokens
    size = gradient.double().square().sum(-1).sqrt().sum(1 if axis == 0 else 0)
    return size / size.sum().clamp(min=1e-300)


def _attention_scores(experiment: "Experiment", own: Sequence[int], cross: Sequence[int], weight: Tensor) -> dict[str, Tensor]:
    """Scores of attention weights alone, [M]: of the rows at which the answer is read."""
    points = {i: ValuePoint("weights", experiment.layers[i].attention.index) for i in (*own, *cross)}
    values = {i: one.double().mean(0) for i, one in zip(points, experiment.values(list(points.values())).values(), strict=True)}
    flow = rollout(values[i] for i in own)
    if not cross:
        return {ATTENTION: weight @ values[own[-1]].mean(0), ROLLOUT: weight @ flow}
    mean = torch.stack([values[i].mean(0) for i in cross]).mean(0)
    return {CROSS: weight @ mean, CROSS_ROLLOUT: weight @ mean @ flow}


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation; equal numbers share their mean rank. None for fewer than three, or where one does not vary."""
    if len(a) != len(b):
        raise InputError(f"A rank correlation is of pairs, but got {len(a)} and {len(b)} numbers.")
    x, y = (_ranks(one) for one in (a, b))
    spread = x.std() * y.std() if len(x) > 2 else x.new_zeros(())
    return None if spread == 0 else float(torch.corrcoef(torch.stack([x, y]))[0, 1])


def _ranks(numbers: Sequence[float]) -> Tensor:
    t = torch.tensor(numbers, dtype=torch.float64)
    _, inverse, counts = t.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts.double() - 1) / 2)[inverse]
