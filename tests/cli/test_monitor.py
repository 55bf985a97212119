"""A run is watched while it trains, and looked at afterwards."""

import subprocess
import sys

import msgspec
import pytest
from tests.cli.test_cli import equi, refused
from tests.explore.runs import run
from tests.record.test_run import written
from tests.training.small import text

from equiscope.cli import monitor
from equiscope.cli.monitor import RunMonitor
from equiscope.record import RunReport, read_run, run_report
from equiscope.record.run import read_entries

__all__ = ["equi"]  # the fixture
RECIPE = """
title = "small"
data = {{ task = "language", train = "{text}", context = 16 }}
model = {{ width = 16, layers = 2, block = {{ attention = {{ heads = 2, causal = true }} }} }}
budget = {{ steps = 6, batch = 4 }}
evaluation = {{ every = 3, save = 2, samples = 1 }}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE.format(text=text(tmp_path).as_posix()), encoding="utf-8")
    return path


def test_a_run_is_one_file(equi, tmp_path):
    written(run(), tmp_path)
    code, out, err = equi("explore", tmp_path, "--export", tmp_path / "run.html")
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {tmp_path / 'run.html'}")
    assert run_report(run()).summary in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_run_is_data(equi, tmp_path):
    written(run(), tmp_path)
    code, out, _ = equi("explore", tmp_path, "--json")
    assert code == 0
    assert msgspec.json.decode(out, type=RunReport) == run_report(run())


@pytest.mark.parametrize("option", ["--causal", "--width=8", "--heads=2", "--position=rope", "--seed=3"])
def test_what_belongs_to_a_sentence_is_refused_for_a_run(equi, tmp_path, option):
    written(run(), tmp_path)
    refused(equi("explore", tmp_path, option), option.split("=")[0], "is a run", "Leave")


def test_a_damaged_run_is_said(equi, tmp_path):
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    refused(equi("explore", tmp_path), "run.json is damaged")


def test_training_serves_its_page_and_writes_for_tensorboard_with_the_same_losses(equi, tmp_path, recipe):
    out, plain = tmp_path / "run", tmp_path / "plain"
    code, _, err = equi("train", recipe, "--out", out, "--live", "--no-browser", "--tensorboard", "--port", "18990")
    assert code == 0, err
    assert "The run can be watched at http://127.0.0.1:18" in err
    told = scalars(out)
    points = read_run(out).points
    assert [(e.step, e.value) for e in told["train/loss"]] == [(p.step, pytest.approx(p.loss)) for p in points]
    assert [e.step for e in told["validation/loss"]] == [0, 3, 6]
    assert {"train/rate", "train/norm", "train/tokens a second"} <= told.keys()
    equi("train", recipe, "--out", plain)
    assert [p.loss for p in points] == [p.loss for p in read_run(plain).points]
    assert len(points) == 6


def test_a_run_that_resumes_continues_its_tensorboard_files(equi, tmp_path, recipe):
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    monitored = RunMonitor(out, None, False, tensorboard=False)
    assert not monitored.tensorboard
    (out / "tensorboard").mkdir(parents=True)
    assert RunMonitor(out, None, False, tensorboard=False).tensorboard


def scalars(out):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(out / "tensorboard")).Reload()
    return {name: found.Scalars(name) for name in found.Tags()["scalars"]}


def test_tensorboard_asked_for_later_gets_what_was_before(tmp_path):
    written(run(done=30, samples=[]), tmp_path)
    with RunMonitor(tmp_path, None, False, True) as monitoring:
        monitoring.begin(run(done=30))
        monitoring.entry(run().points[30])
    told = scalars(tmp_path)
    assert [e.step for e in told["train/loss"]] == list(range(1, 32))
    assert [e.step for e in told["validation/accuracy"]] == [0, 20]


def test_tensorboard_hides_what_is_computed_again(tmp_path):
    entries = written(run(done=30, samples=[], scores=[]), tmp_path)
    with RunMonitor(tmp_path, None, False, True) as monitoring:
        monitoring.begin(run(done=30))
    written(run(done=20, samples=[], scores=[]), tmp_path)
    with RunMonitor(tmp_path, None, False, True) as monitoring:
        monitoring.begin(run(done=20))
        for entry in entries[20:25]:
            monitoring.entry(entry)
    assert [e.step for e in scalars(tmp_path)["train/loss"]] == list(range(1, 26))


def test_without_tensorboard_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(monitor.InputError, match=r"--tensorboard needs tensorboard.*\[train\]"):
        RunMonitor(tmp_path, None, False, True)


def test_of_several_processes_only_the_first_is_watched(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with RunMonitor(tmp_path, 18995, False, True) as monitoring:
        monitoring.begin(run(done=3))
        monitoring.entry(run().points[0])
    assert not (tmp_path / "tensorboard").exists()


def test_the_record_stays_small(tmp_path, recipe, equi):
    out = tmp_path / "run"
    equi("train", recipe, "--out", out)
    assert sum(1 for e in read_entries(out) if getattr(e, "attention", None)) == 3
    assert (out / "metrics.jsonl").stat().st_size < 40_000


def test_explore_help_names_runs(equi):
    assert "run" in equi("explore", "--help")[1]
    done = subprocess.run([sys.executable, "-m", "equiscope.cli", "train", "--help"], capture_output=True, text=True)
    assert all(option in done.stdout for option in ("--live", "--port", "--no-browser", "--tensorboard"))
