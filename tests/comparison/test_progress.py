"""Without a terminal, lines say which stage each run is in, and about how long all runs will take."""

import msgspec
import pytest
from tests.comparison.synthetic_runs import finished, plan

from equiscope.cli.compare import ComparisonProgress, clock
from equiscope.comparison.measurements import MEASUREMENTS
from equiscope.record import Point


def test_each_stage_of_a_run_is_a_line(tmp_path, capsys):
    made = plan(tmp_path, seeds=(1,))
    folder, jobs = tmp_path / "compared", list(made.jobs())
    with ComparisonProgress(folder, jobs, steps=12, quiet=True, every=0.0) as progress:
        progress.tick(jobs[:1])
        metrics = finished(folder, made, jobs[0], loss=1.5) / "metrics.jsonl"
        (metrics.parent / MEASUREMENTS).unlink()
        whole = metrics.read_bytes()
        metrics.write_bytes(point(step=6, seconds=30.0))
        progress.tick(jobs[:1])
        metrics.write_bytes(whole + point(step=12, seconds=60.0))
        progress.tick(jobs[:1])
        (metrics.parent / MEASUREMENTS).write_bytes(b"{}")
        progress.tick([])
    lines = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == "rope with seed 1 starts: the data is read and the model is built."
    assert lines[1] == "0 of 3 runs done; rope 1 starts"
    assert lines[2] == "rope with seed 1 trains 12 steps."
    assert lines[3].startswith("0 of 3 runs done, about ")
    assert lines[3].endswith(" left; rope 1 at step 6 of 12")
    assert lines[4] == "rope with seed 1 is trained in 1:00 min; evaluating and checking it take about 30 s or less."
    assert lines[-1].startswith("rope with seed 1: loss 1.5")


def point(step: int, seconds: float) -> bytes:
    return msgspec.json.encode(Point(step=step, loss=1.0, rate=1e-3, norm=1.0, seconds=seconds, tokens=100.0)) + b"\n"


@pytest.mark.parametrize(("seconds", "text"), [(8.4, "8 s"), (125, "2:05 min"), (3725, "1:02:05 h")])
def test_times_are_written_as_people_read_them(seconds, text):
    assert clock(seconds) == text
