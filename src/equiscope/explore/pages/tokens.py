"""The tokens page: a sound, a picture, a film, split into tokens by the functions of training, in several ways side by side."""

import base64
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from equiscope.data.picture_files import converted
from equiscope.errors import InputError, ShapeError
from equiscope.explore.pages import sample_media
from equiscope.record import Array, Tokenised, pack
from equiscope.record.tokenised import Bands, FilmCut, FilmTokens, PictureCut, PictureTokens, Projection, SoundCut, SoundTokens
from equiscope.tokens import (
    Stem,
    Tokens,
    frames,
    log_mel,
    mel_filters,
    patches,
    read_sound,
    read_video,
    resampled,
    spectrogram_patches,
    tubelets,
)
from equiscope.tokens.extra import needed
from equiscope.tokens.images import picture
from equiscope.tokens.sound import FLOOR

SECONDS, FINEST = 20.0, 48_000  # of a sound: the longest, and the most samples a second
WINDOWS = ((25.0, 10.0), (10.0, 5.0), (50.0, 25.0))  # milliseconds of a window and of a hop; the first is what speech uses
MELS = (80, 48, 32, 16, 8)  # bands: the first, below 16 kHz the second, where a window is long enough for them
PIXELS = 100_000_000  # of a picture, or of one frame of a film
SIDES = (8, 14, 16, 32)  # of patches; all divide 224
HALVINGS = 4  # of the stem, which makes a token of every 16 pixels
CHANNELS = (3, 24, 48, 96, 192)  # of that stem, as `Stem` suggests them
BOXES = ((2, 16, 16), (1, 16, 16), (4, 16, 16), (2, 8, 8), (2, 32, 32))  # of tubelets: frames, rows, columns
FRAMES, EACH_SECOND = 16, 4  # of a film: how many are taken, and how many in a second
SEARCHED, DECODED = 30.0, 1800  # seconds of a film in which they are looked for, at most so many frames
LONG = 1.4  # a picture that is so much longer than wide is shown twice as long as wide
SEEN = ["brightness", "left − right", "top − bottom", "red − blue"]
MOVED = ["brightness", "left − right", "top − bottom", "later − earlier"]


def tokens(image: Path | None, audio: Path | None, video: Path | None) -> Tokenised:
    """What the page holds: of the files that are given; without any, a sound, a picture and a film that are made.

    raises  InputError for a file that is none, too large or too long, ShapeError for a sound that is too short to be cut
    """
    given = [path.name for path in (audio, image, video) if path is not None]
    alone = not given
    return Tokenised(
        title=f"{', '.join(given)} as tokens" if given else "What is a token?",
        summary="The input of a transformer is a sequence of tokens, each a vector of numbers. This page shows how a sound, a "
        "picture or a film is split into tokens, with their numbers and positions. Select a token.",
        sound=_sound(audio) if alone or audio is not None else None,
        picture=_picture(image) if alone or image is not None else None,
        film=_film(video) if alone or video is not None else None,
    )


# -------------------------------------------------------------------------------------------------------------------- sound


def _sound(path: Path | None) -> SoundTokens:
    note = ""
    if path is None:
        name, wave, rate = "synthetic voice", sample_media.voice(), 8000
    else:
        name = path.name
        wave, rate = read_sound(path, longest=SECONDS)
        if not bool(torch.isfinite(wave).all()):
            raise InputError(f"{path} has samples that are no finite numbers. Write it again, e.g. as a WAV of 16 bits.")
        if rate > FINEST:
            note = f"It has {rate} samples a second, of which the page keeps {FINEST}."
            wave, rate = resampled(wave, rate, FINEST), FINEST
    whole = (wave.double() * 32768).round()
    exact = bool((whole / 32768 == wave.double()).all())
    samples = whole.to(torch.int64) if exact else wave
    silent = bool((wave == wave[0]).all())
    return SoundTokens(
        name=name, rate=rate, samples=pack(samples.numpy()), unit=1 / 32768 if exact else 1.0, silent=silent,
        cuts=_sound_cuts(wave, rate), note=note,
    )  # fmt: skip


