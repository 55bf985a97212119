"""`draw FOLDER` draws faults, `plant FOLDER` writes them into a copy, `table FOLDER` writes the page of the results."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from tests.faults.draw import Fault, carried, drawn, plant

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "why" / "faults.md"
HEAD = """# Planted faults

Do the tests find a small bug? A seeded script drew {count} expressions from seven parts of the package and replaced each with a
small bug (mutation testing): another operator or comparison, a dropped operand, an index off by one, swapped arguments, another
axis. It drew them at commit 5fb4f353. Expressions that were renamed or moved later were renamed in `tests/faults/drawn.json`; the
table gives the lines of the last run. For each fault, the tests that evaluate the expression run until one fails. The checks of
shapes and types (`--shapes`) are off. `tests/faults` has the script and its commands; this page is its output.

At first, no test that ran found {unnoticed} of the faults. A test was added for each of them, and a note says so. The numbers below
include these tests, so they do not estimate how many other bugs the tests would find.

*Equivalent* faults change no result; their notes say why. *Any run* is the quick, the default or the thorough run.
{compared}

"""
ALL_FOUND = """The default run finds every fault that is not equivalent."""
UNNOTICED = "no test that ran noticed it; one was added"
RESULT = {True: "yes", False: "no"}
LONGEST = 60  # characters of an expression


def main(verb: str, folder: str) -> None:
    package = Path(folder) / "src" / "equiscope"
    if verb == "draw":
        faults = [{k: v for k, v in asdict(fault).items() if k not in ("start", "stop")} for fault in drawn(package)]
        (HERE / "drawn.json").write_text(json.dumps(faults, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    elif verb == "plant":
        faults = carried(package)
        plant(package, faults)
        notes = Path(folder) / "faults"
        notes.mkdir(exist_ok=True)
        (notes / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults], indent=1), encoding="utf-8")
    else:
        PAGE.write_text(page(Path(folder)), encoding="utf-8")


def page(folder: Path) -> str:
    """The page, from the results of one hunt. A fault that was run several times is found if one of these runs found it."""
    faults = [Fault(**fault) for fault in json.loads((folder / "faults.json").read_text(encoding="utf-8"))]
    aside = json.loads((HERE / "set_aside.json").read_text(encoding="utf-8"))
    found: dict[int, set[str]] = defaultdict(set)
    unfinished: set[int] = set()
    for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        answers = {speed: result.get(speed) for speed in ("quick", "default", "thorough")}
        found[result["fault"]] |= {speed for speed, answer in answers.items() if is_failure(answer)}
        unfinished |= {result["fault"]} if any((answer or "").startswith("limit") for answer in answers.values()) else set()
    rows, totals = [], defaultdict(lambda: [0, 0, 0, 0, 0])
    for fault in faults:
        note = aside.get(str(fault.number), "")
        if fault.number not in found or (fault.number in unfinished and not found[fault.number] and not note):
            raise ValueError(f"Fault {fault.number} was not run to the end. Run it, with a larger EQUISCOPE_FAULT_LIMIT.")
        speeds = found[fault.number]
        quick, default, thorough = "quick" in speeds, bool(speeds & {"quick", "default"}), bool(speeds)
        counts = totals[fault.room]
        counts[0] += 1
        counts[1] += bool(note) and not thorough
        for i, hit in enumerate((thorough, default, quick), 2):
            counts[i] += hit
        cells = [str(fault.number), fault.room, f"`{fault.file}:{fault.line}`", fault.kind, change(fault)]
        rows.append([*cells, *("" if note and not thorough else RESULT[hit] for hit in (thorough, default, quick)), note])
    sums = [[room, *map(str, counts)] for room, counts in totals.items()]
    sums.append(["**all**", *(str(sum(counts[i] for counts in totals.values())) for i in range(5))])
    titles = ["part", "faults", "equivalent", "found by any run", "by the default run", "by the quick run"]
    long = ["", "part", "where", "mistake", "change", "any run", "default", "quick", "note"]
    missed = [fault.number for fault in faults if not found[fault.number] & {"quick", "default"} and str(fault.number) not in aside]
    compared = f"The default run misses: {', '.join(map(str, missed))}." if missed else ALL_FOUND
    head = HEAD.format(count=len(faults), compared=compared, unnoticed=list(aside.values()).count(UNNOTICED))
    return head + table(titles, sums) + "\n## Each fault\n\n" + table(long, rows)


def is_failure(answer: str | None) -> bool:
    return answer is not None and not answer.startswith("limit")


def change(fault: Fault) -> str:
    """The expression and its mistake, shortened such that their difference is shown."""
    both = [" ".join(text.split()).replace("|", "\\|") for text in (fault.original, fault.mistaken)]
    if both[0][: LONGEST - 1] == both[1][: LONGEST - 1]:
        first = next(i for i, (a, b) in enumerate(zip(*both, strict=False)) if a != b)
        both = [f"…{text[first - LONGEST // 2 :]}" for text in both]
    return " → ".join(f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`" for text in both)


def table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
