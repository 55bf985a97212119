"""Roles: what a head does with one input, as measured figures, and a small picture of its weights."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from equiscope.program.attended.attended import Attended
from equiscope.record import Head
from equiscope.record.heads import Role

ROWS = 512  # that figures are taken from: all of them, or so many at equal distances
SIDE = 32  # cells of the small picture
MOST = 0.5  # weight on one place, on average, that makes a role of it
EVEN = 0.98  # entropy from which on a head hardly chooses
DENSE = 2**22  # numbers of a table that is not written as a sparse one
TURNS = 12  # that explain weights by distance and place, in turn


@dataclass(frozen=True)
class Survey:
    """What all heads do, and H · side · side bytes: 255·√(largest weight) in each cell of a picture."""

    heads: list[Head]
    small: bytes
    side: int


def survey(one: Attended, own: bool) -> Survey:
    """Look at all weights once. own: the tokens ask themselves, so that before and beside mean something.

    Where nobody has compared them with what the model gave, it is done on the way: `one.rebuilt` is set.
    """
    if one.rebuilt is not None or (one.weights is None and (one.result is None or one.v is None)):
        return _survey(one, own)[0]
    found, worst = _survey(one, own)
    one.compared(worst)
    return found if one.trusted or one.weights is None else _survey(one, own)[0]


def _survey(one: Attended, own: bool) -> tuple[Survey, float]:
    """With the largest difference from what the model gave."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    side, compare, worst = min(SIDE, max(n, m)), one.rebuilt is None, 0.0
    rows = torch.arange(n) if n <= ROWS else torch.linspace(0, n - 1, ROWS).round().long()
    alike = one.seen is None or len(one.seen) == 1
    pairs, figures, sums, pictures = _Pairs(one, 0, rows, own), [], [], []
    for head in range(one.heads):
        pairs = pairs if alike or head == 0 else _Pairs(one, head, rows, own)
        kept, largest = torch.zeros(len(pairs.rows), m, dtype=torch.float64), torch.zeros(n, side, dtype=torch.float64)
        for some, columns in one.pieces():
            weights = one.weigh(head, some, columns=columns) if compare else one.shown(head, some, columns=columns)
            if compare:
                worst = max(worst, one.difference(head, some, weights))
            begin, end = torch.searchsorted(pairs.rows, torch.stack([some[0], some[-1] + 1])).tolist()
            kept[begin:end, :columns] = weights[pairs.rows[begin:end] - some[0]]
            largest[some] = _pooled(weights, m, side)
        pictures.append(adaptive_max_pool2d(largest[None], side)[0])
        figures.append(pairs.figures(kept))
        sums.append((pairs, pairs.sums(kept)))
    content = pairs.content([one for _, one in sums]) if alike else [mine.content([one])[0] for mine, one in sums]
    heads = [_head(found | {"content": share}) for found, share in zip(figures, content, strict=True)]
    bytes_ = (255 * torch.stack(pictures).clamp(0, 1).sqrt()).round().to(torch.uint8).numpy().tobytes()
    return Survey(heads, bytes_, side), worst


