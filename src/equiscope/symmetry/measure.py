"""Measure the difference of f(g x) and g f(x), and decide whether it is rounding or a broken symmetry.

No tolerance is chosen. A rounding error shrinks from float32 to float64 by 2^-29. A broken symmetry does not shrink. The
square root of a rounding error (the distance of a point to itself) shrinks by half as many digits.
So an error holds if it shrinks by more than 2^(-29 * 0.4). If the float32 error is small by chance, the rounding error
of f itself replaces it. The page has the same functions in web/src/core/measure.ts.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equiscope.errors import ShapeError
from equiscope.symmetry.actions import Action

Verdict = Literal["holds", "approximate", "broken", "undecided"]
PRECISION = 2.0**-29  # eps(float64) / eps(float32)
BORDER = 0.4  # precision exponent: rounding has about 1, its square root (a distance at zero) 0.5, a violation 0
TOLERANCE = 1e-2  # a violation below this is approximate


@dataclass(frozen=True)
class EquivarianceMeasurement:
    """error in float64 and in float32, the rounding floor of f in float64, and the verdict."""

    error: float
    error32: float
    floor: float
    verdict: Verdict


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Norm of the difference divided by the norm of the expected tensor (Frobenius); 0 if both are 0."""
    if actual.shape != expected.shape:
        raise ShapeError(f"Shapes {tuple(actual.shape)} and {tuple(expected.shape)} cannot be compared.")
    difference, size = (actual - expected).double().norm().item(), expected.double().norm().item()
    if difference == 0:
        return 0.0
    return difference / size if size > 0 else float("inf")


def verdict(error: float, error32: float, tolerance: float = TOLERANCE) -> Verdict:
    """holds, approximate or broken, from the error in float64 and in float32; undecided if not finite."""
    if not (error < float("inf") and error32 < float("inf")):
        return "undecided"
    if error == 0 or shrinks(error, error32):
        return "holds"
    return "approximate" if error < tolerance else "broken"


def shrinks(error: float, low_precision_error: float, precision: float = PRECISION) -> bool:
    """Whether an error shrinks with precision as rounding does; precision: ratio of the two machine epsilons."""
    return error < low_precision_error * precision**BORDER


def floor(run: Callable[[torch.dtype], Tensor]) -> float:
    """The rounding error of a computation in float64, from its measured error in float32 times 2^-29."""
    return relative_error(run(torch.float32), run(torch.float64)) * PRECISION


def measure(model: nn.Module, tokens: Any, action: Action, tolerance: float = TOLERANCE) -> EquivarianceMeasurement:
    """Measure the equivariance of a model of tokens under one element of an action.

    For pooled outputs, without token rows, this measures invariance.
    """
    models = {torch.float32: copy.deepcopy(model).float(), torch.float64: copy.deepcopy(model).double()}

    def run(dtype: torch.dtype, moved: bool = False) -> Tensor:
        given = tokens.to(dtype)
        with torch.no_grad():
            return models[dtype](action.on_input(given) if moved else given)

    def error(dtype: torch.dtype) -> float:
        plain, moved = run(dtype), run(dtype, moved=True)
        rows = plain.ndim == tokens.x.ndim and plain.shape[-2] == tokens.x.shape[-2]
        return relative_error(moved, action.on_output(plain) if rows else plain)

    e64, e32, least = error(torch.float64), error(torch.float32), floor(run)
    return EquivarianceMeasurement(e64, e32, least, verdict(e64, max(e32, least / PRECISION), tolerance))
