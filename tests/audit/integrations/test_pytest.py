"""The pytest plugin: a fixture and a report; no effect where neither is used."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "equiscope.audit.integrations.pytest"

SUITE = """
    import torch
    from equiscope.audit import assert_causal

    def test_a_layer_takes_each_token_alone(equiscope_check):
        equiscope_check(torch.nn.Linear(4, 4), torch.randn(2, 5, 4), actions=["permute"])

    def test_attention_reads_the_future():
        assert_causal(torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.randn(2, 5, 4))
"""


def session(pytester, *arguments):
    known = any(e.value == PLUGIN for e in importlib.metadata.entry_points(group="pytest11"))
    ours = () if known else ("-p", "no:equiscope", "-p", PLUGIN)  # an older installation lists none, or another module
    return pytester.runpytest_subprocess(*ours, "-p", "no:cacheprovider", *arguments)


def test_a_test_fails_with_the_evidence_and_every_audit_is_written_down_with_its_test(pytester):
    pytester.makepyfile(SUITE)
    result = session(pytester, "--equiscope-report=out/audits.json")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*causal: broken*", "*Smallest counterexample*"])
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
    session(pytester).assert_outcomes(passed=1)
    assert json.loads((pytester.path / "audits.json").read_text())["audits"] == []


def test_a_suite_that_uses_none_of_it_does_not_load_torch(pytester):
    pytester.makepyfile("import sys\ndef test_nothing(): assert 'torch' not in sys.modules and 'msgspec' not in sys.modules")
    session(pytester).assert_outcomes(passed=1)


def test_the_plugin_itself_needs_neither_torch_nor_the_record():
    code = f"import sys, {PLUGIN}; print(*sorted({{'torch', 'numpy', 'msgspec', 'equiscope.record'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
