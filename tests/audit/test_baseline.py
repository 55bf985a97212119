"""A baseline file accepts the rows that it names, for a reason, and nothing else."""

import sys

import msgspec
import pytest

from equiscope.audit.baseline import Entry, read_baseline
from equiscope.cli import main
from equiscope.errors import InputError
from equiscope.record import Audit, Parity, ParityRow, ParityStep, Row

ROW = Row(name="causal", kind="property", verdict="approximate", where="blocks.1", fails=True)
HEAD = 'version = 1\n[[accepted]]\ncommand = "check"\ntarget = "mine:model"\nrow = "causal"\nverdict = "approximate"\n'


def audit(*rows):
    return Audit(target="mine:model", model="Model", parameters=1, dtype="float32", device="cpu", inputs="", rows=list(rows))


def parity(verdict, operation="gelu"):
    step = ParityStep(module="1", operation=operation, value="1.gelu")
    return Parity(a="a", b="b", verdict=verdict, step_a=step, rows=[ParityRow(name="output", verdict=verdict, a=step)])


def changed(**values):
    return msgspec.structs.replace(ROW, **values)


@pytest.fixture
def known(tmp_path):
    """A baseline of one row, with a reason."""
    baseline = read_baseline(tmp_path / "known.toml", update=True)
    baseline.update(audit(ROW, Row(name="batch", kind="property", verdict="holds")))
    text = baseline.path.read_text()
    baseline.path.write_text(text.replace('reason = ""', 'reason = "Issue 12"'))
    return read_baseline(baseline.path)


def test_a_known_row_does_not_fail_and_says_why(known):
    found = known.accept(audit(ROW))
    assert not found.failed
    assert found["causal"].accepted == "Issue 12"
    assert found["causal"].verdict == "approximate"
    assert not found.notes


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (changed(verdict="broken"), "as approximate, and it is broken"),
        (changed(where="blocks.0"), "in blocks.1, and it fails in blocks.0"),
    ],
)
def test_a_worse_verdict_and_another_module_are_new(known, row, note):
    found = known.accept(audit(row))
    assert [row.name for row in found.failed] == ["causal"]
    assert note in found.notes[0]


def test_another_row_and_another_model_are_new(known):
    assert len(known.accept(audit(changed(name="cache"))).failed) == 1
    assert len(known.accept(msgspec.structs.replace(audit(ROW), target="mine:other")).failed) == 1


def test_a_row_that_no_longer_fails_is_named(known):
    found = known.accept(audit(changed(verdict="holds", where="", fails=False)))
    assert "accepts causal, which no longer fails: holds" in found.notes[0]
    assert not known.accept(audit(changed(verdict="undecided", where="", fails=False))).notes  # nothing is known of it


def test_an_update_keeps_reasons_and_removes_what_no_longer_fails(known):
    assert [e.row for e in known.update(audit(ROW, changed(name="cache")))] == ["cache"]
    assert [(e.row, e.reason) for e in known.entries] == [("causal", "Issue 12"), ("cache", "")]
    known.update(audit(changed(name="cache")))  # causal was not measured
    known.update(msgspec.structs.replace(audit(), target="mine:other"))
    assert [e.row for e in known.entries] == ["causal", "cache"]
    known.update(audit(changed(verdict="holds", fails=False)))
    assert [e.row for e in known.entries] == ["cache"]


def test_any_text_is_read_back_as_it_was_written(tmp_path):
    hard = changed(where='a"b\\c\nd\x7f\x00 é 🐕')
    baseline = read_baseline(tmp_path / "known.toml", update=True)
    baseline.update(audit(hard))
    (entry,) = read_baseline(baseline.path, update=True).entries
    assert entry == Entry(command="check", target="mine:model", row="causal", verdict="approximate", where=hard.where)


def test_a_difference_of_two_models_is_accepted_at_its_step(tmp_path):
    baseline = read_baseline(tmp_path / "known.toml", update=True)
    baseline.update(parity("broken"))
    assert not baseline.accept(parity("broken")).failed
    assert baseline.accept(parity("broken", operation="relu")).failed
    assert baseline.accept(parity("undecided")).failed
    assert "no longer fails" in baseline.accept(parity("holds")).notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"There is no baseline file .*known\.toml\. Add --update-baseline to write it\."),
        (HEAD, r"accepts causal of mine:model without a reason\. Write after `reason =` why it may fail"),
        (HEAD + 'reason = "  "\n', "without a reason"),
        ("version = 2\n", "has version 2, and this equiscope reads 1"),
        ("accepted = []\n", "is no baseline file: Object missing required field `version`"),
        (HEAD + 'because = "x"\n', "is no baseline file: .*`because`"),
        (HEAD.replace("approximate", "holds"), "is no baseline file: .*'holds'"),
        ("[[", "is no baseline file: "),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text, message):
    path = tmp_path / "known.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_baseline(path)


MODELS = """
import torch
from torch import nn

class Leaky(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)

def leaky():
    return Leaky(), torch.randn(2, 5, 6)

def activation(kind):
    return nn.Sequential(kind()), torch.linspace(-2, 2, 6)

def gelu():
    return activation(nn.GELU)

def relu():
    return activation(nn.ReLU)
"""


@pytest.mark.parametrize(
    "command", [["check", "mine.py:leaky", "--property", "batch", "--effort", "quick"], ["parity", "mine.py:gelu", "mine.py:relu"]]
)
def test_on_the_command_line_only_a_new_row_makes_the_exit_code_1(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODELS)

    def code(*words):
        monkeypatch.setattr(sys, "argv", ["equiscope", *command, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0

    assert code() == 1
    assert code("--update-baseline") == 2
    assert "Add --baseline FILE" in capsys.readouterr().err
    assert code("--baseline", "known.toml", "--update-baseline") == 0
    assert "1 row, 1 without a reason" in capsys.readouterr().err
    assert code("--baseline", "known.toml") == 2
    known = tmp_path / "known.toml"
    known.write_text(known.read_text().replace('reason = ""', 'reason = "Issue 12"'))
    assert code("--baseline", "known.toml", "--junit", "out.xml") == 0
    assert "Issue 12" in capsys.readouterr().out
    assert "accepted: Issue 12" in (tmp_path / "out.xml").read_text()
