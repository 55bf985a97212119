"""Recorded answers: from comparisons to results/QUESTION.json, and from there to the table of README.md.

    python recipes/questions/record.py FOLDER...    record comparisons, each of a question beside this script
    python recipes/questions/record.py --again      compute the verdicts and answers of all records again from their trials
    python recipes/questions/record.py --table      write the table again
    python recipes/questions/record.py --check      say whether the records' answers or the table have drifted from the code

A record is the comparison itself. `equiscope compare recipes/questions/results/QUESTION.json --out FOLDER` draws its page again.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from equiscope.comparison.answer import with_answer
from equiscope.comparison.looks import all_decided, checked, current_look
from equiscope.comparison.outcome import of_folder
from equiscope.comparison.plan import read_plan
from equiscope.comparison.question import read_question, seeds_of
from equiscope.record import Comparison
from equiscope.training.reading import differences, recipe

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
BEGIN, END = "<!-- table: python recipes/questions/record.py --table -->", "<!-- end of the table -->"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--again", action="store_true", help="compute all answers again from the trials of their records")
    parser.add_argument("--table", action="store_true", help="write the table of README.md")
    parser.add_argument("--check", action="store_true", help="only say whether the answers or that table have drifted")
    said = parser.parse_args(words)
    for folder in said.folders:
        print(f"wrote {record(folder)}")
    stale = [path for path in sorted(RESULTS.glob("*.json")) if said.again or said.check if not again(path, said.check)]
    for path in stale:
        print(f"results/{path.name} {'is stale: --again' if said.check else 'is written again'}")
    if said.folders or said.again or said.table or said.check:
        return table(said.check) or int(said.check and bool(stale))
    parser.print_usage()
    return 2


def record(folder: Path) -> Path:
    """Record the result of a comparison under the name of its question."""
    plan, found = read_plan(folder), of_folder(folder)
    look = current_look(found)
    ended = plan.until(look.seeds) if look is not None and all_decided(found.pairs) else plan
    if any(trial.state not in ("finished", "failed") for trial in found.trials) or len(found.trials) < len(list(ended.jobs())):
        sys.exit(f"{folder} is not done: equiscope compare {folder}")
    for path in sorted(FOLDER.glob("*.toml")):
        question, base, _ = read_question(path, [], small=False)
        if question.question != found.question:
            continue
        asked = recipe(plan.recipe).to_dict()  # fields that came later have their defaults
        if other := differences(base.to_dict() | {"title": ""}, asked | {"title": ""}):
            sys.exit(f"{folder} is of another recipe than {path.name}: {'; '.join(other[:4])}.")
        if seeds_of(question.seeds, base.seed) != plan.seeds or checked(question.looks, len(plan.seeds)) != plan.looks:
            sys.exit(f"{folder} has the seeds {plan.seeds} and looks at {plan.looks}, and {path.name} others.")
        if plan.smallest_effect not in (None, question.smallest_effect):  # a plan may be older than this field
            sys.exit(f"{folder} has the smallest effect {plan.smallest_effect}, and {path.name} {question.smallest_effect}.")
        trials = [msgspec.structs.replace(t, reason=t.reason.replace(f"{folder.resolve()}/", "")) for t in found.trials]
        kept = with_answer(msgspec.structs.replace(found, trials=trials, smallest_effect=question.smallest_effect))
        kept = msgspec.structs.replace(kept, command=f"equiscope compare recipes/questions/{path.name}")
        out = RESULTS / f"{path.stem}.json"
        out.parent.mkdir(exist_ok=True)
        out.write_bytes(encoded(kept))
        return out
    sys.exit(f"No question here is that of {folder}: {found.question!r}")


def again(path: Path, check: bool) -> bool:
    """Compute a record's verdicts and answer again from its trials, and write it, unless only checking; whether nothing changed."""
    before = path.read_bytes()
    after = encoded(with_answer(msgspec.convert(msgspec.json.decode(before) | {"pairs": []}, Comparison)))
    if after != before and not check:
        path.write_bytes(after)
    return after == before


def encoded(comparison: Comparison) -> bytes:
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"


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
        kept = RESULTS / f"{path.stem}.json"
        cells = ["not measured", "", ""]
        if kept.exists():
            found = msgspec.json.decode(kept.read_bytes(), type=Comparison)
            minutes = sum(trial.seconds for trial in found.trials) / 60
            notes = "".join(f"<br>{note}" for note in found.notes)
            where = found.machine.get("gpu") or found.machine.get("cpu", "?")
            cells = [found.answer + notes, str(len(found.seeds)), f"{minutes:.0f} min on {where}"]
        lines.append(f"| [{question.question}]({path.name}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
