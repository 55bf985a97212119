"""Attention calls of a running model, as torch's functions see them: fused, or written out as product, softmax, product.

A pass counts them. The reading pass finds which calls belong to one attention; later passes change values at the same counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope import functional
from equiscope.kernels import cpu, short
from equiscope.kernels.bias import dense
from equiscope.program.private import safe_softmax

MASKED = -1e4  # a number added to a score from which on the pair is masked
NEAR = 0.1  # how far weights may change between the softmax and the product with the values
PRODUCTS: dict[Any, tuple[int, int]] = {  # where the factors stand
    torch.matmul: (0, 1), torch.bmm: (0, 1), torch.baddbmm: (1, 2), Tensor.matmul: (0, 1), Tensor.bmm: (0, 1),
    Tensor.__matmul__: (0, 1), Tensor.__rmatmul__: (1, 0), Tensor.baddbmm: (1, 2),
}  # fmt: skip
SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax, functional.softmax)
FUSED_NAMES = {
    F.scaled_dot_product_attention: ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"),
    cpu.biased_attention: ("q", "k", "v", "scale", "mask", "causal", "bias"),
    short.table_attention: ("q", "k", "v", "scale", "mask", "causal"),
}


@dataclass
class FusedCall:
    """The arguments of a fused attention. allowed: bool mask, bias: addend, both broadcast to [B, H, N, M], or None."""

    function: Callable[..., Any]
    given: dict[str, Any]
    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    causal: bool = False
    allowed: Tensor | None = None
    bias: Tensor | None = None

    @classmethod
    def of(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "FusedCall":
        given = dict(zip(FUSED_NAMES[function], args, strict=False)) | kwargs
        q, k, v = (given[name] for name in FUSED_NAMES[function][:3])
        causal, scale = bool(given.get("is_causal", given.get("causal", False))), given.get("scale")
        call = cls(function, given, q, k, v, q.shape[-1] ** -0.5 if scale is None else float(scale), causal)
        mask = given.get("attn_mask", given.get("mask"))
        if mask is not None and mask.dtype == torch.bool:
            call.allowed = mask
        elif mask is not None:
            call.allowed = mask > MASKED
            call.bias = mask.masked_fill(~call.allowed, 0.0)
        if given.get("bias") is not None:
            added = dense(given["bias"])
            hidden = added <= MASKED
            call.allowed = ~hidden if call.allowed is None else call.allowed & ~hidden
            call.bias = added.masked_fill(hidden, 0.0)
        return call

    def run(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The model's own call on these queries, keys and values."""
        names = FUSED_NAMES[self.function][:3]
        output: Tensor = self.function(**{**self.given, **dict(zip(names, (q, k, v), strict=True))})
        return output

    def mask(self, n: int, m: int) -> Tensor:
        """bool, broadcast to [B, H, N, M]: which pairs may attend."""
        mask = torch.ones(n, m, dtype=torch.bool, device=self.q.device)
        mask = mask.tril() if self.causal else mask
        return mask if self.allowed is None else mask & self.allowed

    @property
    def has_bias_of_masked_pairs(self) -> bool:
        """Whether opening a masked pair has a defined score: its bias is 0, or stands beside the mask."""
        return self.bias is None or self.given.get("bias") is not None or not bool(self.bias.any())

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Scores of all pairs without the mask: q [B, H, N, K], k [B, H, M, K] to [B, H, N, M]; in float32 or better."""
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = (q.to(wide) @ k.to(wide).mT) * self.scale
        return scores if self.bias is None else scores + self.bias.to(wide)


def attend(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and output from masked scores; a row without an allowed pair gives 0."""
    weights = safe_softmax(scores)
    return weights, (weights @ v.to(weights.dtype)).to(v.dtype)


@dataclass
class Product:
    """A product of two tensors: views of its factors [..., N, C] and [..., C, M] in a canonical order of axes."""

    left: Callable[[Tensor], Tensor]
    right: Callable[[Tensor], Tensor]
    out: Callable[[Tensor], Tensor]
    operands: tuple[int, int]

    @classmethod
    def of(cls, function: Any, args: tuple[Any, ...]) -> "Product | None":
        if function in PRODUCTS:
            operands = PRODUCTS[function]
            if len(args) <= max(operands) or min(args[i].ndim for i in operands) < 2:
                return None
            return cls(lambda t: t, lambda t: t, lambda t: t, operands)
        if function is torch.einsum and len(args) == 3 and isinstance(args[0], str):
            return _einsum(args[0].replace(" ", ""))
        return None


def _einsum(equation: str) -> Product | None:
    """A product of two matrices for each of the shared axes; None for other equations."""
    inputs, arrow, out = equation.partition("->")
    a, _, b = inputs.partition(",")
    if not arrow or "." in equation or "," in b or any(len(set(x)) < len(x) for x in (a, b, out)):
        return None
    batch = [x for x in out if x in a and x in b]
    rows, columns = [x for x in out if x in a and x not in b], [x for x in out if x in b and x not in a]
    inner = [x for x in a if x in b and x not in out]
    if not len(rows) == len(columns) == len(inner) == 1 or len(a) + len(b) != 2 * len(batch) + 4:
        return None

    def view(axes: str, wanted: list[str]) -> Callable[[Tensor], Tensor]:
        return lambda t: t.permute([axes.index(x) for x in wanted])

    return Product(view(a, batch + rows + inner), view(b, batch + inner + columns), view(out, batch + rows + columns), (1, 2))


