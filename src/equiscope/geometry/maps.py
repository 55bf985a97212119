"""Maps that turn with their input: each kind mixes its own channels, arrows without a bias; norms and gates read lengths.

Everything is smooth where an arrow vanishes, so that forces, which are gradients, are too.
Sources: Deng et al. 2021 (vector neurons), Schütt et al. 2021 (PaiNN), Weiler et al. 2018 (gates).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope import functional
from equiscope.functional import Activation
from equiscope.geometry.features import PLAIN, Features, Group, Widths, checked, is_arrow, product_kinds
from equiscope.symmetry.actions import Action, Permute
from equiscope.symmetry.space import Reflect, Rotate, Translate

IN_SPACE: frozenset[type[Action]] = frozenset(
    {Permute, Rotate, Translate, Reflect}
)  # what a part that turns with its input respects
TINY = 1e-2  # under the root of a squared length: below a tenth, a length is as good as its square


class Map(nn.Module):
    """Features to features of other widths: x @ W for each kind; numbers that a mirror leaves get a bias.

    A kind that does not come in goes out as zeros.
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
        points = some.shape[: -2 if is_arrow(next(iter(x))) else -1]
        made = Features()
        for kind, width in self.out.items():
            if kind in self.weights:
                made[kind] = x[kind] @ self.weights[kind]
            else:
                made[kind] = some.new_zeros(*points, *([3] if is_arrow(kind) else []), width)
        if self.bias is not None:
            plain = PLAIN[self.group][0]
            made[plain] = made[plain] + self.bias
        return made


class Norm(nn.Module):
    """Every point's features brought to one size, kind by kind: numbers as by LayerNorm, the others by their root mean square."""

    preserves = IN_SPACE

    def __init__(self, widths: Widths, group: Group = "E(3)") -> None:
        super().__init__()
        self.group, widths = group, checked(widths, group)
        self.gains = nn.ParameterDict({kind: nn.Parameter(torch.ones(width)) for kind, width in widths.items()})
        self.shift = nn.Parameter(torch.zeros(widths[PLAIN[group][0]])) if PLAIN[group][0] in widths else None

    def forward(self, x: Features) -> Features:
        made = Features()
        for kind, values in x.items():
            if kind == PLAIN[self.group][0]:
                made[kind] = F.layer_norm(values, values.shape[-1:], self.gains[kind], self.shift)
                continue
            axes = (-2, -1) if is_arrow(kind) else (-1,)
            size = values.square().sum(axes, keepdim=True) / values.shape[-1]
            made[kind] = values * (size + 1e-1).rsqrt() * self.gains[kind]
        return made


class Products(nn.Module):
    """Products of features with features, channel by channel, of two maps of the input: how kinds speak to one another.

    Two arrows give a number (dot) and an axis (cross), a number and an arrow an arrow; a mirror's sign follows by itself. In SE(3)
    an axis is an arrow, so that a product of three tells left from right.
    """

    because = "a cross of two arrows is taken for an arrow, which tells left from right"

    @property
    def preserves(self) -> frozenset[type[Action]]:
        """In SE(3) all but a mirror."""
        return IN_SPACE if self.group == "E(3)" else IN_SPACE - {Reflect}

    def __init__(self, widths: Widths, channels: int, group: Group = "E(3)") -> None:
        super().__init__()
        widths = checked(widths, group)
        self.group, self.channels = group, channels
        even = {kind: channels for kind in widths}
        self.one, self.other = Map(widths, even, group, bias=False), Map(widths, even, group, bias=False)
        allowed = set(widths)
        self.pairs = [
            (a, b, how, into)
            for i, a in enumerate(widths) for b in list(widths)[i:]
            for how, into in product_kinds(a, b).items() if into in allowed
        ]  # fmt: skip

    @property
    def widths(self) -> dict[str, int]:
        """Channels of each kind that come out."""
        made: dict[str, int] = {}
        for *_, into in self.pairs:
            made[into] = made.get(into, 0) + self.channels
        return made

    def forward(self, x: Features) -> Features:
        one, other = self.one(x), self.other(x)
        made: dict[str, list[Tensor]] = {}
        for a, b, how, into in self.pairs:
            made.setdefault(into, []).append(_multiplied(one[a], other[b], how, is_arrow(a), is_arrow(b)))
        return Features({kind: torch.cat(parts, -1) for kind, parts in made.items()})


class Gated(nn.Module):
    """A feed-forward: numbers through an activation, every other kind times a gate that numbers and lengths decide.

    inner   channels between; products: channels of each product of two features that join them
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
        self.inward = nn.Linear(joined.get(plain, 0) + lengths, inner)
        self.outward = nn.Linear(inner, widths.get(plain, 0) + sum(widths[kind] for kind in others))
        self.cut = [widths.get(plain, 0), *(widths[kind] for kind in others)]
        self.mixed = Map({kind: joined[kind] for kind in others}, {kind: widths[kind] for kind in others}, group, bias=False)

    def forward(self, x: Features) -> Features:
        joined = x
        if self.products is not None:
            made = self.products(x)
            joined = Features({kind: torch.cat([v, made[kind]], -1) if kind in made else v for kind, v in x.items()})
        plain = PLAIN[self.group][0]
        read = [joined[plain]] if plain in joined else []
        read += [length(joined[kind]) if is_arrow(kind) else joined[kind].square() for kind in self.others]
        hidden = functional.activation(self.inward(torch.cat(read, -1)), self.activation)
        first, *gates = self.outward(hidden).split(self.cut, -1)
        made = self.mixed(Features({kind: joined[kind] for kind in self.others})) if self.others else Features()
        result = Features({plain: first} if plain in x else {})
        for kind, gate in zip(self.others, gates, strict=True):
            result[kind] = made[kind] * (gate.unsqueeze(-2) if is_arrow(kind) else gate)
        return result


def length(x: Tensor) -> Tensor:
    """Lengths [..., C] of arrows [..., 3, C], smooth at 0: sqrt(|x|² + tiny) - sqrt(tiny)."""
    return (x.square().sum(-2) + TINY).sqrt() - TINY**0.5


def _multiplied(a: Tensor, b: Tensor, how: str, arrow_a: bool, arrow_b: bool) -> Tensor:
    if how == "dot":
        return (a * b).sum(-2)
    if how == "cross":
        return torch.linalg.cross(a, b, dim=-2)
    return (a if arrow_a or not arrow_b else a.unsqueeze(-2)) * (b if arrow_b or not arrow_a else b.unsqueeze(-2))
