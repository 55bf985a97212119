"""Attention that turns with the points: queries, keys and values of every kind, and the way to whom one looks.

Scores are products of numbers with numbers and arrows with arrows, so they stay when everything turns; what comes home are numbers,
arrows, and arrows u_j (x_j - x_i). Two forms of the same: `dense`, all pairs in one call, and `local`, over neighbours.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import ShapeError
from equiscope.geometry import attend
from equiscope.geometry.attend import Neighbours
from equiscope.geometry.features import PLAIN, Features, Group, Widths, checked, is_arrow
from equiscope.geometry.maps import IN_SPACE, Map
from equiscope.geometry.radial import Radial, envelope


class SpaceAttention(nn.Module):
    """Features at points ask features at points: widths to the same widths.

    heads     H; they divide every width, which gives K channels of each kind to each head
    carried   U, how many ways home each head has
    radial    functions of the distance that bias each head's scores; 0: the square alone, times g >= 0, which is learned
    cutoff    beyond it nobody is seen, and weights end there smoothly; None: all see all
    filtered  messages are multiplied by functions of the distance too, which only lists of neighbours can do
    """

    preserves = IN_SPACE

    def __init__(
        self, widths: Widths, heads: int = 1, group: Group = "E(3)", carried: int = 1, radial: int = 0, cutoff: float | None = None,
        filtered: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = checked(widths, group)
        wrong = [f"{width} of {kind}" for kind, width in widths.items() if width % heads]
        if heads < 1 or wrong:
            raise ShapeError(
                f"{heads} heads do not divide {' and '.join(wrong) or 'anything'}. Give widths that are multiples of them."
            )
        self.heads, self.group, self.carried, self.cutoff = heads, group, carried, cutoff
        self.kinds = list(widths)
        self.each = {kind: width // heads for kind, width in widths.items()}
        self.plain, arrow = PLAIN[group]
        asks = {kind: 3 * width for kind, width in widths.items()}
        asks[self.plain] = asks.get(self.plain, 0) + heads * carried
        self.asking = Map(widths, asks, group)
        self.sharp = nn.Parameter(torch.full((heads,), -2.0))
        self.scale = sum(self.each.values()) ** -0.5
        home = dict(widths)
        self.arrow, self.pointing = None, None
        if arrow in widths:
            self.arrow, n = arrow, self.each[arrow]
            first = sum(self.each[kind] * (3 if is_arrow(kind) else 1) for kind in self.kinds[: self.kinds.index(arrow)])
            self.pointing = slice(first, first + 3 * n)
            home[arrow] = home[arrow] + heads * carried
            home[self.plain] = home.get(self.plain, 0) + heads * n
        self.output = Map(home, widths, group)
        reach = cutoff or 5.0
        self.radial = Radial(radial, reach) if radial else None
        self.steer = nn.Linear(radial, heads) if radial else None
        told = sum(n * (3 if is_arrow(kind) else 1) for kind, n in self.each.items())
        self.told = told
        filters = sum(self.each.values()) + carried
        self.filter = nn.Linear(radial, heads * filters) if filtered and radial else None
        if self.filter is not None:
            nn.init.zeros_(self.filter.bias)

    def forward(
        self, x: Features, at: Tensor, neighbours: Neighbours | None = None, valid: Tensor | None = None
    ) -> Features:  # fmt: skip
        """x at points at [B, N, 3]. Without neighbours all see all. valid [B, N]: False where there is no point."""
        q, k, v, u = self._ready(x)
        g = F.softplus(self.sharp)
        if neighbours is None and self.filter is None and self.cutoff is None:
            bias = None
            if self.radial is not None and self.steer is not None:
                square = (at.unsqueeze(2) - at.unsqueeze(1)).square().sum(-1)
                bias = self.steer(self.radial(square).to(q.dtype)).movedim(-1, 1)
            values, ways = attend.dense(q, k, v, u, at, g, self.scale, valid, bias, self.pointing)
        else:
            neighbours = everyone(at, valid) if neighbours is None else neighbours
            values, ways = self._local(q, k, v, u, neighbours, g)
        return self._home(values, ways)

    def _local(self, q: Tensor, k: Tensor, v: Tensor, u: Tensor, near: Neighbours, g: Tensor) -> tuple[Tensor, Tensor]:
        bias = filters = None
        if self.radial is not None and self.steer is not None:
            basis = self.radial(near.square).to(q.dtype)
            bias = self.steer(basis).movedim(-1, 1)
            if self.filter is not None:
                filters = self._filters(1 + self.filter(basis))
        ends = None if self.cutoff is None else envelope(near.square, self.cutoff)
        return attend.local(q, k, v, u, near, g, self.scale, bias, ends, filters, self.pointing)

    def _filters(self, filters: Tensor) -> Tensor:
        """Of each channel one factor, [B, N, J, H·n] to [B, H, N, J, V + U]: the three components of an arrow share theirs."""
        parts = filters.unflatten(-1, (self.heads, -1)).movedim(-2, 1).split([*self.each.values(), self.carried], -1)
        widened = [
            part.repeat(*[1] * (part.ndim - 1), 3) if is_arrow(kind) else part
            for kind, part in zip(self.kinds, parts[:-1], strict=True)
        ]
        return torch.cat([*widened, parts[-1]], -1)

    def _ready(self, x: Features) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, H, N, ·] and shares [B, H, N, U]: arrows as three numbers side by side."""
        asked = self.asking(x)
        queries, keys, values = [], [], []
        shares: Tensor | None = None
        for kind in asked:
            made, width = asked[kind], self.each.get(kind, 0)
            if kind == self.plain:
                made, shares = made.split((3 * width * self.heads, self.heads * self.carried), -1)
                shares = shares.unflatten(-1, (self.heads, -1)).movedim(-2, 1)
            if not width:
                continue
            parts = made.unflatten(-1, (self.heads, 3, width))  # [B, N, (3,) H, 3, n]
            parts = parts.movedim(-3, 1)  # [B, H, N, (3,) 3, n]
            q, k, v = parts.unbind(-2)
            if is_arrow(kind):
                q, k, v = (part.flatten(-2) for part in (q * 3**-0.5, k, v))
            queries.append(q)
            keys.append(k)
            values.append(v)
        return torch.cat(queries, -1), torch.cat(keys, -1), torch.cat(values, -1), cast(Tensor, shares)

    def _home(self, values: Tensor, ways: Tensor) -> Features:
        made, begin = Features(), 0
        for kind in self.kinds:
            width = self.each[kind] * (3 if is_arrow(kind) else 1)
            part = values[..., begin : begin + width]
            begin += width
            if is_arrow(kind):
                part = part.unflatten(-1, (3, -1))
            made[kind] = part.movedim(1, -2).flatten(-2)
        if self.arrow is not None:
            dots = values[..., begin:].movedim(1, -2).flatten(-2)
            made[self.plain] = torch.cat([made[self.plain], dots], -1) if self.plain in made else dots
            made[self.arrow] = torch.cat([made[self.arrow], ways.movedim(1, -2).flatten(-2)], -1)
        return self.output(made)


def everyone(at: Tensor, valid: Tensor | None = None) -> Neighbours:
    """Lists in which all points at [B, N, 3] are neighbours of all, in their order."""
    way = at.unsqueeze(1) - at.unsqueeze(2)
    seen = torch.ones(way.shape[:-1], dtype=torch.bool, device=at.device)
    return Neighbours(None, way, seen if valid is None else seen & valid.unsqueeze(1) & valid.unsqueeze(2))
