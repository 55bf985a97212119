"""The tokens of an input, as pages show them. No torch."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

SequenceKind = Literal["words", "patches", "slices", "tokens"]


class AudioClip(Struct, frozen=True, kw_only=True):
    """A sound that a page draws and plays. rate: samples per second; samples: base64, 16 bits each, little-endian."""

    rate: int
    samples: str


class TokenSequence(Struct, frozen=True, kw_only=True):
    """The tokens of the rows or columns of an attention: words of a text, patches of a picture, slices of a sound.

    labels         one per token
    words          of each token the number of the word that it is a piece of, from 0 on; empty: not known
    picture        data: address of the picture; empty for none
    grid           rows and columns of patches
    prefix_tokens  tokens before the patches or slices: a class token, registers, columns beside the input
    seconds        start of each slice, without prefix tokens; duration: seconds of a slice, 0: until the next one starts
    sound          the sound itself; None: not in the record
    """

    name: str
    kind: SequenceKind
    labels: list[str]
    picture: str = ""
    grid: list[int] = field(default_factory=list)
    prefix_tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    duration: float = 0.0
    words: list[int] = field(default_factory=list)
    sound: AudioClip | None = None


def patch_sequence(grid: list[int], prefix_tokens: int, picture: str = "", names: Sequence[str] = ()) -> TokenSequence:
    """The patches of a picture, row by row, after the tokens in front. Rows and columns are counted from 0.

    names  of the tokens in front; a class token and registers by default
    """
    prefix = list(names) or ["class", *(f"register {i}" for i in range(1, prefix_tokens))][:prefix_tokens]
    cells = [f"row {row}, column {column}" for row in range(grid[0]) for column in range(grid[1])]
    return TokenSequence(
        name="picture", kind="patches", labels=[*prefix, *cells], picture=picture, grid=grid, prefix_tokens=prefix_tokens
    )  # fmt: skip
