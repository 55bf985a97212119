"""Numbers rounded for a small file: weights as one letter each on a scale of octaves, vectors as one byte a feature.

Both come with a bound, so that a page can say how far what it shows may be from what was measured.
"""

import numpy as np

from equiscope.errors import InputError

OCTAVE = 3  # letters for one octave of weights
LEAST = 90  # level of a weight that is not there, or too small to tell from it: below 2^(-89.5 / 3) = 1e-9
FIRST, SKIPPED = 35, 92  # codes: '#' is a weight of 1; a backslash is no letter, JSON would write it as two
ROUGH = 2 ** (0.5 / OCTAVE) - 1  # a letter's weight is off by at most this share of itself
WHOLE = 127  # the largest byte of a vector


def letters(weights: np.ndarray) -> str:
    """One letter a weight: level round(-3 · log2 w), from 0 for a weight of 1 to 90 for none."""
    with np.errstate(divide="ignore"):
        levels = np.rint(-OCTAVE * np.log2(weights.reshape(-1))).clip(0, LEAST).astype(np.uint8)
    codes = levels + np.uint8(FIRST)
    return (codes + (codes >= SKIPPED)).astype(np.uint8).tobytes().decode("ascii")


def weights(text: str) -> np.ndarray:
    """The weights that letters stand for, float64. Raises InputError for a letter that is none."""
    codes = np.frombuffer(text.encode("latin-1", "replace"), dtype=np.uint8).astype(int)
    levels = codes - FIRST - (codes > SKIPPED)
    if len(levels) and (levels.min() < 0 or levels.max() > LEAST or SKIPPED in codes):
        raise InputError(f"Weights are written with letters from '{chr(FIRST)}' to '{chr(FIRST + LEAST + 1)}', found others.")
    return np.where(levels == LEAST, 0.0, 2.0 ** (-levels / OCTAVE))


def rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[..., K] as whole numbers from -127 to 127, int8, and what one of them is worth in each row, float32."""
    step = (np.abs(table).max(-1) / WHOLE).astype(np.float32)
    whole = np.rint(table / np.where(step > 0, step, 1)[..., None]).clip(-WHOLE, WHOLE)
    return whole.astype(np.int8), step
