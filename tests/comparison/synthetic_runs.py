"""Comparisons without training: plans, and folders of runs with numbers that a test chooses."""

from pathlib import Path
from typing import Any

import msgspec
from tests.training.small import plain

from equiscope import outputs
from equiscope.comparison.measurements import RunMeasurements, write_measurements
from equiscope.comparison.plan import Job, Plan, make_plan, write_plan
from equiscope.models import Spec
from equiscope.record import DataFile, Point, Run, Score, write_run
from equiscope.record.comparison import Extrapolation
from equiscope.training import Recipe, recipe

SCHEMES = {name: {"model.block.attention.position": name} for name in ("rope", "none", "alibi")}
DATA = [DataFile(name="text.txt", part="train", bytes=3, sha256="1" * 64)]


def base(folder: Path, **changes: Any) -> Recipe:
    """A recipe of two layers that reads a few hundred letters."""
    return recipe(plain(folder, **changes))


def plan(
    folder: Path, candidates: dict[str, dict[str, Any]] | None = None, seeds: tuple[int, ...] = (1, 2, 3), **more: Any
) -> Plan:
    """A plan in folder/compared."""
    outputs.make_folder(folder)
    made = make_plan(base(folder), folder, candidates or SCHEMES, seeds, threads=1, **more)
    write_plan(made, folder / "compared")
    return made


def finished(
    folder: Path, made: Plan, job: Job, loss: float, extrapolation: tuple[Extrapolation, ...] = (), **changes: Any
) -> Path:
    """The folder of a run that ended with this loss."""
    found = made.recipe_of(job)
    spec = Spec.of({"width": 16, "vocabulary": 9, "outputs": 9, "block": {"attention": {"causal": True}}})
    run = Run(
        title=found.title, task="language", recipe=found.to_dict(), spec=spec.to_dict(), data=DATA, seed=job.seed,
        versions={"torch": "2"}, machine={"cpu": "a"}, steps=12, state="finished", seconds=2.5, parameters=1000,
        result={"validation": {"loss": loss, "perplexity": 2.0, "bits per character": loss * 2}},
    )  # fmt: skip
    place = folder / job.folder
    place.mkdir(parents=True)
    write_run(msgspec.structs.replace(run, **changes), place)
    entries = [
        *(Point(step=s, loss=2.0 - s, rate=1e-3, norm=1.0, seconds=s / 10, tokens=100.0 + s) for s in (1, 2, 3)),
        Score(step=3, part="validation", values={"loss": loss + 1}), Score(step=12, part="validation", values={"loss": loss}),
    ]  # fmt: skip
    (place / "metrics.jsonl").write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    write_measurements(RunMeasurements(extrapolation=list(extrapolation), verdicts={"shift": "holds"}, memory=1e6), place)
    return place
