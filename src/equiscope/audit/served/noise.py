"""Noise: how large rounding is on this server, from the answers themselves.

A server computes the same numbers in many ways: a prompt at once or token by token, alone or in a batch, from a cache or afresh.
These round differently, so their differences show the size of rounding, whatever the precision and the kernels. Rounding is alike
in all of them; a fault is not.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from equiscope.audit.served.answers import Answer, AnswerDifference

FACTOR = 32  # how many times the typical rounding error the largest of thousands may be
COARSEST = 2.0**-4  # rounding of float8 (e4m3), the coarsest arithmetic in use: no rounding changes a typical output by more


@dataclass(frozen=True)
class Noise:
    """Sizes in nats.

    floor  the typical change of a logprob by rounding; 0 where nothing ever changed
    step   the smallest change that the reported numbers can show: the spacing of the logits, or their last digit
    size   of the output: the spread of logprobs at one position
    """

    floor: float
    step: float
    size: float

    @property
    def limit(self) -> float:
        """Differences up to this are rounding."""
        return FACTOR * max(self.floor, self.step)

    def is_rounding(self, pair: AnswerDifference) -> bool:
        """Whether a difference is no larger than rounding on this server."""
        return pair.most <= self.limit and pair.typical <= COARSEST * self.size


def noise_of(differences: Iterable[AnswerDifference], answers: Sequence[Answer]) -> Noise:
    """From all comparisons of equal computations, and all answers.

    The lower quartile of the typical sizes: a fault that spoils most comparisons still leaves a quarter.
    """
    levels = sorted(found.typical for found in differences if found.typical and math.isfinite(found.typical))
    floor = levels[len(levels) // 4] if levels else 0.0
    return Noise(floor, step_of(answers), size_of(answers))


def size_of(answers: Sequence[Answer]) -> float:
    """Root mean square, over positions, of the spread of the reported logprobs around their mean."""
    squares = [statistics.pvariance(step.top.values()) for answer in answers for step in answer.steps if len(step.top) > 1]
    finite = [square for square in squares if math.isfinite(square)]
    return math.sqrt(statistics.fmean(finite)) if finite else 1.0


def step_of(answers: Sequence[Answer]) -> float:
    """The spacing of the numbers: 2^-k if all differences of logits are multiples of it (logits in bfloat16), or 10^-k by digits.

    float32 numbers have none that is seen here: the result is then the rounding error of float32 at their size.
    """
    positions = [list(step.top.values()) for answer in answers for step in answer.steps if len(step.top) > 1]
    gaps = [abs(a - b) for values in positions for a, b in itertools.pairwise(values) if math.isfinite(a - b)]
    largest = max((abs(value) for values in positions for value in values if math.isfinite(value)), default=1.0)
    least = largest * 2.0**-23
    if len(gaps) < 20:
        return least
    for power in range(0, 10):
        if all(abs(gap * 2**power - round(gap * 2**power)) < 2**power * 4 * least for gap in gaps):
            return max(2.0**-power, least)
    for digits in range(1, 7):
        if all(abs(value - round(value, digits)) < 1e-9 for values in positions for value in values):
            return max(10.0**-digits, least)
    return least
