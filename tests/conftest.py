"""What holds for every test: one seed, one thread, and shape checks where `--shapes` asks for them."""

import jaxtyping
import pytest
import shape_checks
import torch


def pytest_addoption(parser):
    parser.addoption("--shapes", action="store_true", help="check shapes and types of every call of the package at run time")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def unchecked(monkeypatch):
    """Without the type checks of the tests: what a person meets who passes a wrong value."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def pytest_configure(config):
    torch.set_num_threads(1)  # the arrays are small, and xdist already uses every core
    if config.getoption("shapes"):
        shape_checks.install()


def pytest_collection_modifyitems(config, items):
    """The decorators that check shapes break `torch.compile(fullgraph=True)`: those tests need a process without."""
    if not config.getoption("shapes"):
        return
    alone = pytest.mark.skip(reason="needs a process without shape checks: pytest -m compile, without --shapes")
    for item in items:
        if item.get_closest_marker("compile"):
            item.add_marker(alone)
