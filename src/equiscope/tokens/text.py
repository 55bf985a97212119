"""Text as tokens: words or characters, with hashed or learned embeddings."""

import math
import unicodedata
from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.functional import semantic
from equiscope.kernels.private import functorch_active


def words(sentence: str) -> list[str]:
    """Split at white space, after Unicode composition (NFC), so that equal letters are equal.

    raises  InputError for a text without words
    """
    pieces = _text(sentence).split()
    if not pieces:
        raise InputError('The sentence has no words. Give at least one, e.g. "Love conquers all".')
    return pieces


def characters(sentence: str) -> list[str]:
    """Every character a token, spaces included. Raises InputError for an empty text."""
    pieces = list(_text(sentence))
    if not pieces:
        raise InputError("The text is empty. Give at least one character.")
    return pieces


def readable(text: str) -> str:
    """The text, with the replacement character for invalid bytes."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _text(sentence: str) -> str:
    """The readable text, composed (NFC)."""
    return unicodedata.normalize("NFC", readable(sentence))


def vocabulary(tokens: Iterable[str]) -> dict[str, int]:
    """A number for each different token, in the order of first appearance."""
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def spelled(tokens: Iterable[str], width: int, seed: int = 0) -> Tensor:
    """Untrained embeddings, a hash of each token's spelling, so that equal tokens have equal embeddings.

    returns [N, width] float64 in -2.0, -1.9, ..., 2.0: FNV-1a over the bytes of "seed/word/feature", mixed by murmur3's
            finaliser, modulo 41. web/src/core/words.ts has the same function, so a sentence typed in the page gets the same
            numbers.
    """
    rows = [[(_hash(f"{seed}/{token}/{j}") % 41 - 20) / 10 for j in range(width)] for token in tokens]
    return torch.tensor(rows, dtype=torch.float64)


def _hash(text: str) -> int:
    h = 2166136261
    for byte in text.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


@semantic
def outside(ids: Tensor, rows: int) -> bool:
    """Whether some id has no row in a table."""
    return bool(((ids < 0) | (ids >= rows)).any())


class Embedding(nn.Embedding):
    """A table: ids [..., N] to features [..., N, D].

    table   initial weights [vocabulary, width]; random by default
    raises  InputError for an id outside the table, ShapeError for a table of another shape
    """

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"weight": ("E", "vocabulary feature", "embedding table")}

    def __init__(self, vocabulary: int, width: int, table: Tensor | None = None) -> None:
        if table is not None and table.shape != (vocabulary, width):
            raise ShapeError(f"The table for {vocabulary} tokens of width {width} has the wrong shape: {tuple(table.shape)}.")
        numbers = torch.randn(vocabulary, width) / math.sqrt(width) if table is None else table.clone()
        super().__init__(vocabulary, width, _weight=numbers)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise InputError(f"Ids are whole numbers, but got {ids.dtype}. Use ids.long().")
        if not (torch.compiler.is_compiling() or functorch_active()) and outside(ids, self.num_embeddings):
            raise InputError(
                f"The embedding has ids 0..{self.num_embeddings - 1}, but got {int(ids.min())}..{int(ids.max())}. "
                "Use the vocabulary that the model was built with."
            )
        return super().forward(ids.long())
