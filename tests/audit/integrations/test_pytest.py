"""The pytest plugin: a fixture and a report; no effect where neither is used."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

import equiscope.audit.baseline  # noqa: F401  # a session in this process would load it again and again
from equiscope.audit import assert_causal, assert_holds  # noqa: F401

pytest_plugins = ["pytester"]

PLUGIN = "equiscope.audit.integrations.pytest"

SUITE = """
    import torch
    from equiscope.audit import assert_causal

    def test_a_layer_takes_each_token_alone(equiscope_check):
        equiscope_check(torch.nn.Linear(4, 4), torch.randn(2, 5, 4), actions=["permute"], effort="quick", proof=False)

    def test_attention_reads_the_future():
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        assert_causal(layer, torch.randn(2, 5, 4), effort="quick", proof=False)
"""


def session(pytester, *arguments, process=True):
    """A session of its own; process: in a process of its own, where what is loaded matters."""
    known = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    ours = () if known else ("-p", "no:equiscope", "-p", PLUGIN)  # an older installation lists none, or another module
    run = pytester.runpytest_subprocess if process else pytester.runpytest_inprocess
    return run(*ours, "-p", "no:cacheprovider", *arguments)


def test_a_test_fails_with_the_evidence_and_every_audit_is_written_down_with_its_test(pytester):
    pytester.makepyfile(SUITE)
    result = session(pytester, "--equiscope-report=out/audits.json", process=False)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*causal: broken*", "*Smallest counterexample*"])
    for noise in ("def assert_holds*", "*torch.__trace*"):
        result.stdout.no_fnmatch_line(noise)  # the line of the test and the message are enough
    result.stdout.fnmatch_lines(["equiscope: 2 audits written to *audits.json"])
    written = json.loads((pytester.path / "out" / "audits.json").read_text())
    assert [one["test"].rpartition("::")[2] for one in written["audits"]] == [
        "test_a_layer_takes_each_token_alone",
        "test_attention_reads_the_future",
    ]
    rows = [one["audit"]["rows"][0] for one in written["audits"]]
    assert [row["verdict"] for row in rows] == ["holds", "broken"]
    assert rows[1]["counterexample"]["text"]


@pytest.mark.thorough
def test_workers_hand_their_audits_over(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(SUITE)
    session(pytester, "--equiscope-report=audits.json", "-n", "2").assert_outcomes(passed=1, failed=1)
    assert len(json.loads((pytester.path / "audits.json").read_text())["audits"]) == 2


def test_the_report_can_stand_in_the_settings(pytester):
    pytester.makeini("[pytest]\nequiscope_report = audits.json")
    pytester.makepyfile("def test_nothing(): pass")
    session(pytester, process=False).assert_outcomes(passed=1)
    assert json.loads((pytester.path / "audits.json").read_text())["audits"] == []


KNOWN = """
    import pytest
    import torch
    from equiscope.audit import assert_causal, assert_holds

    class Mixes(torch.nn.Module):
        def forward(self, x):
            return x - x.mean({dims}, keepdim=True)

    @pytest.mark.parametrize("width", [3, 4])
    def test_the_batch(width):
        row = assert_holds(Mixes(), torch.randn(2, 5, width), properties=["batch"], effort="quick", proof=False)
        assert row.verdict == "holds" or row.accepted

    def test_the_future():
        assert_causal(Mixes(), torch.randn(2, 5, 4), effort="quick", proof=False)
"""


def known(pytester, dims, *arguments):
    pytester.makepyfile(test_suite=KNOWN.format(dims=dims))
    return session(pytester, "--equiscope-baseline=known.toml", *arguments, process="-n" in arguments)


def reasons(pytester):
    file = pytester.path / "known.toml"
    file.write_text(file.read_text().replace('reason = ""', 'reason = "Issue 12"'))


@pytest.mark.parametrize("processes", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)], ids=["one", "two"])
def test_rows_that_are_known_to_fail_do_not_fail_a_test(pytester, processes):
    result = known(pytester, 0, "--equiscope-update-baseline", *processes)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["equiscope: wrote *known.toml: 2 rows, 2 without a reason. Write the reasons into the file."])

    result = known(pytester, 0, *processes)
    result.stderr.fnmatch_lines(["*known.toml accepts batch of test_suite.py::test_the_batch* without a reason*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR

    reasons(pytester)
    result = known(pytester, 0, "--equiscope-report=audits.json", "--junitxml=tests.xml", *processes)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines_random(
        [f"equiscope: accepted: test_suite.py::test_the_batch[[]{i}[]]: batch (broken): Issue 12" for i in (3, 4)]
    )
    assert "batch (broken): Issue 12" in (pytester.path / "tests.xml").read_text()

    result = known(pytester, "(0, 1)", *processes)  # one more fault, which is new
    result.assert_outcomes(passed=2, failed=1)

    result = known(pytester, 2, *processes)  # mended
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines_random(
        [f"*accepts batch of test_suite.py::test_the_batch[[]{i}[]], and this row no longer fails: holds. Delete it, or add "
         "--equiscope-update-baseline." for i in (3, 4)]
    )  # fmt: skip
    known(pytester, 2, "--equiscope-update-baseline", *processes)
    assert "[[accepted]]" not in (pytester.path / "known.toml").read_text()


def test_an_entry_of_a_test_that_is_gone_is_named(pytester):
    known(pytester, 0, "--equiscope-update-baseline")
    reasons(pytester)
    file = pytester.path / "known.toml"
    file.write_text(file.read_text().replace("test_the_batch[3]", "test_gone"))
    result = known(pytester, 0, "-k", "future")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines(["*accepts batch of test_suite.py::test_gone, and this row no longer occurs.*"])
    result.stdout.no_fnmatch_line("*test_the_batch*")  # deselected: nothing is known of it
    result = session(pytester, "--equiscope-baseline=known.toml", "test_suite.py::test_the_future", process=False)
    result.stdout.no_fnmatch_line("*test_gone*")  # one test was asked for


def test_the_baseline_can_stand_in_the_settings_and_an_update_needs_one(pytester):
    pytester.makeini("[pytest]\nequiscope_baseline = nowhere.toml")
    pytester.makepyfile("def test_nothing(): pass")
    session(pytester, process=False).stderr.fnmatch_lines(
        ["*There is no baseline file *nowhere.toml. Add --equiscope-update-baseline to write it."]
    )
    pytester.makeini("[pytest]")
    result = session(pytester, "--equiscope-update-baseline", process=False)
    result.stderr.fnmatch_lines(["*--equiscope-update-baseline writes the file of --equiscope-baseline. Add *"])


def test_a_suite_that_uses_none_of_it_does_not_load_torch(pytester):
    pytester.makepyfile("import sys\ndef test_nothing(): assert 'torch' not in sys.modules and 'msgspec' not in sys.modules")
    session(pytester).assert_outcomes(passed=1)


def test_the_plugin_itself_needs_neither_torch_nor_the_record():
    code = f"import sys, {PLUGIN}; print(*sorted({{'torch', 'numpy', 'msgspec', 'equiscope.record'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
