"""Masks: which query may attend to which key, as functions of rank and validity. True always means: may attend.

In torch's `nn.MultiheadAttention` True means the opposite, and its output for a fully masked row is NaN; here it is 0.
A mask reads `order`, never a position: a repeated time or a 2-D position does not define before and after.
Masks combine: `Causal() & Window(8)`, `Causal() | Prefix(4)`, `~Blocks(2)`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from equiscope.errors import InputError, ShapeError, counted
from equiscope.positions.base import arguments
from equiscope.symmetry import CLAIMED, Action, Reverse, Shift
from equiscope.tokens import Tokens

ROOM = 64  # tokens that a toy model may read


class Mask(nn.Module):
    """Base class: which (query, key) pairs may attend, from their ranks. A mask keeps every constructor argument as an attribute.

    is_causal  no token attends to a later one
    window     how many ranks back a query attends, itself included; None: unlimited
    """

    name: ClassVar[str]
    because: str = ""
    is_causal: bool = False
    window: int | None = None

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return frozenset(CLAIMED)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor | None:
        """order_q [..., N, 1], order_k [..., 1, M] to bool [..., N, M], elementwise, True = may attend; None: every pair may."""
        return None

    def check(self, queries: Tokens, keys: Tokens) -> None:
        """Raises InputError where a mask does not fit these tokens."""

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return arguments(self)

    @property
    def needs_documents(self) -> bool:
        """Whether tokens need `document`."""
        return any(isinstance(part, Documents) for part in self.modules())

    @property
    def title(self) -> str:
        """The mask in words."""
        return " ".join([self.name, *(str(value) for value in self.settings.values())])

    def small(self, most: int) -> "Mask":
        """The same kind of mask with no size beyond `most`, for a toy model, a drawing or a test."""
        return type(self)(**{k: min(v, most) if isinstance(v, int) else v for k, v in self.settings.items()})

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, other)

    def __invert__(self) -> "Mask":
        return Opposite(self)


class Everything(Mask):
    """Every token attends to every token."""

    name = "everything"


class Causal(Mask):
    """A token attends to itself and to earlier tokens."""

    name = "causal"
    because = "the causal mask lets a token attend only to itself and to earlier tokens"
    is_causal = True
    preserves = frozenset({Shift})

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        return order_k <= order_q


class Window(Mask):
    """A token attends to tokens less than `size` ranks away, before and after; `Causal() & Window(size)` slides as in decoders."""

    name = "window"
    because = "the window lets a token attend only to near tokens"
    preserves = frozenset({Shift, Reverse})

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = self.window = _at_least_one("A window's size", size)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        distance = (order_q - order_k).abs()
        return distance < self.size


class Dilated(Mask):
    """A token attends to every `step`-th token, counted from itself."""

    name = "dilated"
    because = "the dilated mask lets a token attend only to every n-th token"
    preserves = frozenset({Shift, Reverse})

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = _at_least_one("A dilated mask's step", step)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        distance = (order_q - order_k).abs()
        return distance % self.step < 1


class Blocks(Mask):
    """Ranks are divided into blocks of `size`; a token attends within its own block."""

    name = "blocks"
    because = "the block mask fixes the borders between blocks of tokens"
    preserves = frozenset()  # only shifts by whole blocks

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = self.window = _at_least_one("A block's size", size)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        block_q = torch.div(order_q, self.size, rounding_mode="floor")
        block_k = torch.div(order_k, self.size, rounding_mode="floor")
        return block_q == block_k


class Prefix(Mask):
    """Every token attends to ranks below `length`; `Causal() | Prefix(n)` is a prefix language model."""

    name = "prefix"
    because = "the prefix mask fixes which ranks all tokens attend to"
    preserves = frozenset()

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = _at_least_one("A prefix's length", length)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        return order_k < self.length


class Edges(Mask):
    """A graph: pairs (query, key) of ranks in 0 .. nodes-1; a token attends along its edges only.

    raises  InputError for an edge outside the graph
    """

    name = "edges"
    because = "the edges fix which tokens attend to each other"
    preserves = frozenset()

    def __init__(self, edges: Sequence[tuple[int, int]], nodes: int) -> None:
        super().__init__()
        self.edges, self.nodes = [(int(i), int(j)) for i, j in edges], _at_least_one("A graph's number of nodes", nodes)
        outside = [pair for pair in self.edges if not all(0 <= end < nodes for end in pair)]
        if outside:
            raise InputError(f"The graph has nodes 0..{nodes - 1}, but got the edge {outside[0]}. Use nodes={1 + max(outside[0])}.")
        table = torch.zeros(nodes * nodes, dtype=torch.bool)
        if self.edges:
            table[[i * nodes + j for i, j in self.edges]] = True
        self.register_buffer("table", table, persistent=False)

    def check(self, queries: Tokens, keys: Tokens) -> None:
        if torch.compiler.is_compiling() or queries.order.device.type != "cpu":
            return
        real = [t.order if t.valid is None else t.order.expand(t.valid.shape)[t.valid] for t in (queries, keys)]
        ranks = [end for order in real if order.numel() for end in (int(order.min()), int(order.max()))]
        if ranks and not 0 <= min(ranks) <= max(ranks) < self.nodes:
            raise InputError(
                f"The graph has nodes 0..{self.nodes - 1}, but the tokens have ranks {min(ranks)}..{max(ranks)}. "
                "Give every token the number of its node as its order."
            )

    @property
    def title(self) -> str:
        return f"{counted(len(self.edges), 'edge')} of {self.nodes} nodes"

    def small(self, most: int) -> "Mask":
        """The same edges, because they belong to ranks, and enough nodes for the tokens of a toy model."""
        return Edges(self.edges, max(self.nodes, ROOM))

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        edges = self.get_buffer("table").to(order_q.device)
        pair = order_q * self.nodes + order_k
        return edges[pair.long()]


class Documents(Mask):
    """A token attends within its own text of a packed row. Every mask does so if tokens have `document`; this one requires it.

    raises  InputError for tokens without `document`
    """

    name = "documents"

    def small(self, most: int) -> Mask:
        """Everything: a toy model reads one text."""
        return Everything()

    def check(self, queries: Tokens, keys: Tokens) -> None:
        if queries.document is None or keys.document is None:
            raise InputError("This mask separates documents, but the tokens have none. Give Tokens(document=...), or leave it out.")


class _Pair(Mask):
    word: ClassVar[str]

    def __init__(self, first: Mask, second: Mask) -> None:
        super().__init__()
        self.first, self.second = first, second

    @property
    def parts(self) -> list[Mask]:
        """The combined masks, nested ones flattened."""
        return [one for mask in (self.first, self.second) for one in (mask.parts if type(mask) is type(self) else [mask])]

    @property
    def title(self) -> str:
        return f" {self.word} ".join(f"({m.title})" if isinstance(m, _Pair) else m.title for m in self.parts)

    def small(self, most: int) -> "Mask":
        return type(self)(self.first.small(most), self.second.small(most))

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return self.first.preserves & self.second.preserves

    def check(self, queries: Tokens, keys: Tokens) -> None:
        self.first.check(queries, keys)
        self.second.check(queries, keys)


class Both(_Pair):
    """The pairs that both masks allow."""

    name, word = "both", "and"

    def __init__(self, first: Mask, second: Mask) -> None:
        super().__init__(first, second)
        self.is_causal = first.is_causal or second.is_causal
        ends = [m.window for m in (first, second) if m.window is not None]
        self.window = min(ends) if ends else None

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor | None:
        a, b = self.first.allowed(order_q, order_k), self.second.allowed(order_q, order_k)
        return a if b is None else b if a is None else a & b


class Either(_Pair):
    """The pairs that at least one of two masks allows."""

    name, word = "either", "or"

    def __init__(self, first: Mask, second: Mask) -> None:
        super().__init__(first, second)
        _without_documents(self)
        self.is_causal = first.is_causal and second.is_causal
        far = None in (first.window, second.window)
        self.window = None if far else max(first.window or 0, second.window or 0)

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor | None:
        a, b = self.first.allowed(order_q, order_k), self.second.allowed(order_q, order_k)
        return None if a is None or b is None else a | b


class Opposite(Mask):
    """The pairs that a mask forbids."""

    name = "opposite"

    def __init__(self, of: Mask) -> None:
        super().__init__()
        self.of = of
        _without_documents(self)
        rank = torch.zeros((), dtype=torch.long)
        if of.allowed(rank, rank) is None:
            raise InputError("The opposite of a full mask lets no token attend. Use another mask.")

    @property
    def preserves(self) -> frozenset[type[Action]]:
        return self.of.preserves

    def check(self, queries: Tokens, keys: Tokens) -> None:
        self.of.check(queries, keys)

    @property
    def title(self) -> str:
        return f"not ({self.of.title})" if isinstance(self.of, _Pair) else f"not {self.of.title}"

    def small(self, most: int) -> "Mask":
        return Opposite(self.of.small(most))

    def allowed(self, order_q: Tensor, order_k: Tensor) -> Tensor:
        allowed = self.of.allowed(order_q, order_k)
        assert allowed is not None
        return ~allowed


def _without_documents(mask: Mask) -> None:
    if mask.needs_documents:
        raise InputError("Documents are always separated, so this mask combines with others by `and` only: Documents() & Causal().")


MASKS: tuple[type[Mask], ...] = (Everything, Causal, Window, Dilated, Blocks, Prefix, Edges, Documents)


def dense_mask(mask: Mask, queries: Tokens, keys: Tokens) -> Tensor | None:
    """Mask, padding and documents of two sequences combined: bool [..., N, M], True = may attend; None if every pair may."""
    _check(mask, queries, keys)
    parts: list[Tensor] = []
    ranks_q, ranks_k = _ranks(mask, queries), _ranks(mask, keys)
    by_rank = None if isinstance(mask, Everything) else mask.allowed(ranks_q.unsqueeze(-1), ranks_k.unsqueeze(-2))
    if by_rank is not None:
        parts.append(by_rank)
    if keys.valid is not None:
        parts.append(keys.valid.unsqueeze(-2))
    if queries.document is not None and keys.document is not None:
        same_text = queries.document.unsqueeze(-1) == keys.document.unsqueeze(-2)
        parts.append(same_text)
    joined = parts[0] if parts else None
    for part in parts[1:]:
        joined = joined & part if joined is not None else part
    return joined


class PairwiseMask:
    """The same as `dense_mask` for one pair at a time, as a kernel calls it: (batch, head, query row, key row) to bool."""

    def __init__(self, mask: Mask, queries: Tokens, keys: Tokens) -> None:
        _check(mask, queries, keys)
        self.mask = mask
        self.order_q, self.order_k = _batched(_ranks(mask, queries)), _batched(_ranks(mask, keys))
        self.document_q, self.document_k = _batched(queries.document), _batched(keys.document)
        self.valid = _batched(keys.valid)

    def __call__(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert self.order_q is not None
        assert self.order_k is not None
        allowed = self.mask.allowed(_lookup(self.order_q, b, i), _lookup(self.order_k, b, j))
        out = i >= 0 if allowed is None else allowed
        if self.valid is not None:
            out = out & _lookup(self.valid, b, j)
        if self.document_q is not None and self.document_k is not None:
            out = out & (_lookup(self.document_q, b, i) == _lookup(self.document_k, b, j))
        return out


def _check(mask: Mask, queries: Tokens, keys: Tokens) -> None:
    """Raises InputError for documents on one side only, and if a mask of a fixed size does not fit."""
    if (queries.document is None) != (keys.document is None):
        raise InputError("One sequence has documents, the other has none. Give both or neither.")
    mask.check(queries, keys)


def _ranks(mask: Mask, tokens: Tokens) -> Tensor:
    """Ranks as the mask reads them, clamped for a graph: ranks of padding may be any number, but index its table."""
    graphs = [part.nodes for part in mask.modules() if isinstance(part, Edges)]
    return tokens.order.clamp(0, min(graphs) - 1) if graphs and tokens.valid is not None else tokens.order


def block_mask(allowed: Callable[..., Tensor], batch: int, n: int, m: int, device: torch.device) -> BlockMask:
    """FlexAttention's block mask of allowed(batch, head, query row, key row); on a GPU no table of all pairs is computed."""
    make: Any = create_block_mask if device.type == "cpu" else torch.compile(create_block_mask)
    blocks: BlockMask = make(allowed, batch, None, n, m, device=str(device))
    return blocks


def _batched(flag: Tensor | None) -> Tensor | None:
    """[B, N]; B = 1 for one list that serves the whole batch."""
    return None if flag is None else flag.reshape(-1, flag.shape[-1])


def _lookup(flag: Tensor, b: Tensor, row: Tensor) -> Tensor:
    return flag[0][row] if flag.shape[0] == 1 else flag[b, row]


def _at_least_one(what: str, number: int) -> int:
    if number < 1:
        raise ShapeError(f"{what} is at least 1, but got {number}.")
    return number
