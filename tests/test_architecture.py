"""The package as a whole: it loads lazily, says what it has, and every module says what it is for."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import equiscope

ROOT = Path(equiscope.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "__main__.py"], ids=name)
def test_a_module_opens_with_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_public_class_says_what_it_is(path):
    classes = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.ClassDef)]
    silent = [c.name for c in classes if not c.name.startswith("_") and not ast.get_docstring(c)]
    assert not silent


@pytest.mark.parametrize("word", equiscope.__all__)
def test_every_name_that_is_promised_can_be_had(word):
    assert getattr(equiscope, word) is not None
    assert word in dir(equiscope)


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(AttributeError, match=r"equiscope has no 'Transformer'. It has: .*build"):
        equiscope.Transformer  # noqa: B018


@pytest.mark.parametrize("room", [m.name for m in pkgutil.iter_modules(equiscope.__path__) if m.ispkg])
def test_what_a_room_lists_is_there(room):
    module = importlib.import_module(f"equiscope.{room}")
    for word in getattr(module, "__all__", []):
        assert hasattr(module, word), f"{room}.{word}"


def test_every_room_is_reachable_from_the_top():
    below = {"__main__", "budgets", "cli", "init", "outputs", "shapes", "spec_base"}
    rooms = {m.name for m in pkgutil.iter_modules(equiscope.__path__)} - below
    assert rooms <= set(equiscope.__all__)


LAYERED = ("attention", "blocks", "data", "geometry", "models", "positions", "study", "training")


@pytest.mark.parametrize("path", [p for p in MODULES if name(p).split("/")[0] in LAYERED], ids=name)
def test_no_import_within_a_function_hides_a_circle(path):
    imports = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)]
    inner = [n for n in imports if n.col_offset and (n.module or "").startswith("equiscope")]
    assert not inner, f"line {inner[0].lineno}"


@pytest.mark.parametrize("path", [p for p in MODULES if name(p).split("/")[0] != "models"], ids=name)
def test_whoever_holds_a_spec_need_not_ask_of_which_kind_it_is(path):
    """The kinds are told apart in `models/kinds.py`; elsewhere a spec is asked what it has."""
    kinds = {"Baseline", "PointSpec", "Spec"}
    calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
    asked = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "isinstance"]
    named = {one.id for n in asked for one in ast.walk(n.args[1]) if isinstance(one, ast.Name)}
    assert not named & kinds