def _pooled(weights: Tensor, columns: int, side: int) -> Tensor:
    """[rows, side] of the largest weights of each row, where those that are missing at its end are 0."""
    if columns % side:
        full = torch.nn.functional.pad(weights, (0, columns - weights.shape[-1]))
        return adaptive_max_pool2d(full[None], (len(full), side))[0]
    step = columns // side
    cells = -(-weights.shape[-1] // step)
    full = torch.nn.functional.pad(weights, (0, cells * step - weights.shape[-1]))
    return torch.nn.functional.pad(full.reshape(len(full), cells, step).amax(-1), (0, side - cells))


def _head(figures: dict[str, float | None]) -> Head:
    if figures.get("entropy") is None:
        return Head(role="mixed")
    return Head(role=_role(figures), **figures)


def _on(weights: Tensor, columns: Tensor, where: Tensor) -> float | None:
    """The mean weight on one column of each row."""
    return weights[where.nonzero()[:, 0], columns[where]].mean().item() if bool(where.any()) else None


def _straight(rows: Tensor, weights: Tensor) -> dict[str, float | None]:
    """How often the largest weight of a row lies on the straight way from the first token with the first to the last with the last.

    At most one token beside it counts. straight: what links by chance come to, which is the share of tokens that count.
    """
    last = weights.shape[-1] - 1
    place = rows.double() * (last / max(1, int(rows.max())))
    near = (torch.arange(last + 1)[None, :] - place[:, None]).abs() <= 1
    met = near.gather(1, weights.argmax(-1, keepdim=True))
    return {"diagonal": met.double().mean().item(), "straight": near.double().mean().item()}


class _Pairs:
    """Who may see whom, in rows that may see two or more, and what can be said of weights on these pairs.

    Content is the share of the weights' variation that is left when what follows from distance and from the key's place is gone:
    weight[i, j] ~ place[j] + distance[i - j], fitted in turn. Weights are taken relative to an even row; the rest is set against
    what chance would leave with so many free numbers. The fit needs sums by place and by distance only, not the pairs again.
    """

    def __init__(self, one: Attended, head: int, rows: Tensor, own: bool) -> None:
        seen = one.visible(head, rows)
        choosing = seen.sum(-1) > 1
        self.seen, self.rows, self.own = seen[choosing], rows[choosing], own
        self.counts, self.few = self.seen.sum(-1).double(), not len(self.rows)
        if self.few:
            return
        self.number = int(self.counts.sum())
        i, j = self.seen.nonzero(as_tuple=True)
        self.places = torch.bincount(j, minlength=self.seen.shape[-1]).double()
        if own:
            apart = torch.arange(self.seen.shape[-1])[None, :] - self.rows[:, None]
            self.steps, apart = apart.abs().double(), apart + int(self.rows.max())
            self.apart = apart.flatten()
            self.distances = torch.bincount(apart[i, j], minlength=int(self.apart.max()) + 1).double()
            at, size = torch.stack([j, apart[i, j]]), (len(self.places), len(self.distances))
            both = torch.sparse_coo_tensor(at, torch.ones(len(j), dtype=torch.float64), size, check_invariants=False)
            self.both = both.to_dense() if size[0] * size[1] <= DENSE else both.coalesce()
            self.back = self.both.t() if size[0] * size[1] <= DENSE else both.t().coalesce()

    def figures(self, weights: Tensor) -> dict[str, float | None]:
        """Means over rows. weights: of these rows, [R, M]."""
        if self.few:
            return {}
        rows = self.rows
        entropy = torch.special.entr(weights).sum(-1) / self.counts.log()
        found: dict[str, float | None] = {"entropy": entropy.mean().item()}
        found["first"] = _on(weights, torch.zeros_like(rows), rows > 0) if self.own else weights[:, 0].mean().item()
        if not self.own and min(len(rows), weights.shape[-1]) > 1:
            found |= _straight(rows, weights)
        if self.own:
            found["previous"] = _on(weights, rows - 1, rows > 0)
            found["own"] = _on(weights, rows, rows < weights.shape[-1])
            found["distance"] = (weights.flatten() @ self.steps.flatten()).item() / len(rows)
        return found

    def sums(self, weights: Tensor) -> tuple[Tensor, Tensor, float]:
        """Of weights relative to an even row, less their mean: sums by place and by distance, and of squares."""
        by = torch.zeros(0, dtype=torch.float64)
        if self.few:
            return by, by, 0.0
        values = (weights * self.counts[:, None]).masked_fill_(~self.seen, 0.0)
        values = values.sub_(values.sum() / self.number).masked_fill_(~self.seen, 0.0)
        if self.own:
            by = torch.zeros(len(self.distances), dtype=torch.float64).index_add_(0, self.apart, values.flatten())
        return values.sum(0), by, (values.flatten() @ values.flatten()).item()

    def content(self, sums: list[tuple[Tensor, Tensor, float]]) -> list[float | None]:
        """Of heads that see the same pairs. None where nothing varies, or too few pairs are seen to tell."""
        if self.few:
            return [None] * len(sums)
        placed = torch.stack([one[0] for one in sums], -1)
        every = self.places.clamp(min=1)[:, None]
        place, used = placed / every, int((self.places > 0).sum())
        rest = torch.tensor([one[2] for one in sums], dtype=torch.float64)
        if self.own:
            apart, each = torch.stack([one[1] for one in sums], -1), self.distances.clamp(min=1)[:, None]
            distance = (apart - self.back @ place) / each
            for _ in range(TURNS - 1):
                place = (placed - self.both @ distance) / every
                distance = (apart - self.back @ place) / each
            used += int((self.distances > 0).sum()) - 1
            rest = rest - 2 * (distance * apart).sum(0) + (each * distance**2).sum(0) + 2 * (place * (self.both @ distance)).sum(0)
        rest = rest - 2 * (place * placed).sum(0) + (every * place**2).sum(0)
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
    if (figures["entropy"] or 0.0) >= EVEN:
        return "even"
    return "content" if (figures["content"] or 0.0) >= MOST else "mixed"
