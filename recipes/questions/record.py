"""Recorded answers: from comparisons to results/QUESTION.json, and from there to the table of README.md.

    python recipes/questions/record.py FOLDER...    record comparisons, each of a question beside this script
    python recipes/questions/record.py --table      write the table again; with --check, say whether it has drifted

A record is the comparison itself. `equiscope compare recipes/questions/results/QUESTION.json --out FOLDER` draws its page again.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from equiscope.comparison.outcome import of_folder
from equiscope.comparison.plan import read_plan
from equiscope.comparison.question import read_question, seeds_of
from equiscope.record import Comparison
from equiscope.training.reading import differences, recipe

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- table: python recipes/questions/record.py --table -->", "<!-- end of the table -->"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--table", action="store_true", help="write the table of README.md")
    parser.add_argument("--check", action="store_true", help="only say whether that table has drifted")
    said = parser.parse_args(words)
    for folder in said.folders:
        print(f"wrote {record(folder)}")
    if said.folders or said.table or said.check:
        return table(said.check)
    parser.print_usage()
    return 2


def record(folder: Path) -> Path:
    """Keep what came of a comparison, under the name of the question that it answers."""
    plan, found = read_plan(folder), of_folder(folder)
    if any(trial.state not in ("finished", "failed") for trial in found.trials) or len(found.trials) < len(list(plan.jobs())):
        sys.exit(f"{folder} is not done: equiscope compare {folder}")
    for path in sorted(FOLDER.glob("*.toml")):
        question, base, _ = read_question(path, [], small=False)
        if question.question != found.question:
            continue
        asked = recipe(plan.recipe).to_dict()  # fields that came later have their defaults
        if other := differences(base.to_dict() | {"title": ""}, asked | {"title": ""}):
            sys.exit(f"{folder} is of another recipe than {path.name}: {'; '.join(other[:4])}.")
        if seeds_of(question.seeds, base.seed) != plan.seeds:
            sys.exit(f"{folder} has the seeds {plan.seeds}, and {path.name} others.")
        kept = msgspec.structs.replace(found, command=f"equiscope compare recipes/questions/{path.name}")
        out = FOLDER / "results" / f"{path.stem}.json"
        out.parent.mkdir(exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        return out
    sys.exit(f"No question here is that of {folder}: {found.question!r}")


def table(check: bool) -> int:
    """Write the table, or compare it."""
    readme = FOLDER / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    fresh = f"{before}{BEGIN}\n\n{rows()}\n{END}{rest.partition(END)[2]}"
    if check:
        print("recipes/questions/README.md is up to date" if fresh == text else "recipes/questions/README.md is stale: --table")
        return int(fresh != text)
    readme.write_text(fresh, encoding="utf-8")
    return 0


def rows() -> str:
    lines = ["| question | answer | seeds | took |", "| --- | --- | --- | --- |"]
    for path in sorted(FOLDER.glob("*.toml")):
        question = read_question(path, [], small=False)[0]
        kept = FOLDER / "results" / f"{path.stem}.json"
        cells = ["not measured", "", ""]
        if kept.exists():
            found = msgspec.json.decode(kept.read_bytes(), type=Comparison)
            minutes = sum(trial.seconds for trial in found.trials) / 60
            notes = "".join(f"<br>{note}" for note in found.notes)
            cells = [found.answer + notes, str(len(found.seeds)), f"{minutes:.0f} min on {found.machine.get('cpu', '?')}"]
        lines.append(f"| [{question.question}]({path.name}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
