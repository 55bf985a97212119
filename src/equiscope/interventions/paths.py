"""The path from a token to an answer: attention edges by which the token reaches the token of the answer.

Removing an edge of weight w multiplies the other weights of its row by 1 / (1 - w). With the gradient g of the metric by the
weights, and ĝ, the mean of g over the row by its weights, the first-order effect is w / (1 - w) · (ĝ - g). The path is the widest
one: among all ways through the layers, along edges or straight on in the residual stream, the one whose weakest edge has the
largest estimate. Every edge on it is then removed and measured.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.interventions.changes import Change
from equiscope.interventions.ranking import gradients, metric_name
from equiscope.interventions.sites import Site, head
from equiscope.record import display

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

LIMITS = (
    "One path of many: estimates are of first order and choose it; other edges, or several together, may carry as much. Only "
    "attention moves between tokens; what a feed-forward does to a token on the way is not separated."
)


@dataclass(frozen=True)
class Edge:
    """A token attends to another one in a head. estimate: first-order effect of its removal; effect: measured."""

    site: Site
    token: int
    attends_to: int
    estimate: float
    effect: float

    def cut(self) -> Change:
        """The removal of this edge."""
        return self.site.cut(self.token, self.attends_to)


@dataclass(repr=False)
class TokenPath(display.Printed):
    """The widest path from a token to the token of an answer.

    edges   in the order of the layers; together: the effect of removing all of them at once
    total   the effect of removing every edge by which another token attends to the first token
    calls   forward calls; there was one backward pass
    """

    token: int
    answer: int
    metric: str
    before: float
    edges: list[Edge]
    together: float
    total: float
    calls: int
    limits: str = LIMITS

    @property
    def _remarks(self) -> list[str]:
        return [self.limits]

    @property
    def _heading(self) -> str:
        return (
            f"Path from token {self.token} to token {self.answer}, by change of {self.metric} ({self.before:.4g} unchanged): "
            f"{self.calls} forward calls and 1 backward."
        )

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [("removed", "change", "estimate")]
        for one in self.edges:
            words = f"{str(one.site).split()[0]}: {one.token} attends to {one.attends_to}"
            rows.append((words, f"{one.effect:+.4g}", f"{one.estimate:+.4g}"))
        rows.append(("these edges together", f"{self.together:+.4g}", ""))
        rows.append((f"every edge to token {self.token}", f"{self.total:+.4g}", ""))
        return rows


def path(experiment: "Experiment", token: int, answer: int, metric: str | None, of: str) -> TokenPath:
    """The widest path from a token to another one. Raises InputError where no edge leads there."""
    name, before = metric_name(experiment, metric), experiment.passes
    layers = [one for one in experiment.layers if of in one.attention.path]
    if not layers or any(one.attention.rows != one.attention.columns for one in layers):
        raise InputError(
            'A path is through self-attention over one sequence. Choose it by a part of its path, such as of="encoder".'
        )
    n = layers[0].attention.rows
    token, answer = token % n, answer % n
    sites = [head(i, of=of) for i in range(len(layers))]
    by_weights, weights = gradients(experiment, [site.weights.zero() for site in sites], name)
    tables = [_removal(weights[point], by_weights[point]) for point in weights]
    steps = _widest(tables, token, answer)
    position = list(experiment.metrics).index(name)
    edges = []
    for layer, index, row, column in steps:
        site = head(layer, index, of=of)
        effect = experiment.run(site.cut(row, column)).metrics[position].change
        edges.append(Edge(site, row, column, tables[layer][index, row, column].item(), effect))
    together = experiment.run([one.cut() for one in edges]).metrics[position].change
    others = [head(of=of).cut(i, token) for i in range(n) if i != token]
    total = experiment.run(others).metrics[position].change
    base = experiment.metrics_before[position]
    return TokenPath(token, answer, name, base, edges, together, total, experiment.passes - before)


def _removal(weights: Tensor, gradient: Tensor) -> Tensor:
    """First-order effect of removing each edge, summed over sequences. [H, N, M]; 0 where an edge is all of its row."""
    mean = (gradient * weights).sum(-1, keepdim=True)
    left = 1 - weights
    alone = left < 1e-6
    return (weights / left.masked_fill(alone, 1) * (mean - gradient)).masked_fill(alone, 0).sum(0)


def _widest(tables: list[Tensor], token: int, answer: int) -> list[tuple[int, int, int, int]]:
    """Layer, head, query and key token of the edges of the widest path."""
    n = tables[0].shape[-1]
    width = torch.zeros(n, dtype=torch.float64)
    width[token] = torch.inf
    came: list[tuple[Tensor, Tensor, Tensor]] = []  # whether a token was reached by an edge, from where, by which head
    for table in tables:
        strength, index = table.abs().double().max(0)
        reached, source = torch.minimum(strength, width[None, :]).max(-1)
        moves = reached > width
        came.append((moves, source, index.gather(1, source[:, None])[:, 0]))
        width = torch.maximum(width, reached)
    if not width[answer] > 0 or token == answer:
        raise InputError(f"No edge leads from token {token} to token {answer}: it is masked, or they are the same token.")
    steps, here = [], answer
    for layer in reversed(range(len(tables))):
        moves, source, index = came[layer]
        if bool(moves[here]):
            steps.append((layer, int(index[here]), here, int(source[here])))
            here = int(source[here])
    return steps[::-1]
