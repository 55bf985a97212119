"""What a block costs: multiply-adds as formulas of N and D, counted, and timed.

One idea: projections and feed-forward grow with N, the two products of attention with N squared.
Torch's counter says 2 for one multiply-add and 0 for softmax, norms and activations; so do we.
Source: Vaswani et al. 2017, table 1; Kaplan et al. 2020, section 2.1.
"""

from bisect import bisect_left
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from equiscope.attention import Causal, Mask, MultiHeadAttention, eager_attention, scaled_dot
from equiscope.attention.multihead import Backend
from equiscope.blocks import FeedForwardNetwork
from equiscope.positions import NoPosition
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, time_interleaved, timing_curve
from equiscope.tokens import Tokens

FORMULAS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "projections": ("4ND²", lambda n, d: 4 * n * d * d), "QKᵀ": ("N²D", lambda n, d: n * n * d),
    "AV": ("N²D", lambda n, d: n * n * d), "feed-forward": ("8ND²", lambda n, d: 8 * n * d * d),
}  # fmt: skip


def measure(quick: bool, each: Each) -> StudyResult:
    """Count at several N and D, find the crossings by counting, time at D = 64."""
    sizes = [(16, 16), (64, 16), (48, 32)] if quick else [(16, 16), (64, 16), (48, 32), (128, 64), (512, 64), (1024, 128)]
    counted = {(n, d): multiply_adds(n, d) for n, d in each(sizes, "sizes")}
    wrong = [s for s, c in counted.items() if any(c[part] != formula(*s) for part, (_, formula) in FORMULAS.items())]
    with_projections, alone = crossing(16, True), crossing(16, False)
    eager, causal, fused = _attention(64, 16), _attention(64, 16, mask=Causal()), _attention(64, 16, backend="sdpa")
    mapped = FORMULAS["projections"][1](64, 16)
    numbers: dict[str, float | None] = {
        "sizes counted": len(sizes), "sizes that differ from the formulas": len(wrong),
        "attention equals the feed-forward at N / D": with_projections / 16, "its products alone at N / D": alone / 16,
        "eager": eager, "causal": causal, "sdpa": fused, "projections of those": mapped,
    }  # fmt: skip
    formulas = "; ".join(f"{part} {text}" for part, (text, _) in FORMULAS.items())
    answer = (
        f"Multiply-adds of a block: {formulas}. They equal torch's counter at {len(sizes) - len(wrong)} of {len(sizes)} sizes. "
        f"By counting, attention with its projections equals the feed-forward at N = {with_projections / 16:g} D, its two products "
        f"alone at N = {alone / 16:g} D, and passes it beyond."
    )
    notes = [
        "Torch's FlopCounterMode counts 2 for one multiply-add (halved here) and 0 for softmax, norm, bias and activation. "
        "Counted on the eager path, 4 heads, inner width 4 D.",
        f"At N = 64, D = 16 it counts {eager} for attention, under a causal mask {causal} (hidden pairs are counted in "
        f"full), and on the path of torch's fused kernel on a CPU {fused}: its projections are {mapped}.",
        "Softmax takes one exponential for every pair and head, H·N² of them, which the counter leaves out.",
        "Times: forward, float32, one thread, medians of calls made turn by turn; the band spans the middle half.",
    ]  # fmt: skip
    lengths = [64, 256] if quick else [64, 128, 256, 512, 1024, 2048]
    times = {n: _times(n, 64, 3 if quick else 9) for n in each(lengths, "lengths")}
    widths = [32, 64] if quick else [32, 64, 128, 256, 512]
    wider = {d: _times(256, d, 3 if quick else 9) for d in each(widths, "widths")}
    x = [float(n) for n in lengths]
    rows: list[list[Cell]] = [[n, d, *counted[n, d].values()] for n, d in sizes]
    counts = [Curve(f"{part} {text}", x, [float(formula(n, 64)) for n in lengths]) for part, (text, formula) in FORMULAS.items()]
    return StudyResult(
        "Attention grows with N squared and overtakes the feed-forward", answer, numbers,
        [Panel("multiply-adds at D = 64", "N", "", counts, log="xy"),
         Panel("milliseconds at D = 64", "N", "",
               [timing_curve(part, x, [t[part] for t in times.values()]) for part in times[lengths[0]]],
               log="xy"),
         Panel("milliseconds at N = 256", "D", "",
               [timing_curve(part, [float(d) for d in widths], [t[part] for t in wider.values()]) for part in wider[widths[0]]],
               log="xy")],
        ResultTable(["N", "D", *FORMULAS], rows), notes,
    )  # fmt: skip


def multiply_adds(n: int, d: int) -> dict[str, int]:
    """Of each part of a block with N words of width D, counted by torch while it runs."""
    attention, forward, tokens = (
        MultiHeadAttention(d, heads=4, backend="eager"),
        FeedForwardNetwork(d, 4 * d),
        Tokens.of(torch.randn(n, d)),
    )
    q, k, v = attention.project(tokens, tokens, NoPosition())
    products, both = count(lambda: scaled_dot(q, k)), count(lambda: eager_attention(q, k, v))
    whole = count(lambda: attention(tokens))
    return dict(zip(FORMULAS, (whole - both, products, both - products, count(lambda: forward(tokens.x))), strict=True))


def crossing(d: int, projections: bool) -> int:
    """The N at which attention costs exactly as much as the feed-forward, found by counting and halving."""

    def lead(n: int) -> int:
        parts = multiply_adds(n, d)
        return parts["QKᵀ"] + parts["AV"] + projections * parts["projections"] - parts["feed-forward"]

    length = bisect_left(range(1, 8 * d), 0, key=lead) + 1
    if lead(length):
        raise AssertionError("attention and feed-forward are never equal")
    return length


def count(call: Callable[[], Tensor]) -> int:
    """Multiply-adds of one call: half of what torch's counter says."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        call()
    return counter.get_total_flops() // 2


def _attention(n: int, d: int, mask: Mask | None = None, backend: Backend = "eager") -> int:
    attention = MultiHeadAttention(d, heads=4, mask=mask, backend=backend)
    tokens = Tokens.of(torch.randn(1, n, d))  # a batch: without that axis torch falls back to plain products
    return count(lambda: attention(tokens))


def _times(n: int, d: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    attention, forward, tokens = (
        MultiHeadAttention(d, heads=4, backend="eager"),
        FeedForwardNetwork(d, 4 * d),
        Tokens.of(torch.randn(n, d)),
    )
    q, k, v = attention.project(tokens, tokens, NoPosition())
    rivals = {
        "attention": lambda: attention(tokens),
        "attention without projections": lambda: eager_attention(q, k, v),
        "feed-forward": lambda: forward(tokens.x),
    }
    return time_interleaved(rivals, rounds)


STUDY = Study(
    "cost",
    "What does a block cost, and where does attention pass the feed-forward?",
    "Vaswani 2017, table 1",
    measure,
)
