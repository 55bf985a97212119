"""Compare candidates, from a recipe's file to an answer. Source of the name: the command `equiscope compare`, which calls this."""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import torch
from msgspec import Struct

from equiscope.comparison.looks import all_decided
from equiscope.comparison.outcome import of_folder, of_runs
from equiscope.comparison.plan import PLAN, Plan, add_seeds, make_plan, read_plan, write_plan
from equiscope.comparison.question import Question, is_question, read_question, seeds_of
from equiscope.comparison.tuning import tuned
from equiscope.comparison.vary import parse_vary
from equiscope.comparison.workers import Tick, run_all
from equiscope.errors import InputError
from equiscope.record.comparison import Comparison, Equal
from equiscope.record.run import RUN
from equiscope.training import read_recipe
from equiscope.training.field_names import resolved
from equiscope.training.registry import task_of
from equiscope.training.together import unsupported
from equiscope.training.verbs import folder_name

COMPARISONS = Path("comparisons")


class Options(Struct, frozen=True, kw_only=True):
    """What a comparison is asked for beside its source. The fields are the arguments of `compare`, and options of the command."""

    vary: Sequence[str] = ()
    seeds: int | Sequence[int] | None = None
    looks: Sequence[int] = ()
    smallest_effect: float | None = None
    changes: Sequence[str] = ()
    small: bool = False
    equal: Equal = ""

    def only(self, *names: str, why: str) -> None:
        """Raises InputError with the reason if another option than these was given."""
        wrong = [name for name in self.__struct_fields__ if getattr(self, name) and name not in names]
        if wrong:
            given = ("--set" if name == "changes" else f"--{name.replace('_', '-')}" for name in wrong)
            raise InputError(f"{why}. Leave {', '.join(given)} out.")


def compare(
    source: str | Path | Sequence[str | Path], *, vary: Sequence[str] = (), seeds: int | Sequence[int] | None = None,
    looks: Sequence[int] = (), smallest_effect: float | None = None, changes: Sequence[str] = (), small: bool = False,
    equal: Equal = "", out: str | Path | None = None, processes: int | None = None, threads: int | None = None,
    together: bool | None = None, tick: Tick = lambda running: None,
) -> Comparison:  # fmt: skip
    """Train every candidate with every seed, and compare the results.

    source     a recipe or a question (.toml); the folder of a comparison, which continues; or the folders of two runs or more
    vary       "position=none,rope,alibi": fields and their values; every combination is a candidate
    seeds      how many, or which; 3 by default. For the folder of a comparison, how many in all: the new ones are reported as
               not planned
    looks      (4, 8): test the pairs at 4 seeds, and train on to 8 only if a pair is undecided; by default once, at all seeds
    smallest_effect  smallest difference of the metric that matters; without one no pair is called equivalent
    changes    "budget.steps=500": fields to change for all candidates
    small      with the changes of the recipe's table [small]
    equal      what is made equal beside data and seeds: "parameters" (by the width of the feed-forward) or "compute" (by steps)
    out        folder of the runs; comparisons/NAME by default
    processes  runs at a time on this machine: one for each core by default, or one with a GPU; threads: of each run, the cores
               over the processes by default
    together   whether all seeds of a candidate are trained as one batched model; by default on a GPU, where a recipe supports that
    tick       is called with the runs that are being trained, a few times a second
    returns    the comparison, with its answer
    raises     InputError where a candidate does not fit, nothing varies, or the folder holds another comparison
    """
    sources = [Path(source)] if isinstance(source, str | Path) else [Path(one) for one in source]
    options = Options(
        vary=vary, seeds=seeds, looks=looks, smallest_effect=smallest_effect, changes=changes, small=small, equal=equal
    )
    if len(sources) > 1 or (sources[0] / RUN).is_file():
        options.only(why="Runs are compared as they are")
        return compare_runs(sources)
    folder, plan = plan_of(sources[0], options, out)
    plan, at_once = arranged(plan, processes, threads, together, resumed=(sources[0] / PLAN).is_file())
    if not (sources[0] / PLAN).is_file():
        plan = tuned(folder, plan, lambda place, trials: run_all(place, trials, at_once, tick))
    write_plan(plan, folder)
    for part in parts(folder, plan):
        run_all(folder, part, at_once, tick)
    return of_folder(folder)


