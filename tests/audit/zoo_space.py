"""Zoo of tokens, pictures, sounds and space: small modules with proven truth about actions beyond order. Both signs of each."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from equiscope.tokens import Tokens
from tests.audit.case import Case

V = 11  # words


class Does(nn.Module):
    """A function of the inputs and of a few random numbers."""

    def __init__(self, does: Callable[..., Tensor], *shape: int) -> None:
        super().__init__()
        self.does, self.gains = does, nn.Parameter(torch.randn(shape or (1,)))

    def forward(self, x: Tensor) -> Tensor:
        return self.does(x, self.gains)


# ----------------------------------------------------------------------------------------------------------------- words


def ids() -> tuple[Tensor]:
    return (torch.randint(V, (2, 7)),)


def spread() -> tuple[Tensor, Tensor]:
    """Features at places with gaps of any size."""
    return torch.randn(2, 7, 8), (0.3 + torch.rand(7)).cumsum(0)[:, None]


class Read(nn.Module):
    """Attention that fades with what `reads` makes of the places."""

    def __init__(self, reads: Callable[[Tensor], Tensor], gaps: bool = True) -> None:
        super().__init__()
        self.value, self.reads, self.gaps = nn.Linear(8, 8), reads, gaps

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        places = self.reads(at[..., 0])
        scores = -(places[:, None] - places).abs() if self.gaps else places.expand(len(places), -1)
        return scores.softmax(-1) @ self.value(x)


def same(x: Tensor, gains: Tensor) -> Tensor:
    """How often the words of a text meet again."""
    return gains * (x[:, :, None] == x[:, None]).sum(-1)


def counts(x: Tensor, gains: Tensor) -> Tensor:
    """How often each word has come so far."""
    return gains * nn.functional.one_hot(x, V).cumsum(1)


WORDS = [
    Case("words-that-meet-again", lambda: Does(same), ids, "relabel", "holds", output="invariant"),
    Case("words-counted", lambda: Does(counts), ids, "relabel", "holds", output="renamed"),
    Case("words-counted-and-weighed", lambda: Does(counts, V), ids, "relabel", "broken", proof="each word has a weight of its own"),
    Case("words-embedded", lambda: nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V)), ids, "relabel", "broken"),
    Case("gaps-real-shift", lambda: Read(lambda at: at), spread, "real-shift", "holds"),
    Case("gaps-of-whole-places", lambda: Read(torch.floor), spread, "real-shift", "broken", subgroup="shifts by whole numbers"),
    Case("waves-of-places", lambda: Read(torch.sin, False), spread, "real-shift", "broken", subgroup=""),
    Case("share-of-the-text", lambda: Read(lambda at: at / at.max()), spread, "stretch", "holds"),
    Case("gaps-stretch", lambda: Read(lambda at: at), spread, "stretch", "broken"),
]  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- pictures


def picture(size: int = 16) -> tuple[Tensor]:
    return (torch.randn(2, 3, size, size),)


def wide() -> tuple[Tensor]:
    return (torch.randn(2, 3, 8, 16),)


def on_blank(edge: int = 6) -> tuple[Tensor]:
    return (nn.functional.pad(torch.randn(2, 3, 6, 6), (edge,) * 4),)


def conv(padding: str = "circular", size: int = 3, stride: int = 1, into: int = 4, out: int = 4, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(into, out, size, stride, size // 2, padding_mode=padding, bias=bias)


def layers(**parts: nn.Module) -> nn.Sequential:
    made = nn.Sequential()
    for name, part in parts.items():
        made.add_module(name, part)
    return made


def pooled(**parts: nn.Module) -> nn.Sequential:
    return layers(**parts, mean=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), read=nn.Linear(4, 5))


class Even(nn.Module):
    """A convolution round the edge whose kernel is the mean over some motions of the picture."""

    def __init__(self, *motions: Callable[[Tensor], Tensor], bias: bool = True) -> None:
        super().__init__()
        self.conv, self.motions = conv(into=3, bias=bias), motions

    def forward(self, x: Tensor) -> Tensor:
        kernel = sum(m(self.conv.weight) for m in self.motions) / len(self.motions)
        return nn.functional.conv2d(nn.functional.pad(x, (1,) * 4, mode="circular"), kernel, self.conv.bias)


def quarters(*counts: int) -> list[Callable[[Tensor], Tensor]]:
    return [lambda k, n=n: torch.rot90(k, n, (-2, -1)) for n in counts]


def flips(*axes: int) -> list[Callable[[Tensor], Tensor]]:
    return [lambda k: k, *(lambda k, a=a: k.flip(a) for a in axes)]


class Patches(nn.Module):
    """Attention between the patches of a picture, with a class token, and perhaps a table of places."""

    def __init__(self, table: bool = False, pool: str = "") -> None:
        super().__init__()
        self.cut, self.first, self.pool = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 1, 32)), pool
        self.attend = nn.TransformerEncoderLayer(32, 2, 32, batch_first=True)
        self.table = nn.Parameter(torch.randn(1, 17, 32)) if table else None

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([self.first.expand(len(x), -1, -1), self.cut(x).flatten(2).mT], 1)
        rows = self.attend(rows if self.table is None else rows + self.table)
        return rows[:, 0] if self.pool == "first" else rows[:, 1:].mean(1) if self.pool else rows


class Last(nn.Module):
    """Channels last."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(-3, -1)


