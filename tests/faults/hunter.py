"""A plugin of pytest: instead of all tests once, for each fault the tests that reach it, quickest first, until one fails.

Each fault has a forked process, so that the package is imported once. It runs the tests marked `quick` that reach the fault,
then the other tests of the default run, then the thorough ones. The first failure ends it, or the time limit.
"""

import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

import planted
import pytest

LIMIT = float(os.environ.get("EQUISCOPE_FAULT_LIMIT", "240"))  # seconds for each fault and speed
SLOWER = {"browser", "compile", "slow", "thorough"}
_failures: list[str] = []


def pytest_runtest_logreport(report):
    if report.failed:
        _failures.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    folder = Path(os.environ["EQUISCOPE_FAULTS"])
    reach, times, broken = read_notes(folder)
    numbers = [int(n) for n in os.environ["EQUISCOPE_FAULT_NUMBERS"].split(",")]
    for number in numbers:
        some = [item for item in session.items if number not in reach or bare(item.nodeid) in reach[number]]  # not mapped: all
        items = sorted((i for i in some if bare(i.nodeid) not in broken), key=lambda i: times[bare(i.nodeid)])
        speeds = {"quick": [], "default": [], "thorough": []}
        for item in items:
            speeds[speed(item)].append(item)
        result = {"fault": number, "reached": len(items)}
        for name, part in speeds.items():
            answer = forked(number, part) if part else None
            result[name] = answer
            if name == "default" and (answer or result["quick"]):
                break
        with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
    return True


def read_notes(folder: Path) -> tuple[dict[int, set[str]], dict[str, float], set[str]]:
    """Which tests reach each fault, how long each test takes, and which fail with no fault awake."""
    reach: dict[int, set[str]] = defaultdict(set)
    times: dict[str, float] = defaultdict(float)
    broken = set()
    for file in folder.glob("notes*"):
        lines = file.read_text(encoding="utf-8").splitlines()
        if file.suffix == ".times":
            times |= {bare(test): float(seconds) for test, seconds in (line.split("\t") for line in lines)}
        elif file.suffix == ".failed":
            broken |= set(map(bare, lines))
        else:
            for number, test in (line.split("\t") for line in lines):
                reach[int(number)].add(bare(test))
    return reach, times, broken


def bare(node: str) -> str:
    """Without the group that xdist writes behind a test."""
    return node.split("@")[0] if "[" not in node else node[: node.rindex("]") + 1]


def speed(item) -> str:
    marks = {mark.name for mark in item.iter_markers()}
    return "thorough" if "thorough" in marks else "quick" if "quick" in marks and not marks & SLOWER else "default"


def forked(number: int, items: list) -> str | None:
    """The first of these tests that fails while the fault is awake; "time" where a test does not end."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        planted.AWAKE, planted.NOTES = number, None
        os.environ["EQUISCOPE_FAULT"] = str(number)
        _failures.clear()
        end, ran = time.monotonic() + LIMIT, 0
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            ran += 1
            if _failures or time.monotonic() > end:
                break
        os.write(write, json.dumps(_failures[0] if _failures else None if ran == len(items) else f"limit after {ran}").encode())
        os._exit(0)
    os.close(write)
    try:
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(int(LIMIT) + 60)
        with os.fdopen(read) as pipe:
            answer = pipe.read()
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        answer = '"time"'
    finally:
        signal.alarm(0)
    os.waitpid(child, 0)
    return json.loads(answer) if answer else "crash"


def _too_long(*_: object) -> None:
    raise TimeoutError
