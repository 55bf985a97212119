"""The record of the image page with the features of the patches in place of their pixels: web tests mark exercises on it.

`python -m contract.golden` writes it. Decoders of JPEG may differ by one in a byte, so that it agrees within `CLOSE`.
"""

from pathlib import Path

import msgspec
import numpy as np

from equiscope import record
from equiscope.explore.pages.image import filled, image
from equiscope.program.replay import replay

CLOSE = 1e-3


def photograph() -> record.Patches:
    """Features become a leaf. The steps that computed them go, and with them the pixels and their weights."""
    page = image()
    programs = [_without_pixels(one) for one in page.programs]
    features = replay(filled(page.programs[0].program, page.pool))[page.programs[0].roles["features"]].numpy()
    used = {leaf.pool for one in programs for leaf in one.program.leaves}
    pool = {key: array for key, array in page.pool.items() if key in used} | {"features": record.pack(features)}
    return msgspec.structs.replace(page, programs=programs, pool=pool)


def _without_pixels(one: record.SchemeProgram) -> record.SchemeProgram:
    steps = {step.id: step for step in one.program.steps}
    features, pixels = (steps.pop(one.roles[role]) for role in ("features", "pixels"))
    leaf = record.LeafRecord(
        id=features.id, symbol=features.symbol, label=features.label, axes=features.axes, kind="content", pool="features"
    )
    leaves = [leaf, *(other for other in one.program.leaves if other.id not in features.inputs + pixels.inputs)]
    program = msgspec.structs.replace(one.program, leaves=leaves, steps=list(steps.values()))
    return msgspec.structs.replace(one, program=program, roles=one.roles | {"bytes": features.id, "pixels": features.id})


def write(path: Path) -> None:
    path.write_bytes(msgspec.json.encode(photograph()) + b"\n")


def stale(path: Path) -> list[str]:
    """The name of the file if it is missing or no longer agrees."""
    if not path.exists():
        return [path.stem]
    kept, made = msgspec.json.decode(path.read_bytes(), type=record.Patches), photograph()
    numbers = [record.unpack(one.pool["features"]) for one in (kept, made)]
    bare = [msgspec.structs.replace(one, pool={**one.pool, "features": None}, shares=[]) for one in (kept, made)]
    same = np.abs(numbers[0] - numbers[1]).max() < CLOSE and bare[0] == bare[1]
    return [] if same else [path.stem]
