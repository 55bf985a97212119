"""Attention as a soft dictionary look-up, and the properties of its matrices.

One idea: multiply the scores, and the mix of values becomes the one value whose key fits best.
Source: Bahdanau et al. 2015; Vaswani et al. 2017, section 3.2; on rank, Bhojanapalli et al. 2020.
"""

import torch
from torch import Tensor

from equiscope import functional
from equiscope.attention import eager_attention, scaled_dot
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, fmt

QUERIES, KEYS, WIDTH, VALUES = 32, 24, 4, 40  # more value features than keys: the span of the values is a true subspace


def measure(quick: bool, each: Each) -> StudyResult:
    """Queries of width 4 look up values of width 40; scores times 1 .. 1000."""
    q, k, v = (torch.randn(n, w, dtype=torch.float64) for n, w in ((QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, VALUES)))
    factors = [1, 10, 100, 1000] if quick else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    rows = {f: _row(q * f, k, v) for f in each(factors, "factors")}
    scores = scaled_dot(q, k)
    weights = functional.softmax(scores)
    chance = torch.randn(QUERIES, VALUES, dtype=torch.float64)
    ranks = [int(torch.linalg.matrix_rank(m)) for m in (scores, weights)]
    numbers = {
        "largest weight, x1": rows[1]["largest weight"], "largest weight, x100": rows[100]["largest weight"],
        "distance to the best value, x1": rows[1]["distance"], "distance to the best value, x100": rows[100]["distance"],
        "row sums": max(r["row sums"] for r in rows.values()), "outside the span": max(r["outside"] for r in rows.values()),
        "rank of the scores": ranks[0], "rank of the weights": ranks[1], "K": WIDTH,
    }  # fmt: skip
    answer = (
        f"Multiply the scores by 1, 10, 100: the largest weight of a row is {fmt(rows[1]['largest weight'])}, "
        f"{fmt(rows[10]['largest weight'])}, {fmt(rows[100]['largest weight'])} on average, and the output is off the value of "
        f"the best key by {fmt(rows[1]['distance'])}, {fmt(rows[10]['distance'])}, {fmt(rows[100]['distance'])} of its size. "
        f"The scores have rank {ranks[0]} (K = {WIDTH}), their softmax rank {ranks[1]}."
    )
    notes = [
        f"Rows sum to 1 up to {fmt(numbers['row sums'])}; their weights lie between "
        f"{fmt(min(r['smallest'] for r in rows.values()))} and {fmt(max(r['largest'] for r in rows.values()))}.",
        f"Each output is a convex mix of the {KEYS} values: outside their span lies {fmt(numbers['outside the span'])} of it, "
        f"which is rounding; of a random row of width {VALUES}, {fmt(_outside(chance, v))}.",
        f"Values are {VALUES} wide, keys {WIDTH}: the two need not be equal.",
    ]
    x = [float(f) for f in factors]
    singular = [torch.linalg.svdvals(m) for m in (scores, weights)]
    spectra = [Curve(n, [float(i + 1) for i in range(KEYS)], (s / s[0]).clamp_min(1e-17).tolist(), marked=True)
               for n, s in zip(("scores QKᵀ", "softmax"), singular, strict=True)]  # fmt: skip
    names = {"largest weight": "largest weight", "distance": "distance to the value of the best key"}
    hard = [Curve(name, x, [r[c] for r in rows.values()]) for c, name in names.items()]
    table: list[list[Cell]] = [
        [f, *(rows[f][c] for c in ("largest weight", "entropy", "distance", "row sums", "outside"))] for f in factors
    ]
    return StudyResult(
        "Large scores make a hard look-up", answer, numbers,
        [Panel("scores times a factor", "factor", "", hard, log="x"),
         Panel("singular values, relative", "number", "", spectra, log="y")],
        ResultTable(["scores ×", "largest weight", "entropy", "off the best value", "|row sum − 1|", "outside the span"], table),
        notes,
    )  # fmt: skip


def _row(q: Tensor, k: Tensor, v: Tensor) -> dict[str, float]:
    weights, out = functional.softmax(scaled_dot(q, k)), eager_attention(q, k, v)
    best = v[weights.argmax(-1)]
    return {
        "largest weight": weights.amax(-1).mean().item(), "entropy": torch.special.entr(weights).sum(-1).mean().item(),
        "distance": ((out - best).norm(dim=-1) / best.norm(dim=-1)).mean().item(),
        "smallest": weights.min().item(), "largest": weights.max().item(),
        "row sums": (weights.sum(-1) - 1).abs().max().item(), "outside": _outside(out, v),
    }  # fmt: skip


def _outside(rows: Tensor, v: Tensor) -> float:
    """The share of the rows that the span of the values cannot reach, relative to their size."""
    basis = torch.linalg.qr(v.T).Q
    return ((rows - rows @ basis @ basis.T).norm() / rows.norm()).item()


STUDY = Study("lookup", "What does attention return?", "Vaswani 2017, section 3.2", measure)