def _sound_cuts(wave: Tensor, rate: int) -> list[SoundCut]:
    """The cuts for which the sound is long enough. Raises the error of the first one if there are none."""
    cuts, why = [], list[InputError | ShapeError]()
    for window_ms, hop_ms in WINDOWS:
        try:
            cuts.append(_sound_cut(wave, rate, window_ms, hop_ms))
        except (InputError, ShapeError) as error:
            why.append(error)
    if not cuts:
        raise why[0]
    return cuts


def _sound_cut(wave: Tensor, rate: int, window_ms: float, hop_ms: float) -> SoundCut:
    raw = frames(wave, rate, window_ms)
    window, hop = raw.x.shape[-1], round(hop_ms * rate / 1000)
    mels, mel = _mel(wave, rate, window_ms, hop_ms)
    filters = mel_filters(rate, window, mels).numpy()
    nonzero = [np.flatnonzero(filters[:, band]) for band in range(mels)]
    size, at = _sound_patches(mel, mels)
    return SoundCut(
        window=window, hop=hop, window_ms=window_ms, hop_ms=hop_ms, frame_positions=_packed(raw.positions), mel=_packed(mel.x),
        mel_positions=_packed(mel.positions), patch=size, patch_positions=at,
        bands=Bands(
            step=rate / window, begins=[int(f[0]) for f in nonzero], counts=[len(f) for f in nonzero],
            weights=pack(np.concatenate([filters[f, band] for band, f in enumerate(nonzero)])), floor=FLOOR,
        ),
    )  # fmt: skip


def _mel(wave: Tensor, rate: int, window_ms: float, hop_ms: float) -> tuple[int, Tokens]:
    """With as many bands as the window resolves. Raises InputError where it resolves none."""
    fits = [mels for mels in MELS if rate >= 16_000 or mels < MELS[0]]
    for mels in fits[:-1]:
        try:
            return mels, log_mel(wave, rate, window_ms, hop_ms, mels)
        except InputError:
            continue
    return fits[-1], log_mel(wave, rate, window_ms, hop_ms, fits[-1])


def _sound_patches(mel: Tokens, mels: int) -> tuple[list[int], Array | None]:
    """Squares of 16 windows and 16 bands, smaller ones where the sound or its bands are fewer; none for one window."""
    side = min(16, mels, 2 ** int(math.log2(mel.x.shape[-2])))
    if side < 2:
        return [], None
    return [side, side], _packed(spectrogram_patches(mel, (side, side)).positions)


# ------------------------------------------------------------------------------------------------------------------ picture


def _picture(path: Path | None) -> PictureTokens:
    note = ""
    if path is None:
        name, pixels = "synthetic picture", sample_media.meadow()
    else:
        if not path.is_file():
            raise InputError(f"There is no picture {path}. Give the path of a file that Pillow reads, e.g. PNG or JPEG.")
        name, image = path.name, picture(path, str(path), most=PIXELS)
        high, wide = _shape((image.height, image.width), 224)
        pixels = converted(image, (high, wide), 3)
        if (image.height, image.width) != (high, wide):
            note = (
                f"It has {image.width}×{image.height} pixels; it was cut to its middle and brought to {wide}×{high}, "
                "so that patches fill it."
            )
    shown = torch.from_numpy(np.ascontiguousarray(pixels)).float() / 255
    cuts = [_cut(shown, side) for side in SIDES]
    return PictureTokens(
        name=name, size=list(shown.shape[-2:]), pixels=_bytes(pixels), outputs=SEEN, note=note,
        cuts=[cuts[2], cuts[0], cuts[1], cuts[3], _pixels(shown), _stem(shown)],
    )  # fmt: skip


def _shape(size: tuple[int, int], side: int) -> tuple[int, int]:
    """A square, or twice as long as wide where the picture is long."""
    high, wide = size
    return (side * 2 if high > LONG * wide else side), (side * 2 if wide > LONG * high else side)


