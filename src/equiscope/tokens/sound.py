"""Sound as tokens: raw samples, log-mel energies, or patches of a spectrogram, each at its time in seconds.

A token's time is the centre of its window: window i covers the time from i·hop to i·hop + window. Nothing is padded:
samples after the last whole window are dropped. (Whisper and librosa pad, and centre window i at i·hop.)
"""

import math
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from equiscope.budgets import SAMPLES, regular, stand_in
from equiscope.errors import InputError, ShapeError, UnknownName
from equiscope.tokens.base import Tokens
from equiscope.tokens.extra import needed
from equiscope.tokens.images import Pair, check_size, check_whole, patches

Mel = Literal["slaney", "htk"]
FLOOR = 1e-10  # lower bound of energies, so that the logarithm of silence is finite
CANCELLED = 1e-3  # of the loudest channel: a mean of channels below this says that they cancel each other
ROUNDED = 0.05  # a frame whose length would change by more than this share, rounded to whole samples, is refused


def read_sound(
    path: str | Path, rate: int | None = None, content: bytes | None = None, longest: float | None = None
) -> tuple[Float[Tensor, " T"], int]:
    """Samples [T] in [-1, 1] and their rate in hertz; several channels become their mean.

    rate     resample to this one
    content  the bytes of the file, if already read, e.g. from an archive
    longest  in seconds; a longer file is not read
    raises   InputError where there is no sound, it is too long, or the extra `sound` is not installed
    """
    soundfile = needed("soundfile", "sound", "Reading a sound")
    if content is None:
        regular(path, "a WAV, FLAC, OGG or MP3 file")
    with BytesIO(content) if content is not None else Path(path).open("rb") as file:
        if stand := stand_in(file.read(1000)):
            raise InputError(f"{path} {stand}")
    try:
        declared = soundfile.info(str(path) if content is None else BytesIO(content), verbose=True)
        if declared.frames > 2**60:
            raise InputError(
                f"{path} does not declare its length, like the output of a program into a pipe. Write it again as a file."
            )
        if declared.frames * declared.channels > SAMPLES:
            raise InputError(
                f"{path} has {declared.frames * declared.channels / 1e6:.0f} million samples; "
                f"at most {SAMPLES / 1e6:.0f} million are read. Cut it first."
            )
        if longest is not None and declared.duration > longest:
            raise InputError(f"{path} lasts {declared.duration:.0f} s; at most {longest:.0f} s are read here. Cut it first.")
        samples, file_rate = soundfile.read(str(path) if content is None else BytesIO(content), dtype="float32", always_2d=True)
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} declares more samples than fit into memory. Its header may be wrong.") from error
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # TypeError: raw samples, without a header
        why = getattr(error, "error_string", error)  # without soundfile's name for bytes
        raise InputError(f"{path} cannot be read as a sound: {why} Give a WAV, FLAC, OGG or MP3 file.") from error
    _check_end(path, content, declared, len(samples))
    if not len(samples):
        raise InputError(f"{path} is a sound without samples. Give another file.")
    wave = torch.from_numpy(samples).mean(-1)
    if samples.shape[1] > 1 and float(wave.abs().max()) < CANCELLED * float(abs(samples).max()):
        raise InputError(
            f"{path} has {samples.shape[1]} channels that cancel each other: their mean is silent. Give one of them alone, for "
            "example the first."
        )
    if rate is None:
        return wave, file_rate
    resampled_wave = resampled(wave, file_rate, rate)
    if not len(resampled_wave):
        raise InputError(f"{path} has {len(wave)} samples at {file_rate} Hz, which are none at {rate} Hz. Give a longer sound.")
    return resampled_wave, rate


def _check_end(path: str | Path, content: bytes | None, declared: Any, read: int) -> None:
    """Raises InputError for a truncated WAV or MP3 file; the readers of other formats raise by themselves."""
    if size := re.search(r"data : (\d+) \(should be (\d+)\)", declared.extra_info):  # libsndfile reads as far as a WAV goes
        declared_length, actual = int(size[1]), int(size[2])  # bytes; near 2^31 or 2^32 if unknown to the writer
    elif declared.format == "MP3" and _counted(path, content):
        declared_length, actual = declared.frames, read
    else:
        return
    if declared_length < 2**31 - 2**20 and actual < declared_length - max(
        64, declared_length // 50
    ):  # some headers count themselves
        raise InputError(f"{path} is cut off: {actual / declared_length:.0%} of its declared length is there. Get the whole file.")


def _counted(path: str | Path, content: bytes | None) -> bool:
    """Whether an MP3 file declares its number of frames (in a Xing or Info frame), so that its length is exact."""
    with BytesIO(content) if content is not None else Path(path).open("rb") as file:
        head = file.read(10)
        long = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0), strict=False))
        file.seek(long if head.startswith(b"ID3") else 0)  # after its ID3 tag
        frame = file.read(64)
    return b"Xing" in frame or b"Info" in frame


