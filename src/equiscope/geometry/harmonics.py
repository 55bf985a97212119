"""Spherical harmonics, their rotation matrices, and Clebsch-Gordan coefficients, in float64 and float32.

The basis is e3nn's: degree 1 is (x, y, z), "component" normalised, so that the squares of degree l sum to 2l + 1 on the sphere.
Matrices of a turn and Clebsch-Gordan coefficients are not looked up but follow from the harmonics: D(R) is the one matrix with
Y(R x) = D(R) Y(x), and the coefficients are the one tensor that three of them leave as it is.
"""

from functools import cache
from math import factorial, sqrt

import numpy as np
import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.symmetry.irreps import wigner

HIGHEST = 8  # beyond it the polynomials lose digits


def harmonics(degree: int, x: Tensor) -> Tensor:
    """Real spherical harmonics [..., 2l + 1] of unit vectors x [..., 3]; of others, times their length to the power l.

    About the axis y: m > 0 goes with cos(m f), m < 0 with sin(|m| f), where z + i x = sqrt(x² + z²) exp(i f).
    raises  InputError for a degree that is not here
    """
    if not 0 <= degree <= HIGHEST:
        raise InputError(f"Harmonics of degree 0 to {HIGHEST} are here, but got {degree}.")
    a, b, c = x.unbind(-1)
    cosine, sine, square, values = torch.ones_like(a), torch.zeros_like(a), x.square().sum(-1), {}
    for m in range(degree + 1):
        along = sum((c * b**k * square ** ((degree - m - k) // 2) for k, c in _legendre(degree, m)), torch.zeros_like(b))
        values[m] = along * cosine
        if m:
            values[-m] = along * sine
        cosine, sine = cosine * c - sine * a, cosine * a + sine * c
    return torch.stack([values[m] for m in range(-degree, degree + 1)], -1)


@cache
def _legendre(degree: int, m: int) -> list[tuple[int, float]]:
    """Powers and coefficients of the m-th derivative of the Legendre polynomial, with the norm: every second power only."""
    size = sqrt((2 * degree + 1) * (1 if m == 0 else 2) * factorial(degree - m) / factorial(degree + m))
    whole = np.polynomial.legendre.leg2poly([0.0] * degree + [1.0])
    coefficients = np.polynomial.polynomial.polyder(whole, m)
    return [(k, size * float(coefficients[k])) for k in range((degree - m) % 2, degree - m + 1, 2)]


@cache
def clebsch_gordan(first: int, second: int, third: int) -> Tensor:
    """C [2a + 1, 2b + 1, 2c + 1] with Σ C² = 1, invariant to a rotation of all three axes; its first nonzero number is positive.

    raises  InputError where there is none: |a - b| <= c <= a + b has to hold
    """
    if not abs(first - second) <= third <= first + second:
        raise InputError(f"Degrees {first} and {second} give {abs(first - second)} to {first + second}, not {third}.")
    sizes = [2 * degree + 1 for degree in (first, second, third)]
    conditions = []
    for matrix in _generating_rotations():
        a, b, c = (wigner(degree, matrix) for degree in (first, second, third))
        whole = torch.einsum("ia,jb,kc->ijkabc", a, b, c).reshape(sizes[0] * sizes[1] * sizes[2], -1)
        conditions.append(whole - torch.eye(len(whole), dtype=torch.float64))
    rows = torch.linalg.svd(torch.cat(conditions)).Vh
    coefficients = rows[-1].reshape(sizes)
    largest = coefficients.flatten()[coefficients.flatten().abs() > 1e-9][0]
    coefficients = coefficients * largest.sign()
    return torch.where(coefficients.abs() < 1e-13, 0.0, coefficients)


@cache
def _generating_rotations() -> tuple[Tensor, ...]:
    """Two turns that generate all: what both leave, every turn leaves."""
    generator, rotations = torch.Generator().manual_seed(1), []
    for _ in range(2):
        q = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64)).Q
        rotations.append(q * q.det().sign())
    return tuple(rotations)
