"""Benchmarks import, and in a thorough run they run in their shortest form; no test reads their times."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


def run(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_imported(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.thorough
def test_the_cost_of_watching_can_be_measured():
    done = run("benchmarks.program", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| tiny: 8 wide, 1 layer, 3 tokens |" in done.stdout


@pytest.mark.thorough
def test_the_cost_of_a_position_can_be_measured():
    done = run("benchmarks.positions", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| rope | ours |" in done.stdout


@pytest.mark.thorough
def test_the_memory_of_attention_can_be_measured():
    done = run("benchmarks.memory", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| rope | sdpa |" in done.stdout


@pytest.mark.thorough
def test_the_time_of_a_training_step_can_be_measured():
    done = run("benchmarks.models", "--quick", "--dtypes", "float32")
    assert done.returncode == 0, done.stderr
    assert "| ours, compiled |" in done.stdout


@pytest.mark.thorough
def test_what_fast_ways_of_attention_save_can_be_measured():
    done = run("benchmarks.kernels", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| T5's bias, 4x256, 1024 tokens |" in done.stdout
    assert "| Shaw, 4x256, 1024 tokens |" in done.stdout


@pytest.mark.thorough
def test_the_readme_shows_the_verdicts_that_are_measured():
    done = run("benchmarks.verdicts", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_shows_the_saved_verdicts_of_parity():
    verdicts = importlib.import_module("benchmarks.parity_verdicts")
    rows = json.loads((ROOT / "benchmarks" / "results" / "parity_verdicts.json").read_text(encoding="utf-8"))["rows"]
    assert verdicts.text(rows) in verdicts.PAGE.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_verdicts_of_parity_beside_tolerances_can_be_measured():
    pytest.importorskip("transformers")
    done = run("benchmarks.parity_verdicts", "--only", "epsilon-gpt2")
    assert done.returncode == 0, done.stderr
    assert "| epsilon 1e-5 or 1e-6 | 1 | 1 |" in done.stdout


@pytest.mark.thorough
def test_what_muon_saves_can_be_measured():
    done = run("benchmarks.muon", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| ethanol |" in done.stdout
    assert "| fashion-mnist-plain |" in done.stdout


@pytest.mark.thorough
def test_the_time_of_a_cold_start_can_be_measured():
    done = run("benchmarks.cold", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| equiscope --help |" in done.stdout


@pytest.mark.thorough
def test_the_speed_of_writing_can_be_measured():
    done = run("benchmarks.decode", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| ours, prepared |" in done.stdout


@pytest.mark.thorough
def test_the_cost_of_a_check_can_be_measured():
    done = run("benchmarks.check", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| permute | broken |" in done.stdout
    assert "the goal is 200" in done.stdout


@pytest.mark.thorough
def test_the_speed_of_a_training_loop_can_be_measured():
    done = run("benchmarks.train", "--quick", "--dtypes", "float32", "--eager", "--only", "ours", "nanoGPT's loop")
    assert done.returncode == 0, done.stderr
    assert "| ours |" in done.stdout


@pytest.mark.thorough
def test_compressors_can_be_measured_on_the_text_of_a_recipe():
    done = run("benchmarks.compressors", "--quick", "--orders", "3", "4")
    assert done.returncode == 0, done.stderr
    assert "| 4-gram, Kneser-Ney |" in done.stdout


@pytest.mark.thorough
@pytest.mark.browser
def test_the_pages_of_the_explorer_can_be_measured(tmp_path):
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None and not os.environ.get("EQUISCOPE_BROWSER"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("No browser was found: see tests/journeys/conftest.py.")
    done = run("benchmarks.explorer", "--quick", "--only", "ours", "--repeat", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| equiscope |" in done.stdout
    assert "| equiscope all heads, --compact |" in done.stdout
    assert "failed" not in next(tmp_path.glob("*.json")).read_text()


@pytest.mark.thorough
def test_attention_in_space_can_be_measured():
    done = run("benchmarks.geometry", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| ours, dense |" in done.stdout


@pytest.mark.skipif(not shutil.which("node"), reason="the page's steps are run by node")
@pytest.mark.thorough
def test_energies_and_forces_in_the_page_can_be_measured():
    done = run("benchmarks.computation", "--quick")
    assert done.returncode == 0, done.stderr
    assert "| ethanol, all see all | energy and forces |" in done.stdout


@pytest.mark.thorough
def test_bad_input_of_every_kind_gets_a_sentence():
    done = run("benchmarks.fuzz", "--count", "60", "--seed", "1", "--each", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| pipes |" in done.stdout
    assert "60 cases of seed 1" in done.stdout
