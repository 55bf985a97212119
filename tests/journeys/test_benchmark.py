"""The explorer's benchmark in its shortest form, so that it does not rot; its times are looked at by people, not by tests."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser


def test_the_explorer_can_be_measured(browser, tmp_path):
    command = ["-m", "benchmarks.explorer", "--only", "ours", "--sizes", "16", "--repeat", "1", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    [table] = tmp_path.glob("explorer-*.md")
    assert "equiscope" in table.read_text(encoding="utf-8")
