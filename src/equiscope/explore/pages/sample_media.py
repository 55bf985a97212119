"""A synthetic picture, sound and film, which a page shows until the reader opens a file."""

import numpy as np
import torch
from torch import Tensor

SKY, SUN, LAWN, COAT, EAR, NOSE, BALL = (
    (150, 197, 232), (255, 214, 92), (112, 166, 78), (150, 98, 54), (104, 64, 34), (38, 28, 24), (206, 62, 50),
)  # fmt: skip
FINE = 4  # points along each side of a pixel, whose mean it is
# ellipses: colour, then middle (row, column) and half axes (rows, columns), as shares of the picture
DOG = (
    (COAT, 0.50, 0.315, 0.085, 0.018),  # tail
    (COAT, 0.62, 0.45, 0.085, 0.150),  # body
    (COAT, 0.74, 0.34, 0.090, 0.024), (COAT, 0.75, 0.40, 0.085, 0.022),  # legs
    (COAT, 0.75, 0.52, 0.085, 0.022), (COAT, 0.74, 0.57, 0.090, 0.024),
    (COAT, 0.50, 0.60, 0.080, 0.075),  # head
    (COAT, 0.53, 0.67, 0.040, 0.060),  # snout
    (EAR, 0.49, 0.555, 0.075, 0.030),
    (NOSE, 0.515, 0.722, 0.017, 0.017), (NOSE, 0.475, 0.63, 0.012, 0.012),
)  # fmt: skip
# a, i, u: what a mouth lets through, in hertz
MOUTH = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240]], dtype=float)


def meadow(side: int = 224) -> np.ndarray:
    """A dog and a ball on a lawn under a sky: bytes [3, side, side]."""
    canvas, y, x = _ground(side)
    _ellipse(canvas, y, x, SUN, 0.17, 0.82, 0.085, 0.085)
    for part in DOG:
        _ellipse(canvas, y, x, *part)
    _ellipse(canvas, y, x, BALL, 0.80, 0.80, 0.05, 0.05)
    return _bytes(canvas)


def bounce(frames: int = 16, side: int = 64) -> np.ndarray:
    """A ball that crosses the lawn in two jumps: bytes [frames, 3, side, side]."""
    images = []
    for i in range(frames):
        canvas, y, x = _ground(side)
        through = (i + 0.5) / frames
        height = 1 - (4 * through % 2 - 1) ** 2
        _ellipse(canvas, y, x, BALL, 0.78 - 0.52 * height, 0.08 + 0.84 * through, 0.085, 0.085)
        images.append(_bytes(canvas))
    return np.stack(images)


def voice(rate: int = 8000) -> Tensor:
    """A synthetic voice of one second: a, i, u with falling pitch, then a hiss; samples of 16 bits in [-1, 1]."""
    at = np.arange(rate) / rate
    pitch = np.interp(at, [0, 0.72], [150, 105])
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    knots = [0.0, 0.18, 0.27, 0.43, 0.52, 0.72]
    formants = [np.interp(at, knots, np.repeat(MOUTH[:, j], 2)) for j in range(3)]
    sung = np.zeros(rate)
    for k in range(1, 30):
        hertz = k * pitch
        loud = sum(1 / (1 + ((hertz - f) / 90) ** 2) / (j + 1) for j, f in enumerate(formants)) / np.sqrt(k)
        sung += loud * (hertz < 0.48 * rate) * np.sin(k * phase)
    sung *= np.interp(at, [0.03, 0.07, 0.62, 0.72], [0, 1, 1, 0])
    noise = np.diff(np.random.default_rng(0).uniform(-1, 1, rate + 1))  # differences: high frequencies
    hiss = 0.16 * noise * np.interp(at, [0.74, 0.80, 0.90, 0.97], [0, 1, 1, 0])
    whole = sung / np.abs(sung).max() * 0.7 + hiss
    return torch.from_numpy(np.rint(whole * 32767) / 32768).float()


def _ground(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sky and lawn, with the row and the column of each point as shares of the picture."""
    y, x = np.meshgrid(*[(np.arange(side * FINE) + 0.5) / (side * FINE)] * 2, indexing="ij")
    canvas = np.where((y < 0.62 - 0.06 * np.sin(3.1 * x))[..., None], SKY, LAWN).astype(float)
    return canvas, y, x


def _ellipse(
    canvas: np.ndarray, y: np.ndarray, x: np.ndarray, colour: tuple[int, ...], row: float, column: float, high: float, wide: float
) -> None:  # fmt: skip
    canvas[((y - row) / high) ** 2 + ((x - column) / wide) ** 2 < 1] = colour


def _bytes(canvas: np.ndarray) -> np.ndarray:
    side = canvas.shape[0] // FINE
    mean = canvas.reshape(side, FINE, side, FINE, 3).mean((1, 3))
    return np.rint(mean).astype(np.uint8).transpose(2, 0, 1)
