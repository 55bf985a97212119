"""Plan: the runs of a comparison. All candidates are checked before training, and the plan is stored in plan.json.

A comparison that was killed resumes with the same command, and any process on any machine can do any of its runs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct, field

from equiscope import outputs
from equiscope.budgets import decoded, read
from equiscope.comparison.equal import equalize
from equiscope.comparison.looks import checked
from equiscope.comparison.vary import Change, apply_change, slug
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import Model, ModelSpec, build, describe
from equiscope.record import VERSION
from equiscope.record.comparison import Equal
from equiscope.training import Recipe, Task, open_task, recipe, resolve_spec
from equiscope.training.reading import differences
from equiscope.training.registry import task_of
from equiscope.training.together import unsupported

PLAN, RUNS = "plan.json", "runs"
HINT = "Choose another folder with --out."


class Job(Struct, frozen=True, kw_only=True):
    """One run: a candidate with a seed, and its folder relative to the comparison's."""

    candidate: str
    seed: int
    folder: str


class Plan(Struct, frozen=True, kw_only=True):
    """The runs of a comparison.

    recipe      common to all runs, with every field; recipe_folder: searched first for the data
    candidates  what each one changes, by the dotted names of fields
    varied      those names
    looks       numbers of seeds at which the pairs are tested; empty for a single look at all seeds
    added       numbers of seeds at unplanned looks after it
    smallest_effect  smallest difference of the metric that matters
    sizes       times the trained size at which each run is evaluated; None for the usual ones
    tune        fields whose values were chosen for each candidate before, from these; the candidates hold the choice
    check       whether the symmetries of each candidate are checked
    removed     candidates whose position scheme has no effect, and why: a norm subtracts what it adds
    threads     of one run: rounding depends on them, so they are part of the plan and not of the machine
    together    whether all seeds of a candidate are trained as one batched model, where its recipe supports that
    command     that made the plan
    """

    version: int = VERSION
    title: str
    question: str = ""
    recipe: dict[str, Any]
    recipe_folder: str
    candidates: dict[str, Change]
    varied: list[str]
    seeds: list[int]
    looks: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    smallest_effect: float | None = None
    sizes: list[float] | None = None
    tune: dict[str, list[Any]] = field(default_factory=dict)
    check: bool = True
    removed: dict[str, str] = field(default_factory=dict)
    equal: Equal = ""
    threads: int = 1
    together: bool = False
    command: str = ""

    def planned_looks(self) -> list[int]:
        """Without those that were added; the last is the number of planned seeds."""
        return self.looks or [len(self.seeds)]

    def until(self, seeds: int) -> "Plan":
        """The part of the plan with the first so many seeds."""
        return msgspec.structs.replace(self, seeds=self.seeds[:seeds])

    def jobs(self) -> Iterator[Job]:
        """Ordered by seed, so that every candidate has a first result soon."""
        for seed in self.seeds:
            for name in self.candidates:
                yield Job(candidate=name, seed=seed, folder=f"{RUNS}/{slug(name)}/seed-{seed}")

    def groups(self, jobs: Iterable[Job]) -> list[tuple[Job, ...]]:
        """These jobs as processes do them: all seeds of a candidate that are trained together, or one."""
        groups: dict[str, list[Job]] = {}
        for job in jobs:
            own_recipe = self.recipe_of(job)
            whole = self.together and not unsupported(own_recipe, task_of(own_recipe))
            groups.setdefault(job.candidate if whole else job.folder, []).append(job)
        return list(map(tuple, groups.values()))

    def checks(self, job: Job) -> bool:
        """Whether the symmetries are checked after this run: with the first seed, and once for candidates with the same model."""

        def parts(name: str) -> Change:
            return {path: value for path, value in self.candidates[name].items() if path.startswith(("model.", "data."))}

        first = next(name for name in self.candidates if parts(name) == parts(job.candidate))
        return self.check and job.seed == self.seeds[0] and job.candidate == first

    def recipe_of(self, job: Job) -> Recipe:
        return candidate_recipe(self.recipe, self.candidates[job.candidate], job.candidate, job.seed)


def candidate_recipe(base: Mapping[str, Any], change: Change, name: str, seed: int) -> Recipe:
    """The recipe of a candidate. Raises InputError with its name if a value does not fit."""
    data = apply_change(dict(base), change) | {"seed": seed, "title": f"{base['title']}: {name}"}
    return recipe(data, f"Candidate {name!r}")


