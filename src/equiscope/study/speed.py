"""Speed: the time of the two parts of a layer on this machine, against their multiply-adds.

One idea: if every multiply-add took the same time, all parts would lie on one line. Small ones lie above it, because of the
overhead of a call; attention does, because of its softmax and its score tables.
"""

from collections.abc import Callable

import torch

from equiscope.attention import MultiHeadAttention
from equiscope.blocks import FeedForwardNetwork
from equiscope.record.cost import Rate, Speeds, TimedKind, Timing
from equiscope.study.base import Each, no_progress, seeded, time_interleaved
from equiscope.study.cost import count
from equiscope.tokens import Tokens
from equiscope.training.folder import processor

PARTS: tuple[TimedKind, ...] = ("attention", "step by step", "feed-forward")
HEAD = 32  # features of a head, where heads are not what differs
SIZES = [(16, 64), (64, 64), (256, 64), (1024, 64), (2048, 64), (16, 256), (64, 256), (256, 256), (1024, 256), (16, 768), (64, 768),
         (256, 768)]  # fmt: skip
HEADS = [(256, 256, h) for h in (1, 2, 4, 16, 32, 64)]
QUICK = [(16, 32), (64, 32), (64, 64)], [(64, 64, 1)]


def speeds(quick: bool = False, seed: int = 0, each: Each = no_progress) -> Speeds:
    """Time attention (torch's fused kernel, and step by step) and the feed-forward, forward, in float32, on one thread.

    quick  three small sizes, three rounds: to try it
    each   wraps the sizes, so that a terminal can show how far they are
    """
    sizes, others = QUICK if quick else (SIZES, HEADS)
    rounds = 3 if quick else 5
    plan = [(n, d, max(1, d // HEAD), True) for n, d in sizes] + [(*one, False) for one in others]
    with seeded(seed):
        timed = [one for n, d, h, fitted in each(plan, "timing") for one in _timed(n, d, h, fitted, rounds)]
        threads = torch.get_num_threads()
    rates = [fitted for part in PARTS if (fitted := rate(part, timed))]
    return Speeds(
        timings=timed, rates=rates, rounds=rounds, dtype="float32", threads=threads, cpu=processor(), torch=str(torch.__version__)
    )  # fmt: skip


def _timed(n: int, d: int, heads: int, fitted: bool, rounds: int) -> list[Timing]:
    forward, tokens = FeedForwardNetwork(d, 4 * d), Tokens.of(torch.randn(1, n, d))
    fused, eager = (MultiHeadAttention(d, heads, backend=backend) for backend in ("sdpa", "eager"))
    runs: dict[str, Callable[[], object]] = {"attention": lambda: fused(tokens), "step by step": lambda: eager(tokens)}
    if fitted:
        runs["feed-forward"] = lambda: forward(tokens.x)
    times, attending, alone = time_interleaved(runs, rounds), count(lambda: eager(tokens)), count(lambda: forward(tokens.x))
    return [
        Timing(
            part=part, n=n, d=d, heads=0 if part == "feed-forward" else heads,
            multiply_adds=alone if part == "feed-forward" else attending,
            median=times[part][0], low=times[part][1], high=times[part][2], fitted=fitted,
        )
        for part in PARTS if part in times
    ]  # fmt: skip


def rate(part: TimedKind, timed: list[Timing]) -> Rate | None:
    """Fit overhead + multiply-adds / rate with least squared relative error; None if no rate fits (noise, or one size)."""
    known = [(one.multiply_adds, one.median) for one in timed if one.part == part and one.fitted and one.median > 0]
    one, work, square = (sum(w**i / t**2 for w, t in known) for i in range(3))
    first, second = sum(1 / t for _, t in known), sum(w / t for w, t in known)
    least = one * square - work * work
    if least <= 1e-9 * one * square:
        return None
    before, slope = (first * square - second * work) / least, (second * one - first * work) / least
    if before < 0:
        before, slope = 0.0, second / square
    return Rate(part=part, overhead=before, rate=1 / slope) if slope > 0 else None
