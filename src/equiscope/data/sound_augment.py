"""Sound augmentation: speed, trimmed ends, shift, loudness, noise, and masked parts of the spectrogram.

Each function takes a recording and a generator, which depends on the seed, the epoch and the recording.
"""

from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.spec_base import Share, Size

Longest = Annotated[float, msgspec.Meta(ge=0, le=60_000)]  # a minute
Decibels = Annotated[float, msgspec.Meta(ge=0, le=100)]
Times = Annotated[float, msgspec.Meta(ge=0, le=100)]
QUIET = 1e-10  # mean square of a stretch that has no sound: -100 dB


class SoundAugment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random augmentation of recordings; 0 turns an augmentation off.

    speed  largest relative change of speed, which changes the pitch too
    trim   cut off quiet ends: at each end, whatever is softer than a threshold; the threshold is drawn between the softest 10 ms
           and this share of the way to the loudest, in dB
    shift  largest shift in ms: silence is added in front, or as much is cut off
    gain   largest change of loudness in dB
    noise  largest amplitude of white noise, relative to that of the sound
    warp   time warping: windows follow one another slower or faster by a factor of up to e^warp; the ends stay where they are
    bands  largest number of adjacent mel bands that are masked (SpecAugment); windows: largest number of adjacent windows
    masks  how many masks of each kind

    Source: Park et al. 2019, "SpecAugment"; Ko et al. 2015, "Audio Augmentation"
    """

    speed: Share = 0.0
    trim: Share = 0.0
    shift: Longest = 0.0
    gain: Decibels = 0.0
    noise: Times = 0.0
    warp: Share = 0.0
    bands: Annotated[int, msgspec.Meta(ge=0)] = 0
    windows: Annotated[int, msgspec.Meta(ge=0)] = 0
    masks: Size = 1


def changed(wave: Tensor, rate: int, changes: SoundAugment, draw: torch.Generator) -> Tensor:
    """An augmented recording: [T] to [S], with another speed, onset, loudness, and noise."""

    def between(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=draw, dtype=torch.float64))

    if changes.speed:
        wave = _at_speed(wave, between(1 - changes.speed, 1 + changes.speed))
    if changes.trim:
        wave = _cut(wave, rate, between(0, changes.trim), between(0, changes.trim))
    if changes.shift:
        front, back = (round(between(-changes.shift, changes.shift) * rate / 1000) for _ in range(2))
        least = len(wave) // 2  # at least half of it is heard
        front, back = max(front, -(least // 2)), max(back, -(least // 2))
        wave = torch.nn.functional.pad(wave, (front, back))
    if changes.gain:
        wave = wave * 10 ** (between(-changes.gain, changes.gain) / 20)
    if changes.noise:
        size = between(0, changes.noise) * float(wave.square().mean().sqrt())
        wave = wave + size * torch.randn(wave.shape, generator=draw)
    return wave


def most_samples(count: int, rate: int, changes: SoundAugment) -> int:
    """Most samples that a recording of `count` samples can have after augmentation."""
    slow = int((count - 1) / (1 - changes.speed)) + 1
    return slow + 2 * round(changes.shift * rate / 1000)


def _at_speed(wave: Tensor, speed: float) -> Tensor:
    """Resample to `speed` by linear interpolation: fast, and exact enough for a random change."""
    times = np.arange(int((len(wave) - 1) / speed) + 1) * speed
    return torch.from_numpy(np.interp(times, np.arange(len(wave)), wave.numpy())).to(wave.dtype)


def _cut(wave: Tensor, rate: int, front: float, back: float) -> Tensor:
    """Trim to the first and last 10 ms that are above thresholds, given as parts of the range from softest to loudest, in dB.

    If less than a quarter would remain, the recording stays whole.
    """
    size = max(1, rate // 100)
    loud = wave[: len(wave) // size * size].view(-1, size).square().mean(1).clamp_min(QUIET).log()
    if not len(loud):
        return wave
    begin, end = (torch.nonzero(loud >= torch.lerp(loud.min(), loud.max(), part))[:, 0] for part in (front, back))
    first, last = int(begin[0]) * size, (int(end[-1]) + 1) * size if int(end[-1]) + 1 < len(loud) else len(wave)
    return wave[first:last] if 4 * (last - first) >= len(wave) else wave


def _warped(x: Tensor, most: float, draw: torch.Generator) -> Tensor:
    """Time warping of windows [N, mels]; the ends stay. The pace is piecewise linear between four random values."""
    pace = torch.empty(4).uniform_(-most, most, generator=draw)
    paces = _rows_at(pace[:, None], torch.linspace(0, len(pace) - 1, len(x)))[:, 0].exp()
    indices = torch.nn.functional.pad(((paces[1:] + paces[:-1]) / 2).cumsum(0), (1, 0))
    return _rows_at(x, indices / indices[-1] * (len(x) - 1))


def _rows_at(x: Tensor, indices: Tensor) -> Tensor:
    """Rows of x [N, F] at fractional indices [M] from 0 to N - 1, by linear interpolation."""
    low = indices.long().clamp(0, len(x) - 2)
    return torch.lerp(x[low], x[low + 1], (indices - low)[:, None])


def hidden(x: Tensor, changes: SoundAugment, draw: torch.Generator) -> Tensor:
    """A normalised spectrogram [N, mels], warped, with some bands and some windows masked with 0."""
    x = _warped(x, changes.warp, draw) if changes.warp and len(x) > 2 else x.clone()
    for axis, most in ((1, changes.bands), (0, changes.windows)):
        for _ in range(changes.masks if most else 0):
            wide = int(torch.randint(min(most, x.shape[axis] // 2) + 1, (), generator=draw))
            first = int(torch.randint(x.shape[axis] - wide + 1, (), generator=draw))
            x.narrow(axis, first, wide).zero_()
    return x