PICTURES = [
    Case("ring-convolution", lambda: conv(into=3), picture, "image-shift", "holds", output="map"),
    Case("ring-convolution-wide", lambda: conv(into=3), wide, "image-shift", "holds", output="map"),
    Case("ring-convolution-channels-last", lambda: layers(a=conv(into=3), b=Last()), picture, "image-shift", "holds",
         output="map-last"),
    Case("ring-convolution-pooled", lambda: pooled(a=conv(into=3), b=nn.ReLU()), picture, "image-shift", "holds",
         output="invariant"),
    Case("zeros-at-the-border", lambda: layers(a=conv(into=3), b=nn.ReLU(), c=conv("zeros"), d=conv()), picture, "image-shift",
         "broken", where="c", subgroup="shifts inside, 2 pixels from the border", proof="c sees one pixel of it, d two"),
    Case("zeros-pooled", lambda: pooled(a=conv("zeros", into=3), b=nn.ReLU()), picture, "image-shift", "broken", where="a",
         subgroup=""),
    Case("stride-of-four", lambda: nn.Conv2d(3, 4, 4, 4), picture, "image-shift", "broken", subgroup="shifts by 4", output="map"),
    Case("stride-of-two-and-zeros", lambda: conv("zeros", stride=2, into=3), picture, "image-shift", "broken",
         subgroup="shifts by 2 inside, 4 pixels from the border"),
    Case("pooled-by-two", lambda: layers(a=conv(into=3), b=nn.MaxPool2d(2), c=conv()), picture, "image-shift", "broken", where="b",
         subgroup="shifts by 2"),
    Case("flattened", lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 5)), picture, "image-shift", "broken", subgroup=""),
    Case("pointwise-padded", lambda: conv(size=1, into=3), picture, "image-shift-padded", "holds", output="map"),
    Case("blank-ground", lambda: layers(a=conv("zeros", into=3), b=nn.ReLU(), c=nn.AdaptiveAvgPool2d(1)), on_blank,
         "image-shift-padded", "holds", output="invariant", proof="three pixels of six are used, the kernel reaches one"),
    Case("no-ground", lambda: layers(a=conv("zeros", into=3), c=nn.AdaptiveAvgPool2d(1)), picture, "image-shift-padded", "broken"),
    Case("ring-convolution-padded", lambda: conv(into=3), picture, "image-shift-padded", "broken",
         subgroup="shifts inside, 1 pixel from the border"),
    Case("patches-without-places", Patches, picture, "patch-shift", "holds", output="patches"),
    Case("patches-pooled", lambda: Patches(pool="mean"), picture, "patch-shift", "holds", output="invariant"),
    Case("patches-first-row", lambda: Patches(pool="first"), picture, "patch-shift", "holds", output="invariant"),
    Case("patches-with-places", lambda: Patches(True), picture, "patch-shift", "broken", subgroup=""),
    Case("patches-by-pixels", Patches, picture, "image-shift", "broken", where="cut", subgroup="shifts by 4"),
    Case("even-under-quarters", lambda: Even(*quarters(0, 1, 2, 3)), picture, "image-rotate", "holds", output="map"),
    Case("even-under-quarters-pooled", lambda: pooled(a=Even(*quarters(0, 1, 2, 3))), picture, "image-rotate", "holds",
         output="invariant"),
    Case("even-under-halves", lambda: Even(*quarters(0, 2)), picture, "image-rotate", "broken",
         subgroup="rotations by 180 degrees"),
    Case("even-under-halves-wide", lambda: Even(*quarters(0, 2)), wide, "image-rotate", "holds",
         proof="it is not square: rotations by 180 degrees only"),
    Case("any-kernel-turned", lambda: conv(into=3), picture, "image-rotate", "broken", subgroup=""),
    Case("even-under-flips", lambda: Even(*flips(-1, -2), lambda k: k.flip(-1, -2)), picture, "image-flip", "holds", output="map"),
    Case("even-from-left-to-right", lambda: Even(*flips(-1)), picture, "image-flip", "broken", subgroup="left and right exchanged"),
    Case("any-kernel-mirrored", lambda: conv(into=3), picture, "image-flip", "broken", subgroup=""),
    Case("pointwise-turned", lambda: conv(size=1, into=3), picture, "image-rotate-any", "holds", output="map"),
    Case("even-under-quarters-turned", lambda: Even(*quarters(0, 1, 2, 3)), picture, "image-rotate-any", "broken",
         subgroup="rotations by 90 degrees"),
    Case("pointwise-enlarged", lambda: layers(a=conv(size=1, into=3), b=nn.ReLU()), picture, "image-scale", "holds", output="map"),
    Case("pointwise-pooled-enlarged", lambda: pooled(a=conv(size=1, into=3), b=nn.ReLU()), picture, "image-scale", "holds",
         output="invariant"),
    Case("convolution-enlarged", lambda: conv(into=3), picture, "image-scale", "broken"),
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- sounds


