"""The package as a whole: it loads lazily, says what it has, and every module says what it is for."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import equiscope

pytestmark = pytest.mark.quick

ROOT = Path(equiscope.__file__).parent


@pytest.fixture(scope="module")
def trees():
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.slow
def test_modules_and_public_classes_have_docstrings(trees):
    modules = [path for path, tree in trees.items() if not (path.endswith("__main__.py") or ast.get_docstring(tree))]
    classes = [
        f"{path}: {node.name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert modules + classes == []


def test_every_name_that_is_promised_can_be_had():
    for word in equiscope.__all__:
        assert getattr(equiscope, word) is not None, word
        assert word in dir(equiscope)


def test_a_name_that_is_not_there_suggests_those_that_are():
    with pytest.raises(AttributeError, match=r"equiscope has no 'Transformer'. Did you mean trained or Norm or train"):
        equiscope.Transformer  # noqa: B018


def test_what_a_room_lists_is_there():
    for room in (m.name for m in pkgutil.iter_modules(equiscope.__path__) if m.ispkg):
        module = importlib.import_module(f"equiscope.{room}")
        missing = [word for word in getattr(module, "__all__", []) if not hasattr(module, word)]
        assert not missing, f"{room}: {missing}"


def test_every_room_is_reachable_from_the_top():
    below = {"__main__", "budgets", "cli", "init", "outputs", "shapes", "spec_base"}
    rooms = {m.name for m in pkgutil.iter_modules(equiscope.__path__)} - below
    assert rooms <= set(equiscope.__all__)


LAYERED = ("attention", "blocks", "data", "geometry", "models", "positions", "study", "training")


@pytest.mark.slow
def test_no_import_within_a_function_hides_a_circle(trees):
    inner = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        if path.split("/")[0] in LAYERED
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.col_offset and (node.module or "").startswith("equiscope")
    ]
    assert inner == []


@pytest.mark.slow
def test_whoever_holds_a_spec_need_not_ask_of_which_kind_it_is(trees):
    """The kinds are distinguished in `models/kinds.py`; elsewhere a spec is asked what it has."""
    kinds = {"Baseline", "PointSpec", "Spec"}
    questions = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        if path.split("/")[0] != "models"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if kinds & {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
    ]
    assert questions == []
