"""Adding a position does not hide the word: in many dimensions random vectors are nearly orthogonal, and a linear map reads both.

One idea: random directions have a mean |cos| of √(2/(πD)). Sinusoids are not random, so real words and positions are measured too.
The table of words is fitted in closed form (positive pointwise mutual information, then singular vectors), so that it is the
same everywhere. Source: Levy & Goldberg 2014, "Neural Word Embedding as Implicit Matrix Factorization".
"""

import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from equiscope.errors import EquiscopeError
from equiscope.positions import SCHEMES, Added, Concatenated, Position, Sinusoidal
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, fmt

WIDTH, POSITIONS, NEAREST, WINDOW, PROBED = 64, 100, 5, 4, 50
FOLDERS = (os.environ.get("EQUISCOPE_DATA"), "../shared/data", "shared/data")


def measure(quick: bool, each: Each) -> StudyResult:
    """Angles for D = 2 .. 1024; a table of 1000 words of width 64; probes for D = 2 .. 128."""
    widths, pairs = ([4, 64, 1024], 2000) if quick else ([2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], 20_000)
    chance = [mean_cosine(*torch.randn(2, pairs, d, dtype=torch.float64)) for d in each(widths, "widths of random vectors")]
    formula = [math.sqrt(2 / (math.pi * d)) for d in widths]
    names, vectors, data = _words(300 if quick else 1000)
    table = _sized(vectors[:, :WIDTH])
    at = torch.arange(POSITIONS, dtype=torch.float64)[:, None]
    positions = Sinusoidal().encode(at, WIDTH)
    first, second = torch.triu_indices(POSITIONS, POSITIONS, 1)
    between = mean_cosine(positions[first], positions[second])
    meeting = mean_cosine(table[:, None], positions[None])
    probe_widths = [8, 64] if quick else [4, 8, 16, 24, 32, 48, 64, 96, 128]
    probes = {d: _probes(_sized(vectors[:PROBED, :d]), Sinusoidal().encode(at[:PROBED], d)) for d in each(probe_widths, "probes")}
    kept, skipped = _preserved(table, 50 if quick else 300)
    numbers = {
        "random at 64": chance[widths.index(64)], "formula at 64": formula[widths.index(64)], "between positions": between,
        "word and position": meeting, "word read at 64": probes[64][0], "position read at 64": probes[64][1],
        "worst ratio to the formula": max(abs(r / f - 1) for r, f in zip(chance[1:], formula[1:], strict=True)),
    } | {f"{what}, {name}": v for name, row in kept.items() for what, v in zip(KEPT, row, strict=True)}  # fmt: skip
    answer = (
        f"At D = 64 random vectors have a mean |cos| of {fmt(chance[widths.index(64)])}; √(2/(πD)) is "
        f"{fmt(formula[widths.index(64)])}. Sinusoids are not random: {fmt(between)} between positions. Between words and "
        "positions it is "
        f"{fmt(meeting)}. From their sum a linear probe reads the word in {fmt(100 * probes[64][0])} % and the position in "
        f"{fmt(100 * probes[64][1])} % of unseen pairs."
    )
    shared = min(row[i] for row in kept.values() for i in (0, 1))
    notes = [
        f"While all words share a position, {fmt(100 * shared)} % of neighbours and analogies stay, under every scheme that adds: "
        "differences of words do not change. With each word at its own position they depend on how large the encoding is.",
        f"Words have length √D = {fmt(WIDTH**0.5)}, a sinusoid √(D/2). Neighbours: the {NEAREST} nearest by distance; analogy: "
        "the word nearest to b − a + c. An untrained learned table is small (0.02 a feature), the index has no bound.",
        f"Probes: least squares (ridge) on 70 % of all {PROBED} × {PROBED} pairs of word and position, tested on the others; "
        "guessing "
        f"gives {fmt(100 / PROBED)} %.",
    ]  # fmt: skip
    if names:
        king = names.index("king") if "king" in names else 0
        near = [names[int(i)] for i in _nearest(table)[king]]
        notes.append(f"In this table the nearest to “{names[king]}” are {', '.join(near)}.")
    if skipped:
        notes.append(f"Left out, since they need more than one coordinate: {', '.join(skipped)}.")
    x, px = [float(d) for d in widths], [float(d) for d in probe_widths]
    rows: list[list[Cell]] = [[name, *row] for name, row in kept.items()]
    return StudyResult(
        "In many dimensions word and position stay readable", answer, numbers,
        [Panel("mean |cos| of random vectors", "D", "", [Curve("measured", x, [*chance], marked=True),
                                                         Curve("√(2/(πD))", x, [*formula], dashed=True)], log="xy"),
         Panel("read from word + position by a linear map", "D", "right, unseen pairs",
               [Curve(n, px, [probes[d][i] for d in probe_widths]) for i, n in enumerate(("the word", "the position"))], log="x")],
        ResultTable(["scheme", *KEPT], rows), notes, data=data,
    )  # fmt: skip