def make_plan(
    base: Recipe, recipe_folder: Path, candidates: Mapping[str, Change], seeds: Sequence[int], *,
    question: str = "", equal: Equal = "", looks: Sequence[int] = (), smallest_effect: float | None = None,
    sizes: Sequence[float] | None = None, tune: Mapping[str, list[Any]] | None = None, check: bool = True, threads: int = 1,
    command: str = "",
) -> Plan:  # fmt: skip
    """A plan in which every model has been built once on the meta device and fits the data.

    looks   numbers of seeds at which the pairs are tested; by default once, at all seeds
    raises  InputError if there are fewer than two candidates, a candidate does not fit, two would share a folder, or the looks
            or the smallest effect are impossible
    """
    if len(candidates) < 2:
        raise InputError(f"A comparison has two candidates or more, but got {len(candidates)}. Give --vary field=first,second.")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"Seeds are different whole numbers, at least one, but got {list(seeds)}.")
    if smallest_effect is not None and not 0 < smallest_effect < math.inf:
        raise InputError(
            f"The smallest effect is a positive number in units of the metric, such as 0.01, but got {smallest_effect}."
        )
    slugs = [slug(name) for name in candidates]
    if len(set(slugs)) < len(slugs):
        raise InputError(f"Two candidates would have the same folder: {', '.join(slugs)}. Give them other names.")
    plain, opened = base.to_dict(), dict[str, Task]()

    def candidate_task(change: Change, name: str) -> Task:
        return opened_task(candidate_recipe(plain, change, name, seeds[0]))

    def opened_task(recipe_: Recipe) -> Task:
        """The task of a candidate; candidates that read the same data share it."""
        key = repr(recipe_.to_dict()["data"])
        opened[key] = opened.get(key) or open_task(recipe_, recipe_folder)
        opened[key].recipe = recipe_
        return opened[key]

    removed = {}
    for name, change in candidates.items():
        own_recipe = candidate_recipe(plain, change, name, seeds[0])  # an error of it says the name
        try:
            spec = resolve_spec(opened_task(own_recipe))
            describe(spec, 1, 1)  # which builds it, without numbers
            if reason := _removed(spec):
                removed[name] = reason
        except EquiscopeError as error:
            raise InputError(f"Candidate {name!r}: {error}") from error
    fitting = equalize(candidates, base, equal, candidate_task) if equal else dict(candidates)
    varied = list(dict.fromkeys(path for change in candidates.values() for path in change))
    return Plan(
        title=base.title, question=question, recipe=plain, recipe_folder=str(recipe_folder.absolute()),
        candidates=fitting, varied=varied, seeds=list(seeds), looks=checked(looks, len(seeds)), smallest_effect=smallest_effect,
        sizes=None if sizes is None else list(sizes), tune=dict(tune or {}), check=check, removed=removed, equal=equal,
        threads=threads, command=command,
    )  # fmt: skip


def _removed(spec: ModelSpec) -> str:
    """Why a part of the model removes what its position scheme adds; empty where none does."""
    with torch.device("meta"):
        model = build(spec)
    return model.because if isinstance(model, Model) else ""


def add_seeds(folder: Path, seeds: int | Sequence[int]) -> Plan:
    """The plan of a folder with more seeds, which make an unplanned look; it is not yet written.

    seeds   how many in all, or which, beginning with those of the plan
    raises  InputError if the plan has as many, or others
    """
    plan = read_plan(folder)
    if isinstance(seeds, int):
        seeds = [*plan.seeds, *range(max(plan.seeds) + 1, max(plan.seeds) + 1 + seeds - len(plan.seeds))]
    if len(seeds) <= len(plan.seeds) or list(seeds[: len(plan.seeds)]) != plan.seeds or len(set(seeds)) < len(seeds):
        raise InputError(
            f"{folder} has the seeds {plan.seeds}. --seeds adds to them: give a larger number, or these and further ones; "
            f"but got {list(seeds)}."
        )
    return msgspec.structs.replace(plan, seeds=list(seeds), looks=plan.planned_looks(), added=[*plan.added, len(seeds)])


def write_plan(plan: Plan, folder: Path) -> None:
    """Write the plan, or check that the folder has the same one. Raises InputError with the differences if it has another one.

    A plan with added seeds replaces the one that it was made from.
    """
    path = folder / PLAN
    if path.exists() and not plan.added:
        there = read_plan(folder)
        if other := _differences(there, plan):
            raise InputError(
                f"{folder} holds another comparison: {'; '.join(other[:4])}. Go on with it by `equiscope compare {folder}`, "
                "or choose another --out."
            )
        return
    outputs.make_folder(folder, HINT)
    outputs.write(path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n", HINT)


def _differences(there: Plan, plan: Plan) -> list[str]:
    """The differences between two plans, except titles and how runs are computed; missing fields of the recipe take their
    defaults.
    """
    a, b = (
        msgspec.structs.replace(
            p, command="", threads=1, together=False, question="", title="", recipe=recipe(p.recipe).to_dict() | {"title": ""}
        )
        for p in (there, plan)
    )
    return differences(msgspec.to_builtins(a), msgspec.to_builtins(b))


def read_plan(folder: Path) -> Plan:
    """The plan in a folder. Raises InputError if there is none, it is damaged, or it has another version."""
    path = folder / PLAN
    try:
        plan = decoded(read(path), Plan)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{folder} holds no comparison: it has no {PLAN}.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}. Restore it, or compare again in another folder.") from error
    if plan.version != VERSION:
        raise InputError(
            f"{path} has version {plan.version}, but this equiscope reads version {VERSION}. Compare again in another folder."
        )
    return plan
