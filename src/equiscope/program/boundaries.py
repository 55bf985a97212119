"""Boundaries: lengths at which blocks, chunks and windows of a model may end, guessed from the model itself.

Sources: the constants of the model (`constants`), the sizes by which the running model divides a length (`sizes_in_use`), and the
positions at which a mask is irregular (`irregular_masks`). From them come the lengths and positions at which a model is measured.
"""

from collections.abc import Iterable
from itertools import count

from torch import nn

from equiscope.program.constants import LARGEST, constants, plain_tensors
from equiscope.program.irregular_masks import irregular_positions

LONG_LENGTH = 263  # one tested length is at least this, if the model accepts it; a prime, which no size of blocks divides
MAX_IRREGULAR = 4  # positions of irregular masks


def boundaries(model: nn.Module, sizes: Iterable[set[int]] = (), irregular: Iterable[int] = ()) -> tuple[list[int], list[int]]:
    """Likely boundaries of a model, and further ones: integers that may be widths or something else.

    sizes      what `recording_sizes` found at each of two lengths; others than those found at both follow the length
    irregular  positions of irregular masks that it found
    """
    named, others = constants(model)
    all_widths = {size for p in model.parameters() for size in p.shape}
    widths = {size for size in all_widths if size > 64}
    in_masks = {*irregular, *(p for t in plain_tensors(model) for p in irregular_positions(t))}
    named |= set(sorted(p for p in in_masks if 1 < p <= LARGEST)[:MAX_IRREGULAR])
    at_lengths = list(sizes)
    at_both = at_lengths[0] & at_lengths[1] - all_widths if len(at_lengths) == 2 else set[int]()
    suggested = [c for c in dict.fromkeys([*sorted(named), *sorted(at_both)]) if 1 < c <= LARGEST]
    likely = [c for c in suggested if c not in widths]
    further = [c for c in dict.fromkeys([*sorted(others), *suggested]) if 1 < c <= LARGEST and c not in likely]
    return likely, [c for c in further if c not in widths or c < LONG_LENGTH]


def lengths_around(likely: list[int], others: list[int]) -> list[int]:
    """Lengths on both sides of boundaries and of powers of two, in the order in which they are tried."""
    powers = [256, 128, 64, 32, 16, 8, 4, 2]
    lengths = [*(c + 1 for c in likely), *likely, *(2 * c + 1 for c in likely), *(p + 1 for p in powers), *(c - 1 for c in likely)]
    lengths += [*(c + 1 for c in others), *others, *(2 * c + 1 for c in others), *powers, *(p - 1 for p in powers)]
    return list(dict.fromkeys(n for n in lengths if n > 1))


def positions_around(n: int, ends: list[int]) -> list[int]:
    """Positions 1 .. n - 1 near multiples of boundaries: the first of each, then the second, third, fourth and last."""
    near = []
    for times in (1, 2, 3, 4, None):
        multiples = [c * (times or n // c) for c in ends if c <= n]
        near += [multiple + d for d in (0, 1, -1) for multiple in multiples if multiple <= n]
    return list(dict.fromkeys(p for p in near if 0 < p < n))


def positions(n: int, ends: list[int], most: int) -> list[int]:
    """Positions 1 .. n - 1 in order: all, or at most `most`, first those next to block boundaries, then evenly spread ones."""
    if n - 1 <= most:
        return list(range(1, n))
    chosen = list(dict.fromkeys([1, n - 1, *positions_around(n, ends)]))[: most // 2]
    for parts in count(2):
        spread = (round(i * n / parts) for i in range(1, parts))
        for p in spread:
            if len(chosen) >= most:
                return sorted(chosen)
            if 0 < p < n and p not in chosen:
                chosen.append(p)
    return sorted(chosen)
