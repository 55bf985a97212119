"""Real files for the tests of readers: in the folder EQUISCOPE_DATA or beside the clone; without them those tests are skipped."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (os.environ.get("EQUISCOPE_DATA"), ROOT / "../shared/data", ROOT / "shared/data")


@pytest.fixture
def data():
    """data("photos/chelsea.png"): the path of a real file."""

    def path(name: str) -> Path:
        for folder in FOLDERS:
            if folder and (Path(folder) / name).exists():
                return Path(folder) / name
        pytest.skip(f"{name} is not here: set EQUISCOPE_DATA to a folder that has it")

    return path


@pytest.fixture
def without(monkeypatch):
    """without("av"): as if that package were not installed."""
    return lambda package: monkeypatch.setitem(sys.modules, package, None)
