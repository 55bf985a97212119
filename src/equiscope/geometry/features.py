"""Features in space: scalars, which rotations leave unchanged, and vectors, which rotate with the points.

Kinds are named as in e3nn: "0e" a scalar, "0o" a pseudoscalar, whose sign a reflection changes, "1o" a vector, "1e" a pseudovector,
such as a spin. Without reflections (SE(3)) there are only scalars and vectors: kinds "0" and "1".
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError, UnknownName

Group = Literal["SE(3)", "E(3)"]
KINDS: dict[Group, tuple[str, ...]] = {"SE(3)": ("0", "1"), "E(3)": ("0e", "0o", "1o", "1e")}
PLAIN: dict[Group, tuple[str, str]] = {"SE(3)": ("0", "1"), "E(3)": ("0e", "1o")}  # the kinds of invariant scalars and of vectors

Widths = Mapping[str, int]  # channels of each kind; a kind that is not named has none


def checked(widths: Widths, group: Group) -> dict[str, int]:
    """The widths in the order of `KINDS`, without kinds of none. Raises UnknownName, ShapeError."""
    if group not in KINDS:
        raise UnknownName("group", str(group), list(KINDS))
    for kind, width in widths.items():
        if kind not in KINDS[group]:
            raise UnknownName(f"kind of feature in {group}", kind, list(KINDS[group]))
        if width < 0:
            raise ShapeError(f"A kind of feature has 0 channels or more, but {kind} has {width}.")
    return {kind: widths[kind] for kind in KINDS[group] if widths.get(kind)}


class Features(dict[str, Tensor]):
    """By kind: scalars [..., N, C], vectors [..., N, 3, C]. Channels come last, so that a linear map is x @ W for every kind."""

    @property
    def widths(self) -> dict[str, int]:
        return {kind: x.shape[-1] for kind, x in self.items()}

    def plus(self, other: "Features") -> "Features":
        """The sum; a kind that only one of them has is copied."""
        both = {kind: self[kind] + other[kind] for kind in self if kind in other}
        return Features({**self, **other, **both})

    def rotated(self, matrix: Tensor) -> "Features":
        """The features after an orthogonal matrix [3, 3] is applied to the points (x to x @ matrix.T). For tests and checks."""
        reflects = float(torch.det(matrix)) < 0

        def moved(kind: str, x: Tensor) -> Tensor:
            if reflects and kind in ("0", "1"):
                raise InputError("Features of SE(3) have no reflections. Use the group E(3).")
            sign = -1.0 if reflects and kind in ("0o", "1e") else 1.0
            return sign * (matrix.to(x) @ x if is_vector(kind) else x)

        return Features({kind: moved(kind, x) for kind, x in self.items()})


def is_vector(kind: str) -> bool:
    return kind[0] == "1"


def _parity(kind: str) -> int:
    return {"e": 1, "o": -1}.get(kind[1:], 0)


def _named(arrow: bool, parity: int) -> str:
    return f"{int(arrow)}" + {1: "e", -1: "o", 0: ""}[parity]


def product_kinds(one: str, other: str) -> dict[str, str]:
    """Kinds of the products of two features: {"dot": "0e", "cross": "1e"} of two vectors; {"times": ...} where one is a scalar."""
    parity = _parity(one) * _parity(other)
    if is_vector(one) and is_vector(other):
        return {"dot": _named(False, parity), "cross": _named(True, parity)}
    return {"times": _named(is_vector(one) or is_vector(other), parity)}
