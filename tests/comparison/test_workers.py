"""Whoever does the jobs, the runs are the same; a kill loses nothing; a candidate that breaks is a result."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.comparison.synthetic_runs import plan
from tests.training.small import files, told

from equiscope.comparison import job, outcome, workers
from equiscope.comparison.measurements import RunMeasurements, read_measurements
from equiscope.comparison.plan import Plan, read_plan

pytestmark = pytest.mark.xdist_group("workers")
TWO = {"rope": {}, "none": {"model.block.attention.position": "none"}}


def bits(folder: Path, made: Plan) -> dict[str, object]:
    """All that training left, without what a clock decides."""
    return {one.folder: (told(folder / one.folder), files(folder / one.folder)) for one in made.jobs()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Two runs, one after the other, in this process."""
    folder = tmp_path_factory.mktemp("alone")
    made = plan(folder, TWO, (1,))
    for one in made.jobs():
        job.run(folder / "compared", one, made)
    return folder / "compared"


def test_one_process_does_all_and_measures_each(alone):
    found = outcome.of_folder(alone)
    assert {t.state for t in found.trials} == {"finished"}
    after = read_measurements(alone / found.trials[0].folder)
    assert [b.factor for b in after.extrapolation] == [1, 2, 4, 8]
    assert after.extrapolation[0].value == pytest.approx(found.trials[0].value, rel=1e-6)
    assert after.verdicts["causal"] == "holds"
    assert after.memory is not None
    assert after.memory > 1e8
    assert all(c.verdicts["shift"] == "holds" for c in found.candidates)


@pytest.mark.thorough
def test_two_processes_give_the_same_runs(alone, tmp_path):
    made = plan(tmp_path, TWO, (1,))
    seen = []
    workers.run_all(tmp_path / "compared", made, 2, tick=lambda running: seen.append(len(running)))
    assert max(seen) == 2
    assert bits(tmp_path / "compared", made) == bits(alone, made)


@pytest.mark.thorough
def test_ray_gives_the_same_runs(alone, tmp_path):
    pytest.importorskip("ray")
    made = plan(tmp_path, TWO, (1,))
    workers.run_with_ray(tmp_path / "compared", made)
    assert bits(tmp_path / "compared", made) == bits(alone, made)


@pytest.mark.thorough
def test_seeds_that_are_trained_together_are_one_group_and_are_measured_each(tmp_path):
    sharp = {"model.block.attention.position": "none", "optimiser.sharpness": 0.1}
    made = msgspec.structs.replace(plan(tmp_path, {"rope": {}, "sharp": sharp}, (1, 2)), together=True)
    folder = tmp_path / "compared"
    groups = workers.left(folder, made)
    assert [len(group) for group in groups] == [2, 1, 1], "SAM works on one model"
    assert workers.command(folder, groups[0])[-2:] == ["runs/rope/seed-1", "runs/rope/seed-2"]
    runs = job.run_together(folder, groups[0], made)
    assert all(run.notes[-1].startswith("Trained as one batched model") for run in runs)
    assert workers.left(folder, made) == groups[1:]
    trials = outcome.of_folder(folder).trials
    assert [(t.candidate, t.state, len(t.extrapolation)) for t in trials] == [("rope", "finished", 4)] * 2
    assert all(t.measuring > 0 for t in trials)
    job.run_together(folder, [one for one in made.jobs() if one.candidate == "sharp"], made)
    assert not workers.left(folder, made), "where they cannot be trained together, each is trained by itself"


def test_symmetries_are_checked_once_for_candidates_with_the_same_model(tmp_path):
    made = plan(tmp_path, {"rope": {}, "slow": {"optimiser.rate": 1e-4}, "none": TWO["none"]}, (1, 2))
    assert [made.checks(one) for one in made.jobs()] == [True, False, True, False, False, False]


@pytest.mark.thorough
def test_a_list_of_commands_gives_the_same_runs(alone, tmp_path):
    made = plan(tmp_path, TWO, (1,))
    lines = workers.write_job_list(tmp_path / "compared", made).read_text().splitlines()
    assert len(lines) == 2
    assert (tmp_path / "compared" / "jobs.slurm").read_text().startswith("#!/bin/sh\n#SBATCH --array=1-2\n")
    subprocess.run(["sh", "-c", lines[1]], check=True, timeout=300)
    one = list(made.jobs())[1]
    place = tmp_path / "compared" / one.folder
    assert (told(place), files(place)) == bits(alone, made)[one.folder]
    assert workers.write_job_list(tmp_path / "compared", made).read_text().count("\n") == 1, "what is done is not listed again"


