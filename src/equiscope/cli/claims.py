"""`equiscope study claims`: what the literature says, sentence by sentence, measured now, with a verdict."""

import json as json_text
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from equiscope import outputs
from equiscope.cli.study import HINT, ready, terminal_progress
from equiscope.errors import InputError, counted
from equiscope.study.base import fmt
from equiscope.study.claims import LEDGER, THEMES, VERDICTS, ClaimResult, LedgerClaim, Setting, Verdict, claim_named, ledger_to_json
from equiscope.study.plot import draw

COLOURS: dict[Verdict, str] = {"true": "green", "true within limits": "yellow", "false": "red"}
Themes = Mapping[str, tuple[LedgerClaim, ...]]
PIPE = 110  # columns, where the output is no terminal


def run(name: str | None, out: Path | None, seed: int, quick: bool, json: bool, names: bool, themes: Themes = THEMES) -> None:
    if names:
        if out is not None:
            raise InputError("--list measures nothing, so there is nothing to write. Leave out --list or --out.")
        _list(json)
        return
    chosen = [claim_named(name)] if name is not None else [claim for claims in themes.values() for claim in claims]
    pictures = [f"{claim.name}.{kind}" for claim in chosen for kind in ("png", "svg")[: 1 + (name is not None)]]
    ready(out, [f"{name or 'claims'}.json", *pictures])
    rulings = _measured(
        {theme: [c for c in claims if c in chosen] for theme, claims in themes.items()},
        Setting(quick, seed),
        live=name is None and not json,
    )
    if json:
        print(rulings[0].to_json() if name is not None else ledger_to_json(rulings))
    elif name is not None:
        _one(rulings[0])
    if out is not None:
        for path in write(rulings, out, "claims" if name is None else name):
            print(f"wrote {path}", file=sys.stderr)


def write(rulings: Sequence[ClaimResult], folder: Path, name: str) -> list[Path]:
    """The rulings as JSON and their pictures as PNG; of one alone also as SVG. Raises InputError where matplotlib is missing."""
    outputs.make_folder(folder, HINT)
    alone = len(rulings) == 1
    data = outputs.write(folder / f"{name}.json", (rulings[0].to_json() if alone else ledger_to_json(rulings)) + "\n", HINT)
    kinds = ("png", "svg") if alone else ("png",)
    return [data, *(draw(r.to_draw(), folder / f"{r.name}.{kind}") for r in rulings if r.panels for kind in kinds)]


def _measured(themes: Mapping[str, Sequence[LedgerClaim]], setting: Setting, live: bool) -> list[ClaimResult]:
    """The result of each claim; live: each theme is printed as soon as it is measured."""
    console = _console()
    rulings: list[ClaimResult] = []
    for theme, claims in themes.items():
        of_theme = [claim.run(setting) for claim in terminal_progress(claims, theme)] if claims else []
        rulings += of_theme
        if live:
            _theme(console, theme, of_theme)
    if live:
        counts = ", ".join(f"{sum(r.verdict == v for r in rulings)} {v}" for v in VERDICTS)
        form = ", quick form" if setting.quick else ""
        console.print(f"{counted(len(rulings), 'sentence')}: {counts}. Seed {setting.seed}{form}.", style="bold", markup=False)
        console.print("equiscope study claims NAME measures one again, with its limits, numbers and source.", style="dim")
    return rulings


def _theme(console: Console, theme: str, rulings: Sequence[ClaimResult]) -> None:
    table = Table(
        title=theme, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False, padding=(0, 2, 1, 0)
    )
    table.add_column(width=max(map(len, VERDICTS)), no_wrap=True)
    table.add_column()
    for ruling in rulings:
        table.add_row(f"[{COLOURS[ruling.verdict]}]{ruling.verdict}[/]", _body(ruling))
    console.print(table)


def _body(ruling: ClaimResult) -> Table:
    """Name, sentence and figure, one below the other; no markup is read out of them."""
    body = Table.grid()
    body.add_column()
    for line, style in ((ruling.name, "cyan"), (ruling.statement, ""), (ruling.figure, "dim")):
        body.add_row(_plain(line), style=style)
    return body


def _plain(line: str) -> str:
    return line.replace("[", r"\[")


def _one(ruling: ClaimResult) -> None:
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(f"“{ruling.statement}”\n", style="bold", markup=False)
    console.print(f"{ruling.verdict}\n", style=f"bold {COLOURS[ruling.verdict]}", markup=False)
    console.print(f"{ruling.figure}\n", markup=False)
    if ruling.limits:
        console.print(f"{ruling.limits}\n", markup=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in ruling.numbers.items():
        table.add_row(_plain(name), fmt(value))
    console.print(table)
    form = ", quick form" if ruling.quick else ""
    console.print(f"\nStated in: {ruling.source}.\nData: {ruling.data}. Seed {ruling.seed}{form}.", style="dim", markup=False)


def _list(json: bool) -> None:
    if json:
        rows = [{"name": c.name, "statement": c.statement, "source": c.source, "command": c.command} for c in LEDGER]
        print(json_text.dumps(rows, ensure_ascii=False))
        return
    width = max(len(claim.name) for claim in LEDGER)
    for theme, claims in THEMES.items():
        print(f"{theme}\n" + "".join(f"  {claim.name:{width}}  {claim.statement}\n" for claim in claims))
    print("equiscope study claims NAME measures one of them; without a name, all.")


def _console() -> Console:
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=PIPE)
