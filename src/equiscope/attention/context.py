"""AttentionContext: the masks and biases that all layers of one forward pass share, computed when a layer first needs them.

Masks and biases are functions of positions. Here they become tensors, as small as the positions allow. If positions grow by one
from row to row and a bias depends on differences only, one value per distance is enough (`DistanceBias`). If ranks grow too, a
causal mask needs no tensor at all.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from equiscope.attention.chunks import chunked
from equiscope.attention.mask import Causal, Everything, Mask, PairwiseMask, block_mask, dense_mask
from equiscope.kernels import DistanceBias
from equiscope.positions import AxisPositions, Position
from equiscope.tokens import Tokens

LARGE = 2.0**50  # float64 counts positions below it exactly
WHOLE = 2**18  # up to so many (query, key) pairs, the bias is computed at once; beyond, in chunks of queries


class AttentionContext:
    """Masks and biases for one position scheme, its queries and its keys.

    whole  False if the queries are a chunk of a longer sequence: then their tables are small already
    """

    def __init__(self, position: Position, queries: Tokens, keys: Tokens, whole: bool = True) -> None:
        self.position, self.queries, self.keys, self.whole = position, queries, keys, whole
        self._masks: dict[int, Tensor | None] = {}
        self._tables: dict[tuple[int, int, bool], Tensor] = {}
        self._distances: dict[int, DistanceBias] = {}
        self._blocks: dict[tuple[int, int], BlockMask] = {}
        self._steps: tuple[bool, bool] | None = None

    # --- masks --------------------------------------------------------------------------------------------------------
    def dense_mask(self, mask: Mask) -> Tensor | None:
        """bool [..., N, M], True = may attend; None if every query attends to every key."""
        if id(mask) not in self._masks:
            self._masks[id(mask)] = dense_mask(mask, self.queries, self.keys)
        return self._masks[id(mask)]

    def is_row_causal(self, mask: Mask) -> bool:
        """Whether row i attends to rows 0 .. i, so that a kernel's `is_causal` replaces the mask."""
        return isinstance(mask, Causal) and self._one_text and self._consecutive()[1]

    def block_mask(self, mask: Mask, batch: int) -> BlockMask:
        """The mask as FlexAttention reads it, for a batch of this size."""
        if (id(mask), batch) not in self._blocks:
            n, m = self.queries.positions.shape[-2], self.keys.positions.shape[-2]
            pairs = PairwiseMask(mask, self.queries, self.keys)
            allowed = (lambda b, h, i, j: i >= j) if self.is_row_causal(mask) else pairs
            self._blocks[id(mask), batch] = block_mask(allowed, batch, n, m, self.queries.positions.device)
        return self._blocks[id(mask), batch]

    def is_full(self, mask: Mask) -> bool:
        """Whether every query attends to every key, padding and documents included."""
        return isinstance(mask, Everything) and self._one_text

    @property
    def _one_text(self) -> bool:
        return self.keys.valid is None and self.keys.document is None and self.queries.document is None

    # --- biases -------------------------------------------------------------------------------------------------------
    def distance_bias(self, heads: int) -> DistanceBias | None:
        """The bias as one value per distance; None if it is no function of the distance."""
        if (
            not self.position.relative
            or not self.position.acts("score_bias")
            or torch.compiler.is_exporting()
            or not self._consecutive()[0]
        ):
            return None  # an exported program serves any length, but a view by distance has a fixed one
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

    def dense_bias(self, heads: int, ndim: int, plain: bool = False) -> Tensor | None:
        """The bias as a dense table [..., H, N, M] for queries of `ndim` axes; [N, M] for one head without a batch.

        plain  computed for all pairs at once, as the formula reads
        """
        if not self.position.acts("score_bias"):
            return None
        key = (heads, ndim, plain)
        if key not in self._tables:
            same = None if plain else self.distance_bias(heads)
            if same is not None:
                bias = same.table()
                bias = bias[0] if ndim == 2 else bias
            elif not plain and self._needs_chunks():
                bias = self._in_chunks(heads, ndim)
            else:
                bias = self._bias_table(heads, ndim)
            self._tables[key] = bias
        return self._tables[key]

    def _bias_table(self, heads: int, ndim: int) -> Tensor:
        head = torch.arange(heads, device=self.queries.positions.device)
        head = head[0] if ndim == 2 else head[:, None, None]
        at_q, at_k = self.coordinates()
        bias = self.position.score_bias(head, at_q, at_k)
        assert bias is not None
        return bias

    def _in_chunks(self, heads: int, ndim: int) -> Tensor:
        """The same table, a chunk of queries at a time."""

        def some(start: int, stop: int) -> Tensor:
            bias = self.for_queries(start, stop)._bias_table(heads, ndim)
            return bias.expand(*bias.shape[:-2], stop - start, self.keys.positions.shape[-2])

        return chunked(some, self.queries.positions.shape[-2], (self.position,), max(1, WHOLE // self.keys.positions.shape[-2]))

    def _needs_chunks(self) -> bool:
        """Whether the intermediate tables of a learned bias, kept for its gradient, would take too much memory."""
        if not self.whole or torch.compiler.is_compiling() or next(self.position.parameters(), None) is None:
            return False
        return self.queries.positions.shape[-2] * self.keys.positions.shape[-2] > WHOLE

    def pairwise_bias(self, heads: int) -> Callable[..., Tensor] | None:
        """The bias of one (query, key) pair: (batch, head, query row, key row) to a number, as FlexAttention calls it."""
        if not self.position.acts("score_bias"):
            return None
        same = self.distance_bias(heads)
        if same is not None:
            values, last = same.values, same.rows - 1
            return lambda b, h, i, j: values[h, j - i + last]
        bias = self.dense_bias(heads, 3)
        assert bias is not None
        # a bias that depends on the key's position alone has one row
        wide = (heads, self.queries.positions.shape[-2], self.keys.positions.shape[-2])
        flat = bias.expand(*bias.shape[:-3], *wide).reshape(-1, *wide)
        return lambda b, h, i, j: flat[b if len(flat) > 1 else 0, h, i, j]

    def coordinates(self) -> tuple[AxisPositions, AxisPositions]:
        """Positions, one tensor per axis: queries [..., N, 1] and keys [..., 1, M]; with a batch, [B, 1, N, 1] and [B, 1, 1, M]."""
        at_q, at_k = _axes(self.queries.positions), [axis.mT for axis in _axes(self.keys.positions)]
        if self.queries.positions.ndim > 2 or self.keys.positions.ndim > 2:
            at_q, at_k = [axis.unsqueeze(-3) for axis in at_q], [axis.unsqueeze(-3) for axis in at_k]
        return tuple(at_q), tuple(at_k)

    def for_queries(self, start: int, stop: int) -> "AttentionContext":
        """The context of the queries start .. stop - 1."""
        part = slice(start, stop)
        q = self.queries
        few = Tokens(
            x=q.x[..., part, :], positions=q.positions[..., part, :], order=q.order[..., part],
            document=None if q.document is None else q.document[..., part], valid=None if q.valid is None else q.valid[..., part],
        )  # fmt: skip
        return AttentionContext(self.position, few, self.keys, whole=False)

    def _consecutive(self) -> tuple[bool, bool]:
        """Whether positions grow by one from row to row (within a text), and whether ranks grow from row to row."""
        if self._steps is None:
            self._steps = self._check_consecutive()
        return self._steps

    def _check_consecutive(self) -> tuple[bool, bool]:
        q, k = self.queries, self.keys
        if k.positions is not q.positions or k.order is not q.order or q.positions.shape[-1] != 1:
            return False, False
        if torch.compiler.is_compiling() or q.positions.device.type != "cpu":
            return q.is_consecutive, q.is_consecutive  # reading the numbers would synchronise with the device
        ranks = self._one_text and bool((q.order.diff() > 0).all())
        return _consecutive_positions(q), ranks


def _axes(positions: Tensor) -> list[Tensor]:
    return [positions] if positions.shape[-1] == 1 else [positions[..., a : a + 1] for a in range(positions.shape[-1])]


def _consecutive_positions(tokens: Tokens) -> bool:
    """Whether i - j is the difference of the row numbers for every (query, key) pair of one text."""
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
