"""Input domain of a run: whether an input is unlike the training part, by a few numbers that a person can check.

A picture has a brightness, a contrast, a size; a recording a rate, a length, a level; a text a share of tokens that training never
had. A run stores where each of these numbers lies in its training part. The distance of an input is that of its most unusual
number from the middle, in units of the 1 % and 99 % quantiles; 1 is the limit that 99 % of the validation part are within. No
network takes part, so the distance says that an input is unlike the training part, and not that the answer is wrong. An input of
another content with usual numbers, such as a face among digits of the same brightness, is not recognised.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Struct

from equiscope import budgets, outputs
from equiscope.errors import InputError
from equiscope.training.measures import Outcomes, wilson

FILE = "input_domain.json"
TAIL = 0.01  # of the training part that lies beyond a quantile, on either side
HEALTHY = 0.99  # of the validation part that is within the limit
EXPECTED = 0.02  # share of unlike examples of a part, of which nothing is said
LEAST = 1.0  # distance of the limit: no smaller than the quantiles of the training part


class InputNumbers(NamedTuple):
    """Numbers of some inputs: values [N, S] of each name; least [S]: differences that matter, at least, in the unit of each."""

    names: Sequence[str]
    least: Sequence[float]
    values: np.ndarray


class NumberRange(Struct, frozen=True, kw_only=True):
    """Where a number lies in the training part.

    usual   its quantiles, as a person reads them; middle: the median
    low, high  at a distance of 1 from the middle: the quantiles, or further away where these are close to it
    """

    name: str
    usual: tuple[float, float]
    low: float
    middle: float
    high: float

    @property
    def between(self) -> str:
        """The quantiles; one number where both are the same."""
        low, high = map(_short, self.usual)
        return low if low == high else f"{low} to {high}"


class InputDomain(Struct, frozen=True, kw_only=True):
    """The ranges of a run's inputs.

    limit      the distance that 99 % of the validation part are within
    training_ids  of texts: the token ids of the training part, a bit each, in hexadecimal
    """

    ranges: list[NumberRange]
    limit: Annotated[float, msgspec.Meta(gt=0)]
    training_ids: str = ""

    @classmethod
    def of(cls, train: InputNumbers, validation: InputNumbers, training_ids: str = "") -> Self:
        """The domain of a training part, with the limit of a validation part."""
        low, middle, high = np.quantile(train.values, [TAIL, 0.5, 1 - TAIL], axis=0)
        low_held, high_held = np.quantile(validation.values, [TAIL, 1 - TAIL], axis=0)  # so that no number decides the limit alone
        least, first, last = np.array(train.least), np.minimum(low, low_held), np.maximum(high, high_held)
        low, high = np.minimum(first, middle - least), np.maximum(last, middle + least)
        rows = np.stack([first, last, low, middle, high], -1).tolist()
        ranges = [
            NumberRange(name=name, usual=(a, b), low=c, middle=d, high=e)
            for name, (a, b, c, d, e) in zip(train.names, rows, strict=True)
        ]
        limit = np.quantile(cls(ranges=ranges, limit=1.0)._each(validation).max(-1), HEALTHY, method="higher")
        return cls(ranges=ranges, limit=max(LEAST, float(limit)), training_ids=training_ids)

    def distances(self, numbers: InputNumbers) -> np.ndarray:
        """Of each input, in units of the limit: above 1 it is unlike the training part."""
        return self._each(numbers).max(-1) / self.limit

    def reason(self, numbers: InputNumbers, row: int) -> str:
        """Which numbers of an input are the most unusual, at most two, and where they lie in the training part."""
        each = self._each(numbers)[row]
        order = np.argsort(-each, kind="stable")[:2].tolist()
        return "; ".join(
            f"{self.ranges[i].name} {_short(numbers.values[row, i])}, in training {self.ranges[i].between}"
            for i in order if i == order[0] or each[i] > self.limit
        )  # fmt: skip

    def far(self, numbers: InputNumbers, outcomes: Outcomes) -> tuple[np.ndarray, str]:
        """The distance of each example of a part, and a sentence if more are far than chance explains."""
        distances = self.distances(numbers)
        far = distances > 1
        if not far.any() or wilson(int(far.sum()), len(far))[0] <= EXPECTED:
            return distances, ""
        worst = int(distances.argmax())
        return distances, (
            f"{far.sum()} of {len(far)} examples are unlike the training part, such as {outcomes.names[worst]} "
            f"({self.reason(numbers, worst)}).{_compared(outcomes, far)}"
        )

    def _each(self, numbers: InputNumbers) -> np.ndarray:
        """How far each number [N, S] is from the middle, in units of the quantile on its side."""
        low, middle, high = (np.array([getattr(one, name) for one in self.ranges]) for name in ("low", "middle", "high"))
        beyond = numbers.values - middle
        return np.where(beyond > 0, beyond / (high - middle), -beyond / (middle - low))

    def write(self, folder: Path) -> None:
        """Store the domain in a run's folder."""
        outputs.put(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def read(cls, folder: Path, names: Sequence[str]) -> "InputDomain | None":
        """The domain of a run; None if it has none. Raises InputError if its file cannot be read, or is of other numbers."""
        if not (folder / FILE).is_file():
            return None
        try:
            known: Self = budgets.decoded(budgets.read(folder / FILE), cls)
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"{folder / FILE} cannot be read: {error}. Delete it: then nothing is said about unusual inputs."
            ) from error
        if [one.name for one in known.ranges] != list(names) or any(not one.low < one.middle < one.high for one in known.ranges):
            raise InputError(f"{folder / FILE} does not fit this run. Delete it: then nothing is said about unusual inputs.")
        return known


def _compared(outcomes: Outcomes, far: np.ndarray) -> str:
    """How the model does on examples that are far, and on the others."""
    if outcomes.true is not None and outcomes.predicted is not None:
        right = np.asarray(outcomes.true) == np.asarray(outcomes.predicted)
        others = "" if far.all() else f", of the others {right[~far].mean():.0%}"
        return f" Of these {right[far].mean():.0%} are right{others}."
    others = "" if far.all() else f", of the others {_short(outcomes.errors[~far].mean())}"
    return f" Their mean error is {_short(outcomes.errors[far].mean())}{others}."


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"
