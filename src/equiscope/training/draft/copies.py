"""Copies: examples that are nearly equal, found in pictures and in texts, so that they are in one part.

Pictures are compared as small grey copies, pixel by pixel. Texts are compared by the share of five-character pieces that they have
in common; candidates come from MinHash, as comparing each text with each other one would take too long.

Sources: Broder 1997, "On the Resemblance and Containment of Documents" (MinHash); Lee et al. 2022, "Deduplicating Training Data
Makes Language Models Better", which counts texts of a similarity of 0.8 or more as copies.
"""

import re
import zlib
from collections.abc import Sequence

import numpy as np
import torch

from equiscope.data.groups import Groups

SHADES = 8  # pixels of a side of the small copy by which copies of a picture are found
NEAR = 1.5  # mean difference, in shades of 256, up to which two pictures are copies
MOST = 0.3  # share of the examples in one group, above which they are alike rather than copies
COMPARED = 6000  # pictures that are compared with each other; of more, only equal small copies are found
ALIKE = 0.8  # share of pieces that two texts have in common, from which they are copies
READ = 5000  # characters of a text that are compared
PIECE = 5  # characters of a piece
BANDS, ROWS = 16, 4  # of a MinHash signature: two texts of similarity 0.8 are compared with a probability of 0.9998
PRIME = (1 << 61) - 1


def picture_copies(small: np.ndarray) -> Groups:
    """Pictures that are nearly equal. small: [N, SHADES * SHADES] shades of grey; the lightest of all counts as 255."""
    groups = Groups(len(small))
    if len(small) > COMPARED:
        groups.join_equal(pixels.tobytes() for pixels in small)
        return groups
    x = torch.from_numpy(small).float() * (255 / max(1, small.max()))
    for first in range(0, len(x), 512):
        near = torch.cdist(x[first : first + 512], x, p=1) <= NEAR * x.shape[1]
        for row, other in near.nonzero().tolist():
            if other < first + row:
                groups.join(first + row, other)
    return groups


def text_copies(texts: Sequence[str]) -> Groups:
    """Texts that are nearly equal: without regard to capitals and punctuation, or with most pieces in common."""
    groups = Groups(len(texts))
    plain = [" ".join(re.findall(r"\w+", text[:READ].lower())) for text in texts]
    groups.join_equal(one if one and len(text) <= READ else text for one, text in zip(plain, texts, strict=True))
    first = {groups.root(row) for row in range(len(texts))}
    pieces = {row: _pieces(plain[row]) for row in sorted(first) if len(plain[row]) >= 2 * PIECE}
    boxes: dict[tuple[int, bytes], int] = {}
    chance = np.random.default_rng(0)
    factors = chance.integers(1, PRIME, (2, BANDS * ROWS), dtype=np.uint64) | np.uint64(1)
    for row, own in pieces.items():
        with np.errstate(over="ignore"):
            signature = (own[:, None] * factors[0] + factors[1]).min(0).reshape(BANDS, ROWS)
        others = set()
        for band, values in enumerate(signature):
            other = boxes.setdefault((band, values.tobytes()), row)
            others.add(other)
        for other in others - {row}:
            if groups.root(row) != groups.root(other) and _common(own, pieces[other]) >= ALIKE:
                groups.join(row, other)
    return groups


def _pieces(text: str) -> np.ndarray:
    """The different pieces of a text, as numbers."""
    content = text.encode()
    return np.unique(np.array([zlib.crc32(content[i : i + PIECE]) for i in range(len(content) - PIECE + 1)], np.uint64))


def _common(one: np.ndarray, other: np.ndarray) -> float:
    """The share of the pieces of both that both have."""
    both = len(np.intersect1d(one, other, assume_unique=True))
    return both / (len(one) + len(other) - both)