def _cut(image: Tensor, side: int) -> PictureCut:
    cut, grid = patches(image, (side, side)), [n // side for n in image.shape[-2:]]
    weight = readable((3, side, side))
    kernel = weight.T.unflatten(1, (3, side, side))
    slid = F.conv2d(image[None].double(), kernel.double(), stride=side)[0].flatten(1).T
    ends = [[[i * side, (i + 1) * side] for i in range(n)] for n in grid]
    return PictureCut(
        kind="patches", side=side, grid=grid, numbers=cut.x.shape[-1], rows=ends[0], columns=ends[1],
        projection=_mapped(cut.x, weight, slid),
    )  # fmt: skip


def _pixels(image: Tensor) -> PictureCut:
    high, wide = image.shape[-2:]
    each = [[[i, i + 1] for i in range(n)] for n in (high, wide)]
    return PictureCut(kind="pixels", side=1, grid=[high, wide], numbers=3, rows=each[0], columns=each[1])


def _stem(image: Tensor) -> PictureCut:
    rows, columns = (_reached(n) for n in image.shape[-2:])
    return PictureCut(
        kind="stem", side=2**HALVINGS, grid=[len(rows), len(columns)], numbers=CHANNELS[-1], rows=rows, columns=columns
    )  # fmt: skip


def _reached(size: int) -> list[list[int]]:
    """First pixel and the one after the last that each cell of a stem depends on along one axis: where its gradient is not zero."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        stem = Stem([1] * (HALVINGS + 1), axes=1)
        for parameter in stem.parameters():
            torch.nn.init.ones_(parameter)
        x = torch.ones(1, size, requires_grad=True)
        ranges = []
        for cell in stem(x).x[:, 0]:
            (slope,) = torch.autograd.grad(cell, x, retain_graph=True)
            nonzero = slope[0].nonzero().flatten()
            ranges.append([int(nonzero[0]), int(nonzero[-1]) + 1])
    return ranges


def readable(shape: tuple[int, ...]) -> Tensor:
    """Four columns of weights [numbers, 4] for a token of this shape, by channel, then frames where there are any, rows, columns.

    Means, and one mean less another: all; left less right; top less bottom; and red less blue, or later frames less earlier ones.
    """
    colours = torch.tensor([1.0, 0.0, -1.0]).view(3, *[1] * (len(shape) - 1)).expand(shape) * 3
    last = colours if len(shape) == 3 else -_halves(shape, 1)
    columns = (torch.ones(shape), _halves(shape, -1), _halves(shape, -2), last)
    return torch.stack([column.flatten() for column in columns], -1) / math.prod(shape)


def _halves(shape: tuple[int, ...], axis: int) -> Tensor:
    """2 in the first half along an axis, -2 in the second; 0 everywhere where the axis has one place."""
    many = shape[axis]
    signs = torch.zeros(many)
    signs[: many // 2], signs[many - many // 2 :] = 2.0, -2.0
    view = [1] * len(shape)
    view[axis] = many
    return signs.view(view).expand(shape)


def _mapped(x: Tensor, weight: Tensor, slid: Tensor) -> Projection:
    projected = x.double() @ weight.double()
    error = (projected - slid).abs().max() / slid.abs().max().clamp(min=1e-30)
    return Projection(weight=_packed(weight), output=_packed(projected.float()), error=float(error))


# --------------------------------------------------------------------------------------------------------------------- film


def _film(path: Path | None) -> FilmTokens:
    note = ""
    if path is None:
        name, film, fps = "synthetic film", torch.from_numpy(sample_media.bounce()).float() / 255, 8.0
    else:
        if not path.is_file():
            raise InputError(f"There is no film {path}. Give the path of a file that FFmpeg reads, e.g. MP4.")
        name = path.name
        film, fps, note = _read_film(path)
    kept = len(film)
    cuts = [_film_cut(film, size, fps) for size in BOXES if kept % size[0] == 0]
    return FilmTokens(
        name=name, size=[kept, *film.shape[-2:]], fps=fps, frames=_bytes((film * 255).round().byte().numpy()),
        outputs=MOVED, cuts=cuts, note=note,
    )  # fmt: skip


def _read_film(path: Path) -> tuple[Tensor, float, str]:
    """Some frames from its beginning [T, 3, H, W], how many of them in a second, and what was done."""
    wide, high, rate = _video_size(path)
    rows, columns = _shape((high, wide), 64) if max(high, wide) > LONG * min(high, wide) else (96, 96)
    scale = max(rows / high, columns / wide)
    size = (max(rows, round(high * scale)), max(columns, round(wide * scale)))
    every = max(1, round(rate / EACH_SECOND))
    start = _liveliest(path, rate, every)
    film, fps = read_video(path, start, frames=FRAMES, every=every, size=size)
    film = film[: next(n for n in (FRAMES, 12, 8, 4, 2, 1) if n <= len(film))]  # so that tubelets fill it
    top, left = (size[0] - rows) // 2, (size[1] - columns) // 2
    note = (
        f"It has {wide}×{high} pixels and {rate:.4g} frames a second; here are {len(film)} of them, "
        f"{'one after another' if every == 1 else f'one of every {every}'}, from {start:.3g} s on, where most moves in the first "
        f"{min(SEARCHED, DECODED / rate):.3g} s, cut to the middle and brought to {columns}×{rows}."
    )
    return film[..., top : top + rows, left : left + columns].contiguous(), fps, note


def _liveliest(path: Path, rate: float, every: int) -> float:
    """Seconds at which those frames begin that differ most, one from the next, as small as stamps."""
    stamps, _ = read_video(path, frames=max(1, round(min(SEARCHED * rate, DECODED) / every)), every=every, size=(18, 32))
    if len(stamps) <= FRAMES:
        return 0.0
    differs = (stamps[1:] - stamps[:-1]).abs().mean((1, 2, 3))
    first = int(differs.unfold(0, FRAMES - 1, 1).sum(-1).argmax())
    return max(0.0, (first * every - 0.5) / rate)


def _video_size(path: Path) -> tuple[int, int, float]:
    """Columns, rows and frames a second, as the file says before any frame is read."""
    av = needed("av", "video", "Reading a film")
    try:
        with av.open(str(path)) as file:
            if not file.streams.video:
                raise InputError(f"{path} has no moving picture in it. Give a film; a sound is given with --audio.")
            stream = file.streams.video[0]
            wide, high, rate = stream.width, stream.height, float(stream.average_rate or stream.guessed_rate or 0)
    except av.error.FFmpegError as error:
        raise InputError(
            f"{path} cannot be read as a film: {error.strerror or error}. Give a file that FFmpeg reads, e.g. MP4."
        ) from error
    if not (wide and high and rate):
        raise InputError(
            f"{path} does not say how large its frames are, or how many come in a second. Write it again, e.g. as MP4."
        )
    if wide * high > PIXELS:
        raise InputError(
            f"A frame of {path} has {wide * high / 1e6:.0f} megapixels; at most {PIXELS / 1e6:.0f} are read. Make it smaller first."
        )
    return wide, high, rate


def _film_cut(film: Tensor, size: tuple[int, int, int], fps: float) -> FilmCut:
    cut = tubelets(film, size, fps)
    weight = readable((3, *size))
    kernel = weight.T.unflatten(1, (3, *size))
    slid = F.conv3d(film.transpose(0, 1)[None].double(), kernel.double(), stride=size)[0].flatten(1).T
    axes = (film.shape[0], *film.shape[-2:])
    return FilmCut(
        size=list(size), grid=[n // s for n, s in zip(axes, size, strict=True)], numbers=cut.x.shape[-1],
        positions=_packed(cut.positions), projection=_mapped(cut.x, weight, slid),
    )  # fmt: skip


def _bytes(pixels: np.ndarray) -> str:
    """Bytes [..., 3, H, W] in base64, three a pixel."""
    return base64.b64encode(np.ascontiguousarray(np.moveaxis(pixels, -3, -1)).tobytes()).decode("ascii")


def _packed(x: Tensor) -> Array:
    return pack(x.detach().contiguous().numpy())
