"""Compare candidates, from a recipe's file to an answer. Source of the name: the command `equiscope compare`, which calls this."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equiscope.comparison.outcome import of_folder, of_runs
from equiscope.comparison.plan import PLAN, Plan, make_plan, read_plan, write_plan
from equiscope.comparison.question import is_question, read_question, seeds_of
from equiscope.comparison.tuning import tuned
from equiscope.comparison.vary import parse_vary, resolved
from equiscope.comparison.workers import Tick, run_all
from equiscope.errors import InputError
from equiscope.record.comparison import Comparison, Equal
from equiscope.record.run import RUN
from equiscope.training import read_recipe
from equiscope.training.verbs import folder_name

COMPARISONS = Path("comparisons")


def compare(
    source: str | Path | Sequence[str | Path], *, vary: Sequence[str] = (), seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None, changes: Sequence[str] = (), small: bool = False, equal: Equal = "",
    processes: int = 1, threads: int | None = None, tick: Tick = lambda running: None,
) -> Comparison:  # fmt: skip
    """Train every candidate with every seed, and compare what came of it.

    source     a recipe or a question (.toml); the folder of a comparison, which continues; or the folders of two runs or more
    vary       "position=none,rope,alibi": fields and their values; every combination is a candidate
    seeds      how many, or which; 3 by default
    out        folder of the runs; comparisons/NAME by default
    changes    "budget.steps=500": fields to change for all candidates
    small      with the changes of the recipe's table [small]
    equal      what is made equal beside data and seeds: "parameters" (by the width of the feed-forward) or "compute" (by steps)
    processes  runs at a time on this machine; threads: of each run, the machine's cores over the processes by default
    tick       is called with the runs that are being trained, a few times a second
    returns    the comparison, with its answer
    raises     InputError where a candidate does not fit, nothing varies, or the folder holds another comparison
    """
    sources = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    if len(sources) > 1 or (sources[0] / RUN).is_file():
        nothing_else(vary, seeds, changes, small, equal, "Runs are compared as they are")
        return compare_runs(sources)
    folder, plan = plan_of(sources[0], vary, seeds, out, changes, small, equal, threads or share_of_cores(processes))
    if not (sources[0] / PLAN).is_file():
        plan = tuned(folder, plan, lambda place, trials: run_all(place, trials, processes, tick))
    write_plan(plan, folder)
    run_all(folder, plan, processes, tick)
    return of_folder(folder)


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """The comparison of runs that were trained before. Raises InputError for a single one."""
    if len(folders) == 1:
        raise InputError(f"{folders[0]} is one run. Give two or more, or a recipe with --vary.")
    return of_runs(folders)


def plan_of(
    source: Path, vary: Sequence[str], seeds: int | Sequence[int] | None, out: str | Path | None, changes: Sequence[str],
    small: bool, equal: Equal, threads: int,
) -> tuple[Path, Plan]:  # fmt: skip
    """The folder of a comparison, and its plan: read, where the source is such a folder, else made, and not yet written."""
    if (source / PLAN).is_file():
        nothing_else(vary, seeds, changes, small, equal, f"{source} goes on with its own plan")
        return source, read_plan(source)
    number = ",".join(map(str, seeds)) if isinstance(seeds, Sequence) else str(seeds or "")
    parts = [*vary, *changes, *([number] if number else []), *(["small"] if small else [])]
    folder = Path(out or COMPARISONS / folder_name(source, False, [part.replace(" ", "") for part in parts]))
    question, count, goal = "", 3, equal  # type: str, int | Sequence[int], Equal
    sizes: Sequence[float] | None = None
    tune: dict[str, list[Any]] = {}
    if is_question(source):
        if vary:
            raise InputError(f"{source} says itself what varies. Leave --vary out, or give its recipe.")
        read, recipe, recipe_folder = read_question(source, list(changes), small)
        question, count, goal = read.question, read.seeds, equal or read.equal
        task = recipe.to_dict()["data"]["task"]
        sizes, tune = read.sizes, {resolved(name, task): values for name, values in read.tune.items()}
        candidates = read.candidates(task, source)
    else:
        recipe, recipe_folder = read_recipe(source, list(changes), small), source.parent
        if not vary:
            raise InputError("There is nothing to compare. Say what varies, such as --vary position=none,sinusoidal,rope.")
        candidates = parse_vary(vary, recipe.to_dict()["data"]["task"])
    chosen = seeds_of(count if seeds is None else seeds, recipe.seed)
    words = ["equiscope", "compare", str(source)]
    words += [part for axis in vary for part in ("--vary", axis)] + [part for change in changes for part in ("--set", change)]
    words += ["--small"] * small + (["--seeds", number] if number else []) + (["--equal", equal] if equal else [])
    return folder, make_plan(
        recipe, recipe_folder, candidates, chosen, question=question, equal=goal, threads=threads,
        command=shlex.join([*words, "--out", str(folder)]), sizes=sizes, tune=tune,
    )  # fmt: skip


def share_of_cores(processes: int) -> int:
    """Threads of one run, where so many are trained at a time."""
    return max(1, (os.cpu_count() or 1) // processes)


def nothing_else(vary: object, seeds: object, changes: object, small: object, equal: object, why: str) -> None:
    """Raises InputError where an option was given that does not apply."""
    given = {"--vary": vary, "--seeds": seeds, "--set": changes, "--small": small, "--equal": equal}
    if wrong := [name for name, value in given.items() if value]:
        raise InputError(f"{why}. Leave {', '.join(wrong)} out.")
