"""The table of planted differences: how many first steps and causes are right, and how many healthy pairs raise an alarm."""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .planted_by_others.cases import Case
from .planted_by_others.judged import judge, judge_healthy


def main(cases: Iterable[Case], healthy: Mapping[str, Callable[[], tuple]], known: Path, by: str) -> None:
    """Print the wrong answers and the table. by: the field of a case that makes the rows; known: what --record writes."""
    parser = argparse.ArgumentParser(description="Right steps, right causes and false alarms of equiscope.parity.")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--record", action="store_true", help=f"write {known.name}")
    options = parser.parse_args()
    rows, failures, start = defaultdict(lambda: [0, 0, 0]), {}, time.process_time()
    for case in cases:
        if options.only in case.name:
            answer = judge(case)
            for key in (getattr(case, by), f"form {case.form}", "all planted"):
                rows[key] = [n + more for n, more in zip(rows[key], (1, answer.step, answer.cause), strict=True)]
            if not (answer.step and answer.cause):
                wrong = " and ".join(word for word, right in (("step", answer.step), ("cause", answer.cause)) if not right)
                failures[case.name] = f"{wrong}: {answer.said}"
                print(f"{case.name}\n    {failures[case.name]}", flush=True)
    some = {name: make for name, make in healthy.items() if options.only in name}
    alarms = {name: answer.said for name, make in some.items() if not (answer := judge_healthy(name, make)).step}
    for name, said in alarms.items():
        print(f"{name}\n    alarm: {said}")
    print(f"\n| {by} | pairs | right step | right cause |\n| --- | --- | --- | --- |")
    for key in sorted(rows, key=lambda k: (k.startswith("all"), k.startswith("form"), k)):
        print(f"| {key} | {' | '.join(map(str, rows[key]))} |")
    print(f"\n{len(alarms)} alarms at {len(some)} healthy pairs; {time.process_time() - start:.0f} CPU seconds")
    if options.record:
        failures |= {name: f"alarm: {said}" for name, said in alarms.items()}
        known.write_text(json.dumps(dict(sorted(failures.items())), indent=1, ensure_ascii=False) + "\n")
