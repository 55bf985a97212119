"""Compact files: an attention rounded to few bytes, with a bound on the error of its weights.

For few tokens the weights are fewer numbers than queries and keys, so the file stores the weights, one letter each. For many tokens
it stores queries and keys.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import torch
from torch import Tensor

from equiscope.program.attended.attended import Attended
from equiscope.record import Array, AttentionTensors, pack
from equiscope.record.rounded import ROUGH, letters, rows

LETTER = 0.55  # bytes of a letter after compression: 4.4 bits for random weights
CHUNK = 2**22  # pairs that are computed at once
NEGLIGIBLE = 1e-30  # weights below it are left out of the error


def compact(one: Attended, most: float) -> AttentionTensors | None:
    """The smallest encoding with a relative error of at most ROUGH and at most `most` bytes; None where there is none."""
    encodings = sorted(_encodings(one), key=lambda encoding: encoding[0])
    for size, encode in encodings:
        if size <= most and (tensors := encode()).relative_error <= ROUGH:
            return tensors
    return None


def _encodings(one: Attended) -> Iterator[tuple[float, Callable[[], AttentionTensors]]]:
    """Every encoding with its size in bytes."""
    n, m = one.q.shape[-2], one.k.shape[-2]
    pairs = sum(max(0, min(m, i + 1 + m - n)) for i in range(n)) if one.causal else n * m
    yield LETTER * one.heads * pairs, lambda: _encoded(one)
    if one.trusted or one.weights is None:
        vectors, rest = one.q.numel() + one.k.numel(), sum(4 * t.numel() for t in (one.bias, one.mask) if t is not None)
        yield vectors + 4 * vectors / one.q.shape[-1] + rest, lambda: _bytes(one)
        yield 2 * vectors + rest, lambda: _halves(one)


def _encoded(one: Attended) -> AttentionTensors:
    n, m = one.q.shape[-2], one.k.shape[-2]
    texts = []
    for head in range(one.heads):
        chunks = []
        for some in _row_chunks(n, m):
            weights = one.best_weights(head, some, torch.float32)
            stored = torch.arange(m)[None, :] <= some[:, None] + m - n if one.causal else torch.ones_like(weights, dtype=torch.bool)
            chunks.append(letters(weights[stored].numpy()))
        texts.append("".join(chunks))
    return AttentionTensors(scale=one.scale, causal=one.causal, relative_error=ROUGH, encoded_weights=texts, rows=n, columns=m)


def _bytes(one: Attended) -> AttentionTensors:
    (q, q_scale), (k, k_scale) = (rows(t.float().numpy()) for t in (one.q, one.k))
    rounded = replace(one, q=torch.from_numpy(q * q_scale[..., None]), k=torch.from_numpy(k * k_scale[..., None]))
    tensors = _tensors(one, q, k, _relative_error(one, rounded))
    return msgspec.structs.replace(tensors, q_scale=pack(q_scale), k_scale=pack(k_scale))


def _halves(one: Attended) -> AttentionTensors:
    rounded = replace(one, q=one.q.half(), k=one.k.half())
    return _tensors(one, rounded.q.numpy(), rounded.k.numpy(), _relative_error(one, rounded))


def _tensors(one: Attended, q: np.ndarray, k: np.ndarray, relative_error: float) -> AttentionTensors:
    def packed(t: Tensor | None) -> Array | None:
        return None if t is None else pack(t.numpy() if t.dtype in (torch.bool, torch.float32) else t.float().numpy())

    return AttentionTensors(
        scale=one.scale, causal=one.causal, cap=one.cap, q=pack(q), k=pack(k), bias=packed(one.bias), mask=packed(one.mask),
        sink=packed(one.sink), relative_error=relative_error,
    )  # fmt: skip


def _relative_error(one: Attended, rounded: Attended) -> float:
    """The largest relative error of a weight of `rounded`."""
    worst, dtype = 1.0, torch.float64 if one.q.dtype == torch.float64 else torch.float32
    for head in range(one.heads):
        for some in _row_chunks(one.q.shape[-2], one.k.shape[-2]):
            exact, approximate = (a.recomputed_weights(head, some, dtype) for a in (one, rounded))
            ratio = (approximate / exact)[exact > NEGLIGIBLE]
            if len(ratio):
                worst = max(worst, ratio.max().item(), 1 / max(ratio.min().item(), NEGLIGIBLE))
    return worst - 1


def _row_chunks(n: int, m: int) -> Sequence[Tensor]:
    """All rows in chunks of at most CHUNK pairs."""
    return torch.arange(n).split(max(1, CHUNK // m))