def test_a_job_that_is_killed_goes_on_where_it_was(alone, tmp_path):
    made = plan(tmp_path, TWO, (1,))
    folder = tmp_path / "compared"
    first, second = made.jobs()
    shutil.copytree(alone / second.folder, folder / second.folder)  # done, so that the first is trained alone
    process = subprocess.Popen(workers.command(folder, (first,)))
    place = folder / first.folder
    for _ in range(1200):
        if (place / "checkpoints").exists() and any((place / "checkpoints").iterdir()):
            break
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not job.done(folder, first)
    assert workers.left(folder, read_plan(folder)) == [(first,)]
    job.run(folder, first)
    assert bits(folder, made) == bits(alone, made)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_no_process_outlives_a_comparison_that_is_killed_alone(tmp_path, number):
    made = plan(tmp_path, {name: {**changes, "budget.steps": 10**6} for name, changes in TWO.items()}, (1,))
    code = (
        "import sys; from pathlib import Path; from equiscope.comparison import plan, workers; "
        "workers._start = lambda *given, begun=workers._start: print((made := begun(*given)).pid, flush=True) or made; "
        "folder = Path(sys.argv[1]); workers.run_all(folder, plan.read_plan(folder), 2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "compared")], stdout=subprocess.PIPE, text=True)
    begun = [int(process.stdout.readline()) for _ in made.jobs()]
    for _ in range(1200):
        if all((tmp_path / "compared" / one.folder / "metrics.jsonl").exists() for one in made.jobs()):
            break
        time.sleep(0.05)
    assert all(map(runs, begun))
    os.kill(process.pid, number)
    assert process.wait(60) == (143 if number == signal.SIGTERM else -9)
    process.stdout.close()
    for _ in range(600):
        if not any(map(runs, begun)):
            break
        time.sleep(0.05)
    left = [one for one in begun if runs(one)]
    for one in left:
        os.kill(one, signal.SIGKILL)
    assert not left


def runs(number: int) -> bool:
    """Whether there is a process of this number that is not only left to be counted."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_candidate_that_diverges_or_crashes_is_a_result_and_the_others_go_on(tmp_path):
    wild = {"optimiser.rate": 1e30, "optimiser.clip": "none"}
    made = plan(tmp_path, {"calm": {}, "wild": wild}, (1,), check=False, sizes=[1.0])
    folder = tmp_path / "compared"
    job.run(folder, next(made.jobs()), made)  # calm
    workers.run_all(folder, made)
    found = outcome.of_folder(folder)
    by = {t.candidate: t for t in found.trials}
    assert by["calm"].value is not None
    assert (by["wild"].state, by["wild"].value) == ("failed", None)
    assert any(record_failure.startswith("wild with seed 1 has no result: ") for record_failure in found.notes)
    assert found.answer.startswith("Only calm has a number")
    assert workers._finish(folder, (next(made.jobs()),), -signal.SIGSEGV) == -signal.SIGSEGV
    assert "signal SIGSEGV" in job.reason(folder / next(made.jobs()).folder)


@pytest.mark.parametrize("seeds", [(1, 2, 3), pytest.param((11, 12, 13, 14), marks=pytest.mark.thorough)])
def test_a_planted_difference_is_named_and_the_same_variant_twice_is_not(tmp_path, seeds, monkeypatch):
    monkeypatch.setattr(job, "measure_run", lambda *_, **__: RunMeasurements())  # training alone decides
    candidates = {"one": {}, "again": {}, "hardly learns": {"optimiser.rate": 1e-6}}
    made = plan(tmp_path, candidates, seeds)
    for one in made.jobs():
        job.run(tmp_path / "compared", one, made)
    found = outcome.of_folder(tmp_path / "compared")
    assert found.answer.startswith("one and again are identical: every seed gave exactly the same loss")
    assert "Both are better than hardly learns (p " in found.answer
