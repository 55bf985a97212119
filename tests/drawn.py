"""Parts and inputs with random numbers, the same for the same seed: what the laws are tried on."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from equiscope.attention import Everything, Mask, MultiHeadAttention
from equiscope.positions import (
    SCHEMES,
    Alibi,
    Concatenated,
    Fourier,
    Index,
    Kerple,
    Learned,
    LogCpb,
    MixedRope,
    Position,
    Rope,
    Shaw,
    Sinusoidal,
    T5Bias,
    XPos,
)  # fmt: skip
from equiscope.positions.scaling import DynamicNtk, Linear, Llama3, LongRope, Ntk, Yarn
from equiscope.tokens import Tokens

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
WIDTH, HEADS, LENGTH = 8, 2, 6
PLACES = 1100  # rows of a learned table: symmetry.Shift goes up to 999 places
MADE = {"learned": {"length": PLACES}, "learned-nd": {"shape": (64, 64)}, "swin": {"shape": (8, 8)}, "fire": {"length": 2.0}}

LISTED: list[Position] = [s(**MADE.get(s.name, {})) for s in SCHEMES]
ON_A_LINE: list[Position] = [s for s in LISTED if s.axes in (1, None)]
VARIANTS: list[Position] = [
    Sinusoidal(layout="half"), Sinusoidal(exponent="2(k+1)/D"), Sinusoidal(exponent="k/(D/2-1)"),
    Sinusoidal(waves="pair"), Sinusoidal(waves="sine", period=50.5), Sinusoidal(base=100.0),
    Concatenated(of=Learned(PLACES)), Concatenated(of=Index()),
    Concatenated(width=4), Rope(pairs="half"), Rope(fraction=0.5), Rope(fraction=0.5, pairs="half"), Rope(base=50.0),
    Rope(key_angle_factor=0.0), Rope(key_angle_factor=0.5), Rope(scaling=Yarn(8.0, 16)), Rope(fraction=0.5, scaling=Llama3(8.0)),
    Rope(scaling=Linear(8.0)), Rope(scaling=Ntk(8.0)), Rope(scaling=DynamicNtk(8.0, 16, length=64)),
    Rope(scaling=LongRope((1.0, 2.0), (3.0, 5.0), trained=16, length=64)), MixedRope(axes=3), LogCpb((3, 3, 3), hidden=8),
    XPos(pairs="half"), Learned(8, stretch=PLACES), Fourier(trained=True), Alibi(slopes=(0.5, 0.25)),
    Alibi(kind="asymmetric"), Alibi(kind="asymmetric", right=0.0), Alibi(kind="key"), T5Bias(bidirectional=False),
    Kerple(kind="power"), Shaw(values=False),
]  # fmt: skip
VARIED = [*LISTED, *(pytest.param(scheme, marks=pytest.mark.thorough) for scheme in VARIANTS)]  # by default the listed ones


def title(value: object) -> str:
    """A name for the report of a parametrised test."""
    if isinstance(value, Position):
        plain = {k: v for k, v in value.settings.items() if v != type(value)().settings[k] and k != "length"}
        return "-".join([value.name, *(f"{k}={getattr(v, 'name', v)}" for k, v in plain.items())])
    return str(getattr(value, "name", value))


def randomised(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in float64, every parameter random: biases and weights of norms too, so that none hides at 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / parameter.shape[0] ** 0.5)
        for name, parameter in module.named_parameters():
            if name.endswith(("table", "table.weight")):  # a trained table's rows are as large as the words
                parameter.mul_(parameter.shape[0] ** 0.5)
    return module


class Attending(nn.Module):
    """Embed, then attend: no norm and no residual stand between, so that nothing hides what a scheme does."""

    def __init__(self, position: Position, mask: Mask | None = None, heads: int = HEADS, **settings) -> None:
        super().__init__()
        self.position = position.sized(WIDTH, heads, WIDTH // heads)
        settings.setdefault("head_width", WIDTH // heads)
        self.attention = MultiHeadAttention(self.position.widened(WIDTH), heads, mask=mask or Everything(), **settings)

    def forward(self, tokens: Tokens) -> Tensor:
        return self.attention(replace(tokens, x=self.position.embed(tokens.x, tokens.positions)), self.position)


def attending(position: Position, mask: Mask | None = None, seed: int = 0, **settings) -> Attending:
    return randomised(Attending(position, mask, **settings), seed)


def placed(scheme: Position, tokens: Tokens, axes: int | None = None) -> Tokens:
    """The words at places that the scheme reads: on a line as they are, else row by row in a grid three wide."""
    axes = axes or scheme.axes or 1
    if axes == 1:
        return tokens
    row = torch.arange(tokens.x.shape[-2])
    grid = torch.stack([*[torch.zeros_like(row)] * (axes - 2), row // 3, row % 3], -1).to(tokens.positions.dtype)
    return replace(tokens, positions=grid.expand(*tokens.positions.shape[:-1], axes).clone())


def words(seed: int = 0, length: int = LENGTH, batch: tuple[int, ...] = (), start: int = 0) -> Tokens:
    """Random words at places start, start + 1, ..."""
    x = torch.randn(*batch, length, WIDTH, generator=torch.Generator().manual_seed(100 + seed), dtype=torch.float64)
    tokens = Tokens.of(x, start)
    expanded = {
        "positions": tokens.positions.expand(*batch, length, 1).clone(),
        "order": tokens.order.expand(*batch, length).clone(),
    }
    return replace(tokens, **expanded)


def uneven(tokens: Tokens, whole: bool, seed: int = 0) -> Tokens:
    """The same words at places that are not evenly spaced: whole numbers with gaps, or any number between 0 and 10."""
    generator = torch.Generator().manual_seed(seed)
    length = tokens.x.shape[-2]
    places = torch.randperm(40, generator=generator)[:length] if whole else 10 * torch.rand(length, generator=generator)
    if tokens.positions.shape[-1] > 1:  # in the plane: anywhere, or somewhere on the grid
        apart = torch.rand(tokens.positions.shape[-2:], generator=generator).double() * 5
        return replace(tokens, positions=(apart.floor() + tokens.positions if whole else apart).expand_as(tokens.positions).clone())
    return replace(tokens, positions=places.sort().values.double().unsqueeze(-1).expand_as(tokens.positions).clone())


def has_table(position: Position) -> bool:
    """Whether it knows whole numbers only."""
    return any(getattr(part, "name", "") in ("learned", "learned-nd", "swin") for part in (position, position.settings.get("of")))
