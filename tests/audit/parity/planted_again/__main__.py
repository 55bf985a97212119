"""Writes the table of these differences: python -m tests.audit.parity.planted_again [--only WORD] [--record]."""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

from .cases import CASES, HEALTHY
from .judged import judge, judge_healthy

KNOWN = Path(__file__).with_name("known_failures.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="Right steps, right causes and false alarms of equiscope.parity.")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--record", action="store_true", help=f"write {KNOWN.name}")
    options = parser.parse_args()
    rows, failures, start = defaultdict(lambda: [0, 0, 0]), {}, time.process_time()
    for case in CASES:
        if options.only in case.name:
            answer = judge(case)
            for key in (case.family, f"form {case.form}", "all planted"):
                rows[key] = [n + more for n, more in zip(rows[key], (1, answer.step, answer.cause), strict=True)]
            if not (answer.step and answer.cause):
                wrong = " and ".join(word for word, right in (("step", answer.step), ("cause", answer.cause)) if not right)
                failures[case.name] = f"{wrong}: {answer.said}"
                print(f"{case.name}\n    {failures[case.name]}", flush=True)
    alarms, healthy = 0, [name for name in HEALTHY if options.only in name]
    for name in healthy:
        answer = judge_healthy(name)
        if not answer.step:
            alarms += 1
            failures[name] = f"alarm: {answer.said}"
            print(f"{name}\n    {failures[name]}", flush=True)
    print("\n| pairs of | pairs | right step | right cause |\n| --- | --- | --- | --- |")
    for key in sorted(rows, key=lambda k: (k.startswith("all"), k.startswith("form"), k)):
        print(f"| {key} | {' | '.join(map(str, rows[key]))} |")
    print(f"\n{alarms} alarms at {len(healthy)} healthy pairs; {time.process_time() - start:.0f} CPU seconds")
    if options.record:
        KNOWN.write_text(json.dumps(dict(sorted(failures.items())), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
