"""The switch of planted faults: at most one is awake, in all processes that a test starts; the others note that they were reached.

Copied beside the package by `draw.plant`; it imports nothing of it.
"""

import os
from collections.abc import Callable
from typing import Any

AWAKE = int(os.environ.get("EQUISCOPE_FAULT", "-1"))
NOTES = os.environ.get("EQUISCOPE_FAULT_NOTES")
watchers: list[set[int]] = []  # of the recorder: what is reached while a fixture is set up
_noted: set[tuple[int, str]] = set()


def planted_fault(number: int, mistaken: Callable[[], Any], original: Callable[[], Any]) -> Any:
    if number == AWAKE:
        return mistaken()
    if NOTES:
        note(number)
    return original()


def note(number: int) -> None:
    for watcher in watchers:
        watcher.add(number)
    here = (number, os.environ.get("PYTEST_CURRENT_TEST", "collection"))
    if here not in _noted:
        _noted.add(here)
        with open(NOTES, "a", encoding="utf-8") as file:  # type: ignore[arg-type]
            file.write(f"{number}\t{here[1].rpartition(' ')[0] or here[1]}\n")