@dataclass
class AttentionSite:
    """One attention of the model, found by the reading pass.

    index    among the attentions, in the order in which they run; path: the module whose forward computed it
    heads, kv_heads  H and G; batch: B, windows included; rows, columns: N and M
    fused    number of the fused call, or -1; function: its name; scale: of its scores; causal, masked: what hides pairs: "bool" or
             "float" for a mask of flags or of addends; repeated: keys and values stand once for each query head
    product, softmax, mixing  numbers of the product of queries and keys, of the softmax, and of the product with the values
    """

    index: int
    path: str
    heads: int
    kv_heads: int
    batch: int
    rows: int
    columns: int
    fused: int = -1
    function: str = ""
    scale: float = 1.0
    causal: bool = False
    masked: str = ""
    repeated: bool = False
    product: int = -1
    softmax: int = -1
    mixing: int = -1


@dataclass
class _Pending:
    """A product that may be one of queries and keys: its number, its factors, its result."""

    number: int
    left: Tensor
    right: Tensor
    out: Tensor


@dataclass
class Reader:
    """Finds the attentions of a pass. heads_of_batch: heads of the running nn.MultiheadAttention, whose batch axis holds them."""

    path: Callable[[], str]
    attentions: list[AttentionSite] = field(default_factory=list)
    heads_of_batch: int = 0
    _pending: list[_Pending] = field(default_factory=list)
    _weights: Tensor | None = None
    _keys: Tensor | None = None

    def fused(self, number: int, call: FusedCall) -> None:
        """A fused call."""
        q, k, v = (four_axes(t) for t in (call.q, call.k, call.v))
        mask = call.given.get("attn_mask")
        kind = "" if mask is None else "bool" if mask.dtype == torch.bool else "float"
        b, h, n, _ = q.shape
        g = k.shape[1] if k.shape[1] < h else _groups(k, v)
        site = AttentionSite(len(self.attentions), self.path(), h, g, b, n, k.shape[2], fused=number)
        site.function, site.scale, site.causal, site.masked = call.function.__name__, call.scale, call.causal, kind
        site.repeated = k.shape[1] == h and g < h
        self._add(site)

    def product(self, number: int, left: Tensor, right: Tensor, out: Tensor) -> None:
        """A product of matrices, [..., N, C] and [..., C, M]."""
        if self._is_mixing(left):
            site = self.attentions[-1]
            site.mixing, self._weights = number, None
            assert self._keys is not None
            v, k = (four_axes(t, self.heads_of_batch) for t in (right, self._keys))
            site.kv_heads = _groups(k, v) if k.shape[1] == v.shape[1] == site.heads else max(k.shape[1], v.shape[1])
            return
        if left.ndim >= 3 and right.ndim >= 3:
            self._pending.append(_Pending(number, left, right, out))

    def _is_mixing(self, left: Tensor) -> bool:
        """Whether a product's left factor is the weights of the last softmax, maybe after dropout or a change of dtype."""
        weights = self._weights
        if weights is None or left.shape[-2:] != weights.shape[-2:] or left.numel() != weights.numel():
            return False
        return torch.allclose(left.detach().reshape(weights.shape).double(), weights.detach().double(), atol=NEAR)

    def softmax(self, number: int, scores: Tensor, weights: Tensor) -> None:
        """A softmax along the last axis."""
        match = next((p for p in self._pending if p.out.shape == scores.shape or _flat(p.out) == _flat(scores)), None)
        if match is None:
            return
        q = four_axes(match.left, self.heads_of_batch)
        b, h, n = (four_axes(scores, self.heads_of_batch)).shape[:3]
        self._keys = match.right.mT
        self._pending, self._weights = [], weights
        assert q.shape[-2] == n
        m = scores.shape[-1]
        self._add(AttentionSite(len(self.attentions), self.path(), h, h, b, n, m, product=match.number, softmax=number))

    def _add(self, site: AttentionSite) -> None:
        self.attentions.append(site)


def _flat(t: Tensor) -> tuple[int, ...]:
    return t.shape[:-2].numel(), *t.shape[-2:]


def four_axes(t: Tensor, heads_of_batch: int = 0) -> Tensor:
    """A view [B, H, N, C]: leading axes are batch; of three axes the first are the heads of one sequence.

    heads_of_batch  of three axes [B * H, N, C]: H
    """
    if t.ndim == 3 and heads_of_batch:
        return t.unflatten(0, (-1, heads_of_batch))
    if t.ndim < 4:
        return t[(None,) * (4 - t.ndim)]
    return t if t.ndim == 4 else t.flatten(0, -4)


def _groups(*tensors: Tensor) -> int:
    """The number of distinct heads [B, H, M, C] where neighbours repeat, as under grouped queries."""
    heads = tensors[0].shape[1]
    for groups in range(1, heads):
        each = heads // groups
        if heads % groups == 0 and all(torch.equal(t, t[:, ::each].repeat_interleave(each, 1)) for t in tensors):
            return groups
    return heads
