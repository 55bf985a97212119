"""Heard: a sound small enough to stand in a page, which draws its wave and plays it."""

from base64 import b64encode

from torch import Tensor

from equiscope.record.heads import Heard
from equiscope.tokens.sound import resampled

FINE, ROUGH, SHORT = 16_000, 8_000, 15.0  # samples a second; seconds up to which a sound keeps the finer rate
LARGEST = 32_767  # of 16 bits


def heard(wave: Tensor, rate: int) -> Heard:
    """Samples [T] in [-1, 1] at a rate in hertz as 16 bits each: what is louder is cut off."""
    to = FINE if rate > ROUGH and len(wave) <= SHORT * rate else ROUGH
    samples = (resampled(wave.float().cpu(), rate, to).clamp(-1, 1) * LARGEST).round().numpy().astype("<i2")
    return Heard(rate=to, samples=b64encode(samples.tobytes()).decode("ascii"))
