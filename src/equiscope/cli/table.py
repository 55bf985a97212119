"""`equiscope table`: the encoding of places as numbers, with the norm of every row."""

import json as json_text
import sys

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.positions import SCHEMES, Added, Concatenated, Learned, Position, Rope, Sinusoidal, make
from equiscope.positions.frequencies import angles as clock_angles


def run(scheme: str, length: int, width: int, angles: bool, json: bool, csv: bool) -> None:
    if json and csv:
        raise InputError("Choose one of --json and --csv.")
    values, what = numbers(make(scheme), length, width, angles)
    norms = values.norm(dim=-1)
    if json:
        data = {"scheme": scheme, "length": length, "width": width, "what": what, "rows": values.tolist()}
        print(json_text.dumps(data | ({} if angles else {"norms": norms.tolist()})))
    elif csv:
        _csv(values, norms, angles)
    else:
        _text(scheme, values, norms, what, angles)


def numbers(position: Position, length: int, width: int, angles: bool) -> tuple[Tensor, str]:
    """The table [length, width] in float64 and what it holds; angles are [length, width / 2].

    raises  InputError for a scheme that gives no row of numbers to a place, ShapeError for a width that does not fit
    """
    at = torch.arange(length, dtype=torch.float64).unsqueeze(-1)
    if isinstance(position, Concatenated):
        position = position.of or Sinusoidal(base=position.base)  # what it writes beside the word
    if position.axes not in (1, None):
        raise InputError(
            f"{position.name} reads {position.axes} numbers a place, but this table counts along one axis. "
            "Schemes on one axis: " + ", ".join(s.name for s in SCHEMES if _on_a_line(s)) + "."
        )
    if angles:
        return clock_angles(at, _frequencies(position, width)), "radians"
    if not isinstance(position, Added) or position.axes not in (1, None):
        known = [s.name for s in SCHEMES if issubclass(s, (Added, Concatenated)) and _on_a_line(s)]
        hint = " Its radians can be seen with --angles." if isinstance(position, Rope) else ""
        raise InputError(f"{position.name} gives no row of numbers to a place. Schemes that do: {', '.join(known)}.{hint}")
    if isinstance(position, Learned):
        position = Learned(length=length)
        torch.manual_seed(0)
    return position.sized(width, 1, width).double().encode(at, width).detach(), "encoding"


def _on_a_line(scheme: type[Position]) -> bool:
    return scheme().axes in (1, None)


def _frequencies(position: Position, width: int) -> Tensor:
    if isinstance(position, Sinusoidal):
        return position.frequencies(width)
    if isinstance(position, Rope):
        return position.frequencies(width)
    raise InputError(f"{position.name} has no angles. Schemes that do: sinusoidal, concatenated, rope.")


def _csv(values: Tensor, norms: Tensor, angles: bool) -> None:
    heading = ["position", *(str(j) for j in range(values.shape[1])), *([] if angles else ["norm"])]
    print(",".join(heading))
    for i, row in enumerate(values.tolist()):
        print(",".join([str(i), *(repr(v) for v in row), *([] if angles else [repr(norms[i].item())])]))


def _text(scheme: str, values: Tensor, norms: Tensor, what: str, angles: bool) -> None:
    print(f"{scheme}: {what}, {values.shape[0]} positions, {values.shape[1]} {'clocks' if angles else 'features'}")
    print("pos " + "".join(f"{j:>12}" for j in range(values.shape[1])) + ("" if angles else "   |     norm"))
    for i, row in enumerate(values.tolist()):
        cells = "".join(f"{_five(v):>12}" for v in row)
        sys.stdout.write(f"{i:>3} {cells}" + ("" if angles else f"   | {norms[i].item():>8.6g}") + "\n")


def _five(value: float) -> str:
    """Five significant digits, without an exponent where the number is of ordinary size."""
    return f"{value:#.5g}" if value == 0 or 1e-7 < abs(value) < 1e6 else f"{value:.4e}"