def parts(folder: Path, plan: Plan) -> Iterator[Plan]:
    """The part of the plan until each look. Train it before the next is asked for: a look that decides every pair is the last."""
    for seeds in [len(plan.seeds)] if plan.added else plan.planned_looks():
        yield plan.until(seeds)
        if seeds < len(plan.seeds) and all_decided(of_folder(folder).pairs):
            return


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """The comparison of runs that were trained before. Raises InputError for a single one."""
    if len(folders) == 1:
        raise InputError(f"{folders[0]} is one run. Give two or more, or a recipe with --vary.")
    return of_runs(folders)


def plan_of(source: Path, options: Options, out: str | Path | None) -> tuple[Path, Plan]:
    """The folder of a comparison, and its plan: read, where the source is such a folder, else made, and not yet written."""
    seeds, looks, smallest_effect = options.seeds, options.looks, options.smallest_effect
    if (source / PLAN).is_file():
        options.only("seeds", why=f"{source} goes on with its own plan")
        return source, read_plan(source) if seeds is None else add_seeds(source, seeds)
    number = ",".join(map(str, seeds)) if isinstance(seeds, Sequence) else str(seeds or "")
    words = [*options.vary, *options.changes, *([number] if number else []), *(["small"] if options.small else [])]
    folder = Path(out or COMPARISONS / folder_name(source, False, [word.replace(" ", "") for word in words]))
    command = ["equiscope", "compare", str(source), *(part for axis in options.vary for part in ("--vary", axis))]
    command += [part for change in options.changes for part in ("--set", change)] + ["--small"] * options.small
    command += [*(["--seeds", number] if number else []), *(["--looks", ",".join(map(str, looks))] if looks else [])]
    command += ["--smallest-effect", f"{smallest_effect:g}"] if smallest_effect is not None else []
    command += ["--equal", options.equal] if options.equal else []
    if is_question(source):
        if options.vary:
            raise InputError(f"{source} says itself what varies. Leave --vary out, or give its recipe.")
        question, recipe, recipe_folder = read_question(source, list(options.changes), options.small)
        task = recipe.to_dict()["data"]["task"]
        candidates = question.candidates(task, source)
    else:
        recipe, recipe_folder = read_recipe(source, list(options.changes), options.small), source.parent
        if not options.vary:
            raise InputError("There is nothing to compare. Say what varies, such as --vary position=none,sinusoidal,rope.")
        question, task = Question(question="", recipe=str(source)), recipe.to_dict()["data"]["task"]
        candidates = parse_vary(options.vary, task)
    if seeds is None:
        seeds, looks = (looks[-1], looks) if looks else (question.seeds, question.looks)
    return folder, make_plan(
        recipe, recipe_folder, candidates, seeds_of(seeds, recipe.seed), question=question.question,
        equal=options.equal or question.equal, looks=looks, sizes=question.sizes,
        smallest_effect=question.smallest_effect if smallest_effect is None else smallest_effect,
        tune={resolved(name, task): values for name, values in question.tune.items()},
        command=shlex.join([*command, "--out", str(folder)]),
    )  # fmt: skip


def arranged(
    plan: Plan, processes: int | None, threads: int | None, together: bool | None, resumed: bool = False
) -> tuple[Plan, int]:  # fmt: skip
    """The plan with its threads and what is trained together, and how many processes run at a time.

    By default a run has one core to itself: two runs with one thread each compute more than one run with two threads, as long as
    there are runs enough. On a GPU there is one process.
    resumed  whether the plan has begun, and keeps both
    raises   InputError if no candidate can be trained together although that is requested
    """
    cores, jobs = os.cpu_count() or 1, list(plan.jobs())
    if not resumed:
        plan = msgspec.structs.replace(plan, together=torch.cuda.is_available() if together is None else together)
        groups = plan.groups(jobs)
        if together and len(groups) == len(jobs) > len(plan.candidates):
            first = plan.recipe_of(jobs[0])
            raise InputError(f"--together does not apply: {unsupported(first, task_of(first))}. Leave it out.")
    else:
        threads = plan.threads
    count = len(plan.groups(jobs))
    processes = processes or (1 if torch.cuda.is_available() else max(1, min(cores // (threads or 1), count)))
    return msgspec.structs.replace(plan, threads=threads or max(1, cores // min(processes, count))), processes
