"""What a person installs: the page is in the wheel and in the source archive, and there is one version."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import equiscope

ROOT = Path(__file__).parents[1]
PAGE = (
    *(f"equiscope/explore/page/{name}.{kind}" for name in ("page", "report", "run") for kind in ("js", "css")),
    *(f"equiscope/explore/page/{name}.js" for name in ("widget", "frame")),
    "equiscope/py.typed",
)


@pytest.mark.slow
def test_wheel_and_source_archive_ship_the_page(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)], capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stdout + made.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert {f"src/{name}" for name in PAGE} <= set(names)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert set(PAGE) <= set(wheel.namelist())
        metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        assert f"Version: {equiscope.__version__}" in wheel.read(metadata).decode()
