"""Scores with an added position encoding: the sum of four matrices, three of which depend on positions.

One idea: (x + p) W (x + p)ᵀ = x W xᵀ + x W pᵀ + p W xᵀ + p W pᵀ, with W = W_Q W_Kᵀ / √K.
Source: the expansion is in Dai et al. 2019, section 3.3, and He et al. 2020 (DeBERTa), section 3.1.
"""

import torch
from torch import Tensor

from equiscope.attention import scaled_dot, score_split
from equiscope.positions import Sinusoidal
from equiscope.study.base import Cell, Each, Panel, ResultTable, Study, StudyResult, fmt, mean_of
from equiscope.symmetry import relative_error

WIDTH, LENGTH = 32, 24
PARTS = ("word–word", "word–position", "position–word", "position–position")


def measure(quick: bool, each: Each) -> StudyResult:
    """24 words of width 32, sinusoids, one head with random weights; sizes of words from 1/4 of a position's to 4 times."""
    p = Sinusoidal().encode(torch.arange(LENGTH, dtype=torch.float64)[:, None], WIDTH)
    sizes = [0.25, 1.0, 4.0]
    runs = {s: [_run(p, s) for _ in range(3 if quick else 40)] for s in each(sizes, "sizes of the words")}
    means = {s: {part: mean_of(run[part] for run in of_size) for part in runs[s][0]} for s, of_size in runs.items()}
    x, query, key = _words(1.0), *_weights()
    parts = score_split(x, p, query, key, heads=1)
    other = score_split(_words(1.0), p, query, key, heads=1)
    plain = score_split(x, p, torch.eye(WIDTH, dtype=x.dtype), torch.eye(WIDTH, dtype=x.dtype), heads=1)
    numbers: dict[str, float | None] = {
        "sum against the score": max(run["off"] for of_size in runs.values() for run in of_size),
        **{f"share of {part}": means[1.0][part] for part in PARTS},
        "position-position, another text": relative_error(other[3], parts[3]),
        "position-position off its diagonals, W random": mean_of(run["off the diagonals"] for run in runs[1.0]),
        "position-position off its diagonals, W = 1": off_diagonals(plain[3]),
    }
    answer = (
        f"The four matrices sum to the score up to {fmt(numbers['sum against the score'])}. With words as long as positions, "
        + ", ".join(f"{part} is {fmt(100 * means[1.0][part])} %" for part in PARTS)
        + " of the squared size."
    )
    notes = [
        "Place–position is the same matrix for every text (another text: difference "
        f"{fmt(numbers['position-position, another text'])}). "
        f"It depends on i − j alone for W = 1 (off its diagonals {fmt(numbers['position-position off its diagonals, W = 1'])}), "
        "and "
        f"not for random W ({fmt(numbers['position-position off its diagonals, W random'])}): sinusoids encode the distance, but "
        "W has to use it.",
        "Word–position and position–word let a word prefer certain positions: schemes without them exist (ALiBi, T5).",
        f"Sinusoids of width {WIDTH}; shares are means over words and weights. Off the diagonals: what remains of a matrix "
        "after the mean of each diagonal is subtracted, relative.",
    ]
    whole = torch.stack(parts).sum(0)
    titles = [*PARTS, "their sum, the score"]
    rows: list[list[Cell]] = [[s, *(means[s][part] for part in PARTS)] for s in sizes]
    return StudyResult(
        "Adding positions makes four kinds of score", answer, numbers,
        [Panel(title, "key", "query", matrix=m.tolist()) for title, m in zip(titles, (*parts, whole), strict=True)],
        ResultTable(["length of a word / of a position", *(f"share of {part}" for part in PARTS)], rows), notes,
    )  # fmt: skip


def _words(size: float) -> Tensor:
    """Random words, `size` times as long as a position, whose length is √(D/2)."""
    return size * torch.randn(LENGTH, WIDTH, dtype=torch.float64) / 2**0.5


def _weights() -> tuple[Tensor, Tensor]:
    query, key = torch.randn(2, WIDTH, WIDTH, dtype=torch.float64) / WIDTH**0.5
    return query, key


def _run(p: Tensor, size: float) -> dict[str, float]:
    """For one text and one set of weights: the share of each part, how far their sum is off, and how far from diagonal."""
    x, query, key = _words(size), *_weights()
    parts = score_split(x, p, query, key, heads=1)
    squares = [part.square().sum().item() for part in parts]
    whole = scaled_dot((x + p) @ query, (x + p) @ key)
    return {part: s / sum(squares) for part, s in zip(PARTS, squares, strict=True)} | {
        "off": relative_error(torch.stack(parts).sum(0), whole),
        "off the diagonals": off_diagonals(parts[3]),
    }


def off_diagonals(matrix: Tensor) -> float:
    """What of a square matrix is no function of i - j, relative to its size."""
    n = len(matrix)
    gap = torch.arange(n)[:, None] - torch.arange(n) + n - 1
    sums = torch.zeros(2 * n - 1, dtype=matrix.dtype).index_add(0, gap.flatten(), matrix.flatten())
    return relative_error((sums / torch.bincount(gap.flatten()))[gap], matrix)


STUDY = Study("split", "What does adding a position do to the scores?", "Dai 2019, section 3.3; He 2020, section 3.1", measure)