def sound() -> tuple[Tensor]:
    return (torch.randn(2, 1, 96),)


def along(padding: str = "circular", stride: int = 1, into: int = 1, bias: bool = True) -> nn.Conv1d:
    return nn.Conv1d(into, 4, 3, stride, 1, padding_mode=padding, bias=bias)


HEARD = {"kinds": {"input": "wave"}}
HEARD_X = {"kinds": {"x": "wave"}}

SOUNDS = [
    Case("ring-in-time", lambda: along(), sound, "time-shift", "holds", output="wave", settings=HEARD),
    Case("ring-in-time-pooled", lambda: layers(a=along(), b=nn.AdaptiveAvgPool1d(1)), sound, "time-shift", "holds",
         output="invariant", settings=HEARD),
    Case("spectrum", lambda: Does(lambda x, g: g * torch.fft.rfft(x).abs()), sound, "time-shift", "holds", output="invariant",
         settings=HEARD_X),
    Case("frames-in-a-ring", lambda: layers(a=along(stride=4), b=nn.Flatten(2), c=Turned()), sound, "time-shift", "broken",
         subgroup="shifts by 4", output="frames", settings=HEARD),
    Case("no-padding-in-time", lambda: layers(a=nn.Conv1d(1, 4, 4, 2), b=nn.ReLU(), c=nn.Conv1d(4, 4, 4, 2)), sound,
         "time-shift-padded", "broken", subgroup="shifts by 4", settings=HEARD, proof="two strides of two, no border met"),
    Case("zeros-in-time", lambda: layers(a=along(), b=along("zeros", into=4)), sound, "time-shift", "broken", where="b",
         subgroup="shifts inside, 1 sample from the border", settings=HEARD),
    Case("clock-in-time", lambda: Does(lambda x, g: x * g, 96), sound, "time-shift", "broken", subgroup="", settings=HEARD_X),
    Case("gate-in-time", lambda: layers(a=nn.Conv1d(1, 4, 1), b=nn.Tanh()), sound, "time-shift-padded", "holds", output="wave",
         settings=HEARD),
    Case("ring-after-silence", lambda: along(), sound, "time-shift-padded", "broken",
         subgroup="shifts inside, 1 sample from the border", settings=HEARD),
    Case("rectified-gain", lambda: layers(a=along(bias=False), b=nn.ReLU()), sound, "gain", "holds", output="power 1",
         settings=HEARD),
    Case("power-spectrum-gain", lambda: Does(lambda x, g: g * torch.fft.rfft(x).abs() ** 2), sound, "gain", "holds",
         output="power 2", settings=HEARD_X),
    Case("normalised-gain", lambda: Does(lambda x, g: g * x / x.norm(dim=-1, keepdim=True)), sound, "gain", "holds",
         output="invariant", settings=HEARD_X),
    Case("bias-gain", lambda: layers(a=along(), b=nn.ReLU()), sound, "gain", "broken", settings=HEARD),
    Case("saturated-gain", lambda: Does(lambda x, g: g * x.tanh()), sound, "gain", "broken", settings=HEARD_X),
]  # fmt: skip


