"""Equivariant attention: queries, keys and values of every kind of feature, and sums of relative positions.

Scores are products of scalars with scalars and vectors with vectors, so rotations leave them unchanged. The output is a sum of
scalars, of vectors, and of vectors u_j (x_j - x_i). Two forms give the same: `dense`, all pairs in one call, and `local`, over
neighbour lists.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import ShapeError
from equiscope.geometry import attend
from equiscope.geometry.attend import Neighbours
from equiscope.geometry.features import PLAIN, Features, Group, Widths, checked, is_vector
from equiscope.geometry.maps import IN_SPACE, EquivariantLinear
from equiscope.geometry.radial import Radial, envelope


class SpaceAttention(nn.Module):
    """Attention among features at points; the output has the widths of the input.

    heads        H; they divide every width, which gives K channels of each kind to each head
    value_heads  U, how many relative positions each head sums
    radial       radial basis functions for a bias of each head's scores; 0: only the squared distance, times a learned g >= 0
    cutoff       no attention beyond it; weights go to 0 there smoothly. None: all pairs attend
    filtered     messages are multiplied by functions of the distance too, which needs neighbour lists
    """

    preserves = IN_SPACE

    def __init__(
        self, widths: Widths, heads: int = 1, group: Group = "E(3)", value_heads: int = 1, radial: int = 0,
        cutoff: float | None = None, filtered: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = checked(widths, group)
        wrong = [f"{width} of {kind}" for kind, width in widths.items() if width % heads]
        if heads < 1 or wrong:
            raise ShapeError(
                f"{heads} heads do not divide {' and '.join(wrong) or 'anything'}. Give widths that are multiples of them."
            )
        self.heads, self.group, self.value_heads, self.cutoff = heads, group, value_heads, cutoff
        self.kinds = list(widths)
        self.each = {kind: width // heads for kind, width in widths.items()}
        self.plain, arrow = PLAIN[group]
        qkv_widths = {kind: 3 * width for kind, width in widths.items()}
        qkv_widths[self.plain] = qkv_widths.get(self.plain, 0) + heads * value_heads
        self.qkv_proj = EquivariantLinear(widths, qkv_widths, group)
        self.decay = nn.Parameter(torch.full((heads,), -2.0))
        self.scale = sum(self.each.values()) ** -0.5
        output_widths = dict(widths)
        self.arrow, self.vector_slice = None, None
        if arrow in widths:
            self.arrow, n = arrow, self.each[arrow]
            first = sum(self.each[kind] * (3 if is_vector(kind) else 1) for kind in self.kinds[: self.kinds.index(arrow)])
            self.vector_slice = slice(first, first + 3 * n)
            output_widths[arrow] = output_widths[arrow] + heads * value_heads
            output_widths[self.plain] = output_widths.get(self.plain, 0) + heads * n
        self.o_proj = EquivariantLinear(output_widths, widths, group)
        reach = cutoff or 5.0
        self.radial = Radial(radial, reach) if radial else None
        self.radial_bias = nn.Linear(radial, heads) if radial else None
        value_size = sum(n * (3 if is_vector(kind) else 1) for kind, n in self.each.items())
        self.value_size = value_size
        filters = sum(self.each.values()) + value_heads
        self.filter = nn.Linear(radial, heads * filters) if filtered and radial else None
        if self.filter is not None:
            nn.init.zeros_(self.filter.bias)

    def forward(
        self, x: Features, at: Tensor, neighbours: Neighbours | None = None, valid: Tensor | None = None
    ) -> Features:  # fmt: skip
        """x at points at [B, N, 3]. Without neighbours all pairs attend. valid [B, N]: False for padding."""
        q, k, v, u = self._project(x)
        g = F.softplus(self.decay)
        if neighbours is None and self.filter is None and self.cutoff is None:
            bias = None
            if self.radial is not None and self.radial_bias is not None:
                squared_distance = (at.unsqueeze(2) - at.unsqueeze(1)).square().sum(-1)
                bias = self.radial_bias(self.radial(squared_distance).to(q.dtype)).movedim(-1, 1)
            values, displacements = attend.dense(q, k, v, u, at, g, self.scale, valid, bias, self.vector_slice)
        else:
            neighbours = all_pairs(at, valid) if neighbours is None else neighbours
            values, displacements = self._local(q, k, v, u, neighbours, g)
        return self._output(values, displacements)

    def _local(self, q: Tensor, k: Tensor, v: Tensor, u: Tensor, near: Neighbours, g: Tensor) -> tuple[Tensor, Tensor]:
        bias = filters = None
        if self.radial is not None and self.radial_bias is not None:
            basis = self.radial(near.squared_distance).to(q.dtype)
            bias = self.radial_bias(basis).movedim(-1, 1)
            if self.filter is not None:
                filters = self._filters(1 + self.filter(basis))
        ends = None if self.cutoff is None else envelope(near.squared_distance, self.cutoff)
        return attend.local(q, k, v, u, near, g, self.scale, bias, ends, filters, self.vector_slice)

    def _filters(self, filters: Tensor) -> Tensor:
        """Of each channel one factor, [B, N, J, H·n] to [B, H, N, J, V + U]: the three components of a vector share one."""
        parts = filters.unflatten(-1, (self.heads, -1)).movedim(-2, 1).split([*self.each.values(), self.value_heads], -1)
        widened = [
            part.repeat(*[1] * (part.ndim - 1), 3) if is_vector(kind) else part
            for kind, part in zip(self.kinds, parts[:-1], strict=True)
        ]
        return torch.cat([*widened, parts[-1]], -1)

    def _project(self, x: Features) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys and values [B, H, N, ·] and factors u [B, H, N, U]; the components of vectors are concatenated."""
        qkv = self.qkv_proj(x)
        queries, keys, values = [], [], []
        shares: Tensor | None = None
        for kind in qkv:
            projected, width = qkv[kind], self.each.get(kind, 0)
            if kind == self.plain:
                projected, shares = projected.split((3 * width * self.heads, self.heads * self.value_heads), -1)
                shares = shares.unflatten(-1, (self.heads, -1)).movedim(-2, 1)
            if not width:
                continue
            parts = projected.unflatten(-1, (self.heads, 3, width))  # [B, N, (3,) H, 3, n]
            parts = parts.movedim(-3, 1)  # [B, H, N, (3,) 3, n]
            q, k, v = parts.unbind(-2)
            if is_vector(kind):
                q, k, v = (part.flatten(-2) for part in (q * 3**-0.5, k, v))
            queries.append(q)
            keys.append(k)
            values.append(v)
        return torch.cat(queries, -1), torch.cat(keys, -1), torch.cat(values, -1), cast(Tensor, shares)

    def _output(self, values: Tensor, displacements: Tensor) -> Features:
        out, begin = Features(), 0
        for kind in self.kinds:
            width = self.each[kind] * (3 if is_vector(kind) else 1)
            part = values[..., begin : begin + width]
            begin += width
            if is_vector(kind):
                part = part.unflatten(-1, (3, -1))
            out[kind] = part.movedim(1, -2).flatten(-2)
        if self.arrow is not None:
            dots = values[..., begin:].movedim(1, -2).flatten(-2)
            out[self.plain] = torch.cat([out[self.plain], dots], -1) if self.plain in out else dots
            out[self.arrow] = torch.cat([out[self.arrow], displacements.movedim(1, -2).flatten(-2)], -1)
        return self.o_proj(out)


def all_pairs(at: Tensor, valid: Tensor | None = None) -> Neighbours:
    """Neighbour lists in which all points at [B, N, 3] are neighbours of all, in their order."""
    displacement = at.unsqueeze(1) - at.unsqueeze(2)
    mask = torch.ones(displacement.shape[:-1], dtype=torch.bool, device=at.device)
    return Neighbours(None, displacement, mask if valid is None else mask & valid.unsqueeze(1) & valid.unsqueeze(2))
