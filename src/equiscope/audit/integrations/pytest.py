"""The pytest plugin: a fixture for checks in a test suite, a file with every audit of the session, and a file of known failures.

pytest imports this at the start of every test suite, so nothing of equiscope and no torch is imported before it is used.
"""

import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from equiscope.errors import counted

KEY = "equiscope"  # under which a worker of xdist sends its audits
BASELINE_KEY = "equiscope-baseline"  # under which it sends the rows that it measured
PREFIX = "--equiscope-"
ACCEPTED = "equiscope accepted"  # the property of a test with a row that the baseline file accepts, also in JUnit


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("equiscope")
    group.addoption(f"{PREFIX}report", metavar="FILE", default=None, help="Write every audit made in this session here, as JSON.")
    group.addoption(
        f"{PREFIX}baseline", metavar="FILE", default=None,
        help="Rows that may fail in asserts of equiscope, each with a reason, as TOML.",
    )  # fmt: skip
    group.addoption(
        f"{PREFIX}update-baseline", action="store_true", help="Write the rows that fail now into the file of --equiscope-baseline."
    )
    parser.addini("equiscope_report", "As --equiscope-report; a path from the root folder.", default="")
    parser.addini("equiscope_baseline", "As --equiscope-baseline; a path from the root folder.", default="")


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workeroutput", None)
    if (path := file_of(config, "report")) is not None:
        config.pluginmanager.register(AuditCollector(path, worker), "equiscope-report")
    path, update = file_of(config, "baseline"), config.getoption(f"{PREFIX}update-baseline")
    if path is not None:
        config.pluginmanager.register(AcceptedRows(path, update, worker), "equiscope-baseline")
    elif update:
        raise pytest.UsageError(f"{PREFIX}update-baseline writes the file of {PREFIX}baseline. Add {PREFIX}baseline FILE.")


def file_of(config: pytest.Config, name: str) -> Path | None:
    """The file of --equiscope-NAME, or of the setting equiscope_NAME; None where none is requested."""
    if option := config.getoption(PREFIX + name):
        return Path(config.invocation_params.dir, option)
    setting = config.getini(f"equiscope_{name}")
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
        terminalreporter.write_line(f"equiscope: {counted(count, 'audit')} written to {self.path}")


class AcceptedRows:
    """Accepts rows of the asserts that a baseline file names. Workers of xdist send the rows that they measured."""

    def __init__(self, path: Path, update: bool, worker: Any = None) -> None:
        from equiscope.audit.baseline import read_baseline
        from equiscope.errors import InputError

        try:
            self.baseline = read_baseline(path, update=update, prefix=PREFIX)
        except InputError as error:
            raise pytest.UsageError(str(error)) from error
        self.update, self.worker = update, worker
        self.item: pytest.Item | None = None
        self.collected: set[str] = set()
        self.passed, self.failed, self.accepted = set[str](), set[str](), list[str]()
        self.lines: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """The tests of the files that are collected as a whole, before any is deselected."""
        if not any("::" in argument for argument in config.args):
            self.collected = {item.nodeid for item in items}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        from equiscope.audit.listeners import accepting

        self.item = item
        with accepting(self.accept):
            return (yield)

    def accept(self, audit: Any) -> Any:
        """What an assert measured, with the rows that are accepted in this test."""
        if self.item is None:
            return audit
        self.baseline.add(audit, self.item.nodeid)
        found = self.baseline.accept(audit, self.item.nodeid)
        for row in found.accepted:
            self.item.user_properties.append((ACCEPTED, f"{row.name} ({row.verdict}): {row.accepted}"))
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        if report.when == "teardown":
            self.accepted += [f"{report.nodeid}: {text}" for name, text in report.user_properties if name == ACCEPTED]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        import msgspec

        from equiscope.audit.baseline import Measured

        sent = msgspec.json.decode(getattr(node, "workeroutput", {}).get(BASELINE_KEY, "[[], []]"))
        self.baseline.measured += msgspec.convert(sent[0], list[Measured])
        self.collected |= set(sent[1])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        import msgspec

        if self.worker is not None:
            files = {file_part(entry.target) for entry in self.baseline.entries}
            named = [test for test in self.collected if file_part(test) in files]
            self.worker[BASELINE_KEY] = msgspec.json.encode([self.baseline.measured, named]).decode()
            return
        complete = self.passed | set(self.gone(session.config.rootpath))
        if self.update:
            missing, count = self.baseline.update(self.failed, complete), len(self.baseline.entries)
            advice = f", {len(missing)} without a reason. Write the reasons into the file." if missing else ""
            self.lines.append(f"wrote {self.baseline.path}: {counted(count, 'row')}{advice}")
        self.lines += [f"accepted: {line}" for line in self.accepted] + self.baseline.notes(complete)

    def gone(self, root: Path) -> Iterable[str]:
        """Tests that entries name and that are no longer there: no such file, or no such test in a file that was collected."""
        files = {file_part(test) for test in self.collected}
        for entry in self.baseline.entries:
            file = file_part(entry.target)
            if entry.command == "pytest" and (not (root / file).exists() or (file in files and entry.target not in self.collected)):
                yield entry.target

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self.lines:
            terminalreporter.write_line(f"equiscope: {line}")


def file_part(test: str) -> str:
    """The file in the id of a test."""
    return test.partition("::")[0]