def resampled(wave: Float[Tensor, "*batch T"], rate: int, to: int) -> Float[Tensor, "*batch S"]:
    """Resample a sound, rates in hertz, with an anti-aliasing filter (soxr, high quality).

    raises  InputError for a rate below one, a wave that wants a gradient, or where the extra `sound` is not installed
    """
    if not (1 <= rate < math.inf and 1 <= to < math.inf):
        raise InputError(f"A rate is a number of samples a second, but got {rate} and {to}.")
    if rate == to or not wave.numel():
        return wave
    if wave.requires_grad:
        raise InputError("soxr computes outside of torch, so no gradient passes. Resample wave.detach(), before what is learned.")
    wave = wave if wave.dtype in (torch.float32, torch.float64) else wave.float()
    channels = wave.reshape(-1, wave.shape[-1]).T.contiguous().detach().cpu().numpy()
    samples = needed("soxr", "sound", "Resampling").resample(channels, rate, to)
    return torch.from_numpy(samples).T.reshape(*wave.shape[:-1], -1).to(wave.device)


def frames(wave: Float[Tensor, "*batch T"], rate: int, frame_ms: float = 25.0, hop_ms: float | None = None) -> Tokens:
    """Raw samples, one frame per token.

    rate    in hertz; frame_ms: length of a frame; hop_ms: from frame to frame, without it frames do not overlap
    returns Tokens with x [..., N, samples of a frame], positions [N, 1] the centre of the frame in seconds
    raises  InputError for a frame or hop shorter than one sample, or that is not near to whole samples; ShapeError for a sound
            shorter than one frame
    """
    length, hop = _samples(wave, rate, frame_ms, frame_ms if hop_ms is None else hop_ms)
    return _timed(wave.unfold(-1, length, hop), rate, length, hop)


