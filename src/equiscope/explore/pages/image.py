"""The image page: attention among the patches of a photograph, with weights that are chosen by hand and not trained.

A patch has four numbers: the means of red, green and blue, and the brightness of its left half less that of its right half. They
are a linear map of its pixels, as in a vision transformer. The query and the key of a patch are two differences of colours. So
patches of one colour attend to each other, and every number can be followed down to the pixels.
"""

from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from equiscope.attention import MultiHeadAttention
from equiscope.data.picture_files import converted
from equiscope.errors import InputError
from equiscope.explore.page import PLAIN, table
from equiscope.positions import AxialRope, NoPosition, Position, SinusoidalNd
from equiscope.program import watch
from equiscope.program.lower import attention_roles, lowered
from equiscope.program.replay import replay
from equiscope.record import Array, LeafRecord, Patches, ProgramRecord, SchemeProgram, SchemeVariant, StepRecord
from equiscope.record.patches import Region, Share
from equiscope.tokens import Tokens, patches
from equiscope.tokens.images import picture

Value = TypeVar("Value", LeafRecord, StepRecord)

PHOTO = Path(__file__).parents[1] / "photo" / "dog-human.jpg"
CREDIT = "Photograph: Pexels, CC0 1.0, by way of IBM/MAX-Object-Detector, reduced to 160 × 240 pixels."
SIDE = 16  # pixels of a patch along each axis
TALL, SQUARE = (240, 160), (192, 192)  # rows and columns of pixels; a wide photograph has TALL turned round
LONG = 1.2  # a photograph with a larger ratio of its sides is not square
MOST = 100_000_000  # pixels of a file
UNIT = 5  # patches in one unit of position: a step of one patch rotates a pair by 1/5 radian
SCALE = 8  # of the given query and key weights
FEATURES = ["red", "green", "blue", "left − right"]
COLOURS = [[-0.5, 1.0], [1.0, -1.0], [-0.5, 0.0], [0.0, 0.0]]  # by feature: greener than red and blue; redder than green
REGIONS = {
    "L": ("lawn", "lawn"), "D": ("dog", "dog"), "P": ("person", "person"), "S": ("background", "background"),
    ".": ("mixed", "mixed"),
}  # fmt: skip
LABELS = (  # by hand: what fills most of a patch; a dot where nothing does: mixed
    "SSSSSSSSSS",
    "SSSSDDSSSS",
    "SSP.SDDSSS",
    "S.P..DDSSS",
    "LLP.DDDLLL",
    "LLPPPDDLLL",
    "LLPPL.DDLL",
    "LLPPLLDDLL",
    "LLPPLL.DDL",
    "LLPPLLDDDL",
    "LLPPLLL..L",
    "LPPLLLL..L",
    "LPPLLLLLLL",
    "LLLLLLLLLL",
    "LLLLLLLLLL",
)
CALLED = {  # symbol, label and second axis of a value, by its role
    "bytes": ("bytes", "pixels of the patches, from 0 to 255", "pixel"),
    "pixels": ("P", "pixels, from 0 to 1", "pixel"),
    "input": ("X", "features and positions", "feature"),  # E itself where no position is added
    "features": ("E", "features of the patches", "feature"),
    "added": ("ΔE", "what attention adds", "feature"),
    "output": ("output", "E + ΔE", "feature"),
}
SCHEMES: list[tuple[str, str, str, Callable[[], Position]]] = [
    ("none", "no positions", "Attention depends on the features of the patches only.", NoPosition),
    (
        "sinusoidal-nd", "2-D sinusoids", "Sines and cosines of row and column are added to the four features.",
        lambda: SinusoidalNd(axes=2),
    ),
    (
        "axial-rope", "2-D RoPE", "The first pair of each query and key is rotated by its row, the second pair by its column.",
        lambda: AxialRope(axes=2),
    ),
]  # fmt: skip


