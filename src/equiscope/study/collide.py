"""Which encodings give two positions the same vector, and why a sine needs its cosine.

One idea: count the different rows among the first N positions; then ask for the linear map that moves every position on by 5.
Source: Vaswani et al. 2017, section 3.5 ("for any fixed offset k, PE(pos+k) is a linear function of PE(pos)").
"""

import torch
from torch import Tensor

from equiscope.explore.sentence.clocks import best_map_error
from equiscope.positions import Added, Index, Learned, Sinusoidal
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, fmt

PERIOD, WIDTH, STEPS, FITTED = 36, 8, 5, 105
SAME = 1e-9  # rows closer than this are one row: float64 has 1e-16, the closest different rows below are 1e-2 apart


def measure(quick: bool, each: Each) -> StudyResult:
    """Encodings of 1 .. 8 features on up to 10 000 positions."""
    many = 300 if quick else 10_000
    encodings: dict[str, Tensor] = {
        "one sine": _encode(Sinusoidal(waves="sine", period=PERIOD), 1, many),
        "sine + cosine": _encode(Sinusoidal(waves="pair", period=PERIOD), 2, many),
        "ladder": _encode(Sinusoidal(), WIDTH, many),
        "learned": _encode(Learned(length=many), WIDTH, many),
        "index": _encode(Index(), 1, many),
    }
    count = {name: {n: different(p[:n]) for n in (PERIOD, PERIOD + 1, 4 * PERIOD, many)} for name, p in encodings.items()}
    positions = range(1, 4 * PERIOD + 1, 7 if quick else 1)
    curves = [
        Curve(name, [float(n) for n in positions], [float(different(p[:n])) for n in positions])
        for name, p in each(list(encodings.items()), "encodings")
        if name not in ("learned", "index")
    ]
    turned = torch.arange(FITTED, dtype=torch.float64)[:, None] * Sinusoidal().frequencies(WIDTH)
    sines, both = (best_map_error(table, STEPS) for table in (turned.sin(), torch.cat([turned.sin(), turned.cos()], 1)))
    halves, pairs = (Sinusoidal(layout=layout).encode(_positions(50), WIDTH) for layout in ("half", "interleaved"))
    order = torch.arange(WIDTH).view(-1, 2).T.flatten()
    sine = encodings["one sine"]
    numbers: dict[str, float | None] = {
        "one sine": count["one sine"][PERIOD], "pair": count["sine + cosine"][PERIOD],
        "pair, one position more": count["sine + cosine"][PERIOD + 1], "ladder": count["ladder"][many], "positions": many,
        "sines only": sines, "sine + cosine": both, "order of columns": (halves - pairs[:, order]).abs().max().item(),
        "i and 18 - i": (sine[: PERIOD // 2 + 1] - sine[: PERIOD // 2 + 1].flip(0)).abs().max().item(),
        "closest rows of the ladder": closest(encodings["ladder"][:many]),
    }  # fmt: skip
    answer = (
        f"One sine of period {PERIOD} takes {count['one sine'][PERIOD]} values on {PERIOD} positions. Sine and cosine together "
        "take "
        f"{count['sine + cosine'][PERIOD]}, and on one position more still {count['sine + cosine'][PERIOD + 1]}: exactly one "
        "period. "
        f"The ladder of {WIDTH // 2} frequencies distinguishes {count['ladder'][many]} of {many} positions. The best linear map "
        "from position i "
        f"to i + {STEPS} leaves {fmt(sines)} with sines only and {fmt(both)} with sine and cosine."
    )
    notes = [
        f"Positions i and 18 − i share a sine: their largest difference is {fmt(numbers['i and 18 - i'])}.",
        f"All sines first or sine and cosine side by side: the columns are permuted and differ by "
        f"{fmt(numbers['order of columns'])} otherwise.",
        f"Of the ladder the two closest rows among {many} are {fmt(numbers['closest rows of the ladder'])} apart, of length "
        f"{fmt((WIDTH / 2) ** 0.5)} each. Rows closer than {SAME} count as one.",
        f"The map is the least-squares one on {FITTED} positions, width {WIDTH}; the error is relative. "
        "A learned table and the index collide nowhere.",
    ]
    first = [float(i) for i in range(PERIOD + 1)]
    waves = [Curve(f"feature {j}", first, encodings["sine + cosine"][: PERIOD + 1, j].tolist(), marked=True) for j in (0, 1)]
    rows: list[list[Cell]] = [[name, encodings[name].shape[1], *c.values()] for name, c in count.items()]
    return StudyResult(
        "One sine collides, sine and cosine distinguish a period", answer, numbers,
        [Panel("different rows among the first N positions", "N", "different rows", curves),
         Panel(f"sine and cosine of period {PERIOD}", "position", "", waves)],
        ResultTable(["encoding", "features", *(f"of {n} positions" for n in (PERIOD, PERIOD + 1, 4 * PERIOD, many))], rows), notes,
        data="the encodings themselves; nothing is random but the learned table",
    )  # fmt: skip


def different(rows: Tensor) -> int:
    """How many different rows [N, D] has, rounded to SAME (0, 1/2 and 1 lie on no border of that rounding)."""
    return len(torch.unique((rows / SAME).round(), dim=0))


def closest(rows: Tensor) -> float:
    """The smallest distance between two rows of [N, D], from neighbours and in blocks."""
    best = float("inf")
    for start in range(0, len(rows), 1000):
        block = torch.cdist(rows[start : start + 1000], rows, compute_mode="donot_use_mm_for_euclid_dist")
        block[torch.arange(len(block)), torch.arange(start, start + len(block))] = float("inf")
        best = min(best, block.min().item())
    return best


def _positions(many: int) -> Tensor:
    return torch.arange(many, dtype=torch.float64)[:, None]


def _encode(scheme: Added, width: int, many: int) -> Tensor:
    return scheme.sized(width, 1, width).double().encode(_positions(many), width).detach()


STUDY = Study("collide", "Which encodings give two positions the same vector?", "Vaswani 2017, section 3.5", measure)
