"""A block of numbers as data: readable where they are few and short, bytes where they are many.

The two writings hold exactly the same values; `unpack` and the page read both.
"""

import base64
from typing import Literal

import numpy as np
from msgspec import Struct

from equiscope.errors import InputError

DType = Literal["float64", "float32", "float16", "int64", "int8", "bool"]
_WIRE = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8", "int8": "|i1", "bool": "|u1"}
DECIMALS = 4  # numbers with at most so many decimals are written out: shorter than bytes, and a person can read them


class Array(Struct, frozen=True):
    """Numbers of one dtype in row-major order.

    shape   sizes of its axes; dtype: of its numbers
    data    the numbers themselves, or base64 of their little-endian bytes (8 of float64, int64; 4 of float32; 2 of float16; 1)
    """

    shape: list[int]
    dtype: DType
    data: list[float] | str


def pack(values: np.ndarray) -> Array:
    """Write an array down; nothing is rounded. Raises InputError for a dtype that the contract does not have."""
    dtype = str(values.dtype)
    if dtype not in _WIRE:
        raise InputError(f"A record holds {', '.join(_WIRE)}, but got {dtype}. Convert the array first.")
    flat = np.ascontiguousarray(values).reshape(-1)
    short = dtype in ("int64", "bool") or (dtype != "int8" and _short_numbers(flat))
    numbers = flat.astype(_WIRE[dtype])
    data = [_plain(v) for v in flat.tolist()] if short else base64.b64encode(numbers.tobytes()).decode("ascii")
    return Array(shape=list(values.shape), dtype=dtype, data=data)  # type: ignore[arg-type]


def unpack(array: Array) -> np.ndarray:
    """The numbers of a record. Raises InputError where the data do not fill the shape."""
    if isinstance(array.data, str):
        flat = np.frombuffer(base64.b64decode(array.data), dtype=_WIRE[array.dtype])
    else:
        flat = np.asarray(array.data, dtype=float)
    if flat.size != int(np.prod(array.shape)):
        raise InputError(f"An array of shape {array.shape} holds {int(np.prod(array.shape))} numbers, found {flat.size}.")
    return flat.reshape(array.shape).astype(array.dtype)


def _short_numbers(flat: np.ndarray) -> bool:
    """Finite, of few decimals, and no minus zero, which would lose its sign on the way through an integer."""
    with np.errstate(over="ignore"):  # of large numbers in float16, which are not short
        decimals = np.all(np.isfinite(flat)) and np.all(np.round(flat, DECIMALS) == flat)
    return bool(decimals and not np.any((flat == 0) & np.signbit(flat)))


def _plain(value: float) -> float:
    return int(value) if float(value).is_integer() else value
