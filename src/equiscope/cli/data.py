"""`equiscope data`: the data of recipes: where to get it, and whether it is present and valid."""

import json as json_text
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from equiscope.data.catalogue import Dataset, FileStatus, catalogue, commands, dataset_named, locate
from equiscope.data.files import find_files, folders
from equiscope.data.molecules import FITTED
from equiscope.errors import InputError

WIDE = 180  # columns where no terminal says how many there are
SIGNS = {"valid": "✓", "invalid": "✗", "missing": "–", "unchecked": " "}


def run(name: str | None, check: bool, json: bool) -> int:
    """Exit code 1 if a checksum is wrong."""
    if name is not None and name.endswith(".toml"):
        return _of_recipe(Path(name), check, json)
    sets = catalogue() if name is None else {name: dataset_named(name)}
    looked = {one: locate(one, folders(), check) for one in sets}
    if json:
        print(json_text.dumps([_plain(one, sets[one], files) for one, files in looked.items()]))
    elif name is not None:
        _one(name, sets[name], looked[name])
    else:
        _all(sets, looked, check)
    return int(any(file.state == "invalid" for files in looked.values() for file in files))


def _all(sets: dict[str, Dataset], statuses: dict[str, list[FileStatus]], check: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="none")
    for heading in ("data", "for", "MB", "what", "licence", "here"):
        table.add_column(heading, justify="right" if heading == "MB" else "left")
    for name, dataset in sets.items():
        licence = dataset.licence.partition(";")[0] + ("" if dataset.share else ": do not redistribute")
        table.add_row(name, dataset.use, f"{dataset.bytes / 1e6:.1f}", dataset.title, licence, _here(statuses[name], check))
    console = _console()
    console.print(table)
    wrong = [f"{name}/{f.file.name}" for name, files in statuses.items() for f in files if f.state == "invalid"]
    if wrong:
        console.print(f"\nNot as listed: {', '.join(wrong)}. Fetch them again.")
    console.print("\nHow to get one, and its files: equiscope data NAME. Whether all are valid: equiscope data --check.")


def _one(name: str, dataset: Dataset, files: list[FileStatus]) -> None:
    say = _console().print
    say(f"{name}: {dataset.what}.")
    say(f"Licence: {dataset.terms}. Parts: {dataset.rule}.")
    if dataset.note:
        say(dataset.note)
    say(f"From {' and '.join(f'github.com/{page.repository}' for page in dataset.pages)}. In the folder from which you train:")
    for command in commands(name):
        print(f"  {command}")
    if any(not one.file.upstream for one in files):
        say("A clone does not hold all of these files in this form.")
    say("")
    for one in files:
        where = "" if not one.paths else str(one.paths[0]) if len(one.paths) == 1 else f"{len(one.paths)} files of a clone"
        facts = f"{one.file.bytes:>10,}  {one.file.sha256[:12]}…  {name}/{one.file.name}"
        print(f"{SIGNS[one.state]} {one.state:9} {facts}  {where}".rstrip())


def _here(files: list[FileStatus], check: bool) -> str:
    there = [one for one in files if one.state != "missing"]
    if not there:
        return "no"
    path = there[0].paths[0]
    folder = next((str(up) for up in path.parents if up.name in catalogue()), str(path.parent))
    count = "" if len(there) == len(files) else f", {len(there)} of {len(files)} files"
    wrong = sum(one.state == "invalid" for one in files)
    return folder + count + (f", {wrong} invalid" if wrong else ", valid" if check else "")


def _of_recipe(path: Path, check: bool, json: bool) -> int:
    """What one recipe needs: every name in its data that is a path."""
    from equiscope.training import read_recipe

    states = {name: _state(name, path.parent, check) for name in needed(read_recipe(path).to_dict()["data"])}
    if json:
        print(json_text.dumps(states))
    elif not states:
        print("This recipe reads no files: its examples are generated.")
    else:
        for name, state in states.items():
            print(f"{SIGNS[state]} {state:9} {name}")
        for dataset in dict.fromkeys(name.partition("/")[0] for name, state in states.items() if state == "missing"):
            if dataset in catalogue():
                print("\n".join([f"\nTo get {dataset}, under the licence {dataset_named(dataset).terms}:", *commands(dataset)]))
    return int("invalid" in states.values())


def _state(name: str, recipe_folder: Path, check: bool) -> str:
    """The status of a file that a recipe names."""
    try:
        find_files(name, recipe_folder)
        known = locate(name, [recipe_folder, *folders()], check) if name.partition("/")[0] in catalogue() else []
        return known[0].state if known else "unchecked"
    except InputError:
        return "missing"


def needed(data: dict[str, Any]) -> list[str]:
    """The files that a recipe's data names."""
    held = [data.get(part) for part in ("train", "validation", "test")]
    files = [name for one in held if one is not None for name in ([one] if isinstance(one, str) else one)]
    files += [name for name in [data.get("references")] if name not in (None, *FITTED)]
    tokens = data.get("tokens")
    return list(dict.fromkeys([*files, *([tokens] if isinstance(tokens, str) and tokens.endswith(".json") else [])]))


def _plain(name: str, dataset: Dataset, files: list[FileStatus]) -> dict[str, Any]:
    return {
        "name": name, "use": dataset.use, "what": dataset.what, "licence": dataset.licence, "may be shared": dataset.share,
        "bytes": dataset.bytes, "rule": dataset.rule, "note": dataset.note, "commands": commands(name),
        "pages": [f"https://github.com/{page.repository}" for page in dataset.pages],
        "files": [
            {"name": one.file.name, "bytes": one.file.bytes, "sha256": one.file.sha256, "state": one.state,
             "paths": [str(path) for path in one.paths]}
            for one in files
        ],
    }  # fmt: skip


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
