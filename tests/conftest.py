"""What holds for every test: one seed, one thread, and an honest word about tests that the shape checks would break."""

import jaxtyping
import pytest
import shape_checks
import torch

shape_checks.lighten()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def unchecked(monkeypatch):
    """Without the type checks of the tests: what a person meets who passes a wrong value."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def pytest_configure(config):
    torch.set_num_threads(1)  # the arrays are small, and xdist already uses every core


def pytest_collection_modifyitems(config, items):
    """The decorators that check shapes break `torch.compile(fullgraph=True)`: those tests need a process without."""
    if not config.getoption("jaxtyping_packages", None):
        return
    alone = pytest.mark.skip(reason="needs a process without shape checks: python3 run.py test, or pytest -o addopts= -m compile")
    for item in items:
        if item.get_closest_marker("compile"):
            item.add_marker(alone)
