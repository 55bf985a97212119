"""A run that is killed at any moment and goes on is the run that would have been, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import equiscope as eq
from tests.cli.test_cli import equi  # noqa: F401
from tests.training.small import files, plain, told

pytestmark = pytest.mark.xdist_group("resume")
KILLING = Path(__file__).with_name("killing.py")

VARIANTS = {
    "as it comes": {},
    "all at once": {
        "model": {"dropout": 0.1},
        "budget": {"accumulate": 2},
        "optimiser": {"kind": "muon", "average": 0.9, "schedule": "wsd", "clip": 0.5},
        "engine": {"precision": "bfloat16", "recompute": True},
        "evaluation": {"samples": 1},
    },
}  # fmt: skip


def lived(folder, runs):
    """Runs that live so often each; how each life ended."""
    path = folder / "runs.json"
    path.write_text(json.dumps(runs))
    done = subprocess.run(
        [sys.executable, str(KILLING), str(path)], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Each variant twice: undisturbed, and killed before some file is touched, or after some time."""
    folder, chance, runs = tmp_path_factory.mktemp("killed"), random.Random(0), []
    for number, variant in enumerate(VARIANTS.values()):
        recipe = plain(folder, **variant)
        lives = [{"event": chance.randint(1, 25)} for _ in range(3)] + [{"after": chance.uniform(0.05, 0.3)}]
        chance.shuffle(lives)
        runs.append({"folder": str(folder / f"{number}-undisturbed"), "recipe": recipe, "lives": []})
        runs.append({"folder": str(folder / f"{number}-killed"), "recipe": recipe, "lives": [*lives, {}]})
    ended, wrong = lived(folder, runs)
    return folder, ended[1::2], wrong


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_that_is_killed_at_any_file_or_moment_is_the_run_that_would_have_been(killed, variant):
    folder, ended, wrong = killed
    number = list(VARIANTS).index(variant)
    assert ended[number][-1] == 0, wrong
    assert 1 not in ended[number], wrong
    assert ended[number].count(-signal.SIGKILL) >= 2
    one, other = folder / f"{number}-undisturbed", folder / f"{number}-killed"
    assert told(other) == told(one)
    assert files(other) == files(one)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [pytest.param(5, marks=pytest.mark.thorough), pytest.param(2, marks=pytest.mark.thorough)])
def test_no_file_is_a_bad_moment(tmp_path, stride):
    """A run is killed before the first file that it touches, and then before the second; another one before the sixth; ..."""
    recipe = plain(tmp_path, budget={"steps": 4}, evaluation={"every": 2, "save": 2, "samples": 0})
    runs = [{"folder": str(tmp_path / "undisturbed"), "recipe": recipe, "lives": []}]
    for event in range(1, 49, stride):
        runs.append({"folder": str(tmp_path / f"{event}"), "recipe": recipe, "lives": [{"event": event}, {"event": event + 1}, {}]})
    ended, wrong = lived(tmp_path, runs)
    for run, ends in zip(runs[1:], ended[1:], strict=True):
        assert ends[-1] == 0, wrong
        assert 1 not in ends, wrong
        assert told(Path(run["folder"])) == told(tmp_path / "undisturbed")
        assert files(Path(run["folder"])) == files(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.thorough  # of each life, the command imports for seconds
@pytest.mark.parametrize(("kills", "steps"), [(1, 30), (8, 150)])
def test_the_command_is_killed_and_given_again_until_it_is_done(tmp_path, kills, steps, equi):  # noqa: F811
    recipe = plain(tmp_path, budget={"steps": steps}, evaluation={"every": 50, "save": 5, "samples": 0})
    toml = tmp_path / "recipe.toml"
    toml.write_text(as_toml(recipe))
    command = [sys.executable, "-m", "equiscope.cli", "train", str(toml), "--out"]
    quick = {"env": os.environ | {"OMP_NUM_THREADS": "1"}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert eq.train(toml, tmp_path / "undisturbed").state == "finished"
    chance, run, done = random.Random(0), tmp_path / "killed", 0
    for _ in range(kills):
        process = subprocess.Popen([*command, str(run)], **quick)
        while process.poll() is None and lines(run) < done + 7:  # some steps later than it began
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
        done = lines(run)
    toml.unlink()  # the run knows its recipe
    assert equi("train", run)[0] == 0
    assert told(run) == told(tmp_path / "undisturbed")
    assert files(run) == files(tmp_path / "undisturbed")


def lines(run):
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def as_toml(data, name=""):
    """A table of TOML, and those in it."""
    rows = [f"{key} = {json.dumps(value)}" for key, value in data.items() if not isinstance(value, dict)]
    tables = [as_toml(value, f"{name}.{key}".strip(".")) for key, value in data.items() if isinstance(value, dict)]
    return "\n".join([*([f"[{name}]"] if name else []), *rows, *tables])