KEPT = (
    "neighbours kept, one position",
    "analogies kept, one position",
    "neighbours kept, own positions",
    "analogies kept, own positions",
)


def mean_cosine(a: Tensor, b: Tensor) -> float:
    """Mean of |cos| between rows, broadcast."""
    return torch.cosine_similarity(a, b, dim=-1).abs().mean().item()


def _preserved(table: Tensor, triples: int) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """The share of neighbours and analogies that each added encoding preserves; names of schemes with several coordinates."""
    triples_ = torch.stack([torch.randperm(len(table))[:3] for _ in range(triples)])
    own, one = torch.randint(POSITIONS, (len(table), 1)).double(), torch.full((len(table), 1), 7.0, dtype=torch.float64)
    near, answers = _nearest(table), _analogies(table, triples_)
    results: dict[str, tuple[float, ...]] = {}
    skipped = []
    for scheme in (s for s in SCHEMES if issubclass(s, (Added, Concatenated))):
        try:
            moved = [_embedded(scheme, table, at) for at in (one, own)]
        except EquiscopeError:
            skipped.append(scheme.name)
            continue
        same = [(_overlap(_nearest(m), near), (_analogies(m, triples_) == answers).double().mean().item()) for m in moved]
        results[scheme.name] = (*same[0], *same[1])
    return results, skipped


def _embedded(scheme: type[Position], table: Tensor, at: Tensor) -> Tensor:
    return scheme().sized(WIDTH, 1, WIDTH).double().embed(table, at).detach()


def _nearest(rows: Tensor) -> Tensor:
    far = torch.cdist(rows, rows).fill_diagonal_(float("inf"))
    return far.topk(NEAREST, largest=False).indices


def _overlap(neighbours: Tensor, wanted: Tensor) -> float:
    return (neighbours[:, :, None] == wanted[:, None, :]).any(-1).double().mean().item()


def _analogies(rows: Tensor, triples: Tensor) -> Tensor:
    """For each (a, b, c) the word nearest to b - a + c, other than these three."""
    a, b, c = (rows[i] for i in triples.T)
    return torch.cdist(b - a + c, rows).scatter(1, triples, float("inf")).argmin(-1)


def _probes(words: Tensor, positions: Tensor) -> tuple[float, float]:
    """Share of unseen pairs whose word, and whose position, a linear map reads from their sum."""
    word, position = (i.flatten() for i in torch.meshgrid(torch.arange(len(words)), torch.arange(len(positions)), indexing="ij"))
    rows = torch.cat([words[word] + positions[position], torch.ones(len(word), 1, dtype=words.dtype)], 1)
    seen = torch.rand(len(word)) < 0.7
    square = rows[seen].T @ rows[seen]
    square += 1e-6 * len(square) * torch.eye(len(square), dtype=rows.dtype)  # slow clocks are nearly constant columns

    def right(target: Tensor) -> float:
        wanted = torch.nn.functional.one_hot(target).to(rows.dtype)
        weights = torch.linalg.solve(square, rows[seen].T @ wanted[seen])
        return ((rows[~seen] @ weights).argmax(-1) == target[~seen]).double().mean().item()

    return right(word), right(position)


def _words(many: int, folders: Sequence[str | None] = FOLDERS) -> tuple[list[str], Tensor, str]:
    """Names and vectors [many, 128] of the most frequent words of tinyshakespeare, or seeded vectors where it is not there."""
    files = [Path(folder) / "tinyshakespeare" / "input.txt" for folder in folders if folder]
    file = next((f for f in files if f.is_file()), None)
    if file is None:
        return [], torch.randn(many, 128, dtype=torch.float64), "a seeded random table (no tinyshakespeare: set EQUISCOPE_DATA)"
    text = re.findall(r"[a-z']+", file.read_text(encoding="utf-8").lower())
    names = [word for word, _ in Counter(text).most_common(many)]
    number = {word: i for i, word in enumerate(names)}
    ids = torch.tensor([number.get(word, many) for word in text])
    together = torch.zeros(many + 1, many + 1, dtype=torch.float64)
    for gap in range(1, WINDOW + 1):
        together += torch.bincount(ids[:-gap] * (many + 1) + ids[gap:], minlength=(many + 1) ** 2).view(many + 1, -1)
    together = together + together.T
    alone = together.sum(1, keepdim=True)
    information = (together * together.sum() / (alone * alone.T)).log().clamp_min(0)[:many, :many]
    u, s, _ = torch.linalg.svd(information)
    vectors = u[:, :128] * s[:128].sqrt()
    vectors = vectors * vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()  # a singular vector has no sign of its own
    return names, vectors - vectors.mean(0), f"{many} most frequent of {len(text)} words of tinyshakespeare, PPMI and SVD"


def _sized(rows: Tensor) -> Tensor:
    """Every word at length √D."""
    return rows / rows.norm(dim=-1, keepdim=True) * math.sqrt(rows.shape[-1])


STUDY = Study(
    "orthogonality", "Does adding a position hide the word?", "Vaswani 2017, section 3.5; the measurements: ours", measure
)