class Turned(nn.Module):
    """The last two axes exchanged."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mT


# ----------------------------------------------------------------------------------------------------------------- space


def cloud() -> tuple[Tensor]:
    return (torch.randn(2, 5, 3),)


def molecule() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 6, 3), torch.tensor([[1, 1, 6, 8, 1, 6], [1, 1, 6, 8, 1, 6]])


def gliding() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 5, 3), torch.randn(2, 5, 3)


class Force(nn.Module):
    """From points [B, N, 3] and their differences, weighed by a function of the distance, made into something by `made`."""

    def __init__(self, made: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weigh, self.made = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 2)), made

    def forward(self, x: Tensor) -> Tensor:
        gaps = x[:, :, None] - x[:, None]
        weights = self.weigh(gaps.square().sum(-1, keepdim=True))
        return self.made(x, *((weights[..., i, None] * gaps).sum(2) for i in (0, 1)))


def energy(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum((1, 2))


def handed(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The volume of three vectors of each point: its sign tells left from right."""
    return (torch.linalg.cross(u, v) * u.square().sum(-1, keepdim=True) * v.roll(1, 1)).sum(-1)


def cross(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return torch.linalg.cross(u, v)


def scalar_first(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([(u * v).sum(-1, keepdim=True), u], -1)


def scalar_last(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return torch.cat([u, (u * v).sum(-1, keepdim=True)], -1)


def second(v: Tensor, polar_y: bool = True) -> Tensor:
    """Degree two of a vector, written out; with the other polar axis it is what physics books have, not e3nn."""
    x, y, z = v.unbind(-1) if polar_y else v.roll(1, -1).unbind(-1)
    r = math.sqrt(3)
    return torch.stack([r * x * z, r * x * y, y**2 - (x**2 + z**2) / 2, r * y * z, r / 2 * (z**2 - x**2)], -1)


class Atoms(nn.Module):
    """A weight for each atom: of its kind, of the kind that this row always had, or of its row."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.table, self.by = nn.Embedding(9, 1), by

    def forward(self, pos: Tensor, z: Tensor) -> Tensor:
        rows = {"kind": z, "usual": z.new_tensor([1, 1, 6, 8, 1, 6]), "row": torch.arange(6)}[self.by]
        return (self.table(rows) * pos.square()).sum((1, 2))


class Glide(nn.Module):
    """Where the points will be, or how fast."""

    def __init__(self, place: bool) -> None:
        super().__init__()
        self.gain, self.place = nn.Parameter(torch.randn(1)), place

    def forward(self, pos: Tensor, velocities: Tensor) -> Tensor:
        return pos + self.gain * velocities if self.place else self.gain * velocities


class Near(nn.Module):
    """Attention between tokens at points in space, by their distance or by one of their coordinates."""

    def __init__(self, distance: bool = True) -> None:
        super().__init__()
        self.value, self.distance = nn.Linear(8, 8), distance

    def forward(self, tokens: Tokens) -> Tensor:
        at = tokens.positions.to(tokens.x.dtype)
        scores = -(at[:, None] - at).square().sum(-1) if self.distance else at[:, 0].expand(len(at), -1)
        return scores.softmax(-1) @ self.value(tokens.x)


def placed() -> tuple[Tokens]:
    return (Tokens(x=torch.randn(2, 7, 8), positions=torch.randn(7, 3), order=torch.arange(7)),)


def asked(output: str) -> dict[str, str]:
    return {"output": output}


def tilted(x: Tensor, g: Tensor) -> Tensor:
    """What a weight that pulls along z would have."""
    return g * x[..., 2] * x[..., :2].square().sum(-1)


def cubic(x: Tensor, g: Tensor) -> Tensor:
    return g * (x**4).sum(-1)


def threefold(x: Tensor, g: Tensor) -> Tensor:
    return g * (x[..., 0] ** 3 - 3 * x[..., 0] * x[..., 1] ** 2 + 5 * x[..., 2])


SPACE = [
    Case("energy-turned", lambda: Force(energy), cloud, "rotate", "holds", output="invariant"),
    Case("force-turned", lambda: Force(lambda x, u, v: u), cloud, "rotate", "holds", output="vector"),
    Case("forces-side-by-side", lambda: Force(lambda x, u, v: torch.cat([u, v], -1)), cloud, "rotate", "holds", output="vector"),
    Case("forces-components-first", lambda: Force(lambda x, u, v: torch.stack([u, v], -1)), cloud, "rotate", "holds",
         output="vector@-2"),
    Case("stress-turned", lambda: Force(lambda x, u, v: u[..., None] * v[..., None, :]), cloud, "rotate", "holds", output="tensor"),
    Case("degree-two-turned", lambda: Force(lambda x, u, v: second(u)), cloud, "rotate", "holds", output="2e"),
    Case("degree-two-about-z", lambda: Force(lambda x, u, v: second(u, False)), cloud, "rotate", "broken", settings=asked("2e")),
    Case("scalar-and-vector", lambda: Force(scalar_first), cloud, "rotate", "holds", output="0e+1o"),
    Case("vector-and-scalar", lambda: Force(scalar_last), cloud, "rotate", "broken",
         settings=asked("0e+1o"), proof="the scalar stands last"),
    Case("vector-and-scalar-named", lambda: Force(scalar_last), cloud, "rotate", "holds",
         settings=asked("1o+0e")),
    Case("force-is-not-invariant", lambda: Force(lambda x, u, v: u), cloud, "rotate", "broken", settings=asked("invariant")),
    Case("force-through-an-activation", lambda: Force(lambda x, u, v: u.tanh()), cloud, "rotate", "broken"),
    Case("vectors-mixed-by-a-matrix", lambda: layers(a=Force(lambda x, u, v: u), b=nn.Linear(3, 3), c=Force(energy)), cloud,
         "rotate", "broken", where="b"),
    Case("gate-that-bends-a-vector", lambda: layers(a=Force(lambda x, u, v: x + u), b=nn.Tanh(), c=Force(energy)), cloud, "rigid",
         "broken", where="b"),
    Case("linear-in-coordinates", lambda: nn.Linear(3, 3), cloud, "rotate", "broken"),
    Case("weight-along-z", lambda: Does(tilted), cloud, "rotate", "broken", subgroup="rotations about z"),
    Case("cube", lambda: Does(cubic), cloud, "rotate", "broken", subgroup="rotations by 90 degrees about x, y and z",
         proof="a finite group: right at 90 degrees, wrong at 1"),
    Case("three-blades", lambda: Does(threefold), cloud, "rotate", "broken", subgroup="rotations by 120 degrees about z"),
    Case("velocities-turned", lambda: Glide(False), gliding, "rotate", "holds", output="vector"),
    Case("tokens-in-space-turned", Near, placed, "rotate", "holds", output="invariant"),
    Case("tokens-by-height-turned", lambda: Near(False), placed, "rotate", "broken", subgroup="rotations about x"),
    Case("energy-moved", lambda: Force(energy), cloud, "translate", "holds", output="invariant"),
    Case("places-moved", lambda: Glide(True), gliding, "translate", "holds", output="points"),
    Case("places-are-not-invariant", lambda: Glide(True), gliding, "translate", "broken", settings=asked("invariant")),
    Case("velocities-moved", lambda: Glide(False), gliding, "translate", "holds", output="invariant"),
    Case("lever-moved", lambda: Force(lambda x, u, v: torch.linalg.cross(x, u)), cloud, "translate", "broken", subgroup=""),
    Case("height-moved", lambda: Does(lambda x, g: g * x[..., 2]), cloud, "translate", "broken",
         subgroup="translations in the plane of x and y"),
    Case("crystal-moved", lambda: Does(lambda x, g: (2 * math.pi * x).sin().prod(-1) * g), cloud, "translate", "broken",
         subgroup="translations by whole numbers"),
    Case("tokens-in-space-moved", Near, placed, "translate", "holds"),
    Case("energy-mirrored", lambda: Force(energy), cloud, "reflect", "holds", output="invariant"),
    Case("force-mirrored", lambda: Force(lambda x, u, v: u), cloud, "reflect", "holds", output="vector"),
    Case("force-is-no-pseudo-vector", lambda: Force(lambda x, u, v: u), cloud, "reflect", "broken",
         settings=asked("pseudo-vector")),
    Case("spin-mirrored", lambda: Force(cross), cloud, "reflect", "holds", output="pseudo-vector"),
    Case("spin-is-no-vector", lambda: Force(cross), cloud, "reflect", "broken", settings=asked("vector")),
    Case("spin-turns-as-a-vector", lambda: Force(cross), cloud, "rotate", "holds", settings=asked("vector"),
         proof="turns do not tell vectors from pseudo-vectors"),
    Case("degree-two-mirrored", lambda: Force(lambda x, u, v: second(u)), cloud, "reflect", "holds", output="2e"),
    Case("degree-two-is-even", lambda: Force(lambda x, u, v: second(u)), cloud, "reflect", "broken", settings=asked("2o")),
    Case("handed-energy-turned", lambda: Force(handed), cloud, "rotate", "holds", output="invariant"),
    Case("handed-energy-mirrored", lambda: Force(handed), cloud, "reflect", "holds", output="pseudo-scalar"),
    Case("handed-and-not", lambda: Force(lambda x, u, v: handed(x, u, v) + (u * v).sum(-1)), cloud, "reflect", "broken",
         subgroup=""),
    Case("one-mirror", lambda: Does(lambda x, g: g * x[..., 0] * x[..., 1].exp() * x[..., 2] ** 2), cloud, "reflect", "broken",
         subgroup="the reflection along z"),
    Case("energy-orthogonal", lambda: Force(energy), cloud, "orthogonal", "holds", output="invariant"),
    Case("spin-orthogonal", lambda: Force(cross), cloud, "orthogonal", "holds", output="pseudo-vector"),
    Case("spin-orthogonal-as-a-vector", lambda: Force(cross), cloud, "orthogonal", "broken", settings=asked("vector"),
         subgroup="rotations about the origin"),
    Case("energy-rigid", lambda: Force(energy), cloud, "rigid", "holds", output="invariant"),
    Case("force-rigid", lambda: Force(lambda x, u, v: u), cloud, "rigid", "holds", output="vector"),
    Case("places-rigid", lambda: Glide(True), gliding, "rigid", "holds", output="points"),
    Case("far-from-the-origin", lambda: Does(lambda x, g: g * x.square().sum(-1)), cloud, "rigid", "broken",
         subgroup="rotations about the origin"),
    Case("axes-matter", lambda: Force(lambda x, u, v: u[..., 0]), cloud, "rigid", "broken", subgroup="translations alone"),
    Case("energy-euclidean", lambda: Force(energy), cloud, "euclidean", "holds", output="invariant"),
    Case("places-euclidean", lambda: Glide(True), gliding, "euclidean", "holds", output="points"),
    Case("handed-euclidean", lambda: Force(handed), cloud, "euclidean", "holds", output="pseudo-scalar"),
    Case("handed-and-not-euclidean", lambda: Force(lambda x, u, v: handed(x, u, v) + (u * v).sum(-1)), cloud, "euclidean", "broken",
         subgroup="rotations and translations without reflections"),
    Case("atoms-by-kind", lambda: Atoms("kind"), molecule, "permute-like", "holds"),
    Case("atoms-by-the-usual-kind", lambda: Atoms("usual"), molecule, "permute-like", "holds"),
    Case("atoms-by-the-usual-kind-permuted", lambda: Atoms("usual"), molecule, "permute", "broken"),
    Case("atoms-by-row", lambda: Atoms("row"), molecule, "permute-like", "broken"),
    Case("angles-in-other-units", lambda: Does(lambda x, g: g * nn.functional.normalize(x, dim=-1)), cloud, "scale", "holds",
         output="invariant"),
    Case("squares-in-other-units", lambda: Does(lambda x, g: g * x.square().sum(-1)), cloud, "scale", "holds", output="power 2"),
    Case("charges-in-other-units", lambda: Does(lambda x, g: g / x.norm(dim=-1)), cloud, "scale", "holds", output="power -1"),
    Case("force-in-other-units", lambda: Force(lambda x, u, v: u), cloud, "scale", "broken"),
]  # fmt: skip

CASES = [*WORDS, *PICTURES, *SOUNDS, *SPACE]
