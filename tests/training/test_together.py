"""Seeds trained as one batched model are the runs that they would be apart, up to rounding."""

from pathlib import Path
from typing import Any

import pytest

from equiscope.record import Run, read_run
from equiscope.training import fit, open_task, recipe
from equiscope.training.together import fit_together
from tests.training.small import plain, told

SEEDS = (3, 4)


def several(folder: Path, seeds: tuple[int, ...] = SEEDS, **changes: Any) -> tuple[list[Any], list[Any]]:
    """A recipe with several seeds, and their tasks."""
    recipes = [recipe(plain(folder, **changes) | {"seed": seed}) for seed in seeds]
    return recipes, [open_task(one) for one in recipes]


def both_ways(folder: Path, **changes: Any) -> tuple[list[Path], list[Path]]:
    """The folders of runs trained together, and apart."""
    recipes, tasks = several(folder, **changes)
    together, apart = ([folder / way / str(one.seed) for one in recipes] for way in ("together", "apart"))
    for one, task, out in zip(recipes, tasks, apart, strict=True):
        fit(one, task, out)
    runs = fit_together(recipes, [open_task(one) for one in recipes], together)
    assert [run.state for run in runs if isinstance(run, Run)] == ["finished"] * len(recipes)
    return together, apart


def largest_difference(a: Path, b: Path) -> float:
    """Of the losses, the norms of the gradients and the scores of two runs, relative."""
    one, other = ([{**line.pop("values", {}), **line} for line in told(run) if "prompt" not in line] for run in (a, b))
    assert [line.keys() for line in one] == [line.keys() for line in other]
    pairs = [(x[name], y[name]) for x, y in zip(one, other, strict=True) for name in x]
    numbers = [(x, y) for x, y in pairs if isinstance(x, float)]
    assert all(x == y for x, y in pairs if not isinstance(x, float))
    return max(abs(x - y) / max(abs(x), abs(y), 1e-3) for x, y in numbers)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": {"block": {"attention": {"position": "alibi"}}}},
        {"model": {"block": {"attention": {"position": "learned"}, "norm": {"kind": "rms"}}, "tied": True}},
        {"optimiser": {"kind": "muon", "average": 0.9}, "budget": {"accumulate": 2}},
    ],
    ids=["rope", "alibi", "learned and tied", "muon, average, accumulate"],
)
def test_runs_together_are_the_runs_apart(tmp_path, changes):
    for a, b in zip(*both_ways(tmp_path, **changes), strict=True):
        assert largest_difference(a, b) < 2e-3  # float32, 12 steps
        assert read_run(a, entries=False).notes[-1].startswith("Trained as one batched model with the seeds")