def log_mel(
    wave: Float[Tensor, "*batch T"],
    rate: int,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    mels: int = 80,
    scale: Mel = "slaney",
) -> Tokens:
    """Natural logarithms of the energy in `mels` bands of frequency, one window a token.

    The window is a Hann window, the Fourier transform as long as it, the energy its squared size, at least 1e-10.
    rate    in hertz; scale: see `mel_filters`
    returns Tokens with x [..., N, mels], positions [N, 1] the centre of the window in seconds
    raises  as `frames` and `mel_filters`
    """
    length, hop = _samples(wave, rate, window_ms, hop_ms)
    wave = wave if wave.dtype in (torch.float32, torch.float64) else wave.float()
    filters = mel_filters(rate, length, mels, scale).to(wave)
    window = torch.hann_window(length, dtype=wave.dtype, device=wave.device)
    flat = wave.reshape(-1, wave.shape[-1])
    if not len(flat):  # torch's transform refuses none at all
        return _timed(wave.new_zeros(*wave.shape[:-1], 1 + (wave.shape[-1] - length) // hop, mels), rate, length, hop)
    waves = torch.stft(flat, length, hop, window=window, center=False, return_complex=True)  # [B, F, N]
    energies = waves.abs().square().mT @ filters
    return _timed(energies.clamp(min=FLOOR).log().reshape(*wave.shape[:-1], -1, mels), rate, length, hop)


def mel_filters(rate: int, length: int, mels: int, scale: Mel = "slaney") -> Float[Tensor, "F mels"]:
    """Triangles over the frequencies of a Fourier transform of `length` samples, evenly spaced on the mel scale from 0 to rate/2.

    scale   "slaney" (linear to 1000 Hz, then logarithmic: librosa's and Whisper's) or "htk" (2595 log10(1 + f/700)). With either,
            triangles have area 1 over hertz (Slaney's norm); without a norm, log energies differ by a constant for each band
    returns [length // 2 + 1, mels] float64
    raises  InputError where a triangle falls between two frequencies and would hear nothing
    source  Stevens & Volkmann 1940; Slaney 1998, "Auditory Toolbox"; Young et al. 2002, "The HTK Book"
    """
    if mels < 1:
        raise InputError(f"There is one mel band or more, but got mels={mels}.")
    if scale not in SCALES:
        raise UnknownName("mel scale", scale, list(SCALES))
    to_mel, to_hertz = SCALES[scale]
    ends = to_mel(torch.tensor([0.0, rate / 2], dtype=torch.float64))
    corners = to_hertz(torch.linspace(float(ends[0]), float(ends[1]), mels + 2, dtype=torch.float64))
    low, centre, high = corners[:-2], corners[1:-1], corners[2:]
    hertz = torch.arange(length // 2 + 1, dtype=torch.float64).unsqueeze(-1) * rate / length
    triangles = torch.minimum((hertz - low) / (centre - low), (high - hertz) / (high - centre)).clamp(min=0.0)
    if bool(deaf := (triangles.sum(0) == 0).sum()):
        raise InputError(
            f"{mels} mel bands are too narrow for frequencies {rate / length:.3g} Hz apart: {int(deaf)} would hear nothing. "
            "Use fewer mels or a longer window."
        )
    return triangles * 2 / (high - low)


def spectrogram_patches(spectrogram: Tokens, size: Pair = (16, 16)) -> Tokens:
    """Cut what `log_mel` made into patches, all bands of a time before the next time; times that fill no patch are dropped.

    spectrogram  x [..., N, mels], positions [N, 1] in seconds
    size         of a patch: how many windows, how many mel bands
    returns      Tokens with x [..., M, windows·mels of a patch], by window, then band;
                 positions [M, 2]: its centre, in seconds and bands
    raises       ShapeError where the sound is shorter than one patch, or bands are not a whole number of patches;
                 InputError for one that is padded or packed already
    source       Gong, Chung & Glass 2021, "AST: Audio Spectrogram Transformer", whose patches overlap
    """
    if spectrogram.valid is not None or spectrogram.document is not None:
        raise InputError("This spectrogram is padded or packed. Cut each sound into patches first, then pack(sounds).")
    check_size(size, 2, "patches")
    windows, bands = size
    shape = spectrogram.x.shape[-2:]
    long = shape[0] // max(windows, 1) * windows
    check_whole((long or shape[0], shape[1]), size, "A spectrogram", "windows and bands", "patches")
    cut = patches(spectrogram.x[..., :long, :].unsqueeze(-3), size)
    seconds = spectrogram.positions[..., :long, 0].unflatten(-1, (-1, windows)).mean(-1).repeat_interleave(shape[1] // bands, -1)
    middle = cut.positions[:, 1] * bands + (bands - 1) / 2
    return Tokens(x=cut.x, positions=torch.stack([seconds, middle.expand_as(seconds)], -1), order=cut.order)


def _samples(wave: Tensor, rate: int, window_ms: float, hop_ms: float) -> tuple[int, int]:
    """Window and hop in samples, rounded to whole ones. Raises InputError where rounding changes one by more than ROUNDED."""
    if not 1 <= rate < math.inf:
        raise InputError(f"A rate is a number of samples a second, but got {rate}.")
    if wave.ndim < 1:
        raise ShapeError("A sound is [..., T], but got a single number.")
    for name, ms in (("frame", window_ms), ("hop", hop_ms)):
        if not math.isfinite(ms):
            raise InputError(f"A {name} has a length in milliseconds, but got {ms}.")
        samples = ms * rate / 1000
        if round(samples) < 1:
            raise InputError(
                f"A {name} of {ms:g} ms is less than one sample at {rate} Hz ({1000 / rate:.3g} ms). Use a longer {name}."
            )
        if abs(round(samples) - samples) > ROUNDED * samples:
            raise InputError(
                f"A {name} of {ms:g} ms is {samples:.3g} samples at {rate} Hz, and would be {round(samples)} "
                f"({round(samples) / rate * 1000:.3g} ms). Use whole samples, such as {math.ceil(samples) / rate * 1000:.4g} ms."
            )
    length, hop = (round(ms * rate / 1000) for ms in (window_ms, hop_ms))
    if wave.shape[-1] < length:
        raise ShapeError(
            f"The sound has {wave.shape[-1]} samples ({wave.shape[-1] / rate * 1000:.3g} ms at {rate} Hz), but one frame takes "
            f"{length} ({window_ms:g} ms). Use a shorter frame, or pad the sound with zeros."
        )
    return length, hop


def _timed(x: Tensor, rate: int, length: int, hop: int) -> Tokens:
    order = torch.arange(x.shape[-2], device=x.device)
    dtype = torch.promote_types(x.dtype, torch.float32)
    seconds = (order.double() * hop + length / 2) / rate  # in double: float32 would be off by a sample after some minutes
    return Tokens(x=x, positions=seconds.to(dtype).unsqueeze(-1), order=order)


def _htk(hertz: Tensor) -> Tensor:
    return 2595 * (1 + hertz / 700).log10()


def _htk_back(mel: Tensor) -> Tensor:
    return 700 * (10 ** (mel / 2595) - 1)


STEP = 27 / math.log(6.4)  # mels in a factor of e: 27 of them from 1000 to 6400 Hz


def _slaney(hertz: Tensor) -> Tensor:
    return torch.where(hertz < 1000, hertz * 3 / 200, 15 + (hertz.clamp(min=1000) / 1000).log() * STEP)


def _slaney_back(mel: Tensor) -> Tensor:
    return torch.where(mel < 15, mel * 200 / 3, 1000 * ((mel - 15).clamp(min=0) / STEP).exp())


SCALES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "slaney": (_slaney, _slaney_back),
    "htk": (_htk, _htk_back),
}
