"""The GitHub Action and the pre-commit hook, run as their services run them: in an empty folder, by their own files alone."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.test_check_command import MODELS

ROOT = Path(__file__).parents[1]
ACCEPTED = "a convolution that may see the next token"


@pytest.fixture
def service(tmp_path):
    """The environment of a step: an empty home, the files that the service reads, and this Python first on PATH."""
    for name in ("home", "temp", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/models.py").write_text(MODELS)
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}.",
        "HOME": str(tmp_path / "home"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }


def act(service, folder, **inputs):
    """Run the steps of action.yml until one fails; return its exit code, and the outputs by name."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    values = {name: str(field.get("default", "")) for name, field in action["inputs"].items()} | inputs
    code = 0
    for step in action["runs"]["steps"]:
        variables = {
            name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step.get("env", {}).items()
        }
        command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
        code = subprocess.run(command, cwd=folder / "work", env=service | variables, timeout=300, check=False).returncode
        if code:
            break
    outputs = Path(service["GITHUB_OUTPUT"]).read_text().splitlines()
    return code, dict(line.split("=", 1) for line in outputs)


@pytest.mark.thorough
def test_the_action_fails_on_a_broken_row_and_writes_its_files(service, tmp_path):
    code, outputs = act(service, tmp_path, target="models:ahead", properties="causal pure", args="--effort quick")
    assert code == 1
    assert set(outputs) == set(yaml.safe_load((ROOT / "action.yml").read_text())["outputs"])
    record = json.loads(Path(outputs["record"]).read_text())
    assert {row["name"]: row["verdict"] for row in record["rows"]} == {"causal": "broken", "pure": "holds"}
    assert "<testsuite" in Path(outputs["junit"]).read_text()
    assert "<html" in Path(outputs["report"]).read_text()
    summary = Path(service["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.startswith("### equiscope check `models:ahead`")
    assert "broken" in summary


def test_the_action_accepts_what_its_baseline_accepts(service, tmp_path):
    (tmp_path / "work/known.toml").write_text(
        'version = 1\n[[accepted]]\ncommand = "check"\ntarget = "models:ahead"\nrow = "causal"\nverdict = "broken"\n'
        f'where = "mix"\nreason = "{ACCEPTED}"\n'
    )
    code, _ = act(service, tmp_path, target="models:ahead", properties="causal", baseline="known.toml", args="--effort quick")
    assert code == 0
    assert ACCEPTED in Path(service["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.fixture
def written_down(service, tmp_path):
    """The environment of a step whose Python only writes down how it is called, and ends with 2."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/called\n[ "$1" = -c ] || exit 2\n')
    python.chmod(0o755)
    return service | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{service['PATH']}"}


def test_a_target_is_never_run_as_a_command(written_down, tmp_path):
    target = "$(touch stolen); `touch stolen`"
    code, _ = act(written_down, tmp_path, target=target)
    assert code == 2
    assert (tmp_path / "called").read_text().splitlines()[:4] == ["-m", "equiscope", "check", target]
    assert not (tmp_path / "work/stolen").exists()


def test_properties_and_actions_are_options_of_their_kind(written_down, tmp_path):
    act(written_down, tmp_path, target="models:ahead", properties="causal batch", actions="permute shift")
    called = (tmp_path / "called").read_text()
    assert called.endswith("--property\ncausal\n--property\nbatch\n--action\npermute\n--action\nshift\n")


def test_the_hook_runs_in_the_environment_of_the_project(service, tmp_path):
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    command = [*shlex.split(hook["entry"]), "models:ahead", "--property", "pure", "--effort", "quick"]
    assert subprocess.run(command, cwd=tmp_path / "work", env=service, timeout=300, check=False).returncode == 0
