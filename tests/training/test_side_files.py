"""Files beside a run's weights say how it sees, hears and what atoms it knows: what cannot be is refused when they are read."""

import json

import msgspec
import pytest

from equiscope.budgets import decoded
from equiscope.data.image_format import ImageFormat
from equiscope.data.molecules import EnergyStatistics
from equiscope.data.sounds import SoundFormat

pytestmark = pytest.mark.quick

GOOD = {
    SoundFormat: {"rate": 8000, "mean": [0.0, 1.0], "deviation": [1.0, 2.0]},
    ImageFormat: {"size": [8, 8], "channels": 1, "mean": [0.5], "std": [0.5]},
    EnergyStatistics: {"elements": ["H", "O"], "references": [-1.0, -2.0], "scale": 1.0, "offset": 0.0},
}
WRONG = [
    *((SoundFormat, name, value) for name, value in (
        ("rate", 0), ("rate", 10**9), ("mean", [0.0]), ("mean", []), ("deviation", [0.0, 1.0]),
        ("deviation", [-1.0, 1.0]), ("mean", None),
    )),
    *((ImageFormat, name, value) for name, value in (
        ("size", [0, 8]), ("size", [10**6, 10**6]), ("size", [8]), ("channels", 2), ("channels", 3),
        ("mean", [0.5, 0.5]),
        ("std", [0.0]), ("std", []),
    )),
    *((EnergyStatistics, name, value) for name, value in (
        ("elements", []), ("elements", ["H"]), ("elements", ["H", "Xx"]), ("references", [1.0]), ("scale", 0.0), ("scale", -1),
        ("offset", "0"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_what_was_written_is_read(kind):
    assert isinstance(decoded(json.dumps(GOOD[kind]), kind), kind)


@pytest.mark.parametrize(("kind", "name", "value"), WRONG)
def test_what_cannot_be_is_refused(kind, name, value):
    with pytest.raises(msgspec.DecodeError):
        decoded(json.dumps(GOOD[kind] | {name: value}), kind)
