"""`equiscope new`: looks at data, and writes a recipe for it."""

import json as json_text
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from equiscope import outputs
from equiscope.errors import InputError, counted

if TYPE_CHECKING:
    from equiscope.training.draft import RecipeDraft


def new(
    names: list[str], start: Path | None, out: Path | None, minutes: float, explain: bool, json: bool, force: bool,
    metadata: str = "", target: str | None = None,
) -> None:  # fmt: skip
    """explain: print what was understood, and write nothing.

    metadata  columns that are read with each example, between commas; target: the column that is predicted
    """
    from equiscope.training.draft import ChosenColumns, look_into

    if out is not None and out.suffix != ".toml":
        raise InputError(f"--out {out} is to be a recipe, whose name ends in .toml.")
    wanted = ChosenColumns([name for one in metadata.split(",") if (name := one.strip())], target)
    parent = out.parent if out is not None else Path()
    found = look_into(names, None if start is None else str(start), wanted, parent, not explain)
    understood, warnings, draft = found.draft.understood, found.draft.warnings, found.draft
    if explain:
        if json:
            print(
                json_text.dumps(
                    {"understood": understood, "warnings": warnings, "recipe": draft.recipe(), "files": list(draft.files)}
                )
            )
        else:
            print("\n".join([*understood, *(f"Warning: {one}" for one in warnings)]))
        return
    try:
        _write(draft, out or Path(f"{draft.title.replace(' ', '_')}.toml"), minutes, json, force)
    except BaseException:  # Ctrl-C too: without a recipe the files of an archive are of no use
        if found.folder is not None:
            shutil.rmtree(found.folder, ignore_errors=True)
        raise


def _write(draft: "RecipeDraft", path: Path, minutes: float, json: bool, force: bool) -> None:
    """Write a recipe, and print what was understood and the next commands."""
    from equiscope.training.draft import fit_budget, moved, timed, toml

    understood, warnings = draft.understood, draft.warnings
    written = [path, *(path.parent / name for name in draft.files)]
    if not force and (there := [str(file) for file in written if file.exists()]):
        raise InputError(f"{', '.join(there)} is there already. Give another file with --out, or --force to replace it.")
    if path.parent.resolve() != Path.cwd().resolve():
        for part in ("train", "validation", "test"):
            if isinstance(name := draft.data.get(part), str) and name not in draft.files:
                draft.data[part] = str(Path(name).absolute())
            elif isinstance(name, list):
                draft.data[part] = [str(Path(one).absolute()) for one in name]
        draft.files = {name: moved(content, path.parent) for name, content in draft.files.items()}
    outputs.check(path)
    if not json:
        print("\n".join([*understood, *(f"Warning: {one}" for one in warnings)]))
        print("Timing ten steps ...", file=sys.stderr, flush=True)
    fresh = [file for file in written if not file.exists()]
    try:
        for name, content in draft.files.items():
            outputs.put(path.parent / name, content)
        timing = timed(draft, path.parent)
        budget = fit_budget(draft, timing, minutes)
        outputs.put(path, toml(draft, budget))
    except BaseException:  # Ctrl-C too: without a recipe its tables are of no use
        for file in fresh:
            file.unlink(missing_ok=True)
        raise
    run = Path("runs") / path.stem
    commands = [
        f"equiscope train {shlex.quote(os.fspath(path))}",
        f"equiscope evaluate {shlex.quote(os.fspath(run))}",
        f"equiscope predict {shlex.quote(os.fspath(run))} {' '.join(map(shlex.quote, draft.example))}",
    ]
    if json:
        seconds = timing.seconds(draft.steps, draft.evaluations)
        facts: dict[str, object] = {
            "recipe": str(path),
            "files": list(map(str, written)),
            "understood": understood,
            "warnings": warnings,
        }
        facts |= {"steps": draft.steps, "seconds": seconds, "parameters": timing.parameters, "commands": commands}
        print(json_text.dumps(facts))
        return
    print(f"{path}: a model of {counted(timing.parameters, 'parameter')}, {counted(draft.steps, 'step')}, {budget}.")
    print("Next:")
    print("\n".join(f"  {command}" for command in commands))
