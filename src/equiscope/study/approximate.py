"""What cheaper attention costs in truth: the error of each approximate kind against exact attention on the same numbers.

One idea: queries, keys and values stay, only the way from them to the mix changes; so the difference is the kind's own.
Untrained weights: a model that is trained with a kind learns to live with it, so this is not a verdict on quality.
Sources: Katharopoulos 2020 (linear), Wang 2020 (Linformer), Xiong 2021 (Nystrom), Child 2019 (windows, dilation).
"""

from functools import partial
from typing import TypeVar

import torch

from equiscope.attention import Blocks, Dilated, LinearAttention, Linformer, Mask, MultiHeadAttention, Nystrom, Window
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult, fmt, time_interleaved, timing_curve
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

WIDTH, HEADS = 64, 4
A = TypeVar("A", bound=MultiHeadAttention)


def measure(quick: bool, each: Each) -> StudyResult:
    """A random text of N tokens; budgets are keys (or mixed rows, or landmarks) that each query attends to."""
    length = 64 if quick else 256
    tokens = Tokens.of(torch.randn(length, WIDTH, dtype=torch.float64))
    budgets = [b for b in (4, 8, 16, 32, 64, 128, 256) if b <= length]
    seed = int(torch.randint(2**31, ()))
    kinds = {
        "sliding window": lambda b: _masked(Window(max(b // 2, 1)), tokens, seed),
        "blocks": lambda b: _masked(Blocks(b), tokens, seed),
        "dilated": lambda b: _masked(Dilated(max(length // b, 1)), tokens, seed),
        "Linformer": lambda b: _own(Linformer(WIDTH, HEADS, max_length=length, rank=b), tokens, seed),
        "Nystrom": lambda b: _own(Nystrom(WIDTH, HEADS, landmarks=b), tokens, seed),
    }
    errors = {name: [kind(b) for b in budgets] for name, kind in each(list(kinds.items()), "kinds")}
    linear = _own(LinearAttention(WIDTH, HEADS), tokens, seed)
    lengths = [64, 128] if quick else [128, 256, 512, 1024, 2048, 4096]
    times = {n: _times(n, 3 if quick else 7) for n in each(lengths, "lengths")}
    middle = budgets.index(length // 4)
    numbers: dict[str, float | None] = {f"{name}, N/4": by_budget[middle] for name, by_budget in errors.items()}
    numbers |= {"linear": linear, "Nystrom, N": errors["Nystrom"][-1], "dilated, N": errors["dilated"][-1]}
    best = min(errors, key=lambda name: errors[name][middle])
    answer = (
        f"With a quarter of {length} keys, untrained: "
        + ", ".join(f"{name} is off by {fmt(by_budget[middle])}" for name, by_budget in errors.items())
        + f" of the exact output's size; the feature map elu + 1 by {fmt(linear)} at any budget. The closest is {best}."
    )
    notes = [
        "All are measured on the same queries, keys and values, against softmax over all keys, with random weights.",
        f"Dilation with a step of 1 is exact ({fmt(errors['dilated'][-1])}); Nystrom with a landmark for every token is exact "
        f"up to its pseudo-inverse ({fmt(errors['Nystrom'][-1])}). Linformer mixes at random here, so more rows help it slowly.",
        "Windows, blocks and dilation are masks: they save time with kernels that skip masked blocks (FlexAttention on a "
        "GPU); on a CPU every pair is computed, so no time of theirs is drawn. Times: forward, float32, width "
        f"{WIDTH}, budgets of 32, one thread; the band spans the middle half.",
        f"At {lengths[-1]} tokens exact attention takes {fmt(times[lengths[-1]]['exact'][0])} ms, linear attention "
        f"{fmt(times[lengths[-1]]['linear'][0])}, Linformer {fmt(times[lengths[-1]]['Linformer'][0])}, Nystrom "
        f"{fmt(times[lengths[-1]]['Nystrom'][0])}.",
        "Multi-head, grouped, chunked and fused attention are exact and stand in the tests, not here.",
    ]
    x = [float(n) for n in lengths]
    seen = {name: [e if e > 1e-9 else None for e in by_budget] for name, by_budget in errors.items()}  # exact: not on a log scale
    lines = [Curve(name, [float(b) for b in budgets], by_budget, marked=True) for name, by_budget in seen.items()]
    lines.append(Curve("linear (elu + 1)", [float(b) for b in budgets], [linear] * len(budgets)))
    rows: list[list[Cell]] = [[b, *(by_budget[i] for by_budget in errors.values()), linear] for i, b in enumerate(budgets)]
    return StudyResult(
        "What cheaper attention leaves out", answer, numbers,
        [Panel("error against exact attention", "keys that a query attends to", "relative error", lines, log="xy"),
         Panel("milliseconds", "N", "", [timing_curve(name, x, [t[name] for t in times.values()]) for name in times[lengths[0]]],
               log="xy")],
        ResultTable(["budget", *errors, "linear"], rows), notes,
    )  # fmt: skip


def _times(n: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    tokens = Tokens.of(torch.randn(1, n, WIDTH))
    kinds: dict[str, MultiHeadAttention] = {
        "exact": MultiHeadAttention(WIDTH, HEADS), "linear": LinearAttention(WIDTH, HEADS),
        "Linformer": Linformer(WIDTH, HEADS, max_length=n, rank=32), "Nystrom": Nystrom(WIDTH, HEADS, landmarks=32),
    }  # fmt: skip
    return time_interleaved({name: partial(kind, tokens) for name, kind in kinds.items()}, rounds)


def _own(attention: LinearAttention | Linformer | Nystrom, tokens: Tokens, seed: int) -> float:
    return _same(attention, seed).approximation_error(tokens)


def _masked(mask: Mask, tokens: Tokens, seed: int) -> float:
    few, all_ = (_same(MultiHeadAttention(WIDTH, HEADS, mask=m, output=False), seed) for m in (mask, None))
    with torch.no_grad():
        return relative_error(few(tokens), all_(tokens))


def _same(attention: A, seed: int) -> A:
    """With the same projections, whatever the kind."""
    generator = torch.Generator().manual_seed(seed)
    attention = attention.double()
    with torch.no_grad():
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj):
            size = layer.in_features, layer.out_features
            layer.weight.copy_(torch.randn(size, generator=generator, dtype=torch.float64).mT / WIDTH**0.5)
    return attention


STUDY = Study("approximate", "What does cheaper attention leave out?", "Katharopoulos 2020; Wang 2020; Xiong 2021", measure)
