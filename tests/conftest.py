"""What holds for every test: one seed, one thread, shape checks where `--shapes` asks for them, and no judge is required."""

import copy
import gc
import importlib.util
import re

import jaxtyping
import pytest
import shape_checks
import torch

JUDGES = ("e3nn", "onnxruntime", "peft", "timm", "torch_geometric", "transformers", "trimesh")  # the extra `judges`
MISSING = [name for name in JUDGES if not importlib.util.find_spec(name)]


def pytest_addoption(parser, pluginmanager):
    """Installs the checks of `--shapes` here: a conftest.py of a subfolder may import the package before `pytest_configure`."""
    parser.addoption("--shapes", action="store_true", help="check shapes and types of every call of the package at run time")
    config = pluginmanager.get_plugin("pytestconfig")
    if parser.parse_known_args(config.invocation_params.args, copy.copy(config.option)).shapes:  # xdist's workers: in config.option
        shape_checks.install()


@pytest.fixture(autouse=True)
def seeded():
    if torch.accelerator.is_available():
        torch.manual_seed(0)
    else:  # for each kind of device that is not here, torch.manual_seed formats the stack of calls
        torch.default_generator.manual_seed(0)


@pytest.fixture
def unchecked(monkeypatch):
    """Without the type checks of the tests: what a person meets who passes a wrong value."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def pytest_configure(config):
    torch.set_num_threads(1)  # the arrays are small, and xdist already uses every core


def pytest_collection():
    gc.disable()


def pytest_collection_finish():
    """Modules and collected tests stay to the end: the garbage collector does not go through them again and again."""
    gc.freeze()
    gc.set_threshold(20_000)  # new objects; Python's 700 take a seventh of the time of the tests that record programs
    gc.enable()


def pytest_collection_modifyitems(config, items):
    """The decorators that check shapes break `torch.compile(fullgraph=True)`: with `--shapes`, those tests are skipped."""
    if not config.getoption("shapes"):
        return
    alone = pytest.mark.skip(reason="needs a process without shape checks: pytest -m compile, without --shapes")
    for item in items:
        if item.get_closest_marker("compile"):
            item.add_marker(alone)


def pytest_report_header():
    return f"judges that are missing: {', '.join(MISSING)}; install them with the extra `judges`" if MISSING else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return without_judge((yield), collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return without_judge((yield), item.path)


def without_judge(report, path):
    """A test that fails for want of a judge is skipped."""
    lacks = re.findall(r"(?:No module named '|\bneeds? )(\w+)", str(report.longrepr)) if report.failed else []
    if name := next((name for name in lacks if name in MISSING), None):
        report.outcome = "skipped"
        report.longrepr = (str(path), 0, f"Skipped: {name} is not installed; it is in the extra `judges`")
    return report
