"""Memory: whether the parameters of a model fit into that of the machine, before they are made."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from equiscope.errors import InputError
from equiscope.models.build import SMALLER
from equiscope.spec_base import ModelSpec

SURELY_FITS = 2**25  # layers x size x size: less is not counted


def check_memory(spec: ModelSpec, count: Callable[[], int], copies: int = 1) -> None:
    """Raise InputError where the parameters need more memory than the machine has. The system would end the process without a word.

    count   the number of parameters of the spec, computed for large ones only
    copies  numbers that will be kept for each parameter
    """
    largest = sorted(_whole_numbers(spec.to_dict()), reverse=True)[:2]
    layers, width = len(getattr(spec, "blocks", ())) or 1, getattr(spec, "width", 0)
    if layers * max(width**2, math.prod(largest)) < SURELY_FITS:
        return
    needed, memory = copies * count() * torch.get_default_dtype().itemsize, machine_memory()
    if needed > memory:
        what = "its parameters need" if copies == 1 else f"training keeps at least {copies} numbers for each parameter, which need"
        sizes = f"{needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:.0f} GiB"
        raise InputError(f"A model of these sizes cannot be made: {what} {sizes}. {SMALLER}")


def _whole_numbers(value: Any) -> Iterator[int]:
    """All whole numbers in a spec."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _whole_numbers(item)


def machine_memory() -> float:
    """Bytes of memory; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return math.inf
