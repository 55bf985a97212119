"""`equiscope check`, as its users type it: what it prints, what it writes, and its exit codes."""

import json
import sys
import xml.etree.ElementTree as xml

import pytest

from equiscope.cli import main

MODELS = """
import signal

import torch
from torch import nn

class Ahead(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.mix = nn.Embedding(20, 6), nn.Conv1d(6, 6, 3, padding=1)

    def forward(self, ids):
        return self.mix(self.table(ids).mT).mT

class Leaky(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)

def ahead():
    return Ahead()

def leaky():
    return Leaky(), torch.randn(2, 11, 6)

class Hollow(nn.Module):
    def forward(self, x):
        return x / 0 * 0

def hollow():
    return Hollow(), torch.randn(2, 5, 6)

class Stopped(Ahead):
    def forward(self, ids):
        with open("calls", "a") as calls:  # a check restores whatever the model keeps in Python
            if calls.write(".") and calls.tell() == 60:
                signal.raise_signal(signal.SIGINT)
        return super().forward(ids)

def stopped():
    return Stopped()

def stone():
    return "no model"

def breaks():
    raise RuntimeError("no weights today")
"""


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Type a command in a folder with models; the exit code, what was printed, and what was said besides."""
    (tmp_path / "models_of_mine.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "models_of_mine", raising=False)

    def type_in(*words):
        monkeypatch.setattr(sys, "argv", ["equiscope", "check", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capsys.readouterr()
        return ended.value.code or 0, out.out, out.err

    return type_in


def test_what_holds_or_need_not_hold_exits_with_0(said):
    code, out, _ = said("models_of_mine:ahead", "--effort", "quick")
    assert code == 0
    assert "causal" in out
    assert "need not" in out


def test_what_is_asked_for_and_does_not_hold_exits_with_1_and_says_where_and_what_next(said):
    code, out, _ = said("models_of_mine:ahead", "--property", "causal", "--effort", "quick")
    assert code == 1
    assert "breaks in mix" in " ".join(out.split())
    assert "equiscope check models_of_mine:ahead --property causal" in out
    assert "require a row" not in out


def test_what_every_model_owes_fails_unasked(said):
    code, out, _ = said("models_of_mine:leaky", "--effort", "quick")
    assert code == 1
    assert "batch" in out


def test_where_nothing_could_be_decided_nothing_passes(said):
    code, out, _ = said("models_of_mine:hollow", "--property", "batch", "--action", "permute", "--effort", "quick")
    assert code == 1
    assert "not finite" in out
    assert "Nothing could be decided: batch, permute." in out


def test_a_check_that_is_stopped_reports_what_it_has_and_does_not_pass(said):
    """The model itself presses Ctrl-C, in its 60th call."""
    code, out, _ = said("models_of_mine:stopped", "--effort", "quick")
    assert code == 130
    assert "✓  pure" in out
    assert "the check stopped before it was measured" in out
    assert "It was stopped before everything was measured." in " ".join(out.split())


def test_all_asks_for_everything_and_fails_only_what_should_hold(said):
    code, out, _ = said("models_of_mine:ahead", "--all", "--effort", "quick")
    assert code == 0
    assert "rotate" in out
    assert "conservative" in out
    assert "or require a row by its name: --property causal" in out


def test_the_record_is_printed_as_json_and_nothing_else_and_report_junit_and_record_are_written(said, tmp_path):
    files = {name: tmp_path / name for name in ("report.html", "junit.xml", "record.json")}
    words = ["--json", "--html", files["report.html"], "--junit", files["junit.xml"], "--save", files["record.json"]]
    code, out, _ = said("models_of_mine:ahead", "--property", "causal", "--effort", "quick", *map(str, words))
    row = json.loads(out)["rows"][0]
    assert code == 1
    assert (row["verdict"], row["where"]) == ("broken", "mix")
    assert row["counterexample"]["inputs"]["ids"]["shape"] == [1, 2]
    assert "<noscript>" in files["report.html"].read_text()
    assert xml.parse(files["junit.xml"]).getroot().get("failures") == "1"
    assert json.loads(files["record.json"].read_text())["rows"][0]["name"] == "causal"


def test_all_names_are_listed(said):
    code, out, _ = said("--list")
    assert code == 0
    for name in ("causal", "cache", "permute", "image-shift", "rotate"):
        assert name in out
    known = json.loads(said("--list", "--json")[1])
    assert {"kind": "action", "name": "permute", "summary": "permute the tokens"} in known


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Say which model"),
        (("nowhere:model",), "no module 'nowhere'"),
        (("models_of_mine:missing",), "missing"),
        (("models_of_mine:stone",), "not a torch.nn.Module"),
        (("models_of_mine:breaks",), "no weights today"),
        (("models_of_mine:ahead", "--action", "turn"), "no action called 'turn'"),
        (("models_of_mine:ahead", "--property", "speed"), "no property called 'speed'"),
        (("models_of_mine:ahead", "--effort", "huge"), "quick, default, thorough"),
        (("models_of_mine:ahead", "--mode", "sleep"), "eval, train"),
        (("models_of_mine:ahead", "--output", "vektor"), "no representation called 'vektor'"),
        (("models_of_mine:ahead", "--all", "--action", "permute"), "--all asks for every"),
        (("models_of_mine:ahead", "--html", "no/such/folder/report.html"), "there is no folder"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence_and_exit_code_2(said, words, message):
    code, out, err = said(*words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not out
