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


def updated(path, *records, **settings):
    """The file after these records, and the entries that need a reason."""
    baseline = read_baseline(path, update=True)
    for record in records:
        baseline.add(record)
    return baseline, baseline.update(**settings)


def notes(baseline, record, **settings):
    """What a file says of one record."""
    fresh = read_baseline(baseline.path)
    fresh.add(record)
    return fresh.notes(**settings)


@pytest.fixture
def known(tmp_path):
    """A baseline of one row, with a reason."""
    baseline, _ = updated(tmp_path / "known.toml", audit(ROW, Row(name="batch", kind="property", verdict="holds")))
    text = baseline.path.read_text()
    baseline.path.write_text(text.replace('reason = ""', 'reason = "Issue 12"'))
    return read_baseline(baseline.path)


def test_a_known_row_does_not_fail_and_says_why(known):
    found = known.accept(audit(ROW))
    assert not found.failed
    assert found["causal"].accepted == "Issue 12"
    assert found["causal"].verdict == "approximate"
    assert not notes(known, audit(ROW))


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (changed(verdict="broken"), "as approximate, and it is broken"),
        (changed(where="blocks.0"), "in blocks.1, and it fails in blocks.0"),
    ],
)
def test_a_worse_verdict_and_another_module_are_new(known, row, note):
    assert [row.name for row in known.accept(audit(row)).failed] == ["causal"]
    assert note in notes(known, audit(row))[0]


def test_another_row_and_another_model_are_new(known):
    assert len(known.accept(audit(changed(name="cache"))).failed) == 1
    assert len(known.accept(msgspec.structs.replace(audit(ROW), target="mine:other")).failed) == 1


def test_a_row_that_no_longer_fails_is_named(known):
    (note,) = notes(known, audit(changed(verdict="holds", where="", fails=False)))
    assert "accepts causal of mine:model, and this row no longer fails: holds. Delete it, or add --update-baseline." in note
    assert not notes(known, audit(changed(verdict="undecided", where="", fails=False)))  # nothing is known of it


def test_a_row_that_no_longer_occurs_is_named_where_every_row_was_measured(known):
    other = audit(changed(name="cache"))
    assert not notes(known, other)
    (note,) = notes(known, other, complete=["mine:model"])
    assert "accepts causal of mine:model, and this row no longer occurs" in note
    assert [e.row for e in updated(known.path, other, complete=["mine:model"])[0].entries] == ["cache"]


def test_an_entry_with_a_name_that_no_row_has_is_named(known):
    known.path.write_text(known.path.read_text().replace('row = "causal"', 'row = "casual"'))
    (note,) = notes(known, audit(ROW))
    assert "accepts casual of mine:model. There is no property or action called" in note
    assert "causal" in note


def test_an_update_keeps_reasons_and_removes_what_no_longer_fails(known):
    baseline, missing = updated(known.path, audit(ROW, changed(name="cache")))
    assert [e.row for e in missing] == ["cache"]
    assert [(e.row, e.reason) for e in baseline.entries] == [("causal", "Issue 12"), ("cache", "")]
    updated(known.path, audit(changed(name="cache")))  # causal was not measured
    baseline, _ = updated(known.path, msgspec.structs.replace(audit(), target="mine:other"))
    assert [e.row for e in baseline.entries] == ["causal", "cache"]
    baseline, _ = updated(known.path, audit(changed(verdict="holds", fails=False)))
    assert [e.row for e in baseline.entries] == ["cache"]


def test_any_text_is_read_back_as_it_was_written(tmp_path):
    hard = changed(where='a"b\\c\nd\x7f\x00 é 🐕')
    baseline, _ = updated(tmp_path / "known.toml", audit(hard))
    (entry,) = read_baseline(baseline.path, update=True).entries
    assert entry == Entry(command="check", target="mine:model", row="causal", verdict="approximate", where=hard.where)


def test_a_difference_of_two_models_is_accepted_at_its_step(tmp_path):
    baseline, _ = updated(tmp_path / "known.toml", parity("broken"))
    assert not baseline.accept(parity("broken")).failed
    assert baseline.accept(parity("broken", operation="relu")).failed
    assert baseline.accept(parity("undecided")).failed
    baseline.path.write_text(baseline.path.read_text().replace('reason = ""', 'reason = "Issue 12"'))
    assert "no longer fails" in notes(baseline, parity("holds"))[0]


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
