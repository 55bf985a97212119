"""The pytest plugin: a fixture for checks in a test suite, and a file with every audit of the session.

pytest imports this at the start of every test suite, so nothing of equiscope and no torch is imported before it is used.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

KEY = "equiscope"  # under which a worker of xdist sends its audits


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("equiscope")
    group.addoption(
        "--equiscope-report", metavar="FILE", default=None, help="Write every audit made in this session here, as JSON."
    )
    parser.addini("equiscope_report", "As --equiscope-report; a path from the root folder.", default="")


def pytest_configure(config: pytest.Config) -> None:
    path = report_path(config)
    if path is not None:
        config.pluginmanager.register(AuditCollector(path, getattr(config, "workeroutput", None)), "equiscope-report")


def report_path(config: pytest.Config) -> Path | None:
    """The file of the report; None where none is requested."""
    if option := config.getoption("equiscope_report"):
        return Path(config.invocation_params.dir, option)
    setting = config.getini("equiscope_report")
    return Path(config.rootpath, setting) if setting else None


@pytest.fixture
def equiscope_check() -> Any:
    """`equiscope.check` as an assert: each statement named has to hold; the message contains the evidence.

    equiscope_check(model, ids, properties=["causal"], actions=["permute"]) -> the last row
    """
    from equiscope.audit import assert_holds

    return assert_holds


class AuditCollector:
    """Collects every audit of a session with its test, and writes them. Workers of xdist send theirs to the main process."""

    def __init__(self, path: Path, worker: Any = None) -> None:
        self.path, self.worker = path, worker
        self.audits: list[Any] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        from equiscope.audit.listeners import listening

        with listening(self.collect):
            return (yield)

    def collect(self, audit: Any) -> None:
        """Add an audit and the current test."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]  # pytest's own variable: "file::name (call)"
        self.audits.append({"test": test, "audit": audit})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        import msgspec

        self.audits += msgspec.json.decode(getattr(node, "workeroutput", {}).get(KEY, "[]"))

    def pytest_sessionfinish(self) -> None:
        import msgspec

        from equiscope import outputs

        if self.worker is not None:
            self.worker[KEY] = msgspec.json.encode(self.audits).decode()
            return
        outputs.make_folder(self.path.parent)
        outputs.write(self.path, msgspec.json.encode({"version": 1, "audits": self.audits}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        count = len(self.audits)
        terminalreporter.write_line(f"equiscope: {count} audit{'s' * (count != 1)} written to {self.path}")
