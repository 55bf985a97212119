"""Plan: which runs a comparison is made of. Everything is looked at before anything is trained, and kept in plan.json.

So a comparison that was killed goes on by the same command, and any process of any machine can do any of its runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from equiscope import outputs
from equiscope.budgets import decoded, read
from equiscope.comparison.equal import equalled
from equiscope.comparison.vary import Change, changed, slug
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import describe
from equiscope.record import VERSION
from equiscope.record.comparison import Equal
from equiscope.training import Recipe, Task, open_task, recipe, resolve_spec
from equiscope.training.reading import differences

PLAN, RUNS = "plan.json", "runs"
HINT = "Choose another folder with --out."


class Job(Struct, frozen=True, kw_only=True):
    """One run: a candidate with a seed, and its folder, seen from the comparison's."""

    candidate: str
    seed: int
    folder: str


class Plan(Struct, frozen=True, kw_only=True):
    """What is compared.

    recipe      what all runs share, every field said; beside: the folder where its data is looked for first
    candidates  what each changes, by the dotted names of fields
    varied      those names
    threads     of one run: rounding depends on them, so they belong to the plan and not to the machine
    command     that made it
    """

    version: int = VERSION
    title: str
    question: str = ""
    recipe: dict[str, Any]
    beside: str
    candidates: dict[str, Change]
    varied: list[str]
    seeds: list[int]
    equal: Equal = ""
    threads: int = 1
    command: str = ""

    def jobs(self) -> Iterator[Job]:
        """Seed by seed, so that every candidate has a first answer soon."""
        for seed in self.seeds:
            for name in self.candidates:
                yield Job(candidate=name, seed=seed, folder=f"{RUNS}/{slug(name)}/seed-{seed}")

    def recipe_of(self, job: Job) -> Recipe:
        return made(self.recipe, self.candidates[job.candidate], job.candidate, job.seed)


def made(base: Mapping[str, Any], change: Change, name: str, seed: int) -> Recipe:
    """The recipe of a candidate. Raises InputError, with its name, where a value does not fit."""
    data = changed(dict(base), change) | {"seed": seed, "title": f"{base['title']}: {name}"}
    return recipe(data, f"Candidate {name!r}")


def planned(
    base: Recipe, beside: Path, candidates: Mapping[str, Change], seeds: Sequence[int], *,
    question: str = "", equal: Equal = "", threads: int = 1, command: str = "",
) -> Plan:  # fmt: skip
    """A plan whose every model was built once, without numbers, and reads the data.

    raises  InputError where there is nothing to compare, a candidate does not fit, or two would share a folder
    """
    if len(candidates) < 2:
        raise InputError(f"A comparison has two candidates or more, but got {len(candidates)}. Give --vary field=first,second.")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"Seeds are different whole numbers, at least one, but got {list(seeds)}.")
    slugs = [slug(name) for name in candidates]
    if len(set(slugs)) < len(slugs):
        raise InputError(f"Two candidates would have the same folder: {', '.join(slugs)}. Give them other names.")
    plain, opened = base.to_dict(), dict[str, Task]()

    def task_of(change: Change, name: str) -> Task:
        return opened_task(made(plain, change, name, seeds[0]))

    def opened_task(found: Recipe) -> Task:
        """The task of a candidate; candidates that read the same data share it."""
        key = repr(found.to_dict()["data"])
        opened[key] = opened.get(key) or open_task(found, beside)
        opened[key].recipe = found
        return opened[key]

    for name, change in candidates.items():
        found = made(plain, change, name, seeds[0])  # an error of it says the name
        try:
            describe(resolve_spec(opened_task(found)), 1, 1)  # which builds it, without numbers
        except EquiscopeError as error:
            raise InputError(f"Candidate {name!r}: {error}") from error
    fitting = equalled(candidates, base, equal, task_of) if equal else dict(candidates)
    varied = list(dict.fromkeys(path for change in candidates.values() for path in change))
    return Plan(
        title=base.title, question=question, recipe=plain, beside=str(beside.absolute()), candidates=fitting, varied=varied,
        seeds=list(seeds), equal=equal, threads=threads, command=command,
    )  # fmt: skip


def write_plan(plan: Plan, folder: Path) -> None:
    """Keep it, or see that the same is kept already. Raises InputError, with the differences, where another one is."""
    path = folder / PLAN
    if path.exists():
        there = read_plan(folder)
        if other := _other(there, plan):
            raise InputError(
                f"{folder} holds another comparison: {'; '.join(other[:4])}. Go on with it by `equiscope compare {folder}`, "
                "or choose another --out."
            )
        return
    outputs.make_folder(folder, HINT)
    outputs.write(path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n", HINT)


def _other(there: Plan, plan: Plan) -> list[str]:
    """What two plans say otherwise, words and threads left out; fields of the recipe that came later have their defaults."""
    a, b = (
        msgspec.structs.replace(p, command="", threads=1, question="", title="", recipe=recipe(p.recipe).to_dict() | {"title": ""})
        for p in (there, plan)
    )
    return differences(msgspec.to_builtins(a), msgspec.to_builtins(b))


def read_plan(folder: Path) -> Plan:
    """Raises InputError where there is none, or it is damaged."""
    path = folder / PLAN
    try:
        found = decoded(read(path), Plan)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{folder} holds no comparison: it has no {PLAN}.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is damaged: {error}. Bring it back, or compare again in another folder.") from error
    if found.version != VERSION:
        raise InputError(f"{path} has version {found.version}, but this equiscope reads version {VERSION}.")
    return found
