"""Scalings of RoPE: lower frequencies, so that a model reads texts longer than those of its training.

Each defines the frequency of every pair of columns and a factor on rotated queries and keys (`scale`, Hugging Face's attention
factor). All are fixed before a sequence starts: frequencies that depend on the current length change the encoding of earlier
tokens, so causality breaks and cached keys are wrong.
Sources: with each; all agree with Hugging Face's ROPE_INIT_FUNCTIONS.
"""

import math

import msgspec
import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.positions.frequencies import geometric_frequencies


class Scaled(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Base: a scaling that changes nothing. Raises InputError for a number that is not larger than 0."""

    def __post_init__(self) -> None:
        for field, value in msgspec.structs.asdict(self).items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(not number > 0 for number in numbers if isinstance(number, (int, float)) and not isinstance(number, bool)):
                raise InputError(f"{type(self).__name__} needs {field} larger than 0, but got {value}.")

    def frequencies(self, columns: int, base: float) -> Tensor:
        """Radians a step of each rotated pair: [columns / 2] float64."""
        return geometric_frequencies(columns // 2, base)

    @property
    def scale(self) -> float:
        """Factor on both rotated queries and rotated keys."""
        return 1.0


class Linear(Scaled, frozen=True, tag="linear"):
    """Every frequency divided by `factor` (position interpolation). Source: Chen 2023."""

    factor: float

    def frequencies(self, columns: int, base: float) -> Tensor:
        return geometric_frequencies(columns // 2, base) / self.factor


class Ntk(Scaled, frozen=True, tag="ntk"):
    """A larger base: the lowest frequency is divided by `factor`, the highest stays. Source: bloc97 2023, "NTK-aware".

    raises  ShapeError for two columns: their one frequency would be lowest and highest at once
    """

    factor: float

    def frequencies(self, columns: int, base: float) -> Tensor:
        return geometric_frequencies(columns // 2, _wider(base, self.factor, columns))


class DynamicNtk(Scaled, frozen=True, tag="dynamic-ntk"):
    """NTK-aware scaling for texts of `length` tokens; `length` is fixed before the sequence starts.

    In Hugging Face's version the base follows the current length: a longer text changes the encoding of its earlier tokens, and
    cached keys were rotated with a base that is no longer used. Here every text has the base of `length`.
    trained  length of the longest training text; a `length` below it changes nothing
    raises   InputError without a length; ShapeError for two columns
    Source: emozilla 2023.
    """

    factor: float
    trained: int
    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is None:
            raise InputError(
                "DynamicNtk was given no length. A base that follows the current length breaks causality and caches, so it is "
                "fixed before the text starts: give length=, the largest number of tokens, or use Yarn()."
            )
        super().__post_init__()

    def frequencies(self, columns: int, base: float) -> Tensor:
        longer = max(self.length or 0, self.trained) / self.trained
        return geometric_frequencies(columns // 2, _wider(base, self.factor * longer - (self.factor - 1), columns))


class Yarn(Scaled, frozen=True, tag="yarn"):
    """High frequencies stay, low ones are divided by `factor`, with a ramp between; scores are sharper.

    A frequency is high with beta_fast rotations within `trained` tokens or more, low with beta_slow or fewer.
    attention  the scale; 0.1 ln(factor) + 1 by default
    truncate   whether the ramp starts and ends at an integer index, as in the authors' code
    Source: Peng 2023, "YaRN".
    """

    factor: float
    trained: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention: float | None = None
    truncate: bool = True

    @property
    def scale(self) -> float:
        return self.attention or 0.1 * math.log(max(self.factor, 1.0)) + 1.0

    def frequencies(self, columns: int, base: float) -> Tensor:
        low, high = self.index(self.beta_fast, columns, base), self.index(self.beta_slow, columns, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, columns - 1)
        indices = torch.arange(columns // 2, dtype=torch.float64)
        slow = ((indices - low) / (high - low if high != low else 1e-3)).clamp(0, 1)
        return geometric_frequencies(columns // 2, base) * (1 - slow + slow / self.factor)

    def index(self, rotations: float, columns: int, base: float) -> float:
        """Index (real) of the frequency with this number of rotations within the trained length."""
        return columns * math.log(self.trained / (rotations * 2 * math.pi)) / (2 * math.log(base))


class Llama3(Scaled, frozen=True, tag="llama3"):
    """Frequencies with more than `high` rotations within `trained` tokens stay; with fewer than `low` they are divided by `factor`.

    Source: Meta 2024, Llama 3.1.
    """

    factor: float
    low: float = 1.0
    high: float = 4.0
    trained: int = 8192

    def frequencies(self, columns: int, base: float) -> Tensor:
        if not self.low < self.high:
            raise InputError(f"Llama3 needs low below high, but got low={self.low} and high={self.high}.")
        speed = geometric_frequencies(columns // 2, base)
        rotations = self.trained * speed / (2 * math.pi)
        fast = ((rotations - self.low) / (self.high - self.low)).clamp(0, 1)
        return speed * (fast + (1 - fast) / self.factor)


class LongRope(Scaled, frozen=True, tag="longrope"):
    """Every frequency divided by its own factor, found by search: one list for short texts, one for long ones.

    The list is chosen once, by `length`. Hugging Face changes lists when a text grows past `trained`, which changes the encoding
    of its earlier tokens.
    short, long  one factor for each pair of columns
    length       the largest number of tokens; beyond `trained` the long list is used
    factor       ratio of the lengths; length / trained by default (Phi-3 gives it, for both lists)
    attention    the scale; sqrt(1 + ln(factor) / ln(trained)) by default
    raises       ShapeError where a list does not have one factor for each pair
    Source: Ding 2024, "LongRoPE".
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    trained: int
    length: int
    factor: float | None = None
    attention: float | None = None

    @property
    def scale(self) -> float:
        factor = max(self.factor or self.length / self.trained, 1.0)
        return self.attention or math.sqrt(1 + math.log(factor) / math.log(self.trained))

    def frequencies(self, columns: int, base: float) -> Tensor:
        factors = self.long if self.length > self.trained else self.short
        if len(factors) != columns // 2:
            raise ShapeError(
                f"LongRope has {len(factors)} factors, but {columns} columns are rotated. Give {columns // 2}, one a pair."
            )
        return geometric_frequencies(columns // 2, base) / torch.tensor(factors, dtype=torch.float64)


Scaling = Linear | Ntk | DynamicNtk | Yarn | Llama3 | LongRope


def _wider(base: float, factor: float, columns: int) -> float:
    """The base that divides the lowest frequency by `factor` and keeps the highest."""
    if columns <= 2:
        raise ShapeError(
            f"NTK-aware scaling lowers the lowest frequency and keeps the highest, but {columns} columns have one frequency. "
            "Use a wider head, a larger fraction, or Linear(factor)."
        )
    return float(base * factor ** (columns / (columns - 2)))
