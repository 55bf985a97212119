"""Plan: what all layers of one forward pass share, made once, when a layer first asks: who may look, what distance costs.

Masks and biases are functions of coordinates; here they become tensors, as small as the coordinates allow. Where places grow
by one from row to row and a bias knows only differences, one value for each distance will do (`DistanceBias`); where ranks do
too, a causal mask needs no tensor at all.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from equiscope.attention.chunks import chunked
from equiscope.attention.mask import Causal, Everything, Mask, Pairwise, blocks, visible
from equiscope.kernels import DistanceBias
from equiscope.positions import Places, Position
from equiscope.tokens import Tokens

LARGE = 2.0**50  # places below it are counted exactly in float64
WHOLE = 2**18  # pairs of rows whose bias is made in one go; more are made by rows


class Plan:
    """For one position scheme, those who ask and those who answer.

    whole  False where those who ask are some of many: then what is made for them is small already
    """

    def __init__(self, position: Position, queries: Tokens, keys: Tokens, whole: bool = True) -> None:
        self.position, self.queries, self.keys, self.whole = position, queries, keys, whole
        self._seen: dict[int, Tensor | None] = {}
        self._tables: dict[tuple[int, int, bool], Tensor] = {}
        self._distances: dict[int, DistanceBias] = {}
        self._blocks: dict[tuple[int, int], BlockMask] = {}
        self._in_steps: tuple[bool, bool] | None = None

    # --- who may look -------------------------------------------------------------------------------------------------
    def seen(self, mask: Mask) -> Tensor | None:
        """bool [..., N, M], or None where nothing is hidden."""
        if id(mask) not in self._seen:
            self._seen[id(mask)] = visible(mask, self.queries, self.keys)
        return self._seen[id(mask)]

    def by_row(self, mask: Mask) -> bool:
        """Whether "causal" can be told from row numbers alone, so that a kernel needs no mask."""
        return isinstance(mask, Causal) and self._plain and self._even()[1]

    def blocks(self, mask: Mask, batch: int) -> BlockMask:
        """What FlexAttention reads of a mask, for so many sequences."""
        if (id(mask), batch) not in self._blocks:
            n, m = self.queries.positions.shape[-2], self.keys.positions.shape[-2]
            pairs = Pairwise(mask, self.queries, self.keys)
            seen = (lambda b, h, i, j: i >= j) if self.by_row(mask) else pairs
            self._blocks[id(mask), batch] = blocks(seen, batch, n, m, self.queries.positions.device)
        return self._blocks[id(mask), batch]

    def hides_nothing(self, mask: Mask) -> bool:
        return isinstance(mask, Everything) and self._plain

    @property
    def _plain(self) -> bool:
        return self.keys.valid is None and self.keys.document is None and self.queries.document is None

    # --- what distance costs ------------------------------------------------------------------------------------------
    def distances(self, heads: int) -> DistanceBias | None:
        """The bias as one value for each distance, where it is one."""
        if (
            not self.position.relative
            or not self.position.acts("score_bias")
            or torch.compiler.is_exporting()
            or not self._even()[0]
        ):
            return None  # an exported program is for any length, which views by distance are not
        if heads not in self._distances:
            n, m = self.queries.positions.shape[-2], self.keys.positions.shape[-2]
            if not n or not m:
                return None
            steps = torch.arange(n - 1, -m, -1, dtype=self.queries.positions.dtype, device=self.queries.positions.device)
            head = torch.arange(heads, device=steps.device)[:, None, None]
            values = self.position.score_bias(head, (steps[None],), (torch.zeros_like(steps[:1])[None],))
            assert values is not None
            self._distances[heads] = DistanceBias(values.expand(heads, 1, len(steps)).squeeze(-2), n)
        return self._distances[heads]

    def table(self, heads: int, ndim: int, plain: bool = False) -> Tensor | None:
        """The bias as a dense table [..., H, N, M] for queries of `ndim` axes; [N, M] for one head without a batch.

        plain  made for every pair in one go, as the formula reads
        """
        if not self.position.acts("score_bias"):
            return None
        key = (heads, ndim, plain)
        if key not in self._tables:
            same = None if plain else self.distances(heads)
            if same is not None:
                table = same.table()
                table = table[0] if ndim == 2 else table
            elif not plain and self._heavy():
                table = self._by_rows(heads, ndim)
            else:
                table = self._dense(heads, ndim)
            self._tables[key] = table
        return self._tables[key]

    def _dense(self, heads: int, ndim: int) -> Tensor:
        head = torch.arange(heads, device=self.queries.positions.device)
        head = head[0] if ndim == 2 else head[:, None, None]
        at_q, at_k = self.places()
        bias = self.position.score_bias(head, at_q, at_k)
        assert bias is not None
        return bias

    def _by_rows(self, heads: int, ndim: int) -> Tensor:
        """The same table, some rows at a time."""

        def some(start: int, stop: int) -> Tensor:
            bias = self.rows(start, stop)._dense(heads, ndim)
            return bias.expand(*bias.shape[:-2], stop - start, self.keys.positions.shape[-2])

        return chunked(some, self.queries.positions.shape[-2], (self.position,), max(1, WHOLE // self.keys.positions.shape[-2]))

    def _heavy(self) -> bool:
        """Whether all steps from places to a learned bias, kept for its gradient, would be many tables of every pair."""
        if not self.whole or torch.compiler.is_compiling() or next(self.position.parameters(), None) is None:
            return False
        return self.queries.positions.shape[-2] * self.keys.positions.shape[-2] > WHOLE

    def pairwise(self, heads: int) -> Callable[..., Tensor] | None:
        """The bias for one pair of row numbers at a time, (batch, head, row of the query, row of the key) to a number."""
        if not self.position.acts("score_bias"):
            return None
        same = self.distances(heads)
        if same is not None:
            values, last = same.values, same.rows - 1
            return lambda b, h, i, j: values[h, j - i + last]
        table = self.table(heads, 3)
        assert table is not None
        # a bias that depends on the key's position alone has one row
        wide = (heads, self.queries.positions.shape[-2], self.keys.positions.shape[-2])
        flat = table.expand(*table.shape[:-3], *wide).reshape(-1, *wide)
        return lambda b, h, i, j: flat[b if len(flat) > 1 else 0, h, i, j]

    def places(self) -> tuple[Places, Places]:
        """A tensor for each axis: of queries [..., N, 1], of keys [..., 1, M]; with a batch, [B, 1, N, 1] and [B, 1, 1, M]."""
        at_q, at_k = _axes(self.queries.positions), [positions.mT for positions in _axes(self.keys.positions)]
        if self.queries.positions.ndim > 2 or self.keys.positions.ndim > 2:
            at_q, at_k = [positions.unsqueeze(-3) for positions in at_q], [positions.unsqueeze(-3) for positions in at_k]
        return tuple(at_q), tuple(at_k)

    def rows(self, start: int, stop: int) -> "Plan":
        """The plan for some of the queries."""
        part = slice(start, stop)
        q = self.queries
        few = Tokens(
            x=q.x[..., part, :], positions=q.positions[..., part, :], order=q.order[..., part],
            document=None if q.document is None else q.document[..., part], valid=None if q.valid is None else q.valid[..., part],
        )  # fmt: skip
        return Plan(self.position, few, self.keys, whole=False)

    def _even(self) -> tuple[bool, bool]:
        """Whether places grow by one from row to row (for pairs that may see each other), and whether ranks grow at all."""
        if self._in_steps is None:
            self._in_steps = self._look()
        return self._in_steps

    def _look(self) -> tuple[bool, bool]:
        q, k = self.queries, self.keys
        if k.positions is not q.positions or k.order is not q.order or q.positions.shape[-1] != 1:
            return False, False
        if torch.compiler.is_compiling() or q.positions.device.type != "cpu":
            return q.in_steps, q.in_steps  # the numbers lie elsewhere; looking at them would wait for the device
        ranks = self._plain and bool((q.order.diff() > 0).all())
        return _steady(q), ranks


def _axes(positions: Tensor) -> list[Tensor]:
    return [positions] if positions.shape[-1] == 1 else [positions[..., a : a + 1] for a in range(positions.shape[-1])]


def _steady(tokens: Tokens) -> bool:
    """Whether i - j is the difference of the row numbers for every pair that may look, within one text."""
    positions = tokens.positions[..., 0].double()
    countable = positions.abs() < LARGE
    if not positions.shape[-1] or not bool((countable if tokens.valid is None else countable | ~tokens.valid).all()):
        return False
    start = positions - torch.arange(positions.shape[-1], dtype=positions.dtype, device=positions.device)
    if tokens.valid is None and tokens.document is None:
        return bool((start == start[..., :1]).all())
    if tokens.valid is not None and tokens.document is None:
        low, high = start.masked_fill(~tokens.valid, math.inf), start.masked_fill(~tokens.valid, -math.inf)
        return bool((low.amin(-1) >= high.amax(-1)).all())
    if tokens.valid is None and tokens.document is not None:
        other = tokens.document.diff()
        return bool(((other >= 0) & ((other > 0) | (start.diff() == 0))).all())
    return False
