"""The pytest plugin: checks in a test suite. A fixture, and a file that holds every audit of the session.

pytest reads this at every start, of every suite on the machine; so nothing of ours and no torch is imported before it is used.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

KEY = "equiscope"  # under which a worker of xdist hands its audits over


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("equiscope")
    group.addoption(
        "--equiscope-report", metavar="FILE", default=None, help="Write every audit made in this session here, as JSON."
    )
    parser.addini("equiscope_report", "As --equiscope-report; a path from the root folder.", default="")


def pytest_configure(config: pytest.Config) -> None:
    path = wanted(config)
    if path is not None:
        config.pluginmanager.register(Report(path, getattr(config, "workeroutput", None)), "equiscope-report")


def wanted(config: pytest.Config) -> Path | None:
    """Where the report goes; None where nobody wants one."""
    if said := config.getoption("equiscope_report"):
        return Path(config.invocation_params.dir, said)
    named = config.getini("equiscope_report")
    return Path(config.rootpath, named) if named else None


@pytest.fixture
def equiscope_check() -> Any:
    """`equiscope.check` that fails the test: each statement named has to hold, with the evidence in the message.

    equiscope_check(model, ids, properties=["causal"], actions=["permute"]) -> the last row
    """
    from equiscope.audit import assert_holds

    return assert_holds


class Report:
    """Hears of every audit of a session and writes them, each with the test that made it. Workers of xdist hand theirs over."""

    def __init__(self, path: Path, worker: Any = None) -> None:
        self.path, self.worker = path, worker
        self.outputs_of: list[Any] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        from equiscope.audit.listeners import listening

        with listening(self.hear):
            return (yield)

    def hear(self, audit: Any) -> None:
        """Remember an audit and the test that runs now."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]  # pytest's own variable: "file::name (call)"
        self.outputs_of.append({"test": test, "audit": audit})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        import msgspec

        self.outputs_of += msgspec.json.decode(getattr(node, "workeroutput", {}).get(KEY, "[]"))

    def pytest_sessionfinish(self) -> None:
        import msgspec

        from equiscope import outputs

        if self.worker is not None:
            self.worker[KEY] = msgspec.json.encode(self.outputs_of).decode()
            return
        outputs.make_folder(self.path.parent)
        outputs.write(self.path, msgspec.json.encode({"version": 1, "audits": self.outputs_of}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        count = len(self.outputs_of)
        terminalreporter.write_line(f"equiscope: {count} audit{'s' * (count != 1)} written to {self.path}")