class PatchAttention(nn.Module):
    """One attention layer over patches with given weights, in float64."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"embed.weight": ("W_E", "feature pixel", "from pixels to features")}

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.embed = nn.Linear(3 * SIDE * SIDE, len(FEATURES), bias=False)
        self.attention = MultiHeadAttention(len(FEATURES), output=False)
        self.position = position
        position.allocate(len(FEATURES), 1, len(FEATURES))
        self.double()
        colours = torch.tensor(COLOURS, dtype=torch.float64)
        with torch.no_grad():
            self.embed.weight.copy_(means())
            for projection in (self.attention.q_proj, self.attention.k_proj):
                projection.weight.copy_(SCALE * torch.cat([colours, colours], 1).T)  # a pair to rotate by row, one by column
            self.attention.v_proj.weight.copy_(torch.eye(len(FEATURES)))

    def forward(self, tokens: Tokens) -> dict[str, Tensor]:
        """Features of the patches [N, 4], what attention adds to them, and their sum."""
        P = tokens.x / 255
        E = self.embed(P)
        X = self.position.embed(E, tokens.positions)
        added = self.attention(replace(tokens, x=X), self.position)
        output = X + added
        return {"pixels": P, "features": E, "input": X, "added": added, "output": output}


def means() -> Tensor:
    """Weights [4, 3·SIDE·SIDE] from pixels to `FEATURES`: three means, and the left half less the right one."""
    area = SIDE * SIDE
    rows = torch.zeros(len(FEATURES), 3, SIDE, SIDE, dtype=torch.float64)
    for channel in range(3):
        rows[channel, channel] = 1 / area
    rows[3] = 2 / (3 * area)
    rows[3, :, :, SIDE // 2 :] *= -1
    return rows.flatten(1)


def image(file: Path | None = None) -> Patches:
    """The image page of a photograph, by default the one that comes along.

    raises  InputError where there is no image, or one that cannot be read
    """
    pixels, note = _pixels(PHOTO if file is None else file)
    tokens = patches(torch.from_numpy(pixels).double(), (SIDE, SIDE))
    tokens = replace(tokens, positions=tokens.positions / UNIT)
    grid = [n // SIDE for n in pixels.shape[1:]]
    pool: dict[str, Array] = {}
    programs = [_program(name, make(), tokens, pool) for name, _, _, make in SCHEMES]
    regions = _regions() if file is None else []
    return Patches(
        title="Attention among the patches of a photograph",
        summary="Each patch of the photograph is a token. Its query and key are two differences of its mean colours, by weights "
        "that are chosen by hand: nothing here was trained. Select a patch to see which patches it attends to.",
        name="a dog and a woman on a lawn" if file is None else file.name,
        credit=CREDIT if file is None else "",
        size=list(pixels.shape[1:]), side=SIDE, grid=grid, features=FEATURES, unit=UNIT,
        schemes=[SchemeVariant(name=name, title=title, summary=summary) for name, title, summary, _ in SCHEMES],
        programs=programs, pool=pool, regions=regions,
        shares=[share for one in programs for share in _shares(one, pool, regions, grid[0] * grid[1])],
        start=74 if file is None else grid[0] * grid[1] // 2,
        notes=[note] if note else [],
    )  # fmt: skip


def shares() -> list[Share]:
    """Shares of attention and of area in the photograph that comes along."""
    return image().shares


def filled(program: ProgramRecord, pool: dict[str, Array]) -> ProgramRecord:
    """The program with its own numbers, from the pool of the page."""
    leaves = [msgspec.structs.replace(leaf, array=pool[leaf.pool or ""]) for leaf in program.leaves]
    return msgspec.structs.replace(program, leaves=leaves)


def plain(page: Patches) -> str:
    """Markup for a browser without JavaScript: the shares, as a table."""
    rows = [
        [one.scheme, one.region, f"{one.area:.0%}", f"{one.attention:.0%}", f"{one.attention / one.area:.2f}"]
        for one in page.shares
    ]
    heads = ["positions", "patches of", "share of the area", "their attention to each other", "ratio"]
    return (
        f"<h1>{escape(page.title)}</h1>\n<p>{escape(page.summary)}</p>\n<p>{PLAIN}</p>\n"
        + table("How much of its attention a region gives to itself", heads, rows)
        + f"<p>{escape(page.credit)}</p>\n"
    )


def _pixels(file: Path) -> tuple[np.ndarray, str]:
    """Bytes [3, H, W] that patches fill, and a sentence on what was done to them."""
    if not file.is_file():
        raise InputError(f"There is no picture {file}. Give the path of a file that Pillow reads, e.g. PNG or JPEG.")
    found = picture(file, str(file), most=MOST)
    high, wide = SQUARE
    if found.height > LONG * found.width:
        high, wide = TALL
    elif found.width > LONG * found.height:
        wide, high = TALL
    pixels = converted(found, (high, wide), 3)
    same = (found.height, found.width) == (high, wide)
    note = "" if same else f"It has {found.width}×{found.height} pixels; its middle was brought to {wide}×{high}."
    return np.ascontiguousarray(pixels), note


def _program(name: str, position: Position, tokens: Tokens, pool: dict[str, Array]) -> SchemeProgram:
    record = lowered(watch(PatchAttention(position), tokens), arrays=False, title=name)
    leaves = []
    for leaf in record.leaves:
        assert leaf.array is not None
        key = leaf.id if pool.setdefault(leaf.id, leaf.array) == leaf.array else f"{name}/{leaf.id}"
        pool.setdefault(key, leaf.array)
        leaves.append(msgspec.structs.replace(leaf, array=None, pool=key))
    (look,) = attention_roles(record)
    roles = (record.named or {}) | {
        "bytes": next(leaf.id for leaf in record.leaves if leaf.kind == "content"), "queries": look.queries, "keys": look.keys,
        "values": look.values, "scores": look.scores, "weights": look.weights.id,
    }  # fmt: skip
    named = {
        roles[role]: {"symbol": symbol, "label": label, "axes": ["token", axis]} for role, (symbol, label, axis) in CALLED.items()
    }
    record = msgspec.structs.replace(
        record, leaves=[_called(leaf, named) for leaf in leaves], steps=[_called(step, named) for step in record.steps],
        named=msgspec.UNSET, notes=msgspec.UNSET,
    )  # fmt: skip
    return SchemeProgram(scheme=name, setting="plain", program=record, claims=[], roles=roles)


def _called(value: Value, named: dict[str, dict[str, Any]]) -> Value:
    return msgspec.structs.replace(value, **named.get(value.id, {}))


def _regions() -> list[Region]:
    letters = "".join(LABELS)
    return [
        Region(name=name, title=title, patches=[i for i, found in enumerate(letters) if found == letter])
        for letter, (name, title) in REGIONS.items()
    ]


def _shares(one: SchemeProgram, pool: dict[str, Array], regions: list[Region], count: int) -> list[Share]:
    weights = replay(filled(one.program, pool))[one.roles["weights"]]
    found = []
    for region in regions:
        rows = torch.tensor(region.patches)
        attention = float(weights[..., rows, :][..., rows].sum(-1).mean())
        found.append(Share(scheme=one.scheme, region=region.name, area=len(region.patches) / count, attention=attention))
    return found
