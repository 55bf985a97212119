"""Survey: statistics of each head on one input, its role, and a thumbnail of its weights."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from equiscope.program.attended.attended import Attended
from equiscope.record import HeadStatistics
from equiscope.record.heads import Role

ROWS = 512  # rows that statistics are taken from: all, or this many at equal distances
SIDE = 32  # cells along a side of the thumbnail
MOST = 0.5  # mean weight on one token from which on it names the role
UNIFORM = 0.98  # entropy from which on a head attends almost uniformly
DENSE = 2**22  # numbers up to which a table is dense
ITERATIONS = 12  # of the alternating fit of distance and position


@dataclass(frozen=True)
class Survey:
    """Statistics of all heads, and H · side · side bytes: 255·√(largest weight) in each cell of a thumbnail."""

    heads: list[HeadStatistics]
    thumbnails: bytes
    thumbnail_side: int


def survey(one: Attended, own: bool) -> Survey:
    """Read all weights once. own: self-attention, where the previous token and the token itself are defined.

    Sets `one.reconstruction_error` where it is not measured yet.
    """
    if one.reconstruction_error is not None or (one.weights is None and (one.output is None or one.v is None)):
        return _survey(one, own)[0]
    statistics, worst = _survey(one, own)
    one.set_reconstruction_error(worst)
    return statistics if one.trusted or one.weights is None else _survey(one, own)[0]


def _survey(one: Attended, own: bool) -> tuple[Survey, float]:
    """The survey, and the largest difference from the model's output."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    side, compare, worst = min(SIDE, max(n, m)), one.reconstruction_error is None, 0.0
    rows = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    alike = one.mask is None or len(one.mask) == 1
    pairs, figures, sums, pictures = _Pairs(one, 0, rows, own), [], [], []
    for head in range(one.heads):
        pairs = pairs if alike or head == 0 else _Pairs(one, head, rows, own)
        sampled, largest = torch.zeros(len(pairs.rows), m, dtype=torch.float64), torch.zeros(n, side, dtype=torch.float64)
        for some, columns in one.row_chunks():
            weights = (
                one.recomputed_weights(head, some, columns=columns) if compare else one.best_weights(head, some, columns=columns)
            )
            if compare:
                worst = max(worst, one.difference(head, some, weights))
            begin, end = torch.searchsorted(pairs.rows, torch.stack([some[0], some[-1] + 1])).tolist()
            sampled[begin:end, :columns] = weights[pairs.rows[begin:end] - some[0]]
            largest[some] = _pooled(weights, m, side)
        pictures.append(adaptive_max_pool2d(largest[None], side)[0])
        figures.append(pairs.figures(sampled))
        sums.append((pairs, pairs.sums(sampled)))
    content = pairs.content([one for _, one in sums]) if alike else [mine.content([one])[0] for mine, one in sums]
    heads = [_head(statistics | {"content": share}) for statistics, share in zip(figures, content, strict=True)]
    bytes_ = (255 * torch.stack(pictures).clamp(0, 1).sqrt()).round().to(torch.uint8).numpy().tobytes()
    return Survey(heads, bytes_, side), worst


