"""How the similarity of two positions falls with their distance.

One idea: the product of two encodings, or of one vector rotated by two positions, or the weight under a bias alone.
Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, section 3.4.3; Press et al. 2022, section 3.
"""

import torch
from torch import Tensor

from equiscope.positions import Added, Alibi, Kerple, Learned, Pope, Position, Rope, Sinusoidal, XPos
from equiscope.study.base import Curve, Each, Panel, ResultTable, Study, StudyResult, fmt, mean_of
from equiscope.symmetry import relative_error

WIDTH, HEADS = 64, 8


def measure(quick: bool, each: Each) -> StudyResult:
    """Distances 0 .. 256, width 64: encodings as cosines, rotated vectors as cosines, biases as weights."""
    length, samples = (64, 50) if quick else (256, 500)
    at = torch.arange(length + 1, dtype=torch.float64)[:, None]
    vectors = torch.randn(samples, 1, WIDTH, dtype=torch.float64)
    added: dict[str, Added] = {
        "sinusoidal": Sinusoidal(), "sinusoidal, base 100": Sinusoidal(base=100), "learned, untrained": Learned(length + 1),
    }  # fmt: skip
    turned = {
        "rope": Rope(), "rope, base 500 000": Rope(base=500_000), "xpos": XPos(), "pope": Pope().sized(WIDTH, 1, WIDTH).double(),
    }  # fmt: skip
    curves = {name: _by_distance(_cosines(scheme, at)) for name, scheme in each(list(added.items()), "added")}
    alike = {name: _rotated(scheme, vectors, at) for name, scheme in each(list(turned.items()), "turned")}
    curves |= {name: similarities.mean(0) for name, similarities in alike.items()}
    heads = (0, HEADS // 2 - 1, HEADS - 1)
    curves |= {f"alibi, head {h + 1} of {HEADS}": _left(Alibi(), at)[h] for h in heads}
    curves["kerple, untrained"] = _left(Kerple(), at).mean(0)
    same = relative_error(curves["sinusoidal"], _bare(Rope(), at))
    numbers: dict[str, float | None] = {f"half, {name}": half(c) for name, c in curves.items()} | {
        "rope, mean of the far half": curves["rope"][length // 2 :].mean().item(),
        "rope, spread": mean_of(alike["rope"].std(0)[1:].tolist()), "sinusoids against rope": same,
    }  # fmt: skip
    answer = (
        f"Similarity first falls below one half after {_steps(numbers, 'sinusoidal')} for sinusoids and {_steps(numbers, 'rope')} "
        f"for a vector rotated by RoPE (width {WIDTH}), and ALiBi's steepest and flattest head halve a weight after "
        f"{_steps(numbers, f'alibi, head 1 of {HEADS}')} and {_steps(numbers, f'alibi, head {HEADS} of {HEADS}')}."
    )
    notes = [
        f"ALiBi falls for ever. Sinusoids and RoPE level off: low frequencies change little, and RoPE's mean over distances "
        f"{length // 2}..{length} is {fmt(numbers['rope, mean of the far half'])}.",
        f"Sinusoids and RoPE of one base have the same frequencies: a vector with equal pairs, rotated, gives the curve of the "
        f"sinusoids up to {fmt(same)}. Single random vectors scatter around it by {fmt(numbers['rope, spread'])}.",
        "A learned table starts without any decay: it has to learn the distance. So does T5's, which is not drawn.",
        f"xPos shrinks the product by distance, to {fmt(curves['xpos'][-1].item())} of itself at {length}; PoPE rotates magnitudes "
        f"that are never negative, and keeps {fmt(curves['pope'][-1].item())}. KERPLE, untrained, is below one half after "
        f"{_steps(numbers, 'kerple, untrained')}.",
    ]
    x = [float(d) for d in range(length + 1)]
    panels = [("cosine of two encodings", list(added)), ("cosine of one vector, rotated twice", list(turned)),
              ("weight left by the bias", [n for n in curves if n.startswith(("alibi", "kerple"))])]  # fmt: skip
    bands = {"rope": alike["rope"]}  # one is enough to see how vectors scatter
    far = [d for d in (1, 4, 16, 64, 256) if d <= length]
    return StudyResult(
        "Rotations level off, a linear bias does not", answer, numbers,
        [Panel(title, "distance", "similarity", [_curve(n, x, curves[n], bands.get(n)) for n in names]) for title, names in panels],
        ResultTable(["scheme", *(f"at {d}" for d in far), "below one half at"],
              [[n, *(c[d].item() for d in far), half(c)] for n, c in curves.items()]), notes,
    )  # fmt: skip


def half(curve: Tensor) -> int | None:
    """The first distance at which the similarity is below one half; None where it never is."""
    below = (curve < 0.5).nonzero()
    return int(below[0]) if len(below) else None


def _steps(numbers: dict[str, float | None], name: str) -> str:
    distance = numbers[f"half, {name}"]
    return "no distance measured" if distance is None else "1 step" if distance == 1 else f"{distance} steps"


def _cosines(scheme: Added, at: Tensor) -> Tensor:
    p = scheme.sized(WIDTH, 1, WIDTH).double().encode(at, WIDTH).detach()
    p = p / p.norm(dim=-1, keepdim=True)
    return p @ p.T


def _by_distance(similar: Tensor) -> Tensor:
    """The mean of each diagonal: [N, N] to [N]."""
    return torch.stack([similar.diagonal(d).mean() for d in range(len(similar))])


def _rotated(scheme: Position, vectors: Tensor, at: Tensor) -> Tensor:
    """[S, N]: each vector as a query at every position with itself as a key at position 0, relative to the product there."""
    with torch.no_grad():
        queries, keys = scheme.rotate(vectors.expand(-1, len(at), -1), at, "query"), scheme.rotate(vectors, at[:1], "key")
    product = (queries * keys).sum(-1)
    return product / product[:, :1]


def _left(scheme: Position, at: Tensor) -> Tensor:
    """[H, N]: the weight of a key at each distance under a bias alone."""
    sized = scheme.sized(WIDTH, HEADS, WIDTH // HEADS).double()
    bias = sized.score_bias(torch.arange(HEADS)[:, None, None], (at[:1],), (-at.mT,))
    assert bias is not None
    return bias.squeeze(-2).exp().detach()


def _bare(scheme: Rope, at: Tensor) -> Tensor:
    """The cosine for a vector whose pairs all have one size."""
    return _rotated(scheme, torch.ones(1, 1, WIDTH, dtype=torch.float64), at)[0]


def _curve(name: str, x: list[float], y: Tensor, samples: Tensor | None) -> Curve:
    if samples is None:
        return Curve(name, x, y.tolist())
    low, high = samples.quantile(torch.tensor([0.1, 0.9], dtype=samples.dtype), dim=0)
    return Curve(f"{name} (mean; 80 % of vectors)", x, y.tolist(), low=low.tolist(), high=high.tolist())


STUDY = Study("decay", "How does similarity fall with distance?", "Su 2021, section 3.4.3; Press 2022, section 3", measure)
