"""What a person installs: the page is in the wheel and in the source archive, and there is one version."""

import ast
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import equiscope
from equiscope.trained import HOME, NAMES

ROOT = Path(__file__).parents[1]
PAGE = (
    *(f"equiscope/explore/page/{name}.{kind}" for name in ("sentence", "report", "run") for kind in ("js", "css")),
    *(f"equiscope/explore/page/{name}.js" for name in ("widget", "frame", "figure")),
    *(f"equiscope/explore/page/{name}" for name in ("book.js", "book.css", "book.html", "answer.json")),
    "equiscope/py.typed",
    *(f"equiscope/trained/{name}/{file}" for name in NAMES for file in ("run.json", "card.json", "card.md", "DATA_LICENSE")),
    *(str(path.relative_to(ROOT / "src")) for path in sorted(HOME.rglob("*.safetensors"))),
)


TRAINED = """
import equiscope as eq
for name in eq.trained.NAMES:
    folder = eq.trained.path_of(name)
    assert str(folder).startswith({home!r}), folder
    assert {{"card.md", "DATA_LICENSE", "examples"}} <= {{path.name for path in folder.iterdir()}}
    eq.load(name)
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_wheel_and_source_archive_ship_the_page(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)], capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stdout + made.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert {f"src/{name}" for name in PAGE} | {"docs/learn/index.md", "CITATION.cff"} <= set(names)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert set(PAGE) <= set(wheel.namelist())
        metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
        assert f"Version: {equiscope.__version__}" in wheel.read(metadata).decode()
        wheel.extractall(tmp_path / "installed")
    command = [sys.executable, "-c", TRAINED.format(home=str(tmp_path / "installed"))]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr


def test_editors_read_of_the_names_that_are_loaded_on_first_use():
    stub = ast.parse((ROOT / "src/equiscope/__init__.pyi").read_text())
    imported = {name.asname for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert imported == set(equiscope.__all__) - {"__version__"}


STRANGER = """
import torch
import equiscope as eq

spec = eq.Spec(widht=8)
eq.Attention(position="rope", mask=eq.attention.Causal(), score=3)
model = eq.build(eq.Spec(width=8))
audit = eq.check(model, torch.zeros(1, 4, 8), actoins=None)
audit.rowz
eq.chekc(model)
reveal_type(eq.check(model, torch.zeros(1, 4, 8)))
reveal_type(eq.watch(model, torch.zeros(1, 4, 8)))
reveal_type(eq.positions.Rope())
"""


@pytest.mark.skipif(
    not (ROOT / ".mypy_cache").exists(),
    reason="`python3 run.py check` keeps what mypy has read of torch and the package, which takes half a minute",
)
def test_a_type_checker_knows_what_the_package_has(tmp_path):
    assert (ROOT / "src/equiscope/py.typed").exists()
    (tmp_path / "stranger.py").write_text(STRANGER)
    command = [sys.executable, "-m", "mypy", str(tmp_path / "stranger.py")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600).stdout
    assert [line.split(": ", 1)[1].split("  [")[0] for line in said.splitlines()[:-1] if "defined in" not in line] == [
        'error: Unexpected keyword argument "widht" for "Spec"; did you mean "width"?',
        'error: Argument "score" to "Attention" has incompatible type "int"; '
        'expected "ScoreFunction | str | dict[str, Any] | type[Any]"',
        'error: Unexpected keyword argument "actoins" for "check"; did you mean "actions"?',
        'error: "Audit" has no attribute "rowz"',
        'error: Module has no attribute "chekc"',
        'note: Revealed type is "equiscope.record.audit.Audit"',
        'note: Revealed type is "equiscope.program.program.Program"',
        'note: Revealed type is "equiscope.positions.rope.Rope"',
    ]


COMPLETED = """
import importlib, inspect, pkgutil
import equiscope as eq

print(*sorted(name for name in dir(eq) if callable(getattr(eq, name))))
print(*inspect.signature(eq.Spec).parameters)
for module in pkgutil.walk_packages(eq.__path__, "equiscope."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError:  # of an extra that is not installed
        pass
for name in eq.__all__:
    value = getattr(eq, name)
    if name not in eq._ROOMS and name != "__version__":
        assert callable(value), (name, value)
"""


def test_what_an_editor_completes_and_importing_every_submodule_hides_none_of_it():
    run = subprocess.run([sys.executable, "-c", COMPLETED], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    names, fields = (line.split() for line in run.stdout.splitlines())
    assert {"Spec", "build", "check", "compare", "evaluate", "export", "generate", "predict", "show", "train", "watch"} <= set(
        names
    )
    assert len(names) <= 30, names
    assert fields[0] == "width"
    assert {"layers", "block", "dropout"} <= set(fields)