def _pooled(weights: Tensor, columns: int, side: int) -> Tensor:
    """[rows, side] of the largest weights of each row; missing columns at its end are 0."""
    if columns % side:
        full = torch.nn.functional.pad(weights, (0, columns - weights.shape[-1]))
        return adaptive_max_pool2d(full[None], (len(full), side))[0]
    step = columns // side
    cells = -(-weights.shape[-1] // step)
    full = torch.nn.functional.pad(weights, (0, cells * step - weights.shape[-1]))
    return torch.nn.functional.pad(full.reshape(len(full), cells, step).amax(-1), (0, side - cells))


def _head(figures: dict[str, float | None]) -> HeadStatistics:
    if figures.get("entropy") is None:
        return HeadStatistics(role="mixed")
    return HeadStatistics(role=_role(figures), **figures)


def _on(weights: Tensor, columns: Tensor, where: Tensor) -> float | None:
    """The mean weight on one column per row."""
    return weights[where.nonzero()[:, 0], columns[where]].mean().item() if bool(where.any()) else None


def _diagonal(rows: Tensor, weights: Tensor) -> dict[str, float | None]:
    """How often the largest weight of a row lies on the straight line from the first tokens of both sequences to the last ones.

    A distance of at most one token counts. diagonal_chance: the same share for random links, the share of tokens that count.
    """
    last = weights.shape[-1] - 1
    position = rows.double() * (last / max(1, int(rows.max())))
    near = (torch.arange(last + 1)[None, :] - position[:, None]).abs() <= 1
    met = near.gather(1, weights.argmax(-1, keepdim=True))
    return {"diagonal": met.double().mean().item(), "diagonal_chance": near.double().mean().item()}


class _Pairs:
    """The allowed pairs in rows that may attend to two tokens or more, and statistics of weights on these pairs.

    Content is the share of the weights' variance that distance and key position do not explain: the residual of the alternating fit
    weight[i, j] ~ position[j] + distance[i - j]. Weights are relative to a uniform row; the residual is corrected for the degrees
    of freedom of the fit, which needs sums by position and by distance only, not the pairs again.
    """

    def __init__(self, one: Attended, head: int, rows: Tensor, own: bool) -> None:
        mask = one.allowed(head, rows)
        choosing = mask.sum(-1) > 1
        self.mask, self.rows, self.own = mask[choosing], rows[choosing], own
        self.counts, self.too_few = self.mask.sum(-1).double(), not len(self.rows)
        if self.too_few:
            return
        self.number = int(self.counts.sum())
        i, j = self.mask.nonzero(as_tuple=True)
        self.positions = torch.bincount(j, minlength=self.mask.shape[-1]).double()
        if own:
            distance_index = torch.arange(self.mask.shape[-1])[None, :] - self.rows[:, None]
            self.steps, distance_index = distance_index.abs().double(), distance_index + int(self.rows.max())
            self.distance_index = distance_index.flatten()
            self.distances = torch.bincount(distance_index[i, j], minlength=int(self.distance_index.max()) + 1).double()
            at, size = torch.stack([j, distance_index[i, j]]), (len(self.positions), len(self.distances))
            both = torch.sparse_coo_tensor(at, torch.ones(len(j), dtype=torch.float64), size, check_invariants=False)
            self.both = both.to_dense() if size[0] * size[1] <= DENSE else both.coalesce()
            self.back = self.both.t() if size[0] * size[1] <= DENSE else both.t().coalesce()

    def figures(self, weights: Tensor) -> dict[str, float | None]:
        """Means over rows. weights: [R, M] of these rows."""
        if self.too_few:
            return {}
        rows = self.rows
        entropy = torch.special.entr(weights).sum(-1) / self.counts.log()
        statistics: dict[str, float | None] = {"entropy": entropy.mean().item()}
        statistics["first"] = _on(weights, torch.zeros_like(rows), rows > 0) if self.own else weights[:, 0].mean().item()
        if not self.own and min(len(rows), weights.shape[-1]) > 1:
            statistics |= _diagonal(rows, weights)
        if self.own:
            statistics["previous"] = _on(weights, rows - 1, rows > 0)
            statistics["own"] = _on(weights, rows, rows < weights.shape[-1])
            statistics["distance"] = (weights.flatten() @ self.steps.flatten()).item() / len(rows)
        return statistics

    def sums(self, weights: Tensor) -> tuple[Tensor, Tensor, float]:
        """Of weights relative to a uniform row, minus their mean: sums by position and by distance, and the sum of squares."""
        by = torch.zeros(0, dtype=torch.float64)
        if self.too_few:
            return by, by, 0.0
        values = (weights * self.counts[:, None]).masked_fill_(~self.mask, 0.0)
        values = values.sub_(values.sum() / self.number).masked_fill_(~self.mask, 0.0)
        if self.own:
            by = torch.zeros(len(self.distances), dtype=torch.float64).index_add_(0, self.distance_index, values.flatten())
        return values.sum(0), by, (values.flatten() @ values.flatten()).item()

    def content(self, sums: list[tuple[Tensor, Tensor, float]]) -> list[float | None]:
        """Of heads with the same mask. None where weights do not vary, or the pairs are too few."""
        if self.too_few:
            return [None] * len(sums)
        position_sums = torch.stack([one[0] for one in sums], -1)
        every = self.positions.clamp(min=1)[:, None]
        position, used = position_sums / every, int((self.positions > 0).sum())
        rest = torch.tensor([one[2] for one in sums], dtype=torch.float64)
        if self.own:
            distance_sums, each = torch.stack([one[1] for one in sums], -1), self.distances.clamp(min=1)[:, None]
            distance = (distance_sums - self.back @ position) / each
            for _ in range(ITERATIONS - 1):
                position = (position_sums - self.both @ distance) / every
                distance = (distance_sums - self.back @ position) / each
            used += int((self.distances > 0).sum()) - 1
            rest = (
                rest
                - 2 * (distance * distance_sums).sum(0)
                + (each * distance**2).sum(0)
                + 2 * (position * (self.both @ distance)).sum(0)
            )
        rest = rest - 2 * (position * position_sums).sum(0) + (every * position**2).sum(0)
        left, free = self.number - used, self.number - 1
        return [
            None if total < 1e-12 * self.number or left < 1 else min(1.0, max(0.0, (one / left) / (total / free)))
            for (_, _, total), one in zip(sums, rest.tolist(), strict=True)
        ]


def _role(figures: dict[str, float | None]) -> Role:
    roles: list[tuple[Role, str]] = [("previous", "previous"), ("self", "own"), ("first", "first")]
    most, role = max(((figures.get(figure) or 0.0, role) for role, figure in roles), key=lambda one: one[0])
    if most >= MOST:
        return role
    if (figures["entropy"] or 0.0) >= UNIFORM:
        return "uniform"
    return "content" if (figures["content"] or 0.0) >= MOST else "mixed"
