"""Scalings of RoPE: slower clocks, so that a model reads texts longer than those of its training.

Each says how fast every pair of columns turns, and by how much turned queries and keys are multiplied (`gain`, which Hugging
Face calls attention factor). All are fixed before a sequence starts: frequencies that follow the length of the text so far
change what earlier words meant, so causality breaks and keys in a cache are wrong.
Sources: with each; all agree with Hugging Face's ROPE_INIT_FUNCTIONS.
"""

import math

import msgspec
import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.positions.frequencies import ladder


class Scaled(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Base: a scaling that changes nothing. Raises InputError for a number that is not larger than 0."""

    def __post_init__(self) -> None:
        for field, value in msgspec.structs.asdict(self).items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(not number > 0 for number in numbers if isinstance(number, (int, float)) and not isinstance(number, bool)):
                raise InputError(f"{type(self).__name__} needs {field} larger than 0, but got {value}.")

    def frequencies(self, columns: int, base: float) -> Tensor:
        """Radians a step of each pair of the columns that turn: [columns / 2] float64."""
        return ladder(columns // 2, base)

    @property
    def gain(self) -> float:
        """What turned queries and turned keys are both multiplied by."""
        return 1.0


class Linear(Scaled, frozen=True, tag="linear"):
    """Every clock `factor` times slower: places lie closer together (position interpolation). Source: Chen 2023."""

    factor: float

    def frequencies(self, columns: int, base: float) -> Tensor:
        return ladder(columns // 2, base) / self.factor


class Ntk(Scaled, frozen=True, tag="ntk"):
    """A larger base: the slowest clock is `factor` times slower, the fastest as before. Source: bloc97 2023, "NTK-aware".

    raises  ShapeError for two columns: the one clock would be slowest and fastest at once
    """

    factor: float

    def frequencies(self, columns: int, base: float) -> Tensor:
        return ladder(columns // 2, _wider(base, self.factor, columns))


class DynamicNtk(Scaled, frozen=True, tag="dynamic-ntk"):
    """NTK-aware scaling by as much as a text of `length` words needs; `length` is fixed before the sequence starts.

    Hugging Face lets the base follow the length of the text so far: a longer text then gives other numbers to its earlier
    words, and keys in a cache were turned by a base that is no longer used. Here every text has the base of `length`.
    trained  longest text of training; a `length` below it changes nothing
    raises   InputError without a length; ShapeError for two columns
    Source: emozilla 2023.
    """

    factor: float
    trained: int
    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is None:
            raise InputError(
                "DynamicNtk was given no length. A base that follows the text so far breaks causality and caches, so it is "
                "fixed before the text starts: give length=, the most words that will be read, or use Yarn()."
            )
        super().__post_init__()

    def frequencies(self, columns: int, base: float) -> Tensor:
        longer = max(self.length or 0, self.trained) / self.trained
        return ladder(columns // 2, _wider(base, self.factor * longer - (self.factor - 1), columns))


class Yarn(Scaled, frozen=True, tag="yarn"):
    """Fast clocks as before, slow clocks `factor` times slower, a ramp between; and sharper scores.

    A clock that turns beta_fast times within `trained` words is fast, one that turns beta_slow times is slow.
    attention  the gain; 0.1 ln(factor) + 1 unless given
    truncate   whether the ramp starts and ends at a whole clock, as in the authors' code
    Source: Peng 2023, "YaRN".
    """

    factor: float
    trained: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention: float | None = None
    truncate: bool = True

    @property
    def gain(self) -> float:
        return self.attention or 0.1 * math.log(max(self.factor, 1.0)) + 1.0

    def frequencies(self, columns: int, base: float) -> Tensor:
        low, high = self.clock(self.beta_fast, columns, base), self.clock(self.beta_slow, columns, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, columns - 1)
        clocks = torch.arange(columns // 2, dtype=torch.float64)
        slow = ((clocks - low) / (high - low if high != low else 1e-3)).clamp(0, 1)
        return ladder(columns // 2, base) * (1 - slow + slow / self.factor)

    def clock(self, turns: float, columns: int, base: float) -> float:
        """Number of the clock, between two perhaps, that turns so many times within the trained length."""
        return columns * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(base))


class Llama3(Scaled, frozen=True, tag="llama3"):
    """Clocks that turn more than `high` times within `trained` words as before, fewer than `low` times `factor` slower.

    Source: Meta 2024, Llama 3.1.
    """

    factor: float
    low: float = 1.0
    high: float = 4.0
    trained: int = 8192

    def frequencies(self, columns: int, base: float) -> Tensor:
        if not self.low < self.high:
            raise InputError(f"Llama3 needs low below high, but got low={self.low} and high={self.high}.")
        speed = ladder(columns // 2, base)
        turns = self.trained * speed / (2 * math.pi)
        fast = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return speed * (fast + (1 - fast) / self.factor)


class LongRope(Scaled, frozen=True, tag="longrope"):
    """Every clock slower by a factor of its own, found by search: one list for short texts, one for long ones.

    Which list is chosen here, by `length`, once: Hugging Face changes lists where a text grows past `trained`, and with that
    what its earlier words meant.
    short, long  one factor for each pair of columns
    length       the most words that will be read; beyond `trained` the long list is used
    factor       by how much the model was made longer; length / trained unless given (Phi-3 gives it, for both lists)
    attention    the gain; sqrt(1 + ln(factor) / ln(trained)) unless given
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
    def gain(self) -> float:
        factor = max(self.factor or self.length / self.trained, 1.0)
        return self.attention or math.sqrt(1 + math.log(factor) / math.log(self.trained))

    def frequencies(self, columns: int, base: float) -> Tensor:
        factors = self.long if self.length > self.trained else self.short
        if len(factors) != columns // 2:
            raise ShapeError(f"LongRope has {len(factors)} factors, but {columns} columns turn. Give {columns // 2}, one a pair.")
        return ladder(columns // 2, base) / torch.tensor(factors, dtype=torch.float64)


Scaling = Linear | Ntk | DynamicNtk | Yarn | Llama3 | LongRope


def _wider(base: float, factor: float, columns: int) -> float:
    """The base that makes the slowest of the clocks `factor` times slower and leaves the fastest."""
    if columns <= 2:
        raise ShapeError(
            f"NTK-aware scaling slows the slowest clock and leaves the fastest, but with {columns} columns there is one clock. "
            "Use a wider head, a larger fraction, or Linear(factor)."
        )
    return float(base * factor ** (columns / (columns - 2)))
