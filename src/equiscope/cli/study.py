"""`equiscope study`: answer one question by measuring, now; without a name, list the questions."""

import json as json_text
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.study import STUDIES, StudyResult, study_named
from equiscope.study.plot import draw, installed

HINT = "Choose another folder with --out."
CLAIMS = ("claims", "Which claims of the literature about transformers are true? Each is measured.", "the source of each claim")


def run(name: str | None, claim: str | None, out: Path | None, seed: int, quick: bool, json: bool, names: bool) -> None:
    if name == "claims":
        from equiscope.cli import claims

        claims.run(claim, out, seed, quick, json, names)
        return
    if claim is not None:
        raise InputError(f"Only claims takes a second name, but got {claim!r}. Ask one question at a time: equiscope study {name}.")
    if name is None or names:
        if out is not None:
            raise InputError(f"--out writes one study. Name it: equiscope study {STUDIES[0].name} --out {out}.")
        _list(json)
        return
    study = study_named(name)
    ready(out, [f"{study.name}.{kind}" for kind in ("json", "png", "svg")])
    result = study.run(seed, quick, terminal_progress)
    if json:
        print(result.to_json())
    else:
        _text(result)
    if out is not None:
        for path in write(result, out):
            print(f"wrote {path}", file=sys.stderr)


def write(result: StudyResult, folder: Path) -> list[Path]:
    """The finding as JSON and its picture as PNG and SVG. Raises InputError where matplotlib is missing."""
    outputs.make_folder(folder, HINT)
    data = outputs.write(folder / f"{result.study}.json", result.to_json() + "\n", HINT)
    return [data, *(draw(result, folder / f"{result.study}.{kind}") for kind in ("png", "svg"))]


def ready(out: Path | None, names: Iterable[str]) -> None:
    """Raises InputError, before anything is measured, where the files of a folder cannot be written, or nothing draws them."""
    if out is not None:
        installed()
        outputs.check_files(out, names, HINT)


def terminal_progress(items: Iterable[Any], what: str = "") -> Iterator[Any]:
    """On a terminal, how far the study is; on the error stream, so that a pipe gets the answer alone."""
    console = Console(stderr=True)
    yield from track(list(items), what, console=console, transient=True, disable=not console.is_terminal)


def _list(json: bool) -> None:
    rows = [(study.name, study.question, study.source) for study in STUDIES] + [CLAIMS]
    if json:
        print(json_text.dumps([dict(zip(("name", "question", "source"), row, strict=True)) for row in rows], ensure_ascii=False))
        return
    width = max(len(name) for name, *_ in rows)
    for name, question, _ in rows:
        print(f"{name:{width}}  {question}")
    print("\nequiscope study NAME answers one of them; equiscope study claims NAME measures one claim.")


def _text(result: StudyResult) -> None:
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(f"{result.question}\n", style="bold", markup=False)
    console.print(f"{result.answer}\n", markup=False)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for number, heading in enumerate(result.table.heading):
        table.add_column(heading, justify="right" if number else "left")
    for row in result.table.cells():
        table.add_row(*row)
    console.print(table)
    for note in result.notes:
        console.print(f"\n- {note}", markup=False)
    form = ", quick form" if result.quick else ""
    console.print(f"\nSource: {result.source}. Data: {result.data}. Seed {result.seed}{form}.", style="dim", markup=False)
