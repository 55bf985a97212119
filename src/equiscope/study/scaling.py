"""Why scores are divided by sqrt(K): without it softmax saturates, and most rows stop learning.

One idea: for unit-normal q and k the product q·k is a sum of K terms of variance 1, so its variance is K.
Source: Vaswani et al. 2017, section 3.2.1, footnote 4.
"""

import math

import torch
from torch import Tensor

from equiscope import functional
from equiscope.attention import scaled_dot
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, fmt

KEYS = 16
KINDS = ("not scaled", "scaled")


def measure(quick: bool, each: Each) -> StudyResult:
    """Rows of 16 scores at widths 4 .. 1024."""
    widths = [4, 32, 1024] if quick else [4, 8, 16, 32, 64, 128, 256, 512, 1024]
    rows = 1000 if quick else 8000
    measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for width in each(widths, "widths"):
        scores = torch.cat([_scores(chunk, width) for chunk in torch.ones(rows).split(1000)])
        for kind, s in zip(KINDS, (scores * math.sqrt(width), scores), strict=True):
            measured[kind].append(_row(s))
    raw, scaled = measured["not scaled"], measured["scaled"]
    first, last, wide = raw[0], raw[-1], len(widths) // 2
    numbers = {
        "variance / K, not scaled": raw[-1]["variance"] / widths[-1], "variance, scaled": scaled[-1]["variance"],
        "median gradient, first": first["median gradient"], "median gradient, last": last["median gradient"],
        "mean gradient, first": first["mean gradient"], "mean gradient, last": last["mean gradient"],
        "median gradient, scaled, last": scaled[-1]["median gradient"], "overflows, not scaled": last["overflows"],
        "overflows, maximum subtracted": last["overflows, subtracted"],
        "power of the mean": _power(widths[wide:], [r["mean gradient"] for r in raw[wide:]]),
    }  # fmt: skip
    answer = (
        f"The variance of q·k is {fmt(numbers['variance / K, not scaled'])} K, of the scaled score "
        f"{fmt(numbers['variance, scaled'])}. Without the scale the median gradient of softmax falls from "
        f"{fmt(first['median gradient'])} at K = {widths[0]} to {fmt(last['median gradient'])} at K = {widths[-1]}; with it "
        f"{fmt(scaled[-1]['median gradient'])} remains."
    )
    columns = ["variance", "median entropy", "mean entropy", "median gradient", "mean gradient"]
    table: list[list[Cell]] = [[k, kind, *(measured[kind][i][c] for c in columns)] for kind in KINDS for i, k in enumerate(widths)]
    notes = [
        f"The mean gradient falls only from {fmt(first['mean gradient'])} to {fmt(last['mean gradient'])}: rows in which two "
        f"scores happen to be close still learn. From K = {widths[wide]} on it falls as K^{fmt(numbers['power of the mean'])}; "
        "1/√K would be K^-0.5.",
        f"Saturation is what the scale prevents. Overflow is prevented by subtracting the row's maximum: without that, "
        f"{fmt(100 * last['overflows'])} % of the unscaled rows at K = {widths[-1]} are not finite in float32; "
        f"with it, {fmt(100 * last['overflows, subtracted'])} %.",
        f"Gradient: the Frobenius norm of ∂softmax/∂scores for one query and {KEYS} keys. Entropy in nats, at most ln {KEYS} = "
        f"{fmt(math.log(KEYS))}.",
    ]
    return StudyResult(
        "Scores grow with K, and softmax saturates", answer, numbers,
        [_panel("variance of the scores", "variance", widths, measured, [("K", [float(k) for k in widths])]),
         _panel("entropy of softmax (median)", "median entropy", widths, measured, [], "x"),
         _panel("gradient of softmax", "median gradient", widths, measured, [
             ("mean, not scaled", [r["mean gradient"] for r in raw])])],
        ResultTable(["K", "scores", *columns], table), notes,
    )  # fmt: skip


def _scores(chunk: Tensor, width: int) -> Tensor:
    q = torch.randn(len(chunk), 1, width, dtype=torch.float64)
    return scaled_dot(q, torch.randn(len(chunk), KEYS, width, dtype=torch.float64)).squeeze(-2)


def _row(scores: Tensor) -> dict[str, float]:
    weights = functional.softmax(scores)
    entropy = torch.special.entr(weights).sum(-1)
    gradient = (torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]).flatten(1).norm(dim=1)
    naive, careful = scores.float().exp(), functional.softmax(scores.float())
    return {
        "variance": scores.var().item(), "median entropy": entropy.median().item(), "mean entropy": entropy.mean().item(),
        "median gradient": gradient.median().item(), "mean gradient": gradient.mean().item(),
        "overflows": 1 - (naive / naive.sum(-1, keepdim=True)).isfinite().all(-1).double().mean().item(),
        "overflows, subtracted": 1 - careful.isfinite().all(-1).double().mean().item(),
    }  # fmt: skip


def _power(x: list[int], y: list[float]) -> float:
    """The slope of log y over log x, by least squares."""
    log_x, log_y = (torch.tensor(v, dtype=torch.float64).log() for v in (x, y))
    return ((log_x - log_x.mean()) @ (log_y - log_y.mean()) / (log_x - log_x.mean()).square().sum()).item()


def _panel(
    title: str, column: str, widths: list[int], rows_by_kind: dict[str, list[dict[str, float]]],
    formulas: list[tuple[str, list[float]]], log: str = "xy",
) -> Panel:  # fmt: skip
    x = [float(w) for w in widths]
    lines = [Curve(kind, x, [r[column] for r in rows]) for kind, rows in rows_by_kind.items()]
    return Panel(title, "K", column.split()[-1], lines + [Curve(n, x, [*y], dashed=True) for n, y in formulas], log=log)


STUDY = Study("scaling", "Why are scores divided by √K?", "Vaswani 2017, section 3.2.1", measure)
