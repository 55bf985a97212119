"""Equivariant layers: each kind of feature mixes its own channels, vectors without a bias; norms and gates read lengths.

All layers are smooth where a vector vanishes, so that forces, which are gradients, are smooth too.
Sources: Deng et al. 2021 (vector neurons), Schütt et al. 2021 (PaiNN), Weiler et al. 2018 (gates).
"""

import torch
from torch import Tensor, nn

from equiscope import functional
from equiscope.functional import Activation
from equiscope.geometry.features import PLAIN, Features, Group, Widths, checked, is_vector, product_kinds
from equiscope.symmetry.actions import Action, Permute
from equiscope.symmetry.space import Reflect, Rotate, Translate

IN_SPACE: frozenset[type[Action]] = frozenset({Permute, Rotate, Translate, Reflect})  # what an equivariant layer respects
TINY = 1e-2  # added to a squared length before the root, so that it is smooth at 0


class EquivariantLinear(nn.Module):
    """A linear map of each kind of feature: x @ W; invariant scalars have a bias.

    A kind that the input lacks is zero in the output.
    """

    preserves = IN_SPACE

    def __init__(self, widths: Widths, out: Widths, group: Group = "E(3)", bias: bool = True) -> None:
        super().__init__()
        self.group, self.out = group, checked(out, group)
        widths = checked(widths, group)
        self.weights = nn.ParameterDict(
            {
                kind: nn.Parameter(torch.randn(widths[kind], width) * widths[kind] ** -0.5)
                for kind, width in self.out.items()
                if kind in widths
            }
        )
        self.bias = nn.Parameter(torch.zeros(self.out[PLAIN[group][0]])) if bias and PLAIN[group][0] in self.out else None

    def forward(self, x: Features) -> Features:
        some = next(iter(x.values()))
        points = some.shape[: -2 if is_vector(next(iter(x))) else -1]
        features = Features()
        for kind, width in self.out.items():
            if kind in self.weights:
                features[kind] = x[kind] @ self.weights[kind]
            else:
                features[kind] = some.new_zeros(*points, *([3] if is_vector(kind) else []), width)
        if self.bias is not None:
            plain = PLAIN[self.group][0]
            features[plain] = features[plain] + self.bias
        return features


class EquivariantNorm(nn.Module):
    """Normalises each kind of feature: invariant scalars s by LayerNorm, others v by v / sqrt(1 + var(s) + their mean square).

    Scalars vary at every point, so a vector that symmetry sets to 0 stays small near the symmetric arrangement. Divided by its own
    size alone, it would be large wherever it is not exactly 0, and energies would jump there.
    """

    preserves = IN_SPACE

    def __init__(self, widths: Widths, group: Group = "E(3)") -> None:
        super().__init__()
        self.plain, widths = PLAIN[group][0], checked(widths, group)
        self.scalars = nn.LayerNorm(widths[self.plain]) if self.plain in widths else None

    def forward(self, x: Features) -> Features:
        features = Features()
        least: Tensor | float = 1.0
        if self.scalars is not None:
            scalars = x[self.plain]
            features[self.plain] = self.scalars(scalars)
            least = 1.0 + (scalars - scalars.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)
        for kind, values in x.items():
            if is_vector(kind):
                size = values.square().sum(-2).mean(-1, keepdim=True)
                features[kind] = values * (size + least).rsqrt().unsqueeze(-2)
            elif kind != self.plain:
                features[kind] = values * (values.square().mean(-1, keepdim=True) + least).rsqrt()
        return features


