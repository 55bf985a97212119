"""What a small file keeps of an attention: rounded, with a bound of what that does to its weights.

Of few tokens the weights are fewer than what they are made of, so these are kept, one letter each. Of many, queries and keys are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import torch
from torch import Tensor

from equiscope.program.attended.attended import Attended
from equiscope.record import Array, Numbers, pack
from equiscope.record.rounded import ROUGH, letters, rows

LETTER = 0.55  # bytes that a letter takes when it is packed: 4.4 bits, of weights drawn by chance
CHUNK = 2**22  # pairs at once
NOTHING = 1e-30  # a weight that no rounding is measured on


def compact(one: Attended, most: float) -> Numbers | None:
    """The smallest form that is at most ROUGH off, and smaller than `most` bytes; None where there is none."""
    forms = sorted(_forms(one), key=lambda form: form[0])
    for size, make in forms:
        if size <= most and (made := make()).about <= ROUGH:
            return made
    return None


def _forms(one: Attended) -> Iterator[tuple[float, Callable[[], Numbers]]]:
    """Every form, by the bytes that it takes."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    pairs = sum(max(0, min(m, i + 1 + m - n)) for i in range(n)) if one.causal else n * m
    yield LETTER * one.heads * pairs, lambda: _letters(one)
    if one.trusted or one.weights is None:
        vectors, beside = one.q.numel() + one.k.numel(), sum(4 * t.numel() for t in (one.bias, one.seen) if t is not None)
        yield vectors + 4 * vectors / one.q.shape[-1] + beside, lambda: _bytes(one)
        yield 2 * vectors + beside, lambda: _halves(one)


def _letters(one: Attended) -> Numbers:
    n, m = one.q.shape[-2], one.k.shape[-2]
    texts = []
    for head in range(one.heads):
        written = []
        for some in _pieces(n, m):
            weights = one.shown(head, some, torch.float32)
            kept = torch.arange(m)[None, :] <= some[:, None] + m - n if one.causal else torch.ones_like(weights, dtype=torch.bool)
            written.append(letters(weights[kept].numpy()))
        texts.append("".join(written))
    return Numbers(scale=one.scale, causal=one.causal, about=ROUGH, letters=texts, rows=n, columns=m)


def _bytes(one: Attended) -> Numbers:
    (q, q_step), (k, k_step) = (rows(t.float().numpy()) for t in (one.q, one.k))
    near = replace(one, q=torch.from_numpy(q * q_step[..., None]), k=torch.from_numpy(k * k_step[..., None]))
    told = _told(one, q, k, _off(one, near))
    return msgspec.structs.replace(told, q_step=pack(q_step), k_step=pack(k_step))


def _halves(one: Attended) -> Numbers:
    near = replace(one, q=one.q.half(), k=one.k.half())
    return _told(one, near.q.numpy(), near.k.numpy(), _off(one, near))


def _told(one: Attended, q: np.ndarray, k: np.ndarray, about: float) -> Numbers:
    def packed(t: Tensor | None) -> Array | None:
        return None if t is None else pack(t.numpy() if t.dtype in (torch.bool, torch.float32) else t.float().numpy())

    return Numbers(
        scale=one.scale, causal=one.causal, cap=one.cap, q=pack(q), k=pack(k), bias=packed(one.bias), seen=packed(one.seen),
        sink=packed(one.sink), about=about,
    )  # fmt: skip


def _off(one: Attended, near: Attended) -> float:
    """By which share of itself a weight of `near` is off at most."""
    worst, dtype = 1.0, torch.float64 if one.q.dtype == torch.float64 else torch.float32
    for head in range(one.heads):
        for some in _pieces(one.q.shape[-2], one.k.shape[-2]):
            wanted, found = (a.weigh(head, some, dtype) for a in (one, near))
            ratio = (found / wanted)[wanted > NOTHING]
            if len(ratio):
                worst = max(worst, ratio.max().item(), 1 / max(ratio.min().item(), NOTHING))
    return worst - 1


def _pieces(n: int, m: int) -> Sequence[Tensor]:
    """All rows, some at a time."""
    return torch.arange(n).split(max(1, CHUNK // m))