class Products(nn.Module):
    """Tensor products of two linear maps of the input, channel by channel: how kinds of features mix.

    Two vectors give a scalar (dot) and a pseudovector (cross); a scalar and a vector give a vector. Parities multiply. In SE(3) a
    pseudovector is a vector, so that a product of three distinguishes left from right.
    """

    because = "the cross product of two vectors counts as a vector, which distinguishes left from right"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        """In SE(3) all but reflections."""
        return IN_SPACE if self.group == "E(3)" else IN_SPACE - {Reflect}

    def __init__(self, widths: Widths, channels: int, group: Group = "E(3)") -> None:
        super().__init__()
        widths = checked(widths, group)
        self.group, self.channels = group, channels
        even = {kind: channels for kind in widths}
        self.one, self.other = (
            EquivariantLinear(widths, even, group, bias=False),
            EquivariantLinear(widths, even, group, bias=False),
        )
        allowed = set(widths)
        self.pairs = [
            (a, b, how, into)
            for i, a in enumerate(widths) for b in list(widths)[i:]
            for how, into in product_kinds(a, b).items() if into in allowed
        ]  # fmt: skip

    @property
    def widths(self) -> dict[str, int]:
        """Channels of each kind in the output."""
        widths_: dict[str, int] = {}
        for *_, into in self.pairs:
            widths_[into] = widths_.get(into, 0) + self.channels
        return widths_

    def forward(self, x: Features) -> Features:
        one, other = self.one(x), self.other(x)
        features: dict[str, list[Tensor]] = {}
        for a, b, how, into in self.pairs:
            features.setdefault(into, []).append(_multiplied(one[a], other[b], how, is_vector(a), is_vector(b)))
        return Features({kind: torch.cat(parts, -1) for kind, parts in features.items()})


class EquivariantFeedForward(nn.Module):
    """A gated feed-forward: scalars pass an activation; every other kind is multiplied by a gate computed from scalars and lengths.

    inner   hidden channels; products: channels of each tensor product that is concatenated to the input
    """

    preserves = IN_SPACE

    def __init__(
        self, widths: Widths, inner: int, group: Group = "E(3)", products: int = 0, activation: Activation = "silu"
    ) -> None:
        super().__init__()
        widths = checked(widths, group)
        self.group, self.activation = group, activation
        self.products = Products(widths, products, group) if products else None
        more = self.products.widths if self.products is not None else {}
        joined = {kind: width + more.get(kind, 0) for kind, width in widths.items()}
        plain = PLAIN[group][0]
        others = [kind for kind in widths if kind != plain]
        self.others = others
        lengths = sum(joined[kind] for kind in others)
        self.up_proj = nn.Linear(joined.get(plain, 0) + lengths, inner)
        self.down_proj = nn.Linear(inner, widths.get(plain, 0) + sum(widths[kind] for kind in others))
        self.cut = [widths.get(plain, 0), *(widths[kind] for kind in others)]
        self.mixed = EquivariantLinear(
            {kind: joined[kind] for kind in others}, {kind: widths[kind] for kind in others}, group, bias=False
        )

    def forward(self, x: Features) -> Features:
        joined = x
        if self.products is not None:
            features = self.products(x)
            joined = Features({kind: torch.cat([v, features[kind]], -1) if kind in features else v for kind, v in x.items()})
        plain = PLAIN[self.group][0]
        read = [joined[plain]] if plain in joined else []
        read += [length(joined[kind]) if is_vector(kind) else joined[kind].square() for kind in self.others]
        hidden = functional.activation(self.up_proj(torch.cat(read, -1)), self.activation)
        first, *gates = self.down_proj(hidden).split(self.cut, -1)
        features = self.mixed(Features({kind: joined[kind] for kind in self.others})) if self.others else Features()
        result = Features({plain: first} if plain in x else {})
        for kind, gate in zip(self.others, gates, strict=True):
            result[kind] = features[kind] * (gate.unsqueeze(-2) if is_vector(kind) else gate)
        return result


def length(x: Tensor) -> Tensor:
    """Lengths [..., C] of vectors [..., 3, C], smooth at 0: sqrt(|x|² + tiny) - sqrt(tiny)."""
    return (x.square().sum(-2) + TINY).sqrt() - TINY**0.5


def _multiplied(a: Tensor, b: Tensor, how: str, arrow_a: bool, arrow_b: bool) -> Tensor:
    if how == "dot":
        return (a * b).sum(-2)
    if how == "cross":
        return torch.linalg.cross(a, b, dim=-2)
    return (a if arrow_a or not arrow_b else a.unsqueeze(-2)) * (b if arrow_b or not arrow_a else b.unsqueeze(-2))
